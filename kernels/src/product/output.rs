//! Where a product goes.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use super::shares::Share;

/// Rows that follow each other in a distance, each from the first column of the product on: all of a matrix, or some of its
/// columns, while other threads have the others.
///
/// With a slice for each row instead, threads would wait until these are listed, and the kernel would be compiled for both kinds.
#[derive(Debug)]
pub(crate) struct Output<'a, T = f32> {
    first: NonNull<T>,
    /// How many elements there are from the first one to the end of the matrix.
    reach: usize,
    rows: usize,
    stride: usize,
    /// How many elements of a row are ours: all to the end of the matrix, if nobody else has some.
    width: usize,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: it is as a slice of the elements that are ours, which nobody else has.
unsafe impl<T: Send> Send for Output<'_, T> {}

impl<'a, T> Output<'a, T> {
    /// All of a matrix. It may begin within the first row, and end with the last element.
    pub fn matrix(elements: &'a mut [T], stride: usize) -> Output<'a, T> {
        Output {
            reach: elements.len(),
            rows: elements.len().div_ceil(stride.max(1)),
            first: NonNull::from(elements).cast(),
            stride,
            width: usize::MAX,
            elements: PhantomData,
        }
    }

    /// The shares of a whole matrix; `place` is where a column of a share is in the matrix.
    ///
    /// # Panics
    ///
    /// If they are not in the order of their columns, and those of the same columns in that of their rows; or if one is not within the
    /// matrix.
    pub fn of_shares(
        matrix: &'a mut [T],
        columns: usize,
        shares: &[Share],
        place: impl Fn(usize) -> usize,
    ) -> Vec<Output<'a, T>> {
        let Output { first, reach, rows, stride, .. } = Output::matrix(matrix, columns);
        // So no element is in two of them.
        let is_before = |a: &Share, b: &Share| match a.columns == b.columns {
            true => a.rows.end <= b.rows.start,
            false => place(a.columns.end) <= place(b.columns.start),
        };
        assert!(shares.is_sorted_by(is_before), "shares that are not in order: {shares:?}");
        let output = |share: &Share| {
            let of_rows = share.rows.clone();
            let (begin, end) = (place(share.columns.start), place(share.columns.end));
            let is_within = begin <= end && end <= columns && of_rows.end <= rows;
            assert!(is_within, "{share:?} of {rows} rows, columns {begin}..{end} of {columns}");
            // The last row may end before the next one would begin.
            let skipped = (of_rows.start * stride + begin).min(reach);
            Output {
                // SAFETY: it is within the matrix.
                first: unsafe { first.add(skipped) },
                reach: reach - skipped,
                rows: of_rows.len(),
                stride,
                width: end - begin,
                elements: PhantomData,
            }
        };
        shares.iter().map(output).collect()
    }

