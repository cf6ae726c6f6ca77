//! Data as integers of three digits, which the processor multiplies with codes byte by byte (`vpdpbusd`, of AVX-512 VNNI).
//!
//! A number `x` is `scale * q`, where neighbours have one scale, and `q = 65536 a + 256 b + c`, with digits between -128 and 127, or 0
//! and 255. Sums of products of codes and digits are exact, and so is
//!
//! ```text
//! sum(code * q) = 256 * (256 * sum(code * a) + sum(code * b)) + sum(code * c)
//! ```
//!
//! until it becomes a number in single precision. One factor of the processor's multiplication has no sign: signed codes or digits get
//! a number more, so that they have none, and `bytes.rs` and `nibbles` subtract the products with that number, in integers.
//! `nibbles/avx2.rs` has digits for an older instruction.
//!
//! Only `q` is rounded. Each number is wrong by less than 2^-23 of the largest of those that have its scale, four neighbours, for codes of
//! 8 bits; and by less than 2^-22 of the largest of 32 (eight at the end of a row) for codes of four bits. In floats, each sum is rounded as
//! much.

// What takes vectors as a proof of the instructions uses them.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::scale::scale_of;
use crate::isa::{Avx512Vnni, Isa, Lanes, On};
use crate::memory::Scratch;

pub(super) const LANES: usize = 16;

/// The largest integer: the largest of three digits is 8,355,711, and the scale is rounded.
pub(super) const MOST_INTEGER: f32 = 8_355_700.;

/// Splits rows of data into digits, which are stored in blocks of neighbours.
pub(super) trait DigitLayout<L>: Copy {
    /// How many floats the blocks of a row have.
    fn stride(self) -> usize;

    /// Whether all numbers of a row could be split: they are finite, and the largest one of a scale is zero, or not so small that the scale
    /// would lose bits.
    fn split_row(self, lanes: L, row: &[f32], place: &mut [f32]) -> bool;
}

/// Rows of data as digits, in the blocks of `S`. Integers and digits are the bits of floats.
pub(super) struct DigitRows<L, S> {
    pub lanes: L,
    pub layout: S,
    rows: Scratch,
}

impl<L: Isa, S: DigitLayout<L>> DigitRows<L, S> {
    /// Rows of `depth` numbers each; or none if some cannot be [split](DigitLayout::split_row).
    pub fn new(lanes: L, layout: S, data: &[f32], depth: usize) -> Option<DigitRows<L, S>> {
        let mut rows = Scratch::new(data.len() / depth * layout.stride());
        let (places, mut can_split) = (&mut rows, true);
        lanes.enter(SplitRows { layout, data, depth, places, can_split: &mut can_split });
        can_split.then_some(DigitRows { lanes, layout, rows })
    }

    /// The blocks of a row.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &[f32] {
        let stride = self.layout.stride();
        &self.rows[row * stride..][..stride]
    }
}

struct SplitRows<'a, S> {
    layout: S,
    data: &'a [f32],
    depth: usize,
    places: &'a mut [f32],
    /// Whether all numbers could be split.
    can_split: &'a mut bool,
}

impl<L: Copy, S: DigitLayout<L>> On<L> for SplitRows<'_, S> {
    #[inline(always)]
    fn run(self, lanes: L) {
        let places = self.places.chunks_exact_mut(self.layout.stride());
        for (row, place) in self.data.chunks_exact(self.depth).zip(places) {
            *self.can_split &= self.layout.split_row(lanes, row, place);
        }
    }
}

/// The scales of numbers of which these are the largest ones, without signs, where integers go up to the most; and whether all can
/// be [split](DigitLayout::split_row).
#[inline(always)]
pub(super) fn scales_of<L: Lanes<N>, const N: usize>(
    lanes: L,
    largest: L::Floats,
    most: f32,
) -> (L::Floats, bool) {
    let mut numbers = [0.; N];
    lanes.store(&mut numbers, largest);
    let mut can_split = true;
    for number in &mut numbers {
        let (scale, fits) = scale_of(*number, most);
        can_split &= fits;
        *number = scale;
    }
    (lanes.load(&numbers), can_split)
}

/// The largest one of numbers without signs, in each lane, or one that is not finite, if there is such.
#[inline(always)]
pub(super) fn larger(_: Avx512Vnni, largest: __m512, numbers: __m512) -> __m512 {
    // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`.
    unsafe {
        // As integers, NaN is larger than infinity.
        let numbers = _mm512_castps_si512(_mm512_abs_ps(numbers));
        _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(largest), numbers))
    }
}

/// Takes the lowest digit of integers off, as a byte: between -128 and 127 if it has a sign, else between 0 and 255.
#[inline(always)]
pub(super) fn digit(_: Avx512Vnni, integer: &mut __m512i, has_sign: bool) -> __m512i {
    // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`.
    unsafe {
        let byte = _mm512_and_si512(*integer, _mm512_set1_epi32(0xff));
        let carry = _mm512_set1_epi32(if has_sign { 128 } else { 0 });
        *integer = _mm512_srai_epi32::<8>(_mm512_add_epi32(*integer, carry));
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
