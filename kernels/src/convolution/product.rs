//! Products of a convolution (GEMM), of any type of elements: rows of pixels, which are read where they are, and columns of weights.
//!
//! A sum goes on in steps. A step has four bytes of each row: one number, or several codes.

use std::fmt::Debug;
use std::ops::Range;

use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};
use tract_core::internal::*;

use super::output::OutputRows;
#[cfg(target_arch = "x86_64")]
use super::rows::StridedLines;
use super::rows::{Im2rowAddresses, TapSlices};
use super::window::{ChannelsLastWindow, Round};
use crate::cost::Cost;
use crate::isa::{Instructions, Lanes, On, OnLanes, padded};
use crate::memory::{Aligned, LINE, prefetch};
use crate::product::narrower;
use crate::threads::PartSize;

/// About how many rows a task has, so that their elements stay in the caches for all weights.
pub(crate) const MOST_ROWS: usize = 96;

/// The rows of a tile of a matrix unit.
const ROWS_OF_TILE: usize = 16;

/// With fewer bytes of weights, threads share the rows: data that is in another core's cache is more to read.
pub(super) const MANY_WEIGHTS: usize = if cfg!(test) { 1 << 10 } else { 1 << 18 };

/// About how many rows a task has, where a matrix unit multiplies.
const MOST_ROWS_FOR_AMX: usize = 128;

/// The elements of a convolution.
pub(crate) trait ConvolutionElement:
    Debug + PartialEq + Sized + Send + Sync + 'static
{
    /// Those that are multiplied.
    type Data: Datum + Pod;
    /// Rounds data in single precision to elements, if the data may be that, too.
    const ROUND: Option<Round> = None;
    /// Fewer rows are multiplied in vectors, also where a matrix unit multiplies others.
    const LEAST_ROWS_FOR_AMX: usize = 1;
    /// What a product of two costs.
    const PRODUCT: Cost;
    /// What reading a weight costs.
    const READ_WEIGHT: Cost;
    /// What becomes of a sum.
    type Epilogue: Debug + PartialEq + Send + Sync;
    /// The weights of a convolution of single channels, or of narrow groups.
    type Depthwise: Debug + PartialEq + Send + Sync;
    /// Computes all tiles of a task.
    fn multiply(task: &mut GemmTask<Self>);
    /// Computes some pixels of such a convolution.
    fn depthwise(kernels: &Self::Depthwise, rows: DepthwiseRows<Self>);
}

/// Some pixels of a convolution of single channels, or of narrow groups.
pub(crate) struct DepthwiseRows<'a, E: ConvolutionElement> {
    pub bytes: &'a [u8],
    /// The bytes of an element of these.
    pub size: usize,
    pub channels: usize,
    /// What each channel has where data is padded.
    pub padding: &'a [u8],
    pub window: &'a ChannelsLastWindow,
    /// The first pixel, and how many there are.
    pub first: usize,
    pub pixels: usize,
    pub epilogue: &'a E::Epilogue,
    pub output: OutputRows<'a>,
}

/// Vectors of sums, which become elements of the output.
pub(crate) trait SumLanes<E: ConvolutionElement, const N: usize>: Lanes<N> {
    type Sums: Copy;
    /// What sums begin with.
    fn first(self, words: &[i32; N]) -> Self::Sums;
    /// Writes what becomes of the sums of some rows.
    fn finish<const R: usize, const V: usize>(
        self,
        epilogue: &E::Epilogue,
        sums: &[[Self::Sums; V]; R],
        at: TilePlace,
        output: &mut OutputRows,
    );
}

/// Vectors that multiply a step of data with one of weights, of which each lane has `W` bytes.
pub(crate) trait Dot<E: ConvolutionElement, const W: usize, const N: usize>:
    SumLanes<E, N>
{
    /// A step of data, for all lanes.
    type Left: Copy;
    /// A step of weights for each lane.
    type Right: Copy;
    fn left(self, step: [u8; 4]) -> Self::Left;
    fn right(self, step: &[[i8; W]; N]) -> Self::Right;
    /// Adds the products to sums.
    fn dot(self, sums: Self::Sums, left: Self::Left, right: Self::Right) -> Self::Sums;
}

