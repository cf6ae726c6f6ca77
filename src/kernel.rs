//! The file that moves elements: both operators, after their shapes have been reduced to one form.
//!
//! ```text
//! data    [batch][outer][dims...][block]
//! indices [batch][count][dims.len()]
//! output  [batch][outer][count][block]
//!
//! output[b][o][i] = data[b][o][indices[b][i][0], indices[b][i][1], ...]
//! ```
//!
//! A *block* is a run of elements that is contiguous in `data` and in `output`. Gather is the case
//! of tuples of length one (`dims` is the size of the gathered axis alone), GatherND the case
//! `outer = 1`.
//!
//! The work is done in pieces of at most [`PIECE`] tuples, in two steps: resolve the tuples of a
//! piece into block numbers, by the operator's [`IndexPolicy`], then copy the blocks. The first step
//! knows the integer type and the policy, the second one the width of a block; so neither multiplies
//! the other's cases, and the outer blocks of a batch share the resolved numbers. The scratch memory
//! is that piece, on the stack: `PIECE` numbers, 8 KiB.
//!
//! The output is one sequence of blocks, and any range of it can be gathered on its own: that is how
//! threads share the work.
//!
//! This is the only file with `unsafe`: for memory that is not written twice, and for loops over
//! narrow blocks without a check each. Elements that own memory are cloned in safe code.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;

use tract_core::prelude::{DatumType, Tensor, TractResult};
use tract_core::tract_data::internal::anyhow;

use crate::index::{IndexElement, IndexPolicy, OUT_OF_RANGE, OutOfRange};
use crate::threads;

/// How many tuples are resolved at a time: few enough to stay in the first-level cache.
const PIECE: usize = 1024;

/// The common form of both operators. A block is counted in what `data` is a slice of: bytes, or
/// elements that own memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry<'a> {
    /// Batches: the product of the first `batch_dims` dimensions.
    pub batch: usize,
    /// Copies of the same picking in each batch: the product of the data axes from `batch_dims` to
    /// `axis`.
    pub outer: usize,
    /// Tuples in each batch.
    pub count: usize,
    /// Sizes of the data axes that the components of a tuple walk.
    pub dims: &'a [usize],
    /// The size of the slice that a tuple picks.
    pub block: usize,
}

impl Geometry<'_> {
    /// How many blocks the output has.
    pub fn blocks(&self) -> usize {
        self.batch * self.outer * self.count
    }

    /// How many blocks a tuple of one batch chooses from.
    fn choices(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether the batches are gathered as one, from the whole of `data`: where nothing lies between
    /// them and the gathered axes, a batch is an offset to the number of a block.
    fn merges_batches(&self) -> bool {
        self.outer == 1
    }

    /// The size of the part of `data` that resolved tuples number the blocks of.
    fn chunk(&self) -> usize {
        let batches = if self.merges_batches() { self.batch } else { 1 };
        batches * self.choices() * self.block
    }

    /// The size of `data`, unless it overflows.
    fn data_len(&self) -> Option<usize> {
        let sizes = [self.batch, self.outer].into_iter().chain(self.dims.iter().copied());
        sizes.chain([self.block]).try_fold(1usize, |product, size| product.checked_mul(size))
    }
}

/// The entries of `indices`, in row-major order, in the type that they came in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Indices<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

macro_rules! with_indices {
    ($indices:expr, $slice:ident => $body:expr) => {
        match $indices {
            Indices::I8($slice) => $body,
            Indices::I16($slice) => $body,
            Indices::I32($slice) => $body,
            Indices::I64($slice) => $body,
            Indices::U8($slice) => $body,
            Indices::U16($slice) => $body,
            Indices::U32($slice) => $body,
            Indices::U64($slice) => $body,
        }
    };
}

impl Indices<'_> {
    /// The entry number `n`, exactly.
    pub fn get(&self, n: usize) -> i128 {
        with_indices!(self, slice => slice[n].to_i128())
    }
}

/// The number, in row-major order, of the first entry of `indices` that is out of range where that
/// is an error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadIndex(pub usize);

