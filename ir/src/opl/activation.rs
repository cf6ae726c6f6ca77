//! Functions of one number.
//!
//! They take floats of any size, and their results are finite where the functions are.

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

#[cfg(test)]
mod tests {
    use super::*;

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
