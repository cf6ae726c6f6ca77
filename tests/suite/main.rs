//! Everything that is not a model folder. One binary, because each links all of tract.

mod bad_input;
mod contract;
mod elements;
mod gather_elements;
mod gather_tree;
mod inference;
mod onnx_model;
mod optimizer;
mod oracle;
mod properties;
mod registration;
mod sizes;
#[cfg(feature = "multithread-mm")]
mod threads;
#[path = "../../benches/transformer.rs"]
mod transformer;
