//! What is made of each channel on its own, in single precision: convolutions of single channels, and pools. The channels are last, so
//! that a vector has neighbours of them. And convolutions of narrow groups, several of which are a vector.

use pulp::bytemuck::cast_slice;
use tract_core::internal::*;

use super::product::{DepthwiseRows, TilePlace};
use super::singles::{Singles, finish};
use crate::bf16::{Number, vector_at};
use crate::cost;
use crate::isa::{Instructions, Lanes, On, OnLanes, with_isa};
use crate::memory::{Aligned, elements, filled_output};
use crate::product::activation::ActivationLanes;
use crate::threads::fill_rows;

/// The kernel of each channel, packed: some vectors of neighbouring channels are a panel, in which the taps follow each other.
///
/// Of groups, a tap has a step for each input channel. A step multiplies a vector of weights with those numbers of a pixel, one of each
/// group, again and again: so the lanes of a vector, and the numbers of [`arranged`](Self::arranged) data, have one of each group in turn.
#[derive(Debug, PartialEq)]
pub(crate) struct ChannelKernels {
    /// The steps of a sum: its taps, times the channels of a group.
    steps: usize,
    /// The input channels of a group, and its output channels: 1, or a part of a vector.
    of_group: usize,
    weights: Aligned<f32>,
    /// What sums begin with.
    bias: Vec<f32>,
}

/// The panels of so many vectors of channels: the first vector of each, and how many it has. As many as there are registers for.
fn panels(vectors: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = match lanes {
        16 => 3,
        8 => 2,
        _ => 1,
    };
    (0..vectors).step_by(most).map(move |first| (first, most.min(vectors - first)))
}

impl ChannelKernels {
    /// Whether groups of so many input and output channels can be packed.
    pub fn takes_groups(of_group: usize) -> bool {
        let instructions = Instructions::detect();
        instructions.has_repeats()
            && [2, 4].iter().any(|groups| groups * of_group == instructions.lanes())
    }

    /// From `[channels, channels of a group, taps]`. Groups of several must be such as it [takes](Self::takes_groups).
    pub fn pack(weights: &[f32], bias: &[f32], of_group: usize) -> ChannelKernels {
        let instructions = Instructions::detect();
        let lanes = instructions.lanes();
        // So the compiler knows it where there are no groups.
        let of_group = if instructions.has_repeats() { of_group } else { 1 };
        let (channels, steps) = (bias.len(), weights.len() / bias.len().max(1));
        let (taps, vectors) = (steps / of_group, channels.div_ceil(lanes));
        let channel_of = |lane: usize| match of_group {
            1 => lane,
            _ => lane / lanes * lanes + place_of(lane % lanes, lanes, of_group),
        };
        let mut packed = Aligned::new(0., vectors * lanes * steps);
        for (first, width) in panels(vectors, lanes) {
            let panel = &mut packed[first * lanes * steps..][..width * lanes * steps];
            for (step, numbers) in panel.chunks_exact_mut(width * lanes).enumerate() {
                let (tap, input) = (step / of_group, step % of_group);
                for (lane, number) in (first * lanes..).zip(numbers) {
                    let filter = (channel_of(lane) * of_group + input) * taps;
                    *number = weights.get(filter + tap).copied().unwrap_or(0.);
                }
            }
        }
        let bias = (0..vectors * lanes).map(|lane| bias.get(channel_of(lane)).copied());
        let bias = bias.map(Option::unwrap_or_default).collect();
        ChannelKernels { steps, of_group, weights: packed, bias }
    }

    /// The weights of a panel of so many lanes, which begins with this one.
    #[inline(always)]
    fn panel(&self, first: usize, lanes: usize) -> &[f32] {
        &self.weights[first * self.steps..][..lanes * self.steps]
    }

