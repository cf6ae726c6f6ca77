//! Convolutions whose weights are constants, and pools. The channels are last: what a sum needs of a pixel is in a row then, whatever the
//! kernel, its strides and its padding are. Most convolutions read the data where it is; others copy it first.
//!
//! * `window.rs` and `rows.rs` say which elements a pixel is made of, by their addresses;
//! * `product.rs` has packed weights and the microkernel, for any type of elements, and `output.rs` where it writes;
//! * `driver.rs` computes a convolution of any elements, on threads;
//! * `singles.rs` has the elements in single precision, `channels.rs` what is made of single channels of these, and `pairs.rs`
//!   convolutions of single channels in bf16;
//! * `amx.rs` multiplies rows on a matrix unit, and `bf16.rs` has elements for that alone;
//! * `packed.rs` and `pools.rs` have the operators;
//! * `trimmed.rs` cuts off what meets padding alone.
//!
//! Files import from those above them alone, but that `channels.rs` ends as `singles.rs` does, and calls `pairs.rs`.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod bf16;
mod channels;
mod driver;
mod output;
mod packed;
mod pairs;
mod pools;
mod product;
mod rows;
mod singles;
#[cfg(test)]
pub(crate) mod tests;
mod trimmed;
mod window;

#[cfg(target_arch = "x86_64")]
pub(crate) use amx::TileElement;
pub(crate) use driver::{Convolution, ConvolutionFilters, UnpackedConvolution, is_padded};
pub(crate) use output::OutputRows;
pub(crate) use packed::PackedConvolution;
pub(crate) use pools::{ChannelsLastPool, PoolKind};
pub(crate) use product::{
    ConvolutionElement, DepthwiseRows, Dot, FilterFormat, GemmTask, MOST_ROWS, SumLanes, TilePlace,
    UnpackedFilters,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use rows::StridedLines;
pub(crate) use rows::{PADDING, TapSlices};
pub(crate) use singles::SinglesEpilogue;
pub(crate) use trimmed::trimmed;
pub(crate) use window::{ChannelsLastWindow, one_pixel, output_shape};
