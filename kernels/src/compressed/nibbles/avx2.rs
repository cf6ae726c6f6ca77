//! Vectors of 256 bits, of which `vpmaddubsw` multiplies pairs of bytes, and adds them in 16 bits.
//!
//! A number `x` is `scale * q`, where 32 neighbours have one scale (eight at the end of a row), and `q = 32768 a + 128 b + c`, with digits of
//! a byte. A sum of 16 products of a digit and a code, which is less than 16, has room in 16 bits. `vpmaddwd` multiplies two such sums with
//! what their digit counts, and adds them: 32768 has no room either, so that `-a` is multiplied with -32768. As `q` is less than 2^22, the
//! sum of 32 products has room in 32 bits, and is exact.
//!
//! Each number is wrong by less than 2^-22 of the largest one that has its scale.

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::digits::LEAST;
use super::*;
use crate::isa::{Avx2, Lanes, first_words, transpose_halves};

const LANES: usize = 8;

/// What the digits count, the highest one first, which is stored with the other sign.
const COUNTS: [i16; 3] = [i16::MIN, 128, 1];

/// The largest whole number: the largest first digit without others, and room for a scale that is rounded.
const MOST: f32 = 4_161_500.;

impl Multiply<LANES> for Avx2 {
    /// Those of the sums of products.
    const FOR_SIGNED: usize = 1;

