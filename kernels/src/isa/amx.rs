//! Products of matrices on the processor's tiles (AMX): one instruction multiplies 16 rows of 16 steps of data with 16 steps of 16 columns,
//! and adds the products to 256 sums. A step has four bytes: four codes, or two numbers in bf16.
//!
//! A block has up to two tiles of rows and three of columns, so that most tiles that are loaded are used twice.

// The instructions are written out: Rust has no functions for them yet. They read from slices and write to an array whose
// sizes are checked.
#![allow(unsafe_code)]

use std::arch::asm;

use super::x86::Amx;
use crate::memory::LINE;

/// The most rows of a tile.
pub(crate) const TILE_ROWS: usize = 16;

/// The most steps of a tile.
pub(crate) const TILE_STEPS: usize = 16;

/// The columns of a tile: those of a vector.
const TILE_COLUMNS: usize = 16;

/// The rows of a block.
pub(crate) const BLOCK_ROWS: usize = 2 * TILE_ROWS;

/// The most vectors of columns that a block has.
const MOST_VECTORS: usize = 3;

/// The bytes of a step.
const STEP: usize = 4;

/// The bytes of a row of sums, or of a step of columns.
const ROW: usize = TILE_COLUMNS * STEP;

/// What `ldtilecfg` reads: the sizes of eight tiles.
#[repr(C, align(64))]
struct TileConfiguration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// How many rows of data a tile has, and how many steps: 1 to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TileShape {
    pub rows: usize,
    pub steps: usize,
}

impl TileShape {
    const WHOLE: TileShape = TileShape { rows: TILE_ROWS, steps: TILE_STEPS };

    /// Loads the configuration: blocks of two by three tiles have six of sums, one of data and one of columns; others have four, two and
    /// two.
    #[inline(always)]
    fn configure(self, _: Amx, is_widest: bool) {
        let (rows, steps) = (self.rows as u8, self.steps as u8);
        let [sums, data, columns] =
            [(rows, ROW as u16), (rows, u16::from(steps) * STEP as u16), (steps, ROW as u16)];
        let tiles = match is_widest {
            true => [sums, sums, sums, sums, sums, sums, data, columns],
            false => [sums, sums, sums, sums, data, data, columns, columns],
        };
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        for (tile, (count, bytes)) in tiles.into_iter().enumerate() {
            (row_bytes[tile], rows[tile]) = (bytes, count);
        }
        let configuration =
            TileConfiguration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the processor has tiles, and the sizes are those that `ldtilecfg` takes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, readonly))
        };
    }
}

/// What a step has of data, and of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TileFactors {
    /// Four codes: those of data are unsigned, those of columns signed. Sums are integers.
    Codes,
    /// Two numbers in bf16. Sums are in single precision; what is below normal numbers is 0.
    Bf16,
}

/// The rows of a block, as tiles read them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TileRows<'a> {
    pub bytes: &'a [u8],
    /// How far a row begins behind the one before it, in bytes.
    pub distance: usize,
    /// How far the second tile of rows begins behind the first one.
    pub second: usize,
    /// Where the taps of a row begin, from its begin on: whole tiles of steps each.
    pub tap_offsets: &'a [usize],
    /// What is prefetched meanwhile, to the second-level cache: all of it, if steps can ask for so much, and maybe some of what follows.
    pub next: &'a [u8],
}

/// The thread's tiles, of one shape, until this is dropped; and room for sums.
pub(crate) struct Tiles {
    isa: Amx,
    shape: TileShape,
    /// Whether they are configured for the widest blocks.
    are_widest: bool,
    sums: BlockSums,
}

#[repr(align(64))]
struct BlockSums([[i32; TILE_COLUMNS]; BLOCK_ROWS * MOST_VECTORS]);

/// What the loop of a block reads from memory, as there are few registers.
#[repr(C)]
struct BlockLoop {
    begin: *const u8,
    second: usize,
    /// Those of a tap, in tiles, and how many bytes a tile of them has of data and of columns.
    steps: usize,
    bytes_of_row: usize,
    bytes_of_columns: usize,
    last_tap: *const usize,
}

impl Tiles {
    /// Tiles of a shape, if the processor has such: of no more rows and steps than the largest ones.
    #[inline(always)]
    pub fn configured(isa: Amx, shape: TileShape) -> Tiles {
        let TileShape { rows, steps } = shape;
        let shape = TileShape { rows: rows.clamp(1, TILE_ROWS), steps: steps.clamp(1, TILE_STEPS) };
        shape.configure(isa, false);
        let sums = BlockSums([[0; TILE_COLUMNS]; BLOCK_ROWS * MOST_VECTORS]);
        Tiles { isa, shape, are_widest: false, sums }
    }

