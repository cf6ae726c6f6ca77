//! How a window moves over images with the channels last.

use std::ops::Range;

use pulp::bytemuck::cast_slice;
use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use super::rows::{Im2rowAddresses, PADDING, RunOfRows, StridedLines};
use crate::checks::volume;
use crate::cost;
use crate::memory::{Scratch, filled_output};
use crate::threads::fill_rows;
use crate::window::Window;

/// How a window moves over some images, which have the channels last.
#[derive(Debug, Clone)]
pub(crate) struct ChannelsLastWindow {
    images: usize,
    /// The bytes of a pixel.
    of_pixel: usize,
    /// How it moves over one of them.
    pub per_image: Window,
    /// How many pixels of a row of the kernel a tap has.
    pub pixels_of_tap: usize,
}

/// A tap of several pixels, of which some are in the padding: it must be copied.
#[derive(Debug, Clone)]
pub(crate) struct PartialTap {
    /// The bytes of padding before the data.
    pub before: usize,
    /// Where the data is in the images.
    pub data: Range<usize>,
}

/// The shape of the output of an operator whose data is `[any axes, spatial axes, channels]`.
///
/// # Errors
///
/// The data has another type than this one, or too few axes.
pub(crate) fn output_shape(
    operator: &str,
    spec: &PoolSpec,
    dt: DatumType,
    data: &TypedFact,
) -> TractResult<TVec<TDim>> {
    let rank = spec.rank();
    ensure!(
        data.datum_type == dt && data.rank() > rank,
        "{operator}: the data is {data:?}, but must be of type {dt:?} and of rank {} or more",
        rank + 1
    );
    let mut shape: TVec<TDim> = data.shape.iter().cloned().collect();
    let last = shape.len() - 1;
    let sizes: TVec<TDim> = shape[last - rank..last].into();
    let padded =
        spec.padding.compute(&sizes, &spec.kernel_shape, &spec.dilations(), &spec.strides());
    for (size, padded) in shape[last - rank..last].iter_mut().zip(&padded) {
        *size = padded.convoluted.clone();
    }
    shape[last] = spec.output_channels.to_dim();
    Ok(shape)
}

/// The shape of data with one pixel for each of its images: all axes but the first and the last one are 1.
pub(crate) fn one_pixel<D: Clone>(shape: &[D], one: D) -> TVec<D> {
    let mut shape: TVec<D> = shape.into();
    let last = shape.len().saturating_sub(1);
    shape[1.min(last)..last].fill(one);
    shape
}

/// Rounds numbers to elements of other types.
pub(crate) type Round = fn(&[f32], &mut [u8]);

/// How pixels of so many numbers are copied, as they are multiplied.
#[derive(Clone, Copy)]
pub(crate) struct PixelCopy {
    pub channels: usize,
    /// The bytes of a number as it is multiplied.
    pub size: usize,
    /// What rounds the data, which is in single precision then.
    pub round: Option<Round>,
}

/// The rows of a block of a matrix unit: behind what is copied there is room for so many, so that no block needs copies of its own.
pub(super) const ROWS_OF_BLOCK: usize = 32;

impl PixelCopy {
    /// The bytes of a number of the data.
    fn size_of_data(&self) -> usize {
        if self.round.is_some() { size_of::<f32>() } else { self.size }
    }

    /// The bytes of a pixel of the data.
    pub fn pixel_of_data(&self) -> usize {
        self.channels * self.size_of_data()
    }

    /// Whether what is copied differs from the data, if a pixel has so many bytes then.
    pub fn changes(&self, of_pixel: usize) -> bool {
        self.round.is_some() || self.channels * self.size != of_pixel
    }

    fn copy_numbers(&self, numbers: &[u8], places: &mut [u8]) {
        match self.round {
            Some(round) => round(cast_slice(numbers), places),
            None => places.copy_from_slice(numbers),
        }
    }

