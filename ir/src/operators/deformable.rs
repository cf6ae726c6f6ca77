use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use super::{check_volume, impl_plain_op};

/// The elements that the windows of a deformable convolution have: of each element of a window the data at its
/// position, moved by an offset, by bilinear interpolation.
///
/// Inputs are the data, `[batch, channels, height, width]`; the offsets, `[batch, groups * elements * 2, rows,
/// columns]`; and maybe factors, `[batch, groups * elements, rows, columns]`. The output is `[batch, channels *
/// elements, rows, columns]`.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct DeformableWindows {
    pub axes: [Axis; 2],
    /// Each group of channels has offsets of its own.
    pub groups: usize,
    /// Whether there are zeros around the data. Otherwise what is outside is 0, and the border is as it is.
    pub zeros_around: bool,
}

/// How windows move along an axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Axis {
    /// The number of elements of a window.
    pub size: usize,
    pub stride: usize,
    pub dilation: usize,
    pub pad: Pad,
}

/// How far in front of the data the first window begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Pad {
    Begin(i64),
    /// As far as is missing at both ends; of an odd number the larger half at the end.
    SameUpper,
    /// The larger half at the front.
    SameLower,
}

impl Axis {
    /// Where each window begins.
    fn begin(&self, dim: usize, windows: usize) -> i64 {
        let missing = || {
            let last = windows.saturating_sub(1) * self.stride;
            let extent = (self.size - 1) * self.dilation + 1;
            (last + extent).saturating_sub(dim) as i64
        };
        match self.pad {
            Pad::Begin(begin) => begin,
            Pad::SameUpper => missing() / 2,
            Pad::SameLower => (missing() + 1) / 2,
        }
    }
}

impl_plain_op!(
    DeformableWindows,
    "OpenVinoDeformableWindows",
    info = |op| vec![format!("{:?}, groups: {}", op.axes, op.groups)]
);

impl DeformableWindows {
    /// The number of elements of a window.
    fn elements(&self) -> usize {
        self.axes[0].size * self.axes[1].size
    }

    fn output_shape<D: DimLike>(&self, data: &[D], offsets: &[D]) -> TractResult<TVec<D>> {
        let ([batch, channels, ..], [_, numbers, rows, columns]) = (data, offsets) else {
            bail!(
                "DeformableWindows: data and offsets have shapes {data} and {offsets}, but must have rank 4",
                data = listed(data),
                offsets = listed(offsets)
            )
        };
        let expected = D::from(self.groups * self.elements() * 2);
        ensure!(
            data.len() == 4 && *numbers == expected,
            "DeformableWindows: data and offsets have shapes {data} and {offsets}, but must have rank 4, and \
             {expected} offsets for each window",
            data = listed(data),
            offsets = listed(offsets)
        );
        let elements = channels.clone() * self.elements();
        Ok(tvec![batch.clone(), elements, rows.clone(), columns.clone()])
    }

