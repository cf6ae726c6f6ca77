//! What is before a node, and is done by the operator that replaces both.

use tract_core::internal::*;
use tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_core::ops::math::Mul;

/// Nodes of a model that one operator replaces, the last one first. Nobody else needs what the others give.
pub(super) struct FusedNodes<'a> {
    pub model: &'a TypedModel,
    pub nodes: TVec<usize>,
}

impl<'a> FusedNodes<'a> {
    pub fn new(model: &'a TypedModel, last: &TypedNode) -> FusedNodes<'a> {
        FusedNodes { model, nodes: tvec!(last.id) }
    }

    /// What a function finds. If that is nothing, the nodes that it came across stay in the model.
    pub fn attempt<T>(
        &mut self,
        find: impl FnOnce(&mut Self) -> TractResult<Option<T>>,
    ) -> TractResult<Option<T>> {
        let count = self.nodes.len();
        let result = find(self)?;
        if result.is_none() {
            self.nodes.truncate(count);
        }
        Ok(result)
    }

    /// The node that gives an outlet, if nobody else needs it.
    pub fn inner(&mut self, outlet: OutletId) -> TractResult<Option<&'a TypedNode>> {
        let node = self.model.node(outlet.node);
        rule_if!(node.outputs.len() == 1);
        rule_if!(node.outputs[0].successors.iter().all(|inlet| self.nodes.contains(&inlet.node)));
        rule_if!(!self.model.output_outlets()?.contains(&outlet));
        self.nodes.push(node.id);
        Ok(Some(node))
    }

    /// The operands of a function of two numbers.
    pub fn operands<O: BinMiniOp>(
        &mut self,
        outlet: OutletId,
    ) -> TractResult<Option<[OutletId; 2]>> {
        rule_if_some!(node = self.inner(outlet)?);
        rule_if_some!(op = node.op_as::<TypedBinOp>());
        rule_if!(op.0.is::<O>() && op.1.is_none());
        Ok(node.inputs[..].try_into().ok())
    }

    /// The factors of a product.
    pub fn factors(&mut self, outlet: OutletId) -> TractResult<Option<[OutletId; 2]>> {
        self.operands::<Mul>(outlet)
    }

    /// The number that an outlet is, if it is a constant of one.
    pub fn number(&self, outlet: OutletId) -> TractResult<Option<f32>> {
        let constant = self.model.outlet_fact(outlet)?.konst.as_ref();
        let one = constant.filter(|constant| constant.len() == 1);
        one.map(|constant| constant.cast_to_scalar()).transpose()
    }
}
