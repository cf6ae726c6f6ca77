//! Products of codes (GEMM on integers): rows of unsigned codes and columns of signed ones.

use std::ops::Range;

use super::finish::{Epilogue, Written};
use super::instructions::Code;
use crate::isa::Instructions;
use crate::memory::Aligned;
use crate::product::{row_panels, shares_of_panels};
use crate::threads::threads_for;

/// What a tap has in place of the start of its codes, where it is in the padding.
pub(super) const PADDING: usize = usize::MAX;

/// How many rows are computed at a time, so that their codes stay in the first cache for all filters.
pub(super) const MOST_ROWS: usize = 96;

/// The most products of codes whose sum surely has 32 bits: with the code of zero taken off, a code of data is at most 255
/// from 0, and one of weights 128. On the way a sum may leave the 32 bits and come back.
pub(crate) const MOST_PRODUCTS: usize = 1 << 16;

/// The filters of a group, packed: some vectors of neighbouring output channels are a panel, in which the steps of the sum
/// follow each other.
#[derive(Debug, PartialEq)]
pub(crate) struct PackedFilters {
    outputs: usize,
    taps: usize,
    /// The steps of a tap, with those that fill it up.
    steps: usize,
    instructions: Instructions,
    /// How many codes a step has.
    width: usize,
    codes: Aligned<i8>,
    /// What each sum begins with.
    offsets: Vec<i32>,
    begin_with_zero: bool,
}

/// The im2row addresses of some rows: where each tap begins in the codes.
#[derive(Debug)]
pub(super) enum Im2rowAddresses {
    /// For each row, each of so many taps, or [`PADDING`].
    Each {
        starts: Vec<usize>,
        taps: usize,
    },
    Alike(StridedLines),
}

/// Rows that are alike: some lines of them, in which they are at equal distances.
#[derive(Debug)]
pub(super) struct StridedLines {
    /// How far a row begins behind the one before it.
    pub distance: usize,
    /// Where each tap begins, from the begin of its row on.
    pub taps: Vec<usize>,
    /// In ascending order.
    pub lines: Vec<StridedLine>,
}

/// Where the first row of a line begins, and how many rows it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct StridedLine {
    pub start: usize,
    pub rows: usize,
}

impl Im2rowAddresses {
    /// So many rows at equal distances, the first one at the begin of the codes. Their taps are at equal distances, too.
    pub fn of_one_line(
        rows: usize,
        distance: usize,
        taps: usize,
        of_a_tap: usize,
    ) -> Im2rowAddresses {
        let taps = (0..taps).map(|tap| tap * of_a_tap).collect();
        Im2rowAddresses::Alike(StridedLines {
            distance,
            taps,
            lines: vec![StridedLine { start: 0, rows }],
        })
    }

    /// Where a tap of a row begins, or [`PADDING`].
    #[inline(always)]
    fn start(&self, mut row: usize, tap: usize) -> usize {
        match self {
            Im2rowAddresses::Each { starts, taps } => starts[row * taps + tap],
            Im2rowAddresses::Alike(StridedLines { distance, taps, lines }) => {
                let mut line = lines[0];
                for next in &lines[1..] {
                    if row < line.rows {
                        break;
                    }
                    row -= line.rows;
                    line = *next;
                }
                line.start + row * distance + taps[tap]
            }
        }
    }

    /// Where the first tap in the codes begins, and the last one.
    pub fn range(&self) -> Option<[usize; 2]> {
        match self {
            Im2rowAddresses::Each { starts, .. } => {
                let starts = starts.iter().copied().filter(|start| *start != PADDING);
                starts.clone().min().zip(starts.max()).map(|(first, last)| [first, last])
            }
            Im2rowAddresses::Alike(StridedLines { distance, taps, lines }) => {
                let last = lines.last()?;
                let last = last.start + (last.rows.max(1) - 1) * distance + taps.last()?;
                Some([lines[0].start, last])
            }
        }
    }

