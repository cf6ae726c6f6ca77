//! Transposed convolutions as convolutions.
//!
//! With a stride of `s`, the pixels `q * s + r` of an output, for one `r`, are a convolution of the data with every `s`-th element
//! of the kernel, in opposite order. So a transposed convolution is one convolution with `s` times the channels along each axis,
//! and its channels are then laid out as neighbours. The pads of a transposed convolution are pixels of that to leave out.
//!
//! Where the size of the kernel is no multiple of the stride, some pixels meet weights of 0, and what is infinite becomes NaN there.

use tract_core::internal::tract_ndarray::indices;
use tract_core::internal::*;
use tract_core::ops::array::Slice;
use tract_core::ops::cnn::{Deconv, KernelFormat, PaddingSpec, PoolSpec};
use tract_core::ops::nn::DataFormat;

use crate::checks::volume;

/// A transposed convolution, and what it becomes.
#[derive(Debug)]
pub(super) struct Upsampling {
    /// How many channels its data has.
    inputs: usize,
    /// How many channels its output has.
    channels: usize,
    kernel: TVec<usize>,
    strides: TVec<usize>,
    /// The kernel of the convolution.
    taps: TVec<usize>,
    /// The pads of the convolution behind the data.
    pads_behind: TVec<usize>,
    /// How many pixels are left out at the beginning of each axis.
    skipped: TVec<usize>,
}

/// The convolution may have so many times the weights: those that the kernel does not have are 0. It is 16 / 9 for a kernel of 3 x 3 and
/// strides of 2.
const MOST_TIMES: usize = 4;

impl Upsampling {
    /// That of a transposed convolution, or why there is none.
    pub fn new(op: &Deconv) -> Result<Upsampling, String> {
        let spec = &op.pool_spec;
        let rank = spec.rank();
        let (strides, dilations) = (spec.strides(), spec.dilations());
        let (begin, end) = match &spec.padding {
            PaddingSpec::Valid => (tvec![0; rank], tvec![0; rank]),
            PaddingSpec::Explicit(begin, end) => (begin.clone(), end.clone()),
            other => return Err(format!("its padding is {other:?}")),
        };
        if op.kernel_format != KernelFormat::OIHW {
            return Err(format!("its weights are {:?}, but must be OIHW", op.kernel_format));
        }
        if op.group != 1 || dilations.iter().any(|dilation| *dilation != 1) {
            return Err(format!(
                "it has {} groups and dilations {dilations:?}, but must have 1 group and no dilation",
                op.group
            ));
        }
        let kernel = &spec.kernel_shape;
        if kernel.contains(&0) || strides.contains(&0) {
            return Err(format!(
                "its kernel is {kernel:?} and its strides are {strides:?}, but must be 1 or more"
            ));
        }
        let taps: TVec<usize> =
            kernel.iter().zip(&*strides).map(|(size, stride)| size.div_ceil(*stride)).collect();
        let volume_of = |sizes: &[usize]| volume(sizes).unwrap_or(usize::MAX);
        let all = volume_of(&[&*taps, &*strides].concat());
        if all > volume_of(kernel).saturating_mul(MOST_TIMES) {
            return Err(format!(
                "its kernel is {kernel:?} and its strides are {strides:?}: {all} weights for each two channels, but it must have \
                 {MOST_TIMES} times those of the kernel or fewer"
            ));
        }
        let mut pads_behind = tvec![];
        for axis in 0..rank {
            let adjustment = op.adjustments[axis];
            let Some(reach) = (kernel[axis].saturating_add(adjustment))
                .checked_sub(end[axis])
                .filter(|reach| *reach > 0)
            else {
                return Err(format!(
                    "its pads at the end are {end:?}, and leave nothing of its kernel {kernel:?}"
                ));
            };
            pads_behind.push(reach.div_ceil(strides[axis]) - 1);
        }
        if pads_behind.iter().zip(&taps).any(|(pad, taps)| pad > taps) {
            return Err(format!(
                "its adjustments are {:?}, which is further than its kernel {kernel:?} reaches",
                op.adjustments
            ));
        }
        Ok(Upsampling {
            inputs: spec.input_channels,
            channels: spec.output_channels,
            kernel: kernel.clone(),
            strides: strides.into_owned().into(),
            taps,
            pads_behind,
            skipped: begin,
        })
    }

    /// How many products of numbers the [convolution](Self::convolution) has, and how many the transposed one, for each two channels,
    /// if data of this shape has known sizes.
    pub fn products(
        &self,
        convolution: &PoolSpec,
        data: &ShapeFact,
    ) -> TractResult<Option<[usize; 2]>> {
        rule_if_some!(data = data.as_concrete());
        let after = convolution.output_shape(data)?;
        let before = convolution.data_format.shape(data)?;
        let of = |parts: &[&[usize]]| volume(&parts.concat()).unwrap_or(usize::MAX);
        let inner = of(&[after.hw_dims(), &self.taps, &self.strides]);
        Ok(Some([inner, of(&[before.hw_dims(), &self.kernel])]))
    }