    /// Copies pixels to places of so many bytes each. What these have more is 0.
    pub fn copy(&self, data: &[u8], of_pixel: usize, places: &mut [u8]) {
        if self.channels * self.size == of_pixel {
            return self.copy_numbers(data, places);
        }
        // Some pixels at a time: one may have few numbers.
        let numbers = of_pixel / self.size;
        let (at_once, filled_pixel) =
            ((NUMBERS_AT_ONCE / numbers).max(1), numbers * self.size_of_data());
        let mut filled = Scratch::of_bytes(at_once * filled_pixel);
        let filled = &mut filled.bytes_mut()[..at_once * filled_pixel];
        filled.fill(0);
        let some = data.chunks(at_once * self.pixel_of_data());
        for (pixels, places) in some.zip(places.chunks_mut(at_once * of_pixel)) {
            let filled_pixels = filled.chunks_exact_mut(filled_pixel);
            match self.pixel_of_data() {
                ONE => copy_narrow::<ONE>(pixels, filled_pixels),
                RGB => copy_narrow::<RGB>(pixels, filled_pixels),
                size => {
                    for (pixel, place) in pixels.chunks_exact(size).zip(filled_pixels) {
                        place[..size].copy_from_slice(pixel);
                    }
                }
            }
            self.copy_numbers(&filled[..places.len() / of_pixel * filled_pixel], places);
        }
    }
}

/// The bytes of a number in single precision.
const ONE: usize = size_of::<f32>();

/// Those of three.
const RGB: usize = 3 * ONE;

/// Copies pixels of so many bytes to the beginnings of places. The size is known, as a call for each pixel would take longer.
fn copy_narrow<'p, const SIZE: usize>(pixels: &[u8], places: impl Iterator<Item = &'p mut [u8]>) {
    for (pixel, place) in pixels.as_chunks::<SIZE>().0.iter().zip(places) {
        if let Some(place) = place.first_chunk_mut() {
            *place = *pixel;
        }
    }
}

/// How many numbers of pixels that are filled up are copied at once.
const NUMBERS_AT_ONCE: usize = 1024;

impl ChannelsLastWindow {
    /// The window over data of this shape, whose pixels have so many bytes if that is a number, and the shape of the output.
    ///
    /// # Errors
    ///
    /// The data has too few axes, or another number of channels.
    pub fn new(
        operator: &str,
        spec: &PoolSpec,
        shape: &[usize],
        of_pixel: Option<usize>,
    ) -> TractResult<(ChannelsLastWindow, TVec<usize>)> {
        let (rank, channels) = (spec.rank(), spec.input_channels);
        ensure!(
            shape.len() > rank && shape[shape.len() - 1] == channels,
            "{operator}: the data has shape {shape:?}, but must have rank {} or more and size {channels} on the last axis",
            rank + 1
        );
        let (batch, sizes) = shape[..shape.len() - 1].split_at(shape.len() - 1 - rank);
        let of_pixel = of_pixel.context("the data is too large")?;
        let images = volume(batch).context("the data is too large")?;
        let window = ChannelsLastWindow {
            images,
            of_pixel,
            per_image: Window::new(spec, sizes)?,
            pixels_of_tap: 1,
        };
        let outputs = &window.per_image.output[3 - rank..];
        let shape = [batch, outputs, &[spec.output_channels]].concat();
        Ok((window, shape.into()))
    }

    pub fn taps(&self) -> usize {
        self.per_image.taps()
    }

    /// The pixels of the output, of all images.
    pub fn pixels(&self) -> usize {
        self.images * self.per_image.pixels()
    }

    /// How many elements of the kernel meet data, for a pixel of the output.
    pub fn elements_met(&self, pixel: usize) -> usize {
        let (mut rest, mut count) = (pixel, 1);
        for axis in (0..3).rev() {
            let first = rest % self.per_image.output[axis] * self.per_image.strides[axis];
            rest /= self.per_image.output[axis];
            count *= (0..self.per_image.kernel[axis])
                .filter(|tap| self.at(axis, first, *tap).is_some())
                .count();
        }
        count
    }

    /// For each pixel of the output, how many rows a product has that are at equal distances: those of the pixels of a line, of
    /// tiles of 16, or those of all lines and between them.
    pub fn rows_per_pixel(&self) -> f32 {
        let pixels = self.per_image.output[2].max(1);
        let line = self.per_image.input[2] * self.per_image.strides[1] / self.per_image.strides[2];
        line.min(pixels.next_multiple_of(16)).max(pixels) as f32 / pixels as f32
    }

    /// The line of the output that a pixel is in, which one it is there, and how many follow from it on.
    pub fn line(&self, pixel: usize) -> [usize; 3] {
        let x = pixel % self.per_image.output[2];
        [pixel / self.per_image.output[2], x, self.per_image.output[2] - x]
    }

    /// The lines of the output that some pixels are in, and which pixels of each.
    pub fn lines_of(&self, pixels: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let mut pixel = pixels.start;
        std::iter::from_fn(move || {
            (pixel < pixels.end).then(|| {
                let [line, x, left] = self.line(pixel);
                let end = x + left.min(pixels.end - pixel);
                pixel += end - x;
                (line, x..end)
            })
        })
    }

