//! Resolves tuples of indices into block numbers.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;

use super::pieces::PIECE;
use super::processor::{Loop, vectorized};
use super::{AnyBadIndex, Operands};
use crate::geometry::{Geometry, with_indices};
use crate::index::{IndexElement, IndexPolicy, Position};

/// For each tuple of a piece the number of the block that it picks from a table of `data`, or
/// [`OUT_OF_RANGE`](Position::OUT_OF_RANGE). Only this file makes them, because `unsafe` code relies on them.
#[derive(Clone, Copy)]
pub(super) struct BlockNumbers<'a, N> {
    numbers: &'a [N],
    all_in_range: bool,
    /// Greater than every number that is in range.
    bound: usize,
}

impl<'a, N> BlockNumbers<'a, N> {
    pub fn as_slice(&self) -> &'a [N] {
        self.numbers
    }

    /// Whether all are in range, and less than `blocks`.
    pub fn are_below(&self, blocks: usize) -> bool {
        self.all_in_range && self.bound <= blocks
    }
}

/// Resolves tuples, which are numbered through all of `indices`.
pub(super) fn resolve<'s, T, N: Position>(
    operands: &Operands<'_, T>,
    tuples: Range<usize>,
    scratch: &'s mut [MaybeUninit<N>; PIECE],
) -> Result<BlockNumbers<'s, N>, AnyBadIndex> {
    let &Operands { geometry, policy, indices, blocks_per_table, .. } = operands;
    let Geometry { gathered_dims: dims, tuples_per_batch, columns, .. } = geometry;
    assert!(blocks_per_table <= N::MAX_SIZE);
    let scratch = &mut scratch[..tuples.len()];
    let entries = tuples.start * dims.len()..tuples.end * dims.len();
    let all_in_range = with_indices!(indices, slice => {
        let entries = &slice[entries];
        match *dims {
            // A tuple of length 0 picks the only block.
            [] => {
                scratch.fill(MaybeUninit::new(N::from_size(0)));
                true
            }
            [a] => resolve_tuples(entries, [a], policy, scratch),
            [a, b] => resolve_tuples(entries, [a, b], policy, scratch),
            [a, b, c] => resolve_tuples(entries, [a, b, c], policy, scratch),
            _ => resolve_each(entries.chunks_exact(dims.len()), dims, policy, scratch),
        }
    });
    if policy.is_strict() && !all_in_range {
        return Err(AnyBadIndex);
    }
    // SAFETY: each arm has written every number: there are as many tuples as numbers, and the loops run
    // through both together.
    let numbers = unsafe { &mut *(scratch as *mut [MaybeUninit<N>] as *mut [N]) };
    if columns > 1 {
        add_columns(numbers, tuples.start, columns);
    }
    if geometry.merges_batches() {
        add_batches(numbers, tuples.start, tuples_per_batch, geometry.blocks_per_outer());
    }
    Ok(BlockNumbers { numbers, all_in_range, bound: blocks_per_table })
}

/// Resolves tuples of a length that is known to the compiler. Returns whether all are in range.
fn resolve_tuples<I: IndexElement, N: Position, const L: usize>(
    entries: &[I],
    dims: [usize; L],
    policy: IndexPolicy,
    numbers: &mut [MaybeUninit<N>],
) -> bool {
    let (tuples, _) = entries.as_chunks::<L>();
    vectorized(ResolveTuples { tuples, dims, policy, numbers })
}

pub(super) struct ResolveTuples<'a, I, N, const L: usize> {
    pub tuples: &'a [[I; L]],
    pub dims: [usize; L],
    pub policy: IndexPolicy,
    pub numbers: &'a mut [MaybeUninit<N>],
}

impl<I: IndexElement, N: Position, const L: usize> Loop for ResolveTuples<'_, I, N, L> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let tuples = self.tuples.iter().map(|tuple| &tuple[..]);
        resolve_each(tuples, &self.dims, self.policy, self.numbers)
    }
}

#[inline(always)]
fn resolve_each<'a, I: IndexElement + 'a, N: Position>(
    tuples: impl ExactSizeIterator<Item = &'a [I]>,
    dims: &[usize],
    policy: IndexPolicy,
    numbers: &mut [MaybeUninit<N>],
) -> bool {
    assert_eq!(tuples.len(), numbers.len());
    let mut all_in_range = true;
    for (written, tuple) in numbers.iter_mut().zip(tuples) {
        let number = number(tuple, dims, policy);
        written.write(number);
        all_in_range &= number != N::OUT_OF_RANGE;
    }
    all_in_range
}

/// The number, in row-major order, of the block that a tuple picks.
#[inline(always)]
fn number<I: IndexElement, N: Position>(tuple: &[I], dims: &[usize], policy: IndexPolicy) -> N {
    let mut number = N::from_size(0);
    let mut in_range = true;
    for (&index, &size) in tuple.iter().zip(dims) {
        let size = N::from_size(size);
        let position = N::resolve(policy, index, size);
        in_range &= position != N::OUT_OF_RANGE;
        // Less than the product of dims if the tuple is in range, and not used otherwise.
        number = number.append_axis(size, position);
    }
    if in_range { number } else { N::OUT_OF_RANGE }
}

/// Turns positions on the gathered axes into block numbers. `tuple` is the number of the first tuple.
fn add_columns<N: Position>(numbers: &mut [N], tuple: usize, columns: usize) {
    let size = N::from_size(columns);
    let mut column = tuple % columns;
    for number in numbers {
        if *number != N::OUT_OF_RANGE {
            *number = number.append_axis(size, N::from_size(column));
        }
        column = if column + 1 == columns { 0 } else { column + 1 };
    }
}

/// Turns block numbers in a batch into block numbers in all of `data`. `tuple` is the number of the first tuple.
fn add_batches<N: Position>(
    mut numbers: &mut [N],
    tuple: usize,
    tuples_per_batch: usize,
    blocks_per_batch: usize,
) {
    let mut batch = tuple / tuples_per_batch;
    let mut left = tuples_per_batch - tuple % tuples_per_batch;
    while !numbers.is_empty() {
        let (of_batch, rest) = numbers.split_at_mut(left.min(numbers.len()));
        let offset = N::from_size(batch * blocks_per_batch);
        for number in of_batch {
            if *number != N::OUT_OF_RANGE {
                *number = number.append_axis(N::from_size(1), offset);
            }
        }
        (numbers, left, batch) = (rest, tuples_per_batch, batch + 1);
    }
}
