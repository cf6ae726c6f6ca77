//! Convolutions of any type of elements, with the channels last: which addresses meet which weights, and what each thread computes.

use std::borrow::Cow;
use std::ops::Range;

use pulp::bytemuck::cast_slice;
use tract_core::internal::*;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec};

use super::output::{OutputRows, Residual};
use super::product::{
    ConvolutionElement, DepthwiseRows, FilterFormat, GemmTask, MANY_WEIGHTS, PackedFilters,
    UnpackedFilters,
};
use super::rows::{Im2rowAddresses, PADDING, TapSlices};
use super::window::ChannelsLastWindow;
use crate::cost;
use crate::memory::{Aligned, filled_output_dt};
use crate::product::{Output, Shares};
use crate::threads::{Division, PartSize};

/// A convolution, whose data is `[any axes, spatial axes, channels]`. A second input may have elements of the shape of the output, which
/// are added.
#[derive(Debug, PartialEq)]
pub(crate) struct Convolution<E: ConvolutionElement> {
    pub spec: PoolSpec,
    pub group: usize,
    pub filters: ConvolutionFilters<E>,
    /// The bytes of each channel where data is padded, and some more behind them.
    pub padding: Vec<u8>,
    /// The same in two bytes each, for codes that are widened.
    pub widened_padding: Vec<u8>,
    pub epilogue: E::Epilogue,
    /// The type of the output.
    pub datum_type: DatumType,
}

/// The weights, for how the convolution is computed.
#[derive(Debug, PartialEq)]
pub(crate) enum ConvolutionFilters<E: ConvolutionElement> {
    Products(ProductFilters),
    /// Each output channel is made of one channel of the data, or of the few ones of a group.
    Depthwise(E::Depthwise),
}

/// Weights of products.
#[derive(Debug, PartialEq)]
pub(crate) struct ProductFilters {
    /// Of each group, an operand of a GEMM.
    groups: Vec<PackedFilters>,
    reading: Reading,
    gathering: Gathering,
}

/// How the elements of an image are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Where they are: taps have whole steps.
    InPlace,
    /// From a copy with some bytes behind them.
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

/// With fewer bytes of a pixel, reading the rows of a kernel as one tap pays.
const FEW_BYTES_OF_PIXEL: usize = 32;

/// Gathering a tap takes as long as multiplying it for so many output channels, with tiles.
const GATHERING: f32 = 48.;

/// Whether there is padding, if that is known.
pub(crate) fn is_padded(spec: &PoolSpec) -> Option<bool> {
    match &spec.padding {
        PaddingSpec::Valid => Some(false),
        PaddingSpec::Explicit(begin, end) => Some(begin.iter().chain(end).any(|pad| *pad > 0)),
        _ => None,
    }
}

/// A convolution that is to be packed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackedConvolution<'a> {
    pub spec: &'a PoolSpec,
    pub group: usize,
    /// `[output channels, input channels of a group, kernel]`, as bytes.
    pub weights: &'a [i8],
    /// The bytes of an element.
    pub size: usize,
    /// Whether data may be padded: with the same in all channels.
    pub takes_padding: bool,
    /// Whether a matrix unit multiplies it.
    pub for_amx: bool,
}

