//! Cuts a range of the output into pieces whose tuples are resolved together.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::tuples::{BlockNumbers, resolve};
use super::{AnyBadIndex, Operands};
use crate::index::Position;

/// How many tuples are resolved at a time, so that their numbers stay in the first-level cache.
pub(super) const PIECE: usize = 512;

/// Resolved tuples, and the tables of `data` that they pick from.
pub(super) struct Piece<'a, N> {
    pub numbers: BlockNumbers<'a, N>,
    pub tables: Range<usize>,
    /// Where the blocks from the first table go: the number of the first one in the range of the output. Those from
    /// the next table are `tuples_per_table` blocks further on.
    pub first_block: usize,
}

/// Resolves the tuples for a range of the output's blocks, and calls `copy` with each piece.
pub(super) fn for_each_piece<N: Position, T>(
    operands: &Operands<'_, T>,
    blocks: Range<usize>,
    copy: &mut dyn FnMut(Piece<'_, N>),
) -> Result<(), AnyBadIndex> {
    let mut scratch = [const { MaybeUninit::uninit() }; PIECE];
    let (outer, count) = (operands.geometry.outer, operands.geometry.tuples_per_table());
    let mut start = blocks.start;
    while start < blocks.end {
        let (batch, in_batch) = (start / (outer * count), start % (outer * count));
        let (first_outer, tuple) = (in_batch / count, in_batch % count);
        let left = (blocks.end - start).min(outer * count - in_batch);
        // As many whole tables as are left of the batch, which share their tuples; else a part of one.
        let outers = if tuple == 0 { (left / count).max(1) } else { 1 };
        let length = left.min(count - tuple);
        let table = batch * outer + first_outer;
        let first = batch * count + tuple;
        for tuple in (first..first + length).step_by(PIECE) {
            let tuples = tuple..(tuple + PIECE).min(first + length);
            let first_block = start - blocks.start + (tuple - first);
            let numbers = resolve(operands, tuples, &mut scratch)?;
            copy(Piece { numbers, tables: table..table + outers, first_block });
        }
        start += outers * length;
    }
    Ok(())
}
