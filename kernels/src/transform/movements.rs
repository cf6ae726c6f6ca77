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
    let mut inputs = node.inputs.clone();
    let op: Box<dyn TypedOp> = if let Some(op) = node.op_as::<TypedConcat>() {
        if let Some((begin, count)) = begun(model, node, op.axis) {
            inputs.splice(..count, [begin]);
        }
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
    Ok(Some(TypedModelPatch::replace_single_op(model, node, &inputs, op)?.into()))
}

/// What another Concat has made of the first inputs of this one, and how many these are: most of all that still have these inputs. So
/// DenseNet, whose layers have all outputs before them as their input, copies these at once.
fn begun(model: &TypedModel, node: &TypedNode, axis: usize) -> Option<(OutletId, usize)> {
    let [first, .., _] = node.inputs[..] else { return None };
    let others = model.outlet_successors(first).iter().map(|it| &model.nodes()[it.node]);
    let begin = |other: &&TypedNode| {
        let count = other.inputs.len();
        count > 1
            && count < node.inputs.len()
            && node.inputs.starts_with(&other.inputs)
            && axis_of_concat(other) == Some(axis)
    };
    let longest = others.filter(begin).max_by_key(|other| other.inputs.len())?;
    Some((longest.id.into(), longest.inputs.len()))
}

/// The axis of a Concat, which may have been replaced.
fn axis_of_concat(node: &TypedNode) -> Option<usize> {
    let of_tract = node.op_as::<TypedConcat>().map(|op| op.axis);
    of_tract.or_else(|| node.op_as::<Concatenation>().map(|op| op.axis))
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
    fn first_inputs_are_those_of_another() -> TractResult<()> {
        for reversed in [false, true] {
            let mut model = TypedModel::default();
            let mut data = vec![];
            for (number, columns) in [1, 2, 3, 4, 1].into_iter().enumerate() {
                data.push(model.add_source(format!("{number}"), f32::fact([3, columns]))?);
            }
            let [a, b, c, d, like_a] = data[..] else { unreachable!("there are five") };
            let mut outputs = vec![];
            for (axis, inputs) in [
                (1, vec![a, b]),
                (1, vec![a, b, c]),
                (1, vec![a, b, c, d]),
                (1, vec![b, c]),
                // Along another axis.
                (0, vec![a, like_a]),
                (1, vec![a, like_a, a]),
                // The same input again and again.
                (1, vec![c, c]),
                (1, vec![c, c, c]),
            ] {
                let name = format!("concat {}", outputs.len());
                outputs.push(model.wire_node(name, TypedConcat { axis }, &inputs)?[0]);
            }
            if reversed {
                outputs.reverse();
            }
            model.select_output_outlets(&outputs)?;
            let tensor = |(number, outlet): (usize, &OutletId)| {
                let columns = model.outlet_fact(*outlet)?.shape[1].to_usize()?;
                let numbers: Vec<f32> =
                    (0..3 * columns).map(|it| (10 * number + it) as f32).collect();
                Ok(Tensor::from_shape(&[3, columns], &numbers)?.into_tvalue())
            };
            let inputs: TVec<TValue> =
                data.iter().enumerate().map(tensor).collect::<TractResult<_>>()?;
            let expected = model.clone().into_runnable()?.run(inputs.clone())?;
            let model = model.with_kernels()?;
            let columns = |node: &TypedNode| {
                let of_input = |it: &OutletId| Ok(model.outlet_fact(*it)?.shape[1].to_usize()?);
                node.inputs.iter().map(of_input).collect::<TractResult<Vec<_>>>()
            };
            let those = model.nodes().iter().filter(|node| node.op_is::<Concatenation>());
            let mut found = those.map(columns).collect::<TractResult<Vec<_>>>()?;
            found.sort();
            // One that was replaced before has other inputs now, so the one before that is gone on from.
            let of_four: &[usize] = if reversed { &[3, 3, 4] } else { &[6, 4] };
            let mut expected_columns =
                [&[1, 1][..], &[1, 1, 1], &[1, 2], &[2, 3], &[3, 3], &[3, 3], &[6, 3], of_four];
            expected_columns.sort();
            assert_eq!(found, expected_columns);
            assert_eq!(model.into_runnable()?.run(inputs)?, expected);
        }
        Ok(())
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