impl UnpackedConvolution<'_> {
    /// The bytes of a pixel that a group meets.
    fn of_pixel(&self) -> usize {
        self.spec.input_channels / self.group * self.size
    }

    fn reading(&self) -> Reading {
        let rank = self.spec.rank();
        let is_row = rank > 0
            && self.group == 1
            && self.spec.kernel_shape[rank - 1] > 1
            && self.spec.dilation(rank - 1) == 1
            && self.takes_padding;
        match self.of_pixel().is_multiple_of(4) {
            _ if is_row && (self.of_pixel() < FEW_BYTES_OF_PIXEL || self.for_amx) => {
                Reading::Padded
            }
            true => Reading::InPlace,
            false => Reading::Copied,
        }
    }

    fn gathering(&self) -> Gathering {
        let kernel = &self.spec.kernel_shape;
        let has_padded_copy = self.reading() == Reading::Padded;
        let is_padded = is_padded(self.spec) != Some(false);
        let is_one_line = kernel.iter().all(|taps| *taps == 1)
            && self.spec.strides().iter().all(|stride| *stride == 1)
            && !is_padded;
        match has_padded_copy || !is_padded {
            _ if !self.for_amx || self.group > 1 || is_one_line => Gathering::Never,
            true => Gathering::OfNarrowImages,
            false => Gathering::Always,
        }
    }

    /// Packs the weights, in the format that they need as they will be ordered. `first_sums` are those of all output channels.
    pub fn pack(
        &self,
        first_sums: &[i32],
        format: impl FnOnce(UnpackedFilters) -> FilterFormat,
    ) -> ProductFilters {
        let UnpackedConvolution { spec, group, weights, size, .. } = *self;
        let outputs = spec.output_channels / group;
        let kernel: usize = spec.kernel_shape.iter().product();
        let (reading, gathering) = (self.reading(), self.gathering());
        let row = match reading {
            _ if gathering == Gathering::Always => kernel,
            Reading::Padded => spec.kernel_shape[spec.rank() - 1],
            _ => 1,
        };
        let of_filter = self.of_pixel() * kernel;
        // All channels of a pixel are neighbours.
        let ordered = match kernel {
            1 => Cow::Borrowed(weights),
            _ => {
                let mut ordered = vec![0; weights.len()];
                let filters =
                    ordered.chunks_exact_mut(of_filter).zip(weights.chunks_exact(of_filter));
                for (ordered, filter) in filters {
                    for (channel, elements) in filter.chunks_exact(kernel * size).enumerate() {
                        for (pixel, element) in elements.chunks_exact(size).enumerate() {
                            let place = pixel * self.of_pixel() + channel * size;
                            ordered[place..][..size].copy_from_slice(element);
                        }
                    }
                }
                Cow::Owned(ordered)
            }
        };
        let (taps, bytes_of_tap) = (kernel / row, row * self.of_pixel());
        let all = UnpackedFilters { bytes: &ordered, taps, bytes_of_tap };
        let format = format(all);
        let groups = ordered.chunks_exact(outputs * of_filter);
        let groups = groups.zip(first_sums.chunks_exact(outputs)).map(|(bytes, first_sums)| {
            PackedFilters::pack(UnpackedFilters { bytes, ..all }, format, first_sums.to_vec())
        });
        ProductFilters { groups: groups.collect(), reading, gathering }
    }
}

