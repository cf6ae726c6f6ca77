use std::ops::Range;

use pulp::{Simd, WithSimd, as_arrays, as_arrays_mut};
use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

use crate::operators::check_volume;
use crate::operators::product::{Columns, Tile, VECTORS, Vectors, load, store};

/// How a kernel moves over data of known size. There are three spatial axes; those that the data does not have
/// are of size 1.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub input: [usize; 3],
    pub output: [usize; 3],
    pub kernel: [usize; 3],
    strides: [usize; 3],
    dilations: [usize; 3],
    /// How many elements are missing in front of the data.
    begin: [usize; 3],
}

impl Window {
    /// `sizes` are those of the data's spatial axes.
    pub fn new(spec: &PoolSpec, sizes: &[usize]) -> TractResult<Window> {
        let rank = sizes.len();
        ensure!(rank == spec.rank() && rank <= 3, "the data has {rank} spatial axes");
        let with_ones = |numbers: &[usize]| {
            let mut all = [1; 3];
            all[3 - rank..].copy_from_slice(numbers);
            all
        };
        let padding = spec.computed_padding(sizes);
        let output: TVec<usize> = padding.iter().map(|axis| axis.convoluted).collect();
        let mut begin = [0; 3];
        for (begin, axis) in begin[3 - rank..].iter_mut().zip(&padding) {
            *begin = axis.pad_before;
        }
        // Of a single pixel the stride says nothing, whatever its size.
        let mut strides = with_ones(&spec.strides());
        let output = with_ones(&output);
        for (stride, pixels) in strides.iter_mut().zip(output) {
            if pixels == 1 {
                *stride = 1;
            }
        }
        Ok(Window {
            input: with_ones(sizes),
            output,
            kernel: with_ones(&spec.kernel_shape),
            strides,
            dilations: with_ones(&spec.dilations()),
            begin,
        })
    }
}

/// How channels are laid out for a window: padded, and split by the strides into parts, so that pixels of the
/// output that are neighbours meet neighbours, whatever the element of the kernel.
///
/// A position is where the first element of the kernel is for a pixel. Element `k` then is `offsets[k]` behind it.
/// Rows are longer than those of the output if the kernel is wider than the stride. If they are not much longer, a
/// product is computed for all positions, which are one run, and what has no pixel is dropped.
#[derive(Debug)]
pub(super) struct Layout {
    pub window: Window,
    /// The sizes of a part.
    part: [usize; 3],
    pub offsets: Vec<usize>,
    /// The positions from the first to the last pixel.
    pub positions: usize,
    /// Whether products are computed for all of them.
    pub with_gaps: bool,
    /// The rows of a channel that the kernel meets, and the place of the first element of each, padding included.
    rows: Vec<(usize, usize)>,
    phases: Vec<Phase>,
    /// The padding and the split change nothing.
    is_plain: bool,
}

/// The elements of a row that go to one part.
#[derive(Debug)]
struct Phase {
    /// The first of them.
    first: usize,
    /// Where that one is in its row.
    at: usize,
    /// Where the part is, behind the first one for this row.
    part: usize,
}

