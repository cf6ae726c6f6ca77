//! The revisions of the operators as data: a [`Spec`] for each. No other file knows what sets them apart.

use std::fmt::Debug;

use crate::index::IndexPolicy;
use tract_core::internal::*;

/// A revision of OpenVINO's Gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GatherRevision {
    /// Gather-1: no attributes, indices in `[0, s - 1]`.
    V1,
    /// Gather-7: adds `batch_dims`.
    V7,
    /// Gather-8: adds negative indices, and zeros for indices out of range.
    V8,
}

/// A revision of OpenVINO's GatherND.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GatherNdRevision {
    /// GatherND-5: the batch dimensions are fused into one axis of the output.
    V5,
    /// GatherND-8: the output has the batch dimensions of the inputs.
    V8,
}

/// What the specification says of one revision.
#[derive(Debug)]
pub struct Spec {
    /// The operator's name in errors and dumps: with the revision, as the specification writes it.
    pub name: &'static str,
    /// The first operator set of OpenVINO that has the revision.
    pub since: i64,
    /// Which values the attribute `batch_dims` may have.
    pub batch_dims: BatchDims,
    /// How the batch dimensions appear in the output.
    pub batch_axes: BatchAxes,
    /// Which indices are in range, and what becomes of the others.
    pub index_policy: IndexPolicy,
}

/// Which values the attribute `batch_dims` may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchDims {
    /// The revision has no such attribute.
    Absent,
    /// 0 or more.
    NonNegative,
    /// Any; a negative one counts from `indices.rank`.
    Signed,
}

/// How the batch dimensions appear in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchAxes {
    /// One axis for each.
    Kept,
    /// One axis for all of them, whose size is their product.
    Fused,
}

static GATHER_1: Spec = Spec {
    name: "Gather-1",
    since: 1,
    batch_dims: BatchDims::Absent,
    batch_axes: BatchAxes::Kept,
    index_policy: IndexPolicy::NonNegative,
};
static GATHER_7: Spec = Spec {
    name: "Gather-7",
    since: 7,
    batch_dims: BatchDims::Signed,
    batch_axes: BatchAxes::Kept,
    index_policy: IndexPolicy::NonNegative,
};
static GATHER_8: Spec = Spec {
    name: "Gather-8",
    since: 8,
    batch_dims: BatchDims::Signed,
    batch_axes: BatchAxes::Kept,
    index_policy: IndexPolicy::WrapOrZeros,
};
static GATHER_ND_5: Spec = Spec {
    name: "GatherND-5",
    since: 5,
    batch_dims: BatchDims::NonNegative,
    batch_axes: BatchAxes::Fused,
    index_policy: IndexPolicy::NonNegative,
};
static GATHER_ND_8: Spec = Spec {
    name: "GatherND-8",
    since: 8,
    batch_dims: BatchDims::NonNegative,
    batch_axes: BatchAxes::Kept,
    index_policy: IndexPolicy::NonNegative,
};
/// `Gather` of ONNX. It has no `batch_dims` there, but a rewrite may add batch dimensions.
static ONNX_GATHER: Spec =
    Spec { name: "ONNX Gather", index_policy: IndexPolicy::Wrap, ..GATHER_7 };
/// `GatherND` of ONNX.
static ONNX_GATHER_ND: Spec =
    Spec { name: "ONNX GatherND", index_policy: IndexPolicy::Wrap, ..GATHER_ND_8 };
/// The only revision.
pub(crate) static GATHER_ELEMENTS_6: Spec = Spec {
    name: "GatherElements-6",
    since: 6,
    batch_dims: BatchDims::Absent,
    batch_axes: BatchAxes::Kept,
    index_policy: IndexPolicy::NonNegative,
};
/// `GatherElements` of ONNX.
#[cfg(any(feature = "nnef", feature = "onnx"))]
pub(crate) static ONNX_GATHER_ELEMENTS: Spec =
    Spec { name: "ONNX GatherElements", index_policy: IndexPolicy::Wrap, ..GATHER_ELEMENTS_6 };
