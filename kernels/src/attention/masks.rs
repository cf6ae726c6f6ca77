//! What masks hide from queries, found once for all heads that have the same mask.

use std::convert::Infallible;
use std::ops::Range;

use tract_core::internal::*;

use super::softmax::{AddendRows, RowOfScores};
use super::strides_of;
use crate::cost;
use crate::product::activation::LEAST_OF_EXP;
use crate::threads::fill_rows;

/// Masks hide keys by so little or less, as long as scores are small beside it: models add -10,000, -65,504, the least number, or `-inf`.
const HIDES: f32 = -5e3;

/// Bounds of scores are larger by this, as products round.
const OF_ROUNDING: f32 = 1.05;

/// What is added to scores: a mask, what it does in each row, and the distances of its neighbours along each axis of the scores.
pub(super) struct Mask<'a> {
    elements: &'a [f32],
    pub strides: TVec<usize>,
    rows: Vec<MaskRow>,
    keys: usize,
    /// Whether a row hides keys, or has none but zeros for them.
    has_rows: bool,
}

/// What one row of a mask does.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MaskRow {
    /// How many of the first keys it may not hide.
    seen: usize,
    /// The last element of these, and the greatest one of those after them.
    last: f32,
    hidden: f32,
    /// Whether all elements of the first keys are 0.
    is_zero: bool,
}

impl MaskRow {
    /// If it is the only mask, finite elements hide keys, too.
    fn of(row: &[f32], is_only: bool) -> MaskRow {
        let most = if is_only { HIDES } else { f32::NEG_INFINITY };
        // Numbers of a part are counted, as vectors do that. NaN hides nothing.
        let hides = |part: &[f32]| {
            part.iter().map(|it| u32::from(*it <= most)).sum::<u32>() as usize == part.len()
        };
        let mut seen = row.len();
        while seen > 0 {
            let begin = (seen - 1) / 64 * 64;
            if !hides(&row[begin..seen]) {
                break;
            }
            seen = begin;
        }
        while seen > 0 && row[seen - 1] <= most {
            seen -= 1;
        }
        let (shown, rest) = row.split_at(seen);
        // The greatest of negative numbers has the least bits.
        let least = rest.iter().map(|it| it.to_bits()).fold(f32::NEG_INFINITY.to_bits(), u32::min);
        let are_zeros = |part: &[f32]| part.iter().fold(0, |all, it| all | it.to_bits() << 1) == 0;
        MaskRow {
            seen,
            last: shown.last().copied().unwrap_or_default(),
            hidden: f32::from_bits(least),
            is_zero: shown.chunks(64).all(are_zeros),
        }
    }

    /// Whether keys after the first ones have no weight, if no score is further from 0 than this.
    fn hides_below(&self, bound: impl Fn() -> f32) -> bool {
        self.hidden == f32::NEG_INFINITY || {
            let bound = bound();
            self.hidden + bound < self.last - bound + LEAST_OF_EXP
        }
    }
}

impl<'a> Mask<'a> {
    /// For scores of a shape.
    pub fn new(
        elements: &'a [f32],
        shape: &[usize],
        scores: &[usize],
        keys: usize,
        is_only: bool,
    ) -> TractResult<Mask<'a>> {
        let strides = strides_of(shape, scores, keys)?;
        let mut rows = vec![MaskRow::default(); elements.len() / keys];
        let work = cost::ELEMENT.of(elements.len());
        let Ok(()) = fill_rows(&mut rows, 1, work, |first, rows: &mut [MaskRow]| {
            for (row, elements) in rows.iter_mut().zip(elements[first * keys..].chunks_exact(keys))
            {
                *row = MaskRow::of(elements, is_only);
            }
            Ok::<(), Infallible>(())
        });
        let has_rows = rows.iter().any(|row| row.is_zero || row.seen < keys);
        Ok(Mask { elements, strides, rows, keys, has_rows })
    }

    /// Whether it hides keys with finite elements, so that scores must have a bound.
    pub fn needs_bound(&self) -> bool {
        self.rows.iter().any(|row| row.hidden > f32::NEG_INFINITY)
    }

    /// The rows from an element on, in a distance.
    pub fn part(&'a self, begin: usize, stride: usize) -> MaskRows<'a> {
        MaskRows {
            elements: (&self.elements[begin..], stride),
            rows: &self.rows[begin / self.keys..],
            stride: stride / self.keys,
            has_rows: self.has_rows,
        }
    }
}

