//! OpenVINO's gather operators for [tract](tract_onnx): Gather-1, Gather-7, Gather-8, GatherND-5 and GatherND-8, in
//! ONNX models and as typed operators; GatherElements-6 and GatherTree-1, as typed operators.
//!
//! ```
//! use tract_openvino::WithOpenVino;
//! use tract_openvino::tract_onnx::prelude::*;
//!
//! # fn main() -> TractResult<()> {
//! let model = tract_openvino::tract_onnx::onnx()
//!     .with_openvino()
//!     .model_for_path("models/gather_8_example_7/model.onnx")?
//!     .into_optimized()?
//!     .into_runnable()?;
//! let data = tensor1(&[1i32, 2, 3, 4, 5]);
//! let indices = tensor1(&[3i32, 10, -20]);
//! let outputs = model.run(tvec!(data.into(), indices.into()))?;
//! assert_eq!(*outputs[0], tensor1(&[4i32, 0, 0]));
//! # Ok(())
//! # }
//! ```
//!
//! [`WithOpenVino`] adds the operators to tract's reader of ONNX, and, with the feature `nnef`, to its reader and
//! writer of NNEF archives. [`Operation`] wires a node into a [`TypedModel`](tract_onnx::prelude::TypedModel), as a
//! model's file states it: with negative numbers, an operation set instead of a revision, and an axis that may be an
//! input. The result is one of the typed operators [`Gather`], [`GatherNd`] and, for an axis that is only known at
//! run time, [`DynGather`]. [`GatherElements`] and [`GatherTree`] are wired as they are.
//!
//! # Types and shapes
//!
//! * `data` may be `bool`, an integer, `f16`, `f32`, `f64`, `String`, `TDim`, `Blob`, or quantized (`QI8`, `QU8`,
//!   `QI32`, whose parameters the output keeps). Gather from axis 0 without batch dimensions also takes
//!   block-quantized tables, and decompresses the rows that it picks. Other packed tensors are an error.
//! * `indices` and `axis` may be any integer, or `TDim`. All 64 bits of an index count: 2³² + 1 is out of range.
//! * `step_ids` and `end_token` of GatherTree have the same type of numbers; `parent_idx` and `max_seq_len` are
//!   integers or floats.
//! * Shapes may be known, partly known or symbolic. Inference works from the inputs to the output and back. The
//!   length of GatherND's tuples must be known when the model is typed.
//!
//! # Special cases
//!
//! * **Index out of range**: where this is an error, it is one when the model is loaded, if the index is a constant
//!   and the size of the axis is known, otherwise when the model runs. The error is an [`IndexError`]: it has the
//!   operator, the position in `indices`, the value and the [`IndexPolicy`]; programs get it by `downcast_ref`.
//! * **Zeros**, which Gather-8 gives for an index out of range, are `false`, the empty string, the empty blob and, for
//!   quantized types, the zero point.
//! * **Batch dimensions** of `data` and `indices` must be equal; a dimension of 1 is not broadcast. Two different
//!   symbols are accepted and compared when the model runs; the output has the symbol of `data`.
//! * **GatherND-5** fuses two or more batch dimensions into one axis of the output.
//! * **Empty tensors**: no indices give an empty output. A tuple without entries picks everything after the batch
//!   dimensions. An axis of size 0 has no valid index, and an index out of range is an error even if the slices are
//!   empty. (tract replaces a node whose output is known to be empty by a constant when it declutters a model. Its
//!   indices are not checked then.)
//! * **Axis at run time**: the same plan runs with every axis, unless the file declares a shape of the output that
//!   fits one axis only. tract's options `with_ignore_value_info` and `with_ignore_output_shapes` drop such a shape.
//!
//! # Optimisation
//!
//! These rewrites are part of tract's `declutter`. Those of constant indices need all of them to be in range and the
//! size of the axis to be known, so that no error and no zero gets lost.
//!
//! * A gather of all positions in order disappears. One index, or consecutive ones, become a slice.
//! * Two gathers in a row become one.
//! * A gather whose indices all fall into one part of a concatenation uses that part alone.
//! * GatherND with tuples of one entry becomes Gather. Axes of size 1 are dropped from longer tuples.
//! * A slice of the output becomes slices of the inputs. Indices that the slice drops are no longer checked.
//! * Changes of axes move through the operators, and so do the translation to `f16` and the substitution of symbols.
//! * `batchify` works where `data` and `indices` both get the batch axis. For Gather without `batch_dims` it also works
//!   where only `data` does. It does not work for the fused batch dimensions of GatherND-5.
//! * `tract-pulse` streams along batch axes, along the axes of `data` that are not gathered from, and along the axes of
//!   `indices`. Streaming along a gathered axis is an error.
//!
//! # How it is built
//!
//! Loading a model uses the first four, in this order. Running it starts in `ops/` and goes through `eval.rs` to the
//! kernel.
//!
//! | file | contents |
//! |---|---|
//! | `onnx.rs` | ONNX nodes: domain, revision, attributes |
//! | `dimensions.rs` | the names of open dimensions |
//! | `typed_model.rs` | types and shapes of a whole model, without what it declares if that is wrong |
//! | `standard.rs` | nodes of the standard domain |
//! | `infer/` | inference of types and shapes |
//! | `operation.rs` | [`Operation`]: a node as a model's file states it |
//! | `ops/` | the typed operators [`Gather`], [`GatherNd`], [`DynGather`], [`GatherElements`] and [`GatherTree`]: facts, axes and rewrites, and which one an [`Operation`] becomes |
//! | `revision.rs` | the revisions, as data |
//! | `shape.rs` | axes, batch dimensions and output shapes, for inference, facts and evaluation |
//! | `eval.rs` | evaluation: from tensors to slices of bytes and integers, and errors back |
//! | `index.rs` | what an index means, and the error for one out of range |
//! | `geometry.rs` | the common form of the operators for the kernel (GatherTree has its own loops) |
//! | `kernel/` | copying elements |
//! | `nnef.rs` | the operators in NNEF archives, with the feature `nnef` |
//!
//! # Features
//!
//! * `onnx`, which is on by default: the operators in ONNX models, with tract's reader of these.
//! * `multithread-mm`: large outputs are shared among the threads of the executor that the program gives to tract.
//! * `nnef`: models are saved to NNEF archives and loaded again.
//!
//! # Versions
//!
//! tract's crates change their operator interface in patch releases. So this crate needs one exact version of them,
//! and re-exports [`tract_onnx`]: use that, and cargo cannot pick another.

