use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_inputs, listed};

use super::boxes::descending;
use super::{check_volume, floats, impl_plain_op, in_type_of};

/// ExperimentalDetectronTopKROIs-6: the regions with the greatest scores.
///
/// Inputs: regions `[R, 4]` and scores `[R]`. Output: `[max_rois, 4]`, the last ones zeros if there are fewer. Of
/// equal scores the first region comes first.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct TopKRois {
    pub max_rois: usize,
}

fn check_shapes<D: DimLike>(regions: &[D], scores: &[D]) -> TractResult<()> {
    ensure!(
        regions.len() == 2 && regions[1] == D::from(4) && regions[..1] == *scores,
        "TopKROIs: regions and scores have shapes {regions} and {scores}, but must be [regions, 4] and \
         [regions]",
        regions = listed(regions),
        scores = listed(scores)
    );
    Ok(())
}

impl_plain_op!(
    TopKRois,
    "OpenVinoTopKRois",
    info = |op| vec![format!("the greatest {}", op.max_rois)]
);

impl TopKRois {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, scores) = args_2!(inputs);
        check_shapes(data.shape(), scores.shape())?;
        let shape = [self.max_rois, 4];
        check_volume("TopKROIs", DatumType::F32, &shape)?;
        let (regions, scores) = (floats(&data)?, floats(&scores)?);
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| descending(scores[*a], scores[*b]));
        order.truncate(self.max_rois);
        let mut output: Vec<f32> =
            order.iter().flat_map(|region| &regions[region * 4..][..4]).copied().collect();
        output.resize(self.max_rois * 4, 0.);
        Ok(tvec!(in_type_of(&data, &shape, &output)?))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, scores] = expect_inputs("TopKROIs", ["data", "scores"], inputs)?;
        check_shapes(&data.shape.to_tvec(), &scores.shape.to_tvec())?;
        Ok(tvec!(data.datum_type.fact([self.max_rois, 4])))
    }
}
