use tract_core::internal::*;

use super::{impl_op, integers};

/// OpenVINO's CTCLoss: the negative logarithm of the probability of each sequence of labels.
///
/// Inputs are logits of type `f32`, `[batch, steps, classes]`; the number of steps of each sequence; labels,
/// `[batch, most labels]`; and the number of labels of each sequence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CtcLoss {
    /// Whether repeated labels are one label before anything else.
    pub collapse_repeated: bool,
    /// Whether steps of one class that follow each other are one label.
    pub merge_repeated: bool,
    /// Whether each label only counts once.
    pub unique: bool,
    /// `None` is the last class.
    pub blank: Option<i64>,
}

impl_op!(CtcLoss, "OpenVinoCtcLoss");

impl CtcLoss {
    fn loss(&self, steps: &[f32], classes: usize, blank: usize, labels: &[usize]) -> f64 {
        // A state between labels, and before and after all of them, is a blank.
        let states = 2 * labels.len() + 1;
        let is_blank = |state: usize| state.is_multiple_of(2);
        let class = |state: usize| if is_blank(state) { blank } else { labels[state / 2] };
        let skips = |state: usize| {
            state >= 2
                && !is_blank(state)
                && !(self.merge_repeated && labels[state / 2] == labels[state / 2 - 1])
        };
        let mut before = vec![f64::NEG_INFINITY; states];
        before[0] = 0.;
        for (number, step) in steps.chunks_exact(classes).enumerate() {
            let logits = || step.iter().map(|logit| f64::from(*logit));
            let total = logits().fold(f64::NEG_INFINITY, add_logarithms);
            let probability = |state: usize| f64::from(step[class(state)]) - total;
            let now = |state: usize| {
                let stays = number == 0 || is_blank(state) || self.merge_repeated;
                let mut sum = if stays { before[state] } else { f64::NEG_INFINITY };
                if state >= 1 {
                    sum = add_logarithms(sum, before[state - 1]);
                }
                if number > 0 && skips(state) {
                    sum = add_logarithms(sum, before[state - 2]);
                }
                sum + probability(state)
            };
            before = (0..states).map(now).collect();
        }
        let ends = before.iter().rev().take(2);
        -ends.copied().fold(f64::NEG_INFINITY, add_logarithms)
    }

    fn labels(&self, labels: &[i64], classes: usize) -> TractResult<Vec<usize>> {
        let mut labels: Vec<usize> = labels
            .iter()
            .map(|label| {
                let known = usize::try_from(*label).ok().filter(|label| *label < classes);
                known.with_context(|| {
                    format!("CTCLoss: a label is {label}, but must be in [0, {classes})")
                })
            })
            .collect::<TractResult<_>>()?;
        if self.collapse_repeated {
            labels.dedup();
        }
        if self.unique {
            let mut known = std::collections::HashSet::new();
            labels.retain(|label| known.insert(*label));
        }
        Ok(labels)
    }
}

/// The logarithm of the sum of two numbers, of which there are the logarithms.
fn add_logarithms(a: f64, b: f64) -> f64 {
    let most = a.max(b);
    if most.is_infinite() { most } else { most + ((a - most).exp() + (b - most).exp()).ln() }
}

impl EvalOp for CtcLoss {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (logits, lengths, labels, counts) = args_4!(inputs);
        let (&[batch, steps, classes], &[rows, most]) = (logits.shape(), labels.shape()) else {
            bail!(
                "CTCLoss: logits and labels have shapes {:?} and {:?}, but must have rank 3 and rank 2",
                logits.shape(),
                labels.shape()
            )
        };
        let blank = self.blank.unwrap_or(classes as i64 - 1);
        let blank =
            usize::try_from(blank).ok().filter(|blank| *blank < classes).with_context(|| {
                format!("CTCLoss: the blank is {blank}, but must be in [0, {classes})")
            })?;
        ensure!(
            rows == batch && lengths.len() == batch && counts.len() == batch,
            "CTCLoss: there are logits for {batch} sequences, but labels and lengths for {rows}, {} and {}",
            lengths.len(),
            counts.len()
        );
        let logits = logits.try_as_plain_ram()?;
        let logits = logits.as_slice::<f32>()?;
        let [lengths, counts, labels] =
            [&lengths, &counts, &labels].map(|input| integers(input, ctx.symbols));
        let (lengths, counts, labels) = (lengths?, counts?, labels?);
        let at_most = |number: i64, most: usize| {
            let known = usize::try_from(number).ok().filter(|number| *number <= most);
            known.with_context(|| {
                format!("CTCLoss: a length is {number}, but must be in [0, {most}]")
            })
        };
        let loss = |row: usize| -> TractResult<f32> {
            let (length, count) = (at_most(lengths[row], steps)?, at_most(counts[row], most)?);
            let labels = self.labels(&labels[row * most..][..count], classes)?;
            let steps = &logits[row * steps * classes..][..length * classes];
            Ok(self.loss(steps, classes, blank, &labels) as f32)
        };
        let losses: Vec<f32> = (0..batch).map(loss).collect::<TractResult<_>>()?;
        Ok(tvec!(tensor1(&losses).into_tvalue()))
    }
}

impl TypedOp for CtcLoss {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let batch = inputs[0]
            .shape
            .first()
            .context("CTCLoss: the logits have rank 0, but must have rank 3")?;
        Ok(tvec!(f32::fact([batch])))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_that_cannot_be() {
        let op =
            CtcLoss { collapse_repeated: false, merge_repeated: true, unique: false, blank: None };
        // Two equal labels need a blank between them.
        assert_eq!(op.loss(&[0.; 4], 2, 1, &[0, 0]), f64::INFINITY);
        assert!((op.loss(&[0.; 6], 2, 1, &[0, 0]) - 8f64.ln()).abs() < 1e-12);
        assert_eq!((op.loss(&[], 2, 1, &[]), op.loss(&[], 2, 1, &[0])), (0., f64::INFINITY));
        op.labels(&[2], 2).unwrap_err();
        let separate = CtcLoss { merge_repeated: false, ..op };
        assert!((separate.loss(&[0.; 4], 2, 1, &[0, 0]) - 4f64.ln()).abs() < 1e-12);
    }
}
