//! Copies blocks from tables of `data` to the output.

#![allow(unsafe_code)]

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;

use super::elements::gather_elements;
use super::pieces::{Part, Piece, for_each_piece, parts};
use super::processor::{GATHERED, end_of_stream, gather_or_zero, has_gathers, prefetch, stream};
use super::tuples::BlockNumbers;
use super::{AnyBadIndex, Operands, Store};
use crate::geometry::Geometry;
use crate::index::Position;

/// Clones the blocks of a piece.
pub(super) fn clone_piece<T: Clone, N: Position>(
    operands: &Operands<'_, T>,
    piece: &Piece<'_, N>,
    output: &mut [T],
) {
    let (block, zero) = (operands.geometry.block, operands.zero);
    for (data, output) in tables(operands, piece, output) {
        let numbers = piece.numbers.as_slice();
        for (output, &number) in output.chunks_exact_mut(block).zip(numbers) {
            if number == N::OUT_OF_RANGE {
                output.chunks_mut(zero.len()).for_each(|it| it.clone_from_slice(zero));
            } else {
                output.clone_from_slice(&data[number.to_usize() * block..][..block]);
            }
        }
    }
}

type CopyPiece<N> = fn(&Operands<'_, u8>, &Piece<'_, N>, &mut [MaybeUninit<u8>]);

/// The loop for blocks of this many bytes, if there is one: it copies a block without a call.
fn copy_narrow_of<N: Position>(block: usize) -> Option<CopyPiece<N>> {
    Some(match block {
        1 => copy_narrow::<N, 1>,
        2 => copy_narrow::<N, 2>,
        4 => copy_narrow::<N, 4>,
        6 => copy_narrow::<N, 6>,
        8 => copy_narrow::<N, 8>,
        12 => copy_narrow::<N, 12>,
        16 => copy_narrow::<N, 16>,
        32 => copy_narrow::<N, 32>,
        64 => copy_narrow::<N, 64>,
        _ => return None,
    })
}

pub(super) fn is_narrow(block: usize) -> bool {
    copy_narrow_of::<u32>(block).is_some()
}

/// Gathers a range of the output's blocks: from number `first` on, as many as `output` has. Writes all of `output`,
/// unless an index is bad.
pub(super) fn gather_range(
    operands: &Operands<'_, u8>,
    first: usize,
    store: Store,
    output: &mut [MaybeUninit<u8>],
) -> Result<(), AnyBadIndex> {
    let block = operands.geometry.block;
    assert!(output.len().is_multiple_of(block));
    let blocks = first..first + output.len() / block;
    let gathered = parts(operands.geometry, blocks).try_for_each(|part| {
        if let Some(gathered) = gather_elements(operands, &part, output) {
            gathered
        } else if operands.blocks_per_table <= u32::MAX_SIZE {
            // A vector holds twice as many numbers of 32 bits. With 64 bits, blocks of one element took 1.1 to 1.4
            // times as long.
            copy_blocks::<u32>(operands, &part, store, output)
        } else {
            copy_blocks::<u64>(operands, &part, store, output)
        }
    });
    if store == Store::Streamed {
        // After an error too: the memory will be used again.
        end_of_stream();
    }
    gathered
}

fn copy_blocks<N: Position>(
    operands: &Operands<'_, u8>,
    part: &Part,
    store: Store,
    output: &mut [MaybeUninit<u8>],
) -> Result<(), AnyBadIndex> {
    let copy_narrow = copy_narrow_of(operands.geometry.block);
    for_each_piece(operands, part, &mut |piece: Piece<'_, N>| match copy_narrow {
        Some(copy) => copy(operands, &piece, output),
        None => copy_wide(operands, &piece, store, output),
    })
}

/// For each table that a piece picks from: its data, and the output that its blocks go to.
fn tables<'s, T, N: Position, O>(
    operands: &'s Operands<'_, T>,
    piece: &Piece<'_, N>,
    output: &'s mut [O],
) -> impl Iterator<Item = (&'s [T], &'s mut [O])> {
    let Geometry { block, .. } = operands.geometry;
    let length = piece.numbers.as_slice().len() * block;
    let stride = (operands.geometry.tuples_per_table() * block).max(length);
    let outputs = output[piece.first_block * block..].chunks_mut(stride);
    piece
        .tables
        .clone()
        .map(move |table| operands.table(table))
        .zip(outputs.map(move |output| &mut output[..length]))
}

/// Copies blocks of `SIZE` bytes.
fn copy_narrow<N: Position, const SIZE: usize>(
    operands: &Operands<'_, u8>,
    piece: &Piece<'_, N>,
    output: &mut [MaybeUninit<u8>],
) {
    let zero = zero_block(operands.zero);
    for (data, output) in tables(operands, piece, output) {
        let (data, _) = data.as_chunks::<SIZE>();
        let (output, _) = output.as_chunks_mut::<SIZE>();
        if piece.numbers.are_below(data.len()) {
            copy_in_range(data, piece.numbers, output);
        } else {
            let numbers = piece.numbers.as_slice();
            let done = gather_first(data, numbers, &zero, output);
            copy_or_zero(data, &numbers[done..], &zero, &mut output[done..]);
        }
    }
}

