//! Depthwise convolutions of codes: each output channel is made of one channel of the data.
//!
//! The taps of a column of the kernel are interleaved, so that one instruction multiplies several taps of each channel. Pixels that
//! follow each other in a line share columns: with a stride of 1, each has one that the pixel before it had not. Where a pixel has
//! few channels, vectors have those of several neighbours, which are as if they were one pixel of so many channels.

use std::ops::Range;

use super::finish::TileSums;
use super::vectors::{CodeLanes, Codes, TapLanes, channel_of_lane, load_sums};
use crate::convolution::{DepthwiseRows, MOST_ROWS, TilePlace};
use crate::isa::{Instructions, On, with_isa};
use crate::product::row_panels;
use crate::window::Window;

/// The kernel of each channel, packed: for a block of channels, the weights of some taps of a column at a time.
#[derive(Debug, PartialEq)]
pub(crate) struct DepthwiseKernels {
    /// The channels of all pixels that are computed together.
    channels: usize,
    /// How many pixels are computed together.
    pub together: usize,
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

impl Instructions {
    /// How many taps of a depthwise convolution are multiplied at once, and how many vectors a block of channels has.
    fn taps_at_once(self) -> usize {
        fn count<L: TapLanes<T, N>, const T: usize, const N: usize>(_: L) -> usize {
            T
        }
        with_isa!(self, isa => count(isa))
    }
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
        let offset = |channel: usize| {
            let weights = (0..rows * columns).map(|tap| code(channel, tap));
            instructions.first_sum(offset(channel % channels), weights)
        };
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
                                let bytes = |tap| i16::from(code(first + tap)).to_le_bytes();
                                let [[a, b], [c, d]] = [0, 1].map(bytes);
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
}

/// Computes some pixels.
pub(super) fn multiply_rows(kernels: &DepthwiseKernels, mut rows: DepthwiseRows<Codes>) {
    let together = kernels.together;
    let mut begin = 0;
    while begin < rows.pixels {
        let first = rows.first + begin;
        let most = if together == 1 { MOST_ROWS } else { rows.window.line(first)[2] };
        let pixels = most.min(rows.pixels - begin);
        let output = rows.output.skip_rows(begin).with_rows_joined(together);
        let mut task =
            DepthwiseTask { kernels, rows: DepthwiseRows { first, pixels, output, ..rows } };
        with_isa!(kernels.instructions, isa => task.multiply_on(isa));
        begin += pixels;
    }
}

/// A task of a depthwise convolution: some pixels. If several are computed together, they are those of one line, and so many
/// rows of the output are one.
struct DepthwiseTask<'a> {
    kernels: &'a DepthwiseKernels,
    rows: DepthwiseRows<'a, Codes>,
}

/// Some pixels of a line of the output.
struct OutputLine<'a> {
    /// The number of the first pixel, in the task, and how many there are. Here those that are computed together are one.
    first: usize,
    pixels: usize,
    /// For each tap of a column, the line of the image, or padding. The last one is repeated, for whole groups of taps.
    rows: Vec<ImageLine<'a>>,
    padding: ImageLine<'a>,
    /// Where the columns of the first pixel begin, with the padding before the image, how far apart they are, and how far those
    /// of the next pixel.
    begin: usize,
    dilation: usize,
    stride: usize,
    /// How many pixels of padding are before the line of the image, and how many pixels the line has.
    pad: usize,
    size: usize,
    /// How many pixels are computed together.
    together: usize,
}

/// The codes of a line of the image, and how far a pixel is from the one before it.
#[derive(Clone, Copy)]
struct ImageLine<'a> {
    codes: &'a [u8],
    stride: usize,
}

/// The weights of some taps of a block of channels.
type TapWeights<const N: usize, const T: usize> = [[[u8; 4]; N]; T];

/// The codes of a tap for some blocks of channels.
type BlockCodes<const N: usize, const T: usize, const B: usize> = [[[u8; N]; T]; B];

/// Pixels whose sums are finished at once.
const PIXELS: usize = 4;

/// Kernels of so many columns, of four taps at most, have vectors of codes in variables, which stay in registers with AVX-512.
const COLUMNS: usize = 3;

