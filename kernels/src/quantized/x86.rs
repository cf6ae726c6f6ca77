//! What the loops on codes do with vectors of x86, with intrinsics.

// Each runs where there is a value of the type that has the instructions, and vectors are read from arrays of their size.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::vectors::{CodeLanes, Codes, TapLanes};
use crate::convolution::Dot;
use crate::isa::{
    Avx2, Avx256, Avx512, Avx512Vnni, AvxVnni, Isa, Lanes, intrinsics, packed_bytes_512, put_first,
    store_bytes_512,
};
use crate::product::activation::{Activation, ActivationLanes};

impl<const VNNI: bool> CodeLanes<8> for Avx256<VNNI> where Avx256<VNNI>: Isa {}

impl<const VNNI: bool> CodeLanes<16> for Avx512<VNNI>
where
    Avx512<VNNI>: Isa,
{
    #[inline(always)]
    fn activated_code(self, x: __m512, activation: Activation) -> __m512 {
        match activation {
            // SAFETY: the machine has the instructions.
            Activation::Swish => unsafe { swish(x) },
            _ => self.activated(x, activation),
        }
    }
}

/// `x / (1 + exp(-x))`, within a millionth of itself or of one: with a series of fewer terms than products in single precision
/// have, and a reciprocal, for which one step of Newton's is enough.
#[target_feature(enable = "avx512f")]
#[inline]
fn swish(x: __m512) -> __m512 {
    /// Larger powers of two have a reciprocal below the normal numbers, and smaller ones are below them: these take the processor long.
    const MOST: f32 = 125.;
    let splat = |number: f32| _mm512_set1_ps(number);
    // Smaller numbers give 0, too. Of NaN the second operand is the larger one.
    let x = _mm512_max_ps(splat(-104.), x);
    let power = _mm512_mul_ps(x, splat(-std::f32::consts::LOG2_E));
    let power = _mm512_max_ps(_mm512_min_ps(power, splat(MOST)), splat(-MOST));
    let integer = _mm512_roundscale_ps::<0>(power);
    let rest = _mm512_sub_ps(power, integer);
    // `2^rest` between -0.5 and 0.5, within 8e-8: the polynomial whose largest relative error is least.
    let mut series = splat(1.327_647_1e-3);
    for factor in [9.675_541e-3, 5.550_713e-2, 2.402_212e-1, 6.931_469_4e-1, 1.] {
        series = _mm512_fmadd_ps(series, rest, splat(factor));
    }
    let below = _mm512_add_ps(_mm512_scalef_ps(series, integer), splat(1.));
    let near = _mm512_rcp14_ps(below);
    let error = _mm512_fnmadd_ps(below, near, splat(1.));
    _mm512_mul_ps(x, _mm512_fmadd_ps(near, error, near))
}

/// Implements [`Dot`]: codes of data are the same word in all lanes.
macro_rules! dot_codes {
    ($isa:ty, $width:literal, $lanes:literal, $vector:ty, splat: $splat:ident,
        right($codes:ident): $right:expr, dot($sums:ident, $one:ident, $other:ident): $dot:expr) => {
        impl Dot<Codes, $width, $lanes> for $isa {
            type Left = $vector;
            type Right = $vector;

            intrinsics! {
                left(codes: [u8; 4]) -> $vector = $splat(pulp::cast(codes));
                right($codes: &[[i8; $width]; $lanes]) -> $vector = $right;
                dot($sums: $vector, $one: $vector, $other: $vector) -> $vector = $dot;
            }
        }
    };
}

dot_codes!(Avx2, 4, 8, __m256i, splat: _mm256_set1_epi32,
right(codes): _mm256_loadu_si256(codes.as_ptr().cast()),
dot(sums, left, right): {
    let pairs = _mm256_maddubs_epi16(left, right);
    _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
});

dot_codes!(Avx2, 2, 8, __m256i, splat: _mm256_set1_epi32,
    right(codes): _mm256_cvtepi8_epi16(_mm_loadu_si128(codes.as_ptr().cast())),
    dot(sums, left, right): _mm256_add_epi32(sums, _mm256_madd_epi16(left, right)));

dot_codes!(AvxVnni, 4, 8, __m256i, splat: _mm256_set1_epi32,
    right(codes): _mm256_loadu_si256(codes.as_ptr().cast()),
    dot(sums, left, right): _mm256_dpbusd_avx_epi32(sums, left, right));

dot_codes!(Avx512<false>, 4, 16, __m512i, splat: _mm512_set1_epi32,
right(codes): _mm512_loadu_si512(codes.as_ptr().cast()),
dot(sums, left, right): {
    let pairs = _mm512_maddubs_epi16(left, right);
    _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
});

dot_codes!(Avx512<false>, 2, 16, __m512i, splat: _mm512_set1_epi32,
    right(codes): _mm512_cvtepi8_epi16(_mm256_loadu_si256(codes.as_ptr().cast())),
    dot(sums, left, right): _mm512_add_epi32(sums, _mm512_madd_epi16(left, right)));

dot_codes!(Avx512Vnni, 4, 16, __m512i, splat: _mm512_set1_epi32,
    right(codes): _mm512_loadu_si512(codes.as_ptr().cast()),
    dot(sums, left, right): _mm512_dpbusd_epi32(sums, left, right));

