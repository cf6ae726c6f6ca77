use std::borrow::Cow;

use crate::eval::{self, IntegerTensor};
use crate::geometry::Indices;
use crate::revision::{GATHER_TREE_1, Spec};
use crate::shape;
use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;
use tract_openvino_kernels::impl_op;

/// OpenVINO's GatherTree-1: the token sequences of a beam search, walked from the last step to the first. The
/// parent of a beam is the beam of the previous step that it continues.
///
/// Inputs, in this order:
///
/// * `step_ids`: the tokens, of any numeric type, quantized ones included, of shape `[steps, batch, beams]`;
/// * `parent_idx`: the parents, of the same shape;
/// * `max_seq_len`: the length of the sequences, of shape `[batch]`; it is clamped to `[0, steps]`;
/// * `end_token`: one element of the type of `step_ids`.
///
/// `parent_idx` and `max_seq_len` are integers, `TDim` included, or floats, which are truncated.
///
/// The output has the type and shape of `step_ids`. In each sequence it is `end_token` from the first `end_token`
/// on, and after `max_seq_len`.
///
/// # Errors
///
/// Types or shapes do not fit. When the model runs, a parent on a walk is not a beam. Other parents, like those of
/// the first step, are not checked.
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

const SPEC: &Spec = &GATHER_TREE_1;
const NAMES: [&str; 4] = GatherTree::INPUTS;

impl GatherTree {
    /// The names of the inputs.
    pub const INPUTS: [&str; 4] = ["step_ids", "parent_idx", "max_seq_len", "end_token"];
}

/// Checks the shapes of the inputs. The output has the one of `step_ids`.
fn output_shape<D: DimLike>([steps, parents, lengths, end]: [&[D]; 4]) -> TractResult<TVec<D>> {
    for (name, shape, rank) in
        [(NAMES[0], steps, 3), (NAMES[1], parents, 3), (NAMES[2], lengths, 1)]
    {
        ensure!(
            shape.len() == rank,
            "{}: {name} has rank {}, but must have rank {rank}",
            SPEC.name,
            shape.len()
        );
    }
    eval::check_one_element(SPEC, NAMES[3], end)?;
    let dim = |(number, (step, parent)): (usize, (&D, &D))| {
        let what = format_args!("dimension {number}");
        shape::common_dim(SPEC, what, (NAMES[0], step), (NAMES[1], parent))
    };
    let mut shape: TVec<D> =
        steps.iter().zip(parents).enumerate().map(dim).collect::<TractResult<_>>()?;
    shape[1] =
        shape::common_dim(SPEC, "the batch size", (NAMES[0], &shape[1]), (NAMES[2], &lengths[0]))?;
    Ok(shape)
}

fn check_types([steps, parents, lengths, end]: [DatumType; 4]) -> TractResult<()> {
    for (name, dt) in [(NAMES[1], parents), (NAMES[2], lengths)] {
        ensure!(
            eval::is_integer(dt) || dt.is_float(),
            "{}: {name} has element type {dt:?}, but must have integers or floats, not quantized",
            SPEC.name
        );
    }
    ensure!(
        steps.is_number() && steps == end,
        "{}: step_ids and end_token have element types {steps:?} and {end:?}, but must have the same numeric \
         type",
        SPEC.name
    );
    Ok(())
}

/// The tensor, with floats truncated to integers.
fn as_integers(tensor: &Tensor) -> TractResult<Cow<'_, Tensor>> {
    if tensor.datum_type().is_float() { tensor.cast_to::<i64>() } else { Ok(Cow::Borrowed(tensor)) }
}

/// The inputs of all walks but the tokens, whose type is not known here.
struct Walks<'a> {
    /// `[steps, batch, beams]`.
    shape: &'a [usize],
    parents: Indices<'a>,
    lengths: Indices<'a>,
}

