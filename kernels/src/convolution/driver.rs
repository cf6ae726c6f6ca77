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
use super::window::{ChannelsLastWindow, PartialTap, PixelCopy, ROWS_OF_BLOCK};
use crate::bf16::{BF16, converts_bf16};
use crate::cost;
use crate::memory::{Scratch, elements, filled_output_dt};
use crate::product::{Output, Shares};
use crate::threads::{Division, PartSize};

/// A convolution, whose data is `[any axes, spatial axes, channels]`. A second input may have elements of the shape of the output, which
/// are added.
#[derive(Debug, PartialEq)]
pub(crate) struct Convolution<E: ConvolutionElement> {
    pub spec: PoolSpec,
    pub group: usize,
    pub filters: ConvolutionFilters<E>,
    /// The bytes of a pixel, of all channels, and what fills it up.
    pub bytes_of_pixel: usize,
    /// What a tap has where data is padded, of all channels, and some more bytes behind it.
    pub padding: Vec<u8>,
    /// The same in two bytes each, for codes that are widened.
    pub widened_padding: Vec<u8>,
    pub epilogue: E::Epilogue,
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
    /// All of the kernel, where they are always gathered.
    pixels_of_tap: usize,
    reading: Reading,
    gathering: Gathering,
}

impl<E: ConvolutionElement> ConvolutionFilters<E> {
    /// The pixels of a tap: padding must have so many.
    pub fn pixels_of_tap(&self) -> usize {
        match self {
            ConvolutionFilters::Products(filters) => filters.pixels_of_tap,
            ConvolutionFilters::Depthwise(_) => 1,
        }
    }
}

/// How the elements of an image are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Where they are: taps have whole steps. Those of a row of the kernel are one tap, if they are neighbours and short.
    InPlace,
    /// From a copy with some bytes behind them.
    Copied,
    /// From a copy with padding around the image. The taps of a row of the kernel are one tap.
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

/// With more bytes of a pixel, reading the rows of a kernel as one tap does not pay: taps that are in the padding in part must be copied.
const MANY_BYTES_OF_PIXEL: usize = 128;

/// Longer taps are not joined where they are: of each pixel at the border of an image, one would be copied.
const MOST_BYTES_OF_TAP: usize = if cfg!(test) { 1 << 7 } else { 1 << 12 };

/// About how many bytes copied lines have, so that they stay in the second-level cache.
const BYTES_OF_LINES: usize = if cfg!(test) { 1 << 10 } else { 512 << 10 };

/// If lines were copied more often than that, as those of wide kernels, all images are copied before.
const MOST_TIMES_COPIED: f32 = 2.;

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

/// How far the kernel reaches along an axis, if padding is no more than that.
pub(super) fn reach_if_padded(spec: &PoolSpec, axis: usize) -> Option<usize> {
    let reach = (spec.kernel_shape[axis] - 1).checked_mul(spec.dilation(axis))?.checked_add(1)?;
    let pads = match &spec.padding {
        PaddingSpec::Explicit(begin, end) | PaddingSpec::ExplicitOnnxPool(begin, end, _) => {
            begin[axis].max(end[axis])
        }
        PaddingSpec::Valid | PaddingSpec::SameUpper | PaddingSpec::SameLower => 0,
    };
    (pads <= reach).then_some(reach)
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
    /// The bytes of a pixel that a group meets, and what fills it up.
    pub bytes_of_pixel: usize,
    /// Whether data may be padded: with the same in all channels.
    pub takes_padding: bool,
    /// Whether a matrix unit multiplies it.
    pub for_amx: bool,
}

