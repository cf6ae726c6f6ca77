//! What is made of each channel on its own, in single precision: convolutions of single channels, and pools. The channels are last, so
//! that a vector has neighbours of them. And convolutions of narrow groups, several of which are a vector.

use pulp::bytemuck::cast_slice;
use tract_core::internal::*;

use super::pairs::PairKernels;
use super::product::{DepthwiseRows, TilePlace};
use super::singles::{Singles, finish};
use super::window::ChannelsLastWindow;
use crate::bf16::{Number, vector_at};
use crate::isa::{Instructions, Lanes, On, with_isa};
use crate::memory::{Aligned, Scratch};
use crate::product::activation::ActivationLanes;

/// The kernel of each channel, packed: some vectors of neighbouring channels are a panel, in which the taps follow each other.
///
/// Of groups, a tap has a step for each input channel. A step multiplies a vector of weights with those numbers of a pixel, one of each
/// group, again and again: so the lanes of a vector, and the numbers of copied lines, have one of each group in turn.
#[derive(Debug, PartialEq)]
pub(crate) struct ChannelKernels {
    /// The steps of a sum: its taps, times the channels of a group.
    steps: usize,
    /// The input channels of a group, and its output channels: 1, or a part of a vector.
    of_group: usize,
    weights: Aligned<f32>,
    /// What sums begin with.
    bias: Vec<f32>,
    /// The same for data in bf16, if there may be such and the channels are enough.
    pairs: Option<PairKernels>,
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

/// The lanes of the widest of the panels of so many vectors.
fn most_lanes(vectors: usize, lanes: usize) -> usize {
    panels(vectors, lanes).map(|(_, width)| width * lanes).max().unwrap_or(0)
}

impl ChannelKernels {
    /// Whether groups of so many input and output channels can be packed.
    pub fn takes_groups(of_group: usize) -> bool {
        let instructions = Instructions::detect();
        instructions.has_repeats()
            && [2, 4].iter().any(|groups| groups * of_group == instructions.lanes())
    }

    /// From `[channels, channels of a group, taps]`. Groups of several must be such as it [takes](Self::takes_groups). The data may be in
    /// bf16, if that is said, which [`PairKernels::takes`] is for.
    pub fn pack(
        weights: &[f32],
        bias: &[f32],
        of_group: usize,
        may_be_bf16: bool,
    ) -> ChannelKernels {
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
        let mut packed = Aligned::unwritten(vectors * lanes * steps);
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
        let pairs = match may_be_bf16 && of_group == 1 {
            true => PairKernels::pack(weights, bias, lanes),
            false => None,
        };
        let bias = (0..vectors * lanes).map(|lane| bias.get(channel_of(lane)).copied());
        let bias = bias.map(Option::unwrap_or_default).collect();
        ChannelKernels { steps, of_group, weights: packed, bias, pairs }
    }

    /// The weights of a panel of so many lanes, which begins with this one.
    #[inline(always)]
    fn panel(&self, first: usize, lanes: usize) -> &[f32] {
        &self.weights[first * self.steps..][..lanes * self.steps]
    }
}

/// Which channel of a vector's a lane has, if it has one of each group in turn; groups have so many channels each.
const fn place_of(lane: usize, lanes: usize, of_group: usize) -> usize {
    let groups = lanes / of_group;
    lane % groups * of_group + lane / groups
}

/// The channels of the lanes of a vector.
const fn places_of_group<const N: usize>(of_group: usize) -> [u32; N] {
    let mut places = [0; N];
    let mut lane = 0;
    while lane < N {
        places[lane] = place_of(lane, N, of_group) as u32;
        lane += 1;
    }
    places
}

/// What is made of the elements of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reduction<'a> {
    /// The sum of products with a kernel for each channel, and a bias: of one channel, or of a narrow group.
    Sum(&'a ChannelKernels),
    /// The sum.
    SameSum,
    /// The greatest element. Padding is the least of all finite numbers, which is this one, as in OpenVINO and in tract; NaN is ignored.
    Max(f32),
}

impl Reduction<'_> {
    /// The input channels of a group.
    fn of_group(&self) -> usize {
        match self {
            Reduction::Sum(kernels) => kernels.of_group,
            Reduction::SameSum | Reduction::Max(_) => 1,
        }
    }
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
        let DepthwiseRows { window, channels, size, first, pixels, .. } = self.rows;