/// `ScatterND` of ONNX.
#[cfg(any(feature = "nnef", feature = "onnx"))]
pub(crate) static ONNX_SCATTER_ND: Spec = Spec { name: "ONNX ScatterND", ..ONNX_GATHER_ELEMENTS };
/// `ScatterElements` of ONNX.
#[cfg(any(feature = "nnef", feature = "onnx"))]
pub(crate) static ONNX_SCATTER_ELEMENTS: Spec =
    Spec { name: "ONNX ScatterElements", ..ONNX_GATHER_ELEMENTS };
/// The only revision.
pub(crate) static GATHER_TREE_1: Spec = Spec {
    name: "GatherTree-1",
    since: 1,
    batch_dims: BatchDims::Absent,
    batch_axes: BatchAxes::Kept,
    index_policy: IndexPolicy::NonNegative,
};

/// What [`GatherRevision`] and [`GatherNdRevision`] have in common: which revisions there are, and which one an
/// operator set has.
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
/// Other crates cannot implement it.
pub trait Revision: Copy + Debug + PartialEq + Send + Sync + 'static {
    /// The operator's name without a revision: the op type in ONNX, the type of a layer in OpenVINO IR.
    const OP_TYPE: &'static str;
    /// The revisions, oldest first.
    const ALL: &'static [Self];

    /// The standard ONNX operator of that name.
    #[doc(hidden)]
    const ONNX_SPEC: &'static Spec;

    #[doc(hidden)]
    fn spec(self) -> &'static Spec;

    /// The first operator set of OpenVINO that has the revision.
    fn since(self) -> i64 {
        self.spec().since
    }

    /// The revision in operator set `opset` of OpenVINO: the newest one that is not newer than the set.
    ///
    /// # Errors
    ///
    /// The set is older than every revision.
    fn for_opset(opset: i64) -> TractResult<Self> {
        let found = Self::ALL.iter().rev().find(|revision| revision.since() <= opset);
        found.copied().with_context(|| {
            format!(
                "operator set {opset} of OpenVINO has no {}: the first set that has it is {}",
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
    const ONNX_SPEC: &'static Spec = &ONNX_GATHER;

    fn spec(self) -> &'static Spec {
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
    const ONNX_SPEC: &'static Spec = &ONNX_GATHER_ND;

    fn spec(self) -> &'static Spec {
        match self {
            Self::V5 => &GATHER_ND_5,
            Self::V8 => &GATHER_ND_8,
        }
    }
}

/// Whose operator a node is. Errors and dumps use the name that it has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    OpenVino,
    /// The standard ONNX domain.
    #[cfg_attr(not(any(feature = "nnef", feature = "onnx")), expect(dead_code))]
    Onnx,
}

impl Origin {
    /// For ONNX, the revision does not matter: it is the one that comes closest.
    pub fn spec<R: Revision>(self, revision: R) -> &'static Spec {
        match self {
            Origin::OpenVino => revision.spec(),
            Origin::Onnx => R::ONNX_SPEC,
        }
    }
}

/// The option for negative indices in the revisions that do not have them: all but Gather-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum NegativeIndices {
    /// Each revision as its specification says: all but Gather-8 refuse them.
    #[default]
    AsSpecified,
    /// They count from the end in every revision, as in OpenVINO's reference implementation. An index out of
    /// range beyond that is still an error, or zeros in Gather-8.
    Wrap,
}

impl NegativeIndices {
    /// The policy of a revision under this option.
    pub(crate) fn apply(self, specified: IndexPolicy) -> IndexPolicy {
        match (self, specified) {
            (NegativeIndices::Wrap, IndexPolicy::NonNegative) => IndexPolicy::Wrap,
            _ => specified,
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
            "operator set 4 of OpenVINO has no GatherND: the first set that has it is 5"
        );
        for opset in [0, -1, i64::MIN] {
            GatherRevision::for_opset(opset).unwrap_err();
        }
    }
}
