//! What moves elements: the operators, in their common form, which [`geometry`](crate::geometry) says.
//!
//! * `pieces.rs` cuts the output into pieces of a few hundred blocks;
//! * `tuples.rs` resolves the tuples of a piece into block numbers, by the operator's policy;
//! * `blocks.rs` copies those blocks;
//! * `processor/` has the instructions that not every processor has;
//! * `memory.rs` looks at the memory of large outputs, `threads.rs` shares the work.
//!
//! The second step knows the integer type and the policy, the third one the size of a block; so neither
//! multiplies the other's cases, and the outer blocks of a batch share the resolved numbers. The scratch
//! memory is a piece of numbers, on the stack.
//!
//! The output is one sequence of blocks, and any range of it can be gathered on its own: that is how
//! threads share the work.
//!
//! Only in this folder is there `unsafe`: for memory that is not written twice, for loops over narrow blocks
//! without a check each, for instructions, and for threads that borrow. Elements that own memory are cloned
//! in safe code.

mod blocks;
mod memory;
mod pieces;
mod processor;
#[cfg(test)]
mod tests;
#[cfg(feature = "multithread-mm")]
mod threads;
#[cfg(not(feature = "multithread-mm"))]
#[path = "one_thread.rs"]
mod threads;
mod tuples;

use tract_core::prelude::{DatumType, Tensor, TractResult};

use crate::geometry::{BadIndex, Geometry, Indices, check, with_indices};
use crate::index::IndexPolicy;

/// What the operators work on. `data` are bytes, or elements that own memory; a block that no tuple
/// picks is made of `zero`.
pub(crate) struct Operands<'a, T> {
    geometry: Geometry<'a>,
    policy: IndexPolicy,
    data: &'a [T],
    indices: Indices<'a>,
    zero: &'a [T],
    /// How many blocks a chunk of `data` has: those that resolved tuples number together.
    chunk_blocks: usize,
}

impl<'a, T> Operands<'a, T> {
    /// # Panics
    ///
    /// Unless the sizes are those of `geometry`, a block is not empty, and the length of `zero` divides it.
    pub fn new(
        geometry: Geometry<'a>,
        policy: IndexPolicy,
        data: &'a [T],
        indices: Indices<'a>,
        zero: &'a [T],
    ) -> Self {
        assert!(
            geometry.block > 0 && !zero.is_empty() && geometry.block.is_multiple_of(zero.len())
        );
        assert_eq!(Some(data.len()), geometry.data_len());
        assert!(geometry.columns > 0 && geometry.count.is_multiple_of(geometry.columns));
        let entries = with_indices!(indices, slice => slice.len());
        assert_eq!(entries, geometry.batch * geometry.count * geometry.dims.len());
        let chunk_blocks = geometry.chunk_blocks();
        Operands { geometry, policy, data, indices, zero, chunk_blocks }
    }

    /// A chunk of `data`.
    fn chunk(&self, number: usize) -> &'a [T] {
        let size = self.chunk_blocks * self.geometry.block;
        &self.data[number * size..][..size]
    }

    fn first_bad_index(&self) -> BadIndex {
        let bad = check(self.indices, self.geometry.dims, self.policy);
        bad.expect_err("resolving found a bad index")
    }
}

/// An index is out of range where that is an error. Which is the first, [`check`] says: the pieces of
/// several threads are not resolved in order.
#[derive(Debug)]
struct AnyBadIndex;

/// Gathers elements that own memory into `output`, which has `geometry.blocks()` blocks.
pub(crate) fn gather_values<T: Clone>(
    operands: &Operands<'_, T>,
    output: &mut [T],
) -> Result<(), BadIndex> {
    let blocks = 0..operands.geometry.blocks();
    let gathered = pieces::for_each_piece::<u64, T>(operands, blocks, &mut |piece| {
        blocks::clone_piece(operands, &piece, output);
    });
    gathered.map_err(|AnyBadIndex| operands.first_bad_index())
}

/// Gathers elements that are bytes, into a new tensor.
///
/// Follows the executor that the user of tract selected: see [`threads`].
///
/// # Panics
///
/// Unless `dt` is a type of plain bytes, and `shape` is that of `geometry.blocks()` blocks of it.
pub(crate) fn gather_bytes(
    operands: &Operands<'_, u8>,
    dt: DatumType,
    shape: &[usize],
) -> TractResult<Result<Tensor, BadIndex>> {
    let Geometry { batch, outer, count, block, .. } = operands.geometry;
    assert!(dt.is_copy());
    // SAFETY: every byte is written below, by `blocks`, before anybody reads one; or an index is
    // bad, and the tensor is dropped. Types of plain bytes have nothing to drop.
    #[allow(unsafe_code)]
    let mut output = unsafe { Tensor::uninitialized_dt(dt, shape)? };
    let mut view = output.try_as_plain_ram_mut()?;
    let bytes = memory::as_uninit_mut(view.as_bytes_mut());
    assert_eq!(bytes.len(), operands.geometry.blocks() * block);

    let store = memory::store_for(bytes, block);
    // Threads get whole chunks where there are enough, so that each resolves its tuples once.
    let row = if batch * outer >= MANY_CHUNKS && outer > 1 { count } else { 1 };
    let work = work(operands.geometry.blocks(), block);
    let gathered = threads::fill_rows(bytes, row * block, work, |first_row, output| {
        blocks::gather_range(operands, first_row * row, store, output)
    });
    Ok(gathered.map(|()| output).map_err(|AnyBadIndex| operands.first_bad_index()))
}

/// How many chunks of `data` are enough to keep threads busy with whole ones.
const MANY_CHUNKS: usize = 64;

/// The work of a gather, in thirds of a nanosecond or so: tract shares from 32768 units on, by default, which
/// is about as long as it takes to wake a thread.
fn work(blocks: usize, block: usize) -> usize {
    let for_a_block = if blocks::is_narrow(block) { 1 } else { 8 };
    blocks * for_a_block + blocks * block / 16
}

/// How blocks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// Through the caches, where the next operator finds them.
    Cached,
    /// Past the caches. For blocks that are not narrow and [can be](processor::can_stream).
    Streamed,
}
