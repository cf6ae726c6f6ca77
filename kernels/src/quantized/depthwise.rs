//! Depthwise convolutions of codes: each output channel is made of one channel of the data.
//!
//! The taps of a column of the kernel are interleaved, so that one instruction multiplies several taps of each channel. Pixels that
//! follow each other in a line share columns: with a stride of 1, each has one that the pixel before it had not. Where a pixel has
//! few channels, vectors have those of several neighbours, which are as if they were one pixel of so many channels.

use std::cell::OnceCell;
use std::ops::Range;

use super::finish::{ChannelScales, ScaleVectors, TileSums};
use super::vectors::{CodeLanes, Codes, TapLanes, channel_of_lane, load_sums};
use crate::convolution::{DepthwiseRows, MOST_ROWS, TapSlices, TilePlace};
use crate::isa::{Instructions, On, with_isa};
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
pub(super) const MOST_CHANNELS: usize = 64;

impl Instructions {
    /// How many taps of a depthwise convolution are multiplied at once, and how many vectors a block of channels has.
    fn taps_at_once(self) -> usize {
        fn count<L: TapLanes<T, N>, const T: usize, const N: usize>(_: L) -> usize {
            T
        }
        with_isa!(self, isa => count(isa))
    }

    /// Whether codes are packed in the order of interleaved taps.
    fn packs_in_order(self) -> bool {
        fn packs<L: TapLanes<T, N>, const T: usize, const N: usize>(_: L) -> bool {
            L::PACKS_IN_ORDER
        }
        with_isa!(self, isa => packs(isa))
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
        let (lanes, taps) = (instructions.lanes(), instructions.taps_at_once());
        // The channel of each lane of all blocks.
        let (mut weights, mut order) = (vec![], vec![]);
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
                    weights.extend((0..of_a_block).map(of_lane).map(|channel| {
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
            order.extend((0..of_a_block).map(of_lane));
        }
        let offset = |channel: &usize| if *channel < channels { offset(*channel) } else { 0 };
        let offsets = order.iter().map(offset).collect();
        let scales = scales.filter(|_| instructions.packs_in_order());
        let scales = scales.map(|scales| scales.in_order(&order));
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
    /// As many codes of each as all of them have.
    slices: TapSlices<'a>,
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

/// Kernels of so many rows and columns have all codes of a pixel in registers.
const SIDE: usize = 3;

/// The codes of a tap for a block of channels.
type BlockCodes<const N: usize, const T: usize> = [[u8; N]; T];

impl<'a> DepthwiseTask<'a> {
    /// Computes all pixels.
    fn multiply_on<L: TapLanes<T, N>, const T: usize, const N: usize>(&mut self, lanes: L) {
        let blocks = self.kernels.channels.div_ceil(T * N);
        let DepthwiseRows { bytes, first, pixels, padding, window, .. } = self.rows;
        let Window { strides, dilations, pads, input, .. } = &window.per_image;
        let together = self.kernels.together;
        let mut line = OutputLine {
            first: 0,
            pixels: 0,
            rows: vec![],
            slices: TapSlices::new(0),
            padding,
            channels: self.kernels.of_pixel,
            begin: 0,
            dilation: dilations[2],
            stride: strides[2] * together,
            pad: pads[2][0],
            // Without lines there is nothing but padding.
            size: if bytes.is_empty() { 0 } else { input[2] },
            together,
        };
        let (mut done, mut starts) = (0, vec![]);
        for (number, pixels) in window.lines_of(first..first + pixels) {
            self.image_rows(number, line.size, &mut starts, &mut line.rows);
            line.first = done / together;
            line.pixels = pixels.len().div_ceil(together);
            line.begin = pixels.start * strides[2];
            done += pixels.len();
            let codes = line.rows.iter().map(|row| row.len()).min().unwrap_or(0);
            line.slices.restart(codes);
            line.rows.iter().for_each(|row| line.slices.extend(row, 0, 1));
            let line = &line;
            for block in 0..blocks {
                let whole = line.whole_pixels(self.kernels.columns, (block + 1) * T * N);
                self.tiles_on::<L, T, N, 1, false>(lanes, line, block, 0..whole.start);
                // As many sums as stay in registers: 24 vectors of four taps, or 12 of two; 8 where there are 16 registers.
                if const { N > 8 } {
                    self.whole_tiles_on::<L, T, N, 6>(lanes, line, block, whole.clone());
                } else if const { T > 2 } {
                    self.whole_tiles_on::<L, T, N, 2>(lanes, line, block, whole.clone());
                } else {
                    self.whole_tiles_on::<L, T, N, 4>(lanes, line, block, whole.clone());
                }
                self.tiles_on::<L, T, N, 1, false>(lanes, line, block, whole.end..line.pixels);
            }
        }
    }

    /// Some [whole pixels](OutputLine::whole_pixels) of a line, for a block of channels.
    fn whole_tiles_on<L: TapLanes<T, N>, const T: usize, const N: usize, const P: usize>(
        &mut self,
        lanes: L,
        line: &OutputLine<'a>,
        block: usize,
        pixels: Range<usize>,
    ) {
        let DepthwiseKernels { rows, columns, .. } = *self.kernels;
        if const { T > 2 } && [rows, columns] == [SIDE; 2] && !pixels.is_empty() {
            let task = self;
            match task.new_columns() {
                Some(1) => lanes.enter(ThreeByThree::<T, N, P, 1> { task, line, block, pixels }),
                Some(2) => lanes.enter(ThreeByThree::<T, N, P, 2> { task, line, block, pixels }),
                _ => lanes.enter(ThreeByThree::<T, N, P, 3> { task, line, block, pixels }),
            }
            return;
        }
        self.tiles_on::<L, T, N, P, true>(lanes, line, block, pixels);
    }

    /// Some pixels of a line, for a block of channels.
    fn tiles_on<
        L: TapLanes<T, N>,
        const T: usize,
        const N: usize,
        const P: usize,
        const WHOLE: bool,
    >(
        &mut self,
        lanes: L,
        line: &OutputLine<'a>,
        block: usize,
        pixels: Range<usize>,
    ) {
        if !pixels.is_empty() {
            lanes.enter(DepthwiseTiles::<T, N, P, WHOLE> { task: self, line, block, pixels });
        }
    }

    /// The columns of a kernel, and how many times some taps make a column.
    #[inline(always)]
    fn shape(&self) -> [usize; 2] {
        let DepthwiseKernels { rows, columns, instructions, .. } = self.kernels;
        [*columns, rows.div_ceil(instructions.taps_at_once())]
    }

    /// How many columns of a pixel the pixel before it in a line has not, if it has some of them.
    fn new_columns(&self) -> Option<usize> {
        let Window { strides, dilations, .. } = &self.rows.window.per_image;
        let (stride, dilation) = (strides[2] * self.kernels.together, dilations[2]);
        let new = stride.checked_div(dilation)?;
        (stride == new * dilation && new < self.kernels.columns).then_some(new)
    }

    /// Codes from the lines of the image on that the kernel meets in a line of the output. They have so many pixels.
    fn image_rows(
        &self,
        line: usize,
        size: usize,
        starts: &mut Vec<Option<usize>>,
        rows: &mut Vec<&'a [u8]>,
    ) {
        let DepthwiseRows { bytes, padding, window, .. } = self.rows;
        let channels = self.kernels.of_pixel;
        let padding_line = || {
            let mut line = padding[..channels].repeat(size);
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
        let taps = self.shape()[1] * self.kernels.instructions.taps_at_once();
        rows.resize(taps, rows[rows.len() - 1]);
    }

    /// Finishes the sums of the first ones of some pixels, for a block of channels.
    #[inline(always)]
    fn finish_first<L: TapLanes<T, N>, const T: usize, const N: usize, const P: usize>(
        &mut self,
        lanes: L,
        sums: &[[L::Words; T]; P],
        count: usize,
        block: usize,
        pixel: usize,
    ) {
        let is_whole = (pixel + count) * self.kernels.together <= self.rows.pixels;
        if count == P && is_whole {
            return self.finish_pixels(lanes, sums, block, pixel);
        }
        for (row, sums) in sums[..count].iter().enumerate() {
            self.finish_pixels(lanes, &[*sums], block, pixel + row);
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

    /// The first channel of a block, and how many of it a pixel has.
    #[inline(always)]
    fn channels_of<const T: usize, const N: usize>(
        &self,
        block: usize,
        pixel: usize,
    ) -> (usize, usize) {
        let DepthwiseKernels { channels, of_pixel, together, .. } = *self.kernels;
        let there = match together {
            1 => channels,
            // They are one block. The last pixel of a task may have fewer channels.
            _ => (self.rows.pixels - pixel * together).min(together) * of_pixel,
        };
        let channel = block * T * N;
        (channel, (there - channel).min(T * N))
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
        let (channel, width) = self.channels_of::<T, N>(block, pixel);
        lanes.put_codes(numbers, self.rows.output.row(pixel, channel, width));
    }

    /// Finishes the sums of a block, of the first vectors alone if there are channels for no more.
    #[inline(always)]
    fn finish_pixels<L: TapLanes<T, N>, const T: usize, const N: usize, const R: usize>(
        &mut self,
        lanes: L,
        sums: &[[L::Words; T]; R],
        block: usize,
        pixel: usize,
    ) {
        let (channel, width) = self.channels_of::<T, N>(block, pixel);
        match width.div_ceil(N) {
            1 => self.finish(lanes, &first_vectors::<_, R, T, 1>(sums), channel, width, pixel),
            2 => self.finish(lanes, &first_vectors::<_, R, T, 2>(sums), channel, width, pixel),
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

    /// The weights of a block: those of each column, by groups of taps; and what its sums begin with.
    #[inline(always)]
    fn kernels_of<const T: usize, const N: usize>(
        &self,
        block: usize,
    ) -> (&'a [TapWeights<N, T>], &'a [[i32; N]; T]) {
        let DepthwiseKernels { weights, offsets, .. } = self.kernels;
        let of_a_block: usize = self.shape().iter().product();
        let weights = &weights.as_chunks().0.as_chunks().0[block * of_a_block..][..of_a_block];
        (weights, &offsets.as_chunks().0.as_chunks().0[block])
    }
}

impl<'a> OutputLine<'a> {
    /// The pixels whose columns are in the image, with all codes up to a channel. If each pixel is computed alone, columns may be in the
    /// padding, too.
    fn whole_pixels(&self, columns: usize, end_channel: usize) -> Range<usize> {
        // So many pixels of the image's line have all these codes, and pixels that are computed together all of their neighbours.
        let there = match self.slices.length().checked_sub(end_channel) {
            Some(rest) => self.size.min(rest / self.channels + self.together),
            None => 0,
        };
        if self.together == 1 && there == self.size && end_channel <= self.padding.len() {
            return 0..self.pixels;
        }
        // What the columns of a pixel need from the first one on.
        let reach = (columns - 1) * self.dilation + self.together;
        let begin = self.pad.saturating_sub(self.begin).div_ceil(self.stride);
        // The last of these begins where its columns end with the line.
        let last = (there + self.pad).checked_sub(reach + self.begin);
        let end = last.map_or(0, |last| last / self.stride + 1).min(self.pixels);
        if begin < end { begin..end } else { 0..0 }
    }

    /// Which pixel of the image's line a column of a pixel begins with. In the padding, also before the image, it is the size or more.
    fn x(&self, [pixel, column]: [usize; 2]) -> usize {
        (self.begin + pixel * self.stride + column * self.dilation).wrapping_sub(self.pad)
    }

    /// The codes of some taps of the column at pixel `x` of the image's line, of a [whole pixel](Self::whole_pixels), for a block of
    /// channels: of `R` rows, the last of which may have several taps.
    #[inline(always)]
    fn whole_codes<const T: usize, const N: usize, const R: usize>(
        &self,
        x: usize,
        group: usize,
        block: usize,
    ) -> [&BlockCodes<N, T>; T] {
        let channel = block * T * N;
        let rows: [&[u8]; R] = match x < self.size {
            true => self.slices.elements(group * T, x * self.channels + channel, T * N),
            false => [&self.padding[channel..][..T * N]; R],
        };
        let mut codes: [&BlockCodes<N, T>; T] = [&[[0; N]; T]; T];
        for (tap, codes) in codes.iter_mut().enumerate() {
            let row = if tap < R { tap } else { R - 1 };
            *codes = &rows[row].as_chunks().0.as_chunks().0[0];
        }
        codes
    }

    /// The codes of some taps of the column at pixel `x` of the image's line, for a block of channels: `last` are for codes that end before
    /// the block does.
    #[inline(always)]
    fn codes<'l, const T: usize, const N: usize>(
        &'l self,
        x: usize,
        group: usize,
        block: usize,
        last: &'l mut [BlockCodes<N, T>; T],
    ) -> [&'l BlockCodes<N, T>; T] {
        if self.together > 1 && self.size.saturating_sub(x) < self.together {
            return self.codes_of_neighbours(x, group, last);
        }
        let (mut rows, mut begin) = (&[self.padding; T], block * T * N);
        if x < self.size {
            rows = &self.rows.as_chunks().0[group];
            begin += x * self.channels;
        }
        let mut codes: [&BlockCodes<N, T>; T] = [&[[0; N]; T]; T];
        for tap in 0..T {
            let Some(all) = rows[tap].get(begin..begin + T * N) else {
                return codes_at_end(rows, begin, last);
            };
            codes[tap] = &all.as_chunks().0.as_chunks().0[0];
        }
        codes
    }

    /// The codes of pixels that are computed together, from pixel `x` of the line on, some of which are in the padding.
    #[inline(never)]
    fn codes_of_neighbours<'l, const T: usize, const N: usize>(
        &'l self,
        x: usize,
        group: usize,
        last: &'l mut [BlockCodes<N, T>; T],
    ) -> [&'l BlockCodes<N, T>; T] {
        let rows: &[&[u8]; T] = &self.rows.as_chunks().0[group];
        for (row, last) in rows.iter().zip(&mut *last) {
            let pixels = last.as_flattened_mut();
            for (number, places) in pixels.chunks_exact_mut(self.channels).enumerate() {
                let x = x.wrapping_add(number);
                let (codes, x) = if x < self.size { (*row, x) } else { (self.padding, 0) };
                places.copy_from_slice(&codes[x * self.channels..][..self.channels]);
            }
        }
        last.each_ref()
    }
}

/// The codes of rows from one on, which end before a block does.
#[inline(never)]
fn codes_at_end<'l, const T: usize, const N: usize>(
    rows: &[&[u8]; T],
    begin: usize,
    last: &'l mut [BlockCodes<N, T>; T],
) -> [&'l BlockCodes<N, T>; T] {
    for (row, last) in rows.iter().zip(&mut *last) {
        let codes = &row[begin..];
        let count = codes.len().min(T * N);
        last.as_flattened_mut()[..count].copy_from_slice(&codes[..count]);
    }
    last.each_ref()
}

/// Some pixels of a line, for a block of channels, in tiles of up to `P`. Each column of a tile is read once, for all pixels that have it.
/// With [whole pixels](OutputLine::whole_pixels) there is no call in the loop, around which the sums would be saved.
struct DepthwiseTiles<'t, 'a, const T: usize, const N: usize, const P: usize, const WHOLE: bool> {
    task: &'t mut DepthwiseTask<'a>,
    line: &'t OutputLine<'a>,
    block: usize,
    pixels: Range<usize>,
}

#[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
impl<L: TapLanes<T, N>, const T: usize, const N: usize, const P: usize, const WHOLE: bool> On<L>
    for DepthwiseTiles<'_, '_, T, N, P, WHOLE>
{
    #[inline(always)]
    fn run(self, lanes: L) {
        const { assert!(T * N <= MOST_CHANNELS) };
        let DepthwiseTiles { task, line, block, pixels } = self;
        let [columns, groups] = task.shape();
        let (weights, offsets) = task.kernels_of::<T, N>(block);
        let scales = task.scales(lanes).map(|scales| scales.of::<N, T>(block * T * N));
        let mut last = [[[0; N]; T]; T];
        // Pixels that have no column in common have all columns of theirs, one pixel after the other.
        let (new, end) = task.new_columns().map_or((columns, columns), |new| (new, usize::MAX));
        let begin = load_sums(lanes, offsets);
        for first in pixels.clone().step_by(P) {
            let count = P.min(pixels.end - first);
            let mut sums = [begin; P];
            let mut place = [first, 0];
            for column in 0..(count - 1) * new + columns {
                if place[1] == end {
                    place = [place[0] + 1, 0];
                }
                let x = line.x(place);
                place[1] += 1;
                for group in 0..groups {
                    let codes = match const { WHOLE } {
                        true => line.whole_codes::<T, N, T>(x, group, block),
                        false => line.codes(x, group, block, &mut last),
                    };
                    let codes = lanes.interleaved(codes);
                    for pixel in 0..P {
                        // Wraps, or is too large, for pixels without this column.
                        let own = column.wrapping_sub(pixel * new);
                        if pixel < count && own < columns {
                            let weights = &weights[own * groups + group];
                            for vector in 0..T {
                                sums[pixel][vector] = lanes.add_taps(
                                    sums[pixel][vector],
                                    codes[vector],
                                    &weights[vector],
                                );
                            }
                        }
                    }
                }
            }
            // A copy, so that the sums themselves need no place in memory.
            let mut tile = [begin; P];
            for pixel in 0..P {
                for vector in 0..T {
                    tile[pixel][vector] = sums[pixel][vector];
                }
            }
            let pixel = line.first + first;
            match scales {
                Some(scales) => {
                    for (number, sums) in tile[..count].iter().enumerate() {
                        task.put_codes(lanes, scales, *sums, block, pixel + number);
                    }
                }
                None => {
                    for sums in &mut tile {
                        *sums = lanes.in_order(*sums);
                    }
                    task.finish_first(lanes, &tile, count, block, pixel);
                }
            }
        }
    }
}

/// [Whole pixels](OutputLine::whole_pixels) of a kernel with [`SIDE`] rows and columns, for a block of channels: each with the codes of
/// all columns in registers. `S` columns of a pixel are none of the pixel before it.
struct ThreeByThree<'t, 'a, const T: usize, const N: usize, const P: usize, const S: usize> {
    task: &'t mut DepthwiseTask<'a>,
    line: &'t OutputLine<'a>,
    block: usize,
    pixels: Range<usize>,
}

#[expect(
    clippy::needless_range_loop,
    reason = "loops of constants keep codes and sums in registers"
)]
impl<L: TapLanes<T, N>, const T: usize, const N: usize, const P: usize, const S: usize> On<L>
    for ThreeByThree<'_, '_, T, N, P, S>
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let ThreeByThree { task, line, block, pixels } = self;
        let (weights, offsets) = task.kernels_of::<T, N>(block);
        let weights: &[TapWeights<N, T>; SIDE] = &weights.as_chunks().0[0];
        let scales = task.scales(lanes).map(|scales| scales.of::<N, T>(block * T * N));
        let column = |pixel, column| {
            let x = line.x([pixel, column]);
            lanes.interleaved(line.whole_codes::<T, N, SIDE>(x, 0, block))
        };
        let zero = lanes.load_i32(&[0; N]);
        let mut held = [[zero; T]; SIDE];
        let mut tile = [[zero; T]; P];
        // What the first pixel would have in common with one before it. No loops, as indices must be constants.
        if const { S < 3 } {
            held[S] = column(pixels.start, 0);
        }
        if const { S < 2 } {
            held[S + 1] = column(pixels.start, 1);
        }
        for begin in pixels.clone().step_by(P) {
            let count = P.min(pixels.end - begin);
            for number in 0..count {
                let pixel = begin + number;
                for column in S..SIDE {
                    held[column - S] = held[column];
                }
                if const { S > 2 } {
                    held[0] = column(pixel, 0);
                }
                if const { S > 1 } {
                    held[1] = column(pixel, 1);
                }
                held[2] = column(pixel, 2);
                let mut sums = load_sums(lanes, offsets);
                for column in 0..SIDE {
                    for vector in 0..T {
                        let weights = &weights[column][vector];
                        sums[vector] = lanes.add_taps(sums[vector], held[column][vector], weights);
                    }
                }
                match scales {
                    Some(scales) => {
                        task.put_codes(lanes, scales, sums, block, line.first + pixel);
                    }
                    _ => tile[number] = lanes.in_order(sums),
                }
            }
            if scales.is_none() {
                task.finish_first(lanes, &tile, count, block, line.first + begin);
            }
        }
    }
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
