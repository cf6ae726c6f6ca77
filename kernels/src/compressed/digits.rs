//! Data as whole numbers of three digits, which the processor multiplies with codes byte by byte (`vpdpbusd`, of VNNI).
//!
//! A number `x` is `scale * q`, where the numbers of a word have one scale, and `q = 65536 a + 256 b + c`, with digits between
//! -128 and 127, or 0 and 255. Sums of products of codes and digits are exact, and so is
//!
//! ```text
//! sum(code * q) = 256 * (256 * sum(code * a) + sum(code * b)) + sum(code * c)
//! ```
//!
//! for the eight codes of four bits of a word; with the four of eight bits, what is in brackets is a whole number, and becomes one in
//! single precision with the rest. One factor of the processor's multiplication has no sign: `bytes.rs` and the codes of four bits here
//! take back what that adds, in whole numbers.
//!
//! Only `q` is rounded: each number is wrong by less than 2^-23 of the largest of its word, about a last bit of that one. In floats, each
//! sum is rounded as much. They take 1.5 times as long for codes of four bits, and 1.1 times for those of eight (one row of data, AMD
//! EPYC, family 25 model 17).

// The functions take vectors as a proof of the instructions, and read and write arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{Avx512, Lanes, OnVnni};
use super::words::{Block, CODES};
use crate::memory::Scratch;

pub(super) type Vnni = Avx512<true>;

pub(super) const LANES: usize = 16;

/// The vectors of a block. Whole numbers and digits are the bits of floats.
pub(super) type Vectors<const COUNT: usize> = [[f32; LANES]; COUNT];

/// Makes blocks of so many vectors of so many numbers.
pub(super) trait Split<const COUNT: usize, const WIDTH: usize>: Copy {
    /// Whether the numbers could be split: they are finite, and the largest one of a word is zero, or not so small that its scale would
    /// lose bits.
    fn split(self, lanes: Vnni, numbers: &[f32; WIDTH], block: &mut Vectors<COUNT>) -> bool;
}

/// The vectors of a block: for each digit, the highest first, those of the codes of even and of odd places; the scales of the words;
/// and the sums of their whole numbers.
pub(super) type Digits = Vectors<8>;

/// Where a block has its scales, and its sums.
const SCALES: usize = 6;
const SUMS: usize = 7;

/// The largest whole number: the largest of three digits is 8,355,711, and the scale is rounded.
const MOST: f32 = 8_355_700.;

/// A scale is not smaller than that of this number, so that it has all its bits.
const LEAST: f32 = f32::from_bits((127 - 100) << 23);

impl Block<Vnni, LANES> for Digits {
    #[inline(always)]
    fn of_row(row: &[f32]) -> &[Self] {
        row.as_chunks().0.as_chunks().0
    }

    #[inline(always)]
    fn products<const SIGNED: bool, const C: usize, const R: usize>(
        lanes: Vnni,
        words: [__m512i; C],
        blocks: [&Self; R],
    ) -> [[__m512; R]; C] {
        let mut products = [[lanes.splat(0.); R]; C];
        // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
        unsafe {
            let low = _mm512_set1_epi32(0x0f0f_0f0f);
            let mut codes = [[low; 2]; C];
            for row in 0..C {
                // As unsigned codes, signed ones are greater by 8.
                let words = match SIGNED {
                    true => _mm512_xor_si512(words[row], _mm512_set1_epi8(0x88_u8.cast_signed())),
                    false => words[row],
                };
                codes[row][0] = _mm512_and_si512(words, low);
                codes[row][1] = _mm512_and_si512(_mm512_srli_epi32::<4>(words), low);
            }
            // Rows in turns, as each sum waits for itself.
            let mut sums = [[_mm512_setzero_si512(); R]; C];
            for vector in 0..SCALES {
                for of in 0..R {
                    let digits = _mm512_castps_si512(lanes.load(&blocks[of][vector]));
                    for row in 0..C {
                        if vector == 2 || vector == 4 {
                            sums[row][of] = _mm512_slli_epi32::<8>(sums[row][of]);
                        }
                        let codes = codes[row][vector % 2];
                        sums[row][of] = _mm512_dpbusd_epi32(sums[row][of], codes, digits);
                    }
                }
            }
            for of in 0..R {
                let scale = lanes.load(&blocks[of][SCALES]);
                let mut above = _mm512_setzero_si512();
                if SIGNED {
                    let sums = _mm512_castps_si512(lanes.load(&blocks[of][SUMS]));
                    above = _mm512_slli_epi32::<3>(sums);
                }
                for row in 0..C {
                    let sum = _mm512_sub_epi32(sums[row][of], above);
                    products[row][of] = lanes.mul(_mm512_cvtepi32_ps(sum), scale);
                }
            }
        }
        products
    }

