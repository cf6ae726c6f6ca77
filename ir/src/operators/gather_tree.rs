use tract_core::internal::*;

use super::dispatch_number;

/// OpenVINO's GatherTree: the sequences of a beam search, from the parents of each step.
///
/// Inputs are `step_ids` and `parent_idx` of shape `[steps, batch, beams]`, `max_seq_len` of shape `[batch]`, and
/// `end_token`. The steps of a sequence after its end are `end_token`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GatherTree;

impl Op for GatherTree {
    fn name(&self) -> StaticName {
        "GatherTree".into()
    }

    op_as_typed_op!();
}

impl EvalOp for GatherTree {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (steps, parents, lengths, end) = args_4!(inputs);
        let &[count, batch, beams] = steps.shape() else {
            bail!("GatherTree: step_ids have shape {:?}, but must have rank 3", steps.shape())
        };
        ensure!(
            parents.shape() == steps.shape() && lengths.shape() == [batch],
            "GatherTree: step_ids, parent_idx and max_seq_len have shapes {:?}, {:?} and {:?}, but the first two \
             must be equal, and the last have a length for each batch",
            steps.shape(),
            parents.shape(),
            lengths.shape()
        );
        if steps.len() == 0 {
            return Ok(tvec!(steps));
        }
        let shape = [count, batch, beams];
        let (parents, lengths) = (parents.cast_to::<i64>()?, lengths.cast_to::<i64>()?);
        let output =
            dispatch_number!(trace(steps.datum_type())(&steps, &parents, &lengths, &end, shape))?;
        Ok(tvec!(output.into_tvalue()))
    }
}

fn trace<T: Datum + Copy + PartialEq>(
    steps: &Tensor,
    parents: &Tensor,
    lengths: &Tensor,
    end: &Tensor,
    [count, batch, beams]: [usize; 3],
) -> TractResult<Tensor> {
    let end = *end.try_as_plain_ram()?.as_slice::<T>()?.first().context("end_token is empty")?;
    let mut output = vec![end; steps.len()];
    let (steps, parents) = (steps.try_as_plain_ram()?, parents.try_as_plain_ram()?);
    let (steps, parents) = (steps.as_slice::<T>()?, parents.as_slice::<i64>()?);
    let lengths = lengths.try_as_plain_ram()?;
    for (row, length) in lengths.as_slice::<i64>()?.iter().enumerate() {
        let length = usize::try_from(*length).unwrap_or(0).min(count);
        let place = |step: usize, beam: usize| (step * batch + row) * beams + beam;
        for beam in 0..beams {
            let mut from = beam;
            for step in (0..length).rev() {
                output[place(step, beam)] = steps[place(step, from)];
                if step == 0 {
                    break;
                }
                let parent = parents[place(step, from)];
                let known = usize::try_from(parent).ok().filter(|parent| *parent < beams);
                from = known.with_context(|| {
                    format!(
                        "GatherTree: parent_idx[{step}, {row}, {from}] is {parent}, but must be in [0, {beams})"
                    )
                })?;
            }
            let ended = (0..length).find(|step| output[place(*step, beam)] == end);
            for step in ended.unwrap_or(length)..length {
                output[place(step, beam)] = end;
            }
        }
    }
    tensor1(&output).into_shape(&[count, batch, beams])
}

impl TypedOp for GatherTree {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(inputs[0].without_value()))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_that_is_not_there() {
        let run = |parents: [[[i32; 2]; 1]; 2], length: i32| {
            let steps = tensor3(&[[[1, 2]], [[3, 4]]]);
            let inputs = [steps, tensor3(&parents), tensor1(&[length]), tensor0(9)];
            let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
            Ok(GatherTree.eval(&EvalContext::out_of_plan(), inputs)?[0].clone().into_tensor())
        };
        let run = |parents, length| -> TractResult<Tensor> { run(parents, length) };
        let found = run([[[0, 0]], [[1, 0]]], 7).unwrap();
        assert_eq!(found, tensor3(&[[[2, 1]], [[3, 4]]]));
        let error = run([[[0, 0]], [[0, 2]]], 2).unwrap_err();
        assert!(error.to_string().contains("parent_idx[1, 0, 1] is 2"), "{error}");
        // What is behind the end is not looked at.
        run([[[0, 0]], [[0, 2]]], 1).unwrap();
        run([[[0, -1]], [[0, 0]]], 2).unwrap();
        run([[[0, 0]], [[0, 2]]], -1).unwrap();
    }
}
