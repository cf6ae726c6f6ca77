//! Resizing, and sampling at coordinates.

use tract_core::internal::*;
use tract_core::ops::array::{Pad, PadMode};

use crate::context::{LayerContext, NotKnown};
use crate::operators::grid_sample::{self, GridSample, Padding};
use crate::operators::interpolate::{Axis, Coordinates, Interpolate, Mode, Nearest};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Interpolate", 1, interpolate_1);
    registry.add("Interpolate", 4, interpolate_4);
    registry.add("Interpolate", 11, interpolate_11);
    registry.add("GridSample", 9, grid_sample_9);
}

/// The data, padded with zeros as `pads_begin` and `pads_end` say. If these lists are too short, the last
/// axes have no pads.
fn padded_data(ctx: &mut LayerContext) -> TractResult<OutletId> {
    let dt = ctx.expect_numbers(0, "data")?;
    let rank = ctx.rank(0)?;
    let pads = |name| -> TractResult<Vec<usize>> {
        let mut pads: Vec<usize> = ctx.attribute_or(name, vec![])?;
        ensure!(
            pads.iter().skip(rank).all(|pad| *pad == 0),
            "attribute {name} has length {}, but must have length {rank} or less, the rank of the data",
            pads.len()
        );
        pads.resize(rank, 0);
        if let Some(pad) = pads.iter().find(|pad| **pad > i32::MAX as usize) {
            bail!("attribute {name} has {pad}, but pads must be {} or less", i32::MAX)
        }
        Ok(pads)
    };
    let pads: Vec<(usize, usize)> =
        pads("pads_begin")?.into_iter().zip(pads("pads_end")?).collect();
    let data = ctx.input(0)?;
    if pads.iter().all(|pads| *pads == (0, 0)) {
        return Ok(data);
    }
    let zero = Tensor::zero_scalar_dt(dt)?.into_arc_tensor();
    ctx.wire("padded", Pad { pads, mode: PadMode::Constant(zero) }, &[data])
}

/// **Interpolate-1**: the axes are an attribute, and the second input has their sizes. Mode nearest is what later
/// revisions call simple.
///
/// Coordinates align corners if `align_corners` is true. Otherwise the specification leaves them open. As in OpenVINO,
/// they are asymmetric, but half_pixel in mode linear, unless there are pads, or the axes are the last two of four.
fn interpolate_1(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let modes = [
        ("nearest", Mode::Nearest(Nearest::Simple)),
        ("linear", Mode::LinearOnnx),
        ("cubic", Mode::Cubic { coefficient: CUBE_COEFF }),
    ];
    let mut mode = ctx.attribute_among("mode", &modes, None)?;
    let antialias = ctx.attribute_or("antialias", false)?;
    if antialias && mode == Mode::LinearOnnx {
        mode = Mode::Linear;
    }
    let axes: Vec<i64> = ctx.attribute("axes")?;
    let data = padded_data(ctx)?;
    let is_half = matches!(mode, Mode::Linear | Mode::LinearOnnx)
        && data == ctx.input(0)?
        && (ctx.rank(0)?, &*axes) != (4, &[2, 3]);
    let coordinates = match ctx.attribute_or("align_corners", true)? {
        true => Coordinates::AlignCorners,
        false if is_half => Coordinates::HalfPixel,
        false => Coordinates::Asymmetric,
    };
    let sizes = sizes(ctx, 1, "target_spatial_shape", data, &axes)?;
    wire(ctx, data, sizes, mode, coordinates, antialias)
}

/// **Interpolate-4**: the second input has sizes, the third has scales, and `shape_calculation_mode` says
/// which of them count. The optional fourth has the axes; without it, all are meant.
fn interpolate_4(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=4)?;
    let by_scales = by_scales(ctx)?;
    interpolate(ctx, if by_scales { 2 } else { 1 }, by_scales, 3)
}

