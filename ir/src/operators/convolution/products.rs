use std::ops::Range;

use pulp::{Simd, WithSimd};
use tract_core::internal::*;
use tract_openvino::internal::{fill_rows, threads};

use super::patches::{Layout, PackColumns, PackRows, Pick};
use crate::operators::product::activation::Activation;
use crate::operators::product::{
    Addend, Columns, Product, Rows, STEPS, Tile, Vectors, cycles, parts,
};

/// The weights of a group, as a factor of a product. The other one is what the pixels meet.
#[derive(Debug, PartialEq)]
pub(super) enum Factor {
    /// A row for each channel of the output: the other factor has a column for each pixel or position.
    Rows(Rows),
    /// A column for each channel of the output: the other factor has a row for each pixel. Then there are no gaps, and
    /// few pixels need not fill vectors.
    Columns(Columns),
}

impl Factor {
    /// From a matrix with a row for each channel.
    pub fn pack(weights: &[f32], channels: usize, depth: usize, are_columns: bool) -> Factor {
        let tile = Tile::of(Vectors::detect());
        match are_columns {
            true => Factor::Columns(Columns::pack(weights, true, depth, channels, tile)),
            false => Factor::Rows(Rows::pack(weights, channels, depth, tile)),
        }
    }

    fn channels(&self) -> usize {
        match self {
            Factor::Rows(it) => it.rows,
            Factor::Columns(it) => it.columns,
        }
    }

    fn depth(&self) -> usize {
        match self {
            Factor::Rows(it) => it.depth,
            Factor::Columns(it) => it.depth,
        }
    }
}

impl Layout {
    /// Whether rows of pixels take less time than columns, in a product with some channels and steps. The result of the
    /// former has to be transposed.
    pub fn prefers_rows(&self, channels: usize, depth: usize) -> bool {
        let tile = Tile::of(Vectors::detect());
        let pixels: usize = self.window.output.iter().product();
        let of_columns = cycles(channels, self.columns(), tile).saturating_mul(depth);
        let of_rows = cycles(pixels, channels, tile).saturating_mul(depth);
        let transposing = pixels.saturating_mul(channels);
        of_rows.saturating_add(transposing) < of_columns / 20 * 19
    }
}

/// How many panels of columns are packed, and multiplied by all rows, before the next ones: with [`STEPS`], they have
/// 288 KiB.
const PANELS: usize = 4;

/// A convolution as products.
pub(super) struct Products<'a> {
    pub layout: &'a Layout,
    pub groups: &'a [Factor],
    pub bias: &'a [f32],
    pub activation: Activation,
}

/// Channels of the output that are computed together.
struct Share<'a> {
    /// The number of the group, counted through the batch.
    group: usize,
    channels: Range<usize>,
    pixels: &'a mut [f32],
}

