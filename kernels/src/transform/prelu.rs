//! Numbers below 0 that are multiplied by others.

use tract_core::internal::*;
use tract_core::ops::logic::{CompGT, CompLT, Iff};
use tract_core::ops::math::Mul;

use super::found::{Found, is_binary, uniform};
use super::rule::{Rewrite, Session};
use crate::elementwise::{Binary, Elementwise};

/// `x * slope` where `x` is less than 0, and `x` elsewhere: PRelu, for which tract has no operator.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if_some!(operands = operands(model, node)?);
    let op = Elementwise::of_binary(Binary::Prelu);
    Ok(Some(TypedModelPatch::replace_single_op(model, node, &operands, op)?.into()))
}

/// What is multiplied where it is less than 0, and by what.
fn operands(model: &TypedModel, node: &TypedNode) -> Found<[OutletId; 2]> {
    rule_if!(node.op_is::<Iff>());
    rule_if_let!(&[condition, product, x] = &*node.inputs);
    let fact = model.outlet_fact(x)?;
    rule_if!(fact.datum_type == DatumType::F32 && fact.shape == node.outputs[0].fact.shape);
    let [condition, product] = [condition, product].map(|outlet| model.node(outlet.node));
    rule_if_let!(&[one, other] = &*condition.inputs);
    let (compared, zero) = match () {
        () if is_binary::<CompLT>(condition) => (one, other),
        () if is_binary::<CompGT>(condition) => (other, one),
        () => return Ok(None),
    };
    rule_if!(compared == x && uniform(model, zero)? == Some(0.));
    rule_if!(is_binary::<Mul>(product));
    rule_if_let!(&[a, b] = &*product.inputs);
    Ok(match () {
        () if a == x => Some([x, b]),
        () if b == x => Some([x, a]),
        () => None,
    })
}

#[cfg(test)]
mod tests {
    use tract_core::ops::binary::TypedBinOp;
    use tract_core::ops::logic::{comp_gt, comp_lt, comp_lte};
    use tract_core::ops::math::{add, mul};

    use super::*;
    use crate::product::tests::with_all_vectors;
    use crate::{KernelsTransform, Outcome, WithKernels};

    /// What makes it another function.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum SlopeKind {
        Prelu,
        /// The slope is the first factor, and an input; 0 is the first number that is compared.
        Swapped,
        OfEqual,
        OfOne,
        OfSum,
        OfOthers,
    }

    fn model(kind: SlopeKind, shape: &[usize], slopes: &[usize]) -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let x = model.add_source("x", f32::fact(shape))?;
        let ones = vec![1; shape.len()];
        let limit = if kind == SlopeKind::OfOne { 1f32 } else { 0. };
        let limit = model.add_const("limit", Tensor::from_shape(&ones, &[limit])?)?;
        let numbers: Vec<f32> =
            (0..slopes.iter().product()).map(|it| it as f32 / 4. - 0.5).collect();
        let slope = match kind {
            SlopeKind::Swapped => model.add_source("slope", f32::fact(slopes))?,
            _ => model.add_const("slope", Tensor::from_shape(slopes, &numbers)?)?,
        };
        let compare = if kind == SlopeKind::OfEqual { comp_lte() } else { comp_lt() };
        let (compare, compared) = match kind {
            // As tract reads it from ONNX.
            SlopeKind::Swapped => (comp_gt(), [limit, x]),
            _ => (compare, [x, limit]),
        };
        let condition = model.wire_node("condition", TypedBinOp(compare, None), &compared)?[0];
        let product = match kind {
            SlopeKind::OfSum => model.wire_node("sum", add(), &[x, slope])?[0],
            SlopeKind::Swapped => model.wire_node("product", mul(), &[slope, x])?[0],
            _ => model.wire_node("product", mul(), &[x, slope])?[0],
        };
        let other = match kind {
            SlopeKind::OfOthers => model.wire_node("others", mul(), &[x, x])?[0],
            _ => x,
        };
        let output = model.wire_node("output", Iff, &[condition, product, other])?;
        model.select_output_outlets(&output)?;
        Ok(model)
    }

    #[test]
    fn what_is_below_zero() -> TractResult<()> {
        for (kind, is_ours) in [
            (SlopeKind::Prelu, true),
            (SlopeKind::Swapped, true),
            (SlopeKind::OfEqual, false),
            (SlopeKind::OfOne, false),
            (SlopeKind::OfSum, false),
            (SlopeKind::OfOthers, false),
        ] {
            for (shape, slopes) in [
                (&[2, 5, 3, 7][..], &[1, 5, 1, 1][..]),
                (&[2, 5, 300], &[1, 1, 300]),
                (&[0, 5, 300], &[1, 5, 1]),
                (&[3, 7], &[3, 7]),
                (&[300, 3], &[1, 1]),
            ] {
                let model = model(kind, shape, slopes)?;
                let count = shape.iter().product::<usize>();
                let mut numbers: Vec<f32> =
                    (0..count).map(|it| (it * 37 % 101) as f32 / 7. - 5.).collect();
                let special = [f32::NAN, -0., 0., f32::INFINITY, f32::NEG_INFINITY];
                numbers.iter_mut().zip(special).for_each(|(number, it)| *number = it);
                let mut inputs = tvec![Tensor::from_shape(shape, &numbers)?.into_tvalue()];
                if kind == SlopeKind::Swapped {
                    let slopes = Tensor::zero::<f32>(slopes)?;
                    inputs.push(slopes.into_tvalue());
                }
                let expected = model.clone().into_runnable()?.run(inputs.clone())?;
                let mut transformed = model.clone();
                let decisions =
                    KernelsTransform::default().transform_with_decisions(&mut transformed)?;
                let is_it = |outcome: &Outcome| *outcome == Outcome::Replaced("Elementwise".into());
                let taken = decisions.iter().filter(|it| it.rule == "prelu" && is_it(&it.outcome));
                assert_eq!(taken.count(), usize::from(is_ours), "{kind:?}");
                let has_iff = transformed.nodes().iter().any(|node| node.op_is::<Iff>());
                assert!(!(is_ours && has_iff), "{kind:?}");
                let found = model.with_kernels()?.into_optimized()?.into_runnable()?;
                with_all_vectors(|| {
                    let found = found.run(inputs.clone()).unwrap();
                    found[0].close_enough(&expected[0], Approximation::Exact).unwrap();
                });
            }
        }
        Ok(())
    }
}
