//! Model folders, for tract: in the layout of the ONNX backend tests, or with one file for each data set.
//!
//! ```text
//! <folder>/model.onnx, or model.xml and model.bin
//! <folder>/test_data_set_0/input_0.pb  input_1.pb ...  output_0.pb ...
//! <folder>/test_data_set_1/...
//!
//! <folder>/model.onnx, or model.xml and model.bin
//! <folder>/test_data_set_0.npz  test_data_set_1.npz ...
//! ```
//!
//! There is a tensor for each input and output of the graph, in the graph's order. Each `.pb` file is a serialised
//! `TensorProto`; each `.npz` file has NumPy's arrays `input_0`, `input_1` ..., `output_0` ...

#![cfg(feature = "cases")]

mod case;
mod compare;
mod data_set;
mod numpy;
mod stage;
mod tensor_file;

pub use case::{Case, Failure, Model, find};
pub use compare::{Difference, Tolerance, compare, compare_within};
pub use data_set::DataSet;
pub use numpy::{Npz, save_npz, tensor_of_npy, write_npy};
pub use stage::{Stage, StagedModel};
pub use tensor_file::{load_tensor_file, save_tensor_file, tensor_proto};

/// So many elements along an axis that those of two such axes cannot be counted. For tests of tensors without elements, whose
/// sizes take neither memory nor time.
pub const MANY: usize = 1 << (usize::BITS / 8 * 5);

/// So many elements that there is no memory for them, if each takes four bytes.
pub const TOO_MANY: usize = 1 << if usize::BITS > 40 { 40 } else { usize::BITS - 3 };
