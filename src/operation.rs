use crate::eval;
use crate::ops::{DynGather, Gather, GatherNd};
use crate::revision::{GatherNdRevision, GatherRevision, NegativeIndices, Revision};
use crate::shape;
use tract_core::internal::*;

/// A node of OpenVINO's Gather or GatherND as a model states it: its revision and its attribute, before
/// the ranks of its inputs are known.
///
/// Readers of models make one of what a file says and [`wire`](Operation::<GatherRevision>::wire) it, which
/// resolves negative numbers and the axis. With an axis that is only known at run time this is the one way to
/// wire a Gather.
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
/// // Operator set 7 of OpenVINO, a batch_dims that counts from the end of indices.
/// let operation = Operation::new(GatherRevision::for_opset(7)?).with_batch_dims(-1)?;
/// let output = operation.wire("gather", &mut model, &[data, indices, axis])?;
/// assert_eq!(model.outlet_fact(output[0])?.shape.as_concrete(), Some(&[2, 3][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation<R> {
    pub(crate) revision: R,
    pub(crate) batch_dims: i64,
    pub(crate) negative_indices: NegativeIndices,
}

impl<R: Revision> Operation<R> {
    /// The operation with `batch_dims` 0.
    pub fn new(revision: R) -> Operation<R> {
        Operation { revision, batch_dims: 0, negative_indices: NegativeIndices::default() }
    }

    /// The same operation with another `batch_dims`. In Gather-7 and -8 a negative one counts from
    /// `indices.rank`.
    ///
    /// # Errors
    ///
    /// The revision does not have this value, whatever the ranks are: Gather-1 has 0 alone, GatherND has
    /// no negative ones.
    pub fn with_batch_dims(self, batch_dims: i64) -> TractResult<Operation<R>> {
        shape::check_batch_dims(self.revision.row(), batch_dims)?;
        Ok(Operation { batch_dims, ..self })
    }

    /// The same operation with another meaning of negative indices.
    pub fn with_negative_indices(self, negative_indices: NegativeIndices) -> Operation<R> {
        Operation { negative_indices, ..self }
    }

    /// As the operators' `info` has them, which tract's dumps show.
    pub(crate) fn info(&self) -> Vec<String> {
        let policy = self.negative_indices.apply(self.revision.row().index_policy);
        vec![format!("batch_dims: {}", self.batch_dims), policy.to_string()]
    }
}

impl Operation<GatherRevision> {
    /// Adds the node to a model: [`Gather`] where the axis is a constant, else [`DynGather`]. `inputs` are
    /// `data`, `indices` and `axis`.
    ///
    /// # Errors
    ///
    /// There are not three inputs; or ranks, batch dimensions, types or a constant axis do not fit.
    pub fn wire(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        self.wire_with_known(name, model, inputs, &[])
    }

    /// [`wire`](Self::wire), where somebody knows some of the output's dimensions.
    pub(crate) fn wire_with_known(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
        known: &[Option<TDim>],
    ) -> TractResult<TVec<OutletId>> {
        let row = self.revision.row();
        let [data, indices, axis] = eval::inputs(row, "data, indices and axis", inputs)?;
        if let Some(axis) = &model.outlet_fact(axis)?.konst
            && let Some(axis) = eval::axis_if_known(row, axis)?
        {
            return self.wire_at(name, model, &[data, indices], axis);
        }
        let (data, indices) = (model.outlet_fact(data)?, model.outlet_fact(indices)?);
        let batch_dims = shape::normalize_batch_dims(row, self.batch_dims, indices.rank())?;
        let dims = shape::gather_shape_of_any_axis(row, batch_dims, &data.shape, &indices.shape)?;
        let dim = |(number, dim): (usize, Option<TDim>)| {
            let known = || known.get(number).cloned().flatten();
            dim.or_else(known).unwrap_or_else(|| model.symbols.new_with_prefix("gather").into())
        };
        let shape = dims.into_iter().enumerate().map(dim).collect();
        let operation = Operation { batch_dims: batch_dims as i64, ..*self };
        model.wire_node(name, DynGather { operation, shape }, inputs)
    }

    /// [`wire`](Self::wire) with `data` and `indices` alone.
    pub(crate) fn wire_at(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
        axis: i128,
    ) -> TractResult<TVec<OutletId>> {
        let [data, indices] = eval::inputs(self.revision.row(), "data and indices", inputs)?;
        let ranks = [model.outlet_fact(data)?.rank(), model.outlet_fact(indices)?.rank()];
        model.wire_node(name, self.at(axis, ranks)?, inputs)
    }

    /// The operator that this is for an axis and the ranks of `data` and `indices`.
    pub(crate) fn at(&self, axis: i128, [data, indices]: [usize; 2]) -> TractResult<Gather> {
        let row = self.revision.row();
        let axis = shape::normalize_axis(row, axis, data)?;
        let batch_dims = shape::normalize_batch_dims(row, self.batch_dims, indices)?;
        let gather = Gather::new(self.revision, axis).with_batch_dims(batch_dims)?;
        Ok(gather.with_negative_indices(self.negative_indices))
    }
}

impl Operation<GatherNdRevision> {
    /// Adds the node to a model. `inputs` are `data` and `indices`.
    ///
    /// # Errors
    ///
    /// There are not two inputs; or ranks, batch dimensions, types or constant indices do not fit.
    pub fn wire(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        model.wire_node(name, self.operator()?, inputs)
    }

    /// The operator that this is.
    pub(crate) fn operator(&self) -> TractResult<GatherNd> {
        let op = GatherNd::new(self.revision).with_batch_dims(usize::try_from(self.batch_dims)?)?;
        Ok(op.with_negative_indices(self.negative_indices))
    }
}
