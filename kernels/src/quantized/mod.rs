//! Operators on codes of 8 bits, which stand for numbers: convolutions and fully connected layers whose sums are exact, and
//! what lies between them.
//!
//! Codes of data are unsigned, and have the channels last; those of weights are signed. [`convolution`](crate::convolution) computes their
//! convolutions, with what is here for their elements.
//!
//! * `levels.rs` says which numbers codes stand for;
//! * `vectors.rs` says what loops on codes do with vectors, and `x86.rs`, `neon.rs` and `wasm.rs` do it;
//! * `finish.rs` has the epilogue, what becomes of a sum;
//! * `depthwise.rs` has convolutions of single channels, and `instructions.rs` says how codes are the elements of a convolution, and which
//!   microkernel computes a task;
//! * `convolution.rs`, `arithmetic.rs`, `pools.rs` and `conversion.rs` have the operators;
//! * `fake_quantize.rs` has what models have in their place.
//!
//! Files import from those above them alone.

mod arithmetic;
mod conversion;
mod convolution;
mod depthwise;
mod fake_quantize;
mod finish;
mod instructions;
mod levels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pools;
#[cfg(test)]
pub(crate) mod tests;
mod vectors;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use arithmetic::{Operation, QuantizedArithmetic};
pub(crate) use conversion::{CodeLayout, Dequantize, Quantize, Requantize};
pub(crate) use convolution::{LayerDescription, QuantizedConvolution};
pub use fake_quantize::FakeQuantize;
pub(crate) use finish::ResidualOperand;
pub(crate) use levels::Levels;
pub(crate) use pools::{QuantizedMaxPool, QuantizedSum};
