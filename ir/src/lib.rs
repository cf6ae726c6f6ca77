//! OpenVINO's own model files, IR (`model.xml` and `model.bin`), for [tract](tract_openvino::tract_onnx).
#![deny(unsafe_code)]
#![warn(missing_docs)]

#[cfg(test)]
mod bad_input;
pub mod document;
#[cfg(feature = "nnef")]
mod nnef;
mod operators;
mod ops;
mod reader;
mod registry;
mod translate;
mod weights;

#[cfg(feature = "nnef")]
pub use nnef::WithOpenVinoIr;
pub use reader::{Ir, IrProtoModel, ir};
pub use registry::{Registry, Translate};
pub use translate::LayerContext;
pub use weights::Weights;

/// The crate of the operators, which re-exports tract.
pub use tract_openvino;

/// What a program needs that runs models.
pub mod prelude {
    pub use crate::ir;
    pub use tract_core::prelude::*;
}