impl Layout {
    /// The output has pixels. The product has a row for each of some channels.
    pub fn new(window: Window, channels: usize) -> TractResult<Layout> {
        let Window { output, kernel, strides, dilations, .. } = window;
        let extent = |axis: usize| {
            (output[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        };
        let is_plain = strides == [1; 3]
            && window.begin == [0; 3]
            && (0..3).all(|axis| extent(axis) <= window.input[axis]);
        let padded = [extent(0), extent(1), extent(2)];
        check_volume("padding", &[padded[0], padded[1], padded[2]])?;
        let part = match is_plain {
            true => window.input,
            false => std::array::from_fn(|axis| extent(axis).div_ceil(strides[axis])),
        };
        let mut offsets = vec![];
        for z in 0..kernel[0] {
            for y in 0..kernel[1] {
                for x in 0..kernel[2] {
                    let element = [z * dilations[0], y * dilations[1], x * dilations[2]];
                    offsets.push(place(element, strides, part));
                }
            }
        }
        let volume: usize = part.iter().product();
        // Which parts the kernel meets, by the number of a part: rows first.
        let mut met_rows = vec![false; strides[0] * strides[1]];
        let mut met_phases = vec![false; strides[2]];
        for number in offsets.iter().map(|offset| offset / volume) {
            met_rows[number / strides[2]] = true;
            met_phases[number % strides[2]] = true;
        }
        let mut rows = vec![];
        for z in 0..window.input[0] {
            for y in 0..window.input[1] {
                let element = [z + window.begin[0], y + window.begin[1], 0];
                let to = place(element, strides, part);
                let is_within = (0..2).all(|axis| element[axis] / strides[axis] < part[axis]);
                if is_within && met_rows[to / volume / strides[2]] {
                    rows.push((z * window.input[1] + y, to));
                }
            }
        }
        let begin = window.begin[2];
        let phases = (0..strides[2]).filter(|phase| met_phases[*phase]).map(|phase| {
            let first = (phase + strides[2] - begin % strides[2]) % strides[2];
            Phase { first, at: (first + begin) / strides[2], part: phase * volume }
        });
        let has_elements = |it: &Phase| it.first < window.input[2] && it.at < part[2];
        let phases = phases.filter(has_elements).collect();
        let positions = ((output[0] - 1) * part[1] + output[1] - 1) * part[2] + output[2];
        let pixels: usize = output.iter().product();
        let with_gaps =
            positions > pixels && gaps_pay(positions, pixels, channels, pixels / output[2]);
        Ok(Layout { window, part, offsets, positions, with_gaps, rows, phases, is_plain })
    }

    /// The elements of a channel.
    pub fn channel(&self) -> usize {
        self.window.strides.iter().chain(&self.part).product()
    }

    /// Channels in this layout, padded with a number.
    pub fn lay_out<'a>(
        &self,
        vectors: Vectors,
        image: &'a [f32],
        padding: f32,
    ) -> TractResult<Cow<'a, [f32]>> {
        if self.is_plain {
            return Ok(image.into());
        }
        let size: usize = self.window.input.iter().product();
        let volume = check_volume("padding", &[image.len() / size, self.channel()])?;
        let mut laid_out = vec![padding; volume];
        vectors.run(LayOut { layout: self, image, laid_out: &mut laid_out });
        Ok(laid_out.into())
    }

    /// Writes a channel to its places, but not the padding.
    #[inline(always)]
    pub fn copy<S: Simd>(&self, simd: S, image: &[f32], laid_out: &mut [f32]) {
        let (width, stride) = (self.window.input[2], self.window.strides[2]);
        for (row, to) in &self.rows {
            let row = &image[row * width..][..width];
            for phase in &self.phases {
                let to = to + phase.part;
                let places = &mut laid_out[to + phase.at..to + self.part[2]];
                let elements = &row[phase.first..];
                match stride {
                    1 => {
                        let count = places.len().min(elements.len());
                        copy_row(simd, &elements[..count], &mut places[..count]);
                    }
                    2 => pick_every::<2>(elements, places),
                    _ => {
                        let elements = elements.iter().step_by(stride);
                        places.iter_mut().zip(elements).for_each(|(place, it)| *place = *it);
                    }
                }
            }
        }
    }

    /// Copies the pixels among results for these positions.
    #[inline(always)]
    pub fn pick<S: Simd>(
        &self,
        simd: S,
        positions: Range<usize>,
        results: &[f32],
        output: &mut [f32],
    ) {
        let [depth, height, width] = self.window.output;
        let first_row = positions.start / self.part[2];
        for row in first_row..=(positions.end - 1) / self.part[2] {
            let (z, y) = (row / self.part[1], row % self.part[1]);
            if z >= depth || y >= height {
                continue;
            }
            let begin = positions.start.max(row * self.part[2]);
            let end = positions.end.min(row * self.part[2] + width);
            if begin < end {
                let to = (z * height + y) * width + begin - row * self.part[2];
                let results = &results[begin - positions.start..end - positions.start];
                copy_row(simd, results, &mut output[to..to + end - begin]);
            }
        }
    }

    /// How many columns a product has: all positions, or the pixels alone.
    pub fn columns(&self) -> usize {
        match self.with_gaps {
            true => self.positions,
            false => self.window.output.iter().product(),
        }
    }

    /// Whether each position has a pixel.
    pub fn is_dense(&self) -> bool {
        self.positions == self.window.output.iter().product::<usize>()
    }

    /// Columns whose positions are neighbours: how many, and the first position.
    fn runs(&self, columns: Range<usize>) -> TVec<(usize, usize)> {
        if self.with_gaps || self.is_dense() {
            return tvec!((columns.len(), columns.start));
        }
        let [_, height, width] = self.window.output;
        let mut runs = tvec!();
        let mut pixel = columns.start;
        while pixel < columns.end {
            let (row, x) = (pixel / width, pixel % width);
            let count = (width - x).min(columns.end - pixel);
            let (z, y) = (row / height, row % height);
            runs.push((count, (z * self.part[1] + y) * self.part[2] + x));
            pixel += count;
        }
        runs
    }
}

