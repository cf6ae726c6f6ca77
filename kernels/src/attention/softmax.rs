//! The softmax between the products.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::masks::MaskRows;
use crate::isa::max_or_second;
use crate::product::{load, store};
use crate::softmax::softmax_below;

/// What is added to rows of scores, or beside them, or multiplies them: for each row some elements, in a distance, those of a mask, a sink
/// or factors.
pub(super) type AddendRows<'a> = (&'a [f32], usize);

/// What a row of scores has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RowOfScores {
    /// So many scores have a weight, or more than 0.
    pub columns: usize,
    /// Whether masks change these.
    pub has_masks: bool,
}

/// The softmax of some rows of scores, in their places. Scores are multiplied by the scale and by factors, and have masks added first.
pub(super) struct SoftmaxOfScores<'a> {
    pub scores: &'a mut [f32],
    pub stride: usize,
    /// So many weights are written in each row.
    pub columns: usize,
    pub rows: &'a [RowOfScores],
    pub scale: f32,
    /// The first row, by its number in masks, the sink and factors.
    pub first: usize,
    pub masks: &'a [MaskRows<'a>],
    /// One more score of each row, which takes its part of the weights.
    pub sink: Option<AddendRows<'a>>,
    /// What scores of each row are multiplied by, too.
    pub factors: Option<AddendRows<'a>>,
}

impl WithSimd for SoftmaxOfScores<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SoftmaxOfScores { scores, stride, rows, first, sink, .. } = self;
        for (row, (scores, of_row)) in (first..).zip(scores.chunks_mut(stride).zip(rows)) {
            let (scores, rest) = scores[..self.columns].split_at_mut(of_row.columns);
            let factor = self.factors.map_or(1., |(factors, stride)| factors[row * stride]);
            let scale = [self.scale, factor].map(|it| simd.splat_f32s(it));
            let masks = if of_row.has_masks { self.masks } else { &[] };
            let greatest = match (masks, self.factors) {
                ([], None) => scaled(simd, scores, |numbers, _| simd.mul_f32s(numbers, scale[0])),
                ([mask], None) => {
                    let (mask, stride) = mask.elements;
                    let mask = &mask[row * stride..][..scores.len()];
                    scaled(simd, scores, |numbers, places| {
                        simd.add_f32s(simd.mul_f32s(numbers, scale[0]), load(simd, &mask[places]))
                    })
                }
                _ => scaled(simd, scores, |numbers, places| {
                    let numbers = simd.mul_f32s(simd.mul_f32s(numbers, scale[0]), scale[1]);
                    masks.iter().fold(numbers, |numbers, mask| {
                        let (mask, stride) = mask.elements;
                        simd.add_f32s(numbers, load(simd, &mask[row * stride..][places.clone()]))
                    })
                }),
            };
            // A query that sees no key gets NaN, unless there is a sink.
            let sink = sink.map(|(sink, stride)| sink[row * stride]);
            softmax_below(simd, scores, greatest, sink);
            rest.fill(0.);
        }
    }
}

/// Changes a row, and returns its greatest element.
#[inline(always)]
fn scaled<S: Simd>(
    simd: S,
    row: &mut [f32],
    change: impl Fn(S::f32s, Range<usize>) -> S::f32s,
) -> f32 {
    let mut greatest = simd.splat_f32s(f32::NEG_INFINITY);
    let whole = row.len() / S::F32_LANES * S::F32_LANES;
    for begin in (0..whole).step_by(S::F32_LANES) {
        let places = begin..begin + S::F32_LANES;
        let numbers = change(load(simd, &row[places.clone()]), places.clone());
        store(simd, &mut row[places], numbers);
        greatest = max_or_second(simd, numbers, greatest);
    }
    let places = whole..row.len();
    if !places.is_empty() {
        // The other lanes are no elements.
        let numbers = change(load(simd, &row[places.clone()]), places.clone());
        store(simd, &mut row[places], numbers);
    }
    let rest = row[whole..].iter().copied();
    rest.fold(simd.reduce_max_f32s(greatest), f32::max)
}
