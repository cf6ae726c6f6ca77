//! Products of codes (GEMM on integers): rows of unsigned codes and columns of signed ones.

use std::ops::Range;

use super::finish::{Epilogue, OutputRows, TileSums};
use super::rows::{Im2rowAddresses, PADDING};
use super::vectors::{DotCodes, load_sums};
use crate::isa::{Instructions, On};
use crate::memory::Aligned;
use crate::product::row_panels;

/// How many rows a task has at most, so that their codes stay in the first-level cache for all weights.
pub(super) const MOST_ROWS: usize = 96;

/// The most products of codes whose sum surely has 32 bits: with the zero point taken off, a code of data is at most 255
/// from 0, and one of weights 128. On the way a sum may leave the 32 bits and come back.
pub(crate) const MOST_PRODUCTS: usize = 1 << 16;

impl Instructions {
    /// The rows and the vectors of a tile of sums in vectors: a panel has as many vectors. With AMX that is for the few rows that its tiles
    /// do not take.
    fn tile(self) -> [usize; 2] {
        match self {
            Instructions::Portable(_) => [4, 2],
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) | Instructions::AvxVnni(_) => [6, 2],
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512(_) | Instructions::Avx512Vnni(_) | Instructions::Avx512Bf16(_) => {
                [8, 3]
            }
            #[cfg(target_arch = "x86_64")]
            Instructions::Amx(_) => [8, 2],
            // Weights are widened: they need registers of more sums.
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon(_) => [4, 2],
            #[cfg(target_arch = "aarch64")]
            Instructions::NeonDot(_) => [6, 2],
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Instructions::Simd128(_) => [4, 2],
        }
    }

    /// Whether codes are widened to 16 bits before they meet these weights.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
    fn widens(self, weights: &CodedWeights) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2(_) | Instructions::Avx512(_) => !weights.pairs_fit(),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Instructions::Simd128(_) => true,
            _ => false,
        }
    }
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
    /// How many codes of each channel a step has.
    codes_of_step: usize,
    weights: Aligned<i8>,
    /// What each sum begins with.
    offsets: Vec<i32>,
    /// Whether all sums begin with 0.
    pub begin_with_zero: bool,
}

/// Codes of weights: for each output channel some taps, each of so many codes.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodedWeights<'a> {
    pub codes: &'a [i8],
    pub taps: usize,
    pub of_a_tap: usize,
}

impl CodedWeights<'_> {
    /// How many codes of each output channel a step has.
    pub fn codes_of_step(&self, instructions: Instructions) -> usize {
        if instructions.widens(self) { 2 } else { 4 }
    }

    /// Whether each two neighbours are at most 128 from 0 together: their products with two codes of data have 16 bits then.
    #[cfg(target_arch = "x86_64")]
    fn pairs_fit(&self) -> bool {
        let fits = |pair: &[i8]| {
            pair.iter().map(|code| u16::from(code.unsigned_abs())).sum::<u16>() <= 128
        };
        self.codes.chunks_exact(self.of_a_tap).all(|tap| tap.chunks(2).all(fits))
    }
}

