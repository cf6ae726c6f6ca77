//! Rotary position embedding.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::{Add, Neg};

use super::found::{Found, FusedNodes, is_binary, is_single, number, replace_all};
use super::rule::{Rewrite, Session, refuse_if};
use crate::rotary::RotaryEmbedding;

impl FusedNodes<'_> {
    /// What a part of `data` along its last axis is, and the part.
    fn part(&mut self, outlet: OutletId) -> Found<(OutletId, [usize; 2])> {
        rule_if_some!(node = self.inner(outlet)?);
        rule_if_some!(op = node.op_as::<Slice>());
        rule_if!(op.axis + 1 == node.outputs[0].fact.rank());
        rule_if_let!((Ok(start), Ok(end)) = (op.start.to_usize(), op.end.to_usize()));
        Ok(Some((node.inputs[0], [start, end])))
    }

    /// What is negated: by an operator of its own, or by a product.
    fn negated(&mut self, outlet: OutletId) -> Found<OutletId> {
        let node = self.model.node(outlet.node);
        if node.op_as::<ElementWiseOp>().is_some_and(|op| op.0.is::<Neg>()) {
            rule_if_some!(node = self.inner(outlet)?);
            return Ok(Some(node.inputs[0]));
        }
        rule_if_some!([a, b] = self.factors(outlet)?);
        Ok(match [number(self.model, a)?, number(self.model, b)?] {
            [_, Some(-1.)] => Some(a),
            [Some(-1.), _] => Some(b),
            _ => None,
        })
    }

    /// The data, if an outlet has the second half of its rows, negated, and then the first half.
    fn rotated(&mut self, outlet: OutletId) -> Found<OutletId> {
        let node = self.model.node(outlet.node);
        rule_if_some!(op = node.op_as::<TypedConcat>());
        rule_if!(op.axis + 1 == node.outputs[0].fact.rank());
        rule_if_let!([second, first] = node.inputs[..]);
        rule_if_some!(_node = self.inner(outlet)?);
        rule_if_some!(second = self.negated(second)?);
        rule_if_some!((data, second) = self.part(second)?);
        rule_if_some!((same, first) = self.part(first)?);
        let size = self.model.outlet_fact(data)?.shape[op.axis].to_usize().ok();
        rule_if!(data == same && size == Some(second[1]));
        Ok((first == [0, second[1] / 2] && second[0] * 2 == second[1]).then_some(data))
    }
}

/// `data * cos + rotated * sin`, as models have it: slices, a concatenation, products and a sum.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if!(is_binary::<Add>(node));
    rule_if_some!((inputs, nodes) = inputs(model, node)?);
    let facts = inputs.iter().map(|input| model.outlet_fact(*input));
    let facts = facts.collect::<TractResult<TVec<&TypedFact>>>()?;
    let (data, factors) = (facts[0], &facts[1..]);
    refuse_if!(
        !is_single(data) || !factors.iter().all(|fact| fact.is_plain()),
        "its type is {:?}, but must be F32",
        data.datum_type
    );
    let last = data.rank() - 1;
    let fits = |factor: &&TypedFact| {
        let mut axes = factor.shape.iter().zip(data.shape.iter());
        factor.shape[last] == data.shape[last]
            && axes.all(|(factor, size)| factor == size || factor.is_one())
    };
    refuse_if!(
        last == 0 || !factors.iter().all(fits),
        "its factors must have the shape of the data, or 1 in place of some sizes but the last one"
    );
    Ok(Some(replace_all(model, nodes, node, RotaryEmbedding, &inputs)?.into()))
}

/// The data, `cos` and `sin`, and the nodes between these and a sum.
fn inputs(model: &TypedModel, sum: &TypedNode) -> Found<([OutletId; 3], TVec<usize>)> {
    for (a, b) in [(0, 1), (1, 0)] {
        let mut found = FusedNodes::new(model, sum);
        rule_if_some!(of_cos = found.factors(sum.inputs[a])?);
        rule_if_some!(of_sin = found.factors(sum.inputs[b])?);
        for (rotated, sin) in [(0, 1), (1, 0)] {
            let result = found.attempt(|found| {
                rule_if_some!(data = found.rotated(of_sin[rotated])?);
                let position = of_cos.iter().position(|factor| *factor == data);
                Ok(position.map(|position| (data, position)))
            })?;
            if let Some((data, position)) = result {
                return Ok(Some(([data, of_cos[1 - position], of_sin[sin]], found.nodes)));
            }
        }
    }
    Ok(None)
}
