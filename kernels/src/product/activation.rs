//! Functions of one number that a product applies to its result.

use pulp::{Simd, WithSimd};
use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::{Add, Div, Max, Min, Mul};
use tract_core::ops::nn;
use tract_core::ops::nn::GeluExact;
use tract_core::ops::nn::gelu_approximate::GeluApproximate;
use tract_core::ops::nn::silu::Silu;
use tract_core::tract_data::half::f16;

use super::gelu;
use super::half::RoundToHalf;
use super::kernel::{load, store};
#[cfg(target_arch = "aarch64")]
use crate::isa::NeonPairs;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx256, Avx512, Avx512Bf16};
use crate::isa::{Lanes, Portable, max_or_second, min_or_second};
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::isa::{Simd128, both};

/// What is done with each element of a result.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Activation {
    #[default]
    Identity,
    /// `min(max(x, min), max)`: Relu and Clamp. NaN becomes `min`, as in tract.
    Clamp { min: f32, max: f32 },
    /// `x * min(max(x + 3, 0), 6) * factor + addend`. [`Activation::HARD_SWISH`] is the function alone.
    HardSwish { factor: f32, addend: f32 },
    /// `x / (1 + exp(-x))`.
    Swish,
    /// `x * (1 + erf(x / sqrt(2))) / 2`.
    Gelu,
    /// `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`.
    GeluTanh,
    /// The nearest number that half precision has.
    Half,
    /// `min(max(x, min), max)` of that. The limits are numbers that half precision has.
    HalfClamp { min: f32, max: f32 },
}

impl Activation {
    /// `x * min(max(x + 3, 0), 6) / 6`.
    pub const HARD_SWISH: Activation = Activation::HardSwish { factor: 1. / 6., addend: 0. };

    /// This function, and then an operator with a constant operand if it has one; `None` if both together are
    /// none of these functions. Of a division the constant must be the divisor, which the caller sees to.
    pub fn followed_by(
        self,
        op: &dyn TypedOp,
        operand: Option<&Tensor>,
    ) -> TractResult<Option<Activation>> {
        use Activation::*;
        if let Some(op) = op.downcast_ref::<ElementWiseOp>() {
            let is_gelu_tanh = op.0.is::<gelu::GeluTanh>()
                || op.0.downcast_ref::<GeluApproximate>().is_some_and(|op| !op.fast_impl);
            return Ok(match self {
                Identity if op.0.is::<nn::HardSwish>() => Some(Activation::HARD_SWISH),
                Identity if op.0.is::<Silu>() => Some(Swish),
                Identity if op.0.is::<GeluExact>() => Some(Gelu),
                Identity if is_gelu_tanh => Some(GeluTanh),
                Identity if op.0.is::<RoundToHalf>() => Some(Half),
                _ => None,
            });
        }
        rule_if_some!(op = op.downcast_ref::<TypedBinOp>());
        rule_if!(op.1.is_none());
        rule_if_some!(operand = operand);
        rule_if!(operand.len() == 1 && operand.datum_type() == DatumType::F32);
        let number: f32 = operand.cast_to_scalar()?;
        let (is_max, is_min) = (op.0.is::<Max>(), op.0.is::<Min>());
        let is_half = f16::from_f32(number).to_f32() == number;
        let both = match self {
            Half if is_max && is_half => Some(HalfClamp { min: number, max: f32::INFINITY }),
            HalfClamp { min, max } if is_min && number >= min && is_half => {
                Some(HalfClamp { min, max: max.min(number) })
            }
            Identity if is_max => Some(Clamp { min: number, max: f32::INFINITY }),
            Clamp { min, max } if is_min && number >= min => {
                Some(Clamp { min, max: max.min(number) })
            }
            HardSwish { factor, addend } if op.0.is::<Mul>() => {
                Some(HardSwish { factor: factor * number, addend: addend * number })
            }
            HardSwish { factor, addend } if op.0.is::<Div>() => {
                Some(HardSwish { factor: factor / number, addend: addend / number })
            }
            HardSwish { factor, addend } if op.0.is::<Add>() => {
                Some(HardSwish { factor, addend: addend + number })
            }
            _ => None,
        };
        Ok(both.filter(|both| match both {
            HardSwish { factor, addend } => factor.is_finite() && addend.is_finite(),
            _ => !number.is_nan(),
        }))
    }

