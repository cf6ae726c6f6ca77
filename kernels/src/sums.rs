//! Rows as one number.

use pulp::Simd;

/// The elements of a row, each after a function, as one vector: `add` adds a vector of them to what there is so far, `neutral` at the
/// beginning, and `join` makes one of two such.
#[inline(always)]
pub(crate) fn fold_row<S: Simd>(
    simd: S,
    row: &[f32],
    neutral: S::f32s,
    element: impl Fn(S::f32s) -> S::f32s,
    add: impl Fn(S::f32s, S::f32s) -> S::f32s,
    join: impl Fn(S::f32s, S::f32s) -> S::f32s,
) -> S::f32s {
    let (vectors, rest) = S::as_simd_f32s(row);
    let (fours, others) = vectors.as_chunks::<4>();
    // Four at a time do not wait for each other.
    let mut so_far = [neutral; 4];
    for four in fours {
        for number in 0..4 {
            so_far[number] = add(so_far[number], element(four[number]));
        }
    }
    let [a, b, c, d] = so_far;
    let mut all = join(join(a, b), join(c, d));
    for vector in others {
        all = add(all, element(*vector));
    }
    if !rest.is_empty() {
        // The other lanes are no elements.
        let is_element = simd.mask_between_m32s(0, rest.len() as u32).mask();
        let rest = element(simd.partial_load_f32s(rest));
        all = add(all, simd.select_f32s(is_element, rest, neutral));
    }
    all
}

/// The sum of a row less a number, or of its `SQUARES`.
#[inline(always)]
pub(crate) fn total<S: Simd, const SQUARES: bool>(simd: S, row: &[f32], less: f32) -> f32 {
    let (zero, less) = (simd.splat_f32s(0.), simd.splat_f32s(less));
    let sums = fold_row(
        simd,
        row,
        zero,
        #[inline(always)]
        |x| simd.sub_f32s(x, less),
        #[inline(always)]
        |sum, x| if SQUARES { simd.mul_add_e_f32s(x, x, sum) } else { simd.add_f32s(sum, x) },
        #[inline(always)]
        |a, b| simd.add_f32s(a, b),
    );
    simd.reduce_sum_f32s(sums)
}
