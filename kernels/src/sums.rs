//! Sums of rows.

use pulp::Simd;

/// The sum of a row less a number, or of its `SQUARES`.
#[inline(always)]
pub(crate) fn total<S: Simd, const SQUARES: bool>(simd: S, row: &[f32], less: f32) -> f32 {
    let (less, zero) = (simd.splat_f32s(less), simd.splat_f32s(0.));
    let (vectors, rest) = S::as_simd_f32s(row);
    let (fours, others) = vectors.as_chunks::<4>();
    // Four at a time do not wait for each other.
    let mut sums = [zero; 4];
    for four in fours {
        for number in 0..4 {
            let x = simd.sub_f32s(four[number], less);
            sums[number] = with::<S, SQUARES>(simd, sums[number], x);
        }
    }
    let [a, b, c, d] = sums;
    let mut sum = simd.add_f32s(simd.add_f32s(a, b), simd.add_f32s(c, d));
    for vector in others {
        sum = with::<S, SQUARES>(simd, sum, simd.sub_f32s(*vector, less));
    }
    if !rest.is_empty() {
        let x = simd.sub_f32s(simd.partial_load_f32s(rest), less);
        // The other lanes are no elements.
        let is_element = simd.mask_between_m32s(0, rest.len() as u32).mask();
        sum = with::<S, SQUARES>(simd, sum, simd.select_f32s(is_element, x, zero));
    }
    simd.reduce_sum_f32s(sum)
}

/// A sum with one number more, or its square.
#[inline(always)]
fn with<S: Simd, const SQUARES: bool>(simd: S, sum: S::f32s, x: S::f32s) -> S::f32s {
    if SQUARES { simd.mul_add_e_f32s(x, x, sum) } else { simd.add_f32s(sum, x) }
}
