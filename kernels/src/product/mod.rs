//! Products of matrices in single precision (GEMM), `C = A B`: what convolutions, fully connected layers, products of computed
//! factors and attention are made of.
//!
//! All three matrices are row-major. A vector of the processor holds neighbours of a row of `C`: a row of `B` is
//! read in vectors, and is multiplied by one element of `A` at a time. Factors are packed for that (but for rows of `A` on
//! AVX-512, which may stay where they are), into panels: `A` into some rows, and `B` into some vectors of columns. Within a panel the steps of the sum follow
//! each other. A tile of `C`, the product of two panels, stays in registers.
//!
//! * `panels.rs` has the layout of packed factors;
//! * `kernel.rs` multiplies them, a tile of `C` at a time: the microkernel;
//! * `avx512.rs` has its loop where vectors have 16 numbers;
//! * `output.rs` says where the product goes;
//! * `dots.rs` has the product of one row and the transpose of a matrix (GEMV), which is read as it is;
//! * `activation.rs` has the functions that are applied to `C` while it is in registers;
//! * `gelu.rs` has one of them as an operator, where tract's is not 0;
//! * `half.rs` has another one as an operator.
//!
//! tract's own products are tiles of 16 by 8 or 12 without a limit on the steps, which on a processor with AVX-512
//! and 32 KiB of first-level cache reach half of what it can do: see `docs/tract.md`.

pub(super) mod activation;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dots;
pub mod gelu;
pub(crate) mod half;
mod kernel;
mod output;
mod panels;
#[cfg(test)]
pub(super) mod tests;

use std::ops::Range;

use tract_core::prelude::TractResult;

use crate::threads::{even_parts, for_each_on_threads, threads_for};
use activation::Activation;

/// How many steps of a sum are done at once, so that what is multiplied stays in the caches: a panel of 48 columns
/// has 72 KiB of them, and one of 16, where vectors are short, 24 KiB.
pub(super) const STEPS: usize = 384;

/// How many products of two numbers a processor computes in a third of a nanosecond, the unit of work for [`threads_for`].
pub(super) const WORK: usize = 32;

/// The steps of a sum, some at a time.
pub(super) fn parts(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let most = depth.div_ceil(depth.div_ceil(STEPS).max(1)).max(1);
    (0..depth).step_by(most).map(move |first| first..(first + most).min(depth))
}

/// Columns of a product, for the threads that share this work: so many parts for each thread, if there are panels for that, of as
/// many whole panels each as the others, or one more.
pub(super) fn shares(columns: usize, work: usize, of_a_thread: usize) -> Vec<Range<usize>> {
    shares_of_panels(columns, Tile::of(Vectors::detect()).columns, work, of_a_thread)
}

/// The same with panels of so many columns.
pub(super) fn shares_of_panels(
    columns: usize,
    panel: usize,
    work: usize,
    of_a_thread: usize,
) -> Vec<Range<usize>> {
    let panels = columns.div_ceil(panel);
    let count = match threads_for(work) {
        1 => panels.min(1),
        threads => panels.min(of_a_thread * threads),
    };
    even_parts(0..panels, count)
        .map(|panels| (panels.start * panel).min(columns)..(panels.end * panel).min(columns))
        .collect()
}

/// What a thread computes of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    /// Begins with a whole panel.
    pub rows: Range<usize>,
    /// Begins with a whole panel.
    pub columns: Range<usize>,
}

/// A product for the threads that share this work. Each thread gets as many panels of columns, in so many parts, of all rows. Of the
/// panels that are left over, parts have some of the rows each.
///
/// Without the latter, one of two threads had 6 of the 11 panels of 512 columns: networks of such products took 1.04 times as long,
/// and prompts of language models, whose weights are unpacked again for each part, 1.05 times (AMD EPYC, family 26 model 2).
pub(super) fn shares_of_product(
    rows: usize,
    columns: usize,
    work: usize,
    of_a_thread: usize,
) -> Vec<Share> {
    /// What is packed or unpacked for a part should meet some tiles.
    const LEAST_TILES: usize = 4;
    let tile = Tile::of(Vectors::detect());
    let threads = threads_for(work);
    // The last panel may be a part of one.
    let of_each = columns / (threads * tile.columns);
    let panels = columns.div_ceil(tile.columns);
    let rest = panels - threads * of_each;
    let tiles = rows.div_ceil(tile.rows);
    let pieces = (tiles / LEAST_TILES).min(2 * threads);
    // Parts of some rows are read by whoever comes next, and should be few.
    if threads == 1 || rest == 0 || rest >= of_each || pieces < 2 {
        return shares_of_all_rows(rows, columns, work, of_a_thread);
    }
    // They are where the parts of the first thread end.
    let left_over = of_each..of_each + rest;
    let share = |tiles: Range<usize>, panels: Range<usize>| Share {
        rows: tiles.start * tile.rows..(tiles.end * tile.rows).min(rows),
        columns: panels.start * tile.columns..(panels.end * tile.columns).min(columns),
    };
    let of_all_rows = |panels: Range<usize>, threads: usize| {
        let count = panels.len().min(of_a_thread * threads);
        even_parts(panels, count).map(|panels| share(0..tiles, panels))
    };
    of_all_rows(0..left_over.start, 1)
        .chain(even_parts(0..tiles, pieces).map(|tiles| share(tiles, left_over.clone())))
        .chain(of_all_rows(left_over.end..panels, threads - 1))
        .collect()
}

