//! The common form of the operators: what the kernel computes.
//!
//! ```text
//! data    [batch][outer][gathered_dims...][columns][block]
//! indices [batch][tuples_per_batch][gathered_dims.len()]
//! output  [batch][outer][tuples_per_batch][block]
//!
//! output[b][o][i] = data[b][o][indices[b][i][0], indices[b][i][1], ...][i % columns]
//! ```
//!
//! A *tuple* is a run of indices, one for each gathered axis. It picks a *block*: a run of elements that is
//! contiguous in `data` and in the output.
//!
//! | operator | `gathered_dims` | `outer` | `columns` |
//! |---|---|---|---|
//! | Gather | the size of the axis | the axes between the batch and the axis | 1 |
//! | GatherND | one size for each entry of a tuple | 1 | 1 |
//! | GatherElements | the size of the axis | 1 | the axes after the axis |
//!
//! The tuples of GatherElements pick in the columns in turn, because `indices` has the axes after the gathered
//! one too.

use crate::index::{IndexElement, IndexPolicy};

/// The sizes of the common form. `block` counts elements of the slice that the kernel gets as `data`: bytes, or
/// elements that own memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry<'a> {
    /// The product of the first `batch_dims` dimensions.
    pub batch: usize,
    /// The product of the dimensions of `data` from `batch_dims` to `axis`: how often each tuple of a batch
    /// picks.
    pub outer: usize,
    pub tuples_per_batch: usize,
    /// The sizes of the gathered axes of `data`: those that the entries of a tuple index.
    pub gathered_dims: &'a [usize],
    /// Tuple `i` of a batch picks in column `i % columns`. Divides `tuples_per_batch`.
    pub columns: usize,
    /// The size of a block.
    pub block: usize,
}

impl Geometry<'_> {
    /// How many blocks the output has.
    pub fn output_blocks(&self) -> usize {
        self.batch * self.outer * self.tuples_per_batch
    }

    /// How many blocks `data` has for each position on the outer axes.
    pub fn blocks_per_outer(&self) -> usize {
        product(self.gathered_dims.iter().copied().chain([self.columns])).unwrap_or(0)
    }

    /// Whether the batches are gathered as one, so that a batch is an offset to the number of a block. That
    /// needs `outer == 1`, and pays where batches have few tuples.
    pub fn merges_batches(&self) -> bool {
        self.batch > 1 && self.outer == 1 && self.tuples_per_batch < FEW_TUPLES
    }

    /// How many tuples pick from one *table*: a part of `data` whose blocks are numbered together.
    pub fn tuples_per_table(&self) -> usize {
        self.merged_batches() * self.tuples_per_batch
    }

    /// How many blocks a table has.
    pub fn blocks_per_table(&self) -> usize {
        self.merged_batches() * self.blocks_per_outer()
    }

    fn merged_batches(&self) -> usize {
        if self.merges_batches() { self.batch } else { 1 }
    }

    /// The size of `data`; `None` if it overflows.
    pub fn data_len(&self) -> Option<usize> {
        let sizes = [self.batch, self.outer].into_iter().chain(self.gathered_dims.iter().copied());
        product(sizes.chain([self.columns, self.block]))
    }
}

/// The product; `None` if it overflows. With a zero among the sizes it is zero, whatever the others are.
fn product(mut sizes: impl Iterator<Item = usize> + Clone) -> Option<usize> {
    let product = sizes.clone().try_fold(1usize, |product, size| product.checked_mul(size));
    product.or_else(|| sizes.any(|size| size == 0).then_some(0))
}

/// Batches of this many tuples are gathered one by one: their block numbers need no offset.
const FEW_TUPLES: usize = 128;

/// The entries of `indices`, in row-major order and in their own type.
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
            $crate::geometry::Indices::I8($slice) => $body,
            $crate::geometry::Indices::I16($slice) => $body,
            $crate::geometry::Indices::I32($slice) => $body,
            $crate::geometry::Indices::I64($slice) => $body,
            $crate::geometry::Indices::U8($slice) => $body,
            $crate::geometry::Indices::U16($slice) => $body,
            $crate::geometry::Indices::U32($slice) => $body,
            $crate::geometry::Indices::U64($slice) => $body,
        }
    };
}

pub(crate) use with_indices;

impl Indices<'_> {
    /// Entry `n`, whatever its type.
    pub fn get(&self, n: usize) -> i128 {
        with_indices!(self, slice => slice[n].to_i128())
    }
}

/// The first entry of `indices` that is out of range, where that is an error: its number in row-major order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadIndex(pub usize);

/// Checks all entries of `indices`, without a gather.
pub(crate) fn check(
    indices: Indices<'_>,
    dims: &[usize],
    policy: IndexPolicy,
) -> Result<(), BadIndex> {
    let sizes: Vec<Option<usize>> = dims.iter().copied().map(Some).collect();
    check_where_known(indices, &sizes, policy)
}

/// The same with sizes that may be unknown: entries that index such an axis are not checked.
pub(crate) fn check_where_known(
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
    if !policy.is_strict() {
        return Ok(());
    }
    with_indices!(indices, slice => check(slice, dims, policy))
}

/// For each entry the position on the axis that it indexes; `None` if it is out of range. Collected into an
/// `Option<Vec<usize>>`, one index out of range makes `None` of all.
pub(crate) fn positions<P: FromIterator<Option<usize>>>(
    indices: Indices<'_>,
    dims: &[usize],
    policy: IndexPolicy,
) -> P {
    fn positions<I: IndexElement, P: FromIterator<Option<usize>>>(
        indices: &[I],
        dims: &[usize],
        policy: IndexPolicy,
    ) -> P {
        let axes = dims.iter().cycle();
        indices
            .iter()
            .zip(axes)
            .map(|(index, &size)| policy.resolve(index.to_i64(), size))
            .collect()
    }
    with_indices!(indices, slice => positions(slice, dims, policy))
}
