//! Conversions of images between color formats.

use tract_core::internal::*;
use tract_core::ops::array::{MultiBroadcastTo, Slice, TypedConcat};
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::math::{add, max, min, mul, round, round_half_to_even, sub};
use tract_core::ops::nn::{Reduce, Reducer};
use tract_openvino_kernels::checks::listed;

use super::blocks::divide;
use super::chain::Chain;
use crate::context::LayerContext;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("NV12toRGB", 8, |ctx| convert(ctx, Planes::Interleaved, false));
    registry.add("NV12toBGR", 8, |ctx| convert(ctx, Planes::Interleaved, true));
    registry.add("I420toRGB", 8, |ctx| convert(ctx, Planes::Separate, false));
    registry.add("I420toBGR", 8, |ctx| convert(ctx, Planes::Separate, true));
    registry.add("RGBtoNV12", 17, |ctx| to_nv12(ctx, false));
    registry.add("BGRtoNV12", 17, |ctx| to_nv12(ctx, true));
}

/// Where the two colors are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Planes {
    /// In one plane, one element after another.
    Interleaved,
    /// In two planes, one after another.
    Separate,
}

/// How much of brightness and of the two colors is in red, green and blue.
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
    let dt = type_of_images(ctx)?;
    let mut inputs = ctx.all_inputs()?;
    for (number, input) in inputs.iter_mut().enumerate() {
        let shape = ctx.shape_of(*input)?;
        let channels = if planes == Planes::Interleaved && number == 1 { 2 } else { 1 };
        ensure!(
            shape.len() == 4 && shape[3].as_i64().is_none_or(|size| size == channels as i64),
            "input {number} has shape {shape}, but must have rank 4 and a last dimension of {channels}",
            shape = listed(&shape)
        );
        ctx.expect_size(number, 3, channels, "has the channels of a plane")?;
        *input = ctx.cast("floats", *input, DatumType::F32)?;
    }
    let (brightness, colors) = match &*inputs {
        [one] => parts(ctx, *one, planes)?,
        [brightness, colors] => (*brightness, *colors),
        [brightness, blue, red] => {
            let (shape, other) = (ctx.shape_of(*blue)?, ctx.shape_of(*red)?);
            ctx.equal_shapes(&shape, &other, None, "has two planes of colors")?;
            let red = ctx.with_shape(*red, shape)?;
            (*brightness, ctx.wire("colors", TypedConcat::new(3), &[*blue, red])?)
        }
        _ => bail!("the inputs are {}, but must be 1 to 3", inputs.len()),
    };
    let colors = doubled(ctx, brightness, colors)?;
    let pixels = ctx.wire("pixels", TypedConcat::new(3), &[brightness, colors])?;
    let zeros = ctx.add_const("zeros", tensor4(&[[[[16f32, 128., 128.]]]]))?;
    let pixels = ctx.wire("differences", sub(), &[pixels, zeros])?;
    let mut factors = FACTORS;
    if blue_first {
        factors.iter_mut().for_each(|row| row.reverse());
    }
    let mixed = mixed(ctx, pixels, factors)?;
    let mut output = clipped(ctx, mixed)?;
    // The specification says that halves are rounded up; OpenVINO's CPU plug-in rounds them to even numbers.
    if dt == DatumType::U8 {
        output = ctx.wire("round", round_half_to_even(), &[output])?;
    }
    Ok(tvec!(ctx.cast("", output, dt)?))
}

/// How much of red, green and blue is in brightness and the two colors.
const FACTORS_OF_NV12: [[f32; 3]; 3] =
    [[0.257, -0.148, 0.439], [0.504, -0.291, -0.368], [0.098, 0.439, -0.071]];

