//! What the loops on codes do with vectors of WebAssembly, with intrinsics: codes are widened to 16 bits.

use std::arch::wasm32::*;

use pulp::bytemuck::cast;

use super::vectors::{CodeLanes, Codes, TapLanes};
use crate::convolution::Dot;
use crate::isa::{Lanes, Simd128, both, methods, widened};

impl CodeLanes<8> for Simd128 {}

impl Dot<Codes, 2, 8> for Simd128 {
    /// The same in all lanes of both vectors.
    type Left = v128;
    type Right = [v128; 2];

    methods! {
        left(codes: [u8; 4]) -> v128 = i32x4_splat(cast(codes));
        right(codes: &[[i8; 2]; 8]) -> [v128; 2] = {
            let [first, second]: [[u8; 8]; 2] = cast(*codes);
            [widened(&first, true), widened(&second, true)]
        };
        dot(sums: [v128; 2], left: v128, right: [v128; 2]) -> [v128; 2] = {
            both!(|sums, right| i32x4_add(sums, i32x4_dot_i16x8(left, right)))
        };
    }
}

impl TapLanes<2, 8> for Simd128 {
    const PACKS_IN_ORDER: bool = false;

    methods! {
        interleaved(codes: [&[[u8; 8]; 2]; 2]) -> [[v128; 2]; 2] = {
            let [a, b] = codes;
            // The first four channels of each half come before the others of both.
            let [[a, b], [c, d]] = both!(|a, b| {
                let [a, b] = [widened(&a, false), widened(&b, false)];
                let first = i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(a, b);
                [first, i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(a, b)]
            });
            [[a, c], [b, d]]
        };
        in_order(sums: [[v128; 2]; 2]) -> [[v128; 2]; 2] = {
            [[sums[0][0], sums[1][0]], [sums[0][1], sums[1][1]]]
        };
    }

    #[inline(always)]
    fn add_taps(self, sums: [v128; 2], codes: [v128; 2], weights: &[[u8; 4]; 8]) -> [v128; 2] {
        let weights = self.load_words(weights);
        both!(|sums, codes, weights| i32x4_add(sums, i32x4_dot_i16x8(codes, weights)))
    }
}