    /// Rows of 2,048 codes take 1.05 to 1.1 times as long in pairs (AMD EPYC, family 25 model 1).
    const IN_PAIRS: bool = false;

    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "closures would not be compiled for the vectors"
    )]
    fn split<const V: usize>(
        self,
        numbers: &[WordNumbers<LANES>; V],
        tile: &mut [[f32; LANES]],
    ) -> bool {
        // Each lane has so many numbers.
        let count = V * CODES;
        const { assert!(V <= FOUR) }
        let numbers = numbers.as_flattened().as_flattened();
        // SAFETY: the machine has the instructions, as there is a value of `Avx2`. Each lane has `count` numbers from its place on, the
        // last one up to the end.
        unsafe {
            let mut of_lanes = [self.splat(0.); FOUR * CODES];
            for first in (0..count).step_by(LANES) {
                let mut words = [_mm256_setzero_si256(); LANES];
                for lane in 0..LANES {
                    let place = const { places_of_lanes::<LANES>(V) }[lane] + first;
                    words[lane] = _mm256_loadu_si256(numbers.as_ptr().add(place).cast());
                }
                let words = self.transpose(words);
                for number in 0..LANES {
                    of_lanes[first + number] = _mm256_castsi256_ps(words[number]);
                }
            }
            let mut largest = self.splat(0.);
            let mut is_exact = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
            for number in &of_lanes[..count] {
                let size = _mm256_andnot_ps(self.splat(-0.), *number);
                let is_finite = _mm256_cmp_ps::<_CMP_LE_OQ>(size, self.splat(f32::MAX));
                is_exact = _mm256_and_ps(is_exact, is_finite);
                largest = _mm256_max_ps(largest, size);
            }
            let is_zero = _mm256_cmp_ps::<_CMP_EQ_OQ>(largest, self.splat(0.));
            let has_all_bits = _mm256_cmp_ps::<_CMP_GE_OQ>(largest, self.splat(LEAST));
            is_exact = _mm256_and_ps(is_exact, _mm256_or_ps(is_zero, has_all_bits));
            let largest = _mm256_max_ps(largest, self.splat(LEAST));
            let scale = _mm256_div_ps(largest, self.splat(MOST));
            let mut sum = _mm256_setzero_si256();
            for vector in 0..V {
                let mut digits = [_mm256_setzero_si256(); DIGITS];
                for code in 0..CODES {
                    let number = of_lanes[CODES * vector + code];
                    let whole = _mm256_cvtps_epi32(_mm256_div_ps(number, scale));
                    sum = _mm256_add_epi32(sum, whole);
                    let (rest, lowest) = split_off::<7>(self, whole);
                    let (highest, middle) = split_off::<8>(self, rest);
                    let highest = _mm256_sub_epi32(_mm256_setzero_si256(), highest);
                    for (digit, whole) in [highest, middle, lowest].into_iter().enumerate() {
                        let byte = _mm256_and_si256(whole, _mm256_set1_epi32(0xff));
                        let above = _mm256_set1_epi32(8 * (code / 2) as i32);
                        let place = &mut digits[3 * (code % 2) + digit];
                        *place = _mm256_or_si256(*place, _mm256_sllv_epi32(byte, above));
                    }
                }
                for digit in 0..DIGITS {
                    let place = &mut tile[of_digit(V, vector, digit)];
                    self.store(place, _mm256_castsi256_ps(digits[digit]));
                }
            }
            let [unit, place_of_sum, of_eights @ ..] = &mut tile[DIGITS * V..] else {
                unreachable!("there are two vectors behind the digits")
            };
            self.store(unit, scale);
            self.store(place_of_sum, _mm256_cvtepi32_ps(sum));
            if let [eights] = of_eights {
                self.store(eights, _mm256_castsi256_ps(_mm256_slli_epi32::<3>(sum)));
            }
            _mm256_movemask_ps(is_exact) == 0xff
        }
    }

    #[inline(always)]
    fn transposed(self, tile: &[WordVector<LANES>; FOUR]) -> [__m256i; FOUR] {
        let [a, b, c, d] = tile;
        // SAFETY: the machine has the instructions, as there is a value of `Avx2`.
        unsafe {
            transpose_halves([
                self.load_words(a),
                self.load_words(b),
                self.load_words(c),
                self.load_words(d),
            ])
        }
    }

    #[inline(always)]
    fn first_words(self, bytes: &[u8]) -> __m256i {
        first_words(self, bytes)
    }

    #[inline(always)]
    fn add_tile<
        T: ParameterTypes,
        const SIGNED: bool,
        const C: usize,
        const R: usize,
        const V: usize,
        const COUNT: usize,
    >(
        self,
        words: [[__m256i; V]; C],
        data: [&[[f32; LANES]; COUNT]; R],
        [scales, zero_points]: [[__m256; C]; 2],
        asks: TilePrefetch<C>,
        totals: &mut [[__m256; R]; C],
    ) {
        const { assert!(COUNT == vectors_of_data(V, if SIGNED { Self::FOR_SIGNED } else { 0 })) };
        // SAFETY: the machine has the instructions, as there is a value of `Avx2`.
        unsafe {
            for row in 0..C {
                let mut sums = [[_mm256_setzero_si256(); 3]; R];
                for vector in 0..V {
                    if vector % 2 == 0 {
                        asks.ahead.ask(V.min(2) * size_of::<WordVector<LANES>>());
                    }
                    let mut words = words[row][vector];
                    if SIGNED {
                        // As unsigned codes, signed ones are greater by 8.
                        words = _mm256_xor_si256(words, _mm256_set1_epi8(0x88_u8.cast_signed()));
                    }
                    let low = _mm256_set1_epi8(15);
                    let even = _mm256_and_si256(words, low);
                    let odd = _mm256_and_si256(_mm256_srli_epi16::<4>(words), low);
                    for of in 0..R {
                        for digit in 0..3 {
                            let of_even = self.load(&data[of][of_digit(V, vector, digit)]);
                            let of_odd = self.load(&data[of][of_digit(V, vector, digit + 3)]);
                            let products = _mm256_add_epi16(
                                _mm256_maddubs_epi16(even, _mm256_castps_si256(of_even)),
                                _mm256_maddubs_epi16(odd, _mm256_castps_si256(of_odd)),
                            );
                            let sum = &mut sums[of][digit];
                            *sum = _mm256_add_epi16(*sum, products);
                        }
                    }
                }
                for of in 0..R {
                    let behind = &data[of][DIGITS * V..];
                    let mut whole = _mm256_setzero_si256();
                    for digit in 0..3 {
                        let count = _mm256_set1_epi16(COUNTS[digit]);
                        whole = _mm256_add_epi32(whole, _mm256_madd_epi16(sums[of][digit], count));
                    }
                    if SIGNED {
                        let eights = self.load(&behind[EIGHTS]);
                        whole = _mm256_sub_epi32(whole, _mm256_castps_si256(eights));
                    }
                    let mut product = _mm256_cvtepi32_ps(whole);
                    if T::HAS_ZERO_POINTS {
                        let sum = self.load(&behind[SUM]);
                        product = _mm256_fnmadd_ps(zero_points[row], sum, product);
                    }
                    let product = self.mul(product, self.load(&behind[UNIT]));
                    totals[row][of] = self.mul_add(scales[row], product, totals[row][of]);
                }
            }
        }
    }
}

/// Takes the lowest digit of whole numbers off, which has so many bits: what is left, and the digit, which may be negative.
#[inline(always)]
fn split_off<const BITS: i32>(_: Avx2, whole: __m256i) -> (__m256i, __m256i) {
    // SAFETY: the machine has the instructions, as there is a value of `Avx2`.
    unsafe {
        let half = _mm256_set1_epi32(1 << (BITS - 1));
        let rest = _mm256_srai_epi32::<BITS>(_mm256_add_epi32(whole, half));
        (rest, _mm256_sub_epi32(whole, _mm256_slli_epi32::<BITS>(rest)))
    }
}
