//! OpenVINO's own model files, IR (`model.xml` and `model.bin`), for [tract](tract_openvino::tract_onnx).
//!
//! The reader gives a [`TypedModel`](prelude::TypedModel), like tract's readers of other formats:
//!
//! ```
//! use tract_openvino_ir::prelude::*;
//!
//! # fn main() -> TractResult<()> {
//! let model = ir()
//!     .model_for_path("models/gather/revision_8_out_of_range/model.xml")?
//!     .into_runnable_with_kernels()?;
//! let data = tensor2(&[[1f32, 2., 3., 4.], [5., 6., 7., 8.], [9., 10., 11., 12.]]);
//! let indices = tensor1(&[2i32, 0, 3, -1, 1]);
//! let outputs = model.run(tvec!(data.into(), indices.into()))?;
//! // Row 3 is not there: Gather-8 gives zeros for it. Row -1 is the last.
//! let expected = [
//!     [9f32, 10., 11., 12.],
//!     [1., 2., 3., 4.],
//!     [0., 0., 0., 0.],
//!     [9., 10., 11., 12.],
//!     [5., 6., 7., 8.],
//! ];
//! assert_eq!(*outputs[0], tensor2(&expected));
//! # Ok(())
//! # }
//! ```
//!
//! [`Ir`] has the options: sizes or symbols for open dimensions, weights from another file, operations of your own,
//! limits.
//!
//! # How it is built
//!
//! A model passes through these files from top to bottom. A file or folder imports only from those below it:
//! `.ci/imports.py` checks that. Only a layer with bodies has to go back up, to the translation of their graphs: by a trait
//! that `context/translation.rs` has and `translate/` implements. What OpenVINO computes is an operation here, and what tract
//! computes an operator.
//!
//! | file | what it decides |
//! |---|---|
//! | `preprocess/` | [`preprocess`]: steps before and after a model, wired as layers are |
//! | `reader.rs` | [`Ir`], the reader with its options, and [`IrProtoModel`], what the two files have in them |
//! | `onnx/` | the operations as nodes of ONNX models, with the feature `onnx` |
//! | `nnef.rs` | some operators in NNEF archives, with the feature `nnef` |
//! | `with_openvino_ir.rs` | `WithOpenVinoIr`, which adds them to tract's readers of these |
//! | `states.rs` | [`QueryState`]: the variables of a state that runs |
//! | `translate/mod.rs` | the translation: layer by layer, and once more when open dimensions turn out to be equal |
//! | `translate/alone.rs` | layers without the document around them |
//! | `translate/deferred.rs` | layers that need values that are only known when the model runs: they are translated then |
//! | `unsupported.rs` | [`UnsupportedOperations`]: the error for operations that the reader does not have |
//! | `translators/` | the functions that translate the layers of each operation, a file for each family, with a table of its revisions at the top |
//! | `registry.rs` | [`Registry`]: which revision of an operation a layer means, and which function translates it |
//! | `refused.rs` | which operations are none of OpenVINO's operation sets, but what it makes of them |
//! | `context/mod.rs` | [`LayerContext`], what such a function sees: the inputs of a layer, and, in files beside it, its attributes, the values of constants, the nodes that are wired, and the shapes that must fit |
//! | `context/translation.rs` | what all layers share, and the constants that are put into the model |
//! | `context/dimensions.rs` | the symbols of open dimensions, and which of them are equal |
//! | `context/derived.rs` | what is known of small tensors that are computed from sizes; `translators/sizes.rs` computes them |
//! | `context/sources.rs` | the types and shapes that the layers of inputs and constants declare |
//! | `context/fold.rs` | which layers are computed when the model is loaded; `folded.rs` has the results, and drops them |
//! | `context/compressed.rs` | compressed weights: codes for the kernels, their rows, or numbers |
//! | `context/names.rs` | the names of nodes, each once in a model, and its large constants |
//! | `context/budget.rs` | how much memory constants may take |
//! | `operators/` | operators that tract does not have, or has slower or wrong ones of |
//! | `workarounds/` | what tract's optimiser and its plans must be kept from, or told: each with what would make it go |
//! | `typed_op.rs` | what the operators of both have in common: macros, and readers of their inputs |
//! | `weights/` | the bytes of a constant, and the tensor that they make |
//! | `document/` | what the XML says: layers, edges, bodies, shapes and element types, checked, without tract |
//! | `stated_layouts.rs` | the layouts of inputs and outputs, as properties of tract's model |
//! | `shortened.rs` | long errors and names, without their middle |
//! | `limits.rs` | [`Limits`], and the other limits of what a model may ask for |
//!
//! # Features
//!
//! * `multithread-mm`: work is shared among the threads of the executor that the program gives to tract: `use_all_cores` gives it one
//!   for each core.
//! * `nnef`: models are saved to NNEF archives and loaded again, as far as tract and this crate have text for their
//!   operators.
//! * `onnx`: the operations are nodes of ONNX models, too.
//!
//! None is on by default.

#![deny(unsafe_code)]
#![warn(missing_docs)]

#[cfg(test)]
mod bad_input;
mod context;
pub mod document;
#[cfg(test)]
mod half_precision;
mod limits;
#[cfg(feature = "nnef")]
mod nnef;
#[cfg(feature = "onnx")]
mod onnx;
mod operators;
pub mod preprocess;
mod reader;
mod refused;
mod registry;
mod shortened;
mod stated_layouts;
mod states;
mod translate;
mod translators;
mod typed_op;
mod unsupported;
mod weights;
#[cfg(any(feature = "nnef", feature = "onnx"))]
mod with_openvino_ir;
mod workarounds;

pub use context::{FromAttribute, LayerContext};
pub use limits::Limits;
pub use reader::{InputShape, Ir, IrProtoModel, ir};
pub use registry::Registry;
pub use states::{QueryState, VariableState};
pub use unsupported::{UnsupportedOperation, UnsupportedOperations};
pub use weights::Weights;
#[cfg(any(feature = "nnef", feature = "onnx"))]
pub use with_openvino_ir::WithOpenVinoIr;

/// The crate of the operators, which re-exports tract.
pub use tract_openvino;

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// What a program needs to run models.
pub mod prelude {
    pub use crate::ir;
    #[doc(no_inline)]
    pub use tract_core::prelude::*;
    pub use tract_openvino_kernels::WithKernels;
    #[cfg(feature = "multithread-mm")]
    pub use tract_openvino_kernels::threads::use_all_cores;
}

/// What a program needs to translate operations of its own ([`Registry::add_extension`]), and to write operators for
/// them: this crate's names and those of tract.
pub mod internal {
    pub use crate::weights::datum_type;
    pub use crate::{FromAttribute, LayerContext, Registry, ir};
    pub use tract_core;
    #[doc(no_inline)]
    pub use tract_core::internal::*;
    #[doc(no_inline)]
    pub use tract_core::ops;
}