impl<'a> DepthwiseTask<'a> {
    /// Computes all pixels.
    fn multiply_on<L: TapLanes<T, N>, const T: usize, const N: usize>(&mut self, lanes: L) {
        let blocks = self.kernels.channels.div_ceil(T * N);
        for line in &self.lines() {
            let all = 0..line.pixels;
            // Four vectors of four taps, and up to eight of two.
            for (first, blocks) in row_panels(0..blocks, if T == 4 { 1 } else { 4 }) {
                match (blocks, self.shape()) {
                    (4, _) if const { T == 2 } => {
                        self.blocks_on::<L, T, N, 4, 8>(lanes, line, first, all.clone());
                    }
                    (2, _) if const { T == 2 } => {
                        self.blocks_on::<L, T, N, 2, 4>(lanes, line, first, all.clone());
                    }
                    (_, [COLUMNS, 1]) if const { T == 4 } => {
                        let whole = line.whole_pixels((first + 1) * T * N);
                        self.blocks_on::<L, T, N, 1, T>(lanes, line, first, 0..whole.start);
                        let (task, pixels) = (&mut *self, whole.clone());
                        match task.new_columns() {
                            _ if pixels.is_empty() => (),
                            1 => lanes.enter(ThreeColumns::<T, N, 1> { task, line, first, pixels }),
                            2 => lanes.enter(ThreeColumns::<T, N, 2> { task, line, first, pixels }),
                            _ => lanes.enter(ThreeColumns::<T, N, 3> { task, line, first, pixels }),
                        }
                        self.blocks_on::<L, T, N, 1, T>(lanes, line, first, whole.end..all.end);
                    }
                    _ => self.blocks_on::<L, T, N, 1, T>(lanes, line, first, all.clone()),
                }
            }
        }
    }

    /// Some pixels of a line, for some blocks of channels.
    fn blocks_on<
        L: TapLanes<T, N>,
        const T: usize,
        const N: usize,
        const B: usize,
        const V: usize,
    >(
        &mut self,
        lanes: L,
        line: &OutputLine<'a>,
        first: usize,
        pixels: Range<usize>,
    ) {
        if !pixels.is_empty() {
            lanes.enter(DepthwiseBlocks::<T, N, B, V> { task: self, line, first, pixels });
        }
    }

    /// The columns of a kernel, and how many times some taps make a column.
    #[inline(always)]
    fn shape(&self) -> [usize; 2] {
        let DepthwiseKernels { rows, columns, instructions, .. } = self.kernels;
        [*columns, rows.div_ceil(instructions.taps_at_once())]
    }

    /// How many columns of a pixel the pixel before it in a line has not.
    fn new_columns(&self) -> usize {
        let Window { strides, dilations, .. } = &self.rows.window.per_image;
        let (columns, dilation) = (self.kernels.columns, dilations[2]);
        let stride = strides[2] * self.kernels.together;
        if stride.is_multiple_of(dilation) { columns.min(stride / dilation) } else { columns }
    }

