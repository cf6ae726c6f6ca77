//! The GEMM of a thread: a block of the output, tile by tile, on vectors of any size.

use std::ops::Range;

use pulp::bytemuck::cast_slice;
use pulp::{NullaryFnOnce, Simd, WithSimd, as_arrays, as_arrays_mut};

use super::activation::Activation;
#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::element::Element;
use super::output::Output;
use super::panels::{LayoutOfA, OperandA, Tile, row_panels};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Amx, BLOCK_ROWS, TILE_ROWS, TILE_STEPS, TileFactors, TileRows, TileShape, Tiles};

/// What a sum begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Addend<'a> {
    /// A number for each column of this part of `C`.
    OfColumns(&'a [f32]),
    Zero,
}

/// Operand `B` of a part of a product: panels of columns.
#[derive(Debug)]
pub(crate) struct OperandB<'a, T = f32> {
    pub panels: &'a [T],
    /// The step of the panels that the steps of the part begin with.
    pub begin: usize,
    /// The steps of the panels.
    pub depth: usize,
    /// What few rows will meet after them, of the same size.
    pub next: Option<&'a [T]>,
    /// Whether tiles ask for what follows in memory, as that is met next and may be far away.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX asks"))]
    pub asks: bool,
}

/// A block of a GEMM: some rows, some columns, and some steps of their sums. The first steps begin with the addend,
/// later ones with what is in `C` already, and the last ones apply the activation. A step is one of elements, which may have several.
#[derive(Debug)]
pub(crate) struct GemmBlock<'a, T = f32> {
    /// It has all steps of the sum, or those of this part alone.
    pub left: OperandA<&'a [T]>,
    pub right: OperandB<'a, T>,
    /// Begins with a whole panel.
    pub rows: Range<usize>,
    pub columns: usize,
    /// The part of the sum.
    pub steps: Range<usize>,
    /// All steps of the sum.
    pub depth: usize,
    /// Begins with the first of the rows.
    pub output: Output<'a>,
    pub addend: Addend<'a>,
    pub activation: Activation,
}

impl<T: Element> WithSimd for GemmBlock<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let output = &mut std::mem::replace(&mut self.output, Output::matrix(&mut [], 0));
        #[cfg(target_arch = "x86_64")]
        if let Some(isa) = T::tiles().filter(|_| self.are_tiles::<S>()) {
            return self.blocks_of_tiles(simd, isa, output);
        }
        match Tile::of_simd::<S>().vectors() {
            3 => self.tiles_of_vectors::<S, 3>(simd, output),
            _ => self.tiles_of_vectors::<S, 2>(simd, output),
        }
    }
}

