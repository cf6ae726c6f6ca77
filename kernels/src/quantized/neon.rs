//! What the loops on codes do with vectors of ARM64, with intrinsics.
//!
//! The dot products of bytes (`sdot`) are of signed ones. So codes of data are less 128 there, and a sum begins with as many times its
//! weights ([`Instructions::first_sum`](crate::isa::Instructions::first_sum)). Without them codes have 16 bits in registers:
//! a sum of two products of bytes may not fit.

// Each runs where there is a value of the type that has the instructions, and vectors are read from arrays of their size.
#![allow(unsafe_code)]
// Loops count the registers of several vectors at once.
#![allow(clippy::needless_range_loop)]

use std::arch::aarch64::*;
use std::arch::asm;

use super::vectors::{CodeLanes, Codes, TapLanes};
use crate::convolution::Dot;
use crate::isa::{Isa, Lanes, Neon, NeonDot, NeonPairs, intrinsics};

type Words = [uint32x4_t; 2];

impl<const DOT: bool> CodeLanes<8> for NeonPairs<DOT> where NeonPairs<DOT>: Isa {}

/// For each of the four codes, those of all lanes.
impl Dot<Codes, 4, 8> for Neon {
    type Left = int16x4_t;
    type Right = [int16x8_t; 4];

    intrinsics! {
        left(codes: [u8; 4]) -> int16x4_t = {
            vreinterpret_s16_u16(vget_low_u16(vmovl_u8(first_bytes(codes))))
        };
        right(codes: &[[i8; 4]; 8]) -> [int16x8_t; 4] = {
            let int8x8x4_t(first, second, third, fourth) = vld4_s8(codes.as_flattened().as_ptr());
            [vmovl_s8(first), vmovl_s8(second), vmovl_s8(third), vmovl_s8(fourth)]
        };
        dot(sums: Words, left: int16x4_t, right: [int16x8_t; 4]) -> Words = {
            let [mut low, mut high] = signed(sums);
            low = vmlal_lane_s16::<0>(low, vget_low_s16(right[0]), left);
            high = vmlal_high_lane_s16::<0>(high, right[0], left);
            low = vmlal_lane_s16::<1>(low, vget_low_s16(right[1]), left);
            high = vmlal_high_lane_s16::<1>(high, right[1], left);
            low = vmlal_lane_s16::<2>(low, vget_low_s16(right[2]), left);
            high = vmlal_high_lane_s16::<2>(high, right[2], left);
            low = vmlal_lane_s16::<3>(low, vget_low_s16(right[3]), left);
            high = vmlal_high_lane_s16::<3>(high, right[3], left);
            unsigned([low, high])
        };
    }
}

/// The codes are once in a register: the instruction takes them for all lanes.
impl Dot<Codes, 4, 8> for NeonDot {
    type Left = int8x8_t;
    type Right = [int8x16_t; 2];

    intrinsics! {
        left(codes: [u8; 4]) -> int8x8_t = {
            first_less_128(first_bytes(codes))
        };
        right(codes: &[[i8; 4]; 8]) -> [int8x16_t; 2] = {
            let codes = codes.as_flattened();
            [vld1q_s8(codes.as_ptr()), vld1q_s8(codes[16..].as_ptr())]
        };
        dot(sums: Words, left: int8x8_t, right: [int8x16_t; 2]) -> Words = {
            let [low, high] = signed(sums);
            unsigned([sdot_first(low, right[0], left), sdot_first(high, right[1], left)])
        };
    }
}

/// The words of taps are the first taps of all lanes, and the second ones, with 16 bits.
impl TapLanes<2, 8> for Neon {
    const PACKS_IN_ORDER: bool = false;

    intrinsics! {
        interleaved(codes: [&[[u8; 8]; 2]; 2]) -> [Words; 2] = {
            let mut vectors = [[vdupq_n_u32(0); 2]; 2];
            for tap in 0..2 {
                let [low, high] = [vld1_u8(codes[tap][0].as_ptr()), vld1_u8(codes[tap][1].as_ptr())];
                let [low, high] = [vreinterpret_u32_u8(low), vreinterpret_u32_u8(high)];
                let first = vmovl_u8(vreinterpret_u8_u32(vzip1_u32(low, high)));
                let second = vmovl_u8(vreinterpret_u8_u32(vzip2_u32(low, high)));
                vectors[0][tap] = vreinterpretq_u32_u16(first);
                vectors[1][tap] = vreinterpretq_u32_u16(second);
            }
            vectors
        };
    }

    #[inline(always)]
    fn add_taps(self, sums: Words, codes: Words, weights: &[[u8; 4]; 8]) -> Words {
        let weights = self.load_words(weights);
        // SAFETY: the machine has the instructions.
        unsafe { add_two_taps(sums, codes, weights) }
    }

    #[inline(always)]
    fn in_order(self, [a, b]: [Words; 2]) -> [Words; 2] {
        [[a[0], b[0]], [a[1], b[1]]]
    }
}

impl TapLanes<4, 8> for NeonDot {
    const PACKS_IN_ORDER: bool = false;

