//! Vectors of 512 bits.
//!
//! Two codes, `e` at an even place and `o` at an odd one, are a byte `e + 16 o`. For data `x` and `y`,
//!
//! ```text
//! e * x + o * y = e * (x - y / 16) + (e + 16 * o) * y / 16
//! ```
//!
//! so bytes are multiplied as they are, and only the codes of even places are taken out of them. The scale of a block is a sixteenth of
//! that of the integers: sums with codes of even places count 16 times.

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::sync::atomic::{Ordering, compiler_fence};

use super::super::digits::{LANES, MOST_INTEGER, digit, larger, scales_of};
use super::*;
use crate::isa::{Avx512Vnni, Lanes, transpose_quarters};
use crate::memory::prefetch_first;

/// The bytes of a vector.
const BYTES: usize = CODES * LANES / 2;

impl NibbleLanes<LANES> for Avx512Vnni {
    const IN_PAIRS: bool = true;

    #[inline(always)]
    fn write_block<const V: usize, const CORRECTIONS: usize>(
        self,
        numbers: &mut [__m512],
        block: &mut NibbleBlock<LANES, V, CORRECTIONS>,
    ) -> bool {
        let lanes = self;
        // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`.
        unsafe {
            // What meets codes of even places, and what meets bytes.
            for pair in numbers.as_chunks_mut::<2>().0 {
                pair[0] = _mm512_fnmadd_ps(pair[1], lanes.splat(1. / 16.), pair[0]);
            }
            let mut largest = lanes.splat(0.);
            for number in &*numbers {
                largest = larger(lanes, largest, *number);
            }
            let (scale, can_split) = scales_of(lanes, largest, MOST_INTEGER);
            let mut integers = [_mm512_setzero_si512(); 2];
            let mut without_lowest = [_mm512_setzero_si512(); 2];
            for vector in 0..V {
                let mut digits = [[_mm512_setzero_si512(); 3]; 2];
                for code in 0..CODES {
                    let parity = code % 2;
                    let number = numbers[CODES * vector + code];
                    let mut integer = _mm512_cvtps_epi32(_mm512_div_ps(number, scale));
                    integers[parity] = _mm512_add_epi32(integers[parity], integer);
                    for place in (0..3).rev() {
                        let byte = digit(lanes, &mut integer, true);
                        if place == 2 {
                            without_lowest[parity] =
                                _mm512_add_epi32(without_lowest[parity], integer);
                        }
                        let above = _mm512_set1_epi32(8 * (code / 2) as i32);
                        let place = &mut digits[parity][place];
                        *place = _mm512_or_si512(*place, _mm512_sllv_epi32(byte, above));
                    }
                }
                for parity in 0..2 {
                    for digit in 0..3 {
                        let digits = _mm512_castsi512_ps(digits[parity][digit]);
                        lanes.store(&mut block.digits[parity][vector][digit], digits);
                    }
                }
            }
            // If all codes are 8, those of even places are 8, and bytes are 8 * 17. The sums of the former are shifted by 4.
            let mut high = _mm512_setzero_si512();
            let mut lowest = _mm512_setzero_si512();
            for parity in 0..2 {
                let eights = _mm512_set1_epi32(8 * (16 + parity as i32));
                let rest = without_lowest[parity];
                let digits = _mm512_sub_epi32(integers[parity], _mm512_slli_epi32::<8>(rest));
                high = _mm512_add_epi32(high, _mm512_mullo_epi32(rest, eights));
                lowest = _mm512_add_epi32(lowest, _mm512_mullo_epi32(digits, eights));
            }
            let product = product_of(lanes, high, lowest);
            lanes.store(&mut block.scale, lanes.mul(scale, lanes.splat(1. / 16.)));
            lanes.store(&mut block.sum, lanes.mul(product, lanes.splat(1. / 8.)));
            if let [of_high, of_lowest] = &mut block.corrections[..] {
                lanes.store(of_high, _mm512_castsi512_ps(high));
                lanes.store(of_lowest, _mm512_castsi512_ps(lowest));
            }
            can_split
        }
    }

