use pulp::{Simd, WithSimd, as_arrays};
use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::layouts::PatchLayoutCache;
use super::patches::{Band, PatchLayout};
use crate::checks::expect_input_count;
use crate::cost;
use crate::isa::max_or_second;
use crate::memory::{Scratch, filled_output, floats};
use crate::product::activation::{Activation, below_zero};
use crate::product::{Output, Vectors};
use crate::threads::{Division, fill_rows};

/// What is made of each channel on its own: a convolution of one channel, or a pool.
pub(super) struct Planes<'a> {
    pub layout: &'a PatchLayout,
    pub kind: PlaneReduction<'a>,
    pub activation: Activation,
    /// What numbers of each channel of the output that are less than 0 are multiplied by.
    pub slopes: Option<&'a [f32]>,
}

/// What is made of the elements of a window.
#[derive(Clone, Copy)]
pub(super) enum PlaneReduction<'a> {
    /// The sum of products with a kernel for each channel of the output, and a bias.
    Sum { kernels: &'a [f32], bias: &'a [f32] },
    /// The sum of products with one kernel for all channels, and no bias.
    SameSum(&'a [f32]),
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
        let pixels = self.layout.window.pixels();
        let products = output.len().saturating_mul(self.layout.offsets.len());
        let division = Division::of(cost::PRODUCT_OF_CHANNELS.of(products));
        let vectors = Vectors::detect();
        let run = |first, pixels, output: Output| {
            let (planes, band) = (self, self.layout.band(pixels));
            vectors.run(PlaneTask { planes, data, channels, repeated, first, band, output });
            Ok(())
        };
        if let Some(shares) = self.layout.shares_of_pixels(&division, output.len() / pixels) {
            return shares.for_each(output, |share, output| run(0, share.columns, output));
        }
        division.fill_rows(output, repeated * pixels, |first, output| {
            run(first, 0..pixels, Output::matrix(output, pixels))
        })
    }
}

/// A thread's share: some pixels of some channels, from the first one on.
struct PlaneTask<'a> {
    planes: &'a Planes<'a>,
    data: &'a [f32],
    channels: usize,
    repeated: usize,
    first: usize,
    band: Band<'a>,
    output: Output<'a>,
}

impl WithSimd for PlaneTask<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Planes { layout, kind, activation, slopes } = self.planes;
        let PlaneTask { channels, repeated, .. } = self;
        let Band { pixels, positions, rows } = self.band;
        let (image, pixels) = (layout.window.elements(), pixels.len());
        let kernel = layout.offsets.len();
        let padding = match kind {
            PlaneReduction::Sum { .. } | PlaneReduction::SameSum(_) => 0.,
            PlaneReduction::Max => f32::MIN,
        };
        let most = VECTORS * S::F32_LANES;
        // What is computed beyond the positions, in whole vectors, meets what follows the channel.
        let mut plane = Scratch::new(layout.channel() + most);
        plane.fill(padding);
        let computed = positions.len().next_multiple_of(S::F32_LANES);
        let mut gaps = Scratch::new(if computed > pixels { computed } else { 0 });
        for number in 0..self.output.len() / repeated {
            let channel = self.first + number;
            let data = &self.data[channel * image..];
            layout.copy(simd, data, rows, layout.all_rows(), &mut plane, padding);
            for copy in 0..repeated {
                let channel = channel % channels * repeated + copy;
                let (weights, bias) = match kind {
                    PlaneReduction::Sum { kernels, bias } => {
                        (Some(&kernels[channel * kernel..][..kernel]), bias[channel])
                    }
                    PlaneReduction::SameSum(kernel) => (Some(*kernel), 0.),
                    PlaneReduction::Max => (None, 0.),
                };
                let plane = Plane {
                    plane: &plane,
                    offsets: &layout.offsets,
                    weights,
                    bias,
                    activation: *activation,
                };
                let output = self.output.row(number * repeated + copy);
                if gaps.is_empty() {
                    plane.results(simd, positions.start, &mut output[..pixels]);
                } else {
                    plane.results(simd, positions.start, &mut gaps);
                    layout.pick(simd, positions.clone(), &gaps, output);
                }
                if let Some(slopes) = slopes {
                    below_zero(simd, &mut output[..pixels], slopes[channel]);
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
}

/// How many vectors are computed at once.
const VECTORS: usize = 4;

impl Plane<'_> {
    /// The results for positions from the first one on, and for some after them so that vectors are whole.
    #[inline(always)]
    fn results<S: Simd>(&self, simd: S, first: usize, results: &mut [f32]) {
        let most = VECTORS * S::F32_LANES;
        for (number, results) in results.chunks_mut(most).enumerate() {
            let at = first + number * most;
            match results.len() / S::F32_LANES {
                4 => self.vectors::<S, 4>(simd, at, results),
                3 => self.vectors::<S, 3>(simd, at, results),
                2 => self.vectors::<S, 2>(simd, at, results),
                _ => self.vectors::<S, 1>(simd, at, results),
            }
        }
    }

    /// The results for whole vectors of positions, from one position on.
    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(&self, simd: S, at: usize, results: &mut [f32]) {
        let source = |offset: usize| {
            let elements = &self.plane[offset + at..][..N * S::F32_LANES];
            as_arrays::<N, S::f32s>(S::as_simd_f32s(elements).0).0[0]
        };
        let mut vectors;
        match self.weights {
            Some(weights) => {
                vectors = [simd.splat_f32s(self.bias); N];
                for (offset, weight) in self.offsets.iter().zip(weights) {
                    let (source, weight) = (source(*offset), simd.splat_f32s(*weight));
                    for number in 0..N {
                        vectors[number] =
                            simd.mul_add_e_f32s(source[number], weight, vectors[number]);
                    }
                }
            }
            None => {
                vectors = [simd.splat_f32s(f32::MIN); N];
                for offset in self.offsets {
                    let source = source(*offset);
                    for number in 0..N {
                        vectors[number] = max_or_second(simd, source[number], vectors[number]);
                    }
                }
            }
        }
        let places = S::as_mut_simd_f32s(results).0;
        for (place, vector) in places.iter_mut().zip(vectors) {
            *place = self.activation.apply(simd, vector);
        }
    }
}

/// A pool of single precision. The data is `NCHW` or `CHW`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PoolOfPlanes {
    spec: PoolSpec,
    of: PoolOf,
    layouts: PatchLayoutCache,
}

