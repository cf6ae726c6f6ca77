//! How similar two sentences are, by the embeddings of all-MiniLM-L6-v2 as OpenVINO exports it.
//!
//! ```text
//! pip install "optimum[openvino]"
//! optimum-cli export openvino --model sentence-transformers/all-MiniLM-L6-v2 minilm
//! cargo run --release -p tract-openvino-ir --example sentence_similarity -- minilm
//! ```

use std::path::{Path, PathBuf};

use tokenizers::{PaddingParams, Tokenizer};
use tract_openvino_ir::prelude::*;

fn main() -> TractResult<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or("minilm".into()));
    let mut sentences: Vec<String> = arguments.collect();
    if sentences.is_empty() {
        sentences = ["A man is playing a guitar.", "Someone makes music."].map(String::from).into();
    }
    let embeddings = embeddings(&folder, &sentences)?;
    for (sentence, embedding) in sentences.iter().zip(&embeddings) {
        println!("{:6.3}  {sentence}", cosine(&embeddings[0], embedding));
    }
    Ok(())
}

/// An embedding of each sentence: the mean over its tokens.
fn embeddings(folder: &Path, sentences: &[String]) -> TractResult<Vec<Vec<f32>>> {
    let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(error)?;
    tokenizer.with_padding(Some(PaddingParams::default()));
    let encodings = tokenizer.encode_batch(sentences.to_vec(), true).map_err(error)?;

    // The batch and the length of the sentences stay open: one model for all.
    let file = ["openvino_model.xml", "model.xml"].map(|name| folder.join(name));
    let file = file.iter().find(|file| file.exists()).unwrap_or(&file[0]);
    let model = tract_openvino_ir::ir().model_for_path(file)?.into_optimized()?.into_runnable()?;

    // Inputs go by the names of the file, in its order.
    let shape = (encodings.len(), encodings[0].len());
    let input = |name: &str| -> TValue {
        let rows = encodings.iter().flat_map(|encoding| match name {
            "input_ids" => encoding.get_ids().to_vec(),
            "attention_mask" => encoding.get_attention_mask().to_vec(),
            _ => encoding.get_type_ids().to_vec(),
        });
        let numbers = rows.map(i64::from).collect();
        let array = tract_ndarray::Array2::from_shape_vec(shape, numbers);
        array.expect("padding makes all of one length").into_tensor().into()
    };
    let names = model.model().inputs.iter().map(|it| model.model().node(it.node).name.clone());
    let outputs = model.run(names.map(|name| input(&name)).collect())?;

    let hidden = outputs[0].to_plain_array_view::<f32>()?;
    let mean = |(row, encoding): (tract_ndarray::ArrayViewD<f32>, &tokenizers::Encoding)| {
        let mask: Vec<f32> = encoding.get_attention_mask().iter().map(|it| *it as f32).collect();
        let tokens = row.outer_iter().zip(&mask).map(|(token, mask)| token.to_owned() * *mask);
        let sum = tokens.reduce(|sum, token| sum + token).unwrap_or_default();
        sum.iter().map(|value| value / mask.iter().sum::<f32>()).collect()
    };
    Ok(hidden.outer_iter().zip(&encodings).map(mean).collect())
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn error(error: tokenizers::Error) -> TractError {
    TractError::msg(error.to_string())
}
