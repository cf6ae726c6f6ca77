//! Sums and products of numbers that codes stand for.

use std::sync::Arc;

use tract_core::internal::*;

use super::finish::{MOST_LANES, Places, vectors, vectors_of_codes};
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

/// The vectors of codes beside codes.
const VECTORS_OF_BOTH: usize = 2;

/// The vectors of codes beside one pixel.
const VECTORS_BESIDE_PIXEL: usize = 4;

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
            let [factor, shift, least, most] =
                Levels::scale_of_codes(output.as_deref(), channel, limits);
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

impl OperandScales {
    /// The factors and the addends of `a` beside pixels of `b`: the result is `a * factor + addend`, between limits.
    fn beside(&self, operation: Operation, b: &[u8]) -> [Vec<f32>; 2] {
        let [factors_of_a, addends_of_a, factors_of_b, addends_of_b, shifts, ..] = &self.numbers;
        let [mut factors, mut addends] = [const { Vec::new() }; 2];
        for pixel in b.chunks_exact(self.channels) {
            let y = pixel.iter().zip(factors_of_b).zip(addends_of_b);
            let y = y.map(|((code, factor), addend)| f32::from(*code) * factor + addend);
            let of_a = factors_of_a.iter().zip(addends_of_a).zip(shifts);
            match operation {
                Operation::Add => {
                    factors.extend_from_slice(&factors_of_a[..self.channels]);
                    addends.extend(y.zip(of_a).map(|(y, ((_, addend), shift))| addend + y + shift));
                }
                Operation::Multiply => {
                    factors.extend(y.clone().zip(factors_of_a).map(|(y, factor)| factor * y));
                    addends.extend(y.zip(of_a).map(|(y, ((_, addend), shift))| addend * y + shift));
                }
            }
        }
        [factors, addends]
    }
}

/// A share of the work: some channels of some pixels, which begin with the first channel: as many codes of `a` as there are places.
struct ArithmeticTask<'a> {
    operation: Operation,
    scales: &'a OperandScales,
    a: &'a [u8],
    b: SecondOperand<'a>,
    /// As bytes.
    places: &'a mut [u8],
    are_floats: bool,
}

/// What the codes of `a` are combined with.
#[derive(Clone, Copy)]
enum SecondOperand<'a> {
    /// As many codes.
    Codes(&'a [u8]),
    /// One pixel, which gave these scales ([`OperandScales::beside`]), repeated.
    Pixel(&'a [Vec<f32>; 2]),
}

impl OnLanes for ArithmeticTask<'_> {
    #[inline(always)]
    fn run<L: Lanes<N>, const N: usize>(self, lanes: L) {
        match self.b {
            SecondOperand::Pixel(scales) => self.rescale(lanes, scales),
            SecondOperand::Codes(b) if self.scales.are_the_same => {
                self.combine::<L, N, true>(lanes, b);
            }
            SecondOperand::Codes(b) => self.combine::<L, N, false>(lanes, b),
        }
    }
}

