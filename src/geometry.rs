//! The one form that the operators have after their shapes have been reduced.
//!
//! ```text
//! data    [batch][outer][dims...][columns][block]
//! indices [batch][count][dims.len()]
//! output  [batch][outer][count][block]
//!
//! output[b][o][i] = data[b][o][indices[b][i][0], indices[b][i][1], ...][i % columns]
//! ```
//!
//! A *block* is a run of elements that is contiguous in `data` and in `output`. Gather is the case
//! of tuples of length one (`dims` is the size of the gathered axis alone), GatherND the case
//! `outer = 1`. Both have one column. In GatherElements the tuples pick in the columns in turn: those are
//! the positions on the axes behind the gathered one, which `indices` has as well.

use crate::index::{IndexElement, IndexPolicy, OutOfRange};

/// The common form of the operators. A block is counted in what `data` is a slice of: bytes, or
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
    /// Tuple number `i` of a batch picks in column `i % columns`. It divides `count`.
    pub columns: usize,
    /// The size of the slice that a tuple picks.
    pub block: usize,
}

impl Geometry<'_> {
    /// How many blocks the output has.
    pub fn blocks(&self) -> usize {
        self.batch * self.outer * self.count
    }

    /// How many blocks a tuple of one batch chooses from.
    pub fn choices(&self) -> usize {
        product(self.dims.iter().copied().chain([self.columns])).unwrap_or(0)
    }

    /// Whether the batches are gathered as one, from the whole of `data`: where nothing lies between
    /// them and the gathered axes, a batch is an offset to the number of a block. It pays where batches
    /// have few tuples each.
    pub fn merges_batches(&self) -> bool {
        self.batch > 1 && self.outer == 1 && self.count < FEW_TUPLES
    }

    /// How many tuples pick from the same chunk: the part of `data` whose blocks are numbered together.
    pub fn tuples_of_chunk(&self) -> usize {
        self.merged_batches() * self.count
    }

    /// How many blocks a chunk has.
    pub fn chunk_blocks(&self) -> usize {
        self.merged_batches() * self.choices()
    }

    fn merged_batches(&self) -> usize {
        if self.merges_batches() { self.batch } else { 1 }
    }

    /// The size of `data`, unless it overflows.
    pub fn data_len(&self) -> Option<usize> {
        let sizes = [self.batch, self.outer].into_iter().chain(self.dims.iter().copied());
        product(sizes.chain([self.columns, self.block]))
    }
}

/// The product, unless it overflows. A zero makes it zero, whatever the others are.
fn product(mut sizes: impl Iterator<Item = usize> + Clone) -> Option<usize> {
    let product = sizes.clone().try_fold(1usize, |product, size| product.checked_mul(size));
    product.or_else(|| sizes.any(|size| size == 0).then_some(0))
}

/// From so many on a batch is gathered on its own, which may take the indices as they are.
const FEW_TUPLES: usize = 128;

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

/// The position that each entry stands for, on the axis that it walks; `None` if it is out of range. An
/// `Option<Vec<usize>>` is `None` if one of them is.
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