impl<E: ConvolutionElement> Convolution<E> {
    /// The output.
    ///
    /// # Errors
    ///
    /// Inputs of other types or shapes, and an output that is too large.
    pub fn eval(&self, operator: &str, mut inputs: TVec<TValue>) -> TractResult<Tensor> {
        let (mut window, shape) =
            ChannelsLastWindow::new(operator, &self.spec, inputs[0].shape(), size_of::<E::Data>())?;
        if let Some(residual) = inputs.get(1) {
            ensure!(
                *residual.shape() == *shape,
                "{operator}: what is added has shape {:?}, but must have that of the output, {shape:?}",
                residual.shape()
            );
        }
        // The residual becomes the output, if nobody else has it, and each sum is computed once.
        let is_own = |residual: &TValue| {
            residual.is_exclusive()
                && [E::Data::datum_type(), residual.datum_type(), self.datum_type]
                    == [DatumType::F32; 3]
                && matches!(self.filters, ConvolutionFilters::Products(_))
        };
        let own = match inputs.get(1).is_some_and(is_own) {
            true => inputs.pop().map(IntoTensor::into_tensor),
            false => None,
        };
        let data = inputs[0].try_as_plain_ram()?;
        let bytes = cast_slice(data.as_slice::<E::Data>()?);
        let others = inputs.get(1).map(|residual| residual.try_as_plain_ram()).transpose()?;
        let others = others.as_ref().map_or(Ok(&[][..]), |it| it.as_slice::<E::Data>())?;
        let (copied, copied_bytes);
        let bytes = match &self.filters {
            ConvolutionFilters::Depthwise(kernels) => {
                let data = data.as_slice::<E::Data>()?;
                copied = E::arranged(operator, kernels, data, self.spec.input_channels)?;
                copied_bytes = copied.as_ref().map(Tensor::try_as_plain_ram).transpose()?;
                Cow::Borrowed(match &copied_bytes {
                    // As elements: no bytes would be anywhere.
                    Some(copied) => cast_slice(copied.as_slice::<E::Data>()?),
                    None => bytes,
                })
            }
            ConvolutionFilters::Products(ProductFilters { reading: Reading::Copied, .. }) => {
                let mut copied = Vec::with_capacity(bytes.len() + 4);
                copied.extend_from_slice(bytes);
                copied.extend([0; 4]);
                Cow::Owned(copied)
            }
            ConvolutionFilters::Products(ProductFilters { reading: Reading::Padded, .. }) => {
                let zero = self.padding.first().context("the data has no channels")?;
                copied = Some(window.pad(operator, bytes, *zero)?);
                copied_bytes = copied.as_ref().map(Tensor::try_as_plain_ram).transpose()?;
                Cow::Borrowed(copied_bytes.as_ref().map_or(bytes, |copied| copied.as_bytes()))
            }
            ConvolutionFilters::Products(_) => Cow::Borrowed(bytes),
        };
        let fill = |residual, output: &mut [u8]| self.run(&bytes, residual, &window, output);
        match own {
            Some(mut output) => {
                if output.len() > 0 {
                    fill(Residual::Output, output.try_as_plain_ram_mut()?.as_bytes_mut())?;
                }
                Ok(output)
            }
            None => filled_output_dt(operator, self.datum_type, &shape, |output: &mut [u8]| {
                fill(Residual::Elements(cast_slice(others)), output)
            }),
        }
    }

    /// Computes so many pixels of the output, from one on.
    fn fill(
        &self,
        bytes: &[u8],
        window: &ChannelsLastWindow,
        first: usize,
        pixels: usize,
        mut output: OutputRows,
    ) {
        match &self.filters {
            ConvolutionFilters::Depthwise(kernels) => E::depthwise(
                kernels,
                DepthwiseRows {
                    bytes,
                    padding: &self.padding,
                    window,
                    first,
                    pixels,
                    epilogue: &self.epilogue,
                    output,
                },
            ),
            ConvolutionFilters::Products(filters) => {
                let mut buffers = Buffers::default();
                let most = filters.groups[0].rows_of_task(pixels);
                for begin in (0..pixels).step_by(most) {
                    let end = pixels.min(begin + most);
                    let pixels = first + begin..first + end;
                    let im2row = self.im2row(bytes, window, pixels, filters, &mut buffers);
                    for (group, packed) in filters.groups.iter().enumerate() {
                        let output = output.skip_rows(begin);
                        self.multiply(&im2row, group, packed, 0..packed.panels(), output);
                    }
                }
            }
        }
    }

