//! OpenVINO's C interface, `libopenvino_c`, on the reader of this project: programs that use OpenVINO through it run without it.
//!
//! The interface is that of the public headers `openvino/c/*.h` of OpenVINO 2026.4. The functions have no other documentation
//! than these headers; comments here say what they leave open.
//!
//! # How it is built
//!
//! A call passes through these files from top to bottom. A file imports only from those below it: `.ci/imports.py` checks that.
//!
//! | file | what it decides |
//! |---|---|
//! | `exports.rs` | the functions, with the types of the headers: each calls one of those below |
//! | `variadic.c` | the functions with a variable number of arguments: each calls one of the others |
//! | `core.rs` | the core: versions, devices, what reads and compiles models |
//! | `infer_request.rs` | runs of a compiled model, at once or on another thread |
//! | `compiled_model.rs` | a model that is ready to run, its streams, and the file that it is exported to |
//! | `preprocess.rs` | preprocessors, and the parts of them that programs hold |
//! | `model.rs` | a model, read from a file or from memory, and its shapes |
//! | `recipe.rs` | what was said to a preprocessor, and what becomes of a model by it |
//! | `port.rs` | inputs and outputs: their names, types and shapes |
//! | `property.rs` | the properties: which there are, and which values they take |
//! | `layout.rs` | layouts |
//! | `tensor.rs` | tensors |
//! | `shape.rs` | shapes with and without open dimensions |
//! | `element_type.rs` | the element types by their numbers in C |
//! | `border.rs` | what crosses the border: arguments, results, memory, panics |
//! | `handles.rs` | what a pointer that a program holds stands for |
//! | `error.rs` | errors: a status and a text |
//! | `types.rs` | the types of the headers |
//!
//! `unsafe` code is in `exports.rs`, `border.rs` and the statics of `property.rs`, and refused elsewhere.

#![deny(unsafe_code)]

mod border;
mod compiled_model;
mod core;
mod element_type;
mod error;
mod exports;
mod handles;
mod infer_request;
mod layout;
mod model;
mod port;
mod preprocess;
mod property;
mod recipe;
mod shape;
mod tensor;
#[cfg(test)]
mod tests;
mod types;
