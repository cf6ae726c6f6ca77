//! Copies of elements to other places: axes in another order, some positions of an axis, several tensors as one.
//!
//! An output is written row by row. Neighbours of a row are `stride` apart in the data: 1 if they are neighbours there, too, and 0 if
//! they are one element. Elements are copied as integers of their size.

use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};
use tract_core::internal::*;

use crate::cost;
use crate::isa::{Instructions, Lanes, OnLanes};
use crate::memory::{LINE, elements, filled_output_dt};
use crate::threads::fill_rows;

/// How far neighbours along each axis of a tensor are apart. If it has no elements these strides may not fit, and are the largest that
/// do.
pub(crate) fn strides(shape: &[usize]) -> TVec<usize> {
    let mut strides = tvec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

/// The strides of a tensor that is broadcast: 0 along axes of one element.
pub(crate) fn broadcast_strides(shape: &[usize]) -> TVec<usize> {
    let strides = strides(shape).into_iter().zip(shape);
    strides.map(|(stride, size)| if *size > 1 { stride } else { 0 }).collect()
}

/// The size of an axis of an output, and its stride in each input.
pub(crate) type StridedAxis<S> = (usize, S);

/// As few axes as there can be, from the first to the last one: neighbours along which each input goes on are one, and those of size 1
/// are none.
pub(crate) fn merge_axes<S: AsRef<[usize]>>(
    axes: impl Iterator<Item = StridedAxis<S>>,
) -> TVec<StridedAxis<S>> {
    let mut merged: TVec<StridedAxis<S>> = tvec![];
    for (size, strides) in axes.filter(|(size, _)| *size != 1) {
        let goes_on = |(_, outer): &&mut StridedAxis<S>| {
            let mut both = outer.as_ref().iter().zip(strides.as_ref());
            both.all(|(outer, stride)| *outer == stride.saturating_mul(size))
        };
        match merged.last_mut().filter(goes_on) {
            Some(outer) => *outer = (outer.0.saturating_mul(size), strides),
            None => merged.push((size, strides)),
        }
    }
    merged
}

/// For the rows of an output from a number on, the elements of an input that they begin with. The axes are those without the rows'.
pub(crate) fn row_begins<S: AsRef<[usize]>>(
    axes: &[StridedAxis<S>],
    input: usize,
    mut row: usize,
) -> impl Iterator<Item = usize> + use<S> {
    let axes = axes.iter().map(|(size, strides)| (*size, strides.as_ref()[input]));
    let axes: TVec<(usize, usize)> = axes.collect();
    let mut index: TVec<usize> = tvec![0; axes.len()];
    let mut begin = 0;
    for (place, (size, stride)) in index.iter_mut().zip(&axes).rev() {
        (*place, row) = (row % size, row / size);
        begin += *place * stride;
    }
    std::iter::from_fn(move || {
        let this = begin;
        for (place, (size, stride)) in index.iter_mut().zip(&axes).rev() {
            *place += 1;
            begin += stride;
            if *place < *size {
                break;
            }
            begin -= size * stride;
            *place = 0;
        }
        Some(this)
    })
}

/// Writes rows of so many elements, which begin at these places of the data, as far as there is room: from an element of the first row
/// on.
#[inline(always)]
pub(crate) fn copy_rows<T: Pod>(
    data: &[T],
    begins: impl Iterator<Item = usize>,
    (size, stride): (usize, usize),
    mut within: usize,
    mut output: &mut [T],
) {
    for begin in begins {
        let (row, rest) = output.split_at_mut((size - within).min(output.len()));
        let data = &data[begin + within * stride..];
        match stride {
            0 => row.fill(data[0]),
            1 => copy_neighbours(&data[..row.len()], row),
            _ => row.iter_mut().enumerate().for_each(|(at, place)| *place = data[at * stride]),
        }
        (output, within) = (rest, 0);
        if output.is_empty() {
            break;
        }
    }
}

/// From so many bytes on, the ends of what is copied are vectors.
pub(crate) const LEAST_BYTES_OF_COPY: usize = 16;

/// Copies elements. Few bytes take less time than a call of a function would.
#[inline(always)]
fn copy_neighbours<T: Pod>(from: &[T], to: &mut [T]) {
    match size_of_val(to) {
        LEAST_BYTES_OF_COPY..=32 => copy_ends::<16>(cast_slice(from), cast_slice_mut(to)),
        33..=64 => copy_ends::<32>(cast_slice(from), cast_slice_mut(to)),
        65..=128 => copy_ends::<64>(cast_slice(from), cast_slice_mut(to)),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first `N` bytes and the last `N`: all, if there are twice as many or fewer.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut()) {
        *to = *from;
    }
}

/// A tensor with its axes in another order: axis `n` of the output is axis `perm[n]` of the data. `T` has the size of an element.
pub(crate) fn transposed<T: Pod + Send + Sync>(
    operator: &str,
    data: &Tensor,
    perm: &[usize],
) -> TractResult<Tensor> {
    let (dt, strides) = (data.datum_type(), strides(data.shape()));
    let shape: TVec<usize> = perm.iter().map(|axis| data.shape()[*axis]).collect();
    let axes = merge_axes(shape.iter().zip(perm).map(|(size, axis)| (*size, [strides[*axis]])));
    let (&(size, [stride]), outer) = axes.split_last().unwrap_or((&(1, [1]), &[]));
    // How many rows have elements that are neighbours in the data.
    let (width, outer) = match outer.split_last() {
        Some((&(width, [1]), outer)) => (width, outer),
        _ => (1, outer),
    };
    let data = elements::<T>(data)?;
    let fill = |output: &mut [T]| {
        let unit = if width > 1 { size } else { LINE };
        let work = cost::TRANSPOSED_BYTE.of(size_of_val(output));
        fill_rows(output, unit, work, |first, mut output| {
            let (row, within) = (first * unit / size, first * unit % size);
            let begins = row_begins(outer, 0, row / width);
            if width == 1 {
                copy_rows(data, begins, (size, stride), within, output);
                return Ok(());
            }
            let mut at = row % width;
            for begin in begins {
                let count = (width - at).min(output.len() / size);
                let (these, rest) = output.split_at_mut(count * size);
                let data = &data[begin + at..];
                match size {
                    2 => interleave::<2, _>(data, stride, these),
                    3 => interleave::<3, _>(data, stride, these),
                    4 => interleave::<4, _>(data, stride, these),
                    _ => transpose(data, stride, these, count, size),
                }
                (at, output) = (0, rest);
                if output.is_empty() {
                    break;
                }
            }
            Ok(())
        })
    };
    filled_output_dt(operator, dt, &shape, fill)
}

/// Puts the elements of a column next to each other: those of `N` rows, which begin at a distance of `stride`, as far as there is room.
pub(crate) fn interleave<const N: usize, T: Copy>(rows: &[T], stride: usize, columns: &mut [T]) {
    let columns = columns.as_chunks_mut::<N>().0;
    let rows: [&[T]; N] = std::array::from_fn(|row| &rows[row * stride..][..columns.len()]);
    for (step, column) in columns.iter_mut().enumerate() {
        for (element, row) in column.iter_mut().zip(rows) {
            *element = row[step];
        }
    }
}

/// Writes so many rows of a size. An element of the next row is the next one of the data, and an element of the next column is
/// `stride` further.
fn transpose<T: Pod>(data: &[T], stride: usize, output: &mut [T], rows: usize, size: usize) {
    let instructions = Instructions::detect();
    if size_of::<T>() == 4 && rows.min(size) >= instructions.lanes() {
        let (data, output) = (cast_slice(data), cast_slice_mut(output));
        return instructions.run(TransposeWords { data, stride, output, rows, size });
    }
    const TILE: usize = 8;
    for column in (0..size).step_by(TILE) {
        let columns = (size - column).min(TILE);
        for row in (0..rows).step_by(TILE) {
            let count = (rows - row).min(TILE);
            let data = &data[column * stride + row..];
            let output = &mut output[row * size + column..];
            if columns == TILE && count == TILE {
                // Loops, as functions of arrays need not be inlined.
                let mut tile = [&data.as_chunks::<TILE>().0[0]; TILE];
                for (column, places) in tile.iter_mut().enumerate() {
                    *places = &data[column * stride..].as_chunks().0[0];
                }
                for row in 0..TILE {
                    let places = &mut output[row * size..].as_chunks_mut::<TILE>().0[0];
                    for column in 0..TILE {
                        places[column] = tile[column][row];
                    }
                }
            } else {
                for row in 0..count {
                    for column in 0..columns {
                        output[row * size + column] = data[column * stride + row];
                    }
                }
            }
        }
    }
}

/// What [`transpose`] does, for elements of four bytes, of which rows and columns have a vector or more.
struct TransposeWords<'a> {
    data: &'a [[u8; 4]],
    stride: usize,
    output: &'a mut [[u8; 4]],
    rows: usize,
    size: usize,
}

