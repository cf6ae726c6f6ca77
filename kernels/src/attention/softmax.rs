//! The softmax between the products.

use pulp::{Simd, WithSimd};

use crate::isa::max_or_second;
use crate::product::{load, store};
use crate::softmax::softmax_below;

/// What is added to rows of scores, or beside them, or multiplies them: for each row some elements, in a distance, those of a mask, a sink
/// or factors.
pub(super) type AddendRows<'a> = (&'a [f32], usize);

/// The softmax of some rows of scores, in their places. Scores are multiplied by the scale and by factors, and have masks added first.
pub(super) struct SoftmaxOfScores<'a> {
    pub scores: &'a mut [f32],
    pub stride: usize,
    pub columns: usize,
    pub scale: f32,
    /// The first row, by its number in masks, the sink and factors.
    pub first: usize,
    pub masks: &'a [AddendRows<'a>],
    /// One more score of each row, which takes its part of the weights.
    pub sink: Option<AddendRows<'a>>,
    /// What scores of each row are multiplied by, too.
    pub factors: Option<AddendRows<'a>>,
}

impl WithSimd for SoftmaxOfScores<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SoftmaxOfScores { scores, stride, columns, scale, first, masks, sink, factors } = self;
        let whole = columns / S::F32_LANES * S::F32_LANES;
        let scale = simd.splat_f32s(scale);
        for (row, scores) in (first..).zip(scores.chunks_mut(stride)) {
            let scores = &mut scores[..columns];
            let factor = factors.map(|(factors, stride)| simd.splat_f32s(factors[row * stride]));
            let mut greatest = simd.splat_f32s(f32::NEG_INFINITY);
            for begin in (0..columns).step_by(S::F32_LANES) {
                let end = columns.min(begin + S::F32_LANES);
                let part = &mut scores[begin..end];
                let mut numbers = simd.mul_f32s(load(simd, part), scale);
                if let Some(factor) = factor {
                    numbers = simd.mul_f32s(numbers, factor);
                }
                for (mask, stride) in masks {
                    let mask = &mask[row * stride..][begin..end];
                    numbers = simd.add_f32s(numbers, load(simd, mask));
                }
                store(simd, part, numbers);
                // The other lanes are no elements.
                if begin < whole {
                    greatest = max_or_second(simd, numbers, greatest);
                }
            }
            let rest = scores[whole..].iter().copied();
            let greatest = rest.fold(simd.reduce_max_f32s(greatest), f32::max);
            // A query that sees no key gets NaN, unless there is a sink.
            let sink = sink.map(|(sink, stride)| sink[row * stride]);
            softmax_below(simd, scores, greatest, sink);
        }
    }
}
