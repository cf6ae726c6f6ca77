//! Few rows of data, and codes of 8 bits, where rows are one group and the processor has AVX-512 with VNNI: the data has
//! [digits](super::digits), in the order of the codes.
//!
//! Unsigned codes meet signed digits. Signed codes meet unsigned ones, those of `q + 2^23`: from the sum of the products with the highest
//! digits, 128 times the sum of the codes is taken away.

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::digits::{DigitLayout, DigitRows, LANES, MOST_INTEGER, digit, larger, scales_of};
use super::matrix::{CompressedMatrix, FewTokensTask};
use crate::isa::{Avx512Vnni, Lanes, On, padded};
use crate::memory::StreamPrefetch;

/// The codes of a word, which have one scale.
const WORD_CODES: usize = 4;

/// The numbers of a block.
const WIDTH: usize = WORD_CODES * LANES;

/// A block of a row of data: the digits of its numbers, the highest ones first; the scales of its words; and the sums of their
/// integers.
type ByteBlock = [[f32; LANES]; 5];

/// Rows of data as digits, for codes of 8 bits.
pub(super) type ByteDigits = DigitRows<Avx512Vnni, ByteLayout>;

impl ByteDigits {
    /// None if some numbers cannot be [split](DigitLayout::split_row).
    pub fn of(lanes: Avx512Vnni, matrix: &CompressedMatrix, data: &[f32]) -> Option<ByteDigits> {
        let blocks = matrix.depth.div_ceil(WIDTH);
        let layout = ByteLayout { blocks, are_signed: !matrix.format.is_signed() };
        DigitRows::new(lanes, layout, data, matrix.depth)
    }

    #[inline(always)]
    fn blocks(&self, row: usize) -> &[ByteBlock] {
        self.row(row).as_chunks().0.as_chunks().0
    }
}

/// The blocks of a row of data for codes of 8 bits.
#[derive(Clone, Copy)]
pub(super) struct ByteLayout {
    blocks: usize,
    /// Whether digits are signed: then codes are not.
    are_signed: bool,
}

impl DigitLayout<Avx512Vnni> for ByteLayout {
    fn stride(self) -> usize {
        self.blocks * size_of::<ByteBlock>() / size_of::<f32>()
    }

    #[inline(always)]
    fn split_row(self, lanes: Avx512Vnni, row: &[f32], place: &mut [f32]) -> bool {
        let blocks = place.as_chunks_mut().0.as_chunks_mut().0;
        let mut can_split = true;
        for (numbers, block) in row.chunks(WIDTH).zip(blocks) {
            can_split &= self.write_block(lanes, &padded(numbers), block);
        }
        can_split
    }
}

impl ByteLayout {
    /// Whether the numbers could be split.
    #[inline(always)]
    fn write_block(self, lanes: Avx512Vnni, numbers: &[f32; WIDTH], block: &mut ByteBlock) -> bool {
        // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`; what is written has the size of a vector of 128
        // bits.
        unsafe {
            let mut can_split = true;
            for (vector, numbers) in numbers.as_chunks::<LANES>().0.iter().enumerate() {
                let numbers = lanes.load(numbers);
                // Each lane has what its word has: what its pair has, and then both.
                let size = _mm512_abs_ps(numbers);
                let pairs = larger(lanes, size, _mm512_permute_ps::<0b10_11_00_01>(size));
                let largest = larger(lanes, pairs, _mm512_permute_ps::<0b01_00_11_10>(pairs));
                let (scale, fits) = scales_of(lanes, largest, MOST_INTEGER);
                can_split &= fits;
                let mut integer = _mm512_cvtps_epi32(_mm512_div_ps(numbers, scale));
                let pairs =
                    _mm512_add_epi32(integer, _mm512_shuffle_epi32::<0b10_11_00_01>(integer));
                let sum = _mm512_add_epi32(pairs, _mm512_shuffle_epi32::<0b01_00_11_10>(pairs));
                if !self.are_signed {
                    integer = _mm512_add_epi32(integer, _mm512_set1_epi32(1 << 23));
                }
                let words = LANES / WORD_CODES * vector..LANES / WORD_CODES * (vector + 1);
                let (digits, behind) = block.split_at_mut(3);
                for place in digits.iter_mut().rev() {
                    let bytes = _mm512_cvtepi32_epi8(digit(lanes, &mut integer, self.are_signed));
                    _mm_storeu_si128(place[words.clone()].as_mut_ptr().cast(), bytes);
                }
                for (place, numbers) in behind.iter_mut().zip([scale, _mm512_castsi512_ps(sum)]) {
                    let first = _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, numbers));
                    _mm_storeu_ps(place[words.clone()].as_mut_ptr(), first);
                }
            }
            can_split
        }
    }
}

