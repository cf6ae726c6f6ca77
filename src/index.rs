//! What an index means: arithmetic on plain integers, without tensors.
//!
//! The operators walk an axis of `data`, of some size `s`, with integers from `indices`. Which
//! integers are allowed, and what happens to the others, is the [`IndexPolicy`] of the operator's
//! revision. This file is the only place that turns an integer into an offset.

use std::error::Error;
use std::fmt;

/// What an index below zero stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NegativeIndex {
    /// Nothing: it is out of range. Gather-1, Gather-7 and GatherND, "Inputs": the values are in
    /// `[0, s - 1]`.
    OutOfRange,
    /// It counts from the end: −1 is the last. Gather-8, "Inputs": the values are in
    /// `[-s, s - 1]`.
    FromEnd,
}

/// What happens when an index is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutOfRange {
    /// The operator fails with [`IndexOutOfRange`].
    Error,
    /// The slice that the index should have picked is filled with zeros (Gather-8, example 7).
    Zeros,
}

/// Which indices an operator accepts, and what it does with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexPolicy {
    /// What an index below zero stands for.
    pub negative: NegativeIndex,
    /// What happens when an index is out of range.
    pub out_of_range: OutOfRange,
}

/// As a dump of a model shows it.
impl fmt::Display for IndexPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let negative = match self.negative {
            NegativeIndex::FromEnd => "negative: from the end, out of range",
            NegativeIndex::OutOfRange => "negative or out of range",
        };
        let out_of_range = match self.out_of_range {
            OutOfRange::Error => "error",
            OutOfRange::Zeros => "zeros",
        };
        write!(f, "{negative}: {out_of_range}")
    }
}

impl IndexPolicy {
    /// The position on an axis of `size` elements that `index` stands for, or `None` when it is
    /// out of range.
    ///
    /// ```
    /// use tract_openvino::{IndexPolicy, NegativeIndex, OutOfRange};
    ///
    /// let gather_8 =
    ///     IndexPolicy { negative: NegativeIndex::FromEnd, out_of_range: OutOfRange::Zeros };
    /// assert_eq!(gather_8.resolve(3, 5), Some(3));
    /// assert_eq!(gather_8.resolve(-2, 5), Some(3));
    /// assert_eq!(gather_8.resolve(5, 5), None);
    /// assert_eq!(gather_8.resolve(-6, 5), None);
    /// ```
    #[inline]
    pub fn resolve(self, index: i64, size: usize) -> Option<usize> {
        match u64::resolve(self, index, u64::from_size(size)) {
            u64::OUT_OF_RANGE => None,
            position => Some(position.to_usize()),
        }
    }
}

/// Integers for positions on an axis, and for the numbers of blocks, which are positions on several axes in
/// row-major order.
pub(crate) trait Position: Copy + Eq {
    /// The position that no axis has.
    const OUT_OF_RANGE: Self;

    /// The size of the longest axis: of `u64`, longer than any in memory.
    const MOST: usize;

    /// The size, or [`MOST`](Self::MOST) if it is larger.
    fn from_size(size: usize) -> Self;

    fn to_usize(self) -> usize;

    /// [`IndexPolicy::resolve`] without a branch: [`OUT_OF_RANGE`](Self::OUT_OF_RANGE) stands for `None`.
    fn resolve<I: IndexElement>(policy: IndexPolicy, index: I, size: Self) -> Self;

    /// The position on one axis more, of that size: this is the one on the axes before.
    fn then(self, size: Self, position: Self) -> Self;
}

macro_rules! position {
    ($unsigned:ty, $signed:ty) => {
        impl Position for $unsigned {
            const OUT_OF_RANGE: Self = Self::MAX;
            const MOST: usize = <$signed>::MAX as usize;

            #[inline(always)]
            fn from_size(size: usize) -> Self {
                size.min(Self::MOST) as Self
            }

            #[inline(always)]
            fn to_usize(self) -> usize {
                self as usize
            }

            #[inline(always)]
            fn resolve<I: IndexElement>(policy: IndexPolicy, index: I, size: Self) -> Self {
                // What does not fit is out of range of every axis, and so is what it becomes. Neither the
                // cast nor the sum of a negative number and a size overflows, and a negative number
                // becomes an unsigned one above every size.
                let index = index.to_i64().clamp(<$signed>::MIN.into(), <$signed>::MAX.into());
                let index = match policy.negative {
                    NegativeIndex::FromEnd if index < 0 => index as $signed + size as $signed,
                    _ => index as $signed,
                };
                if (index as Self) < size { index as Self } else { Self::OUT_OF_RANGE }
            }

            #[inline(always)]
            fn then(self, size: Self, position: Self) -> Self {
                self.wrapping_mul(size).wrapping_add(position)
            }
        }
    };
}
position!(u32, i32);
position!(u64, i64);

/// An integer type that indices come in.
///
/// `to_i64` keeps every value that can be in range, and sends each of the others to one that can
/// not: the only type that does not fit, `u64`, saturates at `i64::MAX`, and an axis has at most
/// `isize::MAX` elements, numbered from 0.
pub(crate) trait IndexElement: Copy {
    fn to_i64(self) -> i64;
    fn to_i128(self) -> i128;
}

