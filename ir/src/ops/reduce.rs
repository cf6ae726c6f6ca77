//! Reductions, and what divides by them.

use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec, SumPool};
use tract_core::ops::logic::{comp_eq, not};
use tract_core::ops::math::{abs, add, div, exp, ln, max, mul, pow, rsqrt, sqrt, square, sub};
use tract_core::ops::nn::{self, DataFormat, Reduce, Softmax, SoftmaxKind};

use crate::operators::reduction::{Reducer, Reduction};
use crate::registry::Registry;
use crate::translate::LayerContext;

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
    registry.add("Softmax", 1, |ctx| softmax_over(ctx, SoftmaxKind::Softmax));
    registry.add("Softmax", 8, |ctx| softmax_over(ctx, SoftmaxKind::Softmax));
    registry.add("LogSoftmax", 5, |ctx| softmax_over(ctx, SoftmaxKind::LogSoftmax));
    registry.add("MVN", 2, mvn_1);
    registry.add("MVN", 6, mvn_6);
    registry.add("NormalizeL2", 1, normalize_l2);
    registry.add("GRN", 1, grn);
    registry.add("LRN", 1, lrn);
    registry.add("BatchNormInference", 1, batch_norm_inference);
    registry.add("BatchNormInference", 5, batch_norm_inference);
    registry.add("GroupNormalization", 12, group_normalization);
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
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
/// **ReduceL2-4**, **ReduceLogicalAnd-1**, **ReduceLogicalOr-1**: `keep_dims` leaves the reduced axes with
/// size 1. No axes: the input as it is, for the norms its absolute values.
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

