use std::convert::Infallible;
use std::ops::{Deref, DerefMut, Range};

use pulp::{Simd, WithSimd};

#[cfg(target_arch = "x86_64")]
use super::avx512;
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
            width = if width > 1 { (width / 2).next_power_of_two() } else { 0 };
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

impl<'a> OperandA<&'a [f32]> {
    /// The rows of a matrix as they are, if the loop of tiles takes that.
    ///
    /// That is faster: threads need not wait for each other, and read less that another one wrote.
    pub fn in_place(
        matrix: &'a [f32],
        rows: usize,
        depth: usize,
        tile: Tile,
    ) -> Option<OperandA<&'a [f32]>> {
        #[cfg(target_arch = "x86_64")]
        if tile.lanes == avx512::LANES && depth >= avx512::LEAST_STEPS {
            return Some(OperandA { rows, depth, elements: matrix, layout: LayoutOfA::Matrix });
        }
        let _ = (matrix, rows, depth, tile);
        None
    }
}

impl OperandA<Scratch> {
    /// Memory for a factor of this size.
    pub fn scratch(rows: usize, depth: usize) -> OperandA<Scratch> {
        let elements = Scratch::new(rows * depth);
        OperandA { rows, depth, elements, layout: LayoutOfA::Panels }
    }

    /// From a matrix whose rows are in a distance, for a while.
    pub fn pack_scratch(
        matrix: &[f32],
        stride: usize,
        rows: usize,
        depth: usize,
        tile: Tile,
    ) -> OperandA<Scratch> {
        OperandA::scratch(rows, depth).filled(matrix, stride, tile)
    }

    /// Packs rows that follow each other, on several threads, if that pays.
    pub fn pack_on_threads(
        matrix: &[f32],
        rows: usize,
        depth: usize,
        tile: Tile,
    ) -> OperandA<Scratch> {
        let mut packed = OperandA::scratch(rows, depth);
        let panel = (tile.rows * depth).max(1);
        let work = cost::PACKED.of(rows * depth);
        let Ok(()) = fill_rows(&mut packed.elements, panel, work, |first, elements| {
            let rows = elements.len() / depth;
            let matrix = &matrix[first * panel..][..elements.len()];
            let part = OperandA { rows, depth, elements, layout: LayoutOfA::Panels };
            part.filled(matrix, depth, tile);
            Ok::<(), Infallible>(())
        });
        packed
    }
}

impl<E: Deref<Target = [f32]>> OperandA<E> {
    pub fn view(&self) -> OperandA<&[f32]> {
        let OperandA { rows, depth, ref elements, layout } = *self;
        OperandA { rows, depth, elements, layout }
    }

    /// Some of the rows. They begin with a whole panel, and end with one or with the last row.
    pub fn part(&self, rows: Range<usize>) -> OperandA<&[f32]> {
        let depth = self.depth;
        let elements = &self.elements[rows.start * depth..rows.end * depth];
        OperandA { rows: rows.len(), depth, elements, layout: self.layout }
    }
}

impl<E: DerefMut<Target = [f32]>> OperandA<E> {
    /// With the elements of a matrix whose rows are in a distance.
    fn filled(mut self, matrix: &[f32], stride: usize, tile: Tile) -> OperandA<E> {
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
        self
    }
}

/// How many elements of a row are packed before those of the next one: a line of the cache.
const TRANSPOSED_STEPS: usize = 16;

/// Operand `B` of a GEMM, the right factor, packed into panels of columns. Columns that are left make a panel of fewer vectors;
/// what is missing of its last vector is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PackedB<E = Aligned<f32>> {
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
    fn packed_size(self, tile: Tile) -> usize {
        self.depth * self.columns.next_multiple_of(tile.lanes)
    }
}

impl PackedB<Scratch> {
    /// For a while.
    pub fn pack_scratch(matrix: &[f32], of: UnpackedB, tile: Tile) -> PackedB<Scratch> {
        PackedB::filled(Scratch::new(of.packed_size(tile)), matrix, of, tile)
    }
}

