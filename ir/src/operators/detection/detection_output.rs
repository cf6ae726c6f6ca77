mod sizes;

use tract_core::internal::*;

use super::boxes::{Candidate, Corners, Extent, descending, keep_greatest, suppress};
use super::{check_boxes, floats, impl_op, in_type_of, set_symbols};
use sizes::Sizes;

/// DetectionOutput-1 and -8: the boxes of an SSD, from its predictions and prior boxes.
///
/// Inputs: box logits `[N, priors * location classes * 4]`, class predictions `[N, priors * classes]`, prior
/// boxes `[1 or N, 1 or 2, priors * 4 or 5]` (with their variances); and, both or none, additional class
/// predictions `[N, priors * 2]` and box logits like the first ones. Output: `[1, 1, rows, 7]` of image, class,
/// score and box. The row after the last one has -1 for the image.
///
/// Of equal scores the first prior comes first, and of one prior the first class.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DetectionOutput {
    pub background_label_id: Option<usize>,
    /// The most candidates of a class, or with `decrease_label_id` of an image.
    pub top_k: Option<usize>,
    /// The most boxes of an image.
    pub keep_top_k: Option<usize>,
    pub center_size: bool,
    pub variance_encoded_in_target: bool,
    pub share_location: bool,
    pub nms_threshold: f32,
    pub confidence_threshold: f32,
    pub clip_before_nms: bool,
    pub clip_after_nms: bool,
    pub decrease_label_id: bool,
    /// Width and height that priors are divided by, unless they are normalized. They begin with the number of
    /// an image then, which is -1 after the last prior.
    pub image: Option<[f32; 2]>,
    pub objectness_score: f32,
    /// The number of rows of the output.
    pub rows: TDim,
}

// Its floats are compared with those of equal attributes.
impl Eq for DetectionOutput {}

/// What there is of each prior of an image, and of each class.
struct Image<'a> {
    priors: &'a [Prior],
    classes: usize,
    location_classes: usize,
    logits: &'a [f32],
    scores: &'a [f32],
    /// Additional class predictions and box logits.
    additional: Option<(&'a [f32], &'a [f32])>,
}

struct Prior {
    corners: Corners,
    variance: [f32; 4],
}

impl DetectionOutput {
    fn prior_size(&self) -> usize {
        if self.image.is_some() { 5 } else { 4 }
    }

    /// The priors of an image, with their variances.
    fn priors(&self, elements: &[f32], count: usize) -> Vec<Prior> {
        let size = self.prior_size();
        let (boxes, variances) = elements.split_at(count * size);
        // Variances have four elements, whatever the boxes have.
        let variance = |four: &[f32]| [four[0], four[1], four[2], four[3]];
        let variances = variances.chunks_exact(4).map(variance);
        let variances = variances.chain(std::iter::repeat([1.; 4]));
        boxes
            .chunks_exact(size)
            .take_while(|prior| self.image.is_none() || prior[0] != -1.)
            .zip(variances)
            .map(|(prior, variance)| {
                let four = &prior[size - 4..];
                Prior { corners: Corners::new([four[0], four[1], four[2], four[3]]), variance }
            })
            .collect()
    }

