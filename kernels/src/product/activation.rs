//! Functions of one number that a product applies to its result.

use pulp::{Simd, WithSimd};
use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::{Max, Min};
use tract_core::ops::nn;
use tract_core::ops::nn::silu::Silu;

use super::kernel::{load, store};

/// What is done with each element of a result.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Activation {
    #[default]
    Identity,
    /// `min(max(x, min), max)`: Relu and Clamp. NaN becomes `min`, as in tract.
    Clamp { min: f32, max: f32 },
    /// `x * min(max(x + 3, 0), 6) / 6`.
    HardSwish,
    /// `x / (1 + exp(-x))`.
    Swish,
}

impl Activation {
    /// This function, and then an operator with a constant operand if it has one; `None` if both together are
    /// none of these functions.
    pub fn followed_by(
        self,
        op: &dyn TypedOp,
        operand: Option<&Tensor>,
    ) -> TractResult<Option<Activation>> {
        use Activation::*;
        if let Some(op) = op.downcast_ref::<ElementWiseOp>() {
            return Ok(match self {
                Identity if op.0.is::<nn::HardSwish>() => Some(HardSwish),
                Identity if op.0.is::<Silu>() => Some(Swish),
                _ => None,
            });
        }
        rule_if_some!(op = op.downcast_ref::<TypedBinOp>());
        rule_if!(op.1.is_none());
        let (is_max, is_min) = (op.0.is::<Max>(), op.0.is::<Min>());
        rule_if!(is_max || is_min);
        rule_if_some!(operand = operand);
        rule_if!(operand.len() == 1 && operand.datum_type() == DatumType::F32);
        let number: f32 = operand.cast_to_scalar()?;
        rule_if!(!number.is_nan());
        Ok(match self {
            Identity if is_max => Some(Clamp { min: number, max: f32::INFINITY }),
            Clamp { min, max } if is_min && number >= min => {
                Some(Clamp { min, max: max.min(number) })
            }
            _ => None,
        })
    }

    /// Between which limits it leaves numbers as they are, if it does nothing else.
    pub fn limits(self) -> Option<[f32; 2]> {
        match self {
            Activation::Identity => Some([f32::NEG_INFINITY, f32::INFINITY]),
            Activation::Clamp { min, max } => Some([min, max]),
            Activation::HardSwish | Activation::Swish => None,
        }
    }

    /// The function, of each lane.
    #[inline(always)]
    pub fn apply<S: Simd>(self, simd: S, x: S::f32s) -> S::f32s {
        match self {
            Activation::Identity => x,
            // Of NaN the second operand is the larger one.
            Activation::Clamp { min, max } => {
                simd.min_f32s(simd.max_f32s(x, simd.splat_f32s(min)), simd.splat_f32s(max))
            }
            Activation::HardSwish => {
                let moved = simd.add_f32s(x, simd.splat_f32s(3.));
                let part =
                    simd.min_f32s(simd.max_f32s(moved, simd.splat_f32s(0.)), simd.splat_f32s(6.));
                simd.mul_f32s(simd.mul_f32s(x, part), simd.splat_f32s(1. / 6.))
            }
            Activation::Swish => {
                let power = exp(simd, simd.neg_f32s(x));
                simd.div_f32s(x, simd.add_f32s(simd.splat_f32s(1.), power))
            }
        }
    }
}

/// Applies the function to some numbers.
pub(crate) struct Activate<'a> {
    pub numbers: &'a mut [f32],
    pub activation: Activation,
}

impl WithSimd for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for part in self.numbers.chunks_mut(S::F32_LANES) {
            let numbers = load(simd, part);
            store(simd, part, self.activation.apply(simd, numbers));
        }
    }
}

/// `exp(x)`, within two units of the last place, where it is a normal number. Elsewhere it is the nearest of
/// these.
///
/// `x` is `n * ln(2) + rest`, so that `exp(x)` is `2^n * exp(rest)`, and the second factor is a short series.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let splat = |number: f32| simd.splat_f32s(number);
    let x = simd.min_f32s(simd.max_f32s(x, splat(-87.3)), splat(88.3));
    // A number of this size has no bits after the point: the sum is rounded, and `n` is in its lowest bits.
    const ROUNDER: f32 = 12582912.;
    let shifted = simd.mul_add_e_f32s(x, splat(std::f32::consts::LOG2_E), splat(ROUNDER));
    let n = simd.sub_f32s(shifted, splat(ROUNDER));
    // ln(2) in two parts, of which the first has few bits: its products with `n` are exact.
    let rest = simd.mul_add_e_f32s(n, splat(-0.693_359_4), x);
    let rest = simd.mul_add_e_f32s(n, splat(2.121_944_4e-4), rest);
    let mut series = splat(1. / 5040.);
    for factor in [1. / 720., 1. / 120., 1. / 24., 1. / 6., 0.5, 1., 1.] {
        series = simd.mul_add_e_f32s(series, rest, splat(factor));
    }
    // 2^n, by its bits.
    let exponent = simd.add_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(127));
    let power = simd.wrapping_dyn_shl_u32s(exponent, simd.splat_u32s(23));
    simd.mul_f32s(series, simd.transmute_f32s_u32s(power))
}
