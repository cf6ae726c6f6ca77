//! From numbers to codes and back, and from codes to others.

use std::sync::Arc;

use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use super::levels::{Level, Levels};
use crate::checks::{expect_input_count, extent};
use crate::memory::unwritten_output;
use crate::product::Vectors;
use crate::threads::fill_rows;

/// Where the numbers have the channels. Codes have them last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    Last,
    /// Behind the first axis.
    Second,
}

/// Numbers of type `f32` become codes of type `u8`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantize {
    pub levels: Arc<Levels>,
    pub from: Channels,
}

/// Codes of type `u8` become numbers of type `f32`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dequantize {
    pub levels: Arc<Levels>,
    pub to: Channels,
}

/// Codes of type `u8` become those of other levels that are nearest. In both, all channels have the same levels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Requantize {
    pub from: Arc<Levels>,
    pub to: Arc<Levels>,
}

impl Eq for Quantize {}
impl Eq for Dequantize {}
impl Eq for Requantize {}

/// How many pixels are moved at a time.
const PIXELS: usize = 64;

/// The pixels of an image, and the channels of each.
#[derive(Clone, Copy)]
struct Sizes {
    pixels: usize,
    channels: usize,
}

impl Channels {
    /// From codes with the channels last.
    fn of_codes<D: Clone>(self, shape: &[D]) -> TVec<D> {
        let mut shape: TVec<D> = shape.into();
        if self == Channels::Second && shape.len() > 2 {
            shape[1..].rotate_right(1);
        }
        shape
    }

    /// From numbers with the channels here.
    fn to_codes<D: Clone>(self, shape: &[D]) -> TVec<D> {
        let mut shape: TVec<D> = shape.into();
        if self == Channels::Second && shape.len() > 2 {
            shape[1..].rotate_left(1);
        }
        shape
    }
}

impl Sizes {
    /// Those of codes of this shape.
    fn of(codes: &[usize]) -> Sizes {
        let channels = codes.last().copied().unwrap_or(1);
        let pixels = match codes.len() {
            0 | 1 => 1,
            rank => extent(&codes[1..rank - 1]),
        };
        Sizes { pixels, channels }
    }
}

/// Some neighbours become codes.
struct ToCodes<'a> {
    numbers: &'a [f32],
    codes: &'a mut [u8],
    level: Level,
    levels: &'a Levels,
}

impl WithSimd for ToCodes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        for (code, number) in self.codes.iter_mut().zip(self.numbers) {
            *code = self.levels.code(self.level, *number);
        }
    }
}

/// Some codes, in a distance, become neighbours.
struct ToNumbers<'a> {
    codes: &'a [u8],
    distance: usize,
    numbers: &'a mut [f32],
    level: Level,
}

impl WithSimd for ToNumbers<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Level { low, step, .. } = self.level;
        if self.distance == 1 {
            for (number, code) in self.numbers.iter_mut().zip(self.codes) {
                *number = f32::from(*code) * step + low;
            }
        } else {
            for (number, code) in
                self.numbers.iter_mut().zip(self.codes.iter().step_by(self.distance))
            {
                *number = f32::from(*code) * step + low;
            }
        }
    }
}

impl Quantize {
    /// The codes of some pixels, from one on.
    fn pixels(&self, numbers: &[f32], sizes: Sizes, first: usize, codes: &mut [u8]) {
        let (vectors, levels) = (Vectors::detect(), &*self.levels);
        let Sizes { pixels, channels } = sizes;
        let is_moved = self.from == Channels::Second && pixels > 1 && channels > 1;
        if !is_moved {
            let numbers = &numbers[first * channels..][..codes.len()];
            let width = if self.levels.are_the_same() { codes.len() } else { 1 };
            for (number, (codes, numbers)) in
                codes.chunks_mut(width.max(1)).zip(numbers.chunks(width.max(1))).enumerate()
            {
                let level = self.levels.of(number % channels);
                vectors.run(ToCodes { numbers, codes, level, levels });
            }
            return;
        }
        let mut some = [0; PIXELS];
        let mut first = first;
        let mut codes = codes;
        while !codes.is_empty() {
            let (image, pixel) = (first / pixels, first % pixels);
            let count = (codes.len() / channels).min(PIXELS).min(pixels - pixel);
            let (now, later) = std::mem::take(&mut codes).split_at_mut(count * channels);
            for channel in 0..channels {
                let numbers = &numbers[(image * channels + channel) * pixels + pixel..][..count];
                let level = self.levels.of(channel);
                vectors.run(ToCodes { numbers, codes: &mut some[..count], level, levels });
                for (place, code) in now[channel..].iter_mut().step_by(channels).zip(&some) {
                    *place = *code;
                }
            }
            (codes, first) = (later, first + count);
        }
    }
}