    /// The sums of a block of `M` tiles of rows and `V` of columns, as words: those of a row follow each other. `columns` has all steps of
    /// all taps; sums begin with `first`, or with 0.
    ///
    /// # Panics
    ///
    /// If there are fewer bytes or columns than that, no taps, or no steps in a tap.
    pub fn multiply<const M: usize, const V: usize>(
        &mut self,
        factors: TileFactors,
        rows: TileRows,
        columns: &[[[[i8; STEP]; TILE_COLUMNS]; V]],
        first: Option<&[[i32; TILE_COLUMNS]; V]>,
    ) -> &[[[i32; TILE_COLUMNS]; V]] {
        // With whole tiles, both configurations are the same.
        let are_widest = const { M == 2 && V == 3 };
        if self.shape != TileShape::WHOLE && self.are_widest != are_widest {
            self.shape.configure(self.isa, are_widest);
            self.are_widest = are_widest;
        }
        let TileRows { bytes, distance, second, tap_offsets, next } = rows;
        let TileShape { rows, steps: of_tile } = self.shape;
        let steps = columns.len() / tap_offsets.len().max(1) / of_tile;
        let last_row = (rows - 1).checked_mul(distance);
        let reach = last_row.and_then(|it| it.checked_add(if M > 1 { second } else { 0 }));
        let reach = reach.and_then(|it| it.checked_add(steps * of_tile * STEP));
        let is_within = |tap: usize| {
            reach.and_then(|it| it.checked_add(tap)).is_some_and(|it| it <= bytes.len())
        };
        let is_whole = steps > 0 && columns.len() == tap_offsets.len() * steps * of_tile;
        assert!(is_whole && tap_offsets.iter().all(|tap| is_within(*tap)), "tiles beyond the data");
        let first = first.map_or(std::ptr::null(), |first| first.as_ptr());
        let block = BlockLoop {
            begin: bytes.as_ptr(),
            second,
            steps,
            bytes_of_row: of_tile * STEP,
            bytes_of_columns: of_tile * V * ROW,
            last_tap: tap_offsets.as_ptr_range().end,
        };
        // Without divisions where nothing is asked for.
        let lines_of_step = match next.len() {
            0 => 0,
            bytes => bytes.div_ceil(LINE).div_ceil(steps * tap_offsets.len()),
        };
        // The sums of a tile of rows and a vector of columns, and what is done with each step of tiles.
        macro_rules! block {
            ($(($sums:literal, $row:literal, $vector:literal)),*; $($step:expr),*) => {
                match lines_of_step {
                    0 => asking_block!([] $(($sums, $row, $vector)),*; $($step),*),
                    1..=3 => asking_block!([0, 1, 2] $(($sums, $row, $vector)),*; $($step),*),
                    _ => asking_block!(
                        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] $(($sums, $row, $vector)),*; $($step),*
                    ),
                }
            };
        }
        // The same with some lines that each step asks for.
        macro_rules! asking_block {
            ([$($line:literal),*] $(($sums:literal, $row:literal, $vector:literal)),*; $($step:expr),*) => {
                // SAFETY: the machine has the instructions, as there are configured tiles, which nothing else uses. They read `M` tiles of
                // rows in each step of each tap, and whole tiles of `V` vectors of columns, and `V` vectors of first sums; they write `M`
                // tiles of `V` vectors. Prefetches read nothing. That all of them are there was checked above, or is what the types say.
                unsafe {
                    asm!(
                        "test {data}, {data}",
                        "jz 4f",
                        $(concat!("tileloadd ", $sums, ", [{data} + {left}*1 + 64*", $vector, "]"),)*
                        "jmp 5f",
                        "4:",
                        $(concat!("tilezero ", $sums),)*
                        "5:",
                        // Of each tap,
                        "2:",
                        "mov {data}, [{taps}]",
                        "add {data}, [{block} + {begin}]",
                        "mov {below}, [{block} + {second}]",
                        "add {below}, {data}",
                        "mov {left}, [{block} + {steps}]",
                        // each step.
                        "3:",
                        $($step,)*
                        $(concat!("prefetcht1 [{next} + 64*", $line, "]"),)*
                        concat!("add {next}, 64*(0", $("+1+0*", $line,)* ")"),
                        "add {data}, [{block} + {of_row}]",
                        "add {below}, [{block} + {of_row}]",
                        "add {columns}, [{block} + {of_columns}]",
                        "dec {left}",
                        "jnz 3b",
                        "add {taps}, 8",
                        "cmp {taps}, [{block} + {last_tap}]",
                        "jne 2b",
                        $(concat!("tilestored [{sums} + {width}*1 + 64*", $vector, " + {below_sums}*", $row, "], ", $sums),)*
                        block = in(reg) &raw const block,
                        begin = const std::mem::offset_of!(BlockLoop, begin),
                        second = const std::mem::offset_of!(BlockLoop, second),
                        steps = const std::mem::offset_of!(BlockLoop, steps),
                        of_row = const std::mem::offset_of!(BlockLoop, bytes_of_row),
                        of_columns = const std::mem::offset_of!(BlockLoop, bytes_of_columns),
                        last_tap = const std::mem::offset_of!(BlockLoop, last_tap),
                        // It is where sums begin, first, if that is not 0.
                        data = inout(reg) first => _,
                        // The second tile of rows, if there is one.
                        below = out(reg) _,
                        distance = in(reg) distance,
                        next = inout(reg) next.as_ptr() => _,
                        taps = inout(reg) tap_offsets.as_ptr() => _,
                        columns = inout(reg) columns.as_ptr() => _,
                        width = in(reg) V * ROW,
                        below_sums = const TILE_ROWS * V * ROW,
                        // None at first: all rows of a tile of first sums are the same.
                        left = inout(reg) 0_usize => _,
                        sums = in(reg) self.sums.0.as_mut_ptr(),
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                        options(nostack),
                    )
                }
            };
        }
        /// The instruction that loads a tile of rows, or of a vector of columns.
        macro_rules! load {
            ($tile:literal, $rows:ident) => {
                concat!("tileloadd ", $tile, ", [{", stringify!($rows), "} + {distance}*1]")
            };
            ($tile:literal, $vector:literal) => {
                concat!("tileloadd ", $tile, ", [{columns} + {width}*1 + 64*", $vector, "]")
            };
        }
        // The blocks, with the instruction that multiplies two tiles.
        macro_rules! blocks {
            ($dot:literal) => {
                match (M, V) {
                    (1, 1) => block!(("tmm0", 0, 0);
                        load!("tmm4", data),
                        load!("tmm6", 0), concat!($dot, " tmm0, tmm4, tmm6")),
                    (1, 2) => block!(("tmm0", 0, 0), ("tmm1", 0, 1);
                        load!("tmm4", data),
                        load!("tmm6", 0), concat!($dot, " tmm0, tmm4, tmm6"),
                        load!("tmm7", 1), concat!($dot, " tmm1, tmm4, tmm7")),
                    (1, 3) => block!(("tmm0", 0, 0), ("tmm1", 0, 1), ("tmm2", 0, 2);
                        load!("tmm4", data),
                        load!("tmm6", 0), concat!($dot, " tmm0, tmm4, tmm6"),
                        load!("tmm7", 1), concat!($dot, " tmm1, tmm4, tmm7"),
                        load!("tmm6", 2), concat!($dot, " tmm2, tmm4, tmm6")),
                    (2, 1) => block!(("tmm0", 0, 0), ("tmm1", 1, 0);
                        load!("tmm6", 0),
                        load!("tmm4", data), concat!($dot, " tmm0, tmm4, tmm6"),
                        load!("tmm5", below), concat!($dot, " tmm1, tmm5, tmm6")),
                    (2, 2) => block!(
                        ("tmm0", 0, 0), ("tmm1", 0, 1), ("tmm2", 1, 0), ("tmm3", 1, 1);
                        load!("tmm4", data),
                        load!("tmm6", 0), concat!($dot, " tmm0, tmm4, tmm6"),
                        load!("tmm7", 1), concat!($dot, " tmm1, tmm4, tmm7"),
                        load!("tmm5", below), concat!($dot, " tmm2, tmm5, tmm6"),
                        concat!($dot, " tmm3, tmm5, tmm7")),
                    // Of rows there is room for one tile, which is loaded again.
                    (2, 3) => block!(
                        ("tmm0", 0, 0), ("tmm1", 0, 1), ("tmm2", 0, 2),
                        ("tmm3", 1, 0), ("tmm4", 1, 1), ("tmm5", 1, 2);
                        load!("tmm7", 0),
                        load!("tmm6", data), concat!($dot, " tmm0, tmm6, tmm7"),
                        load!("tmm6", below), concat!($dot, " tmm3, tmm6, tmm7"),
                        load!("tmm7", 1), concat!($dot, " tmm4, tmm6, tmm7"),
                        load!("tmm6", data), concat!($dot, " tmm1, tmm6, tmm7"),
                        load!("tmm7", 2), concat!($dot, " tmm2, tmm6, tmm7"),
                        load!("tmm6", below), concat!($dot, " tmm5, tmm6, tmm7")),
                    _ => unreachable!("a block has {M} by {V} tiles"),
                }
            };
        }
        match factors {
            TileFactors::Codes => blocks!("tdpbusd"),
            TileFactors::Bf16 => blocks!("tdpbf16ps"),
        }
        // The second tile is behind 16 rows of the first one.
        let count = (M - 1) * TILE_ROWS + rows;
        &self.sums.0.as_chunks().0[..count]
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the processor has tiles.
        unsafe { asm!("tilerelease", options(nomem, nostack)) };
    }
}