/// Where a tile is in the output: the first channel, and how many there are; and the first row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TilePlace {
    pub channel: usize,
    pub width: usize,
    pub first_row: usize,
}

/// The weights of a group of channels, packed as operand B: some vectors of neighbouring output channels are a panel, in which the steps
/// of the sum follow each other.
#[derive(Debug, PartialEq)]
pub(crate) struct PackedFilters {
    outputs: usize,
    pub taps: usize,
    /// The steps of a tap, with those that fill it up.
    padded_steps: usize,
    pub instructions: Instructions,
    format: FilterFormat,
    /// The vector of channels that each panel begins with, and how many vectors there are.
    first_vectors: Vec<usize>,
    weights: Aligned<i8>,
    /// What each sum begins with.
    first_sums: Vec<i32>,
    /// Whether all sums begin with 0.
    pub begin_with_zero: bool,
}

/// How weights are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterFormat {
    /// How many bytes of each channel a step has.
    pub bytes_of_step: usize,
    /// The rows and the vectors of a tile of sums. A panel has as many vectors, or fewer.
    pub tile: [usize; 2],
    /// If a matrix unit multiplies them, the steps of its tiles. The other tile then is for the few rows that these do not take.
    pub steps_of_amx: Option<usize>,
}

impl FilterFormat {
    /// In how many panels so many vectors are packed, which differ by one vector at most.
    fn panels(&self, vectors: usize, bytes: usize) -> usize {
        let panels = vectors.div_ceil(self.tile[1]);
        // Two threads that share them get as many, but no panel one vector: its tiles would have so few sums that each waits for the one
        // before.
        let even = panels.next_multiple_of(2);
        if bytes >= MANY_WEIGHTS && vectors >= 2 * even { even } else { panels }
    }
}

/// Weights: `[output channels, channels, kernel]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackedFilters<'a> {
    pub bytes: &'a [i8],
    /// The bytes of an element.
    pub size: usize,
    /// The input channels, and the pixels of the kernel.
    pub channels: usize,
    pub kernel: usize,
    /// The bytes of all channels of a pixel, and what fills them up.
    pub bytes_of_pixel: usize,
    /// How many taps the kernel has, each of some pixels.
    pub taps: usize,
}

impl<'a> UnpackedFilters<'a> {
    /// The bytes of a filter as it is.
    pub fn bytes_of_filter(&self) -> usize {
        self.channels * self.kernel * self.size
    }

    pub fn bytes_of_tap(&self) -> usize {
        self.kernel / self.taps * self.bytes_of_pixel
    }

    /// Each filter as it is.
    pub fn filters(&self) -> impl Iterator<Item = &'a [i8]> + use<'a> {
        self.bytes.chunks_exact(self.bytes_of_filter())
    }

    /// A filter with all channels of a pixel as neighbours; it may have been ordered into the room.
    pub fn ordered<'r>(&self, filter: &'r [i8], room: &'r mut Vec<i8>) -> &'r [i8] {
        let UnpackedFilters { size, kernel, bytes_of_pixel, .. } = *self;
        let ordered = kernel * bytes_of_pixel;
        if kernel == 1 && ordered == filter.len() {
            return filter;
        }
        // What fills pixels up stays 0.
        room.resize(ordered, 0);
        for (channel, elements) in filter.chunks_exact(kernel * size).enumerate() {
            for (pixel, element) in elements.chunks_exact(size).enumerate() {
                copy_element(element, &mut room[pixel * bytes_of_pixel + channel * size..]);
            }
        }
        room
    }
}

/// Copies the bytes of an element to the begin of a place: words of four without a call for each.
#[inline(always)]
fn copy_element<T: Copy>(element: &[T], place: &mut [T]) {
    match (place.first_chunk_mut::<4>(), <&[T; 4]>::try_from(element)) {
        (Some(place), Ok(element)) => *place = *element,
        _ => place[..element.len()].copy_from_slice(element),
    }
}

