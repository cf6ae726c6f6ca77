use tract_core::internal::*;

use tract_openvino_kernels::{Run, take_runs};

use super::{impl_op, integers};

/// ReverseSequence-1: reverses the first elements along an axis. The second input says how many, for each
/// position on another axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ReverseSequence {
    pub batch_axis: usize,
    pub seq_axis: usize,
}

impl_op!(
    ReverseSequence,
    "OpenVinoReverseSequence",
    info = |op| vec![format!("batch_axis: {}, seq_axis: {}", op.batch_axis, op.seq_axis)]
);

impl EvalOp for ReverseSequence {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, lengths) = args_2!(inputs);
        let lengths = integers(&lengths, ctx.symbols)?;
        let (batch, size) = (data.shape()[self.batch_axis], data.shape()[self.seq_axis]);
        ensure!(
            lengths.len() == batch,
            "ReverseSequence: the number of seq_lengths is {}, but must be {batch}, the size of axis {} of data",
            lengths.len(),
            self.batch_axis
        );
        let mut output = data.clone().into_tensor();
        for (number, length) in lengths.into_iter().enumerate() {
            let length =
                usize::try_from(length).ok().filter(|length| *length <= size).with_context(
                    || format!("ReverseSequence: seq_lengths[{number}] is {length}, but must be in [0, {size}]"),
                )?;
            if length < 2 || data.len() == 0 {
                continue;
            }
            let sequence = data.slice(self.batch_axis, number, number + 1)?;
            let reversed = Run { first: length - 1, stride: -1, count: length };
            let rest = Run { first: length, stride: 1, count: size - length };
            let runs = [reversed, rest];
            let reversed = take_runs("ReverseSequence", &sequence, self.seq_axis, &runs)?;
            output.assign_slice(number..number + 1, &reversed, 0..1, self.batch_axis)?;
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for ReverseSequence {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let rank = inputs[0].rank();
        ensure!(
            self.batch_axis < rank && self.seq_axis < rank,
            "ReverseSequence: the axes are {} and {}, but must be in [0, {rank})",
            self.batch_axis,
            self.seq_axis
        );
        Ok(tvec!(inputs[0].without_value()))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_in_and_out_of_range() {
        let data = tensor2(&[[1, 2, 3], [4, 5, 6]]);
        let op = ReverseSequence { batch_axis: 0, seq_axis: 1 };
        let run = |lengths: &[i64]| {
            let inputs = tvec!(data.clone().into_tvalue(), tensor1(lengths).into_tvalue());
            op.eval(&EvalContext::out_of_plan(), inputs)
        };
        assert_eq!(*run(&[2, 3]).unwrap()[0], tensor2(&[[2, 1, 3], [6, 5, 4]]));
        assert_eq!(*run(&[0, 1]).unwrap()[0], data);
        for lengths in [&[4, 0][..], &[0, -1], &[1]] {
            run(lengths).unwrap_err();
        }
    }
}
