//! The softmax between the products.

use pulp::{Simd, WithSimd};

use crate::product::{load, store};
use crate::softmax::softmax_of_row;

/// The softmax of rows of scores, of which each is multiplied by the scale and has masks added first.
pub(super) struct SoftmaxOfRows<'a> {
    pub scores: &'a mut [f32],
    pub stride: usize,
    pub columns: usize,
    pub scale: f32,
    /// A row of each mask for each row of scores, in its distance.
    pub masks: &'a [(&'a [f32], usize)],
}

impl WithSimd for SoftmaxOfRows<'_> {
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
            // A query that sees no key gets NaN.
            softmax_of_row(simd, row);
        }
    }
}