impl UnpackedConvolution<'_> {
    /// How many pixels of a row of the kernel are neighbours.
    fn neighbours(&self) -> usize {
        match self.spec.rank().checked_sub(1) {
            Some(last) if self.group == 1 && self.spec.dilation(last) == 1 => {
                self.spec.kernel_shape[last]
            }
            _ => 1,
        }
    }

    fn reading(&self) -> Reading {
        let is_whole = self.bytes_of_pixel.is_multiple_of(4);
        let may_be_padded = self.neighbours() > 1
            && (self.for_amx || self.bytes_of_pixel <= MANY_BYTES_OF_PIXEL)
            && self.takes_padding
            && (0..self.spec.rank()).all(|axis| reach_if_padded(self.spec, axis).is_some());
        match is_whole {
            true if self.joins_in_place() => Reading::InPlace,
            _ if may_be_padded => Reading::Padded,
            true => Reading::InPlace,
            false => Reading::Copied,
        }
    }

    /// Whether the taps of a row of the kernel are read as one where they are.
    fn joins_in_place(&self) -> bool {
        let of_tap = self.neighbours() * self.bytes_of_pixel;
        !self.for_amx && self.bytes_of_pixel <= MANY_BYTES_OF_PIXEL && of_tap <= MOST_BYTES_OF_TAP
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

    /// How many pixels of a row of the kernel a tap has; or all of the kernel, where they are always gathered.
    pub fn pixels_of_tap(&self) -> usize {
        match self.reading() {
            _ if self.gathering() == Gathering::Always => self.spec.kernel_shape.iter().product(),
            Reading::Padded => self.neighbours(),
            Reading::InPlace if self.joins_in_place() => self.neighbours(),
            _ => 1,
        }
    }

    /// Packs the weights, in the format that they need as they will be ordered. `first_sums` are those of all output channels.
    pub fn pack(
        &self,
        first_sums: &[i32],
        format: impl FnOnce(UnpackedFilters) -> FilterFormat,
    ) -> ProductFilters {
        let UnpackedConvolution { spec, group, weights, size, bytes_of_pixel, .. } = *self;
        let outputs = spec.output_channels / group;
        let kernel: usize = spec.kernel_shape.iter().product();
        let (reading, gathering) = (self.reading(), self.gathering());
        let pixels_of_tap = self.pixels_of_tap();
        let channels = spec.input_channels / group;
        let all = UnpackedFilters {
            bytes: weights,
            size,
            channels,
            kernel,
            bytes_of_pixel,
            taps: kernel / pixels_of_tap,
        };
        let format = format(all);
        let groups = weights.chunks_exact(outputs * all.bytes_of_filter());
        let groups = groups.zip(first_sums.chunks_exact(outputs)).map(|(bytes, first_sums)| {
            PackedFilters::pack(UnpackedFilters { bytes, ..all }, format, first_sums.to_vec())
        });
        ProductFilters { groups: groups.collect(), pixels_of_tap, reading, gathering }
    }
}

