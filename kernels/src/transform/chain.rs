//! What follows a node, and can be done by the operator that replaces it.

use tract_core::internal::*;
use tract_core::ops::binary::{BinMiniOp, TypedBinOp};

use crate::product::activation::Activation;

/// A chain of nodes, each of which needs the one before and is all that needs it.
#[derive(Debug, Clone)]
pub(super) struct Chain<'a> {
    pub model: &'a TypedModel,
    nodes: Vec<&'a TypedNode>,
}

/// A node that follows, and its other operand if it has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next<'a> {
    pub node: &'a TypedNode,
    /// The input of the node that is the chain.
    pub slot: usize,
    pub operand: Option<OutletId>,
}

impl Next<'_> {
    /// Whether the node combines the two by this function.
    pub fn is_binary<O: BinMiniOp>(&self) -> bool {
        self.node.op_as::<TypedBinOp>().is_some_and(|op| op.0.is::<O>() && op.1.is_none())
    }
}

impl<'a> Chain<'a> {
    pub fn new(model: &'a TypedModel, node: &'a TypedNode) -> Chain<'a> {
        Chain { model, nodes: vec![node] }
    }

    pub fn last(&self) -> &'a TypedNode {
        self.nodes[self.nodes.len() - 1]
    }

    /// The node that alone needs the result so far.
    pub fn follower(&self) -> TractResult<Option<Next<'a>>> {
        let last = self.last();
        rule_if!(last.outputs.len() == 1);
        rule_if_let!([successor] = &*last.outputs[0].successors);
        rule_if!(!self.model.output_outlets()?.contains(&last.id.into()));
        let node = self.model.node(successor.node);
        rule_if!(node.outputs.len() == 1);
        let operand = match &*node.inputs {
            [_] => None,
            [a, b] if a != b => Some(if successor.slot == 0 { *b } else { *a }),
            _ => return Ok(None),
        };
        Ok(Some(Next { node, slot: successor.slot, operand }))
    }

    /// The next node, if it keeps type and shape.
    pub fn next(&self) -> TractResult<Option<Next<'a>>> {
        rule_if_some!(next = self.follower()?);
        let [found, expected] = [next.node, self.last()].map(|node| &node.outputs[0].fact);
        rule_if!(found.shape == expected.shape && found.datum_type == expected.datum_type);
        Ok(Some(next))
    }

    pub fn push(&mut self, node: &'a TypedNode) {
        self.nodes.push(node);
    }

    pub fn constant(&self, operand: Option<OutletId>) -> TractResult<Option<&'a Arc<Tensor>>> {
        rule_if_some!(operand = operand);
        Ok(self.model.outlet_fact(operand)?.konst.as_ref())
    }

    /// Takes over the function of two numbers `O`, if the other one is a constant: one for all elements, or one for each
    /// index along an axis, whose size is `count`.
    pub fn arithmetic<O: BinMiniOp>(
        &mut self,
        axis: usize,
        count: usize,
    ) -> TractResult<Option<Vec<f32>>> {
        rule_if_some!(next = self.next()?);
        rule_if!(next.is_binary::<O>());
        rule_if_some!(operand = self.constant(next.operand)?);
        rule_if!(operand.datum_type() == DatumType::F32 && operand.is_plain());
        let rank = self.last().outputs[0].fact.rank();
        let is_of_axis =
            operand.rank() == rank && operand.len() == count && operand.shape()[axis] == count;
        rule_if!(is_of_axis || operand.len() == 1);
        let numbers = operand.try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
        self.push(next.node);
        Ok(Some(if is_of_axis { numbers } else { vec![numbers[0]; count] }))
    }

    /// Takes over functions of one number.
    pub fn activation(&mut self) -> TractResult<Activation> {
        let mut activation = Activation::default();
        while let Some(next) = self.next()? {
            let constant = self.constant(next.operand)?;
            if next.operand.is_some() && constant.is_none() {
                break;
            }
            let both = activation.followed_by(&*next.node.op, constant.map(|it| &**it))?;
            let Some(both) = both else { break };
            activation = both;
            self.push(next.node);
        }
        Ok(activation)
    }

    /// An operator in place of the whole chain.
    pub fn replaced_by(
        &self,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<TypedModelPatch> {
        let mut patch = TypedModelPatch::default();
        let inputs = patch.taps(self.model, inputs)?;
        let output = patch.wire_node(&self.last().name, op, &inputs)?[0];
        self.replace(patch, output)
    }

    /// What a patch has wired, in place of the whole chain.
    pub fn replace(
        &self,
        mut patch: TypedModelPatch,
        output: OutletId,
    ) -> TractResult<TypedModelPatch> {
        patch.shunt_outside(self.model, self.last().id.into(), output)?;
        for node in &self.nodes {
            patch.obliterate(node.id)?;
        }
        Ok(patch)
    }
}