/// Resolves all the entries of `indices` and moves nothing.
pub(crate) fn check(
    indices: Indices<'_>,
    dims: &[usize],
    policy: IndexPolicy,
) -> Result<(), BadIndex> {
    let sizes: Vec<Option<usize>> = dims.iter().copied().map(Some).collect();
    check_known(indices, &sizes, policy)
}

/// The same where `dims[k]` is `None` if the size of an axis is not known yet: nothing is said about
/// the entries that walk it.
pub(crate) fn check_known(
    indices: Indices<'_>,
    dims: &[Option<usize>],
    policy: IndexPolicy,
) -> Result<(), BadIndex> {
    fn check<I: IndexElement>(
        indices: &[I],
        dims: &[Option<usize>],
        policy: IndexPolicy,
    ) -> Result<(), BadIndex> {
        let bad = indices.iter().zip(dims.iter().cycle()).position(|(index, dim)| {
            dim.is_some_and(|size| policy.resolve(index.to_i64(), size).is_none())
        });
        bad.map_or(Ok(()), |n| Err(BadIndex(n)))
    }
    match policy.out_of_range {
        OutOfRange::Zeros => Ok(()),
        OutOfRange::Error => with_indices!(indices, slice => check(slice, dims, policy)),
    }
}

/// An index is out of range where that is an error. Which is the first, [`check`] says: the pieces of
/// several threads are not resolved in order.
#[derive(Debug)]
struct AnyBadIndex;

impl AnyBadIndex {
    fn first(geometry: Geometry<'_>, policy: IndexPolicy, indices: Indices<'_>) -> BadIndex {
        check(indices, geometry.dims, policy).expect_err("resolving found a bad index")
    }
}

/// Tuples that have been resolved, for a number of chunks of `data`.
struct Piece<'a> {
    /// For each tuple the number of the block that it picks from a chunk, or [`OUT_OF_RANGE`].
    slots: &'a [usize],
    /// Whether none of them is out of range.
    all_in_range: bool,
    /// The chunks of `data` that they pick from.
    chunks: Range<usize>,
    /// The first block of the output that is asked for, from the first of those chunks. That from the
    /// next chunk is `count` blocks behind.
    at: usize,
}

