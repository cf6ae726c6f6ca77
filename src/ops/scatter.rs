use crate::eval::{self, IntegerTensor};
use crate::geometry::{self, BadIndex, Indices};
use crate::index::IndexPolicy;
use crate::revision::{ONNX_SCATTER_ELEMENTS, ONNX_SCATTER_ND, Spec};
use crate::shape;
use tract_core::internal::*;
use tract_core::ops::array::{ScatterElements, ScatterNd, ScatterReduction};
use tract_openvino_kernels::checks::{expect_inputs, listed};
use tract_openvino_kernels::impl_op;

/// Which places of `data` the entries of `indices` are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Places {
    /// ScatterND: the last dimension of `indices` has tuples, each of which picks what follows the axes that it indexes.
    Tuples,
    /// ScatterElements: each entry picks one element along this axis.
    Elements { axis: usize },
}

/// `ScatterND` and `ScatterElements` of the standard ONNX domain: tract's, behind a check of shapes and indices.
///
/// Inputs are `data`, `indices` (integers or `TDim`) and `updates`, which has the type of `data`. The output has the type
/// and the shape of `data`. A negative index counts from the end, and one out of range is an
/// [`IndexError`](crate::IndexError).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scatter {
    pub places: Places,
    pub reduction: ScatterReduction,
}

impl Scatter {
    pub fn spec(&self) -> &'static Spec {
        match self.places {
            Places::Tuples => &ONNX_SCATTER_ND,
            Places::Elements { .. } => &ONNX_SCATTER_ELEMENTS,
        }
    }

    /// tract's operator, for indices that are checked and not negative.
    fn of_tract(&self) -> Box<dyn TypedOp> {
        let reduction = self.reduction;
        match self.places {
            Places::Tuples => Box::new(ScatterNd { reduction }),
            Places::Elements { axis } => Box::new(ScatterElements { axis, reduction }),
        }
    }

    /// The first of the axes of `data` that are indexed, and their number.
    fn indexed<D: DimLike>(&self, data: &[D], indices: &[D]) -> TractResult<(usize, usize)> {
        let spec = self.spec();
        match self.places {
            Places::Tuples => {
                let last = indices.last().with_context(|| {
                    format!("{}: indices has rank 0, but must have rank 1 or more", spec.name)
                })?;
                let tuple = last.to_i64().with_context(|| {
                    format!("{}: the last dimension of indices must be known", spec.name)
                })?;
                let tuple = shape::tuple_length(spec, tuple)?;
                shape::check_tuple(spec, tuple, 0, data.len())?;
                Ok((0, tuple))
            }
            Places::Elements { axis } => {
                shape::normalize_axis(spec, axis as i128, data.len())?;
                Ok((axis, 1))
            }
        }
    }

    /// Checks the shapes of the inputs, as far as they are known.
    fn check_shapes<D: DimLike>(
        &self,
        data: &[D],
        indices: &[D],
        updates: &[D],
    ) -> TractResult<()> {
        let name = self.spec().name;
        let (_, tuple) = self.indexed(data, indices)?;
        let expected: TVec<D> = match self.places {
            Places::Tuples => {
                indices[..indices.len() - 1].iter().chain(&data[tuple..]).cloned().collect()
            }
            Places::Elements { axis } => {
                let fits = |number: usize| {
                    let [size, of_indices] = [&data[number], &indices[number]].map(DimLike::to_i64);
                    number == axis || !matches!((size, of_indices), (Ok(s), Ok(i)) if i > s)
                };
                ensure!(
                    indices.len() == data.len() && (0..data.len()).all(fits),
                    "{name}: indices has shape {}, but must have the rank of data, whose shape is {}, and no \
                     dimension that is larger, but that of axis {axis}",
                    listed(indices),
                    listed(data)
                );
                indices.into()
            }
        };
        let same = |(expected, found): (&D, &D)| expected.compatible_with(found);
        ensure!(
            updates.len() == expected.len() && expected.iter().zip(updates).all(same),
            "{name}: updates has shape {}, but must have shape {}, as data has {} and indices has {}",
            listed(updates),
            listed(&expected),
            listed(data),
            listed(indices)
        );
        Ok(())
    }

    /// The indices as positions, with these sizes of the axes that they index.
    fn positions(
        &self,
        entries: Indices,
        shape: &[usize],
        first: usize,
        sizes: &[usize],
    ) -> TractResult<Tensor> {
        const POLICY: IndexPolicy = IndexPolicy::Wrap;
        geometry::check(entries, sizes, POLICY).map_err(|BadIndex(number)| {
            let component = number % sizes.len();
            let (axis, size) = (first + component, sizes[component]);
            eval::index_error(self.spec(), POLICY, number, entries.get(number), shape, axis, size)
        })?;
        let positions: Option<Vec<usize>> = geometry::positions(entries, sizes, POLICY);
        let positions = positions.context("they were checked")?;
        let positions: Vec<i64> = positions.into_iter().map(|it| it as i64).collect();
        Tensor::from_shape(shape, &positions)
    }
}

