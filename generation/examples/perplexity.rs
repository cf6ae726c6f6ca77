//! The loss of a language model on a text, and its logits, for `perplexity.py`.
//!
//! ```text
//! perplexity FOLDER TOKENS LOGITS [--exact]
//! ```
//!
//! `TOKENS` is a file of token ids, 32 bits each. They are read in prefills of [`CHUNK`] tokens; the logits after each go to `LOGITS`.

use std::fs;

use tract_core::internal::*;
use tract_openvino_generation::{LanguageModel, rounding_kernels};
use tract_openvino_kernels::KernelsTransform;

/// `perplexity.py` has the same number.
const CHUNK: usize = 16;

fn main() -> TractResult<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, tokens, logits, exact) = match &arguments[..] {
        [folder, tokens, logits] => (folder, tokens, logits, false),
        [folder, tokens, logits, exact] if exact == "--exact" => (folder, tokens, logits, true),
        _ => bail!("usage: perplexity FOLDER TOKENS LOGITS [--exact]"),
    };
    let bytes = fs::read(tokens)?;
    let tokens: Vec<u32> =
        bytes.chunks_exact(4).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect();
    let kernels = if exact { KernelsTransform::default() } else { rounding_kernels() };
    let model = LanguageModel::from_folder_with(folder, &kernels)?;
    let mut context = model.start()?;
    let mut all = vec![];
    for chunk in tokens.chunks_exact(CHUNK) {
        all.extend(context.extend(chunk)?.iter().flat_map(|logit| logit.to_le_bytes()));
    }
    Ok(fs::write(logits, all)?)
}
