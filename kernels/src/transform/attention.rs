//! Attention: a softmax between two products.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};
use tract_core::ops::einsum::EinSum;
use tract_core::ops::logic::Iff;
use tract_core::ops::math::{Add, Mul};
use tract_core::ops::nn::{Softmax, SoftmaxKind};

use super::chain::Chain;
use super::contraction::contraction;
use super::found::{Found, is_binary, uniform};
use super::fully_connected::constant_matrix;
use super::rule::{Rewrite, Session, or_refuse, refuse_if};
use crate::attention::{AddendOfKept, Attention};

/// What is between the scores and their product with the values.
struct Between {
    scale: f32,
    factors: Option<Regrouped>,
    masks: TVec<Regrouped>,
    sink: Option<Regrouped>,
}

/// A mask, a sink or factors, and how their axes become those of the scores.
struct Regrouped {
    outlet: OutletId,
    regrouped: Option<AxisOp>,
}

/// What makes one axis of heads of those that have the same keys and of the others, or the other way round. It leaves queries and
/// keys alone, which are the last two axes.
fn regrouping(node: &TypedNode, rank: usize) -> Option<&AxisOp> {
    let op = node.op_as::<AxisOp>()?;
    let leaves_scores = |at: usize, from: &[TDim]| at + from.len() + 2 <= rank;
    matches!(op, AxisOp::Reshape(at, from, _) if leaves_scores(*at, from)).then_some(op)
}

impl Regrouped {
    /// What is added to scores whose axes are regrouped, or multiplies them, if it can be regrouped back.
    fn of(model: &TypedModel, outlet: OutletId, regrouped: Option<&AxisOp>) -> Option<Regrouped> {
        let Some(AxisOp::Reshape(at, before, after)) = regrouped else {
            return Some(Regrouped { outlet, regrouped: None });
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
        Some(Regrouped { outlet, regrouped: Some(op) })
    }

    /// Wires it with the axes of the scores.
    fn wire(
        &self,
        model: &TypedModel,
        patch: &mut TypedModelPatch,
        name: String,
    ) -> TractResult<OutletId> {
        let outlet = patch.tap_model(model, self.outlet)?;
        match &self.regrouped {
            Some(op) => Ok(patch.wire_node(name, op.clone(), &[outlet])?[0]),
            None => Ok(outlet),
        }
    }
}

/// Follows the scores up to their softmax over the last axis, and the sink's weight that is cut off. In between, axes of heads
/// may be regrouped, and are as they were at the end.
fn between(chain: &mut Chain) -> Found<Between> {
    let mut found = Between { scale: 1., factors: None, masks: tvec!(), sink: None };
    let (mut is_softmax, mut has_column_of_sink) = (false, false);
    // What the axes were made of, if they are not those of the scores.
    let mut regrouped: Option<&AxisOp> = None;
    let original = chain.last().outputs[0].fact.shape.clone();
    let rows = |shape: &ShapeFact| shape[..shape.rank() - 1].to_vec();
    rule_if_some!(keys = original.last());
    loop {
        let (model, before) = (chain.model, &chain.last().outputs[0].fact);
        let shape = &before.shape;
        let last = shape.rank() - 1;
        if is_softmax && regrouped.is_none() && !has_column_of_sink {
            // Together they may leave the numbers that each of them keeps to.
            return Ok(found.scale.is_normal().then_some(found));
        }
        if !is_softmax
            && !has_column_of_sink
            && let Some((node, keep)) = kept(chain)?
        {
            let mask = model.outlet_fact(keep)?;
            rule_if!(mask.shape.last() == shape.last());
            rule_if_some!(mask = Regrouped::of(model, keep, regrouped));
            found.masks.push(mask);
            chain.push(node);
            continue;
        }
        rule_if_some!(next = chain.next()?);
        let after = &next.node.outputs[0].fact;
        if let Some(op) = regrouping(next.node, shape.len()) {
            regrouped = match regrouped {
                None => Some(op),
                Some(_) if rows(&after.shape) == rows(&original) => None,
                Some(_) => return Ok(None),
            };
        } else if let (Some(operand), Some(op)) = (next.operand, next.node.op_as::<TypedConcat>()) {
            let sink = model.outlet_fact(operand)?;
            rule_if!(!is_softmax && found.sink.is_none() && op.axis == last && next.slot == 0);
            rule_if!(sink.datum_type == DatumType::F32 && sink.shape[last].is_one());
            rule_if_some!(sink = Regrouped::of(model, operand, regrouped));
            found.sink = Some(sink);
            has_column_of_sink = true;
        } else if let Some(op) = next.node.op_as::<Slice>() {
            rule_if!(is_softmax && has_column_of_sink && op.axis == last);
            rule_if!(op.start == 0.to_dim() && op.end == *keys);
            has_column_of_sink = false;
        } else {
            rule_if!(!is_softmax);
            rule_if!(after.shape == *shape && after.datum_type == before.datum_type);
            if let Some(softmax) = next.node.op_as::<Softmax>() {
                rule_if!(softmax.axes[..] == [last]);
                rule_if!(softmax.kind == SoftmaxKind::Softmax && softmax.quant_output_dt.is_none());
                is_softmax = true;
            } else if let (Some(operand), true) = (next.operand, is_binary::<Add>(next.node)) {
                let mask = model.outlet_fact(operand)?;
                rule_if!(!has_column_of_sink && mask.shape.last() == shape.last());
                rule_if!(mask.datum_type == DatumType::F32);
                rule_if_some!(mask = Regrouped::of(model, operand, regrouped));
                found.masks.push(mask);
            } else {
                rule_if!(!has_column_of_sink && found.masks.is_empty());
                let number = chain.number(next.operand)?;
                match (number, next.operand) {
                    (Some(number), _) if is_binary::<Mul>(next.node) => found.scale *= number,
                    (Some(number), _) if next.is_divided() => found.scale /= number,
                    (None, Some(factors)) if is_binary::<Mul>(next.node) => {
                        let fact = model.outlet_fact(factors)?;
                        rule_if!(found.factors.is_none() && fact.datum_type == DatumType::F32);
                        rule_if!(fact.shape.last().is_some_and(TDim::is_one));
                        rule_if_some!(factors = Regrouped::of(model, factors, regrouped));
                        found.factors = Some(factors);
                    }
                    _ => return Ok(None),
                }
            }
        }
        chain.push(next.node);
    }
}

/// A node that hides scores, and the mask that says which are kept: the others are negative infinity.
fn kept<'a>(chain: &Chain<'a>) -> Found<(&'a TypedNode, OutletId)> {
    rule_if_some!((node, slot) = chain.user()?);
    rule_if!(node.op_is::<Iff>() && slot == 1);
    rule_if_let!(&[keep, _, other] = &*node.inputs);
    let [found, expected] = [node, chain.last()].map(|node| &node.outputs[0].fact);
    rule_if!(found.shape == expected.shape && found.datum_type == DatumType::F32);
    let is_hidden = uniform(chain.model, other)? == Some(f32::NEG_INFINITY);
    Ok(is_hidden.then_some((node, keep)))
}

