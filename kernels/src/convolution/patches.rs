use std::borrow::Cow;
use std::ops::Range;

use pulp::{Simd, WithSimd};
use tract_core::internal::tract_ndarray::indices;
use tract_core::internal::*;

use crate::checks::check_volume;
use crate::cost;
use crate::memory::{FLOATS_OF_LINE, Scratch};
use crate::product::{OperandA, Output, Shares, Tile, Vectors, load, row_panels, store};
use crate::threads::{Division, fill_rows};
use crate::window::Window;

/// How channels are laid out for a window: padded, and split by the strides into parts, so that pixels of the
/// output that are neighbours meet neighbours, whatever the element of the kernel.
///
/// A position is where the first element of the kernel is for a pixel. Element `k` is then `offsets[k]` further on.
/// Rows are longer than those of the output if the kernel is wider than the stride. If they are not much longer, a
/// product is computed for all positions, which are one run, and what has no pixel is dropped.
#[derive(Debug)]
pub(super) struct PatchLayout {
    pub window: Window,
    /// The sizes of a part.
    part: [usize; 3],
    pub offsets: Vec<usize>,
    /// The positions from the first to the last pixel.
    pub positions: usize,
    /// The rows of a product: the channels of a group of the output.
    rows_of_product: usize,
    /// Whether products are computed for all of them.
    pub with_gaps: bool,
    /// The rows of a channel that the kernel meets.
    rows: Vec<RowPlacement>,
    phases: Vec<StridePhase>,
    /// The first pixel of each row of positions that has some.
    first_pixels: Vec<Option<usize>>,
    /// The padding and the split change nothing.
    is_plain: bool,
}

/// Pixels of a channel, and what they meet.
pub(super) struct Band<'a> {
    pub pixels: Range<usize>,
    /// From the first of the pixels to the last one.
    pub positions: Range<usize>,
    /// The rows of the channel.
    pub rows: &'a [RowPlacement],
}

/// Where a row of a channel goes in a layout.
#[derive(Debug)]
pub(super) struct RowPlacement {
    /// Its first element in the channel.
    from: usize,
    /// The first part that may have elements of it.
    part: usize,
    /// The row of the parts, padding included.
    row: usize,
}

/// The elements of a row that go to one part: those of one phase of the stride.
#[derive(Debug)]
struct StridePhase {
    /// The first of them.
    first: usize,
    /// Where that one is in its row.
    at: usize,
    /// Which part it is, after the first one for this row.
    part: usize,
}

