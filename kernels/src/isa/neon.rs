//! Vectors of ARM64, with intrinsics: eight numbers are two registers. Sums of a tile take 24 of the 32 that there are.

// Portable vectors are several times slower. All processors of this architecture have NEON; proofs of more are only made where the
// machine has it.
#![allow(unsafe_code)]

use std::arch::aarch64::*;
use std::arch::asm;
use std::arch::is_aarch64_feature_detected;

use super::macros::{intrinsics, isa};
use super::{Instructions, Isa, Lanes, On, put_first};

/// NEON: pairs of 128 bits; with `DOT`, bytes are multiplied four at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeonPairs<const DOT: bool>(pulp::aarch64::Neon);

/// Pairs of 128 bits.
pub(crate) type Neon = NeonPairs<false>;

/// Pairs of 128 bits, with dot products of bytes.
pub(crate) type NeonDot = NeonPairs<true>;

/// What this machine has, the best ones last.
pub(super) fn detected() -> Vec<Instructions> {
    let Some(neon) = pulp::aarch64::Neon::try_new() else { return vec![] };
    let mut all = vec![Instructions::Neon(NeonPairs(neon))];
    if is_aarch64_feature_detected!("dotprod") {
        all.push(Instructions::NeonDot(NeonPairs(neon)));
    }
    all
}

impl<const DOT: bool> NeonPairs<DOT> {
    /// Without dot products of bytes.
    #[inline(always)]
    pub fn plain(self) -> Neon {
        NeonPairs(self.0)
    }

    /// The same instructions for pulp.
    #[inline(always)]
    pub fn pulp(self) -> pulp::aarch64::Neon {
        self.0
    }
}

isa!(Neon, "neon");
isa!(NeonDot, "neon,dotprod");

type Floats = [float32x4_t; 2];
type Words = [uint32x4_t; 2];

