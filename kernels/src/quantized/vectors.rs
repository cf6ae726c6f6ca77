//! What the loops on codes do with vectors, beside what all [`Lanes`] do: `x86.rs`, `neon.rs` and `wasm.rs` do it with intrinsics.
//!
//! Codes of data are unsigned, those of weights signed, and four neighbours of each are multiplied and added to one sum of 32
//! bits at a time. The processor has one instruction for that (`vpdpbusd`, of VNNI), or one that adds two products in 16
//! bits (`vpmaddubsw`), which is exact if they fit: if two neighbours of the weights are together at most 128 from 0, as
//! NNCF makes them if it is asked to. Others are widened to 16 bits first, and so is the data.

use crate::convolution::Dot;
use crate::isa::{Lanes, Portable, methods};
use crate::product::activation::{Activation, ActivationLanes};

/// Codes of 8 bits, as the elements of a convolution: those of data are unsigned, those of weights signed.
#[derive(Debug, PartialEq)]
pub(crate) struct Codes;

/// Vectors of what sums of codes become.
pub(crate) trait CodeLanes<const N: usize>: ActivationLanes<N> {
    /// The function of numbers that become codes: it may be less exact than that of others.
    #[inline(always)]
    fn activated_code(self, x: Self::Floats, activation: Activation) -> Self::Floats {
        self.activated(x, activation)
    }
}

/// Vectors that take `T` taps at once, from as many channels as `T` vectors have sums.
pub(crate) trait TapLanes<const T: usize, const N: usize>: CodeLanes<N> {
    /// Whether codes are made by [`TapLanes::put_codes`]: where it takes fewer instructions than [`TapLanes::in_order`] and
    /// [`Lanes::put_bytes`], and without vectors, as what the others are compared with.
    const PACKS_IN_ORDER: bool;
    /// The codes of the taps, in the order of [`channel_of_lane`].
    fn interleaved(self, codes: [&[[u8; N]; T]; T]) -> [Self::Words; T];
    /// Adds the products of taps and weights to the sums of a vector. Two taps have weights of 16 bits, four of 8.
    fn add_taps(self, sums: Self::Words, codes: Self::Words, weights: &[[u8; 4]; N])
    -> Self::Words;
    /// The sums in the order of their channels.
    fn in_order(self, sums: [Self::Words; T]) -> [Self::Words; T];
    /// Writes the codes of numbers, which are in the order of [`channel_of_lane`], in that of their channels.
    #[inline(always)]
    fn put_codes(self, numbers: [Self::Floats; T], places: &mut [u8]) {
        let mut ordered = [[0.; N]; T];
        for (vector, numbers) in numbers.into_iter().enumerate() {
            let mut lanes = [0.; N];
            self.store(&mut lanes, numbers);
            for (lane, number) in lanes.into_iter().enumerate() {
                let channel = channel_of_lane(vector * N + lane, N, T);
                ordered.as_flattened_mut()[channel] = number;
            }
        }
        self.put_bytes(ordered.map(|numbers| self.load(&numbers)), places);
    }
}

/// Which channel of a block a lane of as many vectors has as there are taps at once: as the processor interleaves their codes.
pub(super) fn channel_of_lane(lane: usize, lanes: usize, taps_at_once: usize) -> usize {
    let (vector, lane) = (lane / lanes, lane % lanes);
    lane / 4 * 4 * taps_at_once + vector * 4 + lane % 4
}

/// Vectors of sums that begin with these numbers.
#[inline(always)]
pub(super) fn load_sums<L: Lanes<N>, const N: usize, const V: usize>(
    lanes: L,
    numbers: &[[i32; N]; V],
) -> [L::Words; V] {
    let mut sums = [lanes.load_i32(&numbers[0]); V];
    for vector in 1..V {
        sums[vector] = lanes.load_i32(&numbers[vector]);
    }
    sums
}

impl CodeLanes<8> for Portable {}

impl Dot<Codes, 4, 8> for Portable {
    type Left = [i32; 4];
    type Right = [[i8; 4]; 8];

    methods! {
        left(codes: [u8; 4]) -> [i32; 4] = codes.map(i32::from);
        right(codes: &[[i8; 4]; 8]) -> [[i8; 4]; 8] = *codes;
        dot(sums: [u32; 8], left: [i32; 4], right: [[i8; 4]; 8]) -> [u32; 8] = {
            std::array::from_fn(|lane| {
                let products = left.iter().zip(right[lane]).map(|(a, b)| a * i32::from(b));
                sums[lane].wrapping_add_signed(products.sum())
            })
        };
    }
}

/// Each lane has two codes of 16 bits.
impl TapLanes<2, 8> for Portable {
    const PACKS_IN_ORDER: bool = true;

    methods! {
        interleaved(codes: [&[[u8; 8]; 2]; 2]) -> [[u32; 8]; 2] = {
            let [first, second] = codes.map(|codes| codes.as_flattened());
            let mut pairs = [[0; 8]; 2];
            for (lane, pair) in pairs.as_flattened_mut().iter_mut().enumerate() {
                let channel = channel_of_lane(lane, 8, 2);
                *pair = u32::from(first[channel]) | u32::from(second[channel]) << 16;
            }
            pairs
        };
        add_taps(sums: [u32; 8], codes: [u32; 8], weights: &[[u8; 4]; 8]) -> [u32; 8] = {
            std::array::from_fn(|lane| {
                let [a, b, c, d] = weights[lane];
                let [one, other] = [[a, b], [c, d]].map(|it| i32::from(i16::from_le_bytes(it)));
                let codes = [codes[lane] & 0xffff, codes[lane] >> 16];
                let [first, second] = codes.map(u32::cast_signed);
                sums[lane].wrapping_add_signed(first * one + second * other)
            })
        };
        in_order(sums: [[u32; 8]; 2]) -> [[u32; 8]; 2] = {
            let mut ordered = sums;
            for (lane, sum) in sums.as_flattened().iter().enumerate() {
                ordered.as_flattened_mut()[channel_of_lane(lane, 8, 2)] = *sum;
            }
            ordered
        };
    }
}