impl ArithmeticTask<'_> {
    /// Codes beside codes. All elements have the `SAME` scales, or channels differ.
    #[inline(always)]
    fn combine<L: Lanes<N>, const N: usize, const SAME: bool>(self, lanes: L, b: &[u8]) {
        const { assert!(VECTORS_OF_BOTH * N <= MOST_LANES) };
        let [factors_of_a, addends_of_a, factors_of_b, addends_of_b, shifts, least, most] =
            &self.scales.numbers;
        let of_operands = [(factors_of_a, addends_of_a), (factors_of_b, addends_of_b)];
        let count = self.a.len();
        let mut last = [[[0; N]; VECTORS_OF_BOTH]; 2];
        for first in (0..count).step_by(VECTORS_OF_BOTH * N) {
            let [last_of_a, last_of_b] = &mut last;
            let codes = [
                vectors_of_codes(&self.a[first..], last_of_a),
                vectors_of_codes(&b[first..], last_of_b),
            ];
            let first_scale = if SAME { 0 } else { first };
            let load = |numbers: &[f32], vector: usize| {
                lanes.load(&vectors::<N, VECTORS_OF_BOTH>(numbers, first_scale)[vector])
            };
            let mut results = [lanes.splat(0.); VECTORS_OF_BOTH];
            for vector in 0..VECTORS_OF_BOTH {
                let mut numbers = [lanes.splat(0.); 2];
                for operand in 0..2 {
                    let number = lanes.of_u8(&codes[operand][vector]);
                    let (factors, addends) = of_operands[operand];
                    let (factors, addends) = (load(factors, vector), load(addends, vector));
                    numbers[operand] = lanes.mul_add(number, factors, addends);
                }
                let [x, y] = numbers;
                let shifts = load(shifts, vector);
                let both = match self.operation {
                    Operation::Add => lanes.add(lanes.add(x, y), shifts),
                    Operation::Multiply => lanes.mul_add(x, y, shifts),
                };
                results[vector] = lanes.clamp(both, load(least, vector), load(most, vector));
            }
            let width = (VECTORS_OF_BOTH * N).min(count - first);
            Places::of(self.places, self.are_floats, first, width).put(lanes, results);
        }
    }

    /// Codes beside one pixel.
    #[inline(always)]
    fn rescale<L: Lanes<N>, const N: usize>(self, lanes: L, [factors, addends]: &[Vec<f32>; 2]) {
        const { assert!(VECTORS_BESIDE_PIXEL * N <= MOST_LANES) };
        let [.., least, most] = &self.scales.numbers;
        let count = self.a.len();
        let mut last = [[0; N]; VECTORS_BESIDE_PIXEL];
        for first in (0..count).step_by(VECTORS_BESIDE_PIXEL * N) {
            let codes = vectors_of_codes(&self.a[first..], &mut last);
            let [factors, addends] = [factors, addends]
                .map(|numbers| vectors::<N, VECTORS_BESIDE_PIXEL>(numbers, first));
            let [least, most] =
                [least, most].map(|numbers| vectors::<N, VECTORS_BESIDE_PIXEL>(numbers, first));
            let mut results = [lanes.splat(0.); VECTORS_BESIDE_PIXEL];
            for vector in 0..VECTORS_BESIDE_PIXEL {
                let (factor, addend) = (lanes.load(&factors[vector]), lanes.load(&addends[vector]));
                let number = lanes.mul_add(lanes.of_u8(&codes[vector]), factor, addend);
                let (least, most) = (lanes.load(&least[vector]), lanes.load(&most[vector]));
                results[vector] = lanes.clamp(number, least, most);
            }
            let width = (VECTORS_BESIDE_PIXEL * N).min(count - first);
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
        filled_output_dt(&self.name(), dt, shape, |bytes: &mut [u8]| {
            let instructions = Instructions::detect();
            // How many channels of `a` one image of `b` is for, if that has one pixel.
            let image = (a.len() != b.len()).then(|| a.len() / b.len() * channels);
            let at_once = match image {
                None if self.scales.are_the_same => a.len(),
                _ => channels * self.scales.pixels,
            };
            let scales = image.map(|_| self.scales.beside(self.operation, b)).unwrap_or_default();
            let work = cost::ELEMENT.of(a.len());
            fill_rows(bytes, channels * size, work, |first, mut bytes| {
                let mut at = first * channels;
                // The scales of an image, as often as they are used at once, and which image it is.
                let (mut repeated, mut of_image) = (<[Vec<f32>; 2]>::default(), None);
                while !bytes.is_empty() {
                    let mut count = at_once.min(bytes.len() / size);
                    let b = match image {
                        None => SecondOperand::Codes(&b[at..][..count]),
                        Some(image) => {
                            let number = at / image;
                            count = count.min((number + 1) * image - at);
                            if of_image.replace(number) != Some(number) {
                                let count = self.scales.pixels.min(image / channels);
                                for (repeated, scales) in repeated.iter_mut().zip(&scales) {
                                    repeated.clear();
                                    for _ in 0..count {
                                        repeated.extend(&scales[number * channels..][..channels]);
                                    }
                                    repeated.resize(repeated.len() + MOST_LANES, 0.);
                                }
                            }
                            SecondOperand::Pixel(&repeated)
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
        let [a, b] = expect_inputs(&self.name(), ["a", "b"], inputs)?;
        for input in [a, b] {
            ensure!(
                input.datum_type == DatumType::U8,
                "{}: an input is {input:?}, but must be of type U8",
                self.name()
            );
        }
        let dt = if self.output.is_some() { DatumType::U8 } else { DatumType::F32 };
        Ok(dt.fact(a.shape.clone()))
    }
}
