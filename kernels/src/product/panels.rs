//! Panels of the operands of a GEMM: how many rows and columns they have, and how matrices are packed into them.

use std::convert::Infallible;
use std::ops::{Deref, DerefMut, Range};

use pulp::{Simd, WithSimd};

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::element::Element;
use crate::cost;
use crate::isa::Vectors;
use crate::memory::{Aligned, Scratch};
use crate::strided::interleave;
use crate::threads::fill_rows;

/// The size of a tile of sums, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    pub rows: usize,
    pub columns: usize,
    /// The elements of a vector.
    pub lanes: usize,
}

impl Tile {
    /// What fits in the registers of this machine.
    pub fn of(vectors: Vectors) -> Tile {
        struct OfSimd;
        impl WithSimd for OfSimd {
            type Output = Tile;

            #[inline(always)]
            fn with_simd<S: Simd>(self, _simd: S) -> Tile {
                Tile::of_simd::<S>()
            }
        }
        vectors.run(OfSimd)
    }

    /// Each row has a register for each vector of columns. A row of `B` has one for each of them too, and elements of `A`
    /// have two: the compiler reads the next one early. With 4 rows of 3 vectors of 16 registers it kept a sum in memory, and
    /// products took twice as long.
    #[inline(always)]
    pub fn of_simd<S: Simd>() -> Tile {
        let (rows, vectors) = match S::REGISTER_COUNT {
            // The machine that runs it may have 16, of which its compiler keeps some for itself.
            _ if cfg!(target_arch = "wasm32") => (4, 2),
            32.. => (8, 3),
            _ => (6, 2),
        };
        Tile { rows, columns: vectors * S::F32_LANES, lanes: S::F32_LANES }
    }

    /// How many vectors of columns a whole panel has.
    #[inline(always)]
    pub fn vectors(self) -> usize {
        self.columns / self.lanes
    }
}

/// How many rows the next smaller tile has: a power of two.
#[inline(always)]
pub(crate) fn narrower(rows: usize) -> usize {
    (rows / 2).next_power_of_two()
}

/// The panels of some rows: as wide as a tile, and powers of two for those that are left. The range begins with a
/// whole panel.
#[inline(always)]
pub(crate) fn row_panels(
    rows: Range<usize>,
    widest: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let Range { mut start, end } = rows;
    let mut width = widest;
    std::iter::from_fn(move || {
        while width > end - start {
            width = if width > 1 { narrower(width) } else { 0 };
        }
        let first = start;
        start += width;
        (width > 0).then_some((first, width))
    })
}

/// Operand `A` of a GEMM, the left factor: packed into panels of rows, or as the matrix is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OperandA<E = Vec<f32>> {
    pub rows: usize,
    /// How many elements a row has.
    pub depth: usize,
    pub elements: E,
    pub layout: LayoutOfA,
}

/// How operand `A` is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayoutOfA {
    /// Packed.
    Panels,
    /// A row after the other, as matrices are.
    #[cfg(target_arch = "x86_64")]
    Matrix,
}

impl<'a, T: Element> OperandA<&'a [T]> {
    /// The rows of a matrix as they are, if the loop of tiles takes that.
    ///
    /// That is faster: threads need not wait for each other, and read less that another one wrote.
    pub fn in_place(
        matrix: &'a [f32],
        rows: usize,
        depth: usize,
        tile: Tile,
    ) -> Option<OperandA<&'a [T]>> {
        #[cfg(target_arch = "x86_64")]
        if tile.lanes == avx512::LANES
            && depth >= avx512::LEAST_STEPS
            && let Some(elements) = T::as_they_are(matrix)
        {
            return Some(OperandA { rows, depth, elements, layout: LayoutOfA::Matrix });
        }
        let _ = (matrix, rows, depth, tile);
        None
    }
}

/// Rows of a multiple of so many elements are packed into panels: they are 4 KiB apart or a multiple of that, so that all lines of a tile
/// have the same few places in the first-level cache. Others are faster where they are.
pub(crate) const SAME_PLACE: usize = 1024;

