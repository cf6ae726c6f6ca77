//! Cuts a range of the output into pieces whose tuples are resolved together.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::tuples::{BlockNumbers, resolve};
use super::{AnyBadIndex, Operands};
use crate::index::Position;

/// How many tuples are resolved at a time: few enough to stay in the first-level cache.
pub(super) const PIECE: usize = 512;

/// Tuples that have been resolved, for a number of chunks of `data`.
pub(super) struct Piece<'a, N> {
    pub numbers: BlockNumbers<'a, N>,
    /// The chunks of `data` that they pick from.
    pub chunks: Range<usize>,
    /// The first block of the output that is asked for, from the first of those chunks. That from the
    /// next chunk is as many blocks behind as a chunk has tuples.
    pub at: usize,
}

/// Resolves the tuples for a range of the output's blocks, and calls `copy` with them.
pub(super) fn for_each_piece<N: Position, T>(
    operands: &Operands<'_, T>,
    blocks: Range<usize>,
    copy: &mut dyn FnMut(Piece<'_, N>),
) -> Result<(), AnyBadIndex> {
    let mut scratch = [const { MaybeUninit::uninit() }; PIECE];
    let (outer, count) = (operands.geometry.outer, operands.geometry.tuples_of_chunk());
    let mut start = blocks.start;
    while start < blocks.end {
        let (batch, in_batch) = (start / (outer * count), start % (outer * count));
        let (first_outer, tuple) = (in_batch / count, in_batch % count);
        let left = (blocks.end - start).min(outer * count - in_batch);
        // As many whole chunks as the range has, which share their tuples; else what it has of one.
        let outers = if tuple == 0 { (left / count).max(1) } else { 1 };
        let length = left.min(count - tuple);
        let chunk = batch * outer + first_outer;
        let first = batch * count + tuple;
        for tuple in (first..first + length).step_by(PIECE) {
            let tuples = tuple..(tuple + PIECE).min(first + length);
            let at = start - blocks.start + (tuple - first);
            let numbers = resolve(operands, tuples, &mut scratch)?;
            copy(Piece { numbers, chunks: chunk..chunk + outers, at });
        }
        start += outers * length;
    }
    Ok(())
}