impl PackedFilters {
    /// Packs weights. `first_sums` are what the sums of output channels begin with, in the words of vectors of sums.
    pub fn pack(
        unpacked: UnpackedFilters,
        format: FilterFormat,
        mut first_sums: Vec<i32>,
    ) -> PackedFilters {
        let instructions = Instructions::detect();
        let FilterFormat { bytes_of_step, steps_of_amx, .. } = format;
        let steps_of_tile = steps_of_amx.unwrap_or(1);
        let UnpackedFilters { size, taps, .. } = unpacked;
        let bytes_of_tap = unpacked.bytes_of_tap();
        let outputs = first_sums.len();
        let padded_steps = bytes_of_tap.div_ceil(bytes_of_step).next_multiple_of(steps_of_tile);
        let vectors = outputs.div_ceil(instructions.lanes());
        let columns = vectors * instructions.lanes();
        let of_a_sum = taps * padded_steps * bytes_of_step;
        let panels = format.panels(vectors, columns * of_a_sum);
        let first_vectors: Vec<usize> =
            (0..=panels).map(|panel| panel * vectors / panels.max(1)).collect();
        let filters_are_whole = of_a_sum == unpacked.bytes_of_filter();
        let mut weights = match filters_are_whole && columns == outputs {
            true => Aligned::unwritten(columns * of_a_sum),
            // What is missing is 0.
            false => Aligned::new(0, columns * of_a_sum),
        };
        let mut room = vec![];
        let elements_are_steps =
            [size, bytes_of_step] == [size_of::<f32>(); 2] && filters_are_whole;
        for panel in first_vectors.windows(2) {
            let first = panel[0] * instructions.lanes();
            let lanes = (panel[1] - panel[0]) * instructions.lanes();
            let packed = &mut weights[first * of_a_sum..][..lanes * of_a_sum];
            if elements_are_steps {
                instructions.run(PackElements { unpacked, first, lanes, packed });
                continue;
            }
            let filters = unpacked.filters().skip(first).take(lanes);
            for (lane, filter) in filters.enumerate() {
                let filter = unpacked.ordered(filter, &mut room);
                for (tap, bytes) in filter.chunks_exact(bytes_of_tap).enumerate() {
                    for (step, bytes) in bytes.chunks(bytes_of_step).enumerate() {
                        let step = tap * padded_steps + step;
                        copy_element(bytes, &mut packed[(step * lanes + lane) * bytes_of_step..]);
                    }
                }
            }
        }
        let begin_with_zero = first_sums.iter().all(|sum| *sum == 0);
        first_sums.resize(columns, 0);
        PackedFilters {
            outputs,
            taps,
            padded_steps,
            instructions,
            format,
            first_vectors,
            weights,
            first_sums,
            begin_with_zero,
        }
    }

    /// Whether codes of data must be widened for these.
    pub fn needs_wide_data(&self) -> bool {
        self.format.bytes_of_step == 2
    }

    /// Whether a matrix unit multiplies them.
    pub fn for_amx(&self) -> bool {
        self.format.steps_of_amx.is_some()
    }

    /// The steps of a tile of a matrix unit.
    #[cfg(target_arch = "x86_64")]
    pub fn steps_of_tile(&self) -> usize {
        self.format.steps_of_amx.unwrap_or(1)
    }

    /// How many bytes a tap has in rows that are copied, with those that fill it up.
    pub fn padded_bytes_of_tap(&self) -> usize {
        self.padded_steps * self.format.bytes_of_step
    }

    /// The bytes of the packed weights.
    #[cfg(target_arch = "x86_64")]
    pub fn bytes(&self) -> usize {
        self.weights.len()
    }

    /// How many rows a task has of so many. With tiles, their codes may leave the first-level cache.
    pub fn rows_of_task(&self, rows: usize) -> usize {
        if self.for_amx() {
            let tasks = rows.div_ceil(MOST_ROWS_FOR_AMX).max(1);
            return rows.div_ceil(tasks).next_multiple_of(ROWS_OF_TILE).max(ROWS_OF_TILE);
        }
        // All have about as many: a task of few would read all weights for these.
        let tasks = (rows + MOST_ROWS / 2) / MOST_ROWS;
        rows.div_ceil(tasks.max(1)).max(1).next_multiple_of(self.format.tile[0])
    }