/// How a factor with so many elements in a row is packed. Where these are others than those of the matrix, they come to be as a matrix, if
/// the loop of tiles takes that.
fn packed_layout<T: Element>(depth: usize, tile: Tile) -> LayoutOfA {
    #[cfg(target_arch = "x86_64")]
    if T::ALWAYS
        && tile.lanes == avx512::LANES
        && T::proof().is_some()
        && (T::are_for_tiles() || !depth.is_multiple_of(SAME_PLACE))
    {
        return LayoutOfA::Matrix;
    }
    let _ = (depth, tile);
    LayoutOfA::Panels
}

/// About how many numbers of rows are made and packed at once.
const NUMBERS_OF_ROWS: usize = if cfg!(test) { 64 } else { 4096 };

impl<T: Element> OperandA<Scratch<T>> {
    /// From a matrix whose rows are in a distance, for a while.
    pub fn pack_scratch(
        matrix: &[f32],
        stride: usize,
        rows: usize,
        steps: usize,
        tile: Tile,
    ) -> OperandA<Scratch<T>> {
        let depth = T::count(steps);
        let (elements, layout) = (Scratch::of(rows * depth), packed_layout::<T>(depth, tile));
        OperandA { rows, depth, elements, layout }.filled(matrix, stride, steps, tile)
    }

    /// The same from rows that are made only now: as many at a time as stay in the first-level cache. `make` gets the first row and these
    /// rows, each in its distance.
    pub fn pack_made(
        matrix: &mut [f32],
        stride: usize,
        rows: usize,
        steps: usize,
        tile: Tile,
        mut make: impl FnMut(usize, &mut [f32]),
    ) -> OperandA<Scratch<T>> {
        let depth = T::count(steps);
        let layout = packed_layout::<T>(depth, tile);
        let of_panel = if layout == LayoutOfA::Panels { tile.rows } else { 1 };
        let at_once = (NUMBERS_OF_ROWS / stride).max(1).next_multiple_of(of_panel);
        let mut elements = Scratch::of(rows * depth);
        let parts = matrix[..rows * stride].chunks_mut(at_once * stride);
        let places = elements.chunks_mut((at_once * depth).max(1));
        for (number, (matrix, elements)) in parts.zip(places).enumerate() {
            make(number * at_once, matrix);
            let rows = matrix.len() / stride;
            OperandA { rows, depth, elements, layout }.filled(matrix, stride, steps, tile);
        }
        OperandA { rows, depth, elements, layout }
    }

    /// Packs rows that follow each other, on several threads, if that pays.
    pub fn pack_on_threads(
        matrix: &[f32],
        rows: usize,
        steps: usize,
        tile: Tile,
    ) -> OperandA<Scratch<T>> {
        let depth = T::count(steps);
        let layout = packed_layout::<T>(depth, tile);
        let mut elements = Scratch::of(rows * depth);
        let panel = (tile.rows * depth).max(1);
        let work = cost::PACKED.of(rows * steps);
        let Ok(()) = fill_rows(&mut elements, panel, work, |first, elements: &mut [T]| {
            let rows = elements.len() / depth;
            let matrix = &matrix[first * tile.rows * steps..][..rows * steps];
            OperandA { rows, depth, elements, layout }.filled(matrix, steps, steps, tile);
            Ok::<(), Infallible>(())
        });
        OperandA { rows, depth, elements, layout }
    }
}

impl<T, E: Deref<Target = [T]>> OperandA<E> {
    pub fn view(&self) -> OperandA<&[T]> {
        let OperandA { rows, depth, ref elements, layout } = *self;
        OperandA { rows, depth, elements, layout }
    }

    /// Some of the rows. They begin with a whole panel, and end with one or with the last row.
    pub fn part(&self, rows: Range<usize>) -> OperandA<&[T]> {
        let depth = self.depth;
        let elements = &self.elements[rows.start * depth..rows.end * depth];
        OperandA { rows: rows.len(), depth, elements, layout: self.layout }
    }
}

