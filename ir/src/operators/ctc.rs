use tract_core::internal::*;

use super::{check_volume, floats, impl_plain_op};

/// The most probable class of each step, without repeated ones and blanks: OpenVINO's CTCGreedyDecoderSeqLen.
///
/// Inputs are the probabilities, `[batch, steps, classes]`, and the number of steps of each sequence; or a mask,
/// `[batch, steps]`, with a zero after the last step. Outputs are classes of type `i64`, with -1 after the last
/// one, and how many there are.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct CtcGreedyDecoder {
    pub merge_repeated: bool,
    /// `None` is the last class.
    pub blank: Option<i64>,
}

impl_plain_op!(
    CtcGreedyDecoder,
    "OpenVinoCtcGreedyDecoder",
    info = |op| vec![format!("merge_repeated: {}, blank: {:?}", op.merge_repeated, op.blank)]
);

impl CtcGreedyDecoder {
    /// The classes of one sequence.
    fn decode(&self, steps: &[f32], classes: usize) -> Vec<i64> {
        let blank = self.blank.unwrap_or(classes as i64 - 1);
        let best = |step: &[f32]| {
            (1..classes).fold(0, |best, class| if step[class] > step[best] { class } else { best })
        };
        let mut path: Vec<i64> =
            steps.chunks_exact(classes).map(|step| best(step) as i64).collect();
        if self.merge_repeated {
            path.dedup();
        }
        path.retain(|class| *class != blank);
        path
    }
}

/// The number of steps of each sequence.
fn lengths_of(lengths: &Tensor, batch: usize, steps: usize) -> TractResult<Vec<usize>> {
    let is_mask = lengths.shape() == [batch, steps];
    ensure!(
        is_mask || lengths.shape() == [batch],
        "CTCGreedyDecoder: the lengths of sequences have shape {:?}, but must have [{batch}] or [{batch}, {steps}]",
        lengths.shape()
    );
    if is_mask {
        let mask = floats(lengths)?;
        let row = |row: usize| mask[row * steps..][..steps].iter();
        return Ok((0..batch).map(|it| row(it).take_while(|step| **step != 0.).count()).collect());
    }
    let lengths = lengths.cast_to::<i64>()?;
    let lengths = lengths.try_as_plain_ram()?;
    let length = |(row, length): (usize, &i64)| {
        let known = usize::try_from(*length).ok().filter(|length| *length <= steps);
        known.with_context(|| {
            format!(
                "CTCGreedyDecoder: the length of sequence {row} is {length}, but must be in [0, {steps}]"
            )
        })
    };
    lengths.as_slice::<i64>()?.iter().enumerate().map(length).collect()
}

impl CtcGreedyDecoder {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, lengths) = args_2!(inputs);
        let &[batch, steps, classes] = data.shape() else {
            bail!("CTCGreedyDecoder: the data has shape {:?}, but must have rank 3", data.shape())
        };
        ensure!(classes > 0, "CTCGreedyDecoder: there are no classes");
        // Without steps there may be any number of sequences.
        check_volume("CTCGreedyDecoder", DatumType::I64, &[batch, steps.max(1)])?;
        let lengths = lengths_of(&lengths, batch, steps)?;
        let data = floats(&data)?;
        let mut decoded = vec![-1; batch * steps];
        let mut counts = vec![];
        for (row, length) in lengths.into_iter().enumerate() {
            let sequence = &data[row * steps * classes..][..length * classes];
            let path = self.decode(sequence, classes);
            decoded[row * steps..][..path.len()].copy_from_slice(&path);
            counts.push(path.len() as i64);
        }
        let decoded = tensor1(&decoded).into_shape(&[batch, steps])?;
        Ok(tvec!(decoded.into_tvalue(), tensor1(&counts).into_tvalue()))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = inputs[0].shape.to_tvec();
        let [batch, steps, _] = &*shape else {
            bail!("CTCGreedyDecoder: the data has rank {}, but must have rank 3", shape.len())
        };
        Ok(tvec!(i64::fact([batch, steps]), i64::fact([batch])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;
    use model_cases::TOO_MANY;

    #[test]
    fn more_sequences_than_there_is_memory_for() {
        let many = TOO_MANY;
        let op = CtcGreedyDecoder { merge_repeated: true, blank: None };
        let data = Tensor::zero::<f32>(&[many, 0, 3]).unwrap().into_tvalue();
        let mask = Tensor::zero::<f32>(&[many, 0]).unwrap().into_tvalue();
        let result = op.eval(tvec!(data, mask));
        fails(result, &format!("shape [{many}, "));
    }

    #[test]
    fn lengths_and_masks() {
        let lengths = |lengths: Tensor| lengths_of(&lengths, 2, 3);
        assert_eq!(lengths(tensor1(&[3, 0])).unwrap(), [3, 0]);
        assert_eq!(lengths(tensor2(&[[1f32, 0.5, 0.], [0., 1., 1.]])).unwrap(), [2, 0]);
        fails(lengths(tensor1(&[4, 0])), "the length of sequence 0 is 4, but must be in [0, 3]");
        fails(lengths(tensor1(&[-1, 0])), "the length of sequence 0 is -1, but must be in [0, 3]");
        fails(lengths(tensor1(&[1, 1, 1])), "have shape [3], but must have [2] or [2, 3]");
    }
}
