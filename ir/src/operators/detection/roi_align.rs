use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

use super::feature_map::{Between, Channel, FeatureMap, check_samples, pooled, pooled_shape};
use super::{floats, impl_op, integers};
use crate::limits::MAX_SAMPLES;

/// ROIAlign-3 and -9: regions of a feature map in one size, of samples between its elements.
///
/// Inputs: data `[N, C, H, W]`, regions `[R, 4]` of x and y of two corners, and the number of the image of each
/// region `[R]`. Output: `[R, C, pooled_h, pooled_w]`. Samples that are more than one element outside of the
/// data count as 0. The greatest of samples is never less than 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoiAlign {
    pub pooled: [usize; 2],
    /// Samples of a part along an axis. If it is 0, as many as the part has elements.
    pub sampling_ratio: usize,
    pub spatial_scale: f32,
    pub greatest: bool,
    pub aligned: Aligned,
}

// Its float is compared with that of equal attributes.
impl Eq for RoiAlign {}

/// `aligned_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aligned {
    Asymmetric,
    HalfPixelForNn,
    HalfPixel,
    /// HalfPixelForNn, but regions are at least one element wide: ExperimentalDetectronROIFeatureExtractor.
    HalfPixelOfOne,
}

/// The samples of the parts of an axis of a region.
struct Samples {
    /// Those in the data, of each part.
    parts: Vec<Vec<Between>>,
    /// How many a part has, by the reckoning of the mean. It is negative if the region is.
    of_part: f32,
}

impl RoiAlign {
    /// The samples between two coordinates of an axis.
    fn samples(&self, start: f32, end: f32, parts: usize, size: usize) -> TractResult<Samples> {
        let (before, after) = match self.aligned {
            Aligned::Asymmetric => (0., 0.),
            Aligned::HalfPixelForNn | Aligned::HalfPixelOfOne => (0., -0.5),
            Aligned::HalfPixel => (0.5, -0.5),
        };
        let scaled = |coordinate: f32| (coordinate + before) * self.spatial_scale + after;
        let (start, end) = (scaled(start), scaled(end));
        let mut extent = end - start;
        if matches!(self.aligned, Aligned::Asymmetric | Aligned::HalfPixelOfOne) {
            extent = extent.max(1.);
        }
        ensure!(size > 0, "ROIAlign: the data has no elements in a spatial axis");
        let part = extent / parts as f32;
        let of_part =
            if self.sampling_ratio == 0 { part.ceil() } else { self.sampling_ratio as f32 };
        ensure!(
            of_part * parts as f32 <= MAX_SAMPLES as f32,
            "ROIAlign: a region from {start} to {end} has {of_part} samples in each of its {parts} parts, but must have \
             {MAX_SAMPLES} or fewer in all"
        );
        let step = part / of_part;
        let count = of_part.max(0.) as usize;
        let inside = -1f32..=size as f32;
        let parts = (0..parts).map(|number| {
            let of_part = start + number as f32 * part;
            let points = (0..count).map(|sample| of_part + step * (sample as f32 + 0.5));
            points.filter(|point| inside.contains(point)).map(|at| Between::new(at, size)).collect()
        });
        Ok(Samples { parts: parts.collect(), of_part })
    }

    /// Appends a region of all channels of an image.
    pub(super) fn align(
        &self,
        map: &FeatureMap,
        image: usize,
        region: &[f32],
        output: &mut Vec<f32>,
    ) -> TractResult<()> {
        let x = self.samples(region[0], region[2], self.pooled[1], map.width)?;
        let y = self.samples(region[1], region[3], self.pooled[0], map.height)?;
        for channel in 0..map.channels {
            self.pool(&map.channel(image, channel), &y, &x, output);
        }
        Ok(())
    }

    /// Appends the parts of a region of a channel.
    fn pool(&self, channel: &Channel, y: &Samples, x: &Samples, output: &mut Vec<f32>) {
        let count = y.of_part * x.of_part;
        for row in &y.parts {
            for column in &x.parts {
                let mut result = 0f32;
                for y in row {
                    for x in column {
                        let sample = channel.at(y, x);
                        result = if self.greatest { result.max(sample) } else { result + sample };
                    }
                }
                output.push(if self.greatest { result } else { result / count });
            }
        }
    }
}

impl_op!(RoiAlign, "OpenVinoRoiAlign", info = |op| vec![format!("{op:?}")]);

impl EvalOp for RoiAlign {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, regions, images) = args_3!(inputs);
        let map = FeatureMap::new("ROIAlign", &data)?;
        let images = integers(&images, ctx.symbols)?;
        ensure!(
            regions.shape() == [images.len(), 4],
            "ROIAlign: {} regions have shape {:?}, but must be [regions, 4]",
            images.len(),
            regions.shape()
        );
        let regions = floats(&regions)?;
        let shape = [images.len(), map.channels, self.pooled[0], self.pooled[1]];
        check_samples("ROIAlign", shape, self.sampling_ratio)?;
        let output = pooled("ROIAlign", &data, shape, |output| {
            for (region, image) in regions.chunks_exact(4).zip(&images) {
                let image = map.image("ROIAlign", *image as f32)?;
                self.align(&map, image, region, output)?;
            }
            Ok(())
        })?;
        Ok(tvec!(output))
    }
}

impl TypedOp for RoiAlign {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, regions, _] =
            expect_inputs("ROIAlign", ["data", "rois", "batch_indices"], inputs)?;
        pooled_shape("ROIAlign", data, regions, None, self.pooled)
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_a_limit() {
        let op = RoiAlign {
            pooled: [1, 1],
            sampling_ratio: 0,
            spatial_scale: 1.,
            greatest: false,
            aligned: Aligned::HalfPixel,
        };
        let count = |end| op.samples(0., end, 1, 4).map(|samples| samples.parts[0].len());
        assert_eq!(count(2.5).unwrap(), 3);
        assert_eq!(count(-2.).unwrap(), 0);
        // Those in the data.
        assert_eq!(count(60000.).unwrap(), 4);
        assert_eq!(count(f32::NAN).ok(), None);
        count(1e30).unwrap_err();
    }
}
