//! Vectors of numbers, and what becomes of bytes in them.

// Vectors are only made where the machine has them. Codes of 4 bits, one row, in floats: 4.6 times as fast as portable ones (AMD EPYC,
// family 25 model 1).
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use tract_core::prelude::f16;

use crate::product::{Tile, Vectors};

/// Vectors of `N` numbers.
pub(crate) trait Lanes<const N: usize>: Copy {
    type Numbers: Copy;
    /// As many words of four bytes, the lowest one first.
    type Words: Copy;
    fn splat(self, number: f32) -> Self::Numbers;
    fn load(self, numbers: &[f32; N]) -> Self::Numbers;
    fn store(self, place: &mut [f32; N], numbers: Self::Numbers);
    fn add(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn sub(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    fn mul(self, a: Self::Numbers, b: Self::Numbers) -> Self::Numbers;
    /// `a * b + c`, rounded once where the machine can.
    fn mul_add(self, a: Self::Numbers, b: Self::Numbers, c: Self::Numbers) -> Self::Numbers;
    fn sum(self, numbers: Self::Numbers) -> f32;
    fn load_words(self, words: &[[u8; 4]; N]) -> Self::Words;
    /// Lane by lane, what the vectors have there.
    fn transpose(self, vectors: [Self::Words; N]) -> [Self::Words; N];
    fn of_i8(self, codes: &[u8; N]) -> Self::Numbers;
    fn of_u8(self, codes: &[u8; N]) -> Self::Numbers;
    fn of_f16(self, bytes: &[[u8; 2]; N]) -> Self::Numbers;
    fn of_bf16(self, bytes: &[[u8; 2]; N]) -> Self::Numbers;
    #[cfg(target_arch = "x86_64")]
    fn f32_of_words(self, words: Self::Words) -> Self::Numbers;
    /// The floats of 16 bits of words: all first ones, and all second ones.
    fn f16_of_words(self, words: Self::Words) -> [Self::Numbers; 2];
    fn bf16_of_words(self, words: Self::Words) -> [Self::Numbers; 2];
    /// The bytes of words: all first ones, all second ones, and so on.
    fn bytes_of_words<const SIGNED: bool>(self, words: Self::Words) -> [Self::Numbers; 4];
    /// The codes of four bits of words: all first ones, all second ones, and so on.
    fn nibbles_of_words<const SIGNED: bool>(self, words: Self::Words) -> [Self::Numbers; 8];
    /// For each lane, one of the numbers.
    fn permute(self, numbers: Self::Numbers, places: &[u32; N]) -> Self::Numbers;
}

/// The first words of some bytes, with zeros where there are no more.
#[inline(always)]
pub(super) fn first_words<L: Lanes<N>, const N: usize>(lanes: L, bytes: &[u8]) -> L::Words {
    match bytes.as_chunks().0.first_chunk() {
        Some(words) => lanes.load_words(words),
        None => {
            let mut words = [[0; 4]; N];
            words.as_flattened_mut()[..bytes.len()].copy_from_slice(bytes);
            lanes.load_words(&words)
        }
    }
}

/// Arrays, for any processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl Lanes<8> for Portable {
    type Numbers = [f32; 8];
    type Words = [u32; 8];

    #[inline(always)]
    fn splat(self, number: f32) -> [f32; 8] {
        [number; 8]
    }

    #[inline(always)]
    fn load(self, numbers: &[f32; 8]) -> [f32; 8] {
        *numbers
    }

    #[inline(always)]
    fn store(self, place: &mut [f32; 8], numbers: [f32; 8]) {
        *place = numbers;
    }

    #[inline(always)]
    fn add(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }

    #[inline(always)]
    fn sub(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|lane| a[lane] - b[lane])
    }

