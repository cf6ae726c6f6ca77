//! Sums and products of numbers that codes stand for.

use std::sync::Arc;

use tract_core::internal::*;

use super::finish::{Places, vectors};
use super::levels::Levels;
use crate::checks::{expect_inputs, volume};
use crate::convolution::one_pixel;
use crate::cost;
use crate::isa::{Instructions, Lanes, OnLanes};
use crate::memory::filled_output_dt;
use crate::threads::fill_rows;

/// What is made of the numbers that codes stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Multiply,
}

/// The sum or the product of numbers that two tensors of codes stand for, between limits, as codes or numbers. The channels are
/// last. The second tensor has the shape of the first one, or one pixel for each of its images.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantizedArithmetic {
    operation: Operation,
    limits: [f32; 2],
    output: Option<Arc<Levels>>,
    scales: Arc<OperandScales>,
}

/// The scales of both operands, and what is done with codes `a` and `b`, for each channel, some pixels in a row: with
/// `x = a * factor + addend`, and `y` of the same of `b`, the result is `x + y + shift` or `x * y + shift`, between limits. It is
/// a number, or a code that is not rounded yet.
#[derive(Debug, PartialEq)]
struct OperandScales {
    channels: usize,
    /// For how many pixels they are repeated.
    pixels: usize,
    /// Whether all channels have the same scales.
    are_the_same: bool,
    /// The factors and the addends of `a`, those of `b`, the shifts, the least results and the most.
    numbers: [Vec<f32>; 7],
}

/// Channels are repeated until there are this many scales.
const LEAST_SCALES: usize = 256;

/// The most results that are computed at once: so many scales follow the last channel.
const MOST_LANES: usize = 32;

impl QuantizedArithmetic {
    /// With so many channels.
    pub fn new(
        operation: Operation,
        limits: [f32; 2],
        operands: [Arc<Levels>; 2],
        output: Option<Arc<Levels>>,
        channels: usize,
    ) -> QuantizedArithmetic {
        let pixels = LEAST_SCALES.div_ceil(channels.max(1));
        let mut numbers = [const { Vec::new() }; 7];
        let count = if channels > 0 { channels * pixels + MOST_LANES } else { 0 };
        for number in 0..count {
            let channel = number % channels;
            let [a, b] = [operands[0].of(channel), operands[1].of(channel)];
            // To codes at once.
            let (factor, shift, [least, most]) = match &output {
                None => (1., 0., limits),
                Some(levels) => {
                    let level = levels.of(channel);
                    (level.factor, level.shift, levels.limits(level, limits))
                }
            };
            let factor_of_b = if operation == Operation::Add { factor } else { 1. };
            let of_a = [a.scale * factor, a.low * factor];
            let of_b = [b.scale * factor_of_b, b.low * factor_of_b];
            let scale = of_a.into_iter().chain(of_b).chain([shift, least, most]);
            numbers.iter_mut().zip(scale).for_each(|(place, number)| place.push(number));
        }
        let are_the_same = operands.iter().chain(&output).all(|levels| levels.are_the_same());
        let scales = OperandScales { channels, pixels, are_the_same, numbers };
        QuantizedArithmetic { operation, limits, output, scales: scales.into() }
    }
}

/// A share of the work: some channels of some pixels, which begin with the first channel: as many codes of each operand as there
/// are places.
struct ArithmeticTask<'a> {
    operation: Operation,
    scales: &'a OperandScales,
    a: &'a [u8],
    b: &'a [u8],
    /// As bytes.
    places: &'a mut [u8],
    are_floats: bool,
}

impl OnLanes for ArithmeticTask<'_> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        match self.scales.are_the_same {
            true => self.combine::<L, N, true>(lanes),
            false => self.combine::<L, N, false>(lanes),
        }
    }
}