    /// The parts in which threads share rows. The weights are read for each part: many parts of a tile or two would gain little.
    pub fn part_size(&self) -> PartSize {
        match self.for_amx() {
            true => PartSize { least: MOST_ROWS_FOR_AMX, multiple: 1 },
            false => PartSize { least: MOST_ROWS / 2, multiple: self.format.tile[0] },
        }
    }

    /// How many steps a tap of so many bytes has, without any that fill it up.
    pub fn steps_of(&self, bytes_of_tap: usize) -> usize {
        bytes_of_tap.div_ceil(self.format.bytes_of_step)
    }

    pub fn panels(&self) -> usize {
        self.first_vectors.len() - 1
    }

    /// The vectors of a panel.
    #[inline(always)]
    fn vectors_of(&self, panel: usize) -> Range<usize> {
        self.first_vectors[panel]..self.first_vectors[panel + 1]
    }

    /// The output channels of some panels.
    #[inline(always)]
    pub fn channels_of(&self, panels: Range<usize>) -> Range<usize> {
        let channel = |panel: usize| {
            (self.first_vectors[panel] * self.instructions.lanes()).min(self.outputs)
        };
        channel(panels.start)..channel(panels.end)
    }

    /// The bytes of a tap of the widest panel.
    fn most_bytes_of_tap(&self) -> usize {
        let vectors = (0..self.panels()).map(|panel| self.vectors_of(panel).len()).max();
        self.padded_bytes_of_tap() * vectors.unwrap_or(0) * self.instructions.lanes()
    }
}

/// Packs weights for a panel of some filters from one on, where each element is a step and nothing fills pixels up. It transposes as many
/// filters as a vector has lanes.
struct PackElements<'a> {
    unpacked: UnpackedFilters<'a>,
    first: usize,
    /// The filters of the panel, with those that fill it up.
    lanes: usize,
    packed: &'a mut [i8],
}

impl OnLanes for PackElements<'_> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        let PackElements { unpacked, first, lanes: of_panel, packed } = self;
        let UnpackedFilters { bytes, channels, kernel, .. } = unpacked;
        let of_filter = channels * kernel;
        let words: &[[u8; 4]] = cast_slice(bytes);
        let packed: &mut [[u8; 4]] = cast_slice_mut(packed);
        let filters = words[first * of_filter..].chunks(of_filter * N).take(of_panel / N);
        for (vector, filters) in filters.enumerate() {
            // The place in the kernel of the element that comes next, and its channel.
            let (mut pixel, mut channel) = (0, 0);
            for begin in (0..of_filter).step_by(N) {
                let mut vectors = [lanes.load_words(&[[0; 4]; N]); N];
                for (filter, vector) in filters.chunks_exact(of_filter).zip(&mut vectors) {
                    let elements = &filter[begin..];
                    *vector = match elements.first_chunk() {
                        Some(elements) => lanes.load_words(elements),
                        None => lanes.load_words(&padded(elements)),
                    };
                }
                let vectors = lanes.transpose(vectors);
                for vector_of_element in vectors.into_iter().take(of_filter - begin) {
                    let place = (pixel * channels + channel) * of_panel + vector * N;
                    let place = &mut packed[place..].as_chunks_mut().0[0];
                    lanes.store_words(place, vector_of_element);
                    pixel += 1;
                    if pixel == kernel {
                        (pixel, channel) = (0, channel + 1);
                    }
                }
            }
        }
    }
}