    #[inline(always)]
    fn mul(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|lane| a[lane] * b[lane])
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }

    #[inline(always)]
    fn sum(self, numbers: [f32; 8]) -> f32 {
        numbers.iter().sum()
    }

    #[inline(always)]
    fn load_words(self, words: &[[u8; 4]; 8]) -> [u32; 8] {
        words.map(u32::from_le_bytes)
    }

    #[inline(always)]
    fn transpose(self, vectors: [[u32; 8]; 8]) -> [[u32; 8]; 8] {
        std::array::from_fn(|lane| std::array::from_fn(|vector| vectors[vector][lane]))
    }

    #[inline(always)]
    fn of_i8(self, codes: &[u8; 8]) -> [f32; 8] {
        codes.map(|code| f32::from(code.cast_signed()))
    }

    #[inline(always)]
    fn of_u8(self, codes: &[u8; 8]) -> [f32; 8] {
        codes.map(f32::from)
    }

    #[inline(always)]
    fn of_f16(self, bytes: &[[u8; 2]; 8]) -> [f32; 8] {
        bytes.map(|bytes| f16::from_le_bytes(bytes).to_f32())
    }

    #[inline(always)]
    fn of_bf16(self, bytes: &[[u8; 2]; 8]) -> [f32; 8] {
        bytes.map(|[low, high]| f32::from_le_bytes([0, 0, low, high]))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn f32_of_words(self, words: [u32; 8]) -> [f32; 8] {
        words.map(f32::from_bits)
    }

    #[inline(always)]
    fn f16_of_words(self, words: [u32; 8]) -> [[f32; 8]; 2] {
        [0, 16].map(|below| words.map(|word| f16::from_bits((word >> below) as u16).to_f32()))
    }

    #[inline(always)]
    fn bf16_of_words(self, words: [u32; 8]) -> [[f32; 8]; 2] {
        [16, 0].map(|above| words.map(|word| f32::from_bits(word << above & 0xffff_0000)))
    }

    #[inline(always)]
    fn bytes_of_words<const SIGNED: bool>(self, words: [u32; 8]) -> [[f32; 8]; 4] {
        std::array::from_fn(|code| words.map(|word| of_word::<SIGNED, 8>(word, code)))
    }

    #[inline(always)]
    fn nibbles_of_words<const SIGNED: bool>(self, words: [u32; 8]) -> [[f32; 8]; 8] {
        std::array::from_fn(|code| words.map(|word| of_word::<SIGNED, 4>(word, code)))
    }

    #[inline(always)]
    fn permute(self, numbers: [f32; 8], places: &[u32; 8]) -> [f32; 8] {
        places.map(|place| numbers[place as usize % 8])
    }
}

/// A code of so many bits of a word.
#[inline(always)]
fn of_word<const SIGNED: bool, const BITS: usize>(word: u32, code: usize) -> f32 {
    // It comes to the highest bits, and back.
    let word = word << (32 - BITS * (code + 1));
    let back = 32 - BITS;
    if SIGNED { (word.cast_signed() >> back) as f32 } else { (word >> back) as f32 }
}

/// 256 bits.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

/// 512 bits; with `VNNI`, the machine multiplies the bytes of words, too.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512<const VNNI: bool>(());

