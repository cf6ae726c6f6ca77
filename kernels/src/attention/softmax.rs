//! The softmax between the products.

use pulp::{Simd, WithSimd};

use crate::product::{load, store};
use crate::softmax::softmax_of_row;

/// What is added to rows of scores, or beside them: for each row some elements, in a distance, those of a mask or a sink.
pub(super) type AddendRows<'a> = (&'a [f32], usize);

/// The softmax of rows of scores, of which each is multiplied by the scale and has masks added first.
pub(super) struct SoftmaxOfScores<'a> {
    pub scores: &'a mut [f32],
    pub stride: usize,
    pub columns: usize,
    pub scale: f32,
    pub masks: &'a [AddendRows<'a>],
    /// One more score of each row, which takes its part of the weights.
    pub sink: Option<AddendRows<'a>>,
}

impl WithSimd for SoftmaxOfScores<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (number, row) in self.scores.chunks_mut(self.stride).enumerate() {
            let row = &mut row[..self.columns];
            let scale = simd.splat_f32s(self.scale);
            for part in row.chunks_mut(S::F32_LANES) {
                let scores = load(simd, part);
                store(simd, part, simd.mul_f32s(scores, scale));
            }
            for (mask, stride) in self.masks {
                let mask = &mask[number * stride..][..self.columns];
                let parts = row.chunks_mut(S::F32_LANES).zip(mask.chunks(S::F32_LANES));
                for (part, mask) in parts {
                    let scores = load(simd, part);
                    store(simd, part, simd.add_f32s(scores, load(simd, mask)));
                }
            }
            // A query that sees no key gets NaN, unless there is a sink.
            softmax_of_row(simd, row, self.sink.map(|(sink, stride)| sink[number * stride]));
        }
    }
}
