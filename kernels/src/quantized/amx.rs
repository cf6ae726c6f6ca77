//! Products of codes on the processor's tiles (AMX): one instruction multiplies 16 rows of 64 codes of data with 16 steps of
//! 16 output channels, and adds the products to 256 sums.
//!
//! A block has two tiles of rows and two of channels, so that each tile that is loaded is used twice. Beside the loops of VNNI,
//! ResNet-50 takes 0.52 of the time and BERT 0.58, on one thread of an Intel Xeon with AMX.

// The instructions are written out: Rust has no functions for them yet. They read from slices and write to an array whose
// sizes are checked.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{__m512i, _mm512_setzero_si512};
use std::ops::Range;

use super::instructions::avx512_vnni::{self, LANES};
use super::product::Part;

/// The rows of a tile.
const ROWS: usize = 16;

/// The steps of a tile, each of four codes.
const STEPS: usize = 16;

/// The codes of a row of a tile.
const CODES: usize = 4 * STEPS;

/// The rows of a block.
const ROWS_OF_BLOCK: usize = 2 * ROWS;

/// Fewer rows are multiplied in vectors.
const FEW_ROWS: usize = 3;

/// Whether the processor has tiles for codes and the system lets the process use them.
pub(super) fn is_there() -> bool {
    tract_linalg::x86_64::amx::has_amx_int8()
}

/// What `ldtilecfg` reads: the sizes of eight tiles.
#[repr(C, align(64))]
struct Sizes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All tiles have 16 rows of 64 bytes.
static SIZES: Sizes = Sizes {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Rows whose codes two tiles read, at equal distances: between the rows there may be such that nothing asks for.
struct Block {
    /// The rows, in the part.
    rows: Range<usize>,
    /// Where the first one begins: in the codes of the part, or in the copies.
    begin: usize,
    is_copied: bool,
}

/// The rows of a part, as tiles read them.
struct Rows {
    blocks: Vec<Block>,
    /// For each row, which one it is in its block.
    places: Vec<usize>,
    /// Those at the end that are too few for a tile.
    rest: Range<usize>,
    /// How far a row begins behind the one before it, and where its taps begin, from the first one on.
    distance: usize,
    taps: Vec<usize>,
    /// The codes of blocks that would reach beyond those of the part, and the same of them.
    copies: Vec<u8>,
    copied_distance: usize,
    copied_taps: Vec<usize>,
}

/// All blocks of a part of a product. The machine must have the tiles ([`is_there`]).
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512vnni")]
pub(super) fn product(part: &mut Part<u8>) {
    let Some(distance) = part.distance().filter(|_| part.rows >= FEW_ROWS) else {
        return avx512_vnni::product(part);
    };
    let rows = Rows::of(part, distance);
    // SAFETY: the processor has tiles, and the sizes are those that `ldtilecfg` takes.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SIZES, options(nostack, readonly)) };
    let mut sums = [_mm512_setzero_si512(); ROWS_OF_BLOCK * MOST_VECTORS];
    for panel in part.panels.clone() {
        let vectors = part.vectors(panel, LANES);
        for block in &rows.blocks {
            let codes = match block.is_copied {
                true => Codes {
                    codes: &rows.copies[block.begin..],
                    distance: rows.copied_distance,
                    taps: &rows.copied_taps,
                },
                false => Codes {
                    codes: &part.codes[block.begin..],
                    distance: rows.distance,
                    taps: &rows.taps,
                },
            };
            let places = &rows.places[block.rows.clone()];
            match ((places[places.len() - 1] + 1).div_ceil(ROWS), vectors) {
                (2, 2) => multiply::<2, 2>(part, panel, codes, &mut sums),
                (2, _) => multiply::<2, 1>(part, panel, codes, &mut sums),
                (_, 2) => multiply::<1, 2>(part, panel, codes, &mut sums),
                _ => multiply::<1, 1>(part, panel, codes, &mut sums),
            }
            match vectors {
                2 => finish::<2>(part, panel, block.rows.start, places, &sums),
                _ => finish::<1>(part, panel, block.rows.start, places, &sums),
            }
        }
        for first in rows.rest.clone() {
            avx512_vnni::of_rows::<1>(part, panel, first, vectors);
        }
    }
    // SAFETY: as above.
    unsafe { asm!("tilerelease", options(nomem, nostack)) };
}

impl Rows {
    /// Those of a part whose rows begin at such distances. Rows whose tiles would reach beyond the codes are copied.
    fn of(part: &Part<u8>, distance: usize) -> Rows {
        let count = part.filters.taps();
        let one = &part.starts[..count];
        let of_a_tap = part.steps.next_multiple_of(STEPS) * 4;
        let mut rows = Rows {
            blocks: Vec::with_capacity(part.rows.div_ceil(ROWS_OF_BLOCK)),
            places: Vec::with_capacity(part.rows),
            rest: part.rows..part.rows,
            distance,
            taps: one.iter().map(|tap| tap - one[0]).collect(),
            copies: vec![],
            copied_distance: count * of_a_tap,
            copied_taps: (0..count).map(|tap| tap * of_a_tap).collect(),
        };
        let mut first = 0;
        while first < part.rows {
            let begin = part.starts[first * count];
            let (mut last, mut place) = (begin, 0);
            rows.places.push(0);
            for row in part.starts[(first + 1) * count..].chunks_exact(count) {
                let start = row[0];
                let step = start - last;
                // Mostly without a division.
                place += if step == distance { 1 } else { step / distance };
                if place >= ROWS_OF_BLOCK || step != distance && !step.is_multiple_of(distance) {
                    break;
                }
                rows.places.push(place);
                last = start;
            }
            let block = first..rows.places.len();
            if block.len() < FEW_ROWS && block.end == part.rows {
                rows.rest = block;
                return rows;
            }
            let all = (rows.places[block.end - 1] + 1).next_multiple_of(ROWS);
            let reach = (all - 1) * distance + rows.taps[count - 1] + of_a_tap;
            let is_copied = part.codes.len() < begin + reach;
            let begin = if is_copied { rows.copy(part, block.clone()) } else { begin };
            first = block.end;
            rows.blocks.push(Block { rows: block, begin, is_copied });
        }
        rows
    }

    /// Copies the rows of the last block, one behind the other, and says where.
    fn copy(&mut self, part: &Part<u8>, block: Range<usize>) -> usize {
        for (place, row) in self.places[block.clone()].iter_mut().zip(0..) {
            *place = row;
        }
        let count = self.taps.len();
        let begin = self.copies.len();
        let all = block.len().next_multiple_of(ROWS);
        self.copies.resize(begin + all * self.copied_distance, 0);
        let of_a_tap = self.copied_distance / count;
        let places = self.copies[begin..].chunks_exact_mut(of_a_tap);
        let starts = &part.starts[block.start * count..block.end * count];
        for (place, start) in places.zip(starts) {
            let taken = 4 * part.steps;
            place[..taken].copy_from_slice(&part.codes[*start..][..taken]);
        }
        begin
    }
}

/// The most vectors of channels that a block has.
const MOST_VECTORS: usize = 2;

/// The codes of a block: how far one row begins behind the other, and where the taps of a row begin.
#[derive(Clone, Copy)]
struct Codes<'a> {
    codes: &'a [u8],
    distance: usize,
    taps: &'a [usize],
}