        let [y_stride, stride] = [1, 2].map(|axis| window.per_image.strides[axis]);
        let pairs = match self.reduction {
            // Data and output are such.
            Reduction::Sum(kernels) if [size, self.rows.output.size] == [size_of::<u16>(); 2] => {
                kernels.pairs.as_ref()
            }
            _ => None,
        };
        let copies = match self.reduction {
            Reduction::Sum(kernels) => {
                pairs.is_none() && (size != size_of::<f32>() || kernels.of_group > 1)
            }
            Reduction::SameSum | Reduction::Max(_) => false,
        };
        let of_copy =
            if copies { most_lanes(channels.div_ceil(N), N) * size_of::<f32>() } else { 0 };
        let of_pixel = (channels * size).max(of_copy).max(1);
        let reach = window.per_image.reach(2);
        // Each part of a line reads what the kernel reaches beyond it, too.
        let most_pixels = (BYTES_OF_LINES / of_pixel).max(LEAST_COLUMNS).max(reach) / stride;
        let most_pixels = most_pixels.max(1);
        let (mut starts, mut lines) = (vec![], vec![]);
        let mut first_row = 0;
        for (line, pixels) in window.lines_of(first..first + pixels) {
            window.lines(line, &mut starts);
            let met = starts.iter().enumerate();
            let met: TVec<(usize, usize)> =
                met.filter_map(|(row, start)| Some((row, (*start)?))).collect();
            for x in pixels.clone().step_by(most_pixels) {
                let pixels = most_pixels.min(pixels.end - x);
                lines.push(LineOfPixels { x, pixels, first_row, met: met.clone() });
                first_row += pixels;
            }
        }
        let bytes = of_pixel.saturating_mul(window.per_image.input[2].min(most_pixels * stride));
        let most_lines = BYTES_OF_LINES / bytes.saturating_mul(y_stride).max(1);
        for lines in lines.chunks_mut(most_lines.max(1)) {
            if const { L::ROUNDS_TO_BF16 }
                && let Some(kernels) = pairs
            {
                kernels.compute(lanes, &mut self.rows, lines);
                continue;
            }
            let copied = copies.then(|| CopiedLines::of(window, lines));
            lanes.enter(ChannelsOfLines::<N> { sums: self, lines, copied });
        }
    }
}

/// About the most bytes of data that are met by all lines for some vectors of channels before the next vectors, so that they stay in the
/// second-level cache.
const BYTES_OF_LINES: usize = if cfg!(test) { 4 << 10 } else { 256 << 10 };

/// Longer lines are cut into parts that meet so many pixels of the data or more.
const LEAST_COLUMNS: usize = if cfg!(test) { 12 } else { 64 };

/// Some pixels of a line of the output, and what they meet.
pub(super) struct LineOfPixels {
    /// The first of them in the line, how many there are, and the number of the first one among those of the task.
    pub x: usize,
    pub pixels: usize,
    pub first_row: usize,
    /// For each row of the kernel that meets data, which one it is, and where what is read of the line of the image begins, in pixels.
    pub met: TVec<(usize, usize)>,
}

/// The lines of the image that some lines of the output meet. They are copied for each panel of channels: so numbers in bf16 are converted
/// once for all these lines, and those of groups are in the order in which these need them.
struct CopiedLines {
    /// Where they begin, in pixels.
    starts: Vec<usize>,
    /// The first pixel of each that is met, and how many there are from that on.
    column: usize,
    columns: usize,
}

