//! Normalizations: the mean is subtracted, or the elements are divided by their average size.

use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec, SumPool};
use tract_core::ops::logic::{comp_eq, not};
use tract_core::ops::math::{add, div, max, mul, pow, rsqrt, sqrt, square, sub};
use tract_core::ops::nn::DataFormat;
use tract_openvino_kernels::checks::volume;

use super::blocks::divide;
use super::reduce::{axes_input, mean, sum};
use crate::context::LayerContext;
use crate::limits::MAX_LRN_WINDOW;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("MVN", 2, mvn_1);
    registry.add("MVN", 6, mvn_6);
    registry.add("NormalizeL2", 1, normalize_l2);
    registry.add("GRN", 1, grn);
    registry.add("LRN", 1, lrn);
    registry.add("BatchNormInference", 1, batch_norm_inference);
    registry.add("BatchNormInference", 5, batch_norm_inference);
    registry.add("GroupNormalization", 12, group_normalization);
}

/// **MVN-2** (which the specification calls MVN-1): subtracts the mean, and divides by the deviation if
/// `normalize_variance` is true. They are computed over `reduction_axes`; or over all axes but the first if
/// `across_channels` is true, and but the first two if not. Without axes each element is its
/// own mean.
fn mvn_1(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let rank = ctx.rank(0)?;
    let axes = match ctx.attribute_opt::<Vec<i64>>("reduction_axes")? {
        Some(axes) => ctx.axes("reduction_axes", &axes, rank)?,
        None if ctx.attribute_or("across_channels", true)? => (1..rank).collect(),
        None => (2..rank).collect(),
    };
    let epsilon = match ctx.attribute_or("normalize_variance", true)? {
        true => Some(Epsilon::Inside(ctx.attribute_or("eps", 1e-9)?)),
        false => None,
    };
    if axes.is_empty() {
        ctx.expect_floats(0, "data")?;
        let input = ctx.input(0)?;
        return Ok(tvec!(ctx.wire("", sub(), &[input, input])?));
    }
    mvn(ctx, &axes, epsilon)
}

/// **MVN-6**: as MVN-2, but the axes are an input. `eps_mode` says whether `eps` is added to the variance or
/// to its square root.
fn mvn_6(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let axes = axes_input(ctx)?;
    let epsilon = match ctx.attribute("normalize_variance")? {
        true => {
            type Of = fn(f64) -> Epsilon;
            let modes: [(&str, Of); 2] =
                [("INSIDE_SQRT", Epsilon::Inside), ("OUTSIDE_SQRT", Epsilon::Outside)];
            Some(ctx.attribute_among("eps_mode", &modes, None)?(ctx.attribute("eps")?))
        }
        false => None,
    };
    mvn(ctx, &axes, epsilon)
}

fn mvn(
    ctx: &mut LayerContext,
    axes: &[usize],
    epsilon: Option<Epsilon>,
) -> TractResult<TVec<OutletId>> {
    ctx.expect_floats(0, "data")?;
    let input = ctx.input(0)?;
    // Without axes OpenVINO does nothing in this revision.
    if axes.is_empty() {
        return Ok(tvec!(input));
    }
    let output = ctx
        .in_single("", input, |ctx, suffix, input| normalized(ctx, suffix, input, axes, epsilon))?;
    Ok(tvec!(output))
}

/// What keeps a normalization from dividing by zero.
#[derive(Debug, Clone, Copy)]
enum Epsilon {
    /// Added to the variance.
    Inside(f64),
    /// Added to its square root.
    Outside(f64),
}

/// Subtracts the mean over axes, and divides by the deviation if there is an epsilon.
///
/// tract makes one operator of the division if there is one axis.
fn normalized(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    axes: &[usize],
    epsilon: Option<Epsilon>,
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    let rank = ctx.shape_of(input)?.len();
    let mean_value = mean(ctx, "mean", input, axes)?;
    let Some(epsilon) = epsilon else { return ctx.wire(suffix, sub(), &[input, mean_value]) };
    let centred = ctx.wire("centred", sub(), &[input, mean_value])?;
    let squares = ctx.wire("squares", square(), &[centred])?;
    let variance = mean(ctx, "variance", squares, axes)?;
    match epsilon {
        Epsilon::Inside(epsilon) => {
            let epsilon = ctx.scalar("epsilon", epsilon, dt, rank)?;
            let variance = ctx.wire("variance_and_epsilon", add(), &[variance, epsilon])?;
            let factor = ctx.wire("rsqrt", rsqrt(), &[variance])?;
            ctx.wire(suffix, mul(), &[factor, centred])
        }
        Epsilon::Outside(epsilon) => {
            let deviation = ctx.wire("deviation", sqrt(), &[variance])?;
            let epsilon = ctx.scalar("epsilon", epsilon, dt, rank)?;
            let deviation = ctx.wire("deviation_and_epsilon", add(), &[deviation, epsilon])?;
            ctx.wire(suffix, div(), &[centred, deviation])
        }
    }
}