impl PatchLayout {
    /// The output has pixels. The product has a row for each of some channels.
    pub fn new(mut window: Window, channels: usize) -> TractResult<PatchLayout> {
        for (stride, pixels) in window.strides.iter_mut().zip(window.output) {
            // Of a single pixel the stride says nothing, whatever its size.
            *stride = if pixels == 1 { 1 } else { *stride };
        }
        let Window { output, kernel, strides, dilations, .. } = window;
        let begin = window.pads.map(|[begin, _]| begin);
        let extent = |axis: usize| {
            (output[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        };
        let is_plain = strides == [1; 3]
            && begin == [0; 3]
            && (0..3).all(|axis| extent(axis) <= window.input[axis]);
        let part = match is_plain {
            true => window.input,
            false => std::array::from_fn(|axis| extent(axis).div_ceil(strides[axis])),
        };
        // Of a channel.
        let padded: [usize; 3] = std::array::from_fn(|axis| part[axis] * strides[axis]);
        check_volume("padding", DatumType::F32, &padded)?;
        let elements = indices(kernel).into_iter();
        let elements =
            elements.map(|(z, y, x)| [z * dilations[0], y * dilations[1], x * dilations[2]]);
        let offsets: Vec<usize> = elements.map(|element| place(element, strides, part)).collect();
        let volume: usize = part.iter().product();
        // Which parts the kernel meets, by the number of a part: rows first.
        let mut met_rows = vec![false; strides[0] * strides[1]];
        let mut met_phases = vec![false; strides[2]];
        for number in offsets.iter().map(|offset| offset / volume) {
            met_rows[number / strides[2]] = true;
            met_phases[number % strides[2]] = true;
        }
        let mut rows = vec![];
        for (z, y) in indices((window.input[0], window.input[1])) {
            let element = [z + begin[0], y + begin[1], 0];
            let to = place(element, strides, part);
            let is_within = (0..2).all(|axis| element[axis] / strides[axis] < part[axis]);
            let number = to / volume;
            if is_within && met_rows[number / strides[2]] {
                let from = (z * window.input[1] + y) * window.input[2];
                rows.push(RowPlacement { from, part: number, row: to % volume / part[2] });
            }
        }
        let begin = begin[2];
        let phases = (0..strides[2]).filter(|phase| met_phases[*phase]).map(|phase| {
            let first = (phase + strides[2] - begin % strides[2]) % strides[2];
            StridePhase { first, at: (first + begin) / strides[2], part: phase }
        });
        let has_elements = |it: &StridePhase| it.first < window.input[2] && it.at < part[2];
        let phases = phases.filter(has_elements).collect();
        let positions = ((output[0] - 1) * part[1] + output[1] - 1) * part[2] + output[2];
        let pixels = window.pixels();
        let with_gaps =
            positions > pixels && gaps_pay(positions, pixels, channels, pixels / output[2]);
        let first_pixels = (0..positions.div_ceil(part[2])).map(|row| {
            let (z, y) = (row / part[1], row % part[1]);
            (y < output[1]).then_some((z * output[1] + y) * output[2])
        });
        let first_pixels = first_pixels.collect();
        Ok(PatchLayout {
            window,
            part,
            offsets,
            positions,
            rows_of_product: channels,
            with_gaps,
            rows,
            phases,
            first_pixels,
            is_plain,
        })
    }

    /// The distance of two channels. Where they are copied it is an odd number of lines of the cache: channels in a
    /// distance of a power of two would have few places there.
    pub fn channel(&self) -> usize {
        let elements: usize = self.window.strides.iter().chain(&self.part).product();
        if self.is_plain { elements } else { odd_lines(elements) }
    }

    /// Whether there is one plane.
    fn is_plane(&self) -> bool {
        let Window { input, output, kernel, .. } = &self.window;
        [input, output, kernel].iter().all(|sizes| sizes[0] == 1)
    }

    /// Rows of pixels of so many channels for the threads that share this work: one part for each, if parts have pixels enough. None: they
    /// share the channels. What threads write of a channel they mostly read next, and far from each other they wait long for the rest.
    pub fn shares_of_pixels<'d>(
        &self,
        division: &'d Division,
        channels: usize,
    ) -> Option<Shares<'d>> {
        /// With fewer, most lines of the cache are on both sides, and more of the rows are read twice. Images of tests are small.
        const LEAST: usize = if cfg!(test) { 4 } else { 128 };
        let size = [channels, self.window.pixels()];
        let it = Shares::of_columns(division, size, self.window.output[2], 1);
        let are_long = it.shares.len() > 1 && it.shares[0].columns.len() >= LEAST;
        (self.is_plane() && are_long).then_some(it)
    }

    /// The rows of the parts that positions of one plane meet. The last one need not be of a pixel: the kernel may end in a row of
    /// its own there.
    fn rows_met(&self, positions: &Range<usize>) -> Range<usize> {
        let within = self.offsets.iter().map(|offset| offset % self.part_volume());
        let last = positions.end - 1 + within.max().unwrap_or(0);
        positions.start / self.part[2]..last / self.part[2] + 1
    }

    /// The rows of a channel that are in these rows of the parts, which are all, or there is one plane.
    fn rows_at(&self, of_parts: Range<usize>) -> &[RowPlacement] {
        if of_parts == self.all_rows() {
            return &self.rows;
        }
        let before = |end: usize| self.rows.partition_point(|row| row.row < end);
        &self.rows[before(of_parts.start)..before(of_parts.end)]
    }

