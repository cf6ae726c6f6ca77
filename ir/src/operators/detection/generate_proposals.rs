use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_inputs, listed};

use super::boxes::{Corners, Extent, corners, keep_greatest, suppress};
use super::{SetSymbols, check_boxes, floats, impl_op, set_symbols};

/// GenerateProposals-9 and ExperimentalDetectronGenerateProposalsSingleImage-6: the regions of a feature map in
/// which there may be something.
///
/// Inputs: the images `[N, 3 or 4]`, of height, width and scales; anchors `[H, W, A, 4]`; deltas `[N, 4 * A, H,
/// W]`; scores `[N, A, H, W]`. Outputs of type f32: regions `[count, 4]` and scores `[count]`; and of type i64
/// how many there are of each image `[N]`. Of equal scores the first anchor comes first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GenerateProposals {
    pub min_size: f32,
    pub nms_threshold: f32,
    pub pre_nms_count: usize,
    pub post_nms_count: usize,
    pub extent: Extent,
    pub output: Output,
}

// Its floats are compared with those of equal attributes.
impl Eq for GenerateProposals {}

/// How many regions there are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Output {
    /// Those that are found. Only this node has the symbol.
    Found(Symbol),
    /// `post_nms_count` of each image, the last ones zeros. Regions of score 0 are none, the scale of an image
    /// has no effect, and overlaps are from corner to corner.
    Padded(TDim),
}

impl SetSymbols for Output {
    fn set_symbols(&mut self, values: &HashMap<Symbol, TDim>) -> TractResult<()> {
        match self {
            Output::Found(_) => Ok(()),
            Output::Padded(count) => count.set_symbols(values),
        }
    }
}

/// Logarithms of sizes are not greater.
pub(super) fn most_log_size() -> f32 {
    (1000f32 / 16.).ln()
}

struct Candidate {
    score: f32,
    corners: Corners,
    is_large: bool,
}

impl GenerateProposals {
    fn is_padded(&self) -> bool {
        matches!(self.output, Output::Padded(_))
    }

    /// All boxes of an image: by rows, columns and anchors.
    fn candidates(
        &self,
        image: &[f32],
        anchors: &[Corners],
        deltas: &[f32],
        scores: &[f32],
        cells: usize,
    ) -> TractResult<Vec<Candidate>> {
        let (height, width, scales) = match *image {
            [height, width, scale] => (height, width, [scale; 2]),
            [height, width, scale_height, scale_width] => {
                (height, width, [scale_height, scale_width])
            }
            _ => bail!(
                "GenerateProposals: im_info has {} numbers, but must have 3 or 4",
                image.len()
            ),
        };
        let scales = if self.is_padded() { [1.; 2] } else { scales };
        let least = scales.map(|scale| self.min_size * scale);
        let extra = self.extent.extra();
        let of_cell = anchors.len().checked_div(cells).unwrap_or(0);
        let candidates = anchors.iter().enumerate().map(|(number, anchor)| {
            let (cell, of_cell) = (number / of_cell, number % of_cell);
            let delta = |k: usize| deltas[(of_cell * 4 + k) * cells + cell];
            let most = most_log_size();
            let deltas = [delta(0), delta(1), delta(2).min(most), delta(3).min(most)];
            let mut corners = anchor.refined(deltas, self.extent);
            corners.x_max -= extra;
            corners.y_max -= extra;
            let corners = corners.clipped(width - extra, height - extra);
            let is_large =
                least[1] <= corners.width(self.extent) && least[0] <= corners.height(self.extent);
            Candidate { score: scores[of_cell * cells + cell], corners, is_large }
        });
        Ok(candidates.collect())
    }

    /// The candidates with the greatest scores, without those that are small or overlap.
    fn suppress(&self, mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        // The specification of a single image removes small ones first. OpenVINO gives them a score of 0 instead.
        if self.is_padded() {
            candidates.retain(|it| it.is_large);
        }
        keep_greatest(&mut candidates, self.pre_nms_count, |it| it.score);
        candidates.retain(|it| it.is_large);
        let extent = if self.is_padded() { Extent::Distance } else { self.extent };
        suppress(candidates, self.post_nms_count, |a, b| {
            a.corners.overlaps(&b.corners, extent, self.nms_threshold)
        })
    }
}

