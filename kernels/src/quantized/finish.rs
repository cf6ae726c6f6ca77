//! The epilogue, what becomes of a sum: a number, and perhaps a code again.

use std::sync::Arc;

use pulp::bytemuck::cast_slice_mut;

use super::levels::Levels;
use super::vectors::CodeLanes;
use crate::convolution::{OutputRows, TilePlace};
use crate::isa::{Lanes, On, put_floats};
use crate::product::activation::Activation;

/// The most sums of a row that are finished at once, and the most results of arithmetic: so many scales follow the last channel.
pub(super) const MOST_LANES: usize = 64;

/// Per-channel scales: for each channel `x * factor + addend`, between two limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChannelScales {
    /// The factors, the addends, the least numbers and the most.
    numbers: [Vec<f32>; 4],
    limits: ClampKind,
}

/// Which limits scaled numbers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClampKind {
    None,
    /// To 0 and 255, the limits of codes: instructions that make codes of numbers may do that themselves.
    OfCodes,
    Others,
}

/// The limits of numbers that have none.
const UNLIMITED: [f32; 2] = [f32::NEG_INFINITY, f32::INFINITY];

/// Sums have 32 bits.
const LARGEST_SUM: f64 = (1_u32 << 31) as f64;

/// The scale of one channel: the factor, the addend and the limits.
type ChannelScale = [f32; 4];

impl ChannelScales {
    /// Scales for numbers that are at most so large.
    pub fn new(scales: impl Iterator<Item = ChannelScale>, largest: f64) -> ChannelScales {
        /// Conversions to integers of 32 bits are right for numbers of this size.
        const CONVERTED: f64 = (1_u32 << 30) as f64;
        let mut numbers = [const { Vec::new() }; 4];
        let mut limits = ClampKind::None;
        for scale @ [factor, addend, low, high] in scales {
            let size = largest_scaled(factor, addend, largest);
            let of_scale = match () {
                () if [low, high] == UNLIMITED => ClampKind::None,
                () if low == 0. && high == 255. && size < CONVERTED => ClampKind::OfCodes,
                () => ClampKind::Others,
            };
            limits = match numbers[0].is_empty() || limits == of_scale {
                true => of_scale,
                false => ClampKind::Others,
            };
            numbers.iter_mut().zip(scale).for_each(|(place, number)| place.push(number));
        }
        // Vectors reach beyond the last channel.
        numbers.iter_mut().for_each(|place| place.resize(place.len() + MOST_LANES, 0.));
        ChannelScales { numbers, limits }
    }

    /// Those of channels in another order. If there is no such channel, they give 0.
    pub fn in_order(&self, channels: &[usize]) -> ChannelScales {
        let number = |numbers: &Vec<f32>, channel| numbers.get(channel).copied().unwrap_or(0.);
        let ordered = |numbers| channels.iter().map(|channel| number(numbers, *channel)).collect();
        ChannelScales { numbers: self.numbers.each_ref().map(ordered), limits: self.limits }
    }

    /// How large scaled numbers are at most, of numbers of this size.
    fn largest(&self, largest: f64) -> f64 {
        let [factors, addends, ..] = &self.numbers;
        let scales = factors.iter().zip(addends);
        scales.map(|(factor, addend)| largest_scaled(*factor, *addend, largest)).fold(0., f64::max)
    }

    /// The scales of some vectors of channels, from the first one on.
    #[inline(always)]
    pub fn of<const N: usize, const V: usize>(&self, first: usize) -> ScaleVectors<'_, N, V> {
        let [factors, addends, least, most] = &self.numbers;
        ScaleVectors {
            factors: vectors(factors, first),
            addends: vectors(addends, first),
            least: vectors(least, first),
            most: vectors(most, first),
            limits: self.limits,
        }
    }
}

/// How large a scaled number is at most, of one of this size.
fn largest_scaled(factor: f32, addend: f32, largest: f64) -> f64 {
    largest * f64::from(factor.abs()) + f64::from(addend.abs())
}