/// Computes the sums of `M` tiles of rows and `V` of channels.
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512vnni")]
fn multiply<const M: usize, const V: usize>(
    part: &Part<u8>,
    panel: usize,
    Codes { codes, distance, taps }: Codes,
    sums: &mut [__m512i; ROWS_OF_BLOCK * MOST_VECTORS],
) {
    let (weights, offsets) = part.panel::<4, LANES, V>(panel);
    let steps = part.steps.div_ceil(STEPS);
    let reach = (M * ROWS - 1) * distance + steps * CODES;
    assert!(
        steps > 0
            && !taps.is_empty()
            && weights.len() >= taps.len() * steps * STEPS
            && taps.iter().all(|tap| codes.len() >= tap + reach)
            && M * ROWS * V <= sums.len()
    );
    // Four sums at most, and two tiles of each factor.
    macro_rules! tiles {
        ([$($first:literal)*], [$($step:literal)*], [$($last:literal)*]) => {
            // SAFETY: the machine has the instructions (see `product`). They read `M` tiles of codes in each step of each tap,
            // whole tiles of `V` vectors of weights, and `V` vectors of offsets; they write `M * 16 * V` vectors. That all of
            // them are there was checked above. Nothing else uses tiles between `ldtilecfg` and `tilerelease`.
            unsafe {
                asm!(
                    $($first,)*
                    // Of each tap,
                    "2:",
                    "mov {codes}, [{taps}]",
                    "add {codes}, {begin}",
                    "lea {below}, [{codes} + {distance_below}]",
                    "mov {left}, {steps}",
                    // each step.
                    "3:",
                    $($step,)*
                    "add {codes}, 64",
                    "add {below}, 64",
                    "add {weights}, {of_step}",
                    "dec {left}",
                    "jnz 3b",
                    "add {taps}, 8",
                    "cmp {taps}, {last_tap}",
                    "jne 2b",
                    $($last,)*
                    begin = in(reg) codes.as_ptr(),
                    // They are where sums begin, first.
                    codes = inout(reg) offsets.as_ptr() => _,
                    // The second tile of rows, if there is one.
                    below = out(reg) _,
                    distance = in(reg) distance,
                    distance_below = in(reg) ROWS * distance,
                    taps = inout(reg) taps.as_ptr() => _,
                    last_tap = in(reg) taps.as_ptr_range().end,
                    weights = inout(reg) weights.as_ptr() => _,
                    width = in(reg) V * 64,
                    of_step = const STEPS * V * 64,
                    steps = in(reg) steps,
                    // None at first: all rows of a tile of offsets are the same.
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
        (2, 2) => tiles!(
            [
                "tileloadd tmm0, [{codes} + {left}*1]"
                "tileloadd tmm1, [{codes} + {left}*1 + 64]"
                "tileloadd tmm2, [{codes} + {left}*1]"
                "tileloadd tmm3, [{codes} + {left}*1 + 64]"
            ],
            [
                "tileloadd tmm4, [{codes} + {distance}*1]"
                "tileloadd tmm6, [{weights} + {width}*1]"
                "tdpbusd tmm0, tmm4, tmm6"
                "tileloadd tmm7, [{weights} + {width}*1 + 64]"
                "tdpbusd tmm1, tmm4, tmm7"
                "tileloadd tmm5, [{below} + {distance}*1]"
                "tdpbusd tmm2, tmm5, tmm6"
                "tdpbusd tmm3, tmm5, tmm7"
            ],
            [
                "tilestored [{sums} + {width}*1], tmm0"
                "tilestored [{sums} + {width}*1 + 64], tmm1"
                "tilestored [{sums} + {width}*1 + 2048], tmm2"
                "tilestored [{sums} + {width}*1 + 2112], tmm3"
            ]
        ),
        (2, 1) => tiles!(
            [
                "tileloadd tmm0, [{codes} + {left}*1]"
                "tileloadd tmm2, [{codes} + {left}*1]"
            ],
            [
                "tileloadd tmm4, [{codes} + {distance}*1]"
                "tileloadd tmm6, [{weights} + {width}*1]"
                "tdpbusd tmm0, tmm4, tmm6"
                "tileloadd tmm5, [{below} + {distance}*1]"
                "tdpbusd tmm2, tmm5, tmm6"
            ],
            [
                "tilestored [{sums} + {width}*1], tmm0"
                "tilestored [{sums} + {width}*1 + 1024], tmm2"
            ]
        ),
        (1, 2) => tiles!(
            [
                "tileloadd tmm0, [{codes} + {left}*1]"
                "tileloadd tmm1, [{codes} + {left}*1 + 64]"
            ],
            [
                "tileloadd tmm4, [{codes} + {distance}*1]"
                "tileloadd tmm6, [{weights} + {width}*1]"
                "tdpbusd tmm0, tmm4, tmm6"
                "tileloadd tmm7, [{weights} + {width}*1 + 64]"
                "tdpbusd tmm1, tmm4, tmm7"
            ],
            [
                "tilestored [{sums} + {width}*1], tmm0"
                "tilestored [{sums} + {width}*1 + 64], tmm1"
            ]
        ),
        (1, 1) => tiles!(
            ["tileloadd tmm0, [{codes} + {left}*1]"],
            [
                "tileloadd tmm4, [{codes} + {distance}*1]"
                "tileloadd tmm6, [{weights} + {width}*1]"
                "tdpbusd tmm0, tmm4, tmm6"
            ],
            ["tilestored [{sums} + {width}*1], tmm0"]
        ),
        _ => unreachable!("a block has {M} by {V} tiles"),
    }
}

/// Finishes the sums of some rows, which have such places in a block.
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512vnni")]
fn finish<const V: usize>(
    part: &mut Part<u8>,
    panel: usize,
    mut first: usize,
    places: &[usize],
    sums: &[__m512i],
) {
    let (channel, width) = part.channels(panel);
    let sums = sums.as_chunks::<V>().0;
    let output = &mut part.output;
    for run in places.chunk_by(|one, next| one + 1 == *next) {
        let (whole, rest) = sums[run[0]..][..run.len()].as_chunks::<8>();
        for rows in whole {
            avx512_vnni::finish(part.finish, rows, channel, width, first, output);
            first += 8;
        }
        for row in rest {
            avx512_vnni::finish(part.finish, &[*row], channel, width, first, output);
            first += 1;
        }
    }
}
