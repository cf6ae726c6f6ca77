//! What follows a node, and can be done by the operator that replaces it.

use std::ops::Range;

use tract_core::internal::*;
use tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::{Add, Div, Max, Min, Mul};
use tract_core::ops::nn::LeakyRelu;

use crate::elementwise::{Binary, Elementwise};
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

    /// The nodes of the chain.
    pub fn ids(&self) -> impl Iterator<Item = usize> + use<'_, 'a> {
        self.nodes.iter().map(|node| node.id)
    }

    pub fn last(&self) -> &'a TypedNode {
        self.nodes[self.nodes.len() - 1]
    }

    /// The node that alone needs the result so far, and the input that this is.
    pub fn successor(&self) -> TractResult<Option<(&'a TypedNode, usize)>> {
        let last = self.last();
        rule_if!(last.outputs.len() == 1);
        rule_if_let!([successor] = &*last.outputs[0].successors);
        rule_if!(!self.model.output_outlets()?.contains(&last.id.into()));
        let node = self.model.node(successor.node);
        Ok((node.outputs.len() == 1).then_some((node, successor.slot)))
    }

    /// The node of one or two inputs that alone needs the result so far.
    pub fn follower(&self) -> TractResult<Option<Next<'a>>> {
        rule_if_some!((node, slot) = self.successor()?);
        let operand = match &*node.inputs {
            [_] => None,
            [a, b] if a != b => Some(if slot == 0 { *b } else { *a }),
            _ => return Ok(None),
        };
        Ok(Some(Next { node, slot, operand }))
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
    /// index along some axes, whose sizes are known.
    pub fn arithmetic<O: BinMiniOp>(
        &mut self,
        axes: Range<usize>,
    ) -> TractResult<Option<Vec<f32>>> {
        rule_if_some!(next = self.next()?);
        rule_if!(next.is_binary::<O>());
        self.numbers(next, axes)
    }

    /// Takes over a function that multiplies numbers less than 0 by constants, which are as those of [`arithmetic`](Self::arithmetic).
    pub fn slopes(&mut self, axes: Range<usize>) -> TractResult<Option<Vec<f32>>> {
        rule_if_some!(next = self.next()?);
        if let Some(op) = next.node.op_as::<ElementWiseOp>().filter(|op| op.1.is_none()) {
            rule_if_some!(op = op.0.downcast_ref::<LeakyRelu>());
            let sizes =
                next.node.outputs[0].fact.shape[axes].iter().map(|size| size.to_usize().ok());
            rule_if_some!(count = sizes.product::<Option<usize>>());
            self.push(next.node);
            return Ok(Some(vec![op.alpha; count]));
        }
        rule_if_some!(op = next.node.op_as::<Elementwise>());
        rule_if!(op.is_binary(Binary::Prelu) && next.slot == 0);
        self.numbers(next, axes)
    }

    /// Takes over a node whose other operand is a constant.
    fn numbers(&mut self, next: Next<'a>, axes: Range<usize>) -> TractResult<Option<Vec<f32>>> {
        rule_if_some!(operand = self.constant(next.operand)?);
        rule_if!(operand.datum_type() == DatumType::F32 && operand.is_plain());
        let shape = &self.last().outputs[0].fact.shape;
        let sizes = shape[axes.clone()].iter().map(|size| size.to_usize().ok());
        rule_if_some!(sizes = sizes.collect::<Option<TVec<usize>>>());
        let count = sizes.iter().product();
        let is_of_axes = operand.rank() == shape.rank()
            && operand.len() == count
            && operand.shape()[axes] == *sizes;
        rule_if!(is_of_axes || operand.len() == 1);
        let numbers = operand.try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
        self.push(next.node);
        Ok(Some(if is_of_axes { numbers } else { vec![numbers[0]; count] }))
    }

    /// Takes over functions of one number.
    pub fn activation(&mut self) -> TractResult<Activation> {
        let mut activation = match self.hard_swish()? {
            Some(factor) => Activation::HardSwish { factor, addend: 0. },
            None => Activation::Identity,
        };
        while let Some(next) = self.next()? {
            let constant = self.constant(next.operand)?;
            let is_divisor = next.is_binary::<Div>() && next.slot == 1;
            if next.operand.is_some() && constant.is_none() || is_divisor {
                break;
            }
            let both = activation.followed_by(&*next.node.op, constant.map(|it| &**it))?;
            let Some(both) = both else { break };
            activation = both;
            self.push(next.node);
        }
        Ok(activation)
    }

    /// Takes over `x * (min(max(x + 3, 0), 6) * factor)`, and gives the factor: 1 if the second part is multiplied with none.
    fn hard_swish(&mut self) -> TractResult<Option<f32>> {
        let x = self.last();
        rule_if!(x.outputs.len() == 1 && !self.model.output_outlets()?.contains(&x.id.into()));
        rule_if_let!([one, other] = &*x.outputs[0].successors);
        let nodes = [one, other].map(|successor| self.model.node(successor.node));
        let is_sum =
            |node: &&TypedNode| node.op_as::<TypedBinOp>().is_some_and(|op| op.0.is::<Add>());
        rule_if_some!(first = nodes.into_iter().position(|node| is_sum(&node)));
        let (sum, last) = (nodes[first], nodes[1 - first]);
        rule_if!(sum.inputs.len() == 2 && sum.inputs[0] != sum.inputs[1]);
        let operand = sum.inputs.iter().copied().find(|input| *input != x.id.into());
        rule_if!(self.number(operand)? == Some(3.));
        // What the sum becomes, up to the product.
        let mut branch = Chain::new(self.model, sum);
        let (mut least, mut most, mut factor) = (f32::NEG_INFINITY, f32::INFINITY, 1.);
        loop {
            rule_if_some!(next = branch.next()?);
            if next.node.id == last.id {
                rule_if!(next.is_binary::<Mul>());
                break;
            }
            rule_if_some!(number = self.number(next.operand)?);
            match () {
                () if factor == 1. && next.is_binary::<Max>() => least = least.max(number),
                () if factor == 1. && next.is_binary::<Min>() => most = most.min(number),
                () if next.is_binary::<Mul>() => factor *= number,
                () if next.is_binary::<Div>() && next.slot == 0 => factor /= number,
                () => return Ok(None),
            }
            branch.push(next.node);
        }
        rule_if!((least, most) == (0., 6.) && factor.is_finite());
        branch.push(last);
        self.nodes.extend(branch.nodes);
        Ok(Some(factor))
    }

    /// The number that an operand is.
    fn number(&self, operand: Option<OutletId>) -> TractResult<Option<f32>> {
        rule_if_some!(constant = self.constant(operand)?);
        rule_if!(constant.len() == 1 && constant.datum_type() == DatumType::F32);
        Ok(Some(constant.cast_to_scalar()?))
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

    /// Operators of one input in place of the whole chain: one, what its data meets before, and what follows.
    pub fn replaced_between(
        &self,
        data: OutletId,
        before: Option<AxisOp>,
        op: impl Into<Box<dyn TypedOp>>,
        after: Vec<Box<dyn TypedOp>>,
    ) -> TractResult<TypedModelPatch> {
        self.replaced_by_parts(data, before, vec![], [op.into()].into_iter().chain(after).collect())
    }

    /// As [`replaced_between`](Self::replaced_between), but operators of the same data are in front, if there are any: those that
    /// follow take all of their outputs first.
    pub fn replaced_by_parts(
        &self,
        data: OutletId,
        before: Option<AxisOp>,
        parts: Vec<Box<dyn TypedOp>>,
        ops: Vec<Box<dyn TypedOp>>,
    ) -> TractResult<TypedModelPatch> {
        let name = &self.last().name;
        let mut patch = TypedModelPatch::default();
        let mut outlet = patch.tap_model(self.model, data)?;
        if let Some(before) = before {
            outlet = patch.wire_node(format!("{name}.before"), before, &[outlet])?[0];
        }
        let mut inputs = tvec![outlet];
        if !parts.is_empty() {
            inputs.clear();
            for (number, op) in parts.into_iter().enumerate() {
                inputs.push(patch.wire_node(format!("{name}.part_{number}"), op, &[outlet])?[0]);
            }
        }
        // The last node has the name of what it replaces.
        let last = ops.len() - 1;
        for (number, op) in ops.into_iter().enumerate() {
            let name = match number {
                _ if number == last => name.clone(),
                0 => format!("{name}.packed"),
                _ => format!("{name}.after_{number}"),
            };
            inputs = patch.wire_node(name, op, &inputs)?;
        }
        self.replace(patch, inputs[0])
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
