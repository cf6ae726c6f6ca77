//! Data as whole numbers of three digits, which the processor multiplies with codes byte by byte (`vpdpbusd`, of VNNI).
//!
//! A number `x` is `scale * q`, where neighbours have one scale, and `q = 65536 a + 256 b + c`, with digits between -128 and 127, or 0
//! and 255. Sums of products of codes and digits are exact, and so is
//!
//! ```text
//! sum(code * q) = 256 * (256 * sum(code * a) + sum(code * b)) + sum(code * c)
//! ```
//!
//! until it becomes a number in single precision. One factor of the processor's multiplication has no sign: `bytes.rs` and `nibbles`
//! take back what that adds, in whole numbers. `nibbles/avx2.rs` has digits for an older instruction.
//!
//! Only `q` is rounded. Each number is wrong by less than 2^-23 of the largest of those that have its scale, four neighbours, for codes of
//! 8 bits; and by less than 2^-22 of the largest of 32 (eight at the end of a row) for codes of four bits. In floats, each sum is rounded as
//! much.

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::isa::{Isa, Lanes, On, Vnni};
use crate::memory::Scratch;

pub(super) const LANES: usize = 16;

/// A vector of a block. Whole numbers and digits are the bits of floats.
pub(super) type DigitVector = [f32; LANES];

/// The vectors of a block.
pub(super) type DigitVectors<const COUNT: usize> = [DigitVector; COUNT];

/// Makes blocks of rows.
pub(super) trait SplitRow<L>: Copy {
    /// How many floats the blocks of a row of so many numbers have.
    fn stride(self, depth: usize) -> usize;

    /// Whether all numbers of a row could be split: they are finite, and the largest one of a scale is zero, or not so small that the scale
    /// would lose bits.
    fn split_row(self, lanes: L, row: &[f32], place: &mut [f32]) -> bool;
}

/// The largest whole number: the largest of three digits is 8,355,711, and the scale is rounded.
const MOST: f32 = 8_355_700.;

/// A scale is not smaller than that of this number, so that it, and a sixteenth of it, has all its bits. With subnormal scales, rows of 576
/// codes of four bits took 1.4 times as long.
pub(super) const LEAST: f32 = f32::from_bits((127 - 96) << 23);

/// Rows of data, of `depth` numbers each, in blocks; or none if some cannot be [split](SplitRow::split_row).
pub(super) fn digits_of<L: Isa>(
    lanes: L,
    split: impl SplitRow<L>,
    data: &[f32],
    depth: usize,
) -> Option<Scratch> {
    let stride = split.stride(depth);
    let mut digits = Scratch::new(data.len() / depth * stride);
    let places = &mut digits;
    lanes.enter(SplitRows { split, data, depth, places }).then_some(digits)
}

struct SplitRows<'a, S> {
    split: S,
    data: &'a [f32],
    depth: usize,
    places: &'a mut [f32],
}

impl<L: Copy, S: SplitRow<L>> On<L> for SplitRows<'_, S> {
    /// Whether all numbers could be split.
    type Output = bool;

    #[inline(always)]
    fn run(self, lanes: L) -> bool {
        let places = self.places.chunks_exact_mut(self.split.stride(self.depth));
        let mut is_exact = true;
        for (row, place) in self.data.chunks_exact(self.depth).zip(places) {
            is_exact &= self.split.split_row(lanes, row, place);
        }
        is_exact
    }
}

/// So many numbers: the first ones of these, or all, and zeros.
#[inline(always)]
pub(super) fn padded<const WIDTH: usize>(numbers: &[f32]) -> [f32; WIDTH] {
    let mut padded = [0.; WIDTH];
    copy_first(&mut padded, numbers);
    padded
}

/// Copies the first numbers, as many as there are.
#[inline(always)]
pub(super) fn copy_first(place: &mut [f32], numbers: &[f32]) {
    for (place, number) in place.iter_mut().zip(numbers) {
        *place = *number;
    }
}

/// The scale of numbers of which these are the largest ones, and where it has all its bits.
#[inline(always)]
pub(super) fn scale_of(lanes: Vnni, largest: __m512) -> (__m512, __mmask16) {
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
    unsafe {
        let zeros = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(largest, lanes.splat(0.));
        let large = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(largest, lanes.splat(LEAST));
        let largest = _mm512_max_ps(largest, lanes.splat(LEAST));
        (_mm512_div_ps(largest, lanes.splat(MOST)), zeros | large)
    }
}

/// Takes the lowest digit of whole numbers off, as a byte, between -128 and 127.
#[inline(always)]
pub(super) fn signed_digit(lanes: Vnni, whole: &mut __m512i) -> __m512i {
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
    let mut carried = unsafe { _mm512_add_epi32(*whole, _mm512_set1_epi32(128)) };
    let byte = unsigned_digit(lanes, whole);
    unsigned_digit(lanes, &mut carried);
    *whole = carried;
    byte
}

/// The same, between 0 and 255.
#[inline(always)]
pub(super) fn unsigned_digit(_: Vnni, whole: &mut __m512i) -> __m512i {
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
    unsafe {
        let byte = _mm512_and_si512(*whole, _mm512_set1_epi32(0xff));
        *whole = _mm512_srai_epi32::<8>(*whole);
        byte
    }
}

#[cfg(test)]
pub(super) mod tests {
    /// Numbers of words of so many. Some are much larger than others, some words have none but zeros, and some numbers are integers.
    pub fn numbers(word: usize, count: usize) -> Vec<f32> {
        let numbers = (0..count).map(|place| (place as f32 * 0.7).sin());
        let scaled = numbers.enumerate().map(|(place, number)| match place / word % 5 {
            0 if place % word == 3 => number * 1e4,
            1 => number * 1e-20,
            2 => 0.,
            3 => number.round(),
            _ => number,
        });
        scaled.collect()
    }
}
