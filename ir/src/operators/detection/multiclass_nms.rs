use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_input_count, listed};

use super::boxes::{Corners, corners};
use super::non_max_suppression::check_shapes;
use super::selection::{Selected, Selection, candidates, facts};
use super::{floats, impl_op, integers};

/// MulticlassNms-8 and -9: of boxes of a class that overlap, those with the greatest scores.
///
/// Inputs: boxes `[N, boxes, 4]` and scores `[N, classes, boxes]`; or boxes `[classes, boxes, 4]`, scores
/// `[classes, boxes]`, and the number of boxes of each image `[N]`. Outputs: of each box that is selected class,
/// score and corners `[count, 6]` of type f32; its number `[count, 1]`, and how many there are of each image
/// `[N]`, both of type i64. The number is that among the boxes of all images, and in the second form among
/// those of all classes of all images.
///
/// A box is left out if it overlaps one that is taken by the threshold or more. Of equal scores the first class
/// and box comes first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MulticlassNms {
    pub selection: Selection,
    pub iou_threshold: f32,
    /// What the threshold is multiplied by for each box that is taken, while it is above 0.5.
    pub nms_eta: f32,
    /// The number of boxes that are selected. Only this node has the symbol.
    pub count: Symbol,
}

// Its floats are compared with those of equal attributes.
impl Eq for MulticlassNms {}

impl MulticlassNms {
    /// The boxes of a class that are taken, with their scores.
    fn select(&self, boxes: &[Corners], scores: &[f32]) -> Vec<(usize, f32)> {
        let Selection { score_threshold, nms_top_k, extent, .. } = self.selection;
        let mut threshold = self.iou_threshold;
        let mut taken: Vec<(usize, f32)> = vec![];
        for index in candidates(scores, nms_top_k, |score| score >= score_threshold) {
            let corners = boxes[index];
            let overlaps = |(earlier, _): &(usize, f32)| {
                boxes[*earlier].overlap(&corners, extent) >= threshold
            };
            if !taken.iter().any(overlaps) {
                taken.push((index, scores[index]));
                if self.nms_eta < 1. && threshold > 0.5 {
                    threshold *= self.nms_eta;
                }
            }
        }
        taken
    }

    /// All classes have the boxes of their image.
    fn shared(&self, boxes: &Tensor, scores: &Tensor) -> TractResult<TVec<TValue>> {
        let select = |boxes: &[Corners], scores: &[f32]| self.select(boxes, scores);
        self.selection.shared("MulticlassNms", boxes, scores, select)
    }

    /// Each class has boxes of its own, those of all images one after the other.
    fn apart(&self, boxes: &Tensor, scores: &Tensor, counts: &[i64]) -> TractResult<TVec<TValue>> {
        let [classes, count] = scores.shape()[..] else { bail!("scores have rank 2") };
        // Without boxes there may be any number of classes.
        let classes = if count == 0 { 0 } else { classes };
        let (boxes, scores) = (floats(boxes)?, floats(scores)?);
        let boxes: Vec<Corners> = corners(&boxes).collect();
        let (mut selected, mut starts, mut start) = (vec![], vec![], 0usize);
        for (image, boxes_of_image) in counts.iter().enumerate() {
            // A negative number is none.
            let size = usize::try_from((*boxes_of_image).max(0)).unwrap_or(usize::MAX);
            let end = start.checked_add(size).filter(|end| *end <= count);
            let end = end.with_context(|| {
                format!(
                    "MulticlassNms: roisnum[{image}] is {boxes_of_image}, but must be in [0, {}]: all images \
                     together have {count} boxes",
                    count - start
                )
            })?;
            let of_class = |class| {
                let here = class * count + start..class * count + end;
                (&boxes[here.clone()], &scores[here])
            };
            let classes = (0..classes).map(of_class);
            let select = |boxes: &[Corners], scores: &[f32]| self.select(boxes, scores);
            selected.extend(self.selection.of_image(image, classes, select));
            starts.push(start);
            start = end;
        }
        let number = |it: &Selected| (starts[it.image] + it.index) * classes + it.class;
        self.selection.order.outputs(selected, counts.len(), number)
    }
}

fn check_apart<D: DimLike>(boxes: &[D], scores: &[D]) -> TractResult<()> {
    ensure!(
        boxes.len() == 3 && boxes[..2] == *scores && boxes[2] == D::from(4),
        "MulticlassNms: boxes and scores have shapes {boxes} and {scores}, but must be [classes, boxes, 4] \
         and [classes, boxes]",
        boxes = listed(boxes),
        scores = listed(scores)
    );
    Ok(())
}

impl_op!(
    MulticlassNms,
    "OpenVinoMulticlassNms",
    info = |op| vec![format!("{op:?}")],
    mints_runtime_symbols = |_| true
);

impl EvalOp for MulticlassNms {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (boxes, scores) = (&inputs[0], &inputs[1]);
        if let (Some(counts), 2) = (inputs.get(2), scores.rank()) {
            check_apart(boxes.shape(), scores.shape())?;
            return self.apart(boxes, scores, &integers(counts, ctx.symbols)?);
        }
        check_shapes("MulticlassNms", boxes.shape(), scores.shape(), 4)?;
        self.shared(boxes, scores)
    }
}

impl TypedOp for MulticlassNms {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("MulticlassNms", inputs.len(), 2..=3)?;
        let (boxes, scores) = (inputs[0].shape.to_tvec(), inputs[1].shape.to_tvec());
        if inputs.len() == 3 && scores.len() == 2 {
            check_apart(&boxes, &scores)?;
            return Ok(facts(&self.count, inputs[2].shape.volume()));
        }
        check_shapes("MulticlassNms", &boxes, &scores, 4)?;
        Ok(facts(&self.count, boxes[0].clone()))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::detection::boxes::Extent;
    use crate::operators::detection::selection::{By, Order};
    use model_cases::{MANY, TOO_MANY};

    fn example() -> MulticlassNms {
        MulticlassNms {
            selection: Selection {
                order: Order { by: By::None, across_batch: false },
                score_threshold: 0.,
                nms_top_k: None,
                keep_top_k: None,
                background_class: None,
                extent: Extent::Distance,
            },
            iou_threshold: 0.5,
            nms_eta: 1.,
            count: SymbolScope::default().sym("count"),
        }
    }

    #[test]
    fn counts_of_boxes_that_there_are_not() {
        let op = example();
        let boxes = Tensor::zero::<f32>(&[1, 2, 4]).unwrap();
        let scores = Tensor::zero::<f32>(&[1, 2]).unwrap();
        assert_eq!(op.apart(&boxes, &scores, &[-1, 2]).unwrap()[0].shape(), [2, 6]);
        for counts in [[1, 2], [1, i64::MAX]] {
            let error = op.apart(&boxes, &scores, &counts).unwrap_err().to_string();
            let expected = format!(
                "roisnum[1] is {}, but must be in [0, 1]: all images together have 2 boxes",
                counts[1]
            );
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn any_number_of_images_and_classes_without_boxes() {
        let op = example();
        let many = MANY;
        let none = |shape: &[usize]| Tensor::zero::<f32>(shape).unwrap();
        op.shared(&none(&[TOO_MANY, 0, 4]), &none(&[TOO_MANY, 1, 0])).unwrap_err();
        assert_eq!(op.shared(&none(&[2, 0, 4]), &none(&[2, many, 0])).unwrap()[2].len(), 2);
        assert_eq!(op.apart(&none(&[many, 0, 4]), &none(&[many, 0]), &[0]).unwrap()[0].len(), 0);
    }
}