impl<T: Element, E: DerefMut<Target = [T]>> OperandA<E> {
    /// With the elements of so many steps of a matrix whose rows are in a distance.
    fn filled(mut self, matrix: &[f32], stride: usize, steps: usize, tile: Tile) -> OperandA<E> {
        let OperandA { rows, depth, layout, .. } = self;
        if let Some(elements) = T::as_they_are(matrix) {
            self.interleave(elements, stride, tile);
            return self;
        }
        let fill = |elements: &mut [T]| {
            for (row, places) in elements.chunks_exact_mut(depth.max(1)).enumerate() {
                T::of_row(&matrix[row * stride..][..steps], places);
            }
        };
        if layout == LayoutOfA::Panels {
            let mut elements = Scratch::of(rows * depth);
            fill(&mut elements);
            self.interleave(&elements, depth, tile);
        } else {
            fill(&mut self.elements);
        }
        self
    }

    /// Puts the rows into panels.
    fn interleave(&mut self, matrix: &[T], stride: usize, tile: Tile) {
        let depth = self.depth;
        for (first, width) in row_panels(0..self.rows, tile.rows) {
            let panel = &mut self.elements[first * depth..][..width * depth];
            let rows = &matrix[first * stride..];
            match width {
                8 => interleave::<8, _>(rows, stride, panel),
                6 => interleave::<6, _>(rows, stride, panel),
                4 => interleave::<4, _>(rows, stride, panel),
                2 => interleave::<2, _>(rows, stride, panel),
                _ => panel.copy_from_slice(&rows[..depth]),
            }
        }
    }
}

/// How many elements of a row are packed before those of the next one: a line of the cache.
const TRANSPOSED_STEPS: usize = 16;

/// Operand `B` of a GEMM, the right factor, packed into panels of columns. Columns that are left make a panel of fewer vectors;
/// what is missing of its last vector is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PackedB<E = Aligned<f32>> {
    /// How many elements a column has.
    pub depth: usize,
    pub columns: usize,
    pub elements: E,
}

/// The matrix that operand `B` is packed from: `[depth, columns]`, or transposed, with rows in a distance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnpackedB {
    pub depth: usize,
    pub columns: usize,
    pub stride: usize,
    pub is_transposed: bool,
}

impl UnpackedB {
    /// How many elements it has when it is packed.
    fn packed_size<T: Element>(self, tile: Tile) -> usize {
        T::count(self.depth) * self.columns.next_multiple_of(tile.lanes)
    }
}

impl<T: Element> PackedB<Scratch<T>> {
    /// For a while.
    pub fn pack_scratch(matrix: &[f32], unpacked: UnpackedB, tile: Tile) -> PackedB<Scratch<T>> {
        PackedB::filled(Scratch::of(unpacked.packed_size::<T>(tile)), matrix, unpacked, tile)
    }
}

/// Operands `B` of one size, packed: those of a batch.
pub(crate) struct PackedBatchOfB<T = f32> {
    elements: Scratch<T>,
    /// Where each begins in what it was packed from, in ascending order.
    begins: Vec<usize>,
    size: usize,
}

impl<T: Element> PackedBatchOfB<T> {
    /// From matrices that begin at these places, on several threads, if that pays.
    pub fn pack_scratch(
        matrices: &[f32],
        mut begins: Vec<usize>,
        unpacked: UnpackedB,
        tile: Tile,
    ) -> PackedBatchOfB<T> {
        begins.sort_unstable();
        begins.dedup();
        let size = unpacked.packed_size::<T>(tile);
        let mut packed = Scratch::of(begins.len() * size);
        let work = cost::PACKED.of(packed.len());
        let Ok(()) = fill_rows(&mut packed, size.max(1), work, |first, packed: &mut [T]| {
            let factors = packed.chunks_mut(size.max(1));
            for (elements, begin) in factors.zip(&begins[first..]) {
                PackedB::filled(elements, &matrices[*begin..], unpacked, tile);
            }
            Ok::<(), Infallible>(())
        });
        PackedBatchOfB { elements: packed, begins, size }
    }