/// The scales of some vectors of channels.
#[derive(Clone, Copy)]
pub(crate) struct ScaleVectors<'a, const N: usize, const V: usize> {
    pub factors: &'a [[f32; N]; V],
    pub addends: &'a [[f32; N]; V],
    pub least: &'a [[f32; N]; V],
    pub most: &'a [[f32; N]; V],
    pub limits: ClampKind,
}

/// Some vectors of an array, from a number on.
#[inline(always)]
pub(super) fn vectors<const N: usize, const V: usize>(
    numbers: &[f32],
    first: usize,
) -> &[[f32; N]; V] {
    &numbers[first..][..V * N].as_chunks().0.as_chunks().0[0]
}

/// Some vectors that codes begin with. If there are fewer codes, they are copied to `last`.
#[inline(always)]
pub(super) fn vectors_of_codes<'c, const N: usize, const V: usize>(
    codes: &'c [u8],
    last: &'c mut [[u8; N]; V],
) -> &'c [[u8; N]; V] {
    match codes.as_chunks().0.as_chunks().0 {
        [whole, ..] => whole,
        _ => {
            last.as_flattened_mut()[..codes.len()].copy_from_slice(codes);
            last
        }
    }
}

/// The epilogue of a product: what is done with the sums of each channel, while they are in registers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Epilogue {
    /// To numbers; or to codes that are not rounded yet, if nothing but limits comes between.
    pub scales: ChannelScales,
    /// Whether these are all that is done, and give codes.
    are_codes: bool,
    /// An activation that is more than limits.
    pub activation: Option<Activation>,
    /// What comes after that: from numbers to others, or to codes that are not rounded yet.
    pub second: Option<ChannelScales>,
    /// What is added to what the codes stand for.
    pub residual: Option<ResidualScales>,
}

/// A residual that is added: the sum of the numbers that codes stand for, and others of the same place. Both scales together give
/// the sum, or a code of it that is not rounded yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResidualScales {
    /// For the codes of this layer, with the limits of the sum.
    pub own: ChannelScales,
    /// What the other codes are multiplied by; their addends are among those of `own`.
    pub factors: Vec<f32>,
}

/// What a residual is made of.
#[derive(Debug, Clone)]
pub(crate) struct ResidualOperand {
    /// What the other codes stand for.
    pub levels: Arc<Levels>,
    /// The limits of the sum.
    pub limits: [f32; 2],
    /// What the codes of the output stand for. Without them it has numbers.
    pub output: Option<Arc<Levels>>,
}

impl ResidualScales {
    fn new(channels: usize, own: &Levels, of: &ResidualOperand) -> ResidualScales {
        let scale = |channel: usize| {
            let (own, other) = (own.of(channel), of.levels.of(channel));
            let [factor, shift, least, most] =
                Levels::scale_of_codes(of.output.as_deref(), channel, of.limits);
            let addend = (own.low + other.low) * factor + shift;
            ([own.scale * factor, addend, least, most], other.scale * factor)
        };
        let (scales, mut factors): (Vec<_>, Vec<f32>) = (0..channels).map(scale).unzip();
        // Both terms are as large as if the codes of this layer were so much larger.
        let ratio =
            |(scale, factor): (&ChannelScale, &f32)| 1. + f64::from(factor / scale[0]).abs();
        let largest = 255. * scales.iter().zip(&factors).map(ratio).fold(1., f64::max);
        factors.resize(channels + MOST_LANES, 0.);
        ResidualScales { own: ChannelScales::new(scales.into_iter(), largest), factors }
    }
}

/// Codes of one byte or floats, as bytes.
pub(crate) struct Places<'a> {
    bytes: &'a mut [u8],
    are_floats: bool,
}