/// Implements [`TapLanes`]: taps are multiplied as so many codes.
macro_rules! tap_lanes {
    ($isa:ty, $taps:literal, $lanes:literal, $vector:ty, load: $load:ident,
        interleave: $interleave:ident, in_order: $in_order:ident, put_codes: $put_codes:ident) => {
        impl TapLanes<$taps, $lanes> for $isa {
            const PACKS_IN_ORDER: bool = true;

            intrinsics! {
                interleaved(codes: [&[[u8; $lanes]; $taps]; $taps]) -> [$vector; $taps] = {
                    let mut vectors = [$load(codes[0].as_ptr().cast()); $taps];
                    for tap in 1..$taps {
                        vectors[tap] = $load(codes[tap].as_ptr().cast());
                    }
                    $interleave(vectors)
                };
                in_order(sums: [$vector; $taps]) -> [$vector; $taps] = $in_order(sums);
                put_codes(numbers: [Self::Floats; $taps], places: &mut [u8]) -> () = {
                    $put_codes(numbers, places)
                };
            }

            #[inline(always)]
            fn add_taps(
                self,
                sums: $vector,
                codes: $vector,
                weights: &[[u8; 4]; $lanes],
            ) -> $vector {
                let weights = self.load_words(weights);
                Dot::<Codes, $taps, $lanes>::dot(self, sums, codes, weights)
            }
        }
    };
}

tap_lanes!(Avx2, 2, 8, __m256i, load: _mm_loadu_si128,
    interleave: interleave_2_of_256, in_order: order_2_of_256, put_codes: put_codes_2_of_256);
tap_lanes!(AvxVnni, 4, 8, __m256i, load: _mm256_loadu_si256,
    interleave: interleave_4_of_256, in_order: order_4_of_256, put_codes: put_codes_4_of_256);
tap_lanes!(Avx512<false>, 2, 16, __m512i, load: _mm256_loadu_si256,
    interleave: interleave_2_of_512, in_order: order_2_of_512, put_codes: put_codes_2_of_512);
tap_lanes!(Avx512Vnni, 4, 16, __m512i, load: _mm512_loadu_si512,
    interleave: interleave_4_of_512, in_order: order_4_of_512, put_codes: put_codes_4_of_512);

#[target_feature(enable = "avx2")]
#[inline]
fn interleave_2_of_256([a, b]: [__m128i; 2]) -> [__m256i; 2] {
    let (a, b) = (_mm256_cvtepu8_epi16(a), _mm256_cvtepu8_epi16(b));
    [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
}

#[target_feature(enable = "avx2")]
#[inline]
fn interleave_4_of_256([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let low = [_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d)];
    let high = [_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d)];
    [
        _mm256_unpacklo_epi16(low[0], low[1]),
        _mm256_unpackhi_epi16(low[0], low[1]),
        _mm256_unpacklo_epi16(high[0], high[1]),
        _mm256_unpackhi_epi16(high[0], high[1]),
    ]
}

#[target_feature(enable = "avx512bw")]
#[inline]
fn interleave_2_of_512([a, b]: [__m256i; 2]) -> [__m512i; 2] {
    let (a, b) = (_mm512_cvtepu8_epi16(a), _mm512_cvtepu8_epi16(b));
    [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)]
}

#[target_feature(enable = "avx512bw")]
#[inline]
fn interleave_4_of_512([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let low = [_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d)];
    let high = [_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d)];
    [
        _mm512_unpacklo_epi16(low[0], low[1]),
        _mm512_unpackhi_epi16(low[0], low[1]),
        _mm512_unpacklo_epi16(high[0], high[1]),
        _mm512_unpackhi_epi16(high[0], high[1]),
    ]
}

#[target_feature(enable = "avx2")]
#[inline]
fn order_2_of_256([a, b]: [__m256i; 2]) -> [__m256i; 2] {
    [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)]
}

#[target_feature(enable = "avx2")]
#[inline]
fn order_4_of_256([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let ([a, b], [c, d]) = (order_2_of_256([a, b]), order_2_of_256([c, d]));
    [a, c, b, d]
}

#[target_feature(enable = "avx512f")]
#[inline]
fn order_2_of_512([a, b]: [__m512i; 2]) -> [__m512i; 2] {
    let low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    [_mm512_permutex2var_epi64(a, low, b), _mm512_permutex2var_epi64(a, high, b)]
}

#[target_feature(enable = "avx512f")]
#[inline]
fn order_4_of_512([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let low = [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d)];
    let high = [_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d)];
    [
        _mm512_shuffle_i32x4::<0x88>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0xdd>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0x88>(high[0], high[1]),
        _mm512_shuffle_i32x4::<0xdd>(high[0], high[1]),
    ]
}

#[target_feature(enable = "avx2")]
#[inline]
fn put_codes_2_of_256([a, b]: [__m256; 2], places: &mut [u8]) {
    let words = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    let bytes = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi16(words, words));
    put_first(&[pulp::cast::<_, [u8; 16]>(_mm256_castsi256_si128(bytes))], places);
}

#[target_feature(enable = "avx2")]
#[inline]
fn put_codes_4_of_256([a, b, c, d]: [__m256; 4], places: &mut [u8]) {
    let low = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    let high = _mm256_packs_epi32(_mm256_cvtps_epi32(c), _mm256_cvtps_epi32(d));
    put_first(&[pulp::cast::<_, [u8; 32]>(_mm256_packus_epi16(low, high))], places);
}

#[target_feature(enable = "avx2,avx512f,avx512vl,avx512bw")]
#[inline]
fn put_codes_2_of_512([a, b]: [__m512; 2], places: &mut [u8]) {
    let halves = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6);
    let bytes = _mm512_permutexvar_epi64(halves, packed_bytes_512([a, b, a, b]));
    store_bytes_512(bytes, 2, places);
}

#[target_feature(enable = "avx2,avx512f,avx512vl,avx512bw")]
#[inline]
fn put_codes_4_of_512(numbers: [__m512; 4], places: &mut [u8]) {
    store_bytes_512(packed_bytes_512(numbers), 4, places);
}
