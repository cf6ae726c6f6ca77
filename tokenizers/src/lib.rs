//! OpenVINO's tokenizers and detokenizers, for [tract](tract_core): the operations of OpenVINO's extension openvino_tokenizers.
//!
//! # How it is built
//!
//! A file or folder imports only from those below it: `.ci/imports.py` checks that.
//!
//! | file | what it decides |
//! |---|---|
//! | `operations/` | the operations, a file for each family: what they check of a layer, and what they compute |
//! | `options.rs` | [`Options`] |
//! | `layer.rs` | what the translations of all operations need of a layer |
//! | `text_op.rs` | the operator that all operations are |
//! | `regex/` | regular expressions, as PCRE2 has them |
//! | `unicode/` | characters that become others: forms of Unicode, folded cases, tables of sentencepiece |
//! | `tables/` | vocabularies, merges, and what was tokenized before |
//! | `strings.rs` | strings and rows of strings, as tensors have them |

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod layer;
mod operations;
mod options;
mod regex;
mod strings;
mod tables;
mod text_op;
mod unicode;

use tract_openvino_ir::Registry;

pub use options::Options;

/// Adds the operations to those that a reader of OpenVINO IR has.
pub fn register(registry: &mut Registry) {
    register_with(registry, Options::default());
}

/// Adds the operations, with options.
pub fn register_with(registry: &mut Registry, options: Options) {
    operations::register(registry, options);
}

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
