//! Few rows of data, and codes of 4 or 8 bits, on vectors of WebAssembly: the data has two digits of 12 bits, which meet codes of 16.
//!
//! A number is `scale * q`, where [`BLOCK`] neighbours have one scale, and `q = 2048 a + b`. Only `q` is rounded: each number is wrong by
//! about 2^-23 of the largest of its block, as much as each sum in floats is.

use std::arch::wasm32::*;

use pulp::bytemuck::cast;

use super::format::all;
use super::matrix::{CompressedMatrix, FewTokensTask, LEAST_GROUP};
use super::scale::scale_of;
use crate::isa::{On, Simd128, padded, widened};

/// The numbers that have one scale. The codes that they meet are of one group.
const BLOCK: usize = LEAST_GROUP;

/// How many bits the second digit has.
const LOW_BITS: u32 = 11;

/// The largest integer: the first digit of larger ones would not be far from 2048, and the scale is rounded.
const MOST_INTEGER: f32 = 4_194_000.;

/// A block of a row of data.
struct DigitBlock {
    /// The higher digits of all numbers, and the lower ones, in the order of [`codes`].
    digits: [[v128; 4]; 2],
    scale: f32,
    /// The sum of the numbers.
    sum: f32,
}

/// Rows of data as digits.
pub(super) struct CodeDigits {
    pub lanes: Simd128,
    blocks: Vec<DigitBlock>,
    of_row: usize,
}

impl CodeDigits {
    /// None if some numbers have no [scale](scale_of).
    pub fn new(lanes: Simd128, matrix: &CompressedMatrix, data: &[f32]) -> Option<CodeDigits> {
        let of_row = matrix.depth.div_ceil(BLOCK);
        let rows = data.chunks_exact(matrix.depth);
        let numbers = rows.flat_map(|row| row.chunks(BLOCK).map(padded));
        let blocks = numbers.map(|numbers| DigitBlock::new(&numbers, matrix.format.bits()));
        Some(CodeDigits { lanes, blocks: blocks.collect::<Option<_>>()?, of_row })
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[DigitBlock] {
        &self.blocks[row * self.of_row..][..self.of_row]
    }
}

impl DigitBlock {
    fn new(numbers: &[f32; BLOCK], bits: usize) -> Option<DigitBlock> {
        // As integers, NaN is larger than infinity.
        let largest = numbers.iter().fold(0, |most, number| number.abs().to_bits().max(most));
        let (scale, fits) = scale_of(f32::from_bits(largest), MOST_INTEGER);
        let (mut digits, mut sum) = ([[[0i16; 8]; 4]; 2], 0);
        for (place, number) in numbers.iter().enumerate() {
            let integer = (number / scale).round_ties_even() as i32;
            let high = (integer + (1 << (LOW_BITS - 1))) >> LOW_BITS;
            let (vector, lane) = match bits {
                4 => (place % 4, place / 4),
                _ => (place / 8, place % 8),
            };
            digits[0][vector][lane] = high as i16;
            digits[1][vector][lane] = (integer - (high << LOW_BITS)) as i16;
            sum += integer;
        }
        fits.then(|| DigitBlock { digits: cast(digits), scale, sum: sum as f32 * scale })
    }
}

/// The codes of a block: of eight bits in their order. Words of four codes of four bits are shifted, so that a vector has those of all words
/// in one place.
#[inline(always)]
fn codes<const BITS: usize, const SIGNED: bool>(bytes: &[u8]) -> [v128; 4] {
    if BITS == 4 {
        let words: v128 = cast(*all::<u8, 16>(bytes));
        let back = |words| if SIGNED { i16x8_shr(words, 12) } else { u16x8_shr(words, 12) };
        let [a, b, c] = [i16x8_shl(words, 12), i16x8_shl(words, 8), i16x8_shl(words, 4)];
        [back(a), back(b), back(c), back(words)]
    } else {
        let [a, b, c, d]: [[u8; 8]; 4] = cast(*all::<u8, 32>(bytes));
        [widened(&a, SIGNED), widened(&b, SIGNED), widened(&c, SIGNED), widened(&d, SIGNED)]
    }
}

impl On<Simd128> for FewTokensTask<'_, '_, CodeDigits> {
    #[inline(always)]
    fn run(mut self, _: Simd128) {
        match (self.matrix.format.bits(), self.matrix.format.is_signed()) {
            (4, true) => self.of_all_tokens::<4, true>(),
            (4, false) => self.of_all_tokens::<4, false>(),
            (_, true) => self.of_all_tokens::<8, true>(),
            (_, false) => self.of_all_tokens::<8, false>(),
        }
    }
}

impl FewTokensTask<'_, '_, CodeDigits> {
    #[inline(always)]
    fn of_all_tokens<const BITS: usize, const SIGNED: bool>(&mut self) {
        let count = self.output[0].len();
        for data in 0..self.output.len() {
            for row in (0..count / 2 * 2).step_by(2) {
                self.rows::<BITS, SIGNED, 2>(row, data);
            }
            if count % 2 == 1 {
                self.rows::<BITS, SIGNED, 1>(count - 1, data);
            }
        }
    }

