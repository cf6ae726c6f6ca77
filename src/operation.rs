use crate::eval;
use crate::ops::{DynGather, Gather, GatherNd};
use crate::revision::{GatherNdRevision, GatherRevision, NegativeIndices, Origin, Revision, Spec};
use crate::shape;
use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

/// A Gather or GatherND as a model's file states it: a revision and attributes, which may depend on the ranks of
/// the inputs.
///
/// A reader of models makes one and [wires](Operation::<GatherRevision>::wire) it, which resolves the axis and a
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

impl Operation<GatherRevision> {
    /// Adds the node to a model: a [`Gather`] if the axis is a constant, else a [`DynGather`]. `inputs` are
    /// `data`, `indices` and `axis`.
    ///
    /// # Errors
    ///
    /// `inputs` are not three; or their types, ranks or batch dimensions, a constant axis or a constant index do
    /// not fit.
    pub fn wire(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        self.wire_with_known_dims(name, model, inputs, &[])
    }

    /// [`wire`](Self::wire), with dimensions of the output that the caller knows.
    pub(crate) fn wire_with_known_dims(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
        known: &[Option<TDim>],
    ) -> TractResult<TVec<OutletId>> {
        let spec = self.spec();
        let [data, indices, axis] = expect_inputs(spec.name, ["data", "indices", "axis"], inputs)?;
        if let Some(axis) = &model.outlet_fact(axis)?.konst
            && let Some(axis) = eval::axis_if_known(spec, axis)?
        {
            return self.wire_with_axis(name, model, &[data, indices], axis);
        }
        let (data, indices) = (model.outlet_fact(data)?, model.outlet_fact(indices)?);
        let batch_dims = shape::normalize_batch_dims(spec, self.batch_dims, indices.rank())?;
        let dims = shape::gather_shape_of_any_axis(spec, batch_dims, &data.shape, &indices.shape)?;
        let dim = |(number, dim): (usize, Option<TDim>)| {
            let known = || known.get(number).cloned().flatten();
            dim.or_else(known).unwrap_or_else(|| model.symbols.new_with_prefix("gather").into())
        };
        let shape = dims.into_iter().enumerate().map(dim).collect();
        let operation = Operation { batch_dims: batch_dims as i64, ..*self };
        model.wire_node(name, DynGather { operation, shape }, inputs)
    }

    /// [`wire`](Self::wire) for a known axis: the inputs are `data` and `indices`.
    pub(crate) fn wire_with_axis(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
        axis: i128,
    ) -> TractResult<TVec<OutletId>> {
        let [data, indices] = expect_inputs(self.spec().name, ["data", "indices"], inputs)?;
        let ranks = [model.outlet_fact(data)?.rank(), model.outlet_fact(indices)?.rank()];
        model.wire_node(name, self.to_gather(axis, ranks)?, inputs)
    }

    /// The typed operator, for an axis and the ranks of `data` and `indices`.
    pub(crate) fn to_gather(
        self,
        axis: i128,
        [data_rank, indices_rank]: [usize; 2],
    ) -> TractResult<Gather> {
        let spec = self.spec();
        let axis = shape::normalize_axis(spec, axis, data_rank)?;
        let batch_dims = shape::normalize_batch_dims(spec, self.batch_dims, indices_rank)?;
        let gather = Gather::new(self.revision, axis).with_origin(self.origin);
        let gather = gather.with_batch_dims(batch_dims)?;
        Ok(gather.with_negative_indices(self.negative_indices))
    }
}

impl Operation<GatherNdRevision> {
    /// Adds the node to a model, as a [`GatherNd`]. `inputs` are `data` and `indices`.
    ///
    /// # Errors
    ///
    /// `inputs` are not two; or their types, ranks or batch dimensions or a constant index do not fit.
    pub fn wire(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        model.wire_node(name, self.to_gather_nd()?, inputs)
    }

    /// The typed operator.
    pub(crate) fn to_gather_nd(self) -> TractResult<GatherNd> {
        let gather = GatherNd::new(self.revision).with_origin(self.origin);
        let gather = gather.with_batch_dims(usize::try_from(self.batch_dims)?)?;
        Ok(gather.with_negative_indices(self.negative_indices))
    }
}
