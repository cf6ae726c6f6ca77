//! Convolutions on the processor's tiles (AMX): which rows of an image are those of a tile, and what becomes of its sums.
//!
//! Products of codes take about half of the time of VNNI.

use std::ops::Range;

use pulp::bytemuck::cast_slice;

use super::output::OutputRows;
use super::product::{ConvolutionElement, GemmTask, MANY_WEIGHTS, SumLanes, TilePlace};
use super::rows::{RunOfRows, StridedLines};
use crate::isa::{Amx, BLOCK_ROWS, Isa, On, TILE_ROWS, TileFactors, TileRows, TileShape, Tiles};

/// The channels of a vector.
pub(super) const LANES: usize = 16;

/// The most bytes of weights that are met by each block of rows in turn.
const FEW_BYTES: usize = if cfg!(test) { 4 << 10 } else { 16 << 10 };

/// Rows whose codes two tiles read, at equal distances: between the rows there may be such that nothing asks for.
struct RowBlock {
    /// The first row, in the task.
    first: usize,
    /// Where it begins: in the codes of the task, or in the copies.
    begin: usize,
    is_copied: bool,
    tiles: usize,
    /// Which of the segments are its own.
    segments: Range<usize>,
}

/// Rows of a block that follow each other: the place of the first one in the block, and how many they are.
#[derive(Clone, Copy)]
struct Segment {
    place: usize,
    rows: usize,
}

/// The rows of a task, as tiles read them.
struct RowBlocks<'a> {
    blocks: Vec<RowBlock>,
    segments: Vec<Segment>,
    /// The last rows, if they are fewer than [`ConvolutionElement::LEAST_ROWS_FOR_AMX`].
    rest: Range<usize>,
    /// How far a row begins behind the one before it, and where its taps begin, from its begin on.
    distance: usize,
    tap_offsets: &'a [usize],
    /// The codes of blocks that would reach beyond those of the task, the distance of their rows, and where their taps begin.
    copies: Vec<u8>,
    copied_distance: usize,
    copied_offsets: Vec<usize>,
}

/// What tiles multiply.
pub(crate) trait TileElement: ConvolutionElement {
    const FACTORS: TileFactors;

    /// The vectors that end sums.
    type Lanes: SumLanes<Self, LANES>;

    fn lanes(isa: Amx) -> Self::Lanes;

    /// Writes what becomes of the sums of some rows.
    #[inline(always)]
    fn finish_rows<const V: usize>(
        lanes: Self::Lanes,
        epilogue: &Self::Epilogue,
        sums: &[[[i32; LANES]; V]],
        at: TilePlace,
        output: &mut OutputRows,
    ) {
        finish_rows(lanes, epilogue, sums, at, output);
    }

    /// Computes a row in vectors.
    fn multiply_row(
        lanes: Self::Lanes,
        task: &mut GemmTask<Self>,
        lines: &StridedLines,
        panel: usize,
        row: usize,
    );
}

/// Computes all tiles of a task whose rows are lines of equal distances, if there are enough rows.
pub(crate) fn multiply<E: TileElement>(isa: Amx, task: &mut GemmTask<E>) -> bool {
    let lines = task.addresses.lines_for_amx(E::LEAST_ROWS_FOR_AMX);
    let is_taken = lines.is_some();
    if let Some(lines) = lines {
        E::lanes(isa).enter(AllBlocks { isa, task, lines });
    }
    is_taken
}

/// All blocks of a task whose rows are lines of equal distances.
struct AllBlocks<'t, 'a, E: ConvolutionElement> {
    isa: Amx,
    task: &'t mut GemmTask<'a, E>,
    lines: &'a StridedLines,
}