    /// `ROWS` rows of the matrix and a row of data.
    fn rows<const BITS: usize, const SIGNED: bool, const ROWS: usize>(
        &mut self,
        first: usize,
        data: usize,
    ) {
        let (blocks, groups) = (self.data.row(data), self.matrix.groups());
        let of_group = blocks.len() / groups;
        let bytes: [&[u8]; ROWS] = std::array::from_fn(|row| self.row(first + row));
        let mut totals = [f32x4_splat(0.); ROWS];
        let mut taken_off = [0.; ROWS];
        for (group, blocks) in blocks.chunks_exact(of_group).enumerate() {
            let mut sums = [f32x4_splat(0.); ROWS];
            let mut sum_of_data = 0.;
            for (number, block) in blocks.iter().enumerate() {
                let begin = (group * of_group + number) * BLOCK * BITS / 8;
                sum_of_data += block.sum;
                for row in 0..ROWS {
                    let sum = match bytes[row].get(begin..begin + BLOCK * BITS / 8) {
                        Some(bytes) => sum_of_block::<BITS, SIGNED>(bytes, block),
                        // The end of the row. What is missing meets zeros.
                        None => {
                            let rest: [u8; BLOCK] = padded(&bytes[row][begin..]);
                            sum_of_block::<BITS, SIGNED>(&rest, block)
                        }
                    };
                    sums[row] = f32x4_add(sums[row], f32x4_mul(sum, f32x4_splat(block.scale)));
                }
            }
            for row in 0..ROWS {
                let place = (first + row) * groups + group;
                let scale = self.parameters.scales[place];
                totals[row] = f32x4_add(totals[row], f32x4_mul(sums[row], f32x4_splat(scale)));
                if let Some(zero_point) = self.parameters.zero_points.get(place) {
                    taken_off[row] += scale * zero_point * sum_of_data;
                }
            }
        }
        for row in 0..ROWS {
            let [a, b, c, d]: [f32; 4] = cast(totals[row]);
            self.output[data][first + row] = (a + b) + (c + d) - taken_off[row];
        }
    }
}

/// The sums of the products of codes and integers, of some in each lane.
#[inline(always)]
fn sum_of_block<const BITS: usize, const SIGNED: bool>(bytes: &[u8], block: &DigitBlock) -> v128 {
    let codes = codes::<BITS, SIGNED>(bytes);
    let [high, low] = &block.digits;
    let mut sums = [i32x4_dot_i16x8(codes[0], high[0]), i32x4_dot_i16x8(codes[0], low[0])];
    for vector in 1..4 {
        sums[0] = i32x4_add(sums[0], i32x4_dot_i16x8(codes[vector], high[vector]));
        sums[1] = i32x4_add(sums[1], i32x4_dot_i16x8(codes[vector], low[vector]));
    }
    let [high, low] = sums;
    if BITS == 4 {
        return f32x4_convert_i32x4(i32x4_add(i32x4_shl(high, LOW_BITS), low));
    }
    // As an integer, the sum of both would not have room.
    let high = f32x4_mul(f32x4_convert_i32x4(high), f32x4_splat((1 << LOW_BITS) as f32));
    f32x4_add(high, f32x4_convert_i32x4(low))
}
