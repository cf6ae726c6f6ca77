//! Codes, and the numbers that they stand for.

use pulp::Simd;

use crate::isa::{ROUNDER, limited, max_or_second, min_or_second, nearest, rounded};

/// Up to 256 levels of numbers: which code is nearest to a number, and which number a code stands for. Channels may differ.
///
/// A number `x` has the code `round(x * factor + shift)`, at least 0 and at most `top`; halves are rounded to even codes. A
/// code stands for `low + code * scale`. QuantizeLinear of ONNX rounds before it adds the zero point, which matters for halves if
/// that is odd.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Levels {
    top: u8,
    /// Whether `x * factor` is rounded before the shift is added.
    rounds_first: bool,
    /// For each channel, or one for all.
    channels: Vec<ChannelLevels>,
}

/// The levels of one channel: `factor` and `shift` make codes, `low` and `scale` numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ChannelLevels {
    pub factor: f32,
    pub shift: f32,
    pub low: f32,
    pub scale: f32,
}

impl ChannelLevels {
    /// The zero point, which is the code of 0, and the number that it stands for: 0 up to rounding errors, if a code stands for 0. Where 0
    /// is beyond all codes, the first code.
    pub fn zero(self) -> (i32, f32) {
        let zero = (-self.low / self.scale).round_ties_even();
        match (0. ..=255.).contains(&zero) {
            true => (zero as i32, self.low + zero * self.scale),
            false => (0, self.low),
        }
    }
}

impl Levels {
    /// The levels of FakeQuantize, with limits of each channel in this order: `input_low`, `input_high`, `output_low`,
    /// `output_high`. `None` if no codes of 8 bits do the same: there are too many levels, or limits that are not in
    /// ascending order.
    pub fn of_fake_quantize(levels: u32, limits: &[[f32; 4]]) -> Option<Levels> {
        let top = u8::try_from(levels.checked_sub(1)?).ok().filter(|top| *top > 0)?;
        let level = |&[low, high, output_low, output_high]: &[f32; 4]| {
            let factor = f32::from(top) / (high - low);
            let scale = (output_high - output_low) / f32::from(top);
            let level = ChannelLevels { factor, shift: -low * factor, low: output_low, scale };
            let numbers = [level.factor, level.shift, level.low, level.scale];
            (numbers.iter().all(|it| it.is_finite()) && scale >= f32::MIN_POSITIVE && factor > 0.)
                .then_some(level)
        };
        let mut channels = limits.iter().map(level).collect::<Option<Vec<_>>>()?;
        if channels.windows(2).all(|pair| pair[0] == pair[1]) {
            channels.truncate(1);
        }
        (!channels.is_empty()).then_some(Levels { top, rounds_first: false, channels })
    }

    /// The levels of QuantizeLinear and DequantizeLinear of ONNX: 256 levels, one scale and one zero point, of unsigned codes. `None`
    /// if the scale is not a positive number.
    pub fn of_scale(scale: f32, zero_point: i32) -> Option<Levels> {
        let shift = zero_point as f32;
        let level = ChannelLevels { factor: scale.recip(), shift, low: -shift * scale, scale };
        let is_one = scale >= f32::MIN_POSITIVE && scale.is_finite() && level.factor.is_finite();
        is_one.then(|| Levels { top: 255, rounds_first: true, channels: vec![level] })
    }

    /// Whether rounding what these codes stand for to other levels gives the same codes. Channels must not differ.
    pub fn are_kept_by(&self, other: &Levels) -> bool {
        let ([from], [to]) = (&*self.channels, &*other.channels) else { return false };
        let is_near = (from.scale - to.scale).abs() <= from.scale * 1e-5;
        let kept = |code: u8| other.code(*to, from.low + f32::from(code) * from.scale) == code;
        is_near && self.top == other.top && (0..=self.top).all(kept)
    }

    pub fn top(&self) -> f32 {
        self.top.into()
    }

    /// The levels of a channel. After the last one they begin again, for channels of several pixels.
    pub fn of(&self, channel: usize) -> ChannelLevels {
        self.channels[channel % self.channels.len()]
    }

    /// Whether all channels have the same.
    pub fn are_the_same(&self) -> bool {
        self.channels.len() == 1
    }

    /// The factor and the addend that make codes of a channel's numbers, and the codes of two limits of these: none is rounded. Without
    /// levels, numbers stay as they are.
    pub fn scale_of_codes(levels: Option<&Levels>, channel: usize, limits: [f32; 2]) -> [f32; 4] {
        let Some(levels) = levels else { return [1., 0., limits[0], limits[1]] };
        let ChannelLevels { factor, shift, .. } = levels.of(channel);
        let [least, most] = limits.map(|limit| limited(limit * factor + shift, 0., levels.top()));
        [factor, shift, least, most]
    }

    /// The zero point of each of so many channels, if each has a code that stands for 0.
    pub fn zeros(&self, channels: usize) -> Option<Vec<u8>> {
        let zero = |channel| {
            let level = self.of(channel);
            let (zero, number) = level.zero();
            u8::try_from(zero)
                .ok()
                .filter(|zero| *zero <= self.top && number.abs() <= level.scale * 1e-3)
        };
        (0..channels).map(zero).collect()
    }