/// Checks the shapes of images, anchors, deltas and scores, and gives the number of images.
fn check_shapes<D: DimLike>(shapes: [&[D]; 4]) -> TractResult<D> {
    let together = match shapes {
        [[images, _], [rows, columns, anchors, four], deltas, scores] => {
            let deltas_of_cell = anchors.clone() * 4;
            *four == D::from(4)
                && deltas == [images.clone(), deltas_of_cell, rows.clone(), columns.clone()]
                && scores == [images.clone(), anchors.clone(), rows.clone(), columns.clone()]
        }
        _ => false,
    };
    ensure!(
        together,
        "GenerateProposals: the inputs have shapes {}, but must be [N, 3 or 4], [H, W, A, 4], [N, 4 * A, H, \
         W] and [N, A, H, W]",
        shapes.map(listed).join(", ")
    );
    Ok(shapes[0][0].clone())
}

impl_op!(
    GenerateProposals,
    "OpenVinoGenerateProposals",
    info = |op| vec![format!("{op:?}")],
    mints_runtime_symbols = |op| !op.is_padded()
);

impl EvalOp for GenerateProposals {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (info, anchors, deltas, scores) = args_4!(inputs);
        let images = check_shapes([info.shape(), anchors.shape(), deltas.shape(), scores.shape()])?;
        let cells = anchors.shape()[0] * anchors.shape()[1];
        let of_info = info.shape()[1];
        let (info, anchors) = (floats(&info)?, floats(&anchors)?);
        let (deltas, scores) = (floats(&deltas)?, floats(&scores)?);
        let anchors: Vec<Corners> = corners(&anchors).collect();
        let count = anchors.len();
        if self.is_padded() {
            check_boxes("GenerateProposals", &[images, self.post_nms_count])?;
        }
        let (mut regions, mut found, mut counts) = (vec![], vec![], vec![]);
        for image in 0..images {
            let candidates = self.candidates(
                &info[image * of_info..][..of_info],
                &anchors,
                &deltas[image * count * 4..][..count * 4],
                &scores[image * count..][..count],
                cells,
            )?;
            let taken = self.suppress(candidates);
            counts.push(taken.len() as i64);
            regions.extend(taken.iter().flat_map(|it| it.corners.coordinates()));
            found.extend(taken.iter().map(|it| it.score));
            if self.is_padded() {
                found.resize((image + 1) * self.post_nms_count, 0.);
                regions.resize(found.len() * 4, 0.);
            }
        }
        Ok(tvec!(
            Tensor::from_shape(&[found.len(), 4], &regions)?.into_tvalue(),
            tensor1(&found).into_tvalue(),
            tensor1(&counts).into_tvalue(),
        ))
    }
}

impl TypedOp for GenerateProposals {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let inputs: [&TypedFact; 4] =
            expect_inputs("GenerateProposals", ["im_info", "anchors", "deltas", "scores"], inputs)?;
        let [info, anchors, deltas, scores] = inputs.map(|input| input.shape.to_tvec());
        let images = check_shapes([&info, &anchors, &deltas, &scores])?;
        let count = match &self.output {
            Output::Found(symbol) => symbol.to_dim(),
            Output::Padded(count) => count.clone(),
        };
        Ok(tvec!(f32::fact([count.clone(), 4.to_dim()]), f32::fact([count]), i64::fact([images])))
    }

    set_symbols!(output);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_regions_of_a_single_image() -> TractResult<()> {
        let op = GenerateProposals {
            min_size: 5.,
            nms_threshold: 0.7,
            pre_nms_count: 2,
            post_nms_count: 3,
            extent: Extent::Distance,
            output: Output::Padded(3.to_dim()),
        };
        let anchors = [[10f32, 10., 12., 12.], [20., 20., 60., 60.], [70., 70., 90., 90.]];
        let inputs = [
            tensor2(&[[100f32, 100., 1.]]),
            tensor2(&anchors).into_shape(&[1, 1, 3, 4])?,
            Tensor::zero::<f32>(&[1, 12, 1, 1])?,
            tensor1(&[0.9f32, 0., 0.3]).into_shape(&[1, 3, 1, 1])?,
        ];
        let inputs = inputs.into_iter().map(Tensor::into_tvalue).collect();
        let outputs = op.eval(&EvalContext::out_of_plan(), inputs)?;
        assert_eq!(*outputs[0], tensor2(&[anchors[2], anchors[1], [0.; 4]]));
        assert_eq!(*outputs[1], tensor1(&[0.3f32, 0., 0.]));
        Ok(())
    }
}