/// Whether computing results for all positions takes less time than packing each row of pixels on its own. In each step
/// of the sum, a vector of results takes half a cycle for each channel, and to begin a row of pixels takes some cycles.
fn gaps_pay(positions: usize, pixels: usize, channels: usize, rows: usize) -> bool {
    const LANES: usize = 16;
    let vectors = positions.div_ceil(LANES) - pixels.div_ceil(LANES);
    vectors.saturating_mul(channels) / 2 <= 16 * rows
}

/// Channels, each to its places.
struct LayOut<'a> {
    layout: &'a Layout,
    image: &'a [f32],
    laid_out: &'a mut [f32],
}

impl WithSimd for LayOut<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let size: usize = self.layout.window.input.iter().product();
        let channels = self.laid_out.chunks_exact_mut(self.layout.channel());
        for (image, laid_out) in self.image.chunks_exact(size).zip(channels) {
            self.layout.copy(simd, image, laid_out);
        }
    }
}

/// Copies a row. Most are short, for which a call of `memcpy` takes longer.
#[inline(always)]
fn copy_row<S: Simd>(simd: S, elements: &[f32], places: &mut [f32]) {
    let lanes = S::F32_LANES;
    for (place, elements) in places.chunks_mut(lanes).zip(elements.chunks(lanes)) {
        store(simd, place, load(simd, elements));
    }
}

/// Every so many elements, from the first one on.
#[inline(always)]
fn pick_every<const STRIDE: usize>(elements: &[f32], places: &mut [f32]) {
    let (whole, rest) = elements.as_chunks::<STRIDE>();
    let rest = rest.first();
    for (place, element) in places.iter_mut().zip(whole.iter().map(|it| &it[0]).chain(rest)) {
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

/// Packs what some columns meet, for these steps of a convolution's sum: the right factor of a product, which
/// is never whole in memory. A step is an element of the kernel in a channel, a column is a
/// pixel, or a position.
pub(super) struct Pack<'a> {
    pub layout: &'a Layout,
    pub channels: &'a [f32],
    pub range: Range<usize>,
    pub steps: Range<usize>,
    pub columns: &'a mut Columns,
}

impl WithSimd for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let tile = Tile::of_simd::<S>();
        let offsets = &self.layout.offsets;
        let mut rest = &mut self.columns.elements[..];
        for first in self.range.clone().step_by(tile.columns) {
            let width = (self.range.end - first).min(tile.columns);
            let padded = width.next_multiple_of(tile.lanes);
            let (panel, behind) = rest.split_at_mut(self.steps.len() * padded);
            rest = behind;
            let runs = self.layout.runs(first..first + width);
            let (mut channel, mut element) =
                (self.steps.start / offsets.len(), self.steps.start % offsets.len());
            let mut next = || {
                let from = channel * self.layout.channel() + offsets[element];
                element += 1;
                if element == offsets.len() {
                    (channel, element) = (channel + 1, 0);
                }
                from
            };
            // Most panels are whole, and one run.
            if let [(count, position)] = runs[..]
                && count == tile.columns
            {
                let panel = as_arrays_mut::<VECTORS, S::f32s>(S::as_mut_simd_f32s(panel).0).0;
                for columns in panel {
                    let source = &self.channels[next() + position..][..tile.columns];
                    *columns = as_arrays::<VECTORS, S::f32s>(S::as_simd_f32s(source).0).0[0];
                }
                continue;
            }
            for mut columns in panel.chunks_exact_mut(padded) {
                let from = next();
                for (count, position) in &runs {
                    let source = &self.channels[from + position..][..*count];
                    let (run, behind) = columns.split_at_mut(*count);
                    columns = behind;
                    copy_row(simd, source, run);
                }
            }
        }
    }
}

/// The pixels among the results of a product for these positions, a row for each channel.
pub(super) struct Pick<'a> {
    pub layout: &'a Layout,
    pub positions: Range<usize>,
    pub results: &'a [f32],
    pub output: &'a mut [f32],
}

impl WithSimd for Pick<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let pixels = self.layout.window.output.iter().product();
        let channels = self.results.chunks_exact(self.positions.len());
        for (results, output) in channels.zip(self.output.chunks_exact_mut(pixels)) {
            self.layout.pick(simd, self.positions.clone(), results, output);
        }
    }
}