    /// Between which limits it leaves numbers as they are, if it does nothing else.
    pub fn limits(self) -> Option<[f32; 2]> {
        match self {
            Activation::Identity => Some([f32::NEG_INFINITY, f32::INFINITY]),
            Activation::Clamp { min, max } => Some([min, max]),
            _ => None,
        }
    }

    /// The function, of each lane.
    #[inline(always)]
    pub fn apply<S: Simd>(self, simd: S, x: S::f32s) -> S::f32s {
        let clamp = |min: f32, max: f32| {
            let raised = max_or_second(simd, x, simd.splat_f32s(min));
            min_or_second(simd, raised, simd.splat_f32s(max))
        };
        match self {
            Activation::Identity => x,
            Activation::Clamp { min, max } => clamp(min, max),
            Activation::Half => to_half(simd, x),
            // The limits stay, so that it does not matter what is first.
            Activation::HalfClamp { min, max } => to_half(simd, clamp(min, max)),
            Activation::HardSwish { factor, addend } => {
                let moved = simd.add_f32s(x, simd.splat_f32s(3.));
                let part = max_or_second(simd, moved, simd.splat_f32s(0.));
                let part = min_or_second(simd, part, simd.splat_f32s(6.));
                let part = simd.mul_f32s(part, simd.splat_f32s(factor));
                simd.mul_add_e_f32s(x, part, simd.splat_f32s(addend))
            }
            Activation::Swish => {
                let power = exp(simd, simd.neg_f32s(x));
                over_one_and_power(simd, x, power)
            }
            Activation::Gelu => {
                // Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.28: within 3e-7, of `erf`, as tract's.
                let size = simd.abs_f32s(x);
                let z = simd.mul_f32s(size, simd.splat_f32s(std::f32::consts::FRAC_1_SQRT_2));
                let mut series = simd.splat_f32s(4.306_38e-5);
                for factor in
                    [2.765_672e-4, 1.520_143e-4, 9.270_527e-3, 4.228_201e-2, 7.052_307_6e-2, 1.]
                {
                    series = simd.mul_add_e_f32s(series, z, simd.splat_f32s(factor));
                }
                for _ in 0..4 {
                    series = simd.mul_f32s(series, series);
                }
                let one = simd.splat_f32s(1.);
                let erf = simd.sub_f32s(one, simd.div_f32s(one, series));
                simd.mul_f32s(simd.mul_add_e_f32s(size, erf, x), simd.splat_f32s(0.5))
            }
            Activation::GeluTanh => {
                // `(1 + tanh(y)) / 2` is `1 / (1 + exp(-2 * y))`.
                const FACTOR: f32 = -2. * 0.797_884_6;
                let square = simd.mul_f32s(x, x);
                let factor = simd.mul_add_e_f32s(
                    square,
                    simd.splat_f32s(FACTOR * 0.044_715),
                    simd.splat_f32s(FACTOR),
                );
                let power = exp(simd, simd.mul_f32s(x, factor));
                over_one_and_power(simd, x, power)
            }
        }
    }
}

/// The nearest number that half precision has; of two, the one that is even.
#[inline(always)]
fn to_half<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let masked = |mask: u32| {
        let bits = simd.and_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(mask));
        simd.transmute_f32s_u32s(bits)
    };
    // A number of this size has as many bits after the point as half precision: the sum is rounded.
    let power = max_or_second(simd, masked(0x7f80_0000), simd.splat_f32s(f32::powi(2., -14)));
    let rounder = simd.mul_f32s(power, simd.splat_f32s(12288.));
    let size = simd.abs_f32s(x);
    let rounded = simd.sub_f32s(simd.add_f32s(size, rounder), rounder);
    // 65520 is in the middle of the largest number and what would follow it.
    let is_large = simd.greater_than_or_equal_f32s(size, simd.splat_f32s(65520.));
    let rounded = simd.select_f32s(is_large, simd.splat_f32s(f32::INFINITY), rounded);
    let sign = simd.transmute_u32s_f32s(masked(0x8000_0000));
    simd.transmute_f32s_u32s(simd.or_u32s(simd.transmute_u32s_f32s(rounded), sign))
}