/// Implements [`Lanes`] with intrinsics.
///
/// SAFETY of all of them: there is a value of the type only where the machine has the instructions, and what they read and
/// write are arrays of their size.
#[cfg(target_arch = "x86_64")]
macro_rules! lanes {
    ([$($generic:tt)*] $name:ty, $lanes:literal, $numbers:ty, $words:ty,
        splat: $splat:ident, load: $load:ident, store: $store:ident, add: $add:ident, sub: $sub:ident, mul: $mul:ident,
        fmadd: $fmadd:ident, load_bytes: $load_bytes:ident, load_half: $load_half:ident, load_words: $load_words:ident,
        widen_i8: $widen_i8:ident, widen_u8: $widen_u8:ident, widen_u16: $widen_u16:ident, floats: $floats:ident,
        of_f16: $of_f16:ident, cast: $cast:ident, and: $and:ident, set: $set:ident, shift_left: $shift_left:ident,
        shift_right: $shift_right:ident, shift_signed: $shift_signed:ident, lower_halves: $lower_halves:ident,
        of_nibble: $of_nibble:ident, permute: $permute:expr, sum: $sum:expr, transpose: $transpose:ident) => {
        impl<$($generic)*> Lanes<$lanes> for $name {
            type Numbers = $numbers;
            type Words = $words;

            #[inline(always)]
            fn splat(self, number: f32) -> $numbers {
                unsafe { $splat(number) }
            }

            #[inline(always)]
            fn load(self, numbers: &[f32; $lanes]) -> $numbers {
                unsafe { $load(numbers.as_ptr()) }
            }

            #[inline(always)]
            fn store(self, place: &mut [f32; $lanes], numbers: $numbers) {
                unsafe { $store(place.as_mut_ptr(), numbers) }
            }

            #[inline(always)]
            fn add(self, a: $numbers, b: $numbers) -> $numbers {
                unsafe { $add(a, b) }
            }

            #[inline(always)]
            fn sub(self, a: $numbers, b: $numbers) -> $numbers {
                unsafe { $sub(a, b) }
            }

            #[inline(always)]
            fn mul(self, a: $numbers, b: $numbers) -> $numbers {
                unsafe { $mul(a, b) }
            }

            #[inline(always)]
            fn mul_add(self, a: $numbers, b: $numbers, c: $numbers) -> $numbers {
                unsafe { $fmadd(a, b, c) }
            }

            #[inline(always)]
            fn sum(self, numbers: $numbers) -> f32 {
                #[allow(clippy::redundant_closure_call)]
                unsafe {
                    $sum(numbers)
                }
            }

            #[inline(always)]
            fn load_words(self, words: &[[u8; 4]; $lanes]) -> $words {
                unsafe { $load_words(words.as_ptr().cast()) }
            }

            #[inline(always)]
            fn transpose(self, vectors: [$words; $lanes]) -> [$words; $lanes] {
                unsafe { $transpose(vectors) }
            }

            #[inline(always)]
            fn of_i8(self, codes: &[u8; $lanes]) -> $numbers {
                unsafe { $floats($widen_i8($load_bytes(codes.as_ptr().cast()))) }
            }

            #[inline(always)]
            fn of_u8(self, codes: &[u8; $lanes]) -> $numbers {
                unsafe { $floats($widen_u8($load_bytes(codes.as_ptr().cast()))) }
            }

            #[inline(always)]
            fn of_f16(self, bytes: &[[u8; 2]; $lanes]) -> $numbers {
                unsafe { $of_f16($load_half(bytes.as_ptr().cast())) }
            }

            #[inline(always)]
            fn of_bf16(self, bytes: &[[u8; 2]; $lanes]) -> $numbers {
                unsafe { $cast($shift_left::<16>($widen_u16($load_half(bytes.as_ptr().cast())))) }
            }

            #[inline(always)]
            fn f32_of_words(self, words: $words) -> $numbers {
                unsafe { $cast(words) }
            }

            #[inline(always)]
            fn f16_of_words(self, words: $words) -> [$numbers; 2] {
                unsafe {
                    let second = $shift_right::<16>(words);
                    [$of_f16($lower_halves(words)), $of_f16($lower_halves(second))]
                }
            }

            #[inline(always)]
            fn bf16_of_words(self, words: $words) -> [$numbers; 2] {
                unsafe {
                    let second = $and(words, $set(!0xffff));
                    [$cast($shift_left::<16>(words)), $cast(second)]
                }
            }

            #[inline(always)]
            fn bytes_of_words<const SIGNED: bool>(self, words: $words) -> [$numbers; 4] {
                unsafe {
                    let codes = match SIGNED {
                        true => [
                            $shift_signed::<24>($shift_left::<24>(words)),
                            $shift_signed::<24>($shift_left::<16>(words)),
                            $shift_signed::<24>($shift_left::<8>(words)),
                            $shift_signed::<24>(words),
                        ],
                        false => [
                            $and(words, $set(255)),
                            $and($shift_right::<8>(words), $set(255)),
                            $and($shift_right::<16>(words), $set(255)),
                            $shift_right::<24>(words),
                        ],
                    };
                    [$floats(codes[0]), $floats(codes[1]), $floats(codes[2]), $floats(codes[3])]
                }
            }

            #[inline(always)]
            fn nibbles_of_words<const SIGNED: bool>(self, words: $words) -> [$numbers; 8] {
                unsafe {
                    [
                        $of_nibble::<SIGNED, 28, 0>(words),
                        $of_nibble::<SIGNED, 24, 4>(words),
                        $of_nibble::<SIGNED, 20, 8>(words),
                        $of_nibble::<SIGNED, 16, 12>(words),
                        $of_nibble::<SIGNED, 12, 16>(words),
                        $of_nibble::<SIGNED, 8, 20>(words),
                        $of_nibble::<SIGNED, 4, 24>(words),
                        $of_nibble::<SIGNED, 0, 28>(words),
                    ]
                }
            }

            #[inline(always)]
            fn permute(self, numbers: $numbers, places: &[u32; $lanes]) -> $numbers {
                unsafe { $permute(numbers, $load_words(places.as_ptr().cast())) }
            }
        }
    };
}

