//! Numbers rounded to types of fewer bits, in single precision: tract has no such types.

use tract_core::internal::*;

element_wise!(to_bf16, ToBf16,
    [f32] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = bf16(*x));
        Ok(())
    }
);

element_wise!(to_f8e4m3, ToF8E4M3,
    [f32] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = F8E4M3.rounded(*x));
        Ok(())
    }
);

element_wise!(to_f8e5m2, ToF8E5M2,
    [f32] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = F8E5M2.rounded(*x));
        Ok(())
    }
);

element_wise!(saturate_f8e4m3, SaturateF8E4M3,
    [f32] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = F8E4M3.saturated(*x));
        Ok(())
    }
);

element_wise!(saturate_f8e5m2, SaturateF8E5M2,
    [f32] => |_, xs| {
        xs.iter_mut().for_each(|x| *x = F8E5M2.saturated(*x));
        Ok(())
    }
);

/// Rounds to the nearest number with 8 bits of mantissa, the first one included; halves to the even one.
fn bf16(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    let bits = x.to_bits();
    let half = 0x7fff + (bits >> 16 & 1);
    f32::from_bits((bits + half) & 0xffff_0000)
}

/// Floats of 8 bits.
struct F8 {
    /// The bits of the mantissa, without the first one.
    mantissa: i32,
    /// The exponent of the least number that has this first bit.
    least: i32,
    greatest: f32,
    /// What is greater than the greatest number when it is rounded.
    beyond: f32,
}

const F8E4M3: F8 = F8 { mantissa: 3, least: -6, greatest: 448., beyond: f32::NAN };
const F8E5M2: F8 = F8 { mantissa: 2, least: -14, greatest: 57344., beyond: f32::INFINITY };

impl F8 {
    /// Rounds to the nearest number, halves to the even one.
    fn rounded(&self, x: f32) -> f32 {
        let exponent = (x.to_bits() >> 23 & 0xff) as i32 - 127;
        if exponent > 127 {
            return if x.is_nan() { x } else { self.beyond.copysign(x) };
        }
        let step = 2f32.powi(exponent.max(self.least) - self.mantissa);
        let rounded = (x / step).round_ties_even() * step;
        if rounded.abs() > self.greatest { self.beyond.copysign(x) } else { rounded }
    }

    /// The same, but what is beyond the greatest number becomes that.
    fn saturated(&self, x: f32) -> f32 {
        self.rounded(x.clamp(-self.greatest, self.greatest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of this many more bits than `bf16` has is halfway between two of them.
    #[test]
    fn halves_become_even() {
        for (x, expected) in [
            (1., 1.),
            (1. + 2f32.powi(-8), 1.),
            (1. + 3. * 2f32.powi(-8), 1. + 4. * 2f32.powi(-8)),
            (1. + 2f32.powi(-8) + f32::EPSILON, 1. + 2f32.powi(-7)),
            (-std::f32::consts::PI, -3.140625),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            // Less than the least number of single precision with all bits.
            (2f32.powi(-133), 2f32.powi(-133)),
            (2f32.powi(-134), 0.),
        ] {
            assert_eq!(bf16(x), expected, "{x}");
        }
        assert_eq!(bf16(-0.).to_bits(), (-0f32).to_bits());
        assert!(bf16(f32::from_bits(0x7f80_0001)).is_nan());
    }

    #[test]
    fn floats_of_8_bits() {
        for (x, e4m3, e5m2) in [
            (0.3, 0.3125, 0.3125),
            (1.0625, 1., 1.),
            (1.1875, 1.25, 1.25),
            (-3.3, -3.25, -3.5),
            (100., 96., 96.),
            (464., 448., 448.),
            (465., f32::NAN, 448.),
            (61439., f32::NAN, 57344.),
            (61440., f32::NAN, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NAN, f32::NEG_INFINITY),
            // Numbers without the first bit.
            (2f32.powi(-10), 0., 2f32.powi(-10)),
            (3. * 2f32.powi(-10), 2f32.powi(-8), 3. * 2f32.powi(-10)),
            (1e-30, 0., 0.),
        ] {
            for (format, expected) in [(F8E4M3, e4m3), (F8E5M2, e5m2)] {
                let found = format.rounded(x);
                let same = found == expected || (found.is_nan() && expected.is_nan());
                assert!(same, "{x}: {found}, not {expected}");
            }
        }
        assert!(F8E5M2.rounded(f32::NAN).is_nan());
        for (x, expected) in [(465., 448.), (f32::NEG_INFINITY, -448.), (-0.3, -0.3125)] {
            assert_eq!(F8E4M3.saturated(x), expected);
        }
        assert_eq!(F8E5M2.saturated(1e5), 57344.);
        assert!(F8E4M3.saturated(f32::NAN).is_nan());
    }
}
