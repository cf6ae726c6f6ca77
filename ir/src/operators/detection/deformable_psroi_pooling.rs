use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_input_count, volume};

use super::feature_map::{Between, FeatureMap, pooled, pooled_shape, regions};
use super::{floats, impl_plain_op};
use crate::limits::MAX_STATED_SAMPLES;

/// DeformablePSROIPooling-1: regions of a feature map in one size, of which each element comes from a channel of its own, and is
/// moved by an offset.
///
/// Inputs: data `[N, output_dim * group_size * group_size, H, W]`, regions `[R, 5]` of image, x and y of two corners, and maybe
/// offsets `[R, 2 * classes, part_size, part_size]`, x before y, in parts of a region. Output: `[R, output_dim, group_size,
/// group_size]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeformablePsroiPooling {
    pub output_dim: usize,
    pub group_size: usize,
    pub spatial_scale: f32,
    /// How many points of each element there are along y and x.
    pub bins: [usize; 2],
    pub trans_std: f32,
    pub part_size: usize,
}

/// An axis of a region: where it begins, and its size.
#[derive(Clone, Copy)]
struct Axis {
    start: f32,
    size: f32,
}

impl Axis {
    /// Between two corners.
    fn new(start: f32, end: f32, scale: f32) -> Axis {
        let start = start.round() * scale - 0.5;
        let end = (end.round() + 1.) * scale - 0.5;
        Axis { start, size: (end - start).max(0.1) }
    }
}

impl_plain_op!(
    DeformablePsroiPooling,
    "OpenVinoDeformablePsroiPooling",
    info = |op| vec![format!("{op:?}")]
);

impl DeformablePsroiPooling {
    /// The number of channels that the data must have. `None` if it cannot be counted.
    pub fn channels(&self) -> Option<usize> {
        volume(&[self.output_dim, self.group_size, self.group_size])
    }

    /// The points of an element along an axis that are in the data.
    fn points(
        &self,
        axis: Axis,
        element: usize,
        offset: f32,
        bins: usize,
        size: usize,
    ) -> Vec<Between> {
        let width = axis.size / self.group_size as f32;
        let start = axis.start + element as f32 * width + offset * self.trans_std * axis.size;
        let points = (0..bins).map(|bin| start + bin as f32 * (width / bins as f32));
        let inside = points.filter(|point| (-0.5..=size as f32 - 0.5).contains(point));
        inside.map(|point| Between::new(point, size)).collect()
    }