    /// The same in codes without so many at the begin.
    pub fn after(&self, count: usize) -> Im2rowAddresses {
        match self {
            Im2rowAddresses::Each { starts, taps } => {
                let moved = |start: &usize| if *start == PADDING { PADDING } else { start - count };
                Im2rowAddresses::Each { starts: starts.iter().map(moved).collect(), taps: *taps }
            }
            Im2rowAddresses::Alike(StridedLines { distance, taps, lines }) => {
                let moved =
                    |line: &StridedLine| StridedLine { start: line.start - count, rows: line.rows };
                let lines = lines.iter().map(moved).collect();
                Im2rowAddresses::Alike(StridedLines {
                    distance: *distance,
                    taps: taps.clone(),
                    lines,
                })
            }
        }
    }
}

/// Codes of weights: for each output channel some taps, each of so many codes.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodedWeights<'a> {
    pub codes: &'a [i8],
    pub taps: usize,
    pub of_a_tap: usize,
}

impl CodedWeights<'_> {
    /// Whether each two neighbours are at most 128 from 0 together: their products with two codes of data have 16 bits then.
    pub fn are_narrow(&self) -> bool {
        let is_narrow = |pair: &[i8]| {
            pair.iter().map(|code| u16::from(code.unsigned_abs())).sum::<u16>() <= 128
        };
        self.codes.chunks_exact(self.of_a_tap).all(|tap| tap.chunks(2).all(is_narrow))
    }
}

impl PackedFilters {
    /// Packs weights. `offsets` are what the sums of output channels begin with.
    pub fn pack(weights: CodedWeights, is_narrow: bool, offsets: &[i32]) -> PackedFilters {
        let instructions = Instructions::detect();
        let width = if is_narrow || !instructions.widens() { 4 } else { 2 };
        let panel = instructions.lanes() * instructions.vectors_of_panel();
        let CodedWeights { codes, taps, of_a_tap } = weights;
        let outputs = offsets.len();
        let steps = of_a_tap.div_ceil(width).next_multiple_of(instructions.steps());
        let columns = outputs.next_multiple_of(instructions.lanes());
        let of_a_sum = taps * steps * width;
        let mut packed = Aligned::new(0, columns * of_a_sum);
        for first in (0..outputs).step_by(panel) {
            // Vectors of the panel, and what there are of its channels.
            let lanes = (columns - first).min(panel);
            let packed = &mut packed[first * of_a_sum..][..lanes * of_a_sum];
            let filters = codes.chunks_exact(taps * of_a_tap).skip(first).take(panel);
            for (lane, filter) in filters.enumerate() {
                for (tap, codes) in filter.chunks_exact(of_a_tap).enumerate() {
                    for (step, codes) in codes.chunks(width).enumerate() {
                        let step = tap * steps + step;
                        let places = &mut packed[(step * lanes + lane) * width..][..codes.len()];
                        places.copy_from_slice(codes);
                    }
                }
            }
        }
        let begin_with_zero = offsets.iter().all(|offset| *offset == 0);
        let mut offsets = offsets.to_vec();
        offsets.resize(columns, 0);
        let codes = packed;
        PackedFilters { outputs, taps, steps, instructions, width, codes, offsets, begin_with_zero }
    }

    /// Whether codes of data must be widened for these.
    pub fn are_widened(&self) -> bool {
        self.width == 2
    }

    pub fn taps(&self) -> usize {
        self.taps
    }

    /// Whether all sums begin with 0.
    #[inline(always)]
    pub fn begin_with_zero(&self) -> bool {
        self.begin_with_zero
    }

    /// How many codes a tap has whose codes are copied, with those that fill it up.
    pub fn codes_of_a_tap(&self) -> usize {
        self.steps * self.width
    }

    /// Whether rows are multiplied fast only if they are at equal distances.
    pub fn takes_lines(&self) -> bool {
        self.instructions.takes_lines()
    }

    /// How many rows are computed at a time, so that their codes stay in the caches for all filters.
    pub fn most_rows(&self) -> usize {
        if self.takes_lines() { 128 } else { MOST_ROWS }
    }

    /// How many of some rows a thread that shares this work takes at a time.
    pub fn rows_of_part(&self, rows: usize, work: usize) -> usize {
        match self.instructions {
            // The weights are read for each part: with parts of 8 rows a BERT took as long on two threads as on one.
            Instructions::Amx(_) => {
                let parts = threads_for(work).max(rows.div_ceil(self.most_rows()));
                rows.div_ceil(parts).max(1)
            }
            _ => 1,
        }
    }