    /// All pixels, or whole rows of them where there is one plane.
    pub fn band(&self, pixels: Range<usize>) -> Band<'_> {
        if pixels.len() == self.window.pixels() {
            return Band { pixels, positions: 0..self.positions, rows: &self.rows };
        }
        let width = self.window.output[2];
        let [first, last] = [pixels.start / width, pixels.end / width - 1];
        let positions = first * self.part[2]..last * self.part[2] + width;
        let rows = self.rows_at(self.rows_met(&positions));
        Band { pixels, positions, rows }
    }

    /// Channels in this layout, padded with 0.
    pub fn lay_out<'i>(
        &'i self,
        vectors: Vectors,
        channels: usize,
        image: &'i [f32],
    ) -> TractResult<LaidOutChannels<'i>> {
        let (elements, distance) = (self.window.elements(), self.channel());
        let offsets = Cow::Borrowed(&self.offsets[..]);
        if self.is_plain {
            let own = Scratch::new(0);
            return Ok(LaidOutChannels { own, plain: image, distance, offsets, first: 0 });
        }
        let mut laid_out = room(channels, distance)?;
        let work = cost::ELEMENT.of(image.len());
        fill_rows(&mut laid_out, distance, work, |first, laid_out| {
            let (layout, band, image) = (self, self.all_rows(), &image[first * elements..]);
            vectors.run(CopyToLayout { layout, image, band, distance, laid_out });
            TractResult::Ok(())
        })?;
        Ok(LaidOutChannels { own: laid_out, plain: &[], distance, offsets, first: 0 })
    }

    /// Whether what some rows of pixels meet can be laid out on its own.
    pub fn has_bands(&self) -> bool {
        !self.is_plain && self.is_plane()
    }

    /// Lays out those rows of the parts that some positions meet, where there are [bands](Self::has_bands).
    pub fn lay_out_band(
        &self,
        vectors: Vectors,
        channels: usize,
        image: &[f32],
        positions: Range<usize>,
    ) -> TractResult<LaidOutChannels<'static>> {
        let (volume, width) = (self.part_volume(), self.part[2]);
        let rows = self.rows_met(&positions);
        let of_part = rows.len() * width;
        let distance = odd_lines(self.window.strides.iter().product::<usize>() * of_part);
        let mut own = room(channels, distance)?;
        let first = rows.start * width;
        let (layout, band, laid_out) = (self, rows, &mut *own);
        vectors.run(CopyToLayout { layout, image, band, distance, laid_out });
        let offset = |offset: &usize| offset / volume * of_part + offset % volume;
        let offsets = self.offsets.iter().map(offset).collect();
        Ok(LaidOutChannels { own, plain: &[], distance, offsets, first })
    }

    /// The rows of a part.
    pub fn all_rows(&self) -> Range<usize> {
        0..self.part[0] * self.part[1]
    }

    fn part_volume(&self) -> usize {
        self.part.iter().product()
    }

    /// Writes rows of a channel to their places among padding, which is there already. `image` begins with the channel. `laid_out`
    /// has these rows of each part.
    #[inline(always)]
    pub fn copy<S: Simd>(
        &self,
        simd: S,
        image: &[f32],
        rows: &[RowPlacement],
        of_parts: Range<usize>,
        laid_out: &mut [f32],
        padding: f32,
    ) {
        let volume = of_parts.len() * self.part[2];
        let (width, stride) = (self.window.input[2], self.window.strides[2]);
        for phase in &self.phases {
            let count = (self.part[2] - phase.at).min((width - phase.first).div_ceil(stride));
            let rest = Rest::of(simd, count, padding);
            for row in rows {
                let elements = &image[row.from + phase.first..];
                let part = &mut laid_out[(row.part + phase.part) * volume..][..volume];
                // The places after a row are padding, or of later rows.
                let places = &mut part[(row.row - of_parts.start) * self.part[2] + phase.at..];
                match stride {
                    1 => copy_row(simd, elements, places, count, Some(rest)),
                    2 => pick_every::<2>(elements, &mut places[..count]),
                    _ => {
                        let elements = elements.iter().step_by(stride);
                        let places = places[..count].iter_mut();
                        places.zip(elements).for_each(|(place, it)| *place = *it);
                    }
                }
            }
        }
    }

    /// How many pixels there are before a position.
    fn pixels_before(&self, position: usize) -> usize {
        let (row, x) = (position / self.part[2], position % self.part[2]);
        let width = self.window.output[2];
        match self.first_pixels.get(row) {
            Some(Some(first)) => first + x.min(width),
            // The next row that has pixels begins with this one.
            Some(None) => {
                let next = self.first_pixels[row..].iter().flatten().next();
                *next.expect("the last row has pixels")
            }
            None => self.window.pixels(),
        }
    }

    /// Copies the pixels among results for these positions. The output begins with the first of them.
    #[inline(always)]
    pub fn pick<S: Simd>(
        &self,
        simd: S,
        positions: Range<usize>,
        results: &[f32],
        output: &mut [f32],
    ) {
        let (part, width) = (self.part[2], self.window.output[2]);
        let first_row = positions.start / part;
        let rows = &self.first_pixels[first_row..=(positions.end - 1) / part];
        let first_pixel = self.pixels_before(positions.start);
        let mut from = first_row * part;
        for pixel in rows {
            let begin = positions.start.max(from);
            let end = positions.end.min(from + width);
            if let Some(pixel) = pixel
                && begin < end
            {
                let results = &results[begin - positions.start..];
                // Later pixels follow.
                let output = &mut output[pixel + begin - from - first_pixel..];
                copy_row(simd, results, output, end - begin, None);
            }
            from += part;
        }
    }

    /// How many columns a product has: all positions, or the pixels alone.
    pub fn columns(&self) -> usize {
        match self.with_gaps {
            true => self.positions,
            false => self.window.pixels(),
        }
    }

    /// How many pixels there are before a column of a product.
    pub fn pixels_before_column(&self, column: usize) -> usize {
        match self.with_gaps {
            true => self.pixels_before(column),
            false => column,
        }
    }

    /// Whether each position has a pixel.
    pub fn is_dense(&self) -> bool {
        self.positions == self.window.pixels()
    }

    /// Whether a product reads the channels as they are laid out, without packing them.
    ///
    /// Each panel of rows reads them. With many of these, packing takes less time than reading channels in their distance,
    /// each from another page of the memory.
    pub fn is_in_place(&self) -> bool {
        const MOST_ROWS: usize = 48;
        self.rows_of_product <= MOST_ROWS && (self.with_gaps || self.is_dense())
    }

    /// All positions from the first to the last one of these columns.
    pub fn positions_of_columns(&self, columns: Range<usize>) -> Range<usize> {
        if self.with_gaps { columns } else { self.positions_of_pixels(columns) }
    }

    /// All positions from the first to the last one of these pixels.
    pub fn positions_of_pixels(&self, pixels: Range<usize>) -> Range<usize> {
        let of_pixel = |pixel: usize| self.pixel_runs(pixel..pixel + 1)[0].1;
        of_pixel(pixels.start)..of_pixel(pixels.end - 1) + 1
    }

    /// Columns whose positions are neighbours: how many, and the first position.
    fn runs(&self, columns: Range<usize>) -> TVec<(usize, usize)> {
        match self.with_gaps {
            true => tvec!((columns.len(), columns.start)),
            false => self.pixel_runs(columns),
        }
    }

    /// Pixels whose positions are neighbours: how many, and the first position.
    fn pixel_runs(&self, pixels: Range<usize>) -> TVec<(usize, usize)> {
        if self.is_dense() {
            return tvec!((pixels.len(), pixels.start));
        }
        let [_, height, width] = self.window.output;
        let mut runs = tvec!();
        let mut pixel = pixels.start;
        while pixel < pixels.end {
            let (row, x) = (pixel / width, pixel % width);
            let count = (width - x).min(pixels.end - pixel);
            let (z, y) = (row / height, row % height);
            runs.push((count, (z * self.part[1] + y) * self.part[2] + x));
            pixel += count;
        }
        runs
    }
}

