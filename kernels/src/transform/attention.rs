//! Attention: a softmax between two products.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::{Add, Div, Mul};
use tract_core::ops::nn::{Softmax, SoftmaxKind};

use super::chain::Chain;
use super::contraction::contraction;
use super::fully_connected::has_constant_matrix;
use super::rule::{Phase, Rewrite, Rule, Session, refuse, refuse_if};
use crate::attention::Attention;

/// A product, a scale, masks, a softmax and another product.
#[derive(Debug)]
pub(super) struct Attentions;

/// What is between the scores and their product with the values.
struct Between {
    scale: f32,
    masks: TVec<OutletId>,
}

/// Follows the scores up to their softmax over the last axis.
fn between(chain: &mut Chain) -> TractResult<Option<Between>> {
    let mut found = Between { scale: 1., masks: tvec!() };
    let shape = chain.last().outputs[0].fact.shape.clone();
    loop {
        rule_if_some!(next = chain.next()?);
        let number = match chain.constant(next.operand)? {
            Some(operand) if operand.len() == 1 => Some(operand.cast_to_scalar::<f32>()?),
            _ => None,
        };
        if let (Some(operand), true) = (next.operand, next.is_binary::<Add>()) {
            let mask = chain.model.outlet_fact(operand)?;
            rule_if!(mask.datum_type == DatumType::F32 && mask.shape.last() == shape.last());
            found.masks.push(operand);
        } else if let (Some(number), true) = (number, found.masks.is_empty()) {
            match () {
                () if next.is_binary::<Mul>() => found.scale *= number,
                () if next.is_binary::<Div>() && next.slot == 0 => found.scale /= number,
                () => return Ok(None),
            }
        } else if let Some(softmax) = next.node.op_as::<Softmax>() {
            rule_if!(softmax.axes[..] == [shape.len() - 1]);
            rule_if!(softmax.kind == SoftmaxKind::Softmax && softmax.quant_output_dt.is_none());
            chain.push(next.node);
            // Together they may leave the numbers that each of them keeps to.
            return Ok(found.scale.is_normal().then_some(found));
        } else {
            return Ok(None);
        }
        chain.push(next.node);
    }
}

impl Rule for Attentions {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn phase(&self) -> Phase {
        Phase::Decluttered
    }

    fn rewrite(
        &self,
        _session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        if !node.op_is::<EinSum>() {
            return Ok(Rewrite::NotMine);
        }
        let mut chain = Chain::new(model, node);
        let Some(between) = between(&mut chain)? else { return Ok(Rewrite::NotMine) };
        refuse_if!(has_constant_matrix(model, node)?, "its keys are a constant matrix");
        let Some(scores) = contraction(model, node)? else {
            refuse!("its scores must be a product of matrices");
        };
        // The second product has another shape.
        let shape = chain.last().outputs[0].fact.shape.clone();
        let Some(next) = chain.follower()? else {
            refuse!("the softmax must have one use, a product");
        };
        let product = contraction(model, next.node)?;
        let Some(product) = product.filter(|product| product.left == next.slot) else {
            refuse!("what follows the softmax must be a product of it and the values");
        };
        let values = next.node.inputs[product.right];
        let fact = model.outlet_fact(values)?;
        refuse_if!(
            !product.takes(&shape, &fact.shape, &next.node.outputs[0].fact.shape),
            "the softmax and the values have shapes that are broadcast"
        );
        let Some(attention) = Attention::new(scores, between.scale, product, &shape) else {
            refuse!("the rows, the columns and the batches of both products must be the same");
        };
        chain.push(next.node);
        let mut inputs: TVec<OutletId> = node.inputs.iter().copied().collect();
        inputs.push(values);
        inputs.extend(between.masks);
        Ok(chain.replaced_by(attention, &inputs)?.into())
    }
}
