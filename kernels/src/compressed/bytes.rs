//! Few rows of data, and codes of 8 bits, where rows are one group and the processor multiplies bytes: as [`digits`](super::digits) has
//! it, with the digits of the data in the order of the codes.
//!
//! In floats they take 1.1 times as long (one row of data, AMD EPYC, family 25 model 17).

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::digits::{lowest_digit, scale_of};
use super::lanes::{Avx512, Lanes, OnVnni};
use super::matrix::{Matrix, Part};
use crate::memory::{AHEAD, Ahead, Scratch};

type Vnni = Avx512<true>;

const LANES: usize = 16;

/// The codes of a word, which have one scale.
const CODES: usize = 4;

/// The numbers of a block.
const WIDTH: usize = CODES * LANES;

/// A block of a row of data: the digits of its numbers, the highest ones first; the scales of its words; and the sums of their numbers.
/// Digits are the bits of floats.
type Block = [[f32; LANES]; 5];

/// Where a block has its scales, and its sums.
const SCALES: usize = 3;
const SUMS: usize = 4;

/// Rows of data in blocks.
pub(super) struct Data {
    lanes: Vnni,
    rows: Scratch,
    /// The blocks of a row.
    blocks: usize,
}

impl Data {
    /// None if a number is not finite, or the largest one of a word is so small that its scale would lose bits.
    pub fn new(lanes: Vnni, matrix: &Matrix, data: &[f32]) -> Option<Data> {
        let depth = matrix.depth;
        let blocks = depth.div_ceil(WIDTH);
        let mut rows =
            Scratch::new(data.len() / depth * blocks * size_of::<Block>() / size_of::<f32>());
        let split = Split { data, depth, blocks: rows.as_chunks_mut().0.as_chunks_mut().0 };
        lanes.enter(split).then_some(Data { lanes, rows, blocks })
    }

    #[inline(always)]
    fn row(&self, row: usize) -> &[Block] {
        &self.rows.as_chunks().0.as_chunks().0[row * self.blocks..][..self.blocks]
    }
}

/// Splits rows of data.
struct Split<'a> {
    data: &'a [f32],
    depth: usize,
    blocks: &'a mut [Block],
}

impl OnVnni for Split<'_> {
    /// Whether all numbers could be split.
    type Output = bool;

    #[inline(always)]
    fn run(self, lanes: Vnni) -> bool {
        let mut blocks = self.blocks.iter_mut();
        let mut is_exact = true;
        for row in self.data.chunks_exact(self.depth) {
            let (whole, rest) = row.as_chunks();
            for (numbers, block) in whole.iter().zip(&mut blocks) {
                is_exact &= split(lanes, numbers, block);
            }
            if !rest.is_empty()
                && let Some(block) = blocks.next()
            {
                let mut numbers = [0.; WIDTH];
                numbers[..rest.len()].copy_from_slice(rest);
                is_exact &= split(lanes, &numbers, block);
            }
        }
        is_exact
    }
}

