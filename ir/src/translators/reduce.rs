//! Reductions over axes.

use tract_core::internal::*;
use tract_core::ops::math::{abs, div, mul, sqrt, square};
use tract_core::ops::nn::{self, Reduce};

use crate::context::LayerContext;
use crate::operators::reduction::{Reducer, Reduction};
use crate::registry::Registry;
use crate::workarounds::expressions::is_small;

pub(super) fn register(registry: &mut Registry) {
    registry.add("ReduceSum", 1, |ctx| reduce(ctx, Kind::Sum));
    registry.add("ReduceMean", 1, |ctx| reduce(ctx, Kind::Mean));
    registry.add("ReduceMax", 1, |ctx| reduce(ctx, Kind::Max));
    registry.add("ReduceMin", 1, |ctx| reduce(ctx, Kind::Min));
    registry.add("ReduceProd", 1, |ctx| reduce(ctx, Kind::Prod));
    registry.add("ReduceL1", 4, |ctx| reduce(ctx, Kind::L1));
    registry.add("ReduceL2", 4, |ctx| reduce(ctx, Kind::L2));
    registry.add("ReduceLogicalAnd", 1, |ctx| reduce(ctx, Kind::LogicalAnd));
    registry.add("ReduceLogicalOr", 1, |ctx| reduce(ctx, Kind::LogicalOr));
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    LogicalAnd,
    LogicalOr,
}

/// **ReduceSum-1**, **ReduceMean-1**, **ReduceMax-1**, **ReduceMin-1**, **ReduceProd-1**, **ReduceL1-4**,
/// **ReduceL2-4**, **ReduceLogicalAnd-1**, **ReduceLogicalOr-1**: reduces the axes that the second input
/// names. With `keep_dims` they stay, with size 1. Without axes the output is the input, or its absolute
/// values for the two norms.
fn reduce(ctx: &mut LayerContext, kind: Kind) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let dt = ctx.datum_type(0)?;
    let logical = matches!(kind, Kind::LogicalAnd | Kind::LogicalOr);
    ensure!(
        if logical { dt == DatumType::Bool } else { dt.is_number() || dt.is_tdim() },
        "input 0 is of type {dt:?}, but must be {}",
        if logical { "boolean" } else { "numbers" }
    );
    let keep_dims = ctx.attribute_or("keep_dims", false)?;
    let axes = axes_input(ctx)?;
    let input = ctx.input(0)?;
    if axes.is_empty() {
        return Ok(tvec!(match kind {
            Kind::L1 | Kind::L2 => absolute(ctx, "", input)?,
            _ => input,
        }));
    }
    let mut output = reduced(ctx, if keep_dims { "" } else { "reduced" }, kind, input, &axes)?;
    for (number, axis) in axes.iter().enumerate().rev().filter(|_| !keep_dims) {
        output =
            ctx.wire(if number == 0 { "" } else { "squeeze" }, AxisOp::Rm(*axis), &[output])?;
    }
    Ok(tvec!(output))
}

/// The axes that the second input names.
pub(super) fn axes_input(ctx: &LayerContext) -> TractResult<TVec<usize>> {
    ctx.axes("axes", &ctx.integers(1, "axes")?, ctx.rank(0)?)
}

/// Reduces one axis or more. They stay, with size 1.
pub(super) fn reduced(
    ctx: &mut LayerContext,
    suffix: &str,
    kind: Kind,
    input: OutletId,
    axes: &[usize],
) -> TractResult<OutletId> {
    let input = reducible(ctx, input)?;
    let dt = ctx.type_of(input)?;
    let (of_floats, reducer) = match kind {
        Kind::Sum => return sum(ctx, suffix, input, axes),
        Kind::Mean => return mean(ctx, suffix, input, axes),
        Kind::L1 => {
            let absolute = absolute(ctx, "abs", input)?;
            return sum(ctx, suffix, absolute, axes);
        }
        // Squares and products leave half precision sooner than what is made of them, and the least number of nothing is that
        // of single precision.
        Kind::L2 | Kind::Prod | Kind::Min | Kind::Max if dt == DatumType::F16 => {
            return ctx.in_single(suffix, input, |ctx, suffix, input| {
                reduced(ctx, suffix, kind, input, axes)
            });
        }
        // The norm of integers is rounded towards zero.
        Kind::L2 => {
            let float = if dt.is_float() { dt } else { DatumType::F64 };
            let input = ctx.cast("float", input, float)?;
            return ctx.in_type(suffix, input, dt, |ctx, suffix, input| {
                let squares = ctx.wire("squares", square(), &[input])?;
                let sum = sum(ctx, "sum", squares, axes)?;
                ctx.wire(suffix, sqrt(), &[sum])
            });
        }
        Kind::Max => (nn::Reducer::Max, Reducer::Max),
        Kind::Min => (nn::Reducer::Min, Reducer::Min),
        Kind::Prod => (nn::Reducer::Prod, Reducer::Prod),
        Kind::LogicalAnd => (nn::Reducer::All, Reducer::Min),
        Kind::LogicalOr => (nn::Reducer::Any, Reducer::Max),
    };
    let min_of_nothing = kind == Kind::Min && may_be_empty(ctx, input, axes)?;
    let axes = axes.into();
    if (dt.is_float() || dt == DatumType::Bool) && !min_of_nothing {
        return ctx.wire(suffix, Reduce { axes, reducer: of_floats }, &[input]);
    }
    ctx.wire(suffix, Reduction { axes, reducer }, &[input])
}

