use std::ops::Range;

use tract_core::internal::*;

use super::patches::{LaidOutChannels, PackPatchesAsA, PackPatchesAsB, PatchLayout, Pick};
use crate::cost;
use crate::memory::Scratch;
use crate::product::activation::{Activation, BelowZero};
use crate::product::{
    Addend, GemmBlock, OperandA, OperandB, Output, PackedB, STEPS, Share, Shares, Tile, Vectors,
    cycles, parts,
};
use crate::threads::Division;
use crate::window::Window;

/// The packed weights of a group, one operand of a GEMM. The other one is the patches that the pixels meet.
#[derive(Debug, PartialEq)]
pub(super) enum GroupWeights {
    /// Operand `A`, a row for each channel of the output: `B` has a column for each pixel or position (im2col).
    Rows(OperandA),
    /// Operand `B`, a column for each channel of the output: `A` has a row for each pixel (im2row). Then there are no gaps, and
    /// few pixels need not fill vectors.
    Columns(PackedB),
}

impl GroupWeights {
    /// From a matrix with a row for each channel.
    pub fn pack(weights: &[f32], channels: usize, depth: usize, are_columns: bool) -> GroupWeights {
        let tile = Tile::of(Vectors::detect());
        match are_columns {
            true => GroupWeights::Columns(PackedB::pack(weights, true, depth, channels, tile)),
            false => GroupWeights::Rows(OperandA::pack(weights, channels, depth, tile)),
        }
    }

    fn channels(&self) -> usize {
        match self {
            GroupWeights::Rows(it) => it.rows,
            GroupWeights::Columns(it) => it.columns,
        }
    }

    fn depth(&self) -> usize {
        match self {
            GroupWeights::Rows(it) => it.depth,
            GroupWeights::Columns(it) => it.depth,
        }
    }
}

/// Rows of pixels are packed for all pixels at once, so they are few. Data of few elements has a small layout.
const MOST_PIXELS: usize = 1024;
const MOST_ELEMENTS: usize = 1 << 16;

/// About how many cycles it takes to copy neighbours into a panel.
const PACKING: usize = 5;

/// Whether rows of pixels take less time than columns, in a product with some channels and steps. The result of the
/// former has to be transposed.
pub(super) fn prefers_rows(window: Window, channels: usize, depth: usize) -> bool {
    let pixels = window.pixels();
    if pixels == 0 || pixels > MOST_PIXELS || window.elements() > MOST_ELEMENTS {
        return false;
    }
    let Ok(layout) = PatchLayout::new(window, channels) else { return false };
    let tile = Tile::of(Vectors::detect());
    // What follows each other is packed together: pixels end with a row of the output, positions do not.
    let rows = if layout.is_dense() { 0 } else { pixels / layout.window.output[2] };
    let columns = layout.columns();
    let of_rows = cycles(pixels, channels, tile) + PACKING * (pixels.div_ceil(tile.rows) + rows);
    let mut of_columns = cycles(channels, columns, tile);
    if !layout.is_in_place() {
        let rows = if layout.with_gaps { 0 } else { rows };
        of_columns += PACKING * (columns.div_ceil(tile.columns) + rows);
    }
    let of_rows = of_rows.saturating_mul(depth).saturating_add(pixels * channels);
    of_rows < of_columns.saturating_mul(depth) / 20 * 19
}

/// How many panels of columns are packed, and multiplied by all rows, before the next ones: with [`STEPS`], they have
/// 288 KiB.
const PANELS: usize = 4;

/// A convolution as products of its weights and of patches: a GEMM for each group.
pub(super) struct Im2colGemm<'a> {
    pub layout: &'a PatchLayout,
    pub groups: &'a [GroupWeights],
    pub bias: &'a [f32],
    pub activation: Activation,
    /// What numbers of each channel that are less than 0 are multiplied by.
    pub slopes: Option<&'a [f32]>,
}

