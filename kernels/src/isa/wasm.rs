//! Vectors of WebAssembly, with intrinsics.
//!
//! A module has instructions or it has not: an engine without them refuses all of it, and no program can ask. So what there is was decided
//! when the program was compiled, by its target features: `simd128`, for this file, and `relaxed-simd`, for sums of products that are rounded
//! once where the processor can. Portable vectors are there for tests alone, so that modules are not larger than they need be.

use std::arch::wasm32::*;

use pulp::Simd;
use pulp::bytemuck::{Pod, cast};
#[cfg(target_feature = "relaxed-simd")]
pub(super) use pulp::wasm::RelaxedSimd as OfPulp;
#[cfg(not(target_feature = "relaxed-simd"))]
pub(super) use pulp::wasm::Simd128 as OfPulp;

use super::macros::methods;
use super::{Instructions, Isa, Lanes, On, ROUNDER, put_first};

/// Pairs of vectors of 128 bits: fewer steps wait for the one before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Simd128(OfPulp);

/// What there is.
pub(super) fn detected() -> Option<Instructions> {
    OfPulp::try_new().map(Simd128).map(Instructions::Simd128)
}

impl Simd128 {
    /// The same instructions for pulp.
    #[inline(always)]
    pub fn pulp(self) -> OfPulp {
        self.0
    }

    pub fn plain(self) -> Simd128 {
        self
    }
}

impl Isa for Simd128 {
    fn enter<B: On<Self>>(self, body: B) {
        body.run(self)
    }
}

/// The first number of each lane if it is greater, else the second one. The vectors have 128 bits.
#[inline(always)]
pub(super) fn max_or_second<V: Pod>(first: V, second: V) -> V {
    let (first, second) = (cast(first), cast(second));
    // For `pmax`, and for other selections by a comparison, the compiler then takes an instruction that may give anything of NaN.
    #[cfg(target_feature = "relaxed-simd")]
    let greater = i32x4_relaxed_laneselect(first, second, f32x4_gt(first, second));
    #[cfg(not(target_feature = "relaxed-simd"))]
    let greater = f32x4_pmax(second, first);
    cast(greater)
}

/// The first number of each lane if it is less, else the second one. The vectors have 128 bits.
#[inline(always)]
pub(super) fn min_or_second<V: Pod>(first: V, second: V) -> V {
    let (first, second) = (cast(first), cast(second));
    #[cfg(target_feature = "relaxed-simd")]
    let less = i32x4_relaxed_laneselect(first, second, f32x4_lt(first, second));
    #[cfg(not(target_feature = "relaxed-simd"))]
    let less = f32x4_pmin(second, first);
    cast(less)
}

/// Does the same with both vectors of some values. A closure might stay a function of its own.
macro_rules! both {
    (|$($name:ident),*| $body:expr) => {
        [
            {
                $(let $name = $name[0];)*
                $body
            },
            {
                $(let $name = $name[1];)*
                $body
            },
        ]
    };
}

pub(crate) use both;

/// Codes of eight bytes, widened to 16 bits.
#[inline(always)]
pub(crate) fn widened(codes: &[u8; 8], are_signed: bool) -> v128 {
    let bytes = u64x2(u64::from_le_bytes(*codes), 0);
    if are_signed { i16x8_extend_low_i8x16(bytes) } else { u16x8_extend_low_u8x16(bytes) }
}

/// Integers of 16 bits as numbers.
#[inline(always)]
fn of_i16(codes: v128) -> [v128; 2] {
    let words = [i32x4_extend_low_i16x8(codes), i32x4_extend_high_i16x8(codes)];
    both!(|words| f32x4_convert_i32x4(words))
}

