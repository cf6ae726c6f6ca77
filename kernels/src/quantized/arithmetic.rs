//! Sums and products of numbers that codes stand for.

use std::sync::Arc;

use tract_core::internal::*;

use super::finish::{Elements, Lines};
use super::instructions::Instructions;
use super::levels::Levels;
use crate::checks::{expect_inputs, volume};
use crate::memory::unwritten_output;
use crate::threads::fill_rows;

/// What is made of two numbers.
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
    operands: [Arc<Levels>; 2],
    output: Option<Arc<Levels>>,
    channels: Arc<Channels>,
}

impl Eq for QuantizedArithmetic {}

/// What is done with each channel, some pixels in a row.
#[derive(Debug, PartialEq)]
struct Channels {
    count: usize,
    /// What the codes of each operand stand for.
    operands: [Lines; 2],
    /// To numbers between limits, or to codes that are not rounded yet.
    result: Lines,
}

/// Channels are repeated until there are this many lines.
const LEAST_LINES: usize = 256;

impl QuantizedArithmetic {
    /// With so many channels.
    pub fn new(
        operation: Operation,
        limits: [f32; 2],
        operands: [Arc<Levels>; 2],
        output: Option<Arc<Levels>>,
        channels: usize,
    ) -> QuantizedArithmetic {
        let count = channels * LEAST_LINES.div_ceil(channels.max(1));
        let of_channels = |line: &dyn Fn(usize) -> [f32; 4]| {
            Lines::new((0..count).map(|number| line(number % channels)))
        };
        let numbers = |levels: &Levels| {
            of_channels(&|channel| {
                let level = levels.of(channel);
                [level.step, level.low, f32::NEG_INFINITY, f32::INFINITY]
            })
        };
        let [least, most] = limits;
        let result = match &output {
            None => of_channels(&|_| [1., 0., least, most]),
            Some(levels) => of_channels(&|channel| {
                let level = levels.of(channel);
                let [least, most] = levels.limits(level, limits);
                [level.factor, level.shift, least, most]
            }),
        };
        let operand_lines = [numbers(&operands[0]), numbers(&operands[1])];
        let channels = Channels { count: channels, operands: operand_lines, result };
        QuantizedArithmetic { operation, limits, operands, output, channels: channels.into() }
    }
}

/// Some channels of some pixels, which begin with the first channel: as many codes of each operand as there are places.
pub(crate) struct Part<'a> {
    pub operation: Operation,
    pub operands: &'a [Lines; 2],
    pub result: &'a Lines,
    pub a: &'a [u8],
    pub b: &'a [u8],
    pub places: Elements<'a>,
}

impl QuantizedArithmetic {
    fn run<T: Datum>(&self, shape: &[usize], a: &[u8], b: &[u8]) -> TractResult<Tensor>
    where
        for<'o> Elements<'o>: From<&'o mut [T]>,
    {
        let channels = self.channels.count;
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
            Some(_) => channels,
            None => channels * LEAST_LINES.div_ceil(channels),
        };
        fill_rows(elements, channels, a.len(), |first, elements| {
            for (number, elements) in elements.chunks_mut(step).enumerate() {
                let at = first * channels + number * step;
                let of_b = image.map_or(at, |image| at / image * channels);
                instructions.combine(&mut Part {
                    operation: self.operation,
                    operands: &self.channels.operands,
                    result: &self.channels.result,
                    a: &a[at..][..elements.len()],
                    b: &b[of_b..][..elements.len()],
                    places: elements.into(),
                });
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
        let channels = self.channels.count;
        let one_pixel = |shape: &[usize]| {
            let mut one: TVec<usize> = shape.into();
            let last = one.len().saturating_sub(1);
            one[1.min(last)..last].fill(1);
            one
        };
        ensure!(
            shape.last() == Some(&channels)
                && (b.shape() == shape || *b.shape() == *one_pixel(shape)),
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
