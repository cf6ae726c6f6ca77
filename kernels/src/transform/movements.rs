//! Operators that put elements in other places.

use tract_core::internal::*;
use tract_core::ops::array::TypedConcat;

use super::rule::{Phase, Rewrite, Rule, Session};
use crate::concat::Concatenation;
use crate::transposition::Transposition;

/// tract's Concat, and moves of axes after which elements are in another order.
#[derive(Debug)]
pub(super) struct Movements;

impl Rule for Movements {
    fn name(&self) -> &'static str {
        "movements"
    }

    fn phase(&self) -> Phase {
        Phase::Rest
    }

    fn rewrite(
        &self,
        _session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Rewrite> {
        let is_kept = |fact: &&TypedFact| {
            fact.is_plain() && fact.datum_type.is_copy() && !fact.datum_type.is_quantized()
        };
        if !model.node_input_facts(node.id)?.iter().all(is_kept) {
            return Ok(Rewrite::NotMine);
        }
        let op: Box<dyn TypedOp> = if let Some(op) = node.op_as::<TypedConcat>() {
            Box::new(Concatenation { axis: op.axis })
        } else if let Some(AxisOp::Move(from, to)) = node.op_as::<AxisOp>() {
            let shape = &model.outlet_fact(node.inputs[0])?.shape;
            let mut perm: TVec<usize> = (0..shape.len()).collect();
            let axis = perm.remove(*from);
            perm.insert(*to, axis);
            // tract changes the shape alone.
            if perm.iter().filter(|axis| !shape[**axis].is_one()).is_sorted() {
                return Ok(Rewrite::NotMine);
            }
            Box::new(Transposition { perm })
        } else {
            return Ok(Rewrite::NotMine);
        };
        Ok(TypedModelPatch::replace_single_op(model, node, &node.inputs, op)?.into())
    }
}