impl<E: TileElement> On<E::Lanes> for AllBlocks<'_, '_, E> {
    #[inline(always)]
    fn run(self, lanes: E::Lanes) {
        let AllBlocks { isa, task, lines } = self;
        let blocks = RowBlocks::of(task, lines);
        let steps = task.filters.steps_of_tile();
        let tiles = &mut Tiles::configured(isa, TileShape { rows: TILE_ROWS, steps });
        let count = blocks.blocks.len().max(1);
        // Few weights stay in the first-level cache: then a block is written as a whole, while its rows are there, too. Panels of other
        // widths would need other tiles each time.
        let width = |panel| task.vectors(panel);
        let are_alike = task.panels.clone().all(|panel| width(panel) == width(task.panels.start));
        let are_few = task.filters.bytes() <= FEW_BYTES && are_alike;
        let at_once = if are_few { 1 } else { count };
        // Each block asks for its part of the next panel, where the caches may not have the weights any more.
        let asks = task.filters.bytes() >= MANY_WEIGHTS;
        for few in blocks.blocks.chunks(at_once) {
            for panel in task.panels.clone() {
                let next = panel + 1;
                let next = match asks && next < task.panels.end {
                    true => cast_slice(task.bytes_of_panel(next)),
                    false => &[],
                };
                let mut parts = next.chunks(next.len().div_ceil(count).max(1));
                for block in few {
                    let next = parts.next().unwrap_or(&[]);
                    macro_rules! multiply {
                        ($tiles:literal, $vectors:literal) => {
                            blocks.multiply::<E, $tiles, $vectors>(
                                lanes, tiles, task, panel, block, next,
                            )
                        };
                    }
                    match (block.tiles, task.vectors(panel)) {
                        (2, 3) => multiply!(2, 3),
                        (2, 2) => multiply!(2, 2),
                        (2, _) => multiply!(2, 1),
                        (_, 3) => multiply!(1, 3),
                        (_, 2) => multiply!(1, 2),
                        _ => multiply!(1, 1),
                    }
                }
            }
        }
        for panel in task.panels.clone() {
            for row in blocks.rest.clone() {
                E::multiply_row(lanes, task, lines, panel, row);
            }
        }
    }
}