    /// Data whose pixels are in the order in which groups need it, in single precision, and with zeros up to whole vectors. It is none if
    /// that is the order that it has.
    pub fn arranged(&self, operator: &str, data: &Tensor) -> TractResult<Option<Tensor>> {
        let instructions = Instructions::detect();
        if self.of_group == 1 || !instructions.has_repeats() {
            return Ok(None);
        }
        let channels = data.shape()[data.rank() - 1];
        let of_pixel = channels.next_multiple_of(instructions.lanes());
        let pixels = data.len() / channels.max(1);
        let count = pixels.checked_mul(of_pixel).context("the data is too large")?;
        let arranged = filled_output(operator, &[count], |arranged: &mut [f32]| {
            fill_rows(arranged, of_pixel, cost::ELEMENT.of(count), |first, arranged| {
                let (size, of_group) = (data.datum_type().size_of(), self.of_group);
                let bytes = &elements(data)?[first * channels * size..];
                instructions.run(Arrange { bytes, size, channels, arranged, of_group });
                Ok(())
            })
        })?;
        Ok(Some(arranged))
    }
}

/// Which channel of a vector's a lane has, if it has one of each group in turn; groups have so many channels each.
const fn place_of(lane: usize, lanes: usize, of_group: usize) -> usize {
    let groups = lanes / of_group;
    lane % groups * of_group + lane / groups
}

/// The channels of the lanes of a vector.
const fn places<const N: usize>(of_group: usize) -> [u32; N] {
    let mut places = [0; N];
    let mut lane = 0;
    while lane < N {
        places[lane] = place_of(lane, N, of_group) as u32;
        lane += 1;
    }
    places
}

/// [`ChannelKernels::arranged`] pixels.
struct Arrange<'a> {
    bytes: &'a [u8],
    size: usize,
    channels: usize,
    arranged: &'a mut [f32],
    of_group: usize,
}

impl OnLanes for Arrange<'_> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        match self.size {
            2 if const { N > 8 } => self.run_on::<[u8; 2], L, N>(lanes),
            _ => self.run_on::<f32, L, N>(lanes),
        }
    }
}

impl Arrange<'_> {
    #[inline(always)]
    fn run_on<T: Number, L: Lanes<N>, const N: usize>(self, lanes: L) {
        let places = places::<N>(self.of_group);
        let of_pixel = self.channels.next_multiple_of(N);
        let pixels = self.arranged.chunks_exact_mut(of_pixel);
        let data: &[T] = cast_slice(self.bytes);
        for (pixel, numbers) in pixels.zip(data.chunks_exact(self.channels)) {
            for (vector, place) in pixel.as_chunks_mut::<N>().0.iter_mut().enumerate() {
                let numbers = vector_at(lanes, numbers, vector * N);
                lanes.store(place, lanes.permute(numbers, &places));
            }
        }
    }
}

/// What is made of the elements of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reduction<'a> {
    /// The sum of products with a kernel for each channel, and a bias: of one channel, or of a narrow group. The data is [arranged](ChannelKernels::arranged).
    Sum(&'a ChannelKernels),
    /// The sum.
    SameSum,
    /// The greatest element. Padding is the least of all finite numbers, which is this one, as in OpenVINO and in tract; NaN is ignored.
    Max(f32),
}

/// Some pixels of all channels.
pub(crate) struct ChannelSums<'a> {
    pub rows: DepthwiseRows<'a, Singles>,
    pub reduction: Reduction<'a>,
}

impl ChannelSums<'_> {
    /// Computes all pixels.
    pub fn compute(mut self) {
        #[cfg(target_arch = "x86_64")]
        {
            let DepthwiseRows { size, output, .. } = &self.rows;
            let sizes = [*size, output.size, output.residual.size(output.size)];
            if sizes.contains(&size_of::<u16>())
                && let Some(isa) = Instructions::detect().bf16()
            {
                return self.compute_on(isa);
            }
        }
        with_isa!(Instructions::detect(), isa => self.compute_on(isa));
    }

    fn compute_on<L: ActivationLanes<N>, const N: usize>(&mut self, lanes: L) {
        match self.rows.size {
            2 if const { L::ROUNDS_TO_BF16 } => self.compute_of::<[u8; 2], L, N>(lanes),
            _ => self.compute_of::<f32, L, N>(lanes),
        }
    }

    fn compute_of<T: Number, L: ActivationLanes<N>, const N: usize>(&mut self, lanes: L) {
        let padding = match self.reduction {
            Reduction::Max(least) => least,
            Reduction::Sum(_) | Reduction::SameSum => 0.,
        };
        let (window, channels) = (self.rows.window, self.rows.channels);
        let padding = vec![T::of(padding); channels.next_multiple_of(N)];
        let (mut starts, mut lines) = (vec![], vec![]);
        let first = self.rows.first;
        let mut first_row = 0;
        for (line, pixels) in window.lines_of(first..first + self.rows.pixels) {
            window.lines(line, &mut starts);
            let met = starts.iter().enumerate();
            let met = met.filter_map(|(row, start)| Some((row, (*start)?))).collect();
            let (x, pixels, padding) = (pixels.start, pixels.len(), &*padding);
            lines.push(LineOfPixels { x, pixels, first_row, met, padding });
            first_row += pixels;
        }
        let of_pixel = channels.next_multiple_of(N);
        let bytes =
            window.per_image.input[2] * of_pixel * window.per_image.strides[1] * size_of::<T>();
        for lines in lines.chunks((BYTES_OF_LINES / bytes.max(1)).max(1)) {
            lanes.enter(ChannelsOfLines::<T, N>(self, lines));
        }
    }
}

