//! Products of two factors that are computed when the model runs.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;

use super::chain::Chain;
use super::rule::{Phase, Rewrite, Rule, Session, refuse, refuse_if};
use crate::contraction::Contraction;

/// A product of two matrices, or of many.
#[derive(Debug)]
pub(super) struct Contractions;

/// The product of a node, if it is one that this crate's operator computes.
pub(super) fn contraction(
    model: &TypedModel,
    node: &TypedNode,
) -> TractResult<Option<Contraction>> {
    rule_if_some!(op = node.op_as::<EinSum>());
    let facts = model.node_input_facts(node.id)?;
    let is_single = |fact: &&TypedFact| fact.datum_type == DatumType::F32 && fact.is_plain();
    rule_if!(facts.len() == 2 && facts.iter().all(is_single));
    rule_if!(op.operating_dt == DatumType::F32);
    let shapes = [&*facts[0].shape, &*facts[1].shape];
    rule_if_some!(product = Contraction::of(op, shapes));
    let (left, right) = (shapes[product.left], shapes[product.right]);
    rule_if!(product.takes(left, right, &node.outputs[0].fact.shape));
    Ok(Some(product))
}

impl Rule for Contractions {
    fn name(&self) -> &'static str {
        "contraction"
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
        let Some(product) = contraction(model, node)? else {
            refuse!(
                "it must be a product of two matrices of type F32, or of many, whose rows are read in vectors"
            )
        };
        // tract packs it once, and this operator in each run.
        let is_constant = |input| TractResult::Ok(model.outlet_fact(input)?.konst.is_some());
        refuse_if!(
            is_constant(node.inputs[0])? || is_constant(node.inputs[1])?,
            "a factor is a constant, but is no matrix"
        );
        Ok(Chain::new(model, node).replaced_by(product, &node.inputs)?.into())
    }
}