impl ArithmeticTask<'_> {
    /// All elements have the `SAME` scales, or channels differ.
    #[inline(always)]
    fn combine<L: Lanes<N>, const N: usize, const SAME: bool>(self, lanes: L) {
        const { assert!(2 * N <= MOST_LANES) };
        let [factors_of_a, addends_of_a, factors_of_b, addends_of_b, shifts, least, most] =
            &self.scales.numbers;
        let of_operands = [(factors_of_a, addends_of_a), (factors_of_b, addends_of_b)];
        let count = self.a.len();
        let mut last = [[[0; N]; 2]; 2];
        for first in (0..count).step_by(2 * N) {
            let width = (2 * N).min(count - first);
            let [a, b] = [self.a, self.b].map(|codes| &codes[first..][..width]);
            let codes = match [a, b].map(|codes| codes.as_chunks().0.as_chunks().0) {
                [[a], [b]] => [a, b],
                _ => {
                    last[0].as_flattened_mut()[..width].copy_from_slice(a);
                    last[1].as_flattened_mut()[..width].copy_from_slice(b);
                    [&last[0], &last[1]]
                }
            };
            let first_scale = if SAME { 0 } else { first };
            let mut results = [lanes.splat(0.); 2];
            for half in 0..2 {
                let mut numbers = results;
                for operand in 0..2 {
                    let number = lanes.of_u8(&codes[operand][half]);
                    let (factors, addends) = of_operands[operand];
                    let factors = lanes.load(&vectors::<N, 2>(factors, first_scale)[half]);
                    let addends = lanes.load(&vectors::<N, 2>(addends, first_scale)[half]);
                    numbers[operand] = lanes.mul_add(number, factors, addends);
                }
                let [x, y] = numbers;
                let shifts = lanes.load(&vectors::<N, 2>(shifts, first_scale)[half]);
                let both = match self.operation {
                    Operation::Add => lanes.add(lanes.add(x, y), shifts),
                    Operation::Multiply => lanes.mul_add(x, y, shifts),
                };
                let least = lanes.load(&vectors::<N, 2>(least, first_scale)[half]);
                let most = lanes.load(&vectors::<N, 2>(most, first_scale)[half]);
                results[half] = lanes.clamp(both, least, most);
            }
            Places::of(self.places, self.are_floats, first, width).put(lanes, results);
        }
    }
}

impl_plain_op!(
    QuantizedArithmetic,
    name = |op| match op.operation {
        Operation::Add => "QuantizedAdd",
        Operation::Multiply => "QuantizedMultiply",
    },
    info = |op| {
        let output = op.output.as_ref().map_or("numbers".to_string(), |levels| levels.text());
        vec![format!("between {:?}, to {output}", op.limits)]
    },
    validation = |_| Validation::Rounding
);

impl QuantizedArithmetic {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let (a, b) = args_2!(inputs);
        let shape = a.shape();
        let channels = self.scales.channels;
        ensure!(
            shape.last() == Some(&channels)
                && (b.shape() == shape || *b.shape() == *one_pixel(shape, 1)),
            "{}: the data has shapes {shape:?} and {:?}, but must have size {channels} on the last axis, and the second \
             the sizes of the first, or one pixel",
            self.name(),
            b.shape()
        );
        ensure!(volume(shape).is_some(), "{}: the data is too large", self.name());
        let [a, b] = [&a, &b].map(|codes| codes.try_as_plain_ram()?.as_slice::<u8>());
        let (a, b) = (a?, b?);
        let (are_floats, dt) = match self.output {
            Some(_) => (false, DatumType::U8),
            None => (true, DatumType::F32),
        };
        let size = dt.size_of();
        filled_output_dt("QuantizedArithmetic", dt, shape, |bytes: &mut [u8]| {
            let instructions = Instructions::detect();
            // How many channels of `a` one image of `b` is for, if that has one pixel.
            let image = (a.len() != b.len()).then(|| a.len() / b.len() * channels);
            let at_once = match image {
                None if self.scales.are_the_same => a.len(),
                _ => channels * self.scales.pixels,
            };
            let work = cost::ELEMENT.of(a.len());
            fill_rows(bytes, channels * size, work, |first, mut bytes| {
                let mut at = first * channels;
                // The pixel of `b`, as often as it is used at once, and of which image it is.
                let (mut repeated, mut of_image) = (vec![], None);
                while !bytes.is_empty() {
                    let mut count = at_once.min(bytes.len() / size);
                    let b = match image {
                        None => &b[at..][..count],
                        Some(image) => {
                            let number = at / image;
                            count = count.min((number + 1) * image - at);
                            if of_image.replace(number) != Some(number) {
                                let count = self.scales.pixels.min(image / channels);
                                repeated = b[number * channels..][..channels].repeat(count);
                            }
                            &repeated[..count]
                        }
                    };
                    let (places, rest) = bytes.split_at_mut(count * size);
                    instructions.run(ArithmeticTask {
                        operation: self.operation,
                        scales: &self.scales,
                        a: &a[at..][..count],
                        b,
                        places,
                        are_floats,
                    });
                    (at, bytes) = (at + count, rest);
                }
                Ok(())
            })
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let [a, b] = expect_inputs("QuantizedArithmetic", ["a", "b"], inputs)?;
        for input in [a, b] {
            ensure!(
                input.datum_type == DatumType::U8,
                "QuantizedArithmetic: an input is {input:?}, but must be of type U8"
            );
        }
        let dt = if self.output.is_some() { DatumType::U8 } else { DatumType::F32 };
        Ok(dt.fact(a.shape.clone()))
    }
}