impl<E: ConvolutionElement> Convolution<E> {
    /// The output, of a type that the epilogue has numbers of.
    ///
    /// # Errors
    ///
    /// Inputs of other types or shapes, and an output that is too large.
    pub fn eval(
        &self,
        operator: &str,
        mut inputs: TVec<TValue>,
        dt: DatumType,
    ) -> TractResult<Tensor> {
        let (mut window, shape) = ChannelsLastWindow::new(
            operator,
            &self.spec,
            inputs[0].shape(),
            Some(self.bytes_of_pixel),
        )?;
        if let Some(residual) = inputs.get(1) {
            ensure!(
                *residual.shape() == *shape,
                "{operator}: what is added has shape {:?}, but must have that of the output, {shape:?}",
                residual.shape()
            );
        }
        for (number, input) in inputs.iter().enumerate() {
            let dt = input.datum_type();
            ensure!(self.takes(dt), "{operator}: input {number} is of type {dt:?}");
        }
        // The residual becomes the output, if nobody else has it, and each sum is computed once.
        let is_own = |residual: &TValue| {
            residual.is_exclusive()
                && residual.datum_type() == dt
                // Codes are never written over.
                && dt != DatumType::U8
                && matches!(self.filters, ConvolutionFilters::Products(_))
        };
        let own = match inputs.get(1).is_some_and(is_own) {
            true => inputs.pop().map(IntoTensor::into_tensor),
            false => None,
        };
        let dt_of_data = inputs[0].datum_type();
        let copy = self.pixel_copy(dt_of_data);
        let bytes = elements(&inputs[0])?;
        let residual = match inputs.get(1) {
            Some(residual) => {
                let size = residual.datum_type().size_of();
                let stride = size * self.spec.output_channels;
                Residual::Elements { bytes: elements(residual)?, size, stride }
            }
            None => Residual::NONE,
        };
        // Decided once: how many threads are free may change.
        let division = self.division(&window);
        let copies = self.copies_of_task(&window, &division, copy);
        let size = dt_of_data.size_of();
        let (copied, copied_bytes);
        let bytes = match &self.filters {
            ConvolutionFilters::Depthwise(_) => Cow::Borrowed(bytes),
            ConvolutionFilters::Products(ProductFilters { reading: Reading::Copied, .. }) => {
                let mut copied = Vec::with_capacity(bytes.len() + 4);
                copied.extend_from_slice(bytes);
                copied.extend([0; 4]);
                Cow::Owned(copied)
            }
            ConvolutionFilters::Products(_) if copies != TaskCopies::Nothing => {
                Cow::Borrowed(bytes)
            }
            ConvolutionFilters::Products(filters) => {
                let is_padded = filters.reading == Reading::Padded;
                copied = if is_padded || copy.changes(self.bytes_of_pixel) {
                    let zero = self.padding.first().context("the data has no channels")?;
                    Some(window.copied(operator, bytes, copy, is_padded, *zero)?)
                } else {
                    None
                };
                if is_padded || filters.pixels_of_tap > 1 && filters.gathering == Gathering::Never {
                    window.join_taps();
                }
                copied_bytes = copied.as_ref().map(Tensor::try_as_plain_ram).transpose()?;
                Cow::Borrowed(copied_bytes.as_ref().map_or(bytes, |copied| copied.as_bytes()))
            }
        };
        let images = Images { bytes: &bytes, size, window: &window, copy, copies };
        let of_output = dt.size_of();
        let fill =
            |residual, output: &mut [u8]| self.run(&images, residual, &division, output, of_output);
        match own {
            Some(mut output) => {
                if output.len() > 0 {
                    fill(Residual::Output, output.try_as_plain_ram_mut()?.as_bytes_mut())?;
                }
                Ok(output)
            }
            None => {
                filled_output_dt(operator, dt, &shape, |output: &mut [u8]| fill(residual, output))
            }
        }
    }

    /// Computes some pixels of the output, task by task.
    fn fill_tasks(
        &self,
        images: &Images,
        pixels: Range<usize>,
        filters: &ProductFilters,
        mut output: OutputRows,
    ) {
        let mut buffers = Buffers::default();
        let most = filters.groups[0].rows_of_task(pixels.len());
        for begin in (0..pixels.len()).step_by(most) {
            let end = pixels.len().min(begin + most);
            let pixels = pixels.start + begin..pixels.start + end;
            let im2row = self.im2row(images, pixels, filters, &mut buffers);
            for (group, packed) in filters.groups.iter().enumerate() {
                let output = output.skip_rows(begin);
                self.multiply(&im2row, group, packed, 0..packed.panels(), output);
            }
        }
    }

    /// Computes some lines of the output, from one on. What some of them meet is copied at a time.
    fn fill_lines(
        &self,
        images: &Images,
        lines: Range<usize>,
        filters: &ProductFilters,
        mut output: OutputRows,
    ) {
        let Images { bytes, size, window, copy, .. } = *images;
        let zero = self.padding.first().copied().unwrap_or(0);
        let mut copied = Scratch::default();
        let mut line = lines.start;
        while line < lines.end {
            let count = window.lines_at_once(line, BYTES_OF_LINES).min(lines.end - line);
            let some = window.copied_lines(line, count, bytes, copy, zero, &mut copied);
            let first_row = (line - lines.start) * window.per_image.output[2];
            let output = output.skip_rows(first_row);
            let (bytes, copies) = (copied.bytes(), TaskCopies::Nothing);
            let images = Images { bytes, size, window: &some, copy, copies };
            self.fill_tasks(&images, 0..some.pixels(), filters, output);
            line += count;
        }
    }