/// A product, a scale, factors of queries, masks, a softmax and another product. A sink is concatenated before the softmax, and its weight
/// cut off after it.
pub(super) fn rewrite(session: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if!(node.op_is::<EinSum>());
    let mut chain = Chain::new(model, node);
    rule_if_some!(between = between(&mut chain)?);
    refuse_if!(constant_matrix(model, node)?.is_some(), "its keys are a constant matrix");
    let scores = contraction(session, model, node)?;
    let scores = or_refuse!(scores.ok_or("its scores must be a product of matrices"));
    // The second product has another shape.
    let shape = chain.last().outputs[0].fact.shape.clone();
    let next = or_refuse!(chain.next()?.ok_or("the softmax must have one use, a product"));
    let product = contraction(session, model, next.node)?;
    let product = product.filter(|product| product.left == next.slot);
    let reason = "what follows the softmax must be a product of it and the values";
    let product = or_refuse!(product.ok_or(reason));
    let values = next.node.inputs[product.right];
    let fact = model.outlet_fact(values)?;
    refuse_if!(
        !product.takes(&shape, &fact.shape, &next.node.outputs[0].fact.shape),
        "the softmax and the values have shapes that are broadcast"
    );
    let has_others = [&between.sink, &between.factors].map(Option::is_some);
    let attention = Attention::new(scores, between.scale, product, has_others, &shape);
    let reason = "the rows, the columns and the batches of both products must be the same";
    let attention = or_refuse!(attention.ok_or(reason));
    chain.push(next.node);
    let mut patch = TypedModelPatch::default();
    let mut inputs = patch.taps(model, &node.inputs)?;
    inputs.push(patch.tap_model(model, values)?);
    let name = &chain.last().name;
    if let Some(sink) = between.sink {
        inputs.push(sink.wire(model, &mut patch, format!("{name}.sink"))?);
    }
    if let Some(factors) = between.factors {
        inputs.push(factors.wire(model, &mut patch, format!("{name}.factors"))?);
    }
    for (number, mask) in between.masks.into_iter().enumerate() {
        let mut outlet = mask.wire(model, &mut patch, format!("{name}.mask_{number}"))?;
        // It says which scores are kept, and is not what is added to them.
        if patch.outlet_fact(outlet)?.datum_type == DatumType::Bool {
            let name = format!("{name}.hidden_{number}");
            outlet = patch.wire_node(name, AddendOfKept, &[outlet])?[0];
        }
        inputs.push(outlet);
    }
    let output = patch.wire_node(name, attention, &inputs)?[0];
    Ok(Some(chain.replace(patch, output)?.into()))
}
