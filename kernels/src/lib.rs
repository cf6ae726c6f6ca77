//! Faster operators for any model of [tract](tract_core): convolutions, products of matrices, attention and pools
//! in single precision, and quantised networks on integers, on the vectors that the processor has.
//!
//! [`WithKernels`] puts them into a model:
//!
//! ```
//! use tract_core::prelude::*;
//! use tract_openvino_kernels::WithKernels;
//!
//! # fn main() -> TractResult<()> {
//! # let mut model = TypedModel::default();
//! # let data = model.add_source("data", f32::fact([2, 3]))?;
//! # model.select_output_outlets(&[data])?;
//! // A `TypedModel` of any reader: of ONNX, NNEF, TensorFlow Lite or OpenVINO IR.
//! let runnable = model.into_runnable_with_kernels()?;
//! # runnable.run(tvec!(Tensor::zero::<f32>(&[2, 3])?.into()))?;
//! # Ok(())
//! # }
//! ```
//!
//! tract finds them by name, too: the transform `kernels_transform` ([`KernelsTransform`], with options) and the runtime
//! `kernels` ([`KernelsRuntime`]).
//!
//! # How it is built
//!
//! A model passes through `transform/`, and what it puts there runs in the others. A file or folder imports from the rows below its own;
//! within `transform/`, files name each other.
//!
//! | file | what it decides |
//! |---|---|
//! | `runtime.rs` | [`KernelsRuntime`], and [`KernelsRunnable`], what runs |
//! | `transform/mod.rs` | [`KernelsTransform`]: when tract simplifies the model, and when which rule is tried |
//! | `transform/rule.rs` | [`Rule`]: what replaces a node, or why it stays; crates above [register](register_rule) their own |
//! | `transform/chain.rs` | what follows a node, and is done by the same operator: biases, activations, a softmax |
//! | `transform/found.rs` | what rules look for, and what is before a node, and is done by the same operator |
//! | `transform/quantized/`, `transform/half.rs` | regions on codes, and in half precision: they are translated before any rule is tried |
//! | `transform/channels_last.rs` | regions with the channels last, around convolutions and pools |
//! | `transform/convolution.rs`, … | the rules, a file for each operator |
//! | `transform/constants.rs` | moves of the axes of constants, which tract would copy |
//! | `barrier.rs` | [`guard_downsamples`]: what tract's strides must not pass |
//! | `parallel.rs` | loops that run at the same time |
//! | `lstm.rs` | all steps of an LSTM |
//! | `attention/`, `rotary.rs` | attention, keys and values that grow from run to run, rotary position embedding |
//! | `fully_connected.rs`, `contraction.rs` | products with a constant matrix, and others |
//! | `grouped.rs` | products of rows in groups, each with a matrix of its own |
//! | `normalization.rs` | LayerNormalization and RMSNormalization |
//! | `elementwise.rs` | functions of elements, several at once |
//! | `concat.rs`, `slice.rs`, `take.rs`, `transposition.rs` | elements that are put in other places |
//! | `resize.rs` | axes that get other sizes |
//! | `reduction.rs` | sums, products, minima and maxima along axes |
//! | `softmax.rs` | Softmax along any axis |
//! | `quantized/` | the operators of quantised networks, on codes of 8 bits |
//! | `convolution/` | convolutions and pools, and what those of codes have in common with them |
//! | `compressed/` | constants that stay compressed, and products with them |
//! | `lazy.rs` | [`LazyConst`]: constants that are read when they are needed |
//! | `product/` | products of packed matrices, of which layers and attention are made |
//! | `window.rs` | how the kernel of a convolution or a pool moves |
//! | `strided.rs` | copies of elements to other places, of which transpositions and concatenations are made |
//! | `sums.rs` | sums of rows |
//! | `bf16.rs` | tensors in bf16 |
//! | `isa/` | the instructions of the processor: what was found, and the proof of it |
//! | `memory.rs` | outputs, and what a thread uses again |
//! | `threads/` | work that the threads of tract's executor share |
//! | `cost.rs` | about how long work takes, by which threads share it |
//! | `operator.rs` | the impls of tract's traits, as far as operators do not differ in them |
//! | `checks.rs` | numbers of inputs, and sizes of outputs |
//!
//! # Words
//!
//! | word | what it is here | where |
//! |---|---|---|
//! | GEMM | `C = A B`; GEMV where `A` is one row | `PackedGemm`, `GemmBlock`, `Gemv` in `product/` |
//! | operands A and B | the left and the right factor of a GEMM | `OperandA`, `PackedB` in `product/panels.rs`; `Im2rowBytes`, `PackedFilters` in `convolution/` |
//! | element | what operands consist of: a number in single precision, or two steps of a sum in bf16 | `Element` in `product/element.rs` |
//! | packing | copying an operand into the order in which it is read | `pack` of both, `PackedFilters::pack` in `convolution/product.rs` |
//! | panel | rows of A, or columns of B, that are packed together | `product/panels.rs` |
//! | tile | sums of C that stay in registers; a register of AMX | `Tile` in `product/panels.rs`, `Tiles` in `isa/amx.rs` |
//! | microkernel | the loop that computes a tile | `tile` in `product/kernel.rs`, `sums_of_tile` in `product/avx512.rs`, `DotTiles` in `convolution/product.rs`, `Tiles::multiply` in `isa/amx.rs`, `add_block` in `compressed/nibbles/` |
//! | block | rows, steps, channels or codes that are taken at once, as registers or caches have room for them | `GemmBlock` in `product/`, `RowBlock` in `convolution/amx.rs`, `NibbleBlock` in `compressed/nibbles/` |
//! | part, task | what a thread takes of shared work; the piece of it that is computed at once | `GemmTask`, `DepthwiseTask`, `FewTokensTask`, … |
//! | share | the rows and columns of a GEMM that are one part | `Shares` in `product/shares.rs`; `Division` in `threads/` for other work |
//! | epilogue | what is done with sums before they are written | `Epilogue` in `quantized/finish.rs`, `finish` in `product/kernel.rs`, `convolution/singles.rs` and `compressed/mod.rs` |
//! | lane | an element of a vector of the processor | [`Vectors`], `Lanes` in `isa/` |
//! | proof | a value that there is only where the processor has some instructions | `Isa` in `isa/`, `Avx2`, `Avx512`, … |
//! | im2row addresses | where each tap of each row of A is in memory | `Im2rowAddresses` in `convolution/rows.rs` |
//! | tap | a place of a kernel, or of what is interpolated, with its weights; a row of places that are neighbours in memory | `UnpackedFilters` in `convolution/product.rs`, [`Taps`] |
//! | number, word | what a code stands for, in single precision; four bytes of codes, or of sums, in a lane | `Lanes` in `isa/` |
//! | row | of a GEMM: a pixel of the output, or a token; of compressed weights: a column of the output | `CompressedMatrix` in `compressed/matrix.rs` |
//! | code | a few bits that stand for a number, also a float of 16 bits | `Levels` in `quantized/levels.rs`, [`Format`] |
//! | levels | the numbers that the codes of quantised data stand for | `Levels` in `quantized/levels.rs` |
//! | step | codes, or one element, of each row or column that are multiplied at once | `PackedFilters` in `convolution/product.rs` |
//! | digit | one of three bytes of a number of the data, which is multiplied as an integer; or one of two of 12 bits | `compressed/digits.rs`, `compressed/wasm.rs` |
//! | per-channel scale | what the sums of an output channel are multiplied by, with an addend and limits | `ChannelScales` in `quantized/finish.rs` |
//! | zero point | the code that stands for 0; of a group, what is subtracted from codes | `ChannelLevels::zero` in `quantized/levels.rs`, `GroupParameters` |
//! | group | codes that share a scale; channels of a convolution; rows that share a matrix | `GroupParameters` in `compressed/matrix.rs`, `ProductFilters` in `convolution/driver.rs`, `grouped.rs` |
//! | nibble | a code of four bits | `NibbleTask` in `compressed/nibbles/` |
//! | prefetch | asking for a line of memory before it is read | `StreamPrefetch` in `memory.rs` |
//!
//! # Features
//!
//! * `multithread-mm`: work is shared among the threads of the executor that the program gives to tract. It is off by
//!   default.

