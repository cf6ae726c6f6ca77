//! Products of matrices in single precision (GEMM), `C = A B`: what fully connected layers, products of computed factors and attention are
//! made of. Convolutions have their own, whose rows are read where the image has them.
//!
//! All three matrices are row-major. A vector of the processor holds neighbours of a row of `C`: a row of `B` is
//! read in vectors, and is multiplied by one element of `A` at a time. Factors are packed for that (but for rows of `A` on
//! AVX-512, which may stay where they are), into panels: `A` into some rows, and `B` into some vectors of columns. Within a panel the
//! steps of the sum follow each other. A tile of `C`, the product of two panels, stays in registers.
//!
//! * `element.rs` says what factors consist of: numbers in single precision, or pairs of such in bf16;
//! * `panels.rs` has the layout of packed factors;
//! * `kernel.rs` multiplies them, a tile of `C` at a time: the microkernel;
//! * `avx512.rs` has its loop where vectors have 16 numbers;
//! * `output.rs` says where the product goes;
//! * `shares.rs` says what each thread computes of it;
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
mod element;
pub mod gelu;
pub(crate) mod half;
mod kernel;
mod output;
mod panels;
mod shares;
#[cfg(test)]
pub(super) mod tests;

use std::ops::Range;

use activation::Activation;

/// How many steps of a sum are done at once, so that what is multiplied stays in the caches: a panel of 48 columns
/// has 72 KiB of them, and one of 16, where vectors are short, 24 KiB.
pub(super) const STEPS: usize = 384;

/// How many elements of a sum are done at once on the processor's tiles, which read panels from the second-level cache: writing the sums
/// of each part takes longer than they do.
const ELEMENTS_FOR_TILES: usize = if cfg!(test) { 32 } else { 2048 };

/// The elements of a sum, some at a time.
pub(super) fn parts<T: Element>(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let most = if T::are_for_tiles() { ELEMENTS_FOR_TILES } else { STEPS };
    let most = depth.div_ceil(depth.div_ceil(most).max(1)).max(1);
    // Whole tiles.
    let most = if T::are_for_tiles() { most.next_multiple_of(16) } else { most };
    (0..depth).step_by(most).map(move |first| first..(first + most).min(depth))
}

pub use crate::isa::Vectors;
pub(super) use dots::multiply_row_by_row;
#[cfg(target_arch = "x86_64")]
pub(super) use element::round_to_bf16;
pub(super) use element::{Bf16Pair, Element, convert_panel};
pub(super) use kernel::{Addend, GemmBlock, OperandB, load, store};
pub(super) use output::Output;
pub(super) use panels::{OperandA, PackedB, PackedBatchOfB, SAME_PLACE, Tile, UnpackedB, narrower};
pub(super) use shares::{PARTS, Share, Shares};

/// The product of operands `A` and `B`, `B` packed, from a panel of columns on. A sum of nothing writes nothing, not even the bias.
///
/// A block of rows meets a panel before the next one: weights that come from memory are waited for panel by panel. Four panels
/// at a time are slower; but with the processor's tiles, as many short ones as the first-level cache has room for are a block.
pub(super) struct PackedGemm<'a, T = f32> {
    pub left: OperandA<&'a [T]>,
    pub right: PackedB<&'a [T]>,
    /// What few rows will meet after it, of the same size.
    pub next: Option<&'a [T]>,
    pub columns: Range<usize>,
    /// Begins with the first of the columns.
    pub output: Output<'a>,
    /// A number for each column of `B`.
    pub bias: Option<&'a [f32]>,
    pub activation: Activation,
}

impl<'a, T: Element> PackedGemm<'a, T> {
    /// The product alone.
    pub fn of(
        left: OperandA<&'a [T]>,
        right: PackedB<&'a [T]>,
        output: Output<'a>,
    ) -> PackedGemm<'a, T> {
        let (columns, activation) = (0..right.columns, Activation::Identity);
        PackedGemm { left, right, next: None, columns, output, bias: None, activation }
    }

    /// Once in the program: it is compiled for all vectors.
    #[inline(never)]
    pub fn run(mut self, vectors: Vectors) {
        let tile = Tile::of(vectors);
        let PackedB { depth, columns, elements } = self.right;
        // A part of a panel would be read as a narrower one.
        let end = self.columns.end;
        assert!(end == columns || end.is_multiple_of(tile.columns), "{end} of {columns} columns");
        let bytes_of_panel = tile.columns * depth * size_of::<T>();
        let columns_of_block = tile.columns
            * match T::are_for_tiles() {
                true => (BYTES_OF_PANELS / bytes_of_panel.max(1)).max(1),
                false => 1,
            };
        for rows in row_blocks(self.left.rows, depth * size_of::<T>(), tile.rows) {
            let mut output = self.output.skip_rows(rows.start);
            for first in self.columns.clone().step_by(columns_of_block) {
                let columns = (self.columns.end - first).min(columns_of_block);
                for steps in parts::<T>(depth) {
                    vectors.run(GemmBlock {
                        left: self.left.part(rows.clone()),
                        right: OperandB {
                            panels: &elements[first * depth..],
                            begin: steps.start,
                            depth,
                            next: self.next.map(|next| &next[first * depth..]),
                            asks: columns_of_block == tile.columns,
                        },
                        rows: 0..rows.len(),
                        columns,
                        depth,
                        output: output.skip_columns(first - self.columns.start),
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
}

/// The most bytes of several panels that the processor's tiles multiply in a block of rows before the next panels.
const BYTES_OF_PANELS: usize = if cfg!(test) { 1 << 13 } else { 32 << 10 };

/// About how many bytes of rows meet all panels before the next rows, so that they stay in the second-level cache.
const BYTES_OF_ROWS: usize = if cfg!(test) { 1 << 12 } else { 512 << 10 };

/// The fewest rows of a block, as all weights are read for each.
const LEAST_ROWS_OF_BLOCK: usize = if cfg!(test) { 16 } else { 96 };

/// Rows in blocks of about the same size, which begin with whole panels.
fn row_blocks(rows: usize, bytes: usize, panel: usize) -> impl Iterator<Item = Range<usize>> {
    let most = (BYTES_OF_ROWS / bytes.max(1)).max(LEAST_ROWS_OF_BLOCK);
    let block = rows.div_ceil(rows.div_ceil(most).max(1)).next_multiple_of(panel).max(panel);
    (0..rows).step_by(block).map(move |first| first..rows.min(first + block))
}