impl PackedFilters {
    /// Packs weights. `offsets` are what the sums of output channels begin with.
    pub fn pack(weights: CodedWeights, codes_of_step: usize, offsets: &[i32]) -> PackedFilters {
        let instructions = Instructions::detect();
        let panel = instructions.lanes() * instructions.tile()[1];
        // Tiles have so many steps.
        let steps_of_tile = if instructions.has_tiles() { 16 } else { 1 };
        let CodedWeights { codes, taps, of_a_tap } = weights;
        let outputs = offsets.len();
        let padded_steps = of_a_tap.div_ceil(codes_of_step).next_multiple_of(steps_of_tile);
        let columns = outputs.next_multiple_of(instructions.lanes());
        let of_a_sum = taps * padded_steps * codes_of_step;
        let mut weights = Aligned::new(0, columns * of_a_sum);
        for first in (0..outputs).step_by(panel) {
            // Vectors of the panel, and what there are of its channels.
            let lanes = (columns - first).min(panel);
            let packed = &mut weights[first * of_a_sum..][..lanes * of_a_sum];
            let filters = codes.chunks_exact(taps * of_a_tap).skip(first).take(panel);
            for (lane, filter) in filters.enumerate() {
                for (tap, codes) in filter.chunks_exact(of_a_tap).enumerate() {
                    for (step, codes) in codes.chunks(codes_of_step).enumerate() {
                        let step = tap * padded_steps + step;
                        let place = (step * lanes + lane) * codes_of_step;
                        packed[place..][..codes.len()].copy_from_slice(codes);
                    }
                }
            }
        }
        let mut offsets = offsets.to_vec();
        for (offset, codes) in offsets.iter_mut().zip(codes.chunks_exact((taps * of_a_tap).max(1)))
        {
            *offset = instructions.first_sum(*offset, codes.iter().copied());
        }
        let begin_with_zero = offsets.iter().all(|offset| *offset == 0);
        offsets.resize(columns, 0);
        PackedFilters {
            outputs,
            taps,
            padded_steps,
            instructions,
            codes_of_step,
            weights,
            offsets,
            begin_with_zero,
        }
    }

    /// Whether codes of data must be widened for these.
    pub fn are_widened(&self) -> bool {
        self.codes_of_step == 2
    }

    /// How many codes a tap has in rows that are copied, with those that fill it up.
    pub fn codes_of_a_tap(&self) -> usize {
        self.padded_steps * self.codes_of_step
    }

    /// How many rows a task has at most. With tiles, their codes may leave the first-level cache.
    pub fn most_rows(&self) -> usize {
        if self.instructions.has_tiles() { 128 } else { MOST_ROWS }
    }

    /// Threads share rows in multiples of so many.
    pub fn row_grain(&self, rows: usize, threads: usize) -> usize {
        match self.instructions.has_tiles() {
            // The weights are read for each part: with parts of 8 rows two threads would gain nothing.
            true => {
                let parts = threads.max(rows.div_ceil(self.most_rows()));
                rows.div_ceil(parts).max(1)
            }
            false => 1,
        }
    }

    /// How many steps a tap of so many codes has, without any that fill it up.
    pub fn steps_of(&self, of_a_tap: usize) -> usize {
        of_a_tap.div_ceil(self.codes_of_step)
    }

    /// The output channels of a panel.
    pub fn panel_width(&self) -> usize {
        self.instructions.lanes() * self.instructions.tile()[1]
    }

    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(self.panel_width())
    }
}

/// A task of a GEMM: some rows, which are pixels of an image, and some panels of the weights.
pub(crate) struct QuantizedGemmTask<'a> {
    /// The codes of the image, from the first channel of the group on: bytes, or of two bytes if they are widened.
    pub codes: &'a [u8],
    /// Zero points, at least as many as a tap has codes.
    pub padding: &'a [u8],
    /// In bytes.
    pub addresses: &'a Im2rowAddresses,
    pub rows: usize,
    pub filters: &'a PackedFilters,
    pub panels: Range<usize>,
    /// The steps of a tap, without those that fill it up.
    pub steps: usize,
    pub epilogue: &'a Epilogue,
    /// The first output channel of the group.
    pub first_channel: usize,
    pub output: OutputRows<'a>,
}

/// A step of a panel: some codes for each lane of each vector.
type StepOf<const W: usize, const N: usize, const V: usize> = [[[i8; W]; N]; V];

impl<'a> QuantizedGemmTask<'a> {
    /// Computes all tiles.
    pub fn multiply_on<L: DotCodes<W, N>, const W: usize, const N: usize>(&mut self, lanes: L) {
        lanes.enter(AllTiles::<W, N>(self));
    }

