//! Functions of elements.

use std::collections::BTreeSet;

use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::Conv;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;

use super::rule::{Phase, Rewrite, Rule, Session};
use crate::elementwise::{Binary, Elementwise, ElementwiseStep, Unary};

/// tract's functions of elements, with those before them that nobody else needs.
#[derive(Debug)]
pub(super) struct Functions;

impl Rule for Functions {
    fn name(&self) -> &'static str {
        "elementwise"
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
        /// There is a block for each input.
        const MOST: usize = 32;
        let Some(last) = function(model, node)? else { return Ok(Rewrite::NotMine) };
        let outputs = model.output_outlets()?;
        // Each comes after all that need it.
        let mut together = vec![];
        let mut next = vec![(node, last)];
        while let Some((taken, function)) = next.pop() {
            together.push((taken, function));
            let is_together =
                |inlet: &InletId| together.iter().any(|(node, _)| node.id == inlet.node);
            for input in taken.inputs.iter().copied().collect::<BTreeSet<_>>() {
                let before = model.node(input.node);
                if together.len() + next.len() < MOST
                    && !outputs.contains(&input)
                    && before.outputs.len() == 1
                    && before.outputs[0].fact.shape == node.outputs[0].fact.shape
                    && before.outputs[0].successors.iter().all(is_together)
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
        let value = |slot: usize, node: &TypedNode| {
            let place = values.iter().position(|value| *value == node.inputs[slot]);
            place.context("it is an input or a result")
        };
        let mut steps = vec![];
        for (node, function) in &together {
            steps.push(match function {
                Function::Binary(binary) => {
                    ElementwiseStep::Binary(*binary, [value(0, node)?, value(1, node)?])
                }
                Function::Unary(unary) => ElementwiseStep::Unary(unary.clone(), value(0, node)?),
            });
        }
        // tract computes one of its functions on all threads, too, and in place.
        if let [ElementwiseStep::Unary(Unary::Other(_), _)] = &steps[..] {
            return Ok(Rewrite::NotMine);
        }
        let mut patch = TypedModelPatch::default();
        let taps = patch.taps(model, &inputs)?;
        let op = Elementwise { inputs: inputs.len(), steps };
        let output = patch.wire_node(&node.name, op, &taps)?[0];
        patch.shunt_outside(model, node.id.into(), output)?;
        for (node, _) in &together {
            patch.obliterate(node.id)?;
        }
        Ok(patch.into())
    }
}

enum Function {
    Binary(Binary),
    Unary(Unary),
}

/// The function of elements of type F32 that a node is.
fn function(model: &TypedModel, node: &TypedNode) -> TractResult<Option<Function>> {
    let function = if let Some(op) = node.op_as::<Elementwise>() {
        match op.steps[..] {
            [ElementwiseStep::Binary(binary, [0, 1])] if op.inputs == 2 => {
                Some(Function::Binary(binary))
            }
            _ => None,
        }
    } else if let Some(op) = node.op_as::<TypedBinOp>() {
        rule_if!(op.1.is_none());
        Binary::of(&*op.0).map(Function::Binary)
    } else if let Some(op) = node.op_as::<ElementWiseOp>() {
        rule_if!(op.1.is_none() && op.0.output_type(DatumType::F32).is_none());
        Some(Function::Unary(Unary::of(op)?))
    } else {
        None
    };
    rule_if_some!(function = function);
    // tract's own products take over what follows them.
    let is_of_product = |input: &OutletId| {
        let before = model.node(input.node);
        (before.op_is::<EinSum>() || before.op_is::<Conv>())
            && before.outputs[input.slot].successors.len() == 1
    };
    rule_if!(!node.inputs.iter().any(is_of_product));
    let is_single = |fact: &TypedFact| fact.datum_type == DatumType::F32 && fact.is_plain();
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