/// A task of a GEMM: some rows, which are pixels of an image, and some panels of the weights.
pub(crate) struct GemmTask<'a, E: ConvolutionElement> {
    /// For a matrix unit: the elements of the image, from the first channel of the group on, and where the taps are in them.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX is one"))]
    pub bytes: &'a [u8],
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX is one"))]
    pub addresses: &'a Im2rowAddresses,
    /// For vectors: what each tap of each row meets, of all groups ([`Im2rowAddresses::tap_slices`]). Codes have two bytes if they are widened.
    pub tap_slices: &'a TapSlices<'a>,
    /// The bytes of a tap that belong to groups before this one.
    pub before: usize,
    pub rows: usize,
    pub filters: &'a PackedFilters,
    pub panels: Range<usize>,
    /// The steps of a tap, without those that fill it up.
    pub steps: usize,
    pub epilogue: &'a E::Epilogue,
    /// The first output channel of the group.
    pub first_channel: usize,
    pub output: OutputRows<'a>,
}

/// So many steps are computed before more of the next panel is asked for.
const BLOCK: usize = 64;

/// The most bytes of a panel that rows meet before the next panel, so that its weights and the rows' elements stay in the second-level
/// cache; or one tap.
const BYTES_OF_PANEL: usize = if cfg!(test) { 1 << 10 } else { 512 << 10 };

/// What is to be prefetched of the weights of the next panel: each row has its share, so that the panel is in the second-level cache when
/// its turn comes.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead<'a> {
    weights: &'a [i8],
    /// The lines of a row, and those of a row and a block of steps.
    of_row: usize,
    of_block: usize,
}

/// Some taps of a panel.
struct TapsOfPanel<'a> {
    panel: usize,
    taps: Range<usize>,
    ahead: Ahead<'a>,
}

/// A step of a panel: some bytes for each lane of each vector.
type StepOf<const W: usize, const N: usize, const V: usize> = [[[i8; W]; N]; V];

impl<'a, E: ConvolutionElement> GemmTask<'a, E> {
    /// Computes all tiles.
    pub fn multiply_on<L: Dot<E, W, N>, const W: usize, const N: usize>(&mut self, lanes: L) {
        lanes.enter(AllTiles::<E, W, N>(self));
    }

