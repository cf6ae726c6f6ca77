//! Weights, and what sums of products with them become.

use tract_core::internal::*;
use tract_core::ops::math::{Add, Mul};

use super::Translation;
use crate::quantized::{DequantizedConst, combine};
use crate::transform::chain::Chain;

/// What sums of products become: a scale and a bias for each channel.
pub(super) struct Line {
    /// One for each channel, or one for all.
    pub scales: Vec<f32>,
    pub bias: Vec<f32>,
}

impl Line {
    /// Takes over numbers that are added to channels, or multiplied with them.
    pub fn take_arithmetic(&mut self, chain: &mut Chain, axis: usize) -> TractResult<()> {
        loop {
            if let Some(added) = chain.arithmetic::<Add>(axis..axis + 1)? {
                self.bias.iter_mut().zip(added).for_each(|(bias, added)| *bias += added);
                continue;
            }
            let mut longer = chain.clone();
            let Some(factors) = longer.arithmetic::<Mul>(axis..axis + 1)? else { return Ok(()) };
            if !factors.iter().all(|factor| factor.is_finite()) {
                return Ok(());
            }
            let scale = |channel: usize| self.scales[channel % self.scales.len()];
            self.scales =
                factors.iter().enumerate().map(|(channel, it)| scale(channel) * it).collect();
            self.bias.iter_mut().zip(&factors).for_each(|(bias, factor)| *bias *= factor);
            *chain = longer;
        }
    }

    /// Takes over one factor for all channels.
    pub fn take_factor(&mut self, chain: &mut Chain) -> TractResult<()> {
        let mut longer = chain.clone();
        if let Some(factors) = longer.arithmetic::<Mul>(0..0)?
            && let [factor] = *factors
        {
            self.scales[0] *= factor;
            *chain = longer;
        }
        Ok(())
    }
}

/// Weights that are signed codes of 8 bits.
pub(super) struct Weights {
    pub codes: Tensor,
    /// Broadcast to the codes.
    scale: Tensor,
}

impl Translation<'_> {
    /// The codes of weights, if they are some.
    pub fn weights(&self, outlet: OutletId) -> TractResult<Option<Weights>> {
        let node = self.source.node(outlet.node);
        if let Some(op) = node.op_as::<AxisOp>() {
            rule_if_some!(weights = self.weights(node.inputs[0])?);
            return weights.changed(op);
        }
        if let Some(op) = node.op_as::<DequantizedConst>() {
            return Weights::of_constant(op);
        }
        Ok(None)
    }
}

impl Weights {
    fn of_constant(constant: &DequantizedConst) -> TractResult<Option<Weights>> {
        rule_if_some!(scale = constant.scale());
        let codes = match (constant.codes().datum_type(), constant.zero_point()) {
            (DatumType::I8, None) => constant.codes().clone(),
            (DatumType::I8 | DatumType::U8, zero_point) => {
                // Codes less their zero point must be signed ones.
                let mut numbers = constant.codes().cast_to::<f32>()?.into_owned();
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
            _ => return Ok(None),
        };
        let mut scale = scale.cast_to::<f32>()?.into_owned();
        while scale.rank() < codes.rank() {
            scale.insert_axis(0)?;
        }
        Ok(Some(Weights { codes, scale }))
    }

    /// With other axes.
    fn changed(mut self, change: &AxisOp) -> TractResult<Option<Weights>> {
        match change {
            AxisOp::Reshape(at, from, to) => {
                let sizes = |dims: &[TDim]| -> Option<TVec<usize>> {
                    dims.iter().map(|dim| dim.to_usize().ok()).collect()
                };
                let (Some(from_sizes), Some(to_sizes)) = (sizes(from), sizes(to)) else {
                    return Ok(None);
                };
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
            }
            change => change.change_tensor(&mut self.scale, true)?,
        }
        change.change_tensor(&mut self.codes, false)?;
        Ok(Some(self))
    }

    /// A matrix, transposed.
    pub fn transposed(self) -> TractResult<Weights> {
        Ok(Weights {
            codes: self.codes.permute_axes(&[1, 0])?,
            scale: self.scale.permute_axes(&[1, 0])?,
        })
    }

    /// The scales for each index along an axis, or one for all, if they differ along no other axis.
    pub fn scales_of(&self, axis: usize, size: usize) -> Option<Vec<f32>> {
        let mut others = self.scale.shape().iter().enumerate().filter(|(at, _)| *at != axis);
        let is_of_axis = others.all(|(_, size)| *size == 1);
        let scales = self.scale.try_as_plain_ram().ok()?.as_slice::<f32>().ok()?.to_vec();
        (is_of_axis && (scales.len() == size || scales.len() == 1)).then_some(scales)
    }
}