/// About the most bytes of data that are met by all lines for some vectors of channels before the next vectors, so that they stay in the
/// second-level cache.
const BYTES_OF_LINES: usize = if cfg!(test) { 1 << 10 } else { 256 << 10 };

/// Some pixels of a line of the output, and what they meet.
struct LineOfPixels<'l, T> {
    /// The first of them in the line, how many there are, and the number of the first one among those of the task.
    x: usize,
    pixels: usize,
    first_row: usize,
    /// For each row of the kernel that meets data, which one it is, and where the line of the image begins, in pixels.
    met: TVec<(usize, usize)>,
    /// What a pixel of padding has, with no influence on the result.
    padding: &'l [T],
}

/// All channels of some lines.
struct ChannelsOfLines<'t, 'a, 'l, T, const N: usize>(
    &'t mut ChannelSums<'a>,
    &'t [LineOfPixels<'l, T>],
);

impl<L: ActivationLanes<N>, T: Number, const N: usize> On<L> for ChannelsOfLines<'_, '_, '_, T, N> {
    #[inline(always)]
    fn run(self, lanes: L) {
        let ChannelsOfLines(ChannelSums { rows, reduction }, lines) = self;
        let vectors = rows.channels.div_ceil(N);
        let of_group = match reduction {
            Reduction::Sum(kernels) => kernels.of_group,
            Reduction::SameSum | Reduction::Max(_) => 1,
        };
        for (first, width) in panels(vectors, N) {
            macro_rules! reduced {
                ($reduce:expr, $vectors:literal) => {{
                    let reduce = $reduce;
                    lanes.enter(ReducedLines::<_, _, N, $vectors> { rows, reduce, lines, first })
                }};
            }
            macro_rules! of_vectors {
                ($vectors:literal) => {
                    match reduction {
                        Reduction::Sum(kernels) if const { L::REPEATS } && 2 * of_group == N => {
                            reduced!(WeightedSum::<2>(kernels), $vectors)
                        }
                        Reduction::Sum(kernels) if const { L::REPEATS } && 4 * of_group == N => {
                            reduced!(WeightedSum::<4>(kernels), $vectors)
                        }
                        Reduction::Sum(kernels) => reduced!(WeightedSum::<N>(kernels), $vectors),
                        Reduction::SameSum => reduced!(Fold::<false>(0.), $vectors),
                        Reduction::Max(least) => reduced!(Fold::<true>(*least), $vectors),
                    }
                };
            }
            match width {
                3 if const { N > 8 } => of_vectors!(3),
                2 if const { N >= 8 } => of_vectors!(2),
                _ => of_vectors!(1),
            }
        }
    }
}

