//! Transposed convolutions as convolutions.
//!
//! With a stride of `s`, the pixels `q * s + r` of an output, for one `r`, are a convolution of the data with every `s`-th element
//! of the kernel, in opposite order. So a transposed convolution is one convolution with `s` times the channels along each axis,
//! and its channels are then laid out as neighbours. The pads of a transposed convolution are pixels of that to leave out.
//!
//! Where the size of the kernel is no multiple of the stride, some phases `r` have fewer taps than others. A weight of 0 in place of
//! such a tap would make NaN of an infinity, so phases with as many taps are a convolution of their own. Codes of 8 bits have no
//! infinities: there all phases are one convolution.

use std::ops::Range;

use tract_core::internal::tract_ndarray::indices;
use tract_core::internal::*;
use tract_core::ops::array::Slice;
use tract_core::ops::cnn::{Deconv, KernelFormat, PaddingSpec, PoolSpec};
use tract_core::ops::nn::DataFormat;

use super::found::Found;
use super::rule::{refuse, refuse_if};
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
    /// How many elements of the kernel a pixel meets at most, along each axis.
    taps: TVec<usize>,
    /// The pads of the convolution behind the data.
    pads_behind: TVec<usize>,
    /// How many pixels are left out at the beginning of each axis.
    skipped: TVec<usize>,
}

/// There may be so many times the weights of the kernel in one convolution of all phases: the others are 0. It is 16 / 9 for a kernel of
/// 3 x 3 and strides of 2.
const MOST_TIMES: usize = 4;

/// A transposed convolution becomes so many convolutions at most. They are 4 for a kernel of 3 x 3 and strides of 2.
const MOST_PARTS: usize = 8;

/// Phases, of all in row-major order, that are one convolution.
#[derive(Debug)]
pub(super) struct PhaseGroup {
    phases: Range<usize>,
    /// The kernel of the convolution.
    taps: TVec<usize>,
}

impl PhaseGroup {
    /// For each channel of the convolution, what the channel that it becomes has.
    pub fn repeated<T: Copy>(&self, of_channels: &[T]) -> Vec<T> {
        of_channels.repeat(self.phases.len())
    }
}

