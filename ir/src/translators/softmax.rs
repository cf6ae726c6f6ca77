//! Softmax and its logarithm.

use tract_core::internal::*;
use tract_core::ops::math::{div, exp, ln, sub};
use tract_core::ops::nn::{Softmax, SoftmaxKind};

use super::reduce::{Kind, reduced, sum};
use crate::context::LayerContext;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Softmax", 1, |ctx| softmax_over(ctx, SoftmaxKind::Softmax));
    registry.add("Softmax", 8, |ctx| softmax_over(ctx, SoftmaxKind::Softmax));
    registry.add("LogSoftmax", 5, |ctx| softmax_over(ctx, SoftmaxKind::LogSoftmax));
}

/// **Softmax-1**, **Softmax-8**, **LogSoftmax-5**: over `axis`, which is 1 by default. It may be negative,
/// but not in Softmax-1.
fn softmax_over(ctx: &mut LayerContext, kind: SoftmaxKind) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    ctx.expect_floats(0, "data")?;
    let axis = ctx.attribute_or("axis", 1)?;
    ensure!(
        axis >= 0 || ctx.since() > 1,
        "axis is {axis}, but must be 0 or more in Softmax-1: negative axes came with Softmax-8"
    );
    let axis = ctx.axis("axis", axis, ctx.rank(0)?)?;
    let input = ctx.input(0)?;
    Ok(tvec!(softmax(ctx, "", input, axis, kind)?))
}

/// A softmax, or its logarithm, along an axis.
pub(super) fn softmax(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    axis: usize,
    kind: SoftmaxKind,
) -> TractResult<OutletId> {
    let shape = ctx.shape_of(input)?;
    let dt = ctx.type_of(input)?;
    let is_contiguous = shape[axis + 1..].iter().all(|dim| dim.is_one());
    // The kernels have softmax in f32 along any axis. tract panics for rows of f64 without elements.
    let is_of_kernels = dt == DatumType::F32 && kind == SoftmaxKind::Softmax;
    if is_of_kernels || dt != DatumType::F64 && is_contiguous {
        return ctx.wire(
            suffix,
            Softmax { axes: tvec!(axis), quant_output_dt: None, kind },
            &[input],
        );
    }
    // For others tract's operator is slow, and its optimiser undoes a move of the axis.
    ctx.in_single(suffix, input, |ctx, suffix, input| {
        let most = reduced(ctx, "most", Kind::Max, input, &[axis])?;
        let below = ctx.wire("below", sub(), &[input, most])?;
        let powers = ctx.wire("powers", exp(), &[below])?;
        let sum = sum(ctx, "sum", powers, &[axis])?;
        if kind == SoftmaxKind::Softmax {
            return ctx.wire(suffix, div(), &[powers, sum]);
        }
        let logarithm = ctx.wire("logarithm", ln(), &[sum])?;
        ctx.wire(suffix, sub(), &[below, logarithm])
    })
}