impl On<Avx512Vnni> for FewTokensTask<'_, '_, ByteDigits> {
    #[inline(always)]
    fn run(mut self, lanes: Avx512Vnni) {
        match (self.matrix.format.is_signed(), self.parameters.zero_points.is_empty()) {
            (true, true) => self.of_all_tokens::<true, false>(lanes),
            (true, false) => self.of_all_tokens::<true, true>(lanes),
            (false, true) => self.of_all_tokens::<false, false>(lanes),
            (false, false) => self.of_all_tokens::<false, true>(lanes),
        }
    }
}

impl FewTokensTask<'_, '_, ByteDigits> {
    #[inline(always)]
    fn of_all_tokens<const SIGNED: bool, const SHIFTED: bool>(&mut self, lanes: Avx512Vnni) {
        for first in (0..self.output.len()).step_by(2) {
            match self.output.len() - first {
                1 => self.of_tokens::<SIGNED, SHIFTED, 1>(lanes, first),
                _ => self.of_tokens::<SIGNED, SHIFTED, 2>(lanes, first),
            }
        }
    }

    /// The products with `TOKENS` rows of data.
    #[inline(always)]
    fn of_tokens<const SIGNED: bool, const SHIFTED: bool, const TOKENS: usize>(
        &mut self,
        lanes: Avx512Vnni,
        first: usize,
    ) {
        let count = self.output[first].len();
        let fours = count / 4 * 4;
        for row in (0..fours).step_by(4) {
            self.rows::<SIGNED, SHIFTED, 4, TOKENS>(lanes, row, first);
        }
        for row in fours..count {
            self.rows::<SIGNED, SHIFTED, 1, TOKENS>(lanes, row, first);
        }
    }

    /// `ROWS` rows of the matrix, which have zero points if they are `SHIFTED`, and `TOKENS` rows of data.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn rows<const SIGNED: bool, const SHIFTED: bool, const ROWS: usize, const TOKENS: usize>(
        &mut self,
        lanes: Avx512Vnni,
        first: usize,
        first_token: usize,
    ) {
        let codes: [(&[[u8; WIDTH]], &[u8]); ROWS] =
            std::array::from_fn(|row| self.row(first + row).as_chunks());
        let whole = codes[0].0.len();
        let of_blocks = codes.map(|(blocks, _)| &blocks[..whole]);
        let data: [&[ByteBlock]; TOKENS] =
            std::array::from_fn(|row| self.data.blocks(first_token + row));
        let of_data = data.map(|data| &data[..whole]);
        let mut zero_points = [lanes.splat(0.); ROWS];
        if SHIFTED {
            for row in 0..ROWS {
                zero_points[row] = lanes.splat(-self.parameters.zero_points[first + row]);
            }
        }
        let mut totals = [[lanes.splat(0.); TOKENS]; ROWS];
        let mut ahead =
            StreamPrefetch::behind(self.row(first).as_ptr(), ROWS * self.matrix.row_bytes());
        for block in 0..whole {
            ahead.ask(ROWS * WIDTH);
            let codes = std::array::from_fn(|row| &of_blocks[row][block]);
            let blocks = of_data.map(|data| &data[block]);
            add::<SIGNED, SHIFTED, ROWS, TOKENS>(lanes, codes, blocks, &zero_points, &mut totals);
        }
        if whole < data[0].len() {
            let mut last = [[0; WIDTH]; ROWS];
            for row in 0..ROWS {
                let (_, rest) = codes[row];
                ahead.ask(rest.len());
                last[row] = padded(rest);
            }
            let (codes, blocks) = (last.each_ref(), data.map(|data| &data[whole]));
            add::<SIGNED, SHIFTED, ROWS, TOKENS>(lanes, codes, blocks, &zero_points, &mut totals);
        }
        for row in 0..ROWS {
            for token in 0..TOKENS {
                self.output[first_token + token][first + row] =
                    lanes.sum(totals[row][token]) * self.parameters.scales[first + row];
            }
        }
    }
}

