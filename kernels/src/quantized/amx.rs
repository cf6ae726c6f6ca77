//! Products of codes on the processor's tiles (AMX): one instruction multiplies 16 rows of 64 codes of data with 16 steps of
//! 16 output channels, and adds the products to 256 sums.
//!
//! A block has two tiles of rows and two of channels, so that each tile that is loaded is used twice. That takes about half of the
//! time of VNNI.

// The instructions are written out: Rust has no functions for them yet. They read from slices and write to an array whose
// sizes are checked.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{__m512i, _mm512_setzero_si512};
use std::ops::Range;

use super::finish::TileSums;
use super::vectors::Codes;
use crate::convolution::{GemmTask, LEAST_ROWS_FOR_AMX, RunOfRows, StridedLines, TilePlace};
use crate::isa::{Amx, Avx512Vnni, Isa, On};

/// The rows of a tile.
const ROWS: usize = 16;

/// The steps of a tile, each of four codes.
const STEPS: usize = 16;

/// The codes of a row of a tile.
const ROW_CODES: usize = 4 * STEPS;

/// The rows of a block.
const ROWS_OF_BLOCK: usize = 2 * ROWS;

/// What `ldtilecfg` reads: the sizes of eight tiles.
#[repr(C, align(64))]
struct TileConfiguration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All tiles have 16 rows of 64 bytes.
static TILE_CONFIGURATION: TileConfiguration = TileConfiguration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

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
    /// The last rows, if they are fewer than [`LEAST_ROWS_FOR_AMX`].
    rest: Range<usize>,
    /// How far a row begins behind the one before it, and where its taps begin, from its begin on.
    distance: usize,
    tap_offsets: &'a [usize],
    /// The codes of blocks that would reach beyond those of the task, the distance of their rows, and where their taps begin.
    copies: Vec<u8>,
    copied_distance: usize,
    copied_offsets: Vec<usize>,
}

/// Computes all tiles of a task.
pub(super) fn multiply(isa: Amx, task: &mut GemmTask<Codes>) {
    match task.addresses.lines_for_amx() {
        Some(lines) => isa.avx512_vnni().enter(AllBlocks { isa, task, lines }),
        None => task.multiply_on(isa.avx512_vnni()),
    }
}

/// All blocks of a task whose rows are lines of equal distances.
struct AllBlocks<'t, 'a> {
    isa: Amx,
    task: &'t mut GemmTask<'a, Codes>,
    lines: &'a StridedLines,
}

impl On<Avx512Vnni> for AllBlocks<'_, '_> {
    #[inline(always)]
    fn run(self, lanes: Avx512Vnni) {
        let AllBlocks { isa, task, lines } = self;
        let blocks = RowBlocks::of(task, lines);
        let tiles = ConfiguredTiles::of(isa);
        // SAFETY: the processor has such vectors.
        let mut sums: BlockSums = [unsafe { _mm512_setzero_si512() }; _];
        for panel in task.panels.clone() {
            let vectors = task.vectors(panel);
            for block in &blocks.blocks {
                let codes = match block.is_copied {
                    true => RowBlockCodes {
                        codes: &blocks.copies[block.begin..],
                        distance: blocks.copied_distance,
                        tap_offsets: &blocks.copied_offsets,
                    },
                    false => RowBlockCodes {
                        codes: &task.bytes[block.begin..],
                        distance: blocks.distance,
                        tap_offsets: blocks.tap_offsets,
                    },
                };
                match (block.tiles, vectors) {
                    (2, 2) => multiply_block::<2, 2>(&tiles, task, panel, codes, &mut sums),
                    (2, _) => multiply_block::<2, 1>(&tiles, task, panel, codes, &mut sums),
                    (_, 2) => multiply_block::<1, 2>(&tiles, task, panel, codes, &mut sums),
                    _ => multiply_block::<1, 1>(&tiles, task, panel, codes, &mut sums),
                }
                let segments = &blocks.segments[block.segments.clone()];
                let (first, sums) = (block.first, &sums);
                match vectors {
                    2 => lanes.enter(FinishBlock::<2> { task, panel, first, segments, sums }),
                    _ => lanes.enter(FinishBlock::<1> { task, panel, first, segments, sums }),
                }
            }
            for first in blocks.rest.clone() {
                task.row_on(lanes, lines, panel, first);
            }
        }
    }
}

/// The thread's tiles, with the sizes that blocks need, until this is dropped.
struct ConfiguredTiles(());