impl<T: Element> GemmBlock<'_, T> {
    /// The tiles of whole panels of so many vectors.
    #[inline(always)]
    fn tiles_of_vectors<S: Simd, const W: usize>(&self, simd: S, output: &mut Output) {
        for (first, width) in row_panels(self.rows.clone(), Tile::of_simd::<S>().rows) {
            match width {
                8 => simd.vectorize(RowsOfTiles::<_, _, 8, W>(simd, self, first, output)),
                6 => simd.vectorize(RowsOfTiles::<_, _, 6, W>(simd, self, first, output)),
                4 => simd.vectorize(RowsOfTiles::<_, _, 4, W>(simd, self, first, output)),
                2 => simd.vectorize(RowsOfTiles::<_, _, 2, W>(simd, self, first, output)),
                _ => simd.vectorize(RowsOfTiles::<_, _, 1, W>(simd, self, first, output)),
            }
        }
    }

    /// Whether the processor's tiles multiply it (AMX): several rows of a matrix, and whole tiles of steps.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn are_tiles<S: Simd>(&self) -> bool {
        S::F32_LANES == avx512::LANES
            && self.left.layout == LayoutOfA::Matrix
            && self.rows.len() > 1
            && !self.steps.is_empty()
            && self.steps.len().is_multiple_of(TILE_STEPS)
    }

    /// The blocks of the processor's tiles: rows meet all panels before the next ones.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn blocks_of_tiles<S: Simd>(&self, simd: S, isa: Amx, output: &mut Output) {
        let shape = TileShape { rows: self.rows.len(), steps: TILE_STEPS };
        let tiles = &mut Tiles::configured(isa, shape);
        let tile = Tile::of_simd::<S>();
        for row in self.rows.clone().step_by(BLOCK_ROWS) {
            for column in (0..self.columns).step_by(tile.columns) {
                let at = [row, column];
                match (self.columns - column).div_ceil(tile.lanes).min(tile.vectors()) {
                    3 => simd.vectorize(BlockOfTiles::<_, _, 3>(simd, self, at, tiles, output)),
                    2 => simd.vectorize(BlockOfTiles::<_, _, 2>(simd, self, at, tiles, output)),
                    _ => simd.vectorize(BlockOfTiles::<_, _, 1>(simd, self, at, tiles, output)),
                }
            }
        }
    }

    /// Some rows of a panel of `V` vectors of columns, on the processor's tiles.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn block_of_tiles<S: Simd, const V: usize>(
        &self,
        simd: S,
        [first, first_column]: [usize; 2],
        tiles: &mut Tiles,
        output: &mut Output,
    ) {
        let OperandB { panels, begin, depth, asks, .. } = self.right;
        let width = V * S::F32_LANES;
        let right = &panels[first_column * depth + begin * width..];
        let (right, after) = right.split_at(self.steps.len() * width);
        let next: &[u8] = match asks {
            true => cast_slice(&after[..after.len().min(right.len())]),
            false => &[],
        };
        let right = cast_slice::<_, i8>(right).as_chunks().0;
        let right = right.as_chunks::<{ avx512::LANES }>().0.as_chunks::<V>().0;
        let depth = self.left.depth;
        let first_step = if depth == self.depth { self.steps.start } else { 0 };
        let distance = depth * size_of::<T>();
        let Range { start, end } = self.rows;
        // Each block of rows asks for its part.
        let of_block = next.len().div_ceil((end - start).div_ceil(BLOCK_ROWS)).max(1);
        let next = next.chunks(of_block).nth((first - start) / BLOCK_ROWS).unwrap_or(&[]);
        // Tiles may begin with rows that were computed before.
        let last_begin = end.saturating_sub(TILE_ROWS).max(start);
        let begins = [first, first + TILE_ROWS].map(|row| row.min(last_begin));
        let rows = TileRows {
            bytes: cast_slice(&self.left.elements[begins[0] * depth + first_step..]),
            distance,
            second: (begins[1] - begins[0]) * distance,
            tap_offsets: &[0],
            next,
        };
        let count = if end - first <= TILE_ROWS { 1 } else { 2 };
        let sums = match count {
            1 => tiles.multiply::<1, V>(TileFactors::Bf16, rows, right, None),
            _ => tiles.multiply::<2, V>(TileFactors::Bf16, rows, right, None),
        };
        let mut next = first;
        for (tile, begin) in begins.into_iter().take(count).enumerate() {
            let new = next..end.min(begin + TILE_ROWS);
            let sums = &sums[tile * TILE_ROWS + (new.start - begin)..][..new.len()];
            next = new.end;
            for (row, count) in row_panels(0..new.len(), Tile::of_simd::<S>().rows) {
                let at = [new.start + row, first_column];
                let sums = &sums[row..][..count];
                match count {
                    8 => self.finish_stored::<S, 8, V>(simd, at, sums, output),
                    4 => self.finish_stored::<S, 4, V>(simd, at, sums, output),
                    2 => self.finish_stored::<S, 2, V>(simd, at, sums, output),
                    _ => self.finish_stored::<S, 1, V>(simd, at, sums, output),
                }
            }
        }
    }

    /// Writes some rows of sums in single precision, which are in memory.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn finish_stored<S: Simd, const N: usize, const V: usize>(
        &self,
        simd: S,
        at: [usize; 2],
        stored: &[[[i32; avx512::LANES]; V]],
        output: &mut Output,
    ) {
        let mut sums = [[simd.splat_f32s(0.); V]; N];
        for row in 0..N {
            let numbers: &[f32] = cast_slice(stored[row].as_flattened());
            sums[row] = *whole_vectors::<S, V>(numbers);
        }
        self.finish::<S, N, V>(simd, at, sums, output);
    }

    /// All columns of a panel of rows.
    #[inline(always)]
    fn rows_of_tiles<S: Simd, const N: usize, const W: usize>(
        &self,
        simd: S,
        first_row: usize,
        output: &mut Output,
    ) {
        let tile = Tile::of_simd::<S>();
        let steps = self.steps.len();
        let depth = self.left.depth;
        let panel = &self.left.elements[first_row * depth..][..N * depth];
        let is_packed = self.left.layout == LayoutOfA::Panels;
        let first_step = if depth == self.depth { self.steps.start } else { 0 };
        let left = &as_arrays::<N, T>(panel).0[first_step..][..steps];
        for first in (0..self.columns).step_by(tile.columns) {
            let at = [first_row, first];
            let OperandB { panels, begin, depth, next, .. } = self.right;
            let vectors = (self.columns - first).div_ceil(tile.lanes).min(W);
            let width = vectors * tile.lanes;
            let right = &panels[first * depth..][..width * depth];
            let right = &right[begin * width..][..steps * width];
            #[cfg(target_arch = "x86_64")]
            if W == avx512::VECTORS
                && S::F32_LANES == avx512::LANES
                && let Some(proof) = T::proof()
            {
                // The columns are one panel, and another one follows.
                let is_followed = self.columns == tile.columns && panels.len() > width * depth;
                let number = (first_row - self.rows.start) / tile.rows;
                let count = self.rows.len() / tile.rows;
                let ask = match next {
                    Some(next) if first_row == self.rows.start => {
                        avx512::PanelPrefetch::All(&next[first * depth + begin * width..])
                    }
                    None if is_followed => avx512::PanelPrefetch::Part { number, count },
                    _ => avx512::PanelPrefetch::Nothing,
                };
                let is_tile = N == tile.rows && steps >= avx512::LEAST_STEPS && is_followed;
                if T::ALWAYS || !is_packed || next.is_some() || is_tile {
                    let left = match is_packed {
                        true => avx512::RowsOfA {
                            elements: left.as_flattened(),
                            row_stride: 1,
                            step_stride: N,
                        },
                        false => {
                            let elements = &panel[first_step..];
                            avx512::RowsOfA {
                                elements,
                                row_stride: self.left.depth,
                                step_stride: 1,
                            }
                        }
                    };
                    macro_rules! tile {
                        ($vectors:literal) => {{
                            let sums =
                                avx512::sums::<S, T, N, $vectors>(simd, proof, left, right, ask);
                            self.finish::<S, N, $vectors>(simd, at, sums, output);
                        }};
                    }
                    match vectors {
                        3 => tile!(3),
                        2 => tile!(2),
                        _ => tile!(1),
                    }
                    continue;
                }
            }
            // Only AVX-512 asks for it.
            let _ = next;
            assert!(is_packed, "the left factor must be packed");
            let right = S::as_simd_f32s(cast_slice(right)).0;
            match vectors {
                3 if W == 3 => {
                    let right = as_arrays::<3, S::f32s>(right).0.iter();
                    self.tile::<S, N, 3>(simd, at, left, right, output);
                }
                2 => {
                    let right = as_arrays::<2, S::f32s>(right).0.iter();
                    self.tile::<S, N, 2>(simd, at, left, right, output);
                }
                _ => {
                    let right = as_arrays::<1, S::f32s>(right).0.iter();
                    self.tile::<S, N, 1>(simd, at, left, right, output);
                }
            }
        }
    }

    #[inline(always)]
    fn tile<'r, S: Simd, const N: usize, const V: usize>(
        &self,
        simd: S,
        at: [usize; 2],
        left: &[[T; N]],
        right: impl Iterator<Item = &'r [S::f32s; V]>,
        output: &mut Output,
    ) {
        let mut sums = [[simd.splat_f32s(0.); V]; N];
        for (left, right) in left.iter().zip(right) {
            for row in 0..N {
                for vector in 0..V {
                    sums[row][vector] =
                        T::multiply_add(simd, right[vector], left[row], sums[row][vector]);
                }
            }
        }
        self.finish::<S, N, V>(simd, at, sums, output);
    }

    /// Writes a tile.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn finish<S: Simd, const N: usize, const V: usize>(
        &self,
        simd: S,
        [first_row, first_column]: [usize; 2],
        sums: [[S::f32s; V]; N],
        output: &mut Output,
    ) {
        let is_last = self.steps.end == self.depth;
        let activation = if is_last { self.activation } else { Activation::Identity };
        let lanes = S::F32_LANES;
        let width = (self.columns - first_column).min(V * lanes);
        if width == V * lanes {
            self.store_whole(simd, [first_row, first_column], sums, activation, output);
            return;
        }
        // A copy: what follows is no loop of constants, and would keep the sums in memory all the time.
        let mut stored = [[simd.splat_f32s(0.); V]; N];
        for row in 0..N {
            for vector in 0..V {
                stored[row][vector] = sums[row][vector];
            }
        }
        for row in 0..N {
            let output = output.row(first_row + row - self.rows.start);
            let output = &mut output[first_column..][..width];
            for vector in 0..V {
                let begin = vector * lanes;
                let end = (begin + lanes).min(width);
                let part = &mut output[begin..end];
                let addend = match self.addend {
                    _ if self.steps.start > 0 => load(simd, part),
                    Addend::Zero => simd.splat_f32s(0.),
                    Addend::OfColumns(numbers) => {
                        load(simd, &numbers[first_column + begin..first_column + end])
                    }
                };
                let sum = simd.add_f32s(stored[row][vector], addend);
                store(simd, part, activation.apply(simd, sum));
            }
        }
    }

    /// Adds the addend, applies the activation and writes a tile of whole vectors. What is done to all sums is decided once,
    /// so that they stay in registers.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "loops of constants keep the sums in registers")]
    fn store_whole<S: Simd, const N: usize, const V: usize>(
        &self,
        simd: S,
        [first_row, first_column]: [usize; 2],
        mut sums: [[S::f32s; V]; N],
        activation: Activation,
        output: &mut Output,
    ) {
        let columns = first_column..first_column + V * S::F32_LANES;
        let places = output.rows::<N>(first_row - self.rows.start, columns.clone());
        match self.addend {
            _ if self.steps.start > 0 => {
                for row in 0..N {
                    sums[row] = added(simd, sums[row], *whole_vectors::<S, V>(places[row]));
                }
            }
            Addend::Zero => (),
            Addend::OfColumns(numbers) => {
                let numbers = *whole_vectors::<S, V>(&numbers[columns]);
                for row in 0..N {
                    sums[row] = added(simd, sums[row], numbers);
                }
            }
        }
        if let Activation::Clamp { min, max } = activation {
            // Said again, so that each of the loops has this function alone.
            let clamp = Activation::Clamp { min, max };
            for row in 0..N {
                for vector in 0..V {
                    sums[row][vector] = clamp.apply(simd, sums[row][vector]);
                }
            }
        }
        for row in 0..N {
            let vectors = S::as_mut_simd_f32s(places[row]).0;
            as_arrays_mut::<V, S::f32s>(vectors).0[0] = sums[row];
        }
        // These take so many instructions that the sums would not stay in registers.
        if activation.limits().is_none() {
            for row in 0..N {
                for place in S::as_mut_simd_f32s(places[row]).0 {
                    *place = activation.apply(simd, *place);
                }
            }
        }
    }
}

