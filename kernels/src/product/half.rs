//! [`round_to_half`]: the nearest number that half precision has, of each element, of type F32.

// The macro gives its items no documentation.
#![allow(missing_docs)]

use tract_core::internal::*;

use super::Vectors;
use super::activation::{Activate, Activation};

element_wise!(round_to_half, RoundToHalf,
    [f32] => |_, xs| {
        Vectors::detect().run(Activate { numbers: xs, activation: Activation::Half });
        Ok(())
    };
    validation: Validation::Rounding
);

#[cfg(test)]
mod tests {
    use tract_core::tract_data::half::f16;

    use super::*;
    use crate::product::tests::with_all_vectors;

    #[test]
    fn it_is_the_conversion_to_half_precision_and_back() {
        // All exponents, and what is between two numbers of half precision: in the middle of them, and beside it.
        let mut numbers: Vec<f32> = (0..=u16::MAX)
            .flat_map(|high| [0, 1, 0x0fff, 0x1000, 0x1001, 0x1fff].map(|low| (high, low)))
            .map(|(high, low)| {
                f32::from_bits((u32::from(high) << 16) | low | (u32::from(high & 7) << 13))
            })
            .collect();
        numbers.extend((0..=u16::MAX).flat_map(|bits| {
            let [number, next] = [bits, bits.wrapping_add(1)].map(|it| f16::from_bits(it).to_f32());
            [number, (number + next) / 2., next]
        }));
        numbers.extend([65504., 65519.996, 65520., 65536., f32::MAX, f32::MIN, f32::NAN]);
        with_all_vectors(|| {
            let mut found = numbers.clone();
            let activation = Activation::Half;
            Vectors::detect().run(Activate { numbers: &mut found, activation });
            for (number, found) in numbers.iter().zip(found) {
                let expected = f16::from_f32(*number).to_f32();
                assert!(
                    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                    "{number:e} ({:x}) became {found:e}, not {expected:e}",
                    number.to_bits()
                );
            }
        });
    }
}
