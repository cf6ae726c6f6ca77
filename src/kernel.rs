//! The file that moves elements: both operators, in their common form, which [`geometry`](crate::geometry)
//! says.
//!
//! The work is done in pieces of at most [`PIECE`] tuples, in two steps: resolve the tuples of a
//! piece into block numbers, by the operator's [`IndexPolicy`], then copy the blocks. The first step
//! knows the integer type and the policy, the second one the width of a block; so neither multiplies
//! the other's cases, and the outer blocks of a batch share the resolved numbers. The scratch memory
//! is that piece, on the stack: `PIECE` numbers, 8 KiB. Where indices are block numbers as they are, the
//! first step only makes sure of that.
//!
//! The output is one sequence of blocks, and any range of it can be gathered on its own: that is how
//! threads share the work.
//!
//! This is the only file with `unsafe`: for memory that is not written twice, for loops over narrow
//! blocks without a check each, and for instructions that not every processor has. Elements that own
//! memory are cloned in safe code.

#![allow(unsafe_code)]

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;
use std::ops::{Range, RangeInclusive};

use tract_core::prelude::{DatumType, Tensor, TractResult};
use tract_core::tract_data::internal::anyhow;

use crate::geometry::{BadIndex, Geometry, Indices, check, with_indices};
use crate::index::{IndexElement, IndexPolicy, OUT_OF_RANGE, OutOfRange};
use crate::threads;

/// How many tuples are resolved at a time: few enough to stay in the first-level cache.
const PIECE: usize = 1024;

/// An index is out of range where that is an error. Which is the first, [`check`] says: the pieces of
/// several threads are not resolved in order.
#[derive(Debug)]
struct AnyBadIndex;

