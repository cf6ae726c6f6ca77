//! Convolutions of single channels of codes: each output channel is made of one of the data.

use super::finish::{Finish, Written};
use super::instructions::Instructions;
use super::product::PADDING;
use crate::product::row_panels;

/// The kernel of each channel, packed: for a block of channels, the weights of two taps at a time.
#[derive(Debug, PartialEq)]
pub(crate) struct Kernels {
    channels: usize,
    taps: usize,
    instructions: Instructions,
    /// `[block, two taps, channels of the block]`, these in the order of [`channel_of_lane`].
    weights: Vec<[i16; 2]>,
    /// What each sum begins with, in the same order.
    offsets: Vec<i32>,
}

/// The most channels of a pixel whose codes are read at once.
pub(super) const MOST_CHANNELS: usize = 128;

/// Which channel of a block a lane of two vectors has: the first vector has the first half of each eight channels, the
/// second one has the other half, as the processor interleaves them.
pub(super) fn channel_of_lane(lane: usize, lanes: usize) -> usize {
    let (vector, lane) = (lane / lanes, lane % lanes);
    lane / 4 * 8 + vector * 4 + lane % 4
}

impl Kernels {
    /// Packs `code`, of a channel and a tap. `offset` is what the sum of a channel begins with.
    pub fn pack(
        channels: usize,
        taps: usize,
        code: impl Fn(usize, usize) -> i8,
        offset: impl Fn(usize) -> i32,
    ) -> Kernels {
        let instructions = Instructions::detect();
        let lanes = instructions.lanes();
        let (mut weights, mut offsets) = (vec![], vec![]);
        for first in (0..channels).step_by(2 * lanes) {
            let of_lane = |lane| first + channel_of_lane(lane, lanes);
            for tap in (0..taps).step_by(2) {
                weights.extend((0..2 * lanes).map(of_lane).map(|channel| {
                    [tap, tap + 1].map(|tap| match tap < taps && channel < channels {
                        true => i16::from(code(channel, tap)),
                        false => 0,
                    })
                }));
            }
            let channels_of_lanes = (0..2 * lanes).map(of_lane);
            offsets.extend(channels_of_lanes.map(|it| if it < channels { offset(it) } else { 0 }));
        }
        Kernels { channels, taps, instructions, weights, offsets }
    }

    /// Computes a part of a convolution.
    pub fn multiply(&self, part: &mut Part) {
        self.instructions.multiply_channels(part);
    }
}

/// Some pixels of a convolution.
pub(crate) struct Part<'a> {
    pub codes: &'a [u8],
    /// The code of zero for each channel.
    pub padding: &'a [u8],
    /// Where each tap of each pixel begins in the codes, or [`PADDING`].
    pub starts: &'a [usize],
    pub pixels: usize,
    pub kernels: &'a Kernels,
    pub finish: &'a Finish,
    pub output: Written<'a>,
}

/// For each of some blocks, the weights of two taps at a time.
type WeightsOf<'a, const CHANNELS: usize, const B: usize> = [&'a [[[i16; 2]; CHANNELS]]; B];

impl<'a> Part<'a> {
    /// Some blocks of channels at a time.
    pub fn blocks(&self, channels: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        row_panels(0..self.kernels.channels.div_ceil(channels), 4)
    }

    /// The weights of some blocks, and what their sums begin with.
    #[inline(always)]
    pub fn kernels_of<const CHANNELS: usize, const B: usize>(
        &self,
        first: usize,
    ) -> (WeightsOf<'a, CHANNELS, B>, &'a [[i32; CHANNELS]; B]) {
        let Kernels { weights, offsets, taps, .. } = self.kernels;
        let pairs = taps.div_ceil(2);
        let weights = &weights.as_chunks::<CHANNELS>().0[first * pairs..];
        let mut blocks: [&[_]; B] = [&[]; B];
        for (number, block) in blocks.iter_mut().enumerate() {
            *block = &weights[number * pairs..][..pairs];
        }
        let offsets = &offsets.as_chunks::<CHANNELS>().0[first..][..B];
        (blocks, &offsets.as_chunks().0[0])
    }

    /// The codes of the taps of a pixel, two at a time. The last one may be there twice.
    #[inline(always)]
    pub fn taps(&self, pixel: usize, taps: &mut Vec<[&'a [u8]; 2]>) {
        let starts = &self.starts[pixel * self.kernels.taps..][..self.kernels.taps];
        let codes = |start: usize| match start {
            PADDING => self.padding,
            start => &self.codes[start..],
        };
        taps.clear();
        taps.extend(starts.chunks(2).map(|pair| [codes(pair[0]), codes(pair[pair.len() - 1])]));
    }

    /// The first channel of some blocks, and how many these have together.
    #[inline(always)]
    pub fn channels(&self, first: usize, channels: usize) -> (usize, usize) {
        let first = first * 2 * self.kernels.instructions.lanes();
        (first, (self.kernels.channels - first).min(channels))
    }
}

/// The codes of two taps for some blocks. `last` is for codes that end before their block does.
#[inline(always)]
pub(super) fn codes<'l, const CHANNELS: usize, const B: usize>(
    taps: &[&'l [u8]; 2],
    first: usize,
    last: &'l mut [[[u8; CHANNELS]; B]; 2],
) -> [&'l [[u8; CHANNELS]; B]; 2] {
    let [one, other] = last;
    let codes = |tap: &'l [u8], last: &'l mut [[u8; CHANNELS]; B]| {
        let codes = &tap[first * CHANNELS..];
        match codes.get(..B * CHANNELS) {
            Some(codes) => &codes.as_chunks().0.as_chunks().0[0],
            None => {
                last.as_flattened_mut()[..codes.len()].copy_from_slice(codes);
                &*last
            }
        }
    };
    [codes(taps[0], one), codes(taps[1], other)]
}