#![deny(unsafe_code)]
#![warn(missing_docs)]

// Its macros are in scope in the modules after it.
#[macro_use]
mod operator;

mod attention;
mod barrier;
mod bf16;
pub mod checks;
mod compressed;
mod concat;
mod contraction;
mod convolution;
mod cost;
mod elementwise;
mod fully_connected;
mod grouped;
mod isa;
mod lazy;
mod lstm;
mod memory;
mod normalization;
mod parallel;
mod product;
mod quantized;
mod reduction;
mod resize;
mod rotary;
mod runtime;
mod slice;
mod softmax;
mod strided;
mod sums;
mod take;
pub mod threads;
mod transform;
mod transposition;
mod window;

pub use attention::{AppendToPages, Attention, CachePrecision, PageFormat, PagedFactor};
pub use barrier::{Barrier, guard_downsamples};
pub use compressed::{DequantizedConst, Format, combine};
pub use grouped::GroupedProduct;
pub use isa::Vectors;
pub use lazy::{LazyConst, LazyTensor};
pub use memory::{ask_for_large_pages, large_pages, tensor_of_parts};
#[doc(hidden)]
pub use operator::{OneOrAll, map_unchanged_axes};
pub use product::gelu;
pub use quantized::FakeQuantize;
pub use resize::Taps;
pub use runtime::{KernelsRunnable, KernelsRuntime, KernelsState, WithKernels};
pub use strided::Run;
pub use take::take_runs;
pub use transform::{
    Decision, InferencePrecision, KernelsConfig, KernelsTransform, Movement, Outcome, Phase,
    RegisteredMovement, Rewrite, Rule, Session,
};

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// What [`register_rule`] and [`register_movement`] name.
#[doc(hidden)]
pub use inventory;