impl OnLanes for TransposeWords<'_> {
    /// In tiles of `N` by `N`. The last one begins earlier if there are fewer at the end.
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        // Lines of the data that follow each other are read one after the other, and lines that are written stay in a cache.
        const ROWS: usize = 128;
        let TransposeWords { data, stride, output, rows, size } = self;
        for block in (0..rows).step_by(ROWS) {
            for column in (0..size).step_by(N) {
                let column = column.min(size - N);
                for row in (block..rows.min(block + ROWS)).step_by(N) {
                    let row = row.min(rows - N);
                    let data = &data[column * stride + row..];
                    transpose_tile(lanes, data, stride, &mut output[row * size + column..], size);
                }
            }
        }
    }
}

/// A tile of `N` rows of as many columns: [`transpose`].
#[inline(always)]
fn transpose_tile<L: Lanes<N>, const N: usize>(
    lanes: L,
    data: &[[u8; 4]],
    stride: usize,
    output: &mut [[u8; 4]],
    size: usize,
) {
    let mut tile = [lanes.load_words(&[[0; 4]; N]); N];
    // Loops, as functions of arrays need not be inlined.
    for column in 0..N {
        tile[column] = lanes.load_words(&data[column * stride..].as_chunks().0[0]);
    }
    let tile = lanes.transpose(tile);
    for row in 0..N {
        lanes.store_words(&mut output[row * size..].as_chunks_mut().0[0], tile[row]);
    }
}