    intrinsics! {
        interleaved(codes: [&[[u8; 8]; 4]; 4]) -> [Words; 4] = {
            let mut vectors = [[vdupq_n_u32(0); 2]; 4];
            for half in 0..2 {
                let mut taps = [vdupq_n_s8(0); 4];
                for tap in 0..4 {
                    taps[tap] = less_128(vld1q_u8(codes[tap].as_flattened()[16 * half..].as_ptr()));
                }
                let channels = interleave_4(taps);
                for vector in 0..4 {
                    vectors[vector][half] = channels[vector];
                }
            }
            vectors
        };
    }

    #[inline(always)]
    fn add_taps(self, sums: Words, codes: Words, weights: &[[u8; 4]; 8]) -> Words {
        let weights = self.load_words(weights);
        // SAFETY: the machine has the instructions.
        unsafe { add_four_taps(sums, codes, weights) }
    }

    #[inline(always)]
    fn in_order(self, [a, b, c, d]: [Words; 4]) -> [Words; 4] {
        [[a[0], b[0]], [c[0], d[0]], [a[1], b[1]], [c[1], d[1]]]
    }
}

/// The weights of both taps of a lane follow each other, the codes do not.
#[target_feature(enable = "neon")]
#[inline]
fn add_two_taps(sums: Words, codes: Words, weights: Words) -> Words {
    let [mut low, mut high] = signed(sums);
    let [a, b] = [vreinterpretq_s16_u32(weights[0]), vreinterpretq_s16_u32(weights[1])];
    let weights = [vuzp1q_s16(a, b), vuzp2q_s16(a, b)];
    for tap in 0..2 {
        let (codes, weights) = (vreinterpretq_s16_u32(codes[tap]), weights[tap]);
        low = vmlal_s16(low, vget_low_s16(codes), vget_low_s16(weights));
        high = vmlal_high_s16(high, codes, weights);
    }
    unsigned([low, high])
}

#[target_feature(enable = "neon,dotprod")]
#[inline]
fn add_four_taps(sums: Words, codes: Words, weights: Words) -> Words {
    let [low, high] = signed(sums);
    let [a, b] = [vreinterpretq_s8_u32(weights[0]), vreinterpretq_s8_u32(weights[1])];
    let [c, d] = [vreinterpretq_s8_u32(codes[0]), vreinterpretq_s8_u32(codes[1])];
    unsigned([sdot(low, a, c), sdot(high, b, d)])
}

/// Adds products of four neighbours to each sum. Rust has no stable intrinsic for it.
#[target_feature(enable = "neon,dotprod")]
#[inline]
fn sdot(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the machine has the instruction, which does nothing but compute a register from it and two others.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// As [`sdot`], of the first four of the second codes.
#[target_feature(enable = "neon,dotprod")]
#[inline]
fn sdot_first(mut sums: int32x4_t, a: int8x16_t, b: int8x8_t) -> int32x4_t {
    // SAFETY: the machine has the instruction, which does nothing but compute a register from it and two others.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.4b[0]",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// Four bytes, and zeros.
#[target_feature(enable = "neon")]
#[inline]
fn first_bytes(bytes: [u8; 4]) -> uint8x8_t {
    vreinterpret_u8_u32(vset_lane_u32::<0>(u32::from_le_bytes(bytes), vdup_n_u32(0)))
}

/// Codes from 0 to 255 as signed ones, from -128.
#[target_feature(enable = "neon")]
#[inline]
fn less_128(codes: uint8x16_t) -> int8x16_t {
    vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(0x80)))
}

/// As [`less_128`]. Of the intrinsic the compiler makes arithmetic outside vectors, which takes the codes to them byte by byte.
#[target_feature(enable = "neon")]
#[inline]
fn first_less_128(codes: uint8x8_t) -> int8x8_t {
    let less;
    // SAFETY: the instruction is one of NEON, and does nothing but compute one register from two others.
    unsafe {
        asm!(
            "eor {less:v}.8b, {codes:v}.8b, {bits:v}.8b",
            less = lateout(vreg) less,
            codes = in(vreg) codes,
            bits = in(vreg) vdup_n_u8(0x80),
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    less
}

#[target_feature(enable = "neon")]
#[inline]
fn signed(sums: Words) -> [int32x4_t; 2] {
    [vreinterpretq_s32_u32(sums[0]), vreinterpretq_s32_u32(sums[1])]
}

#[target_feature(enable = "neon")]
#[inline]
fn unsigned(sums: [int32x4_t; 2]) -> Words {
    [vreinterpretq_u32_s32(sums[0]), vreinterpretq_u32_s32(sums[1])]
}

/// The codes of four vectors in turn.
#[target_feature(enable = "neon")]
#[inline]
fn interleave_4([a, b, c, d]: [int8x16_t; 4]) -> [uint32x4_t; 4] {
    let low = [vzip1q_s8(a, b), vzip1q_s8(c, d)];
    let high = [vzip2q_s8(a, b), vzip2q_s8(c, d)];
    let [low, high] = [
        [vreinterpretq_s16_s8(low[0]), vreinterpretq_s16_s8(low[1])],
        [vreinterpretq_s16_s8(high[0]), vreinterpretq_s16_s8(high[1])],
    ];
    [
        vreinterpretq_u32_s16(vzip1q_s16(low[0], low[1])),
        vreinterpretq_u32_s16(vzip2q_s16(low[0], low[1])),
        vreinterpretq_u32_s16(vzip1q_s16(high[0], high[1])),
        vreinterpretq_u32_s16(vzip2q_s16(high[0], high[1])),
    ]
}