/// So many elements, or more: an odd number of lines of the cache.
fn odd_lines(elements: usize) -> usize {
    (elements.div_ceil(FLOATS_OF_LINE) | 1) * FLOATS_OF_LINE
}

/// Memory for channels in a distance.
fn room(channels: usize, distance: usize) -> TractResult<Scratch> {
    Ok(Scratch::new(check_volume("padding", DatumType::F32, &[channels, distance])?))
}

/// Whether computing results for all positions takes less time than packing each row of pixels on its own. In each step
/// of the sum, a vector of results takes half a cycle for each channel, and to begin a row of pixels takes some cycles.
fn gaps_pay(positions: usize, pixels: usize, channels: usize, rows: usize) -> bool {
    const LANES: usize = 16;
    let vectors = positions.div_ceil(LANES) - pixels.div_ceil(LANES);
    vectors.saturating_mul(channels) / 2 <= 16 * rows
}

/// Channels in a layout, or of each the rows that some pixels meet.
pub(super) struct LaidOutChannels<'a> {
    own: Scratch,
    /// The image, if it is laid out so, and there is nothing else.
    plain: &'a [f32],
    /// The distance of two channels.
    distance: usize,
    /// The offsets of the layout, where parts have these rows.
    offsets: Cow<'a, [usize]>,
    /// The place of the first element.
    first: usize,
}

