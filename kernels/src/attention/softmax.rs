//! The softmax between the products.

use pulp::{Simd, WithSimd};

use crate::product::{load, store};
use crate::softmax::power_below;

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
            let mut greatest = simd.splat_f32s(f32::NEG_INFINITY);
            let mut vectors = row.chunks_exact(S::F32_LANES);
            for part in &mut vectors {
                greatest = simd.max_f32s(load(simd, part), greatest);
            }
            let rest = vectors.remainder().iter().copied();
            let greatest = rest.fold(simd.reduce_max_f32s(greatest), f32::max);
            // Nothing is the greatest: a query that sees no key.
            let greatest = if greatest == f32::NEG_INFINITY { f32::NAN } else { greatest };
            let greatest = simd.splat_f32s(greatest);
            let mut sums = simd.splat_f32s(0.);
            for part in row.chunks_mut(S::F32_LANES) {
                let lanes = part.len();
                let power = power_below(simd, simd.sub_f32s(load(simd, part), greatest));
                store(simd, part, power);
                sums = match lanes == S::F32_LANES {
                    true => simd.add_f32s(sums, power),
                    false => simd.add_f32s(sums, simd.partial_load_f32s(part)),
                };
            }
            let factor = simd.splat_f32s(1. / simd.reduce_sum_f32s(sums));
            for part in row.chunks_mut(S::F32_LANES) {
                let power = load(simd, part);
                store(simd, part, simd.mul_f32s(power, factor));
            }
        }
    }
}