/// Resolves the tuples for a range of the output's blocks, and calls `copy` with them.
fn for_each_piece(
    geometry: Geometry<'_>,
    policy: IndexPolicy,
    indices: Indices<'_>,
    blocks: Range<usize>,
    copy: &mut dyn FnMut(Piece<'_>),
) -> Result<(), AnyBadIndex> {
    fn for_each_piece<I: IndexElement>(
        geometry: Geometry<'_>,
        policy: IndexPolicy,
        indices: &[I],
        blocks: Range<usize>,
        copy: &mut dyn FnMut(Piece<'_>),
    ) -> Result<(), AnyBadIndex> {
        let Geometry { batch, outer, count, dims, .. } = geometry;
        let mut scratch = [const { MaybeUninit::uninit() }; PIECE];
        let mut resolve = |tuples: Range<usize>, copy: &mut dyn FnMut(&mut [usize], bool)| {
            for first in tuples.clone().step_by(PIECE) {
                let length = PIECE.min(tuples.end - first);
                let entries = &indices[first * dims.len()..][..length * dims.len()];
                let (slots, all_in_range) = resolve(entries, dims, policy, &mut scratch[..length])?;
                copy(slots, all_in_range);
            }
            Ok(())
        };
        if geometry.merges_batches() {
            let mut tuple = blocks.start;
            return resolve(blocks.clone(), &mut |slots, all_in_range| {
                if batch > 1 {
                    add_batches(slots, tuple, count, geometry.choices());
                }
                copy(Piece { slots, all_in_range, chunks: 0..1, at: tuple - blocks.start });
                tuple += slots.len();
            });
        }
        let mut start = blocks.start;
        while start < blocks.end {
            let (batch, in_batch) = (start / (outer * count), start % (outer * count));
            let (first_outer, tuple) = (in_batch / count, in_batch % count);
            let left = (blocks.end - start).min(outer * count - in_batch);
            // As many whole chunks as the range has, which share their tuples; else what it has of
            // one.
            let outers = if tuple == 0 { (left / count).max(1) } else { 1 };
            let tuples = left.min(count - tuple);
            let chunk = batch * outer + first_outer;
            let first = batch * count + tuple;
            let mut at = start - blocks.start;
            resolve(first..first + tuples, &mut |slots, all_in_range| {
                copy(Piece { slots, all_in_range, chunks: chunk..chunk + outers, at });
                at += slots.len();
            })?;
            start += outers * tuples;
        }
        Ok(())
    }
    with_indices!(indices, slice => for_each_piece(geometry, policy, slice, blocks, copy))
}

/// Turns block numbers in a batch into block numbers in all of `data`. `tuple` is the number of the
/// first.
fn add_batches(mut slots: &mut [usize], tuple: usize, count: usize, choices: usize) {
    let mut offset = tuple / count * choices;
    let mut left = count - tuple % count;
    while !slots.is_empty() {
        let (batch, rest) = slots.split_at_mut(left.min(slots.len()));
        for slot in batch {
            *slot = if *slot == OUT_OF_RANGE { OUT_OF_RANGE } else { *slot + offset };
        }
        (slots, left, offset) = (rest, count, offset + choices);
    }
}

/// Turns each tuple into the number of the block that it picks, or into [`OUT_OF_RANGE`]. Says
/// whether none is.
///
/// A number that is not `OUT_OF_RANGE` is below the product of `dims`.
fn resolve<'s, I: IndexElement>(
    tuples: &[I],
    dims: &[usize],
    policy: IndexPolicy,
    scratch: &'s mut [MaybeUninit<usize>],
) -> Result<(&'s mut [usize], bool), AnyBadIndex> {
    assert_eq!(tuples.len(), scratch.len() * dims.len());
    let all_in_range = match *dims {
        // A tuple of length 0 picks the whole slice, the only one there is.
        [] => {
            scratch.fill(MaybeUninit::new(0));
            true
        }
        [a] => resolve_tuples(tuples.as_chunks().0, [a], policy, scratch),
        [a, b] => resolve_tuples(tuples.as_chunks().0, [a, b], policy, scratch),
        [a, b, c] => resolve_tuples(tuples.as_chunks().0, [a, b, c], policy, scratch),
        _ => {
            let mut all_in_range = true;
            for (slot, tuple) in scratch.iter_mut().zip(tuples.chunks_exact(dims.len())) {
                let number = number(tuple, dims, policy);
                slot.write(number);
                all_in_range &= number != OUT_OF_RANGE;
            }
            all_in_range
        }
    };
    if policy.out_of_range == OutOfRange::Error && !all_in_range {
        return Err(AnyBadIndex);
    }
    // SAFETY: each arm has written every slot: there are as many tuples as slots, and the loops run
    // through both together.
    let slots = unsafe { &mut *(scratch as *mut [MaybeUninit<usize>] as *mut [usize]) };
    Ok((slots, all_in_range))
}

/// Resolves tuples of a known length, with the vector units that the machine turns out to have. It
/// stays plain Rust: the compiler makes the vectors. Gathering scalars took 1.5 to 2.4 times as long
/// without.
fn resolve_tuples<I: IndexElement, const L: usize>(
    tuples: &[[I; L]],
    dims: [usize; L],
    policy: IndexPolicy,
    scratch: &mut [MaybeUninit<usize>],
) -> bool {
    #[inline(always)]
    fn portable<I: IndexElement, const L: usize>(
        tuples: &[[I; L]],
        dims: [usize; L],
        policy: IndexPolicy,
        scratch: &mut [MaybeUninit<usize>],
    ) -> bool {
        let mut all_in_range = true;
        for (slot, tuple) in scratch.iter_mut().zip(tuples) {
            let number = number(tuple, &dims, policy);
            slot.write(number);
            all_in_range &= number != OUT_OF_RANGE;
        }
        all_in_range
    }

    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512<I: IndexElement, const L: usize>(
            tuples: &[[I; L]],
            dims: [usize; L],
            policy: IndexPolicy,
            scratch: &mut [MaybeUninit<usize>],
        ) -> bool {
            portable(tuples, dims, policy, scratch)
        }
        #[target_feature(enable = "avx2")]
        fn avx2<I: IndexElement, const L: usize>(
            tuples: &[[I; L]],
            dims: [usize; L],
            policy: IndexPolicy,
            scratch: &mut [MaybeUninit<usize>],
        ) -> bool {
            portable(tuples, dims, policy, scratch)
        }
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the machine has these instructions.
            return unsafe { avx512(tuples, dims, policy, scratch) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has these instructions.
            return unsafe { avx2(tuples, dims, policy, scratch) };
        }
    }
    portable(tuples, dims, policy, scratch)
}