impl LaidOutChannels<'_> {
    /// Where the first position has each of so many steps.
    pub fn steps(&self, depth: usize) -> Vec<usize> {
        let mut steps = Im2colOffsets::from(self, 0);
        (0..depth).map(|_| steps.next()).collect()
    }

    /// The elements from a position on.
    pub fn from(&self, position: usize) -> &[f32] {
        let elements = if self.own.is_empty() { self.plain } else { &self.own };
        &elements[position - self.first..]
    }
}

/// Copies rows of channels to their places in a layout.
struct CopyToLayout<'a> {
    layout: &'a PatchLayout,
    image: &'a [f32],
    /// Rows of the parts.
    band: Range<usize>,
    distance: usize,
    laid_out: &'a mut [f32],
}

impl WithSimd for CopyToLayout<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let CopyToLayout { layout, image, band, distance, laid_out } = self;
        let (elements, rows) = (layout.window.elements(), layout.rows_at(band.clone()));
        for (channel, places) in laid_out.chunks_exact_mut(distance).enumerate() {
            places.fill(0.);
            layout.copy(simd, &image[channel * elements..], rows, band.clone(), places, 0.);
        }
    }
}

/// Copies the first elements of a slice, in whole vectors if both slices have room. What follows them in `places` then
/// is spoiled: it gets the padding of `rest`, or what follows in `elements`. The caller writes it again.
///
/// Most rows are short: a call of `memcpy`, or a part of a vector, takes longer.
#[inline(always)]
fn copy_row<S: Simd>(
    simd: S,
    elements: &[f32],
    places: &mut [f32],
    count: usize,
    rest: Option<Rest<S>>,
) {
    let lanes = S::F32_LANES;
    let room = elements.len().min(places.len());
    let from = S::as_simd_f32s(&elements[..count]).0;
    let to = S::as_mut_simd_f32s(&mut places[..count]).0;
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    let at = from.len() * lanes;
    if at < count && at + lanes <= room {
        let mut vector = load(simd, &elements[at..at + lanes]);
        if let Some(rest) = rest {
            vector = simd.select_f32s(rest.is_element, vector, rest.padding);
        }
        store(simd, &mut places[at..at + lanes], vector);
    } else if at < count {
        store(simd, &mut places[at..count], load(simd, &elements[at..count]));
    }
}

/// What the last vector of a row has after the elements.
#[derive(Clone, Copy)]
struct Rest<S: Simd> {
    is_element: S::m32s,
    padding: S::f32s,
}

impl<S: Simd> Rest<S> {
    /// Of a row of so many elements.
    #[inline(always)]
    fn of(simd: S, count: usize, padding: f32) -> Rest<S> {
        let is_element = simd.mask_between_m32s(0, (count % S::F32_LANES) as u32).mask();
        Rest { is_element, padding: simd.splat_f32s(padding) }
    }
}

/// Every so many elements, from the first one on.
#[inline(always)]
fn pick_every<const STRIDE: usize>(elements: &[f32], places: &mut [f32]) {
    let (whole, rest) = elements.as_chunks::<STRIDE>();
    for (place, elements) in places.iter_mut().zip(whole) {
        *place = elements[0];
    }
    if let (Some(place), Some(element)) = (places.get_mut(whole.len()), rest.first()) {
        *place = *element;
    }
}

/// Where an element of the padded data is.
fn place(element: [usize; 3], strides: [usize; 3], part: [usize; 3]) -> usize {
    let mut number = 0;
    let mut within = 0;
    for axis in 0..3 {
        number = number * strides[axis] + element[axis] % strides[axis];
        within = within * part[axis] + element[axis] / strides[axis];
    }
    number * part.iter().product::<usize>() + within
}

/// The rows of the im2col matrix, as the places of their first elements: what the steps of a convolution's sum meet. A step is
/// an element of the kernel in a channel.
struct Im2colOffsets<'a> {
    offsets: &'a [usize],
    /// The distance of two channels.
    distance: usize,
    /// Where the channel of the next step begins, and which element of the kernel it is.
    begin: usize,
    element: usize,
}

