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

/// What another Concat has made of the first inputs of this one, and how many these are. So DenseNet, whose layers have all outputs before
/// them as their input, copies these at once.
fn begun(model: &TypedModel, node: &TypedNode, axis: usize) -> Option<(OutletId, usize)> {
    let [first, .., _] = node.inputs[..] else { return None };
    let others = model.outlet_successors(first).iter().map(|it| &model.nodes()[it.node]);
    let begin = |other: &&TypedNode| {
        let count = other.inputs.len();
        count > 1
            && count < node.inputs.len()
            && node.inputs.starts_with(&other.inputs)
            && other.op_as::<TypedConcat>().is_some_and(|it| it.axis == axis)
    };
    let longest = others.filter(begin).max_by_key(|other| other.inputs.len())?;
    Some((longest.id.into(), longest.inputs.len()))
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

    /// The sizes of the inputs of all concatenations.
    fn inputs_of_concatenations(model: &TypedModel) -> Vec<Vec<TDim>> {
        let those = model.nodes().iter().filter(|node| node.op_is::<Concatenation>());
        let sizes = those.map(|node| {
            node.inputs.iter().map(|it| model.outlet_fact(*it).unwrap().shape[1].clone()).collect()
        });
        sizes.collect()
    }

    #[test]
    fn first_inputs_are_those_of_another() -> TractResult<()> {
        let mut model = TypedModel::default();
        let mut data = vec![];
        for size in 1..=4 {
            data.push(model.add_source(format!("{size}"), f32::fact([3, size]))?);
        }
        let mut outputs = vec![];
        for (number, inputs) in
            [&data[..2], &data[..3], &data[..4], &data[1..3], &data[..1]].into_iter().enumerate()
        {
            let op = TypedConcat { axis: 1 };
            outputs.push(model.wire_node(format!("concat {number}"), op, inputs)?[0]);
        }
        model.select_output_outlets(&outputs)?;
        let inputs = |size| Tensor::from_shape(&[3, size], &vec![size as f32; 3 * size]);
        let inputs: TVec<TValue> =
            (1..=4).map(|size| Ok(inputs(size)?.into_tvalue())).collect::<TractResult<_>>()?;
        let expected = model.clone().into_runnable()?.run(inputs.clone())?;
        let model = model.with_kernels()?;
        let mut found = inputs_of_concatenations(&model);
        found.sort_by_key(|sizes| sizes.iter().map(|it| it.to_i64().unwrap()).sum::<i64>());
        let dims = |sizes: &[i64]| sizes.iter().map(|it| it.to_dim()).collect::<Vec<_>>();
        let all = [&[1, 2][..], &[2, 3], &[3, 3], &[6, 4]].map(dims);
        assert_eq!(
            found.iter().filter(|it| it.len() > 1).collect::<Vec<_>>(),
            all.iter().collect::<Vec<_>>()
        );
        assert_eq!(model.into_runnable()?.run(inputs)?, expected);
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
