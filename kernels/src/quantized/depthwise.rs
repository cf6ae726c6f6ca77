//! Depthwise convolutions, of single channels of codes: each output channel is made of one of the data.
//!
//! The taps of a column of the kernel are interleaved, so that one instruction multiplies several taps of each channel. Pixels that
//! follow each other in a line share columns: with a stride of 1, each has one that the pixel before it had not. Where a pixel has
//! few channels, vectors have those of several neighbours, which are as if they were one pixel of so many channels.

use super::finish::{Epilogue, Written};
use super::window::ChannelsLastWindow;
use crate::isa::Instructions;
use crate::product::row_panels;

/// The kernel of each channel, packed: for a block of channels, the weights of some taps of a column at a time.
#[derive(Debug, PartialEq)]
pub(crate) struct DepthwiseKernels {
    /// Those of all pixels that are computed together.
    channels: usize,
    /// How many pixels are computed together.
    together: usize,
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
pub(super) const MOST_CHANNELS: usize = 128;

/// Which channel of a block a lane of as many vectors has as there are taps at once: as the processor interleaves their codes.
pub(super) fn channel_of_lane(lane: usize, lanes: usize, taps_at_once: usize) -> usize {
    let (vector, lane) = (lane / lanes, lane % lanes);
    lane / 4 * 4 * taps_at_once + vector * 4 + lane % 4
}

impl DepthwiseKernels {
    /// How many pixels of so many channels are computed together, if these follow each other in the image.
    pub fn pixels_together(channels: usize) -> usize {
        let instructions = Instructions::detect();
        let block = instructions.lanes() * instructions.taps_at_once();
        match channels > 0 && block.is_multiple_of(channels) {
            true => block / channels,
            false => 1,
        }
    }