/// For each tuple of a piece the number of the block that it picks from a chunk of `data`.
#[derive(Clone, Copy)]
enum Slots<'a> {
    /// Or [`OUT_OF_RANGE`].
    WithGaps(&'a [usize]),
    Resolved(&'a [usize]),
    /// The indices as they are.
    I32(&'a [i32]),
    I64(&'a [i64]),
}

macro_rules! with_slots {
    ($slots:expr, $slice:ident => $body:expr) => {
        match $slots {
            Slots::WithGaps($slice) | Slots::Resolved($slice) => $body,
            Slots::I32($slice) => $body,
            Slots::I64($slice) => $body,
        }
    };
}
impl<'a> Slots<'a> {
    /// Single indices that are all in `0..size`, without another copy of them: scalars were gathered
    /// 1.3 times as fast so. Only for the two types that indices mostly have.
    fn direct(indices: Indices<'a>, dims: &[usize], tuples: Range<usize>) -> Option<Slots<'a>> {
        let &[size] = dims else { return None };
        match indices {
            Indices::I32(indices) => {
                let indices = &indices[tuples];
                // A negative number becomes an unsigned one from 2^31 on.
                let size = size.min(1 << 31) as u32;
                let all = vectorized(All(indices, |index: i32| (index as u32) < size));
                all.then_some(Slots::I32(indices))
            }
            Indices::I64(indices) => {
                let indices = &indices[tuples];
                let size = size as u64;
                let all = vectorized(All(indices, |index: i64| (index as u64) < size));
                all.then_some(Slots::I64(indices))
            }
            _ => None,
        }
    }

    fn len(&self) -> usize {
        with_slots!(self, slots => slots.len())
    }
}

/// An entry of [`Slots`].
trait Slot: Copy {
    fn number(self) -> usize;
}

impl Slot for usize {
    #[inline(always)]
    fn number(self) -> usize {
        self
    }
}

impl Slot for i32 {
    #[inline(always)]
    fn number(self) -> usize {
        self as usize
    }
}

impl Slot for i64 {
    #[inline(always)]
    fn number(self) -> usize {
        self as usize
    }
}

/// Tuples that have been resolved, for a number of chunks of `data`.
struct Piece<'a> {
    slots: Slots<'a>,
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
    let Geometry { outer, count, dims, .. } = geometry;
    let mut scratch = [const { MaybeUninit::uninit() }; PIECE];
    if geometry.merges_batches() {
        for tuples in pieces(blocks.clone()) {
            let at = tuples.start - blocks.start;
            let resolved = resolve(indices, tuples.clone(), dims, policy, &mut scratch)?;
            add_batches(resolved.numbers, tuples.start, count, geometry.choices());
            copy(Piece { slots: resolved.slots(), chunks: 0..1, at });
        }
        return Ok(());
    }
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
        for tuples in pieces(first..first + length) {
            let at = start - blocks.start + (tuples.start - first);
            let slots = match Slots::direct(indices, dims, tuples.clone()) {
                Some(slots) => slots,
                None => resolve(indices, tuples, dims, policy, &mut scratch)?.slots(),
            };
            copy(Piece { slots, chunks: chunk..chunk + outers, at });
        }
        start += outers * length;
    }
    Ok(())
}

/// A range in pieces of at most [`PIECE`].
fn pieces(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(PIECE).map(move |first| first..range.end.min(first + PIECE))
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

/// The numbers of blocks that tuples have been turned into, or [`OUT_OF_RANGE`].
struct Resolved<'s> {
    numbers: &'s mut [usize],
    all_in_range: bool,
}

impl<'s> Resolved<'s> {
    fn slots(self) -> Slots<'s> {
        if self.all_in_range {
            Slots::Resolved(self.numbers)
        } else {
            Slots::WithGaps(self.numbers)
        }
    }
}

/// Turns each tuple into the number of the block that it picks, or into [`OUT_OF_RANGE`]. A number
/// that is not `OUT_OF_RANGE` is below the product of `dims`.
fn resolve<'s>(
    indices: Indices<'_>,
    tuples: Range<usize>,
    dims: &[usize],
    policy: IndexPolicy,
    scratch: &'s mut [MaybeUninit<usize>; PIECE],
) -> Result<Resolved<'s>, AnyBadIndex> {
    /// Whether all are in range.
    fn resolve<I: IndexElement>(
        tuples: &[I],
        dims: &[usize],
        policy: IndexPolicy,
        scratch: &mut [MaybeUninit<usize>],
    ) -> bool {
        assert_eq!(tuples.len(), scratch.len() * dims.len());
        match *dims {
            // A tuple of length 0 picks the whole slice, the only one there is.
            [] => {
                scratch.fill(MaybeUninit::new(0));
                true
            }
            [a] => resolve_tuples(tuples, [a], policy, scratch),
            [a, b] => resolve_tuples(tuples, [a, b], policy, scratch),
            [a, b, c] => resolve_tuples(tuples, [a, b, c], policy, scratch),
            _ => {
                let mut all_in_range = true;
                for (slot, tuple) in scratch.iter_mut().zip(tuples.chunks_exact(dims.len())) {
                    let number = number(tuple, dims, policy);
                    slot.write(number);
                    all_in_range &= number != OUT_OF_RANGE;
                }
                all_in_range
            }
        }
    }
    fn resolve_tuples<I: IndexElement, const L: usize>(
        tuples: &[I],
        dims: [usize; L],
        policy: IndexPolicy,
        scratch: &mut [MaybeUninit<usize>],
    ) -> bool {
        let (tuples, _) = tuples.as_chunks();
        vectorized(ResolveTuples { tuples, dims, policy, scratch })
    }
    let scratch = &mut scratch[..tuples.len()];
    let entries = tuples.start * dims.len()..tuples.end * dims.len();
    let all_in_range =
        with_indices!(indices, slice => resolve(&slice[entries], dims, policy, scratch));
    if policy.out_of_range == OutOfRange::Error && !all_in_range {
        return Err(AnyBadIndex);
    }
    // SAFETY: each arm has written every slot: there are as many tuples as slots, and the loops run
    // through both together.
    let numbers = unsafe { &mut *(scratch as *mut [MaybeUninit<usize>] as *mut [usize]) };
    Ok(Resolved { numbers, all_in_range })
}

/// Resolves tuples of a known length: see [`vectorized`]. Says whether all are in range.
struct ResolveTuples<'a, I, const L: usize> {
    tuples: &'a [[I; L]],
    dims: [usize; L],
    policy: IndexPolicy,
    scratch: &'a mut [MaybeUninit<usize>],
}