/// tract has no absolute values of sizes.
fn absolute(ctx: &mut LayerContext, suffix: &str, input: OutletId) -> TractResult<OutletId> {
    let input = ctx.numbers(input)?;
    ctx.wire(suffix, abs(), &[input])
}

/// Turns sizes into numbers if they have so many terms that a reduction of them would have too many.
fn reducible(ctx: &mut LayerContext, input: OutletId) -> TractResult<OutletId> {
    let fact = ctx.model.outlet_fact(input)?;
    if let Some(sizes) = fact.konst.as_ref().filter(|konst| konst.datum_type().is_tdim()) {
        let all = TDim::Add(sizes.try_as_plain_ram()?.as_slice::<TDim>()?.to_vec());
        if !is_small(&all) {
            return ctx.numbers(input);
        }
    }
    Ok(input)
}

/// The sum over one axis or more.
pub(super) fn sum(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    axes: &[usize],
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    if dt == DatumType::F16 && !adds_in_single(ctx, input, axes)? {
        return ctx.in_single(suffix, input, |ctx, suffix, input| sum(ctx, suffix, input, axes));
    }
    // If the last axis alone is reduced, tract divides by its size.
    let of_tract = dt.is_float() && !may_be_empty_rows(ctx, input, axes)?;
    let axes = axes.into();
    if of_tract {
        return ctx.wire(suffix, Reduce { axes, reducer: nn::Reducer::Sum }, &[input]);
    }
    ctx.wire(suffix, Reduction { axes, reducer: Reducer::Sum }, &[input])
}

/// The mean over one axis or more. That of integers is rounded towards zero.
pub(super) fn mean(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    axes: &[usize],
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    if !dt.is_float() {
        let wide = if dt == DatumType::U64 || dt.is_tdim() { dt } else { DatumType::I64 };
        let input = ctx.cast("wide", input, wide)?;
        return ctx.in_type(suffix, input, dt, |ctx, suffix, input| {
            ctx.wire(suffix, Reduction { axes: axes.into(), reducer: Reducer::Mean }, &[input])
        });
    }
    // The sum leaves half precision sooner than the mean.
    if dt == DatumType::F16 {
        return ctx.in_single(suffix, input, |ctx, suffix, input| mean(ctx, suffix, input, axes));
    }
    let shape = ctx.shape_of(input)?;
    let count: TDim = axes.iter().map(|axis| &shape[*axis]).product();
    let sum = sum(ctx, "sum", input, axes)?;
    // tract recognises the mean of squares by this factor. The mean of no elements is 0.
    if let Some(count) = count.as_i64() {
        let factor = ctx.scalar("factor", 1. / count.max(1) as f64, dt, shape.len())?;
        return ctx.wire(suffix, mul(), &[sum, factor]);
    }
    let count = TDim::Max(vec![count, 1.to_dim()]).simplify();
    let count = ctx.add_const("size", tensor0(count).broadcast_into_rank(shape.len())?)?;
    let count = ctx.cast("count", count, dt)?;
    ctx.wire(suffix, div(), &[sum, count])
}

/// Whether an axis that is reduced may have size 0.
fn may_be_empty(ctx: &LayerContext, input: OutletId, axes: &[usize]) -> TractResult<bool> {
    let shape = ctx.shape_of(input)?;
    Ok(axes.iter().any(|axis| !shape[*axis].prove_strict_positive()))
}

/// Whether only the last axis is reduced, and its size may be 0.
fn may_be_empty_rows(ctx: &LayerContext, input: OutletId, axes: &[usize]) -> TractResult<bool> {
    let shape = ctx.shape_of(input)?;
    let last = shape.last().filter(|_| *axes == [shape.len() - 1]);
    Ok(last.is_some_and(|dim| !dim.prove_strict_positive()))
}

/// Whether tract adds half floats in single precision.
fn adds_in_single(ctx: &LayerContext, input: OutletId, axes: &[usize]) -> TractResult<bool> {
    let rank = ctx.shape_of(input)?.len();
    Ok(*axes == [rank - 1] && !may_be_empty_rows(ctx, input, axes)?)
}
