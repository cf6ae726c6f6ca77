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
//! knows the integer type and the policy, the second one the element type; so neither multiplies the
//! other's cases, and the outer blocks of a batch share the resolved numbers. The scratch memory is
//! that piece, on the stack: `PIECE` numbers.
//!
//! Nothing here knows tract.

use crate::index::{IndexElement, IndexPolicy, OUT_OF_RANGE, OutOfRange};

/// How many tuples are resolved at a time: few enough to stay in the first-level cache.
const PIECE: usize = 1024;

/// The common form of both operators, in numbers of elements.
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
    /// Elements in each slice that a tuple picks.
    pub block: usize,
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
///
/// `dims[k]` is `None` where the size of an axis is not known yet: nothing is said about the
/// entries that walk it.
pub(crate) fn check(
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

/// Gathers `data` into `output`. Blocks whose tuple is out of range become `zero`, where the policy
/// says so.
///
/// `data`, `indices` and `output` have the numbers of elements that `geometry` says, and `output`
/// is not empty.
pub(crate) fn gather<T: Clone>(
    geometry: Geometry<'_>,
    policy: IndexPolicy,
    data: &[T],
    indices: Indices<'_>,
    zero: &T,
    output: &mut [T],
) -> Result<(), BadIndex> {
    with_indices!(indices, slice => gather_blocks(geometry, policy, data, slice, zero, output))
}

fn gather_blocks<T: Clone, I: IndexElement>(
    geometry: Geometry<'_>,
    policy: IndexPolicy,
    data: &[T],
    indices: &[I],
    zero: &T,
    output: &mut [T],
) -> Result<(), BadIndex> {
    let Geometry { batch, outer, count, dims, block } = geometry;
    let data_chunk = dims.iter().product::<usize>() * block;
    let output_chunk = count * block;
    debug_assert_eq!(data.len(), batch * outer * data_chunk);
    debug_assert_eq!(indices.len(), batch * count * dims.len());
    debug_assert_eq!(output.len(), batch * outer * output_chunk);

    let mut slots = [0; PIECE];
    for b in 0..batch {
        for start in (0..count).step_by(PIECE) {
            let slots = &mut slots[..PIECE.min(count - start)];
            let first = (b * count + start) * dims.len();
            let tuples = &indices[first..][..slots.len() * dims.len()];
            resolve(tuples, dims, policy, slots).map_err(|BadIndex(n)| BadIndex(first + n))?;
            for chunk in b * outer..(b + 1) * outer {
                let from = &data[chunk * data_chunk..][..data_chunk];
                let to = &mut output[chunk * output_chunk + start * block..][..slots.len() * block];
                copy_blocks(from, block, slots, zero, to);
            }
        }
    }
    Ok(())
}

/// Turns each tuple into the number of the block that it picks, or into [`OUT_OF_RANGE`].
fn resolve<I: IndexElement>(
    tuples: &[I],
    dims: &[usize],
    policy: IndexPolicy,
    slots: &mut [usize],
) -> Result<(), BadIndex> {
    let mut all_in_range = true;
    if let [size] = *dims {
        for (slot, &index) in slots.iter_mut().zip(tuples) {
            *slot = policy.resolve_or_sentinel(index.to_i64(), size);
            all_in_range &= *slot != OUT_OF_RANGE;
        }
    } else if dims.is_empty() {
        // A tuple of length 0 picks the whole slice, the only one there is.
        slots.fill(0);
    } else {
        for (slot, tuple) in slots.iter_mut().zip(tuples.chunks_exact(dims.len())) {
            let mut number = 0usize;
            let mut in_range = true;
            for (&index, &size) in tuple.iter().zip(dims) {
                let position = policy.resolve_or_sentinel(index.to_i64(), size);
                in_range &= position != OUT_OF_RANGE;
                // In range, this is below the product of dims; else it is not used.
                number = number.wrapping_mul(size).wrapping_add(position);
            }
            *slot = if in_range { number } else { OUT_OF_RANGE };
            all_in_range &= in_range;
        }
    }
    match policy.out_of_range {
        OutOfRange::Zeros => Ok(()),
        OutOfRange::Error if all_in_range => Ok(()),
        OutOfRange::Error => {
            let bad = tuples.iter().zip(dims.iter().cycle()).position(|(index, &size)| {
                policy.resolve_or_sentinel(index.to_i64(), size) == OUT_OF_RANGE
            });
            Err(BadIndex(bad.expect("one of the tuples is out of range")))
        }
    }
}

fn copy_blocks<T: Clone>(data: &[T], block: usize, slots: &[usize], zero: &T, output: &mut [T]) {
    if block == 1 {
        // OUT_OF_RANGE is beyond every slice, so that the bounds check is the zero fill.
        for (element, &slot) in output.iter_mut().zip(slots) {
            *element = data.get(slot).unwrap_or(zero).clone();
        }
    } else {
        for (output, &slot) in output.chunks_exact_mut(block).zip(slots) {
            if slot == OUT_OF_RANGE {
                output.fill(zero.clone());
            } else {
                output.clone_from_slice(&data[slot * block..][..block]);
            }
        }
    }
}
