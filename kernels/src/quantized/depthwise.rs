//! Depthwise convolutions of codes: each output channel is made of one channel of the data.
//!
//! The taps of a column of the kernel are interleaved, so that one instruction multiplies several taps of each channel. Pixels that
//! follow each other in a line share columns: with a stride of 1, each has one that the pixel before it had not. Where a pixel has
//! few channels, vectors have those of several neighbours, which are as if they were one pixel of so many channels.

use std::cell::OnceCell;
use std::ops::Range;

use super::finish::{ChannelScales, ScaleVectors, TileSums};
use super::vectors::{CodeLanes, Codes, TapLanes, channel_of_lane, load_sums};
use crate::convolution::{DepthwiseRows, MOST_ROWS, TilePlace};
use crate::isa::{Instructions, On, with_isa};
use crate::product::row_panels;
use crate::window::Window;

/// The kernel of each channel, packed: for a block of channels, the weights of some taps of a column at a time.
#[derive(Debug, PartialEq)]
pub(crate) struct DepthwiseKernels {
    /// The channels of a pixel, and of all pixels that are computed together.
    of_pixel: usize,
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
    /// The scales, in the same order, if their codes are packed in that order.
    scales: Option<ChannelScales>,
}

/// The most channels of a pixel whose codes are read at once.
pub(super) const MOST_CHANNELS: usize = 128;

impl Instructions {
    /// How many taps of a depthwise convolution are multiplied at once, and how many vectors a block of channels has. And whether codes
    /// are packed in the order of interleaved taps.
    fn taps_at_once(self) -> (usize, bool) {
        fn count<L: TapLanes<T, N>, const T: usize, const N: usize>(_: L) -> (usize, bool) {
            (T, L::PACKS_IN_ORDER)
        }
        with_isa!(self, isa => count(isa))
    }
}

impl DepthwiseKernels {
    /// How many pixels of so many channels are computed together, if these follow each other in the image.
    pub fn pixels_together(channels: usize) -> usize {
        let instructions = Instructions::detect();
        let block = instructions.lanes() * instructions.taps_at_once().0;
        match channels > 0 && block.is_multiple_of(channels) {
            true => block / channels,
            false => 1,
        }
    }

    /// Packs `code`, of a channel and a tap, of which so many are a row. `offset` is what the sum of a channel begins with. So many
    /// pixels are computed together, and have these scales, if that is all that becomes of sums.
    pub fn pack(
        channels: usize,
        together: usize,
        [rows, columns]: [usize; 2],
        code: impl Fn(usize, usize) -> i8,
        offset: impl Fn(usize) -> i32,
        scales: Option<&ChannelScales>,
    ) -> DepthwiseKernels {
        let instructions = Instructions::detect();
        let (lanes, (taps, packs_in_order)) = (instructions.lanes(), instructions.taps_at_once());
        let (mut weights, mut offsets) = (vec![], vec![]);
        let code = |channel: usize, tap: usize| code(channel % channels, tap);
        let offset = |channel: usize| {
            let weights = (0..rows * columns).map(|tap| code(channel, tap));
            instructions.first_sum(offset(channel % channels), weights)
        };
        let (of_pixel, channels) = (channels, channels * together);
        let of_a_block = taps * lanes;
        for block in (0..channels).step_by(of_a_block) {
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
        let channel_of_lane =
            |lane| lane / of_a_block * of_a_block + channel_of_lane(lane % of_a_block, lanes, taps);
        let all_lanes = (0..channels.next_multiple_of(of_a_block)).map(channel_of_lane);
        let scales = scales.filter(|_| packs_in_order).map(|scales| scales.in_order(all_lanes));
        DepthwiseKernels {
            of_pixel,
            channels,
            together,
            rows,
            columns,
            instructions,
            weights,
            offsets,
            scales,
        }
    }
}

/// Computes some pixels.
pub(super) fn multiply_rows(kernels: &DepthwiseKernels, mut rows: DepthwiseRows<Codes>) {
    let together = kernels.together;
    let padding_line = OnceCell::new();
    let mut begin = 0;
    while begin < rows.pixels {
        let first = rows.first + begin;
        let most = if together == 1 { MOST_ROWS } else { rows.window.line(first)[2] };
        let pixels = most.min(rows.pixels - begin);
        let output = rows.output.skip_rows(begin).with_rows_joined(together);
        let rows = DepthwiseRows { first, pixels, output, ..rows };
        let mut task = DepthwiseTask { kernels, rows, padding_line: &padding_line };
        with_isa!(kernels.instructions, isa => task.multiply_on(isa));
        begin += pixels;
    }
}

/// A task of a depthwise convolution: some pixels. If several are computed together, they are those of one line, and so many
/// rows of the output are one.
struct DepthwiseTask<'a> {
    kernels: &'a DepthwiseKernels,
    rows: DepthwiseRows<'a, Codes>,
    /// A line of padding, once there is one in the kernels' reach.
    padding_line: &'a OnceCell<Vec<u8>>,
}

