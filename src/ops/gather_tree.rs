use std::borrow::Cow;

use crate::eval::{self, IntegerTensor};
use crate::geometry::Indices;
use crate::revision::{GATHER_TREE_1, Row};
use crate::shape;
use tract_core::internal::*;

/// OpenVINO's GatherTree-1: the sequences of a beam search, walked from their last step to the first one. The
/// parent of a beam says which beam of the step before it goes on from.
///
/// Inputs, in this order:
///
/// * `step_ids`: tokens, of any type of numbers, quantized ones included, in the shape
///   `[steps, batch, beams]`;
/// * `parent_idx`: for each of them the beam that it comes from, in the same shape;
/// * `max_seq_len`: the number of steps to walk, in the shape `[batch]`; not more than there are, and none
///   if it is negative;
/// * `end_token`: one element of the type of `step_ids`.
///
/// `parent_idx` and `max_seq_len` are integers, `TDim` included, or floats, whose fractions do not count.
///
/// The output is like `step_ids`. From the first `end_token` of a sequence on, and behind `max_seq_len`, it
/// is `end_token`.
///
/// # Errors
///
/// Typing and evaluation fail when types or shapes do not fit. Evaluation fails when a parent that is
/// walked to is not one of the beams. Nobody looks at the others: those of the first step, for one.
///
/// # Example
///
/// ```
/// use tract_openvino::GatherTree;
/// use tract_openvino::tract_onnx::prelude::*;
///
/// # fn main() -> TractResult<()> {
/// let mut model = TypedModel::default();
/// let steps = model.add_source("steps", i32::fact([2, 1, 2]))?;
/// let parents = model.add_source("parents", i32::fact([2, 1, 2]))?;
/// let lengths = model.add_const("lengths", tensor1(&[2i32]))?;
/// let end = model.add_const("end", tensor0(9i32))?;
/// let output = model.wire_node("tree", GatherTree, &[steps, parents, lengths, end])?;
/// model.select_output_outlets(&output)?;
///
/// let result = model.into_optimized()?.into_runnable()?.run(tvec!(
///     tensor3(&[[[1i32, 2]], [[3, 4]]]).into(),
///     tensor3(&[[[0i32, 0]], [[1, 0]]]).into(),
/// ))?;
/// assert_eq!(*result[0], tensor3(&[[[2i32, 1]], [[3, 4]]]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GatherTree;

const ROW: &Row = &GATHER_TREE_1;
const NAMES: [&str; 4] = GatherTree::INPUTS;

impl GatherTree {
    /// The names of the inputs.
    pub const INPUTS: [&str; 4] = ["step_ids", "parent_idx", "max_seq_len", "end_token"];
}

/// The shape of the output, after those of the inputs have been checked.
fn output_shape<D: DimLike>([steps, parents, lengths, end]: [&[D]; 4]) -> TractResult<TVec<D>> {
    for (name, shape, rank) in
        [(NAMES[0], steps, 3), (NAMES[1], parents, 3), (NAMES[2], lengths, 1)]
    {
        ensure!(
            shape.len() == rank,
            "{}: {name} has rank {}, but must have rank {rank}",
            ROW.name,
            shape.len()
        );
    }
    eval::check_one_element(ROW, NAMES[3], end)?;
    let dim = |(number, (step, parent)): (usize, (&D, &D))| {
        let what = format_args!("dimension {number}");
        shape::same_dim(ROW, what, (NAMES[0], step), (NAMES[1], parent))
    };
    let mut shape: TVec<D> =
        steps.iter().zip(parents).enumerate().map(dim).collect::<TractResult<_>>()?;
    shape[1] = shape::same_dim(
        ROW,
        "the size of the batch",
        (NAMES[0], &shape[1]),
        (NAMES[2], &lengths[0]),
    )?;
    Ok(shape)
}

fn check_types([steps, parents, lengths, end]: [DatumType; 4]) -> TractResult<()> {
    for (name, dt) in [(NAMES[1], parents), (NAMES[2], lengths)] {
        ensure!(
            eval::is_integer(dt) || dt.is_float(),
            "{}: {name} has element type {dt:?}, but must be of integers or floats, and not quantized",
            ROW.name
        );
    }
    ensure!(
        steps.is_number() && steps == end,
        "{}: step_ids and end_token have element types {steps:?} and {end:?}, but must be of one type of \
         numbers",
        ROW.name
    );
    Ok(())
}

/// The tensor, or the integers that its floats are.
fn as_integers(tensor: &Tensor) -> TractResult<Cow<'_, Tensor>> {
    if tensor.datum_type().is_float() { tensor.cast_to::<i64>() } else { Ok(Cow::Borrowed(tensor)) }
}

