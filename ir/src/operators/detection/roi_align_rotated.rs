use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

use super::feature_map::{Between, FeatureMap, check_samples, pooled, pooled_shape, regions};
use super::{impl_op, integers};
use crate::limits::{MAX_SAMPLES, MAX_STATED_SAMPLES};

/// ROIAlignRotated-15: regions of a feature map that are turned, in one size, of means of samples between its elements.
///
/// Inputs: data `[N, C, H, W]`, regions `[R, 5]` of the x and y of a center, width, height and an angle in radians, and the number
/// of the image of each region `[R]`. Output: `[R, C, pooled_h, pooled_w]`. Samples that are more than one element outside of
/// the data count as 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoiAlignRotated {
    pub pooled: [usize; 2],
    /// Samples of a part along an axis. If it is 0, as many as the part has elements.
    pub sampling_ratio: usize,
    pub spatial_scale: f32,
    pub clockwise: bool,
}

// Its float is compared with that of equal attributes.
impl Eq for RoiAlignRotated {}

/// The samples of an axis of a region, before it is turned: where they are from its center on.
struct Samples {
    start: f32,
    part: f32,
    /// How many a part has.
    of_part: usize,
}

impl Samples {
    fn at(&self, part: usize, sample: usize) -> f32 {
        let step = self.part / self.of_part as f32;
        self.start + part as f32 * self.part + step * (sample as f32 + 0.5)
    }
}

impl RoiAlignRotated {
    /// The samples of an axis whose size is that of the region.
    fn samples(&self, size: f32, parts: usize) -> TractResult<Samples> {
        let part = size / parts as f32;
        let of_part = match self.sampling_ratio {
            0 => part.ceil().max(0.),
            ratio => ratio as f32,
        };
        ensure!(
            of_part * parts as f32 <= MAX_SAMPLES as f32,
            "ROIAlignRotated: a region of size {size} has {of_part} samples in each of its {parts} parts, but must have \
             {MAX_SAMPLES} or fewer in all"
        );
        Ok(Samples { start: -size / 2., part, of_part: of_part as usize })
    }

    /// The samples of a region that are in the data, part by part, and how many a part has.
    fn points(
        &self,
        map: &FeatureMap,
        [x, y, width, height, angle]: [f32; 5],
    ) -> TractResult<(Vec<Vec<[Between; 2]>>, usize)> {
        let scaled = |number: f32| number * self.spatial_scale;
        let center = [scaled(y) - 0.5, scaled(x) - 0.5];
        let rows = self.samples(scaled(height), self.pooled[0])?;
        let columns = self.samples(scaled(width), self.pooled[1])?;
        let (sin, cos) = if self.clockwise { -angle } else { angle }.sin_cos();
        let sizes = [map.height, map.width];
        let parts = self.pooled[0] * self.pooled[1];
        let count = rows.of_part * columns.of_part;
        ensure!(
            count.checked_mul(parts).is_some_and(|count| count as u64 <= MAX_STATED_SAMPLES),
            "ROIAlignRotated: a region has {count} samples in each of {parts} parts, but must have {MAX_STATED_SAMPLES} or \
             fewer in all"
        );
        let part = |number: usize| {
            let (row, column) = (number / self.pooled[1], number % self.pooled[1]);
            let mut points = vec![];
            for sample in 0..count {
                let down = rows.at(row, sample / columns.of_part);
                let right = columns.at(column, sample % columns.of_part);
                let point =
                    [down * cos - right * sin + center[0], down * sin + right * cos + center[1]];
                let is_inside = |axis: usize| (-1. ..=sizes[axis] as f32).contains(&point[axis]);
                if is_inside(0) && is_inside(1) {
                    points.push([0, 1].map(|axis| Between::new(point[axis], sizes[axis])));
                }
            }
            points
        };
        Ok(((0..parts).map(part).collect(), count))
    }
}

impl_op!(RoiAlignRotated, "OpenVinoRoiAlignRotated", info = |op| vec![format!("{op:?}")]);

impl EvalOp for RoiAlignRotated {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, rois, images) = args_3!(inputs);
        let map = FeatureMap::new("ROIAlignRotated", &data)?;
        let images = integers(&images, ctx.symbols)?;
        let regions = regions("ROIAlignRotated", &rois)?;
        ensure!(
            regions.len() == images.len(),
            "ROIAlignRotated: the numbers of regions and of their images are {} and {}, but must be equal",
            regions.len(),
            images.len()
        );
        let shape = [regions.len(), map.channels, self.pooled[0], self.pooled[1]];
        check_samples("ROIAlignRotated", shape, self.sampling_ratio)?;
        let output = pooled("ROIAlignRotated", &data, shape, |output| {
            for (region, image) in regions.into_iter().zip(images) {
                let image = map.image("ROIAlignRotated", image as f32)?;
                let (parts, count) = self.points(&map, region)?;
                for channel in 0..map.channels {
                    let channel = map.channel(image, channel);
                    output.extend(parts.iter().map(|points| {
                        let sum: f32 = points.iter().map(|[y, x]| channel.at(y, x)).sum();
                        if count == 0 { 0. } else { sum / count as f32 }
                    }));
                }
            }
            Ok(())
        })?;
        Ok(tvec!(output))
    }
}

impl TypedOp for RoiAlignRotated {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, regions, _] =
            expect_inputs("ROIAlignRotated", ["data", "rois", "batch_indices"], inputs)?;
        pooled_shape("ROIAlignRotated", data, regions, None, self.pooled)
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;

    fn op(sampling_ratio: usize) -> RoiAlignRotated {
        RoiAlignRotated { pooled: [1, 1], sampling_ratio, spatial_scale: 1., clockwise: true }
    }

    #[test]
    fn samples_have_a_limit() {
        let map = FeatureMap::new("", &Tensor::zero::<f32>(&[1, 1, 4, 4]).unwrap()).unwrap();
        let points = |ratio: usize, size: f32, angle: f32| {
            let (parts, count) = op(ratio).points(&map, [2., 2., size, size, angle])?;
            TractResult::Ok((parts[0].len(), count))
        };
        assert_eq!(points(0, 2.5, 0.).unwrap(), (9, 9));
        assert_eq!(points(0, -2., 0.).unwrap(), (0, 0));
        assert_eq!(points(2, 1e30, 1.).unwrap(), (0, 4));
        assert_eq!(points(2, 2., f32::NAN).unwrap(), (0, 4));
        assert_eq!(points(0, f32::NAN, 0.).unwrap(), (0, 0));
        fails(points(0, 1e30, 0.), "samples in each of its 1 parts");
    }

    #[test]
    fn stated_samples_have_a_limit() {
        let inputs = [
            Tensor::zero::<f32>(&[1, 1 << 16, 1, 1]).unwrap(),
            Tensor::zero::<f32>(&[1 << 8, 5]).unwrap(),
            Tensor::zero::<i32>(&[1 << 8]).unwrap(),
        ];
        let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
        fails(op(1 << 5).eval(&EvalContext::out_of_plan(), inputs), "needs more than");
    }
}