    /// Computes a tile of `R` rows.
    #[inline(always)]
    pub fn rows_on<L: DotCodes<W, N>, const W: usize, const N: usize, const R: usize>(
        &mut self,
        lanes: L,
        panel: usize,
        first: usize,
    ) {
        match self.vectors(panel) {
            3 if const { N > 8 } => {
                lanes.enter(CodeTile::<W, N, R, 3> { task: self, panel, first });
            }
            2 => lanes.enter(CodeTile::<W, N, R, 2> { task: self, panel, first }),
            _ => lanes.enter(CodeTile::<W, N, R, 1> { task: self, panel, first }),
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
        let PackedFilters { taps, padded_steps, weights, offsets, .. } = self.filters;
        let first = panel * self.filters.panel_width();
        let of_a_sum = taps * padded_steps * W;
        let weights = &weights[first * of_a_sum..][..V * N * of_a_sum];
        let offsets = offsets[first..].as_chunks::<N>().0.as_chunks::<V>().0;
        (weights.as_chunks().0.as_chunks().0.as_chunks().0, &offsets[0])
    }

    /// The codes of a tap, for some rows.
    #[inline(always)]
    fn rows<const R: usize>(&self, first: usize, tap: usize, steps: usize) -> [&'a [[u8; 4]]; R] {
        let mut starts = [0; R];
        for (number, start) in starts.iter_mut().enumerate() {
            *start = self.addresses.start(first + number, tap);
        }
        // In a loop of its own, the compiler knows that all rows are `steps` long.
        let mut rows: [&[[u8; 4]]; R] = [&[]; R];
        for (row, start) in rows.iter_mut().zip(starts) {
            let codes = if start == PADDING { self.padding } else { &self.codes[start..] };
            *row = &codes[..4 * steps].as_chunks().0[..steps];
        }
        rows
    }

    /// The steps of each tap of a panel.
    #[inline(always)]
    fn of_taps<S>(&self, steps: &'a [S]) -> impl Iterator<Item = &'a [S]> + use<'a, S> {
        let count = self.steps;
        steps.chunks_exact(self.filters.padded_steps).map(move |steps| &steps[..count])
    }

    /// The first output channel of a panel, and how many it has.
    #[inline(always)]
    pub fn channels(&self, panel: usize) -> (usize, usize) {
        let (first, width) = (panel * self.filters.panel_width(), self.filters.panel_width());
        (self.first_channel + first, (self.filters.outputs - first).min(width))
    }
}

/// All tiles of a task.
struct AllTiles<'t, 'a, const W: usize, const N: usize>(&'t mut QuantizedGemmTask<'a>);

impl<L: DotCodes<W, N>, const W: usize, const N: usize> On<L> for AllTiles<'_, '_, W, N> {
    #[inline(always)]
    fn run(self, lanes: L) {
        let AllTiles(task) = self;
        for panel in task.panels.clone() {
            for (first, rows) in row_panels(0..task.rows, task.filters.instructions.tile()[0]) {
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
struct CodeTile<'t, 'a, const W: usize, const N: usize, const R: usize, const V: usize> {
    task: &'t mut QuantizedGemmTask<'a>,
    panel: usize,
    first: usize,
}

impl<L: DotCodes<W, N>, const W: usize, const N: usize, const R: usize, const V: usize> On<L>
    for CodeTile<'_, '_, W, N, R, V>
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let CodeTile { task, panel, first } = self;
        let (weights, offsets) = task.panel::<W, N, V>(panel);
        // Loops of constants keep the sums in registers.
        let mut sums = [load_sums(lanes, offsets); R];
        for (tap, weights) in task.of_taps(weights).enumerate() {
            let rows: [&[[u8; 4]]; R] = task.rows(first, tap, weights.len());
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
        // A copy, so that the sums themselves need no place in memory, which would be written in each step.
        let mut stored = [load_sums(lanes, offsets); R];
        for row in 0..R {
            for vector in 0..V {
                stored[row][vector] = sums[row][vector];
            }
        }
        let (channel, width) = task.channels(panel);
        TileSums {
            epilogue: task.epilogue,
            sums: &stored,
            channel,
            width,
            first_row: first,
            output: &mut task.output,
        }
        .finish(lanes);
    }
}