/// The same without parts of some rows.
pub(super) fn shares_of_all_rows(
    rows: usize,
    columns: usize,
    work: usize,
    of_a_thread: usize,
) -> Vec<Share> {
    let columns = shares(columns, work, of_a_thread).into_iter();
    columns.map(|columns| Share { rows: 0..rows, columns }).collect()
}

/// Calls a function with some rows and columns of a matrix, and with this part of it, on the threads that share the work.
pub(super) fn for_each_share(
    matrix: &mut [f32],
    columns: usize,
    shares: Vec<Share>,
    work: usize,
    each: impl Fn(Share, Output) -> TractResult<()> + Sync,
) -> TractResult<()> {
    let outputs = Output::of_shares(matrix, columns, &shares, |column| column);
    let mut parts: Vec<_> = shares.into_iter().zip(outputs).collect();
    for_each_on_threads(&mut parts, work, |(share, output)| {
        each(share.clone(), output.skip_columns(0))
    })
}

/// Calls a function with some columns of a matrix, and with this part of it, on the threads that share the work.
pub(super) fn for_each_columns<T: Send>(
    matrix: &mut [T],
    columns: usize,
    shares: Vec<Range<usize>>,
    work: usize,
    each: impl Fn(Range<usize>, Output<T>) -> TractResult<()> + Sync,
) -> TractResult<()> {
    let parts = Output::of_columns(matrix, columns, shares.iter().map(|columns| columns.end));
    let mut parts: Vec<_> = shares.iter().cloned().zip(parts).collect();
    for_each_on_threads(&mut parts, work, |(columns, part)| {
        each(columns.clone(), part.skip_columns(0))
    })
}

/// Parts for each thread, if sharing costs nothing: a late thread then finds less to do.
pub(super) const SHARES: usize = 4;

pub use crate::isa::Vectors;
pub(super) use dots::Gemv;
pub(super) use kernel::{Addend, GemmBlock, OperandB, load, max_or_second, store};
pub(super) use output::Output;
pub(super) use panels::{OperandA, PackedB, PackedBatchOfB, Tile, cycles, row_panels};

/// The product of operands `A` and `B`, `B` packed, from a panel of columns on. A sum of nothing writes nothing, not even the bias.
///
/// All rows meet a panel before the next one: weights that come from memory are waited for panel by panel. With four
/// panels at a time a BERT took 1.03 times as long (AMD Zen 5).
pub(super) struct PackedGemm<'a> {
    pub left: OperandA<&'a [f32]>,
    pub right: PackedB<&'a [f32]>,
    /// What few rows will meet after it, of the same size.
    pub next: Option<&'a [f32]>,
    pub columns: Range<usize>,
    /// Begins with the first of the columns.
    pub output: Output<'a>,
    /// A number for each column of `B`.
    pub bias: Option<&'a [f32]>,
    pub activation: Activation,
}

impl PackedGemm<'_> {
    pub fn run(mut self, vectors: Vectors) {
        let block = Tile::of(vectors).columns;
        let PackedB { depth, columns, elements } = self.right;
        // A part of a panel would be read as a narrower one.
        let end = self.columns.end;
        assert!(end == columns || end.is_multiple_of(block), "{end} of {columns} columns");
        for first in self.columns.clone().step_by(block) {
            let columns = (self.columns.end - first).min(block);
            for steps in parts(depth) {
                vectors.run(GemmBlock {
                    left: self.left,
                    left_begin: steps.start,
                    right: OperandB::Packed {
                        panels: &elements[first * depth..],
                        begin: steps.start,
                        depth,
                        next: self.next.map(|next| &next[first * depth..]),
                    },
                    rows: 0..self.left.rows,
                    columns,
                    depth,
                    output: self.output.skip_columns(first - self.columns.start),
                    addend: match self.bias {
                        Some(bias) => Addend::OfColumns(&bias[first..first + columns]),
                        None => Addend::Zero,
                    },
                    activation: self.activation,
                    steps,
                });
            }
        }
    }
}
