//! Convolutions whose windows are deformed by offsets.

use tract_core::internal::*;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::einsum::EinSum;
use tract_openvino_kernels::checks::listed;

use super::chain::Chain;
use super::common::FAR;
use super::convolution::{AutoPad, Window};
use crate::context::{LayerContext, NotKnown};
use crate::operators::deformable::{Axis, DeformableWindows, Pad};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("DeformableConvolution", 1, deformable_convolution);
    registry
        .add("DeformableConvolution", 8, deformable_convolution)
        .without("weights of a shape that is not known");
}

/// **DeformableConvolution-1**, **DeformableConvolution-8**: a convolution in which each element of each window
/// is moved by offsets, two for each `deformable_group` of channels. Revision 8 adds factors for the elements, and
/// `bilinear_interpolation_pad`: then there are zeros around the data.
fn deformable_convolution(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(if ctx.since() >= 8 { 3..=4 } else { 3..=3 })?;
    let dt = ctx.expect_floats(0, "data")?;
    let shapes: Vec<TVec<TDim>> =
        (0..ctx.input_count()).map(|input| ctx.shape(input)).collect::<TractResult<_>>()?;
    ensure!(
        shapes.iter().all(|shape| shape.len() == 4),
        "the inputs have shapes {}, but must have rank 4",
        shapes.iter().map(|shape| listed(shape)).collect::<Vec<_>>().join(", ")
    );
    let filters = shapes[2].iter().map(|dim| dim.to_usize());
    let filters: TVec<usize> = filters.collect::<Result<_, _>>().map_err(|_| {
        NotKnown::sizes(format!(
            "the weights have shape {}, but their sizes must be numbers: give the inputs sizes",
            listed(&shapes[2])
        ))
    })?;
    let (group, groups) =
        (ctx.attribute_or("group", 1usize)?, ctx.attribute_or("deformable_group", 1usize)?);
    let channels = filters[1].checked_mul(group).context("there are too many channels")?;
    ensure!(
        group > 0
            && filters[0].is_multiple_of(group)
            && groups > 0
            && channels.is_multiple_of(groups),
        "group is {group} and deformable_group {groups}, but they must divide {} outputs and {channels} channels",
        filters[0]
    );
    ctx.require_equal(&shapes[0][1], &channels.to_dim(), "has weights for each channel")?;
    let window = Window::new(ctx, &filters[2..])?;
    // Two offsets for each element of a window, in each group.
    let elements = filters[2].checked_mul(filters[3]).and_then(|it| it.checked_mul(groups));
    let elements = elements.filter(|elements| *elements <= FAR as usize);
    let elements = elements.context("the kernel is too large")?;
    for (shape, numbers) in
        shapes[1..2].iter().map(|it| (it, 2)).chain(shapes[3..].iter().map(|it| (it, 1)))
    {
        let numbers = (elements * numbers).to_dim();
        let expected = [shapes[0][0].clone(), numbers, shapes[1][2].clone(), shapes[1][3].clone()];
        ctx.equal_shapes(&expected, shape, None, "has offsets and factors for each window")?;
    }
    let zeros_around = ctx.since() >= 8 && ctx.attribute_or("bilinear_interpolation_pad", false)?;
    let op = DeformableWindows { axes: [axis(&window, 0), axis(&window, 1)], groups, zeros_around };
    let mut inputs = tvec![];
    for input in [0, 1].into_iter().chain((ctx.input_count() == 4).then_some(3)) {
        let outlet = ctx.input(input)?;
        inputs.push(ctx.cast("single", outlet, DatumType::F32)?);
    }
    let windows = ctx.wire("windows", op, &inputs)?;
    let weights = ctx.input(2)?;
    let weights = ctx.cast("weights", weights, DatumType::F32)?;
    let output = product(ctx, windows, weights, &filters, group)?;
    Ok(tvec!(ctx.cast("", output, dt)?))
}

fn axis(window: &Window, axis: usize) -> Axis {
    let pad = match window.auto_pad {
        AutoPad::Explicit | AutoPad::Valid => Pad::Begin(window.pads_begin[axis]),
        AutoPad::SameUpper => Pad::SameUpper,
        AutoPad::SameLower => Pad::SameLower,
    };
    let (size, stride) = (window.kernel[axis], window.strides[axis]);
    Axis { size, stride, dilation: window.dilations[axis], pad }
}

/// Multiplies the windows, `[batch, channels * elements, rows, columns]`, by the weights, in groups.
fn product(
    ctx: &mut LayerContext,
    windows: OutletId,
    weights: OutletId,
    filters: &[usize],
    group: usize,
) -> TractResult<OutletId> {
    let outputs = (filters[0] / group).to_dim();
    let filters: TVec<TDim> = filters.iter().map(|size| size.to_dim()).collect();
    let group = group.to_dim();
    let in_group = filters[1..].iter().product::<TDim>();
    let all = (in_group.clone() * &group).simplify();
    let mut split = Chain::default();
    split.reshape(1, &[all], &[group.clone(), in_group.clone()]);
    let windows = split.wire_as(ctx, "groups", windows)?;
    let mut split = Chain::default();
    split.reshape(1, &filters[1..], &[in_group]);
    split.reshape(0, &filters[..1], &[group.clone(), outputs.clone()]);
    let weights = split.wire_as(ctx, "filters", weights)?;
    let op = EinSum::new("ngkyx,gok->ngoyx".parse()?, DatumType::F32);
    let product = ctx.wire("product", op, &[windows, weights])?;
    let to = AxisOp::Reshape(1, tvec![group, outputs], tvec![filters[0].clone()]);
    ctx.change_axes("whole", product, [to])
}
