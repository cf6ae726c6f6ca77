use pulp::{Simd, WithSimd, as_arrays};
use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::layouts::Layouts;
use super::patches::Layout;
use crate::operators::check_volume;
use crate::operators::product::activation::Activation;
use crate::operators::product::{Vectors, load, store};

/// What is made of each channel on its own: a convolution of one channel, or a pool.
pub(super) struct Planes<'a> {
    pub layout: &'a Layout,
    pub kind: Kind<'a>,
    pub activation: Activation,
}

#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// The sum of products with a kernel for each channel of the output, and a bias.
    Sum { kernels: &'a [f32], bias: &'a [f32] },
    /// The greatest element. Padding is the least of all finite numbers, as in OpenVINO and in tract; NaN is ignored.
    Max,
}

impl Planes<'_> {
    /// Each of the channels gives `repeated` channels of the output.
    pub fn run(
        &self,
        data: &[f32],
        channels: usize,
        repeated: usize,
        output: &mut [f32],
    ) -> TractResult<()> {
        let pixels: usize = self.layout.window.output.iter().product();
        let work = output.len().saturating_mul(self.layout.offsets.len());
        let vectors = Vectors::detect();
        multithread::par_chunks_mut(output, repeated * pixels, work, |first, output| {
            vectors.run(Channels { planes: self, data, channels, repeated, first, output });
            Ok(())
        })
    }
}

/// What is made of some channels, from the first one on.
struct Channels<'a> {
    planes: &'a Planes<'a>,
    data: &'a [f32],
    channels: usize,
    repeated: usize,
    first: usize,
    output: &'a mut [f32],
}

impl WithSimd for Channels<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Channels { planes: Planes { layout, kind, activation }, channels, repeated, .. } = self;
        let volume = |sizes: [usize; 3]| sizes.iter().product::<usize>();
        let (image, pixels) = (volume(layout.window.input), volume(layout.window.output));
        let kernel = layout.offsets.len();
        let padding = match kind {
            Kind::Sum { .. } => 0.,
            Kind::Max => f32::MIN,
        };
        let mut plane = vec![padding; layout.channel()];
        let mut results = vec![0.; layout.positions];
        for (number, outputs) in self.output.chunks_mut(repeated * pixels).enumerate() {
            let channel = self.first + number;
            layout.copy(simd, &self.data[channel * image..][..image], &mut plane);
            for (copy, output) in outputs.chunks_mut(pixels).enumerate() {
                let channel = channel % channels * repeated + copy;
                let (weights, bias) = match kind {
                    Kind::Sum { kernels, bias } => {
                        (Some(&kernels[channel * kernel..][..kernel]), bias[channel])
                    }
                    Kind::Max => (None, 0.),
                };
                let is_dense = layout.is_dense();
                let plane = Plane {
                    plane: &plane,
                    offsets: &layout.offsets,
                    weights,
                    bias,
                    activation: *activation,
                    results: if is_dense { &mut *output } else { &mut results },
                };
                plane.with_simd(simd);
                if !is_dense {
                    layout.pick(simd, 0..layout.positions, &results, output);
                }
            }
        }
    }
}

/// One channel of an output.
struct Plane<'a> {
    plane: &'a [f32],
    offsets: &'a [usize],
    /// None: the greatest element.
    weights: Option<&'a [f32]>,
    bias: f32,
    activation: Activation,
    results: &'a mut [f32],
}

/// How many vectors are computed at once.
const VECTORS: usize = 4;

impl WithSimd for Plane<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Plane { plane, offsets, weights, bias, activation, results } = self;
        let start = simd.splat_f32s(match weights {
            Some(_) => bias,
            None => f32::MIN,
        });
        let block = VECTORS * S::F32_LANES;
        let mut at = 0;
        for result in results.chunks_mut(block) {
            if result.len() == block {
                let mut sums = [start; VECTORS];
                let source = |offset: usize| {
                    as_arrays::<VECTORS, S::f32s>(S::as_simd_f32s(&plane[offset + at..][..block]).0)
                        .0[0]
                };
                match weights {
                    Some(weights) => {
                        for (offset, weight) in offsets.iter().zip(weights) {
                            let (source, weight) = (source(*offset), simd.splat_f32s(*weight));
                            for vector in 0..VECTORS {
                                sums[vector] =
                                    simd.mul_add_e_f32s(source[vector], weight, sums[vector]);
                            }
                        }
                    }
                    None => {
                        for offset in offsets {
                            let source = source(*offset);
                            for vector in 0..VECTORS {
                                sums[vector] = simd.max_f32s(source[vector], sums[vector]);
                            }
                        }
                    }
                }
                let places = S::as_mut_simd_f32s(result).0;
                for vector in 0..VECTORS {
                    places[vector] = activation.apply(simd, sums[vector]);
                }
            } else {
                for (number, result) in result.chunks_mut(S::F32_LANES).enumerate() {
                    let at = at + number * S::F32_LANES;
                    let mut sum = start;
                    for (number, offset) in offsets.iter().enumerate() {
                        let source = load(simd, &plane[offset + at..][..result.len()]);
                        sum = match weights {
                            Some(weights) => {
                                simd.mul_add_e_f32s(source, simd.splat_f32s(weights[number]), sum)
                            }
                            None => simd.max_f32s(source, sum),
                        };
                    }
                    store(simd, result, activation.apply(simd, sum));
                }
            }
            at += block;
        }
    }
}

/// MaxPool-1, of single precision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MaxPoolOfPlanes {
    spec: PoolSpec,
    layouts: Layouts,
}

impl MaxPoolOfPlanes {
    pub fn new(spec: PoolSpec) -> MaxPoolOfPlanes {
        MaxPoolOfPlanes { spec, layouts: Layouts::default() }
    }
}

impl Op for MaxPoolOfPlanes {
    fn name(&self) -> StaticName {
        "OpenVinoMaxPool".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("{:?}", self.spec)])
    }

    op_as_typed_op!();
}

impl EvalOp for MaxPoolOfPlanes {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let sizes = input.shape();
        ensure!(sizes.len() == self.spec.rank() + 2, "MaxPool: the data has shape {sizes:?}");
        let mut shape: TVec<usize> = sizes[..2].into();
        let Some(layout) = self.layouts.of(&self.spec, sizes, 1, &mut shape)? else {
            return Ok(tvec!(Tensor::zero::<f32>(&shape)?.into_tvalue()));
        };
        check_volume("MaxPool", &shape)?;
        let mut output = Tensor::zero::<f32>(&shape)?;
        let planes = Planes { layout: &layout, kind: Kind::Max, activation: Activation::Identity };
        let data = input.try_as_plain_ram()?;
        let mut view = output.try_as_plain_ram_mut()?;
        planes.run(data.as_slice()?, sizes[1], 1, view.as_slice_mut()?)?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for MaxPoolOfPlanes {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        ensure!(inputs.len() == 1, "MaxPool: got {} inputs, expected one", inputs.len());
        self.spec.output_facts(inputs)
    }

    as_op!();
}