impl<'a> Places<'a> {
    /// `width` of the elements that these bytes are, from element `first` on.
    #[inline(always)]
    pub fn of(bytes: &'a mut [u8], are_floats: bool, first: usize, width: usize) -> Places<'a> {
        let size = if are_floats { size_of::<f32>() } else { 1 };
        Places { bytes: &mut bytes[first * size..][..width * size], are_floats }
    }

    /// Writes as many of the numbers of vectors as there are places, or their codes.
    #[inline(always)]
    pub fn put<L: Lanes<N>, const N: usize, const V: usize>(
        self,
        lanes: L,
        numbers: [L::Floats; V],
    ) {
        match self.are_floats {
            true => put_floats(lanes, numbers, cast_slice_mut(self.bytes)),
            false => lanes.put_bytes(numbers, self.bytes),
        }
    }
}

impl Epilogue {
    /// Of a channel, the sum times a scale plus a bias is a number, of which there is an activation. That is multiplied by a
    /// second scale, and gets a second bias, if there are some. With levels it becomes a code, to which others may be added.
    pub fn new(
        scales: &[[f32; 2]],
        activation: Activation,
        second: Option<&[[f32; 2]]>,
        levels: Option<&Levels>,
        residual: Option<&ResidualOperand>,
    ) -> Epilogue {
        let channels = scales.len();
        let (limits, activation) = match activation.limits() {
            Some(limits) => (limits, None),
            None => (UNLIMITED, Some(activation)),
        };
        // Numbers become codes that are not rounded, with the limits of the numbers.
        let coded = |channel: usize, [scale, bias]: [f32; 2], limits: [f32; 2]| {
            let [factor, shift, min, max] = Levels::scale_of_codes(levels, channel, limits);
            [scale * factor, bias * factor + shift, min, max]
        };
        let is_last = activation.is_none() && second.is_none();
        let first = scales.iter().enumerate().map(|(channel, scale)| match is_last {
            true => coded(channel, *scale, limits),
            false => [scale[0], scale[1], limits[0], limits[1]],
        });
        let scales = ChannelScales::new(first, LARGEST_SUM);
        let is_needed = !is_last && (second.is_some() || levels.is_some());
        let second = is_needed.then(|| {
            let scale = |channel: usize| second.map_or([1., 0.], |second| second[channel]);
            // No activation gives larger numbers.
            let largest = scales.largest(LARGEST_SUM);
            let second = (0..channels).map(|channel| coded(channel, scale(channel), UNLIMITED));
            ChannelScales::new(second, largest)
        });
        let residual = levels.zip(residual).map(|(own, of)| ResidualScales::new(channels, own, of));
        let are_codes = is_last && levels.is_some() && residual.is_none();
        Epilogue { scales, are_codes, activation, second, residual }
    }

    /// The first scales, if they give codes, and nothing else is to be done.
    #[inline(always)]
    pub fn scales_of_codes(&self) -> Option<&ChannelScales> {
        self.are_codes.then_some(&self.scales)
    }
}

impl<const N: usize, const V: usize> ScaleVectors<'_, N, V> {
    /// The numbers of the sums of a row, scaled.
    #[inline(always)]
    pub fn scaled_sums<L: Lanes<N>>(self, lanes: L, sums: &[L::Words; V]) -> [L::Floats; V] {
        let mut numbers = [lanes.i32_of_words(sums[0]); V];
        for vector in 0..V {
            numbers[vector] = self.scaled(lanes, lanes.i32_of_words(sums[vector]), vector);
        }
        numbers
    }

    /// Numbers of a vector of channels, scaled.
    #[inline(always)]
    fn scaled<L: Lanes<N>>(self, lanes: L, x: L::Floats, vector: usize) -> L::Floats {
        let (factors, addends) = (&self.factors[vector], &self.addends[vector]);
        self.limited(lanes, lanes.mul_add(x, lanes.load(factors), lanes.load(addends)), vector)
    }

    /// Numbers between the limits of their scales, unless they are limited when they become codes.
    #[inline(always)]
    fn limited<L: Lanes<N>>(self, lanes: L, x: L::Floats, vector: usize) -> L::Floats {
        match self.limits {
            ClampKind::None => x,
            ClampKind::OfCodes if L::LIMITS_BYTES => x,
            _ => lanes.clamp(x, lanes.load(&self.least[vector]), lanes.load(&self.most[vector])),
        }
    }
}