    /// What is ours of a row.
    ///
    /// # Panics
    ///
    /// If there are fewer rows.
    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        // A product of these is no more than the size of the matrix.
        let begin = row * self.stride;
        assert!(row < self.rows && begin <= self.reach, "row {row} of {}", self.rows);
        let count = self.width.min(self.reach - begin);
        // SAFETY: the elements are within the matrix, and ours: the columns of other outputs end before the first one of the row, or
        // begin after so many. They are borrowed as long as this output is.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(begin).as_ptr(), count) }
    }

    /// Columns of some rows. They are checked once, not row by row, which takes longer.
    ///
    /// # Panics
    ///
    /// If there are fewer, or if these are in several rows.
    #[inline(always)]
    pub fn rows<const N: usize>(&mut self, first: usize, columns: Range<usize>) -> [&mut [T]; N] {
        self.check_rows(first, N, &columns);
        let begin = first * self.stride + columns.start;
        // SAFETY: they are checked, so they are within the matrix; and ours, as in `row`. No element is in two of them: the columns are
        // within the distance of rows.
        std::array::from_fn(|row| unsafe {
            let first = self.first.add(begin + row * self.stride).as_ptr();
            std::slice::from_raw_parts_mut(first, columns.len())
        })
    }

    /// As [`rows`](Self::rows), one after the other.
    ///
    /// # Panics
    ///
    /// As that, and if none is asked for.
    #[inline(always)]
    pub fn each_row(
        &mut self,
        first: usize,
        count: usize,
        columns: Range<usize>,
    ) -> impl Iterator<Item = &mut [T]> {
        self.check_rows(first, count, &columns);
        let Output { first: all, stride, .. } = *self;
        let begin = first * stride + columns.start;
        // SAFETY: as there. Each row is given once, as the range of their numbers is moved into what is returned, which cannot be cloned:
        // so all of them may be kept.
        (0..count).map(move |row| unsafe {
            let first = all.add(begin + row * stride).as_ptr();
            std::slice::from_raw_parts_mut(first, columns.len())
        })
    }

    /// Panics unless there are so many rows from one on, with these columns.
    #[inline(always)]
    fn check_rows(&self, first: usize, count: usize, columns: &Range<usize>) {
        let Output { rows, stride, width, reach, .. } = *self;
        assert!(count > 0 && first < rows && count <= rows - first, "rows {first}.. of {rows}");
        // A product of these is no more than the size of the matrix.
        let last = (first + count - 1) * stride;
        let is_within = columns.start <= columns.end
            && columns.end <= width.min(stride)
            && last <= reach
            && columns.end <= reach - last;
        assert!(is_within, "columns {columns:?} of {}", width.min(stride));
    }

    /// The same rows, from one of their columns on.
    ///
    /// # Panics
    ///
    /// If there are fewer columns.
    #[inline(always)]
    pub fn skip_columns(&mut self, column: usize) -> Output<'_, T> {
        assert!(column <= self.width.min(self.reach), "column {column} of {}", self.width);
        Output {
            // SAFETY: it is within the matrix.
            first: unsafe { self.first.add(column) },
            reach: self.reach - column,
            width: self.width - column,
            elements: PhantomData,
            ..*self
        }
    }

    /// The rows of a whole matrix with so many of them as one.
    ///
    /// # Panics
    ///
    /// If these are some columns of the matrix, and several rows are joined.
    pub fn with_rows_joined(self, count: usize) -> Output<'a, T> {
        assert!(count == 1 || self.width == usize::MAX, "parts of rows do not follow each other");
        Output { stride: self.stride * count, rows: self.rows.div_ceil(count), ..self }
    }

    /// The same without the first rows.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    #[inline(always)]
    pub fn skip_rows(&mut self, rows: usize) -> Output<'_, T> {
        let begin = rows * self.stride;
        assert!(rows <= self.rows && begin <= self.reach, "row {rows} of {}", self.rows);
        Output {
            // SAFETY: it is within the matrix.
            first: unsafe { self.first.add(begin) },
            reach: self.reach - begin,
            rows: self.rows - rows,
            elements: PhantomData,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_their_rows_and_columns() {
        let share = |rows, columns| Share { rows, columns };
        let shares = [share(0..3, 0..1), share(0..2, 1..2), share(2..3, 1..2), share(0..3, 2..3)];
        let mut matrix = [0; 15];
        // Two elements for each column of a share, but for the last one.
        let place = |column: usize| (2 * column).min(5);
        let outputs = Output::of_shares(&mut matrix, 5, &shares, place);
        for (number, mut output) in outputs.into_iter().enumerate() {
            assert_eq!(output.rows, shares[number].rows.len());
            (0..output.rows).for_each(|row| output.row(row).fill(10 * number + row));
        }
        assert_eq!(matrix, [0, 0, 10, 10, 30, 1, 1, 11, 11, 31, 2, 2, 20, 20, 32]);
    }

    #[test]
    fn parts_of_a_matrix_are_its_columns() {
        let mut matrix = [0; 15];
        let shares = [0..2, 2..2, 2..5].map(|columns| Share { rows: 0..3, columns });
        let mut parts = Output::of_shares(&mut matrix, 5, &shares, |column| column);
        for (number, part) in parts.iter_mut().enumerate() {
            for row in 0..3 {
                assert_eq!(part.row(row).len(), [2, 0, 3][number]);
                part.row(row).fill(10 * number + row);
            }
            part.skip_rows(1).row(0).iter_mut().for_each(|it| *it += 100);
        }
        parts[2].skip_columns(2).row(0).fill(7);
        assert_eq!(matrix, [0, 0, 20, 20, 7, 101, 101, 121, 121, 121, 2, 2, 22, 22, 22]);
        // The rest of the matrix, and rows as one.
        let mut all = Output::matrix(&mut matrix[1..], 5);
        assert_eq!(all.row(2), [2, 22, 22, 22]);
        assert_eq!(all.skip_columns(2).row(2), [22, 22]);
        let mut joined = Output::matrix(&mut matrix, 5).with_rows_joined(2);
        assert_eq!(joined.row(1), [2, 2, 22, 22, 22]);
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "a panic ends the program")]
    fn shares_are_apart_and_within_the_matrix() {
        let share = |rows, columns| Share { rows, columns };
        let cases = [
            [share(0..2, 0..2), share(1..3, 0..2)],
            [share(0..2, 0..2), share(2..3, 1..3)],
            [share(0..2, 2..4), share(0..2, 0..2)],
            [share(0..2, 0..2), share(2..4, 0..2)],
            [share(0..3, 0..2), share(0..3, 2..6)],
        ];
        for shares in cases {
            let outputs = || Output::of_shares(&mut [0; 15], 5, &shares, |column| column).len();
            let panicked = std::panic::catch_unwind(outputs);
            assert!(panicked.is_err(), "{shares:?}");
        }
    }

    #[test]
    fn each_row_is_another_one() {
        let mut matrix = [0; 11];
        let share = Share { rows: 0..3, columns: 1..4 };
        let mut part = Output::of_shares(&mut matrix, 4, &[share], |column| column).remove(0);
        let rows: Vec<&mut [i32]> = part.each_row(1, 2, 0..2).collect();
        for (number, row) in rows.into_iter().enumerate() {
            row.fill(number as i32 + 1);
        }
        assert_eq!(matrix, [0, 0, 0, 0, 0, 1, 1, 0, 0, 2, 2]);
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "a panic ends the program")]
    fn nothing_is_beyond_a_part() {
        type Case = fn(Output<i32>) -> usize;
        let cases: [Case; 10] = [
            |mut it| it.row(2).len(),
            |mut it| it.row(usize::MAX / 2).len(),
            |mut it| it.each_row(1, 2, 0..2).count(),
            |mut it| it.each_row(0, 2, 1..3).count(),
            |mut it| it.each_row(1, usize::MAX, 0..1).count(),
            |mut it| it.each_row(0, 0, 0..1).count(),
            |mut it| it.skip_columns(3).rows,
            |mut it| it.skip_rows(3).rows,
            |mut it| it.row(0)[2] as usize,
            |it| it.with_rows_joined(2).rows,
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let mut matrix = [0; 8];
            let share = Share { rows: 0..2, columns: 0..2 };
            let part = Output::of_shares(&mut matrix, 4, &[share], |column| column).remove(0);
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(part)));
            assert!(panicked.is_err(), "case {number}");
        }
    }
}
