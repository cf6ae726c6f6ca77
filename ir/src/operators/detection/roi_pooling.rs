use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

use super::feature_map::{Between, Channel, FeatureMap, pooled, pooled_shape, regions};
use super::impl_plain_op;

/// ROIPooling-1: regions of a feature map in one size.
///
/// Inputs: data `[N, C, H, W]` and regions `[R, 5]` of image, x and y of two corners. Output: `[R, C, pooled_h,
/// pooled_w]`. From the first region on whose image is -1, as Proposal writes it, all are zeros.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoiPooling {
    pub output_roi: [usize; 2],
    pub method: Method,
}

/// `method`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Method {
    /// The greatest element of each part. Corners are multiplied by the scale.
    Max { spatial_scale: f32 },
    /// An element between others at each point of a grid from corner to corner. Corners are from 0 to 1.
    Bilinear,
}

/// What is pooled along an axis of a region, for each element of the output: nothing where it is outside.
enum Parts {
    Spans(Vec<std::ops::Range<usize>>),
    Points(Vec<Option<Between>>),
}

impl RoiPooling {
    fn parts(&self, start: f32, end: f32, count: usize, size: usize) -> Parts {
        match self.method {
            Method::Max { spatial_scale } => {
                Parts::Spans(spans(start * spatial_scale, end * spatial_scale, count, size))
            }
            Method::Bilinear => Parts::Points(points(start, end, count, size)),
        }
    }
}

/// The parts of a region whose corners are elements, both within. They may overlap by one element.
fn spans(start: f32, end: f32, count: usize, size: usize) -> Vec<std::ops::Range<usize>> {
    // Numbers of 32 bits, so that sums do not overflow. Conversion saturates.
    let (start, end) = (i64::from(start.round() as i32), i64::from(end.round() as i32));
    let part = (end - start + 1).max(1) as f32 / count as f32;
    let inside = |at: f32| (at as i64 + start).clamp(0, size as i64) as usize;
    (0..count)
        .map(|number| {
            inside((number as f32 * part).floor())..inside(((number + 1) as f32 * part).ceil())
        })
        .collect()
}

/// Points from one corner to the other, or between them if it is one.
fn points(start: f32, end: f32, count: usize, size: usize) -> Vec<Option<Between>> {
    let last = (size - 1) as f32;
    let step = (end - start) * last / (count as f32 - 1.);
    (0..count)
        .map(|number| {
            let point = match number {
                _ if count == 1 => 0.5 * (start + end) * last,
                _ if number == count - 1 => end * last,
                _ => number as f32 * step + start * last,
            };
            (0. ..=last).contains(&point).then(|| Between::new(point, size))
        })
        .collect()
}

/// The elements of the output of a region of a channel.
fn pool(channel: &Channel, y: &Parts, x: &Parts, output: &mut Vec<f32>) {
    match (y, x) {
        (Parts::Spans(y), Parts::Spans(x)) => {
            for y in y {
                output.extend(x.iter().map(|x| {
                    let rows = y.clone().flat_map(|y| channel.row(y).get(x.clone()));
                    let most = rows.flatten().copied().reduce(f32::max);
                    most.unwrap_or(0.)
                }));
            }
        }
        (Parts::Points(y), Parts::Points(x)) => {
            for y in y {
                output.extend(x.iter().map(|x| match (y, x) {
                    (Some(y), Some(x)) => channel.at(y, x),
                    _ => 0.,
                }));
            }
        }
        // Both axes are of one method.
        _ => {}
    }
}

impl_plain_op!(RoiPooling, "OpenVinoRoiPooling", info = |op| vec![format!("{op:?}")]);

impl RoiPooling {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, rois) = args_2!(inputs);
        let map = FeatureMap::new("ROIPooling", &data)?;
        let regions = regions("ROIPooling", &rois)?;
        let [height, width] = self.output_roi;
        let shape = [regions.len(), map.channels, height, width];
        let output = pooled("ROIPooling", &data, shape, |output| {
            for [image, x_min, y_min, x_max, y_max] in regions {
                if image == -1. {
                    break;
                }
                let image = map.image("ROIPooling", image)?;
                let y = self.parts(y_min, y_max, height, map.height);
                let x = self.parts(x_min, x_max, width, map.width);
                for channel in 0..map.channels {
                    pool(&map.channel(image, channel), &y, &x, output);
                }
            }
            Ok(())
        })?;
        Ok(tvec!(output))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, regions] = expect_inputs("ROIPooling", ["data", "regions"], inputs)?;
        pooled_shape("ROIPooling", data, regions, None, self.output_roi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_outside_and_without_end() {
        assert_eq!(spans(0., 2., 2, 4), [0..2, 1..3]);
        assert_eq!(spans(3., 1., 2, 4), [3..4, 3..4]);
        assert!(spans(9., 12., 2, 4).iter().all(|span| span.is_empty()));
        for corner in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            assert!(spans(corner, 1., 2, 4).iter().all(|span| span.end <= 4));
            assert!(spans(1., corner, 2, 4).iter().all(|span| span.end <= 4));
            assert_eq!(points(corner, corner, 1, 4), [None]);
        }
    }
}
