//! Attention: a softmax between two products.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::logic::Iff;
use tract_core::ops::math::{Add, Div, Mul};
use tract_core::ops::nn::{Softmax, SoftmaxKind};

use super::chain::Chain;
use super::contraction::contraction;
use super::fully_connected::has_constant_matrix;
use super::rule::{Phase, Rewrite, Rule, Session, refuse, refuse_if};
use crate::attention::{AddendOfKept, Attention};

/// A product, a scale, masks, a softmax and another product.
#[derive(Debug)]
pub(super) struct Attentions;

/// What is between the scores and their product with the values.
struct Between {
    scale: f32,
    masks: TVec<Mask>,
}

/// A mask, and how its axes become those of the scores.
struct Mask {
    outlet: OutletId,
    /// Whether it says which scores are kept, and is not what is added to them.
    keeps: bool,
    regrouped: Option<AxisOp>,
}

/// What makes one axis of heads of those that have the same keys and of the others, or the other way round. It leaves queries and
/// keys alone, which are the last two axes.
fn regrouping(node: &TypedNode, rank: usize) -> Option<&AxisOp> {
    let op = node.op_as::<AxisOp>()?;
    let leaves_scores = |at: usize, from: &[TDim]| at + from.len() + 2 <= rank;
    matches!(op, AxisOp::Reshape(at, from, _) if leaves_scores(*at, from)).then_some(op)
}

impl Mask {
    /// A mask that is added to scores whose axes are regrouped, if it can be regrouped back.
    fn of(model: &TypedModel, outlet: OutletId, regrouped: Option<&AxisOp>) -> Option<Mask> {
        let keeps = model.outlet_fact(outlet).ok()?.datum_type == DatumType::Bool;
        let Some(AxisOp::Reshape(at, before, after)) = regrouped else {
            return Some(Mask { outlet, keeps, regrouped: None });
        };
        let shape = &model.outlet_fact(outlet).ok()?.shape;
        let axes = &shape[*at..at + after.len()];
        let ones = |count: usize| tvec![1.to_dim(); count];
        let op = match () {
            () if axes.iter().all(TDim::is_one) => {
                AxisOp::Reshape(*at, ones(after.len()), ones(before.len()))
            }
            () if axes == &**after => AxisOp::Reshape(*at, after.clone(), before.clone()),
            () => return None,
        };
        Some(Mask { outlet, keeps, regrouped: Some(op) })
    }
}

/// Follows the scores up to their softmax over the last axis. In between, axes of heads may be regrouped, and are as they were
/// at the end.
fn between(chain: &mut Chain) -> TractResult<Option<Between>> {
    let mut found = Between { scale: 1., masks: tvec!() };
    let mut is_softmax = false;
    // What the axes were made of, if they are not those of the scores.
    let mut regrouped: Option<&AxisOp> = None;
    let original = chain.last().outputs[0].fact.shape.clone();
    loop {
        let shape = &chain.last().outputs[0].fact.shape;
        if is_softmax && regrouped.is_none() {
            // Together they may leave the numbers that each of them keeps to.
            return Ok(found.scale.is_normal().then_some(found));
        }
        if let Some((node, _)) = chain.successor()?
            && let Some(op) = regrouping(node, shape.len())
        {
            regrouped = match regrouped {
                None => Some(op),
                Some(_) if node.outputs[0].fact.shape == original => None,
                Some(_) => return Ok(None),
            };
            chain.push(node);
            continue;
        }
        rule_if!(!is_softmax);
        if let Some((node, keep)) = kept(chain)? {
            let mask = chain.model.outlet_fact(keep)?;
            rule_if!(mask.shape.last() == shape.last());
            rule_if_some!(mask = Mask::of(chain.model, keep, regrouped));
            found.masks.push(mask);
            chain.push(node);
            continue;
        }
        rule_if_some!(next = chain.next()?);
        let number = match chain.constant(next.operand)? {
            Some(operand) if operand.len() == 1 => Some(operand.cast_to_scalar::<f32>()?),
            _ => None,
        };
        if let (Some(operand), true) = (next.operand, next.is_binary::<Add>()) {
            let mask = chain.model.outlet_fact(operand)?;
            rule_if!(mask.datum_type == DatumType::F32 && mask.shape.last() == shape.last());
            rule_if_some!(mask = Mask::of(chain.model, operand, regrouped));
            found.masks.push(mask);
        } else if let (Some(number), true) = (number, found.masks.is_empty()) {
            match () {
                () if next.is_binary::<Mul>() => found.scale *= number,
                () if next.is_binary::<Div>() && next.slot == 0 => found.scale /= number,
                () => return Ok(None),
            }
        } else if let Some(softmax) = next.node.op_as::<Softmax>() {
            rule_if!(softmax.axes[..] == [shape.len() - 1]);
            rule_if!(softmax.kind == SoftmaxKind::Softmax && softmax.quant_output_dt.is_none());
            is_softmax = true;
        } else {
            return Ok(None);
        }
        chain.push(next.node);
    }
}

/// A node that hides scores, and the mask that says which are kept: the others are negative infinity.
fn kept<'a>(chain: &Chain<'a>) -> TractResult<Option<(&'a TypedNode, OutletId)>> {
    rule_if_some!((node, slot) = chain.successor()?);
    rule_if!(node.op_is::<Iff>() && slot == 1);
    rule_if_let!(&[keep, _, other] = &*node.inputs);
    let [found, expected] = [node, chain.last()].map(|node| &node.outputs[0].fact);
    rule_if!(found.shape == expected.shape && found.datum_type == DatumType::F32);
    let other = chain.model.outlet_fact(other)?;
    rule_if_some!(other = other.konst.as_ref().or(other.uniform.as_ref()));
    rule_if!(other.len() == 1 && other.cast_to_scalar::<f32>()? == f32::NEG_INFINITY);
    Ok(Some((node, keep)))
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
        let mut patch = TypedModelPatch::default();
        let mut inputs = patch.taps(model, &node.inputs)?;
        inputs.push(patch.tap_model(model, values)?);
        let name = &chain.last().name;
        for (number, mask) in between.masks.into_iter().enumerate() {
            let mut outlet = patch.tap_model(model, mask.outlet)?;
            if let Some(op) = mask.regrouped {
                outlet = patch.wire_node(format!("{name}.mask_{number}"), op, &[outlet])?[0];
            }
            if mask.keeps {
                let name = format!("{name}.hidden_{number}");
                outlet = patch.wire_node(name, AddendOfKept, &[outlet])?[0];
            }
            inputs.push(outlet);
        }
        let output = patch.wire_node(name, attention, &inputs)?[0];
        Ok(chain.replace(patch, output)?.into())
    }
}