/// Operands `B` of one size, packed: those of a batch.
pub(crate) struct PackedBatchOfB {
    elements: Scratch,
    /// Where each begins in what it was packed from, in ascending order.
    begins: Vec<usize>,
    size: usize,
}

impl PackedBatchOfB {
    /// From matrices that begin at these places, on several threads, if that pays.
    pub fn pack_scratch(
        matrices: &[f32],
        mut begins: Vec<usize>,
        of: UnpackedB,
        tile: Tile,
    ) -> PackedBatchOfB {
        begins.sort_unstable();
        begins.dedup();
        let size = of.packed_size(tile);
        let mut packed = Scratch::new(begins.len() * size);
        let work = cost::PACKED.of(packed.len());
        let Ok(()) = fill_rows(&mut packed, size.max(1), work, |first, packed| {
            let factors = packed.chunks_mut(size.max(1));
            for (elements, begin) in factors.zip(&begins[first..]) {
                PackedB::filled(elements, &matrices[*begin..], of, tile);
            }
            Ok::<(), Infallible>(())
        });
        PackedBatchOfB { elements: packed, begins, size }
    }

    /// The elements of the factor that began there.
    pub fn elements(&self, begin: usize) -> &[f32] {
        let number = self.begins.binary_search(&begin).expect("it is packed");
        &self.elements[number * self.size..][..self.size]
    }
}

impl<E: Deref<Target = [f32]>> PackedB<E> {
    pub fn view(&self) -> PackedB<&[f32]> {
        PackedB { depth: self.depth, columns: self.columns, elements: &self.elements }
    }
}

impl PackedB {
    /// From a matrix of `depth` rows and `columns` columns, or from its transpose.
    pub fn pack(
        matrix: &[f32],
        transposed: bool,
        depth: usize,
        columns: usize,
        tile: Tile,
    ) -> PackedB {
        assert_eq!(matrix.len(), depth * columns);
        let stride = if transposed { depth } else { columns };
        let of = UnpackedB { depth, columns, stride, is_transposed: transposed };
        PackedB::filled(Aligned::new(0., of.packed_size(tile)), matrix, of, tile)
    }
}

impl<E: DerefMut<Target = [f32]>> PackedB<E> {
    /// With these elements, to which the matrix is packed.
    fn filled(elements: E, matrix: &[f32], of: UnpackedB, tile: Tile) -> PackedB<E> {
        let UnpackedB { depth, columns, stride, is_transposed } = of;
        let mut packed = PackedB { depth, columns, elements };
        for (first, panel) in packed.panels(tile) {
            let width = (columns - first).min(tile.columns);
            let padded = width.next_multiple_of(tile.lanes);
            if width < padded {
                panel.chunks_exact_mut(padded).for_each(|row| row[width..].fill(0.));
            }
            if is_transposed {
                // Some steps at a time, whose part of the panel stays in the first-level cache.
                for (number, part) in panel.chunks_mut(TRANSPOSED_STEPS * padded).enumerate() {
                    let steps = number * TRANSPOSED_STEPS;
                    for column in 0..width {
                        let row = &matrix[(first + column) * stride..][steps..depth];
                        let places = part[column..].iter_mut().step_by(padded);
                        places.zip(row).for_each(|(place, element)| *place = *element);
                    }
                }
            } else {
                for (step, row) in panel.chunks_exact_mut(padded).enumerate() {
                    row[..width].copy_from_slice(&matrix[step * stride + first..][..width]);
                }
            }
        }
        packed
    }

    /// Each panel, with its first column.
    pub fn panels(&mut self, tile: Tile) -> impl Iterator<Item = (usize, &mut [f32])> {
        let size = (tile.columns * self.depth).max(1);
        self.elements
            .chunks_mut(size)
            .enumerate()
            .map(move |(number, panel)| (number * tile.columns, panel))
    }
}
