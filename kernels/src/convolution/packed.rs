//! The operator of convolutions in single precision: which ones it takes, and how their weights are packed.

use std::sync::Arc;

use pulp::bytemuck::cast_slice;
use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

#[cfg(target_arch = "x86_64")]
use super::bf16::{self, Bf16};
use super::channels::ChannelKernels;
use super::driver::{Convolution, ConvolutionFilters, UnpackedConvolution, reach_if_padded};
use super::pairs::PairKernels;
use super::product::ConvolutionElement;
use super::singles::{Singles, SinglesEpilogue};
use super::window::output_shape;
use crate::bf16::BF16;
use crate::checks::expect_input_count;
use crate::isa::{Bf16Isa, Instructions};
use crate::memory::floats;

/// A convolution in single precision, whose weights are packed for this machine. The data is `[any axes, spatial axes, channels]`, and
/// so is the output. A second input of the shape of the output is added, if the epilogue says so.
///
/// All of them may be in bf16 ([`BF16`]), if the data is multiplied in that, or where channels, or narrow groups of them, are on their own
/// and the processor has instructions for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PackedConvolution {
    convolution: OfElements,
    /// The type of the output.
    output: DatumType,
}

/// A convolution, by what it multiplies.
#[derive(Debug, Clone, PartialEq)]
enum OfElements {
    Singles(Arc<Convolution<Singles>>),
    /// Data and weights are rounded before they are multiplied.
    #[cfg(target_arch = "x86_64")]
    Bf16(Arc<Convolution<Bf16>>),
}

/// How many elements padding may add to a channel.
const MOST_PADDING: usize = 1 << 16;

const OPERATOR: &str = "PackedConvolution";

impl_plain_op!(
    PackedConvolution,
    OPERATOR,
    info = |op| {
        let (spec, group, epilogue) = op.description();
        let SinglesEpilogue { adds, activation, slopes } = epilogue;
        let mut info = vec![format!("{spec:?}, group: {group}, {activation:?}")];
        info.extend(adds.then(|| "adds a residual before".to_string()));
        info.extend(slopes.as_ref().map(|_| "numbers less than 0 have slopes".to_string()));
        info.extend(op.rounds().then(|| "factors are rounded to bf16".to_string()));
        info.extend((op.output == BF16).then(|| "the output is in bf16".to_string()));
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
    /// the slopes. Data and weights are rounded to bf16 if that is asked for, and tiles of the processor multiply them.
    pub fn new(
        spec: PoolSpec,
        group: usize,
        weights: &Tensor,
        bias: &[f32],
        epilogue: SinglesEpilogue,
        bf16: Option<Bf16Isa>,
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
        let first_sums: Vec<i32> = bias.iter().map(|bias| bias.to_bits().cast_signed()).collect();
        let unpacked = UnpackedConvolution {
            spec: &spec,
            group,
            weights: cast_slice(weights),
            size: size_of::<f32>(),
            bytes_of_pixel: of_group * size_of::<f32>(),
            takes_padding: true,
            for_amx: false,
        };
        #[cfg(target_arch = "x86_64")]
        if bf16.is_some() && Instructions::detect().has_amx() && group == 1 {
            let mut room = vec![];
            let unpacked = UnpackedConvolution { for_amx: true, ..unpacked };
            let (unpacked, format) = bf16::rounded(unpacked, weights, &mut room);
            let bytes_of_pixel = unpacked.bytes_of_pixel;
            let filters = ConvolutionFilters::Products(unpacked.pack(&first_sums, |_| format));
            let convolution =
                Convolution::of_singles(spec, group, filters, bytes_of_pixel, epilogue);
            return Ok(OfElements::Bf16(Arc::new(convolution)).into());
        }
        let filters = if group > 1 && are_narrow {
            let may_be_bf16 = bf16.is_some() && PairKernels::takes(&spec, &epilogue);
            let kernels = ChannelKernels::pack(weights, bias, of_group, may_be_bf16);
            ConvolutionFilters::Depthwise(kernels)
        } else {
            let format = Instructions::detect().format_of_singles();
            ConvolutionFilters::Products(unpacked.pack(&first_sums, |_| format))
        };
        let bytes_of_pixel = size_of::<f32>() * input_channels;
        let convolution = Convolution::of_singles(spec, group, filters, bytes_of_pixel, epilogue);
        Ok(OfElements::Singles(Arc::new(convolution)).into())
    }

    fn description(&self) -> (&PoolSpec, usize, &SinglesEpilogue) {
        match &self.convolution {
            OfElements::Singles(it) => (&it.spec, it.group, &it.epilogue),
            #[cfg(target_arch = "x86_64")]
            OfElements::Bf16(it) => (&it.spec, it.group, &it.epilogue),
        }
    }

    /// Whether data and weights are rounded to bf16.
    pub fn rounds(&self) -> bool {
        !matches!(self.convolution, OfElements::Singles(_))
    }

    /// Whether inputs and the output may be in bf16.
    pub fn takes_bf16(&self) -> bool {
        match &self.convolution {
            OfElements::Singles(convolution) => convolution.takes(BF16),
            #[cfg(target_arch = "x86_64")]
            OfElements::Bf16(convolution) => convolution.takes(BF16),
        }
    }

    /// The same with an output in bf16, which it must [take](Self::takes_bf16).
    pub fn with_output_in_bf16(&self) -> PackedConvolution {
        PackedConvolution { convolution: self.convolution.clone(), output: BF16 }
    }

    /// How many inputs it has.
    fn inputs(&self) -> usize {
        if self.description().2.adds { 2 } else { 1 }
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        expect_input_count(OPERATOR, inputs.len(), self.inputs()..=self.inputs())?;
        match &self.convolution {
            OfElements::Singles(convolution) => convolution.eval(OPERATOR, inputs, self.output),
            #[cfg(target_arch = "x86_64")]
            OfElements::Bf16(convolution) => convolution.eval(OPERATOR, inputs, self.output),
        }
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count(OPERATOR, inputs.len(), self.inputs()..=self.inputs())?;
        for (number, input) in inputs.iter().enumerate() {
            ensure!(
                input.datum_type == DatumType::F32 || input.datum_type == BF16 && self.takes_bf16(),
                "{OPERATOR}: input {number} is {input:?}, but must be of type F32"
            );
        }
        let dt = inputs[0].datum_type;
        Ok(self.output.fact(output_shape(OPERATOR, self.description().0, dt, inputs[0])?))
    }
}

impl From<OfElements> for PackedConvolution {
    fn from(convolution: OfElements) -> PackedConvolution {
        PackedConvolution { convolution, output: DatumType::F32 }
    }
}

impl<E: ConvolutionElement<Epilogue = SinglesEpilogue>> Convolution<E> {
    /// A convolution with the epilogue of numbers in single precision.
    fn of_singles(
        spec: PoolSpec,
        group: usize,
        filters: ConvolutionFilters<E>,
        bytes_of_pixel: usize,
        epilogue: SinglesEpilogue,
    ) -> Convolution<E> {
        Convolution {
            spec,
            group,
            padding: vec![0; bytes_of_pixel * filters.pixels_of_tap()],
            filters,
            bytes_of_pixel,
            widened_padding: vec![],
            epilogue,
        }
    }
}