impl<I: IndexElement, const L: usize> Loop for ResolveTuples<'_, I, L> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let ResolveTuples { tuples, dims, policy, scratch } = self;
        let mut all_in_range = true;
        for (slot, tuple) in scratch.iter_mut().zip(tuples) {
            let number = number(tuple, &dims, policy);
            slot.write(number);
            all_in_range &= number != OUT_OF_RANGE;
        }
        all_in_range
    }
}

/// Whether a condition holds for all elements. Does not stop at the first for which it does not, so
/// that it can look at many at a time.
struct All<'a, T, F>(&'a [T], F);

impl<T: Copy, F: Fn(T) -> bool> Loop for All<'_, T, F> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.0.iter().fold(true, |all, &element| all & (self.1)(element))
    }
}

/// A loop in plain Rust that is compiled for several vector units.
trait Loop {
    type Output;

    /// To be inlined, or it is compiled for the oldest processor whatever calls it.
    fn run(self) -> Self::Output;
}

/// Vector units to compile for. `Portable` are those that every processor of the target has.
#[cfg(any(test, target_arch = "x86_64"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Vectors {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

#[cfg(any(test, target_arch = "x86_64"))]
impl Vectors {
    /// The widest that this machine has.
    fn detect() -> Vectors {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                return Vectors::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Vectors::Avx2;
            }
        }
        Vectors::Portable
    }

    /// Those to use: what the machine has, but in tests that ask for less.
    fn selected() -> Vectors {
        #[cfg(test)]
        return Vectors::detect().min(tests::WIDEST.get());
        #[cfg(not(test))]
        Vectors::detect()
    }
}

/// Runs a loop with the vector units that the machine turns out to have. Gathering scalars took 1.5 to
/// 2.4 times as long without, rows of 1 to 3 KiB 1.2 times.
#[inline]
fn vectorized<L: Loop>(body: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512<L: Loop>(body: L) -> L::Output {
            body.run()
        }
        #[target_feature(enable = "avx2")]
        fn avx2<L: Loop>(body: L) -> L::Output {
            body.run()
        }
        match Vectors::selected() {
            // SAFETY: the machine has these instructions.
            Vectors::Avx512 => return unsafe { avx512(body) },
            Vectors::Avx2 => return unsafe { avx2(body) },
            Vectors::Portable => (),
        }
    }
    body.run()
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

/// What both operators work on. `data` are bytes, or elements that own memory; a block that no tuple
/// picks is made of `zero`.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a, T> {
    pub geometry: Geometry<'a>,
    pub policy: IndexPolicy,
    pub data: &'a [T],
    pub indices: Indices<'a>,
    /// Its length divides that of a block.
    pub zero: &'a [T],
}

impl<T> Operands<'_, T> {
    fn first_bad_index(&self) -> BadIndex {
        let bad = check(self.indices, self.geometry.dims, self.policy);
        bad.expect_err("resolving found a bad index")
    }

    fn for_each_piece(
        &self,
        blocks: Range<usize>,
        copy: &mut dyn FnMut(Piece<'_>),
    ) -> Result<(), AnyBadIndex> {
        for_each_piece(self.geometry, self.policy, self.indices, blocks, copy)
    }
}

/// Gathers elements that own memory into `output`, which has `geometry.blocks()` blocks.
pub(crate) fn gather_values<T: Clone>(
    operands: Operands<'_, T>,
    output: &mut [T],
) -> Result<(), BadIndex> {
    let Operands { geometry, data, zero, .. } = operands;
    let (chunk_size, block) = (geometry.chunk(), geometry.block);
    let gathered = operands.for_each_piece(0..geometry.blocks(), &mut |piece| {
        for (outer, chunk) in piece.chunks.enumerate() {
            let data = &data[chunk * chunk_size..][..chunk_size];
            let output = &mut output[(piece.at + outer * geometry.count) * block..];
            let outputs = output.chunks_exact_mut(block);
            with_slots!(piece.slots, slots => for (output, slot) in outputs.zip(slots) {
                match slot.number() {
                    OUT_OF_RANGE => output.chunks_mut(zero.len()).for_each(|it| it.clone_from_slice(zero)),
                    slot => output.clone_from_slice(&data[slot * block..][..block]),
                }
            })
        }
    });
    gathered.map_err(|AnyBadIndex| operands.first_bad_index())
}

