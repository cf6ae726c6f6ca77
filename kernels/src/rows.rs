//! Rows of an output, whose axes are in another order in an input, or missing there.

use tract_core::internal::*;

/// For the rows of an output from a number on, the elements of an input that they begin with. Each axis but the last one, which is that
/// of a row, has a size, and a distance of its elements in the input: 0, where the input stays the same.
pub(crate) fn row_begins(
    axes: impl IntoIterator<Item = (usize, usize)>,
    mut row: usize,
) -> impl Iterator<Item = usize> {
    let axes: TVec<(usize, usize)> = axes.into_iter().collect();
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
