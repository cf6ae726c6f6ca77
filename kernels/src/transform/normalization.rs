//! Normalization of rows.

use std::sync::Arc;

use tract_core::internal::*;
use tract_core::ops::math::{Add, Mul, Sub};
use tract_core::ops::nn::{Reduce, Reducer, RmsNorm};

use super::chain::Chain;
use super::found::Found;
use super::rule::{Phase, Rewrite, Rule, Session, refuse_if};
use crate::normalization::Normalization;

/// tract's RmsNorm, with the scale and the shift that follow, and with the mean that is subtracted before it: then it is a
/// LayerNormalization.
#[derive(Debug)]
pub(super) struct Normalizations;

impl Rule for Normalizations {
    fn name(&self) -> &'static str {
        "normalization"
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
        let Some(op) = node.op_as::<RmsNorm>() else { return Ok(Rewrite::NotMine) };
        let fact = &node.outputs[0].fact;
        refuse_if!(
            fact.datum_type != DatumType::F32 || !fact.is_plain(),
            "its type is {:?}, but must be F32",
            fact.datum_type
        );
        let last = fact.rank() - 1;
        refuse_if!(op.axis != last, "its axis is {}, but must be the last one, {last}", op.axis);
        let mut found = Found::new(model, node);
        let centred = centred(&mut found, node.inputs[0], last)?;
        let mut chain = Chain::new(model, node);
        let scale = chain.arithmetic::<Mul>(last..last + 1)?;
        let shift = chain.arithmetic::<Add>(last..last + 1)?;
        let op = Normalization {
            is_centred: centred.is_some(),
            epsilon: op.eps.cast_to_scalar()?,
            scale: scale.map(Arc::new),
            shift: shift.map(Arc::new),
        };
        let mut patch = chain.replaced_by(op, &[centred.unwrap_or(node.inputs[0])])?;
        if centred.is_some() {
            for before in &found.nodes[1..] {
                patch.obliterate(*before)?;
            }
        }
        Ok(patch.into())
    }
}

/// The data, if an outlet is the data less its mean along the last axis.
fn centred(found: &mut Found, outlet: OutletId, last: usize) -> TractResult<Option<OutletId>> {
    rule_if_some!([data, mean] = found.operands::<Sub>(outlet)?);
    rule_if_some!([sum, count] = found.factors(mean)?);
    let (sum, part) = match found.number(count)? {
        Some(part) => (sum, part),
        None => (count, found.number(sum)?.unwrap_or(f32::NAN)),
    };
    rule_if_some!(node = found.inner(sum)?);
    rule_if_some!(op = node.op_as::<Reduce>());
    let shape = &found.model.outlet_fact(data)?.shape;
    let is_mean = shape[last].to_usize().is_ok_and(|size| part == 1. / size as f32);
    rule_if!(is_mean && op.reducer == Reducer::Sum && *op.axes == [last] && node.inputs[0] == data);
    Ok(Some(data))
}