/// Gathers elements that are bytes, into a new tensor.
///
/// Follows the executor that the user of tract selected: see [`threads`].
///
/// # Panics
///
/// Unless `dt` is a type of plain bytes, `shape` is that of `geometry.blocks()` blocks of it, and the
/// sizes of the operands are those that `geometry` says.
pub(crate) fn gather_bytes(
    operands: Operands<'_, u8>,
    dt: DatumType,
    shape: &[usize],
) -> TractResult<Result<Tensor, BadIndex>> {
    let Operands { geometry, data, zero, .. } = operands;
    let Geometry { batch, outer, count, block, .. } = geometry;
    assert!(dt.is_copy());
    // SAFETY: every byte is written below, by `gather_range`, before anybody reads one; or an index is
    // bad, and the tensor is dropped. Types of plain bytes have nothing to drop.
    let mut output = unsafe { Tensor::uninitialized_dt(dt, shape)? };
    let mut view = output.try_as_plain_ram_mut()?;
    // SAFETY: MaybeUninit<u8> has the layout of u8. What is written through it is initialised.
    let bytes = unsafe { &mut *(view.as_bytes_mut() as *mut [u8] as *mut [MaybeUninit<u8>]) };
    // What `gather_range` relies on.
    assert!(block > 0 && !zero.is_empty() && block.is_multiple_of(zero.len()));
    assert_eq!(Some(data.len()), geometry.data_len());
    assert_eq!(bytes.len(), geometry.blocks() * block);

    let store = store_for(bytes, block);
    // Threads get whole chunks where there are enough, so that each resolves its tuples once.
    let row = if batch * outer >= MANY_CHUNKS && outer > 1 { count } else { 1 };
    let work = (bytes.len() / BYTES_OF_WORK).max(geometry.blocks() / BLOCKS_OF_WORK);
    let gathered = threads::fill_rows(bytes, row * block, work, |first_row, output| {
        gather_range(operands, first_row * row, store, output)
            .map_err(|AnyBadIndex| anyhow!("an index is out of range"))
    });
    Ok(gathered.map(|()| output).map_err(|_| operands.first_bad_index()))
}

/// How many chunks of `data` are enough to keep threads busy with whole ones.
const MANY_CHUNKS: usize = 64;

/// tract shares work among threads from 32768 units on, by default. A unit is so many bytes, or so many
/// blocks, that waking the threads pays: an output of 2 MiB, or of 98 304 blocks.
const BYTES_OF_WORK: usize = 64;
const BLOCKS_OF_WORK: usize = 3;

/// How wide blocks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// Through the caches, where the next operator finds them.
    Cached,
    /// Past the caches. For whole numbers of 16 bytes, to addresses that are.
    Streamed,
}

/// Gathers the blocks of the output from number `first` on, as many as `output` has. Writes all of
/// `output`, unless an index is bad.
fn gather_range<'a>(
    operands: Operands<'a, u8>,
    first: usize,
    store: Store,
    output: &'a mut [MaybeUninit<u8>],
) -> Result<(), AnyBadIndex> {
    let block = operands.geometry.block;
    let copy = match block {
        1 => Bytes::copy_narrow::<1> as fn(&mut Bytes<'a>, Piece<'_>),
        2 => Bytes::copy_narrow::<2>,
        4 => Bytes::copy_narrow::<4>,
        6 => Bytes::copy_narrow::<6>,
        8 => Bytes::copy_narrow::<8>,
        12 => Bytes::copy_narrow::<12>,
        16 => Bytes::copy_narrow::<16>,
        32 => Bytes::copy_narrow::<32>,
        64 => Bytes::copy_narrow::<64>,
        _ => Bytes::copy_wide,
    };
    let blocks = first..first + output.len() / block;
    let mut bytes = Bytes { operands, store, output };
    let gathered = operands.for_each_piece(blocks, &mut |piece| copy(&mut bytes, piece));
    #[cfg(target_arch = "x86_64")]
    if store == Store::Streamed {
        // SAFETY: every x86_64 has it. What was streamed is behind it for everybody, whoever gets the
        // memory, after an error too.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
    gathered
}

/// Where blocks are copied from and to. Its sizes fit each other: see [`gather_bytes`].
struct Bytes<'a> {
    operands: Operands<'a, u8>,
    store: Store,
    output: &'a mut [MaybeUninit<u8>],
}