/// The numbers of half precision in the lower halves of words; what the others have does not matter.
#[inline(always)]
fn of_half(words: v128) -> v128 {
    let size = u32x4_shl(v128_and(words, u32x4_splat(0x7fff)), 13);
    // The exponent of single precision is larger by 112. Subnormal numbers become normal ones by this product, which is exact.
    let number = f32x4_mul(size, f32x4_splat(f32::from_bits((127 + 112) << 23)));
    // Infinity and NaN have the largest exponent.
    let is_large = u32x4_ge(size, u32x4_splat(0x7c00 << 13));
    let number = v128_or(number, v128_and(is_large, u32x4_splat(0x7f80_0000)));
    v128_or(number, u32x4_shl(v128_and(words, u32x4_splat(0x8000)), 16))
}

/// Transposes four vectors of four words.
#[inline(always)]
fn transpose_4(v: [v128; 4]) -> [v128; 4] {
    let [a, b] = [i32x4_shuffle::<0, 4, 1, 5>(v[0], v[1]), i32x4_shuffle::<2, 6, 3, 7>(v[0], v[1])];
    let [c, d] = [i32x4_shuffle::<0, 4, 1, 5>(v[2], v[3]), i32x4_shuffle::<2, 6, 3, 7>(v[2], v[3])];
    [
        i64x2_shuffle::<0, 2>(a, c),
        i64x2_shuffle::<1, 3>(a, c),
        i64x2_shuffle::<0, 2>(b, d),
        i64x2_shuffle::<1, 3>(b, d),
    ]
}

impl Lanes<8> for Simd128 {
    type Floats = [v128; 2];
    type Words = [v128; 2];

    const LIMITS_BYTES: bool = true;

