//! What an index means: arithmetic on plain integers, without tensors.
//!
//! An index is an entry of `indices`, an axis of `data` has the size `s`. Which indices are in range, and what
//! becomes of the others, is the [`IndexPolicy`] of the operator's revision. Only this file turns an index into
//! a position on an axis.

use std::error::Error;
use std::fmt;

/// Which indices are in range on an axis of size `s`, and what becomes of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IndexPolicy {
    /// `[0, s - 1]` is in range; any other index is an [`IndexError`]. (Gather-1, Gather-7, GatherND and
    /// GatherElements, "Inputs".)
    NonNegative,
    /// `[-s, s - 1]` is in range, where negative indices count from the end: -1 is the last position. Any other
    /// index is an [`IndexError`].
    Wrap,
    /// `[-s, s - 1]` is in range, as for [`Wrap`](Self::Wrap). For any other index the output is filled with
    /// zeros. (Gather-8, "Inputs" and example 7.)
    WrapOrZeros,
}

/// The text in dumps of models.
impl fmt::Display for IndexPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IndexPolicy::NonNegative => "negative or out of range: error",
            IndexPolicy::Wrap => "negative: from the end, out of range: error",
            IndexPolicy::WrapOrZeros => "negative: from the end, out of range: zeros",
        })
    }
}

impl IndexPolicy {
    /// The position that `index` stands for on an axis of this size; `None` if it is out of range.
    ///
    /// ```
    /// use tract_openvino::IndexPolicy;
    ///
    /// let gather_8 = IndexPolicy::WrapOrZeros;
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

    /// Whether -1 is the last position.
    #[inline(always)]
    pub(crate) fn counts_from_end(self) -> bool {
        self != IndexPolicy::NonNegative
    }

    /// Whether an index out of range is an error; else it gives zeros.
    pub(crate) fn is_strict(self) -> bool {
        self != IndexPolicy::WrapOrZeros
    }
}

/// Unsigned integers for positions on an axis, and for block numbers: positions on several axes, in row-major
/// order.
pub(crate) trait Position: Copy + Eq {
    /// Larger than every size, so no axis has this position.
    const OUT_OF_RANGE: Self;

    /// The size of the longest axis that fits. For `u64` no axis in memory is longer.
    const MAX_SIZE: usize;

    /// The size, but at most [`MAX_SIZE`](Self::MAX_SIZE).
    fn from_size(size: usize) -> Self;

    fn to_usize(self) -> usize;

    /// [`IndexPolicy::resolve`] without a branch: [`OUT_OF_RANGE`](Self::OUT_OF_RANGE) instead of `None`.
    fn resolve<I: IndexElement>(policy: IndexPolicy, index: I, size: Self) -> Self;

    /// The position on these axes and one more, of this size: `self * size + position`.
    fn append_axis(self, size: Self, position: Self) -> Self;

    /// The same numbers, if they have 32 bits.
    fn as_u32s(numbers: &[Self]) -> Option<&[u32]>;
}

macro_rules! position {
    ($unsigned:ty, $signed:ty, $as_u32s:expr) => {
        impl Position for $unsigned {
            const OUT_OF_RANGE: Self = Self::MAX;
            const MAX_SIZE: usize = <$signed>::MAX as usize;

            #[inline(always)]
            fn from_size(size: usize) -> Self {
                size.min(Self::MAX_SIZE) as Self
            }

            #[inline(always)]
            fn to_usize(self) -> usize {
                self as usize
            }

            #[inline(always)]
            fn resolve<I: IndexElement>(policy: IndexPolicy, index: I, size: Self) -> Self {
                // An index that is clamped is out of range on every axis, before and after. Neither the
                // cast nor the sum of a negative index and a size can overflow. What is negative then becomes
                // an unsigned number above every size.
                let index = index.to_i64().clamp(<$signed>::MIN.into(), <$signed>::MAX.into());
                let index = if policy.counts_from_end() && index < 0 {
                    index as $signed + size as $signed
                } else {
                    index as $signed
                };
                if (index as Self) < size { index as Self } else { Self::OUT_OF_RANGE }
            }

            #[inline(always)]
            fn append_axis(self, size: Self, position: Self) -> Self {
                self.wrapping_mul(size).wrapping_add(position)
            }

            fn as_u32s(numbers: &[Self]) -> Option<&[u32]> {
                $as_u32s(numbers)
            }
        }
    };
}
position!(u32, i32, Some);
position!(u64, i64, |_| None);

/// The element types of `indices`.
///
/// `to_i64` is exact but for `u64`, where it saturates at `i64::MAX`: that is out of range on every axis, because
/// an axis has at most `isize::MAX` elements, numbered from 0.
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

