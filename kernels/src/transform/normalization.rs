//! Normalization of rows.

use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::math::{Add, Mul, Sub};
use tract_core::ops::nn::{Reduce, Reducer, RmsNorm};

use super::chain::Chain;
use super::found::{Found, FusedNodes, is_single, number, replace_all};
use super::rule::{Rewrite, Session, refuse_if};
use crate::normalization::Normalization;

/// tract's RmsNorm, with the scale and the shift that follow, and with the mean that is subtracted before it: then it is a
/// LayerNormalization. A sum that nothing else needs, as behind the layers of a BERT, is taken over, too.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if_some!(op = node.op_as::<RmsNorm>());
    let fact = &node.outputs[0].fact;
    refuse_if!(!is_single(fact), "its type is {:?}, but must be F32", fact.datum_type);
    let last = fact.rank() - 1;
    refuse_if!(op.axis != last, "its axis is {}, but must be the last one, {last}", op.axis);
    let mut found = FusedNodes::new(model, node);
    let centred = found.attempt(|found| centred(found, node.inputs[0], last))?;
    let data = centred.unwrap_or(node.inputs[0]);
    let addends = found.attempt(|found| addends(found, data))?;
    let mut chain = Chain::new(model, node);
    let scale = chain.arithmetic::<Mul>(last..last + 1)?;
    let shift = chain.arithmetic::<Add>(last..last + 1)?;
    let op = Normalization {
        is_of_sum: addends.is_some(),
        is_centred: centred.is_some(),
        epsilon: op.eps.cast_to_scalar()?,
        scale: scale.map(Arc::new),
        shift: shift.map(Arc::new),
    };
    let inputs = match &addends {
        Some(addends) => &addends[..],
        None => &[data],
    };
    let nodes = chain.ids().chain(found.nodes);
    Ok(Some(replace_all(model, nodes, chain.last(), op, inputs)?.into()))
}

/// What the data is the sum of, if it is one of two of its shape.
fn addends(found: &mut FusedNodes, data: OutletId) -> Found<[OutletId; 2]> {
    rule_if_some!(addends = found.operands::<Add>(data)?);
    let sum = found.model.outlet_fact(data)?;
    for addend in addends {
        let fact = found.model.outlet_fact(addend)?;
        rule_if!(fact.datum_type == sum.datum_type && fact.shape == sum.shape && fact.is_plain());
    }
    Ok(Some(addends))
}

/// The data, if an outlet is the data less its mean along the last axis.
fn centred(found: &mut FusedNodes, outlet: OutletId, last: usize) -> Found<OutletId> {
    rule_if_some!([data, mean] = found.operands::<Sub>(outlet)?);
    rule_if_some!([sum, count] = found.factors(mean)?);
    let (sum, part) = match number(found.model, count)? {
        Some(part) => (sum, part),
        None => (count, number(found.model, sum)?.unwrap_or(f32::NAN)),
    };
    rule_if_some!(node = found.inner(sum)?);
    rule_if_some!(op = node.op_as::<Reduce>());
    let shape = &found.model.outlet_fact(data)?.shape;
    let is_mean = shape[last].to_usize().is_ok_and(|size| part == 1. / size as f32);
    rule_if!(is_mean && op.reducer == Reducer::Sum && *op.axes == [last] && node.inputs[0] == data);
    Ok(Some(data))
}