    /// Computes a row that a matrix unit leaves, of lines.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub fn row_on<L: Dot<E, W, N>, const W: usize, const N: usize>(
        &mut self,
        lanes: L,
        lines: &StridedLines,
        panel: usize,
        row: usize,
    ) {
        let taps = 0..self.filters.taps;
        let mut met = TapSlices::new(4 * self.steps);
        for tap in taps.clone() {
            met.extend(&self.bytes[lines.start(row, tap)..], 0, 1);
        }
        let mut task = GemmTask {
            tap_slices: &met,
            before: 0,
            rows: 1,
            panels: self.panels.clone(),
            output: self.output.skip_rows(row),
            ..*self
        };
        let pass = TapsOfPanel { panel, taps, ahead: Ahead::default() };
        task.taps_on::<L, W, N, 1>(lanes, 0..1, &pass, &mut []);
    }

    /// Computes some taps of tiles of `R` rows. `sums` are those of all rows after the taps before, unless these are all.
    #[inline(always)]
    fn taps_on<L: Dot<E, W, N>, const W: usize, const N: usize, const R: usize>(
        &mut self,
        lanes: L,
        rows: Range<usize>,
        pass: &TapsOfPanel,
        sums: &mut [L::Sums],
    ) {
        let task = self;
        match task.vectors(pass.panel) {
            3 if const { N > 8 } => {
                lanes.enter(DotTiles::<E, L::Sums, W, N, R, 3> { task, rows, pass, sums });
            }
            2 => lanes.enter(DotTiles::<E, L::Sums, W, N, R, 2> { task, rows, pass, sums }),
            _ => lanes.enter(DotTiles::<E, L::Sums, W, N, R, 1> { task, rows, pass, sums }),
        }
    }

    /// How many taps meet all rows before the next ones.
    fn taps_of_pass(&self) -> usize {
        let taps = self.filters.taps;
        let bytes_of_tap = self.filters.most_bytes_of_tap();
        let blocks = (taps * bytes_of_tap).div_ceil(BYTES_OF_PANEL).max(1);
        taps.div_ceil(blocks).max(1)
    }

    /// How many vectors a panel has.
    pub fn vectors(&self, panel: usize) -> usize {
        self.filters.vectors_of(panel).len()
    }

    /// The weights of a panel, step by step, those of each tap with what fills it up; and what sums begin with.
    #[inline(always)]
    pub fn panel<const W: usize, const N: usize, const V: usize>(
        &self,
        panel: usize,
    ) -> (&'a [StepOf<W, N, V>], &'a [[i32; N]; V]) {
        let PackedFilters { taps, padded_steps, weights, first_sums, .. } = self.filters;
        let first = self.filters.vectors_of(panel).start * N;
        let of_a_sum = taps * padded_steps * W;
        let weights = &weights[first * of_a_sum..][..V * N * of_a_sum];
        let first_sums = first_sums[first..].as_chunks::<N>().0.as_chunks::<V>().0;
        (weights.as_chunks().0.as_chunks().0.as_chunks().0, &first_sums[0])
    }

    /// The bytes of the weights of a panel.
    #[cfg(target_arch = "x86_64")]
    pub fn bytes_of_panel(&self, panel: usize) -> &'a [i8] {
        let PackedFilters { taps, weights, instructions, .. } = self.filters;
        let Range { start, end } = self.filters.vectors_of(panel);
        let of_vector = instructions.lanes() * taps * self.filters.padded_bytes_of_tap();
        &weights[start * of_vector..end * of_vector]
    }

    /// What is to be prefetched while some taps of a panel are computed.
    fn ahead(&self, panel: usize, taps: &Range<usize>) -> Ahead<'a> {
        let (panel, tap) = match panel + 1 {
            next if next < self.panels.end || taps.end == self.filters.taps => (next, taps.start),
            _ => (self.panels.start, taps.end),
        };
        if panel == self.filters.panels() {
            return Ahead::default();
        }
        let lanes = self.filters.vectors_of(panel);
        let [before, lanes] =
            [lanes.start, lanes.len()].map(|vectors| vectors * self.filters.instructions.lanes());
        let of_a_lane = self.filters.padded_bytes_of_tap();
        let bytes_of_tap = lanes * of_a_lane;
        let next = before * self.filters.taps * of_a_lane + tap * bytes_of_tap;
        let next = &self.filters.weights[next..];
        let weights = &next[..next.len().min(taps.len() * bytes_of_tap)];
        let of_row = (weights.len() / LINE).div_ceil(self.rows.max(1));
        let blocks = taps.len() * self.steps.div_ceil(BLOCK);
        Ahead { weights, of_row, of_block: of_row.div_ceil(blocks.max(1)) }
    }

    /// The first output channel of a panel, and how many it has.
    #[inline(always)]
    pub fn channels(&self, panel: usize) -> (usize, usize) {
        let channels = self.filters.channels_of(panel..panel + 1);
        (self.first_channel + channels.start, channels.len())
    }
}

/// All tiles of a task.
struct AllTiles<'t, 'a, E: ConvolutionElement, const W: usize, const N: usize>(
    &'t mut GemmTask<'a, E>,
);

impl<L: Dot<E, W, N>, E: ConvolutionElement, const W: usize, const N: usize> On<L>
    for AllTiles<'_, '_, E, W, N>
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let AllTiles(task) = self;
        let [tile_rows, most_vectors] = task.filters.format.tile;
        let (taps, of_pass) = (task.filters.taps, task.taps_of_pass());
        let of_panel = if of_pass < taps { task.rows * most_vectors } else { 0 };
        let mut sums = vec![lanes.first(&[0; N]); task.panels.len() * of_panel];
        for tap in (0..taps).step_by(of_pass) {
            for (number, panel) in task.panels.clone().enumerate() {
                let sums = &mut sums[number * of_panel..][..of_panel];
                let taps = tap..taps.min(tap + of_pass);
                let ahead = task.ahead(panel, &taps);
                let pass = &TapsOfPanel { panel, taps, ahead };
                // As many whole tiles as there are, then smaller ones.
                let mut of_tile = tile_rows;
                let mut left = 0..task.rows;
                while !left.is_empty() {
                    let rows = left.start..left.end - left.len() % of_tile;
                    left.start = rows.end;
                    match of_tile {
                        _ if rows.is_empty() => (),
                        8 if const { N > 8 } => task.taps_on::<L, W, N, 8>(lanes, rows, pass, sums),
                        6 if const { N == 8 } => {
                            task.taps_on::<L, W, N, 6>(lanes, rows, pass, sums)
                        }
                        4 => task.taps_on::<L, W, N, 4>(lanes, rows, pass, sums),
                        2 => task.taps_on::<L, W, N, 2>(lanes, rows, pass, sums),
                        _ => task.taps_on::<L, W, N, 1>(lanes, rows, pass, sums),
                    }
                    of_tile = narrower(of_tile);
                }
            }
        }
    }
}

