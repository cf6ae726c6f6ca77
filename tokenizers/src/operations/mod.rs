//! The operations: a file for each family, with its names at the top.

mod arrays;
mod bpe;
mod bytes;
mod normalization;
mod postprocessing;
mod ragged;
mod sentencepiece;
mod split;
#[cfg(test)]
mod tests;
mod tokens;
mod unigram;
mod vocabulary;
mod wordpiece;

use tract_openvino_ir::internal::*;

use crate::options::Options;

/// The operation set that the converter writes.
const OPSET: &str = "extension";

pub(crate) fn register(registry: &mut Registry, options: Options) {
    arrays::register(registry);
    bpe::register(registry);
    bytes::register(registry);
    normalization::register(registry);
    postprocessing::register(registry, options);
    ragged::register(registry);
    sentencepiece::register(registry);
    split::register(registry);
    tokens::register(registry);
    unigram::register(registry);
    vocabulary::register(registry, options);
    wordpiece::register(registry);
}