impl<const DOT: bool> Lanes<8> for NeonPairs<DOT>
where
    NeonPairs<DOT>: Isa,
{
    type Floats = Floats;
    type Words = Words;

    const LIMITS_BYTES: bool = true;

    intrinsics! {
        splat(number: f32) -> Floats = [vdupq_n_f32(number); 2];
        load(numbers: &[f32; 8]) -> Floats = {
            [vld1q_f32(numbers.as_ptr()), vld1q_f32(numbers[4..].as_ptr())]
        };
        store(place: &mut [f32; 8], numbers: Floats) -> () = {
            vst1q_f32(place.as_mut_ptr(), numbers[0]);
            vst1q_f32(place[4..].as_mut_ptr(), numbers[1])
        };
        add(a: Floats, b: Floats) -> Floats = [vaddq_f32(a[0], b[0]), vaddq_f32(a[1], b[1])];
        sub(a: Floats, b: Floats) -> Floats = [vsubq_f32(a[0], b[0]), vsubq_f32(a[1], b[1])];
        mul(a: Floats, b: Floats) -> Floats = [vmulq_f32(a[0], b[0]), vmulq_f32(a[1], b[1])];
        mul_add(a: Floats, b: Floats, c: Floats) -> Floats = {
            [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])]
        };
        sum(numbers: Floats) -> f32 = vaddvq_f32(vaddq_f32(numbers[0], numbers[1]));
        clamp(x: Floats, least: Floats, most: Floats) -> Floats = {
            [limited(x[0], least[0], most[0]), limited(x[1], least[1], most[1])]
        };
        // By integers, so that there is no negative zero.
        nearest(numbers: Floats) -> Floats = {
            [vcvtq_f32_s32(vcvtnq_s32_f32(numbers[0])), vcvtq_f32_s32(vcvtnq_s32_f32(numbers[1]))]
        };
        put_bytes<const V: usize>(vectors: [Floats; V], places: &mut [u8]) -> () = {
            let mut codes = [[0; 8]; V];
            for vector in 0..V {
                let [low, high] = vectors[vector];
                let low = vqmovn_s32(vcvtnq_s32_f32(low));
                let halves = vqmovn_high_s32(low, vcvtnq_s32_f32(high));
                vst1_u8(codes[vector].as_mut_ptr(), vqmovun_s16(halves));
            }
            put_first(&codes, places)
        };
        load_words(words: &[[u8; 4]; 8]) -> Words = load_words(words);
        store_words(place: &mut [[u8; 4]; 8], words: Words) -> () = {
            let bytes = place.as_flattened_mut();
            vst1q_u8(bytes.as_mut_ptr(), vreinterpretq_u8_u32(words[0]));
            vst1q_u8(bytes[16..].as_mut_ptr(), vreinterpretq_u8_u32(words[1]));
        };
        load_i32(numbers: &[i32; 8]) -> Words = {
            let [low, high] = [vld1q_s32(numbers.as_ptr()), vld1q_s32(numbers[4..].as_ptr())];
            [vreinterpretq_u32_s32(low), vreinterpretq_u32_s32(high)]
        };
        transpose(vectors: [Words; 8]) -> [Words; 8] = transpose(vectors);
        of_i8(codes: &[u8; 8]) -> Floats = {
            let halves = vmovl_s8(vreinterpret_s8_u8(vld1_u8(codes.as_ptr())));
            let low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(halves)));
            [low, vcvtq_f32_s32(vmovl_high_s16(halves))]
        };
        of_u8(codes: &[u8; 8]) -> Floats = {
            let halves = vmovl_u8(vld1_u8(codes.as_ptr()));
            let low = vcvtq_f32_u32(vmovl_u16(vget_low_u16(halves)));
            [low, vcvtq_f32_u32(vmovl_high_u16(halves))]
        };
        of_f16(bytes: &[[u8; 2]; 8]) -> Floats = {
            let halves = load_halves(bytes);
            [of_halves(vget_low_u16(halves)), of_halves(vget_high_u16(halves))]
        };
        of_bf16(bytes: &[[u8; 2]; 8]) -> Floats = {
            let halves = load_halves(bytes);
            let low = vshlq_n_u32::<16>(vmovl_u16(vget_low_u16(halves)));
            let high = vshlq_n_u32::<16>(vmovl_high_u16(halves));
            [vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high)]
        };
        i32_of_words(words: Words) -> Floats = {
            let [low, high] = words;
            let low = vcvtq_f32_s32(vreinterpretq_s32_u32(low));
            [low, vcvtq_f32_s32(vreinterpretq_s32_u32(high))]
        };
        f32_of_words(words: Words) -> Floats = {
            [vreinterpretq_f32_u32(words[0]), vreinterpretq_f32_u32(words[1])]
        };
        f16_of_words(words: Words) -> [Floats; 2] = {
            let [low, high] = words;
            let first = [of_halves(vmovn_u32(low)), of_halves(vmovn_u32(high))];
            let second = [vshrn_n_u32::<16>(low), vshrn_n_u32::<16>(high)];
            [first, [of_halves(second[0]), of_halves(second[1])]]
        };
        bf16_of_words(words: Words) -> [Floats; 2] = {
            let [low, high] = words;
            let first = [vshlq_n_u32::<16>(low), vshlq_n_u32::<16>(high)];
            let upper = vdupq_n_u32(0xffff_0000);
            let second = [vandq_u32(low, upper), vandq_u32(high, upper)];
            [
                [vreinterpretq_f32_u32(first[0]), vreinterpretq_f32_u32(first[1])],
                [vreinterpretq_f32_u32(second[0]), vreinterpretq_f32_u32(second[1])],
            ]
        };
        bytes_of_words<const SIGNED: bool>(words: Words) -> [Floats; 4] = {
            [
                codes::<SIGNED, 24, 24>(words),
                codes::<SIGNED, 16, 24>(words),
                codes::<SIGNED, 8, 24>(words),
                codes::<SIGNED, 0, 24>(words),
            ]
        };
        nibbles_of_words<const SIGNED: bool>(words: Words) -> [Floats; 8] = {
            [
                codes::<SIGNED, 28, 28>(words),
                codes::<SIGNED, 24, 28>(words),
                codes::<SIGNED, 20, 28>(words),
                codes::<SIGNED, 16, 28>(words),
                codes::<SIGNED, 12, 28>(words),
                codes::<SIGNED, 8, 28>(words),
                codes::<SIGNED, 4, 28>(words),
                codes::<SIGNED, 0, 28>(words),
            ]
        };
    }
}