    #[inline(always)]
    fn sums(&self, lanes: Vnni) -> __m512 {
        // SAFETY: the machine has the instructions, as there is a value of `Vnni`.
        let sums = unsafe { _mm512_cvtepi32_ps(_mm512_castps_si512(lanes.load(&self[SUMS]))) };
        lanes.mul(sums, lanes.load(&self[SCALES]))
    }
}

/// Rows of data, of `depth` numbers each, in blocks; or none if some cannot be [split](Split::split).
pub(super) fn digits_of<S: Split<COUNT, WIDTH>, const COUNT: usize, const WIDTH: usize>(
    lanes: Vnni,
    split: S,
    data: &[f32],
    depth: usize,
) -> Option<Scratch> {
    let blocks = data.len() / depth * depth.div_ceil(WIDTH);
    let mut digits = Scratch::new(blocks * COUNT * LANES);
    let blocks = digits.as_chunks_mut().0.as_chunks_mut().0;
    lanes.enter(SplitRows { split, data, depth, blocks }).then_some(digits)
}

struct SplitRows<'a, S, const COUNT: usize, const WIDTH: usize> {
    split: S,
    data: &'a [f32],
    depth: usize,
    blocks: &'a mut [Vectors<COUNT>],
}

impl<S: Split<COUNT, WIDTH>, const COUNT: usize, const WIDTH: usize> OnVnni
    for SplitRows<'_, S, COUNT, WIDTH>
{
    /// Whether all numbers could be split.
    type Output = bool;

    #[inline(always)]
    fn run(self, lanes: Vnni) -> bool {
        let mut blocks = self.blocks.iter_mut();
        let mut is_exact = true;
        for row in self.data.chunks_exact(self.depth) {
            let (whole, rest) = row.as_chunks();
            for (numbers, block) in whole.iter().zip(&mut blocks) {
                is_exact &= self.split.split(lanes, numbers, block);
            }
            if !rest.is_empty()
                && let Some(block) = blocks.next()
            {
                let mut numbers = [0.; WIDTH];
                numbers[..rest.len()].copy_from_slice(rest);
                is_exact &= self.split.split(lanes, &numbers, block);
            }
        }
        is_exact
    }
}

/// Splits data for codes of four bits.
#[derive(Clone, Copy)]
pub(super) struct ForNibbles;