/// What a pool makes of the elements of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolOf {
    Max,
    Sum,
    /// The sum, divided by the number of elements in the kernel.
    MeanWithPadding,
    /// The sum, divided by the number of elements that are not padding.
    Mean,
}

impl_plain_op!(
    PoolOfPlanes,
    "PoolOfPlanes",
    info = |op| vec![format!("{:?}, {:?}", op.of, op.spec)],
    validation = |op| match op.of {
        PoolOf::Max => Validation::Accurate,
        _ => Validation::Rounding,
    }
);

impl PoolOfPlanes {
    pub fn new(spec: PoolSpec, of: PoolOf) -> PoolOfPlanes {
        PoolOfPlanes { spec, of, layouts: PatchLayoutCache::default() }
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let input = args_1!(inputs);
        let sizes = input.shape();
        let axis = usize::from(self.spec.data_format.has_n());
        let rank = self.spec.rank() + axis + 1;
        ensure!(
            sizes.len() == rank,
            "Pool: the data has shape {sizes:?}, but must have rank {rank}"
        );
        let mut shape: TVec<usize> = sizes[..=axis].into();
        let layout = self.layouts.of(&self.spec, &sizes[axis + 1..], 1, &mut shape)?;
        let data = floats(&input)?;
        filled_output("Pool", &shape, |elements| {
            let Some(layout) = &layout else { return Ok(()) };
            let (window, volume) = (&layout.window, layout.offsets.len());
            let kernel = vec![1.; volume];
            let kind = match self.of {
                PoolOf::Max => PlaneReduction::Max,
                _ => PlaneReduction::SameSum(&kernel),
            };
            let planes = Planes { layout, kind, activation: Activation::Identity, slopes: None };
            planes.run(data, sizes[axis], 1, elements)?;
            if let PoolOf::Max | PoolOf::Sum = self.of {
                return Ok(());
            }
            let mut counts = Scratch::new(window.pixels());
            match self.of {
                // How many elements each pixel has: the sum of ones.
                PoolOf::Mean => planes.run(&vec![1.; window.elements()], 1, 1, &mut counts)?,
                _ => counts.fill(volume as f32),
            }
            // A sum of quotients would be rounded: integers may have a mean that is one.
            let work = cost::ELEMENT.of(elements.len());
            fill_rows(elements, window.pixels(), work, |_, channels| {
                for channel in channels.chunks_exact_mut(counts.len()) {
                    channel.iter_mut().zip(&*counts).for_each(|(sum, count)| *sum /= count);
                }
                Ok(())
            })
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Pool", inputs.len(), 1..=1)?;
        self.spec.output_facts(inputs)
    }
}