/// The error for an index out of range, where the operator's [`IndexPolicy`] makes that an error.
///
/// `error.downcast_ref::<IndexError>()` finds it in a `TractError`, whatever context tract has added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexError {
    /// The operator: its name with the revision, like `Gather-7`; or `ONNX Gather`, for one of the standard
    /// domain.
    pub operator: &'static str,
    /// The coordinates of the index in `indices`. Where several are out of range, the first in row-major order.
    pub position: Vec<usize>,
    /// The index.
    pub value: i128,
    /// The axis of `data` that it indexes.
    pub axis: usize,
    /// The size of that axis.
    pub size: usize,
    /// The policy that it violates.
    pub policy: IndexPolicy,
}

impl IndexError {
    /// The error for the index `value` at `position` in `indices`, into an axis of `data`.
    pub fn new(
        operator: &'static str,
        position: Vec<usize>,
        value: i128,
        axis: usize,
        size: usize,
        policy: IndexPolicy,
    ) -> IndexError {
        IndexError { operator, position, value, axis, size, policy }
    }

    /// Whether the index would be in range if negative indices counted from the end, which
    /// [`NegativeIndices::Wrap`](crate::NegativeIndices::Wrap) asks for.
    pub fn would_wrap(&self) -> bool {
        !self.policy.counts_from_end() && (-(self.size as i128)..0).contains(&self.value)
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, position, value, axis, size, policy } = self;
        write!(f, "{operator}: indices{position:?} is {value}, but ")?;
        if *size == 0 {
            return write!(f, "axis {axis} of data has size 0, so no index is in range");
        }
        let low = if policy.counts_from_end() { -(*size as i128) } else { 0 };
        let high = size - 1;
        write!(f, "must be in [{low}, {high}], as axis {axis} of data has size {size}")?;
        if self.would_wrap() {
            write!(
                f,
                " ({operator} has no negative indices; with NegativeIndices::Wrap they count from the end)"
            )?;
        }
        Ok(())
    }
}

impl Error for IndexError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve_knows_the_edges_of_both_ranges() {
        use IndexPolicy::*;
        for (policy, index, size, expected) in [
            (NonNegative, 0, 5, Some(0)),
            (NonNegative, 4, 5, Some(4)),
            (NonNegative, 5, 5, None),
            (NonNegative, -1, 5, None),
            (Wrap, 4, 5, Some(4)),
            (Wrap, 5, 5, None),
            (Wrap, -1, 5, Some(4)),
            (Wrap, -5, 5, Some(0)),
            (Wrap, -6, 5, None),
            (NonNegative, 0, 0, None),
            (Wrap, 0, 0, None),
            (Wrap, -1, 0, None),
            (Wrap, i64::MIN, 5, None),
            (Wrap, i64::MAX, 5, None),
            (NonNegative, i64::MIN, 5, None),
            (NonNegative, (1i64 << 32) + 1, 5, None),
            (Wrap, i64::MIN, isize::MAX as usize, None),
            (Wrap, i64::MAX, isize::MAX as usize, None),
            (Wrap, isize::MAX as i64 - 1, isize::MAX as usize, Some(isize::MAX as usize - 1)),
            (Wrap, -(isize::MAX as i64), isize::MAX as usize, Some(0)),
        ] {
            let policies = if policy == Wrap { &[Wrap, WrapOrZeros][..] } else { &[NonNegative] };
            for policy in policies {
                let resolved = policy.resolve(index, size);
                assert_eq!(resolved, expected, "{policy:?} index {index} size {size}");
            }
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
        let error = |value, size, policy| {
            IndexError::new("Gather-7", vec![1, 0], value, 2, size, policy).to_string()
        };
        assert_eq!(
            error(5, 5, IndexPolicy::NonNegative),
            "Gather-7: indices[1, 0] is 5, but must be in [0, 4], as axis 2 of data has size 5"
        );
        assert_eq!(
            error(-6, 5, IndexPolicy::Wrap),
            "Gather-7: indices[1, 0] is -6, but must be in [-5, 4], as axis 2 of data has size 5"
        );
        assert_eq!(
            error(-1, 5, IndexPolicy::NonNegative),
            "Gather-7: indices[1, 0] is -1, but must be in [0, 4], as axis 2 of data has size 5 (Gather-7 has \
             no negative indices; with NegativeIndices::Wrap they count from the end)"
        );
        assert_eq!(
            error(0, 0, IndexPolicy::NonNegative),
            "Gather-7: indices[1, 0] is 0, but axis 2 of data has size 0, so no index is in range"
        );
    }
}