impl<'a> RowBlocks<'a> {
    /// The blocks of a task whose rows are such lines. Rows whose tiles would reach beyond the codes are copied.
    fn of<E: ConvolutionElement>(task: &GemmTask<E>, lines: &'a StridedLines) -> RowBlocks<'a> {
        let StridedLines { distance, tap_offsets, lines } = lines;
        let distance = *distance;
        let bytes_of_tap = task.filters.padded_bytes_of_tap();
        let mut blocks = RowBlocks {
            blocks: Vec::with_capacity(task.rows.div_ceil(BLOCK_ROWS) + lines.len()),
            segments: Vec::with_capacity(task.rows.div_ceil(BLOCK_ROWS) + 2 * lines.len()),
            rest: task.rows..task.rows,
            distance,
            tap_offsets,
            copies: vec![],
            copied_distance: tap_offsets.len() * bytes_of_tap,
            copied_offsets: (0..tap_offsets.len()).map(|tap| tap * bytes_of_tap).collect(),
        };
        let mut lines = lines.iter().copied();
        let mut line = lines.next();
        let mut first = 0;
        while let Some(RunOfRows { start: begin, .. }) = line {
            let (first_segment, mut rows, mut end) = (blocks.segments.len(), 0, 0);
            while let Some(RunOfRows { start, rows: left }) = line {
                let place = (start - begin) / distance;
                let is_of_block = (start - begin).is_multiple_of(distance) && place >= end;
                if !is_of_block || place >= BLOCK_ROWS {
                    break;
                }
                let taken = left.min(BLOCK_ROWS - place);
                blocks.segments.push(Segment { place, rows: taken });
                (rows, end) = (rows + taken, place + taken);
                line = match left - taken {
                    0 => lines.next(),
                    left => Some(RunOfRows { start: start + taken * distance, rows: left }),
                };
            }
            if line.is_none() && rows < E::LEAST_ROWS_FOR_AMX {
                blocks.rest = first..first + rows;
                blocks.segments.truncate(first_segment);
                return blocks;
            }
            let tiles = end.div_ceil(TILE_ROWS);
            let reach = (tiles * TILE_ROWS - 1) * distance
                + tap_offsets[tap_offsets.len() - 1]
                + bytes_of_tap;
            let is_copied = task.bytes.len() < begin + reach;
            let mut block = RowBlock {
                first,
                begin,
                is_copied,
                tiles,
                segments: first_segment..blocks.segments.len(),
            };
            if is_copied {
                blocks.copy(task, &mut block, rows);
            }
            blocks.blocks.push(block);
            first += rows;
        }
        blocks
    }

    /// Copies the rows of the last block, so many, one behind the other.
    fn copy<E: ConvolutionElement>(
        &mut self,
        task: &GemmTask<E>,
        block: &mut RowBlock,
        rows: usize,
    ) {
        let begin = self.copies.len();
        block.tiles = rows.div_ceil(TILE_ROWS);
        self.copies.resize(begin + block.tiles * TILE_ROWS * self.copied_distance, 0);
        let mut places = self.copies[begin..].chunks_exact_mut(self.copied_distance);
        for Segment { place, rows } in self.segments.drain(block.segments.clone()) {
            for (row, copy) in (place..place + rows).zip(&mut places) {
                let start = block.begin + row * self.distance;
                for (tap, place) in self.tap_offsets.iter().zip(&self.copied_offsets) {
                    let taken = 4 * task.steps;
                    copy[*place..][..taken].copy_from_slice(&task.bytes[start + tap..][..taken]);
                }
            }
        }
        self.segments.push(Segment { place: 0, rows });
        block.segments.end = block.segments.start + 1;
        block.begin = begin;
    }

    /// Computes the sums of a block of `M` tiles of rows and `V` of channels, and what becomes of them. It asks for what comes next.
    #[inline(always)]
    fn multiply<E: TileElement, const M: usize, const V: usize>(
        &self,
        lanes: E::Lanes,
        tiles: &mut Tiles,
        task: &mut GemmTask<E>,
        panel: usize,
        block: &RowBlock,
        next: &[u8],
    ) {
        let (bytes, distance, tap_offsets) = match block.is_copied {
            true => (&self.copies[..], self.copied_distance, &self.copied_offsets[..]),
            false => (task.bytes, self.distance, self.tap_offsets),
        };
        let (bytes, second) = (&bytes[block.begin..], TILE_ROWS * distance);
        let (weights, first_sums) = task.panel::<4, LANES, V>(panel);
        let rows = TileRows { bytes, distance, second, tap_offsets, next };
        let first = (!task.filters.begin_with_zero).then_some(first_sums);
        let sums = tiles.multiply::<M, V>(E::FACTORS, rows, weights, first);
        let segments = &self.segments[block.segments.clone()];
        let first = block.first;
        lanes.enter(FinishBlock { task, panel, first, segments, sums });
    }
}

/// Finishes the sums of a block, of some rows from one on.
struct FinishBlock<'t, 'a, E: ConvolutionElement, const V: usize> {
    task: &'t mut GemmTask<'a, E>,
    panel: usize,
    first: usize,
    segments: &'t [Segment],
    sums: &'t [[[i32; LANES]; V]],
}

impl<E: TileElement, const V: usize> On<E::Lanes> for FinishBlock<'_, '_, E, V> {
    #[inline(always)]
    fn run(self, lanes: E::Lanes) {
        let FinishBlock { task, panel, mut first, segments, sums } = self;
        let (channel, width) = task.channels(panel);
        for Segment { place, rows } in segments {
            let at = TilePlace { channel, width, first_row: first };
            let sums = &sums[*place..][..*rows];
            E::finish_rows(lanes, task.epilogue, sums, at, &mut task.output);
            first += rows;
        }
    }
}

/// Finishes the sums of some rows, several at a time.
#[inline(always)]
fn finish_rows<L: SumLanes<E, LANES>, E: ConvolutionElement, const V: usize>(
    lanes: L,
    epilogue: &E::Epilogue,
    sums: &[[[i32; LANES]; V]],
    mut at: TilePlace,
    output: &mut OutputRows,
) {
    let (whole, rest) = sums.as_chunks::<8>();
    for sums in whole {
        finish(lanes, epilogue, sums, at, output);
        at.first_row += 8;
    }
    for row in rest {
        finish(lanes, epilogue, &[*row], at, output);
        at.first_row += 1;
    }
}

#[inline(always)]
fn finish<L: SumLanes<E, LANES>, E: ConvolutionElement, const R: usize, const V: usize>(
    lanes: L,
    epilogue: &E::Epilogue,
    stored: &[[[i32; LANES]; V]; R],
    at: TilePlace,
    output: &mut OutputRows,
) {
    let mut sums = [[lanes.first(&[0; LANES]); V]; R];
    for row in 0..R {
        for vector in 0..V {
            sums[row][vector] = lanes.first(&stored[row][vector]);
        }
    }
    lanes.finish(epilogue, &sums, at, output);
}