/// A code of four bits of each word: so many bits are above it, and so many below.
///
/// # Safety
///
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn of_nibble_256<const SIGNED: bool, const ABOVE: i32, const BELOW: i32>(
    words: __m256i,
) -> __m256 {
    unsafe {
        _mm256_cvtepi32_ps(match SIGNED {
            true => _mm256_srai_epi32::<28>(_mm256_slli_epi32::<ABOVE>(words)),
            false => _mm256_and_si256(_mm256_srli_epi32::<BELOW>(words), _mm256_set1_epi32(15)),
        })
    }
}

/// The same: a code is the place of its number in a vector.
///
/// # Safety
///
/// The machine has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn of_nibble_512<const SIGNED: bool, const ABOVE: i32, const BELOW: u32>(
    words: __m512i,
) -> __m512 {
    unsafe {
        let numbers = match SIGNED {
            true => _mm512_setr_ps(
                0., 1., 2., 3., 4., 5., 6., 7., -8., -7., -6., -5., -4., -3., -2., -1.,
            ),
            false => {
                _mm512_setr_ps(0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.)
            }
        };
        _mm512_permutexvar_ps(_mm512_srli_epi32::<BELOW>(words), numbers)
    }
}

#[cfg(target_arch = "x86_64")]
lanes!([] Avx2, 8, __m256, __m256i,
    splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps, add: _mm256_add_ps, sub: _mm256_sub_ps,
    mul: _mm256_mul_ps, fmadd: _mm256_fmadd_ps, load_bytes: _mm_loadl_epi64, load_half: _mm_loadu_si128,
    load_words: _mm256_loadu_si256, widen_i8: _mm256_cvtepi8_epi32, widen_u8: _mm256_cvtepu8_epi32,
    widen_u16: _mm256_cvtepu16_epi32, floats: _mm256_cvtepi32_ps, of_f16: _mm256_cvtph_ps, cast: _mm256_castsi256_ps,
    and: _mm256_and_si256, set: _mm256_set1_epi32, shift_left: _mm256_slli_epi32, shift_right: _mm256_srli_epi32,
    shift_signed: _mm256_srai_epi32, lower_halves: lower_halves_256, of_nibble: of_nibble_256,
    permute: |numbers, places| _mm256_permutevar8x32_ps(numbers, places),
    sum: |numbers| {
        let halves = _mm_add_ps(_mm256_castps256_ps128(numbers), _mm256_extractf128_ps::<1>(numbers));
        let pairs = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
        _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)))
    },
    transpose: transpose_8);

