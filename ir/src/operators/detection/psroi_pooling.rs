use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

use super::feature_map::{Between, FeatureMap, pooled, pooled_shape, regions};
use super::impl_plain_op;

/// PSROIPooling-1: regions of a feature map in one size, of which each element comes from channels of its own.
///
/// Inputs: data `[N, C, H, W]` and regions `[R, 5]` of image, x and y of two corners. Output: `[R, output_dim,
/// group_size, group_size]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PsroiPooling {
    pub output_dim: usize,
    pub group_size: usize,
    pub spatial_scale: f32,
    pub mode: Mode,
}

/// `mode`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    /// The mean of each part. Channels are `[output_dim, group_size, group_size]`.
    Average,
    /// The mean of points, one of each bin. Channels are `[bins, output_dim]`.
    Bilinear { bins_y: usize, bins_x: usize },
}

/// The elements of a part of an axis: `number` is that of the part.
fn span(start: f32, end: f32, number: usize, count: usize, size: usize) -> std::ops::Range<usize> {
    let part = (end - start) / count as f32;
    let first = (start + number as f32 * part).floor() as usize;
    let last = (start + (number + 1) as f32 * part).ceil() as usize;
    let first = first.min(size - 1);
    first..last.clamp(first, size)
}

impl_plain_op!(PsroiPooling, "OpenVinoPsroiPooling", info = |op| vec![format!("{op:?}")]);

impl PsroiPooling {
    /// The number of channels that the data must have. `None` if it cannot be counted.
    pub fn channels(&self) -> Option<usize> {
        let parts = match self.mode {
            Mode::Average => self.group_size.checked_mul(self.group_size)?,
            Mode::Bilinear { bins_y, bins_x } => bins_y.checked_mul(bins_x)?,
        };
        self.output_dim.checked_mul(parts)
    }

    /// The two ends of a region along an axis.
    fn ends(&self, start: f32, end: f32) -> (f32, f32) {
        match self.mode {
            Mode::Average => {
                (start.round() * self.spatial_scale, (end.round() + 1.) * self.spatial_scale)
            }
            Mode::Bilinear { .. } => (start * self.spatial_scale, end * self.spatial_scale),
        }
    }

    /// The point of an element in a bin of an axis, if it is in the data.
    fn point(
        &self,
        (start, end): (f32, f32),
        element: usize,
        bin: usize,
        bins: usize,
        size: usize,
    ) -> Option<Between> {
        let last = (size - 1) as f32;
        let width = (end - start) / bins as f32;
        let start = start + bin as f32 * width;
        let point = if self.group_size > 1 {
            element as f32 * (width * last / (self.group_size - 1) as f32) + start * last
        } else {
            (start + start + width) * last / 2.
        };
        (0. ..size as f32).contains(&point).then(|| Between::new(point, size))
    }

    /// An element of the output of a region.
    fn element(
        &self,
        map: &FeatureMap,
        image: usize,
        ends: [(f32, f32); 2],
        [channel, row, column]: [usize; 3],
    ) -> f32 {
        let [y, x] = ends;
        match self.mode {
            Mode::Average => {
                let group = self.group_size;
                let channel = map.channel(image, (channel * group + row) * group + column);
                let rows = span(y.0, y.1, row, group, map.height);
                let columns = span(x.0, x.1, column, group, map.width);
                let count = rows.len() * columns.len();
                let elements = rows.flat_map(|row| &channel.row(row)[columns.clone()]);
                if count == 0 { 0. } else { elements.sum::<f32>() / count as f32 }
            }
            Mode::Bilinear { bins_y, bins_x } => {
                let bins = (0..bins_y).flat_map(|y| (0..bins_x).map(move |x| (y, x)));
                let sum: f32 = bins
                    .filter_map(|(bin_y, bin_x)| {
                        let channel = (bin_y * bins_x + bin_x) * self.output_dim + channel;
                        let y = self.point(y, row, bin_y, bins_y, map.height)?;
                        let x = self.point(x, column, bin_x, bins_x, map.width)?;
                        Some(map.channel(image, channel).at(&y, &x))
                    })
                    .sum();
                sum / (bins_y * bins_x) as f32
            }
        }
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, rois) = args_2!(inputs);
        let map = FeatureMap::new("PSROIPooling", &data)?;
        ensure!(
            self.channels() == Some(map.channels),
            "PSROIPooling: the number of channels is {}, but must be {} x {} x {}",
            map.channels,
            self.output_dim,
            self.group_size,
            self.group_size
        );
        let regions = regions("PSROIPooling", &rois)?;
        let group = self.group_size;
        let shape = [regions.len(), self.output_dim, group, group];
        let output = pooled("PSROIPooling", &data, shape, |output| {
            for [image, x_min, y_min, x_max, y_max] in regions {
                if image == -1. {
                    break;
                }
                let image = map.image("PSROIPooling", image)?;
                let ends = [self.ends(y_min, y_max), self.ends(x_min, x_max)];
                for number in 0..self.output_dim * group * group {
                    let place = [number / group / group, number / group % group, number % group];
                    output.push(self.element(&map, image, ends, place));
                }
            }
            Ok(())
        })?;
        Ok(tvec!(output))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, regions] = expect_inputs("PSROIPooling", ["data", "regions"], inputs)?;
        pooled_shape("PSROIPooling", data, regions, Some(self.output_dim), [self.group_size; 2])
    }
}
