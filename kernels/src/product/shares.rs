//! How threads share the output of a product: rows, or columns.

use std::ops::Range;

use tract_core::prelude::TractResult;

use super::{Output, Tile, Vectors};
use crate::threads::{Division, even_parts};

/// In how many parts the work of a thread is cut, if that costs nothing: a late thread then finds less to do.
pub(crate) const PARTS: usize = 4;

/// What a thread computes of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

/// Shares of a matrix, which begin with whole panels: in the order of their columns, and those of the same columns in that of their rows.
#[derive(Debug)]
pub(crate) struct Shares<'d> {
    division: &'d Division,
    /// How many the matrix has.
    columns: usize,
    pub shares: Vec<Share>,
}

impl<'d> Shares<'d> {
    /// All rows, of panels of so many columns: for each thread so many parts.
    pub fn of_columns(
        division: &'d Division,
        [rows, columns]: [usize; 2],
        panel: usize,
        of_a_thread: usize,
    ) -> Shares<'d> {
        let ranges = division.panels(columns, panel, of_a_thread).into_iter();
        let shares = ranges.map(|columns| Share { rows: 0..rows, columns }).collect();
        Shares { division, columns, shares }
    }

    /// A product, of which each thread gets as many panels of columns, in several parts, of all rows. Of the panels that are left over,
    /// parts have some of the rows each.
    ///
    /// Without the latter, one of two threads has 6 of the 11 panels of 512 columns, and weights that are unpacked for each part are
    /// unpacked more often.
    pub fn of_product(division: &'d Division, [rows, columns]: [usize; 2]) -> Shares<'d> {
        /// What is packed or unpacked for a part should meet some tiles.
        const LEAST_TILES: usize = 4;
        let tile = Tile::of(Vectors::detect());
        let threads = division.threads();
        // The last panel may be a part of one.
        let of_each = columns / (threads * tile.columns);
        let panels = columns.div_ceil(tile.columns);
        let rest = panels - threads * of_each;
        let tiles = rows.div_ceil(tile.rows);
        let pieces = (tiles / LEAST_TILES).min(2 * threads);
        // Parts of some rows are read by whoever comes next, and should be few.
        if threads == 1 || rest == 0 || rest >= of_each || pieces < 2 {
            return Shares::of_columns(division, [rows, columns], tile.columns, PARTS);
        }
        // They are where the parts of the first thread end.
        let left_over = of_each..of_each + rest;
        let share = |tiles: Range<usize>, panels: Range<usize>| Share {
            rows: tiles.start * tile.rows..(tiles.end * tile.rows).min(rows),
            columns: panels.start * tile.columns..(panels.end * tile.columns).min(columns),
        };
        let of_all_rows = |panels: Range<usize>, threads: usize| {
            let count = panels.len().min(PARTS * threads);
            even_parts(panels, count).map(|panels| share(0..tiles, panels))
        };
        let shares = of_all_rows(0..left_over.start, 1)
            .chain(even_parts(0..tiles, pieces).map(|tiles| share(tiles, left_over.clone())))
            .chain(of_all_rows(left_over.end..panels, threads - 1))
            .collect();
        Shares { division, columns, shares }
    }

    /// Calls a function with each share, and with this part of the matrix, on the threads that share the work.
    pub fn for_each<T: Send>(
        &self,
        matrix: &mut [T],
        each: impl Fn(Share, Output<T>) -> TractResult<()> + Sync,
    ) -> TractResult<()> {
        self.for_each_placed(matrix, self.columns, |column| column, each)
    }

    /// Calls a function with each share of a matrix with other columns: `place` is where those of the shares are.
    pub fn for_each_placed<T: Send>(
        &self,
        matrix: &mut [T],
        columns: usize,
        place: impl Fn(usize) -> usize,
        each: impl Fn(Share, Output<T>) -> TractResult<()> + Sync,
    ) -> TractResult<()> {
        let outputs = Output::of_shares(matrix, columns, &self.shares, place);
        let mut parts: Vec<_> = self.shares.iter().zip(outputs).collect();
        self.division
            .for_each(&mut parts, |(share, output)| each(share.clone(), output.skip_columns(0)))
    }
}