impl Upsampling {
    /// The upsampling of a transposed convolution, or why there is none.
    pub fn new(op: &Deconv) -> Result<Upsampling, String> {
        let spec = &op.pool_spec;
        let rank = spec.rank();
        let (strides, dilations) = (spec.strides(), spec.dilations());
        let (begin, end) = match &spec.padding {
            PaddingSpec::Valid => (tvec![0; rank], tvec![0; rank]),
            PaddingSpec::Explicit(begin, end) => (begin.clone(), end.clone()),
            other => refuse!("its padding is {other:?}"),
        };
        refuse_if!(
            op.kernel_format != KernelFormat::OIHW,
            "its weights are {:?}, but must be OIHW",
            op.kernel_format
        );
        refuse_if!(
            op.group != 1 || dilations.iter().any(|dilation| *dilation != 1),
            "it has {} groups and dilations {dilations:?}, but must have 1 group and no dilation",
            op.group
        );
        let kernel = &spec.kernel_shape;
        refuse_if!(
            kernel.contains(&0) || strides.contains(&0),
            "its kernel is {kernel:?} and its strides are {strides:?}, but must be 1 or more"
        );
        let taps: TVec<usize> =
            kernel.iter().zip(&*strides).map(|(size, stride)| size.div_ceil(*stride)).collect();
        let volume_of = |sizes: &[usize]| volume(sizes).unwrap_or(usize::MAX);
        let all = volume_of(&[&*taps, &*strides].concat());
        refuse_if!(
            all > volume_of(kernel).saturating_mul(MOST_TIMES),
            "its kernel is {kernel:?} and its strides are {strides:?}: {all} weights for each two channels, but it must have \
                 {MOST_TIMES} times those of the kernel or fewer"
        );
        let pads_behind = (0..rank).map(|axis| {
            let reach = kernel[axis].saturating_add(op.adjustments[axis]).checked_sub(end[axis])?;
            reach.div_ceil(strides[axis]).checked_sub(1)
        });
        let pads_behind = pads_behind.collect::<Option<TVec<usize>>>().ok_or_else(|| {
            format!("its pads at the end are {end:?}, and leave nothing of its kernel {kernel:?}")
        })?;
        refuse_if!(
            pads_behind.iter().zip(&taps).any(|(pad, taps)| pad > taps),
            "its adjustments are {:?}, which is further than its kernel {kernel:?} reaches",
            op.adjustments
        );
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

    /// All phases, with weights of 0 for the taps that only some have.
    pub fn whole(&self) -> PhaseGroup {
        PhaseGroup { phases: 0..self.phases(), taps: self.taps.clone() }
    }

    /// The phases in order, those in a row with as many taps together. Or why they are no convolutions.
    pub fn parts(&self) -> Result<Vec<PhaseGroup>, String> {
        let (kernel, strides) = (&self.kernel, &self.strides);
        refuse_if!(
            kernel.iter().zip(strides).any(|(size, stride)| size < stride),
            "its kernel is {kernel:?} and its strides are {strides:?}: some pixels meet no element of the kernel"
        );
        let mut parts: Vec<PhaseGroup> = vec![];
        for (number, phase) in indices(&**strides).into_iter().enumerate() {
            let taps = kernel.iter().zip(strides).enumerate();
            let taps: TVec<usize> =
                taps.map(|(axis, (size, stride))| (size - phase[axis]).div_ceil(*stride)).collect();
            if let Some(last) = parts.last_mut().filter(|last| last.taps == taps) {
                last.phases.end += 1;
                continue;
            }
            refuse_if!(
                parts.len() == MOST_PARTS,
                "its kernel is {kernel:?} and its strides are {strides:?}: it would become more than {MOST_PARTS} convolutions"
            );
            parts.push(PhaseGroup { phases: number..number + 1, taps });
        }
        Ok(parts)
    }

    /// How many products of numbers the convolutions have, and how many the transposed one, for each two channels,
    /// if data of this shape has known sizes.
    pub fn products(&self, convolution: &PoolSpec, data: &ShapeFact) -> Found<[usize; 2]> {
        rule_if_some!(data = data.as_concrete());
        let after = convolution.output_shape(data)?;
        let before = convolution.data_format.shape(data)?;
        let of = |pixels: &[usize]| volume(&[pixels, &self.kernel].concat()).unwrap_or(usize::MAX);
        Ok(Some([of(after.hw_dims()), of(before.hw_dims())]))
    }

    /// The convolution of a part, of data in this format. All parts have outputs of one size.
    pub fn convolution(&self, part: &PhaseGroup, format: DataFormat) -> PoolSpec {
        let before = part.taps.iter().map(|taps| taps - 1).collect();
        let padding = PaddingSpec::Explicit(before, self.pads_behind.clone());
        let outputs = part.phases.len() * self.channels;
        PoolSpec::new(format, part.taps.clone(), padding, None, None, self.inputs, outputs)
    }

    /// The weights of the convolution of a part, of those `[output channels, input channels, kernel]`. 0 is where the kernel has no tap.
    pub fn weights<T: Datum + Copy + Default>(
        &self,
        part: &PhaseGroup,
        weights: &Tensor,
    ) -> TractResult<Tensor> {
        let plain = weights.try_as_plain_ram()?.as_slice::<T>()?;
        let area: usize = self.kernel.iter().product();
        ensure!(
            plain.len() == self.channels * self.inputs * area,
            "the weights have shape {:?}, but there are {} output and {} input channels and a kernel of {:?}",
            weights.shape(),
            self.channels,
            self.inputs,
            self.kernel
        );
        let times = part.phases.len() * part.taps.iter().product::<usize>();
        let mut upsampled = Vec::with_capacity(plain.len() / area * times);
        let phases = indices(&*self.strides).into_iter();
        for phase in phases.skip(part.phases.start).take(part.phases.len()) {
            // Where each tap is in the kernel, if it is there.
            let places: Vec<Option<usize>> = indices(&*part.taps)
                .into_iter()
                .map(|tap| {
                    (0..self.kernel.len()).try_fold(0, |place, axis| {
                        let behind = part.taps[axis] - 1 - tap[axis];
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
        let shape = [&[part.phases.len() * self.channels, self.inputs], &*part.taps].concat();
        Tensor::from_shape(&shape, &upsampled)
    }

    /// How many pixels a channel becomes.
    fn phases(&self) -> usize {
        self.strides.iter().product()
    }

    /// What makes neighbours of the channels of the convolutions, which are one behind the other, in this format. `inner` is how many
    /// pixels it gives along each axis, and `outer` how many the result has.
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