impl Products<'_> {
    /// `channels` are those of a group in the data.
    pub fn run(&self, data: &[f32], channels: usize, output: &mut [f32]) -> TractResult<()> {
        let pixels: usize = self.layout.window.output.iter().product();
        let work = output.len().saturating_mul(self.groups[0].depth()) / WORK;
        let image = channels * self.layout.window.input.iter().product::<usize>();
        let mut shares = self.shares(output, pixels, threads(work));
        fill_rows(&mut shares, 1, work, |_, shares| {
            for share in shares {
                let weights = &self.groups[share.group % self.groups.len()];
                let data = &data[share.group * image..][..image];
                let laid_out = self.layout.lay_out(Vectors::detect(), data, 0.)?;
                match weights {
                    Factor::Rows(rows) => self.columns_of_pixels(rows, &laid_out, share),
                    Factor::Columns(columns) => self.rows_of_pixels(columns, &laid_out, share),
                }
            }
            Ok(())
        })
    }

    /// A share for each group, or more if there are more threads: each packs what the pixels meet.
    fn shares<'a>(&self, output: &'a mut [f32], pixels: usize, threads: usize) -> Vec<Share<'a>> {
        let tile = Tile::of(Vectors::detect());
        let channels = self.groups[0].channels();
        let panel = match self.groups[0] {
            Factor::Rows(_) => tile.rows,
            Factor::Columns(_) => tile.columns,
        };
        let groups = output.len() / (channels * pixels);
        let most = channels.div_ceil(threads.div_ceil(groups)).next_multiple_of(panel);
        let of_groups = output.chunks_mut(channels * pixels).enumerate();
        of_groups
            .flat_map(|(group, output)| {
                output.chunks_mut(most * pixels).enumerate().map(move |(number, output)| {
                    let first = number * most;
                    let channels = first..first + output.len() / pixels;
                    Share { group, channels, pixels: output }
                })
            })
            .collect()
    }

    /// The bias of the channels of a group.
    fn bias(&self, group: usize) -> &[f32] {
        let channels = self.groups[0].channels();
        &self.bias[group % self.groups.len() * channels..][..channels]
    }

    fn columns_of_pixels(&self, weights: &Rows, laid_out: &[f32], share: &mut Share) {
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let layout = self.layout;
        let pixels: usize = layout.window.output.iter().product();
        let rows = share.channels.clone();
        let block = (PANELS * tile.columns).min(layout.columns());
        let mut results = if layout.with_gaps { vec![0.; rows.len() * block] } else { vec![] };
        let mut columns = Columns::new(STEPS.min(weights.depth), block, tile);
        for column in (0..layout.columns()).step_by(block) {
            let width = (layout.columns() - column).min(block);
            for steps in parts(weights.depth) {
                vectors.run(PackColumns {
                    layout,
                    channels: laid_out,
                    range: column..column + width,
                    steps: steps.clone(),
                    columns: &mut columns,
                });
                let (output, stride) = match layout.with_gaps {
                    true => (&mut results[..], width),
                    false => (&mut share.pixels[column..], pixels),
                };
                vectors.run(Product {
                    left: weights,
                    left_begin: steps.start,
                    right: &columns.elements,
                    right_begin: 0,
                    right_depth: steps.len(),
                    rows: rows.clone(),
                    columns: width,
                    steps,
                    depth: weights.depth,
                    output,
                    stride,
                    addend: Addend::OfRows(self.bias(share.group)),
                    activation: self.activation,
                });
            }
            if layout.with_gaps {
                let positions = column..column + width;
                vectors.run(Pick { layout, positions, results: &results, output: share.pixels });
            }
        }
    }

    fn rows_of_pixels(&self, weights: &Columns, laid_out: &[f32], share: &mut Share) {
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let pixels: usize = self.layout.window.output.iter().product();
        let Range { start, end } = share.channels;
        let mut results = vec![0.; pixels * (end - start)];
        let mut rows = Rows::new(pixels, STEPS.min(weights.depth));
        for steps in parts(weights.depth) {
            vectors.run(PackRows {
                layout: self.layout,
                channels: laid_out,
                steps: steps.clone(),
                rows: &mut rows,
            });
            for column in (start..end).step_by(tile.columns) {
                let columns = (end - column).min(tile.columns);
                vectors.run(Product {
                    left: &rows,
                    left_begin: 0,
                    right: &weights.elements[column * weights.depth..],
                    right_begin: steps.start,
                    right_depth: weights.depth,
                    rows: 0..pixels,
                    columns,
                    steps: steps.clone(),
                    depth: weights.depth,
                    output: &mut results[column - start..],
                    stride: end - start,
                    addend: Addend::OfColumns(&self.bias(share.group)[column..column + columns]),
                    activation: self.activation,
                });
            }
        }
        vectors.run(Transpose { matrix: &results, rows: pixels, transposed: share.pixels });
    }
}

/// A step of a sum in thirds of a nanosecond, as a divisor: see [`threads`].
const WORK: usize = 32;

/// Makes the columns of a matrix rows.
struct Transpose<'a> {
    matrix: &'a [f32],
    rows: usize,
    transposed: &'a mut [f32],
}

/// How many columns are done at once: a line of the cache.
const TOGETHER: usize = 16;

impl WithSimd for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Transpose { matrix, rows, transposed } = self;
        let columns = matrix.len() / rows;
        for (number, transposed) in transposed.chunks_mut(TOGETHER * rows).enumerate() {
            let together = transposed.len() / rows;
            for row in 0..rows {
                let elements = &matrix[row * columns + number * TOGETHER..][..together];
                let places = transposed[row..].iter_mut().step_by(rows);
                places.zip(elements).for_each(|(place, element)| *place = *element);
            }
        }
    }
}
