//! Convolutions and fully connected layers on codes.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::depthwise::{DepthwiseKernels, MOST_CHANNELS};
use super::finish::{Epilogue, ResidualOperand};
use super::levels::Levels;
use super::vectors::Codes;
use crate::checks::expect_input_count;
use crate::convolution::{
    Convolution, ConvolutionFilters, UnpackedConvolution, is_padded, output_shape,
};
use crate::isa::Instructions;
use crate::product::activation::Activation;

/// The most products of codes whose sum surely has 32 bits: with the zero point taken off, a code of data is at most 255
/// from 0, and one of weights 128. On the way a sum may leave the 32 bits and come back.
const MOST_PRODUCTS: usize = 1 << 16;

/// What a convolution or a fully connected layer of codes is made of.
#[derive(Debug)]
pub(crate) struct LayerDescription {
    /// Its data has the channels last. Without spatial axes it is a fully connected layer.
    pub spec: PoolSpec,
    pub group: usize,
    /// What the codes of the data stand for. Channels may differ where each output channel is made of one of them.
    pub data: Arc<Levels>,
    /// `[output channels, input channels of a group, kernel]`: codes of type `i8`.
    pub weights: Tensor,
    /// For each output channel, what a code of the weights is multiplied by, and the bias.
    pub scales: Vec<[f32; 2]>,
    pub activation: Activation,
    /// For each output channel, what the result of the activation is multiplied by and then added to.
    pub second: Option<Vec<[f32; 2]>>,
    /// What the codes of the output stand for. Without them it has numbers.
    pub output: Option<Arc<Levels>>,
    /// What is added to these codes, from a second input of the shape of the output.
    pub residual: Option<ResidualOperand>,
}

/// A convolution of codes, whose sums are exact. The data is `[any axes, spatial axes, channels]`, of type `u8`; the output
/// has codes of type `u8`, or `f32`. A second input may have codes of the same shape, which are added.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantizedConvolution {
    convolution: Arc<Convolution<Codes>>,
    output: DatumType,
    text: String,
}

impl LayerDescription {
    /// Why these codes cannot be multiplied, if they cannot.
    fn refusal(&self) -> Option<String> {
        let rank = self.spec.rank();
        if rank > 3 {
            return Some(format!("it has {rank} spatial axes, but must have 3 or fewer"));
        }
        if !self.data.are_the_same() && !self.is_depthwise() {
            return Some("channels of the data have different levels, and are added".into());
        }
        let Some(is_padded) = is_padded(&self.spec) else {
            return Some(format!("its padding is {:?}", self.spec.padding));
        };
        if is_padded && self.data.zeros(self.spec.input_channels).is_none() {
            return Some("it has padding, but the data has no code for 0".into());
        }
        let depth = self.depth();
        let outputs = self.spec.output_channels;
        if depth == 0 || outputs == 0 || self.weights.len() != outputs * depth {
            let shape = self.weights.shape();
            return Some(format!(
                "its weights have shape {shape:?}, for {outputs} sums of {depth}"
            ));
        }
        let found = self.scales.len();
        if found != outputs {
            return Some(format!("its bias has {found} numbers, but must have {outputs}"));
        }
        (depth > MOST_PRODUCTS)
            .then(|| format!("a sum has {depth} products, but must have {MOST_PRODUCTS} or fewer"))
    }

    /// Whether each output channel is made of one channel of the data, which makes no other.
    fn is_depthwise(&self) -> bool {
        let PoolSpec { input_channels, output_channels, .. } = self.spec;
        self.group == input_channels && self.group == output_channels && self.group > 1
    }

    fn depth(&self) -> usize {
        let kernel = self.spec.kernel_shape.iter().product::<usize>();
        self.spec.input_channels / self.group * kernel
    }
}

