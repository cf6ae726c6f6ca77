//! Tokens by their numbers, and numbers by their tokens.

use std::collections::{HashMap, HashSet};

use tract_openvino_ir::internal::*;

use super::OPSET;
use crate::layer::{ConstantStrings, expect_one_of, expect_strings, expect_type, new_dim, wire};
use crate::options::Options;
use crate::strings::{NewStrings, Ranges, Strings, slice, vector};

pub(super) fn register(registry: &mut Registry, options: Options) {
    registry.add_extension("VocabDecoder", OPSET, move |layer| vocab_decoder(layer, options));
    registry.add_extension("VocabEncoder", OPSET, vocab_encoder);
}

/// **VocabDecoder**: the texts of tokens, as rows of strings. Numbers that the vocabulary does not have, and those to skip, have none.
///
/// Inputs are the numbers (`[rows, tokens]`), the vocabulary, and numbers to skip, which else are an attribute.
fn vocab_decoder(layer: &mut LayerContext, options: Options) -> TractResult<TVec<OutletId>> {
    let count = expect_one_of(layer, &[4, 5])?;
    expect_type(layer, 0, DatumType::I32, "indices")?;
    let shape = layer.shape(0)?;
    let [rows, width] = &*shape else {
        bail!("the indices have rank {}, but must have rank 2", shape.len());
    };
    let vocabulary = ConstantStrings::new(layer, 1, "vocabulary")?;
    let skips_are_input = count == 5;
    let mut inputs = vec![0];
    let mut skipped: HashSet<i32> = HashSet::new();
    if options.skip_special_tokens {
        let known = if skips_are_input { layer.constant_opt(4)? } else { None };
        if let Some(known) = &known {
            skipped.extend(slice::<i32>(known, "skip_tokens")?);
        } else if skips_are_input {
            inputs.push(4);
        } else {
            let skips: Option<Vec<i64>> = layer.attribute_opt("skip_tokens")?;
            let skips = skips.into_iter().flatten().map(|token| Ok(i32::try_from(token)?));
            skipped = skips.collect::<TractResult<_>>()?;
        }
    }
    let pieces = match width.as_i64() {
        Some(width) => rows.clone() * width.max(1),
        None => new_dim(layer, "pieces")?,
    };
    let facts = tvec!(
        (DatumType::I32, tvec!(rows.clone())),
        (DatumType::I32, tvec!(rows.clone())),
        (DatumType::I32, tvec!(pieces.clone())),
        (DatumType::I32, tvec!(pieces)),
        (DatumType::U8, tvec!(new_dim(layer, "bytes")?))
    );
    wire(layer, "VocabDecoder", inputs, facts, move |inputs| {
        let vocabulary = vocabulary.view();
        let more: HashSet<i32>;
        let skipped = match inputs.get(1) {
            Some(skips) => {
                more = slice::<i32>(skips, "skip_tokens")?.iter().copied().collect();
                &more
            }
            None => &skipped,
        };
        let ids = slice::<i32>(&inputs[0], "the indices")?;
        let &[rows, width] = inputs[0].shape() else { bail!("the indices must have rank 2") };
        // A row without tokens has an empty string.
        let strings_of_row = width.max(1);
        let mut ranges = Ranges::with_capacity(rows);
        let mut strings = NewStrings::with_capacity(rows * strings_of_row, ids.len() * 4);
        for row in 0..rows {
            ranges.push(row * strings_of_row, (row + 1) * strings_of_row)?;
            if width == 0 {
                strings.push(b"")?;
            }
            for id in &ids[row * width..(row + 1) * width] {
                let known = usize::try_from(*id).ok().filter(|id| *id < vocabulary.len());
                let known = known.filter(|_| !skipped.contains(id));
                strings.push(known.map_or(b"", |id| vocabulary.get(id)))?;
            }
        }
        let [begins, ends] = ranges.into_tensors(&[rows])?;
        let mut outputs = tvec!(begins, ends);
        outputs.extend(strings.into_tensors(&[rows * strings_of_row])?);
        Ok(outputs)
    })
}

/// **VocabEncoder**: a value for each string that is a key, and a default for others.
fn vocab_encoder(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[8])?;
    let shape = expect_strings(layer, 0)?;
    let keys = ConstantStrings::new(layer, 3, "vocabulary")?;
    match layer.datum_type(6)? {
        DatumType::I32 => encoder::<i32>(layer, shape, &keys),
        DatumType::I64 => encoder::<i64>(layer, shape, &keys),
        dt => bail!("input 6 (values) is of type {dt:?}, but must be I32 or I64"),
    }
}

fn encoder<T: Datum + Copy>(
    layer: &mut LayerContext,
    shape: TVec<TDim>,
    keys: &ConstantStrings,
) -> TractResult<TVec<OutletId>> {
    let (values, default) = (layer.constant(6, "values")?, layer.constant(7, "default_value")?);
    let values = slice::<T>(&values, "the values")?;
    let keys = keys.view();
    ensure!(
        keys.len() == values.len(),
        "the vocabulary has {} strings, but {} values",
        keys.len(),
        values.len()
    );
    ensure!(
        default.len() == 1,
        "default_value has shape {:?}, but must be one element",
        default.shape()
    );
    let default = slice::<T>(&default, "default_value")?[0];
    let mut map: HashMap<Box<[u8]>, T> = HashMap::with_capacity(keys.len());
    for (key, value) in keys.iter().zip(values) {
        map.entry(key.into()).or_insert(*value);
    }
    let facts = tvec!((T::datum_type(), shape));
    wire(layer, "VocabEncoder", 0..3, facts, move |inputs| {
        let strings = Strings::of(inputs)?;
        let values = strings.iter().map(|string| map.get(string).copied().unwrap_or(default));
        Ok(tvec!(vector(values.collect::<Vec<T>>()).into_shape(inputs[0].shape())?))
    })
}
