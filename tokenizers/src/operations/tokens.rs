//! What the tokenizers have in common, and the one that takes the longest token.

use tract_openvino_ir::internal::*;

use super::OPSET;
use crate::layer::{ConstantStrings, expect_one_of, expect_rows_of_strings, new_dim, wire};
use crate::strings::{Ranges, rows_of_strings, vector};
use crate::tables::Trie;

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("TrieTokenizer", OPSET, trie_tokenizer);
}

/// What is known of rows of tokens.
pub(super) fn row_facts(
    layer: &LayerContext,
    rows: TVec<TDim>,
) -> TractResult<TVec<(DatumType, TVec<TDim>)>> {
    let tokens = tvec!(new_dim(layer, "tokens")?);
    Ok(tvec!((DatumType::I32, rows.clone()), (DatumType::I32, rows), (DatumType::I32, tokens)))
}

/// Rows of tokens: those that a function adds for each string of rows of strings.
pub(super) fn tokens_of_rows(
    inputs: &[TValue],
    mut tokenize: impl FnMut(&[u8], &mut Vec<i32>) -> TractResult<()>,
) -> TractResult<TVec<Tensor>> {
    let (rows, strings) = rows_of_strings(inputs)?;
    let mut tokens = Vec::with_capacity(strings.len().max(strings.bytes().len() / 4));
    let mut ranges = Ranges::with_capacity(rows.len());
    for row in rows.iter() {
        let begin = tokens.len();
        for number in row {
            let tokenized = tokenize(strings.get(number), &mut tokens);
            tokenized.with_context(|| format!("in string {number}"))?;
        }
        ranges.push(begin, tokens.len())?;
    }
    let [begins, ends] = ranges.into_tensors(inputs[0].shape())?;
    Ok(tvec!(begins, ends, vector(tokens)))
}

/// **TrieTokenizer**: the longest token at each place. Inputs are rows of strings, and the vocabulary with its numbers.
fn trie_tokenizer(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[9])?;
    let (rows, _) = expect_rows_of_strings(layer)?;
    let vocabulary = ConstantStrings::new(layer, 5, "vocabulary")?;
    let numbers = layer.integers(8, "indices")?;
    let tokens = vocabulary.view();
    ensure!(
        tokens.len() == numbers.len(),
        "the vocabulary has {} tokens, but indices has {} elements",
        tokens.len(),
        numbers.len()
    );
    let numbers = numbers.iter().map(|number| Ok(i32::try_from(*number)?));
    let numbers = numbers.collect::<TractResult<Vec<i32>>>()?;
    let trie = Trie::new(tokens.iter().zip(numbers))?;
    let facts = row_facts(layer, rows)?;
    wire(layer, "TrieTokenizer", 0..5, facts, move |inputs| {
        tokens_of_rows(inputs, |string, tokens| {
            let mut at = 0;
            while at < string.len() {
                let found = trie.longest(&string[at..]);
                let (len, token) = found.with_context(|| {
                    format!(
                        "the vocabulary has no token for byte {:#04x} at position {at}",
                        string[at]
                    )
                })?;
                tokens.push(token);
                at += len;
            }
            Ok(())
        })
    })
}
