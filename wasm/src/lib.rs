//! The WebAssembly module of the npm package `tract-openvino`. It takes and gives bytes, typed arrays and names; `js/` makes
//! the classes of them that a program sees, and is the only one that calls it.
//!
//! | file | what it decides |
//! |---|---|
//! | `language.rs` | language models: from files, texts token by token, chats |
//! | `model.rs` | models: from bytes, their inputs and outputs, runs, states |
//! | `tensor.rs` | tensors as JavaScript has them, and back |
//! | `panics.rs` | errors and panics as exceptions |

#![forbid(unsafe_code)]

mod language;
mod model;
mod panics;
mod tensor;
