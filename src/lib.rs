//! OpenVINO's gather operators for [tract](tract_onnx): Gather-1, Gather-7, Gather-8, GatherND-5 and
//! GatherND-8, in ONNX models and in models that are wired by hand; and GatherElements-6 and GatherTree-1, by
//! hand.
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
//! # How it is built
//!
//! A model goes through the first four of these files; all that runs goes through `eval.rs` to the kernel.
//!
//! | file | what it decides |
//! |---|---|
//! | `onnx.rs` | which nodes are ours, which revision they mean, their attributes |
//! | `infer/` | types and shapes while they are partly known |
//! | `operation.rs` | [`Operation`]: a node as a model states it, and which typed operator that is |
//! | `ops/` | [`Gather`], [`GatherNd`], [`DynGather`], [`GatherElements`] and [`GatherTree`], the operators of a typed model: their facts, axes and rewrites |
//! | `revision.rs` | what one revision has that another has not: a row of data for each |
//! | `shape.rs` | axes, batch dimensions and output shapes, for inference, facts and evaluation |
//! | `eval.rs` | tensors to slices of bytes and integers, and errors back to positions |
//! | `index.rs` | what an index means |
//! | `geometry.rs` | the one form that they have for the kernel; GatherTree walks on its own |
//! | `nnef.rs` | the operators in NNEF archives, with the feature `nnef` |
//! | `kernel/` | what moves elements: pieces of the output, tuples, blocks, the processor, threads |
//!
//! # Versions
//!
//! tract's crates change their operator interface in patch releases, so this crate is built on one
//! version of them exactly, and re-exports [`tract_onnx`]: use that one, and cargo cannot pick
//! another.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod eval;
mod geometry;
mod index;
mod infer;
mod kernel;
#[cfg(feature = "nnef")]
mod nnef;
mod onnx;
mod operation;
mod ops;
mod revision;
mod shape;

pub use index::{IndexOutOfRange, IndexPolicy, NegativeIndex, OutOfRange};
pub use onnx::{DOMAIN, OpenVinoOptions, WithOpenVino, WithOpenVinoOptions};
pub use operation::Operation;
pub use ops::{DynGather, Gather, GatherElements, GatherNd, GatherTree};
pub use revision::{GatherNdRevision, GatherRevision, NegativeIndices, Revision};

/// The examples of the README run as tests, where all that they use is there.
#[cfg(all(doctest, feature = "multithread-mm", feature = "nnef"))]
#[doc = include_str!("../README.md")]
mod readme {}

/// The tract that this crate extends.
pub use tract_onnx;

/// Its NNEF, to which models can be saved.
#[cfg(feature = "nnef")]
pub use tract_nnef;