impl CopiedLines {
    /// Those that these lines meet, which then know where the copies begin.
    fn of(window: &ChannelsLastWindow, lines: &mut [LineOfPixels]) -> CopiedLines {
        let per_image = &window.per_image;
        let (pad, stride, size) = (per_image.pads[2][0], per_image.strides[2], per_image.input[2]);
        let reach = per_image.reach(2);
        let first = lines.iter().map(|line| line.x).min().unwrap_or(0);
        let last = lines.iter().map(|line| line.x + line.pixels - 1).max().unwrap_or(0);
        let column = (first * stride).saturating_sub(pad).min(size);
        let columns = (last * stride + reach + 1).saturating_sub(pad).min(size) - column;
        let mut starts: Vec<usize> =
            lines.iter().flat_map(|line| line.met.iter().map(|(_, start)| *start)).collect();
        starts.sort_unstable();
        starts.dedup();
        for (_, start) in lines.iter_mut().flat_map(|line| &mut line.met) {
            *start = starts.binary_search(start).expect("it is one of them") * columns;
        }
        CopiedLines { starts, column, columns }
    }

    /// Copies `V` vectors of channels, from one on.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep vectors in registers")]
    fn copy<T: Number, L: Lanes<N>, const N: usize, const V: usize>(
        &self,
        lanes: L,
        rows: &DepthwiseRows<Singles>,
        of_group: usize,
        first: usize,
        places: &mut [f32],
    ) {
        let (data, channels): (&[T], usize) = (cast_slice(rows.bytes), rows.channels);
        let places = places.as_chunks_mut::<N>().0.as_chunks_mut::<V>().0;
        let places = places.chunks_exact_mut(self.columns.max(1));
        let order = places_of_group::<N>(of_group);
        for (start, places) in self.starts.iter().zip(places) {
            let pixels = &data[(start + self.column) * channels..][..self.columns * channels];
            let of_vectors = pixels.get(first * N..).unwrap_or(&[]).chunks(channels);
            for (numbers, place) in of_vectors.zip(places) {
                let mut vectors = [lanes.splat(0.); V];
                // What follows may be of the next pixel: there are no weights for it.
                if let Some(whole) = numbers.as_chunks().0.first_chunk::<V>() {
                    for vector in 0..V {
                        vectors[vector] = T::load(lanes, &whole[vector]);
                    }
                } else {
                    for vector in 0..V {
                        vectors[vector] = vector_at(lanes, numbers, vector * N);
                    }
                }
                if of_group > 1 {
                    for vector in 0..V {
                        vectors[vector] = lanes.permute(vectors[vector], &order);
                    }
                }
                for vector in 0..V {
                    lanes.store(&mut place[vector], vectors[vector]);
                }
            }
        }
    }
}

/// All channels of some lines.
struct ChannelsOfLines<'t, 'a, const N: usize> {
    sums: &'t mut ChannelSums<'a>,
    lines: &'t [LineOfPixels],
    copied: Option<CopiedLines>,
}

