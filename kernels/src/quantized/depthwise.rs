//! Convolutions of single channels of codes: each output channel is made of one of the data.
//!
//! The taps of a column of the kernel are interleaved, so that one instruction multiplies several taps of each channel. Pixels that
//! follow each other in a line share columns: with a stride of 1, each has one that the pixel before it had not.

use super::finish::{Finish, Written};
use super::instructions::Instructions;
use super::product::PADDING;

/// The kernel of each channel, packed: for a block of channels, the weights of some taps of a column at a time.
#[derive(Debug, PartialEq)]
pub(crate) struct Kernels {
    channels: usize,
    /// The taps of a column, and the columns.
    rows: usize,
    columns: usize,
    instructions: Instructions,
    /// `[block, column, some taps, channels of the block]`, these in the order of [`channel_of_lane`]. Two taps have 16 bits, four
    /// have 8.
    weights: Vec<[u8; 4]>,
    /// What each sum begins with, in the same order.
    offsets: Vec<i32>,
}

/// The most channels of a pixel whose codes are read at once.
pub(super) const MOST_CHANNELS: usize = 64;

/// So many pixels are computed for some channels, and then for others: their codes stay in the first cache.
pub(super) const MOST_PIXELS: usize = 32;

/// Which channel of a block a lane of as many vectors has as there are taps at once: as the processor interleaves their codes.
pub(super) fn channel_of_lane(lane: usize, lanes: usize, taps_at_once: usize) -> usize {
    let (vector, lane) = (lane / lanes, lane % lanes);
    lane / 4 * 4 * taps_at_once + vector * 4 + lane % 4
}

impl Kernels {
    /// Packs `code`, of a channel and a tap, of which so many are a row. `offset` is what the sum of a channel begins with.
    pub fn pack(
        channels: usize,
        [rows, columns]: [usize; 2],
        code: impl Fn(usize, usize) -> i8,
        offset: impl Fn(usize) -> i32,
    ) -> Kernels {
        let instructions = Instructions::detect();
        let (lanes, taps) = (instructions.lanes(), instructions.taps_at_once());
        let (mut weights, mut offsets) = (vec![], vec![]);
        for block in (0..channels).step_by(taps * lanes) {
            for column in 0..columns {
                for first in (0..rows).step_by(taps) {
                    weights.extend((0..taps * lanes).map(|lane| {
                        let channel = block + channel_of_lane(lane, lanes, taps);
                        let code = |row: usize| match row < rows && channel < channels {
                            true => code(channel, row * columns + column),
                            false => 0,
                        };
                        match taps {
                            4 => [0, 1, 2, 3].map(|tap| code(first + tap).cast_unsigned()),
                            _ => {
                                let [one, other] = [0, 1].map(|tap| i16::from(code(first + tap)));
                                let ([a, b], [c, d]) = (one.to_le_bytes(), other.to_le_bytes());
                                [a, b, c, d]
                            }
                        }
                    }));
                }
            }
            let channels_of_lanes =
                (0..taps * lanes).map(|lane| block + channel_of_lane(lane, lanes, taps));
            offsets.extend(channels_of_lanes.map(|it| if it < channels { offset(it) } else { 0 }));
        }
        Kernels { channels, rows, columns, instructions, weights, offsets }
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
    /// How many pixels follow until a line ends, and how many a line has.
    pub line: [usize; 2],
    /// How many columns the window moves from a pixel of a line to the next one. The others are the same.
    pub moved: usize,
    pub kernels: &'a Kernels,
    pub finish: &'a Finish,
    pub output: Written<'a>,
}

/// The weights of some taps of a block of channels.
pub(crate) type WeightsOf<const LANES: usize, const T: usize> = [[[u8; 4]; LANES]; T];

impl<'a> Part<'a> {
    /// The columns of a kernel, and how many times some taps make a column.
    #[inline(always)]
    pub fn shape(&self) -> [usize; 2] {
        let Kernels { rows, columns, instructions, .. } = self.kernels;
        [*columns, rows.div_ceil(instructions.taps_at_once())]
    }

    /// Whether a pixel begins a line, or is the first one.
    #[inline(always)]
    pub fn begins(&self, pixel: usize) -> bool {
        pixel == 0 || pixel >= self.line[0] && (pixel - self.line[0]).is_multiple_of(self.line[1])
    }

    /// For each block of channels the first one, how many there are, the weights, and what the sums begin with.
    #[inline(always)]
    pub fn blocks<const LANES: usize, const T: usize>(
        &self,
    ) -> impl Iterator<Item = (usize, usize, &'a [WeightsOf<LANES, T>], &'a [[i32; LANES]; T])>
    + use<'a, LANES, T> {
        let Kernels { weights, offsets, columns, channels, .. } = self.kernels;
        let [_, groups] = self.shape();
        let weights = weights.as_chunks().0.as_chunks().0.chunks_exact(columns * groups);
        let firsts = (0..*channels).step_by(LANES * T);
        firsts.zip(weights).zip(offsets.as_chunks().0.as_chunks().0).map(
            |((first, weights), offsets)| {
                (first, (*channels - first).min(LANES * T), weights, offsets)
            },
        )
    }

    /// The codes of some taps of a column of a pixel, for a block of channels: `last` are for codes that end before the block
    /// does. Beyond the last tap, where weights are 0, it is there again.
    #[inline(always)]
    pub fn codes<'l, const CHANNELS: usize, const T: usize>(
        &'l self,
        pixel: usize,
        column: usize,
        group: usize,
        first: usize,
        last: &'l mut [[u8; CHANNELS]; T],
    ) -> [&'l [u8; CHANNELS]; T] {
        let Kernels { columns, rows, .. } = *self.kernels;
        let starts = &self.starts[pixel * rows * columns..][..rows * columns];
        let mut last = last.iter_mut();
        std::array::from_fn(|tap| {
            let row = (group * T + tap).min(rows - 1);
            let codes = match starts[row * columns + column] {
                PADDING => self.padding,
                start => &self.codes[start..],
            };
            let codes = &codes[first..];
            match (codes.first_chunk(), last.next()) {
                (Some(codes), _) => codes,
                (None, Some(last)) => {
                    last[..codes.len()].copy_from_slice(codes);
                    last
                }
                (None, None) => unreachable!("there is one for each tap"),
            }
        })
    }
}
