//! Convolutions and fully connected layers on codes.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use pulp::bytemuck::cast_slice;
use tract_core::internal::*;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec};

use super::depthwise::{DepthwiseKernels, DepthwiseTask, MOST_CHANNELS};
use super::finish::{Epilogue, OutputRows, ResidualOperand};
use super::instructions;
use super::levels::Levels;
use super::product::{CodedWeights, MOST_PRODUCTS, MOST_ROWS, PackedFilters, QuantizedGemmTask};
use super::rows::{Im2rowAddresses, PADDING};
use super::window::{ChannelsLastWindow, output_shape};
use crate::checks::expect_input_count;
use crate::cost;
use crate::isa::Instructions;
use crate::memory::{Aligned, filled_output_dt};
use crate::product::activation::Activation;
use crate::product::{Output, Share, Shares};
use crate::threads::Division;

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
    pub addition: Option<ResidualOperand>,
}

/// A convolution of codes, whose sums are exact. The data is `[any axes, spatial axes, channels]`, of type `u8`; the output
/// has codes of type `u8`, or `f32`. A second input may have codes of the same shape, which are added.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantizedConvolution {
    spec: PoolSpec,
    group: usize,
    /// The zero point of each channel of the data, and some more codes behind them.
    zeros: Arc<Vec<u8>>,
    /// The same in two bytes each, for codes that are widened.
    widened_zeros: Arc<Vec<u8>>,
    packed: Arc<QuantizedFilters>,
    epilogue: Arc<Epilogue>,
    datum_type: DatumType,
    text: String,
}

/// The weights, for how the convolution is computed.
#[derive(Debug, PartialEq)]
enum QuantizedFilters {
    /// Of each group, an operand of a GEMM.
    Products { groups: Vec<PackedFilters>, reading: Reading, gathering: Gathering },
    /// Each output channel is made of one channel of the data.
    Depthwise(DepthwiseKernels),
}

/// How the codes of an image are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Where they are: taps have whole steps.
    InPlace,
    /// From a copy with some codes behind them.
    Copied,
    /// From a copy with padding around the image, in which the taps of a row of the kernel are neighbours, and are one tap.
    Padded,
}

/// Whether the taps of a pixel are copied behind each other first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gathering {
    Never,
    /// All taps of a row of the im2row matrix are one tap then.
    Always,
    /// Where tiles at equal distances would have many rows between those of the pixels.
    OfNarrowImages,
}

/// With fewer channels, reading the rows of a kernel as one tap pays.
const FEW_CHANNELS: usize = 32;

/// With no more codes in a row of a kernel, as in a first layer of 3 x 3, copying all rows behind each other pays.
const FEW_CODES: usize = 32;

/// With fewer codes of weights, threads share the pixels: data that is in another core's cache is more to read.
const MANY_WEIGHTS: usize = 1 << 18;

/// Gathering a tap takes as long as multiplying it for so many output channels, with tiles.
const GATHERING: f32 = 48.;