macro_rules! index_element {
    ($($ty:ty),*) => { $(
        impl IndexElement for $ty {
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self.into()
            }
            fn to_i128(self) -> i128 {
                self.into()
            }
        }
    )* };
}
index_element!(i8, i16, i32, i64, u8, u16, u32);

impl IndexElement for u64 {
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.min(i64::MAX as u64) as i64
    }
    fn to_i128(self) -> i128 {
        self.into()
    }
}

/// An entry of `indices` that does not name an element of `data`, where the revision makes that
/// an error.
///
/// Get at it with `error.downcast_ref::<IndexOutOfRange>()`, whatever context tract has put around
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOutOfRange {
    /// The operator and its revision, like `Gather-7`.
    pub operator: &'static str,
    /// Where the entry stands in `indices`. The first such entry, in row-major order.
    pub position: Vec<usize>,
    /// The entry.
    pub value: i128,
    /// The axis of `data` that it indexes.
    pub axis: usize,
    /// The size of that axis.
    pub size: usize,
    /// Whether negative entries were allowed.
    pub negative: NegativeIndex,
}

impl fmt::Display for IndexOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, position, value, axis, size, negative } = self;
        write!(f, "{operator}: indices{position:?} is {value}, ")?;
        let low = match negative {
            NegativeIndex::OutOfRange => 0,
            NegativeIndex::FromEnd => -(*size as i128),
        };
        if *size == 0 {
            write!(f, "but axis {axis} of data is empty, so that no index is valid")?;
        } else {
            write!(
                f,
                "which is out of range for axis {axis} of data: its size is {size}, \
                 so that an index is in [{low}, {}]",
                size - 1
            )?;
        }
        if *negative == NegativeIndex::OutOfRange && *value < 0 && *value >= -(*size as i128) {
            write!(
                f,
                " ({operator} does not define negative indices; with NegativeIndices::Wrap they \
                 count from the end)"
            )?;
        }
        Ok(())
    }
}

impl Error for IndexOutOfRange {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve_knows_the_edges_of_both_ranges() {
        use NegativeIndex::*;
        for (negative, index, size, expected) in [
            (OutOfRange, 0, 5, Some(0)),
            (OutOfRange, 4, 5, Some(4)),
            (OutOfRange, 5, 5, None),
            (OutOfRange, -1, 5, None),
            (FromEnd, 4, 5, Some(4)),
            (FromEnd, 5, 5, None),
            (FromEnd, -1, 5, Some(4)),
            (FromEnd, -5, 5, Some(0)),
            (FromEnd, -6, 5, None),
            (OutOfRange, 0, 0, None),
            (FromEnd, 0, 0, None),
            (FromEnd, -1, 0, None),
            (FromEnd, i64::MIN, 5, None),
            (FromEnd, i64::MAX, 5, None),
            (OutOfRange, i64::MIN, 5, None),
            (OutOfRange, (1 << 32) + 1, 5, None),
            (FromEnd, i64::MIN, isize::MAX as usize, None),
            (FromEnd, i64::MAX, isize::MAX as usize, None),
            (FromEnd, i64::MAX - 1, isize::MAX as usize, Some(isize::MAX as usize - 1)),
            (FromEnd, -i64::MAX, isize::MAX as usize, Some(0)),
        ] {
            let policy = IndexPolicy { negative, out_of_range: super::OutOfRange::Error };
            assert_eq!(
                policy.resolve(index, size),
                expected,
                "{negative:?} index {index} size {size}"
            );
        }
    }

    #[test]
    fn u64_above_i64_stays_out_of_every_range() {
        for value in [i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
            assert_eq!(value.to_i64(), i64::MAX);
            assert_eq!(value.to_i128(), value as i128);
        }
        assert_eq!(7u64.to_i64(), 7);
    }

    #[test]
    fn message_names_operator_position_value_and_range() {
        let error = |value, size, negative| {
            IndexOutOfRange {
                operator: "Gather-7",
                position: vec![1, 0],
                value,
                axis: 2,
                size,
                negative,
            }
            .to_string()
        };
        assert_eq!(
            error(5, 5, NegativeIndex::OutOfRange),
            "Gather-7: indices[1, 0] is 5, which is out of range for axis 2 of data: \
             its size is 5, so that an index is in [0, 4]"
        );
        assert_eq!(
            error(-6, 5, NegativeIndex::FromEnd),
            "Gather-7: indices[1, 0] is -6, which is out of range for axis 2 of data: \
             its size is 5, so that an index is in [-5, 4]"
        );
        assert_eq!(
            error(-1, 5, NegativeIndex::OutOfRange),
            "Gather-7: indices[1, 0] is -1, which is out of range for axis 2 of data: \
             its size is 5, so that an index is in [0, 4] (Gather-7 does not define negative \
             indices; with NegativeIndices::Wrap they count from the end)"
        );
        assert_eq!(
            error(0, 0, NegativeIndex::OutOfRange),
            "Gather-7: indices[1, 0] is 0, but axis 2 of data is empty, so that no index is valid"
        );
    }
}