    /// The pixels of each line of the output.
    fn lines(&self) -> Vec<OutputLine<'a>> {
        let (mut lines, mut first) = (vec![], 0);
        let DepthwiseRows { bytes, padding, window, pixels: all_pixels, .. } = self.rows;
        let Window { strides, dilations, pads, input, .. } = &window.per_image;
        let together = self.kernels.together;
        let channels = self.kernels.channels / together;
        let taps = self.shape()[1] * self.kernels.instructions.taps_at_once();
        let padding = ImageLine { codes: padding, stride: 0 };
        let mut starts = vec![];
        let of_task = self.rows.first..self.rows.first + all_pixels;
        for (line, pixels) in window.lines_of(of_task) {
            window.lines(line, &mut starts);
            let row = |start: &Option<usize>| match start {
                Some(start) => ImageLine { codes: &bytes[start * channels..], stride: channels },
                None => padding,
            };
            let mut rows: Vec<ImageLine> = starts.iter().map(row).collect();
            rows.resize(taps, rows[rows.len() - 1]);
            lines.push(OutputLine {
                first: first / together,
                pixels: pixels.len().div_ceil(together),
                rows,
                padding,
                begin: pixels.start * strides[2],
                dilation: dilations[2],
                stride: strides[2] * together,
                pad: pads[2][0],
                size: input[2],
                together,
            });
            first += pixels.len();
        }
        lines
    }

    /// Finishes the sums of the first ones of some pixels, for some blocks of channels.
    #[inline(always)]
    fn finish_first<L: TapLanes<T, N>, const T: usize, const N: usize, const V: usize>(
        &mut self,
        lanes: L,
        sums: &[[L::Words; V]; PIXELS],
        count: usize,
        first: usize,
        pixel: usize,
    ) {
        let is_whole = (pixel + count) * self.kernels.together <= self.rows.pixels;
        if count == PIXELS && is_whole {
            return self.finish_pixels(lanes, sums, first, pixel);
        }
        for (row, sums) in sums[..count].iter().enumerate() {
            self.finish_pixels(lanes, &[*sums], first, pixel + row);
        }
    }

    /// Finishes the sums of some blocks, of the first vectors alone if there are channels for no more.
    #[inline(always)]
    fn finish_pixels<
        L: TapLanes<T, N>,
        const T: usize,
        const N: usize,
        const R: usize,
        const V: usize,
    >(
        &mut self,
        lanes: L,
        sums: &[[L::Words; V]; R],
        first: usize,
        pixel: usize,
    ) {
        let DepthwiseKernels { channels, together, .. } = *self.kernels;
        let there = match together {
            1 => channels,
            // They are one block. The last pixel of a task may have fewer channels.
            _ => (self.rows.pixels - pixel * together).min(together) * (channels / together),
        };
        let channel = first * T * N;
        let width = (there - channel).min(V * N);
        match width.div_ceil(N) {
            1 => self.finish(lanes, &first_vectors::<_, R, V, 1>(sums), channel, width, pixel),
            2 => self.finish(lanes, &first_vectors::<_, R, V, 2>(sums), channel, width, pixel),
            _ => self.finish(lanes, sums, channel, width, pixel),
        }
    }

    #[inline(always)]
    fn finish<L: CodeLanes<N>, const N: usize, const R: usize, const V: usize>(
        &mut self,
        lanes: L,
        sums: &[[L::Words; V]; R],
        channel: usize,
        width: usize,
        first_row: usize,
    ) {
        let DepthwiseRows { epilogue, output, .. } = &mut self.rows;
        let at = TilePlace { channel, width, first_row };
        TileSums { epilogue, sums, at, output }.finish(lanes);
    }

    /// The weights of some blocks, each of so many groups of taps, and what their sums begin with.
    #[inline(always)]
    fn kernels_of<const T: usize, const N: usize, const B: usize>(
        &self,
        first: usize,
        of_a_block: usize,
    ) -> ([&'a [TapWeights<N, T>]; B], &'a [[[i32; N]; T]; B]) {
        let DepthwiseKernels { weights, offsets, .. } = self.kernels;
        let weights = &weights.as_chunks().0.as_chunks().0[first * of_a_block..];
        let weights = std::array::from_fn(|block| &weights[block * of_a_block..][..of_a_block]);
        let offsets = &offsets.as_chunks().0.as_chunks().0[first..][..B];
        (weights, &offsets.as_chunks().0[0])
    }
}

impl<'a> OutputLine<'a> {
    /// The pixels whose [`COLUMNS`] are in the image, with all codes up to a channel. If each pixel is computed alone, columns may be in
    /// the padding, too.
    fn whole_pixels(&self, end_channel: usize) -> Range<usize> {
        // So many pixels of the image's line have all these codes, and pixels that are computed together all of their neighbours.
        let there = |row: &ImageLine| match (row.codes.len().checked_sub(end_channel), row.stride) {
            (None, _) => 0,
            (_, 0) => self.size,
            (Some(rest), stride) => self.size.min(rest / stride + self.together),
        };
        let size = self.rows.iter().map(there).min().unwrap_or(0);
        if self.together == 1 && size == self.size && end_channel <= self.padding.codes.len() {
            return 0..self.pixels;
        }
        // What the columns of a pixel need from the first one on.
        let reach = (COLUMNS - 1) * self.dilation + self.together;
        let begin = self.pad.saturating_sub(self.begin).div_ceil(self.stride);
        // The last of these begins where its columns end with the line.
        let last = (size + self.pad).checked_sub(reach + self.begin);
        let end = last.map_or(0, |last| last / self.stride + 1).min(self.pixels);
        if begin < end { begin..end } else { 0..0 }
    }

    /// Which pixel of the image's line a column of a pixel begins with. In the padding, also before the image, it is the size or more.
    fn x(&self, pixel: usize, column: usize) -> usize {
        (self.begin + pixel * self.stride + column * self.dilation).wrapping_sub(self.pad)
    }

