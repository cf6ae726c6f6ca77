//! Transposed convolutions on codes.
//!
//! With a stride of `s`, the pixels `q * s + r` of an output, for one `r`, are a convolution of the data with every `s`-th element
//! of the kernel, in opposite order. So a transposed convolution is one convolution with `s` times the channels along each axis,
//! and its channels are then laid out as neighbours. The pads of a transposed convolution are pixels of that to leave out.

use tract_core::internal::tract_ndarray::indices;
use tract_core::internal::*;
use tract_core::ops::array::Slice;
use tract_core::ops::cnn::{Deconv, KernelFormat, PaddingSpec, PoolSpec};
use tract_core::ops::nn::DataFormat;

/// How the channels of a convolution become pixels.
pub(super) struct Upsampling {
    strides: TVec<usize>,
    /// How many pixels are left out at the beginning of each axis.
    skipped: TVec<usize>,
    channels: usize,
}

/// The convolution, and the codes of its weights.
pub(super) struct Upsampled {
    pub spec: PoolSpec,
    pub codes: Tensor,
    pub upsampling: Upsampling,
}

impl Upsampled {
    /// That of a transposed convolution whose weights have these codes, `[output channels, input channels, kernel]`. Or why there
    /// is none.
    pub fn new(op: &Deconv, codes: &Tensor) -> TractResult<Result<Upsampled, String>> {
        let spec = &op.pool_spec;
        let rank = spec.rank();
        let (strides, dilations) = (spec.strides(), spec.dilations());
        let (begin, end) = match &spec.padding {
            PaddingSpec::Valid => (tvec![0; rank], tvec![0; rank]),
            PaddingSpec::Explicit(begin, end) => (begin.clone(), end.clone()),
            other => return Ok(Err(format!("its padding is {other:?}"))),
        };
        if spec.data_format != DataFormat::NCHW || op.kernel_format != KernelFormat::OIHW {
            return Ok(Err(format!(
                "its data is {:?} and its weights are {:?}, but must be NCHW and OIHW",
                spec.data_format, op.kernel_format
            )));
        }
        if op.group != 1 || dilations.iter().any(|dilation| *dilation != 1) {
            return Ok(Err(format!(
                "it has {} groups and dilations {dilations:?}, but must have 1 group and no dilation",
                op.group
            )));
        }
        let kernel = &spec.kernel_shape;
        if kernel.contains(&0) {
            return Ok(Err("its kernel is empty".into()));
        }
        let mut taps = tvec![];
        let mut after = tvec![];
        for axis in 0..rank {
            taps.push(kernel[axis].div_ceil(strides[axis]));
            let Some(reach) = (kernel[axis] + op.adjustments[axis])
                .checked_sub(end[axis])
                .filter(|reach| *reach > 0)
            else {
                return Ok(Err("its pads are larger than its kernel".into()));
            };
            after.push(reach.div_ceil(strides[axis]) - 1);
        }
        let before = taps.iter().map(|taps| taps - 1).collect();
        let (inputs, channels) = (spec.input_channels, spec.output_channels);
        let plain = codes.try_as_plain_ram()?;
        let plain = plain.as_slice::<i8>()?;
        let area: usize = kernel.iter().product();
        if plain.len() != channels * inputs * area {
            return Ok(Err(format!("its weights have shape {:?}", codes.shape())));
        }
        let mut upsampled = vec![];
        for phase in indices(&*strides) {
            // Where each tap is in the kernel, if it is there.
            let places: Vec<Option<usize>> = indices(&*taps)
                .into_iter()
                .map(|tap| {
                    (0..rank).try_fold(0, |place, axis| {
                        let at = phase[axis] + strides[axis] * (taps[axis] - 1 - tap[axis]);
                        (at < kernel[axis]).then_some(place * kernel[axis] + at)
                    })
                })
                .collect();
            for filter in plain.chunks_exact(area) {
                upsampled.extend(places.iter().map(|place| place.map_or(0, |place| filter[place])));
            }
        }
        let upsampling =
            Upsampling { strides: strides.into_owned().into(), skipped: begin, channels };
        let outputs = upsampling.phases() * channels;
        let shape = [&[outputs, inputs], &*taps].concat();
        Ok(Ok(Upsampled {
            spec: PoolSpec::new(
                DataFormat::NHWC,
                taps,
                PaddingSpec::Explicit(before, after),
                None,
                None,
                inputs,
                outputs,
            ),
            codes: Tensor::from_shape(&shape, &upsampled)?,
            upsampling,
        }))
    }
}

impl Upsampling {
    /// How many pixels a channel becomes.
    pub fn phases(&self) -> usize {
        self.strides.iter().product()
    }

    /// For each channel of the convolution, the number of the channel that it becomes.
    pub fn repeated<T: Copy>(&self, of_channels: &[T]) -> Vec<T> {
        of_channels.repeat(self.phases())
    }

    /// What makes neighbours of the channels. `before` is the shape that the convolution gives, with the channels last, and `after`
    /// the sizes of the spatial axes of the result.
    pub fn ops(&self, before: &[TDim], after: &[TDim]) -> Vec<Box<dyn TypedOp>> {
        let rank = self.strides.len();
        let mut ops: Vec<Box<dyn TypedOp>> = vec![];
        let phases: TVec<TDim> = self.strides.iter().map(|stride| stride.to_dim()).collect();
        let all = (self.phases() * self.channels).to_dim();
        let apart = [&*phases, &[self.channels.to_dim()]].concat();
        ops.push(Box::new(AxisOp::Reshape(1 + rank, tvec![all], apart.into())));
        for axis in 0..rank {
            let (from, to) = (1 + rank + axis, 2 + 2 * axis);
            if from != to {
                ops.push(Box::new(AxisOp::Move(from, to)));
            }
        }
        for axis in 0..rank {
            let (size, stride) = (before[1 + axis].clone(), phases[axis].clone());
            let joined = size.clone() * &stride;
            ops.push(Box::new(AxisOp::Reshape(1 + axis, tvec![size, stride], tvec![joined])));
        }
        for axis in 0..rank {
            let begin = self.skipped[axis].to_dim();
            let end = begin.clone() + &after[axis];
            if begin != 0.to_dim() || end != before[1 + axis].clone() * &phases[axis] {
                ops.push(Box::new(Slice::new(1 + axis, begin, end)));
            }
        }
        ops
    }
}
