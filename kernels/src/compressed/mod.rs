//! Products with a constant matrix that stays compressed: floats of 16 bits, or integers of 8 or 4 bits with a scale, and
//! perhaps a zero point, for each row of the matrix or for each group of neighbours in a row.
//!
//! Who reads a model finds what is compressed, and puts it there as a [`DequantizedConst`]; the rule is in `transform/fully_connected.rs`.
//!
//! The codes are read as the file has them, a row for each column of the result. They become numbers in registers or in the cache, or are
//! multiplied as integers. Results are as good as in single precision, unless [`Precision::Dynamic`] or [`Precision::Bf16`] is asked
//! for: nothing is rounded but products and sums, or what `digits.rs` says in their place.
//!
//! * `constant.rs` has what a reader puts into a model;
//! * `matrix.rs` says what is compressed how;
//! * `format.rs` has the formats of codes;
//! * `digits.rs` has few rows of data as integers, where they can be such: `nibbles` multiplies them with codes of 4 bits (AVX2, or
//!   AVX-512 with VNNI), and `bytes.rs` with codes of 8 bits that are one group in a row (AVX-512 with VNNI);
//! * `wasm.rs` does both on WebAssembly, with digits of its own;
//! * `dots.rs` multiplies other few rows, in floats;
//! * `dynamic.rs` multiplies many rows that may be rounded to bytes;
//! * `unpack.rs` makes numbers of codes;
//! * `product.rs` chooses one of these for few rows of data, and multiplies many: panels of the matrix become numbers in the cache, and
//!   meet all rows there.

#[cfg(target_arch = "x86_64")]
mod bytes;
mod constant;
#[cfg(target_arch = "x86_64")]
mod digits;
mod dots;
#[cfg(target_arch = "x86_64")]
mod dynamic;
mod format;
mod matrix;
#[cfg(target_arch = "x86_64")]
mod nibbles;
mod product;
#[cfg(any(target_arch = "x86_64", all(target_arch = "wasm32", target_feature = "simd128")))]
mod scale;
#[cfg(test)]
mod tests;
mod unpack;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;

use crate::isa::Vectors;
use crate::product::activation::{Activate, Activation};

pub use constant::{DequantizedConst, combine};
pub use format::Format;

pub(crate) use matrix::CompressedMatrix;
pub(crate) use product::{Precision, multiply, packed};

/// Writes sums and the bias, and applies the activation.
fn finish(numbers: &mut [f32], sums: &[f32], bias: &[f32], activation: Activation) {
    for ((place, sum), bias) in numbers.iter_mut().zip(sums).zip(bias) {
        *place = sum + bias;
    }
    Vectors::detect().run(Activate { numbers, activation });
}
