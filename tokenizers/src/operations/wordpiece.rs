//! Pieces of words.

use tract_openvino_ir::internal::*;

use super::OPSET;
use super::tokens::{row_facts, tokens_of_rows};
use crate::layer::{ConstantStrings, expect_one_of, expect_rows_of_strings, wire};
use crate::tables::Trie;

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("WordpieceTokenizer", OPSET, wordpiece_tokenizer);
}

/// **WordpieceTokenizer**: the longest token that a word begins with, and then the longest ones that go on, which have a mark at their
/// beginning. A word that is too long, or cannot be cut up so, is the unknown token.
///
/// Inputs are rows of strings, the vocabulary, and the unknown token.
fn wordpiece_tokenizer(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[9])?;
    let (rows, _) = expect_rows_of_strings(layer)?;
    let vocabulary = ConstantStrings::new(layer, 5, "vocabulary")?;
    let unknown = i32::try_from(layer.integer(8, "unk_token_id")?)?;
    let mark: String = layer.attribute_or("suffix_indicator", "##".to_string())?;
    let longest: i64 = layer.attribute_or("max_bytes_per_word", 100)?;
    let longest = usize::try_from(longest).ok();
    let longest =
        longest.context("attribute max_bytes_per_word is less than 0, but must be 0 or more")?;
    let tokens = || vocabulary.view().iter().zip(0i32..);
    let going_on = |token: &'_ [u8]| token.starts_with(mark.as_bytes());
    let words = Trie::new(tokens().filter(|(token, _)| !going_on(token)))?;
    let parts = tokens().filter_map(|(token, id)| Some((token.strip_prefix(mark.as_bytes())?, id)));
    let parts = Trie::new(parts)?;
    let facts = row_facts(layer, rows)?;
    wire(layer, "WordpieceTokenizer", 0..5, facts, move |inputs| {
        tokens_of_rows(inputs, |word, tokens| {
            let first = tokens.len();
            if word.len() > longest {
                tokens.push(unknown);
                return Ok(());
            }
            let mut found = words.longest(word);
            let mut at = 0;
            while let Some((len, token)) = found {
                tokens.push(token);
                at += len;
                if at == word.len() {
                    return Ok(());
                }
                found = parts.longest(&word[at..]);
            }
            tokens.truncate(first);
            tokens.push(unknown);
            Ok(())
        })
    })
}
