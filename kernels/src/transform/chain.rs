//! What follows a node, and can be done by the operator that replaces it.

use std::ops::Range;

use tract_core::internal::*;
use tract_core::ops::binary::BinMiniOp;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::{Add, Div, Max, Min, Mul};
use tract_core::ops::nn::LeakyRelu;

use super::found::{Found, constant, is_binary, is_single, number, only_use, sizes, uses};
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
    /// Whether the node divides the chain by the operand.
    pub fn is_divided(&self) -> bool {
        is_binary::<Div>(self.node) && self.slot == 0
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
    pub fn user(&self) -> Found<(&'a TypedNode, usize)> {
        let next = only_use(self.model, self.last())?;
        Ok(next.filter(|(node, _)| node.outputs.len() == 1))
    }

    /// The node of one or two inputs that alone needs the result so far.
    pub fn next(&self) -> Found<Next<'a>> {
        rule_if_some!((node, slot) = self.user()?);
        let operand = match &*node.inputs {
            [_] => None,
            [a, b] if a != b => Some(if slot == 0 { *b } else { *a }),
            _ => return Ok(None),
        };
        Ok(Some(Next { node, slot, operand }))
    }

    /// The next node, if it keeps type and shape.
    pub fn next_of_same_fact(&self) -> Found<Next<'a>> {
        rule_if_some!(next = self.next()?);
        let [found, expected] = [next.node, self.last()].map(|node| &node.outputs[0].fact);
        rule_if!(found.shape == expected.shape && found.datum_type == expected.datum_type);
        Ok(Some(next))
    }

    pub fn push(&mut self, node: &'a TypedNode) {
        self.nodes.push(node);
    }

    /// The constant that an operand is.
    pub fn constant(&self, operand: Option<OutletId>) -> Found<&'a Arc<Tensor>> {
        rule_if_some!(operand = operand);
        constant(self.model, operand)
    }

    /// The number that an operand is, if it is a constant of one.
    pub fn number(&self, operand: Option<OutletId>) -> Found<f32> {
        rule_if_some!(operand = operand);
        number(self.model, operand)
    }

    /// Takes over the function of two numbers `O`, if the other one is a constant: one for all elements, or one for each
    /// index along some axes, whose sizes are known.
    pub fn arithmetic<O: BinMiniOp>(&mut self, axes: Range<usize>) -> Found<Vec<f32>> {
        rule_if_some!(next = self.next_of_same_fact()?);
        rule_if!(is_binary::<O>(next.node));
        self.numbers(next, axes)
    }

    /// Takes over all numbers that are added, as those of [`arithmetic`](Self::arithmetic), and adds them to a bias.
    pub fn take_added(&mut self, axes: Range<usize>, bias: &mut [f32]) -> TractResult<()> {
        while let Some(numbers) = self.arithmetic::<Add>(axes.clone())? {
            bias.iter_mut().zip(numbers).for_each(|(bias, number)| *bias += number);
        }
        Ok(())
    }

    /// Takes over a function that multiplies numbers less than 0 by constants, which are as those of [`arithmetic`](Self::arithmetic).
    pub fn slopes(&mut self, axes: Range<usize>) -> Found<Vec<f32>> {
        rule_if_some!(next = self.next_of_same_fact()?);
        if let Some(op) = next.node.op_as::<ElementWiseOp>().filter(|op| op.1.is_none()) {
            rule_if_some!(op = op.0.downcast_ref::<LeakyRelu>());
            rule_if_some!(sizes = sizes(&next.node.outputs[0].fact.shape[axes]));
            self.push(next.node);
            return Ok(Some(vec![op.alpha; sizes.iter().product()]));
        }
        rule_if_some!(op = next.node.op_as::<Elementwise>());
        rule_if!(op.is_binary(Binary::Prelu) && next.slot == 0);
        self.numbers(next, axes)
    }

    /// Takes over a node whose other operand is a constant.
    fn numbers(&mut self, next: Next<'a>, axes: Range<usize>) -> Found<Vec<f32>> {
        rule_if_some!(operand = self.constant(next.operand)?);
        rule_if!(operand.datum_type() == DatumType::F32 && operand.is_plain());
        let shape = &self.last().outputs[0].fact.shape;
        rule_if_some!(sizes = sizes(&shape[axes.clone()]));
        let count = sizes.iter().product();
        let is_of_axes = operand.rank() == shape.rank()
            && operand.len() == count
            && operand.shape()[axes] == *sizes;
        rule_if!(is_of_axes || operand.len() == 1);
        let numbers = operand.try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
        self.push(next.node);
        Ok(Some(if is_of_axes { numbers } else { vec![numbers[0]; count] }))
    }

    /// Takes over the addition of another value of this shape that is no constant: a residual.
    pub fn residual(&mut self) -> Found<OutletId> {
        rule_if_some!(next = self.next_of_same_fact()?);
        rule_if!(is_binary::<Add>(next.node));
        rule_if_some!(operand = next.operand);
        let fact = self.model.outlet_fact(operand)?;
        let shape = &self.last().outputs[0].fact.shape;
        rule_if!(fact.konst.is_none() && is_single(fact) && fact.shape == *shape);
        self.push(next.node);
        Ok(Some(operand))
    }

    /// Takes over functions of one number.
    pub fn activation(&mut self) -> TractResult<Activation> {
        let mut activation = match self.hard_swish()? {
            Some(factor) => Activation::HardSwish { factor, addend: 0. },
            None => Activation::Identity,
        };
        while let Some(next) = self.next_of_same_fact()? {
            let constant = self.constant(next.operand)?;
            let is_divisor = is_binary::<Div>(next.node) && next.slot == 1;
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
    fn hard_swish(&mut self) -> Found<f32> {
        let x = self.last();
        rule_if_let!(Some([one, other]) = uses(self.model, x)?);
        let nodes = [one, other].map(|successor| self.model.node(successor.node));
        rule_if_some!(first = nodes.into_iter().position(is_binary::<Add>));
        let (sum, last) = (nodes[first], nodes[1 - first]);
        rule_if!(sum.inputs.len() == 2 && sum.inputs[0] != sum.inputs[1]);
        let operand = sum.inputs.iter().copied().find(|input| *input != x.id.into());
        rule_if!(self.number(operand)? == Some(3.));
        // What the sum becomes, up to the product.
        let mut branch = Chain::new(self.model, sum);
        let (mut least, mut most, mut factor) = (f32::NEG_INFINITY, f32::INFINITY, 1.);
        loop {
            rule_if_some!(next = branch.next_of_same_fact()?);
            if next.node.id == last.id {
                rule_if!(is_binary::<Mul>(next.node));
                break;
            }
            rule_if_some!(number = self.number(next.operand)?);
            match () {
                () if factor == 1. && is_binary::<Max>(next.node) => least = least.max(number),
                () if factor == 1. && is_binary::<Min>(next.node) => most = most.min(number),
                () if is_binary::<Mul>(next.node) => factor *= number,
                () if next.is_divided() => factor /= number,
                () => return Ok(None),
            }
            branch.push(next.node);
        }
        rule_if!((least, most) == (0., 6.) && factor.is_finite());
        branch.push(last);
        self.nodes.extend(branch.nodes);
        Ok(Some(factor))
    }

    /// Operators of one input, one after the other, in place of the whole chain, and what its data meets before. If there are parts,
    /// these are in front, and the first operator takes all of their outputs.
    pub fn replaced_by_parts(
        &self,
        data: &[OutletId],
        before: Option<AxisOp>,
        parts: Vec<Box<dyn TypedOp>>,
        ops: Vec<Box<dyn TypedOp>>,
    ) -> TractResult<TypedModelPatch> {
        let name = &self.last().name;
        let mut patch = TypedModelPatch::default();
        let mut inputs = tvec![];
        for (slot, outlet) in data.iter().enumerate() {
            let mut outlet = patch.tap_model(self.model, *outlet)?;
            if let Some(before) = &before {
                outlet =
                    patch.wire_node(format!("{name}.before_{slot}"), before.clone(), &[outlet])?[0];
            }
            inputs.push(outlet);
        }
        if !parts.is_empty() {
            let mut outputs = tvec![];
            for (number, op) in parts.into_iter().enumerate() {
                outputs.push(patch.wire_node(format!("{name}.part_{number}"), op, &inputs)?[0]);
            }
            inputs = outputs;
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
