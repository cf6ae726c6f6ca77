//! Copies elements: computes the operators in their common form, which [`geometry`](crate::geometry) defines.
//!
//! * `pieces.rs` cuts the output into parts, and those into pieces of a few hundred blocks;
//! * `tuples.rs` resolves the tuples of a piece into block numbers, by the index policy;
//! * `blocks.rs` copies those blocks;
//! * `elements.rs` does both in one loop, for parts of single elements;
//! * `processor/` has instructions of certain processors;
//! * `memory.rs` prepares the memory of large outputs.
//!
//! Resolving depends on the integer type and the policy, copying on the size of a block. As separate steps they
//! need no code for each combination, and the outer positions of a batch share the block numbers. Those of one
//! piece are on the stack. `elements.rs` has such code for the most common gathers of single elements.
//!
//! Any range of the output's blocks can be gathered separately. That is how threads share the work.
//!
//! In this crate only this folder has `unsafe`: to write the output's memory only once, for loops over narrow blocks
//! without a check of each number, and for processor instructions. Elements that own memory are cloned in safe code.

mod blocks;
mod elements;
mod memory;
mod pieces;
mod processor;
#[cfg(test)]
mod tests;
mod tuples;

use tract_core::prelude::{DatumType, Tensor, TractResult};
use tract_openvino_kernels::threads::fill_rows;

use crate::geometry::{BadIndex, Geometry, Indices, check, with_indices};
use crate::index::IndexPolicy;

/// The inputs of the kernel. `data` has bytes, or elements that own memory. A tuple out of range picks a block that
/// repeats `zero`.
pub(crate) struct Operands<'a, T> {
    geometry: Geometry<'a>,
    policy: IndexPolicy,
    data: &'a [T],
    indices: Indices<'a>,
    zero: &'a [T],
    /// How many blocks a table of `data` has: those that are numbered together.
    blocks_per_table: usize,
}

impl<'a, T> Operands<'a, T> {
    /// # Panics
    ///
    /// If the sizes are not those of `geometry`, a block is empty, or the length of `zero` does not divide it.
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
        assert!(geometry.columns > 0 && geometry.tuples_per_batch.is_multiple_of(geometry.columns));
        let entries = with_indices!(indices, slice => slice.len());
        assert_eq!(
            entries,
            geometry.batch * geometry.tuples_per_batch * geometry.gathered_dims.len()
        );
        let blocks_per_table = geometry.blocks_per_table();
        Operands { geometry, policy, data, indices, zero, blocks_per_table }
    }

    /// Table `number` of `data`.
    fn table(&self, number: usize) -> &'a [T] {
        let size = self.blocks_per_table * self.geometry.block;
        &self.data[number * size..][..size]
    }

    fn first_bad_index(&self) -> BadIndex {
        let bad = check(self.indices, self.geometry.gathered_dims, self.policy);
        bad.expect_err("resolving found a bad index")
    }
}

/// Some index is out of range, and that is an error. [`check`] finds the first one: threads do not resolve pieces
/// in order.
#[derive(Debug)]
struct AnyBadIndex;

/// Gathers elements that own memory into `output`, which has `geometry.output_blocks()` blocks.
pub(crate) fn gather_values<T: Clone>(
    operands: &Operands<'_, T>,
    output: &mut [T],
) -> Result<(), BadIndex> {
    let blocks = 0..operands.geometry.output_blocks();
    let gathered = pieces::parts(operands.geometry, blocks).try_for_each(|part| {
        pieces::for_each_piece::<u64, T>(operands, &part, &mut |piece| {
            blocks::clone_piece(operands, &piece, output);
        })
    });
    gathered.map_err(|AnyBadIndex| operands.first_bad_index())
}

/// Gathers plain bytes into a new tensor, on the executor that the user of tract selected: see [`fill_rows`].
///
/// # Panics
///
/// If `dt` is not a type of plain bytes, or `shape` not that of `geometry.output_blocks()` blocks of it.
pub(crate) fn gather_bytes(
    operands: &Operands<'_, u8>,
    dt: DatumType,
    shape: &[usize],
) -> TractResult<Result<Tensor, BadIndex>> {
    let Geometry { batch, outer, tuples_per_batch, block, .. } = operands.geometry;
    assert!(dt.is_copy());
    // SAFETY: `blocks` writes every byte below, before anybody reads one; or an index is bad, and the tensor
    // is dropped. Types of plain bytes have nothing to drop.
    #[allow(unsafe_code)]
    let mut output = unsafe { Tensor::uninitialized_dt(dt, shape)? };
    let mut view = output.try_as_plain_ram_mut()?;
    // SAFETY: `blocks` copies bytes of `data` and zeros there, which are initialised.
    #[allow(unsafe_code)]
    let bytes = unsafe { memory::as_uninit_mut(view.as_bytes_mut()) };
    assert_eq!(bytes.len(), operands.geometry.output_blocks() * block);

    let store = memory::store_for(bytes, block);
    // If there are enough tables, threads get whole ones, and resolve their tuples only once.
    let row = if batch * outer >= MANY_TABLES && outer > 1 { tuples_per_batch } else { 1 };
    let work = work(operands.geometry.output_blocks(), block);
    let gathered = fill_rows(bytes, row * block, work, |first_row, output| {
        blocks::gather_range(operands, first_row * row, store, output)
    });
    Ok(gathered.map(|()| output).map_err(|AnyBadIndex| operands.first_bad_index()))
}

/// With this many tables of `data`, whole ones keep all threads busy.
const MANY_TABLES: usize = 64;

/// The work of a gather, in picoseconds. tract's default threshold, which is 12 microseconds of it, is about the time that it takes to
/// wake a thread.
fn work(blocks: usize, block: usize) -> usize {
    const BYTE: usize = 24;
    let for_a_block: usize = if blocks::is_narrow(block) { 384 } else { 3072 };
    blocks.saturating_mul(for_a_block.saturating_add(block.saturating_mul(BYTE)))
}

/// How blocks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// Into the caches, where the next operator finds them.
    Cached,
    /// Past the caches: for blocks that are not narrow and that [can be streamed](processor::can_stream).
    Streamed,
}
