//! What a program can choose of how tokenizers are read.

/// What becomes of special tokens. By default, it is what the model says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether tokenizers add special tokens, such as `[CLS]`, if they have any. Without them, segments of CombineSegments that are
    /// constants are left out.
    pub add_special_tokens: bool,
    /// Whether detokenizers skip special tokens, if they have a list of them. Else VocabDecoder skips none.
    pub skip_special_tokens: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { add_special_tokens: true, skip_special_tokens: true }
    }
}
