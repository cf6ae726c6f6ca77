use tract_core::internal::*;

use super::DetectionOutput;

/// The numbers of images, priors, classes and location classes.
pub(super) struct Sizes {
    pub images: usize,
    pub priors: usize,
    pub classes: usize,
    pub location_classes: usize,
}

impl Sizes {
    pub fn new(op: &DetectionOutput, inputs: &[TValue]) -> TractResult<Sizes> {
        let shapes: Vec<&[usize]> = inputs.iter().map(|input| input.shape()).collect();
        let sizes = match shapes[..] {
            [&[images, logits], &[_, scores], &[_, _, priors], ..] => {
                let priors = priors / op.prior_size();
                let classes = scores.checked_div(priors).unwrap_or(0);
                let location_classes = if op.share_location { 1 } else { classes };
                Some((Sizes { images, priors, classes, location_classes }, logits))
            }
            _ => None,
        };
        let sizes = sizes.filter(|(sizes, logits)| {
            let parts = if op.variance_encoded_in_target { 1 } else { 2 };
            let priors = shapes[2];
            *logits == sizes.priors * sizes.location_classes * 4
                && shapes[1] == [sizes.images, sizes.priors * sizes.classes]
                && (priors[0] == 1 || priors[0] == sizes.images)
                && priors[1..] == [parts, sizes.priors * op.prior_size()]
                && (shapes.len() == 3
                    || shapes[3..] == [&[sizes.images, sizes.priors * 2][..], shapes[0]])
        });
        let (sizes, _) = sizes.with_context(|| {
            format!("DetectionOutput: the inputs have shapes {shapes:?}, which do not fit together")
        })?;
        Ok(sizes)
    }
}