    /// A box from a prior and what is predicted of it.
    fn decode(&self, prior: Corners, variance: [f32; 4], logits: &[f32]) -> Corners {
        let prior = self.image.map_or(prior, |[width, height]| prior.divided(width, height));
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| variance[k] * logits[k]);
        let decoded = if self.center_size {
            let (width, height) = (prior.width(Extent::Distance), prior.height(Extent::Distance));
            let center_x = (prior.x_min + prior.x_max) / 2.;
            let center_y = (prior.y_min + prior.y_max) / 2.;
            Corners::around(
                a * width + center_x,
                b * height + center_y,
                c.exp() * width,
                d.exp() * height,
            )
        } else {
            let [x_min, y_min, x_max, y_max] = prior.coordinates();
            Corners::new([x_min + a, y_min + b, x_max + c, y_max + d])
        };
        if self.clip_before_nms { decoded.clipped(1., 1.) } else { decoded }
    }

    /// The box of a prior and a class.
    fn corners(&self, image: &Image, prior: usize, class: usize) -> Corners {
        let class = if self.share_location { 0 } else { class };
        let start = (prior * image.location_classes + class) * 4;
        let Prior { corners, variance } = image.priors[prior];
        let corners = match image.additional {
            Some((_, logits)) => self.decode(corners, variance, &logits[start..]),
            None => corners,
        };
        self.decode(corners, variance, &image.logits[start..])
    }

    /// The score of a prior and a class.
    fn score(&self, image: &Image, prior: usize, class: usize) -> f32 {
        match image.additional {
            Some((objectness, _)) if objectness[prior * 2 + 1] < self.objectness_score => {
                if self.background_label_id == Some(class) { 1. } else { 0. }
            }
            _ => image.scores[prior * image.classes + class],
        }
    }

    fn candidate(&self, image: &Image, prior: usize, class: usize) -> Candidate {
        let corners = self.corners(image, prior, class);
        Candidate { score: self.score(image, prior, class), class, region: prior, corners }
    }

    /// The candidates with the greatest scores, without those that overlap one of their class.
    fn suppress(&self, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        keep_greatest(&mut candidates, self.top_k.unwrap_or(usize::MAX), |it| it.score);
        suppress(candidates, usize::MAX, |a, b| {
            a.class == b.class
                && a.corners.overlap(&b.corners, Extent::Distance) > self.nms_threshold
        })
    }

    /// The classes that are not the background.
    fn classes(&self, image: &Image) -> impl Iterator<Item = usize> + '_ {
        (0..image.classes).filter(|class| self.background_label_id != Some(*class))
    }

    /// The boxes of each class.
    fn of_classes(&self, image: &Image) -> Vec<Candidate> {
        let of_class = |class| {
            let priors = 0..image.priors.len();
            let sure =
                priors.filter(|prior| self.score(image, *prior, class) > self.confidence_threshold);
            self.suppress(sure.map(|prior| self.candidate(image, prior, class)).collect())
        };
        self.classes(image).flat_map(of_class).collect()
    }

    /// The boxes, if each prior is of the one class with the greatest score. Class 0 is none.
    fn of_best_classes(&self, image: &Image) -> Vec<Candidate> {
        let best = (0..image.priors.len()).filter_map(|prior| {
            let scores = self.classes(image).filter(|class| *class > 0);
            let scores = scores.map(|class| (class, self.score(image, prior, class)));
            let better =
                |best: (usize, f32), it: (usize, f32)| if it.1 > best.1 { it } else { best };
            let (class, score) = scores.fold((0, -1.), better);
            let is_one = class > 0 && score >= self.confidence_threshold;
            is_one.then(|| self.candidate(image, prior, class))
        });
        let mut best: Vec<Candidate> = best.collect();
        best.sort_by_key(|candidate| candidate.class);
        self.suppress(best)
    }

    /// The boxes of an image: by class, and then in the order of scores.
    fn detect(&self, image: &Image) -> Vec<Candidate> {
        let mut found = match self.decrease_label_id {
            true => self.of_best_classes(image),
            false => self.of_classes(image),
        };
        if let Some(most) = self.keep_top_k
            && found.len() > most
        {
            found.sort_by(|a, b| {
                descending(a.score, b.score).then((a.region, a.class).cmp(&(b.region, b.class)))
            });
            found.truncate(most);
        }
        found.sort_by_key(|candidate| candidate.class);
        found
    }

    fn row(&self, image: usize, candidate: &Candidate) -> [f32; 7] {
        let class = candidate.class as f32 - if self.decrease_label_id { 1. } else { 0. };
        let corners = candidate.corners;
        let corners = if self.clip_after_nms { corners.clipped(1., 1.) } else { corners };
        let [a, b, c, d] = corners.coordinates();
        [image as f32, class, candidate.score, a, b, c, d]
    }
}

impl_op!(DetectionOutput, "OpenVinoDetectionOutput", info = |op| vec![format!("{op:?}")]);

impl EvalOp for DetectionOutput {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let sizes = Sizes::new(self, &inputs)?;
        let Sizes { images, priors: count, classes, location_classes } = sizes;
        let rows = usize::try_from(self.rows.eval_to_i64(ctx.symbols)?)?;
        check_boxes("DetectionOutput", &[rows])?;
        let data = inputs.iter().map(|input| floats(input)).collect::<TractResult<Vec<_>>>()?;
        let part = |input: usize, image: usize, size: usize| &data[input][image * size..][..size];
        let logits = count * location_classes * 4;
        let of_image = inputs[2].shape()[1..].iter().product();
        let mut output = Vec::with_capacity(rows * 7);
        // Without rows there may be any number of images.
        let images = if rows > 0 { images } else { 0 };
        for number in 0..images {
            let of = if inputs[2].shape()[0] == 1 { 0 } else { number };
            let priors = self.priors(part(2, of, of_image), count);
            let additional =
                (data.len() > 3).then(|| (part(3, number, count * 2), part(4, number, logits)));
            let image = Image {
                priors: &priors,
                classes,
                location_classes,
                logits: part(0, number, logits),
                scores: part(1, number, count * classes),
                additional,
            };
            let found = self.detect(&image);
            output.extend(found.iter().flat_map(|candidate| self.row(number, candidate)));
        }
        let end = output.len();
        output.resize(rows * 7, 0.);
        if let Some(marker) = output.get_mut(end) {
            *marker = -1.;
        }
        Ok(tvec!(in_type_of(&inputs[0], &[1, 1, rows, 7], &output)?))
    }
}

impl TypedOp for DetectionOutput {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(
            [3, 5].contains(&inputs.len()),
            "DetectionOutput: the number of inputs is {}, but must be 3 or 5",
            inputs.len()
        );
        let shape = [1.to_dim(), 1.to_dim(), self.rows.clone(), 7.to_dim()];
        Ok(tvec!(inputs[0].datum_type.fact(&shape)))
    }

    set_symbols!(rows);

    as_op!();
}
