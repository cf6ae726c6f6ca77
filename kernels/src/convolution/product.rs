//! Products of a convolution (GEMM), of any type of elements: rows of pixels, which are read where they are, and columns of weights.
//!
//! A sum goes on in steps. A step has four bytes of each row: one number, or several codes.

use std::fmt::Debug;
use std::ops::Range;

use pulp::bytemuck::Pod;
use tract_core::internal::*;

use super::output::OutputRows;
use super::rows::{Im2rowAddresses, PADDING};
use super::window::ChannelsLastWindow;
use crate::cost::Cost;
use crate::isa::{Instructions, Lanes, On};
use crate::memory::{Aligned, LINE, prefetch};
use crate::product::row_panels;

/// About how many rows a task has, so that their elements stay in the caches for all weights.
pub(crate) const MOST_ROWS: usize = 96;

/// The same where a matrix unit multiplies.
const MOST_ROWS_OF_TILES: usize = 128;

/// The elements of a convolution.
pub(crate) trait ConvolutionElement:
    Debug + PartialEq + Sized + Send + Sync + 'static
{
    /// Those of the data.
    type Data: Datum + Pod;
    /// What a product of two costs.
    const PRODUCT: Cost;
    /// What becomes of a sum.
    type Epilogue: Debug + PartialEq + Send + Sync;
    /// The weights of a convolution of single channels.
    type Depthwise: Debug + PartialEq + Send + Sync;
    /// Computes all tiles of a task.
    fn multiply(task: &mut GemmTask<Self>);
    /// Computes some pixels of a convolution of single channels.
    fn depthwise(kernels: &Self::Depthwise, rows: DepthwiseRows<Self>);
}

/// Some pixels of a convolution of single channels.
pub(crate) struct DepthwiseRows<'a, E: ConvolutionElement> {
    pub bytes: &'a [u8],
    /// What each channel has where data is padded.
    pub padding: &'a [u8],
    pub window: &'a ChannelsLastWindow,
    /// The first pixel, and how many there are.
    pub first: usize,
    pub pixels: usize,
    pub epilogue: &'a E::Epilogue,
    pub output: OutputRows<'a>,
}

/// Vectors that multiply a step of data with one of weights, of which each lane has `W` bytes.
pub(crate) trait Dot<E: ConvolutionElement, const W: usize, const N: usize>:
    Lanes<N>
{
    /// A step of data, for all lanes.
    type Left: Copy;
    /// A step of weights for each lane.
    type Right: Copy;
    type Sums: Copy;
    fn left(self, step: [u8; 4]) -> Self::Left;
    fn right(self, step: &[[i8; W]; N]) -> Self::Right;
    /// What sums begin with.
    fn first(self, words: &[i32; N]) -> Self::Sums;
    /// Adds the products to sums.
    fn dot(self, sums: Self::Sums, left: Self::Left, right: Self::Right) -> Self::Sums;
    /// Writes what becomes of the sums of some rows.
    fn finish<const R: usize, const V: usize>(
        self,
        epilogue: &E::Epilogue,
        sums: &[[Self::Sums; V]; R],
        at: TilePlace,
        output: &mut OutputRows,
    );
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
    /// The rows and the vectors of a tile of sums: a panel has as many vectors.
    pub tile: [usize; 2],
    /// Whether a matrix unit multiplies them, in tiles of 16 steps. The other tile then is for the few rows that these do not take.
    pub has_tiles: bool,
}

/// The bytes of weights: for each output channel some taps, each of so many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackedFilters<'a> {
    pub bytes: &'a [i8],
    pub taps: usize,
    pub of_a_tap: usize,
}