/// Some pixels of a line of the output.
struct OutputLine<'a> {
    /// The number of the first pixel, in the task, and how many there are. Here those that are computed together are one.
    first: usize,
    pixels: usize,
    /// For each tap of a column, the codes from a line of the image on, or padding. The last one is repeated, for whole groups of taps.
    rows: Vec<&'a [u8]>,
    /// The codes of a pixel of padding.
    padding: &'a [u8],
    channels: usize,
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

/// The weights of some taps of a block of channels.
type TapWeights<const N: usize, const T: usize> = [[[u8; 4]; N]; T];

/// The codes of a tap for some blocks of channels.
type BlockCodes<const N: usize, const T: usize, const B: usize> = [[[u8; N]; T]; B];

/// Pixels whose sums are finished at once.
const PIXELS: usize = 4;

/// Kernels of so many rows and columns have vectors of codes in variables, which stay in registers with AVX-512.
const SIDE: usize = 3;

impl<'a> DepthwiseTask<'a> {
    /// Computes all pixels.
    fn multiply_on<L: TapLanes<T, N>, const T: usize, const N: usize>(&mut self, lanes: L) {
        let blocks = self.kernels.channels.div_ceil(T * N);
        let DepthwiseRows { first, pixels, padding, window, .. } = self.rows;
        let Window { strides, dilations, pads, input, .. } = &window.per_image;
        let together = self.kernels.together;
        let mut line = OutputLine {
            first: 0,
            pixels: 0,
            rows: vec![],
            padding,
            channels: self.kernels.of_pixel,
            begin: 0,
            dilation: dilations[2],
            stride: strides[2] * together,
            pad: pads[2][0],
            size: input[2],
            together,
        };
        let (mut done, mut starts) = (0, vec![]);
        for (number, pixels) in window.lines_of(first..first + pixels) {
            self.image_rows(number, &mut starts, &mut line.rows);
            line.first = done / together;
            line.pixels = pixels.len().div_ceil(together);
            line.begin = pixels.start * strides[2];
            done += pixels.len();
            let line = &line;
            let all = 0..line.pixels;
            // Four vectors of four taps, and up to eight of two.
            for (first, blocks) in row_panels(0..blocks, if T == 4 { 1 } else { 4 }) {
                match blocks {
                    4 if const { T == 2 } => {
                        self.blocks_on::<L, T, N, 4, 8>(lanes, line, first, all.clone());
                    }
                    2 if const { T == 2 } => {
                        self.blocks_on::<L, T, N, 2, 4>(lanes, line, first, all.clone());
                    }
                    _ if const { T > SIDE } && self.has_sides() => {
                        let whole = line.whole_pixels((first + 1) * T * N);
                        self.blocks_on::<L, T, N, 1, T>(lanes, line, first, 0..whole.start);
                        let (task, pixels) = (&mut *self, whole.clone());
                        match task.new_columns() {
                            _ if pixels.is_empty() => (),
                            1 => lanes.enter(ThreeByThree::<T, N, 1> { task, line, first, pixels }),
                            2 => lanes.enter(ThreeByThree::<T, N, 2> { task, line, first, pixels }),
                            _ => lanes.enter(ThreeByThree::<T, N, 3> { task, line, first, pixels }),
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
        [*columns, rows.div_ceil(instructions.taps_at_once().0)]
    }

    /// Whether the kernel has [`SIDE`] rows and columns.
    fn has_sides(&self) -> bool {
        [self.kernels.rows, self.kernels.columns] == [SIDE; 2]
    }

    /// How many columns of a pixel the pixel before it in a line has not.
    fn new_columns(&self) -> usize {
        let Window { strides, dilations, .. } = &self.rows.window.per_image;
        let (columns, dilation) = (self.kernels.columns, dilations[2]);
        let stride = strides[2] * self.kernels.together;
        if stride.is_multiple_of(dilation) { columns.min(stride / dilation) } else { columns }
    }

    /// Codes from the lines of the image on that the kernel meets in a line of the output.
    fn image_rows(&self, line: usize, starts: &mut Vec<Option<usize>>, rows: &mut Vec<&'a [u8]>) {
        let DepthwiseRows { bytes, padding, window, .. } = self.rows;
        let channels = self.kernels.of_pixel;
        let padding_line = || {
            let mut line = padding[..channels].repeat(window.per_image.input[2]);
            // What is read at once may reach beyond the channels.
            line.resize(line.len() + MOST_CHANNELS, 0);
            line
        };
        window.lines(line, starts);
        rows.clear();
        rows.extend(starts.iter().map(|start| match start {
            Some(start) => &bytes[start * channels..],
            None => self.padding_line.get_or_init(padding_line),
        }));
        let taps = self.shape()[1] * self.kernels.instructions.taps_at_once().0;
        rows.resize(taps, rows[rows.len() - 1]);
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

    /// The scales, if sums become codes in the order of [`channel_of_lane`].
    #[inline(always)]
    fn scales<L: TapLanes<T, N>, const T: usize, const N: usize>(
        &self,
        _: L,
    ) -> Option<&'a ChannelScales> {
        // The compiler need not know what the other vectors would do.
        if const { L::PACKS_IN_ORDER } { self.kernels.scales.as_ref() } else { None }
    }

    /// How many channels of a pixel there are from one on, of at most so many.
    #[inline(always)]
    fn width(&self, channel: usize, most: usize, pixel: usize) -> usize {
        let DepthwiseKernels { channels, of_pixel, together, .. } = *self.kernels;
        let there = match together {
            1 => channels,
            // They are one block. The last pixel of a task may have fewer channels.
            _ => (self.rows.pixels - pixel * together).min(together) * of_pixel,
        };
        (there - channel).min(most)
    }

    /// Writes the codes of a block of channels of a pixel: of sums in the order of [`channel_of_lane`].
    #[inline(always)]
    fn put_codes<L: TapLanes<T, N>, const T: usize, const N: usize>(
        &mut self,
        lanes: L,
        scales: ScaleVectors<N, T>,
        sums: [L::Words; T],
        block: usize,
        pixel: usize,
    ) {
        let numbers = scales.scaled_sums(lanes, &sums);
        let channel = block * T * N;
        let width = self.width(channel, T * N, pixel);
        lanes.put_codes(numbers, self.rows.output.row(pixel, channel, width));
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
        let (channel, width) = (first * T * N, self.width(first * T * N, V * N, pixel));
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
    /// The pixels whose [`SIDE`] columns are in the image, with all codes up to a channel. If each pixel is computed alone, columns may be
    /// in the padding, too.
    fn whole_pixels(&self, end_channel: usize) -> Range<usize> {
        // So many pixels of the image's line have all these codes, and pixels that are computed together all of their neighbours.
        let codes = self.rows.iter().map(|row| row.len()).min().unwrap_or(0);
        let size = match codes.checked_sub(end_channel) {
            Some(rest) => self.size.min(rest / self.channels + self.together),
            None => 0,
        };
        if self.together == 1 && size == self.size && end_channel <= self.padding.len() {
            return 0..self.pixels;
        }
        // What the columns of a pixel need from the first one on.
        let reach = (SIDE - 1) * self.dilation + self.together;
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

    /// The codes of a column of a [whole pixel](Self::whole_pixels), interleaved, for a block of channels. `rows` are those of the line, of
    /// the same length.
    #[inline(always)]
    fn whole_column<L: TapLanes<T, N>, const T: usize, const N: usize>(
        &self,
        lanes: L,
        rows: [&[u8]; SIDE],
        pixel: usize,
        column: usize,
        first: usize,
    ) -> [L::Words; T] {
        let x = self.x(pixel, column);
        let channel = first * T * N;
        let mut codes = [self.padding; SIDE];
        let mut begin = channel;
        if x < self.size {
            codes = rows;
            begin += x * self.channels;
        }
        // The tap that there is not has weights of 0.
        let mut taps = [&[[0; N]; T]; T];
        for tap in 0..T {
            let row = if tap < SIDE { tap } else { SIDE - 1 };
            taps[tap] = &codes[row][begin..][..T * N].as_chunks().0.as_chunks().0[0];
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
        let (rows, x): (&[&[u8]; T], _) = match x < self.size {
            true => (&self.rows.as_chunks().0[group], x),
            false => (&[self.padding; T], 0),
        };
        let mut codes: [&BlockCodes<N, T, B>; T] = [&[[[0; N]; T]; B]; T];
        for ((codes, row), last) in codes.iter_mut().zip(rows).zip(last) {
            let begin = x * self.channels + first * T * N;
            *codes = match row.get(begin..begin + B * T * N) {
                Some(codes) => &codes.as_chunks().0.as_chunks().0.as_chunks().0[0],
                None => {
                    let rest = &row[begin..];
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
        let rows: &[&[u8]; T] = &self.rows.as_chunks().0[group];
        for (row, last) in rows.iter().zip(&mut *last) {
            let pixels = last.as_flattened_mut().as_flattened_mut();
            for (number, places) in pixels.chunks_exact_mut(self.channels).enumerate() {
                let x = x.wrapping_add(number);
                let (codes, x) = if x < self.size { (*row, x) } else { (self.padding, 0) };
                places.copy_from_slice(&codes[x * self.channels..][..self.channels]);
            }
        }
        last.each_ref()
    }
}

/// A block of channels of [whole pixels](OutputLine::whole_pixels), whose kernels have [`SIDE`] rows and columns. `S` columns of a pixel
/// are none of the pixel before it.
struct ThreeByThree<'t, 'a, const T: usize, const N: usize, const S: usize> {
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
    for ThreeByThree<'_, '_, T, N, S>
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let ThreeByThree { task, line, first, pixels } = self;
        let ([weights], [offsets]) = task.kernels_of::<T, N, 1>(first, SIDE);
        let scales = task.scales(lanes).map(|scales| scales.of::<N, T>(first * T * N));
        // The compiler knows that they have the same length.
        let codes = line.rows.iter().map(|row| row.len()).min().unwrap_or(0);
        let mut rows: [&[u8]; SIDE] = [&[]; SIDE];
        for row in 0..SIDE {
            rows[row] = &line.rows[row][..codes];
        }
        let zero = lanes.load_i32(&[0; N]);
        let mut held = [[zero; T]; SIDE];
        let mut tile = [[zero; T]; PIXELS];
        // What the first pixel would have in common with one before it. No loops, as indices must be constants.
        if const { S < 3 } {
            held[S] = line.whole_column(lanes, rows, pixels.start, 0, first);
        }
        if const { S < 2 } {
            held[S + 1] = line.whole_column(lanes, rows, pixels.start, 1, first);
        }
        for begin in pixels.clone().step_by(PIXELS) {
            let count = PIXELS.min(pixels.end - begin);
            for number in 0..count {
                for column in S..SIDE {
                    held[column - S] = held[column];
                }
                let pixel = begin + number;
                if const { S > 2 } {
                    held[0] = line.whole_column(lanes, rows, pixel, 0, first);
                }
                if const { S > 1 } {
                    held[1] = line.whole_column(lanes, rows, pixel, 1, first);
                }
                held[2] = line.whole_column(lanes, rows, pixel, 2, first);
                let mut sums = load_sums(lanes, offsets);
                for column in 0..SIDE {
                    for vector in 0..T {
                        let weights = &weights[column][vector];
                        sums[vector] = lanes.add_taps(sums[vector], held[column][vector], weights);
                    }
                }
                match scales {
                    Some(scales) => {
                        task.put_codes(lanes, scales, sums, first, line.first + pixel);
                    }
                    _ => tile[number] = lanes.in_order(sums),
                }
            }
            if scales.is_none() {
                task.finish_first(lanes, &tile, count, first, line.first + begin);
            }
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
        let scales = task.scales(lanes);
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
                    let sums = sums[block];
                    if let Some(scales) = scales {
                        let block = first + block;
                        let scales = scales.of::<N, T>(block * T * N);
                        task.put_codes(lanes, scales, sums, block, line.first + pixel);
                        continue;
                    }
                    let sums = lanes.in_order(sums);
                    for vector in 0..T {
                        tile[number][block * T + vector] = sums[vector];
                    }
                }
            }
            if scales.is_none() {
                task.finish_first(lanes, &tile, count, first, line.first + begin);
            }
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
