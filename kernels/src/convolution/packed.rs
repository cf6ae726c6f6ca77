use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec};

use super::layouts::PatchLayoutCache;
use super::planes::{PlaneReduction, Planes};
use super::products::{GroupWeights, Im2colGemm, prefers_rows};
use crate::checks::expect_input_count;
use crate::memory::{filled_output, floats};
use crate::product::activation::Activation;
use crate::window::Window;

/// A convolution whose weights are packed for this machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PackedConvolution {
    spec: PoolSpec,
    group: usize,
    activation: Activation,
    /// What numbers of each channel that are less than 0 are multiplied by at last.
    slopes: Option<Arc<Vec<f32>>>,
    filters: Arc<ConvolutionFilters>,
    bias: Arc<Vec<f32>>,
    layouts: PatchLayoutCache,
}

/// The weights, for how the convolution is computed.
#[derive(Debug, PartialEq)]
enum ConvolutionFilters {
    /// Of each group, an operand of a GEMM.
    Products(Vec<GroupWeights>),
    /// A channel of the output is made of one of the input: the kernel for each.
    Planes(Vec<f32>),
}

/// So many channels of an output that are made of one channel, or more, are a product: it reads that one for several of them at once.
const FEW_CHANNELS: usize = 8;

/// How many elements padding may add to a channel: it is copied with them.
const MOST_PADDING: usize = 1 << 16;

impl_plain_op!(
    PackedConvolution,
    "PackedConvolution",
    info = |op| {
        let mut info = vec![format!("{:?}, group: {}, {:?}", op.spec, op.group, op.activation)];
        info.extend(op.slopes.as_ref().map(|_| "numbers less than 0 have slopes".to_string()));
        info
    },
    validation = |_| Validation::Rounding
);

impl PackedConvolution {
    /// Whether this operator is made for a window: with one to three spatial axes, and padding that is no more than the
    /// kernel reaches.
    pub fn takes(spec: &PoolSpec) -> bool {
        let reach = |axis: usize| {
            let reach =
                (spec.kernel_shape[axis] - 1).checked_mul(spec.dilation(axis))?.checked_add(1)?;
            let pads = match &spec.padding {
                PaddingSpec::Explicit(begin, end)
                | PaddingSpec::ExplicitOnnxPool(begin, end, _) => begin[axis].max(end[axis]),
                PaddingSpec::Valid | PaddingSpec::SameUpper | PaddingSpec::SameLower => 0,
            };
            (pads <= reach && spec.stride(axis) <= MOST_PADDING).then_some(reach)
        };
        let padding = (0..spec.rank())
            .try_fold(1usize, |padding, axis| reach(axis)?.checked_mul(2)?.checked_mul(padding));
        (1..=3).contains(&spec.rank()) && padding.is_some_and(|padding| padding <= MOST_PADDING)
    }

    /// The data is `NCHW` or `CHW`. `weights` is `[output channels, input channels of a group, kernel]`, `bias` has a
    /// number for each output channel. `sizes` are those of the data's spatial axes, if they are known.
    pub fn new(
        spec: PoolSpec,
        group: usize,
        activation: Activation,
        weights: &Tensor,
        bias: Vec<f32>,
        sizes: Option<&[usize]>,
    ) -> TractResult<PackedConvolution> {
        ensure!(!spec.data_format.c_is_last(), "the format of the data is {:?}", spec.data_format);
        let (outputs, inputs) = (spec.output_channels / group, spec.input_channels / group);
        let depth = inputs * spec.kernel_shape.iter().product::<usize>();
        let weights = floats(weights)?;
        ensure!(!weights.is_empty(), "the weights have no elements");
        ensure!(weights.len() == group * outputs * depth, "the weights have another size");
        ensure!(bias.len() == spec.output_channels, "the bias has another size");
        let few = outputs < FEW_CHANNELS;
        let filters = if inputs == 1 && spec.rank() <= 2 && (group > 1 || few) {
            ConvolutionFilters::Planes(weights.to_vec())
        } else {
            let window = sizes.map(|sizes| Window::new(&spec, sizes)).transpose()?;
            let are_columns = window.is_some_and(|window| prefers_rows(window, outputs, depth));
            let pack = |group: &[f32]| GroupWeights::pack(group, outputs, depth, are_columns);
            ConvolutionFilters::Products(weights.chunks_exact(outputs * depth).map(pack).collect())
        };
        Ok(PackedConvolution {
            spec,
            group,
            activation,
            slopes: None,
            filters: filters.into(),
            bias: bias.into(),
            layouts: PatchLayoutCache::default(),
        })
    }

    /// The convolution, after which numbers less than 0 are multiplied by one for each output channel.
    pub fn with_slopes(self, slopes: Vec<f32>) -> TractResult<PackedConvolution> {
        ensure!(slopes.len() == self.spec.output_channels, "the slopes have another size");
        Ok(PackedConvolution { slopes: Some(slopes.into()), ..self })
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let input = args_1!(inputs);
        let data = floats(&input)?;
        let sizes = input.shape();
        let axis = usize::from(self.spec.data_format.has_n());
        let rank = self.spec.rank() + axis + 1;
        ensure!(
            sizes.len() == rank && sizes[axis] == self.spec.input_channels,
            "Convolution: the data has shape {sizes:?}, but must have rank {rank} and size {} on axis {axis}",
            self.spec.input_channels
        );
        let mut shape: TVec<usize> = sizes[..axis].into();
        shape.push(self.spec.output_channels);
        let rows = self.spec.output_channels / self.group;
        let layout = self.layouts.of(&self.spec, &sizes[axis + 1..], rows, &mut shape)?;
        filled_output("Convolution", &shape, |elements| {
            let Some(layout) = &layout else { return Ok(()) };
            let (bias, activation) = (&self.bias[..], self.activation);
            let slopes = self.slopes.as_ref().map(|slopes| &slopes[..]);
            match &*self.filters {
                ConvolutionFilters::Products(groups) => {
                    let products = Im2colGemm { layout, groups, bias, activation, slopes };
                    products.run(data, self.spec.input_channels / self.group, elements)
                }
                ConvolutionFilters::Planes(kernels) => {
                    let kind = PlaneReduction::Sum { kernels, bias };
                    let planes = Planes { layout, kind, activation, slopes };
                    let repeated = self.spec.output_channels / self.spec.input_channels;
                    planes.run(data, self.spec.input_channels, repeated, elements)
                }
            }
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Convolution", inputs.len(), 1..=1)?;
        self.spec.output_facts(inputs)
    }
}