    /// Copies images, with padding around them if that is asked for.
    pub fn copied(
        &mut self,
        operator: &str,
        data: &[u8],
        pixels: PixelCopy,
        is_padded: bool,
        zero: u8,
    ) -> TractResult<Tensor> {
        let of_pixel = self.of_pixel;
        let pads = if is_padded { self.per_image.pads } else { [[0; 2]; 3] };
        let sizes: [usize; 3] =
            std::array::from_fn(|axis| pads[axis][0] + self.per_image.input[axis] + pads[axis][1]);
        let count = volume(&sizes)
            .and_then(|it| it.checked_mul(self.images)?.checked_mul(of_pixel))
            // The last step of the last tap may reach beyond the images.
            .and_then(|it| it.checked_add(4))
            .context("the data is too large")?;
        let line = sizes[2] * of_pixel;
        let copied = filled_output(operator, &[count], |places: &mut [u8]| {
            let (lines, rest) = places.split_at_mut(count - 4);
            rest.fill(zero);
            if line == 0 {
                return Ok(());
            }
            fill_rows(lines, line, cost::WRITTEN_CODE.of(count), |first, lines| {
                for (number, places) in (first..).zip(lines.chunks_exact_mut(line)) {
                    let (rest, y) = (number / sizes[1], number % sizes[1]);
                    let (image, z) = (rest / sizes[0], rest % sizes[0]);
                    let within = |axis: usize, at: usize| {
                        at.checked_sub(pads[axis][0]).filter(|at| *at < self.per_image.input[axis])
                    };
                    let Some((z, y)) = within(0, z).zip(within(1, y)) else {
                        places.fill(zero);
                        continue;
                    };
                    let from = (image * self.per_image.input[0] + z) * self.per_image.input[1] + y;
                    self.copy_line(from, data, &pixels, pads[2][0], zero, places);
                }
                Ok(())
            })
        })?;
        if is_padded {
            (self.per_image.input, self.per_image.pads) = (sizes, [[0; 2]; 3]);
        }
        Ok(copied)
    }

    /// Copies a line of the images, with so many pixels of padding before it, and the rest behind it.
    fn copy_line(
        &self,
        line: usize,
        data: &[u8],
        pixels: &PixelCopy,
        before: usize,
        zero: u8,
        places: &mut [u8],
    ) {
        let width = self.per_image.input[2];
        let (left, rest) = places.split_at_mut(before * self.of_pixel);
        let (taken, right) = rest.split_at_mut(width * self.of_pixel);
        left.fill(zero);
        let of_line = width * pixels.pixel_of_data();
        pixels.copy(&data[line * of_line..][..of_line], self.of_pixel, taken);
        right.fill(zero);
    }

    /// Whether images have two spatial axes at most.
    pub fn has_planes(&self) -> bool {
        let Window { input, output, kernel, pads, .. } = &self.per_image;
        [input[0], output[0], kernel[0]] == [1; 3] && pads[0] == [0; 2]
    }

    /// How many lines of the output, from one on, may be computed of so many bytes of copied lines: of one image, at least one.
    pub fn lines_at_once(&self, line: usize, bytes: usize) -> usize {
        let height = self.per_image.output[1].max(1);
        let lines = bytes / self.bytes_of_copied_line().max(1);
        let more = lines.saturating_sub(self.lines_met(1)) / self.per_image.strides[1];
        (more + 1).min(height - line % height)
    }

    /// How often a line is copied, if so many bytes of them are copied at a time.
    pub fn times_copied(&self, bytes: usize) -> f32 {
        let count = self.lines_at_once(0, bytes);
        self.lines_met(count) as f32 / (count * self.per_image.strides[1]) as f32
    }

    fn bytes_of_copied_line(&self) -> usize {
        let [before, after] = self.per_image.pads[2];
        (before + self.per_image.input[2] + after) * self.of_pixel
    }

    /// From how many lines of padded images so many lines of the output are made, with those between them.
    fn lines_met(&self, count: usize) -> usize {
        let Window { kernel, strides, dilations, .. } = &self.per_image;
        (count - 1) * strides[1] + (kernel[1] - 1) * dilations[1] + 1
    }

