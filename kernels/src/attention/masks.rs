//! Which keys masks hide from queries, found once for all heads of an operator that have the same mask.

use std::convert::Infallible;
use std::ops::Range;

use tract_core::internal::*;

use super::softmax::{AddendRows, RowOfScores};
use super::strides_of;
use crate::cost;
use crate::product::activation::LEAST_OF_EXP;
use crate::threads::fill_rows;

/// Elements of a mask that are so low, or lower, may hide a key: models add -10,000, -65,504, the least number, or `-inf`. They do where all
/// scores are small beside them.
const HIDES: f32 = -5e3;

/// Bounds of scores are larger by this, as products round.
const OF_ROUNDING: f32 = 1.05;

/// With fewer keys, there is too little to leave out.
const LEAST_KEYS: usize = if cfg!(test) { 2 } else { 32 };

/// Bounds of scores are worth so many scores that are left out, and so many of each key.
const LEAST_HIDDEN: usize = if cfg!(test) { 1 << 4 } else { 1 << 14 };
const LEAST_HIDDEN_OF_KEY: usize = if cfg!(test) { 2 } else { 8 };

/// What is added to scores: a mask, what it does in each row, and the distances of its neighbours along each axis of the scores.
pub(super) struct Mask<'a> {
    elements: &'a [f32],
    pub strides: TVec<usize>,
    /// None, if no row leaves out anything.
    rows: Vec<MaskRow>,
    keys: usize,
}

/// What one row of a mask does.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct MaskRow {
    /// The keys up to the last one that it cannot hide, and those up to the last one whose element is not `-inf`.
    seen: usize,
    finite: usize,
    /// The last element of the keys that are seen, and the greatest one of those after them.
    last: f32,
    hidden: f32,
    /// Whether all elements of the keys that are seen are 0.
    is_zero: bool,
}

/// How many elements there are up to the last one that is greater than a number, or NaN.
fn up_to_last_above(row: &[f32], most: f32) -> usize {
    // They are counted, as vectors do that.
    let are_below = |part: &[f32]| {
        part.iter().map(|it| u32::from(*it <= most)).sum::<u32>() as usize == part.len()
    };
    let mut count = row.len();
    while count > 0 {
        let begin = (count - 1) / 64 * 64;
        if !are_below(&row[begin..count]) {
            break;
        }
        count = begin;
    }
    while count > 0 && row[count - 1] <= most {
        count -= 1;
    }
    count
}

impl MaskRow {
    /// If it is the only mask, finite elements may hide keys, too.
    fn of(row: &[f32], is_only: bool) -> MaskRow {
        let finite = up_to_last_above(row, f32::NEG_INFINITY);
        let seen = if is_only { up_to_last_above(&row[..finite], HIDES) } else { finite };
        let (of_seen, rest) = row.split_at(seen);
        // The greatest of negative numbers has the least bits.
        let least = rest.iter().map(|it| it.to_bits()).fold(f32::NEG_INFINITY.to_bits(), u32::min);
        let are_zeros = |part: &[f32]| part.iter().fold(0, |all, it| all | it.to_bits() << 1) == 0;
        MaskRow {
            seen,
            finite,
            last: of_seen.last().copied().unwrap_or_default(),
            hidden: f32::from_bits(least),
            is_zero: of_seen.chunks(64).all(are_zeros),
        }
    }

    /// Whether keys after those that are seen have a weight of 0, if no score is further from 0 than this.
    fn hides_with(&self, bound: impl Fn() -> f32) -> bool {
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
        let count = if keys < LEAST_KEYS { 0 } else { elements.len() / keys };
        let mut rows = vec![MaskRow::default(); count];
        let work = cost::ELEMENT.of(elements.len());
        let Ok(()) = fill_rows(&mut rows, 1, work, |first, rows: &mut [MaskRow]| {
            for (row, elements) in rows.iter_mut().zip(elements[first * keys..].chunks_exact(keys))
            {
                *row = MaskRow::of(elements, is_only);
            }
            Ok::<(), Infallible>(())
        });
        if !rows.iter().any(|row| row.is_zero || row.seen < keys) {
            rows.clear();
        }
        Ok(Mask { elements, strides, rows, keys })
    }