impl Im2colGemm<'_> {
    /// `channels` are those of a group in the data.
    pub fn run(&self, data: &[f32], channels: usize, output: &mut [f32]) -> TractResult<()> {
        let window = &self.layout.window;
        let (image, pixels) = (channels * window.elements(), window.pixels());
        let products = output.len().saturating_mul(self.groups[0].depth());
        let division = Division::of(cost::PRODUCT.of(products));
        let group = self.groups[0].channels() * pixels;
        let mut groups: Vec<_> = output.chunks_mut(group).enumerate().collect();
        // Threads share the groups, or each of them.
        let count = groups.len();
        let (of_all, of_each) = match count >= division.threads() {
            true => (division, Division::alone()),
            false => (Division::alone(), division.of_part(count)),
        };
        of_all.for_each(&mut groups, |(number, output)| {
            let data = &data[*number * image..][..image];
            let number = *number % self.groups.len();
            let weights = &self.groups[number];
            let (shares, share_pixels) = match weights {
                GroupWeights::Rows(weights) => self.shares_of_rows(weights.rows, &of_each),
                GroupWeights::Columns(it) => self.shares_of_columns(it.columns, &of_each),
            };
            let in_bands = share_pixels && self.layout.has_bands();
            let of_all = || self.layout.lay_out(Vectors::detect(), channels, data);
            let laid_out = (!in_bands).then(of_all).transpose()?;
            let place = |column| match weights {
                GroupWeights::Rows(_) => self.layout.pixels_before_column(column),
                GroupWeights::Columns(_) => column,
            };
            shares.for_each_placed(output, pixels, place, |share, output| {
                match &laid_out {
                    Some(laid_out) => self.part(number, laid_out, share, output),
                    None => self.bands(number, channels, data, share, output)?,
                }
                Ok(())
            })
        })
    }

    /// Computes some channels of a group, and some pixels; or positions, if the layout has gaps.
    fn part(&self, group: usize, laid_out: &LaidOutChannels, share: Share, output: Output) {
        let weights = &self.groups[group];
        let channels = group * weights.channels()..(group + 1) * weights.channels();
        let bias = &self.bias[channels.clone()];
        let slopes = self.slopes.map(|slopes| &slopes[channels]);
        match weights {
            GroupWeights::Rows(rows) => {
                self.columns_of_pixels(rows, bias, slopes, laid_out, share, output)
            }
            GroupWeights::Columns(it) => {
                self.rows_of_pixels(it, bias, slopes, laid_out, share, output)
            }
        }
    }

    /// What threads compute where the weights are rows, and whether each has pixels of its own: otherwise they have channels of the output,
    /// and meet all pixels. That is faster where whole panels of pixels cannot be shared evenly, although each thread packs them all.
    fn shares_of_rows<'d>(&self, rows: usize, division: &'d Division) -> (Shares<'d>, bool) {
        let (layout, tile) = (self.layout, Tile::of(Vectors::detect()));
        let columns = layout.columns();
        let shares = match layout.has_bands() {
            // Each part lays out rows of its own, and some that others need too.
            true => Shares::of_columns(division, [rows, columns], tile.columns, 1),
            false => Shares::of_product(division, [rows, columns]),
        };
        let threads = division.threads();
        let of_each = rows.div_ceil(threads).next_multiple_of(tile.rows);
        if threads == 1 || of_each >= rows {
            return (shares, true);
        }
        let time = |rows: usize, columns: usize| {
            let packing = if layout.is_in_place() { 0 } else { columns.div_ceil(tile.lanes) };
            cycles(rows, columns, tile) + packing
        };
        // Whoever is first takes the next part.
        let mut of_threads = vec![0; threads];
        for share in &shares.shares {
            if let Some(first) = of_threads.iter_mut().min() {
                *first += time(share.rows.len(), share.columns.len());
            }
        }
        let of_columns = of_threads.into_iter().max().unwrap_or(0);
        // Each thread then also reads what the others have written.
        if time(of_each, columns) >= of_columns / 10 * 9 {
            return (shares, true);
        }
        let of_threads = (0..rows).step_by(of_each).map(|it| it..rows.min(it + of_each));
        (Shares::of_rows(division, of_threads, columns), false)
    }

    /// The same where the weights are columns. Threads have pixels if that is faster than what one thread does that has the most channels:
    /// whole panels of channels may be shared less evenly than those of pixels, and each thread packs its pixels alone.
    fn shares_of_columns<'d>(&self, channels: usize, division: &'d Division) -> (Shares<'d>, bool) {
        let (pixels, tile) = (self.layout.window.pixels(), Tile::of(Vectors::detect()));
        let of_channels = division.panels(channels, tile.columns, 1);
        let of_pixels = Shares::of_columns(division, [channels, pixels], tile.rows, 1);
        let time = |pixels: usize, channels: usize| {
            cycles(pixels, channels, tile) + PACKING * pixels.div_ceil(tile.rows)
        };
        let are_faster = || {
            let widest = of_channels.iter().map(Range::len).max().unwrap_or(0);
            let times = of_pixels.shares.iter().map(|share| time(share.columns.len(), channels));
            times.max() < Some(time(pixels, widest))
        };
        if of_pixels.shares.len() > 1 && are_faster() {
            return (of_pixels, true);
        }
        // Each packs what all pixels meet.
        (Shares::of_rows(division, of_channels, pixels), false)
    }

    /// Computes a part, so few columns at a time that what they meet stays in the second-level cache.
    fn bands(
        &self,
        group: usize,
        channels: usize,
        data: &[f32],
        share: Share,
        mut output: Output,
    ) -> TractResult<()> {
        /// What a band has beyond its pixels, for the kernel, is read again by the next one.
        const LEAST_ROWS: usize = 4;
        /// Half a megabyte: laying all out at once is slower. Images of tests are small.
        const ELEMENTS: usize = if cfg!(test) { 1 << 7 } else { 1 << 17 };
        let (layout, vectors) = (self.layout, Vectors::detect());
        if let GroupWeights::Columns(_) = &self.groups[group] {
            let positions = layout.positions_of_pixels(share.columns.clone());
            let laid_out = layout.lay_out_band(vectors, channels, data, positions)?;
            self.part(group, &laid_out, share, output);
            return Ok(());
        }
        let columns = share.columns;
        let width = layout.window.output[2];
        let all = columns.len() * channels;
        let most = columns.len().div_ceil(LEAST_ROWS * width);
        let count = all.div_ceil(ELEMENTS).min(most);
        let of_band = columns.len().div_ceil(count).next_multiple_of(Tile::of(vectors).columns);
        let pixels = |column| layout.pixels_before_column(column);
        let first = pixels(columns.start);
        for begin in columns.clone().step_by(of_band) {
            let columns = begin..(begin + of_band).min(columns.end);
            let positions = layout.positions_of_columns(columns.clone());
            let laid_out = layout.lay_out_band(vectors, channels, data, positions)?;
            let output = output.skip_columns(pixels(begin) - first);
            self.part(group, &laid_out, Share { rows: share.rows.clone(), columns }, output);
        }
        Ok(())
    }

    fn columns_of_pixels(
        &self,
        weights: &OperandA,
        bias: &[f32],
        slopes: Option<&[f32]>,
        laid_out: &LaidOutChannels,
        share: Share,
        mut output: Output,
    ) {
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let layout = self.layout;
        let block = (PANELS * tile.columns).min(share.columns.len());
        let gaps = if layout.with_gaps { share.rows.len() * block } else { 0 };
        let mut results = Scratch::new(gaps);
        let steps = STEPS.min(weights.depth);
        let mut columns = Scratch::new(steps * block.next_multiple_of(tile.lanes));
        let offsets = layout.is_in_place().then(|| laid_out.steps(weights.depth));
        let pixels = |column| layout.pixels_before_column(column);
        let first = pixels(share.columns.start);
        for column in share.columns.clone().step_by(block) {
            let width = (share.columns.end - column).min(block);
            let mut part = output.skip_columns(pixels(column) - first);
            let whole = if offsets.is_some() { width - width % tile.columns } else { 0 };
            for steps in parts(weights.depth) {
                let range = column + whole..column + width;
                vectors.run(PackPatchesAsB {
                    layout,
                    channels: laid_out,
                    range: range.clone(),
                    steps: steps.clone(),
                    columns: &mut columns,
                });
                let packed =
                    OperandB::Packed { panels: &columns, begin: 0, depth: steps.len(), next: None };
                let in_place = offsets.as_ref().map(|offsets| {
                    let (elements, offsets) = (laid_out.from(column), &offsets[steps.clone()]);
                    (OperandB::InPlace { elements, offsets }, 0, whole)
                });
                for (right, first, columns) in
                    in_place.into_iter().chain([(packed, whole, range.len())])
                {
                    if columns == 0 {
                        continue;
                    }
                    vectors.run(GemmBlock {
                        left: weights.view(),
                        right,
                        rows: share.rows.clone(),
                        columns,
                        steps: steps.clone(),
                        depth: weights.depth,
                        output: match layout.with_gaps {
                            true => Output::matrix(&mut results[first..], width),
                            false => part.skip_columns(first),
                        },
                        addend: Addend::OfRows(bias),
                        activation: self.activation,
                    });
                }
            }
            if layout.with_gaps {
                let positions = column..column + width;
                let results = &results[..share.rows.len() * width];
                vectors.run(Pick { layout, positions, results, output: part });
            }
            if let Some(slopes) = slopes {
                vectors.run(BelowZero {
                    rows: output.skip_columns(pixels(column) - first),
                    count: pixels(column + width) - pixels(column),
                    slopes: &slopes[share.rows.clone()],
                });
            }
        }
    }

    fn rows_of_pixels(
        &self,
        weights: &PackedB,
        bias: &[f32],
        slopes: Option<&[f32]>,
        laid_out: &LaidOutChannels,
        share: Share,
        mut output: Output,
    ) {
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let pixels = share.columns.len();
        let Range { start, end } = share.rows;
        let mut results = Scratch::new(pixels * (end - start));
        let mut rows = OperandA::scratch(pixels, STEPS.min(weights.depth));
        for steps in parts(weights.depth) {
            vectors.run(PackPatchesAsA {
                layout: self.layout,
                channels: laid_out,
                first: share.columns.start,
                steps: steps.clone(),
                rows: &mut rows,
            });
            for column in (start..end).step_by(tile.columns) {
                let columns = (end - column).min(tile.columns);
                let elements = &mut results[column - start..];
                vectors.run(GemmBlock {
                    left: rows.view(),
                    right: OperandB::Packed {
                        panels: &weights.elements[column * weights.depth..],
                        begin: steps.start,
                        depth: weights.depth,
                        next: None,
                    },
                    rows: 0..pixels,
                    columns,
                    steps: steps.clone(),
                    depth: weights.depth,
                    output: Output::matrix(elements, end - start),
                    addend: Addend::OfColumns(&bias[column..column + columns]),
                    activation: self.activation,
                });
            }
        }
        transpose(&results, pixels, &mut output);
        if let Some(slopes) = slopes {
            let (rows, slopes) = (output.skip_columns(0), &slopes[start..end]);
            vectors.run(BelowZero { rows, count: pixels, slopes });
        }
    }
}

/// Transposes a matrix of so many rows. Columns that share a line of the cache are read together.
fn transpose(matrix: &[f32], rows: usize, transposed: &mut Output) {
    const TOGETHER: usize = 16;
    let columns = matrix.len() / rows;
    for first in (0..columns).step_by(TOGETHER) {
        for column in first..columns.min(first + TOGETHER) {
            let places = &mut transposed.row(column)[..rows];
            let elements = matrix[column..].iter().step_by(columns);
            places.iter_mut().zip(elements).for_each(|(place, element)| *place = *element);
        }
    }
}