    /// What some pixels of the output are made of, as rows of operand A.
    fn im2row<'t>(
        &'t self,
        images: &Images<'t>,
        pixels: Range<usize>,
        filters: &ProductFilters,
        buffers: &'t mut Buffers,
    ) -> Im2rowBytes<'t> {
        let Images { bytes, window, copy, copies, .. } = *images;
        let ProductFilters { groups, gathering, .. } = filters;
        let packed = &groups[0];
        let of_pixel = self.bytes_of_group();
        let (bytes_of_tap, count) = (window.pixels_of_tap * of_pixel, pixels.len());
        let gathers = match gathering {
            Gathering::Never => false,
            Gathering::Always => true,
            Gathering::OfNarrowImages => self.is_narrow(window),
        };
        let Buffers { partial, patches, wide } = buffers;
        partial.clear();
        let (bytes, borders, addresses, bytes_of_tap) = if copies == TaskCopies::Pixels {
            *patches = Scratch::of_bytes(count.next_multiple_of(ROWS_OF_BLOCK) * of_pixel);
            let pixel_of_data = copy.pixel_of_data();
            let mut places = patches.bytes_mut();
            // Those that follow each other are copied at once.
            for run in window.starts(pixels).chunk_by(|one, next| *next == one + of_pixel) {
                let place;
                (place, places) = places.split_at_mut(run.len() * of_pixel);
                let data = &bytes[run[0] / of_pixel * pixel_of_data..];
                copy.copy(&data[..run.len() * pixel_of_data], of_pixel, place);
            }
            let addresses = Im2rowAddresses::of_one_line(0, count, of_pixel, vec![0]);
            (patches.bytes(), &[][..], addresses, of_pixel)
        } else if gathers {
            let starts = window.starts(pixels);
            let taps = window.taps();
            let addresses =
                gather(bytes, &starts, taps, bytes_of_tap, &self.padding, packed, patches);
            (patches.bytes(), &[][..], addresses, taps / packed.taps * bytes_of_tap)
        } else {
            let addresses = window.rows(pixels, packed.for_amx(), partial);
            *patches = Scratch::of_bytes(partial.len() * bytes_of_tap);
            let places = patches.bytes_mut().chunks_exact_mut(bytes_of_tap);
            for (tap, patch) in partial.iter().zip(places) {
                patch.copy_from_slice(&self.padding[..bytes_of_tap]);
                patch[tap.before..][..tap.data.len()].copy_from_slice(&bytes[tap.data.clone()]);
            }
            (bytes, patches.bytes(), addresses, bytes_of_tap)
        };
        // Channels of other groups follow a tap.
        let others = (self.group - 1) * of_pixel;
        let of_tap = 4 * packed.steps_of(bytes_of_tap);
        // A matrix unit reads lines by their addresses.
        if packed.for_amx() && addresses.lines_for_amx(E::LEAST_ROWS_FOR_AMX).is_some() {
            let tap_slices = TapSlices::new(0);
            return Im2rowBytes { bytes, addresses, tap_slices, pixels: count, bytes_of_tap };
        }
        let at = |begin: usize, times: usize, images: &'t [u8], borders: &'t [u8]| {
            move |start: usize| match start.checked_sub(bytes.len()) {
                None => &images[times * (start - begin)..],
                Some(behind) => &borders[times * behind..],
            }
        };
        let tap_slices = if packed.needs_wide_data() {
            let reach = others + bytes_of_tap.next_multiple_of(2);
            let (begin, end) = match addresses.range(bytes.len()) {
                Some([first, last]) => (first, bytes.len().min(last + reach)),
                None => (0, 0),
            };
            wide.clear();
            wide.extend(bytes[begin..end].iter().chain(borders).map(|code| i16::from(*code)));
            let (images, borders) = wide.split_at(end - begin);
            let at = at(begin, 2, cast_slice(images), cast_slice(borders));
            addresses.tap_slices(at, 2, &self.widened_padding, 2 * others + of_tap)
        } else {
            addresses.tap_slices(at(0, 1, bytes, borders), 1, &self.padding, others + of_tap)
        };
        Im2rowBytes { bytes, addresses, tap_slices, pixels: count, bytes_of_tap }
    }

    /// What a task copies for itself.
    fn copies_of_task(
        &self,
        window: &ChannelsLastWindow,
        division: &Division,
        copy: PixelCopy,
    ) -> TaskCopies {
        let has_padding = matches!(
            &self.filters,
            ConvolutionFilters::Products(ProductFilters { reading: Reading::Padded, .. })
        );
        let copies_lines = has_padding
            && window.has_planes()
            && window.times_copied(BYTES_OF_LINES) <= MOST_TIMES_COPIED
            && !self.shares_channels(window, division)
            && window.pixels() >= division.threads() * window.per_image.output[2];
        let is_one_tap = self.spec.kernel_shape.iter().all(|taps| *taps == 1)
            && is_padded(&self.spec) == Some(false);
        match copy.changes(self.bytes_of_pixel) && is_one_tap {
            true => TaskCopies::Pixels,
            false if copies_lines => TaskCopies::Lines,
            false => TaskCopies::Nothing,
        }
    }

    /// How threads share the work.
    fn division(&self, window: &ChannelsLastWindow) -> Division {
        let weights = self.weights(window) / size_of::<E::Data>();
        let products = window.pixels().saturating_mul(weights);
        Division::of(match &self.filters {
            ConvolutionFilters::Products(_) => {
                E::PRODUCT.of(products).saturating_add(E::READ_WEIGHT.of(weights))
            }
            ConvolutionFilters::Depthwise(_) if self.bytes_of_group() > size_of::<E::Data>() => {
                E::PRODUCT.of(products)
            }
            ConvolutionFilters::Depthwise(_) => cost::PRODUCT_OF_CHANNELS.of(products),
        })
    }

    /// The bytes of all weights of a pixel.
    fn weights(&self, window: &ChannelsLastWindow) -> usize {
        let of_channel = window.pixels_of_tap * window.taps() * self.bytes_of_group();
        of_channel * self.spec.output_channels
    }

    /// Whether threads share the channels, as there are more weights than data: each reads all data, and a part of the weights.
    fn shares_channels(&self, window: &ChannelsLastWindow, division: &Division) -> bool {
        let pixels = window.pixels();
        self.group == 1
            && matches!(self.filters, ConvolutionFilters::Products(_))
            && self.spec.output_channels >= pixels
            && (pixels == 1 || self.weights(window) >= MANY_WEIGHTS)
            && division.threads() > 1
    }

    /// Whether inputs may be of this type.
    pub fn takes(&self, dt: DatumType) -> bool {
        let own = E::Data::datum_type();
        let is_depthwise = matches!(self.filters, ConvolutionFilters::Depthwise(_));
        dt == own
            || dt == DatumType::F32 && E::ROUND.is_some()
            || dt == BF16 && own == DatumType::F32 && is_depthwise && converts_bf16()
    }

    /// How pixels of data of a type are copied, as they are multiplied.
    fn pixel_copy(&self, dt: DatumType) -> PixelCopy {
        let round = E::ROUND.filter(|_| dt == DatumType::F32);
        PixelCopy { channels: self.spec.input_channels, size: size_of::<E::Data>(), round }
    }

    /// The bytes of a pixel that a group meets.
    fn bytes_of_group(&self) -> usize {
        self.bytes_of_pixel / self.group
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

    /// Computes the output, whose elements have so many bytes.
    fn run(
        &self,
        images: &Images,
        residual: Residual,
        division: &Division,
        output: &mut [u8],
        size: usize,
    ) -> TractResult<()> {
        let Images { bytes, window, copies, .. } = *images;
        let (pixels, channels) = (window.pixels(), self.spec.output_channels);
        let copies_lines = copies == TaskCopies::Lines;
        let (pixels_of_row, part_size) = match &self.filters {
            ConvolutionFilters::Products(filters) if self.shares_channels(window, division) => {
                let packed = &filters.groups[0];
                let mut buffers = Buffers::default();
                let im2row = self.im2row(images, 0..pixels, filters, &mut buffers);
                let shares = [pixels, packed.panels()];
                let shares = Shares::of_columns(division, shares, 1, 1);
                let channels_before = |panel| packed.channels_of(0..panel).end;
                let place = |panel| channels_before(panel) * size;
                return shares.for_each_placed(output, channels * size, place, |share, rows| {
                    let panels = share.columns;
                    let first_channel = channels_before(panels.start);
                    let output = OutputRows { rows, size, first_channel, residual };
                    self.multiply(&im2row, 0, packed, panels, output);
                    Ok(())
                });
            }
            ConvolutionFilters::Products(filters) => {
                let PartSize { least, multiple } = filters.groups[0].part_size();
                let line = window.per_image.output[2].max(1);
                match copies_lines {
                    true => (line, PartSize { least: least.div_ceil(line), multiple: 1 }),
                    false => (1, PartSize { least, multiple }),
                }
            }
            ConvolutionFilters::Depthwise(_) => lines_of_parts(window, division.threads()),
        };
        let of_row = channels * size;
        division.fill_parts(output, pixels_of_row * of_row, part_size, |first, output| {
            let pixels = output.len() / of_row;
            let (rows, first_pixel) = (Output::matrix(output, of_row), first * pixels_of_row);
            let residual = residual.skip_rows(first_pixel);
            let output = OutputRows { rows, size, first_channel: 0, residual };
            match &self.filters {
                ConvolutionFilters::Products(filters) if copies_lines => {
                    let lines = first..first + pixels / pixels_of_row;
                    self.fill_lines(images, lines, filters, output);
                }
                ConvolutionFilters::Products(filters) => {
                    let pixels = first_pixel..first_pixel + pixels;
                    self.fill_tasks(images, pixels, filters, output);
                }
                ConvolutionFilters::Depthwise(kernels) => {
                    let rows = DepthwiseRows {
                        bytes,
                        size: images.size,
                        channels: self.spec.input_channels,
                        padding: &self.padding,
                        window,
                        first: first_pixel,
                        pixels,
                        epilogue: &self.epilogue,
                        output,
                    };
                    E::depthwise(kernels, rows);
                }
            }
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

/// The data of a convolution.
#[derive(Clone, Copy)]
struct Images<'a> {
    bytes: &'a [u8],
    /// The bytes of an element.
    size: usize,
    window: &'a ChannelsLastWindow,
    copy: PixelCopy,
    copies: TaskCopies,
}

/// What a task copies of the data before it multiplies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskCopies {
    Nothing,
    /// Pixels that become other elements: each of the output is made of one of the data, which no other is made of.
    Pixels,
    /// Lines, with padding around them.
    Lines,
}

/// What a thread copies elements to.
#[derive(Default)]
struct Buffers {
    partial: Vec<PartialTap>,
    patches: Scratch,
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
    patches: &mut Scratch,
) -> Im2rowAddresses {
    let (pixels, distance) = (starts.len() / taps, filters.padded_bytes_of_tap());
    let of_a_filter = taps / filters.taps;
    *patches = Scratch::of_bytes(pixels * filters.taps * distance + 2 * BLOCK);
    let places = patches.bytes_mut();
    for (number, starts) in starts.chunks_exact(of_a_filter).enumerate() {
        let mut place = number * distance;
        // Those that follow each other in the image are copied at once.
        for run in starts.chunk_by(|one, next| *one != PADDING && *next == one + bytes_of_tap) {
            let count = run.len() * bytes_of_tap;
            let from = if run[0] == PADDING { zeros } else { &bytes[run[0]..] };
            copy_blocks(from, count, &mut places[place..]);
            place += count;
        }
    }
    let tap_offsets = (0..filters.taps).map(|tap| tap * distance).collect();
    Im2rowAddresses::of_one_line(0, pixels, filters.taps * distance, tap_offsets)
}