    /// The rows from an element on, in a distance.
    pub fn part(&'a self, begin: usize, stride: usize) -> MaskRows<'a> {
        MaskRows {
            elements: (&self.elements[begin..], stride),
            rows: self.rows.get(begin / self.keys..).unwrap_or_default(),
            stride: stride / self.keys,
        }
    }
}

/// A mask for the queries of one sequence.
#[derive(Clone, Copy)]
pub(super) struct MaskRows<'a> {
    pub elements: AddendRows<'a>,
    rows: &'a [MaskRow],
    stride: usize,
}

impl MaskRows<'_> {
    fn row(&self, query: usize) -> Option<&MaskRow> {
        self.rows.get(query * self.stride)
    }
}

/// Whether masks hide so much from some queries with finite elements that bounds of scores are worth it.
pub(super) fn bounds_pay(masks: &[MaskRows], queries: Range<usize>, keys: usize) -> bool {
    let rows = || queries.clone().filter_map(|query| masks.first()?.row(query));
    let hidden = rows().filter(|row| row.hidden > f32::NEG_INFINITY && row.seen > 0);
    let hidden: usize = hidden.map(|row| row.finite - row.seen).sum();
    masks.len() == 1 && hidden >= LEAST_HIDDEN.max(keys.saturating_mul(LEAST_HIDDEN_OF_KEY))
}