/// `x / (1 + power)`, where the power of numbers below -104 is so large that this is 0.
#[inline(always)]
fn over_one_and_power<S: Simd>(simd: S, x: S::f32s, power: S::f32s) -> S::f32s {
    let quotient = simd.div_f32s(x, simd.add_f32s(simd.splat_f32s(1.), power));
    let is_zero = simd.less_than_f32s(x, simd.splat_f32s(-104.));
    simd.select_f32s(is_zero, simd.splat_f32s(-0.), quotient)
}

/// Vectors that apply the functions, where they are none of pulp's.
pub(crate) trait ActivationLanes<const N: usize>: Lanes<N> {
    fn activated(self, x: Self::Floats, activation: Activation) -> Self::Floats;
}

impl ActivationLanes<8> for Portable {
    #[inline(always)]
    fn activated(self, x: [f32; 8], activation: Activation) -> [f32; 8] {
        x.map(|x| activation.apply(pulp::Scalar::new(), x))
    }
}

/// Vectors that pulp has, too.
#[cfg(target_arch = "x86_64")]
macro_rules! impl_activation_lanes {
    ([$($generic:tt)*] $lanes:ty, $count:literal, $vector:ident) => {
        impl<$($generic)*> ActivationLanes<$count> for $lanes
        where
            $lanes: Lanes<$count, Floats = std::arch::x86_64::$vector>,
        {
            #[inline(always)]
            fn activated(self, x: Self::Floats, activation: Activation) -> Self::Floats {
                pulp::cast(activation.apply(self.pulp(), pulp::cast(x)))
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
impl_activation_lanes!([const VNNI: bool] Avx256<VNNI>, 8, __m256);
#[cfg(target_arch = "x86_64")]
impl_activation_lanes!([const VNNI: bool] Avx512<VNNI>, 16, __m512);
#[cfg(target_arch = "x86_64")]
impl_activation_lanes!([] Avx512Bf16, 16, __m512);

/// Each vector is a pair.
#[cfg(target_arch = "aarch64")]
impl<const DOT: bool> ActivationLanes<8> for NeonPairs<DOT>
where
    NeonPairs<DOT>: Lanes<8, Floats = [std::arch::aarch64::float32x4_t; 2]>,
{
    #[inline(always)]
    fn activated(self, [low, high]: Self::Floats, activation: Activation) -> Self::Floats {
        let low = activation.apply(self.pulp(), pulp::cast(low));
        let high = activation.apply(self.pulp(), pulp::cast(high));
        [pulp::cast(low), pulp::cast(high)]
    }
}

/// Each vector is a pair.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
impl ActivationLanes<8> for Simd128 {
    #[inline(always)]
    fn activated(self, x: Self::Floats, activation: Activation) -> Self::Floats {
        both!(|x| pulp::bytemuck::cast(activation.apply(self.pulp(), pulp::bytemuck::cast(x))))
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
pub(super) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let raised = max_or_second(simd, x, simd.splat_f32s(LEAST_OF_EXP));
    exp_of_limited(simd, min_or_second(simd, raised, simd.splat_f32s(88.3)))
}

/// A power of less is no normal number.
pub(crate) const LEAST_OF_EXP: f32 = -87.3;

/// [`exp`] of numbers of which the power is a normal number. NaN is kept.
#[inline(always)]
pub(crate) fn exp_of_limited<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let splat = |number: f32| simd.splat_f32s(number);
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