impl<L: ActivationLanes<N>, const N: usize> On<L> for ChannelsOfLines<'_, '_, N> {
    #[inline(always)]
    fn run(self, lanes: L) {
        let ChannelsOfLines { sums: ChannelSums { rows, reduction }, lines, copied } = self;
        let (vectors, of_group) = (rows.channels.div_ceil(N), reduction.of_group());
        let mut room = Scratch::new(match &copied {
            Some(CopiedLines { starts, columns, .. }) => {
                starts.len() * columns * most_lanes(vectors, N)
            }
            None => 0,
        });
        for (first, width) in panels(vectors, N) {
            let copies = match &copied {
                None => None,
                Some(copied) => {
                    let CopiedLines { ref starts, column, columns } = *copied;
                    let places = &mut room[..starts.len() * columns * width * N];
                    macro_rules! copy {
                        ($number:ty, $vectors:literal) => {
                            copied.copy::<$number, L, N, $vectors>(
                                lanes, rows, of_group, first, places,
                            )
                        };
                    }
                    match (rows.size, width) {
                        (2, 3) if const { L::ROUNDS_TO_BF16 && N > 8 } => copy!([u8; 2], 3),
                        (2, 2) if const { L::ROUNDS_TO_BF16 } => copy!([u8; 2], 2),
                        (2, _) if const { L::ROUNDS_TO_BF16 } => copy!([u8; 2], 1),
                        (_, 3) if const { N > 8 } => copy!(f32, 3),
                        (_, 2) if const { N >= 8 } => copy!(f32, 2),
                        _ => copy!(f32, 1),
                    }
                    let (numbers, of_pixel) = (&*places, width * N);
                    Some(ChannelData { numbers, of_pixel, first: 0, column, columns })
                }
            };
            macro_rules! reduced {
                ($reduce:expr, $vectors:literal, $data:expr, $padding:expr) => {{
                    let (reduce, data) = ($reduce, $data);
                    let padding = [[Number::of($padding); N]; $vectors];
                    lanes.enter(ReducedLines { rows, reduce, lines, first, data, padding })
                }};
            }
            macro_rules! data {
                () => {
                    copies.unwrap_or_else(|| ChannelData::in_place(rows, first * N))
                };
            }
            macro_rules! folded {
                ($fold:expr, $vectors:literal, $padding:expr) => {
                    match rows.size {
                        2 if const { L::ROUNDS_TO_BF16 } => {
                            let data = ChannelData::<[u8; 2]>::in_place(rows, first * N);
                            reduced!($fold, $vectors, data, $padding)
                        }
                        _ => {
                            let data = ChannelData::<f32>::in_place(rows, first * N);
                            reduced!($fold, $vectors, data, $padding)
                        }
                    }
                };
            }
            macro_rules! of_vectors {
                ($vectors:literal) => {
                    match reduction {
                        Reduction::Sum(kernels) if const { L::REPEATS } && 2 * of_group == N => {
                            reduced!(WeightedSum::<2>(kernels), $vectors, data!(), 0.)
                        }
                        Reduction::Sum(kernels) if const { L::REPEATS } && 4 * of_group == N => {
                            reduced!(WeightedSum::<4>(kernels), $vectors, data!(), 0.)
                        }
                        Reduction::Sum(kernels) => {
                            reduced!(WeightedSum::<N>(kernels), $vectors, data!(), 0.)
                        }
                        Reduction::SameSum => folded!(Fold::<false>(0.), $vectors, 0.),
                        Reduction::Max(least) => {
                            folded!(Fold::<true>(*least), $vectors, *least)
                        }
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

/// The data that some vectors of channels meet: lines of the image, or copies of them.
#[derive(Clone, Copy)]
struct ChannelData<'d, T> {
    numbers: &'d [T],
    /// The numbers of a pixel, and where those of the vectors begin.
    of_pixel: usize,
    first: usize,
    /// The first pixel of the lines that is there, and how many there are from that on.
    column: usize,
    columns: usize,
}

impl<'d, T: Number> ChannelData<'d, T> {
    /// The image as it is, whose channels begin with one.
    fn in_place(rows: &DepthwiseRows<'d, Singles>, first: usize) -> ChannelData<'d, T> {
        let (numbers, columns) = (cast_slice(rows.bytes), rows.window.per_image.input[2]);
        ChannelData { numbers, of_pixel: rows.channels, first, column: 0, columns }
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
            // Those of groups are copied, in single precision.
            false => lanes.repeat::<GROUPS>(&cast_slice(pixel).as_chunks().0[step]),
        }
    }

    #[inline(always)]
    fn in_order<L: Lanes<N>, const N: usize>(lanes: L, results: L::Floats) -> L::Floats {
        match GROUPS == N {
            true => results,
            // The other way round: as if there were groups of so many channels as there are groups.
            false => lanes.permute(results, &const { places_of_group::<N>(GROUPS) }),
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
struct ReducedLines<'t, 'a, T, R: Reduce, const N: usize, const V: usize> {
    rows: &'t mut DepthwiseRows<'a, Singles>,
    reduce: R,
    lines: &'t [LineOfPixels],
    first: usize,
    data: ChannelData<'t, T>,
    /// What a pixel of padding has, with no influence on the result.
    padding: [[T; N]; V],
}

impl<L: ActivationLanes<N>, T: Number, F: Reduce, const N: usize, const V: usize> On<L>
    for ReducedLines<'_, '_, T, F, N, V>
{
    #[inline(always)]
    fn run(mut self, lanes: L) {
        for line in self.lines {
            self.line(lanes, line);
        }
    }
}

impl<T: Number, F: Reduce, const N: usize, const V: usize> ReducedLines<'_, '_, T, F, N, V> {
    /// The pixels of a line.
    #[inline(always)]
    fn line<L: ActivationLanes<N>>(&mut self, lanes: L, line: &LineOfPixels) {
        let window = self.rows.window;
        let per_image = &window.per_image;
        let (pad, size, stride) = (per_image.pads[2][0], per_image.input[2], per_image.strides[2]);
        let reach = per_image.reach(2);
        let start = line.met.last().map_or(0, |(_, start)| *start);
        let tile = if const { N > 8 } { 7 } else { 4 };
        let tile = if line.pixels < tile { 1 } else { tile };
        for pixel in (0..line.pixels).step_by(tile) {
            // The last tile ends with the line: some pixels may be computed twice.
            let pixel = pixel.min(line.pixels - tile);
            let begin = (line.x + pixel) * stride;
            let last = begin + (tile - 1) * stride + reach;
            // Vectors of the last pixel of the data may reach beyond it.
            let met = last.saturating_sub(pad).min(size.saturating_sub(1));
            let ChannelData { numbers, of_pixel, first, column, .. } = self.data;
            let end = (start + met.saturating_sub(column)) * of_pixel + first + V * N;
            let is_within = end <= numbers.len();
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
        line: &LineOfPixels,
        pixel: usize,
    ) {
        let ChannelData { numbers: data, of_pixel, first, column: left_out, columns: of_line } =
            self.data;
        let channel = self.first * N;
        let per_image = &self.rows.window.per_image;
        let (columns, stride, pad) =
            (per_image.kernel[2], per_image.strides[2], per_image.pads[2][0]);
        let begin = (line.x + pixel) * stride;
        let weights = self.reduce.weights(channel, V * N).as_chunks::<N>().0.as_chunks::<V>().0;
        let mut results = [self.begin(lanes); R];
        let distance = per_image.dilations[2] * of_pixel;
        // What a row of the kernel meets of each pixel, from its first column on.
        let reach = (columns - 1) * distance + V * N;
        let padding = self.padding;
        // The pixels that a row of the kernel meets, from the first one on, in steps of one.
        let mut met: [&[[T; N]; V]; MOST_PIXELS_MET] = [&padding; MOST_PIXELS_MET];
        let met_count = (R - 1) * stride + (columns - 1) * per_image.dilations[2] + 1;
        let are_data = pad.saturating_sub(begin)
            ..met_count.min((pad + per_image.input[2]).saturating_sub(begin));
        for (row_of_kernel, start) in &line.met {
            // From the first pixel of the image's line to the vectors of the last one.
            let line = &data[start * of_pixel + first..];
            let reach_of_line = of_line.saturating_sub(1) * of_pixel + V * N;
            let line = &line[..line.len().min(reach_of_line)];
            let mut rows: [&[T]; R] = [&[]; R];
            if WHOLE {
                for row in 0..R {
                    let pixel = begin + row * stride - pad - left_out;
                    rows[row] = &line[pixel * of_pixel..][..reach];
                }
            }
            if !WHOLE {
                for pixel in are_data.clone() {
                    let numbers = &line[(begin + pixel - pad - left_out) * of_pixel..];
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
    fn single<L: ActivationLanes<N>>(&mut self, lanes: L, line: &LineOfPixels, pixel: usize) {
        let ChannelData { numbers: data, of_pixel, first: first_number, column: left_out, .. } =
            self.data;
        let channel = self.first * N;
        let per_image = &self.rows.window.per_image;
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
                let x = begin + column * dilation - pad - left_out;
                let numbers = &data[(start + x) * of_pixel + first_number..];
                for step in 0..F::steps::<N>() {
                    let tap = row_of_kernel * columns + column;
                    let weights = weights.get(tap * F::steps::<N>() + step);
                    for vector in 0..V {
                        let weights = weights.map(|weights| &weights[vector]);
                        let numbers = numbers.get(vector * N..).unwrap_or(&[]);
                        let numbers = match numbers.first_chunk() {
                            Some(pixel) => F::numbers(lanes, pixel, step),
                            // Copied pixels have whole vectors.
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
        line: &LineOfPixels,
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
