//! Functions of one number.
//!
//! They take floats of any size, and their results are finite where the functions are.

use std::f64::consts::FRAC_1_SQRT_2;

use tract_core::internal::*;
use tract_core::tract_data::half::f16;

element_wise!(soft_plus, SoftPlus,
    [f16] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = f16::from_f32(soft_plus_f32(x.to_f32())));
        Ok(())
    },
    [f32] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = soft_plus_f32(*x));
        Ok(())
    };
    validation: Validation::Rounding
);

element_wise!(mish, Mish,
    [f16] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = f16::from_f32(mish_f32(x.to_f32())));
        Ok(())
    },
    [f32] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = mish_f32(*x));
        Ok(())
    };
    validation: Validation::Rounding
);

element_wise!(erf_inv, ErfInv,
    [f16] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = f16::from_f64(erf_inv_f64(x.to_f64())));
        Ok(())
    },
    [f32] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = erf_inv_f64(f64::from(*x)) as f32);
        Ok(())
    },
    [f64] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = erf_inv_f64(*x));
        Ok(())
    };
    validation: Validation::Rounding
);

/// `ln(1 + exp(x))`.
fn soft_plus_f32(x: f32) -> f32 {
    x.max(0.) + (-x.abs()).exp().ln_1p()
}

/// `x * tanh(soft_plus(x))`, with one exponential.
fn mish_f32(x: f32) -> f32 {
    // Here the factor is 1. For larger numbers the exponential would become infinite.
    if x > 20. {
        return x;
    }
    // Here the factor is 0.
    if x < -100. {
        return -0.;
    }
    let exp = x.exp();
    let n = exp * (exp + 2.);
    x * (n / (n + 2.))
}

/// The number whose error function is `x`: infinite for -1 and 1, and NaN outside of them.
///
/// It is a quantile of the normal distribution, times a root of 2. Quotients of polynomials approximate that to 16 digits (Wichura,
/// "Algorithm AS 241: The Percentage Points of the Normal Distribution", 1988).
fn erf_inv_f64(x: f64) -> f64 {
    let quotient = |parts: &[[f64; 2]; 8], r: f64| {
        let [numerator, denominator] =
            parts.iter().rev().fold([0f64; 2], |[a, b], [c, d]| [a * r + c, b * r + d]);
        numerator / denominator
    };
    let half = x / 2.;
    if half.abs() <= 0.425 {
        return half * quotient(&NEAR_ZERO, 0.180625 - half * half) * FRAC_1_SQRT_2;
    }
    // The part of the distribution that is further away. For numbers beyond 1 it is negative, and has no logarithm.
    let far = (0.5 - half.abs()).ln();
    if far == f64::NEG_INFINITY {
        return f64::INFINITY.copysign(x);
    }
    let r = (-far).sqrt();
    let quantile = match r <= 5. {
        true => quotient(&FAR_FROM_ZERO, r - 1.6),
        false => quotient(&FARTHEST, r - 5.),
    };
    quantile.copysign(x) * FRAC_1_SQRT_2
}

/// Coefficients of the numerators and denominators of [`erf_inv_f64`], those of the least powers first.
const NEAR_ZERO: [[f64; 2]; 8] = [
    [3.387_132_872_796_366_6, 1.],
    [133.141_667_891_784_38, 42.313_330_701_600_91],
    [1_971.590_950_306_551_3, 687.187_007_492_057_9],
    [13_731.693_765_509_46, 5_394.196_021_424_751],
    [45_921.953_931_549_87, 21_213.794_301_586_597],
    [67_265.770_927_008_7, 39_307.895_800_092_71],
    [33_430.575_583_588_13, 28_729.085_735_721_943],
    [2_509.080_928_730_122_7, 5_226.495_278_852_854],
];
const FAR_FROM_ZERO: [[f64; 2]; 8] = [
    [1.423_437_110_749_683_5, 1.],
    [4.630_337_846_156_546, 2.053_191_626_637_759],
    [5.769_497_221_460_691, 1.676_384_830_183_803_8],
    [3.647_848_324_763_204_5, 6.897_673_349_851e-1],
    [1.270_458_252_452_368_4, 1.481_039_764_274_800_8e-1],
    [2.417_807_251_774_506e-1, 1.519_866_656_361_645_7e-2],
    [2.272_384_498_926_918_4e-2, 5.475_938_084_995_345e-4],
    [7.745_450_142_783_414e-4, 1.050_750_071_644_416_9e-9],
];
const FARTHEST: [[f64; 2]; 8] = [
    [6.657_904_643_501_104, 1.],
    [5.463_784_911_164_114, 5.998_322_065_558_88e-1],
    [1.784_826_539_917_291_3, 1.369_298_809_227_358e-1],
    [2.965_605_718_285_048_7e-1, 1.487_536_129_085_061_5e-2],
    [2.653_218_952_657_612_4e-2, 7.868_691_311_456_133e-4],
    [1.242_660_947_388_078_4e-3, 1.846_318_317_510_054_8e-5],
    [2.711_555_568_743_487_6e-5, 1.421_511_758_316_446e-7],
    [2.010_334_399_292_288_1e-7, 2.044_263_103_389_939_8e-15],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_whose_error_function_is_given() {
        for (x, expected) in [
            (0., 0.),
            (1e-300, 8.862269254527581e-301),
            (-1e-3, -8.862271574665521e-4),
            (0.25, 0.22531205501217808),
            (-0.5, -0.4769362762044699),
            (0.84, 0.9935356283473042),
            (0.86, 1.0435418436397588),
            (-0.999, -2.326753765513525),
            (0.9999999999, 4.572824958544925),
            (1., f64::INFINITY),
            (-1., f64::NEG_INFINITY),
        ] {
            let found = erf_inv_f64(x);
            let difference: f64 = found - expected;
            let close = found == expected || difference.abs() <= 1e-15 * expected.abs();
            assert!(close, "{x}: {found}, not {expected}");
        }
        assert_eq!(erf_inv_f64(-0.).to_bits(), (-0f64).to_bits());
        for x in [1.1, -2., f64::INFINITY, f64::NAN] {
            assert!(erf_inv_f64(x).is_nan(), "{x}");
        }
        // The farthest of all.
        let last = erf_inv_f64(1. - f64::EPSILON / 2.);
        assert!((last - 5.863584748755167).abs() < 1e-14, "{last}");
    }

    #[test]
    fn small_and_large() {
        for x in [
            -1e30f32, -200., -88., -30., -1., -1e-3, 0., 1e-3, 1., 15., 19.9, 20.1, 88., 1000.,
            1e30,
        ] {
            let exact = f64::from(x);
            let soft_plus = exact.max(0.) + (-exact.abs()).exp().ln_1p();
            let mish = exact * soft_plus.tanh();
            for (found, expected) in [(soft_plus_f32(x), soft_plus), (mish_f32(x), mish)] {
                let difference = (f64::from(found) - expected).abs();
                assert!(
                    difference <= 1e-6 * expected.abs() + 1e-30,
                    "{x}: {found}, not {expected}"
                );
            }
        }
        assert_eq!(soft_plus_f32(f32::INFINITY), f32::INFINITY);
        assert_eq!(soft_plus_f32(f32::NEG_INFINITY), 0.);
        assert_eq!(mish_f32(f32::INFINITY), f32::INFINITY);
        assert!(soft_plus_f32(f32::NAN).is_nan());
    }
}
