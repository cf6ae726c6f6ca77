use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_inputs, listed};

use super::boxes::{Corners, Extent, keep_greatest, suppress};
use super::{check_boxes, floats, impl_op, in_type_of, set_symbols};

/// Proposal-1 and -4: the regions of a feature map in which there may be something.
///
/// Inputs: class probabilities `[N, 2 * anchors, H, W]`, of which the second half counts, box deltas `[N, 4 *
/// anchors, H, W]`, and the image: height, width, and the scale of both or of each. Outputs: regions `[N *
/// post_nms_topn, 5]`, of image and x and y of two corners, and their scores `[N * post_nms_topn]`. Behind the
/// last region of an image there is one of image -1. Of equal scores the first anchor comes first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Proposal {
    pub anchors: Vec<[f32; 4]>,
    pub pre_nms_topn: usize,
    pub post_nms_topn: usize,
    pub nms_thresh: f32,
    pub feat_stride: f32,
    pub min_size: f32,
    pub clip_before_nms: bool,
    pub clip_after_nms: bool,
    pub normalize: bool,
    pub box_size_scale: f32,
    pub box_coordinate_scale: f32,
    pub framework: Framework,
    /// The number of regions of all images.
    pub regions: TDim,
}

// Its floats are compared with those of equal attributes.
impl Eq for Proposal {}

/// `framework`: how coordinates count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framework {
    Default,
    /// Corners are not pixels that belong to the box, anchors are clipped to the image, and x and y are
    /// swapped.
    TensorFlow,
}

impl Framework {
    fn extent(self) -> Extent {
        match self {
            Framework::Default => Extent::Pixels,
            Framework::TensorFlow => Extent::Distance,
        }
    }

    /// The boxes around a cell, of each ratio and then of each scale.
    pub fn anchors(self, base_size: f32, ratios: &[f32], scales: &[f32]) -> Vec<[f32; 4]> {
        let extra = self.extent().extra();
        let center = match self {
            Framework::Default => 0.5 * (base_size - extra),
            Framework::TensorFlow => 0.,
        };
        let anchors = ratios.iter().flat_map(|ratio| {
            let mut width = (base_size * base_size / ratio).sqrt();
            let mut height = width * ratio;
            if self == Framework::Default {
                width = width.round();
                height = (width * ratio).round();
            }
            scales.iter().map(move |scale| {
                let x = 0.5 * (width * scale - extra);
                let y = 0.5 * (height * scale - extra);
                [center - x, center - y, center + x, center + y]
            })
        });
        anchors.collect()
    }
}

/// A region that may be an output.
#[derive(Clone, Copy)]
struct Candidate {
    score: f32,
    corners: Corners,
}

/// The image that the feature map is of: height and width, and the least ones of a box.
struct Image {
    height: f32,
    width: f32,
    least_height: f32,
    least_width: f32,
}

impl Image {
    fn new(op: &Proposal, tensor: &Tensor) -> TractResult<Image> {
        let (height, width, scale_height, scale_width) = match floats(tensor)?[..] {
            [height, width, scale] => (height, width, scale, scale),
            [height, width, scale_height, scale_width] => {
                (height, width, scale_height, scale_width)
            }
            _ => bail!(
                "Proposal: image_shape has shape {:?}, but must have 3 or 4 elements",
                tensor.shape()
            ),
        };
        let (least_height, least_width) = (op.min_size * scale_height, op.min_size * scale_width);
        let (height, width) = match op.framework {
            Framework::Default => (height, width),
            Framework::TensorFlow => (width, height),
        };
        Ok(Image { height, width, least_height, least_width })
    }
}

impl Proposal {
    /// A box from an anchor and four deltas.
    fn decode(&self, anchor: Corners, deltas: [f32; 4], image: &Image) -> Corners {
        let extent = self.framework.extent();
        let anchor = match self.framework {
            Framework::Default => anchor,
            Framework::TensorFlow => anchor.clipped(image.width, image.height),
        };
        let [x, y, width, height] = deltas;
        let (place, size) = (self.box_coordinate_scale, self.box_size_scale);
        let deltas = [x / place, y / place, width / size, height / size];
        let decoded = anchor.refined(deltas, extent);
        if !self.clip_before_nms {
            return decoded;
        }
        decoded.clipped(image.width - extent.extra(), image.height - extent.extra())
    }

    /// All boxes of an image, by rows, columns and anchors.
    fn candidates(
        &self,
        scores: &[f32],
        deltas: &[f32],
        [rows, columns]: [usize; 2],
        image: &Image,
    ) -> Vec<Candidate> {
        let cells = rows * columns;
        let extent = self.framework.extent();
        let mut candidates = Vec::with_capacity(scores.len());
        for cell in 0..cells {
            let (row, column) = (cell / columns, cell % columns);
            let (x, y) = match self.framework {
                Framework::Default => (column, row),
                Framework::TensorFlow => (row, column),
            };
            let (x, y) = (x as f32 * self.feat_stride, y as f32 * self.feat_stride);
            for (number, anchor) in self.anchors.iter().enumerate() {
                let [x_min, y_min, x_max, y_max] = *anchor;
                let anchor = Corners::new([x + x_min, y + y_min, x + x_max, y + y_max]);
                let delta = |k: usize| deltas[(number * 4 + k) * cells + cell];
                let corners = self.decode(anchor, [0, 1, 2, 3].map(delta), image);
                let large = image.least_width <= corners.width(extent)
                    && image.least_height <= corners.height(extent);
                let score = scores[number * cells + cell] * if large { 1. } else { 0. };
                candidates.push(Candidate { score, corners });
            }
        }
        candidates
    }