impl<'a> Im2colOffsets<'a> {
    fn from(laid_out: &'a LaidOutChannels, first: usize) -> Im2colOffsets<'a> {
        let LaidOutChannels { offsets, distance, .. } = laid_out;
        let (channel, element) = (first / offsets.len(), first % offsets.len());
        Im2colOffsets { offsets, distance: *distance, begin: channel * distance, element }
    }

    #[inline(always)]
    fn next(&mut self) -> usize {
        let from = self.begin + self.offsets[self.element];
        self.element += 1;
        if self.element == self.offsets.len() {
            (self.begin, self.element) = (self.begin + self.distance, 0);
        }
        from
    }
}

/// Packs the patches of some columns, for these steps of a convolution's sum, as operand `B` of a GEMM: the im2col matrix, which
/// is never whole in memory. A column is a pixel, or a position.
pub(super) struct PackPatchesAsB<'a> {
    pub layout: &'a PatchLayout,
    pub channels: &'a LaidOutChannels<'a>,
    pub range: Range<usize>,
    pub steps: Range<usize>,
    pub columns: &'a mut [f32],
}

impl WithSimd for PackPatchesAsB<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let tile = Tile::of_simd::<S>();
        let mut rest = self.columns;
        for first in self.range.clone().step_by(tile.columns) {
            let width = (self.range.end - first).min(tile.columns);
            let padded = width.next_multiple_of(tile.lanes);
            let (panel, others) = rest.split_at_mut(self.steps.len() * padded);
            rest = others;
            let runs = self.layout.runs(first..first + width);
            let mut steps = Im2colOffsets::from(self.channels, self.steps.start);
            // Most panels are whole, and one run.
            if let [(count, position)] = runs[..]
                && count == tile.columns
            {
                let channels = self.channels.from(position);
                for columns in S::as_mut_simd_f32s(panel).0.chunks_exact_mut(tile.vectors()) {
                    let source = &channels[steps.next()..][..tile.columns];
                    columns.copy_from_slice(S::as_simd_f32s(source).0);
                }
                continue;
            }
            pack_runs(simd, self.channels, &runs, steps, panel, padded);
        }
    }
}

/// Packs the patches of some pixels, for these steps, as operand `A` of a GEMM: the im2row matrix.
pub(super) struct PackPatchesAsA<'a> {
    pub layout: &'a PatchLayout,
    pub channels: &'a LaidOutChannels<'a>,
    /// The number of the first pixel.
    pub first: usize,
    pub steps: Range<usize>,
    pub rows: &'a mut OperandA<Scratch>,
}

impl WithSimd for PackPatchesAsA<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let tile = Tile::of_simd::<S>();
        self.rows.depth = self.steps.len();
        let mut rest = &mut self.rows.elements[..];
        for (first, width) in row_panels(0..self.rows.rows, tile.rows) {
            let (panel, others) = rest.split_at_mut(self.steps.len() * width);
            rest = others;
            let first = self.first + first;
            let runs = self.layout.pixel_runs(first..first + width);
            let steps = Im2colOffsets::from(self.channels, self.steps.start);
            pack_runs(simd, self.channels, &runs, steps, panel, width);
        }
    }
}

/// Packs a panel, whose steps have a distance.
#[inline(always)]
fn pack_runs<S: Simd>(
    simd: S,
    channels: &LaidOutChannels,
    runs: &[(usize, usize)],
    mut steps: Im2colOffsets<'_>,
    panel: &mut [f32],
    distance: usize,
) {
    let [(_, begin), ..] = *runs else { return };
    let channels = channels.from(begin);
    for first in (0..panel.len()).step_by(distance) {
        let from = steps.next();
        let mut at = first;
        for (count, position) in runs {
            // Later columns follow, or later steps.
            let source = &channels[from + position - begin..];
            copy_row(simd, source, &mut panel[at..], *count, None);
            at += count;
        }
    }
}

/// The pixels among the results of a product for these positions, a row for each channel. Rows of the output are read from
/// the first pixel on.
pub(super) struct Pick<'a> {
    pub layout: &'a PatchLayout,
    pub positions: Range<usize>,
    pub results: &'a [f32],
    pub output: Output<'a>,
}

impl WithSimd for Pick<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Range { start, end } = self.positions;
        let count = self.layout.pixels_before(end) - self.layout.pixels_before(start);
        let channels = self.results.chunks_exact(self.positions.len());
        for (channel, results) in channels.enumerate() {
            let output = &mut self.output.row(channel)[..count];
            self.layout.pick(simd, self.positions.clone(), results, output);
        }
    }
}