/// Copies the first blocks if the processor gathers such, and returns how many. When half of the indices were out of range,
/// copying one by one took 1.6 times as long. When none is, and the data is in a near cache, gathering takes 1.2 times as
/// long, so it is for the former (AMD Zen 4).
fn gather_first<N: Position, const SIZE: usize>(
    data: &[[u8; SIZE]],
    numbers: &[N],
    zero: &[u8; SIZE],
    output: &mut [[MaybeUninit<u8>; SIZE]],
) -> usize {
    let (true, Some(numbers)) = (has_gathers::<SIZE>(), N::as_u32s(numbers)) else { return 0 };
    let (numbers, _) = numbers.as_chunks::<GATHERED>();
    let output = &mut output.as_chunks_mut().0[..numbers.len()];
    // SAFETY: the processor has gathers.
    unsafe { gather_or_zero(data, numbers, zero, output) };
    numbers.len() * GATHERED
}

/// A block of this size that repeats `zero`.
pub(super) fn zero_block<const SIZE: usize>(zero: &[u8]) -> [u8; SIZE] {
    match *zero {
        [byte] => [byte; SIZE],
        ref zero => std::array::from_fn(|i| zero[i % zero.len()]),
    }
}

/// Copies blocks whose numbers are all in range.
fn copy_in_range<N: Position, const SIZE: usize>(
    data: &[[u8; SIZE]],
    numbers: BlockNumbers<'_, N>,
    output: &mut [[MaybeUninit<u8>; SIZE]],
) {
    assert!(numbers.are_below(data.len()));
    for (block, number) in output.iter_mut().zip(numbers.as_slice()) {
        // SAFETY: the assertion says that all numbers are below the length of `data`.
        // With a check of each, blocks of 1 and of 4 bytes took 1.2 to 1.5 times as long.
        let element = unsafe { data.get_unchecked(number.to_usize()) };
        *block = element.map(MaybeUninit::new);
    }
}

/// Without a branch: with one, it took seven times as long when half of the indices were out of range. Not inlined,
/// because the compiler would make it a branch.
#[inline(never)]
pub(super) fn copy_or_zero<N: Position, const SIZE: usize>(
    data: &[[u8; SIZE]],
    numbers: &[N],
    zero: &[u8; SIZE],
    output: &mut [[MaybeUninit<u8>; SIZE]],
) {
    let Some(last) = data.len().checked_sub(1) else {
        return output.fill(zero.map(MaybeUninit::new));
    };
    for (block, number) in output.iter_mut().zip(numbers) {
        // OUT_OF_RANGE is greater than the last.
        let number = number.to_usize();
        let element = data[number.min(last)];
        let element = select_unpredictable(number <= last, element, *zero);
        *block = element.map(MaybeUninit::new);
    }
}

/// Copies blocks of any size.
fn copy_wide<N: Position>(
    operands: &Operands<'_, u8>,
    piece: &Piece<'_, N>,
    store: Store,
    output: &mut [MaybeUninit<u8>],
) {
    /// The processor copies several shorter blocks at a time anyway, and fetches longer ones ahead by itself.
    const PREFETCHED: RangeInclusive<usize> = 512..=8192;
    /// Smaller data is in a cache.
    const SMALLEST_PREFETCHED: usize = 8 << 20;
    let (block, zero) = (operands.geometry.block, operands.zero);
    let numbers = piece.numbers.as_slice();
    for (data, output) in tables(operands, piece, output) {
        // SAFETY: MaybeUninit<u8> has the layout of u8, and may be anything that u8 may.
        let data = unsafe { &*(data as *const [u8] as *const [MaybeUninit<u8>]) };
        // Without, blocks of 3 KiB from data that no cache holds took 1.3 times as long.
        let prefetches = PREFETCHED.contains(&block) && data.len() >= SMALLEST_PREFETCHED;
        for (position, (output, &number)) in output.chunks_exact_mut(block).zip(numbers).enumerate()
        {
            if number == N::OUT_OF_RANGE {
                fill(output, zero);
                continue;
            }
            if prefetches
                && let Some(&later) = numbers.get(position + 3)
                && later != N::OUT_OF_RANGE
            {
                prefetch(&data[later.to_usize() * block..][..block]);
            }
            let from = &data[number.to_usize() * block..][..block];
            if store == Store::Streamed {
                stream(from, output);
            } else if block < 64 {
                copy_short(from, output);
            } else {
                output.copy_from_slice(from);
            }
        }
    }
}

/// Repeats `zero`.
fn fill(output: &mut [MaybeUninit<u8>], zero: &[u8]) {
    if let [byte] = *zero {
        output.fill(MaybeUninit::new(byte));
        return;
    }
    for (byte, &zero) in output.iter_mut().zip(zero.iter().cycle()) {
        byte.write(zero);
    }
}

/// Copies fewer than 64 bytes, without a call.
#[inline(always)]
fn copy_short(from: &[MaybeUninit<u8>], to: &mut [MaybeUninit<u8>]) {
    /// Copies the first `N` and the last `N`, which may overlap.
    #[inline(always)]
    fn copy_ends<const N: usize>(from: &[MaybeUninit<u8>], to: &mut [MaybeUninit<u8>]) {
        to[..N].copy_from_slice(&from[..N]);
        let last = from.len() - N;
        to[last..].copy_from_slice(&from[last..]);
    }
    match from.len() {
        32.. => copy_ends::<32>(from, to),
        16.. => copy_ends::<16>(from, to),
        8.. => copy_ends::<8>(from, to),
        4.. => copy_ends::<4>(from, to),
        _ => to.copy_from_slice(from),
    }
}