    /// The codes of a column of a [whole pixel](Self::whole_pixels), interleaved, for a block of channels.
    #[inline(always)]
    fn whole_column<L: TapLanes<T, N>, const T: usize, const N: usize>(
        &self,
        lanes: L,
        pixel: usize,
        column: usize,
        first: usize,
    ) -> [L::Words; T] {
        let x = self.x(pixel, column);
        let is_there = x < self.size;
        let rows = &self.rows.as_chunks::<T>().0[0];
        let mut taps = [&[[0; N]; T]; T];
        for tap in 0..T {
            let ImageLine { codes, stride } = if is_there { &rows[tap] } else { &self.padding };
            let codes = &codes[x.wrapping_mul(*stride) + first * T * N..][..T * N];
            taps[tap] = &codes.as_chunks().0.as_chunks().0[0];
        }
        lanes.interleaved(taps)
    }

    /// The codes of some taps of a column of a pixel, for some blocks of channels: `last` are for codes that end before the blocks
    /// do.
    #[inline(always)]
    fn codes<'l, const T: usize, const N: usize, const B: usize>(
        &'l self,
        pixel: usize,
        column: usize,
        group: usize,
        first: usize,
        last: &'l mut [BlockCodes<N, T, B>; T],
    ) -> [&'l BlockCodes<N, T, B>; T] {
        let x = self.x(pixel, column);
        if self.together > 1 && self.size.saturating_sub(x) < self.together {
            return self.codes_at_end(x, group, last);
        }
        let rows: &[ImageLine; T] = match x < self.size {
            true => &self.rows.as_chunks().0[group],
            false => &[self.padding; T],
        };
        let mut codes: [&BlockCodes<N, T, B>; T] = [&[[[0; N]; T]; B]; T];
        for ((codes, row), last) in codes.iter_mut().zip(rows).zip(last) {
            let begin = x.wrapping_mul(row.stride) + first * T * N;
            *codes = match row.codes.get(begin..begin + B * T * N) {
                Some(codes) => &codes.as_chunks().0.as_chunks().0.as_chunks().0[0],
                None => {
                    let rest = &row.codes[begin..];
                    let last_codes = last.as_flattened_mut().as_flattened_mut();
                    last_codes[..rest.len()].copy_from_slice(rest);
                    last
                }
            };
        }
        codes
    }

    /// The codes of pixels that are computed together, from pixel `x` of the line on, some of which are in the padding.
    #[inline(never)]
    fn codes_at_end<'l, const T: usize, const N: usize, const B: usize>(
        &'l self,
        x: usize,
        group: usize,
        last: &'l mut [BlockCodes<N, T, B>; T],
    ) -> [&'l BlockCodes<N, T, B>; T] {
        let rows: &[ImageLine; T] = &self.rows.as_chunks().0[group];
        for (row, last) in rows.iter().zip(&mut *last) {
            let pixels = last.as_flattened_mut().as_flattened_mut();
            let channels = T * N / self.together;
            for (number, places) in pixels.chunks_exact_mut(channels).enumerate() {
                let x = x.wrapping_add(number);
                let ImageLine { codes, stride } = if x < self.size { *row } else { self.padding };
                let begin = if stride > 0 { x * stride } else { 0 };
                places.copy_from_slice(&codes[begin..][..channels]);
            }
        }
        last.each_ref()
    }
}

/// A block of channels of [whole pixels](OutputLine::whole_pixels), whose kernels have [`COLUMNS`] of one group of taps. `S` columns of a
/// pixel are none of the pixel before it.
struct ThreeColumns<'t, 'a, const T: usize, const N: usize, const S: usize> {
    task: &'t mut DepthwiseTask<'a>,
    line: &'t OutputLine<'a>,
    first: usize,
    pixels: Range<usize>,
}