/// The number, in row-major order, of the block that a tuple picks.
#[inline(always)]
fn number<I: IndexElement>(tuple: &[I], dims: &[usize], policy: IndexPolicy) -> usize {
    let mut number = 0usize;
    let mut in_range = true;
    for (&index, &size) in tuple.iter().zip(dims) {
        let position = policy.resolve_or_sentinel(index.to_i64(), size);
        in_range &= position != OUT_OF_RANGE;
        // Where the tuple is in range this is below the product of dims; else it is not used.
        number = number.wrapping_mul(size).wrapping_add(position);
    }
    if in_range { number } else { OUT_OF_RANGE }
}

/// Gathers elements that own memory. Blocks whose tuple is out of range become `zero`, where the
/// policy says so.
///
/// `data` and `indices` have the sizes that `geometry` says, and `output` too.
pub(crate) fn gather_values<T: Clone>(
    geometry: Geometry<'_>,
    policy: IndexPolicy,
    data: &[T],
    indices: Indices<'_>,
    zero: &T,
    output: &mut [T],
) -> Result<(), BadIndex> {
    let (chunk_size, block) = (geometry.chunk(), geometry.block);
    for_each_piece(geometry, policy, indices, 0..geometry.blocks(), &mut |piece| {
        for (outer, chunk) in piece.chunks.enumerate() {
            let data = &data[chunk * chunk_size..][..chunk_size];
            let output = &mut output[(piece.at + outer * geometry.count) * block..];
            for (output, &slot) in output.chunks_exact_mut(block).zip(piece.slots) {
                if slot == OUT_OF_RANGE {
                    output.fill(zero.clone());
                } else {
                    output.clone_from_slice(&data[slot * block..][..block]);
                }
            }
        }
    })
    .map_err(|AnyBadIndex| AnyBadIndex::first(geometry, policy, indices))
}

/// Gathers elements that are bytes, into a new tensor. Blocks whose tuple is out of range are filled
/// with repetitions of `zero`, where the policy says so.
///
/// Follows the executor that the user of tract selected: see [`threads`].
///
/// # Panics
///
/// Unless `dt` is a type of plain bytes, `shape` is that of `geometry.blocks()` blocks of it, `data`
/// and `indices` have the sizes that `geometry` says, and `zero` divides a block.
pub(crate) fn gather_bytes(
    geometry: Geometry<'_>,
    policy: IndexPolicy,
    data: &[u8],
    indices: Indices<'_>,
    zero: &[u8],
    dt: DatumType,
    shape: &[usize],
) -> TractResult<Result<Tensor, BadIndex>> {
    let Geometry { batch, outer, count, block, .. } = geometry;
    assert!(dt.is_copy());
    // SAFETY: every byte is written below, by `gather_range`, before anybody reads one; or an index is
    // bad, and the tensor is dropped. Types of plain bytes have nothing to drop.
    let mut output = unsafe { Tensor::uninitialized_dt(dt, shape)? };
    let mut view = output.try_as_plain_ram_mut()?;
    // SAFETY: MaybeUninit<u8> has the layout of u8. What is written through it is initialised.
    let bytes = unsafe { &mut *(view.as_bytes_mut() as *mut [u8] as *mut [MaybeUninit<u8>]) };
    ask_for_huge_pages(bytes);
    // What `gather_range` relies on.
    assert!(block > 0 && !zero.is_empty() && block.is_multiple_of(zero.len()));
    assert_eq!(Some(data.len()), geometry.data_len());
    assert_eq!(bytes.len(), geometry.blocks() * block);

    // Threads get whole chunks where there are enough, so that each resolves its tuples once.
    let row = if batch * outer >= MANY_CHUNKS && outer > 1 { count } else { 1 };
    let work = (bytes.len() / BYTES_OF_WORK).max(geometry.blocks() / BLOCKS_OF_WORK);
    let gathered = threads::fill_rows(bytes, row * block, work, |first_row, output| {
        let first = first_row * row;
        let blocks = first..first + output.len() / block;
        gather_range(geometry, policy, data, indices, zero, blocks, output)
            .map_err(|AnyBadIndex| anyhow!("an index is out of range"))
    });
    let first_bad = |_| AnyBadIndex::first(geometry, policy, indices);
    Ok(gathered.map(|()| output).map_err(first_bad))
}

