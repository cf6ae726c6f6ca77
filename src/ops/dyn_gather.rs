use super::held_symbols::are_held;
use crate::eval;
use crate::operation::Operation;
use crate::revision::{GatherRevision, NegativeIndices, Spec};
use crate::shape;
use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_inputs, listed};
use tract_openvino_kernels::impl_op;

/// A [`Gather`](crate::Gather) whose axis is unknown until the model runs, like tract's `DynSlice`.
/// [`Operation::wire`](Operation::<GatherRevision>::wire) adds one to a model.
///
/// Inputs, in the order of the specification:
///
/// * `data` and `indices`: as for `Gather`;
/// * `axis`: `i8` to `i64`, `u8` to `u64` or `TDim`, a scalar or a 1-D tensor of one element; a negative one counts
///   from `data.rank`.
///
/// The output has the type of `data` and rank `data.rank + indices.rank - batch_dims - 1`. A dimension is known if
/// it is the same for every possible axis, as batch dimensions are. The model's file may state others (in a
/// `value_info`), and a run fails if they are different. The rest are symbols of this node, which get their values
/// in each run.
///
/// # Errors
///
/// Those of `Gather`. A run fails too if the axis is not in `[-data.rank, data.rank - 1]`, or less than
/// `batch_dims`.
///
/// # Example
///
/// ```
/// use tract_openvino::tract_onnx::prelude::*;
/// use tract_openvino::{GatherRevision, Operation};
///
/// # fn main() -> TractResult<()> {
/// let mut model = TypedModel::default();
/// let data = model.add_source("data", f32::fact([2, 3]))?;
/// let indices = model.add_source("indices", i64::fact([2]))?;
/// let axis = model.add_source("axis", i64::fact([0; 0]))?;
/// let operation = Operation::new(GatherRevision::V8);
/// let output = operation.wire("gather", &mut model, &[data, indices, axis])?;
/// model.select_output_outlets(&output)?;
/// let model = model.into_optimized()?.into_runnable()?;
///
/// let data = tensor2(&[[1f32, 2., 3.], [4., 5., 6.]]);
/// for (axis, expected) in [
///     (0i64, tensor2(&[[4f32, 5., 6.], [1., 2., 3.]])),
///     (-1, tensor2(&[[2f32, 1.], [5., 4.]])),
/// ] {
///     let inputs = tvec!(data.clone().into(), tensor1(&[1i64, 0]).into(), tensor0(axis).into());
///     assert_eq!(*model.run(inputs)?[0], expected);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DynGather {
    /// Its `batch_dims` is not negative.
    pub(crate) operation: Operation<GatherRevision>,
    /// The shape of the output. Most dimensions that depend on the axis are symbols.
    pub(crate) shape: TVec<TDim>,
}

impl DynGather {
    /// The revision.
    pub fn revision(&self) -> GatherRevision {
        self.operation.revision
    }

    /// The number of leading axes that `data` and `indices` share.
    pub fn batch_dims(&self) -> usize {
        self.operation.batch_dims as usize
    }

    /// What negative indices mean if the revision does not have them.
    pub fn negative_indices(&self) -> NegativeIndices {
        self.operation.negative_indices
    }

    /// The shape of the output.
    pub fn output_shape(&self) -> &[TDim] {
        &self.shape
    }

    fn spec(&self) -> &'static Spec {
        self.operation.spec()
    }

    /// The symbols whose values come from this node: those that neither its inputs nor the model's have.
    fn minted_symbols(&self, model: &TypedModel, node: &TypedNode) -> TractResult<Vec<Symbol>> {
        let mut minted: Vec<Symbol> = self.shape.iter().flat_map(TDim::symbols).collect();
        for outlet in model.input_outlets()?.iter().chain(&node.inputs) {
            let shape = &model.outlet_fact(*outlet)?.shape;
            minted.retain(|symbol| !shape.iter().any(|dim| dim.symbols().contains(symbol)));
        }
        Ok(minted)
    }
}

impl_op!(
    DynGather,
    name = |op| format!("Dyn{}", op.spec().name),
    info = |op| op.operation.info(),
    mints_runtime_symbols = |_| true
);

impl EvalOp for DynGather {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices, axis) = args_3!(inputs);
        let axis = eval::axis(self.spec(), &axis, ctx.symbols)?;
        let gather = self.operation.to_gather(axis, [data.rank(), indices.rank()])?;
        let outputs = gather.eval(ctx, tvec!(data, indices))?;
        // The rest of the model was optimised for the stated shape.
        let shape = outputs[0].shape();
        let fits = |(dim, stated): (&usize, &TDim)| {
            stated
                .eval(ctx.symbols)
                .as_i64()
                .is_none_or(|stated| usize::try_from(stated) == Ok(*dim))
        };
        if shape.len() != self.shape.len() || !shape.iter().zip(&self.shape).all(fits) {
            bail!(
                "{}: with axis {axis} the output has shape {shape:?}, but the model states {}",
                self.spec().name,
                listed(&self.shape)
            );
        }
        Ok(outputs)
    }
}

impl TypedOp for DynGather {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let spec = self.spec();
        let [data, indices, axis] = expect_inputs(spec.name, ["data", "indices", "axis"], inputs)?;
        let [data, indices] = eval::data_and_indices(spec, &[data, indices])?;
        eval::ensure_integer(spec, "axis", axis.datum_type)?;
        eval::check_one_element(spec, "axis", &axis.shape)?;
        let batch_dims = self.batch_dims();
        let dims = shape::gather_shape_of_any_axis(spec, batch_dims, &data.shape, &indices.shape)?;
        ensure!(
            self.shape.len() == dims.len(),
            "{}: the output has rank {}, but the model states rank {}",
            spec.name,
            dims.len(),
            self.shape.len()
        );
        // More may have become known of the inputs since the node was wired.
        let dims = dims.into_iter().zip(&self.shape);
        let shape: TVec<TDim> =
            dims.map(|(dim, stated)| dim.unwrap_or_else(|| stated.clone())).collect();
        Ok(tvec!(data.datum_type.fact(shape)))
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let [data, indices, axis] = *model.node_input_facts(node.id)? else { return Ok(None) };
        rule_if_some!(axis = &axis.konst);
        rule_if_some!(axis = eval::axis_if_known(self.spec(), axis)?);
        // tract derives facts again. But constants and operators may hold symbols that would get no value
        // any more.
        rule_if!(!are_held(&self.minted_symbols(model, node)?, model));
        let gather = self.operation.to_gather(axis, [data.rank(), indices.rank()])?;
        TypedModelPatch::replace_single_op(model, node, &node.inputs[..2], gather).map(Some)
    }

    fn set_symbols(
        &self,
        _source: &TypedModel,
        node: &TypedNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        subs: &HashMap<Symbol, TDim>,
    ) -> TractResult<TVec<OutletId>> {
        let shape =
            self.shape.iter().map(|dim| dim.substitute_all(subs)).collect::<TractResult<_>>()?;
        let inputs: TVec<OutletId> = node.inputs.iter().map(|input| mapping[input]).collect();
        target.wire_node(&node.name, DynGather { shape, ..self.clone() }, &inputs)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        eval::bytes_moved(&self.output_facts(inputs)?[0])
    }

    as_op!();
}
