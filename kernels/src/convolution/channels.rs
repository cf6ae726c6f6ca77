//! What is made of each channel on its own, in single precision: convolutions of single channels, and pools. The channels are last, so
//! that a vector has neighbours of them.

use pulp::bytemuck::cast_slice;

use super::product::{DepthwiseRows, TilePlace};
use super::singles::{Singles, finish, vector_at};
use crate::isa::{Instructions, Lanes, On, with_isa};
use crate::product::activation::ActivationLanes;
use crate::product::row_panels;

/// The kernel of each channel, packed: some vectors of neighbouring channels are a panel, in which the taps follow each other.
#[derive(Debug, PartialEq)]
pub(crate) struct ChannelKernels {
    taps: usize,
    weights: Vec<f32>,
    /// What sums begin with.
    bias: Vec<f32>,
}

/// So many vectors of channels are computed at once, of so many pixels.
fn vectors_at_once(lanes: usize) -> usize {
    lanes / 4
}
const PIXELS: usize = 4;

impl ChannelKernels {
    /// From `[channels, taps]`.
    pub fn pack(weights: &[f32], bias: &[f32]) -> ChannelKernels {
        let lanes = Instructions::detect().lanes();
        let (channels, taps) = (bias.len(), weights.len() / bias.len().max(1));
        let vectors = channels.div_ceil(lanes);
        let mut packed = Vec::with_capacity(vectors * lanes * taps);
        for (first, width) in row_panels(0..vectors, vectors_at_once(lanes)) {
            for tap in 0..taps {
                let channels = first * lanes..(first + width) * lanes;
                packed.extend(channels.map(|it| weights.get(it * taps + tap).unwrap_or(&0.)));
            }
        }
        let mut bias = bias.to_vec();
        bias.resize(vectors * lanes, 0.);
        ChannelKernels { taps, weights: packed, bias }
    }
}

/// What is made of the elements of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reduction<'a> {
    /// The sum of products with a kernel for each channel, and a bias.
    Sum(&'a ChannelKernels),
    /// The sum.
    SameSum,
    /// The greatest element. Padding is the least of all finite numbers, as in OpenVINO and in tract; NaN is ignored.
    Max,
}

/// Some pixels of all channels.
pub(crate) struct ChannelSums<'a> {
    pub rows: DepthwiseRows<'a, Singles>,
    pub reduction: Reduction<'a>,
}

impl ChannelSums<'_> {
    /// Computes all pixels.
    pub fn compute(mut self) {
        with_isa!(Instructions::detect(), isa => self.compute_on(isa));
    }

    fn compute_on<L: ActivationLanes<N>, const N: usize>(&mut self, lanes: L) {
        let (mut starts, mut lines) = (vec![], vec![]);
        let mut done = 0;
        while done < self.rows.pixels {
            let [line, x, left] = self.rows.window.line(self.rows.first + done);
            self.rows.window.lines(line, &mut starts);
            lines.clear();
            let met = starts.iter().enumerate();
            lines.extend(met.filter_map(|(row, start)| Some((row, (*start)?))));
            let pixels = left.min(self.rows.pixels - done);
            let of = LineOfPixels { x, pixels, first_row: done, lines: &lines };
            lanes.enter(ChannelsOfLine::<N>(self, &of));
            done += pixels;
        }
    }
}

/// Some pixels of a line of the output, and what they meet.
struct LineOfPixels<'l> {
    /// The first of them in the line, how many there are, and the number of the first one among those of the task.
    x: usize,
    pixels: usize,
    first_row: usize,
    /// For each row of the kernel that meets data, which one it is, and where the line of the image begins, in pixels.
    lines: &'l [(usize, usize)],
}

/// All channels of a line.
struct ChannelsOfLine<'t, 'a, 'l, const N: usize>(&'t mut ChannelSums<'a>, &'t LineOfPixels<'l>);