impl Walks<'_> {
    /// The offset of an element in `step_ids`, `parent_idx` and the output.
    fn offset(&self, step: usize, batch: usize, beam: usize) -> usize {
        (step * self.shape[1] + batch) * self.shape[2] + beam
    }

    /// The number of steps to walk in a batch.
    fn length(&self, batch: usize) -> usize {
        self.lengths.get(batch).clamp(0, self.shape[0] as i128) as usize
    }

    fn walk_all<T: Datum + Copy + PartialEq>(
        &self,
        steps: &Tensor,
        end: &Tensor,
    ) -> TractResult<Tensor> {
        // `T` does not have the quantization of the type.
        let mut output = Tensor::zero_dt(steps.datum_type(), self.shape)?;
        let mut plain = output.try_as_plain_ram_mut()?;
        let tokens = plain.as_slice_mut::<T>()?;
        let steps = steps.try_as_plain_ram()?;
        let end = *end.try_as_plain_ram()?.to_scalar::<T>()?;
        tokens.fill(end);
        // An empty output may have a batch of any size, which would take as long.
        let batches = if tokens.is_empty() { 0 } else { self.shape[1] };
        for batch in 0..batches {
            for beam in 0..self.shape[2] {
                self.walk(batch, beam, steps.as_slice()?, end, tokens)?;
            }
        }
        Ok(output)
    }

    /// Writes the sequence that ends in a beam.
    fn walk<T: Copy + PartialEq>(
        &self,
        batch: usize,
        beam: usize,
        steps: &[T],
        end: T,
        output: &mut [T],
    ) -> TractResult<()> {
        let length = self.length(batch);
        let mut from = beam;
        for step in (0..length).rev() {
            output[self.offset(step, batch, beam)] = steps[self.offset(step, batch, from)];
            if step > 0 {
                from = self.parent(step, batch, from)?;
            }
        }
        let mut ended = false;
        for step in 0..length {
            let token = &mut output[self.offset(step, batch, beam)];
            ended |= *token == end;
            if ended {
                *token = end;
            }
        }
        Ok(())
    }

    /// The beam of the previous step that this beam continues.
    fn parent(&self, step: usize, batch: usize, beam: usize) -> TractResult<usize> {
        let beams = self.shape[2];
        let parent = self.parents.get(self.offset(step, batch, beam));
        let known = usize::try_from(parent).ok().filter(|parent| *parent < beams);
        known.with_context(|| {
            format!(
                "{}: parent_idx[{step}, {batch}, {beam}] is {parent}, but must be in [0, {}], as the \
                 number of beams is {beams}",
                SPEC.name,
                beams - 1
            )
        })
    }
}

impl_op!(GatherTree, SPEC.name);

impl EvalOp for GatherTree {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (steps, parents, lengths, end) = args_4!(inputs);
        let inputs: [&Tensor; 4] = [&steps, &parents, &lengths, &end];
        check_types(inputs.map(Tensor::datum_type))?;
        let shape = output_shape(inputs.map(Tensor::shape))?;
        let dt = steps.datum_type();
        shape::volume(SPEC, dt, &shape)?;
        let (parents, lengths) = (as_integers(&parents)?, as_integers(&lengths)?);
        let parents = IntegerTensor::new(SPEC, NAMES[1], &parents, ctx.symbols)?;
        let lengths = IntegerTensor::new(SPEC, NAMES[2], &lengths, ctx.symbols)?;
        let walks =
            Walks { shape: &shape, parents: parents.entries()?, lengths: lengths.entries()? };
        let output = dispatch_numbers!(Walks::walk_all(dt)(&walks, &steps, &end))?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for GatherTree {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let inputs: [&TypedFact; 4] = expect_inputs(SPEC.name, NAMES, inputs)?;
        for (name, input) in NAMES.iter().zip(inputs) {
            eval::ensure_plain(SPEC, name, input.is_plain())?;
        }
        check_types(inputs.map(|input| input.datum_type))?;
        let shape = output_shape(inputs.map(|input| &*input.shape))?;
        Ok(tvec!(inputs[0].datum_type.fact(shape)))
    }

    /// The output shares the batch axis with three inputs. A walk goes through all steps and beams.
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
