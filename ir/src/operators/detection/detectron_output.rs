use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_inputs, listed};

use super::boxes::{Candidate, Corners, Extent, corners, descending, keep_greatest, suppress};
use super::{check_volume, floats, impl_plain_op};

/// ExperimentalDetectronDetectionOutput-6: the boxes of regions, from what is predicted of each class.
///
/// Inputs: regions `[R, 4]`, deltas `[R, 4 * classes]`, scores `[R, classes]`; class 0 is the background.
/// Outputs: boxes `[max_detections_per_image, 4]`, classes of type i32 and scores, the last ones zeros. Boxes
/// are in the order of classes, or if there are too many, of scores. Of equal scores the first region comes
/// first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DetectronOutput {
    pub score_threshold: f32,
    pub nms_threshold: f32,
    pub classes: usize,
    /// The most boxes of a class.
    pub post_nms_count: Option<usize>,
    pub max_detections_per_image: usize,
    pub max_delta_log_wh: f32,
    pub deltas_weights: [f32; 4],
}

impl DetectronOutput {
    fn decode(&self, region: &Corners, deltas: &[f32]) -> Corners {
        let [x, y, width, height] = [0, 1, 2, 3].map(|k| deltas[k] / self.deltas_weights[k]);
        let most = self.max_delta_log_wh;
        let deltas = [x, y, width.min(most), height.min(most)];
        let mut decoded = region.refined(deltas, Extent::Pixels);
        decoded.x_max -= 1.;
        decoded.y_max -= 1.;
        decoded.clipped(f32::INFINITY, f32::INFINITY)
    }

    /// The boxes of a class.
    fn of_class(
        &self,
        class: usize,
        regions: &[Corners],
        deltas: &[f32],
        scores: &[f32],
    ) -> Vec<Candidate> {
        let candidates = regions.iter().enumerate().filter_map(|(region, corners)| {
            let place = region * self.classes + class;
            let score = scores[place];
            let (width, height) =
                (corners.width(Extent::Distance), corners.height(Extent::Distance));
            let sure = score > self.score_threshold && width > 0. && height > 0.;
            sure.then(|| {
                let corners = self.decode(corners, &deltas[place * 4..]);
                Candidate { score, class, region, corners }
            })
        });
        let mut candidates: Vec<Candidate> = candidates.collect();
        keep_greatest(&mut candidates, usize::MAX, |it| it.score);
        suppress(candidates, self.post_nms_count.unwrap_or(usize::MAX), |a, b| {
            a.corners.overlaps(&b.corners, Extent::Pixels, self.nms_threshold)
        })
    }
}

fn check_shapes<D: DimLike>(
    op: &DetectronOutput,
    regions: &[D],
    deltas: &[D],
    scores: &[D],
) -> TractResult<()> {
    let classes = op.classes;
    let expected = |shape: &[D], size: usize| {
        shape.len() == 2 && shape[0] == regions[0] && shape[1] == D::from(size)
    };
    ensure!(
        regions.len() == 2
            && expected(regions, 4)
            && Some(true) == classes.checked_mul(4).map(|size| expected(deltas, size))
            && expected(scores, classes),
        "DetectronDetectionOutput: regions, deltas and scores have shapes {regions}, {deltas} and {scores}, \
         but must be [regions, 4], [regions, 4 * {classes}] and [regions, {classes}]",
        regions = listed(regions),
        deltas = listed(deltas),
        scores = listed(scores)
    );
    Ok(())
}

impl_plain_op!(DetectronOutput, "OpenVinoDetectronOutput", info = |op| vec![format!("{op:?}")]);

impl DetectronOutput {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (regions, deltas, scores) = args_3!(inputs);
        check_shapes(self, regions.shape(), deltas.shape(), scores.shape())?;
        let most = self.max_detections_per_image;
        check_volume("DetectronDetectionOutput", DatumType::F32, &[most, 4])?;
        let (regions, deltas, scores) = (floats(&regions)?, floats(&deltas)?, floats(&scores)?);
        let regions: Vec<Corners> = corners(&regions).collect();
        let classes = 1..self.classes;
        let of_class = |class| self.of_class(class, &regions, &deltas, &scores);
        let mut found: Vec<Candidate> = classes.flat_map(of_class).collect();
        if found.len() > most {
            found.sort_by(|a, b| descending(a.score, b.score).then(a.region.cmp(&b.region)));
            found.truncate(most);
        }
        let mut boxes: Vec<f32> = found.iter().flat_map(|it| it.corners.coordinates()).collect();
        boxes.resize(most * 4, 0.);
        let mut classes: Vec<i32> = found.iter().map(|it| it.class as i32).collect();
        classes.resize(most, 0);
        let mut scores: Vec<f32> = found.iter().map(|it| it.score).collect();
        scores.resize(most, 0.);
        Ok(tvec!(
            Tensor::from_shape(&[most, 4], &boxes)?.into_tvalue(),
            tensor1(&classes).into_tvalue(),
            tensor1(&scores).into_tvalue(),
        ))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let names = ["input_rois", "input_deltas", "input_scores"];
        let inputs: [&TypedFact; 3] = expect_inputs("DetectronDetectionOutput", names, inputs)?;
        let [regions, deltas, scores] = inputs.map(|input| input.shape.to_tvec());
        check_shapes(self, &regions, &deltas, &scores)?;
        let most = self.max_detections_per_image;
        Ok(tvec!(f32::fact([most, 4]), i32::fact([most]), f32::fact([most])))
    }
}