impl_op!(
    Scatter,
    name = |op| op.spec().name,
    info = |op| {
        let axis = match op.places {
            Places::Tuples => String::new(),
            Places::Elements { axis } => format!("axis: {axis}, "),
        };
        let reduction = op.reduction.as_str();
        vec![format!("{axis}reduction: {reduction}"), IndexPolicy::Wrap.to_string()]
    }
);

impl EvalOp for Scatter {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices, updates) = args_3!(inputs);
        self.check_shapes(data.shape(), indices.shape(), updates.shape())?;
        let (first, count) = self.indexed(data.shape(), indices.shape())?;
        let sizes = &data.shape()[first..first + count];
        let integers = IntegerTensor::new(self.spec(), "indices", &indices, ctx.symbols)?;
        let positions = self.positions(integers.entries()?, indices.shape(), first, sizes)?;
        self.of_tract().eval(ctx, tvec![data, positions.into_tvalue(), updates])
    }
}

impl TypedOp for Scatter {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let spec = self.spec();
        let [data, indices, updates] =
            expect_inputs(spec.name, ["data", "indices", "updates"], inputs)?;
        for (name, fact) in [("data", data), ("indices", indices), ("updates", updates)] {
            eval::ensure_plain(spec, name, fact.is_plain())?;
        }
        eval::ensure_integer(spec, "indices", indices.datum_type)?;
        ensure!(
            data.datum_type == updates.datum_type,
            "{}: updates is of type {:?}, but must be of type {:?}, as data",
            spec.name,
            updates.datum_type,
            data.datum_type
        );
        self.check_shapes(&data.shape, &indices.shape, &updates.shape)?;
        let (first, count) = self.indexed(&data.shape, &indices.shape)?;
        let dims = &data.shape[first..first + count];
        if count > 0 {
            eval::check_constant_indices(spec, IndexPolicy::Wrap, first, dims, indices)?;
        }
        Ok(tvec!(data.without_value()))
    }

    /// Constant indices that are in range need no check, and tract has rewrites for them.
    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let facts = model.node_input_facts(node.id)?;
        let [data, indices, updates] = expect_inputs(self.spec().name, ["", "", ""], &facts)?;
        rule_if_some!(konst = &indices.konst);
        let (first, count) = self.indexed(&data.shape, &indices.shape)?;
        let sizes = data.shape[first..first + count].iter().map(TDim::to_usize);
        let Ok(sizes) = sizes.collect::<Result<TVec<usize>, _>>() else { return Ok(None) };
        // What only a run can tell is checked there.
        let shape = match self.places {
            Places::Tuples => {
                let (tuples, rest) = (&indices.shape[..indices.rank() - 1], &data.shape[count..]);
                tuples.iter().chain(rest).cloned().collect()
            }
            Places::Elements { .. } => indices.shape.to_tvec(),
        };
        let others = (0..data.rank()).all(|axis| {
            let is_smaller = || Some(indices.shape[axis].as_i64()? <= data.shape[axis].as_i64()?);
            self.places == Places::Tuples || axis == first || is_smaller() == Some(true)
        });
        rule_if!(others && *updates.shape.to_tvec() == *shape);
        let Some(integers) = IntegerTensor::if_known(self.spec(), "indices", konst)? else {
            return Ok(None);
        };
        let positions = self.positions(integers.entries()?, konst.shape(), first, &sizes)?;
        let mut patch = TypedModelPatch::default();
        let mut inputs = patch.taps(model, &node.inputs)?;
        inputs[1] = patch.add_const(format!("{}.positions", node.name), positions)?;
        let output = patch.wire_node(&node.name, self.of_tract(), &inputs)?;
        patch.shunt_outside(model, node.id.into(), output[0])?;
        Ok(Some(patch))
    }

    as_op!();
}