    /// The code that stands for a number in all channels, if there is one.
    pub fn exact_code(&self, number: f32) -> Option<u8> {
        let [level] = &*self.channels else { return None };
        let code = self.code(*level, number);
        let is_near =
            (level.low + f32::from(code) * level.scale - number).abs() <= level.scale * 1e-3;
        is_near.then_some(code)
    }

    /// The code of a number.
    #[inline(always)]
    pub fn code(&self, level: ChannelLevels, number: f32) -> u8 {
        let mut number = number * level.factor;
        if self.rounds_first {
            number = nearest(number);
        }
        rounded(limited(number + level.shift, 0., self.top()))
    }

    /// The codes of a vector of numbers.
    #[inline(always)]
    pub fn codes<S: Simd>(&self, simd: S, level: ChannelLevels, numbers: S::f32s) -> S::u32s {
        let rounder = simd.splat_f32s(ROUNDER);
        let mut numbers = simd.mul_f32s(numbers, simd.splat_f32s(level.factor));
        if self.rounds_first {
            numbers = simd.sub_f32s(simd.add_f32s(numbers, rounder), rounder);
        }
        let numbers = simd.add_f32s(numbers, simd.splat_f32s(level.shift));
        let numbers = max_or_second(simd, numbers, simd.splat_f32s(0.));
        let numbers = min_or_second(simd, numbers, simd.splat_f32s(self.top()));
        let bits = simd.transmute_u32s_f32s(simd.add_f32s(numbers, rounder));
        simd.and_u32s(bits, simd.splat_u32s(0xff))
    }

    /// The levels of each of so many channels.
    pub fn of_channels(&self, channels: usize) -> Vec<ChannelLevels> {
        (0..channels).map(|channel| self.of(channel)).collect()
    }

    /// Which codes these are as a text, for `info` of operators.
    pub fn text(&self) -> String {
        let levels = u32::from(self.top) + 1;
        match &*self.channels {
            [one] => format!("{levels} levels from {} in steps of {}", one.low, one.scale),
            many => format!("{levels} levels for each of {} channels", many.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_codes() {
        let levels = Levels::of_scale(0.5, 3).unwrap();
        let level = levels.of(7);
        let code = |number| levels.code(level, number);
        assert_eq!([-9., -1.5, -1.25, -0.75, 0., 125.9, 1e9].map(code), [0, 0, 1, 1, 3, 255, 255]);
        assert_eq!(code(f32::NAN), 0);
        // ONNX adds the zero point to what is rounded: 0.25 is half a step, which is rounded to 0.
        assert_eq!([0.25, 0.75].map(code), [3, 5]);
        assert_eq!(level.zero(), (3, 0.));
        assert_eq!(levels.zeros(2), Some(vec![3, 3]));
        let number = |code: u8| level.low + f32::from(code) * level.scale;
        assert_eq!([0, 255].map(number), [-1.5, 126.]);
        assert!((0..=255).all(|it| code(number(it)) == it));
        let [.., least, most] = Levels::scale_of_codes(Some(&levels), 0, [0., f32::INFINITY]);
        assert_eq!([least, most], [3., 255.]);
        assert_eq!(
            [0., 126., 0.25, 127., f32::NAN].map(|it| levels.exact_code(it)),
            [Some(3), Some(255), None, None, None]
        );
    }

    #[test]
    fn codes_that_stay() {
        let levels = Levels::of_scale(0.1, 7).unwrap();
        assert!(levels.are_kept_by(&levels));
        assert!(levels.are_kept_by(&Levels::of_scale(0.1000001, 7).unwrap()));
        assert!(!levels.are_kept_by(&Levels::of_scale(0.1, 8).unwrap()));
        assert!(!levels.are_kept_by(&Levels::of_scale(0.2, 7).unwrap()));
        assert_eq!(Levels::of_scale(0., 7), None);
    }

    #[test]
    fn limits_that_are_no_levels() {
        let of = |levels, limits| Levels::of_fake_quantize(levels, &[limits]);
        assert!(of(256, [0., 1., 0., 1.]).is_some());
        assert!(of(2, [0., 1., -1., 1.]).is_some());
        for (levels, limits) in [
            (257, [0., 1., 0., 1.]),
            (1, [0., 1., 0., 1.]),
            (256, [1., 1., 0., 1.]),
            (256, [1., 0., 0., 1.]),
            (256, [0., 1., 1., 0.]),
            (256, [0., 1., 1., 1.]),
            (256, [0., f32::INFINITY, 0., 1.]),
            (256, [0., 1., f32::NAN, 1.]),
        ] {
            assert_eq!(of(levels, limits), None, "{levels} {limits:?}");
        }
        // Nothing near 0 has a code of its own, or 0 is beyond all of them.
        assert_eq!(of(256, [-0.1, 0.9, -0.1, 0.9]).unwrap().zeros(1), None);
        assert_eq!(of(256, [1., 256., 1., 256.]).unwrap().zeros(1), None);
    }
}
