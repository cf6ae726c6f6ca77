use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_input_count;

use super::feature_map::{FeatureMap, check_samples, pooled, pooled_shape};
use super::roi_align::RoiAlign;
use super::{floats, impl_plain_op};

/// ExperimentalDetectronROIFeatureExtractor-6: regions in one size, each from one of some feature maps.
///
/// Inputs: regions `[R, 4]` of x and y of two corners, and feature maps `[1, C, H, W]`, one for each scale, the
/// largest first. Output: `[R, C, size, size]`. The larger a region, the smaller its feature map. A region
/// without area is zeros.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoiFeatureExtractor {
    /// How many times smaller than the image each feature map is.
    pub pyramid_scales: Vec<f32>,
    /// What is done with a region of a feature map, except for the scale.
    pub align: RoiAlign,
}

/// The size of a region that comes from the feature map of number 2.
const CANONICAL_SIZE: f32 = 224.;

/// The number of the feature map of a region.
fn level(region: &[f32], levels: usize) -> Option<usize> {
    let area = (region[2] - region[0]) * (region[3] - region[1]);
    let level = ((area.sqrt() / CANONICAL_SIZE + 1e-6).log2() + 2.).floor();
    // Conversion saturates.
    (area > 0.).then(|| (level as usize).min(levels - 1))
}

impl_plain_op!(
    RoiFeatureExtractor,
    "OpenVinoRoiFeatureExtractor",
    info = |op| vec![format!("{op:?}")]
);

impl RoiFeatureExtractor {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let name = "ROIFeatureExtractor";
        let maps: Vec<FeatureMap> = inputs[1..]
            .iter()
            .map(|input| FeatureMap::new(name, input))
            .collect::<TractResult<_>>()?;
        let channels = maps[0].channels;
        let [count, 4] = inputs[0].shape()[..] else {
            bail!("{name}: regions have shape {:?}, but must be [regions, 4]", inputs[0].shape())
        };
        ensure!(
            maps.iter().all(|map| map.channels == channels && map.batch == 1),
            "{name}: the feature maps must be of one image, and have the same number of channels"
        );
        let regions = floats(&inputs[0])?;
        let shape = [count, channels, self.align.pooled[0], self.align.pooled[1]];
        check_samples(name, shape, self.align.sampling_ratio)?;
        let of_region: usize = shape[1..].iter().product();
        let output = pooled(name, &inputs[1], shape, |output| {
            for (number, region) in regions.chunks_exact(4).enumerate() {
                if let Some(level) = level(region, maps.len()) {
                    let spatial_scale = 1. / self.pyramid_scales[level];
                    let align = RoiAlign { spatial_scale, ..self.align.clone() };
                    align.align(&maps[level], 0, region, output)?;
                }
                output.resize((number + 1) * of_region, 0.);
            }
            Ok(())
        })?;
        Ok(tvec!(output))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        // The regions, and a feature map for each level.
        let count = 1 + self.pyramid_scales.len().max(1);
        expect_input_count("ROIFeatureExtractor", inputs.len(), count..=count)?;
        pooled_shape("ROIFeatureExtractor", inputs[1], inputs[0], None, self.align.pooled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_by_area() {
        let of_size = |size: f32| level(&[0., 0., size, size], 4);
        assert_eq!([56., 112., 224., 448., 1e9].map(of_size), [0, 1, 2, 3, 3].map(Some));
        assert_eq!([1e-9, -1.].map(of_size), [Some(0), Some(0)]);
        assert_eq!(level(&[0., 0., 1., -1.], 4), None);
        assert_eq!(of_size(f32::NAN), None);
    }
}
