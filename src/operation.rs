use crate::revision::{NegativeIndices, Origin, Revision, Spec};
use crate::shape;
use tract_core::internal::*;

/// A Gather or GatherND as a model's file states it: a revision and attributes, which may depend on the ranks of
/// the inputs.
///
/// A reader of models makes one and [wires](Operation::<crate::GatherRevision>::wire) it, which resolves the axis and a
/// negative `batch_dims`. Only this way can a Gather be wired whose axis is unknown until the model runs.
///
/// ```
/// use tract_openvino::tract_onnx::prelude::*;
/// use tract_openvino::{GatherRevision, Operation, Revision};
///
/// # fn main() -> TractResult<()> {
/// let mut model = TypedModel::default();
/// let data = model.add_source("data", f32::fact([2, 5]))?;
/// let indices = model.add_source("indices", i32::fact([2, 3]))?;
/// let axis = model.add_const("axis", tensor0(-1i64))?;
/// // The Gather of operator set 7. Its batch_dims counts from the rank of indices.
/// let operation = Operation::new(GatherRevision::for_opset(7)?).with_batch_dims(-1)?;
/// let output = operation.wire("gather", &mut model, &[data, indices, axis])?;
/// assert_eq!(model.outlet_fact(output[0])?.shape.as_concrete(), Some(&[2, 3][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation<R> {
    pub(crate) origin: Origin,
    pub(crate) revision: R,
    pub(crate) batch_dims: i64,
    pub(crate) negative_indices: NegativeIndices,
}

impl<R: Revision> Operation<R> {
    /// The operation of this revision, with `batch_dims` 0.
    pub fn new(revision: R) -> Operation<R> {
        Operation {
            origin: Origin::OpenVino,
            revision,
            batch_dims: 0,
            negative_indices: NegativeIndices::default(),
        }
    }

    /// The operation of the standard ONNX domain. The revision is the one that comes closest.
    #[cfg(any(feature = "nnef", feature = "onnx"))]
    pub(crate) fn onnx(revision: R) -> Operation<R> {
        Operation { origin: Origin::Onnx, ..Operation::new(revision) }
    }

    pub(crate) fn spec(&self) -> &'static Spec {
        self.origin.spec(self.revision)
    }

    /// Sets the number of batch dimensions. In Gather-7 and -8 a negative one counts from `indices.rank`.
    ///
    /// # Errors
    ///
    /// No ranks allow this value: it is not 0 for Gather-1, or negative for GatherND, or beyond the rank of every
    /// tensor.
    pub fn with_batch_dims(self, batch_dims: i64) -> TractResult<Operation<R>> {
        shape::check_batch_dims(self.spec(), batch_dims)?;
        Ok(Operation { batch_dims, ..self })
    }

    /// Sets what negative indices mean in revisions that do not have them.
    pub fn with_negative_indices(self, negative_indices: NegativeIndices) -> Operation<R> {
        Operation { negative_indices, ..self }
    }

    /// The lines for `Op::info`, which dumps of models show.
    pub(crate) fn info(&self) -> Vec<String> {
        let policy = self.negative_indices.apply(self.spec().index_policy);
        vec![format!("batch_dims: {}", self.batch_dims), policy.to_string()]
    }
}