/// **NormalizeL2-1**: divides by the square root of the sum of the squares over axes. `eps_mode` says whether
/// `eps` is added to the sum, or is the least that it can be. Without axes each element is divided by itself.
fn normalize_l2(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    ctx.expect_floats(0, "data")?;
    let axes = axes_input(ctx)?;
    let epsilon: f64 = ctx.attribute("eps")?;
    let limit = ctx.attribute_among("eps_mode", &[("add", false), ("max", true)], None)?;
    let input = ctx.input(0)?;
    if axes.is_empty() {
        let dt = ctx.type_of(input)?;
        let zero = ctx.scalar("zero", 0., dt, ctx.rank(0)?)?;
        let is_zero = ctx.wire("is_zero", TypedBinOp(comp_eq(), None), &[input, zero])?;
        let is_not = ctx.wire("is_not_zero", not(), &[is_zero])?;
        return Ok(tvec!(ctx.cast("", is_not, dt)?));
    }
    let output = ctx.in_single("", input, |ctx, suffix, input| {
        divided_by_norm(ctx, suffix, input, &axes, epsilon, limit)
    })?;
    Ok(tvec!(output))
}

/// **GRN-1**: divides by the square root of the sum of the squares over the channels, to which `bias` is
/// added.
fn grn(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    ctx.expect_floats(0, "data")?;
    let rank = ctx.rank(0)?;
    ensure!(
        (2..=4).contains(&rank),
        "input 0 (data) has rank {rank}, but must have rank 2, 3 or 4"
    );
    let bias: f64 = ctx.attribute("bias")?;
    let input = ctx.input(0)?;
    let output = ctx.in_single("", input, |ctx, suffix, input| {
        divided_by_norm(ctx, suffix, input, &[1], bias, false)
    })?;
    Ok(tvec!(output))
}

/// Divides by the square root of the sum of the squares. `epsilon` is added to the sum, or is the least that
/// it can be if `limit` is true.
fn divided_by_norm(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    axes: &[usize],
    epsilon: f64,
    limit: bool,
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    let rank = ctx.shape_of(input)?.len();
    let squares = ctx.wire("squares", square(), &[input])?;
    let sum = sum(ctx, "sum", squares, axes)?;
    let epsilon = ctx.scalar("epsilon", epsilon, dt, rank)?;
    let sum = ctx.wire("limited", if limit { max() } else { add() }, &[sum, epsilon])?;
    let factor = ctx.wire("rsqrt", rsqrt(), &[sum])?;
    ctx.wire(suffix, mul(), &[input, factor])
}

/// **LRN-1**: `x / (bias + alpha * s / size^axes)^beta`, where `s` is the sum of the squares in a window.
/// Along each axis, the window reaches `(size - 1) / 2` elements to both sides. There are zeros outside of
/// the input.
fn lrn(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    ctx.expect_floats(0, "data")?;
    let (alpha, beta): (f64, f64) = (ctx.attribute("alpha")?, ctx.attribute("beta")?);
    let (bias, size): (f64, usize) = (ctx.attribute("bias")?, ctx.attribute("size")?);
    ensure!(size > 0, "attribute size is 0, but must be 1 or more");
    let axes = axes_input(ctx)?;
    let shape = ctx.shape(0)?;
    let alpha = alpha / (size as f64).powi(axes.len() as i32);
    // The window is not larger than the input.
    let (mut kernel, mut sides) = (tvec!(), tvec!());
    for (axis, dim) in shape.iter().enumerate() {
        let reach = dim.to_usize().map_or(usize::MAX, |dim| dim.saturating_sub(1));
        let side = if axes.contains(&axis) { ((size - 1) / 2).min(reach) } else { 0 };
        sides.push(side);
        kernel.push(2 * side + 1);
    }
    ensure!(
        volume(&kernel).is_some_and(|window| window <= MAX_LRN_WINDOW),
        "attribute size is {size}, but windows must have {MAX_LRN_WINDOW} elements or fewer"
    );
    let input = ctx.input(0)?;
    let output = ctx.in_single("", input, |ctx, suffix, input| {
        let dt = ctx.type_of(input)?;
        let rank = shape.len();
        let squares = ctx.wire("squares", square(), &[input])?;
        // One batch with one channel: all axes of the input become spatial axes.
        let squares = ctx.change_axes("in_space", squares, [AxisOp::Add(0), AxisOp::Add(0)])?;
        let pool_spec = PoolSpec {
            data_format: DataFormat::NCHW,
            kernel_shape: kernel,
            padding: PaddingSpec::Explicit(sides.clone(), sides),
            dilations: None,
            strides: None,
            input_channels: 1,
            output_channels: 1,
        };
        let pool = SumPool { pool_spec, count_include_pad: true, normalize: false };
        let sums = ctx.wire("sums", pool, &[squares])?;
        let sums = ctx.change_axes("out_of_space", sums, [AxisOp::Rm(0), AxisOp::Rm(0)])?;
        let alpha = ctx.scalar("alpha", alpha, dt, rank)?;
        let scaled = ctx.wire("scaled", mul(), &[sums, alpha])?;
        let bias = ctx.scalar("bias", bias, dt, rank)?;
        let base = ctx.wire("base", add(), &[scaled, bias])?;
        let beta = ctx.scalar("beta", -beta, dt, rank)?;
        let factor = ctx.wire("factor", pow(), &[base, beta])?;
        ctx.wire(suffix, mul(), &[input, factor])
    })?;
    Ok(tvec!(output))
}