/// **RGBtoNV12-17**, **BGRtoNV12-17**: the brightness of each pixel, and two colors that four pixels share, which are the
/// means of theirs. With `single_plane`, which is the default, the colors are below the brightness; otherwise there are two
/// outputs. Numbers of type u8 are rounded before and after the means, halves up.
fn to_nv12(ctx: &mut LayerContext, blue_first: bool) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let dt = type_of_images(ctx)?;
    let shape = ctx.shape_of_rank(0, "image", 4)?;
    ctx.require_equal(&shape[3], &3.to_dim(), "has red, green and blue")?;
    let rows = divide(&shape[1], 2, "the height")?;
    let columns = divide(&shape[2], 2, "the width")?;
    let image = ctx.input(0)?;
    let image = ctx.cast("floats", image, DatumType::F32)?;
    let image = ctx.with_shape(
        image,
        tvec![shape[0].clone(), shape[1].clone(), shape[2].clone(), 3.to_dim()],
    )?;
    let mut factors = FACTORS_OF_NV12;
    if blue_first {
        factors.reverse();
    }
    let mixed = mixed(ctx, image, factors)?;
    let zeros = ctx.add_const("zeros", tensor4(&[[[[16f32, 128., 128.]]]]))?;
    let mixed = ctx.wire("moved", add(), &[mixed, zeros])?;
    let mut pixels = clipped(ctx, mixed)?;
    if dt == DatumType::U8 {
        pixels = ctx.wire("round", round(), &[pixels])?;
    }
    let brightness = ctx.wire("brightness", Slice::new(3, 0, 1), &[pixels])?;
    let colors = ctx.wire("colors", Slice::new(3, 1, 3), &[pixels])?;
    let two = 2.to_dim();
    let mut fours = Chain::default();
    fours.reshape(2, &shape[2..3], &[columns.clone(), two.clone()]);
    fours.reshape(1, &shape[1..2], &[rows.clone(), two.clone()]);
    let fours = fours.wire_as(ctx, "fours", colors)?;
    let sums = ctx.wire("sums", Reduce::new(tvec![2, 4], Reducer::Sum), &[fours])?;
    let sums = ctx.change_axes("sums", sums, [AxisOp::Rm(4), AxisOp::Rm(2)])?;
    let quarter = ctx.scalar("quarter", 0.25, DatumType::F32, 4)?;
    let mut colors = ctx.wire("means", mul(), &[sums, quarter])?;
    if dt == DatumType::U8 {
        colors = ctx.wire("round_means", round(), &[colors])?;
    }
    if ctx.attribute_or("single_plane", true)? {
        let mut below = Chain::default();
        below.reshape(2, &[columns, two], &[shape[2].clone(), 1.to_dim()]);
        let below = below.wire_as(ctx, "below", colors)?;
        let planes = ctx.wire("planes", TypedConcat::new(1), &[brightness, below])?;
        return Ok(tvec!(ctx.cast("", planes, dt)?));
    }
    Ok(tvec!(ctx.cast("", brightness, dt)?, ctx.cast("colors", colors, dt)?))
}

/// The type of an image.
fn type_of_images(ctx: &LayerContext) -> TractResult<DatumType> {
    let dt = ctx.datum_type(0)?;
    ensure!(
        dt == DatumType::U8 || dt.is_float(),
        "the data is of type {dt:?}, but must be U8 or floats"
    );
    Ok(dt)
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
    brightness.contiguous(1, all, 0.to_dim(), height.clone())?;
    let mut colors = Chain::default();
    colors.contiguous(1, all, height, all.clone())?;
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

/// Sums the three numbers of each pixel, with these factors of each one.
///
/// The products are rounded, and then added in this order: what lies near a half becomes the same integer as in OpenVINO.
fn mixed(
    ctx: &mut LayerContext,
    pixels: OutletId,
    factors: [[f32; 3]; 3],
) -> TractResult<OutletId> {
    let mut sum = None;
    for (number, factors) in factors.into_iter().enumerate() {
        let of_all = Slice::new(3, number, number + 1);
        let numbers = ctx.wire(&format!("numbers.{number}"), of_all, &[pixels])?;
        let factors = ctx.add_const(&format!("factors.{number}"), tensor4(&[[[factors]]]))?;
        let products = ctx.wire(&format!("products.{number}"), mul(), &[numbers, factors])?;
        sum = Some(match sum {
            Some(sum) => ctx.wire(&format!("mixed.{number}"), add(), &[sum, products])?,
            None => products,
        });
    }
    sum.context("there are three factors")
}

/// From 0 to 255.
fn clipped(ctx: &mut LayerContext, pixels: OutletId) -> TractResult<OutletId> {
    let least = ctx.scalar("least", 0., DatumType::F32, 4)?;
    let most = ctx.scalar("most", 255., DatumType::F32, 4)?;
    let pixels = ctx.wire("least", max(), &[pixels, least])?;
    ctx.wire("most", min(), &[pixels, most])
}