/// Some taps of tiles of `R` rows and `V` vectors of a panel.
struct DotTiles<
    't,
    'a,
    E: ConvolutionElement,
    S,
    const W: usize,
    const N: usize,
    const R: usize,
    const V: usize,
> {
    task: &'t mut GemmTask<'a, E>,
    /// The rows of all tiles.
    rows: Range<usize>,
    pass: &'t TapsOfPanel<'t>,
    /// Of each row, the sums of the taps before these, if these are not all.
    sums: &'t mut [S],
}

impl<L, E: ConvolutionElement, const W: usize, const N: usize, const R: usize, const V: usize> On<L>
    for DotTiles<'_, '_, E, L::Sums, W, N, R, V>
where
    L: Dot<E, W, N>,
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let DotTiles { task, rows, pass: TapsOfPanel { panel, taps, ahead }, sums: kept } = self;
        let padded_steps = task.filters.padded_steps;
        let (weights, first_sums) = task.panel::<W, N, V>(*panel);
        let mut begin = [lanes.first(&first_sums[0]); V];
        for vector in 1..V {
            begin[vector] = lanes.first(&first_sums[vector]);
        }
        let (channel, width) = task.channels(*panel);
        for first in rows.step_by(R) {
            // Loops of constants keep the sums in registers.
            let mut sums = [begin; R];
            if taps.start > 0 {
                let kept = kept[first * V..].as_chunks::<V>().0;
                for row in 0..R {
                    for vector in 0..V {
                        sums[row][vector] = kept[row][vector];
                    }
                }
            }
            let lines =
                ahead.weights.get(first * ahead.of_row * LINE..).unwrap_or(&[]).chunks(LINE);
            let mut lines = lines.take(R * ahead.of_row);
            for tap in taps.clone() {
                // Without those that fill the tap up.
                let weights = &weights[tap * padded_steps..][..task.steps];
                for (block, weights) in weights.chunks(BLOCK).enumerate() {
                    for line in lines.by_ref().take(R * ahead.of_block) {
                        prefetch(line.as_ptr().cast());
                    }
                    let (slice, byte) = (tap * task.rows + first, task.before + 4 * block * BLOCK);
                    let rows: [&[[u8; 4]]; R] =
                        task.tap_slices.elements(slice, byte, weights.len());
                    for step in 0..weights.len() {
                        let mut right = [lanes.right(&weights[step][0]); V];
                        for vector in 1..V {
                            right[vector] = lanes.right(&weights[step][vector]);
                        }
                        for row in 0..R {
                            let left = lanes.left(rows[row][step]);
                            for vector in 0..V {
                                sums[row][vector] =
                                    lanes.dot(sums[row][vector], left, right[vector]);
                            }
                        }
                    }
                }
            }
            // A copy, so that the sums themselves need no place in memory, which would be written in each step.
            let mut stored = [begin; R];
            for row in 0..R {
                for vector in 0..V {
                    stored[row][vector] = sums[row][vector];
                }
            }
            if taps.end < task.filters.taps {
                kept[first * V..].as_chunks_mut::<V>().0[..R].copy_from_slice(&stored);
                continue;
            }
            let at = TilePlace { channel, width, first_row: first };
            lanes.finish(task.epilogue, &stored, at, &mut task.output);
        }
    }
}
