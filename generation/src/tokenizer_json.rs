//! Tokenizers of Hugging Face: `tokenizer.json`.

use tokenizers::Tokenizer;
use tract_core::internal::*;

use crate::files::Files;
use crate::tokenize::Tokenize;

/// The tokenizer of a model's files.
pub(crate) fn read(files: &Files, name: &str) -> TractResult<Tokenizer> {
    let tokenizer = Tokenizer::from_bytes(files.needed(name)?).map_err(as_error);
    tokenizer.with_context(|| format!("reading {}", files.place_of(name)))
}

/// The tokenizer without padding and truncation.
pub(crate) fn plain(mut tokenizer: Tokenizer) -> Tokenizer {
    tokenizer.with_padding(None);
    let _ = tokenizer.with_truncation(None);
    tokenizer
}

impl Tokenize for Tokenizer {
    fn encode(&self, text: &str, special: bool) -> TractResult<Vec<u32>> {
        Ok(self.encode_fast(text, special).map_err(as_error)?.get_ids().to_vec())
    }

    fn decode(&self, tokens: &[u32], skip_special_tokens: bool) -> TractResult<String> {
        // Its own method, not this one.
        (**self).decode(tokens, skip_special_tokens).map_err(as_error)
    }

    fn token(&self, text: &str) -> Option<u32> {
        self.token_to_id(text)
    }

    fn special_token(&self, text: &str) -> Option<u32> {
        let token = self.token_to_id(text)?;
        self.get_added_vocabulary().is_special_token(text).then_some(token)
    }
}

fn as_error(error: tokenizers::Error) -> TractError {
    TractError::msg(error.to_string())
}