impl LayerDescription {
    /// Why these codes cannot be multiplied, if they cannot.
    pub fn refusal(&self) -> Option<String> {
        let rank = self.spec.rank();
        if rank > 3 {
            return Some(format!("it has {rank} spatial axes, but must have 3 or fewer"));
        }
        if !self.data.are_the_same() && !self.is_depthwise() {
            return Some("channels of the data have different levels, and are added".into());
        }
        let Some(is_padded) = self.is_padded() else {
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

    /// Whether there is padding, if that is known.
    fn is_padded(&self) -> Option<bool> {
        match &self.spec.padding {
            PaddingSpec::Valid => Some(false),
            PaddingSpec::Explicit(begin, end) => Some(begin.iter().chain(end).any(|pad| *pad > 0)),
            _ => None,
        }
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

    fn reading(&self, instructions: Instructions) -> Reading {
        let rank = self.spec.rank();
        let inputs = self.spec.input_channels / self.group;
        let is_row = rank > 0
            && self.group == 1
            && self.spec.kernel_shape[rank - 1] > 1
            && self.spec.dilation(rank - 1) == 1
            && self.data.zeros(self.spec.input_channels).is_some();
        match inputs.is_multiple_of(4) {
            _ if is_row && (inputs < FEW_CHANNELS || instructions.has_tiles()) => Reading::Padded,
            true => Reading::InPlace,
            false => Reading::Copied,
        }
    }

    fn gathering(&self, instructions: Instructions) -> Gathering {
        let PoolSpec { kernel_shape, input_channels, .. } = &self.spec;
        let row = kernel_shape.last().map_or(1, |last| last * input_channels);
        let has_padded_copy = self.reading(instructions) == Reading::Padded;
        let is_padded = self.is_padded() != Some(false);
        let is_one_line = kernel_shape.iter().all(|taps| *taps == 1)
            && self.spec.strides().iter().all(|stride| *stride == 1)
            && !is_padded;
        match instructions.has_tiles() {
            false if has_padded_copy && row <= FEW_CODES => Gathering::Always,
            true if self.group == 1 && !is_one_line => match has_padded_copy || !is_padded {
                true => Gathering::OfNarrowImages,
                false => Gathering::Always,
            },
            _ => Gathering::Never,
        }
    }
}

impl QuantizedConvolution {
    /// Packs a convolution for this machine.
    ///
    /// # Errors
    ///
    /// It is refused (see [`LayerDescription::refusal`]), or the sizes of its parts differ.
    pub fn new(description: &LayerDescription) -> TractResult<QuantizedConvolution> {
        let LayerDescription { spec, group, data, scales, activation, output, addition, .. } =
            description;
        if let Some(reason) = description.refusal() {
            bail!("QuantizedConvolution: {reason}")
        }
        let (inputs, outputs) = (spec.input_channels / group, spec.output_channels / group);
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
        let mut together = 1;
        let packed = if is_depthwise {
            let code = |channel: usize, tap: usize| weights[channel * kernel + tap];
            let columns = spec.kernel_shape.last().map_or(1, |columns| *columns);
            let shape = [kernel / columns, columns];
            if spec.strides().last() == Some(&1) {
                together = DepthwiseKernels::pixels_together(spec.output_channels);
            }
            let channels = spec.output_channels;
            let kernels = DepthwiseKernels::pack(channels, together, shape, code, offset);
            QuantizedFilters::Depthwise(kernels)
        } else {
            let instructions = Instructions::detect();
            let reading = description.reading(instructions);
            let gathering = description.gathering(instructions);
            let row = match reading {
                _ if gathering == Gathering::Always => kernel,
                Reading::Padded => spec.kernel_shape[spec.rank() - 1],
                _ => 1,
            };
            // All channels of a pixel are neighbours.
            let ordered = match kernel {
                1 => Cow::Borrowed(weights),
                _ => {
                    let mut ordered = vec![0; weights.len()];
                    let filters = ordered.chunks_exact_mut(depth).zip(weights.chunks_exact(depth));
                    for (ordered, filter) in filters {
                        for (channel, codes) in filter.chunks_exact(kernel).enumerate() {
                            for (pixel, code) in codes.iter().enumerate() {
                                ordered[pixel * inputs + channel] = *code;
                            }
                        }
                    }
                    Cow::Owned(ordered)
                }
            };
            let weights =
                CodedWeights { codes: &ordered, taps: kernel / row, of_a_tap: row * inputs };
            let codes_of_step = weights.codes_of_step(instructions);
            let offsets: Vec<i32> = (0..spec.output_channels).map(offset).collect();
            let groups = ordered.chunks_exact(outputs * depth).zip(offsets.chunks_exact(outputs));
            let groups = groups
                .map(|(codes, offsets)| {
                    PackedFilters::pack(CodedWeights { codes, ..weights }, codes_of_step, offsets)
                })
                .collect();
            QuantizedFilters::Products { groups, reading, gathering }
        };
        // What is read at once may reach beyond the channels.
        let mut zeros = data.zeros(spec.input_channels).unwrap_or_default();
        zeros = zeros.repeat(together);
        zeros.resize(spec.input_channels + MOST_CHANNELS, 0);
        let widened_zeros = zeros.iter().flat_map(|zero| i16::from(*zero).to_ne_bytes());
        let last = addition.as_ref().map_or(output, |addition| &addition.output);
        let text = match last {
            Some(levels) => format!("to {}", levels.text()),
            None => "to numbers".to_string(),
        };
        let plus = if addition.is_some() { "plus codes, " } else { "" };
        let (of_sums, second) = (of_sums.repeat(together), description.second.as_ref());
        let second = second.map(|second| second.repeat(together));
        let (output, addition) = (output.as_deref(), addition.as_ref());
        let epilogue = Epilogue::new(&of_sums, *activation, second.as_deref(), output, addition);
        Ok(QuantizedConvolution {
            spec: spec.clone(),
            group: *group,
            widened_zeros: Arc::new(widened_zeros.collect()),
            zeros: zeros.into(),
            packed: packed.into(),
            epilogue: epilogue.into(),
            datum_type: if last.is_some() { DatumType::U8 } else { DatumType::F32 },
            text: format!("{spec:?}, group: {group}, {activation:?}, {plus}{text}"),
        })
    }

    /// How many inputs it has.
    fn inputs(&self) -> RangeInclusive<usize> {
        let count = if self.epilogue.addition.is_some() { 2 } else { 1 };
        count..=count
    }

    /// Computes so many pixels of the output, from one on.
    fn fill(
        &self,
        codes: &[u8],
        window: &ChannelsLastWindow,
        first: usize,
        pixels: usize,
        mut output: OutputRows,
    ) {
        match &*self.packed {
            QuantizedFilters::Depthwise(kernels) => {
                let together = kernels.together;
                let mut begin = 0;
                while begin < pixels {
                    let most =
                        if together == 1 { MOST_ROWS } else { window.line(first + begin)[2] };
                    let count = most.min(pixels - begin);
                    let mut task = DepthwiseTask {
                        codes,
                        padding: &self.zeros,
                        window,
                        first: first + begin,
                        pixels: count,
                        kernels,
                        epilogue: &self.epilogue,
                        output: output.skip_rows(begin).with_rows_joined(together),
                    };
                    task.multiply();
                    begin += count;
                }
            }
            QuantizedFilters::Products { groups, gathering, .. } => {
                let mut buffers = Buffers::default();
                for begin in (0..pixels).step_by(groups[0].most_rows()) {
                    let end = pixels.min(begin + groups[0].most_rows());
                    let pixels = first + begin..first + end;
                    let im2row =
                        self.im2row(codes, window, pixels, &groups[0], *gathering, &mut buffers);
                    for (group, filters) in groups.iter().enumerate() {
                        let output = output.skip_rows(begin);
                        self.multiply(&im2row, group, filters, 0..filters.panels(), output);
                    }
                }
            }
        }
    }

    /// The codes that some pixels of the output are made of, as rows of operand A.
    fn im2row<'t>(
        &'t self,
        codes: &'t [u8],
        window: &ChannelsLastWindow,
        pixels: Range<usize>,
        filters: &PackedFilters,
        gathering: Gathering,
        buffers: &'t mut Buffers,
    ) -> Im2rowCodes<'t> {
        let inputs = self.spec.input_channels / self.group;
        let (of_a_tap, count) = (window.row * inputs, pixels.len());
        let gathers = match gathering {
            Gathering::Never => false,
            Gathering::Always => true,
            Gathering::OfNarrowImages => self.is_narrow(window),
        };
        let (codes, addresses, of_a_tap) = if gathers {
            let starts = window.starts(pixels);
            let taps = window.taps();
            let patches = &mut buffers.patches;
            let addresses = gather(codes, &starts, taps, of_a_tap, &self.zeros, filters, patches);
            (&**patches, addresses, taps / filters.taps * of_a_tap)
        } else {
            (codes, window.rows(pixels, filters.instructions.has_tiles()), of_a_tap)
        };
        if !filters.are_widened() {
            return Im2rowCodes { codes, padding: &self.zeros, addresses, pixels: count, of_a_tap };
        }
        // Channels of other groups follow a tap.
        let others = (self.group - 1) * inputs;
        let reach = (of_a_tap + others).next_multiple_of(4);
        let (first, end) = match addresses.range() {
            Some([first, last]) => (first, codes.len().min(last + reach)),
            None => (0, 0),
        };
        let wide = &mut buffers.wide;
        wide.clear();
        wide.extend(codes[first..end].iter().map(|code| i16::from(*code)));
        let (codes, padding) = (cast_slice(wide), &self.widened_zeros[..]);
        let addresses = addresses.of_widened(first);
        Im2rowCodes { codes, padding, addresses, pixels: count, of_a_tap }
    }

    /// Whether gathering the taps of pixels costs less than multiplying the rows between pixels.
    fn is_narrow(&self, window: &ChannelsLastWindow) -> bool {
        let waste = window.rows_per_pixel() - 1.;
        waste * self.spec.output_channels as f32 > GATHERING
    }

    /// Computes some panels of a group, for some pixels.
    fn multiply(
        &self,
        im2row: &Im2rowCodes,
        group: usize,
        filters: &PackedFilters,
        panels: Range<usize>,
        output: OutputRows,
    ) {
        let bytes = if filters.are_widened() { 2 } else { 1 };
        let before = group * self.spec.input_channels / self.group * bytes;
        instructions::multiply(&mut QuantizedGemmTask {
            // There are none if all taps are in the padding.
            codes: im2row.codes.get(before..).unwrap_or(&[]),
            padding: im2row.padding,
            addresses: &im2row.addresses,
            rows: im2row.pixels,
            filters,
            panels,
            steps: filters.steps_of(im2row.of_a_tap),
            epilogue: &self.epilogue,
            first_channel: group * self.spec.output_channels / self.group,
            output,
        });
    }

    fn run(
        &self,
        codes: &[u8],
        residual: &[u8],
        window: &ChannelsLastWindow,
        shape: &[usize],
    ) -> TractResult<Tensor> {
        let (pixels, channels) = (window.pixels(), self.spec.output_channels);
        let depth = window.row * window.taps() * self.spec.input_channels / self.group;
        let (size, are_floats) = (self.datum_type.size_of(), self.datum_type == DatumType::F32);
        let residual = |row: usize| residual.get(row * channels..).unwrap_or(&[]);
        filled_output_dt("QuantizedConvolution", self.datum_type, shape, |bytes: &mut [u8]| {
            let weights = channels * depth;
            let products = (bytes.len() / size).saturating_mul(depth);
            let work = match &*self.packed {
                QuantizedFilters::Products { .. } => {
                    let of_products = cost::PRODUCT_OF_CODES.of(products);
                    of_products.saturating_add(cost::READ_WEIGHT.of(weights))
                }
                QuantizedFilters::Depthwise(_) => cost::PRODUCT_OF_CHANNELS.of(products),
            };
            let division = Division::of(work);
            let mut rows = 1;
            if let QuantizedFilters::Products { groups, gathering, .. } = &*self.packed {
                // Where there are more weights than data, threads share the channels: each reads all data, and a part of the weights.
                if self.group == 1
                    && channels >= pixels
                    && (pixels == 1 || weights >= MANY_WEIGHTS)
                    && division.threads() > 1
                {
                    let (filters, width) = (&groups[0], groups[0].panel_width());
                    let mut buffers = Buffers::default();
                    let im2row =
                        self.im2row(codes, window, 0..pixels, filters, *gathering, &mut buffers);
                    let shares = Shares::of_columns(&division, [pixels, channels], width, 1);
                    let (of_row, place) = (channels * size, |column| column * size);
                    return shares.for_each_placed(bytes, of_row, place, |share, rows| {
                        let Share { columns, .. } = share;
                        let panels = columns.start / width..columns.end.div_ceil(width);
                        let (residual, first_channel, stride) =
                            (residual(0), columns.start, channels);
                        let output =
                            OutputRows { rows, are_floats, first_channel, residual, stride };
                        self.multiply(&im2row, 0, filters, panels, output);
                        Ok(())
                    });
                }
                rows = groups[0].row_grain(pixels, division.threads());
            }
            let of_row = channels * size;
            division.fill_rows(bytes, rows * of_row, |first, bytes| {
                let pixels = bytes.len() / of_row;
                let (rows, first) = (Output::matrix(bytes, of_row), first * rows);
                let (residual, first_channel, stride) = (residual(first), 0, channels);
                let output = OutputRows { rows, are_floats, first_channel, residual, stride };
                self.fill(codes, window, first, pixels, output);
                Ok(())
            })
        })
    }
}

/// What a thread copies codes to.
#[derive(Default)]
struct Buffers {
    patches: Aligned<u8>,
    wide: Vec<i16>,
}

/// The im2row matrix of some pixels, each a row: codes, and the addresses of its taps in them, each tap of so many codes.
struct Im2rowCodes<'a> {
    codes: &'a [u8],
    /// The zero points of the channels.
    padding: &'a [u8],
    addresses: Im2rowAddresses,
    pixels: usize,
    of_a_tap: usize,
}