impl PackedFilters {
    /// Packs weights. `first_sums` are what the sums of output channels begin with, in the words of vectors of sums.
    pub fn pack(
        weights: UnpackedFilters,
        format: FilterFormat,
        mut first_sums: Vec<i32>,
    ) -> PackedFilters {
        let instructions = Instructions::detect();
        let FilterFormat { bytes_of_step, tile: [_, vectors], has_tiles } = format;
        let panel = instructions.lanes() * vectors;
        let steps_of_tile = if has_tiles { 16 } else { 1 };
        let UnpackedFilters { bytes, taps, of_a_tap } = weights;
        let outputs = first_sums.len();
        let padded_steps = of_a_tap.div_ceil(bytes_of_step).next_multiple_of(steps_of_tile);
        let columns = outputs.next_multiple_of(instructions.lanes());
        let of_a_sum = taps * padded_steps * bytes_of_step;
        let mut weights = Aligned::new(0, columns * of_a_sum);
        for first in (0..outputs).step_by(panel) {
            // Vectors of the panel, and what there are of its channels.
            let lanes = (columns - first).min(panel);
            let packed = &mut weights[first * of_a_sum..][..lanes * of_a_sum];
            let filters = bytes.chunks_exact(taps * of_a_tap).skip(first).take(panel);
            for (lane, filter) in filters.enumerate() {
                for (tap, bytes) in filter.chunks_exact(of_a_tap).enumerate() {
                    for (step, bytes) in bytes.chunks(bytes_of_step).enumerate() {
                        let step = tap * padded_steps + step;
                        let place = (step * lanes + lane) * bytes_of_step;
                        packed[place..][..bytes.len()].copy_from_slice(bytes);
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
            weights,
            first_sums,
            begin_with_zero,
        }
    }

    /// Whether codes of data must be widened for these.
    pub fn are_widened(&self) -> bool {
        self.format.bytes_of_step == 2
    }

    /// Whether a matrix unit multiplies them.
    pub fn has_tiles(&self) -> bool {
        self.format.has_tiles
    }

    /// How many bytes a tap has in rows that are copied, with those that fill it up.
    pub fn bytes_of_a_tap(&self) -> usize {
        self.padded_steps * self.format.bytes_of_step
    }

    /// How many rows a task has of so many. With tiles, their codes may leave the first-level cache.
    pub fn rows_of_task(&self, rows: usize) -> usize {
        if self.format.has_tiles {
            return MOST_ROWS_OF_TILES;
        }
        // All have about as many: a task of few would read all weights for these.
        let tasks = (rows + MOST_ROWS / 2) / MOST_ROWS;
        rows.div_ceil(tasks.max(1)).next_multiple_of(self.format.tile[0])
    }

    /// Threads share rows in multiples of so many.
    pub fn row_grain(&self, rows: usize, threads: usize) -> usize {
        match self.format.has_tiles {
            // The weights are read for each part: with parts of 8 rows two threads would gain nothing.
            true => {
                let parts = threads.max(rows.div_ceil(MOST_ROWS_OF_TILES));
                rows.div_ceil(parts).max(1)
            }
            false => 1,
        }
    }

    /// How many steps a tap of so many bytes has, without any that fill it up.
    pub fn steps_of(&self, of_a_tap: usize) -> usize {
        of_a_tap.div_ceil(self.format.bytes_of_step)
    }

    /// The output channels of a panel.
    pub fn panel_width(&self) -> usize {
        self.instructions.lanes() * self.format.tile[1]
    }

    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(self.panel_width())
    }
}

/// A task of a GEMM: some rows, which are pixels of an image, and some panels of the weights.
pub(crate) struct GemmTask<'a, E: ConvolutionElement> {
    /// The elements of the image, from the first channel of the group on. Codes have two bytes if they are widened.
    pub bytes: &'a [u8],
    /// What padding has, at least as much as a tap.
    pub padding: &'a [u8],
    /// In bytes.
    pub addresses: &'a Im2rowAddresses,
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

/// A step of a panel: some bytes for each lane of each vector.
type StepOf<const W: usize, const N: usize, const V: usize> = [[[i8; W]; N]; V];

impl<'a, E: ConvolutionElement> GemmTask<'a, E> {
    /// Computes all tiles.
    pub fn multiply_on<L: Dot<E, W, N>, const W: usize, const N: usize>(&mut self, lanes: L) {
        lanes.enter(AllTiles::<E, W, N>(self));
    }

    /// Computes a tile of `R` rows.
    #[inline(always)]
    pub fn rows_on<L: Dot<E, W, N>, const W: usize, const N: usize, const R: usize>(
        &mut self,
        lanes: L,
        panel: usize,
        first: usize,
    ) {
        match self.vectors(panel) {
            3 if const { N > 8 } => {
                lanes.enter(DotTile::<E, W, N, R, 3> { task: self, panel, first });
            }
            2 => lanes.enter(DotTile::<E, W, N, R, 2> { task: self, panel, first }),
            _ => lanes.enter(DotTile::<E, W, N, R, 1> { task: self, panel, first }),
        }
    }

    /// How many vectors a panel has.
    pub fn vectors(&self, panel: usize) -> usize {
        self.channels(panel).1.div_ceil(self.filters.instructions.lanes())
    }

    /// The weights of a panel, step by step, those of each tap with what fills it up; and what sums begin with.
    #[inline(always)]
    pub fn panel<const W: usize, const N: usize, const V: usize>(
        &self,
        panel: usize,
    ) -> (&'a [StepOf<W, N, V>], &'a [[i32; N]; V]) {
        let PackedFilters { taps, padded_steps, weights, first_sums, .. } = self.filters;
        let first = panel * self.filters.panel_width();
        let of_a_sum = taps * padded_steps * W;
        let weights = &weights[first * of_a_sum..][..V * N * of_a_sum];
        let first_sums = first_sums[first..].as_chunks::<N>().0.as_chunks::<V>().0;
        (weights.as_chunks().0.as_chunks().0.as_chunks().0, &first_sums[0])
    }

    /// The steps of a tap, for some rows.
    #[inline(always)]
    fn rows<const R: usize>(&self, first: usize, tap: usize, steps: usize) -> [&'a [[u8; 4]]; R] {
        let mut starts = [0; R];
        for (number, start) in starts.iter_mut().enumerate() {
            *start = self.addresses.start(first + number, tap);
        }
        // In a loop of its own, the compiler knows that all rows are `steps` long.
        let mut rows: [&[[u8; 4]]; R] = [&[]; R];
        for (row, start) in rows.iter_mut().zip(starts) {
            let bytes = if start == PADDING { self.padding } else { &self.bytes[start..] };
            *row = &bytes[..4 * steps].as_chunks().0[..steps];
        }
        rows
    }

    /// What is to be asked for of the weights of the next panel while a tile of this one is computed: each tile has its share, so that the
    /// panel is in the second-level cache when its turn comes.
    #[inline(always)]
    fn ahead(&self, panel: usize, first_row: usize, rows: usize) -> &'a [i8] {
        let PackedFilters { taps, padded_steps, format, ref weights, .. } = *self.filters;
        let of_panel = taps * padded_steps * format.bytes_of_step * self.filters.panel_width();
        let next = weights.get((panel + 1) * of_panel..).unwrap_or(&[]);
        let lines = next.len().min(of_panel) / LINE;
        let place = |row: usize| row * lines / self.rows * LINE;
        &next[place(first_row)..place(first_row + rows)]
    }

    /// The first output channel of a panel, and how many it has.
    #[inline(always)]
    pub fn channels(&self, panel: usize) -> (usize, usize) {
        let (first, width) = (panel * self.filters.panel_width(), self.filters.panel_width());
        (self.first_channel + first, (self.filters.outputs - first).min(width))
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
        for panel in task.panels.clone() {
            for (first, rows) in row_panels(0..task.rows, task.filters.format.tile[0]) {
                match rows {
                    8 if const { N > 8 } => task.rows_on::<L, W, N, 8>(lanes, panel, first),
                    6 if const { N == 8 } => task.rows_on::<L, W, N, 6>(lanes, panel, first),
                    4 => task.rows_on::<L, W, N, 4>(lanes, panel, first),
                    2 => task.rows_on::<L, W, N, 2>(lanes, panel, first),
                    _ => task.rows_on::<L, W, N, 1>(lanes, panel, first),
                }
            }
        }
    }
}

/// A tile of `R` rows and `V` vectors of a panel.
struct DotTile<
    't,
    'a,
    E: ConvolutionElement,
    const W: usize,
    const N: usize,
    const R: usize,
    const V: usize,
> {
    task: &'t mut GemmTask<'a, E>,
    panel: usize,
    first: usize,
}

impl<L, E: ConvolutionElement, const W: usize, const N: usize, const R: usize, const V: usize> On<L>
    for DotTile<'_, '_, E, W, N, R, V>
where
    L: Dot<E, W, N>,
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let DotTile { task, panel, first } = self;
        let (weights, first_sums) = task.panel::<W, N, V>(panel);
        let mut begin = [lanes.first(&first_sums[0]); V];
        for vector in 1..V {
            begin[vector] = lanes.first(&first_sums[vector]);
        }
        // Loops of constants keep the sums in registers.
        let mut sums = [begin; R];
        let mut ahead = task.ahead(panel, first, R).chunks(LINE);
        let lines_of_block = ahead.len().div_ceil(weights.len().div_ceil(BLOCK));
        for (tap, weights) in weights.chunks_exact(task.filters.padded_steps).enumerate() {
            // Without those that fill the tap up.
            let weights = &weights[..task.steps];
            let whole: [&[[u8; 4]]; R] = task.rows(first, tap, weights.len());
            for (block, weights) in weights.chunks(BLOCK).enumerate() {
                for line in ahead.by_ref().take(lines_of_block) {
                    prefetch(line.as_ptr().cast());
                }
                let mut rows: [&[[u8; 4]]; R] = [&[]; R];
                for (row, whole) in rows.iter_mut().zip(whole) {
                    *row = &whole[block * BLOCK..][..weights.len()];
                }
                for step in 0..weights.len() {
                    let mut right = [lanes.right(&weights[step][0]); V];
                    for vector in 1..V {
                        right[vector] = lanes.right(&weights[step][vector]);
                    }
                    for row in 0..R {
                        let left = lanes.left(rows[row][step]);
                        for vector in 0..V {
                            sums[row][vector] = lanes.dot(sums[row][vector], left, right[vector]);
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
        let (channel, width) = task.channels(panel);
        let at = TilePlace { channel, width, first_row: first };
        lanes.finish(task.epilogue, &stored, at, &mut task.output);
    }
}
