use std::cmp::Ordering;

use std::collections::BinaryHeap;

use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_input_count, listed};

use super::boxes::{Corners, Extent, descending, suppress};
use super::rotated::Rotated;
use super::{float_or, floats, impl_op, integers};

/// NonMaxSuppression-1 to -9, and NMSRotated-13: of boxes that overlap, those with the greatest scores.
///
/// Inputs: boxes `[batches, boxes, 4]` (or 5, with an angle), scores `[batches, classes, boxes]`, and, each of one element and
/// optional, `max_output_boxes_per_class`, `iou_threshold`, `score_threshold` and `soft_nms_sigma`, all 0 by
/// default. Outputs: selected_indices `[count, 3]` of type i64 (batch, class, box), selected_scores
/// `[count, 3]` of type f32 (batch, class, score), and `valid_outputs`, the count, `[1]` of type i64.
///
/// A box is left out if it overlaps one that is taken by `iou_threshold` or more. So it is done by OpenVINO's
/// CPU plugin; by the specification it must be more. With a sigma the score decays instead, and the
/// threshold has no effect. Of equal scores the first box comes first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NonMaxSuppression {
    pub encoding: Encoding,
    /// The greatest scores come first, whatever their batch and class.
    pub sort_result_descending: bool,
    /// The number of boxes that are taken. Only this node has the symbol.
    pub count: Symbol,
}

/// `box_encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    /// Two corners in any order, y before x.
    Corner,
    /// Center, width and height.
    Center,
    /// Center, width, height and angle: NMSRotated.
    Rotated { clockwise: bool },
}

/// The boxes of an image.
enum Boxes {
    Corners(Vec<Corners>),
    Rotated(Vec<Rotated>),
}

/// The thresholds, and how many boxes are taken of each class.
struct Limits {
    most: usize,
    overlap: f32,
    score: f32,
    sigma: f32,
}

/// A box that may be taken.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    score: f32,
    index: usize,
    /// How many of the boxes that are taken its score has decayed for.
    seen: usize,
}

impl Eq for Candidate {}

/// The one to be taken next is the greatest.
impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        descending(other.score, self.score).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Limits {
    fn new(inputs: &[TValue], symbols: &SymbolValues) -> TractResult<Limits> {
        let most = match inputs.get(2) {
            Some(most) => integers(most, symbols)?.first().copied().unwrap_or(0),
            None => 0,
        };
        Ok(Limits {
            // A negative number is none.
            most: usize::try_from(most.max(0)).unwrap_or(usize::MAX),
            overlap: float_or(inputs, 3, 0.)?,
            score: float_or(inputs, 4, 0.)?,
            sigma: float_or(inputs, 5, 0.)?,
        })
    }

    /// The boxes that are taken of one class.
    fn select(&self, boxes: &Boxes, scores: &[f32]) -> Vec<Candidate> {
        let candidates = scores.iter().enumerate().filter(|(_, score)| **score > self.score);
        let candidates =
            candidates.map(|(index, score)| Candidate { score: *score, index, seen: 0 });
        let overlap = |a: &Candidate, b: &Candidate| boxes.overlap(a.index, b.index);
        if self.sigma > 0. {
            return self.decay(candidates.collect(), overlap);
        }
        let mut candidates: Vec<Candidate> = candidates.collect();
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        suppress(candidates, self.most, |a, b| overlap(a, b) >= self.overlap)
    }

    /// Soft-NMS: what overlaps a box that is taken gets a lower score, and is looked at again.
    fn decay(
        &self,
        mut candidates: BinaryHeap<Candidate>,
        overlap: impl Fn(&Candidate, &Candidate) -> f32,
    ) -> Vec<Candidate> {
        let scale = -0.5 / self.sigma;
        let mut taken: Vec<Candidate> = vec![];
        while taken.len() < self.most
            && let Some(mut next) = candidates.pop()
        {
            let before = next.score;
            for earlier in taken[next.seen..].iter().rev() {
                next.score *= (scale * overlap(&next, earlier).powi(2)).exp();
            }
            next.seen = taken.len();
            if next.score == before {
                taken.push(next);
            } else if next.score > self.score {
                candidates.push(next);
            }
        }
        taken
    }
}

impl Encoding {
    /// How many coordinates a box has.
    fn coordinates(self) -> usize {
        match self {
            Encoding::Corner | Encoding::Center => 4,
            Encoding::Rotated { .. } => 5,
        }
    }

    /// The boxes of an image.
    fn boxes(self, elements: &[f32]) -> Boxes {
        let corners = |corners: fn(&[f32]) -> Corners| {
            Boxes::Corners(elements.chunks_exact(4).map(corners).collect())
        };
        match self {
            Encoding::Corner => corners(|it| {
                let [y1, x1, y2, x2] = [it[0], it[1], it[2], it[3]];
                Corners::new([x1.min(x2), y1.min(y2), x1.max(x2), y1.max(y2)])
            }),
            Encoding::Center => corners(|it| Corners::around(it[0], it[1], it[2], it[3])),
            Encoding::Rotated { clockwise } => {
                // The y axis points down.
                let sign = if clockwise { 1. } else { -1. };
                let rotated = |it: &[f32]| Rotated::new([it[0], it[1], it[2], it[3], sign * it[4]]);
                Boxes::Rotated(elements.chunks_exact(5).map(rotated).collect())
            }
        }
    }
}

