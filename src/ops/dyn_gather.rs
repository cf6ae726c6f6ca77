use crate::eval;
use crate::ops::Gather;
use crate::revision::{GatherRevision, NegativeIndices, Revision, Row};
use crate::shape;
use tract_core::internal::*;

/// [`Gather`] whose axis is only known when it runs; named after tract's `DynSlice`.
///
/// Inputs, in this order, as the specification has them:
///
/// * `data` and `indices`: as of [`Gather`];
/// * `axis`: `i8` to `i64`, `u8` to `u64` or `TDim`, a scalar or one element; below zero it counts
///   from `data.rank`.
///
/// The output has the type of `data` and rank `data.rank + indices.rank - batch_dims - 1`. A
/// dimension is what it is for every axis that is possible, if these agree: batch dimensions always
/// do. Of the others the model may say something (a `value_info`), and it is an error if that does not
/// hold when it runs. The rest are symbols of this node alone, which get their values then.
///
/// # Errors
///
/// Those of [`Gather`]; and when it runs, where the axis is not in `[-data.rank, data.rank - 1]`, or
/// is below `batch_dims`.
///
/// # Example
///
/// ```
/// use tract_openvino::tract_onnx::prelude::*;
/// use tract_openvino::{DynGather, GatherRevision, NegativeIndices};
///
/// # fn main() -> TractResult<()> {
/// let mut model = TypedModel::default();
/// let data = model.add_source("data", f32::fact([2, 3]))?;
/// let indices = model.add_source("indices", i64::fact([2]))?;
/// let axis = model.add_source("axis", i64::fact([0; 0]))?;
/// let output = DynGather::wire(
///     &mut model,
///     "gather",
///     GatherRevision::V8,
///     0,
///     NegativeIndices::default(),
///     [data, indices, axis],
/// )?;
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
    revision: GatherRevision,
    batch_dims: usize,
    negative_indices: NegativeIndices,
    shape: TVec<TDim>,
}

impl DynGather {
    /// The operator with the shape of its output, in which dimensions that depend on the axis are symbols
    /// mostly: see above.
    ///
    /// # Errors
    ///
    /// `batch_dims` is not 0 for Gather-1.
    pub fn new(
        revision: GatherRevision,
        batch_dims: usize,
        negative_indices: NegativeIndices,
        shape: TVec<TDim>,
    ) -> TractResult<DynGather> {
        shape::check_batch_dims(revision.row(), i64::try_from(batch_dims).unwrap_or(i64::MAX))?;
        Ok(DynGather { revision, batch_dims, negative_indices, shape })
    }

    /// Adds a node to a model: [`Gather`] where `axis` is a constant, else this operator, with symbols
    /// of the model's scope. A negative `batch_dims` counts from `indices.rank`.
    ///
    /// # Errors
    ///
    /// Ranks, batch dimensions, types or a constant axis do not fit.
    pub fn wire(
        model: &mut TypedModel,
        name: &str,
        revision: GatherRevision,
        batch_dims: i64,
        negative_indices: NegativeIndices,
        inputs: [OutletId; 3],
    ) -> TractResult<TVec<OutletId>> {
        Self::wire_with_known(model, name, revision, batch_dims, negative_indices, inputs, &[])
    }

    /// [`wire`](Self::wire), where somebody knows some of the output's dimensions.
    pub(crate) fn wire_with_known(
        model: &mut TypedModel,
        name: &str,
        revision: GatherRevision,
        batch_dims: i64,
        negative_indices: NegativeIndices,
        inputs: [OutletId; 3],
        known: &[Option<TDim>],
    ) -> TractResult<TVec<OutletId>> {
        let row = revision.row();
        let [data, indices, axis] = inputs.map(|input| model.outlet_fact(input).cloned());
        let (data, indices, axis) = (data?, indices?, axis?);
        let constant_axis = match &axis.konst {
            Some(axis) => eval::axis_if_known(row, axis)?,
            None => None,
        };
        if let Some(axis) = constant_axis {
            let axis = shape::normalize_axis(row, axis, data.rank())?;
            let op =
                Gather::with_ranks(revision, axis as i64, batch_dims, data.rank(), indices.rank())?;
            let op = op.with_negative_indices(negative_indices);
            return model.wire_node(name, op, &inputs[..2]);
        }
        shape::check_batch_dims(row, batch_dims)?;
        let batch_dims = shape::normalize_batch_dims(row, batch_dims, indices.rank())?;
        let dims = shape::gather_shape_of_any_axis(row, batch_dims, &data.shape, &indices.shape)?;
        let scope = model.symbols.clone();
        let dim = |(number, dim): (usize, Option<TDim>)| {
            let known = || known.get(number).cloned().flatten();
            dim.or_else(known).unwrap_or_else(|| scope.new_with_prefix("gather").into())
        };
        let shape = dims.into_iter().enumerate().map(dim).collect();
        let op = DynGather::new(revision, batch_dims, negative_indices, shape)?;
        model.wire_node(name, op, &inputs)
    }