    /// The data at a position, which may be between elements.
    fn sample(&self, image: &[f32], [height, width]: [usize; 2], y: f32, x: f32) -> f32 {
        let least = if self.zeros_around { -1. } else { 0. };
        let inside = |at: f32, size: usize| at < size as f32 && (at > least || at == 0.);
        if !inside(y, height) || !inside(x, width) {
            return 0.;
        }
        let at = |y: i64, x: i64| {
            let (y, x) = match self.zeros_around {
                true => (usize::try_from(y).ok(), usize::try_from(x).ok()),
                false => (Some((y as usize).min(height - 1)), Some((x as usize).min(width - 1))),
            };
            let place = y.zip(x).filter(|(y, x)| *y < height && *x < width);
            place.map_or(0., |(y, x)| image[y * width + x])
        };
        let (top, left) = (y.floor(), x.floor());
        let (down, right) = (y - top, x - left);
        let (top, left) = (top as i64, left as i64);
        let row = |y: i64| at(y, left) * (1. - right) + at(y, left + 1) * right;
        row(top) * (1. - down) + row(top + 1) * down
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, offsets) = (&inputs[0], &inputs[1]);
        let shape = self.output_shape(data.shape(), offsets.shape())?;
        let (batch, channels, rows, columns) = (shape[0], data.shape()[1], shape[2], shape[3]);
        let mask = inputs.get(2);
        ensure!(
            offsets.shape()[0] == batch
                && mask.is_none_or(|mask| {
                    mask.shape() == [batch, self.groups * self.elements(), rows, columns]
                })
                && channels % self.groups == 0,
            "DeformableWindows: the offsets or factors do not fit {batch} x {rows} x {columns} windows, or \
             {channels} channels cannot be divided into {} groups",
            self.groups
        );
        let len = check_volume("DeformableWindows", DatumType::F32, &shape)?;
        if len == 0 {
            return Ok(tvec!(Tensor::zero::<f32>(&shape)?.into_tvalue()));
        }
        let image = [data.shape()[2], data.shape()[3]];
        let begin = [self.axes[0].begin(image[0], rows), self.axes[1].begin(image[1], columns)];
        let (volume, windows) = (image[0] * image[1], rows * columns);
        let (data, offsets) = (data.try_as_plain_ram()?, offsets.try_as_plain_ram()?);
        let (data, offsets) = (data.as_slice::<f32>()?, offsets.as_slice::<f32>()?);
        let mask = mask.map(|mask| mask.try_as_plain_ram()).transpose()?;
        let mask = mask.as_ref().map(|mask| mask.as_slice::<f32>()).transpose()?;
        let mut output = Vec::with_capacity(len);
        let in_group = channels / self.groups;
        for channel in 0..batch * channels {
            let group = channel / channels * self.groups + channel % channels / in_group;
            let plane = &data[channel * volume..][..volume];
            for element in 0..self.elements() {
                let number = group * self.elements() + element;
                let [dy, dx] =
                    [0, 1].map(|axis| &offsets[(2 * number + axis) * windows..][..windows]);
                let factors = mask.map(|mask| &mask[number * windows..][..windows]);
                let (i, j) = (element / self.axes[1].size, element % self.axes[1].size);
                for window in 0..windows {
                    let at = |axis: usize, window: usize, element: usize| {
                        let Axis { stride, dilation, .. } = self.axes[axis];
                        (window * stride + element * dilation) as i64 - begin[axis]
                    };
                    let y = at(0, window / columns, i) as f32 + dy[window];
                    let x = at(1, window % columns, j) as f32 + dx[window];
                    let factor = factors.map_or(1., |factors| factors[window]);
                    output.push(self.sample(plane, image, y, x) * factor);
                }
            }
        }
        Ok(tvec!(tensor1(&output).into_shape(&shape)?.into_tvalue()))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(
            inputs.iter().all(|input| input.datum_type == DatumType::F32),
            "DeformableWindows: the inputs must be of type F32"
        );
        let shapes = [inputs[0].shape.to_tvec(), inputs[1].shape.to_tvec()];
        Ok(tvec!(f32::fact(self.output_shape(&shapes[0], &shapes[1])?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_at_the_border() {
        let axis = Axis { size: 1, stride: 1, dilation: 1, pad: Pad::Begin(0) };
        let sample = |zeros_around: bool, y: f32, x: f32| {
            let op =
                DeformableWindows { axes: [axis.clone(), axis.clone()], groups: 1, zeros_around };
            op.sample(&[1., 2., 3., 4.], [2, 2], y, x)
        };
        assert_eq!(sample(false, 0.5, 0.5), 2.5);
        assert_eq!(sample(false, -0.5, 0.), 0.);
        assert_eq!(sample(true, -0.5, 0.), 0.5);
        assert_eq!(sample(false, 1.5, 1.), 4.);
        assert_eq!(sample(true, 1.5, 1.), 2.);
        for far in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1., 2.] {
            assert_eq!(sample(true, far, 0.), 0.);
            assert_eq!(sample(false, 0., far), 0.);
        }
    }
}