impl Boxes {
    fn overlap(&self, a: usize, b: usize) -> f32 {
        match self {
            Boxes::Corners(boxes) => boxes[a].overlap(&boxes[b], Extent::Distance),
            Boxes::Rotated(boxes) => boxes[a].overlap(&boxes[b]),
        }
    }
}

/// Checks the shapes of boxes and scores of an operator.
pub(super) fn check_shapes<D: DimLike>(
    operator: &str,
    boxes: &[D],
    scores: &[D],
    coordinates: usize,
) -> TractResult<()> {
    let together = match (boxes, scores) {
        ([batches, count, size], [scores_batches, _, scores_count]) => {
            batches == scores_batches && count == scores_count && *size == D::from(coordinates)
        }
        _ => false,
    };
    ensure!(
        together,
        "{operator}: boxes and scores have shapes {boxes} and {scores}, but must be [batches, boxes, \
         {coordinates}] and [batches, classes, boxes]",
        boxes = listed(boxes),
        scores = listed(scores)
    );
    Ok(())
}

impl_op!(NonMaxSuppression, "OpenVinoNonMaxSuppression", mints_runtime_symbols = |_| true);

impl EvalOp for NonMaxSuppression {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let coordinates = self.encoding.coordinates();
        check_shapes("NonMaxSuppression", inputs[0].shape(), inputs[1].shape(), coordinates)?;
        let limits = Limits::new(&inputs, ctx.symbols)?;
        let [_, classes, count] = inputs[1].shape() else { bail!("scores have rank 3") };
        let (boxes, scores) = (floats(&inputs[0])?, floats(&inputs[1])?);
        let mut selected = vec![];
        if !scores.is_empty() {
            let batches =
                boxes.chunks_exact(count * coordinates).zip(scores.chunks_exact(classes * count));
            for (batch, (boxes, scores)) in batches.enumerate() {
                let boxes = self.encoding.boxes(boxes);
                for (class, scores) in scores.chunks_exact(*count).enumerate() {
                    let taken = limits.select(&boxes, scores);
                    selected.extend(taken.into_iter().map(|taken| (batch, class, taken)));
                }
            }
        }
        if self.sort_result_descending {
            // Batches, classes and boxes are in order already, except for the boxes of one class.
            selected.sort_by(|a, b| {
                descending(a.2.score, b.2.score)
                    .then_with(|| (a.0, a.1, a.2.index).cmp(&(b.0, b.1, b.2.index)))
            });
        }
        let indices =
            selected.iter().flat_map(|(batch, class, taken)| [*batch, *class, taken.index]);
        let indices: Vec<i64> = indices.map(|index| index as i64).collect();
        let scores = selected
            .iter()
            .flat_map(|(batch, class, taken)| [*batch as f32, *class as f32, taken.score]);
        let scores: Vec<f32> = scores.collect();
        let shape = [selected.len(), 3];
        Ok(tvec!(
            Tensor::from_shape(&shape, &indices)?.into_tvalue(),
            Tensor::from_shape(&shape, &scores)?.into_tvalue(),
            tensor1(&[selected.len() as i64]).into_tvalue(),
        ))
    }
}

impl TypedOp for NonMaxSuppression {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("NonMaxSuppression", inputs.len(), 2..=6)?;
        let (boxes, scores) = (inputs[0].shape.to_tvec(), inputs[1].shape.to_tvec());
        check_shapes("NonMaxSuppression", &boxes, &scores, self.encoding.coordinates())?;
        let shape = [self.count.to_dim(), 3.to_dim()];
        Ok(tvec!(i64::fact(&shape), f32::fact(&shape), i64::fact([1])))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices and scores of boxes of one class.
    fn select(limits: Limits, boxes: &[[f32; 4]], scores: &[f32]) -> Vec<(usize, f32)> {
        let boxes = boxes.iter().map(|four| Corners::new(*four)).collect();
        let taken = limits.select(&Boxes::Corners(boxes), scores);
        taken.iter().map(|candidate| (candidate.index, candidate.score)).collect()
    }

    #[test]
    fn soft_scores_that_are_no_numbers_come_to_an_end() {
        let limits = Limits { most: 3, overlap: 0.5, score: 0., sigma: 1e-30 };
        let boxes = [[0., 0., 1., 1.]; 3];
        let scores = [f32::INFINITY, f32::INFINITY, f32::NAN];
        assert_eq!(select(limits, &boxes, &scores), [(0, f32::INFINITY)]);
    }

    #[test]
    fn a_threshold_that_is_met_suppresses() {
        let limits = Limits { most: 3, overlap: 0.5, score: 0., sigma: 0. };
        let boxes = [[0., 0., 1., 1.], [0., 0., 1., 0.5], [0., 0., 1., 0.25]];
        assert_eq!(select(limits, &boxes, &[0.3, 0.2, 0.1]), [(0, 0.3), (2, 0.1)]);
    }
}
