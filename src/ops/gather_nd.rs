use super::declutter;
use super::layout::{self, Layout};
use crate::eval::{self, Evaluation};
use crate::index::IndexPolicy;
#[cfg(feature = "nnef")]
use crate::operation::Operation;
use crate::revision::{BatchAxes, GatherNdRevision, NegativeIndices, Origin, Spec};
use crate::shape;
use tract_core::internal::*;
use tract_openvino_kernels::impl_op;

/// OpenVINO's GatherND-5 and GatherND-8.
///
/// ```text
/// output[i_0, ..., i_{K-2}, :, ..., :] = data[indices[i_0, ..., i_{K-2}], :, ..., :]
/// ```
///
/// where the tuple `indices[i_0, ..., i_{K-2}]` indexes the axes of `data` from `batch_dims` on. On the first
/// `batch_dims` axes the coordinates are `i_0`, `i_1`, and so on.
///
/// Inputs, in this order:
///
/// * `data`: any element type of a plain tensor, rank of 1 or more;
/// * `indices`: `i8` to `i64`, `u8` to `u64` or `TDim`, rank K of 1 or more, with the first `batch_dims` dimensions
///   of `data`. The last dimension is the length of a tuple, in `[0, data.rank - batch_dims]`; it must be known
///   when the model is typed.
///
/// The output has the type of `data`, with its quantization, and the shape
/// `indices.shape[:-1] + data.shape[batch_dims + indices.shape[-1]:]`. GatherND-5 fuses the batch dimensions of
/// the output into one axis, whose size is their product.
///
/// # Errors
///
/// As for [`Gather`](crate::Gather). An index out of range is an [`IndexError`](crate::IndexError).
///
/// # Example
///
/// ```
/// use tract_openvino::tract_onnx::prelude::*;
/// use tract_openvino::{GatherNd, GatherNdRevision};
///
/// # fn main() -> TractResult<()> {
/// let mut model = TypedModel::default();
/// let data = model.add_source("data", f32::fact([2, 2]))?;
/// let indices = model.add_source("indices", i32::fact([2, 1]))?;
/// // Example 4 of the GatherND-8 specification.
/// let gather = GatherNd::new(GatherNdRevision::V8).with_batch_dims(1)?;
/// let output = model.wire_node("gather", gather, &[data, indices])?;
/// model.select_output_outlets(&output)?;
///
/// let result = model.into_optimized()?.into_runnable()?.run(tvec!(
///     tensor2(&[[1f32, 2.], [3., 4.]]).into(),
///     tensor2(&[[1i32], [0]]).into(),
/// ))?;
/// assert_eq!(*result[0], tensor1(&[2f32, 3.]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GatherNd {
    origin: Origin,
    revision: GatherNdRevision,
    batch_dims: usize,
    negative_indices: NegativeIndices,
}

impl GatherNd {
    /// The operator without batch dimensions.
    pub fn new(revision: GatherNdRevision) -> GatherNd {
        GatherNd {
            origin: Origin::OpenVino,
            revision,
            batch_dims: 0,
            negative_indices: NegativeIndices::default(),
        }
    }

    pub(crate) fn with_origin(self, origin: Origin) -> GatherNd {
        GatherNd { origin, ..self }
    }

    /// Sets the number of batch dimensions: leading axes that `data` and `indices` share.
    ///
    /// # Errors
    ///
    /// No tensor has so many axes.
    pub fn with_batch_dims(self, batch_dims: usize) -> TractResult<GatherNd> {
        shape::check_batch_dims(self.spec(), i64::try_from(batch_dims).unwrap_or(i64::MAX))?;
        Ok(GatherNd { batch_dims, ..self })
    }

    /// Sets what negative indices mean if the revision does not have them.
    pub fn with_negative_indices(self, negative_indices: NegativeIndices) -> GatherNd {
        GatherNd { negative_indices, ..self }
    }

    /// The revision.
    pub fn revision(&self) -> GatherNdRevision {
        self.revision
    }

    /// The number of leading axes that `data` and `indices` share, less than either rank.
    pub fn batch_dims(&self) -> usize {
        self.batch_dims
    }

    /// What negative indices mean if the revision does not have them.
    pub fn negative_indices(&self) -> NegativeIndices {
        self.negative_indices
    }