    /// The convolution, of data in this format.
    pub fn convolution(&self, format: DataFormat) -> PoolSpec {
        let before = self.taps.iter().map(|taps| taps - 1).collect();
        let padding = PaddingSpec::Explicit(before, self.pads_behind.clone());
        let outputs = self.phases() * self.channels;
        PoolSpec::new(format, self.taps.clone(), padding, None, None, self.inputs, outputs)
    }

    /// The weights of the convolution, of those `[output channels, input channels, kernel]`. 0 is where the kernel has no tap.
    pub fn weights<T: Datum + Copy + Default>(&self, weights: &Tensor) -> TractResult<Tensor> {
        let plain = weights.try_as_plain_ram()?;
        let plain = plain.as_slice::<T>()?;
        let area: usize = self.kernel.iter().product();
        ensure!(
            plain.len() == self.channels * self.inputs * area,
            "the weights have shape {:?}, but there are {} output and {} input channels and a kernel of {:?}",
            weights.shape(),
            self.channels,
            self.inputs,
            self.kernel
        );
        let times = self.phases() * self.taps.iter().product::<usize>();
        let mut upsampled = Vec::with_capacity(plain.len() / area * times);
        for phase in indices(&*self.strides) {
            // Where each tap is in the kernel, if it is there.
            let places: Vec<Option<usize>> = indices(&*self.taps)
                .into_iter()
                .map(|tap| {
                    (0..self.kernel.len()).try_fold(0, |place, axis| {
                        let behind = self.taps[axis] - 1 - tap[axis];
                        let at = phase[axis] + self.strides[axis] * behind;
                        (at < self.kernel[axis]).then_some(place * self.kernel[axis] + at)
                    })
                })
                .collect();
            for filter in plain.chunks_exact(area) {
                let taps = places.iter().map(|place| place.map_or(T::default(), |it| filter[it]));
                upsampled.extend(taps);
            }
        }
        let shape = [&[self.phases() * self.channels, self.inputs], &*self.taps].concat();
        Tensor::from_shape(&shape, &upsampled)
    }

    /// How many pixels a channel becomes.
    fn phases(&self) -> usize {
        self.strides.iter().product()
    }

    /// For each channel of the convolution, what the channel that it becomes has.
    pub fn repeated<T: Copy>(&self, of_channels: &[T]) -> Vec<T> {
        of_channels.repeat(self.phases())
    }

    /// What makes neighbours of the channels of the convolution, in this format. `inner` is how many pixels it gives along each axis,
    /// and `outer` how many the result has.
    pub fn ops(&self, format: DataFormat, inner: &[TDim], outer: &[TDim]) -> Vec<Box<dyn TypedOp>> {
        let rank = self.strides.len();
        let mut ops: Vec<Box<dyn TypedOp>> = vec![];
        let phases: TVec<TDim> = self.strides.iter().map(|stride| stride.to_dim()).collect();
        let all = (self.phases() * self.channels).to_dim();
        let apart = [&*phases, &[self.channels.to_dim()]].concat();
        let batch = usize::from(format.has_n());
        // Where the channels are, and the first spatial axis when they are one axis again.
        let (channel_axis, first) = match format.c_is_last() {
            true => (batch + rank, batch),
            false => (batch, batch + 1),
        };
        ops.push(Box::new(AxisOp::Reshape(channel_axis, tvec![all], apart.into())));
        for axis in 0..rank {
            // Behind its axis, which the phases that are still to be moved are in front of if the channels are.
            let (from, to) = match format.c_is_last() {
                true => (channel_axis + axis, first + 1 + 2 * axis),
                false => (channel_axis, first + rank + axis),
            };
            if from != to {
                ops.push(Box::new(AxisOp::Move(from, to)));
            }
        }
        for axis in 0..rank {
            let (size, stride) = (inner[axis].clone(), phases[axis].clone());
            let joined = size.clone() * &stride;
            ops.push(Box::new(AxisOp::Reshape(first + axis, tvec![size, stride], tvec![joined])));
        }
        for axis in 0..rank {
            let begin = self.skipped[axis].to_dim();
            let end = begin.clone() + &outer[axis];
            if begin != 0.to_dim() || end != inner[axis].clone() * &phases[axis] {
                ops.push(Box::new(Slice::new(first + axis, begin, end)));
            }
        }
        ops
    }
}
