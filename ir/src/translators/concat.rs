//! Tensors put together, and cut into parts, along an axis.

use tract_core::internal::*;
use tract_core::num_traits::Zero;
use tract_core::ops::array::{MultiBroadcastTo, Slice, TypedConcat};
use tract_openvino_kernels::checks::listed;

use super::common::FAR;
use crate::context::LayerContext;
use crate::registry::Registry;
use crate::typed_op::has_zero;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Concat", 1, concat);
    registry.add("Split", 1, split);
    registry.add("VariadicSplit", 1, variadic_split);
}

/// **Concat-1**: inputs one after another along `axis`. Their other dimensions are equal.
fn concat(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=usize::MAX)?;
    let inputs = ctx.all_inputs()?;
    let inputs = ctx.unify(&inputs)?;
    let shapes =
        inputs.iter().map(|input| ctx.shape_of(*input)).collect::<TractResult<Vec<_>>>()?;
    let first = &shapes[0];
    let axis = ctx.axis("axis", ctx.attribute("axis")?, first.len())?;
    let mut agreed = tvec!(inputs[0]);
    for (input, shape) in inputs.iter().zip(&shapes).skip(1) {
        let doing = format!("concatenates on axis {axis}");
        ctx.equal_shapes(first, shape, Some(axis), &doing)?;
        let mut wanted = first.clone();
        wanted[axis] = shape[axis].clone();
        agreed.push(ctx.with_shape(*input, wanted)?);
    }
    let dt = ctx.type_of(agreed[0])?;
    if first.iter().enumerate().any(|(other, dim)| other != axis && dim.is_zero()) && has_zero(dt) {
        // tract's optimiser drops inputs without elements, and so what they add to the size of the axis.
        let mut shape = first.clone();
        shape[axis] = shapes.iter().map(|shape| shape[axis].clone()).sum();
        let zero = ctx.scalar("zero", 0., dt, shape.len())?;
        return ctx.finish(MultiBroadcastTo::new(shape.into()), &[zero]);
    }
    ctx.finish(TypedConcat::new(axis), &agreed)
}

/// **Split-1**: `num_splits` equal parts of an axis. If the size is not known, whether it can be divided is
/// checked when the model runs.
fn split(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let shape = ctx.shape(0)?;
    let axis = ctx.axis("axis", ctx.integer(1, "axis")?, shape.len())?;
    let count: i64 = ctx.attribute("num_splits")?;
    let outputs = i64::try_from(ctx.layer().outputs.len())?;
    ensure!(
        count > 0 && count <= outputs.max(1),
        "num_splits is {count}, but must be in [1, {}], as {outputs} is the number of outputs",
        outputs.max(1)
    );
    let dim = &shape[axis];
    let part = (dim.clone() / count).simplify();
    let rest = (dim.clone() - part.clone() * count).simplify();
    if let Some(size) = dim.as_i64() {
        ensure!(
            rest.is_zero(),
            "the dimension is {size}, but must be a multiple of num_splits, which is {count}"
        );
    }
    let bounds =
        |number: i64| [part.clone() * number, part.clone() * (number + 1)].map(TDim::simplify);
    let bounds: Vec<[TDim; 2]> = (0..count).map(bounds).collect();
    parts(ctx, axis, &bounds, rest)
}

/// **VariadicSplit-1**: parts of an axis whose sizes are `split_lengths`. They add up to the size of the
/// axis. One of them may be -1, and is what the others leave.
fn variadic_split(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let shape = ctx.shape(0)?;
    let axis = ctx.axis("axis", ctx.integer(1, "axis")?, shape.len())?;
    let mut lengths = ctx.dims(2, "split_lengths")?;
    let mut sum = 0.to_dim();
    let mut rest = None;
    for (number, length) in lengths.iter().enumerate() {
        match length.as_i64() {
            Some(-1) => ensure!(
                rest.replace(number).is_none(),
                "split_lengths is {lengths}, but may have only one -1",
                lengths = listed(&lengths)
            ),
            Some(length) if !(0..=FAR).contains(&length) => {
                bail!("split_lengths[{number}] is {length}, but must be -1, or in [0, {FAR}]")
            }
            _ => sum = (sum + length).simplify(),
        }
    }
    let dim = &shape[axis];
    let wrong = match rest {
        Some(rest) => {
            let length = (dim.clone() - &sum).simplify();
            ensure!(
                length.as_i64().is_none_or(|length| length >= 0),
                "split_lengths is {lengths}, but the sum must be at most {dim}, the dimension",
                lengths = listed(&lengths)
            );
            lengths[rest] = length.clone();
            TDim::Max(vec![-length, 0.to_dim()]).simplify()
        }
        None => {
            ctx.require_equal(dim, &sum, &format!("splits it in parts of {}", listed(&lengths)))?;
            let difference = (dim.clone() - sum).simplify();
            TDim::Max(vec![difference.clone(), -difference]).simplify()
        }
    };
    let mut start = 0.to_dim();
    let mut bounds = vec![];
    for length in lengths {
        let end = (start.clone() + length).simplify();
        bounds.push([start, end.clone()]);
        start = end;
    }
    parts(ctx, axis, &bounds, wrong)
}

/// The parts of input 0 along an axis, each from one position to another.
///
/// If `wrong` is not 0 when the model runs, the parts are beyond the end of the axis, so that each of them
/// fails, whichever are used.
fn parts(
    ctx: &mut LayerContext,
    axis: usize,
    bounds: &[[TDim; 2]],
    wrong: TDim,
) -> TractResult<TVec<OutletId>> {
    let data = ctx.input(0)?;
    let beyond = wrong * FAR;
    let part = |(number, [start, end]): (usize, &[TDim; 2])| {
        let [start, end] = [start, end].map(|bound| (bound.clone() + &beyond).simplify());
        let op = Slice { axis, start, end };
        ctx.wire(&number.to_string(), op, &[data])
    };
    bounds.iter().enumerate().map(part).collect()
}