/// Splits the numbers of a block, if they can be split.
#[inline(always)]
fn split(lanes: Vnni, numbers: &[f32; WIDTH], block: &mut Block) -> bool {
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`; what is written has the size of a vector of 128 bits.
    unsafe {
        let mut is_exact = 0xffff;
        let mut digits = [[_mm_setzero_si128(); 4]; 3];
        for (vector, numbers) in numbers.as_chunks::<LANES>().0.iter().enumerate() {
            let numbers = lanes.load(numbers);
            let size = _mm512_abs_ps(numbers);
            is_exact &= _mm512_cmp_ps_mask::<_CMP_LE_OQ>(size, lanes.splat(f32::MAX));
            // Each lane has what its word has: what its pair has, and then both.
            let pairs = _mm512_max_ps(size, _mm512_permute_ps::<0b10_11_00_01>(size));
            let largest = _mm512_max_ps(pairs, _mm512_permute_ps::<0b01_00_11_10>(pairs));
            let (scale, has_all_bits) = scale_of(lanes, largest);
            is_exact &= has_all_bits;
            let mut whole = _mm512_cvtps_epi32(_mm512_div_ps(numbers, scale));
            let pairs = _mm512_add_epi32(whole, _mm512_shuffle_epi32::<0b10_11_00_01>(whole));
            let sum = _mm512_add_epi32(pairs, _mm512_shuffle_epi32::<0b01_00_11_10>(pairs));
            let sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
            for digits in digits.iter_mut().rev() {
                digits[vector] = _mm512_cvtepi32_epi8(lowest_digit(&mut whole));
            }
            let words = LANES / CODES * vector..LANES / CODES * (vector + 1);
            for (place, numbers) in [(SCALES, scale), (SUMS, sum)] {
                let first = _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, numbers));
                _mm_storeu_ps(block[place][words.clone()].as_mut_ptr(), first);
            }
        }
        for (place, [a, b, c, d]) in block.iter_mut().zip(digits) {
            let digits = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
            let digits = _mm512_inserti32x4::<2>(digits, c);
            let digits = _mm512_inserti32x4::<3>(digits, d);
            lanes.store(place, _mm512_castsi512_ps(digits));
        }
        is_exact == 0xffff
    }
}

/// Multiplies a part of a matrix.
pub(super) fn multiply(part: Part<Data>) {
    part.data.lanes.enter(part);
}

impl OnVnni for Part<'_, '_, Data> {
    type Output = ();

    #[inline(always)]
    fn run(mut self, lanes: Vnni) {
        let above = self.matrix.format.above();
        match (above > 0, above > 0 || !self.parameters.zero_points.is_empty()) {
            (true, _) => self.multiply::<true, true>(lanes),
            (false, true) => self.multiply::<false, true>(lanes),
            (false, false) => self.multiply::<false, false>(lanes),
        }
    }
}

impl Part<'_, '_, Data> {
    #[inline(always)]
    fn multiply<const SIGNED: bool, const SHIFTED: bool>(&mut self, lanes: Vnni) {
        let count = self.output.first().map_or(0, |row| row.len());
        let of_data = self.output.len();
        for first in (0..of_data).step_by(2) {
            let is_pair = of_data - first >= 2;
            let whole = count / 4 * 4;
            for row in (0..whole).step_by(4) {
                match is_pair {
                    true => self.rows::<SIGNED, SHIFTED, 4, 2>(lanes, row, first),
                    false => self.rows::<SIGNED, SHIFTED, 4, 1>(lanes, row, first),
                }
            }
            for row in whole..count {
                match is_pair {
                    true => self.rows::<SIGNED, SHIFTED, 1, 2>(lanes, row, first),
                    false => self.rows::<SIGNED, SHIFTED, 1, 1>(lanes, row, first),
                }
            }
        }
    }

    /// `C` rows of the matrix, and `R` rows of data. `SHIFTED` says that unsigned codes are greater than what they stand for.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn rows<const SIGNED: bool, const SHIFTED: bool, const C: usize, const R: usize>(
        &mut self,
        lanes: Vnni,
        first: usize,
        first_data: usize,
    ) {
        let codes: [(&[[u8; WIDTH]], &[u8]); C] =
            std::array::from_fn(|row| self.row(first + row).as_chunks());
        let whole = codes[0].0.len();
        let of_blocks = codes.map(|(blocks, _)| &blocks[..whole]);
        let data: [&[Block]; R] = std::array::from_fn(|row| self.data.row(first_data + row));
        let of_data = data.map(|data| &data[..whole]);
        let mut shifts = [lanes.splat(0.); C];
        if SHIFTED {
            let above = f32::from(self.matrix.format.above());
            for row in 0..C {
                let zero_point = self.parameters.zero_points.get(first + row);
                shifts[row] = lanes.splat(-(above + zero_point.copied().unwrap_or(0.)));
            }
        }
        let mut totals = [[lanes.splat(0.); R]; C];
        let row_bytes = self.matrix.row_bytes();
        let mut ahead = Ahead::new(self.row(first).as_ptr(), C * row_bytes + AHEAD, AHEAD / 2);
        for block in 0..whole {
            ahead.ask(C * WIDTH);
            let codes = std::array::from_fn(|row| &of_blocks[row][block]);
            let blocks = of_data.map(|data| &data[block]);
            add::<SIGNED, SHIFTED, C, R>(lanes, codes, blocks, &shifts, &mut totals);
        }
        if whole < self.data.blocks {
            let mut last = [[0; WIDTH]; C];
            for row in 0..C {
                let (_, rest) = codes[row];
                last[row][..rest.len()].copy_from_slice(rest);
            }
            let blocks = data.map(|data| &data[whole]);
            add::<SIGNED, SHIFTED, C, R>(lanes, last.each_ref(), blocks, &shifts, &mut totals);
        }
        for row in 0..C {
            for of in 0..R {
                self.output[first_data + of][first + row] =
                    lanes.sum(totals[row][of]) * self.parameters.scales[first + row];
            }
        }
    }
}

/// Adds the products of the codes of a block of some rows and blocks of data.
#[inline(always)]
fn add<const SIGNED: bool, const SHIFTED: bool, const C: usize, const R: usize>(
    lanes: Vnni,
    codes: [&[u8; WIDTH]; C],
    blocks: [&Block; R],
    shifts: &[__m512; C],
    totals: &mut [[__m512; R]; C],
) {
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`; what is read has the size of a vector.
    unsafe {
        let zeros = _mm512_setzero_si512();
        for row in 0..C {
            let mut codes = _mm512_loadu_si512(codes[row].as_ptr().cast());
            if SIGNED {
                codes = _mm512_xor_si512(codes, _mm512_set1_epi8(0x80_u8.cast_signed()));
            }
            for of in 0..R {
                let digits = |digit: usize| _mm512_loadu_si512(blocks[of][digit].as_ptr().cast());
                let high = _mm512_dpbusd_epi32(zeros, codes, digits(0));
                let high = _mm512_dpbusd_epi32(_mm512_slli_epi32::<8>(high), codes, digits(1));
                let low = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(zeros, codes, digits(2)));
                let sum = lanes.mul_add(_mm512_cvtepi32_ps(high), lanes.splat(256.), low);
                let total = &mut totals[row][of];
                if SHIFTED {
                    *total = lanes.mul_add(shifts[row], lanes.load(&blocks[of][SUMS]), *total);
                }
                *total = lanes.mul_add(sum, lanes.load(&blocks[of][SCALES]), *total);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compressed::digits::tests::numbers;
    use crate::compressed::lanes::Kind;

    #[test]
    fn digits_stand_for_the_numbers() {
        let Some(lanes) = Vnni::detect(Kind::detect()) else { return };
        let data = numbers(CODES, 2 * WIDTH);
        let [mut first, mut second] = [Block::default(); 2];
        let (words, _) = data.as_chunks::<CODES>();
        let (blocks, _) = data.as_chunks();
        assert!(split(lanes, &blocks[0], &mut first) && split(lanes, &blocks[1], &mut second));
        for (place, word) in words.iter().enumerate() {
            let (block, lane) = ([&first, &second][place / LANES], place % LANES);
            let most = word.iter().fold(0f32, |most, it| most.max(it.abs()));
            let most = f64::from(most) * 2f64.powi(-23);
            for (code, expected) in word.iter().enumerate() {
                let digit = |vector: usize| {
                    let bytes = block[vector][lane].to_ne_bytes();
                    f64::from(bytes[code].cast_signed())
                };
                let whole = 65536. * digit(0) + 256. * digit(1) + digit(2);
                let number = whole * f64::from(block[SCALES][lane]);
                assert!(
                    (number - f64::from(*expected)).abs() <= most,
                    "{number} of word {place}, not {expected}"
                );
            }
            let sum: f64 = word.iter().copied().map(f64::from).sum();
            let error = (f64::from(block[SUMS][lane]) - sum).abs();
            assert!(error <= 5. * most, "the sum of word {place} is wrong by {error}");
        }
    }
}
