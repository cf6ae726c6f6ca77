//! From an [`Operation`] to its operator.

use super::{DynGather, Gather, GatherNd};
use crate::eval;
use crate::operation::Operation;
use crate::revision::{GatherNdRevision, GatherRevision};
use crate::shape;
use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

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
        let (op, inputs) = self.operator_with_known_dims(model, inputs, known)?;
        model.wire_node(name, op, inputs)
    }

    /// What [`wire`](Self::wire) adds to a model: the operator, and those of the inputs that it takes.
    ///
    /// # Errors
    ///
    /// As for [`wire`](Self::wire), but for what only the operator finds wrong with its inputs.
    pub fn operator<'i>(
        &self,
        model: &TypedModel,
        inputs: &'i [OutletId],
    ) -> TractResult<(Box<dyn TypedOp>, &'i [OutletId])> {
        self.operator_with_known_dims(model, inputs, &[])
    }

    fn operator_with_known_dims<'i>(
        &self,
        model: &TypedModel,
        inputs: &'i [OutletId],
        known: &[Option<TDim>],
    ) -> TractResult<(Box<dyn TypedOp>, &'i [OutletId])> {
        let spec = self.spec();
        let [data, indices, axis] = expect_inputs(spec.name, ["data", "indices", "axis"], inputs)?;
        if let Some(axis) = &model.outlet_fact(axis)?.konst
            && let Some(axis) = eval::axis_if_known(spec, axis)?
        {
            return Ok((Box::new(self.gather_of(model, &inputs[..2], axis)?), &inputs[..2]));
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
        Ok((Box::new(DynGather { operation, shape }), inputs))
    }

    /// The typed operator for a known axis, and for `data` and `indices` of a model.
    pub(crate) fn gather_of(
        &self,
        model: &TypedModel,
        inputs: &[OutletId],
        axis: i128,
    ) -> TractResult<Gather> {
        let [data, indices] = expect_inputs(self.spec().name, ["data", "indices"], inputs)?;
        let ranks = [model.outlet_fact(data)?.rank(), model.outlet_fact(indices)?.rank()];
        self.to_gather(axis, ranks)
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

    /// What [`wire`](Self::wire) adds to a model: the operator, and its inputs.
    ///
    /// # Errors
    ///
    /// The batch dimensions do not fit any ranks.
    pub fn operator<'i>(
        &self,
        _model: &TypedModel,
        inputs: &'i [OutletId],
    ) -> TractResult<(Box<dyn TypedOp>, &'i [OutletId])> {
        Ok((Box::new(self.to_gather_nd()?), inputs))
    }

    /// The typed operator.
    pub(crate) fn to_gather_nd(self) -> TractResult<GatherNd> {
        let gather = GatherNd::new(self.revision).with_origin(self.origin);
        let gather = gather.with_batch_dims(usize::try_from(self.batch_dims)?)?;
        Ok(gather.with_negative_indices(self.negative_indices))
    }
}
