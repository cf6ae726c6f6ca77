//! The last layers of YOLO v2 and v3.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::nn::{SoftmaxKind, sigmoid};

use crate::context::LayerContext;
use crate::translators::blocks::{divide, multiply};
use crate::translators::softmax::softmax;

/// **RegionYolo-1**: of each region, the channels are `coords` coordinates, objectness, and `classes` scores.
/// The first two coordinates and the objectness become their sigmoids; so do the scores, or with `do_softmax`
/// their softmax. There are `num` regions with `do_softmax`, and otherwise as many as `mask` has numbers. The
/// softmax's output is flattened from `axis` to `end_axis`.
pub(super) fn region_yolo(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    ctx.expect_floats(0, "data")?;
    let shape = ctx.shape_of_rank(0, "data", 4)?;
    let do_softmax = ctx.attribute_or("do_softmax", true)?;
    let coords: usize = ctx.attribute("coords")?;
    let classes: usize = ctx.attribute("classes")?;
    let regions: usize = match do_softmax {
        true => ctx.attribute("num")?,
        false => ctx.attribute_or::<Vec<i64>>("mask", vec![])?.len(),
    };
    let of_region = coords.checked_add(classes).and_then(|sum| sum.checked_add(1));
    let channels = of_region.and_then(|of_region| of_region.checked_mul(regions));
    let channels = channels.filter(|channels| {
        let is_stated = shape[1].as_i64().is_none_or(|stated| stated == *channels as i64);
        is_stated && coords >= 2 && *channels > 0
    });
    let channels = channels.with_context(|| {
        format!(
            "the number of channels is {}, but must be regions * (coords + classes + 1): regions is {regions}, \
             coords is {coords} (2 or more) and classes is {classes}",
            shape[1]
        )
    })?;
    ctx.expect_size(0, 1, channels, "has the channels of its regions")?;
    let data = ctx.input(0)?;
    let split = tvec![regions.to_dim(), (channels / regions).to_dim()];
    let parts = AxisOp::Reshape(1, tvec![channels.to_dim()], split.clone());
    let data = ctx.wire("regions", parts, &[data])?;
    let ends = [0, 2, coords, coords + 1, coords + 1 + classes];
    let mut outlets = tvec!();
    for (part, bounds) in ends.windows(2).enumerate().filter(|(_, bounds)| bounds[0] < bounds[1]) {
        let slice = ctx.wire("part", Slice::new(2, bounds[0], bounds[1]), &[data])?;
        outlets.push(match part {
            1 => slice,
            3 if do_softmax => softmax(ctx, "softmax", slice, 2, SoftmaxKind::Softmax)?,
            _ => ctx.in_single("sigmoid", slice, |ctx, suffix, slice| {
                ctx.wire(suffix, sigmoid(), &[slice])
            })?,
        });
    }
    let joined = ctx.wire("joined", TypedConcat::new(2), &outlets)?;
    let join = AxisOp::Reshape(1, split, tvec![channels.to_dim()]);
    if !do_softmax {
        return Ok(tvec!(ctx.wire("", join, &[joined])?));
    }
    let axis = ctx.axis("axis", ctx.attribute("axis")?, 4)?;
    let end_axis = ctx.axis("end_axis", ctx.attribute("end_axis")?, 4)?;
    ensure!(axis <= end_axis, "end_axis is {end_axis}, but must be axis or more, which is {axis}");
    let flattened: TVec<TDim> = shape[axis..=end_axis].into();
    let product: TDim = flattened.iter().product();
    let flatten = AxisOp::Reshape(axis, flattened, tvec![product]);
    Ok(tvec!(ctx.change_axes("", joined, [join, flatten])?))
}

/// **ReorgYolo-2**: `[N, C, H, W]` becomes `[N, C * stride * stride, H / stride, W / stride]`. The elements are
/// taken as if they were `[N, C / (stride * stride), H * stride, W * stride]`, of which each block of
/// `stride` by `stride` elements goes into channels.
pub(super) fn reorg_yolo(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let shape = ctx.shape_of_rank(0, "data", 4)?;
    let stride = match ctx.attribute::<Vec<usize>>("stride")?[..] {
        [stride] | [stride, _] if (1..1 << 16).contains(&stride) => stride,
        ref strides => bail!("attribute stride is {strides:?}, but must be one number, 1 or more"),
    };
    let block = stride * stride;
    ensure!(shape[1] != 0.to_dim(), "the number of channels is 0, but must be 1 or more");
    let channels = divide(&shape[1], block, "the number of channels")?;
    let (height, width) = (&shape[2], &shape[3]);
    let target = tvec![
        multiply(&shape[1], &block.to_dim())?,
        divide(height, stride, "the height")?,
        divide(width, stride, "the width")?
    ];
    let stride = stride.to_dim();
    let source =
        tvec![channels.clone(), height.clone(), stride.clone(), width.clone(), stride.clone()];
    let moved = tvec![stride.clone(), stride, channels, height.clone(), width.clone()];
    let data = ctx.input(0)?;
    let changes = [
        AxisOp::Reshape(1, shape[1..].into(), source),
        AxisOp::Move(3, 1),
        AxisOp::Move(5, 2),
        AxisOp::Reshape(1, moved, target),
    ];
    Ok(tvec!(ctx.change_axes("", data, changes)?))
}