/// Reduces axes, of which there is one at least. They stay, of size 1.
fn reduced(
    ctx: &mut LayerContext,
    suffix: &str,
    kind: Kind,
    input: OutletId,
    axes: &[usize],
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    let (of_floats, reducer) = match kind {
        Kind::Sum => return sum(ctx, suffix, input, axes),
        Kind::Mean => return mean(ctx, suffix, input, axes),
        Kind::L1 => {
            let absolute = absolute(ctx, "abs", input)?;
            return sum(ctx, suffix, absolute, axes);
        }
        // That of integers is rounded towards zero.
        Kind::L2 => {
            let float = if dt.is_float() { dt } else { DatumType::F64 };
            let input = ctx.cast("float", input, float)?;
            return in_type(ctx, suffix, input, dt, |ctx, suffix, input| {
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
    let axes = axes.into();
    if dt.is_float() || dt == DatumType::Bool {
        return ctx.wire(suffix, Reduce { axes, reducer: of_floats }, &[input]);
    }
    ctx.wire(suffix, Reduction { axes, reducer }, &[input])
}

/// tract has no absolute values of sizes.
fn absolute(ctx: &mut LayerContext, suffix: &str, input: OutletId) -> TractResult<OutletId> {
    let input = ctx.numbers(input)?;
    ctx.wire(suffix, abs(), &[input])
}

/// The axes that the second input names.
fn axes_input(ctx: &LayerContext) -> TractResult<TVec<usize>> {
    ctx.axes("axes", &ctx.integers(1, "axes")?, ctx.rank(0)?)
}

/// The sum over axes, of which there is one at least.
pub(super) fn sum(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    axes: &[usize],
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    if dt == DatumType::F16 && !adds_in_single(ctx, input, axes)? {
        return in_single(ctx, suffix, input, |ctx, suffix, input| sum(ctx, suffix, input, axes));
    }
    // tract divides by the size of the last axis, if it is reduced alone.
    let of_tract = dt.is_float() && !may_be_empty_rows(ctx, input, axes)?;
    let axes = axes.into();
    if of_tract {
        return ctx.wire(suffix, Reduce { axes, reducer: nn::Reducer::Sum }, &[input]);
    }
    ctx.wire(suffix, Reduction { axes, reducer: Reducer::Sum }, &[input])
}

/// The mean over axes, of which there is one at least. That of integers is rounded towards zero.
fn mean(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    axes: &[usize],
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    if !dt.is_float() {
        let wide = if dt == DatumType::U64 || dt.is_tdim() { dt } else { DatumType::I64 };
        let input = ctx.cast("wide", input, wide)?;
        return in_type(ctx, suffix, input, dt, |ctx, suffix, input| {
            ctx.wire(suffix, Reduction { axes: axes.into(), reducer: Reducer::Mean }, &[input])
        });
    }
    if dt == DatumType::F16 && !adds_in_single(ctx, input, axes)? {
        return in_single(ctx, suffix, input, |ctx, suffix, input| mean(ctx, suffix, input, axes));
    }
    let shape = ctx.shape_of(input)?;
    let count: TDim = axes.iter().map(|axis| &shape[*axis]).product();
    let sum = sum(ctx, "sum", input, axes)?;
    // A factor, because tract knows the mean of squares by it. Of nothing the mean is 0.
    if let Some(count) = count.as_i64() {
        let factor = ctx.scalar("factor", 1. / count.max(1) as f64, dt, shape.len())?;
        return ctx.wire(suffix, mul(), &[sum, factor]);
    }
    let count = TDim::Max(vec![count, 1.to_dim()]).simplify();
    let count = ctx.add_const("size", tensor0(count).broadcast_into_rank(shape.len())?)?;
    let count = ctx.cast("count", count, dt)?;
    ctx.wire(suffix, div(), &[sum, count])
}

/// Whether the last axis alone is reduced, and may have size 0.
fn may_be_empty_rows(ctx: &LayerContext, input: OutletId, axes: &[usize]) -> TractResult<bool> {
    let shape = ctx.shape_of(input)?;
    let last = shape.last().filter(|_| *axes == [shape.len() - 1]);
    Ok(last.is_some_and(|dim| !dim.prove_strict_positive()))
}

/// Whether tract adds half floats as single.
fn adds_in_single(ctx: &LayerContext, input: OutletId, axes: &[usize]) -> TractResult<bool> {
    let rank = ctx.shape_of(input)?.len();
    Ok(*axes == [rank - 1] && !may_be_empty_rows(ctx, input, axes)?)
}

/// Computes with single floats instead of half floats, whose sums are soon too large or too coarse. The last
/// node has the suffix.
fn in_single(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    compute: impl FnOnce(&mut LayerContext, &str, OutletId) -> TractResult<OutletId>,
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    let input = ctx.single("single", input)?;
    in_type(ctx, suffix, input, dt, compute)
}

/// Computes something, and gives it another type. The last node has the suffix.
fn in_type(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    dt: DatumType,
    compute: impl FnOnce(&mut LayerContext, &str, OutletId) -> TractResult<OutletId>,
) -> TractResult<OutletId> {
    let same = ctx.type_of(input)? == dt;
    let output = compute(ctx, if same { suffix } else { "computed" }, input)?;
    ctx.cast(suffix, output, dt)
}

/// **Softmax-1**, **Softmax-8**, **LogSoftmax-5**: over `axis`, which is 1 by default. In the first revision
/// it does not count from the end.
fn softmax_over(ctx: &mut LayerContext, kind: SoftmaxKind) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    ctx.expect_floats(0, "data")?;
    let axis = ctx.attribute_or("axis", 1)?;
    ensure!(axis >= 0 || ctx.since() > 1, "axis is {axis}, but must be 0 or more in this revision");
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
    if shape[axis + 1..].iter().all(|dim| dim.is_one()) {
        return ctx.wire(
            suffix,
            Softmax { axes: tvec!(axis), quant_output_dt: None, kind },
            &[input],
        );
    }
    // tract goes through rows that are not contiguous element by element, and takes back a move of the axis.
    in_single(ctx, suffix, input, |ctx, suffix, input| {
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

/// What keeps a normalisation from dividing by zero.
#[derive(Debug, Clone, Copy)]
enum Epsilon {
    /// Added to the variance.
    Inside(f64),
    /// Added to its square root.
    Outside(f64),
}

/// Data less its mean over axes, divided by its deviation from that if there is an epsilon.
///
/// tract makes one operator of the division, if it is over one axis.
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

fn mvn(
    ctx: &mut LayerContext,
    axes: &[usize],
    epsilon: Option<Epsilon>,
) -> TractResult<TVec<OutletId>> {
    ctx.expect_floats(0, "data")?;
    let input = ctx.input(0)?;
    // OpenVINO does nothing then.
    if axes.is_empty() {
        return Ok(tvec!(input));
    }
    let output = in_single(ctx, "", input, |ctx, suffix, input| {
        normalized(ctx, suffix, input, axes, epsilon)
    })?;
    Ok(tvec!(output))
}

/// **MVN-1**: the mean is over all axes but the first, or but the first two unless `across_channels`, or over
/// `reduction_axes`.
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
    mvn(ctx, &axes, epsilon)
}

/// **MVN-6**: the axes are an input. `eps_mode` says whether `eps` is added below the square root or to it.
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

/// **NormalizeL2-1**: divided by the square root of the sum of the squares, to which `eps` is added, or which
/// is `eps` at least. Without axes each element is divided by itself.
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
    let output = in_single(ctx, "", input, |ctx, suffix, input| {
        divided_by_norm(ctx, suffix, input, &axes, epsilon, limit)
    })?;
    Ok(tvec!(output))
}

/// **GRN-1**: divided by the square root of the sum of the squares over channels and of `bias`.
fn grn(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    ctx.expect_floats(0, "data")?;
    let rank = ctx.rank(0)?;
    ensure!((2..=4).contains(&rank), "input 0 has rank {rank}, but must have 2 to 4");
    let bias: f64 = ctx.attribute("bias")?;
    let input = ctx.input(0)?;
    let output = in_single(ctx, "", input, |ctx, suffix, input| {
        divided_by_norm(ctx, suffix, input, &[1], bias, false)
    })?;
    Ok(tvec!(output))
}

/// Divided by the square root of the sum of the squares and of `epsilon`, or of the larger of both if
/// `limit`.
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

/// The most elements that the window of an LRN may have, where sizes are not known.
const MOST_WINDOW: usize = 1 << 16;

/// **LRN-1**: `x / (bias + alpha * s / size^axes)^beta`, where `s` is the sum of the squares in a window along
/// each of the axes, which reaches `(size - 1) / 2` elements to both sides. Outside are zeros.
fn lrn(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    ctx.expect_floats(0, "data")?;
    let (alpha, beta): (f64, f64) = (ctx.attribute("alpha")?, ctx.attribute("beta")?);
    let (bias, size): (f64, usize) = (ctx.attribute("bias")?, ctx.attribute("size")?);
    ensure!(size > 0, "size is 0, but must be 1 or more");
    let axes = axes_input(ctx)?;
    let shape = ctx.shape(0)?;
    let alpha = alpha / (size as f64).powi(axes.len() as i32);
    // The window, as far as the input reaches.
    let (mut kernel, mut sides) = (tvec!(), tvec!());
    for (axis, dim) in shape.iter().enumerate() {
        let reach = dim.to_usize().map_or(usize::MAX, |dim| dim.saturating_sub(1));
        let side = if axes.contains(&axis) { ((size - 1) / 2).min(reach) } else { 0 };
        sides.push(side);
        kernel.push(2 * side + 1);
    }
    let window = kernel.iter().try_fold(1usize, |window, size| window.checked_mul(*size));
    ensure!(
        window.is_some_and(|window| window <= MOST_WINDOW),
        "size is {size}, which makes windows of more than {MOST_WINDOW} elements"
    );
    let input = ctx.input(0)?;
    let output = in_single(ctx, "", input, |ctx, suffix, input| {
        let dt = ctx.type_of(input)?;
        let rank = shape.len();
        let squares = ctx.wire("squares", square(), &[input])?;
        // One batch of one channel: the input's axes are all those of space.
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

/// An input with one element for each channel, as single floats, for data of a rank.
fn per_channel(
    ctx: &mut LayerContext,
    input: usize,
    name: &str,
    channels: &TDim,
    rank: usize,
) -> TractResult<OutletId> {
    let shape = ctx.shape(input)?;
    ensure!(shape.len() == 1, "input {input} ({name}) has rank {}, but must have 1", shape.len());
    ctx.equal(channels, &shape[0], &format!("has one {name} for each channel"))?;
    ctx.expect_floats(input, name)?;
    let outlet = ctx.input(input)?;
    let outlet = ctx.single(&format!("{name}_single"), outlet)?;
    let axes = std::iter::once(AxisOp::Add(0)).chain((2..rank).map(AxisOp::Add));
    ctx.change_axes(&format!("{name}_per_channel"), outlet, axes)
}

/// **BatchNormInference-1**, **-5**: `(x - mean) / sqrt(variance + epsilon) * gamma + beta` for each channel.
/// The data are input 2 in the first revision, input 0 since.
fn batch_norm_inference(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(5..=5)?;
    let [data, gamma, beta] = if ctx.since() < 5 { [2, 0, 1] } else { [0, 1, 2] };
    let epsilon: f64 = ctx.attribute("epsilon")?;
    let shape = ctx.shape(data)?;
    let rank = shape.len();
    ensure!(rank >= 2, "input {data} has rank {rank}, but must have 2 or more");
    let dt = ctx.expect_floats(data, "data")?;
    let input = ctx.input(data)?;
    let gamma = per_channel(ctx, gamma, "gamma", &shape[1], rank)?;
    let beta = per_channel(ctx, beta, "beta", &shape[1], rank)?;
    let mean = per_channel(ctx, 3, "mean", &shape[1], rank)?;
    let variance = per_channel(ctx, 4, "variance", &shape[1], rank)?;
    // Constants, as a rule: a factor and a summand are left.
    let epsilon = ctx.scalar("epsilon", epsilon, ctx.type_of(variance)?, rank)?;
    let variance = ctx.wire("variance_and_epsilon", add(), &[variance, epsilon])?;
    let deviation = ctx.wire("deviation", sqrt(), &[variance])?;
    let factor = ctx.wire("factor", div(), &[gamma, deviation])?;
    let shift = ctx.wire("shift", mul(), &[mean, factor])?;
    let summand = ctx.wire("summand", sub(), &[beta, shift])?;
    let factor = ctx.cast("factor_as_data", factor, dt)?;
    let summand = ctx.cast("summand_as_data", summand, dt)?;
    let scaled = ctx.wire("scaled", mul(), &[input, factor])?;
    ctx.finish(add(), &[scaled, summand])
}

/// **GroupNormalization-12**: the channels in `num_groups` groups; each is normalised over its channels and
/// over space, then scaled and shifted by channel.
fn group_normalization(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    ctx.expect_floats(0, "data")?;
    let groups: usize = ctx.attribute("num_groups")?;
    let epsilon: f64 = ctx.attribute("epsilon")?;
    let shape = ctx.shape(0)?;
    let rank = shape.len();
    ensure!(rank >= 2, "input 0 has rank {rank}, but must have 2 or more");
    let scale = per_channel(ctx, 1, "scale", &shape[1], rank)?;
    let bias = per_channel(ctx, 2, "bias", &shape[1], rank)?;
    let channels = shape[1].to_usize().with_context(|| {
        format!("the number of channels is {}: its size must be known", shape[1])
    })?;
    ensure!(
        groups > 0 && channels.is_multiple_of(groups),
        "num_groups is {groups}, but must divide {channels} channels"
    );
    let whole: TVec<TDim> = tvec!(channels.to_dim());
    let split: TVec<TDim> = tvec!(groups.to_dim(), (channels / groups).to_dim());
    let axes: Vec<usize> = (2..=rank).collect();
    let input = ctx.input(0)?;
    let output = in_single(ctx, "", input, |ctx, suffix, input| {
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
