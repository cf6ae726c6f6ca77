//! What MulticlassNms and MatrixNms have in common: the boxes that are selected in some images, and the outputs.

use tract_core::internal::*;

use super::boxes::{Corners, Extent, corners, descending, keep_greatest};
use super::{check_volume, floats};

/// The attributes of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Selection {
    pub order: Order,
    pub score_threshold: f32,
    /// The most candidates of a class.
    pub nms_top_k: Option<usize>,
    /// The most boxes of an image.
    pub keep_top_k: Option<usize>,
    pub background_class: Option<usize>,
    pub extent: Extent,
}

/// A box that is selected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Selected {
    pub score: f32,
    pub image: usize,
    pub class: usize,
    /// The number of the box in its image.
    pub index: usize,
    pub corners: Corners,
}

/// `sort_result_type`, and `sort_result_across_batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Order {
    pub by: By,
    pub across_batch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum By {
    ClassId,
    Score,
    None,
}

/// The numbers of scores that are sure, the greatest first, and no more than `most`.
pub(super) fn candidates(
    scores: &[f32],
    most: Option<usize>,
    is_sure: impl Fn(f32) -> bool,
) -> Vec<usize> {
    let mut candidates: Vec<usize> =
        (0..scores.len()).filter(|index| is_sure(scores[*index])).collect();
    keep_greatest(&mut candidates, most.unwrap_or(usize::MAX), |index| scores[*index]);
    candidates
}

impl Selection {
    /// The boxes of an image that are taken, those of the greatest scores first. `select` gives those of a class, of its boxes and
    /// scores: their numbers, and what their scores become.
    pub(super) fn of_image<'a>(
        &self,
        image: usize,
        classes: impl Iterator<Item = (&'a [Corners], &'a [f32])>,
        select: impl Fn(&[Corners], &[f32]) -> Vec<(usize, f32)>,
    ) -> Vec<Selected> {
        let mut selected = vec![];
        for (class, (boxes, scores)) in classes.enumerate() {
            if self.background_class != Some(class) {
                selected.extend(select(boxes, scores).into_iter().map(|(index, score)| Selected {
                    score,
                    image,
                    class,
                    index,
                    corners: boxes[index],
                }));
            }
        }
        selected.sort_by(|a: &Selected, b| {
            descending(a.score, b.score).then((a.class, a.index).cmp(&(b.class, b.index)))
        });
        selected.truncate(self.keep_top_k.unwrap_or(usize::MAX));
        selected
    }

    /// The three outputs where all classes have the boxes of their image.
    pub(super) fn shared(
        &self,
        operator: &str,
        boxes: &Tensor,
        scores: &Tensor,
        select: impl Fn(&[Corners], &[f32]) -> Vec<(usize, f32)>,
    ) -> TractResult<TVec<TValue>> {
        let [images, classes, count] = scores.shape()[..] else { bail!("scores have rank 3") };
        if boxes.len() == 0 || scores.len() == 0 {
            return nothing(operator, images);
        }
        let (boxes, scores) = (floats(boxes)?, floats(scores)?);
        let boxes: Vec<Corners> = corners(&boxes).collect();
        let mut selected = vec![];
        for image in 0..images {
            let boxes = &boxes[image * count..][..count];
            let scores = &scores[image * classes * count..][..classes * count];
            let classes = scores.chunks_exact(count).map(|scores| (boxes, scores));
            selected.extend(self.of_image(image, classes, &select));
        }
        self.order.outputs(selected, images, |it| it.image * count + it.index)
    }
}

impl Order {
    /// Orders boxes that are ordered by image, and within these by score.
    fn sort(self, selected: &mut [Selected]) {
        let place = |it: &Selected| (it.image, it.class, it.index);
        match (self.by, self.across_batch) {
            (By::None, _) | (By::Score, false) => {}
            (By::Score, true) => {
                selected.sort_by(|a, b| descending(a.score, b.score).then(place(a).cmp(&place(b))))
            }
            (By::ClassId, true) => selected.sort_by_key(|it| (it.class, it.image)),
            (By::ClassId, false) => selected.sort_by_key(|it| (it.image, it.class)),
        }
    }

    /// The three outputs: of each box `[class, score, corners]`; its index, which a function gives; and the
    /// number of boxes of each image.
    pub(super) fn outputs(
        self,
        mut selected: Vec<Selected>,
        images: usize,
        index: impl Fn(&Selected) -> usize,
    ) -> TractResult<TVec<TValue>> {
        let mut counts = vec![0i64; images];
        selected.iter().for_each(|it| counts[it.image] += 1);
        self.sort(&mut selected);
        let rows = selected.iter().flat_map(|it| {
            let [a, b, c, d] = it.corners.coordinates();
            [it.class as f32, it.score, a, b, c, d]
        });
        let rows: Vec<f32> = rows.collect();
        let indices: Vec<i64> = selected.iter().map(|it| index(it) as i64).collect();
        Ok(tvec!(
            Tensor::from_shape(&[selected.len(), 6], &rows)?.into_tvalue(),
            Tensor::from_shape(&[selected.len(), 1], &indices)?.into_tvalue(),
            tensor1(&counts).into_tvalue(),
        ))
    }
}

/// The three outputs without boxes or classes, of which there may be any number of images all the same.
fn nothing(operator: &str, images: usize) -> TractResult<TVec<TValue>> {
    check_volume(operator, DatumType::I64, &[images])?;
    Ok(tvec!(
        Tensor::zero::<f32>(&[0, 6])?.into_tvalue(),
        Tensor::zero::<i64>(&[0, 1])?.into_tvalue(),
        Tensor::zero::<i64>(&[images])?.into_tvalue(),
    ))
}

/// The facts of the three outputs.
pub(super) fn facts(count: &Symbol, images: TDim) -> TVec<TypedFact> {
    let count = count.to_dim();
    tvec!(
        f32::fact([count.clone(), 6.to_dim()]),
        i64::fact([count, 1.to_dim()]),
        i64::fact([images])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        let corners = Corners::new([0.; 4]);
        let one = |score, image, class| Selected { score, image, class, index: 0, corners };
        let boxes = vec![one(0.4, 0, 1), one(0.3, 0, 0), one(0.9, 1, 1), one(0.2, 1, 0)];
        let sorted = |by, across_batch| {
            let mut boxes = boxes.clone();
            Order { by, across_batch }.sort(&mut boxes);
            boxes.iter().map(|it| it.score).collect::<Vec<_>>()
        };
        assert_eq!(sorted(By::Score, false), [0.4, 0.3, 0.9, 0.2]);
        assert_eq!(sorted(By::Score, true), [0.9, 0.4, 0.3, 0.2]);
        assert_eq!(sorted(By::ClassId, false), [0.3, 0.4, 0.2, 0.9]);
        assert_eq!(sorted(By::ClassId, true), [0.3, 0.2, 0.4, 0.9]);
    }
}