    /// The elements of the factor that began there.
    pub fn elements(&self, begin: usize) -> &[T] {
        let number = self.begins.binary_search(&begin).expect("it is packed");
        &self.elements[number * self.size..][..self.size]
    }
}

impl<T, E: Deref<Target = [T]>> PackedB<E> {
    pub fn view(&self) -> PackedB<&[T]> {
        PackedB { depth: self.depth, columns: self.columns, elements: &self.elements }
    }
}

impl<'a, T> PackedB<&'a [T]> {
    /// The columns from one on that begins a panel.
    pub fn columns_from(self, first: usize) -> PackedB<&'a [T]> {
        let PackedB { depth, columns, elements } = self;
        PackedB { depth, columns: columns - first, elements: &elements[first * depth..] }
    }
}

impl<T: Element> PackedB<Aligned<T>> {
    /// From a matrix of `depth` rows and `columns` columns, or from its transpose.
    pub fn pack(
        matrix: &[f32],
        transposed: bool,
        depth: usize,
        columns: usize,
        tile: Tile,
    ) -> PackedB<Aligned<T>> {
        assert_eq!(matrix.len(), depth * columns);
        let stride = if transposed { depth } else { columns };
        let unpacked = UnpackedB { depth, columns, stride, is_transposed: transposed };
        let elements = Aligned::unwritten(unpacked.packed_size::<T>(tile));
        PackedB::filled(elements, matrix, unpacked, tile)
    }
}

impl<T: Element, E: DerefMut<Target = [T]>> PackedB<E> {
    /// With these elements, to which the matrix is packed.
    fn filled(elements: E, matrix: &[f32], unpacked: UnpackedB, tile: Tile) -> PackedB<E> {
        let UnpackedB { depth: all_steps, columns, stride, is_transposed } = unpacked;
        let mut packed = PackedB { depth: T::count(all_steps), columns, elements };
        for (first, panel) in packed.panels(tile) {
            let width = (columns - first).min(tile.columns);
            let padded = width.next_multiple_of(tile.lanes);
            if width < padded {
                panel.chunks_exact_mut(padded).for_each(|row| row[width..].fill(T::default()));
            }
            if is_transposed {
                // Some steps at a time, whose part of the panel stays in the first-level cache.
                let mut room = [T::default(); TRANSPOSED_STEPS];
                for (number, part) in panel.chunks_mut(TRANSPOSED_STEPS * padded).enumerate() {
                    let begin = number * TRANSPOSED_STEPS * T::STEPS;
                    let steps = begin..(begin + TRANSPOSED_STEPS * T::STEPS).min(all_steps);
                    for column in 0..width {
                        let row = &matrix[(first + column) * stride..][steps.clone()];
                        let places = part[column..].iter_mut().step_by(padded);
                        let elements = T::of_row(row, &mut room);
                        places.zip(elements).for_each(|(place, element)| *place = *element);
                    }
                }
            } else {
                for (number, row) in panel.chunks_exact_mut(padded).enumerate() {
                    let step = number * T::STEPS;
                    if step >= all_steps {
                        row.fill(T::default());
                        continue;
                    }
                    let line = |step: usize| &matrix[step * stride + first..][..width];
                    let next = (step + 1 < all_steps).then(|| line(step + 1));
                    T::of_lines(line(step), next, &mut row[..width]);
                }
            }
        }
        packed
    }

    /// Each panel, with its first column.
    pub fn panels(&mut self, tile: Tile) -> impl Iterator<Item = (usize, &mut [T])> {
        let size = (tile.columns * self.depth).max(1);
        self.elements
            .chunks_mut(size)
            .enumerate()
            .map(move |(number, panel)| (number * tile.columns, panel))
    }
}
