//! Says how similar sentences are to the first one.

use anyhow::{Context, Error, Result};
use tokenizers::{Encoding, PaddingParams, Tokenizer};
use tract_openvino_ir::prelude::*;

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
    let file = format!("{folder}/tokenizer.json");
    let mut tokenizer = Tokenizer::from_file(&file).map_err(Error::from_boxed).context(file)?;
    tokenizer.with_padding(Some(PaddingParams::default()));
    let encodings = tokenizer.encode_batch(sentences.clone(), true).map_err(Error::from_boxed)?;

    let embeddings = embeddings(&folder, &encodings)?;
    for (sentence, embedding) in sentences.iter().zip(&embeddings) {
        println!("{:6.3}  {sentence}", embedding.dot(&embeddings[0]));
    }
    Ok(())
}

/// A vector of length 1 for each sentence: the mean over its tokens.
fn embeddings(folder: &str, encodings: &[Encoding]) -> Result<Vec<tract_ndarray::Array1<f32>>> {
    // For any number of sentences of any length.
    let model = ir()
        .model_for_path(format!("{folder}/openvino_model.xml"))?
        .into_runnable_with_kernels()?;

    let shape = (encodings.len(), encodings.first().map_or(0, Encoding::len));
    let input = |of: fn(&Encoding) -> &[u32]| -> Result<TValue> {
        let numbers = encodings.iter().flat_map(|it| of(it).iter().map(|it| i64::from(*it)));
        Ok(tract_ndarray::Array2::from_shape_vec(shape, numbers.collect())?.into_tensor().into())
    };
    let inputs = tvec!(
        input(Encoding::get_ids)?,
        input(Encoding::get_attention_mask)?,
        input(Encoding::get_type_ids)?
    );
    let outputs = model.run(inputs)?;
    let tokens =
        outputs[0].to_plain_array_view::<f32>()?.into_dimensionality::<tract_ndarray::Ix3>()?;
    let mean = |(tokens, encoding): (tract_ndarray::ArrayView2<f32>, &Encoding)| {
        let mask = encoding.get_attention_mask().iter().map(|it| *it as f32);
        // A mean has the direction of the sum.
        let sum = tract_ndarray::Array1::from_iter(mask).dot(&tokens);
        &sum / sum.dot(&sum).sqrt()
    };
    Ok(tokens.outer_iter().zip(encodings).map(mean).collect())
}
