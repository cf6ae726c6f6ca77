//! Weights, and what sums of products with them become.

use tract_core::internal::*;
use tract_core::ops::math::{Add, Mul};

use super::QuantizedTranslation;
use crate::compressed::{DequantizedConst, combine};
use crate::transform::chain::Chain;
use crate::transform::found::{Found, sizes};

/// Takes over numbers that are added to channels, or multiplied with them, into a factor and an addend for each channel. Whether there are
/// some.
pub(super) fn take_arithmetic(
    scales: &mut [[f32; 2]],
    chain: &mut Chain,
    axis: usize,
) -> TractResult<bool> {
    let mut is_any = false;
    loop {
        let mut longer = chain.clone();
        if let Some(addends) = longer.arithmetic::<Add>(axis..axis + 1)? {
            scales.iter_mut().zip(addends).for_each(|([_, sum], addend)| *sum += addend);
        } else if let Some(factors) = longer.arithmetic::<Mul>(axis..axis + 1)?
            && factors.iter().all(|factor| factor.is_finite())
        {
            for (both, factor) in scales.iter_mut().zip(factors) {
                *both = both.map(|number| number * factor);
            }
        } else {
            return Ok(is_any);
        }
        (*chain, is_any) = (longer, true);
    }
}

/// Weights that are signed codes of 8 bits.
pub(super) struct QuantizedWeights {
    pub codes: Tensor,
    /// Broadcast to the codes.
    scale: Tensor,
}

impl QuantizedTranslation<'_> {
    /// The codes of weights whose output channels are along an axis, if they are some: constants that were codes in the file,
    /// or numbers that are multiples of a scale.
    pub fn weights(&self, outlet: OutletId, axis: usize) -> Found<QuantizedWeights> {
        if let Some(codes) = self.weights_of_codes(outlet)? {
            return Ok(Some(codes));
        }
        rule_if_some!(numbers = self.constant(outlet)?);
        rule_if!(numbers.datum_type() == DatumType::F32 && numbers.is_plain());
        QuantizedWeights::of_numbers(&numbers, axis)
    }

    /// The weights of constants that were codes in the file.
    pub fn weights_of_codes(&self, outlet: OutletId) -> Found<QuantizedWeights> {
        let node = self.source.node(outlet.node);
        if let Some(op) = node.op_as::<AxisOp>() {
            rule_if_some!(weights = self.weights_of_codes(node.inputs[0])?);
            return weights.changed(op);
        }
        if let Some(op) = node.op_as::<DequantizedConst>() {
            return QuantizedWeights::of_constant(op);
        }
        Ok(None)
    }
}

/// The codes whose products with one scale are these numbers, and that scale. There are some if a reader made the numbers of
/// codes: those of the greatest numbers are tried from 128 down.
fn codes_of(numbers: &[f32], codes: &mut Vec<i8>) -> Option<f32> {
    /// How far a quotient may be from a code: numbers and the scale are rounded.
    const MOST_APART: f32 = 1e-4;
    let most = numbers.iter().fold(0f32, |most, number| most.max(number.abs()));
    if numbers.iter().all(|number| *number == 0.) {
        codes.extend(numbers.iter().map(|_| 0));
        return Some(1.);
    }
    let is_signed = numbers.contains(&-most);
    (1..=if is_signed { 128 } else { 127 }).rev().find_map(|code| {
        let scale = most / code as f32;
        let is_multiple = |number: &f32| {
            let quotient = number / scale;
            (quotient - quotient.round()).abs() <= MOST_APART && quotient.round() <= 127.
        };
        (scale.is_normal() && numbers.iter().all(is_multiple)).then(|| {
            codes.extend(numbers.iter().map(|number| (number / scale).round() as i8));
            scale
        })
    })
}

impl QuantizedWeights {
    fn of_numbers(numbers: &Tensor, axis: usize) -> Found<QuantizedWeights> {
        let moved = numbers.clone().move_axis(axis, 0)?;
        let channels = moved.shape().first().copied().unwrap_or(0);
        rule_if!(moved.len() > 0 && channels > 0);
        let (mut codes, mut scales) = (Vec::with_capacity(moved.len()), vec![]);
        for channel in moved.try_as_plain_ram()?.as_slice::<f32>()?.chunks(moved.len() / channels) {
            rule_if_some!(scale = codes_of(channel, &mut codes));
            scales.push(scale);
        }
        let codes = Tensor::from_shape(moved.shape(), &codes)?.move_axis(0, axis)?;
        let mut shape = vec![1; codes.rank()];
        shape[axis] = channels;
        Ok(Some(QuantizedWeights { codes, scale: Tensor::from_shape(&shape, &scales)? }))
    }