/// Sums of `R` rows and `V` vectors of channels, before the epilogue.
pub(super) struct TileSums<'s, 'o, S, const N: usize, const R: usize, const V: usize> {
    pub epilogue: &'s Epilogue,
    pub sums: &'s [[S; V]; R],
    pub at: TilePlace,
    pub output: &'s mut OutputRows<'o>,
}

impl<S: Copy, const N: usize, const R: usize, const V: usize> TileSums<'_, '_, S, N, R, V> {
    /// Writes what becomes of the sums.
    #[inline(always)]
    pub fn finish<L: CodeLanes<N, Words = S>>(self, lanes: L) {
        let TileSums { epilogue, sums, at: TilePlace { channel, width, first_row }, .. } = self;
        if let Some(scales) = epilogue.scales_of_codes() {
            let scales = scales.of::<N, V>(channel);
            let codes: [&mut [u8]; R] = self.output.rows(first_row, channel, width);
            for row in 0..R {
                lanes.put_bytes(scales.scaled_sums(lanes, &sums[row]), codes[row]);
            }
            return;
        }
        self.finish_with_all(lanes);
    }

    /// Writes what becomes of the sums, with all that the epilogue has. Scales alone are faster by themselves.
    #[inline(never)]
    fn finish_with_all<L: CodeLanes<N, Words = S>>(self, lanes: L) {
        lanes.enter(self);
    }
}

/// An activation and second scales are applied to all rows, each before the next step; what follows is done row by row.
#[expect(clippy::needless_range_loop, reason = "loops of constants keep the numbers in registers")]
impl<L: CodeLanes<N, Words = S>, S: Copy, const N: usize, const R: usize, const V: usize> On<L>
    for TileSums<'_, '_, S, N, R, V>
{
    #[inline(always)]
    fn run(self, lanes: L) {
        let TileSums { epilogue, sums, at: TilePlace { channel, width, first_row }, output } = self;
        let Epilogue { activation, second, residual, .. } = epilogue;
        let scales = epilogue.scales.of::<N, V>(channel);
        let are_rescaled = activation.is_some() || second.is_some();
        let mut rescaled = [[lanes.i32_of_words(sums[0][0]); V]; R];
        if are_rescaled {
            for row in 0..R {
                rescaled[row] = scales.scaled_sums(lanes, &sums[row]);
            }
        }
        if let Some(activation) = *activation {
            for row in 0..R {
                for vector in 0..V {
                    rescaled[row][vector] = lanes.activated_code(rescaled[row][vector], activation);
                }
            }
        }
        if let Some(second) = second {
            let second = second.of::<N, V>(channel);
            for row in 0..R {
                for vector in 0..V {
                    rescaled[row][vector] = second.scaled(lanes, rescaled[row][vector], vector);
                }
            }
        }
        let residual = residual.as_ref().map(|residual| {
            (residual.own.of::<N, V>(channel), vectors::<N, V>(&residual.factors, channel))
        });
        let (zero, highest) = (lanes.splat(0.), lanes.splat(255.));
        let mut others = [&[][..]; R];
        if residual.is_some() {
            for row in 0..R {
                others[row] = output.residual(first_row + row, channel);
            }
        }
        let mut last = [[0; N]; V];
        let are_floats = output.size > 1;
        let rows: [&mut [u8]; R] = output.rows(first_row, channel, width);
        for (row, bytes) in rows.into_iter().enumerate() {
            let mut numbers = rescaled[row];
            if !are_rescaled {
                numbers = scales.scaled_sums(lanes, &sums[row]);
            }
            if let Some((own, factors)) = residual {
                let codes = vectors_of_codes(others[row], &mut last);
                for vector in 0..V {
                    let code = lanes.nearest(lanes.clamp(numbers[vector], zero, highest));
                    let other = lanes.of_u8(&codes[vector]);
                    let sum = lanes.load(&own.addends[vector]);
                    let sum = lanes.mul_add(other, lanes.load(&factors[vector]), sum);
                    let sum = lanes.mul_add(code, lanes.load(&own.factors[vector]), sum);
                    numbers[vector] = own.limited(lanes, sum, vector);
                }
            }
            Places { bytes, are_floats }.put(lanes, numbers);
        }
    }
}