#[cfg(target_arch = "x86_64")]
lanes!([const VNNI: bool] Avx512<VNNI>, 16, __m512, __m512i,
    splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps, add: _mm512_add_ps, sub: _mm512_sub_ps,
    mul: _mm512_mul_ps, fmadd: _mm512_fmadd_ps, load_bytes: _mm_loadu_si128, load_half: _mm256_loadu_si256,
    load_words: _mm512_loadu_si512, widen_i8: _mm512_cvtepi8_epi32, widen_u8: _mm512_cvtepu8_epi32,
    widen_u16: _mm512_cvtepu16_epi32, floats: _mm512_cvtepi32_ps, of_f16: _mm512_cvtph_ps, cast: _mm512_castsi512_ps,
    and: _mm512_and_si512, set: _mm512_set1_epi32, shift_left: _mm512_slli_epi32, shift_right: _mm512_srli_epi32,
    shift_signed: _mm512_srai_epi32, lower_halves: _mm512_cvtepi32_epi16, of_nibble: of_nibble_512,
    permute: |numbers, places| _mm512_permutexvar_ps(places, numbers),
    sum: |numbers| _mm512_reduce_add_ps(numbers),
    transpose: transpose_16);

/// The lower halves of words.
///
/// # Safety
///
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn lower_halves_256(words: __m256i) -> __m128i {
    unsafe {
        let halves = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
        let turns = _mm256_packus_epi32(halves, halves);
        _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(turns))
    }
}

/// By pairs of vectors: their lanes in turn, then pairs of lanes, and halves.
///
/// # Safety
///
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_8(v: [__m256i; 8]) -> [__m256i; 8] {
    // Closures would not be compiled for the vectors.
    unsafe {
        let mut fours = [[_mm256_setzero_si256(); 4]; 2];
        for (half, four) in fours.iter_mut().enumerate() {
            let v = &v[4 * half..][..4];
            *four = transpose_halves([v[0], v[1], v[2], v[3]]);
        }
        let mut lanes = [_mm256_setzero_si256(); 8];
        for lane in 0..4 {
            let [a, b] = [fours[0][lane], fours[1][lane]];
            lanes[lane] = _mm256_permute2x128_si256::<0x20>(a, b);
            lanes[lane + 4] = _mm256_permute2x128_si256::<0x31>(a, b);
        }
        lanes
    }
}

/// Transposes the four words that each half of four vectors has: vector `n` comes to have the words of lanes `n` and `n + 4` of all, by
/// halves.
///
/// # Safety
///
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn transpose_halves(v: [__m256i; 4]) -> [__m256i; 4] {
    unsafe {
        let [a, b] = [_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1])];
        let [c, d] = [_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3])];
        [
            _mm256_unpacklo_epi64(a, c),
            _mm256_unpackhi_epi64(a, c),
            _mm256_unpacklo_epi64(b, d),
            _mm256_unpackhi_epi64(b, d),
        ]
    }
}

/// By pairs of vectors: their lanes in turn, then pairs of lanes, and quarters.
///
/// # Safety
///
/// The machine has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_16(v: [__m512i; 16]) -> [__m512i; 16] {
    unsafe {
        let mut fours = [[_mm512_setzero_si512(); 4]; 4];
        for (quarter, four) in fours.iter_mut().enumerate() {
            let v = &v[4 * quarter..][..4];
            *four = transpose_quarters([v[0], v[1], v[2], v[3]]);
        }
        let mut lanes = [_mm512_setzero_si512(); 16];
        for lane in 0..4 {
            let [a, b] = [fours[0][lane], fours[1][lane]];
            let [c, d] = [fours[2][lane], fours[3][lane]];
            // The quarters with even numbers of two of them, and those with odd ones.
            let even = [_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d)];
            let odd = [_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d)];
            lanes[lane] = _mm512_shuffle_i32x4::<0x88>(even[0], even[1]);
            lanes[lane + 4] = _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]);
            lanes[lane + 8] = _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]);
            lanes[lane + 12] = _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]);
        }
        lanes
    }
}