/// How many chunks of `data` are enough to keep threads busy with whole ones.
const MANY_CHUNKS: usize = 64;

/// tract shares work among threads from 32768 units on, by default. A unit is so many bytes, or so many
/// blocks, that waking the threads pays: an output of 512 KiB, or of 65 536 blocks.
const BYTES_OF_WORK: usize = 16;
const BLOCKS_OF_WORK: usize = 2;

/// Gathers a range of the output's blocks. Writes all of `output`, unless an index is bad.
fn gather_range(
    geometry: Geometry<'_>,
    policy: IndexPolicy,
    data: &[u8],
    indices: Indices<'_>,
    zero: &[u8],
    blocks: Range<usize>,
    output: &mut [MaybeUninit<u8>],
) -> Result<(), AnyBadIndex> {
    let Geometry { count, block, .. } = geometry;
    let bytes = Bytes { data, chunk: geometry.chunk(), count, block, zero, output };
    macro_rules! by_width {
        ($($width:literal)*) => {
            match block {
                $($width => bytes.gather(geometry, policy, indices, blocks, Bytes::copy_narrow::<$width>),)*
                _ => bytes.gather(geometry, policy, indices, blocks, Bytes::copy_wide),
            }
        };
    }
    by_width!(1 2 4 6 8 12 16 32 64)
}

/// The memory that blocks are copied from and to. Its sizes fit each other: see [`gather_bytes`].
struct Bytes<'a> {
    data: &'a [u8],
    /// Bytes of a chunk of `data`.
    chunk: usize,
    /// Blocks of the output from one chunk to the next.
    count: usize,
    /// Bytes of a block.
    block: usize,
    zero: &'a [u8],
    output: &'a mut [MaybeUninit<u8>],
}

impl Bytes<'_> {
    fn gather(
        mut self,
        geometry: Geometry<'_>,
        policy: IndexPolicy,
        indices: Indices<'_>,
        blocks: Range<usize>,
        copy: fn(&mut Self, Piece<'_>),
    ) -> Result<(), AnyBadIndex> {
        for_each_piece(geometry, policy, indices, blocks, &mut |piece| copy(&mut self, piece))
    }

    /// For each chunk of a piece, the memory that its blocks come from and that they go to.
    fn chunks<'s>(
        &'s mut self,
        piece: &Piece<'_>,
    ) -> impl Iterator<Item = (&'s [u8], &'s mut [MaybeUninit<u8>])> {
        let length = piece.slots.len() * self.block;
        let (data, size) = (self.data, self.chunk);
        let data = piece.chunks.clone().map(move |chunk| &data[chunk * size..][..size]);
        let stride = (self.count * self.block).max(length);
        let output = self.output[piece.at * self.block..].chunks_mut(stride);
        data.zip(output.map(move |output| &mut output[..length]))
    }

    /// Blocks of `N` bytes: moves without a call.
    fn copy_narrow<const N: usize>(&mut self, piece: Piece<'_>) {
        let zero: [u8; N] = std::array::from_fn(|i| self.zero[i % self.zero.len()]);
        for (data, output) in self.chunks(&piece) {
            let (data, _) = data.as_chunks::<N>();
            let (output, _) = output.as_chunks_mut::<N>();
            let blocks = output.iter_mut().zip(piece.slots);
            if piece.all_in_range {
                for (block, &slot) in blocks {
                    debug_assert!(slot < data.len());
                    // SAFETY: `resolve` gave a number below the product of dims, which is how many
                    // blocks a chunk of data has; where a chunk is all batches, `add_batches` added
                    // that product for each batch before, of which there are `batch`.
                    let element = unsafe { data.get_unchecked(slot) };
                    *block = element.map(MaybeUninit::new);
                }
            } else {
                for (block, &slot) in blocks {
                    // OUT_OF_RANGE is beyond every slice.
                    *block = data.get(slot).unwrap_or(&zero).map(MaybeUninit::new);
                }
            }
        }
    }

    /// Blocks of any size.
    fn copy_wide(&mut self, piece: Piece<'_>) {
        let (block, zero) = (self.block, self.zero);
        for (data, output) in self.chunks(&piece) {
            for (number, (output, &slot)) in
                output.chunks_exact_mut(block).zip(piece.slots).enumerate()
            {
                if let Some(&next) = piece.slots.get(number + 1) {
                    prefetch(data, next.wrapping_mul(block), block);
                }
                if slot == OUT_OF_RANGE {
                    for (byte, &zero) in output.iter_mut().zip(zero.iter().cycle()) {
                        byte.write(zero);
                    }
                } else {
                    let from = &data[slot * block..][..block];
                    // SAFETY: two slices of `block` bytes, and one of them is mutable.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            from.as_ptr(),
                            output.as_mut_ptr().cast(),
                            block,
                        )
                    };
                }
            }
        }
    }
}