/// What is made of elements, vector by vector.
trait Reduce: Copy {
    /// What it begins with, in a vector of channels.
    fn first<L: ActivationLanes<N>, const N: usize>(self, lanes: L, channel: usize) -> L::Floats;
    /// The weights of a panel of so many numbers a step, if there are any.
    #[inline(always)]
    fn weights(&self, _channel: usize, _width: usize) -> &[f32] {
        &[]
    }
    /// The steps of a tap.
    #[inline(always)]
    fn steps<const N: usize>() -> usize {
        1
    }
    /// What a step of a tap reads of a pixel.
    #[inline(always)]
    fn numbers<T: Number, L: Lanes<N>, const N: usize>(
        lanes: L,
        pixel: &[T; N],
        _step: usize,
    ) -> L::Floats {
        T::load(lanes, pixel)
    }
    /// How many numbers a pixel of the data has, if it has so many channels.
    #[inline(always)]
    fn of_pixel<const N: usize>(channels: usize) -> usize {
        channels
    }
    /// A vector of results in the order of the channels.
    #[inline(always)]
    fn in_order<L: Lanes<N>, const N: usize>(_lanes: L, results: L::Floats) -> L::Floats {
        results
    }
    fn with<L: Lanes<N>, const N: usize>(
        self,
        lanes: L,
        result: L::Floats,
        numbers: L::Floats,
        weights: Option<&[f32; N]>,
    ) -> L::Floats;
}

/// The weighted sum over the taps of the channels of a group. A vector has the output channels of so many groups, which have one channel
/// each if there are as many groups as lanes.
#[derive(Clone, Copy)]
struct WeightedSum<'a, const GROUPS: usize>(&'a ChannelKernels);

impl<const GROUPS: usize> Reduce for WeightedSum<'_, GROUPS> {
    #[inline(always)]
    fn first<L: ActivationLanes<N>, const N: usize>(self, lanes: L, channel: usize) -> L::Floats {
        vector_at(lanes, &self.0.bias, channel)
    }

    #[inline(always)]
    fn weights(&self, channel: usize, width: usize) -> &[f32] {
        self.0.panel(channel, width)
    }

    #[inline(always)]
    fn steps<const N: usize>() -> usize {
        N / GROUPS
    }

    #[inline(always)]
    fn numbers<T: Number, L: Lanes<N>, const N: usize>(
        lanes: L,
        pixel: &[T; N],
        step: usize,
    ) -> L::Floats {
        match GROUPS == N {
            true => T::load(lanes, pixel),
            // Arranged data is in single precision.
            false => lanes.repeat::<GROUPS>(&cast_slice(pixel).as_chunks().0[step]),
        }
    }

    #[inline(always)]
    fn of_pixel<const N: usize>(channels: usize) -> usize {
        if GROUPS == N { channels } else { channels.next_multiple_of(N) }
    }

    #[inline(always)]
    fn in_order<L: Lanes<N>, const N: usize>(lanes: L, results: L::Floats) -> L::Floats {
        match GROUPS == N {
            true => results,
            // The other way round: as if there were groups of so many channels as there are groups.
            false => lanes.permute(results, &const { places::<N>(GROUPS) }),
        }
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

/// The sum of elements, or the greatest one: what it begins with.
#[derive(Clone, Copy)]
struct Fold<const IS_MAX: bool>(f32);

impl<const IS_MAX: bool> Reduce for Fold<IS_MAX> {
    #[inline(always)]
    fn first<L: ActivationLanes<N>, const N: usize>(self, lanes: L, _channel: usize) -> L::Floats {
        lanes.splat(self.0)
    }

    #[inline(always)]
    fn with<L: Lanes<N>, const N: usize>(
        self,
        lanes: L,
        result: L::Floats,
        numbers: L::Floats,
        _weights: Option<&[f32; N]>,
    ) -> L::Floats {
        match IS_MAX {
            true => lanes.clamp(numbers, result, lanes.splat(f32::INFINITY)),
            false => lanes.add(result, numbers),
        }
    }
}

/// At the borders of an image, a tile is computed at once if it meets no more pixels of a line.
const MOST_PIXELS_MET: usize = 32;

/// `V` vectors of channels of some lines, from a vector on.
struct ReducedLines<'t, 'a, 'l, T, R: Reduce, const N: usize, const V: usize> {
    rows: &'t mut DepthwiseRows<'a, Singles>,
    reduce: R,
    lines: &'t [LineOfPixels<'l, T>],
    first: usize,
}

impl<L: ActivationLanes<N>, T: Number, F: Reduce, const N: usize, const V: usize> On<L>
    for ReducedLines<'_, '_, '_, T, F, N, V>
{
    #[inline(always)]
    fn run(mut self, lanes: L) {
        for line in self.lines {
            self.line(lanes, line);
        }
    }
}

