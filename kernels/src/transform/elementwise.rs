//! Functions of elements.

use std::collections::BTreeSet;

use tract_core::internal::*;
use tract_core::ops::cnn::Conv;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;

use super::found::{Found, binary, is_single, replace_all, uses};
use super::rule::{Rewrite, Session};
use crate::elementwise::{Binary, Elementwise, ElementwiseStep, Unary};

/// tract's functions of elements, with those before them that nobody else needs.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    /// There is a block for each input.
    const MOST: usize = 32;
    rule_if_some!(last = function(model, node)?);
    // Each comes after all that need it.
    let mut together = vec![];
    let mut next = vec![(node, last)];
    while let Some((taken, function)) = next.pop() {
        together.push((taken, function));
        let is_together = |inlet: &InletId| together.iter().any(|(node, _)| node.id == inlet.node);
        for input in taken.inputs.iter().copied().collect::<BTreeSet<_>>() {
            let before = model.node(input.node);
            if together.len() + next.len() < MOST
                && let Some(uses) = uses(model, before)?
                && before.outputs[0].fact.shape == node.outputs[0].fact.shape
                && uses.iter().all(is_together)
                && let Some(function) = self::function(model, before)?
            {
                next.push((before, function));
            }
        }
    }
    together.reverse();
    let is_inner = |input: &OutletId| together.iter().any(|(node, _)| node.id == input.node);
    let inputs: BTreeSet<OutletId> = together
        .iter()
        .flat_map(|(node, _)| node.inputs.iter().copied())
        .filter(|input| !is_inner(input))
        .collect();
    let inputs: TVec<OutletId> = inputs.into_iter().collect();
    let results = together.iter().map(|(node, _)| OutletId::from(node.id));
    let values: Vec<OutletId> = inputs.iter().copied().chain(results).collect();
    let value = |node: &TypedNode, slot: usize| {
        let place = values.iter().position(|value| *value == node.inputs[slot]);
        place.context("it is an input or a result")
    };
    let mut steps = vec![];
    for (node, function) in &together {
        steps.push(match function {
            ElementwiseStep::Binary(binary, [a, b]) => {
                ElementwiseStep::Binary(*binary, [value(node, *a)?, value(node, *b)?])
            }
            ElementwiseStep::Unary(unary, a) => {
                ElementwiseStep::Unary(unary.clone(), value(node, *a)?)
            }
        });
    }
    // tract computes one of its functions on all threads, too, and in place.
    if let [ElementwiseStep::Unary(Unary::Other(_), _)] = &steps[..] {
        return Ok(None);
    }
    let op = Elementwise { inputs: inputs.len(), steps, output: DatumType::F32 };
    let nodes = together.iter().map(|(node, _)| node.id);
    Ok(Some(replace_all(model, nodes, node, op, &inputs)?.into()))
}

/// The function of elements of type F32 that a node is. Its values are the inputs of the node.
fn function(model: &TypedModel, node: &TypedNode) -> Found<ElementwiseStep> {
    let function = if let Some(op) = node.op_as::<Elementwise>() {
        rule_if_let!([step @ ElementwiseStep::Binary(_, [0, 1])] = &op.steps[..]);
        rule_if!(op.inputs == 2);
        step.clone()
    } else if let Some(op) = binary(node) {
        rule_if_some!(binary = Binary::of(op));
        ElementwiseStep::Binary(binary, [0, 1])
    } else if let Some(op) = node.op_as::<ElementWiseOp>() {
        rule_if!(op.1.is_none() && op.0.output_type(DatumType::F32).is_none());
        ElementwiseStep::Unary(Unary::of(op)?, 0)
    } else {
        return Ok(None);
    };
    // tract's own products take over what follows them.
    let is_of_product = |input: &OutletId| {
        let before = model.node(input.node);
        (before.op_is::<EinSum>() || before.op_is::<Conv>())
            && before.outputs[input.slot].successors.len() == 1
    };
    rule_if!(!node.inputs.iter().any(is_of_product));
    let inputs = model.node_input_facts(node.id)?;
    Ok((inputs.into_iter().all(is_single) && is_single(&node.outputs[0].fact)).then_some(function))
}

#[cfg(test)]
mod tests {
    use tract_core::ops::math;

    use super::*;
    use crate::WithKernels;

    #[test]
    fn what_nobody_else_needs_is_one_operator() -> TractResult<()> {
        let mut model = TypedModel::default();
        let data = model.add_source("data", f32::fact([2, 3, 300]))?;
        let scale = model.add_source("scale", f32::fact([1, 3, 1]))?;
        let mut wire = |name: &str, op: &dyn Fn() -> Box<dyn TypedOp>, inputs: &[OutletId]| {
            Ok::<_, TractError>(model.wire_node(name, op(), inputs)?[0])
        };
        // Of another shape than what follows.
        let small = wire("small", &|| Box::new(math::exp()), &[scale])?;
        let scaled = wire("scaled", &|| Box::new(math::mul()), &[data, small])?;
        // Needed twice, but nowhere else.
        let power = wire("power", &|| Box::new(math::tanh()), &[scaled])?;
        let sum = wire("sum", &|| Box::new(math::add()), &[power, scaled])?;
        // An output, and needed after it.
        let shared = wire("shared", &|| Box::new(math::square()), &[sum])?;
        let last = wire("last", &|| Box::new(math::sub()), &[shared, data])?;
        let last = wire("again", &|| Box::new(math::max()), &[last, shared])?;
        model.select_output_outlets(&[last, shared])?;
        let numbers = |count: usize| (0..count).map(|it| (it * 37 % 101) as f32 / 50. - 1.);
        let input = |shape: &[usize]| {
            let numbers: Vec<f32> = numbers(shape.iter().product()).collect();
            Ok::<_, TractError>(Tensor::from_shape(shape, &numbers)?.into_tvalue())
        };
        let inputs = tvec![input(&[2, 3, 300])?, input(&[1, 3, 1])?];
        let expected = model.clone().into_runnable()?.run(inputs.clone())?;
        let model = model.with_kernels()?;
        let steps = |node: &TypedNode| node.op_as::<Elementwise>().map(|op| op.steps.len());
        let mut found: Vec<_> = model.nodes().iter().filter_map(steps).collect();
        found.sort();
        assert_eq!(found, [2, 4]);
        for model in [model.clone(), model.into_optimized()?] {
            for (found, expected) in
                model.into_runnable()?.run(inputs.clone())?.iter().zip(&expected)
            {
                found.close_enough(expected, Approximation::Exact)?;
            }
        }
        Ok(())
    }
}
