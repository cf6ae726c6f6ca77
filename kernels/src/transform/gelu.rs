//! GELU by tanh, of the functions that exporters to ONNX write in its place.

use tract_core::internal::*;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::math::{Add, Mul, PowConst, Square, Tanh};

use super::found::{Found, FusedNodes, is_binary, is_single, number, replace_all};
use super::rule::{Rewrite, Session};
use crate::product::gelu::gelu_tanh;

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`, in any order of its factors, also with `x * (1 + 0.044715 * x^2)`. Products
/// apply it, as one function.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if!(is_binary::<Mul>(node) && is_single(&node.outputs[0].fact));
    let mut fused = FusedNodes::new(model, node);
    rule_if_some!(x = data(&mut fused, node)?);
    let fact = model.outlet_fact(x)?;
    rule_if!(is_single(fact) && fact.shape == node.outputs[0].fact.shape);
    let inner = fused.nodes.iter().copied().filter(|it| *it != node.id);
    Ok(Some(replace_all(model, inner, node, gelu_tanh(), &[x])?.into()))
}

/// What it is the function of.
fn data(fused: &mut FusedNodes, node: &TypedNode) -> Found<OutletId> {
    let mut product = Product { number: 1., factors: tvec![], data: None };
    node.inputs.iter().try_for_each(|factor| product.multiply(fused, *factor))?;
    rule_if!(product.is(0.5));
    rule_if_let!([a, b] = product.factors[..]);
    for (x, other) in [(a, b), (b, a)] {
        let is_it = fused.attempt(|fused| {
            rule_if_some!(tanh = one_and(fused, other)?);
            rule_if_some!(angle = tanh_of(fused, tanh)?);
            Ok(is_angle(fused, angle, x)?.then_some(()))
        })?;
        if is_it.is_some() {
            return Ok(Some(x));
        }
    }
    Ok(None)
}

/// Whether it is `sqrt(2 / pi) * (x + 0.044715 * x^3)`.
fn is_angle(fused: &mut FusedNodes, angle: OutletId, x: OutletId) -> TractResult<bool> {
    let product = Product::of(fused, angle, x)?;
    if !product.is((2. / std::f32::consts::PI).sqrt()) {
        return Ok(false);
    }
    match product.factors[..] {
        // `x + 0.044715 * x^3`
        [sum] => {
            let Some([a, b]) = fused.operands::<Add>(sum)? else { return Ok(false) };
            let other = if a == x { b } else { a };
            let cube = Product::of(fused, other, x)?;
            Ok((a == x || b == x) && cube.is(0.044_715) && cube.factors[..] == [x; 3])
        }
        // `x * (1 + 0.044715 * x^2)`
        [a, b] if a == x || b == x => {
            let Some(other) = one_and(fused, if a == x { b } else { a })? else {
                return Ok(false);
            };
            let square = Product::of(fused, other, x)?;
            Ok(square.is(0.044_715) && square.factors[..] == [x; 2])
        }
        _ => Ok(false),
    }
}

/// What 1 is added to.
fn one_and(fused: &mut FusedNodes, sum: OutletId) -> Found<OutletId> {
    rule_if_some!([a, b] = fused.operands::<Add>(sum)?);
    Ok(match [number(fused.model, a)?, number(fused.model, b)?] {
        [Some(1.), _] => Some(b),
        [_, Some(1.)] => Some(a),
        _ => None,
    })
}

/// What the tangent is taken of.
fn tanh_of(fused: &mut FusedNodes, outlet: OutletId) -> Found<OutletId> {
    rule_if_some!(node = fused.inner(outlet)?);
    rule_if!(node.op_as::<ElementWiseOp>().is_some_and(|op| op.0.is::<Tanh>()));
    Ok(Some(node.inputs[0]))
}

/// What is multiplied by itself, and how many times it is a factor.
fn power(fused: &mut FusedNodes, outlet: OutletId) -> Found<(OutletId, usize)> {
    rule_if_some!(node = fused.inner(outlet)?);
    rule_if_some!(op = node.op_as::<ElementWiseOp>());
    let times = match op.0.downcast_ref::<PowConst>() {
        Some(op) if op.exponent == 2. => 2,
        Some(op) if op.exponent == 3. => 3,
        _ if op.0.is::<Square>() => 2,
        _ => return Ok(None),
    };
    Ok(Some((node.inputs[0], times)))
}

/// A product of a number and others.
struct Product {
    number: f32,
    factors: TVec<OutletId>,
    /// What is a factor even if it is a product.
    data: Option<OutletId>,
}

impl Product {
    /// The product that an outlet is: of itself, if it is none that nobody else needs.
    fn of(fused: &mut FusedNodes, outlet: OutletId, data: OutletId) -> TractResult<Product> {
        let mut product = Product { number: 1., factors: tvec![], data: Some(data) };
        product.multiply(fused, outlet)?;
        Ok(product)
    }

    fn multiply(&mut self, fused: &mut FusedNodes, outlet: OutletId) -> TractResult<()> {
        if let Some(number) = number(fused.model, outlet)? {
            self.number *= number;
            return Ok(());
        }
        if self.data != Some(outlet) {
            if let Some(factors) = fused.attempt(|fused| fused.factors(outlet))? {
                return factors.into_iter().try_for_each(|factor| self.multiply(fused, factor));
            }
            if let Some((base, times)) = fused.attempt(|fused| power(fused, outlet))? {
                self.factors.extend(std::iter::repeat_n(base, times));
                return Ok(());
            }
        }
        self.factors.push(outlet);
        Ok(())
    }

    /// Whether the number is this one. Exporters write it with more or fewer digits.
    fn is(&self, number: f32) -> bool {
        (self.number - number).abs() <= 1e-6 * number
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::math::{add, mul, pow_const, square, tanh};

    use super::super::tests::names;
    use super::*;
    use crate::{KernelsTransform, WithKernels};

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Form {
        /// `(0.5 * x) * (1 + tanh(c * (x + 0.044715 * x^3)))`, as of PyTorch.
        Cube,
        /// `0.5 * (x * (tanh(x * c * (1 + 0.044715 * x^2)) + 1))`.
        Square,
        /// The cube is a product, and so is `x`.
        Products,
        // What makes it another function.
        OtherNumber,
        OtherPower,
        OtherData,
        /// The tangent is an output, too.
        Used,
    }

    fn model(form: Form) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let data = model.add_source("data", f32::fact([2, 3, 50]))?;
        let mut wire = |op: Box<dyn TypedOp>, inputs: &[OutletId]| {
            let name = format!("node_{}", model.nodes().len());
            Ok::<_, TractError>(model.wire_node(name, op, inputs)?[0])
        };
        let constant = |number: f32| {
            let op = tract_core::ops::konst::Const::new(tensor3(&[[[number]]]).into_arc_tensor());
            Ok::<Box<dyn TypedOp>, TractError>(Box::new(op?))
        };
        let half = wire(constant(if form == Form::OtherNumber { 0.4 } else { 0.5 })?, &[])?;
        let one = wire(constant(1.)?, &[])?;
        let c = wire(constant(0.797_884_6)?, &[])?;
        let small = wire(constant(0.044_715)?, &[])?;
        let two = wire(constant(2.)?, &[])?;
        let mut x = data;
        if form == Form::Products {
            x = wire(Box::new(mul()), &[data, two])?;
        }
        let angle = if form == Form::Square {
            let power = wire(Box::new(square()), &[x])?;
            let part = wire(Box::new(mul()), &[small, power])?;
            let part = wire(Box::new(add()), &[part, one])?;
            let scaled = wire(Box::new(mul()), &[x, c])?;
            wire(Box::new(mul()), &[scaled, part])?
        } else {
            let power = match form {
                Form::Products => {
                    let power = wire(Box::new(mul()), &[x, x])?;
                    wire(Box::new(mul()), &[x, power])?
                }
                Form::OtherPower => wire(Box::new(pow_const(4.)), &[x])?,
                Form::OtherData => {
                    let other = wire(Box::new(add()), &[x, one])?;
                    wire(Box::new(pow_const(3.)), &[other])?
                }
                _ => wire(Box::new(pow_const(3.)), &[x])?,
            };
            let part = wire(Box::new(mul()), &[power, small])?;
            let part = wire(Box::new(add()), &[x, part])?;
            wire(Box::new(mul()), &[part, c])?
        };
        let tangent = wire(Box::new(tanh()), &[angle])?;
        let output = if form == Form::Square {
            let sum = wire(Box::new(add()), &[tangent, one])?;
            let product = wire(Box::new(mul()), &[x, sum])?;
            wire(Box::new(mul()), &[half, product])?
        } else {
            let sum = wire(Box::new(add()), &[one, tangent])?;
            let halved = wire(Box::new(mul()), &[x, half])?;
            wire(Box::new(mul()), &[halved, sum])?
        };
        let outputs = if form == Form::Used { vec![output, tangent] } else { vec![output] };
        model.select_output_outlets(&outputs)?;
        Ok(model)
    }

    #[test]
    fn forms_of_exporters() -> TractResult<()> {
        let numbers: Vec<f32> = (0..300).map(|it| it as f32 / 20. - 7.5).collect();
        let data = Tensor::from_shape(&[2, 3, 50], &numbers)?.into_tvalue();
        for (form, is_ours) in [
            (Form::Cube, true),
            (Form::Square, true),
            (Form::Products, true),
            (Form::OtherNumber, false),
            (Form::OtherPower, false),
            (Form::OtherData, false),
            (Form::Used, false),
        ] {
            let model = model(form)?;
            let mut ours = model.clone();
            let decisions = KernelsTransform::default().transform_with_decisions(&mut ours)?;
            let found = decisions.iter().any(|it| it.rule == "gelu");
            assert_eq!(found, is_ours, "{form:?}: {:?}", names(&ours));
            let expected = model.into_optimized()?.into_runnable()?.run(tvec!(data.clone()))?;
            let found = ours.into_runnable_with_kernels()?.run(tvec!(data.clone()))?;
            for (found, expected) in found.iter().zip(&expected) {
                // tract rounds the tangent to -1 a little early.
                found.close_enough(expected, Approximation::Approximate)?;
            }
        }
        Ok(())
    }
}
