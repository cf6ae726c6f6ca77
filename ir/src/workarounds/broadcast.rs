use std::collections::HashSet;

use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, Tile, TypedConcat};
use tract_core::ops::cast::Cast;
use tract_core::ops::element_wise::ElementWiseOp;

/// Whether tract leaves out what broadcasts a factor of a product, whether or not the other factor has the sizes of its
/// axes. `labels` are those of its axes, and `others` those of the other factor's.
pub(crate) fn loses_broadcast(
    model: &TypedModel,
    factor: OutletId,
    labels: &str,
    others: &str,
) -> bool {
    is_broadcast(model, flattened(model, factor, labels, others).unwrap_or(factor))
}

/// The most nodes in front of a product that are looked at.
const MOST_SEEN: usize = 64;

/// The tensor of which a factor is a reshape that makes several axes one, unless the other factor has that axis, too. tract
/// moves such a reshape behind the product.
fn flattened(model: &TypedModel, factor: OutletId, labels: &str, others: &str) -> Option<OutletId> {
    let mut labels: Vec<Option<char>> = labels.chars().map(Some).collect();
    let mut outlet = factor;
    for _ in 0..MOST_SEEN {
        let node = model.node(outlet.node);
        match node.op_as() {
            Some(AxisOp::Add(axis)) => drop(labels.remove(*axis)),
            Some(AxisOp::Rm(axis)) => labels.insert(*axis, None),
            Some(AxisOp::Move(from, to)) => {
                let label = labels.remove(*to);
                labels.insert(*from, label);
            }
            Some(AxisOp::Reshape(at, _, to)) => {
                let is_alone = labels[*at].is_some_and(|label| !others.contains(label));
                return node.inputs.first().copied().filter(|_| to.len() == 1 && is_alone);
            }
            None if node.op_is::<Cast>() => (),
            None => return None,
        }
        outlet = *node.inputs.first()?;
    }
    None
}

/// Whether tract would find that an outlet is broadcast, now or after it has rewritten the nodes in between.
fn is_broadcast(model: &TypedModel, outlet: OutletId) -> bool {
    let mut next = vec![outlet];
    let mut seen = HashSet::new();
    while let Some(outlet) = next.pop().filter(|_| seen.len() < MOST_SEEN) {
        let node = model.node(outlet.node);
        let op = &node.op;
        if !seen.insert(outlet.node) || node.outputs[outlet.slot].fact.konst.is_some() {
            continue;
        }
        if op.is::<MultiBroadcastTo>() || op.is::<Tile>() {
            return true;
        }
        // What is concatenated tract multiplies part by part, with or without a reshape after it.
        let is_concat = |input: &OutletId| model.node(input.node).op.is::<TypedConcat>();
        let moves =
            |op: &AxisOp| !matches!(op, AxisOp::Reshape(..)) || node.inputs.iter().any(is_concat);
        if op.is::<TypedConcat>()
            || op.is::<Cast>()
            || op.is::<ElementWiseOp>()
            || op.downcast_ref().is_some_and(moves)
        {
            next.extend(&node.inputs);
        }
    }
    false
}