    /// Appends the elements of a region. `offsets` gives that of an element along y and x.
    fn pool(
        &self,
        map: &FeatureMap,
        image: usize,
        [y, x]: [Axis; 2],
        offsets: impl Fn([usize; 3]) -> [f32; 2],
        output: &mut Vec<f32>,
    ) {
        let group = self.group_size;
        for number in 0..self.output_dim * group * group {
            let place = [number / group / group, number / group % group, number % group];
            let [down, right] = offsets(place);
            let rows = self.points(y, place[1], down, self.bins[0], map.height);
            let columns = self.points(x, place[2], right, self.bins[1], map.width);
            let channel = map.channel(image, number);
            let pairs = rows.iter().flat_map(|y| columns.iter().map(move |x| (y, x)));
            let sum: f32 = pairs.map(|(y, x)| channel.at(y, x)).sum();
            let count = rows.len() * columns.len();
            output.push(if count == 0 { 0. } else { sum / count as f32 });
        }
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        const NAME: &str = "DeformablePSROIPooling";
        expect_input_count(NAME, inputs.len(), 2..=3)?;
        let map = FeatureMap::new(NAME, &inputs[0])?;
        ensure!(
            self.channels() == Some(map.channels),
            "{NAME}: the number of channels is {}, but must be {} x {} x {}",
            map.channels,
            self.output_dim,
            self.group_size,
            self.group_size
        );
        let regions = regions(NAME, &inputs[1])?;
        let (group, parts) = (self.group_size, self.part_size);
        let shape = [regions.len(), self.output_dim, group, group];
        let samples = volume(&[&shape[..], &self.bins].concat());
        ensure!(
            shape.contains(&0)
                || samples.is_some_and(|samples| samples as u64 <= MAX_STATED_SAMPLES),
            "{NAME}: an output of shape {shape:?} with {:?} points for each element needs more than {MAX_STATED_SAMPLES} of them",
            self.bins
        );
        let mut classes = 0;
        if let Some(offsets) = inputs.get(2) {
            let shape = offsets.shape();
            classes = shape.get(1).map_or(0, |channels| channels / 2);
            ensure!(
                shape == [regions.len(), 2 * classes, parts, parts]
                    && classes > 0
                    && self.output_dim.is_multiple_of(classes),
                "{NAME}: the offsets have shape {shape:?}, but must have [{}, 2 x classes, {parts}, {parts}], and the number of \
                 classes must divide output_dim, {}",
                regions.len(),
                self.output_dim
            );
        }
        let offsets = inputs.get(2).map(|offsets| floats(offsets)).transpose()?;
        let output = pooled(NAME, &inputs[0], shape, |output| {
            for (number, [image, x_min, y_min, x_max, y_max]) in regions.into_iter().enumerate() {
                // There are no more regions.
                if image == -1. {
                    break;
                }
                let image = map.image(NAME, image)?;
                let scale = self.spatial_scale;
                let axes = [Axis::new(y_min, y_max, scale), Axis::new(x_min, x_max, scale)];
                let of_element = |[channel, row, column]: [usize; 3]| {
                    let Some(offsets) = &offsets else { return [0., 0.] };
                    let class = channel / (self.output_dim / classes);
                    let first = (number * classes + class) * 2;
                    let part = |element: usize| element * parts / group;
                    let at = |axis: usize| {
                        offsets[((first + axis) * parts + part(row)) * parts + part(column)]
                    };
                    [at(1), at(0)]
                };
                self.pool(&map, image, axes, of_element, output);
            }
            Ok(())
        })?;
        Ok(tvec!(output))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("DeformablePSROIPooling", inputs.len(), 2..=3)?;
        let (channels, size) = (Some(self.output_dim), [self.group_size; 2]);
        pooled_shape("DeformablePSROIPooling", inputs[0], inputs[1], channels, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;

    fn run(op: &DeformablePsroiPooling, offsets: &[usize]) -> TractResult<Tensor> {
        let inputs = [
            Tensor::zero::<f32>(&[1, 8, 4, 4])?,
            tensor2(&[[0f32, 0., 0., 3., 3.]]),
            Tensor::zero::<f32>(offsets)?,
        ];
        let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
        Ok(op.eval(inputs)?.remove(0).into_tensor())
    }

    #[test]
    fn what_does_not_fit() {
        let op = DeformablePsroiPooling {
            output_dim: 2,
            group_size: 2,
            spatial_scale: 1.,
            bins: [1, 1],
            trans_std: 1.,
            part_size: 3,
        };
        assert_eq!(run(&op, &[1, 4, 3, 3]).unwrap().shape(), [1, 2, 2, 2]);
        for offsets in
            [&[1, 6, 3, 3][..], &[1, 3, 3, 3], &[1, 0, 3, 3], &[1, 4, 2, 3], &[2, 4, 3, 3]]
        {
            fails(run(&op, offsets), "but must have [1, 2 x classes, 3, 3]");
        }
        let many = DeformablePsroiPooling { bins: [1 << 15, 1 << 15], ..op.clone() };
        fails(run(&many, &[1, 4, 3, 3]), "needs more than");
        let other = DeformablePsroiPooling { output_dim: 1, ..op };
        fails(run(&other, &[1, 2, 3, 3]), "must be 1 x 2 x 2");
    }

    #[test]
    fn regions_are_not_empty() {
        assert_eq!(Axis::new(2., 1., 1.).size, 0.1);
        assert_eq!(Axis::new(f32::NAN, 1., 1.).size, 0.1);
        assert_eq!(Axis::new(0.5, 3.4, 0.5).size, 1.5);
    }
}
