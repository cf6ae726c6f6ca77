//! The revisions of the operators, as data: a row for each, and nothing else that knows them apart.

use std::fmt::Debug;

use crate::index::{IndexPolicy, NegativeIndex, OutOfRange};
use tract_core::internal::*;

/// A revision of OpenVINO's Gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GatherRevision {
    /// Gather-1: no attributes, indices in `[0, s - 1]`.
    V1,
    /// Gather-7: adds `batch_dims`.
    V7,
    /// Gather-8: adds negative indices, and zeros for those out of range.
    V8,
}

/// A revision of OpenVINO's GatherND.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GatherNdRevision {
    /// GatherND-5: the batch dimensions of the output are fused into one.
    V5,
    /// GatherND-8: the batch dimensions of the output are those of the inputs.
    V8,
}

/// What the specification says of one revision.
#[derive(Debug)]
pub struct Row {
    /// The operator and its revision, as the specification writes them.
    pub name: &'static str,
    /// The first operator set of OpenVINO that has it.
    pub since: i64,
    /// Which values the attribute `batch_dims` takes.
    pub batch_dims: BatchDims,
    /// How the batch dimensions appear in the output.
    pub batch_axes: BatchAxes,
    /// Which indices are valid.
    pub index_policy: IndexPolicy,
}

/// Which values the attribute `batch_dims` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchDims {
    /// The revision has no such attribute.
    Absent,
    /// From 0 on.
    NonNegative,
    /// Below zero it counts from `indices.rank`.
    Signed,
}

/// How the batch dimensions appear in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchAxes {
    /// One axis for each.
    Kept,
    /// One axis for all of them, of the size of their product.
    Fused,
}

/// Gather-1 and -7, GatherND-5 and -8, GatherElements-6: "the values for indices are in the range [0, s - 1]".
const CHECKED: IndexPolicy =
    IndexPolicy { negative: NegativeIndex::OutOfRange, out_of_range: OutOfRange::Error };

/// Gather-8: "indices are in [-s, s - 1]; the output for an index beyond is filled with zeros".
const WRAPPED_OR_ZEROS: IndexPolicy =
    IndexPolicy { negative: NegativeIndex::FromEnd, out_of_range: OutOfRange::Zeros };

static GATHER_1: Row = Row {
    name: "Gather-1",
    since: 1,
    batch_dims: BatchDims::Absent,
    batch_axes: BatchAxes::Kept,
    index_policy: CHECKED,
};
static GATHER_7: Row = Row {
    name: "Gather-7",
    since: 7,
    batch_dims: BatchDims::Signed,
    batch_axes: BatchAxes::Kept,
    index_policy: CHECKED,
};
static GATHER_8: Row = Row {
    name: "Gather-8",
    since: 8,
    batch_dims: BatchDims::Signed,
    batch_axes: BatchAxes::Kept,
    index_policy: WRAPPED_OR_ZEROS,
};
static GATHER_ND_5: Row = Row {
    name: "GatherND-5",
    since: 5,
    batch_dims: BatchDims::NonNegative,
    batch_axes: BatchAxes::Fused,
    index_policy: CHECKED,
};
static GATHER_ND_8: Row = Row {
    name: "GatherND-8",
    since: 8,
    batch_dims: BatchDims::NonNegative,
    batch_axes: BatchAxes::Kept,
    index_policy: CHECKED,
};
/// The only revision so far.
pub(crate) static GATHER_ELEMENTS_6: Row = Row {
    name: "GatherElements-6",
    since: 6,
    batch_dims: BatchDims::Absent,
    batch_axes: BatchAxes::Kept,
    index_policy: CHECKED,
};
/// The only revision so far.
pub(crate) static GATHER_TREE_1: Row = Row {
    name: "GatherTree-1",
    since: 1,
    batch_dims: BatchDims::Absent,
    batch_axes: BatchAxes::Kept,
    index_policy: CHECKED,
};