    /// The revision.
    pub fn revision(&self) -> GatherRevision {
        self.revision
    }

    /// The number of leading axes that `data` and `indices` share.
    pub fn batch_dims(&self) -> usize {
        self.batch_dims
    }

    /// The meaning of negative indices.
    pub fn negative_indices(&self) -> NegativeIndices {
        self.negative_indices
    }

    /// The shape of the output.
    pub fn output_shape(&self) -> &[TDim] {
        &self.shape
    }

    fn row(&self) -> &'static Row {
        self.revision.row()
    }

    /// The operator that this is for an axis.
    fn at(&self, axis: i128, data_rank: usize) -> TractResult<Gather> {
        let axis = shape::normalize_axis(self.row(), axis, data_rank)?;
        let gather = Gather::new(self.revision, axis, self.batch_dims)?;
        Ok(gather.with_negative_indices(self.negative_indices))
    }

    /// Whether a node but this one needs a symbol that it gives a value. What tract derives from its
    /// inputs it will derive anew; what an operator or a constant has of its own stays.
    fn is_needed(&self, model: &TypedModel, node: &TypedNode) -> bool {
        let symbols: Vec<String> =
            self.shape.iter().flat_map(TDim::symbols).map(|symbol| symbol.to_string()).collect();
        let others = model.nodes().iter().filter(|other| other.id != node.id);
        let mut needs = others.map(|other| {
            let constants = other.outputs.iter().filter_map(|output| output.fact.konst.as_ref());
            let constants = constants.filter(|it| it.datum_type() == TDim::datum_type());
            format!("{:?} {:?}", other.op, constants.collect::<Vec<_>>())
        });
        needs.any(|needs| symbols.iter().any(|symbol| needs.contains(symbol)))
    }
}

impl Op for DynGather {
    fn name(&self) -> StaticName {
        format!("Dyn{}", self.row().name).into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        let policy = self.negative_indices.apply(self.revision.row().index_policy);
        Ok(vec![format!("batch_dims: {}", self.batch_dims), policy.to_string()])
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    op_as_typed_op!();
}

impl EvalOp for DynGather {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices, axis) = args_3!(inputs);
        let axis = eval::axis(self.row(), &axis, ctx.symbols)?;
        let outputs = self.at(axis, data.rank())?.eval(ctx, tvec!(data, indices))?;
        // Other operators may have been chosen for these dimensions.
        let shape = outputs[0].shape();
        let fits = |(dim, said): (&usize, &TDim)| {
            said.eval(ctx.symbols).to_usize().map_or(true, |said| said == *dim)
        };
        ensure!(
            shape.len() == self.shape.len() && shape.iter().zip(&self.shape).all(fits),
            "{}: with axis {axis} the output has shape {shape:?}, but the model says {:?}",
            self.row().name,
            self.shape
        );
        Ok(outputs)
    }
}

impl TypedOp for DynGather {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let row = self.row();
        let [data, indices, axis] = *inputs else {
            bail!("{}: got {} inputs, expected data, indices and axis", row.name, inputs.len())
        };
        let [data, indices] = eval::data_and_indices(row, &[data, indices])?;
        eval::ensure_integer(row, "axis", axis.datum_type)?;
        eval::check_axis_shape(row, &axis.shape)?;
        shape::normalize_batch_dims(row, self.batch_dims as i64, indices.rank())?;
        let dims =
            shape::gather_shape_of_any_axis(row, self.batch_dims, &data.shape, &indices.shape)?;
        ensure!(
            self.shape.len() == dims.len(),
            "{}: the output was said to have rank {}, but has rank {}",
            row.name,
            self.shape.len(),
            dims.len()
        );
        // What the inputs say comes first: it may have become more since.
        let dims = dims.into_iter().zip(&self.shape);
        let shape: TVec<TDim> =
            dims.map(|(dim, said)| dim.unwrap_or_else(|| said.clone())).collect();
        Ok(tvec!(data.datum_type.fact(shape)))
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let [data, _, axis] = *model.node_input_facts(node.id)? else { return Ok(None) };
        rule_if_some!(axis = &axis.konst);
        rule_if_some!(axis = eval::axis_if_known(self.row(), axis)?);
        rule_if!(!self.is_needed(model, node));
        let gather = self.at(axis, data.rank())?;
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