/// All columns of a panel of rows, from a row on. Each width is a function of its own: together they would need so much of
/// the stack that threads of debug builds have too little.
struct RowsOfTiles<'p, 'a, 'o, S, T, const N: usize, const W: usize>(
    S,
    &'p GemmBlock<'a, T>,
    usize,
    &'p mut Output<'o>,
);

impl<S: Simd, T: Element, const N: usize, const W: usize> NullaryFnOnce
    for RowsOfTiles<'_, '_, '_, S, T, N, W>
{
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let RowsOfTiles(simd, product, first_row, output) = self;
        product.rows_of_tiles::<S, N, W>(simd, first_row, output);
    }
}

/// Some rows of a panel of `V` vectors of columns, from a row and a column on, on the processor's tiles.
#[cfg(target_arch = "x86_64")]
struct BlockOfTiles<'p, 'a, 'o, S, T, const V: usize>(
    S,
    &'p GemmBlock<'a, T>,
    [usize; 2],
    &'p mut Tiles,
    &'p mut Output<'o>,
);

#[cfg(target_arch = "x86_64")]
impl<S: Simd, T: Element, const V: usize> NullaryFnOnce for BlockOfTiles<'_, '_, '_, S, T, V> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let BlockOfTiles(simd, product, at, tiles, output) = self;
        product.block_of_tiles::<S, V>(simd, at, tiles, output);
    }
}

/// A slice of so many vectors.
#[inline(always)]
fn whole_vectors<S: Simd, const V: usize>(numbers: &[f32]) -> &[S::f32s; V] {
    &as_arrays::<V, S::f32s>(S::as_simd_f32s(numbers).0).0[0]
}

#[inline(always)]
fn added<S: Simd, const V: usize>(simd: S, a: [S::f32s; V], b: [S::f32s; V]) -> [S::f32s; V] {
    std::array::from_fn(|vector| simd.add_f32s(a[vector], b[vector]))
}

/// The numbers of a slice, of at most as many as there are lanes.
#[inline(always)]
pub(crate) fn load<S: Simd>(simd: S, part: &[f32]) -> S::f32s {
    match S::as_simd_f32s(part).0 {
        [whole] => *whole,
        _ => simd.partial_load_f32s(part),
    }
}

/// Writes the first lanes to a slice, of at most as many as there are.
#[inline(always)]
pub(crate) fn store<S: Simd>(simd: S, part: &mut [f32], lanes: S::f32s) {
    match S::as_mut_simd_f32s(part).0 {
        [whole] => *whole = lanes,
        _ => simd.partial_store_f32s(part, lanes),
    }
}