impl Split<8, { CODES * LANES }> for ForNibbles {
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "closures would not be compiled for the vectors"
    )]
    fn split(
        self,
        lanes: Vnni,
        all_numbers: &[f32; CODES * LANES],
        block: &mut Vectors<8>,
    ) -> bool {
        // SAFETY: the machine has the instructions, as there is a value of `Vnni`; the places are those of the numbers.
        unsafe {
            let mut of_lanes = [0; LANES];
            for lane in 0..LANES {
                of_lanes[lane] = (CODES * lane) as i32;
            }
            let of_lanes = _mm512_loadu_si512(of_lanes.as_ptr().cast());
            let mut numbers = [lanes.splat(0.); CODES];
            let mut largest = lanes.splat(0.);
            let mut finite = 0xffff;
            for code in 0..CODES {
                let number = _mm512_i32gather_ps::<4>(of_lanes, all_numbers.as_ptr().add(code));
                let size = _mm512_abs_ps(number);
                finite &= _mm512_cmp_ps_mask::<_CMP_LE_OQ>(size, lanes.splat(f32::MAX));
                largest = _mm512_max_ps(largest, size);
                numbers[code] = number;
            }
            let (scale, has_all_bits) = scale_of(lanes, largest);
            let mut sum = _mm512_setzero_si512();
            let mut vectors = [[_mm512_setzero_si512(); 2]; 3];
            for code in 0..CODES {
                let mut whole = _mm512_cvtps_epi32(_mm512_div_ps(numbers[code], scale));
                sum = _mm512_add_epi32(sum, whole);
                for digit in (0..3).rev() {
                    let byte = signed_digit(lanes, &mut whole);
                    let above = _mm512_set1_epi32(8 * (code / 2) as i32);
                    let vector = &mut vectors[digit][code % 2];
                    *vector = _mm512_or_si512(*vector, _mm512_sllv_epi32(byte, above));
                }
            }
            for digit in 0..3 {
                for half in 0..2 {
                    let vector = _mm512_castsi512_ps(vectors[digit][half]);
                    lanes.store(&mut block[2 * digit + half], vector);
                }
            }
            lanes.store(&mut block[SCALES], scale);
            lanes.store(&mut block[SUMS], _mm512_castsi512_ps(sum));
            finite & has_all_bits == 0xffff
        }
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
    use super::*;
    use crate::compressed::lanes::Kind;

    /// Two rows, the last block of which is not whole.
    const DEPTH: usize = 200;

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

    fn data() -> Vec<f32> {
        numbers(CODES, 2 * DEPTH)
    }

    fn digits(lanes: Vnni, data: &[f32]) -> Option<Scratch> {
        digits_of(lanes, ForNibbles, data, DEPTH)
    }

    #[test]
    fn digits_stand_for_the_numbers() {
        let Some(lanes) = Vnni::detect(Kind::detect()) else { return };
        let data = data();
        let rows = digits(lanes, &data).expect("all numbers are finite");
        let blocks = Digits::of_row(&rows);
        assert_eq!(blocks.len(), 4);
        let places = |row: usize| (0..2 * CODES * LANES).map(move |place| (row, place));
        for (row, place) in (0..2).flat_map(places) {
            let block = &blocks[2 * row + place / (CODES * LANES)];
            let (lane, code) = (place / CODES % LANES, place % CODES);
            let digits = [0, 1, 2].map(|digit| {
                let word = block[2 * digit + code % 2][lane].to_bits();
                f64::from(word.to_le_bytes()[code / 2].cast_signed())
            });
            let whole = 65536. * digits[0] + 256. * digits[1] + digits[2];
            let number = whole * f64::from(block[SCALES][lane]);
            let row = &data[row * DEPTH..][..DEPTH];
            let word = row.get(place / CODES * CODES..).unwrap_or_default();
            let word = &word[..word.len().min(CODES)];
            let largest = word.iter().fold(0f32, |most, it| most.max(it.abs()));
            let expected = f64::from(row.get(place).copied().unwrap_or_default());
            let most = f64::from(largest) * 2f64.powi(-23);
            assert!((number - expected).abs() <= most, "{number} at {place}, not {expected}");
            let sum: f64 = word.iter().copied().map(f64::from).sum();
            let whole = f64::from(block[SUMS][lane].to_bits().cast_signed());
            let error = (whole * f64::from(block[SCALES][lane]) - sum).abs();
            assert!(error <= 9. * most, "the sum of word {lane} is wrong by {error}");
        }
    }

    #[test]
    fn some_numbers_have_no_digits() {
        let Some(lanes) = Vnni::detect(Kind::detect()) else { return };
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-31, -1e-40] {
            let mut data = data();
            // In the last block, and in a word of zeros.
            let place = DEPTH / CODES * CODES - 8 * CODES + 1;
            data[place - 1..][..CODES].fill(0.);
            assert!(digits(lanes, &data).is_some());
            data[place] = number;
            assert!(digits(lanes, &data).is_none(), "{number}");
        }
    }
}
