//! Vectors of 256 bits, of which `vpmaddubsw` multiplies pairs of bytes, and adds them in 16 bits.
//!
//! A number `x` is `scale * q`, where neighbours have one scale, and `q = 32768 a + 128 b + c`, with digits of
//! a byte. A sum of 16 products of a digit and a code, which is less than 16, has room in 16 bits. `vpmaddwd` multiplies two such sums with
//! what their digit counts, and adds them: 32768 has no room either, so that `-a` is multiplied with -32768. As `q` is less than 2^22, the
//! sum of 32 products has room in 32 bits, and is exact.

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::digits::scales_of;
use super::*;
use crate::isa::{Avx2, Lanes, first_words, transpose_halves};

const LANES: usize = 8;

/// What the digits count, the highest one first, which is stored with the other sign.
const COUNTS: [i16; 3] = [i16::MIN, 128, 1];

/// The largest integer: the largest first digit without others, and room for a scale that is rounded.
const MOST_INTEGER: f32 = 4_161_500.;

impl NibbleLanes<LANES> for Avx2 {
    /// Pairs of rows take more time.
    const IN_PAIRS: bool = false;

    #[inline(always)]
    fn write_block<const V: usize, const CORRECTIONS: usize>(
        self,
        numbers: &mut [__m256],
        block: &mut NibbleBlock<LANES, V, CORRECTIONS>,
    ) -> bool {
        // SAFETY: the machine has the instructions, as there is a value of `Avx2`.
        unsafe {
            // As integers, NaN is larger than infinity.
            let mut largest = _mm256_setzero_si256();
            for number in &*numbers {
                let size = _mm256_andnot_ps(self.splat(-0.), *number);
                largest = _mm256_max_epu32(largest, _mm256_castps_si256(size));
            }
            let (scale, can_split) = scales_of(self, _mm256_castsi256_ps(largest), MOST_INTEGER);
            let mut sum = _mm256_setzero_si256();
            for vector in 0..V {
                let mut digits = [[_mm256_setzero_si256(); 3]; 2];
                for code in 0..CODES {
                    let number = numbers[CODES * vector + code];
                    let integer = _mm256_cvtps_epi32(_mm256_div_ps(number, scale));
                    sum = _mm256_add_epi32(sum, integer);
                    let (rest, lowest) = split_off::<7>(self, integer);
                    let (highest, middle) = split_off::<8>(self, rest);
                    let highest = _mm256_sub_epi32(_mm256_setzero_si256(), highest);
                    for (digit, integer) in [highest, middle, lowest].into_iter().enumerate() {
                        let byte = _mm256_and_si256(integer, _mm256_set1_epi32(0xff));
                        let above = _mm256_set1_epi32(8 * (code / 2) as i32);
                        let place = &mut digits[code % 2][digit];
                        *place = _mm256_or_si256(*place, _mm256_sllv_epi32(byte, above));
                    }
                }
                for parity in 0..2 {
                    for digit in 0..3 {
                        let digits = _mm256_castsi256_ps(digits[parity][digit]);
                        self.store(&mut block.digits[parity][vector][digit], digits);
                    }
                }
            }
            self.store(&mut block.scale, scale);
            self.store(&mut block.sum, _mm256_cvtepi32_ps(sum));
            if let [correction] = &mut block.corrections[..] {
                self.store(correction, _mm256_castsi256_ps(_mm256_slli_epi32::<3>(sum)));
            }
            can_split
        }
    }

    #[inline(always)]
    fn transpose_block(self, words: [__m256i; FOUR]) -> [__m256i; FOUR] {
        // SAFETY: the machine has the instructions, as there is a value of `Avx2`.
        unsafe { transpose_halves(words) }
    }

    #[inline(always)]
    fn first_words(self, bytes: &[u8]) -> __m256i {
        first_words(self, bytes)
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn add_block<
        const SHIFTED: bool,
        const ROWS: usize,
        const TOKENS: usize,
        const V: usize,
        const CORRECTIONS: usize,
    >(
        self,
        words: [[__m256i; V]; ROWS],
        data: [&NibbleBlock<LANES, V, CORRECTIONS>; TOKENS],
        [scales, zero_points]: [[__m256; ROWS]; 2],
        asks: BlockPrefetch<ROWS>,
        totals: &mut [[__m256; TOKENS]; ROWS],
    ) {
        // SAFETY: the machine has the instructions, as there is a value of `Avx2`.
        unsafe {
            for row in 0..ROWS {
                let mut sums = [[_mm256_setzero_si256(); 3]; TOKENS];
                for vector in 0..V {
                    if vector % 2 == 0 {
                        asks.ahead.ask(V.min(2) * size_of::<WordVector<LANES>>());
                    }
                    let mut words = words[row][vector];
                    if CORRECTIONS > 0 {
                        // As unsigned codes, signed ones are greater by 8.
                        words = _mm256_xor_si256(words, _mm256_set1_epi8(0x88_u8.cast_signed()));
                    }
                    let low = _mm256_set1_epi8(15);
                    let even = _mm256_and_si256(words, low);
                    let odd = _mm256_and_si256(_mm256_srli_epi16::<4>(words), low);
                    for token in 0..TOKENS {
                        for digit in 0..3 {
                            let of_even = self.load(&data[token].digits[0][vector][digit]);
                            let of_odd = self.load(&data[token].digits[1][vector][digit]);
                            let products = _mm256_add_epi16(
                                _mm256_maddubs_epi16(even, _mm256_castps_si256(of_even)),
                                _mm256_maddubs_epi16(odd, _mm256_castps_si256(of_odd)),
                            );
                            let sum = &mut sums[token][digit];
                            *sum = _mm256_add_epi16(*sum, products);
                        }
                    }
                }
                for token in 0..TOKENS {
                    let mut integer = _mm256_setzero_si256();
                    for digit in 0..3 {
                        let count = _mm256_set1_epi16(COUNTS[digit]);
                        integer =
                            _mm256_add_epi32(integer, _mm256_madd_epi16(sums[token][digit], count));
                    }
                    if let [correction] = &data[token].corrections[..] {
                        let correction = _mm256_castps_si256(self.load(correction));
                        integer = _mm256_sub_epi32(integer, correction);
                    }
                    let mut product = _mm256_cvtepi32_ps(integer);
                    if SHIFTED {
                        let sum = self.load(&data[token].sum);
                        product = _mm256_fnmadd_ps(zero_points[row], sum, product);
                    }
                    let product = self.mul(product, self.load(&data[token].scale));
                    totals[row][token] = self.mul_add(scales[row], product, totals[row][token]);
                }
            }
        }
    }
}

/// Takes the lowest digit of integers off, which has so many bits: what is left, and the digit, which may be negative.
#[inline(always)]
fn split_off<const BITS: i32>(_: Avx2, integer: __m256i) -> (__m256i, __m256i) {
    // SAFETY: the machine has the instructions, as there is a value of `Avx2`.
    unsafe {
        let half = _mm256_set1_epi32(1 << (BITS - 1));
        let rest = _mm256_srai_epi32::<BITS>(_mm256_add_epi32(integer, half));
        (rest, _mm256_sub_epi32(integer, _mm256_slli_epi32::<BITS>(rest)))
    }
}