impl<L: ActivationLanes<N>, const N: usize> On<L> for ChannelsOfLine<'_, '_, '_, N> {
    #[inline(always)]
    fn run(self, lanes: L) {
        let ChannelsOfLine(ChannelSums { rows, reduction }, line) = self;
        let vectors = rows.window.channels::<f32>().div_ceil(N);
        for (first, width) in row_panels(0..vectors, vectors_at_once(N)) {
            macro_rules! of_vectors {
                ($vectors:literal) => {
                    match reduction {
                        Reduction::Sum(kernels) => {
                            let of = WeightedSum(kernels);
                            lanes.enter(Panel::<_, N, $vectors> { rows, of, line, first });
                        }
                        Reduction::SameSum => {
                            lanes.enter(Panel::<_, N, $vectors> { rows, of: Sum, line, first });
                        }
                        Reduction::Max => {
                            lanes.enter(Panel::<_, N, $vectors> { rows, of: Max, line, first });
                        }
                    }
                };
            }
            match width {
                4 if const { N > 8 } => of_vectors!(4),
                2 => of_vectors!(2),
                _ => of_vectors!(1),
            }
        }
    }
}

/// What is made of elements, vector by vector.
trait Reduce: Copy {
    /// What it begins with, in a vector of channels.
    fn first<L: ActivationLanes<N>, const N: usize>(self, lanes: L, channel: usize) -> L::Floats;
    /// The weights of a panel of so many numbers a tap, if there are any.
    #[inline(always)]
    fn weights(&self, _channel: usize, _width: usize) -> &[f32] {
        &[]
    }
    fn with<L: Lanes<N>, const N: usize>(
        self,
        lanes: L,
        result: L::Floats,
        numbers: L::Floats,
        weights: Option<&[f32; N]>,
    ) -> L::Floats;
}

#[derive(Clone, Copy)]
struct WeightedSum<'a>(&'a ChannelKernels);

impl Reduce for WeightedSum<'_> {
    #[inline(always)]
    fn first<L: ActivationLanes<N>, const N: usize>(self, lanes: L, channel: usize) -> L::Floats {
        vector_at(lanes, &self.0.bias, channel)
    }

    #[inline(always)]
    fn weights(&self, channel: usize, width: usize) -> &[f32] {
        let taps = self.0.taps;
        &self.0.weights[channel * taps..][..width * taps]
    }

    #[inline(always)]
    fn with<L: Lanes<N>, const N: usize>(
        self,
        lanes: L,
        result: L::Floats,
        numbers: L::Floats,
        weights: Option<&[f32; N]>,
    ) -> L::Floats {
        match weights {
            Some(weights) => lanes.mul_add(numbers, lanes.load(weights), result),
            None => result,
        }
    }
}

#[derive(Clone, Copy)]
struct Sum;

impl Reduce for Sum {
    #[inline(always)]
    fn first<L: ActivationLanes<N>, const N: usize>(self, lanes: L, _channel: usize) -> L::Floats {
        lanes.splat(0.)
    }

    #[inline(always)]
    fn with<L: Lanes<N>, const N: usize>(
        self,
        lanes: L,
        result: L::Floats,
        numbers: L::Floats,
        _weights: Option<&[f32; N]>,
    ) -> L::Floats {
        lanes.add(result, numbers)
    }
}

#[derive(Clone, Copy)]
struct Max;

impl Reduce for Max {
    #[inline(always)]
    fn first<L: ActivationLanes<N>, const N: usize>(self, lanes: L, _channel: usize) -> L::Floats {
        lanes.splat(f32::MIN)
    }

    #[inline(always)]
    fn with<L: Lanes<N>, const N: usize>(
        self,
        lanes: L,
        result: L::Floats,
        numbers: L::Floats,
        _weights: Option<&[f32; N]>,
    ) -> L::Floats {
        lanes.clamp(numbers, result, lanes.splat(f32::INFINITY))
    }
}

/// `V` vectors of channels of a line, from a vector on.
struct Panel<'t, 'a, 'l, R: Reduce, const N: usize, const V: usize> {
    rows: &'t mut DepthwiseRows<'a, Singles>,
    of: R,
    line: &'t LineOfPixels<'l>,
    first: usize,
}

