use super::layout::{self, Layout};
use super::{block_quant, declutter};
use crate::eval::{self, Evaluation};
use crate::index::IndexPolicy;
#[cfg(feature = "nnef")]
use crate::operation::Operation;
use crate::revision::{GatherRevision, NegativeIndices, Origin, Spec};
use crate::shape;
use tract_core::internal::*;
use tract_openvino_kernels::impl_op;

/// OpenVINO's Gather-1, Gather-7 and Gather-8, with `axis` and `batch_dims` resolved.
///
/// ```text
/// output[p_0, ..., p_{axis-1}, i_b, ..., i_{M-1}, p_{axis+1}, ..., p_{N-1}] =
///     data[p_0, ..., p_{axis-1}, indices[p_0, ..., p_{b-1}, i_b, ..., i_{M-1}], p_{axis+1}, ..., p_{N-1}]
/// ```
///
/// Inputs, in this order:
///
/// * `data`: any element type of a plain tensor, rank N of 1 or more; or a block-quantized table, for axis 0
///   without batch dimensions, whose rows are unpacked as they are picked;
/// * `indices`: `i8` to `i64`, `u8` to `u64` or `TDim`, any rank M, with the first `batch_dims` dimensions of
///   `data`.
///
/// The output has the type of `data`, with its quantization, and the shape
/// `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis + 1:]`.
///
/// The specification's third input, `axis`, is part of this operator: [`Operation`](crate::Operation) resolves
/// it.
///
/// # Errors
///
/// Types, ranks or batch dimensions do not fit, or an index is out of range, which is an
/// [`IndexError`](crate::IndexError) in the revisions where it is an error. What is known when the model is typed,
/// constant indices included, is checked then, and the rest in each run.
///
/// # Example
///
/// ```
/// use tract_openvino::tract_onnx::prelude::*;
/// use tract_openvino::{Gather, GatherRevision};
///
/// # fn main() -> TractResult<()> {
/// let mut model = TypedModel::default();
/// let data = model.add_source("data", f32::fact([2, 5]))?;
/// let indices = model.add_source("indices", i32::fact([2, 3]))?;
/// // Example 2 of the Gather-7 specification.
/// let gather = Gather::new(GatherRevision::V7, 1).with_batch_dims(1)?;
/// let output = model.wire_node("gather", gather, &[data, indices])?;
/// model.select_output_outlets(&output)?;
///
/// let result = model.into_optimized()?.into_runnable()?.run(tvec!(
///     tensor2(&[[1f32, 2., 3., 4., 5.], [6., 7., 8., 9., 10.]]).into(),
///     tensor2(&[[0i32, 0, 4], [4, 0, 0]]).into(),
/// ))?;
/// assert_eq!(*result[0], tensor2(&[[1f32, 1., 5.], [10., 6., 6.]]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gather {
    origin: Origin,
    revision: GatherRevision,
    axis: usize,
    batch_dims: usize,
    negative_indices: NegativeIndices,
}

impl Gather {
    /// The operator without batch dimensions. `axis` counts from the first axis of `data`.
    pub fn new(revision: GatherRevision, axis: usize) -> Gather {
        Gather {
            origin: Origin::OpenVino,
            revision,
            axis,
            batch_dims: 0,
            negative_indices: NegativeIndices::default(),
        }
    }

    pub(crate) fn with_origin(self, origin: Origin) -> Gather {
        Gather { origin, ..self }
    }

    /// Sets the number of batch dimensions: leading axes that `data` and `indices` share.
    ///
    /// # Errors
    ///
    /// `batch_dims` is greater than `axis`, or not 0 for Gather-1.
    pub fn with_batch_dims(self, batch_dims: usize) -> TractResult<Gather> {
        shape::check_batch_dims(self.spec(), i64::try_from(batch_dims).unwrap_or(i64::MAX))?;
        shape::check_axis(self.spec(), self.axis, batch_dims)?;
        Ok(Gather { batch_dims, ..self })
    }

    /// Sets what negative indices mean if the revision does not have them.
    pub fn with_negative_indices(self, negative_indices: NegativeIndices) -> Gather {
        Gather { negative_indices, ..self }
    }

    /// The revision.
    pub fn revision(&self) -> GatherRevision {
        self.revision
    }

    /// The axis of `data` that is gathered from, in `0..N`.
    pub fn axis(&self) -> usize {
        self.axis
    }

    /// The number of leading axes that `data` and `indices` share, at most `axis`.
    pub fn batch_dims(&self) -> usize {
        self.batch_dims
    }

    /// What negative indices mean if the revision does not have them.
    pub fn negative_indices(&self) -> NegativeIndices {
        self.negative_indices
    }

    #[cfg(feature = "nnef")]
    pub(crate) fn operation(&self) -> Operation<GatherRevision> {
        let Self { origin, revision, batch_dims, negative_indices, .. } = *self;
        Operation { origin, revision, batch_dims: batch_dims as i64, negative_indices }
    }

    /// Which indices are in range, and what becomes of the others.
    pub fn index_policy(&self) -> IndexPolicy {
        self.negative_indices.apply(self.spec().index_policy)
    }

