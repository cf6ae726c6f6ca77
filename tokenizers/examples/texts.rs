//! Runs a tokenizer or a detokenizer on lines of standard input: `compare/compare.py` asks it.
//!
//! A line is a batch as JSON: an array of texts, of rows of ids, or of objects with `bytes` in hexadecimal numbers, which are packed for a
//! model that takes bytes. An answer is an object with `outputs`, arrays in the order of the model's outputs, or only their `shapes`
//! if the word `shapes` follows the file, or with `error`. The first line is about loading the model.

use std::io::{BufRead, Write};
use std::time::Instant;

use serde_json::{Value, json};
use tract_openvino_ir::internal::*;
use tract_openvino_ir::prelude::WithKernels;
use tract_openvino_tokenizers::register;

fn main() -> TractResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().context("give the .xml file of a model")?;
    let only_shapes = arguments.get(1).is_some_and(|word| word == "shapes");
    let began = Instant::now();
    let mut reader = ir();
    register(reader.registry_mut());
    let model = reader.model_for_path(path)?;
    let takes = model.input_fact(0)?.datum_type;
    let model = model.into_runnable_with_kernels()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", json!({"load_nanoseconds": began.elapsed().as_nanos() as u64}))?;
    for line in std::io::stdin().lock().lines() {
        let batch: Vec<Value> = serde_json::from_str(&line?)?;
        let input = match takes {
            DatumType::String => texts(batch)?,
            DatumType::U8 => packed(batch)?,
            _ => ids(batch)?,
        };
        let answer = model.run(tvec!(input.into())).and_then(|outputs| {
            if only_shapes {
                return Ok(
                    json!({"shapes": outputs.iter().map(|it| it.shape()).collect::<Vec<_>>()}),
                );
            }
            let outputs = outputs.iter().map(|it| as_json(it)).collect::<TractResult<Vec<_>>>()?;
            Ok(json!({"outputs": outputs}))
        });
        let answer = answer.unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn texts(batch: Vec<Value>) -> TractResult<Tensor> {
    Ok(tensor1(&serde_json::from_value::<Vec<String>>(batch.into())?))
}

/// The number of texts, where each begins and the last one ends, and their bytes.
fn packed(batch: Vec<Value>) -> TractResult<Tensor> {
    let (mut numbers, mut bytes) = (vec![i32::try_from(batch.len())?, 0], vec![]);
    for text in &batch {
        let digits = text["bytes"].as_str().context("give the bytes of a text")?;
        for place in (0..digits.len()).step_by(2) {
            bytes.push(u8::from_str_radix(&digits[place..place + 2], 16)?);
        }
        numbers.push(i32::try_from(bytes.len())?);
    }
    let mut packed: Vec<u8> = numbers.into_iter().flat_map(i32::to_le_bytes).collect();
    packed.append(&mut bytes);
    Ok(tensor1(&packed))
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
