//! Model folders in the layout of the ONNX backend tests, for tract.
//!
//! ```text
//! <folder>/model.onnx, or model.xml and model.bin
//! <folder>/test_data_set_0/input_0.pb  input_1.pb ...  output_0.pb ...
//! <folder>/test_data_set_1/...
//! ```
//!
//! Each `.pb` file is a serialised `TensorProto`, one for each input and output of the graph, in
//! the graph's order.

mod case;
mod compare;
mod stage;
mod tensor_file;

pub use case::{Case, DataSet, Failure, Model, find};
pub use compare::{Difference, Tolerance, compare, compare_within};
pub use stage::{Stage, StagedModel};
pub use tensor_file::{load_tensor_file, save_tensor_file, tensor_proto};
