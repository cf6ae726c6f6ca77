//! The softmax between the products.

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
    /// Scores after so many have the weight 0.
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
        let scale = simd.splat_f32s(self.scale);
        for (row, (scores, of_row)) in (first..).zip(scores.chunks_mut(stride).zip(rows)) {
            let (scores, rest) = scores[..self.columns].split_at_mut(of_row.columns);
            let factor = self.factors.map(|(factors, stride)| factors[row * stride]);
            let factor = factor.map(|factor| simd.splat_f32s(factor));
            let masks = if of_row.has_masks { self.masks } else { &[] };
            let whole = scores.len() / S::F32_LANES * S::F32_LANES;
            let mut greatest = simd.splat_f32s(f32::NEG_INFINITY);
            for begin in (0..whole).step_by(S::F32_LANES) {
                let part = &mut scores[begin..begin + S::F32_LANES];
                let numbers = changed(simd, part, scale, factor, masks, [row, begin]);
                store(simd, part, numbers);
                greatest = max_or_second(simd, numbers, greatest);
            }
            let mut greatest = simd.reduce_max_f32s(greatest);
            if whole < scores.len() {
                // The other lanes are no elements.
                let part = &mut scores[whole..];
                let numbers = changed(simd, part, scale, factor, masks, [row, whole]);
                store(simd, part, numbers);
                greatest = part.iter().copied().fold(greatest, f32::max);
            }
            // A query that sees no key gets NaN, unless there is a sink.
            let sink = sink.map(|(sink, stride)| sink[row * stride]);
            softmax_below(simd, scores, greatest, sink);
            rest.fill(0.);
        }
    }
}

/// Scores of a row from a column on, with all that changes them.
#[inline(always)]
fn changed<S: Simd>(
    simd: S,
    scores: &[f32],
    scale: S::f32s,
    factor: Option<S::f32s>,
    masks: &[MaskRows],
    [row, column]: [usize; 2],
) -> S::f32s {
    let mut numbers = simd.mul_f32s(load(simd, scores), scale);
    if let Some(factor) = factor {
        numbers = simd.mul_f32s(numbers, factor);
    }
    for MaskRows { elements: (mask, stride), .. } in masks {
        let mask = &mask[row * stride + column..][..scores.len()];
        numbers = simd.add_f32s(numbers, load(simd, mask));
    }
    numbers
}