/// Transposes the four words that each quarter of four vectors has: vector `n` comes to have the words of lanes `n`, `n + 4`, `n + 8` and
/// `n + 12` of all, by quarters.
///
/// # Safety
///
/// The machine has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn transpose_quarters(v: [__m512i; 4]) -> [__m512i; 4] {
    unsafe {
        let [a, b] = [_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])];
        let [c, d] = [_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3])];
        [
            _mm512_unpacklo_epi64(a, c),
            _mm512_unpackhi_epi64(a, c),
            _mm512_unpacklo_epi64(b, d),
            _mm512_unpackhi_epi64(b, d),
        ]
    }
}

/// What runs on vectors of any size.
pub(crate) trait OnLanes {
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L);
}

/// The instructions for vectors of lanes that this machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneInstructions {
    Portable,
    Avx2,
    Avx512,
}

impl LaneInstructions {
    /// Those for the vectors of this machine.
    pub fn detect() -> LaneInstructions {
        #[cfg(target_arch = "x86_64")]
        match Tile::of(Vectors::detect()).lanes {
            8 | 16
                if !(is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")) => {}
            16 if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") => {
                return LaneInstructions::Avx512;
            }
            8 => return LaneInstructions::Avx2,
            _ => (),
        }
        LaneInstructions::Portable
    }

    /// How many numbers a vector has.
    pub fn lanes(self) -> usize {
        if self == LaneInstructions::Avx512 { 16 } else { 8 }
    }

    /// Runs what is compiled for each of them.
    pub fn run(self, body: impl OnLanes) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has the instructions: `detect` has found them.
        unsafe {
            match self {
                LaneInstructions::Portable => body.run(Portable),
                LaneInstructions::Avx2 => avx2(body),
                LaneInstructions::Avx512 => avx512(body),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        body.run(Portable);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn avx2(body: impl OnLanes) {
    body.run(Avx2(()));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn avx512(body: impl OnLanes) {
    body.run(Avx512::<false>(()));
}

/// What runs on vectors of one kind.
#[cfg(target_arch = "x86_64")]
pub(super) trait On<L> {
    type Output;
    fn run(self, lanes: L) -> Self::Output;
}

/// Vectors of one kind, which the machine has.
#[cfg(target_arch = "x86_64")]
pub(super) trait Enter: Copy {
    /// Runs what is compiled for them.
    fn enter<B: On<Self>>(self, body: B) -> B::Output;
}

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// These vectors, if this kind has them.
    pub fn detect(kind: LaneInstructions) -> Option<Avx2> {
        (kind == LaneInstructions::Avx2).then_some(Avx2(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Enter for Avx2 {
    fn enter<B: On<Avx2>>(self, body: B) -> B::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn run<B: On<Avx2>>(body: B) -> B::Output {
            body.run(Avx2(()))
        }
        // SAFETY: there is a value of the type only where `LaneInstructions::detect` has found the instructions.
        unsafe { run(body) }
    }
}

/// 512 bits, where the machine has VNNI, and multiplies the bytes of words.
#[cfg(target_arch = "x86_64")]
pub(super) type Vnni = Avx512<true>;

#[cfg(target_arch = "x86_64")]
impl Vnni {
    /// These vectors, if this kind has them and the machine has VNNI.
    pub fn detect(kind: LaneInstructions) -> Option<Vnni> {
        let has_vnni = || is_x86_feature_detected!("avx512vnni");
        (kind == LaneInstructions::Avx512 && has_vnni()).then_some(Avx512(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Enter for Vnni {
    fn enter<B: On<Vnni>>(self, body: B) -> B::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        fn run<B: On<Vnni>>(body: B) -> B::Output {
            body.run(Avx512(()))
        }
        // SAFETY: there is a value of the type only where `detect` has found the instructions.
        unsafe { run(body) }
    }
}