impl QuantizedConvolution {
    /// Packs a convolution for this machine, or says why its codes cannot be multiplied.
    pub fn new(
        description: &LayerDescription,
    ) -> TractResult<Result<QuantizedConvolution, String>> {
        let LayerDescription { spec, group, data, scales, activation, output, residual, .. } =
            description;
        if let Some(reason) = description.refusal() {
            return Ok(Err(reason));
        }
        let kernel: usize = spec.kernel_shape.iter().product();
        let depth = description.depth();
        let weights = description.weights.try_as_plain_ram()?.as_slice::<i8>()?;
        let is_depthwise = description.is_depthwise();
        let sums: Vec<i32> = weights
            .chunks_exact(depth)
            .map(|filter| filter.iter().map(|code| i32::from(*code)).sum())
            .collect();
        // Where channels differ, each makes one output channel.
        let level = |output: usize| data.of(if is_depthwise { output } else { 0 });
        let of_sum = |(output, &[scale, bias]): (usize, &[f32; 2])| {
            let level = level(output);
            let (_, rest) = level.zero();
            let rest = f64::from(rest) * f64::from(scale) * f64::from(sums[output]);
            [scale * level.scale, (f64::from(bias) + rest) as f32]
        };
        let of_sums: Vec<[f32; 2]> = scales.iter().enumerate().map(of_sum).collect();
        let offset =
            |output: usize| level(output).zero().0.wrapping_mul(sums[output]).wrapping_neg();
        let together = match spec.strides().last() {
            Some(1) if is_depthwise => DepthwiseKernels::pixels_together(spec.output_channels),
            _ => 1,
        };
        let (of_sums, second) = (of_sums.repeat(together), description.second.as_ref());
        let second = second.map(|second| second.repeat(together));
        let (levels, residual) = (output.as_deref(), residual.as_ref());
        let epilogue = Epilogue::new(&of_sums, *activation, second.as_deref(), levels, residual);
        let filters = if is_depthwise {
            let code = |channel: usize, tap: usize| weights[channel * kernel + tap];
            let columns = spec.kernel_shape.last().map_or(1, |columns| *columns);
            let shape = [kernel / columns, columns];
            let channels = spec.output_channels;
            let scales = epilogue.scales_of_codes();
            let kernels = DepthwiseKernels::pack(channels, together, shape, code, offset, scales);
            ConvolutionFilters::Depthwise(kernels)
        } else {
            let instructions = Instructions::detect();
            let unpacked = UnpackedConvolution {
                spec,
                group: *group,
                weights,
                size: 1,
                bytes_of_pixel: spec.input_channels / group,
                takes_padding: data.zeros(spec.input_channels).is_some(),
                for_amx: instructions.has_amx(),
            };
            let first_sum = |(output, codes): (usize, &[i8])| {
                instructions.first_sum(offset(output), codes.iter().copied())
            };
            let first_sums: Vec<i32> =
                weights.chunks_exact(depth).enumerate().map(first_sum).collect();
            let packed = unpacked.pack(&first_sums, |filters| instructions.format_of(filters));
            ConvolutionFilters::Products(packed)
        };
        // What is read at once may reach beyond the channels.
        let mut zeros = data.zeros(spec.input_channels).unwrap_or_default();
        zeros = zeros.repeat(together * filters.pixels_of_tap());
        zeros.resize(spec.input_channels * filters.pixels_of_tap() + MOST_CHANNELS, 0);
        let widened_zeros = zeros.iter().flat_map(|zero| i16::from(*zero).to_ne_bytes());
        let last = residual.map_or(output, |residual| &residual.output);
        let text = match last {
            Some(levels) => format!("to {}", levels.text()),
            None => "to numbers".to_string(),
        };
        let plus = if residual.is_some() { "plus codes, " } else { "" };
        let convolution = Convolution {
            spec: spec.clone(),
            group: *group,
            filters,
            bytes_of_pixel: spec.input_channels,
            widened_padding: widened_zeros.collect(),
            padding: zeros,
            epilogue,
        };
        let output = if last.is_some() { DatumType::U8 } else { DatumType::F32 };
        let text = format!("{spec:?}, group: {group}, {activation:?}, {plus}{text}");
        Ok(Ok(QuantizedConvolution { convolution: convolution.into(), output, text }))
    }

    /// How many inputs it has.
    fn inputs(&self) -> RangeInclusive<usize> {
        let count = if self.convolution.epilogue.residual.is_some() { 2 } else { 1 };
        count..=count
    }
}

impl_plain_op!(
    QuantizedConvolution,
    "QuantizedConvolution",
    info = |op| vec![op.text.clone()],
    validation = |_| Validation::Rounding
);

impl QuantizedConvolution {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        expect_input_count("QuantizedConvolution", inputs.len(), self.inputs())?;
        self.convolution.eval("QuantizedConvolution", inputs, self.output)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count("QuantizedConvolution", inputs.len(), self.inputs())?;
        if let Some(residual) = inputs.get(1) {
            ensure!(
                residual.datum_type == DatumType::U8,
                "QuantizedConvolution: the codes that are added are {residual:?}, but must be of type U8"
            );
        }
        let shape =
            output_shape("QuantizedConvolution", &self.convolution.spec, DatumType::U8, inputs[0])?;
        Ok(self.output.fact(shape))
    }
}