impl ConfiguredTiles {
    fn of(_: Amx) -> ConfiguredTiles {
        // SAFETY: the processor has tiles, and the sizes are those that `ldtilecfg` takes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const TILE_CONFIGURATION, options(nostack, readonly))
        };
        ConfiguredTiles(())
    }
}

impl Drop for ConfiguredTiles {
    fn drop(&mut self) {
        // SAFETY: the processor has tiles.
        unsafe { asm!("tilerelease", options(nomem, nostack)) };
    }
}

impl<'a> RowBlocks<'a> {
    /// The blocks of a task whose rows are such lines. Rows whose tiles would reach beyond the codes are copied.
    fn of(task: &GemmTask<Codes>, lines: &'a StridedLines) -> RowBlocks<'a> {
        let StridedLines { distance, tap_offsets, lines } = lines;
        let distance = *distance;
        let bytes_of_tap = task.steps.next_multiple_of(STEPS) * 4;
        let mut blocks = RowBlocks {
            blocks: Vec::with_capacity(task.rows.div_ceil(ROWS_OF_BLOCK) + lines.len()),
            segments: Vec::with_capacity(task.rows.div_ceil(ROWS_OF_BLOCK) + 2 * lines.len()),
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
                if !is_of_block || place >= ROWS_OF_BLOCK {
                    break;
                }
                let taken = left.min(ROWS_OF_BLOCK - place);
                blocks.segments.push(Segment { place, rows: taken });
                (rows, end) = (rows + taken, place + taken);
                line = match left - taken {
                    0 => lines.next(),
                    left => Some(RunOfRows { start: start + taken * distance, rows: left }),
                };
            }
            if line.is_none() && rows < LEAST_ROWS_FOR_AMX {
                blocks.rest = first..first + rows;
                blocks.segments.truncate(first_segment);
                return blocks;
            }
            let tiles = end.div_ceil(ROWS);
            let reach =
                (tiles * ROWS - 1) * distance + tap_offsets[tap_offsets.len() - 1] + bytes_of_tap;
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
    fn copy(&mut self, task: &GemmTask<Codes>, block: &mut RowBlock, rows: usize) {
        let begin = self.copies.len();
        block.tiles = rows.div_ceil(ROWS);
        self.copies.resize(begin + block.tiles * ROWS * self.copied_distance, 0);
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
}

/// The most vectors of channels that a block has.
const MOST_VECTORS: usize = 2;

/// The sums of a block, row by row.
type BlockSums = [__m512i; ROWS_OF_BLOCK * MOST_VECTORS];

/// The codes of a block of rows: how far one row begins behind the other, and where the taps of a row begin.
#[derive(Clone, Copy)]
struct RowBlockCodes<'a> {
    codes: &'a [u8],
    distance: usize,
    tap_offsets: &'a [usize],
}

/// Computes the sums of `M` tiles of rows and `V` of channels.
fn multiply_block<const M: usize, const V: usize>(
    _: &ConfiguredTiles,
    task: &GemmTask<Codes>,
    panel: usize,
    RowBlockCodes { codes, distance, tap_offsets }: RowBlockCodes,
    sums: &mut BlockSums,
) {
    let (weights, first_sums) = task.panel::<4, 16, V>(panel);
    let steps = task.steps.div_ceil(STEPS);
    let reach = (M * ROWS - 1) * distance + steps * ROW_CODES;
    assert!(
        steps > 0
            && !tap_offsets.is_empty()
            && weights.len() >= tap_offsets.len() * steps * STEPS
            && tap_offsets.iter().all(|tap| codes.len() >= tap + reach)
            && M * ROWS * V <= sums.len()
    );
    let first = match task.filters.begin_with_zero {
        true => std::ptr::null(),
        false => first_sums.as_ptr(),
    };
    /// An instruction for a tile, or none, if the block has no such.
    macro_rules! if_there {
        (true, $instruction:expr) => {
            $instruction
        };
        (false, $instruction:expr) => {
            ""
        };
    }
    // Four tiles of sums at most, and two of each operand: there may be channels `beside` those of the first tile, and rows `below`, whose
    // sums are stored so many bytes behind.
    macro_rules! tiles {
        (beside: $beside:tt, below: $below:tt, both: $both:tt, $behind:literal) => {
            // SAFETY: the machine has the instructions. They read `M` tiles of codes in each step of each tap,
            // whole tiles of `V` vectors of weights, and `V` vectors of first sums; they write `M * 16 * V` vectors. That all of
            // them are there was checked above. The tiles are configured, and nothing else uses them.
            unsafe {
                asm!(
                    "test {codes}, {codes}",
                    "jz 4f",
                    "tileloadd tmm0, [{codes} + {left}*1]",
                    if_there!($beside, "tileloadd tmm1, [{codes} + {left}*1 + 64]"),
                    if_there!($below, "tileloadd tmm2, [{codes} + {left}*1]"),
                    if_there!($both, "tileloadd tmm3, [{codes} + {left}*1 + 64]"),
                    "jmp 5f",
                    "4:",
                    "tilezero tmm0",
                    if_there!($beside, "tilezero tmm1"),
                    if_there!($below, "tilezero tmm2"),
                    if_there!($both, "tilezero tmm3"),
                    "5:",
                    // Of each tap,
                    "2:",
                    "mov {codes}, [{taps}]",
                    "add {codes}, {begin}",
                    "lea {below}, [{codes} + {distance_below}]",
                    "mov {left}, {steps}",
                    // each step.
                    "3:",
                    "tileloadd tmm4, [{codes} + {distance}*1]",
                    "tileloadd tmm6, [{weights} + {width}*1]",
                    "tdpbusd tmm0, tmm4, tmm6",
                    if_there!($beside, "tileloadd tmm7, [{weights} + {width}*1 + 64]"),
                    if_there!($beside, "tdpbusd tmm1, tmm4, tmm7"),
                    if_there!($below, "tileloadd tmm5, [{below} + {distance}*1]"),
                    if_there!($below, "tdpbusd tmm2, tmm5, tmm6"),
                    if_there!($both, "tdpbusd tmm3, tmm5, tmm7"),
                    "add {codes}, 64",
                    "add {below}, 64",
                    "add {weights}, {of_step}",
                    "dec {left}",
                    "jnz 3b",
                    "add {taps}, 8",
                    "cmp {taps}, {last_tap}",
                    "jne 2b",
                    "tilestored [{sums} + {width}*1], tmm0",
                    if_there!($beside, "tilestored [{sums} + {width}*1 + 64], tmm1"),
                    if_there!($below, concat!("tilestored [{sums} + {width}*1 + ", $behind, "], tmm2")),
                    if_there!($both, concat!("tilestored [{sums} + {width}*1 + 64 + ", $behind, "], tmm3")),
                    begin = in(reg) codes.as_ptr(),
                    // They are where sums begin, first, if that is not 0.
                    codes = inout(reg) first => _,
                    // The second tile of rows, if there is one.
                    below = out(reg) _,
                    distance = in(reg) distance,
                    distance_below = in(reg) ROWS * distance,
                    taps = inout(reg) tap_offsets.as_ptr() => _,
                    last_tap = in(reg) tap_offsets.as_ptr_range().end,
                    weights = inout(reg) weights.as_ptr() => _,
                    width = in(reg) V * 64,
                    of_step = const STEPS * V * 64,
                    steps = in(reg) steps,
                    // None at first: all rows of a tile of first sums are the same.
                    left = inout(reg) 0_usize => _,
                    sums = in(reg) sums.as_mut_ptr(),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                )
            }
        };
    }
    match (M, V) {
        (2, 2) => tiles!(beside: true, below: true, both: true, 2048),
        (2, 1) => tiles!(beside: false, below: true, both: false, 1024),
        (1, 2) => tiles!(beside: true, below: false, both: false, 0),
        (1, 1) => tiles!(beside: false, below: false, both: false, 0),
        _ => unreachable!("a block has {M} by {V} tiles"),
    }
}

/// Finishes the sums of a block, of some rows from one on.
struct FinishBlock<'t, 'a, const V: usize> {
    task: &'t mut GemmTask<'a, Codes>,
    panel: usize,
    first: usize,
    segments: &'t [Segment],
    sums: &'t BlockSums,
}

impl<const V: usize> On<Avx512Vnni> for FinishBlock<'_, '_, V> {
    #[inline(always)]
    fn run(self, lanes: Avx512Vnni) {
        let FinishBlock { task, panel, first: mut first_row, segments, sums } = self;
        let (channel, width) = task.channels(panel);
        let epilogue = task.epilogue;
        let sums = sums.as_chunks::<V>().0;
        let output = &mut task.output;
        for Segment { place, rows } in segments {
            let (whole, rest) = sums[*place..][..*rows].as_chunks::<8>();
            for sums in whole {
                let at = TilePlace { channel, width, first_row };
                TileSums { epilogue, sums, at, output }.finish(lanes);
                first_row += 8;
            }
            for row in rest {
                let sums = &[*row];
                let at = TilePlace { channel, width, first_row };
                TileSums { epilogue, sums, at, output }.finish(lanes);
                first_row += 1;
            }
        }
    }
}
