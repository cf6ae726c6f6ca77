//! Sums and products of numbers that codes stand for.

use std::sync::Arc;

use tract_core::internal::*;

use super::finish::Places;
use super::levels::Levels;
use super::window::one_pixel;
use crate::checks::{expect_inputs, volume};
use crate::isa::Instructions;
use crate::memory::unwritten_output;
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
    lines: Arc<OperandScales>,
}

impl Eq for QuantizedArithmetic {}

/// The scales of both operands, and what is done with codes `a` and `b`, for each channel, some pixels in a row: with
/// `x = a * factor + addend`, and `y` of the same of `b`, the result is `x + y + shift` or `x * y + shift`, between limits. It is
/// a number, or a code that is not rounded yet.
#[derive(Debug, PartialEq)]
pub(crate) struct OperandScales {
    channels: usize,
    /// For how many pixels they are repeated.
    pixels: usize,
    /// Whether all channels have the same lines.
    pub are_the_same: bool,
    pub factors: [Vec<f32>; 2],
    pub addends: [Vec<f32>; 2],
    pub shifts: Vec<f32>,
    pub least: Vec<f32>,
    pub most: Vec<f32>,
}

/// Channels are repeated until there are this many lines.
const LEAST_LINES: usize = 256;

/// The most results that are computed at once: so many lines follow the last channel.
pub(super) const MOST_LANES: usize = 32;

impl QuantizedArithmetic {
    /// With so many channels.
    pub fn new(
        operation: Operation,
        limits: [f32; 2],
        operands: [Arc<Levels>; 2],
        output: Option<Arc<Levels>>,
        channels: usize,
    ) -> QuantizedArithmetic {
        let pixels = LEAST_LINES.div_ceil(channels.max(1));
        let mut lines = OperandScales {
            channels,
            pixels,
            are_the_same: operands.iter().chain(&output).all(|levels| levels.are_the_same()),
            factors: [vec![], vec![]],
            addends: [vec![], vec![]],
            shifts: vec![],
            least: vec![],
            most: vec![],
        };
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
            lines.factors[0].push(a.step * factor);
            lines.addends[0].push(a.low * factor);
            lines.factors[1].push(b.step * factor_of_b);
            lines.addends[1].push(b.low * factor_of_b);
            lines.shifts.push(shift);
            lines.least.push(least);
            lines.most.push(most);
        }
        QuantizedArithmetic { operation, limits, output, lines: lines.into() }
    }
}

/// A share of the work: some channels of some pixels, which begin with the first channel: as many codes of each operand as there
/// are places.
pub(crate) struct ArithmeticTask<'a> {
    pub operation: Operation,
    pub lines: &'a OperandScales,
    pub a: &'a [u8],
    pub b: &'a [u8],
    pub places: Places<'a>,
}

impl QuantizedArithmetic {
    fn run<T: Datum>(&self, shape: &[usize], a: &[u8], b: &[u8]) -> TractResult<Tensor>
    where
        for<'o> Places<'o>: From<&'o mut [T]>,
    {
        let channels = self.lines.channels;
        // SAFETY: each element is written.
        #[allow(unsafe_code)]
        let mut output = unsafe { unwritten_output::<T>("QuantizedArithmetic", shape)? };
        let mut view = output.try_as_plain_ram_mut()?;
        let elements = view.as_slice_mut::<T>()?;
        if elements.is_empty() {
            return Ok(output);
        }
        let instructions = Instructions::detect();
        // How many channels of `a` one image of `b` is for, if that has one pixel.
        let image = (a.len() != b.len()).then(|| a.len() / b.len() * channels);
        let step = match image {
            None if self.lines.are_the_same => elements.len(),
            _ => channels * self.lines.pixels,
        };
        fill_rows(elements, channels, a.len(), |first, mut elements| {
            let mut at = first * channels;
            // The pixel of `b`, as often as it is used at once, and of which image it is.
            let (mut repeated, mut of_image) = (vec![], None);
            while !elements.is_empty() {
                let mut count = step.min(elements.len());
                let b = match image {
                    None => &b[at..][..count],
                    Some(image) => {
                        let number = at / image;
                        count = count.min((number + 1) * image - at);
                        if of_image.replace(number) != Some(number) {
                            let count = self.lines.pixels.min(image / channels);
                            repeated = b[number * channels..][..channels].repeat(count);
                        }
                        &repeated[..count]
                    }
                };
                let (part, rest) = elements.split_at_mut(count);
                instructions.combine(&mut ArithmeticTask {
                    operation: self.operation,
                    lines: &self.lines,
                    a: &a[at..][..count],
                    b,
                    places: part.into(),
                });
                (at, elements) = (at + count, rest);
            }
            TractResult::Ok(())
        })?;
        Ok(output)
    }
}

impl Op for QuantizedArithmetic {
    fn name(&self) -> StaticName {
        match self.operation {
            Operation::Add => "QuantizedAdd".into(),
            Operation::Multiply => "QuantizedMultiply".into(),
        }
    }

    fn info(&self) -> TractResult<Vec<String>> {
        let output = self.output.as_ref().map_or("numbers".to_string(), |levels| levels.text());
        Ok(vec![format!("between {:?}, to {output}", self.limits)])
    }

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    op_as_typed_op!();
}

impl EvalOp for QuantizedArithmetic {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (a, b) = args_2!(inputs);
        let shape = a.shape();
        let channels = self.lines.channels;
        ensure!(
            shape.last() == Some(&channels)
                && (b.shape() == shape || *b.shape() == *one_pixel(shape, 1)),
            "{}: the data has shapes {shape:?} and {:?}, but must have size {channels} on the last axis, and the second \
             the sizes of the first, or one pixel",
            self.name(),
            b.shape()
        );
        ensure!(volume(shape).is_some(), "{}: the data is too large", self.name());
        let (a_codes, b_codes) = (a.try_as_plain_ram()?, b.try_as_plain_ram()?);
        let (a, b) = (a_codes.as_slice::<u8>()?, b_codes.as_slice::<u8>()?);
        let output = match self.output {
            Some(_) => self.run::<u8>(shape, a, b)?,
            None => self.run::<f32>(shape, a, b)?,
        };
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for QuantizedArithmetic {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [a, b] = expect_inputs("QuantizedArithmetic", ["a", "b"], inputs)?;
        for input in [a, b] {
            ensure!(
                input.datum_type == DatumType::U8,
                "QuantizedArithmetic: an input is {input:?}, but must be of type U8"
            );
        }
        let dt = if self.output.is_some() { DatumType::U8 } else { DatumType::F32 };
        Ok(tvec!(dt.fact(a.shape.clone())))
    }

    as_op!();
}
