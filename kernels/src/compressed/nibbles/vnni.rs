//! Vectors of 512 bits.
//!
//! Two codes, `e` at an even place and `o` at an odd one, are a byte `e + 16 o`. For data `x` and `y`,
//!
//! ```text
//! e * x + o * y = e * (x - y / 16) + (e + 16 * o) * y / 16
//! ```
//!
//! so bytes are multiplied as they are, and only the codes of even places are taken out of them.

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::sync::atomic::{Ordering, compiler_fence};

use super::super::digits::{LANES, scale_of, signed_digit};
use super::*;
use crate::isa::{Lanes, Vnni, transpose_quarters};
use crate::memory::prefetch_first;

/// The bytes of a vector.
const BYTES: usize = CODES * LANES / 2;

impl Multiply<LANES> for Vnni {
    /// Those of the sums of two digits, and of the lowest one.
    const FOR_SIGNED: usize = 2;

    const IN_PAIRS: bool = true;

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
        const { assert!(V * CODES <= 2 * LANES) }
        let lanes = self;
        let numbers = numbers.as_flattened().as_flattened();
        // SAFETY: the machine has the instructions, as there is a value of `Vnni`. Each lane has `count` numbers from its place on, the last
        // one up to the end; only so many of a vector are read.
        unsafe {
            let mut of_lanes = [lanes.splat(0.); 2 * LANES];
            for first in (0..count).step_by(LANES) {
                let mask = (u32::MAX >> (32 - (count - first).min(LANES))) as __mmask16;
                let mut words = [_mm512_setzero_si512(); LANES];
                for lane in 0..LANES {
                    let place = const { places_of_lanes::<LANES>(V) }[lane] + first;
                    words[lane] =
                        _mm512_maskz_loadu_epi32(mask, numbers.as_ptr().add(place).cast());
                }
                let words = lanes.transpose(words);
                for number in 0..LANES {
                    of_lanes[first + number] = _mm512_castsi512_ps(words[number]);
                }
            }
            // What meets codes of even places, and what meets bytes.
            for pair in of_lanes[..count].as_chunks_mut::<2>().0 {
                pair[0] = _mm512_fnmadd_ps(pair[1], lanes.splat(1. / 16.), pair[0]);
            }
            let mut largest = lanes.splat(0.);
            let mut finite = 0xffff;
            for number in &of_lanes[..count] {
                let size = _mm512_abs_ps(*number);
                finite &= _mm512_cmp_ps_mask::<_CMP_LE_OQ>(size, lanes.splat(f32::MAX));
                largest = _mm512_max_ps(largest, size);
            }
            let (scale, has_all_bits) = scale_of(lanes, largest);
            let mut wholes = [_mm512_setzero_si512(); 2];
            let mut without_lowest = [_mm512_setzero_si512(); 2];
            for vector in 0..V {
                let mut digits = [_mm512_setzero_si512(); DIGITS];
                for code in 0..CODES {
                    let parity = code % 2;
                    let number = of_lanes[CODES * vector + code];
                    let mut whole = _mm512_cvtps_epi32(_mm512_div_ps(number, scale));
                    wholes[parity] = _mm512_add_epi32(wholes[parity], whole);
                    for digit in (0..3).rev() {
                        let byte = signed_digit(lanes, &mut whole);
                        if digit == 2 {
                            without_lowest[parity] =
                                _mm512_add_epi32(without_lowest[parity], whole);
                        }
                        let above = _mm512_set1_epi32(8 * (code / 2) as i32);
                        let place = &mut digits[3 * parity + digit];
                        *place = _mm512_or_si512(*place, _mm512_sllv_epi32(byte, above));
                    }
                }
                for digit in 0..DIGITS {
                    let place = &mut tile[of_digit(V, vector, digit)];
                    lanes.store(place, _mm512_castsi512_ps(digits[digit]));
                }
            }
            // In the unit, what meets codes of even places counts 16 times, and what meets bytes 17 times: a byte has both codes, one of them
            // 16 times.
            let mut high = _mm512_setzero_si512();
            let mut lowest = _mm512_setzero_si512();
            for parity in 0..2 {
                let eights = _mm512_set1_epi32(8 * (16 + parity as i32));
                let rest = without_lowest[parity];
                let digits = _mm512_sub_epi32(wholes[parity], _mm512_slli_epi32::<8>(rest));
                high = _mm512_add_epi32(high, _mm512_mullo_epi32(rest, eights));
                lowest = _mm512_add_epi32(lowest, _mm512_mullo_epi32(digits, eights));
            }
            let [unit, sum, of_eights @ ..] = &mut tile[DIGITS * V..] else {
                unreachable!("there are two vectors behind the digits")
            };
            let product = product_of(lanes, high, lowest);
            lanes.store(unit, lanes.mul(scale, lanes.splat(1. / 16.)));
            lanes.store(sum, lanes.mul(product, lanes.splat(1. / 8.)));
            if let [place_of_high, place_of_lowest] = of_eights {
                lanes.store(place_of_high, _mm512_castsi512_ps(high));
                lanes.store(place_of_lowest, _mm512_castsi512_ps(lowest));
            }
            finite & has_all_bits == 0xffff
        }
    }

    #[inline(always)]
    fn transposed(self, tile: &[WordVector<LANES>; FOUR]) -> [__m512i; FOUR] {
        let [a, b, c, d] = tile;
        // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
        unsafe {
            transpose_quarters([
                self.load_words(a),
                self.load_words(b),
                self.load_words(c),
                self.load_words(d),
            ])
        }
    }

    #[inline(always)]
    fn first_words(self, bytes: &[u8]) -> __m512i {
        let mask = u64::MAX.unbounded_shr((BYTES - bytes.len().min(BYTES)) as u32);
        // SAFETY: the machine has the instructions, as there is a value of `Vnni`; only bytes of the slice are read.
        unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn add_tile<
        T: ParameterTypes,
        const SIGNED: bool,
        const C: usize,
        const R: usize,
        const V: usize,
        const COUNT: usize,
    >(
        self,
        mut words: [[__m512i; V]; C],
        data: [&[[f32; LANES]; COUNT]; R],
        [scales, zero_points]: [[__m512; C]; 2],
        asks: TilePrefetch<C>,
        totals: &mut [[__m512; R]; C],
    ) {
        let lanes = self;
        const { assert!(COUNT == vectors_of_data(V, if SIGNED { Self::FOR_SIGNED } else { 0 })) };
        // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
        unsafe {
            if SIGNED {
                // As unsigned codes, signed ones are greater by 8.
                for word in words.as_flattened_mut() {
                    *word =
                        _mm512_xor_si512(*word, _mm512_set1_epi32(0x8888_8888_u32.cast_signed()));
                }
            }
            let mut sums = [[[_mm512_setzero_si512(); 3]; R]; C];
            for of_bytes in [false, true] {
                if of_bytes {
                    for sum in sums.as_flattened_mut().as_flattened_mut() {
                        *sum = _mm512_slli_epi32::<4>(*sum);
                    }
                }
                for vector in 0..V {
                    // All lines at once would wait for each other: 0.95 of the speed. Without the fence the compiler asks for them so, and
                    // rows of 8,192 codes take 1.2 times as long.
                    compiler_fence(Ordering::SeqCst);
                    match of_bytes {
                        false => asks.ahead.ask(C * BYTES),
                        true => {
                            for next in asks.next {
                                prefetch_first(next.wrapping_add(vector * BYTES));
                            }
                        }
                    }
                    let low = _mm512_set1_epi8(15);
                    let mut codes = [low; C];
                    for row in 0..C {
                        let words = words[row][vector];
                        codes[row] = if of_bytes { words } else { _mm512_and_si512(words, low) };
                    }
                    for digit in 0..3 {
                        for of in 0..R {
                            let place = of_digit(V, vector, digit + if of_bytes { 3 } else { 0 });
                            let digits = _mm512_castps_si512(lanes.load(&data[of][place]));
                            for row in 0..C {
                                let sum = &mut sums[row][of][digit];
                                *sum = _mm512_dpbusd_epi32(*sum, codes[row], digits);
                            }
                        }
                    }
                }
            }
            for row in 0..C {
                for of in 0..R {
                    let behind = &data[of][DIGITS * V..];
                    let [a, b, mut lowest] = sums[row][of];
                    // 32 codes have products with two digits of less than 2^28, in the unit.
                    let mut high = _mm512_add_epi32(_mm512_slli_epi32::<8>(a), b);
                    if SIGNED {
                        let [of_high, of_lowest] =
                            [EIGHTS, EIGHTS + 1].map(|place| lanes.load(&behind[place]));
                        high = _mm512_sub_epi32(high, _mm512_castps_si512(of_high));
                        lowest = _mm512_sub_epi32(lowest, _mm512_castps_si512(of_lowest));
                    }
                    let mut product = product_of(lanes, high, lowest);
                    if T::HAS_ZERO_POINTS {
                        product =
                            _mm512_fnmadd_ps(zero_points[row], lanes.load(&behind[SUM]), product);
                    }
                    let product = lanes.mul(product, lanes.load(&behind[UNIT]));
                    totals[row][of] = lanes.mul_add(scales[row], product, totals[row][of]);
                }
            }
        }
    }
}

/// The product of codes and whole numbers, in single precision, of its sums with two digits and with the lowest one.
#[inline(always)]
fn product_of(lanes: Vnni, high: __m512i, lowest: __m512i) -> __m512 {
    // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
    unsafe {
        let (high, lowest) = (_mm512_cvtepi32_ps(high), _mm512_cvtepi32_ps(lowest));
        lanes.mul_add(high, lanes.splat(256.), lowest)
    }
}
