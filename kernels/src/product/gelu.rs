//! [`gelu_tanh`]: `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))` of each element, of type F32 or F16.
//!
//! It is tract's `GeluApproximate`, but 0 of large negative numbers, and NaN of NaN.

// The macro gives its items no documentation.
#![allow(missing_docs)]

use tract_core::internal::*;
use tract_core::tract_data::half::f16;

use super::Vectors;
use super::activation::{Activate, Activation};

element_wise!(gelu_tanh, GeluTanh,
    [f16] => |_, xs| {
        let mut numbers: Vec<f32> = xs.iter().map(|x| x.to_f32()).collect();
        Vectors::detect().run(Activate { numbers: &mut numbers, activation: Activation::GeluTanh });
        xs.iter_mut().zip(numbers).for_each(|(x, number)| *x = f16::from_f32(number));
        Ok(())
    },
    [f32] => |_, xs| {
        Vectors::detect().run(Activate { numbers: xs, activation: Activation::GeluTanh });
        Ok(())
    };
    validation: Validation::Rounding
);