/// Which of the keys some queries meet: those up to the last one that is not hidden, or all, if all of them are. The last argument is a
/// bound of the scores of a query.
pub(super) fn rows_of_scores(
    masks: &[MaskRows],
    queries: Range<usize>,
    keys: usize,
    bound: impl Fn(usize) -> f32,
) -> Vec<RowOfScores> {
    let of_query = |query: usize| {
        let rows = || masks.iter().filter_map(|mask| mask.row(query));
        let least = |count: fn(&MaskRow) -> usize| rows().map(count).min().filter(|it| *it > 0);
        let columns = least(|row| row.seen)
            .filter(|_| rows().all(|row| row.hides_with(|| bound(query))))
            .or_else(|| least(|row| row.finite))
            .unwrap_or(keys);
        let is_zero =
            |mask: &MaskRows| mask.row(query).is_some_and(|row| row.is_zero && row.seen >= columns);
        RowOfScores { columns, has_masks: !masks.iter().all(is_zero) }
    };
    if masks.iter().all(|mask| mask.rows.is_empty()) {
        return vec![RowOfScores { columns: keys, has_masks: !masks.is_empty() }; queries.len()];
    }
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

    const LOW: f32 = -65504.;
    const INF: f32 = f32::NEG_INFINITY;

    #[test]
    fn what_rows_of_masks_hide() {
        let row = |row: &[f32]| MaskRow::of(row, true);
        for count in [0, 1, 63, 64, 65, 130] {
            for hidden in [0, 1, 63, 64, 65, 130] {
                for least in [LOW, INF] {
                    let mut elements = vec![0.; count];
                    elements.resize(count + hidden, least);
                    let finite = if least == INF { count } else { count + hidden };
                    let hidden = if hidden > 0 { least } else { INF };
                    let expected = MaskRow { seen: count, finite, last: 0., hidden, is_zero: true };
                    assert_eq!(row(&elements), expected);
                    assert_eq!(MaskRow::of(&elements, false).seen, finite);
                }
            }
        }
        // The greatest of what is hidden, wherever it is; what is hidden before others is a mask as any.
        assert_eq!(row(&[0., LOW, -1e4, INF]).hidden, -1e4);
        let expected = MaskRow { seen: 2, finite: 3, last: 0.5, hidden: LOW, is_zero: false };
        assert_eq!(row(&[LOW, 0.5, LOW, INF]), expected);
        assert_eq!(row(&[0., f32::NAN]).seen, 2);
        // Scores that are as large as the mask.
        let found = row(&[0., LOW]);
        assert!(found.hides_with(|| 30_000.) && !found.hides_with(|| 33_000.));
        assert!(!found.hides_with(|| f32::NAN) && !found.hides_with(|| f32::INFINITY));
        assert!(row(&[0., INF]).hides_with(|| f32::NAN));
    }

    #[test]
    fn keys_that_queries_meet() -> TractResult<()> {
        let met = |masks: &[&[f32]], bound: f32| -> TractResult<(usize, bool)> {
            let keys = masks[0].len();
            let masks: Vec<Mask> = masks
                .iter()
                .map(|mask| Mask::new(mask, &[1, keys], &[1, keys], keys, masks.len() == 1))
                .collect::<TractResult<_>>()?;
            let rows: Vec<MaskRows> = masks.iter().map(|mask| mask.part(0, 0)).collect();
            let found = rows_of_scores(&rows, 4..6, keys, |_| bound);
            assert_eq!(found[0], found[1]);
            Ok((found[0].columns, found[0].has_masks))
        };
        assert_eq!(met(&[&[0., 0., LOW, LOW]], 1e4)?, (2, false));
        assert_eq!(met(&[&[0., 1., LOW, INF]], 1e4)?, (2, true));
        // Too large scores: what is `-inf` is left out nevertheless.
        assert_eq!(met(&[&[0., 0., LOW, INF]], 1e5)?, (3, true));
        assert_eq!(met(&[&[0., 0., LOW, LOW]], f32::NAN)?, (4, true));
        // All are hidden, or none.
        assert_eq!(met(&[&[LOW, LOW, INF]], 1.)?, (2, true));
        assert_eq!(met(&[&[INF, INF, INF]], 1.)?, (3, true));
        assert_eq!(met(&[&[0., 0., 0.]], 1.)?, (3, false));
        assert_eq!(met(&[&[1., 2., 3.]], 1.)?, (3, true));
        // Another mask may raise what one of them lowers.
        assert_eq!(met(&[&[0., 0., LOW, INF], &[0., 0., -LOW, 0.]], 1.)?, (3, true));
        assert_eq!(met(&[&[0., 0., INF, INF], &[0., 0., 0., INF]], 1.)?, (2, false));
        assert_eq!(met(&[&[0., 0., INF, INF], &[1., 2., 3., 4.]], 1.)?, (2, true));
        Ok(())
    }

    /// Many short rows, or few long ones that hide little, do not pay for a look at all keys.
    #[test]
    fn when_bounds_pay() -> TractResult<()> {
        let pay = |queries: usize, keys: usize, low: f32| -> TractResult<bool> {
            let mask: Vec<f32> = (0..queries * keys)
                .map(|it| if it % keys <= it / keys + keys - queries { 0. } else { low })
                .collect();
            let mask = Mask::new(&mask, &[queries, keys], &[queries, keys], keys, true)?;
            Ok(bounds_pay(&[mask.part(0, keys)], 0..queries, keys))
        };
        assert!(pay(40, 40, LOW)? && !pay(40, 40, INF)?);
        assert!(!pay(4, 4, LOW)? && !pay(16, 400, LOW)?);
        Ok(())
    }

    #[test]
    fn no_score_is_beyond_its_bound() {
        let number = |it: usize| (it * 37 % 101) as f32 / 50. - 1.;
        for depth in [0, 1, 15, 16, 17, 40] {
            let query: Vec<f32> = (0..depth).map(number).collect();
            let keys: Vec<Vec<f32>> =
                (1..30).map(|key| (0..depth).map(|it| number(it * key + key)).collect()).collect();
            let greatest: Vec<f32> = (0..depth)
                .map(|it| keys.iter().map(|key| key[it].abs()).fold(0., f32::max))
                .collect();
            let bound = bound_of_score(&query, &greatest);
            let exact: f32 = query.iter().zip(&greatest).map(|(a, b)| a.abs() * b).sum();
            assert!((bound - exact * OF_ROUNDING).abs() <= 1e-5 * exact, "{bound} {exact}");
            for key in keys {
                let score: f32 = query.iter().zip(key).map(|(a, b)| a * b).sum();
                assert!(score.abs() <= bound);
            }
        }
    }
}
