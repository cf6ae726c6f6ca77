//! Feature maps, of which regions are pooled.

use tract_core::internal::*;
use tract_openvino_kernels::checks::volume;

use super::{check_volume, floats, in_type_of};
use crate::limits::MAX_STATED_SAMPLES;

/// A tensor `[N, C, H, W]`, in single precision.
pub(super) struct FeatureMap {
    elements: Vec<f32>,
    pub batch: usize,
    pub channels: usize,
    pub height: usize,
    pub width: usize,
}

impl FeatureMap {
    pub fn new(operator: &str, tensor: &Tensor) -> TractResult<FeatureMap> {
        let [batch, channels, height, width] = tensor.shape()[..] else {
            bail!("{operator}: data has shape {:?}, but must have rank 4", tensor.shape())
        };
        Ok(FeatureMap { elements: floats(tensor)?, batch, channels, height, width })
    }

    /// The elements of a channel.
    pub fn channel(&self, image: usize, channel: usize) -> Channel<'_> {
        let size = self.height * self.width;
        let start = (image * self.channels + channel) * size;
        Channel { elements: &self.elements[start..][..size], width: self.width }
    }

    /// The position of an image whose number is an element of a tensor.
    pub fn image(&self, operator: &str, number: f32) -> TractResult<usize> {
        ensure!(
            number >= 0. && number < self.batch as f32,
            "{operator}: the image of a region is {number}, but must be in [0, {})",
            self.batch
        );
        Ok(number as usize)
    }
}

/// A channel `[H, W]` of an image.
pub(super) struct Channel<'a> {
    elements: &'a [f32],
    width: usize,
}

impl Channel<'_> {
    pub fn row(&self, y: usize) -> &[f32] {
        &self.elements[y * self.width..][..self.width]
    }

    /// The element at a point between elements, by linear interpolation. It must be in the channel.
    pub fn at(&self, y: &Between, x: &Between) -> f32 {
        let of_row = |row: &[f32]| row[x.low] + (row[x.high] - row[x.low]) * x.part;
        let (low, high) = (of_row(self.row(y.low)), of_row(self.row(y.high)));
        low + (high - low) * y.part
    }
}

/// A coordinate between two elements of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Between {
    low: usize,
    high: usize,
    /// How far it is from the lower to the higher one.
    part: f32,
}

impl Between {
    /// Of an axis of a size greater than 0. A coordinate outside is moved to the border.
    pub fn new(coordinate: f32, size: usize) -> Between {
        // `max` makes NaN 0. Conversion saturates.
        let coordinate = coordinate.max(0.);
        let low = coordinate as usize;
        if low >= size - 1 {
            return Between { low: size - 1, high: size - 1, part: 0. };
        }
        Between { low, high: low + 1, part: coordinate - low as f32 }
    }
}

/// The regions of an operator: `[regions, 5]`, of image, x and y of two corners.
pub(super) fn regions(operator: &str, tensor: &Tensor) -> TractResult<Vec<[f32; 5]>> {
    ensure!(
        tensor.rank() == 2 && tensor.shape()[1] == 5,
        "{operator}: regions have shape {:?}, but must be [regions, 5]",
        tensor.shape()
    );
    let regions = floats(tensor)?;
    Ok(regions.chunks_exact(5).map(|it| [it[0], it[1], it[2], it[3], it[4]]).collect())
}

/// Checks how many samples an output of this shape has, each part so many along an axis. If that is 0, there are no more in the
/// data than it has elements for.
pub(super) fn check_samples(
    operator: &str,
    shape: [usize; 4],
    sampling_ratio: usize,
) -> TractResult<()> {
    let of_part = [sampling_ratio; 2];
    let samples = volume(&[&shape[..], &of_part].concat());
    ensure!(
        shape.contains(&0) || samples.is_some_and(|samples| samples as u64 <= MAX_STATED_SAMPLES),
        "{operator}: an output of shape {shape:?} with {of_part:?} samples for each element needs more than \
         {MAX_STATED_SAMPLES} samples"
    );
    Ok(())
}

/// The output `[regions, channels, height, width]`, of the elements that a function appends.
pub(super) fn pooled(
    operator: &str,
    data: &Tensor,
    shape: [usize; 4],
    pool: impl FnOnce(&mut Vec<f32>) -> TractResult<()>,
) -> TractResult<TValue> {
    let volume = check_volume(operator, DatumType::F32, &shape)?;
    let mut elements = Vec::with_capacity(volume);
    if volume > 0 {
        ensure!(
            data.len() > 0,
            "{operator}: the data has no elements to pool: its shape is {:?}",
            data.shape()
        );
        pool(&mut elements)?;
        elements.resize(volume, 0.);
    }
    in_type_of(data, &shape, &elements)
}

/// The shape of the output, with the channels of the data or so many others.
pub(super) fn pooled_shape(
    operator: &str,
    data: &TypedFact,
    regions: &TypedFact,
    channels: Option<usize>,
    [height, width]: [usize; 2],
) -> TractResult<TVec<TypedFact>> {
    ensure!(
        data.rank() == 4 && regions.rank() == 2,
        "{operator}: data and regions have ranks {} and {}, but must have 4 and 2",
        data.rank(),
        regions.rank()
    );
    let channels = channels.map_or_else(|| data.shape[1].clone(), |count| count.to_dim());
    let shape = [regions.shape[0].clone(), channels, height.to_dim(), width.to_dim()];
    Ok(tvec!(data.datum_type.fact(&shape)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_moved_to_the_border() {
        assert_eq!(Between::new(0.25, 3), Between { low: 0, high: 1, part: 0.25 });
        let last = Between { low: 2, high: 2, part: 0. };
        assert_eq!([2., 7., f32::INFINITY].map(|x| Between::new(x, 3)), [last; 3]);
        let first = Between { low: 0, high: 1, part: 0. };
        assert_eq!([-1., f32::NAN].map(|x| Between::new(x, 3)), [first; 2]);
    }

    #[test]
    fn stated_samples_have_a_limit() {
        let check = |shape| check_samples("test", shape, 1 << 10);
        check([8, 8, 7, 7]).unwrap();
        check([0, usize::MAX, 7, 7]).unwrap();
        check([16, 256, 7, 7]).unwrap_err();
    }
}
