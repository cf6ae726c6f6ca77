//! Loops that do not wait for each other.

use std::collections::HashSet;

use tract_core::internal::*;
use tract_core::ops::gru_seq::GruSeq;
use tract_core::ops::scan::Scan;

use super::found::Found;
use super::rule::{Rewrite, Session};
use crate::lstm::LstmSequence;
use crate::parallel::Parallel;

/// Two loops with outputs of the same sizes, of which none needs what the other one gives.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if!(is_loop(node));
    let facts = |node: &TypedNode| -> Vec<(DatumType, ShapeFact)> {
        node.outputs.iter().map(|it| (it.fact.datum_type, it.fact.shape.clone())).collect()
    };
    let is_like = |other: &TypedNode| is_loop(other) && facts(node) == facts(other);
    let is_apart = |other: &TypedNode| !needs(model, node, other) && !needs(model, other, node);
    let order = model.eval_order()?;
    let mut others = order.into_iter().map(|id| model.node(id));
    rule_if_some!(other = others.find(|other| is_like(other) && is_apart(other)));
    rule_if_some!(first = optimized(model, node)?);
    rule_if_some!(second = optimized(model, other)?);
    let loops = [(first, node.inputs.len()), (second, other.inputs.len())];
    rule_if_some!(op = Parallel::new(loops));
    let mut patch = TypedModelPatch::default();
    let inputs = patch.taps(model, &[&node.inputs[..], &other.inputs].concat())?;
    let name = format!("{}.parallel", node.name);
    let mut outputs = patch.wire_node(name, op, &inputs)?.into_iter();
    for node in [node, other] {
        for (slot, output) in (0..node.outputs.len()).zip(&mut outputs) {
            patch.shunt_outside(model, OutletId::new(node.id, slot), output)?;
        }
        patch.obliterate(node.id)?;
    }
    Ok(Some(patch.into()))
}

/// Whether it is a loop that starts afresh in each run.
fn is_loop(node: &TypedNode) -> bool {
    let scan = node.op_as::<Scan>().map(|op| op.reset_every_turn && op.skip == 0);
    let gru = node.op_as::<GruSeq>().map(|op| op.reset_every_turn);
    scan.or(gru).unwrap_or(node.op_is::<LstmSequence>())
}

/// Whether a node needs what the other one gives.
fn needs(model: &TypedModel, node: &TypedNode, other: &TypedNode) -> bool {
    let mut seen = HashSet::new();
    let mut waiting = vec![node.id];
    while let Some(id) = waiting.pop() {
        if id == other.id {
            return true;
        }
        if seen.insert(id) {
            waiting.extend(model.node(id).inputs.iter().map(|input| input.node));
        }
    }
    false
}

/// A node's operator as tract's optimiser makes it, if it is one for the same inputs and outputs.
fn optimized(model: &TypedModel, node: &TypedNode) -> Found<Box<dyn TypedOp>> {
    let mut alone = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let mut inputs = vec![];
    for (slot, input) in node.inputs.iter().enumerate() {
        let fact = model.outlet_fact(*input)?.clone();
        let name = format!("input_{slot}");
        inputs.push(match fact.konst {
            Some(value) => alone.add_const(name, value)?,
            None => alone.add_source(name, fact)?,
        });
    }
    let outputs = alone.wire_node(&node.name, node.op.clone(), &inputs)?;
    alone.select_output_outlets(&outputs)?;
    let alone = alone.into_optimized()?;
    let outputs = alone.output_outlets()?;
    let optimized = alone.node(outputs[0].node);
    let is_same = optimized.inputs.len() == node.inputs.len()
        && outputs.iter().enumerate().all(|(slot, it)| *it == OutletId::new(optimized.id, slot))
        && optimized.outputs.len() == node.outputs.len();
    Ok(is_same.then(|| optimized.op.clone()))
}