impl<L: ActivationLanes<N>, F: Reduce, const N: usize, const V: usize> On<L>
    for Panel<'_, '_, '_, F, N, V>
{
    #[inline(always)]
    fn run(mut self, lanes: L) {
        let window = self.rows.window;
        let of = &window.of;
        let (columns, dilation, stride) = (of.kernel[2], of.dilations[2], of.strides[2]);
        let (pad, size) = (of.pads[2][0], of.input[2]);
        let reach = (columns - 1) * dilation;
        let pixels = self.line.pixels;
        // Vectors of the last pixel that is met may reach beyond the data.
        let end = self.line.lines.last().map_or(0, |(_, start)| start + size);
        let end = (end * window.channels::<f32>()).saturating_sub(window.channels::<f32>());
        let are_whole = end + (self.first + V) * N <= self.rows.bytes.len() / size_of::<f32>();
        let mut pixel = 0;
        while pixel < pixels {
            let begin = (self.line.x + pixel) * stride;
            let last = begin + (PIXELS - 1) * stride + reach;
            if pixels - pixel >= PIXELS && begin >= pad && last - pad < size && are_whole {
                self.tile::<L, PIXELS, true>(lanes, pixel, [0, columns]);
                pixel += PIXELS;
            } else {
                // The columns of the kernel that meet data.
                let first = pad.saturating_sub(begin).div_ceil(dilation).min(columns);
                let end = (pad + size).saturating_sub(begin).div_ceil(dilation).min(columns);
                self.tile::<L, 1, false>(lanes, pixel, [first, end.max(first)]);
                pixel += 1;
            }
        }
    }
}

impl<F: Reduce, const N: usize, const V: usize> Panel<'_, '_, '_, F, N, V> {
    /// Some pixels, which meet these columns of the kernel. If the tile is whole, its vectors do not reach beyond the data.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn tile<L: ActivationLanes<N>, const R: usize, const WHOLE: bool>(
        &mut self,
        lanes: L,
        pixel: usize,
        [first_column, end_column]: [usize; 2],
    ) {
        let DepthwiseRows { bytes, window, epilogue, .. } = *self.rows;
        let data: &[f32] = cast_slice(bytes);
        let (channels, channel) = (window.channels::<f32>(), self.first * N);
        let (dilation, stride) = (window.of.dilations[2], window.of.strides[2] * channels);
        let begin = (self.line.x + pixel) * window.of.strides[2];
        let weights = self.of.weights(channel, V * N).as_chunks::<N>().0.as_chunks::<V>().0;
        let mut results = [[lanes.splat(0.); V]; R];
        for vector in 0..V {
            let first = self.of.first(lanes, channel + vector * N);
            for row in 0..R {
                results[row][vector] = first;
            }
        }
        for (row_of_kernel, start) in self.line.lines {
            for column in first_column..end_column {
                let x = begin + column * dilation - window.of.pads[2][0];
                let first = (start + x) * channels + channel;
                let weights = weights.get(row_of_kernel * window.of.kernel[2] + column);
                let numbers = if WHOLE { &data[first..][..(R - 1) * stride + V * N] } else { &[] };
                for row in 0..R {
                    let numbers = if WHOLE { &numbers[row * stride..][..V * N] } else { &[] };
                    let numbers = numbers.as_chunks::<N>().0;
                    for vector in 0..V {
                        let numbers = match WHOLE {
                            true => lanes.load(&numbers[vector]),
                            false => vector_at(lanes, data, first + row * stride + vector * N),
                        };
                        let weights = weights.map(|weights| &weights[vector]);
                        let result = results[row][vector];
                        results[row][vector] = self.of.with(lanes, result, numbers, weights);
                    }
                }
            }
        }
        // A copy, so that the results themselves need no place in memory.
        let mut stored = [[lanes.splat(0.); V]; R];
        for row in 0..R {
            for vector in 0..V {
                stored[row][vector] = results[row][vector];
            }
        }
        let width = (channels - channel).min(V * N);
        let at = TilePlace { channel, width, first_row: self.line.first_row + pixel };
        finish(lanes, epilogue, &stored, at, &mut self.rows.output);
    }
}
