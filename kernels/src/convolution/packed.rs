//! The operator of convolutions in single precision: which ones it takes, and how their weights are packed.

use std::sync::Arc;

use pulp::bytemuck::cast_slice;
use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::channels::ChannelKernels;
use super::driver::{Convolution, ConvolutionFilters, UnpackedConvolution, reach_if_padded};
use super::singles::{Singles, SinglesEpilogue};
use super::window::output_shape;
use crate::checks::expect_input_count;
use crate::isa::Instructions;
use crate::memory::floats;

/// A convolution in single precision, whose weights are packed for this machine. The data is `[any axes, spatial axes, channels]`, and
/// so is the output. A second input of the shape of the output is added, if the epilogue says so.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PackedConvolution(Arc<Convolution<Singles>>);

/// How many elements padding may add to a channel.
const MOST_PADDING: usize = 1 << 16;

const OPERATOR: &str = "PackedConvolution";

impl_plain_op!(
    PackedConvolution,
    OPERATOR,
    info = |op| {
        let Convolution { spec, group, epilogue, .. } = &*op.0;
        let SinglesEpilogue { adds, activation, slopes } = epilogue;
        let mut info = vec![format!("{spec:?}, group: {group}, {activation:?}")];
        info.extend(adds.then(|| "adds a residual before".to_string()));
        info.extend(slopes.as_ref().map(|_| "numbers less than 0 have slopes".to_string()));
        info
    },
    validation = |_| Validation::Rounding
);

impl PackedConvolution {
    /// Whether this operator is made for a window: with one to three spatial axes, and padding that is no more than the
    /// kernel reaches.
    pub fn takes(spec: &PoolSpec) -> bool {
        let reach =
            |axis| reach_if_padded(spec, axis).filter(|_| spec.stride(axis) <= MOST_PADDING);
        let padding = (0..spec.rank())
            .try_fold(1usize, |padding, axis| reach(axis)?.checked_mul(2)?.checked_mul(padding));
        (1..=3).contains(&spec.rank()) && padding.is_some_and(|padding| padding <= MOST_PADDING)
    }

    /// `weights` is `[output channels, input channels of a group, kernel]`, `bias` has a number for each output channel, and so have
    /// the slopes.
    pub fn new(
        spec: PoolSpec,
        group: usize,
        weights: &Tensor,
        bias: &[f32],
        epilogue: SinglesEpilogue,
    ) -> TractResult<PackedConvolution> {
        ensure!(spec.data_format.c_is_last(), "the format of the data is {:?}", spec.data_format);
        let PoolSpec { input_channels, output_channels, .. } = spec;
        let taps = spec.kernel_shape.iter().product::<usize>();
        let depth = input_channels / group * taps;
        let weights = floats(weights)?;
        ensure!(!weights.is_empty(), "the weights have no elements");
        ensure!(weights.len() == output_channels * depth, "the weights have another size");
        ensure!(bias.len() == output_channels, "the bias has another size");
        let slopes = epilogue.slopes.as_ref();
        ensure!(
            slopes.is_none_or(|it| it.len() == output_channels),
            "the slopes have another size"
        );
        let of_group = input_channels / group;
        let are_narrow = input_channels == output_channels
            && (of_group == 1 || ChannelKernels::takes_groups(of_group));
        let filters = if group > 1 && are_narrow {
            ConvolutionFilters::Depthwise(ChannelKernels::pack(weights, bias, of_group))
        } else {
            let unpacked = UnpackedConvolution {
                spec: &spec,
                group,
                weights: cast_slice(weights),
                size: size_of::<f32>(),
                takes_padding: true,
                for_amx: false,
            };
            let first_sums: Vec<i32> =
                bias.iter().map(|bias| bias.to_bits().cast_signed()).collect();
            let format = Instructions::detect().format_of_singles();
            ConvolutionFilters::Products(unpacked.pack(&first_sums, |_| format))
        };
        let padding = vec![0; size_of::<f32>() * input_channels * filters.pixels_of_tap()];
        Ok(PackedConvolution(Arc::new(Convolution {
            spec,
            group,
            filters,
            widened_padding: vec![],
            padding,
            epilogue,
            datum_type: DatumType::F32,
        })))
    }

    /// How many inputs it has.
    fn inputs(&self) -> usize {
        if self.0.epilogue.adds { 2 } else { 1 }
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        expect_input_count(OPERATOR, inputs.len(), self.inputs()..=self.inputs())?;
        self.0.eval(OPERATOR, inputs)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count(OPERATOR, inputs.len(), self.inputs()..=self.inputs())?;
        let shape = output_shape(OPERATOR, &self.0.spec, DatumType::F32, inputs[0])?;
        Ok(f32::fact(shape))
    }
}
