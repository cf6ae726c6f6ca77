//! Says how similar sentences are to the first one.

use anyhow::Result;
use tract_openvino_ir::prelude::*;
use tract_openvino_tokenizers::register;

fn main() -> Result<()> {
    use_all_cores()?;
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or("minilm".into());
    let mut sentences: Vec<String> = arguments.collect();
    if sentences.is_empty() {
        sentences = ["A man is playing a guitar.", "Someone makes music.", "The weather is bad."]
            .map(String::from)
            .into();
    }
    let embeddings = embeddings(&folder, &sentences)?;
    for (sentence, embedding) in sentences.iter().zip(&embeddings) {
        println!("{:6.3}  {sentence}", embedding.dot(&embeddings[0]));
    }
    Ok(())
}

/// A vector of length 1 for each sentence: the mean over its tokens.
fn embeddings(folder: &str, sentences: &[String]) -> Result<Vec<tract_ndarray::Array1<f32>>> {
    // Both for any number of sentences of any length.
    let mut reader = ir();
    register(reader.registry_mut());
    let tokenizer = reader
        .model_for_path(format!("{folder}/openvino_tokenizer.xml"))?
        .into_runnable_with_kernels()?;
    let model = reader
        .model_for_path(format!("{folder}/openvino_model.xml"))?
        .into_runnable_with_kernels()?;

    // The ids of tokens, their types, and a mask, with padding to one length. The model takes the mask before the types.
    let tokens = tokenizer.run(tvec!(tensor1(sentences).into()))?;
    let [ids, types, mask] = &*tokens else { anyhow::bail!("the tokenizer has no token types") };
    let outputs = model.run(tvec!(ids.clone(), mask.clone(), types.clone()))?;
    let vectors =
        outputs[0].to_plain_array_view::<f32>()?.into_dimensionality::<tract_ndarray::Ix3>()?;
    let mask = mask.cast_to::<f32>()?;
    let mask = mask.to_plain_array_view::<f32>()?.into_dimensionality::<tract_ndarray::Ix2>()?;
    let mean =
        |(vectors, mask): (tract_ndarray::ArrayView2<f32>, tract_ndarray::ArrayView1<f32>)| {
            // A mean has the direction of the sum.
            let sum = mask.dot(&vectors);
            &sum / sum.dot(&sum).sqrt()
        };
    Ok(vectors.outer_iter().zip(mask.outer_iter()).map(mean).collect())
}