    /// Copies what some lines of the output of an image are made of, with padding around it. The result is how the window moves over that:
    /// the taps of a row of the kernel become one.
    pub fn copied_lines(
        &self,
        line: usize,
        count: usize,
        data: &[u8],
        pixels: PixelCopy,
        zero: u8,
        copied: &mut Scratch,
    ) -> ChannelsLastWindow {
        let Window { input, strides, pads, .. } = self.per_image;
        let (lines, of_line) = (self.lines_met(count), self.bytes_of_copied_line());
        // What tiles read behind the last line changes nothing that is written.
        *copied = Scratch::of_bytes(lines * of_line + ROWS_OF_BLOCK * strides[2] * self.of_pixel);
        let (image, y) = (line / self.per_image.output[1], line % self.per_image.output[1]);
        let all = copied.bytes_mut().chunks_exact_mut(of_line.max(1));
        for (number, places) in all.take(lines).enumerate() {
            let Some(y) = self.at(1, y * strides[1] + number, 0) else {
                places.fill(zero);
                continue;
            };
            self.copy_line(image * input[1] + y, data, &pixels, pads[2][0], zero, places);
        }
        let mut some = self.clone();
        some.images = 1;
        (some.per_image.input[1], some.per_image.output[1]) = (lines, count);
        some.per_image.input[2] += pads[2][0] + pads[2][1];
        some.per_image.pads = [[0; 2]; 3];
        some.join_taps();
        some
    }

    /// The taps of a row of the kernel, which are neighbours, become one.
    pub fn join_taps(&mut self) {
        (self.pixels_of_tap, self.per_image.kernel[2]) = (self.per_image.kernel[2], 1);
    }

    /// The bytes of all images.
    fn bytes(&self) -> usize {
        self.images * self.per_image.input.iter().product::<usize>() * self.of_pixel
    }

    /// Where the taps of some pixels of the output begin in the images: as lines of equal distances, if that is asked for and there is no
    /// padding, or if each pixel is made of itself. Partial taps are added to `partial`: they follow each other behind the images.
    pub fn rows(
        &self,
        pixels: Range<usize>,
        are_strided: bool,
        partial: &mut Vec<PartialTap>,
    ) -> Im2rowAddresses {
        let of_pixel = self.of_pixel;
        let is_padded = self.per_image.pads != [[0; 2]; 3];
        let are_whole =
            self.per_image.strides == [1; 3] && self.per_image.input == self.per_image.output;
        if self.taps() == 1 && are_whole && !is_padded {
            // Each pixel is made of itself.
            return Im2rowAddresses::of_one_line(
                pixels.start * of_pixel,
                pixels.len(),
                of_pixel,
                vec![0],
            );
        }
        if is_padded || !are_strided || pixels.is_empty() {
            return self.runs(pixels, partial);
        }
        let distance = self.per_image.strides[2] * of_pixel;
        let tap_offsets = self.starts(0..1);
        let (mut lines, mut of_line) = (vec![], vec![]);
        for (line, pixels) in self.lines_of(pixels) {
            self.lines(line, &mut of_line);
            let Some(first) = of_line[0] else { unreachable!("there is no padding") };
            let start = self.start(first, 0) + pixels.start * distance;
            lines.push(RunOfRows { start, rows: pixels.len() });
        }
        Im2rowAddresses::Strided(StridedLines { distance, tap_offsets, lines })
    }

