//! Runs a tokenizer or a detokenizer on lines of standard input: `compare/compare.py` asks it.
//!
//! A line is a batch as JSON: an array of texts, or of rows of ids. An answer is an object with `outputs`, arrays in the order of the
//! model's outputs, and `nanoseconds`, or with `error`. The first line is about loading the model.

use std::io::{BufRead, Write};
use std::time::Instant;

use serde_json::{Value, json};
use tract_openvino_ir::internal::*;
use tract_openvino_ir::prelude::WithKernels;
use tract_openvino_tokenizers::register;

fn main() -> TractResult<()> {
    let path = std::env::args().nth(1).context("give the .xml file of a model")?;
    let began = Instant::now();
    let mut reader = ir();
    register(reader.registry_mut());
    let model = reader.model_for_path(path)?;
    let takes_texts = model.input_fact(0)?.datum_type == DatumType::String;
    let model = model.into_runnable_with_kernels()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", json!({"load_nanoseconds": began.elapsed().as_nanos() as u64}))?;
    for line in std::io::stdin().lock().lines() {
        let batch: Vec<Value> = serde_json::from_str(&line?)?;
        let input = if takes_texts { texts(batch)? } else { ids(batch)? };
        let began = Instant::now();
        let outputs = model.run(tvec!(input.into()));
        let nanoseconds = began.elapsed().as_nanos() as u64;
        let outputs = outputs.and_then(|outputs| {
            outputs.iter().map(|it| as_json(it)).collect::<TractResult<Vec<_>>>()
        });
        let answer = match outputs {
            Ok(outputs) => json!({"outputs": outputs, "nanoseconds": nanoseconds}),
            Err(error) => json!({"error": format!("{error:#}")}),
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn texts(batch: Vec<Value>) -> TractResult<Tensor> {
    Ok(tensor1(&serde_json::from_value::<Vec<String>>(batch.into())?))
}

fn ids(batch: Vec<Value>) -> TractResult<Tensor> {
    let rows = batch.into_iter().map(serde_json::from_value);
    let rows = rows.collect::<Result<Vec<Vec<i64>>, _>>()?;
    let shape = [rows.len(), rows.first().map_or(0, Vec::len)];
    tensor1(&rows.concat()).into_shape(&shape)
}

/// A vector of texts, or a matrix of numbers.
fn as_json(tensor: &Tensor) -> TractResult<Value> {
    if tensor.datum_type() == DatumType::String {
        return Ok(json!(tensor.try_as_plain_ram()?.as_slice::<String>()?));
    }
    let numbers = tensor.cast_to::<i64>()?;
    let numbers = numbers.try_as_plain_ram()?.as_slice::<i64>()?;
    let row = tensor.shape().last().copied().unwrap_or(1);
    let rows = tensor.len().checked_div(row).unwrap_or(tensor.shape()[0]);
    Ok((0..rows).map(|number| json!(&numbers[number * row..][..row])).collect())
}
