use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

use super::boxes::Corners;
use super::impl_plain_op;
use super::non_max_suppression::check_shapes;
use super::selection::{Selection, candidates, facts};

/// MatrixNms-8: the score of a box becomes less for each box of a greater score that it overlaps.
///
/// Inputs: boxes `[N, boxes, 4]` and scores `[N, classes, boxes]`. Outputs: of each box that is selected class,
/// score and corners `[count, 6]` of type f32; its number among the boxes of all images `[count, 1]`, and how
/// many there are of each image `[N]`, both of type i64.
///
/// Of equal scores the first class and box comes first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MatrixNms {
    pub selection: Selection,
    pub post_threshold: f32,
    /// With a sigma the decay is gaussian, and otherwise linear.
    pub gaussian_sigma: Option<f32>,
    /// The number of boxes that are selected. Only this node has the symbol.
    pub count: Symbol,
}

impl_plain_op!(
    MatrixNms,
    "OpenVinoMatrixNms",
    info = |op| vec![format!("{op:?}")],
    mints_runtime_symbols = |_| true
);

impl MatrixNms {
    /// How much a score becomes less: `least` is the greatest overlap of the other box with those before it.
    fn decay(&self, overlap: f32, least: f32) -> f32 {
        match self.gaussian_sigma {
            Some(sigma) => ((least * least - overlap * overlap) * sigma).exp(),
            None => (1. - overlap) / (1. - least + 1e-10),
        }
    }

    /// The boxes of a class with what their scores become.
    fn select(&self, boxes: &[Corners], scores: &[f32]) -> Vec<(usize, f32)> {
        let Selection { score_threshold, nms_top_k, extent, .. } = self.selection;
        let candidates = candidates(scores, nms_top_k, |score| score > score_threshold);
        // Of each candidate the greatest overlap with those before it.
        let mut greatest: Vec<f32> = Vec::with_capacity(candidates.len());
        let mut selected = vec![];
        for (number, index) in candidates.iter().enumerate() {
            let mut decay = 1f32;
            let mut most = 0f32;
            for (earlier, least) in candidates[..number].iter().zip(&greatest) {
                let (a, b) = (boxes[*index], boxes[*earlier]);
                let overlap = if a.is_apart(&b) { 0. } else { a.overlap(&b, extent) };
                most = most.max(overlap);
                decay = decay.min(self.decay(overlap, *least));
            }
            greatest.push(most);
            let score = scores[*index] * decay;
            if score > self.post_threshold {
                selected.push((*index, score));
            }
        }
        selected
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (boxes, scores) = args_2!(inputs);
        check_shapes("MatrixNms", boxes.shape(), scores.shape(), 4)?;
        self.selection
            .shared("MatrixNms", &boxes, &scores, |boxes, scores| self.select(boxes, scores))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [boxes, scores] = expect_inputs("MatrixNms", ["boxes", "scores"], inputs)?;
        check_shapes("MatrixNms", &boxes.shape.to_tvec(), &scores.shape.to_tvec(), 4)?;
        Ok(facts(&self.count, boxes.shape[0].clone()))
    }
}
