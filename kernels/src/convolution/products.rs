use std::ops::Range;

use tract_core::internal::*;

use super::patches::{
    ChannelsFirstWindow, LaidOutChannels, PackPatchesAsA, PackPatchesAsB, PatchLayout, Pick,
};
use crate::memory::Scratch;
use crate::product::activation::{Activation, BelowZero};
use crate::product::{
    Addend, GemmBlock, OperandA, OperandB, Output, PackedB, SHARES, STEPS, Share, Tile, Vectors,
    WORK, cycles, parts, shares, shares_of_all_rows, shares_of_panels, shares_of_product,
};
use crate::threads::{fill_rows, for_each_on_threads, threads_for};

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
pub(super) fn prefers_rows(window: ChannelsFirstWindow, channels: usize, depth: usize) -> bool {
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

/// A share of the GEMM of a group, for one thread: some rows and columns of the product.
struct ConvolutionTask<'a> {
    /// Where the weights are rows: others meet all pixels.
    rows: Range<usize>,
    columns: Range<usize>,
    output: Output<'a>,
}

impl Im2colGemm<'_> {
    /// `channels` are those of a group in the data.
    pub fn run(&self, data: &[f32], channels: usize, output: &mut [f32]) -> TractResult<()> {
        let window = &self.layout.window;
        let (image, pixels) = (channels * window.elements(), window.pixels());
        let work = output.len().saturating_mul(self.groups[0].depth()) / WORK;
        let group = self.groups[0].channels() * pixels;
        let mut groups: Vec<_> = output.chunks_mut(group).enumerate().collect();
        // Threads share the groups, or each of them.
        let count = groups.len();
        let (of_all, of_each) =
            if count >= threads_for(work) { (work, 0) } else { (0, work / count) };
        fill_rows(&mut groups, 1, of_all, |_, groups| {
            for (number, output) in groups {
                let data = &data[*number * image..][..image];
                let number = *number % self.groups.len();
                let (mut parts, share_pixels) = self.parts(&self.groups[number], output, of_each);
                let in_bands = share_pixels && self.layout.has_bands();
                let of_all = || self.layout.lay_out(Vectors::detect(), channels, data);
                let laid_out = (!in_bands).then(of_all).transpose()?;
                for_each_on_threads(&mut parts, of_each, |part| {
                    match &laid_out {
                        Some(laid_out) => self.part(number, laid_out, part),
                        None => self.bands(number, channels, data, part)?,
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    }

    fn part(&self, group: usize, laid_out: &LaidOutChannels, part: &mut ConvolutionTask) {
        let weights = &self.groups[group];
        let channels = group * weights.channels()..(group + 1) * weights.channels();
        let bias = &self.bias[channels.clone()];
        let slopes = self.slopes.map(|slopes| &slopes[channels]);
        match weights {
            GroupWeights::Rows(rows) => self.columns_of_pixels(rows, bias, slopes, laid_out, part),
            GroupWeights::Columns(it) => self.rows_of_pixels(it, bias, slopes, laid_out, part),
        }
    }

    /// What threads compute, and whether each has pixels of its own: otherwise they have channels of the output, and meet all pixels.
    fn parts<'a>(
        &self,
        weights: &GroupWeights,
        output: &'a mut [f32],
        work: usize,
    ) -> (Vec<ConvolutionTask<'a>>, bool) {
        let layout = self.layout;
        let pixels = layout.window.pixels();
        match weights {
            GroupWeights::Rows(weights) => {
                let (channels, columns) = (weights.rows, layout.columns());
                let shares = match layout.has_bands() {
                    // Each part lays out rows of its own, and some that others need too.
                    true => shares_of_all_rows(channels, columns, work, 1),
                    false => shares_of_product(channels, columns, work, SHARES),
                };
                if let Some(rows) = self.shares_of_rows(weights.rows, &shares, work) {
                    let shares = output.chunks_mut(rows * pixels).enumerate();
                    let part = |(number, elements): (usize, &'a mut [f32])| {
                        let first = number * rows;
                        ConvolutionTask {
                            rows: first..weights.rows.min(first + rows),
                            columns: 0..layout.columns(),
                            output: Output::matrix(elements, pixels),
                        }
                    };
                    return (shares.map(part).collect(), false);
                }
                let place = |column| layout.pixels_before_column(column);
                let outputs = Output::of_shares(output, pixels, &shares, place);
                let part =
                    |(Share { rows, columns }, output)| ConvolutionTask { rows, columns, output };
                (shares.into_iter().zip(outputs).map(part).collect(), true)
            }
            GroupWeights::Columns(weights) => {
                let columns = shares(weights.columns, work, 1);
                let widest = columns.iter().map(Range::len).max().unwrap_or(0);
                if let Some(shares) = self.shares_of_pixels(weights.columns, widest, work) {
                    let outputs =
                        Output::of_columns(output, pixels, shares.iter().map(|it| it.end));
                    let shares = shares.iter().cloned().zip(outputs);
                    let part = |(rows, output): (Range<usize>, _)| ConvolutionTask {
                        columns: 0..weights.columns,
                        rows,
                        output,
                    };
                    return (shares.map(part).collect(), true);
                }
                // Each packs what all pixels meet.
                let mut rest = output;
                let part = |columns: Range<usize>| {
                    let (elements, others) =
                        std::mem::take(&mut rest).split_at_mut(columns.len() * pixels);
                    rest = others;
                    let output = Output::matrix(elements, pixels);
                    ConvolutionTask { rows: 0..pixels, columns, output }
                };
                (columns.into_iter().map(part).collect(), false)
            }
        }
    }

    /// Computes a part, so few columns at a time that what they meet stays in the second-level cache.
    fn bands(
        &self,
        group: usize,
        channels: usize,
        data: &[f32],
        part: &mut ConvolutionTask,
    ) -> TractResult<()> {
        /// What a band has beyond its pixels, for the kernel, is read again by the next one.
        const LEAST_ROWS: usize = 4;
        /// Half a megabyte: laying all out at once is slower. Images of tests are small.
        const ELEMENTS: usize = if cfg!(test) { 1 << 7 } else { 1 << 17 };
        let (layout, vectors) = (self.layout, Vectors::detect());
        if let GroupWeights::Columns(_) = &self.groups[group] {
            let positions = layout.positions_of_pixels(part.rows.clone());
            let laid_out = layout.lay_out_band(vectors, channels, data, positions)?;
            self.part(group, &laid_out, part);
            return Ok(());
        }
        let columns = part.columns.clone();
        let width = layout.window.output[2];
        let all = columns.len() * channels;
        let most = columns.len().div_ceil(LEAST_ROWS * width);
        let count = all.div_ceil(ELEMENTS).min(most);
        let step = columns.len().div_ceil(count).next_multiple_of(Tile::of(vectors).columns);
        let pixels = |column| layout.pixels_before_column(column);
        let first = pixels(columns.start);
        for begin in columns.clone().step_by(step) {
            let columns = begin..(begin + step).min(columns.end);
            let positions = layout.positions_of_columns(columns.clone());
            let laid_out = layout.lay_out_band(vectors, channels, data, positions)?;
            let output = part.output.skip_columns(pixels(begin) - first);
            let mut part = ConvolutionTask { rows: part.rows.clone(), columns, output };
            self.part(group, &laid_out, &mut part);
        }
        Ok(())
    }

    /// How many rows each thread takes, if that is faster than sharing the columns in these parts: it is where whole panels of
    /// columns cannot be shared evenly. Each thread then packs all columns.
    fn shares_of_rows(&self, rows: usize, shares: &[Share], work: usize) -> Option<usize> {
        let threads = threads_for(work);
        let tile = Tile::of(Vectors::detect());
        let share = rows.div_ceil(threads).next_multiple_of(tile.rows);
        if threads == 1 || share >= rows {
            return None;
        }
        let time = |rows: usize, columns: usize| {
            let packing = if self.layout.is_in_place() { 0 } else { columns.div_ceil(tile.lanes) };
            cycles(rows, columns, tile) + packing
        };
        // Whoever is first takes the next part.
        let mut of_threads = vec![0; threads];
        for share in shares {
            if let Some(first) = of_threads.iter_mut().min() {
                *first += time(share.rows.len(), share.columns.len());
            }
        }
        let of_columns = of_threads.into_iter().max()?;
        // Each thread then also reads what the others have written.
        (time(share, self.layout.columns()) < of_columns / 10 * 9).then_some(share)
    }

    /// The pixels of each thread, if that is faster than sharing the channels, of which one thread takes the most: whole panels of
    /// channels may be shared less evenly than those of pixels, and each thread packs its pixels alone.
    fn shares_of_pixels(
        &self,
        channels: usize,
        widest: usize,
        work: usize,
    ) -> Option<Vec<Range<usize>>> {
        let pixels = self.layout.window.pixels();
        let tile = Tile::of(Vectors::detect());
        let shares = shares_of_panels(pixels, tile.rows, work, 1);
        if shares.len() < 2 {
            return None;
        }
        let time = |pixels: usize, channels: usize| {
            cycles(pixels, channels, tile) + PACKING * pixels.div_ceil(tile.rows)
        };
        let of_pixels = shares.iter().map(|it| time(it.len(), channels)).max()?;
        (of_pixels < time(pixels, widest)).then_some(shares)
    }

    fn columns_of_pixels(
        &self,
        weights: &OperandA,
        bias: &[f32],
        slopes: Option<&[f32]>,
        laid_out: &LaidOutChannels,
        part: &mut ConvolutionTask,
    ) {
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let layout = self.layout;
        let block = (PANELS * tile.columns).min(part.columns.len());
        let gaps = if layout.with_gaps { part.rows.len() * block } else { 0 };
        let mut results = Scratch::new(gaps);
        let steps = STEPS.min(weights.depth);
        let mut columns = Scratch::new(steps * block.next_multiple_of(tile.lanes));
        let offsets = layout.is_in_place().then(|| laid_out.steps(weights.depth));
        let pixels = |column| layout.pixels_before_column(column);
        let first = pixels(part.columns.start);
        for column in part.columns.clone().step_by(block) {
            let width = (part.columns.end - column).min(block);
            let mut output = part.output.skip_columns(pixels(column) - first);
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
                        left_begin: steps.start,
                        right,
                        rows: part.rows.clone(),
                        columns,
                        steps: steps.clone(),
                        depth: weights.depth,
                        output: match layout.with_gaps {
                            true => Output::matrix(&mut results[first..], width),
                            false => output.skip_columns(first),
                        },
                        addend: Addend::OfRows(bias),
                        activation: self.activation,
                    });
                }
            }
            if layout.with_gaps {
                let positions = column..column + width;
                let results = &results[..part.rows.len() * width];
                vectors.run(Pick { layout, positions, results, output });
            }
            if let Some(slopes) = slopes {
                vectors.run(BelowZero {
                    rows: part.output.skip_columns(pixels(column) - first),
                    count: pixels(column + width) - pixels(column),
                    slopes: &slopes[part.rows.clone()],
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
        part: &mut ConvolutionTask,
    ) {
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let pixels = part.rows.len();
        let Range { start, end } = part.columns;
        let mut results = Scratch::new(pixels * (end - start));
        let mut rows = OperandA::scratch(pixels, STEPS.min(weights.depth));
        for steps in parts(weights.depth) {
            vectors.run(PackPatchesAsA {
                layout: self.layout,
                channels: laid_out,
                first: part.rows.start,
                steps: steps.clone(),
                rows: &mut rows,
            });
            for column in (start..end).step_by(tile.columns) {
                let columns = (end - column).min(tile.columns);
                let elements = &mut results[column - start..];
                vectors.run(GemmBlock {
                    left: rows.view(),
                    left_begin: 0,
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
        transpose(&results, pixels, &mut part.output);
        if let Some(slopes) = slopes {
            let (rows, slopes) = (part.output.skip_columns(0), &slopes[start..end]);
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