    /// What some pixels of the output are made of, as rows of operand A.
    fn im2row<'t>(
        &'t self,
        bytes: &'t [u8],
        window: &ChannelsLastWindow,
        pixels: Range<usize>,
        filters: &ProductFilters,
        buffers: &'t mut Buffers,
    ) -> Im2rowBytes<'t> {
        let ProductFilters { groups, gathering, .. } = filters;
        let packed = &groups[0];
        let of_pixel = self.bytes_of_group();
        let (bytes_of_tap, count) = (window.row * of_pixel, pixels.len());
        let gathers = match gathering {
            Gathering::Never => false,
            Gathering::Always => true,
            Gathering::OfNarrowImages => self.is_narrow(window),
        };
        let (bytes, addresses, bytes_of_tap) = if gathers {
            let starts = window.starts(pixels);
            let taps = window.taps();
            let patches = &mut buffers.patches;
            let addresses =
                gather(bytes, &starts, taps, bytes_of_tap, &self.padding, packed, patches);
            (&**patches, addresses, taps / packed.taps * bytes_of_tap)
        } else {
            (bytes, window.rows(pixels, packed.for_amx()), bytes_of_tap)
        };
        // Channels of other groups follow a tap.
        let others = (self.group - 1) * of_pixel;
        let of_tap = 4 * packed.steps_of(bytes_of_tap);
        if !packed.needs_wide_data() {
            let length = others + of_tap;
            // A matrix unit reads lines by their addresses.
            let tap_slices = match packed.for_amx() && addresses.lines_for_amx().is_some() {
                true => TapSlices::new(0),
                false => addresses.tap_slices(|start| &bytes[start..], 1, &self.padding, length),
            };
            return Im2rowBytes { bytes, addresses, tap_slices, pixels: count, bytes_of_tap };
        }
        let reach = others + bytes_of_tap.next_multiple_of(2);
        let (first, end) = match addresses.range() {
            Some([first, last]) => (first, bytes.len().min(last + reach)),
            None => (0, 0),
        };
        let wide = &mut buffers.wide;
        wide.clear();
        wide.extend(bytes[first..end].iter().map(|code| i16::from(*code)));
        let (bytes, padding): (&[u8], _) = (cast_slice(wide), &self.widened_padding[..]);
        let at = |start| &bytes[2 * (start - first)..];
        let tap_slices = addresses.tap_slices(at, 2, padding, 2 * others + of_tap);
        Im2rowBytes { bytes, addresses, tap_slices, pixels: count, bytes_of_tap }
    }

    /// The bytes of a pixel that a group meets.
    fn bytes_of_group(&self) -> usize {
        self.spec.input_channels / self.group * size_of::<E::Data>()
    }

    /// Whether gathering the taps of pixels costs less than multiplying the rows between pixels.
    fn is_narrow(&self, window: &ChannelsLastWindow) -> bool {
        let waste = window.rows_per_pixel() - 1.;
        waste * self.spec.output_channels as f32 > GATHERING
    }

    /// Computes some panels of a group, for some pixels.
    fn multiply(
        &self,
        im2row: &Im2rowBytes,
        group: usize,
        filters: &PackedFilters,
        panels: Range<usize>,
        output: OutputRows,
    ) {
        let times = if filters.needs_wide_data() { 2 } else { 1 };
        let before = group * self.bytes_of_group() * times;
        E::multiply(&mut GemmTask {
            // There are none if all taps are in the padding.
            bytes: im2row.bytes.get(before..).unwrap_or(&[]),
            addresses: &im2row.addresses,
            tap_slices: &im2row.tap_slices,
            before,
            rows: im2row.pixels,
            filters,
            panels,
            steps: filters.steps_of(im2row.bytes_of_tap),
            epilogue: &self.epilogue,
            first_channel: group * self.spec.output_channels / self.group,
            output,
        });
    }

    fn run(
        &self,
        bytes: &[u8],
        residual: Residual,
        window: &ChannelsLastWindow,
        output: &mut [u8],
    ) -> TractResult<()> {
        let (pixels, channels) = (window.pixels(), self.spec.output_channels);
        let weights = window.row * window.taps() * self.bytes_of_group() * channels;
        let size = self.datum_type.size_of();
        let stride = channels * size_of::<E::Data>();
        let residual = |row: usize| residual.skip(row * stride);
        let products = pixels.saturating_mul(weights / size_of::<E::Data>());
        let work = match &self.filters {
            ConvolutionFilters::Products(_) => {
                E::PRODUCT.of(products).saturating_add(cost::READ_WEIGHT.of(weights))
            }
            ConvolutionFilters::Depthwise(_) if self.bytes_of_group() > size_of::<E::Data>() => {
                E::PRODUCT.of(products)
            }
            ConvolutionFilters::Depthwise(_) => cost::PRODUCT_OF_CHANNELS.of(products),
        };
        let division = Division::of(work);
        let (pixels_of_row, part_size) = if let ConvolutionFilters::Products(filters) =
            &self.filters
        {
            let groups = &filters.groups;
            // Where there are more weights than data, threads share the channels: each reads all data, and a part of the weights.
            if self.group == 1
                && channels >= pixels
                && (pixels == 1 || weights >= MANY_WEIGHTS)
                && division.threads() > 1
            {
                let packed = &groups[0];
                let mut buffers = Buffers::default();
                let im2row = self.im2row(bytes, window, 0..pixels, filters, &mut buffers);
                let shares = [pixels, packed.panels()];
                let shares = Shares::of_columns(&division, shares, 1, 1);
                let channels_before = |panel| packed.channels_of(0..panel).end;
                let place = |panel| channels_before(panel) * size;
                return shares.for_each_placed(output, channels * size, place, |share, rows| {
                    let panels = share.columns;
                    let (residual, first_channel) = (residual(0), channels_before(panels.start));
                    let output = OutputRows { rows, size, first_channel, residual, stride };
                    self.multiply(&im2row, 0, packed, panels, output);
                    Ok(())
                });
            }
            (1, groups[0].part_size())
        } else {
            lines_of_parts(window, division.threads())
        };
        let of_row = channels * size;
        division.fill_parts(output, pixels_of_row * of_row, part_size, |first, output| {
            let pixels = output.len() / of_row;
            let (rows, first) = (Output::matrix(output, of_row), first * pixels_of_row);
            let (residual, first_channel) = (residual(first), 0);
            let output = OutputRows { rows, size, first_channel, residual, stride };
            self.fill(bytes, window, first, pixels, output);
            Ok(())
        })
    }
}