/// Positions on an axis, in the same distance: `first`, `first + stride` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first position.
    pub first: usize,
    /// How far the next position is: 1 for neighbours, 0 for the same element again.
    pub stride: isize,
    /// How many positions there are.
    pub count: usize,
}

impl Run {
    /// The positions, which may lie beyond any axis.
    pub fn positions(self) -> impl DoubleEndedIterator<Item = i128> + ExactSizeIterator {
        (0..self.count).map(move |number| self.first as i128 + number as i128 * self.stride as i128)
    }

    /// Whether all positions are on an axis of this size.
    pub(crate) fn is_on_axis(self, size: usize) -> bool {
        let mut positions = self.positions();
        let ends = [positions.next(), positions.next_back()];
        ends.into_iter().flatten().all(|position| (0..size as i128).contains(&position))
    }
}

/// What tensors have at positions of an axis, one after the other: the output of an operator, of this type and shape.
pub(crate) fn concatenated<'a>(
    operator: &str,
    dt: DatumType,
    shape: &[usize],
    axis: usize,
    parts: impl Iterator<Item = (&'a Tensor, Run)>,
) -> TractResult<Tensor> {
    let inner = shape[axis + 1..].iter().product::<usize>() * dt.size_of();
    let fill = |output: &mut [u8]| {
        let mut end = 0;
        // A run without positions may begin anywhere.
        let parts = parts.filter(|(_, run)| run.count > 0).map(|(tensor, run)| {
            let (data, size) = (elements(tensor)?, tensor.shape()[axis] * inner);
            let begin = end;
            end += run.count * inner;
            // One position is as good as neighbours.
            let stride = if run.count == 1 { 1 } else { run.stride };
            Ok(RowPart { data, size, first: run.first * inner, stride, begin, end })
        });
        let parts: TVec<RowPart> = parts.collect::<TractResult<_>>()?;
        // Neighbours are parted anywhere, and others between two positions.
        let unit = match parts.iter().all(|part| part.stride == 1) {
            true => LINE,
            false => inner * (LINE / inner).max(1),
        };
        let work = cost::COPIED_BYTE.of(output.len());
        fill_rows(output, unit, work, |first, output| {
            let at = first * unit;
            match inner {
                1 => copy_parts(&parts, at, output, copy_elements::<1>),
                2 => copy_parts(&parts, at, output, copy_elements::<2>),
                4 => copy_parts(&parts, at, output, copy_elements::<4>),
                8 => copy_parts(&parts, at, output, copy_elements::<8>),
                _ => copy_parts(&parts, at, output, |data, mut begin, stride, output| {
                    for places in output.chunks_exact_mut(inner) {
                        places.copy_from_slice(&data[begin..][..inner]);
                        begin = begin.wrapping_add_signed(inner as isize * stride);
                    }
                }),
            }
            Ok(())
        })
    };
    filled_output_dt(operator, dt, shape, fill)
}