/// Adds the products of the codes of a block of some rows and blocks of data. Zero points have the other sign.
#[inline(always)]
fn add<const SIGNED: bool, const SHIFTED: bool, const ROWS: usize, const TOKENS: usize>(
    lanes: Avx512Vnni,
    codes: [&[u8; WIDTH]; ROWS],
    blocks: [&ByteBlock; TOKENS],
    zero_points: &[__m512; ROWS],
    totals: &mut [[__m512; TOKENS]; ROWS],
) {
    // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`; what is read has the size of a vector.
    unsafe {
        let zeros = _mm512_setzero_si512();
        for row in 0..ROWS {
            let codes = _mm512_loadu_si512(codes[row].as_ptr().cast());
            for token in 0..TOKENS {
                let [a, b, c, scale, sum] = blocks[token];
                let multiply = |sum, digits| {
                    let digits = _mm512_castps_si512(lanes.load(digits));
                    match SIGNED {
                        true => _mm512_dpbusd_epi32(sum, digits, codes),
                        false => _mm512_dpbusd_epi32(sum, codes, digits),
                    }
                };
                let mut high = multiply(zeros, a);
                if SIGNED {
                    let above = _mm512_set1_epi8(128_u8.cast_signed());
                    high = _mm512_sub_epi32(high, _mm512_dpbusd_epi32(zeros, above, codes));
                }
                let high = multiply(_mm512_slli_epi32::<8>(high), b);
                let low = multiply(zeros, c);
                // As an integer, the sum of both would not have room.
                let [high, low] = [_mm512_cvtepi32_ps(high), _mm512_cvtepi32_ps(low)];
                let mut product = lanes.mul_add(high, lanes.splat(256.), low);
                if SHIFTED {
                    let sum = _mm512_cvtepi32_ps(_mm512_castps_si512(lanes.load(sum)));
                    product = lanes.mul_add(zero_points[row], sum, product);
                }
                totals[row][token] = lanes.mul_add(product, lanes.load(scale), totals[row][token]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compressed::digits::tests::numbers;
    use crate::isa::Instructions;

    #[test]
    fn digits_stand_for_the_numbers() {
        let Some(lanes) = Instructions::detect().avx512_vnni() else { return };
        let data = numbers(WORD_CODES, 2 * WIDTH);
        for are_signed in [true, false] {
            let layout = ByteLayout { blocks: 2, are_signed };
            let rows = DigitRows::new(lanes, layout, &data, 2 * WIDTH).expect("they are finite");
            let blocks = rows.blocks(0);
            assert_eq!(blocks.len(), 2);
            for (place, word) in data.as_chunks::<WORD_CODES>().0.iter().enumerate() {
                let [a, b, c, scale, sum] =
                    blocks[place / LANES].map(|vector| vector[place % LANES]);
                let most = word.iter().fold(0f32, |most, it| most.max(it.abs()));
                let most = f64::from(most) * 2f64.powi(-23);
                for (code, expected) in word.iter().enumerate() {
                    let [a, b, c] = [a, b, c].map(|digits| match digits.to_ne_bytes()[code] {
                        byte if are_signed => i32::from(byte.cast_signed()),
                        byte => i32::from(byte),
                    });
                    let above = if are_signed { 0 } else { 1 << 23 };
                    let number = f64::from(65536 * a + 256 * b + c - above) * f64::from(scale);
                    assert!(
                        (number - f64::from(*expected)).abs() <= most,
                        "{number} of word {place}, not {expected}"
                    );
                }
                let expected: f64 = word.iter().copied().map(f64::from).sum();
                let sum = f64::from(sum.to_bits().cast_signed()) * f64::from(scale);
                let error = (sum - expected).abs();
                assert!(error <= 5. * most, "the sum of word {place} is wrong by {error}");
            }
        }
    }
}