/// What threads share of a depthwise convolution: so many pixels, in parts of so many times as many. Whole lines, if there are enough, as
/// tiles do not go on in the next line: up to four parts for each thread.
fn lines_of_parts(window: &ChannelsLastWindow, threads: usize) -> (usize, PartSize) {
    let line = window.per_image.output[2].max(1);
    let lines = window.pixels() / line;
    match lines < threads {
        true => (1, PartSize::ANY),
        false => (line, PartSize { least: lines.div_ceil(4 * threads), multiple: 1 }),
    }
}

/// What a thread copies elements to.
#[derive(Default)]
struct Buffers {
    patches: Aligned<u8>,
    wide: Vec<i16>,
}

/// The im2row matrix of some pixels, each a row.
struct Im2rowBytes<'a> {
    /// What a matrix unit reads: bytes, and where the taps are in them. Other instructions read `tap_slices`.
    bytes: &'a [u8],
    addresses: Im2rowAddresses,
    /// What each tap of each row meets ([`Im2rowAddresses::tap_slices`]), if no matrix unit reads it by the addresses.
    tap_slices: TapSlices<'a>,
    pixels: usize,
    /// The bytes of a tap.
    bytes_of_tap: usize,
}

/// So many bytes are copied at once.
const BLOCK: usize = 16;

/// Copies some bytes, in blocks: what lies behind them is written, too.
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
/// where so many taps of each pixel begin, of so many bytes; `zeros` is what padding has.
fn gather(
    bytes: &[u8],
    starts: &[usize],
    taps: usize,
    bytes_of_tap: usize,
    zeros: &[u8],
    filters: &PackedFilters,
    patches: &mut Aligned<u8>,
) -> Im2rowAddresses {
    let (pixels, distance) = (starts.len() / taps, filters.padded_bytes_of_tap());
    let of_a_filter = taps / filters.taps;
    patches.resize(0, pixels * filters.taps * distance + 2 * BLOCK);
    for (number, starts) in starts.chunks_exact(of_a_filter).enumerate() {
        let mut place = number * distance;
        // Those that follow each other in the image are copied at once.
        for run in starts.chunk_by(|one, next| *one != PADDING && *next == one + bytes_of_tap) {
            let count = run.len() * bytes_of_tap;
            let from = if run[0] == PADDING { zeros } else { &bytes[run[0]..] };
            copy_blocks(from, count, &mut patches[place..]);
            place += count;
        }
    }
    let tap_offsets = (0..filters.taps).map(|tap| tap * distance).collect();
    Im2rowAddresses::of_one_line(0, pixels, filters.taps * distance, tap_offsets)
}