/// **Interpolate-11**: the second input has sizes or scales, as `shape_calculation_mode` says. The optional
/// third has the axes; without it, all are meant. Pillow's modes are new; they have their own coordinates.
///
/// If the input has scales, coordinates are of these, as in OpenVINO. The specification divides the sizes of output and
/// input. `cube_coeff` counts in mode bicubic_pillow too, as the specification says; OpenVINO's CPU plug-in always has
/// Pillow's, -0.5, there.
fn interpolate_11(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    let by_scales = by_scales(ctx)?;
    interpolate(ctx, 1, by_scales, 2)
}

/// The default of `cube_coeff`.
const CUBE_COEFF: f32 = -0.75;

fn by_scales(ctx: &LayerContext) -> TractResult<bool> {
    ctx.attribute_among("shape_calculation_mode", &[("sizes", false), ("scales", true)], None)
}

fn interpolate(
    ctx: &mut LayerContext,
    input: usize,
    by_scales: bool,
    axes_input: usize,
) -> TractResult<TVec<OutletId>> {
    let nearest = ctx.attribute_among(
        "nearest_mode",
        &[
            ("round_prefer_floor", Nearest::RoundPreferFloor),
            ("round_prefer_ceil", Nearest::RoundPreferCeil),
            ("floor", Nearest::Floor),
            ("ceil", Nearest::Ceil),
            ("simple", Nearest::Simple),
        ],
        Some(Nearest::RoundPreferFloor),
    )?;
    let coordinates = ctx.attribute_among(
        "coordinate_transformation_mode",
        &[
            ("half_pixel", Coordinates::HalfPixel),
            ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
            ("asymmetric", Coordinates::Asymmetric),
            ("tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn),
            ("align_corners", Coordinates::AlignCorners),
        ],
        Some(Coordinates::HalfPixel),
    )?;
    let coefficient: f32 = ctx.attribute_or("cube_coeff", CUBE_COEFF)?;
    ensure!(coefficient.is_finite(), "attribute cube_coeff is {coefficient}, but must be finite");
    let mut modes = vec![
        ("nearest", Mode::Nearest(nearest)),
        ("linear", Mode::Linear),
        ("linear_onnx", Mode::LinearOnnx),
        ("cubic", Mode::Cubic { coefficient }),
    ];
    if ctx.since() >= 11 {
        modes.push(("bilinear_pillow", Mode::BilinearPillow));
        modes.push(("bicubic_pillow", Mode::BicubicPillow { coefficient }));
    }
    let mode = ctx.attribute_among("mode", &modes, None)?;
    let antialias = ctx.attribute_or("antialias", false)?;
    let axes = match ctx.input_count() > axes_input {
        true => ctx.integers(axes_input, "axes")?,
        false => (0..i64::try_from(ctx.rank(0)?)?).collect(),
    };
    let data = padded_data(ctx)?;
    let axes = match by_scales {
        true => scaled(ctx, input, data, &axes)?,
        false => sizes(ctx, input, "sizes", data, &axes)?,
    };
    wire(ctx, data, axes, mode, coordinates, antialias)
}

/// The axes with the sizes that an input has for them.
fn sizes(
    ctx: &LayerContext,
    input: usize,
    name: &str,
    data: OutletId,
    axes: &[i64],
) -> TractResult<TVec<Axis>> {
    let sizes = ctx.sizes(input, name)?;
    let axes = positions(ctx, data, name, axes, sizes.len())?;
    Ok(axes.iter().zip(sizes).map(|(axis, size)| Axis { axis: *axis, size, scale: None }).collect())
}

/// The axes with the scales that an input has for them. A size is `floor(size * (scale + 1e-6))`.
fn scaled(
    ctx: &LayerContext,
    input: usize,
    data: OutletId,
    axes: &[i64],
) -> TractResult<TVec<Axis>> {
    let scales = ctx.floats(input, "scales")?;
    let axes = positions(ctx, data, "scales", axes, scales.len())?;
    let shape = ctx.shape_of(data)?;
    axes.iter()
        .zip(scales)
        .map(|(axis, scale)| {
            ensure!(
                scale.is_finite() && scale > 0.,
                "input {input} (scales) has {scale}, but scales must be finite and greater than 0"
            );
            let size = scaled_size(&shape[*axis], scale)?;
            Ok(Axis { axis: *axis, size, scale: Some(scale) })
        })
        .collect()
}

/// Axes as positions, where there is a number for each.
fn positions(
    ctx: &LayerContext,
    data: OutletId,
    name: &str,
    axes: &[i64],
    numbers: usize,
) -> TractResult<TVec<usize>> {
    ensure!(
        numbers == axes.len(),
        "the number of {name} is {numbers}, but must be {}, one for each of the axes {axes:?}",
        axes.len()
    );
    let rank = ctx.shape_of(data)?.len();
    // Each once.
    ctx.axes("axes", axes, rank)?;
    axes.iter().map(|axis| ctx.axis("axes", *axis, rank)).collect()
}

/// The size of an axis times its scale. An open size is multiplied by the scale as a fraction.
fn scaled_size(size: &TDim, scale: f32) -> TractResult<TDim> {
    if let Ok(size) = size.to_i64() {
        let scaled = (size as f32 * (scale + 1e-6)).floor();
        ensure!(
            scaled <= i32::MAX as f32,
            "an axis of size {size} is scaled by {scale}, which is too large"
        );
        return Ok((scaled as i64).to_dim());
    }
    let scale = f64::from(scale);
    let fraction = (1..=64u32).find_map(|divisor| {
        let product = (scale * f64::from(divisor)).round();
        let is =
            product >= 1. && (product / f64::from(divisor) - scale).abs() <= 5e-7 * scale.max(1.);
        (is && product <= f64::from(i32::MAX)).then_some((product as i64, divisor))
    });
    let (product, divisor) = fraction.ok_or_else(|| {
        NotKnown::sizes(format!(
            "size {size} is scaled by {scale}, which is no simple fraction: give the size"
        ))
    })?;
    Ok((size.clone() * product / u64::from(divisor)).simplify())
}

fn wire(
    ctx: &mut LayerContext,
    data: OutletId,
    axes: TVec<Axis>,
    mode: Mode,
    coordinates: Coordinates,
    antialias: bool,
) -> TractResult<TVec<OutletId>> {
    let shape = ctx.shape_of(data)?;
    let axes: TVec<Axis> = axes.into_iter().filter(|axis| axis.size != shape[axis.axis]).collect();
    if axes.is_empty() {
        return Ok(tvec!(data));
    }
    ctx.finish(Interpolate { axes, mode, coordinates, antialias }, &[data])
}

/// **GridSample-9**: elements of the data `[N, C, H, W]` at the coordinates of a grid `[N, H_out, W_out, 2]`.
/// Coordinates from -1 to 1 are within the data.
fn grid_sample_9(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let (data, grid) = (ctx.shape(0)?, ctx.shape(1)?);
    ensure!(
        data.len() == 4 && grid.len() == 4,
        "data and grid have ranks {} and {}, but must have rank 4",
        data.len(),
        grid.len()
    );
    ctx.require_equal(&data[0], &grid[0], "samples each element of a batch at its own grid")?;
    ctx.require_equal(&grid[3], &2.to_dim(), "has two coordinates for each element of its grid")?;
    let op = GridSample {
        mode: ctx.attribute_among(
            "mode",
            &[
                ("bilinear", grid_sample::Mode::Bilinear),
                ("bicubic", grid_sample::Mode::Bicubic),
                ("nearest", grid_sample::Mode::Nearest),
            ],
            Some(grid_sample::Mode::Bilinear),
        )?,
        padding: ctx.attribute_among(
            "padding_mode",
            &[
                ("zeros", Padding::Zeros),
                ("border", Padding::Border),
                ("reflection", Padding::Reflection),
            ],
            Some(Padding::Zeros),
        )?,
        align_corners: ctx.attribute_or("align_corners", false)?,
    };
    ctx.expect_numbers(0, "data")?;
    ctx.expect_numbers(1, "grid")?;
    let inputs = ctx.all_inputs()?;
    ctx.finish(op, &inputs)
}