impl Bytes<'_> {
    /// For each chunk of a piece, the memory that its blocks come from and that they go to.
    fn chunks<'s>(
        &'s mut self,
        piece: &Piece<'_>,
    ) -> impl Iterator<Item = (&'s [u8], &'s mut [MaybeUninit<u8>])> {
        let Operands { geometry, data, .. } = self.operands;
        let size = geometry.chunk();
        let length = piece.slots.len() * geometry.block;
        let data = piece.chunks.clone().map(move |chunk| &data[chunk * size..][..size]);
        let stride = (geometry.count * geometry.block).max(length);
        let output = self.output[piece.at * geometry.block..].chunks_mut(stride);
        data.zip(output.map(move |output| &mut output[..length]))
    }

    /// Blocks of `N` bytes: moves without a call.
    fn copy_narrow<const N: usize>(&mut self, piece: Piece<'_>) {
        fn copy_all<T: Slot, const N: usize>(
            data: &[[u8; N]],
            slots: &[T],
            output: &mut [[MaybeUninit<u8>; N]],
        ) {
            for (block, slot) in output.iter_mut().zip(slots) {
                debug_assert!(slot.number() < data.len());
                // SAFETY: `resolve` gave a number below the product of dims, which is how many blocks a
                // chunk of data has; where a chunk is all batches, `add_batches` added that product for
                // each batch before, of which there are `batch`. `Slots::direct` made sure that an
                // index is not negative and below the only one of dims.
                let element = unsafe { data.get_unchecked(slot.number()) };
                *block = element.map(MaybeUninit::new);
            }
        }
        /// Without a branch, which would be wrong every second time where half of the indices are: seven
        /// times as long. On its own, because the compiler makes a branch of it where it is inlined.
        #[inline(never)]
        fn copy_with_gaps<const N: usize>(
            data: &[[u8; N]],
            slots: &[usize],
            zero: &[u8; N],
            output: &mut [[MaybeUninit<u8>; N]],
        ) {
            let Some(last) = data.len().checked_sub(1) else {
                return output.fill(zero.map(MaybeUninit::new));
            };
            for (block, &slot) in output.iter_mut().zip(slots) {
                // OUT_OF_RANGE is beyond the last.
                let element = data[slot.min(last)];
                let element = select_unpredictable(slot <= last, element, *zero);
                *block = element.map(MaybeUninit::new);
            }
        }
        let zero = self.operands.zero;
        let zero: [u8; N] = std::array::from_fn(|i| zero[i % zero.len()]);
        for (data, output) in self.chunks(&piece) {
            let (data, _) = data.as_chunks::<N>();
            let (output, _) = output.as_chunks_mut::<N>();
            match piece.slots {
                Slots::WithGaps(slots) => {
                    let done = copy_with_gaps_in_vectors(data, slots, &zero, output);
                    copy_with_gaps(data, &slots[done..], &zero, &mut output[done..]);
                }
                Slots::Resolved(slots) => copy_all(data, slots, output),
                Slots::I32(slots) => copy_all(data, slots, output),
                Slots::I64(slots) => copy_all(data, slots, output),
            }
        }
    }

    /// Blocks of any size.
    fn copy_wide(&mut self, piece: Piece<'_>) {
        let Operands { geometry: Geometry { block, .. }, zero, .. } = self.operands;
        let store = self.store;
        for (data, output) in self.chunks(&piece) {
            // SAFETY: MaybeUninit<u8> has the layout of u8, and may be anything that u8 may.
            let data = unsafe { &*(data as *const [u8] as *const [MaybeUninit<u8>]) };
            with_slots!(piece.slots, slots => {
                vectorized(CopyBlocks { data, slots, block, zero, store, output })
            })
        }
    }
}