/// What the walks of all sequences have in common.
struct Walks<'a> {
    /// `[steps, batch, beams]`.
    shape: &'a [usize],
    parents: Indices<'a>,
    lengths: Indices<'a>,
}

impl Walks<'_> {
    /// Where the element of a step stands in `step_ids`, `parent_idx` and the output.
    fn place(&self, step: usize, row: usize, beam: usize) -> usize {
        (step * self.shape[1] + row) * self.shape[2] + beam
    }

    /// The number of steps to walk in a row of the batch.
    fn length(&self, row: usize) -> usize {
        self.lengths.get(row).clamp(0, self.shape[0] as i128) as usize
    }

    fn all<T: Datum + Copy + PartialEq>(
        &self,
        steps: &Tensor,
        end: &Tensor,
    ) -> TractResult<Tensor> {
        // Of the type of the steps, their quantization included.
        let mut output = Tensor::zero_dt(steps.datum_type(), self.shape)?;
        let mut plain = output.try_as_plain_ram_mut()?;
        let tokens = plain.as_slice_mut::<T>()?;
        let steps = steps.try_as_plain_ram()?;
        let end = *end.try_as_plain_ram()?.to_scalar::<T>()?;
        tokens.fill(end);
        // An axis may be long all the same.
        let rows = if tokens.is_empty() { 0 } else { self.shape[1] };
        for row in 0..rows {
            for beam in 0..self.shape[2] {
                self.one(row, beam, steps.as_slice()?, end, tokens)?;
            }
        }
        Ok(output)
    }

    /// Writes the sequence that ends in a beam.
    fn one<T: Copy + PartialEq>(
        &self,
        row: usize,
        beam: usize,
        steps: &[T],
        end: T,
        output: &mut [T],
    ) -> TractResult<()> {
        let length = self.length(row);
        let mut from = beam;
        for step in (0..length).rev() {
            output[self.place(step, row, beam)] = steps[self.place(step, row, from)];
            if step > 0 {
                from = self.parent(step, row, from)?;
            }
        }
        let mut ended = false;
        for step in 0..length {
            let token = &mut output[self.place(step, row, beam)];
            ended |= *token == end;
            if ended {
                *token = end;
            }
        }
        Ok(())
    }

    /// The beam of the step before.
    fn parent(&self, step: usize, row: usize, beam: usize) -> TractResult<usize> {
        let beams = self.shape[2];
        let parent = self.parents.get(self.place(step, row, beam));
        let known = usize::try_from(parent).ok().filter(|parent| *parent < beams);
        known.with_context(|| {
            format!(
                "{}: parent_idx[{step}, {row}, {beam}] is {parent}, but there are {beams} beams, so that a \
                 parent is in [0, {}]",
                ROW.name,
                beams - 1
            )
        })
    }
}

impl Op for GatherTree {
    fn name(&self) -> StaticName {
        ROW.name.into()
    }

    op_as_typed_op!();
}

impl EvalOp for GatherTree {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (steps, parents, lengths, end) = args_4!(inputs);
        let inputs: [&Tensor; 4] = [&steps, &parents, &lengths, &end];
        check_types(inputs.map(Tensor::datum_type))?;
        let shape = output_shape(inputs.map(Tensor::shape))?;
        let dt = steps.datum_type();
        eval::ensure_allocatable(ROW, steps.len() * dt.size_of())?;
        let (parents, lengths) = (as_integers(&parents)?, as_integers(&lengths)?);
        let parents = IntegerTensor::new(ROW, NAMES[1], &parents, ctx.symbols)?;
        let lengths = IntegerTensor::new(ROW, NAMES[2], &lengths, ctx.symbols)?;
        let walks =
            Walks { shape: &shape, parents: parents.entries()?, lengths: lengths.entries()? };
        let output = dispatch_numbers!(Walks::all(dt)(&walks, &steps, &end))?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for GatherTree {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let inputs: [&TypedFact; 4] = eval::inputs(ROW, &NAMES.join(", "), inputs)?;
        for (name, input) in NAMES.iter().zip(inputs) {
            eval::ensure_plain(ROW, name, input.is_plain())?;
        }
        check_types(inputs.map(|input| input.datum_type))?;
        let shape = output_shape(inputs.map(|input| &*input.shape))?;
        Ok(tvec!(inputs[0].datum_type.fact(shape)))
    }

    /// The batch is that of three inputs; a walk goes through all steps and beams.
    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        let mut mapping = AxesMapping::disconnected(inputs, outputs)?;
        for (input, batch) in [(0, 1), (1, 1), (2, 0)] {
            mapping = mapping.linking((InOut::Out(0), 1), (InOut::In(input), batch))?;
        }
        Ok(mapping)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        eval::bytes_moved(&self.output_facts(inputs)?[0])
    }

    as_op!();
}
