//! Operators that put elements in other places.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};

use super::found::Found;
use super::rule::{Rewrite, Session};
use crate::concat::Concatenation;
use crate::slice::SliceOfAxis;
use crate::transposition::Transposition;

/// tract's Concat and Slice, and moves of axes after which elements are in another order.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    let is_kept = |fact: &&TypedFact| {
        fact.is_plain() && fact.datum_type.is_copy() && !fact.datum_type.is_quantized()
    };
    rule_if!(model.node_input_facts(node.id)?.iter().all(is_kept));
    let op: Box<dyn TypedOp> = if let Some(op) = node.op_as::<TypedConcat>() {
        Box::new(Concatenation { axis: op.axis })
    } else if let Some(op) = node.op_as::<Slice>() {
        Box::new(SliceOfAxis(op.clone()))
    } else if let Some(AxisOp::Move(from, to)) = node.op_as::<AxisOp>() {
        let shape = &model.outlet_fact(node.inputs[0])?.shape;
        let mut perm: TVec<usize> = (0..shape.len()).collect();
        let axis = perm.remove(*from);
        perm.insert(*to, axis);
        // tract changes the shape alone.
        rule_if!(!perm.iter().filter(|axis| !shape[**axis].is_one()).is_sorted());
        Box::new(Transposition { perm })
    } else {
        return Ok(None);
    };
    Ok(Some(TypedModelPatch::replace_single_op(model, node, &node.inputs, op)?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WithKernels;

    /// What becomes of a Concat of two inputs, and a move of the axes of that.
    fn operators(
        dt: DatumType,
        shape: &[TDim],
        inputs: [Tensor; 2],
        axis: usize,
        of: AxisOp,
    ) -> TractResult<[bool; 2]> {
        let mut model = TypedModel::default();
        let data = ["a", "b"].map(|name| model.add_source(name, dt.fact(shape)));
        let [a, b] = data.map(|data| data.expect("it has a new name"));
        let both = model.wire_node("both", TypedConcat { axis }, &[a, b])?;
        let moved = model.wire_node("moved", of, &both)?;
        model.select_output_outlets(&moved)?;
        let inputs: TVec<TValue> = inputs.into_iter().map(TValue::from).collect();
        let expected = model.clone().into_runnable()?.run(inputs.clone())?;
        let model = model.with_kernels()?;
        for model in [model.clone(), model.clone().into_optimized()?] {
            assert_eq!(model.into_runnable()?.run(inputs.clone())?, expected);
        }
        let has = |name| model.nodes().iter().any(|node| node.op.name() == name);
        Ok([has("Concatenation"), has("Transposition")])
    }

    #[test]
    fn of_plain_types() -> TractResult<()> {
        let symbols = SymbolScope::default();
        let open = symbols.sym("N").to_dim();
        for (shape, of, expected) in [
            ([2.to_dim(), 3.to_dim(), 40.to_dim()], AxisOp::Move(2, 0), [true, true]),
            ([2.to_dim(), open, 40.to_dim()], AxisOp::Move(1, 0), [true, true]),
            // The shape alone changes.
            ([1.to_dim(), 3.to_dim(), 40.to_dim()], AxisOp::Move(0, 1), [true, false]),
        ] {
            let sizes: Vec<usize> = shape.iter().map(|it| it.to_usize().unwrap_or(3)).collect();
            let count: usize = sizes.iter().product();
            for dt in [bool::datum_type(), i64::datum_type(), f16::datum_type(), TDim::datum_type()]
            {
                let inputs = [0, 1].map(|seed| {
                    let numbers: Vec<i64> = (0..count).map(|it| (it + seed) as i64 % 2).collect();
                    let numbers = Tensor::from_shape(&sizes, &numbers).expect("it has this shape");
                    numbers.cast_to_dt(dt).expect("there is a cast").into_owned()
                });
                let expected = if dt == TDim::datum_type() { [false; 2] } else { expected };
                let found = operators(dt, &shape, inputs, 2, of.clone())?;
                assert_eq!(found, expected, "{dt:?} {shape:?} {of:?}");
            }
        }
        Ok(())
    }
}
