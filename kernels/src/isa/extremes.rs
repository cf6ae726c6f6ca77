//! The larger and the smaller of two numbers, which instructions of processors define differently where one is NaN.
//!
//! Here the comparison decides, as in the instructions of x86: the first number if it is greater, or less, and else the second one. So
//! `max_or_second(x, limit)` puts the limit in the place of NaN, and a maximum that is the second operand ignores it.

use pulp::Simd;

/// The first number of each lane if it is greater, else the second one.
#[inline(always)]
pub(crate) fn max_or_second<S: Simd>(simd: S, first: S::f32s, second: S::f32s) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES > 1 {
        return simd.max_f32s(first, second);
    }
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    if S::F32_LANES > 1 {
        return super::wasm::max_or_second(first, second);
    }
    compared_max(simd, first, second)
}

/// The first number of each lane if it is less, else the second one.
#[inline(always)]
pub(crate) fn min_or_second<S: Simd>(simd: S, first: S::f32s, second: S::f32s) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES > 1 {
        return simd.min_f32s(first, second);
    }
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    if S::F32_LANES > 1 {
        return super::wasm::min_or_second(first, second);
    }
    compared_min(simd, first, second)
}

/// As [`max_or_second`] on any processor.
#[inline(always)]
fn compared_max<S: Simd>(simd: S, first: S::f32s, second: S::f32s) -> S::f32s {
    simd.select_f32s(simd.greater_than_f32s(first, second), first, second)
}

/// As [`min_or_second`] on any processor.
#[inline(always)]
fn compared_min<S: Simd>(simd: S, first: S::f32s, second: S::f32s) -> S::f32s {
    simd.select_f32s(simd.less_than_f32s(first, second), first, second)
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::isa::Vectors;
    use crate::isa::tests::with_all_vectors;

    /// The first lane of each function.
    struct All([f32; 2]);

    impl WithSimd for All {
        type Output = [[f32; 2]; 2];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> [[f32; 2]; 2] {
            let [first, second] = self.0.map(|number| simd.splat_f32s(number));
            let found = [
                [max_or_second(simd, first, second), compared_max(simd, first, second)],
                [min_or_second(simd, first, second), compared_min(simd, first, second)],
            ];
            found.map(|both| {
                both.map(|vector| {
                    let mut number = [0.];
                    simd.partial_store_f32s(&mut number, vector);
                    number[0]
                })
            })
        }
    }

    #[test]
    fn comparisons_decide() {
        let numbers = [f32::NAN, f32::NEG_INFINITY, f32::MIN, -1., -0., 0., 1., f32::INFINITY];
        with_all_vectors(|| {
            for [first, second] in numbers.iter().flat_map(|a| numbers.map(|b| [*a, b])) {
                let expected = [
                    if first > second { first } else { second },
                    if first < second { first } else { second },
                ];
                let found = Vectors::detect().run(All([first, second]));
                assert_eq!(
                    found.map(|both| both.map(f32::to_bits)),
                    expected.map(|number| [number.to_bits(); 2]),
                    "{first} and {second}"
                );
            }
        });
    }
}