impl<T: Number, F: Reduce, const N: usize, const V: usize> ReducedLines<'_, '_, '_, T, F, N, V> {
    /// The pixels of a line.
    #[inline(always)]
    fn line<L: ActivationLanes<N>>(&mut self, lanes: L, line: &LineOfPixels<T>) {
        let window = self.rows.window;
        let per_image = &window.per_image;
        let (pad, size, stride) = (per_image.pads[2][0], per_image.input[2], per_image.strides[2]);
        let reach = (per_image.kernel[2] - 1) * per_image.dilations[2];
        let start = line.met.last().map_or(0, |(_, start)| *start);
        let tile = if const { N > 8 } { 7 } else { 4 };
        let tile = if line.pixels < tile { 1 } else { tile };
        for pixel in (0..line.pixels).step_by(tile) {
            // The last tile ends with the line: some pixels may be computed twice.
            let pixel = pixel.min(line.pixels - tile);
            let begin = (line.x + pixel) * stride;
            let last = begin + (tile - 1) * stride + reach;
            // Vectors of the last pixel of the data may reach beyond it.
            let met = start + last.saturating_sub(pad).min(size.saturating_sub(1));
            let of_pixel = F::of_pixel::<N>(self.rows.channels);
            let end = met * of_pixel + (self.first + V) * N;
            let is_within = end <= self.rows.bytes.len() / size_of::<T>();
            let is_whole = begin >= pad && last - pad < size && is_within;
            let is_within = is_within && last - begin < MOST_PIXELS_MET;
            match tile {
                7 if const { N > 8 } && is_whole => self.tile::<L, 7, true>(lanes, line, pixel),
                7 if const { N > 8 } && is_within => self.tile::<L, 7, false>(lanes, line, pixel),
                4 if const { N <= 8 } && is_whole => self.tile::<L, 4, true>(lanes, line, pixel),
                4 if const { N <= 8 } && is_within => self.tile::<L, 4, false>(lanes, line, pixel),
                // A loop, as closures would not be compiled for the vectors.
                _ => {
                    for pixel in pixel..pixel + tile {
                        self.single(lanes, line, pixel);
                    }
                }
            }
        }
    }

    /// Some pixels, of which vectors do not reach beyond the data. If they are whole, no pixel of the padding is met.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn tile<L: ActivationLanes<N>, const R: usize, const WHOLE: bool>(
        &mut self,
        lanes: L,
        line: &LineOfPixels<T>,
        pixel: usize,
    ) {
        let DepthwiseRows { bytes, window, .. } = *self.rows;
        let data: &[T] = cast_slice(bytes);
        let channels = F::of_pixel::<N>(self.rows.channels);
        let channel = self.first * N;
        let per_image = &window.per_image;
        let (columns, stride, pad) =
            (per_image.kernel[2], per_image.strides[2], per_image.pads[2][0]);
        let begin = (line.x + pixel) * stride;
        let weights = self.reduce.weights(channel, V * N).as_chunks::<N>().0.as_chunks::<V>().0;
        let mut results = [self.begin(lanes); R];
        let distance = per_image.dilations[2] * channels;
        // What a row of the kernel meets of each pixel, from its first column on.
        let reach = (columns - 1) * distance + V * N;
        let padding = &line.padding[channel..].as_chunks().0.as_chunks().0[0];
        // The pixels that a row of the kernel meets, from the first one on, in steps of one.
        let mut met: [&[[T; N]; V]; MOST_PIXELS_MET] = [padding; MOST_PIXELS_MET];
        let met_count = (R - 1) * stride + (columns - 1) * per_image.dilations[2] + 1;
        let are_data = pad.saturating_sub(begin)
            ..met_count.min((pad + per_image.input[2]).saturating_sub(begin));
        for (row_of_kernel, start) in &line.met {
            // From the first pixel of the image's line to the vectors of the last one.
            let line = &data[start * channels + channel..];
            let reach_of_line = per_image.input[2].saturating_sub(1) * channels + V * N;
            let line = &line[..line.len().min(reach_of_line)];
            let mut rows: [&[T]; R] = [&[]; R];
            if WHOLE {
                for row in 0..R {
                    rows[row] = &line[(begin + row * stride - pad) * channels..][..reach];
                }
            }
            if !WHOLE {
                for pixel in are_data.clone() {
                    let numbers = &line[(begin + pixel - pad) * channels..];
                    met[pixel] = &numbers.as_chunks().0.as_chunks().0[0];
                }
            }
            for column in 0..columns {
                let mut place = column * distance;
                if !WHOLE {
                    for row in 0..R {
                        let pixel = row * stride + column * per_image.dilations[2];
                        rows[row] = met[pixel % MOST_PIXELS_MET].as_flattened();
                    }
                    place = 0;
                } else if place + V * N > reach {
                    // It never is: so the compiler sees that all rows are long enough.
                    break;
                }
                for step in 0..F::steps::<N>() {
                    let tap = row_of_kernel * columns + column;
                    let weights = weights.get(tap * F::steps::<N>() + step);
                    for row in 0..R {
                        let numbers = rows[row][place..place + V * N].as_chunks::<N>().0;
                        for vector in 0..V {
                            let weights = weights.map(|weights| &weights[vector]);
                            let numbers = F::numbers(lanes, &numbers[vector], step);
                            let result = results[row][vector];
                            results[row][vector] =
                                self.reduce.with(lanes, result, numbers, weights);
                        }
                    }
                }
            }
        }
        self.finish(lanes, line, pixel, results);
    }

    /// What results begin with.
    #[inline(always)]
    fn begin<L: ActivationLanes<N>>(&self, lanes: L) -> [L::Floats; V] {
        let mut begin = [lanes.splat(0.); V];
        for (vector, begin) in begin.iter_mut().enumerate() {
            *begin = self.reduce.first(lanes, (self.first + vector) * N);
        }
        begin
    }

    /// One pixel anywhere.
    #[inline(always)]
    fn single<L: ActivationLanes<N>>(&mut self, lanes: L, line: &LineOfPixels<T>, pixel: usize) {
        let DepthwiseRows { bytes, window, .. } = *self.rows;
        let data: &[T] = cast_slice(bytes);
        let channels = F::of_pixel::<N>(self.rows.channels);
        let channel = self.first * N;
        let per_image = &window.per_image;
        let (columns, dilation, pad) =
            (per_image.kernel[2], per_image.dilations[2], per_image.pads[2][0]);
        let begin = (line.x + pixel) * per_image.strides[2];
        let weights = self.reduce.weights(channel, V * N).as_chunks::<N>().0.as_chunks::<V>().0;
        let mut results = self.begin(lanes);
        // The columns of the kernel that meet data.
        let first = pad.saturating_sub(begin).div_ceil(dilation).min(columns);
        let end = (pad + per_image.input[2]).saturating_sub(begin).div_ceil(dilation).min(columns);
        for (row_of_kernel, start) in &line.met {
            for column in first..end {
                let x = begin + column * dilation - pad;
                let numbers = &data[(start + x) * channels + channel..];
                for step in 0..F::steps::<N>() {
                    let tap = row_of_kernel * columns + column;
                    let weights = weights.get(tap * F::steps::<N>() + step);
                    for vector in 0..V {
                        let weights = weights.map(|weights| &weights[vector]);
                        let numbers = numbers.get(vector * N..).unwrap_or(&[]);
                        let numbers = match numbers.first_chunk() {
                            Some(pixel) => F::numbers(lanes, pixel, step),
                            // Arranged pixels have whole vectors.
                            None => T::load_first(lanes, numbers),
                        };
                        results[vector] =
                            self.reduce.with(lanes, results[vector], numbers, weights);
                    }
                }
            }
        }
        self.finish(lanes, line, pixel, [results]);
    }

    /// Writes some pixels.
    #[inline(always)]
    fn finish<L: ActivationLanes<N>, const R: usize>(
        &mut self,
        lanes: L,
        line: &LineOfPixels<T>,
        pixel: usize,
        results: [[L::Floats; V]; R],
    ) {
        let (channels, channel) = (self.rows.channels, self.first * N);
        // A copy, so that the results themselves need no place in memory.
        let mut stored = [[lanes.splat(0.); V]; R];
        for row in 0..R {
            for vector in 0..V {
                stored[row][vector] = F::in_order(lanes, results[row][vector]);
            }
        }
        let width = (channels - channel).min(V * N);
        let at = TilePlace { channel, width, first_row: line.first_row + pixel };
        finish(lanes, self.rows.epilogue, &stored, at, &mut self.rows.output);
    }
}