/// **BatchNormInference-1**, **BatchNormInference-5**: `(x - mean) / sqrt(variance + epsilon) * gamma + beta`
/// for each channel. The data is input 2 in the first revision, and input 0 in the other.
fn batch_norm_inference(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(5..=5)?;
    let [data, gamma, beta] = if ctx.since() < 5 { [2, 0, 1] } else { [0, 1, 2] };
    let epsilon: f64 = ctx.attribute("epsilon")?;
    let shape = ctx.shape(data)?;
    let rank = shape.len();
    ensure!(rank >= 2, "input {data} (data) has rank {rank}, but must have rank 2 or more");
    let dt = ctx.expect_floats(data, "data")?;
    let input = ctx.input(data)?;
    let gamma = per_channel(ctx, gamma, "gamma", &shape[1], rank)?;
    let beta = per_channel(ctx, beta, "beta", &shape[1], rank)?;
    let mean = per_channel(ctx, 3, "mean", &shape[1], rank)?;
    let variance = per_channel(ctx, 4, "variance", &shape[1], rank)?;
    // These are constants as a rule, so that a factor and a summand are left.
    let epsilon = ctx.scalar("epsilon", epsilon, ctx.type_of(variance)?, rank)?;
    let variance = ctx.wire("variance_and_epsilon", add(), &[variance, epsilon])?;
    let deviation = ctx.wire("deviation", sqrt(), &[variance])?;
    let factor = ctx.wire("factor", div(), &[gamma, deviation])?;
    let shift = ctx.wire("shift", mul(), &[mean, factor])?;
    let summand = ctx.wire("summand", sub(), &[beta, shift])?;
    let input = ctx.single("single", input)?;
    let single = ctx.type_of(input)?;
    let factor = ctx.cast("factor_as_data", factor, single)?;
    let summand = ctx.cast("summand_as_data", summand, single)?;
    let output = ctx.in_type("", input, dt, |ctx, suffix, input| {
        let scaled = ctx.wire("scaled", mul(), &[input, factor])?;
        ctx.wire(suffix, add(), &[scaled, summand])
    })?;
    Ok(tvec!(output))
}

/// **GroupNormalization-12**: cuts the channels into `num_groups` groups. Each group is normalized over its
/// channels and the spatial axes. Then each channel is multiplied by its scale, and its bias is added.
fn group_normalization(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    ctx.expect_floats(0, "data")?;
    let groups: usize = ctx.attribute("num_groups")?;
    let epsilon: f64 = ctx.attribute("epsilon")?;
    let shape = ctx.shape(0)?;
    let rank = shape.len();
    ensure!(rank >= 2, "input 0 (data) has rank {rank}, but must have rank 2 or more");
    let scale = per_channel(ctx, 1, "scale", &shape[1], rank)?;
    let bias = per_channel(ctx, 2, "bias", &shape[1], rank)?;
    let in_group = divide(&shape[1], groups, "the number of channels")
        .context("attribute num_groups must divide it")?;
    let whole: TVec<TDim> = tvec!(shape[1].clone());
    let split: TVec<TDim> = tvec!(groups.to_dim(), in_group);
    let axes: Vec<usize> = (2..=rank).collect();
    let input = ctx.input(0)?;
    let output = ctx.in_single("", input, |ctx, suffix, input| {
        let to_groups = AxisOp::Reshape(1, whole.clone(), split.clone());
        let grouped = ctx.wire("groups", to_groups, &[input])?;
        let grouped =
            normalized(ctx, "normalized", grouped, &axes, Some(Epsilon::Inside(epsilon)))?;
        let output = ctx.wire("channels", AxisOp::Reshape(1, split, whole), &[grouped])?;
        let scaled = ctx.wire("scaled", mul(), &[output, scale])?;
        ctx.wire(suffix, add(), &[scaled, bias])
    })?;
    Ok(tvec!(output))
}

/// An input with one element for each channel, in single precision, with axes so that it broadcasts to data.
fn per_channel(
    ctx: &mut LayerContext,
    input: usize,
    name: &str,
    channels: &TDim,
    rank: usize,
) -> TractResult<OutletId> {
    let shape = ctx.shape_of_rank(input, name, 1)?;
    ctx.require_equal(channels, &shape[0], &format!("has one {name} for each channel"))?;
    ctx.expect_floats(input, name)?;
    let outlet = ctx.input(input)?;
    let outlet = ctx.single(&format!("{name}_single"), outlet)?;
    let axes = std::iter::once(AxisOp::Add(0)).chain((2..rank).map(AxisOp::Add));
    ctx.change_axes(&format!("{name}_per_channel"), outlet, axes)
}