/// A mask for the queries of one sequence.
#[derive(Clone, Copy)]
pub(super) struct MaskRows<'a> {
    pub elements: AddendRows<'a>,
    rows: &'a [MaskRow],
    stride: usize,
    has_rows: bool,
}

/// Which of the keys some queries meet, the last argument being a bound of the scores of a query. All, if it sees none: its result is not a
/// number, or 0 if there is a sink.
pub(super) fn rows_of_scores(
    masks: &[MaskRows],
    queries: Range<usize>,
    keys: usize,
    bound: impl Fn(usize) -> f32,
) -> Vec<RowOfScores> {
    if masks.iter().all(|mask| !mask.has_rows) {
        return vec![RowOfScores { columns: keys, has_masks: !masks.is_empty() }; queries.len()];
    }
    let of_query = |query: usize| {
        let rows = || masks.iter().map(|mask| &mask.rows[query * mask.stride]);
        let columns = match rows().map(|row| row.seen).min() {
            Some(0) | None => keys,
            Some(seen) if seen == keys => keys,
            Some(seen) => {
                let is_it = |row: &MaskRow| row.seen > seen || row.hides_below(|| bound(query));
                if rows().all(is_it) { seen } else { keys }
            }
        };
        let is_zero = |row: &MaskRow| row.is_zero && row.seen >= columns;
        RowOfScores { columns, has_masks: !rows().all(is_zero) }
    };
    queries.map(of_query).collect()
}

/// A bound of the score of a query, if this is the greatest magnitude of each number of the keys.
pub(super) fn bound_of_score(query: &[f32], greatest_of_keys: &[f32]) -> f32 {
    let mut sums = [0.; 16];
    // Sums that do not wait for each other.
    for (numbers, greatest) in query.chunks(16).zip(greatest_of_keys.chunks(16)) {
        for ((sum, number), greatest) in sums.iter_mut().zip(numbers).zip(greatest) {
            *sum += (number * greatest).abs();
        }
    }
    sums.iter().sum::<f32>() * OF_ROUNDING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_of_masks_hide() {
        let (low, inf) = (-65504., f32::NEG_INFINITY);
        let row = |row: &[f32]| MaskRow::of(row, true);
        for count in [0, 1, 63, 64, 65, 130] {
            for hidden in [0, 1, 63, 64, 65, 130] {
                for least in [low, inf] {
                    let mut elements = vec![0.; count];
                    elements.resize(count + hidden, least);
                    let expected = if hidden > 0 { least } else { inf };
                    let found = row(&elements);
                    assert_eq!(
                        found,
                        MaskRow { seen: count, last: 0., hidden: expected, is_zero: true }
                    );
                    let of_several = if least == inf { count } else { count + hidden };
                    assert_eq!(MaskRow::of(&elements, false).seen, of_several);
                }
            }
        }
        // The greatest of what is hidden, wherever it is; what is hidden before others is a mask as any.
        assert_eq!(row(&[0., low, -1e4, inf]).hidden, -1e4);
        let found = row(&[low, 0.5, low]);
        assert_eq!(found, MaskRow { seen: 2, last: 0.5, hidden: low, is_zero: false });
        assert_eq!(row(&[0., f32::NAN]).seen, 2);
        // Scores that are as large as the mask.
        let found = row(&[0., low]);
        assert!(found.hides_below(|| 30_000.) && !found.hides_below(|| 33_000.));
        assert!(!found.hides_below(|| f32::NAN) && !found.hides_below(|| f32::INFINITY));
        assert!(row(&[0., inf]).hides_below(|| f32::NAN));
    }
}