/// Copies the first of the blocks if there are vectors for it, and says how many. Elements of 4 bytes
/// of which half are out of range took 1.2 times as long without.
fn copy_with_gaps_in_vectors<const N: usize>(
    data: &[[u8; N]],
    slots: &[usize],
    zero: &[u8; N],
    output: &mut [[MaybeUninit<u8>; N]],
) -> usize {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
    if let Some(zero) = zero.first_chunk::<4>()
        && N == 4
        && Vectors::selected() == Vectors::Avx512
    {
        use std::arch::x86_64::*;

        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn copy<const N: usize>(
            data: &[[u8; N]],
            slots: &[[usize; 8]],
            zero: [u8; 4],
            output: &mut [[[MaybeUninit<u8>; N]; 8]],
        ) {
            assert_eq!(N, 4);
            let length = _mm512_set1_epi64(data.len() as i64);
            let zeros = _mm256_set1_epi32(i32::from_ne_bytes(zero));
            for (output, slots) in output.iter_mut().zip(slots) {
                // SAFETY: eight numbers are read and eight elements of 4 bytes written. Elements are
                // read where the number is below their count.
                unsafe {
                    let slots = _mm512_loadu_si512(slots.as_ptr().cast());
                    let valid = _mm512_cmplt_epu64_mask(slots, length);
                    let data = data.as_ptr().cast();
                    let elements = _mm512_mask_i64gather_epi32::<4>(zeros, valid, slots, data);
                    _mm256_storeu_si256(output.as_mut_ptr().cast(), elements);
                }
            }
        }
        let (slots, _) = slots.as_chunks();
        let (output, _) = output.as_chunks_mut();
        // SAFETY: the machine has these instructions.
        unsafe { copy(data, slots, *zero, output) };
        return slots.len() * 8;
    }
    _ = (data, slots, zero, output);
    0
}

/// Copies blocks from a chunk of `data`: see [`vectorized`].
struct CopyBlocks<'a, S> {
    data: &'a [MaybeUninit<u8>],
    slots: &'a [S],
    block: usize,
    zero: &'a [u8],
    store: Store,
    output: &'a mut [MaybeUninit<u8>],
}

impl<S: Slot> Loop for CopyBlocks<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        /// Of shorter blocks the processor works on several at a time as it is, and longer ones it
        /// fetches ahead itself.
        const PREFETCHED: RangeInclusive<usize> = 512..=4096;
        /// What a cache holds needs no help either.
        const SMALLEST_PREFETCHED: usize = 8 << 20;
        let (block, store) = (self.block, self.store);
        if store == Store::Streamed {
            self.each(|from, to, _| stream(from, to));
        } else if block < 64 {
            self.each(|from, to, _| copy_short(from, to));
        } else if PREFETCHED.contains(&block) && self.data.len() >= SMALLEST_PREFETCHED {
            // Rows of 3 KiB of a table that no cache holds took 1.5 times as long without, and 1.1
            // times where it was the next block and not the one after it.
            self.each(|from, to, later| copy_lines(from, to, |line| prefetch(later, line)));
        } else {
            self.each(|from, to, _| copy_lines(from, to, |_| ()));
        }
    }
}

impl<S: Slot> CopyBlocks<'_, S> {
    /// Calls `copy` for each block, with the one that will be copied after the next as well, if it is
    /// known; else with any.
    #[inline(always)]
    fn each(self, copy: impl Fn(&[MaybeUninit<u8>], &mut [MaybeUninit<u8>], &[MaybeUninit<u8>])) {
        let CopyBlocks { data, slots, block, zero, output, .. } = self;
        let at = |slot: usize| data.get(slot.wrapping_mul(block)..).and_then(|it| it.get(..block));
        for (number, (output, slot)) in output.chunks_exact_mut(block).zip(slots).enumerate() {
            let slot = slot.number();
            if slot == OUT_OF_RANGE {
                fill(output, zero);
                continue;
            }
            let from = &data[slot * block..][..block];
            let later = slots.get(number + 2).and_then(|slot| at(slot.number()));
            copy(from, output, later.unwrap_or(from));
        }
    }
}