    /// The candidates with the greatest scores, without those that overlap.
    fn suppress(&self, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        let extent = self.framework.extent();
        keep_greatest(&mut candidates, self.pre_nms_topn, |it| it.score);
        suppress(candidates, self.post_nms_topn, |a, b| {
            a.corners.overlaps(&b.corners, extent, self.nms_thresh)
        })
    }

    fn region(&self, number: usize, corners: Corners, image: &Image) -> [f32; 5] {
        let mut corners = corners;
        if self.clip_after_nms {
            corners = corners.clipped(image.width, image.height);
        }
        if self.normalize {
            corners = corners.divided(image.width, image.height);
        }
        let [a, b, c, d] = corners.coordinates();
        [number as f32, a, b, c, d]
    }
}

fn check_shapes<D: DimLike>(op: &Proposal, probs: &[D], deltas: &[D]) -> TractResult<()> {
    let anchors = op.anchors.len();
    let expected = |factor: usize, shape: &[D]| match shape {
        [_, channels, _, _] => *channels == D::from(factor * anchors),
        _ => false,
    };
    ensure!(
        expected(2, probs)
            && expected(4, deltas)
            && probs[0] == deltas[0]
            && probs[2..] == deltas[2..],
        "Proposal: class_probs and bbox_deltas have shapes {probs} and {deltas}, but must be [N, {}, H, W] \
         and [N, {}, H, W], for {anchors} anchors",
        2 * anchors,
        4 * anchors,
        probs = listed(probs),
        deltas = listed(deltas)
    );
    Ok(())
}

impl_op!(
    Proposal,
    "OpenVinoProposal",
    info = |op| vec![format!("{} anchors, {} regions", op.anchors.len(), op.regions)]
);

impl EvalOp for Proposal {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (probs, deltas, image) = args_3!(inputs);
        check_shapes(self, probs.shape(), deltas.shape())?;
        let image = Image::new(self, &image)?;
        let [images, channels, rows, columns] = probs.shape()[..] else {
            bail!("class_probs have rank 4")
        };
        let count = self.post_nms_topn;
        check_boxes("Proposal", &[images, count])?;
        // Without regions there may be any number of images.
        let images = if count > 0 { images } else { 0 };
        let size = channels / 2 * rows * columns;
        let data = &probs;
        let (probs, deltas) = (floats(&probs)?, floats(&deltas)?);
        let mut regions = Vec::with_capacity(images * count * 5);
        let mut scores = Vec::with_capacity(images * count);
        for number in 0..images {
            let probs = &probs[(2 * number + 1) * size..][..size];
            let deltas = &deltas[4 * number * size..][..4 * size];
            let candidates = self.candidates(probs, deltas, [rows, columns], &image);
            let found = self.suppress(candidates);
            for Candidate { score, corners } in &found {
                regions.extend(self.region(number, *corners, &image));
                scores.push(*score);
            }
            if found.len() < count {
                regions.push(-1.);
            }
            regions.resize((number + 1) * count * 5, 0.);
            scores.resize((number + 1) * count, 0.);
        }
        Ok(tvec!(
            in_type_of(data, &[images * count, 5], &regions)?,
            in_type_of(data, &[images * count], &scores)?,
        ))
    }
}

impl TypedOp for Proposal {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [probs, deltas, _] =
            expect_inputs("Proposal", ["class_probs", "bbox_deltas", "image_shape"], inputs)?;
        check_shapes(self, &probs.shape.to_tvec(), &deltas.shape.to_tvec())?;
        let dt = probs.datum_type;
        Ok(tvec!(dt.fact([self.regions.clone(), 5.to_dim()]), dt.fact([self.regions.clone()])))
    }

    set_symbols!(regions);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use model_cases::MANY;

    #[test]
    fn any_number_of_images_without_regions() {
        let op = Proposal {
            anchors: vec![[0., 0., 1., 1.]],
            pre_nms_topn: 1,
            post_nms_topn: 0,
            nms_thresh: 0.5,
            feat_stride: 1.,
            min_size: 0.,
            clip_before_nms: true,
            clip_after_nms: false,
            normalize: false,
            box_size_scale: 1.,
            box_coordinate_scale: 1.,
            framework: Framework::Default,
            regions: 0.to_dim(),
        };
        let none = |channels| Tensor::zero::<f32>(&[MANY, channels, 0, 1]).unwrap().into_tvalue();
        let inputs = tvec!(none(2), none(4), tensor1(&[1f32; 3]).into_tvalue());
        let outputs = op.eval(&EvalContext::out_of_plan(), inputs).unwrap();
        assert_eq!(outputs[0].shape(), [0, 5]);
    }

    #[test]
    fn anchors_of_ratios_and_scales() {
        let anchors = Framework::Default.anchors(16., &[0.5, 1.], &[1., 2.]);
        assert_eq!(anchors[0], [-3.5, 2., 18.5, 13.]);
        assert_eq!(anchors[2], [0., 0., 15., 15.]);
        assert_eq!(anchors[3], [-8., -8., 23., 23.]);
        let anchors = Framework::TensorFlow.anchors(16., &[4.], &[1.]);
        assert_eq!(anchors, [[-4., -16., 4., 16.]]);
    }
}