    #[inline(always)]
    fn transpose_block(self, words: [__m512i; FOUR]) -> [__m512i; FOUR] {
        // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`.
        unsafe { transpose_quarters(words) }
    }

    #[inline(always)]
    fn first_words(self, bytes: &[u8]) -> __m512i {
        let mask = u64::MAX.unbounded_shr((BYTES - bytes.len().min(BYTES)) as u32);
        // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`; only bytes of the slice are read.
        unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
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
        mut words: [[__m512i; V]; ROWS],
        data: [&NibbleBlock<LANES, V, CORRECTIONS>; TOKENS],
        [scales, zero_points]: [[__m512; ROWS]; 2],
        asks: BlockPrefetch<ROWS>,
        totals: &mut [[__m512; TOKENS]; ROWS],
    ) {
        let lanes = self;
        // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`.
        unsafe {
            if CORRECTIONS > 0 {
                // As unsigned codes, signed ones are greater by 8.
                for word in words.as_flattened_mut() {
                    *word =
                        _mm512_xor_si512(*word, _mm512_set1_epi32(0x8888_8888_u32.cast_signed()));
                }
            }
            let mut sums = [[[_mm512_setzero_si512(); 3]; TOKENS]; ROWS];
            for of_bytes in [false, true] {
                if of_bytes {
                    for sum in sums.as_flattened_mut().as_flattened_mut() {
                        *sum = _mm512_slli_epi32::<4>(*sum);
                    }
                }
                for vector in 0..V {
                    // All lines at once would wait for each other. Without the fence the compiler asks for them so.
                    compiler_fence(Ordering::SeqCst);
                    match of_bytes {
                        false => asks.ahead.ask(ROWS * BYTES),
                        true => {
                            for next in asks.next {
                                prefetch_first(next.wrapping_add(vector * BYTES));
                            }
                        }
                    }
                    let low = _mm512_set1_epi8(15);
                    let mut codes = [low; ROWS];
                    for row in 0..ROWS {
                        let words = words[row][vector];
                        codes[row] = if of_bytes { words } else { _mm512_and_si512(words, low) };
                    }
                    for digit in 0..3 {
                        for token in 0..TOKENS {
                            let digits = &data[token].digits[usize::from(of_bytes)][vector][digit];
                            let digits = _mm512_castps_si512(lanes.load(digits));
                            for row in 0..ROWS {
                                let sum = &mut sums[row][token][digit];
                                *sum = _mm512_dpbusd_epi32(*sum, codes[row], digits);
                            }
                        }
                    }
                }
            }
            for row in 0..ROWS {
                for token in 0..TOKENS {
                    let [a, b, mut lowest] = sums[row][token];
                    // The products of 32 codes with two digits are less than 2^28: the sums are those of numbers divided by the scale.
                    let mut high = _mm512_add_epi32(_mm512_slli_epi32::<8>(a), b);
                    if let [of_high, of_lowest] = &data[token].corrections[..] {
                        let of_high = _mm512_castps_si512(lanes.load(of_high));
                        let of_lowest = _mm512_castps_si512(lanes.load(of_lowest));
                        high = _mm512_sub_epi32(high, of_high);
                        lowest = _mm512_sub_epi32(lowest, of_lowest);
                    }
                    let mut product = product_of(lanes, high, lowest);
                    if SHIFTED {
                        let sum = lanes.load(&data[token].sum);
                        product = _mm512_fnmadd_ps(zero_points[row], sum, product);
                    }
                    let product = lanes.mul(product, lanes.load(&data[token].scale));
                    totals[row][token] = lanes.mul_add(scales[row], product, totals[row][token]);
                }
            }
        }
    }
}

/// The product of codes and integers, in single precision, of its sums with two digits and with the lowest one.
#[inline(always)]
fn product_of(lanes: Avx512Vnni, high: __m512i, lowest: __m512i) -> __m512 {
    // SAFETY: the machine has the instructions, as there is a value of `Avx512Vnni`.
    unsafe {
        let (high, lowest) = (_mm512_cvtepi32_ps(high), _mm512_cvtepi32_ps(lowest));
        lanes.mul_add(high, lanes.splat(256.), lowest)
    }
}