/// Repetitions of `zero`.
fn fill(output: &mut [MaybeUninit<u8>], zero: &[u8]) {
    if let [byte] = *zero {
        output.fill(MaybeUninit::new(byte));
        return;
    }
    for (byte, &zero) in output.iter_mut().zip(zero.iter().cycle()) {
        byte.write(zero);
    }
}

/// Copies less than 64 bytes, without a call.
#[inline(always)]
fn copy_short(from: &[MaybeUninit<u8>], to: &mut [MaybeUninit<u8>]) {
    /// The first `N` and the last `N`, which may overlap.
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
        _ => {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }
    }
}

/// Copies 64 bytes or more, in lines of 64 of which the last may overlap the one before. `with_line`
/// is called for the number of each.
#[inline(always)]
fn copy_lines(from: &[MaybeUninit<u8>], to: &mut [MaybeUninit<u8>], with_line: impl Fn(usize)) {
    let last = from.len() - LINE;
    let (from_lines, rest) = from.as_chunks::<LINE>();
    for (number, (to, from)) in to.as_chunks_mut().0.iter_mut().zip(from_lines).enumerate() {
        with_line(number);
        *to = *from;
    }
    if !rest.is_empty() {
        to[last..].copy_from_slice(&from[last..]);
    }
}

/// Bytes that processors move between caches at a time.
const LINE: usize = 64;

/// Asks the processor to fetch a line of `data` while it copies something else.
#[inline(always)]
fn prefetch(data: &[MaybeUninit<u8>], line: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = data.as_ptr().wrapping_add(line * LINE);
        // SAFETY: a hint: it reads nothing that a program could see and never faults, whatever the
        // address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, line);
}

/// Copies past the caches. See [`Store::Streamed`].
#[inline(always)]
fn stream(from: &[MaybeUninit<u8>], to: &mut [MaybeUninit<u8>]) {
    assert_eq!(from.len(), to.len());
    assert!(from.len().is_multiple_of(16) && to.as_ptr().addr().is_multiple_of(16));
    #[cfg(target_arch = "x86_64")]
    for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut::<16>().0) {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
        // SAFETY: both are 16 bytes, and `to` is aligned. Every x86_64 has these instructions.
        unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), _mm_loadu_si128(from.as_ptr().cast())) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

/// Looks at new memory, of blocks to be written. Up to 32 MiB there is nothing to it.
///
/// More than that the C library by default gives back to the system at once when it is freed, so that
/// each run finds it unmapped. Then Linux is asked for pages of 2 MiB: with those of 4 KiB, mapping
/// 190 MiB took five times as long as copying them. Where an allocator has kept the memory, stores past
/// the caches, which could not hold it, took 0.7 times as long; but longer in pages that the system had
/// just zeroed.
fn store_for(bytes: &mut [MaybeUninit<u8>], block: usize) -> Store {
    const LARGE: usize = 32 << 20;
    if bytes.len() <= LARGE {
        return Store::Cached;
    }
    #[cfg(target_os = "linux")]
    {
        const HUGE_PAGE: usize = 2 << 20;
        let before = bytes.as_ptr().align_offset(HUGE_PAGE);
        let pages = bytes[before..].chunks_exact_mut(HUGE_PAGE);
        let length = pages.len() * HUGE_PAGE;
        let start = bytes[before..].as_mut_ptr().cast();
        let mut is_mapped = 0;
        // SAFETY: the start of a page of memory that is ours, and a byte for the answer for that page.
        let error = unsafe { libc::mincore(start, 1, &mut is_mapped) };
        if error == 0 && is_mapped & 1 == 0 {
            // SAFETY: whole pages of memory that is ours alone; the advice leaves their contents.
            // An error means that there are no such pages, which is fine.
            unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
            return Store::Cached;
        }
    }
    let is_aligned = block.is_multiple_of(16) && bytes.as_ptr().addr().is_multiple_of(16);
    if block >= LINE && is_aligned { Store::Streamed } else { Store::Cached }
}

#[cfg(test)]
mod tests;
