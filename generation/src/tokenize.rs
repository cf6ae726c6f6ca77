//! What a tokenizer does, whatever its files are.

use std::fmt::Debug;

use tract_core::internal::*;

/// A tokenizer that neither pads nor truncates.
pub(crate) trait Tokenize: Debug + Send + Sync {
    /// The tokens of a text. `special` adds those that the tokenizer puts around it.
    fn encode(&self, text: &str, special: bool) -> TractResult<Vec<u32>>;

    /// The text of tokens, with or without the special ones. Bytes that are no UTF-8 become U+FFFD.
    fn decode(&self, tokens: &[u32], skip_special_tokens: bool) -> TractResult<String>;

    /// The token of this text.
    fn token(&self, text: &str) -> Option<u32>;

    /// The special token of this text.
    fn special_token(&self, text: &str) -> Option<u32>;
}