/// What [`GatherRevision`] and [`GatherNdRevision`] have in common: which revisions there are, and which of
/// them a model means.
///
/// ```
/// use tract_openvino::{GatherNdRevision, GatherRevision, Revision};
///
/// assert_eq!(GatherRevision::for_opset(15).unwrap(), GatherRevision::V8);
/// let since: Vec<i64> = GatherNdRevision::ALL.iter().map(|revision| revision.since()).collect();
/// assert_eq!(since, [5, 8]);
/// GatherNdRevision::for_opset(4).unwrap_err();
/// ```
///
/// It is not for other types to implement.
pub trait Revision: Copy + Debug + PartialEq + Send + Sync + 'static {
    /// The operator's name: an ONNX op type, and the type of a layer in OpenVINO's own files.
    const OP_TYPE: &'static str;
    /// The revisions, oldest first.
    const ALL: &'static [Self];

    #[doc(hidden)]
    fn row(self) -> &'static Row;

    /// The first operator set of OpenVINO that has the revision.
    fn since(self) -> i64 {
        self.row().since
    }

    /// The revision that operator set `opset` of OpenVINO has: the newest that is not newer than
    /// the set.
    ///
    /// # Errors
    ///
    /// The set is older than all of them.
    fn for_opset(opset: i64) -> TractResult<Self> {
        let found = Self::ALL.iter().rev().find(|revision| revision.since() <= opset);
        found.copied().with_context(|| {
            format!(
                "operator set {opset} of OpenVINO has no {}: the oldest with one is {}",
                Self::OP_TYPE,
                Self::ALL[0].since()
            )
        })
    }

    /// The newest revision.
    fn newest() -> Self {
        Self::ALL[Self::ALL.len() - 1]
    }
}

impl Revision for GatherRevision {
    const OP_TYPE: &'static str = "Gather";
    const ALL: &'static [Self] = &[Self::V1, Self::V7, Self::V8];

    fn row(self) -> &'static Row {
        match self {
            Self::V1 => &GATHER_1,
            Self::V7 => &GATHER_7,
            Self::V8 => &GATHER_8,
        }
    }
}

impl Revision for GatherNdRevision {
    const OP_TYPE: &'static str = "GatherND";
    const ALL: &'static [Self] = &[Self::V5, Self::V8];

    fn row(self) -> &'static Row {
        match self {
            Self::V5 => &GATHER_ND_5,
            Self::V8 => &GATHER_ND_8,
        }
    }
}

/// What to do with negative indices in the revisions that do not define them: all but Gather-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NegativeIndices {
    /// Each revision as its specification says.
    #[default]
    AsSpecified,
    /// Count from the end in every revision, as OpenVINO's own reference implementation does. What
    /// is out of range beyond that stays what the revision makes of it.
    Wrap,
}

impl NegativeIndices {
    /// The policy of a revision under this option.
    pub(crate) fn apply(self, policy: IndexPolicy) -> IndexPolicy {
        match self {
            NegativeIndices::AsSpecified => policy,
            NegativeIndices::Wrap => IndexPolicy { negative: NegativeIndex::FromEnd, ..policy },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_revision_not_newer_than_the_operator_set() {
        for (opset, expected) in [
            (1, GatherRevision::V1),
            (6, GatherRevision::V1),
            (7, GatherRevision::V7),
            (8, GatherRevision::V8),
            (15, GatherRevision::V8),
            (i64::MAX, GatherRevision::V8),
        ] {
            assert_eq!(GatherRevision::for_opset(opset).unwrap(), expected, "opset {opset}");
        }
        for (opset, expected) in [
            (5, GatherNdRevision::V5),
            (7, GatherNdRevision::V5),
            (8, GatherNdRevision::V8),
            (16, GatherNdRevision::V8),
        ] {
            assert_eq!(GatherNdRevision::for_opset(opset).unwrap(), expected, "opset {opset}");
        }
        assert_eq!(
            GatherNdRevision::for_opset(4).unwrap_err().to_string(),
            "operator set 4 of OpenVINO has no GatherND: the oldest with one is 5"
        );
        for opset in [0, -1, i64::MIN] {
            GatherRevision::for_opset(opset).unwrap_err();
        }
    }
}
