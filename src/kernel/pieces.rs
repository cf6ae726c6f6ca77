//! Cuts a range of the output into parts, whose tuples pick from the same tables, and those into pieces, whose tuples
//! are resolved together.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::tuples::{BlockNumbers, resolve};
use super::{AnyBadIndex, Operands};
use crate::geometry::Geometry;
use crate::index::Position;

/// How many tuples are resolved at a time, so that their numbers stay in the first-level cache.
pub(super) const PIECE: usize = 512;

/// A run of tuples, and the tables of `data` that each of them picks from.
pub(super) struct Part {
    /// Numbered through all of `indices`.
    pub tuples: Range<usize>,
    pub tables: Range<usize>,
    /// Where the blocks from the first table go: the number of the first one in the range of the output. Those from
    /// the next table are `tuples_per_table` blocks further on.
    pub first_block: usize,
}

/// Some resolved tuples of a [`Part`].
pub(super) struct Piece<'a, N> {
    pub numbers: BlockNumbers<'a, N>,
    /// As those of the part.
    pub tables: Range<usize>,
    /// Where the blocks of these tuples go, as in the part.
    pub first_block: usize,
}

/// Cuts a range of the output's blocks into parts: as many whole tables of a batch as there are, or a part of one table.
pub(super) fn parts(geometry: Geometry<'_>, blocks: Range<usize>) -> impl Iterator<Item = Part> {
    let (outer, count) = (geometry.outer, geometry.tuples_per_table());
    let mut start = blocks.start;
    std::iter::from_fn(move || {
        if start >= blocks.end {
            return None;
        }
        let (batch, in_batch) = (start / (outer * count), start % (outer * count));
        let (first_outer, tuple) = (in_batch / count, in_batch % count);
        let left = (blocks.end - start).min(outer * count - in_batch);
        let outers = if tuple == 0 { (left / count).max(1) } else { 1 };
        let length = left.min(count - tuple);
        let table = batch * outer + first_outer;
        let first = batch * count + tuple;
        let first_block = start - blocks.start;
        start += outers * length;
        Some(Part { tuples: first..first + length, tables: table..table + outers, first_block })
    })
}

/// Resolves the tuples of a part, and calls `copy` with each piece.
pub(super) fn for_each_piece<N: Position, T>(
    operands: &Operands<'_, T>,
    part: &Part,
    copy: &mut dyn FnMut(Piece<'_, N>),
) -> Result<(), AnyBadIndex> {
    let mut scratch = [const { MaybeUninit::uninit() }; PIECE];
    let Part { tuples, tables, first_block } = part;
    for first in tuples.clone().step_by(PIECE) {
        let numbers = resolve(operands, first..(first + PIECE).min(tuples.end), &mut scratch)?;
        let first_block = first_block + (first - tuples.start);
        copy(Piece { numbers, tables: tables.clone(), first_block });
    }
    Ok(())
}