/// So many codes are copied at once.
const BLOCK: usize = 16;

/// Copies some codes, in blocks: what lies behind them is written, too.
fn copy_blocks(from: &[u8], count: usize, to: &mut [u8]) {
    if count > 4 * BLOCK {
        to[..count].copy_from_slice(&from[..count]);
        return;
    }
    for begin in (0..count).step_by(BLOCK) {
        let from = &from[begin..];
        match from.first_chunk::<BLOCK>() {
            Some(block) => to[begin..][..BLOCK].copy_from_slice(block),
            None => to[begin..][..from.len()].copy_from_slice(from),
        }
    }
}

/// Copies the taps of some pixels behind each other: as many as the filters have, each with what fills it up. `starts` are
/// where so many taps of each pixel begin, of so many codes; `zeros` are the zero points, for padding.
fn gather(
    codes: &[u8],
    starts: &[usize],
    taps: usize,
    of_a_tap: usize,
    zeros: &[u8],
    filters: &PackedFilters,
    patches: &mut Aligned<u8>,
) -> Im2rowAddresses {
    let (pixels, distance) = (starts.len() / taps, filters.codes_of_a_tap());
    let of_a_filter = taps / filters.taps;
    patches.resize(0, pixels * filters.taps * distance + 2 * BLOCK);
    for (number, starts) in starts.chunks_exact(of_a_filter).enumerate() {
        let mut place = number * distance;
        // Those that follow each other in the image are copied at once.
        for run in starts.chunk_by(|one, next| *one != PADDING && *next == one + of_a_tap) {
            let count = run.len() * of_a_tap;
            let from = if run[0] == PADDING { zeros } else { &codes[run[0]..] };
            copy_blocks(from, count, &mut patches[place..]);
            place += count;
        }
    }
    let taps = (0..filters.taps).map(|tap| tap * distance).collect();
    Im2rowAddresses::of_one_line(0, pixels, filters.taps * distance, taps)
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
        let input = &inputs[0];
        let codes = input.try_as_plain_ram()?.as_slice::<u8>()?;
        let (mut window, shape) =
            ChannelsLastWindow::new("QuantizedConvolution", &self.spec, input.shape())?;
        let others = inputs.get(1).map(|others| {
            ensure!(
                *others.shape() == *shape,
                "QuantizedConvolution: the codes that are added have shape {:?}, but must have that of the output, {shape:?}",
                others.shape()
            );
            others.try_as_plain_ram()
        });
        let others = others.transpose()?;
        let others = others.as_ref().map_or(Ok(&[][..]), |others| others.as_slice::<u8>())?;
        let (padded, padded_codes);
        let codes = match &*self.packed {
            QuantizedFilters::Products { reading: Reading::Copied, .. } => {
                let mut copied = Vec::with_capacity(codes.len() + 4);
                copied.extend_from_slice(codes);
                copied.extend([0; 4]);
                Cow::Owned(copied)
            }
            QuantizedFilters::Products { reading: Reading::Padded, .. } => {
                let zero = self.zeros.first().context("the data has no channels")?;
                padded = window.pad(codes, *zero)?;
                padded_codes = padded.try_as_plain_ram()?;
                Cow::Borrowed(padded_codes.as_slice::<u8>()?)
            }
            _ => Cow::Borrowed(codes),
        };
        self.run(&codes, others, &window, &shape)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count("QuantizedConvolution", inputs.len(), self.inputs())?;
        if let Some(others) = inputs.get(1) {
            ensure!(
                others.datum_type == DatumType::U8,
                "QuantizedConvolution: the codes that are added are {others:?}, but must be of type U8"
            );
        }
        let shape = output_shape("QuantizedConvolution", &self.spec, inputs[0])?;
        Ok(self.datum_type.fact(shape))
    }
}
