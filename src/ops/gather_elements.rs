use super::layout;
use crate::eval::{self, Evaluation};
use crate::index::IndexPolicy;
#[cfg(any(feature = "nnef", feature = "onnx"))]
use crate::revision::ONNX_GATHER_ELEMENTS;
use crate::revision::{GATHER_ELEMENTS_6, NegativeIndices, Origin, Spec};
use crate::shape;
use tract_core::internal::*;
use tract_openvino_kernels::impl_op;

/// OpenVINO's GatherElements-6.
///
/// ```text
/// output[p_0, ..., p_{N-1}] =
///     data[p_0, ..., p_{axis-1}, indices[p_0, ..., p_{N-1}], p_{axis+1}, ..., p_{N-1}]
/// ```
///
/// Inputs, in this order:
///
/// * `data`: any element type of a plain tensor, rank N of 1 or more;
/// * `indices`: `i8` to `i64`, `u8` to `u64` or `TDim`, with the dimensions of `data` except on `axis`.
///
/// The output has the type of `data`, with its quantization, and the shape of `indices`.
///
/// # Errors
///
/// As for [`Gather`](crate::Gather). An index out of range is an [`IndexError`](crate::IndexError), and so is a
/// negative one, unless [`with_negative_indices`](GatherElements::with_negative_indices) allows it.
///
/// # Example
///
/// ```
/// use tract_openvino::GatherElements;
/// use tract_openvino::tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let mut model = TypedModel::default();
/// let data = model.add_source("data", i32::fact([2, 3]))?;
/// let indices = model.add_source("indices", i64::fact([2, 2]))?;
/// let output = model.wire_node("gather", GatherElements::new(1), &[data, indices])?;
/// model.select_output_outlets(&output)?;
///
/// let result = model.into_optimized()?.into_runnable()?.run(tvec!(
///     tensor2(&[[1i32, 2, 3], [4, 5, 6]]).into(),
///     tensor2(&[[2i64, 0], [1, 1]]).into(),
/// ))?;
/// assert_eq!(*result[0], tensor2(&[[3i32, 1], [5, 5]]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GatherElements {
    origin: Origin,
    axis: usize,
    negative_indices: NegativeIndices,
}

impl GatherElements {
    /// The operator. `axis` counts from the first axis of `data`.
    pub fn new(axis: usize) -> GatherElements {
        let negative_indices = NegativeIndices::default();
        GatherElements { origin: Origin::OpenVino, axis, negative_indices }
    }

    /// The operator of the standard ONNX domain, which has negative indices.
    #[cfg(any(feature = "nnef", feature = "onnx"))]
    pub(crate) fn onnx(axis: usize) -> GatherElements {
        GatherElements { origin: Origin::Onnx, ..GatherElements::new(axis) }
    }

    #[cfg(feature = "nnef")]
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Sets what negative indices mean: the specification does not have them.
    pub fn with_negative_indices(self, negative_indices: NegativeIndices) -> GatherElements {
        GatherElements { negative_indices, ..self }
    }

    /// The axis of `data` that is gathered from, in `0..N`.
    pub fn axis(&self) -> usize {
        self.axis
    }

    /// What negative indices mean.
    pub fn negative_indices(&self) -> NegativeIndices {
        self.negative_indices
    }

    /// Which indices are in range, and what becomes of the others.
    pub fn index_policy(&self) -> IndexPolicy {
        self.negative_indices.apply(self.spec().index_policy)
    }

    fn spec(&self) -> &'static Spec {
        match self.origin {
            Origin::OpenVino => &GATHER_ELEMENTS_6,
            #[cfg(any(feature = "nnef", feature = "onnx"))]
            Origin::Onnx => &ONNX_GATHER_ELEMENTS,
            #[cfg(not(any(feature = "nnef", feature = "onnx")))]
            Origin::Onnx => &GATHER_ELEMENTS_6,
        }
    }

    fn output_shape<D: DimLike>(&self, data: &[D], indices: &[D]) -> TractResult<TVec<D>> {
        shape::gather_elements_shape(self.spec(), self.axis, data, indices)
    }

    /// Whether the dimensions that must be equal surely are. As long as only a run can tell, they are neither
    /// sliced nor removed, because the error would be lost.
    fn dimensions_agree(&self, model: &TypedModel, node: &TypedNode) -> TractResult<bool> {
        let [data, indices] = *model.node_input_facts(node.id)? else { return Ok(false) };
        let mut others = (0..data.rank()).filter(|axis| *axis != self.axis);
        Ok(others.all(|axis| data.shape[axis] == indices.shape[axis]))
    }
}

impl_op!(
    GatherElements,
    name = |op| op.spec().name,
    info = |op| vec![format!("axis: {}", op.axis), op.index_policy().to_string()]
);

impl EvalOp for GatherElements {
    op_out_of_plan!();

    /// It is a Gather whose batch dimensions are the axes before `axis`. Its tuples pick single elements, in turn
    /// from the columns that the axes after `axis` form.
    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices) = args_2!(inputs);
        let (data_shape, indices_shape) = (data.shape(), indices.shape());
        let output_shape = self.output_shape(data_shape, indices_shape)?;
        let axis = self.axis;
        let evaluation = Evaluation {
            spec: self.spec(),
            policy: self.index_policy(),
            batch: &data_shape[..axis],
            outer: &[],
            tuples: &indices_shape[axis..],
            gathered: &data_shape[axis..=axis],
            columns: &data_shape[axis + 1..],
            block: &[],
            output_shape,
        };
        Ok(tvec!(evaluation.run(&data, &indices, ctx.symbols)?.into_tvalue()))
    }
}

impl TypedOp for GatherElements {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, indices] = eval::data_and_indices(self.spec(), inputs)?;
        let shape = self.output_shape(&data.shape, &indices.shape)?;
        let (policy, dims) = (self.index_policy(), &data.shape[self.axis..=self.axis]);
        eval::check_constant_indices(self.spec(), policy, self.axis, dims, indices)?;
        Ok(tvec!(data.datum_type.fact(shape)))
    }

    /// The output shares `axis` with `indices` only, and every other axis with both inputs.
    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        let mut mapping = AxesMapping::disconnected(inputs, outputs)?;
        for axis in 0..outputs[0].rank() {
            mapping = mapping.linking((InOut::Out(0), axis), (InOut::In(1), axis))?;
            if axis != self.axis {
                mapping = mapping.linking((InOut::Out(0), axis), (InOut::In(0), axis))?;
            }
        }
        Ok(mapping)
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
        rule_if!(output_axis == self.axis || self.dimensions_agree(model, node)?);
        layout::slice(self.clone(), patch, prefix, inputs, output_axis, end.clone() - start)
    }

    /// The inputs and the output change together.
    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        _: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        let keeps_dimensions =
            matches!(change.canonical().as_ref(), AxisOp::Add(_) | AxisOp::Move(..));
        rule_if!(keeps_dimensions || self.dimensions_agree(model, node)?);
        rule_if_some!(axis = change.transform_axis(self.axis));
        let changed = (axis != self.axis).then(|| GatherElements { axis, ..self.clone() });
        let substitute_op = changed.map(|op| Box::new(op) as Box<dyn TypedOp>);
        let changing = [InOut::In(0), InOut::In(1), InOut::Out(0)];
        let wire_changes = changing.into_iter().map(|io| (io, change.clone())).collect();
        Ok(Some(AxisChangeConsequence { substitute_op, wire_changes }))
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        eval::bytes_moved(&self.output_facts(inputs)?[0])
    }

    as_op!();
}