#![deny(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "onnx")]
mod dimensions;
mod eval;
mod geometry;
mod index;
#[cfg(feature = "onnx")]
mod infer;
mod kernel;
mod loops;
#[cfg(feature = "nnef")]
mod nnef;
#[cfg(feature = "onnx")]
mod onnx;
mod operation;
mod ops;
mod revision;
mod shape;
#[cfg(feature = "onnx")]
mod standard;
#[cfg(feature = "onnx")]
mod typed_model;
#[cfg(any(feature = "nnef", feature = "onnx"))]
mod with_openvino;

#[cfg(feature = "onnx")]
pub use dimensions::{dimension_name, name_dimensions, set_input_shape};
pub use index::{IndexError, IndexPolicy};
pub use loops::restart_loops;
#[cfg(feature = "onnx")]
pub use onnx::{DOMAIN, OpenVinoOptions, WithOpenVinoOptions};
pub use operation::Operation;
pub use ops::{DynGather, Gather, GatherElements, GatherNd, GatherTree};
pub use revision::{GatherNdRevision, GatherRevision, NegativeIndices, Revision};
#[cfg(feature = "onnx")]
pub use typed_model::typed_model;
#[cfg(any(feature = "nnef", feature = "onnx"))]
pub use with_openvino::WithOpenVino;

/// The examples of the README run as tests.
#[cfg(all(doctest, feature = "onnx"))]
#[doc = include_str!("../README.md")]
mod readme {}

/// Those of the document on ONNX, too.
#[cfg(all(doctest, feature = "onnx"))]
#[doc = include_str!("../docs/onnx.md")]
mod onnx_models {}

/// Those of the document on performance, too.
#[cfg(all(doctest, feature = "multithread-mm"))]
#[doc = include_str!("../docs/performance.md")]
mod performance {}

pub use tract_core;
/// The ONNX reader of the tract that this crate extends.
#[cfg(feature = "onnx")]
pub use tract_onnx;
/// The crate of the kernels, for any model of that tract.
pub use tract_openvino_kernels as kernels;
pub use tract_openvino_kernels::WithKernels;

/// What a program needs to wire the operators, and to write operators of its own: this crate's names and those of
/// tract.
pub mod internal {
    #[cfg(feature = "nnef")]
    pub use crate::nnef::dump_node;
    #[cfg(feature = "onnx")]
    pub use crate::onnx::{Builder, OperatorSet, add_operator, operator_set};
    pub use crate::{
        DynGather, Gather, GatherElements, GatherNd, GatherNdRevision, GatherRevision, GatherTree,
        IndexError, IndexPolicy, NegativeIndices, Operation, Revision,
    };
    pub use tract_core;
    #[doc(no_inline)]
    pub use tract_core::internal::*;
    #[doc(no_inline)]
    pub use tract_core::ops;
    pub use tract_openvino_kernels::checks::{
        check_input_count, ensure_allocatable, expect_input_count, expect_inputs, listed, volume,
    };
    pub use tract_openvino_kernels::threads::{fill_rows, threads_for};
}

/// The NNEF of that tract, to save models and load them.
#[cfg(feature = "nnef")]
pub use tract_nnef;
