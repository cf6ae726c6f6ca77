//! Tables of vocabularies: made once, when a model is loaded.

mod cache;
mod pairs;
mod trie;

pub(crate) use cache::Cache;
pub(crate) use pairs::Pairs;
pub(crate) use trie::Trie;
