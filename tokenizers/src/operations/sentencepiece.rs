//! Operations that contain a model of sentencepiece.

use tract_openvino_ir::internal::*;

use super::OPSET;

pub(super) fn register(registry: &mut Registry) {
    for operation in
        ["SentencepieceTokenizer", "SentencepieceDetokenizer", "SentencepieceStreamDetokenizer"]
    {
        registry.add_extension(operation, OPSET, |_| {
            bail!(
                "this needs the library sentencepiece, whose model it contains: convert the tokenizer again without \
                 use_sentencepiece_backend, so that it becomes operations of its own"
            )
        });
    }
}