impl Op for Quantize {
    fn name(&self) -> StaticName {
        "Quantize".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![self.levels.text()])
    }

    op_as_typed_op!();
}

impl EvalOp for Quantize {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let numbers = input.try_as_plain_ram()?;
        let numbers = numbers.as_slice::<f32>()?;
        let shape = self.from.to_codes(input.shape());
        let sizes = Sizes::of(&shape);
        // SAFETY: each code is written.
        #[allow(unsafe_code)]
        let mut output = unsafe { unwritten_output::<u8>("Quantize", &shape)? };
        let mut view = output.try_as_plain_ram_mut()?;
        let codes = view.as_slice_mut::<u8>()?;
        if !codes.is_empty() {
            fill_rows(codes, sizes.channels, numbers.len(), |first, codes| {
                self.pixels(numbers, sizes, first, codes);
                TractResult::Ok(())
            })?;
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for Quantize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Quantize", inputs.len(), 1..=1)?;
        ensure!(
            inputs[0].datum_type == DatumType::F32,
            "Quantize: the data is {:?}, but must be of type F32",
            inputs[0]
        );
        Ok(tvec!(u8::fact(self.from.to_codes(&inputs[0].shape))))
    }

    as_op!();
}

impl Op for Dequantize {
    fn name(&self) -> StaticName {
        "Dequantize".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![self.levels.text()])
    }

    op_as_typed_op!();
}

impl EvalOp for Dequantize {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let codes = input.try_as_plain_ram()?;
        let codes = codes.as_slice::<u8>()?;
        let shape = self.to.of_codes(input.shape());
        // SAFETY: each number is written.
        #[allow(unsafe_code)]
        let mut output = unsafe { unwritten_output::<f32>("Dequantize", &shape)? };
        let mut view = output.try_as_plain_ram_mut()?;
        let numbers = view.as_slice_mut::<f32>()?;
        let vectors = Vectors::detect();
        let Sizes { pixels, channels } = Sizes::of(input.shape());
        if numbers.is_empty() {
        } else if self.to == Channels::Second && pixels > 1 && channels > 1 {
            // Rows are the pixels of a channel.
            fill_rows(numbers, pixels, codes.len(), |first, numbers| {
                for begin in (0..pixels).step_by(PIXELS) {
                    let count = (pixels - begin).min(PIXELS);
                    for (row, numbers) in numbers.chunks_mut(pixels).enumerate() {
                        let (image, channel) = ((first + row) / channels, (first + row) % channels);
                        vectors.run(ToNumbers {
                            codes: &codes[(image * pixels + begin) * channels + channel..],
                            distance: channels,
                            numbers: &mut numbers[begin..][..count],
                            level: self.levels.of(channel),
                        });
                    }
                }
                TractResult::Ok(())
            })?;
        } else {
            fill_rows(numbers, channels, codes.len(), |first, numbers| {
                let codes = &codes[first * channels..];
                let width = if self.levels.are_the_same() { numbers.len() } else { 1 };
                for (number, (numbers, codes)) in
                    numbers.chunks_mut(width).zip(codes.chunks(width)).enumerate()
                {
                    let level = self.levels.of(number % channels);
                    vectors.run(ToNumbers { codes, distance: 1, numbers, level });
                }
                TractResult::Ok(())
            })?;
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for Dequantize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Dequantize", inputs.len(), 1..=1)?;
        ensure!(
            inputs[0].datum_type == DatumType::U8,
            "Dequantize: the data is {:?}, but must be of type U8",
            inputs[0]
        );
        Ok(tvec!(f32::fact(self.to.of_codes(&inputs[0].shape))))
    }

    as_op!();
}

impl Op for Requantize {
    fn name(&self) -> StaticName {
        "Requantize".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("{}, to {}", self.from.text(), self.to.text())])
    }

    op_as_typed_op!();
}

impl EvalOp for Requantize {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut data = args_1!(inputs).into_tensor();
        let (from, to) = (self.from.of(0), self.to.of(0));
        let table: [u8; 256] =
            std::array::from_fn(|code| self.to.code(to, from.low + code as f32 * from.step));
        let mut view = data.try_as_plain_ram_mut()?;
        let codes = view.as_slice_mut::<u8>()?;
        let count = codes.len();
        fill_rows(codes, 1, count, |_, codes| {
            codes.iter_mut().for_each(|code| *code = table[usize::from(*code)]);
            TractResult::Ok(())
        })?;
        Ok(tvec!(data.into_tvalue()))
    }
}

impl TypedOp for Requantize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        expect_input_count("Requantize", inputs.len(), 1..=1)?;
        ensure!(
            inputs[0].datum_type == DatumType::U8,
            "Requantize: the data is {:?}, but must be of type U8",
            inputs[0]
        );
        Ok(tvec!(inputs[0].without_value()))
    }

    as_op!();
}