    /// Where the taps of some pixels of the output begin in the images: one tap after the other, those of each line of the output.
    fn runs(&self, pixels: Range<usize>, partial: &mut Vec<PartialTap>) -> Im2rowAddresses {
        let ([pad, _], size) = (self.per_image.pads[2], self.per_image.input[2]);
        let (stride, dilation) = (self.per_image.strides[2], self.per_image.dilations[2]);
        let with_lines = |(line, pixels)| {
            let mut of_line = vec![];
            self.lines(line, &mut of_line);
            (pixels, of_line)
        };
        let lines: Vec<_> = self.lines_of(pixels).map(with_lines).collect();
        let (bytes, bytes_of_tap) = (self.bytes(), self.pixels_of_tap * self.of_pixel);
        let mut runs: Vec<RunOfRows> = vec![];
        let mut push = |start: usize, rows: usize| match runs.last_mut() {
            Some(last) if [last.start, start] == [PADDING; 2] => last.rows += rows,
            _ if rows > 0 => runs.push(RunOfRows { start, rows }),
            _ => (),
        };
        for line_of_kernel in 0..self.per_image.kernel[0] * self.per_image.kernel[1] {
            for column in 0..self.per_image.kernel[2] {
                let reach = column * dilation;
                // Taps of pixels from this one on meet data alone, up to that one.
                let whole = pad.saturating_sub(reach).div_ceil(stride);
                let room = (pad + size).checked_sub(reach + self.pixels_of_tap);
                let whole = whole..room.map_or(0, |room| room / stride + 1).max(whole);
                for (pixels, of_line) in &lines {
                    let Some(line) = of_line[line_of_kernel] else {
                        push(PADDING, pixels.len());
                        continue;
                    };
                    let [first, end] =
                        [whole.start, whole.end].map(|it| it.clamp(pixels.start, pixels.end));
                    let mut border = |pixel: usize| {
                        let begin = pixel * stride + reach;
                        let met = begin.max(pad)..(begin + self.pixels_of_tap).min(pad + size);
                        if met.is_empty() {
                            return PADDING;
                        }
                        let start = self.start(line, met.start - pad);
                        partial.push(PartialTap {
                            before: (met.start - begin) * self.of_pixel,
                            data: start..start + met.len() * self.of_pixel,
                        });
                        bytes + (partial.len() - 1) * bytes_of_tap
                    };
                    (pixels.start..first).for_each(|pixel| push(border(pixel), 1));
                    push(
                        self.start(line, (first * stride + reach).saturating_sub(pad)),
                        end - first,
                    );
                    (end..pixels.end).for_each(|pixel| push(border(pixel), 1));
                }
            }
        }
        Im2rowAddresses::Runs { distance: stride * self.of_pixel, runs }
    }

    /// For each of some pixels of the output, where each tap begins in the images, or [`PADDING`].
    pub fn starts(&self, pixels: Range<usize>) -> Vec<usize> {
        let mut starts = Vec::with_capacity(pixels.len() * self.taps());
        let reach = self.per_image.reach(2);
        let (mut row, mut lines, mut first) = (usize::MAX, vec![], vec![]);
        for pixel in pixels {
            let x = pixel % self.per_image.output[2] * self.per_image.strides[2];
            if pixel / self.per_image.output[2] != row {
                row = pixel / self.per_image.output[2];
                self.lines(row, &mut lines);
                // Of a pixel whose taps begin with the first one of a line.
                first.clear();
                first.extend(lines.iter().flat_map(|line| {
                    let tap = |tap| line.map_or(PADDING, |line| self.start(line, tap));
                    (0..self.per_image.kernel[2])
                        .map(move |number| tap(number * self.per_image.dilations[2]))
                }));
            }
            if x >= self.per_image.pads[2][0]
                && x + reach - self.per_image.pads[2][0] < self.per_image.input[2]
            {
                let moved = (x - self.per_image.pads[2][0]) * self.of_pixel;
                let start = |first: &usize| match *first {
                    PADDING => PADDING,
                    first => first + moved,
                };
                starts.extend(first.iter().map(start));
                continue;
            }
            for line in &lines {
                starts.extend((0..self.per_image.kernel[2]).map(|tap| {
                    let at = line.zip(self.at(2, x, tap));
                    at.map_or(PADDING, |(line, x)| self.start(line, x))
                }));
            }
        }
        starts
    }

    /// Where a pixel of a line begins in the images.
    fn start(&self, line: usize, x: usize) -> usize {
        (line + x) * self.of_pixel
    }

    /// Where a tap is along an axis, if it is in the image: of the window that begins `first` pixels from that of the first
    /// pixel.
    fn at(&self, axis: usize, first: usize, tap: usize) -> Option<usize> {
        let padded = first + tap * self.per_image.dilations[axis];
        padded
            .checked_sub(self.per_image.pads[axis][0])
            .filter(|at| *at < self.per_image.input[axis])
    }

    /// For each line of the kernel, with which pixel the line of the images begins that it meets in a line of the output, if it
    /// meets one.
    pub fn lines(&self, line: usize, lines: &mut Vec<Option<usize>>) {
        let (rest, y) = (
            line / self.per_image.output[1],
            line % self.per_image.output[1] * self.per_image.strides[1],
        );
        let (image, z) = (
            rest / self.per_image.output[0],
            rest % self.per_image.output[0] * self.per_image.strides[0],
        );
        lines.clear();
        for z_tap in 0..self.per_image.kernel[0] {
            let z = self.at(0, z, z_tap).map(|z| image * self.per_image.input[0] + z);
            lines.extend((0..self.per_image.kernel[1]).map(|y_tap| {
                let (z, y) = z.zip(self.at(1, y, y_tap))?;
                Some((z * self.per_image.input[1] + y) * self.per_image.input[2])
            }));
        }
    }
}