/// Asks the processor to fetch what is at `offset` in `data`, a page of it at most, while it copies
/// something else. Rows of 3 KiB in no order, of a table that no cache holds, come in 1.2 times less
/// time so.
#[inline(always)]
fn prefetch(data: &[u8], offset: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..length.min(4096)).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = data.as_ptr().wrapping_add(offset).wrapping_add(line);
        // SAFETY: a hint: it reads nothing that a program could see and never faults, whatever the
        // address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, offset, length);
}

/// Asks Linux for pages of 2 MiB in new memory of more than 32 MiB, which the C library gives back to
/// the system at once when it is freed, so that each run finds it unmapped: with pages of 4 KiB,
/// mapping 190 MiB took five times as long as copying them.
fn ask_for_huge_pages(bytes: &mut [MaybeUninit<u8>]) {
    #[cfg(target_os = "linux")]
    {
        const LARGE: usize = 32 << 20;
        const HUGE_PAGE: usize = 2 << 20;
        if bytes.len() > LARGE {
            let before = bytes.as_ptr().align_offset(HUGE_PAGE);
            let pages = bytes[before..].chunks_exact_mut(HUGE_PAGE);
            let length = pages.len() * HUGE_PAGE;
            // SAFETY: whole pages of memory that is ours alone; the advice leaves their contents.
            // An error means that there are no such pages, which is fine.
            unsafe {
                libc::madvise(bytes[before..].as_mut_ptr().cast(), length, libc::MADV_HUGEPAGE)
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::NegativeIndex;

    const GATHER_8: IndexPolicy =
        IndexPolicy { negative: NegativeIndex::FromEnd, out_of_range: OutOfRange::Zeros };
    const CHECKED: IndexPolicy =
        IndexPolicy { negative: NegativeIndex::OutOfRange, out_of_range: OutOfRange::Error };

    /// The formula, for one byte after the other.
    fn expected(geometry: Geometry<'_>, data: &[u8], indices: &[i32], zero: &[u8]) -> Vec<u8> {
        let Geometry { batch, outer, count, dims, block } = geometry;
        let mut output = vec![];
        for chunk in 0..batch * outer {
            for i in 0..count {
                let tuple = &indices[(chunk / outer * count + i) * dims.len()..][..dims.len()];
                let mut number = Some(chunk);
                for (&index, &size) in tuple.iter().zip(dims) {
                    let position = if index < 0 { index + size as i32 } else { index };
                    let valid = (0..size as i32).contains(&position);
                    number = number.filter(|_| valid).map(|n| n * size + position as usize);
                }
                for byte in 0..block {
                    output.push(match number {
                        Some(number) => data[number * block + byte],
                        None => zero[byte % zero.len()],
                    });
                }
            }
        }
        output
    }

    fn entries(length: usize, low: i32, high: i32) -> Vec<i32> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            state >> 8
        };
        (0..length).map(|_| low + (next() % (high - low) as u32) as i32).collect()
    }

    /// Ranges of blocks that begin and end anywhere, in pieces, chunks and batches, put together to
    /// the whole output: what threads do.
    #[test]
    fn any_range_of_blocks() {
        for (batch, outer, count, dims, block) in [
            (1, 1, 3000, &[7][..], 1),
            (3, 1, 1, &[7], 4),
            (3, 1, 700, &[7], 12),
            (2, 5, 3, &[4], 2),
            (2, 3, 1025, &[4], 8),
            (1, 4, 2049, &[5], 24),
            (2, 1, 1030, &[3, 2], 6),
            (2, 1, 5, &[3, 2, 4], 100),
            (1, 1, 9, &[2, 3, 2, 2], 16),
            (2, 1, 4, &[], 32),
            (1, 2, 3, &[0], 64),
        ] {
            let geometry = Geometry { batch, outer, count, dims, block };
            let data: Vec<u8> =
                (0..geometry.data_len().unwrap()).map(|k| (k % 251) as u8).collect();
            let indices = entries(batch * count * dims.len(), -9, 9);
            let zero = [1, 2];
            let zero = if block.is_multiple_of(2) { &zero[..] } else { &zero[..1] };
            let expected = expected(geometry, &data, &indices, zero);
            let blocks = geometry.blocks();
            for step in [1, 2, 3, count, count + 1, 1024, 1025, blocks].map(|step| step.min(blocks))
            {
                let mut output = vec![];
                for first in (0..blocks).step_by(step) {
                    let range = first..(first + step).min(blocks);
                    let mut part = vec![MaybeUninit::new(255); range.len() * block];
                    gather_range(
                        geometry,
                        GATHER_8,
                        &data,
                        Indices::I32(&indices),
                        zero,
                        range,
                        &mut part,
                    )
                    .unwrap();
                    // SAFETY: it was made of initialised bytes.
                    output.extend(part.into_iter().map(|byte| unsafe { byte.assume_init() }));
                }
                assert!(output == expected, "{geometry:?} by {step}");
            }
        }
    }

    /// The loops that are compiled for several vector units give what one index at a time gives.
    #[test]
    fn resolving_many_at_a_time() {
        fn check<I: IndexElement>(indices: &[I]) {
            for policy in [GATHER_8, CHECKED] {
                for size in [0, 1, 7, 100, 1 << 20, isize::MAX as usize] {
                    let mut scratch = vec![MaybeUninit::uninit(); indices.len()];
                    let singles = indices.as_chunks::<1>().0;
                    let all = resolve_tuples(singles, [size], policy, &mut scratch);
                    // SAFETY: as many slots as indices were written.
                    let slots = scratch.iter().map(|slot| unsafe { slot.assume_init() });
                    let one_by_one = indices
                        .iter()
                        .map(|i| policy.resolve(i.to_i64(), size))
                        .collect::<Vec<_>>();
                    let slots: Vec<_> = slots.map(|s| (s != OUT_OF_RANGE).then_some(s)).collect();
                    assert_eq!(slots, one_by_one);
                    assert_eq!(all, one_by_one.iter().all(|slot| slot.is_some()));
                }
            }
        }
        for length in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100] {
            let entries = entries(length, -130, 130);
            check(&entries);
            check(&entries.iter().map(|&i| i as i8).collect::<Vec<_>>());
            check(&entries.iter().map(|&i| i as u8).collect::<Vec<_>>());
            check(&entries.iter().map(|&i| i as i16).collect::<Vec<_>>());
            check(&entries.iter().map(|&i| i as u16).collect::<Vec<_>>());
            check(&entries.iter().map(|&i| i as u32).collect::<Vec<_>>());
            check(&entries.iter().map(|&i| i64::from(i) << 24).collect::<Vec<_>>());
            check(&entries.iter().map(|&i| i as u64).collect::<Vec<_>>());
        }
    }
}