#[target_feature(enable = "neon")]
#[inline]
fn load_words(words: &[[u8; 4]; 8]) -> Words {
    let [low, high] = [words.as_flattened(), words[4..].as_flattened()];
    // SAFETY: each has 16 bytes, or more.
    let [low, high] = unsafe { [vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr())] };
    [vreinterpretq_u32_u8(low), vreinterpretq_u32_u8(high)]
}

#[target_feature(enable = "neon")]
#[inline]
fn load_halves(bytes: &[[u8; 2]; 8]) -> uint16x8_t {
    // SAFETY: there are 16 bytes.
    vreinterpretq_u16_u8(unsafe { vld1q_u8(bytes.as_flattened().as_ptr()) })
}

/// Numbers of half precision. The intrinsic is younger than the oldest Rust that will do.
#[target_feature(enable = "neon")]
#[inline]
fn of_halves(halves: uint16x4_t) -> float32x4_t {
    let floats;
    // SAFETY: the instruction is one of NEON, and does nothing but compute one register from another.
    unsafe {
        asm!(
            "fcvtl {floats:v}.4s, {halves:v}.4h",
            floats = lateout(vreg) floats,
            halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    floats
}

/// Numbers between two others. NaN becomes the least: the instructions for the larger and the smaller number give NaN.
#[target_feature(enable = "neon")]
#[inline]
fn limited(x: float32x4_t, least: float32x4_t, most: float32x4_t) -> float32x4_t {
    let x = vbslq_f32(vcgtq_f32(x, least), x, least);
    vbslq_f32(vcltq_f32(x, most), x, most)
}

/// Codes of words: so many bits are above them, and they come back to the lowest ones by so many.
#[target_feature(enable = "neon")]
#[inline]
fn codes<const SIGNED: bool, const ABOVE: i32, const BACK: i32>(words: Words) -> Floats {
    let [low, high] = [vshlq_n_u32::<ABOVE>(words[0]), vshlq_n_u32::<ABOVE>(words[1])];
    if SIGNED {
        let [low, high] = [vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high)];
        [vcvtq_f32_s32(vshrq_n_s32::<BACK>(low)), vcvtq_f32_s32(vshrq_n_s32::<BACK>(high))]
    } else {
        [vcvtq_f32_u32(vshrq_n_u32::<BACK>(low)), vcvtq_f32_u32(vshrq_n_u32::<BACK>(high))]
    }
}

/// By blocks of four vectors and four lanes.
#[target_feature(enable = "neon")]
#[inline]
fn transpose(v: [Words; 8]) -> [Words; 8] {
    let mut lanes = [[vdupq_n_u32(0); 2]; 8];
    for half in 0..2 {
        for block in 0..2 {
            let v = &v[4 * block..][..4];
            let of_block = transpose_4([v[0][half], v[1][half], v[2][half], v[3][half]]);
            for lane in 0..4 {
                lanes[4 * half + lane][block] = of_block[lane];
            }
        }
    }
    lanes
}

/// By pairs of vectors, and pairs of lanes.
#[target_feature(enable = "neon")]
#[inline]
fn transpose_4([a, b, c, d]: [uint32x4_t; 4]) -> [uint32x4_t; 4] {
    let [even, odd] = [
        [vreinterpretq_u64_u32(vtrn1q_u32(a, b)), vreinterpretq_u64_u32(vtrn1q_u32(c, d))],
        [vreinterpretq_u64_u32(vtrn2q_u32(a, b)), vreinterpretq_u64_u32(vtrn2q_u32(c, d))],
    ];
    [
        vreinterpretq_u32_u64(vtrn1q_u64(even[0], even[1])),
        vreinterpretq_u32_u64(vtrn1q_u64(odd[0], odd[1])),
        vreinterpretq_u32_u64(vtrn2q_u64(even[0], even[1])),
        vreinterpretq_u32_u64(vtrn2q_u64(odd[0], odd[1])),
    ]
}