    /// Packs `code`, of a channel and a tap, of which so many are a row. `offset` is what the sum of a channel begins with. So many
    /// pixels are computed together.
    pub fn pack(
        channels: usize,
        together: usize,
        [rows, columns]: [usize; 2],
        code: impl Fn(usize, usize) -> i8,
        offset: impl Fn(usize) -> i32,
    ) -> DepthwiseKernels {
        let instructions = Instructions::detect();
        let (lanes, taps) = (instructions.lanes(), instructions.taps_at_once());
        let (mut weights, mut offsets) = (vec![], vec![]);
        let code = |channel: usize, tap: usize| code(channel % channels, tap);
        let offset = |channel: usize| offset(channel % channels);
        let channels = channels * together;
        for block in (0..channels).step_by(taps * lanes) {
            let of_lane = |lane| block + channel_of_lane(lane, lanes, taps);
            for column in 0..columns {
                for first in (0..rows).step_by(taps) {
                    weights.extend((0..taps * lanes).map(of_lane).map(|channel| {
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
            let channels_of_lanes = (0..taps * lanes).map(of_lane);
            offsets.extend(channels_of_lanes.map(|it| if it < channels { offset(it) } else { 0 }));
        }
        DepthwiseKernels { channels, together, rows, columns, instructions, weights, offsets }
    }

    /// How many pixels are computed together.
    pub fn together(&self) -> usize {
        self.together
    }

    /// Computes a part of a convolution.
    pub fn multiply(&self, part: &mut DepthwiseTask) {
        self.instructions.multiply_channels(part);
    }
}

/// A thread's share of a convolution: some pixels. If several are computed together, they are those of one line, and so many
/// rows of the output are one.
pub(crate) struct DepthwiseTask<'a> {
    pub codes: &'a [u8],
    /// The code of zero for each channel, of all pixels that are computed together.
    pub padding: &'a [u8],
    pub window: &'a ChannelsLastWindow,
    /// The first pixel.
    pub first: usize,
    pub pixels: usize,
    pub kernels: &'a DepthwiseKernels,
    pub finish: &'a Epilogue,
    pub output: Written<'a>,
}

/// Some pixels of a line of the output.
pub(crate) struct OutputLine<'a> {
    /// The number of the first pixel, in the part, and how many there are. Here those that are computed together are one.
    pub first: usize,
    pub pixels: usize,
    /// For each tap of a column, the line of the image, or padding. The last one is repeated, for whole groups of taps.
    rows: Vec<ImageLine<'a>>,
    padding: ImageLine<'a>,
    /// Where the columns of the first pixel begin, with the padding before the image, how far apart they are, and how far those
    /// of the next pixel.
    begin: usize,
    dilation: usize,
    stride: usize,
    /// The pixels of padding before the line of the image, and those of the line.
    pad: usize,
    size: usize,
    /// How many pixels are computed together.
    together: usize,
}

/// The codes of a line of the image, and how far a pixel is from the one before it.
#[derive(Clone, Copy)]
struct ImageLine<'a> {
    codes: &'a [u8],
    step: usize,
}

/// The weights of some taps of a block of channels.
pub(crate) type WeightsOf<const LANES: usize, const T: usize> = [[[u8; 4]; LANES]; T];

impl<'a> DepthwiseTask<'a> {
    /// The columns of a kernel, and how many times some taps make a column.
    #[inline(always)]
    pub fn shape(&self) -> [usize; 2] {
        let DepthwiseKernels { rows, columns, instructions, .. } = self.kernels;
        [*columns, rows.div_ceil(instructions.taps_at_once())]
    }

    /// How many columns of a pixel the pixel before it in a line has not.
    pub fn new_columns(&self) -> usize {
        let (columns, [stride, dilation]) = (self.kernels.columns, self.window.steps());
        let stride = stride * self.kernels.together;
        if stride.is_multiple_of(dilation) { columns.min(stride / dilation) } else { columns }
    }

    /// The pixels of each line of the output.
    pub fn lines(&self) -> Vec<OutputLine<'a>> {
        let (mut lines, mut first) = (vec![], 0);
        let (window, [stride, dilation]) = (self.window, self.window.steps());
        let together = self.kernels.together;
        let channels = self.kernels.channels / together;
        let taps = self.shape()[1] * self.kernels.instructions.taps_at_once();
        let padding = ImageLine { codes: self.padding, step: 0 };
        let mut starts = vec![];
        while first < self.pixels {
            let [line, begin, left] = window.line(self.first + first);
            window.lines(line, &mut starts);
            let row = |start: &Option<usize>| match start {
                Some(start) => ImageLine { codes: &self.codes[start * channels..], step: channels },
                None => padding,
            };
            let mut rows: Vec<ImageLine> = starts.iter().map(row).collect();
            rows.resize(taps, rows[rows.len() - 1]);
            let ([pad, size], pixels) = (window.row_of_image(), left.min(self.pixels - first));
            let begin = begin * stride;
            lines.push(OutputLine {
                first: first / together,
                pixels: pixels.div_ceil(together),
                rows,
                padding,
                begin,
                dilation,
                stride: stride * together,
                pad,
                size,
                together,
            });
            first += pixels;
        }
        lines
    }

    /// Some blocks of channels at a time, at most so many.
    pub fn blocks(
        &self,
        channels: usize,
        most: usize,
    ) -> impl Iterator<Item = (usize, usize)> + use<> {
        row_panels(0..self.kernels.channels.div_ceil(channels), most)
    }

    /// Whether there are as many pixels as are computed together.
    #[inline(always)]
    pub fn is_whole(&self, pixel: usize) -> bool {
        (pixel + 1) * self.kernels.together <= self.pixels
    }

    /// The first channel of some blocks, and how many these have together. The last pixel of a part may have fewer.
    #[inline(always)]
    pub fn channels(
        &self,
        first: usize,
        of_a_block: usize,
        most: usize,
        pixel: usize,
    ) -> (usize, usize) {
        let (first, DepthwiseKernels { channels, together, .. }) =
            (first * of_a_block, self.kernels);
        let there = match together {
            1 => *channels,
            // They are one block.
            together => (self.pixels - pixel * together).min(*together) * (channels / together),
        };
        (first, (there - first).min(most))
    }

    /// The weights of some blocks, and what their sums begin with.
    #[inline(always)]
    pub fn kernels_of<const LANES: usize, const T: usize, const B: usize>(
        &self,
        first: usize,
    ) -> ([&'a [WeightsOf<LANES, T>]; B], &'a [[[i32; LANES]; T]; B]) {
        let DepthwiseKernels { weights, offsets, .. } = self.kernels;
        let [columns, groups] = self.shape();
        let of_a_block = columns * groups;
        let weights = &weights.as_chunks().0.as_chunks().0[first * of_a_block..];
        let weights = std::array::from_fn(|block| &weights[block * of_a_block..][..of_a_block]);
        let offsets = &offsets.as_chunks().0.as_chunks().0[first..][..B];
        (weights, &offsets.as_chunks().0[0])
    }
}

impl<'a> OutputLine<'a> {
    /// The codes of some taps of a column of a pixel, for some blocks of channels: `last` are for codes that end before the blocks
    /// do.
    #[inline(always)]
    pub fn codes<'l, const CHANNELS: usize, const T: usize, const B: usize>(
        &'l self,
        pixel: usize,
        column: usize,
        group: usize,
        first: usize,
        last: &'l mut [[[u8; CHANNELS]; B]; T],
    ) -> [&'l [[u8; CHANNELS]; B]; T] {
        let x = self.begin + pixel * self.stride + column * self.dilation;
        let x = x.wrapping_sub(self.pad);
        // Before the image, this is more than its size, too.
        if self.together > 1 && self.size.saturating_sub(x) < self.together {
            return self.codes_at_end(x, group, last);
        }
        let rows: &[ImageLine; T] = match x < self.size {
            true => &self.rows.as_chunks().0[group],
            false => &[self.padding; T],
        };
        let mut codes: [&[[u8; CHANNELS]; B]; T] = [&[[0; CHANNELS]; B]; T];
        for ((codes, row), last) in codes.iter_mut().zip(rows).zip(last) {
            let begin = x.wrapping_mul(row.step) + first * CHANNELS;
            *codes = match row.codes.get(begin..begin + B * CHANNELS) {
                Some(codes) => &codes.as_chunks().0.as_chunks().0[0],
                None => {
                    let rest = &row.codes[begin..];
                    last.as_flattened_mut()[..rest.len()].copy_from_slice(rest);
                    last
                }
            };
        }
        codes
    }

    /// The same for pixels that are computed together, from pixel `x` of the line on, some of which are in the padding.
    #[inline(never)]
    fn codes_at_end<'l, const CHANNELS: usize, const T: usize, const B: usize>(
        &'l self,
        x: usize,
        group: usize,
        last: &'l mut [[[u8; CHANNELS]; B]; T],
    ) -> [&'l [[u8; CHANNELS]; B]; T] {
        let rows: &[ImageLine; T] = &self.rows.as_chunks().0[group];
        for (row, last) in rows.iter().zip(&mut *last) {
            let channels = CHANNELS / self.together;
            for (number, places) in last.as_flattened_mut().chunks_exact_mut(channels).enumerate() {
                let x = x.wrapping_add(number);
                let ImageLine { codes, step } = if x < self.size { *row } else { self.padding };
                let begin = if step > 0 { x * step } else { 0 };
                places.copy_from_slice(&codes[begin..][..channels]);
            }
        }
        last.each_ref()
    }
}