    #[cfg(feature = "nnef")]
    pub(crate) fn operation(&self) -> Operation<GatherNdRevision> {
        let Self { origin, revision, batch_dims, negative_indices } = *self;
        Operation { origin, revision, batch_dims: batch_dims as i64, negative_indices }
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    /// Which indices are in range, and what becomes of the others.
    pub fn index_policy(&self) -> IndexPolicy {
        self.negative_indices.apply(self.spec().index_policy)
    }

    pub(super) fn spec(&self) -> &'static Spec {
        self.origin.spec(self.revision)
    }

    pub(super) fn fuses_batch(&self) -> bool {
        shape::fuses_batch(self.spec(), self.batch_dims)
    }

    /// `None` if the length of a tuple is unknown, or the ranks do not fit.
    fn layout(&self, data: &TypedFact, indices: &TypedFact) -> Option<Layout> {
        let tuple = indices.shape.last()?.to_usize().ok()?;
        Some(Layout {
            batch: self.batch_dims,
            outer: 0,
            gathered: tuple,
            index: indices.rank().checked_sub(1 + self.batch_dims)?,
            inner: data.rank().checked_sub(self.batch_dims + tuple)?,
            tuple: 1,
            fuses_batch: self.spec().batch_axes == BatchAxes::Fused,
        })
    }

    fn output_shape<D: DimLike>(&self, data: &[D], indices: &[D]) -> TractResult<TVec<D>> {
        shape::gather_nd_shape(self.spec(), self.batch_dims, data, indices)
    }
}

impl_op!(
    GatherNd,
    name = |op| op.spec().name,
    info = |op| vec![format!("batch_dims: {}", op.batch_dims), op.index_policy().to_string()]
);

impl EvalOp for GatherNd {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices) = args_2!(inputs);
        let (data_shape, indices_shape) = (data.shape(), indices.shape());
        let output_shape = self.output_shape(data_shape, indices_shape)?;
        let batch_dims = self.batch_dims;
        let (&tuple, leading) = indices_shape.split_last().expect("checked with the shape");
        let evaluation = Evaluation {
            spec: self.spec(),
            policy: self.index_policy(),
            batch: &data_shape[..batch_dims],
            outer: &[],
            tuples: &leading[batch_dims..],
            gathered: &data_shape[batch_dims..][..tuple],
            columns: &[],
            block: &data_shape[batch_dims + tuple..],
            output_shape,
        };
        Ok(tvec!(evaluation.run(&data, &indices, ctx.symbols)?.into_tvalue()))
    }
}

impl TypedOp for GatherNd {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let spec = self.spec();
        let [data, indices] = eval::data_and_indices(spec, inputs)?;
        let shape = self.output_shape(&data.shape, &indices.shape)?;
        let tuple = indices.shape.last().expect("checked with the shape").to_usize()?;
        let dims = &data.shape[self.batch_dims..][..tuple];
        eval::check_constant_indices(spec, self.index_policy(), self.batch_dims, dims, indices)?;
        Ok(tvec!(data.datum_type.fact(shape)))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        match self.layout(inputs[0], inputs[1]) {
            Some(layout) => layout.axes_mapping(),
            None => AxesMapping::disconnected(inputs, outputs),
        }
    }

    fn slice(
        &self,
        patch: &mut TypedModelPatch,
        model: &TypedModel,
        node: &TypedNode,
        prefix: &str,
        inputs: &[OutletId],
        output_axis: usize,
        start: &TDim,
        end: &TDim,
    ) -> TractResult<Option<TVec<OutletId>>> {
        rule_if!(layout::can_slice(model, node, self.batch_dims, output_axis)?);
        layout::slice(self.clone(), patch, prefix, inputs, output_axis, end.clone() - start)
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        let inputs = model.node_input_facts(node.id)?;
        rule_if_some!(layout = self.layout(inputs[0], inputs[1]));
        layout::change_axes(layout, model, node, io, change, |Layout { batch, .. }| {
            Box::new(GatherNd { batch_dims: batch, ..self.clone() })
        })
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        declutter::gather_nd(self, model, node)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        eval::bytes_moved(&self.output_facts(inputs)?[0])
    }

    as_op!();
}