/// What rows of an output have of a tensor: positions of an axis. Everything is in bytes.
#[derive(Clone, Copy)]
struct RowPart<'a> {
    data: &'a [u8],
    /// What the data has for a row.
    size: usize,
    /// The first position in there, and how many positions it is to the next one.
    first: usize,
    stride: isize,
    /// Where these positions are in a row of the output.
    begin: usize,
    end: usize,
}

/// Writes rows of an output from a byte on, with a function for positions that are no neighbours: it gets where the first one is.
fn copy_parts(
    parts: &[RowPart],
    at: usize,
    mut output: &mut [u8],
    copy: impl Fn(&[u8], usize, isize, &mut [u8]),
) {
    let width = parts[parts.len() - 1].end;
    let (mut row, mut within) = (at / width, at % width);
    let mut number = parts.partition_point(|part| part.end <= within);
    while !output.is_empty() {
        let RowPart { data, size, first, stride, begin, end } = parts[number];
        let (these, rest) = output.split_at_mut((end - within).min(output.len()));
        let from = (row * size + first).wrapping_add_signed((within - begin) as isize * stride);
        match stride {
            1 => copy_neighbours(&data[from..][..these.len()], these),
            _ => copy(data, from, stride, these),
        }
        (output, within, number) = (rest, end, number + 1);
        if number == parts.len() {
            (row, within, number) = (row + 1, 0, 0);
        }
    }
}

/// Copies elements of `N` bytes, each so many behind the one before it.
#[inline(always)]
fn copy_elements<const N: usize>(data: &[u8], begin: usize, stride: isize, output: &mut [u8]) {
    let (data, places) = (data.as_chunks::<N>().0, output.as_chunks_mut::<N>().0);
    let first = begin / N;
    match stride {
        0 => places.fill(data[first]),
        -1 => places.iter_mut().zip(data[..=first].iter().rev()).for_each(|(to, from)| *to = *from),
        _ => places.iter_mut().enumerate().for_each(|(number, to)| {
            *to = data[first.wrapping_add_signed(number as isize * stride)];
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model_cases::MANY;

    #[test]
    fn strides_that_do_not_fit() {
        assert_eq!(*strides(&[0, MANY, MANY, 3]), [usize::MAX, 3 * MANY, 3, 1]);
    }
}