    pub(super) fn spec(&self) -> &'static Spec {
        self.origin.spec(self.revision)
    }

    /// `None` if the ranks do not fit.
    fn layout(&self, data_rank: usize, indices_rank: usize) -> Option<Layout> {
        Some(Layout {
            batch: self.batch_dims,
            outer: self.axis - self.batch_dims,
            gathered: 1,
            index: indices_rank.checked_sub(self.batch_dims)?,
            inner: data_rank.checked_sub(self.axis + 1)?,
            tuple: 0,
            fuses_batch: false,
        })
    }

    fn check_constant_indices(&self, data: &TypedFact, indices: &TypedFact) -> TractResult<()> {
        let dims = &data.shape[self.axis..=self.axis];
        eval::check_constant_indices(self.spec(), self.index_policy(), self.axis, dims, indices)
    }

    fn output_shape<D: DimLike>(&self, data: &[D], indices: &[D]) -> TractResult<TVec<D>> {
        shape::gather_shape(self.spec(), self.axis, self.batch_dims, data, indices)
    }
}

impl_op!(
    Gather,
    name = |op| op.spec().name,
    info = |op| {
        let Self { axis, batch_dims, .. } = op;
        let attributes = format!("axis: {axis}, batch_dims: {batch_dims}");
        vec![attributes, op.index_policy().to_string()]
    }
);

impl EvalOp for Gather {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices) = args_2!(inputs);
        if block_quant::is_block_quantized(&data) {
            let (axis, batch_dims) = (self.axis, self.batch_dims);
            let (spec, policy, inputs) = (self.spec(), self.index_policy(), [data, indices]);
            let output = block_quant::eval(spec, axis, batch_dims, policy, ctx, inputs)?;
            return Ok(tvec!(output.into_tvalue()));
        }
        let (data_shape, indices_shape) = (data.shape(), indices.shape());
        let output_shape = self.output_shape(data_shape, indices_shape)?;
        let (axis, batch_dims) = (self.axis, self.batch_dims);
        if *output_shape == *data_shape && indices.rank() == 1 && is_each_in_turn(&indices)? {
            return Ok(tvec!(data));
        }
        let evaluation = Evaluation {
            spec: self.spec(),
            policy: self.index_policy(),
            batch: &data_shape[..batch_dims],
            outer: &data_shape[batch_dims..axis],
            tuples: &indices_shape[batch_dims..],
            gathered: &data_shape[axis..=axis],
            columns: &[],
            block: &data_shape[axis + 1..],
            output_shape,
        };
        Ok(tvec!(evaluation.run(&data, &indices, ctx.symbols)?.into_tvalue()))
    }
}

/// Whether indices are 0, 1, 2 and so on: the beams of a language model that stay where they are. As many as there are elements
/// along the axis give the data, which is not copied then.
fn is_each_in_turn(indices: &Tensor) -> TractResult<bool> {
    let plain = indices.try_as_plain_ram()?;
    let places = 0..indices.len();
    Ok(match indices.datum_type() {
        DatumType::I32 => {
            let found = plain.as_slice::<i32>()?;
            places.zip(found).all(|(place, index)| usize::try_from(*index) == Ok(place))
        }
        DatumType::I64 => {
            let found = plain.as_slice::<i64>()?;
            places.zip(found).all(|(place, index)| usize::try_from(*index) == Ok(place))
        }
        _ => false,
    })
}

impl TypedOp for Gather {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let spec = self.spec();
        if let [data, indices] = *inputs
            && !data.is_plain()
        {
            eval::ensure_integer(spec, "indices", indices.datum_type)?;
            let (axis, batch_dims) = (self.axis, self.batch_dims);
            let output = block_quant::output_fact(spec, axis, batch_dims, data, indices)?;
            self.check_constant_indices(data, indices)?;
            return Ok(tvec!(output));
        }
        let [data, indices] = eval::data_and_indices(spec, inputs)?;
        let shape = self.output_shape(&data.shape, &indices.shape)?;
        self.check_constant_indices(data, indices)?;
        Ok(tvec!(data.datum_type.fact(shape)))
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        match self.layout(inputs[0].rank(), inputs[1].rank()) {
            Some(layout) if inputs[0].is_plain() => layout.axes_mapping(),
            _ => AxesMapping::disconnected(inputs, outputs),
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
        rule_if!(inputs[0].is_plain());
        rule_if_some!(layout = self.layout(inputs[0].rank(), inputs[1].rank()));
        layout::change_axes(layout, model, node, io, change, |Layout { batch, outer, .. }| {
            // Gather-1 has no batch dimensions. Gather-7 is the same with them.
            let revision = match self.revision {
                GatherRevision::V1 if batch > 0 => GatherRevision::V7,
                revision => revision,
            };
            Box::new(Gather { revision, axis: batch + outer, batch_dims: batch, ..self.clone() })
        })
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        declutter::gather(self, model, node)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        eval::bytes_moved(&self.output_facts(inputs)?[0])
    }

    as_op!();
}