#[expect(
    clippy::needless_range_loop,
    reason = "loops of constants keep codes and sums in registers"
)]
impl<L: TapLanes<T, N>, const T: usize, const N: usize, const S: usize> On<L>
    for ThreeColumns<'_, '_, T, N, S>
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let ThreeColumns { task, line, first, pixels } = self;
        let ([weights], [offsets]) = task.kernels_of::<T, N, 1>(first, COLUMNS);
        let zero = lanes.load_i32(&[0; N]);
        let mut held = [[zero; T]; COLUMNS];
        let mut tile = [[zero; T]; PIXELS];
        // What the first pixel would have in common with one before it. No loops, as indices must be constants.
        if const { S < 3 } {
            held[S] = line.whole_column(lanes, pixels.start, 0, first);
        }
        if const { S < 2 } {
            held[S + 1] = line.whole_column(lanes, pixels.start, 1, first);
        }
        for begin in pixels.clone().step_by(PIXELS) {
            let count = PIXELS.min(pixels.end - begin);
            for number in 0..count {
                for column in S..COLUMNS {
                    held[column - S] = held[column];
                }
                let pixel = begin + number;
                if const { S > 2 } {
                    held[0] = line.whole_column(lanes, pixel, 0, first);
                }
                if const { S > 1 } {
                    held[1] = line.whole_column(lanes, pixel, 1, first);
                }
                held[2] = line.whole_column(lanes, pixel, 2, first);
                let mut sums = load_sums(lanes, offsets);
                for column in 0..COLUMNS {
                    for vector in 0..T {
                        let weights = &weights[column][vector];
                        sums[vector] = lanes.add_taps(sums[vector], held[column][vector], weights);
                    }
                }
                tile[number] = lanes.in_order(sums);
            }
            task.finish_first(lanes, &tile, count, first, line.first + begin);
        }
    }
}

/// Some blocks of channels, which have `V` vectors together, of some pixels of a line.
struct DepthwiseBlocks<'t, 'a, const T: usize, const N: usize, const B: usize, const V: usize> {
    task: &'t mut DepthwiseTask<'a>,
    line: &'t OutputLine<'a>,
    first: usize,
    pixels: Range<usize>,
}

#[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
impl<L: TapLanes<T, N>, const T: usize, const N: usize, const B: usize, const V: usize> On<L>
    for DepthwiseBlocks<'_, '_, T, N, B, V>
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let DepthwiseBlocks { task, line, first, pixels } = self;
        let [columns, groups] = task.shape();
        let (weights, offsets) = task.kernels_of::<T, N, B>(first, columns * groups);
        let mut last = [[[[0; N]; T]; B]; T];
        let zero = lanes.load_i32(&[0; N]);
        let mut held = vec![[[zero; T]; B]; columns * groups];
        let mut tile = [[zero; V]; PIXELS];
        let moved = task.new_columns();
        // Where the first column is in memory.
        let mut place = 0;
        for begin in pixels.clone().step_by(PIXELS) {
            let count = PIXELS.min(pixels.end - begin);
            for number in 0..count {
                let pixel = begin + number;
                let missing = if pixel == pixels.start { columns } else { moved };
                place = wrapped(place + missing, columns);
                for column in columns - missing..columns {
                    let held = &mut held[wrapped(place + column, columns) * groups..][..groups];
                    for (group, held) in held.iter_mut().enumerate() {
                        let codes = line.codes::<T, N, B>(pixel, column, group, first, &mut last);
                        for block in 0..B {
                            let mut taps = [&codes[0][block]; T];
                            for tap in 1..T {
                                taps[tap] = &codes[tap][block];
                            }
                            held[block] = lanes.interleaved(taps);
                        }
                    }
                }
                let mut sums = [[zero; T]; B];
                for block in 0..B {
                    sums[block] = load_sums(lanes, &offsets[block]);
                }
                for column in 0..columns {
                    let held = &held[wrapped(place + column, columns) * groups..][..groups];
                    for (group, codes) in held.iter().enumerate() {
                        for block in 0..B {
                            let weights = &weights[block][column * groups + group];
                            for vector in 0..T {
                                sums[block][vector] = lanes.add_taps(
                                    sums[block][vector],
                                    codes[block][vector],
                                    &weights[vector],
                                );
                            }
                        }
                    }
                }
                for block in 0..B {
                    let sums = lanes.in_order(sums[block]);
                    for vector in 0..T {
                        tile[number][block * T + vector] = sums[vector];
                    }
                }
            }
            task.finish_first(lanes, &tile, count, first, line.first + begin);
        }
    }
}

/// The rest of a division by `count`, of a number that is less than twice that.
#[inline(always)]
fn wrapped(number: usize, count: usize) -> usize {
    if number >= count { number - count } else { number }
}

#[inline(always)]
fn first_vectors<S: Copy, const R: usize, const V: usize, const M: usize>(
    sums: &[[S; V]; R],
) -> [[S; M]; R] {
    let mut taken = [[sums[0][0]; M]; R];
    for row in 0..R {
        taken[row].copy_from_slice(&sums[row][..M]);
    }
    taken
}