    /// How many steps a tap of so many codes has.
    pub fn steps(&self, of_a_tap: usize) -> usize {
        of_a_tap.div_ceil(self.width)
    }

    /// Output channels for the threads that share this work: whole panels.
    pub fn shares(&self, work: usize) -> Vec<Range<usize>> {
        shares_of_panels(self.outputs, self.panel_width(), work, 1)
    }

    /// The output channels of a panel.
    pub fn panel_width(&self) -> usize {
        self.instructions.lanes() * self.instructions.vectors_of_panel()
    }

    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(self.panel_width())
    }

    /// Computes a part of a product.
    pub fn multiply<C: Code>(&self, part: &mut QuantizedGemmTask<C>) {
        C::multiply(self.instructions, part);
    }
}

/// A thread's share of a GEMM: some rows, which are pixels of an image, and some panels of the filters.
pub(crate) struct QuantizedGemmTask<'a, C> {
    /// The codes of the image, from the first channel of the group on.
    pub codes: &'a [C],
    /// As many codes of zeros as a tap has.
    pub padding: &'a [C],
    pub taken: &'a Im2rowAddresses,
    pub rows: usize,
    pub filters: &'a PackedFilters,
    pub panels: Range<usize>,
    /// The steps of a tap.
    pub steps: usize,
    pub finish: &'a Epilogue,
    /// The first output channel of the group.
    pub first_channel: usize,
    pub output: Written<'a>,
}

/// A step of a panel: some codes for each lane of each vector.
type StepOf<const W: usize, const LANES: usize, const V: usize> = [[[i8; W]; LANES]; V];

impl<'a, C> QuantizedGemmTask<'a, C> {
    /// The rows of each tile.
    pub fn tiles(&self) -> impl Iterator<Item = (usize, usize)> + use<C> {
        row_panels(0..self.rows, self.filters.instructions.rows())
    }

    /// How many vectors a panel has.
    pub fn vectors(&self, panel: usize, lanes: usize) -> usize {
        let PackedFilters { outputs, instructions, .. } = self.filters;
        let most = instructions.vectors_of_panel();
        (outputs - panel * most * lanes).div_ceil(lanes).min(most)
    }

    /// The steps of a panel, those of each tap with what fills it up, and what sums begin with.
    #[inline(always)]
    pub fn panel<const W: usize, const LANES: usize, const V: usize>(
        &self,
        panel: usize,
    ) -> (&'a [StepOf<W, LANES, V>], &'a [[i32; LANES]; V]) {
        let PackedFilters { taps, steps, codes, offsets, .. } = self.filters;
        let first = panel * self.filters.panel_width();
        let of_a_sum = taps * steps * W;
        let codes = &codes[first * of_a_sum..][..V * LANES * of_a_sum];
        let offsets = offsets[first..].as_chunks::<LANES>().0.as_chunks::<V>().0;
        (codes.as_chunks().0.as_chunks().0.as_chunks().0, &offsets[0])
    }

    /// The codes of a tap, for some rows.
    #[inline(always)]
    pub fn rows<const W: usize, const N: usize>(
        &self,
        first: usize,
        tap: usize,
        steps: usize,
    ) -> [&'a [[C; W]]; N] {
        let mut rows: [&[[C; W]]; N] = [&[]; N];
        for (number, row) in rows.iter_mut().enumerate() {
            let start = self.taken.start(first + number, tap);
            let codes = if start == PADDING { self.padding } else { &self.codes[start..] };
            *row = &codes[..W * steps].as_chunks().0[..steps];
        }
        rows
    }

    /// The steps of each tap of a panel.
    #[inline(always)]
    pub fn of_taps<S>(&self, steps: &'a [S]) -> impl Iterator<Item = &'a [S]> + use<'a, S, C> {
        let count = self.steps;
        steps.chunks_exact(self.filters.steps).map(move |steps| &steps[..count])
    }

    /// The first output channel of a panel, and how many it has.
    #[inline(always)]
    pub fn channels(&self, panel: usize) -> (usize, usize) {
        let (first, width) = (panel * self.filters.panel_width(), self.filters.panel_width());
        (self.first_channel + first, (self.filters.outputs - first).min(width))
    }
}