    fn of_constant(constant: &DequantizedConst) -> Found<QuantizedWeights> {
        rule_if_some!(scale = constant.scale());
        rule_if_some!(codes = constant.codes());
        rule_if!([DatumType::I8, DatumType::U8].contains(&codes.datum_type()));
        let codes = codes.get()?;
        let codes = match (codes.datum_type(), constant.zero_point()) {
            (DatumType::I8, None) => codes.clone().into_tensor(),
            (_, zero_point) => {
                // Codes less their zero point must be signed ones.
                let mut numbers = codes.cast_to::<f32>()?.into_owned();
                let shape: TVec<usize> = numbers.shape().into();
                let mut view = numbers.try_as_plain_ram_mut()?;
                let view = view.as_slice_mut::<f32>()?;
                if let Some(zero_point) = zero_point {
                    combine(view, &shape, zero_point, |code, zero| code - zero)?;
                }
                rule_if!(
                    view.iter().all(|code| (-128. ..=127.).contains(code) && code.fract() == 0.)
                );
                numbers.cast_to::<i8>()?.into_owned()
            }
        };
        let mut scale = scale.cast_to::<f32>()?.into_owned();
        while scale.rank() < codes.rank() {
            scale.insert_axis(0)?;
        }
        Ok(Some(QuantizedWeights { codes, scale }))
    }

    /// With other axes, of known sizes.
    fn changed(mut self, change: &AxisOp) -> Found<QuantizedWeights> {
        if let AxisOp::Reshape(at, from, to) = change {
            rule_if_some!(from_sizes = sizes(from));
            rule_if_some!(to_sizes = sizes(to));
            let mut shape: TVec<usize> = self.scale.shape().into();
            let end = at + from_sizes.len();
            let is_one = shape[*at..end].iter().all(|size| *size == 1);
            if !is_one && shape[*at..end] != *from_sizes {
                shape[*at..end].copy_from_slice(&from_sizes);
                self.scale = self.scale.broadcast_to_shape(&shape)?;
            }
            let new = if is_one { tvec![1; to_sizes.len()] } else { to_sizes };
            let shape = [&shape[..*at], &new, &shape[end..]].concat();
            self.scale = self.scale.into_shape(&shape)?;
            change.change_tensor(&mut self.codes, false)?;
        } else {
            self.change_axes(change)?;
        }
        Ok(Some(self))
    }

    /// Moves, adds or removes an axis.
    pub fn change_axes(&mut self, change: &AxisOp) -> TractResult<()> {
        change.change_tensor(&mut self.scale, true)?;
        change.change_tensor(&mut self.codes, false)
    }

    /// For each index along the first axis its scale, with the bias of that. None if scales differ along another axis.
    pub fn scales(&self, bias: Vec<f32>) -> Option<Vec<[f32; 2]>> {
        let is_of_axis = self.scale.shape().iter().skip(1).all(|size| *size == 1);
        let scales = self.scale.try_as_plain_ram().ok()?.as_slice::<f32>().ok()?;
        let both = bias.into_iter().zip(scales.iter().cycle());
        is_of_axis.then(|| both.map(|(bias, scale)| [*scale, bias]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_were_codes() {
        for scale in [1e-3f32, 0.017, 3.3] {
            for codes in [vec![-128i8, 5, 127], vec![93, -92, 7], vec![-127, 0, 1], vec![0, 0]] {
                let numbers: Vec<f32> = codes.iter().map(|code| f32::from(*code) * scale).collect();
                let mut found = vec![];
                let found_scale = codes_of(&numbers, &mut found).unwrap();
                for ((number, code), expected) in numbers.iter().zip(&found).zip(&codes) {
                    assert!((f32::from(*code) * found_scale - number).abs() <= 1e-6 * number.abs());
                    assert_eq!(code, expected);
                }
            }
        }
        for numbers in
            [[1f32, 0.1234, 0.777], [1., f32::NAN, 0.], [0., f32::NAN, 0.], [f32::INFINITY, 1., 0.]]
        {
            assert_eq!(codes_of(&numbers, &mut vec![]), None, "{numbers:?}");
        }
    }
}
