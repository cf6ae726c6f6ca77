//! Conversions of images between color formats.

use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, TypedConcat};
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::math::{max, min, round, sub};
use tract_openvino_kernels::checks::listed;

use super::blocks::divide;
use super::chain::Chain;
use crate::layer::LayerContext;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("NV12toRGB", 8, |ctx| convert(ctx, Planes::Interleaved, false));
    registry.add("NV12toBGR", 8, |ctx| convert(ctx, Planes::Interleaved, true));
    registry.add("I420toRGB", 8, |ctx| convert(ctx, Planes::Separate, false));
    registry.add("I420toBGR", 8, |ctx| convert(ctx, Planes::Separate, true));
}

/// Where the two colors are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Planes {
    /// In one plane, one element after another.
    Interleaved,
    /// In two planes, one after another.
    Separate,
}

/// How much red, green and blue are in brightness and the two colors.
const FACTORS: [[f32; 3]; 3] = [[1.164, 1.164, 1.164], [0., -0.391, 2.018], [1.596, -0.813, 0.]];

/// **NV12toRGB-8**, **NV12toBGR-8**, **I420toRGB-8**, **I420toBGR-8**: red, green and blue of each pixel, from its
/// brightness and two colors that four pixels share. They are in one input, one below the other, or in an input
/// each.
fn convert(
    ctx: &mut LayerContext,
    planes: Planes,
    blue_first: bool,
) -> TractResult<TVec<OutletId>> {
    let separate = if planes == Planes::Interleaved { 2 } else { 3 };
    ensure!(
        [1, separate].contains(&ctx.input_count()),
        "the number of inputs is {}, but must be 1 or {separate}",
        ctx.input_count()
    );
    let dt = ctx.datum_type(0)?;
    ensure!(
        dt == DatumType::U8 || dt.is_float(),
        "the data is of type {dt:?}, but must be U8 or floats"
    );
    let mut inputs = ctx.all_inputs()?;
    for (number, input) in inputs.iter_mut().enumerate() {
        let shape = ctx.shape_of(*input)?;
        let channels = if planes == Planes::Interleaved && number == 1 { 2 } else { 1 };
        ensure!(
            shape.len() == 4 && shape[3] == channels.to_dim(),
            "input {number} has shape {shape}, but must have rank 4 and a last dimension of {channels}",
            shape = listed(&shape)
        );
        *input = ctx.cast("floats", *input, DatumType::F32)?;
    }
    let (brightness, colors) = match &*inputs {
        [one] => parts(ctx, *one, planes)?,
        [brightness, colors] => (*brightness, *colors),
        [brightness, colors @ ..] => {
            (*brightness, ctx.wire("colors", TypedConcat::new(3), colors)?)
        }
        [] => bail!("there are no inputs"),
    };
    let colors = doubled(ctx, brightness, colors)?;
    let pixels = ctx.wire("pixels", TypedConcat::new(3), &[brightness, colors])?;
    let output = mixed(ctx, pixels, blue_first)?;
    let output = if dt == DatumType::U8 { ctx.wire("round", round(), &[output])? } else { output };
    Ok(tvec!(ctx.cast("", output, dt)?))
}

/// The brightness and the colors of an image whose planes are one below the other. The last axis of the second
/// has the two colors.
fn parts(
    ctx: &mut LayerContext,
    image: OutletId,
    planes: Planes,
) -> TractResult<(OutletId, OutletId)> {
    let shape = ctx.shape_of(image)?;
    let (all, width) = (&shape[1], &shape[2]);
    let rows = divide(all, 3, "the height of all planes")?;
    let columns = divide(width, 2, "the width")?;
    let height = (rows.clone() * 2).simplify();
    let mut brightness = Chain::default();
    brightness.contiguous(1, all, 0.to_dim(), height.clone());
    let mut colors = Chain::default();
    colors.contiguous(1, all, height, all.clone());
    let (one, two) = (1.to_dim(), 2.to_dim());
    match planes {
        Planes::Interleaved => colors.reshape(2, &[width.clone(), one], &[columns, two]),
        Planes::Separate => {
            colors.reshape(1, &[rows.clone(), width.clone(), one], &[two, rows, columns]);
            colors.permute(&[0, 2, 3, 1]);
        }
    }
    Ok((brightness.wire_as(ctx, "brightness", image)?, colors.wire_as(ctx, "colors", image)?))
}

/// Gives four pixels each the same colors.
fn doubled(
    ctx: &mut LayerContext,
    brightness: OutletId,
    colors: OutletId,
) -> TractResult<OutletId> {
    let (image, shape) = (ctx.shape_of(brightness)?, ctx.shape_of(colors)?);
    let mut halves = image.clone();
    for (axis, name) in [(1, "the height"), (2, "the width")] {
        halves[axis] = divide(&image[axis], 2, name)?;
    }
    ctx.equal_shapes(&halves, &shape, Some(3), "has colors for four pixels each")?;
    let colors = ctx.with_shape(
        colors,
        tvec![halves[0].clone(), halves[1].clone(), halves[2].clone(), shape[3].clone()],
    )?;
    let colors = ctx.change_axes("colors", colors, [AxisOp::Add(2), AxisOp::Add(4)])?;
    let mut four = ctx.shape_of(colors)?;
    (four[2], four[4]) = (2.to_dim(), 2.to_dim());
    let colors = ctx.wire("four", MultiBroadcastTo { shape: four.clone().into() }, &[colors])?;
    let mut whole = Chain::default();
    whole.reshape(3, &four[3..5], &image[2..3]);
    whole.reshape(1, &four[1..3], &image[1..2]);
    whole.wire_as(ctx, "doubled", colors)
}

/// Mixes red, green and blue.
fn mixed(ctx: &mut LayerContext, pixels: OutletId, blue_first: bool) -> TractResult<OutletId> {
    let zeros = ctx.add_const("zeros", tensor4(&[[[[16f32, 128., 128.]]]]))?;
    let pixels = ctx.wire("differences", sub(), &[pixels, zeros])?;
    let mut factors = FACTORS;
    if blue_first {
        factors.iter_mut().for_each(|row| row.reverse());
    }
    let factors = ctx.add_const("factors", tensor2(&factors))?;
    let op = EinSum::new("nhwc,co->nhwo".parse()?, DatumType::F32);
    let mixed = ctx.wire("mixed", op, &[pixels, factors])?;
    let least = ctx.scalar("least", 0., DatumType::F32, 4)?;
    let most = ctx.scalar("most", 255., DatumType::F32, 4)?;
    let mixed = ctx.wire("least", max(), &[mixed, least])?;
    ctx.wire("most", min(), &[mixed, most])
}