    methods! {
        splat(number: f32) -> [v128; 2] = [f32x4_splat(number); 2];
        load(numbers: &[f32; 8]) -> [v128; 2] = cast(*numbers);
        store(place: &mut [f32; 8], numbers: [v128; 2]) -> () = { *place = cast(numbers); };
        add(a: [v128; 2], b: [v128; 2]) -> [v128; 2] = both!(|a, b| f32x4_add(a, b));
        sub(a: [v128; 2], b: [v128; 2]) -> [v128; 2] = both!(|a, b| f32x4_sub(a, b));
        mul(a: [v128; 2], b: [v128; 2]) -> [v128; 2] = both!(|a, b| f32x4_mul(a, b));
        sum(numbers: [v128; 2]) -> f32 = {
            let sums = f32x4_add(numbers[0], numbers[1]);
            let pairs = f32x4_add(sums, i64x2_shuffle::<1, 0>(sums, sums));
            f32x4_extract_lane::<0>(pairs) + f32x4_extract_lane::<1>(pairs)
        };
        clamp(x: [v128; 2], least: [v128; 2], most: [v128; 2]) -> [v128; 2] = {
            both!(|x, least, most| min_or_second(max_or_second(x, least), most))
        };
        nearest(numbers: [v128; 2]) -> [v128; 2] = {
            // Zero has no sign then.
            let rounder = f32x4_splat(ROUNDER);
            both!(|numbers| f32x4_sub(f32x4_add(numbers, rounder), rounder))
        };
        put_bytes<const V: usize>(vectors: [[v128; 2]; V], places: &mut [u8]) -> () = {
            let (zero, rounder) = (f32x4_splat(0.), f32x4_splat(ROUNDER));
            let mut codes = [[0; 8]; V];
            for vector in 0..V {
                let numbers = vectors[vector];
                // The bits of sums with the rounder follow each other as integers do, also where numbers are too large for one.
                let [a, b] = both!(|numbers| {
                    i32x4_sub(f32x4_add(max_or_second(numbers, zero), rounder), rounder)
                });
                let halves = i16x8_narrow_i32x4(a, b);
                codes[vector] =
                    i64x2_extract_lane::<0>(u8x16_narrow_i16x8(halves, halves)).to_le_bytes();
            }
            put_first(&codes, places);
        };
        load_words(words: &[[u8; 4]; 8]) -> [v128; 2] = cast(*words);
        store_words(place: &mut [[u8; 4]; 8], words: [v128; 2]) -> () = *place = cast(words);
        load_i32(numbers: &[i32; 8]) -> [v128; 2] = cast(*numbers);
        transpose(v: [[v128; 2]; 8]) -> [[v128; 2]; 8] = {
            let mut lanes = v;
            for half in 0..2 {
                let a = transpose_4([v[0][half], v[1][half], v[2][half], v[3][half]]);
                let b = transpose_4([v[4][half], v[5][half], v[6][half], v[7][half]]);
                for lane in 0..4 {
                    lanes[4 * half + lane] = [a[lane], b[lane]];
                }
            }
            lanes
        };
        of_i8(codes: &[u8; 8]) -> [v128; 2] = of_i16(widened(codes, true));
        of_u8(codes: &[u8; 8]) -> [v128; 2] = of_i16(widened(codes, false));
        of_nibbles<const SIGNED: bool>(bytes: &[u8; 8]) -> [[v128; 2]; 2] = {
            let bytes = u64x2(u64::from_le_bytes(*bytes), 0);
            let bytes = if SIGNED { v128_xor(bytes, u8x16_splat(0x88)) } else { bytes };
            let halves = [v128_and(bytes, u8x16_splat(15)), u8x16_shr(bytes, 4)];
            both!(|halves| {
                let codes = u16x8_extend_low_u8x16(halves);
                of_i16(if SIGNED { i16x8_sub(codes, i16x8_splat(8)) } else { codes })
            })
        };
        of_f16(bytes: &[[u8; 2]; 8]) -> [v128; 2] = {
            let halves = cast(*bytes);
            [of_half(u32x4_extend_low_u16x8(halves)), of_half(u32x4_extend_high_u16x8(halves))]
        };
        of_bf16(bytes: &[[u8; 2]; 8]) -> [v128; 2] = {
            let halves = cast(*bytes);
            let words = [u32x4_extend_low_u16x8(halves), u32x4_extend_high_u16x8(halves)];
            both!(|words| u32x4_shl(words, 16))
        };
        i32_of_words(words: [v128; 2]) -> [v128; 2] = both!(|words| f32x4_convert_i32x4(words));
        f32_of_words(words: [v128; 2]) -> [v128; 2] = words;
        f16_of_words(words: [v128; 2]) -> [[v128; 2]; 2] = {
            [both!(|words| of_half(words)), both!(|words| of_half(u32x4_shr(words, 16)))]
        };
        bf16_of_words(words: [v128; 2]) -> [[v128; 2]; 2] = {
            [
                both!(|words| u32x4_shl(words, 16)),
                both!(|words| v128_and(words, u32x4_splat(0xffff_0000))),
            ]
        };
        bytes_of_words<const SIGNED: bool>(words: [v128; 2]) -> [[v128; 2]; 4] = {
            let mut codes = [words; 4];
            for (code, place) in codes.iter_mut().enumerate() {
                *place = both!(|words| of_word::<SIGNED, 8>(words, code as u32));
            }
            codes
        };
        nibbles_of_words<const SIGNED: bool>(words: [v128; 2]) -> [[v128; 2]; 8] = {
            let mut codes = [words; 8];
            for (code, place) in codes.iter_mut().enumerate() {
                *place = both!(|words| of_word::<SIGNED, 4>(words, code as u32));
            }
            codes
        };
    }

    #[inline(always)]
    fn mul_add(self, a: [v128; 2], b: [v128; 2], c: [v128; 2]) -> [v128; 2] {
        both!(|a, b, c| cast(self.0.mul_add_e_f32s(cast(a), cast(b), cast(c))))
    }
}

/// A code of so many bits of each word.
#[inline(always)]
fn of_word<const SIGNED: bool, const BITS: u32>(words: v128, code: u32) -> v128 {
    // It comes to the highest bits, and back.
    let words = i32x4_shl(words, 32 - BITS * (code + 1));
    let back = 32 - BITS;
    f32x4_convert_i32x4(if SIGNED { i32x4_shr(words, back) } else { u32x4_shr(words, back) })
}
