//! Activation functions.

use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::{logic, math, nn};
use tract_openvino_kernels::checks::listed;
use tract_openvino_kernels::gelu::gelu_tanh;

use super::elementwise::{elementwise, number_type, rounded, unannotated, unary};
use crate::context::LayerContext;
use crate::operators::activation::{mish, soft_plus};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    // tract's kernels of these two, and that of Swish, give a number for NaN.
    registry.add("Sigmoid", 1, sigmoid);
    registry.add("Tanh", 1, |ctx| rounded(ctx, math::tanh()));
    registry.add("Relu", 1, relu);
    registry.add("PRelu", 1, prelu);
    registry.add("Elu", 1, elu);
    registry.add("Selu", 1, selu);
    registry.add("Clamp", 1, clamp);
    registry.add("Gelu", 2, gelu);
    registry.add("Gelu", 7, gelu);
    registry.add("Swish", 4, swish);
    registry.add("HSwish", 4, |ctx| rounded(ctx, nn::hard_swish()));
    registry.add("HSigmoid", 5, hsigmoid);
    registry.add("HardSigmoid", 1, hard_sigmoid);
    registry.add("Mish", 4, |ctx| unary(ctx, mish()));
    registry.add("SoftPlus", 4, |ctx| unary(ctx, soft_plus()));
    registry.add("SoftSign", 9, softsign);
}

/// Wires an operator of a tensor and a number.
fn with_number(
    ctx: &mut LayerContext,
    suffix: &str,
    op: TypedBinOp,
    input: OutletId,
    number: f64,
) -> TractResult<OutletId> {
    let fact = ctx.model.outlet_fact(input)?;
    let (dt, rank) = (fact.datum_type, fact.rank());
    let number = ctx.scalar("number", number, dt, rank)?;
    ctx.wire(suffix, op, &[input, number])
}

/// All inputs, which must have floats of one type, with one rank.
fn float_inputs(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_floats(0, "data")?;
    let inputs = ctx.all_inputs()?;
    ctx.same_type(&inputs)?;
    ctx.broadcast(&inputs)
}

/// The one input, which must have floats.
fn float_input(ctx: &mut LayerContext) -> TractResult<OutletId> {
    ctx.expect_inputs(1..=1)?;
    ctx.expect_floats(0, "data")?;
    ctx.input(0)
}

/// The one input, which must have numbers. Sizes become integers.
fn number_input(ctx: &mut LayerContext) -> TractResult<OutletId> {
    ctx.expect_inputs(1..=1)?;
    let input = ctx.number_input(0)?;
    number_type(ctx, input)?;
    Ok(input)
}

// Of NaN, Relu, HSigmoid and HardSigmoid give what is said here, as in OpenVINO. But where tract makes one of them a part of the product
// before it, NaN stays.

/// **Relu-1**: `max(x, 0)`, of integers too. It is 0 of NaN.
fn relu(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let input = number_input(ctx)?;
    Ok(tvec!(with_number(ctx, "", math::max(), input, 0.)?))
}

/// `x` where it is positive or NaN, and `below` elsewhere.
fn or_below(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    below: OutletId,
) -> TractResult<OutletId> {
    let is_below = TypedBinOp(logic::comp_lt(), None);
    let is_below = with_number(ctx, "is_below", is_below, input, 0.)?;
    ctx.wire(suffix, logic::Iff, &[is_below, below, input])
}

/// **PRelu-1**: `x` where it is positive, and `slope * x` elsewhere. A slope of rank 1 belongs to axis 1 if
/// it is as long. If one of the two sizes is open they are taken to be equal, unless there is one slope for
/// all. Others are broadcast by NumPy's rules.
fn prelu(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    ctx.expect_floats(0, "data")?;
    let (input, mut slope) = (ctx.input(0)?, ctx.input(1)?);
    ctx.same_type(&[input, slope])?;
    let konst = ctx.model.outlet_fact(slope)?.konst.clone();
    if let Some(one) = konst.filter(|slope| slope.len() == 1) {
        let alpha = one.cast_to::<f32>()?.try_as_plain_ram()?.as_slice::<f32>()?[0];
        return Ok(tvec!(elementwise(ctx, "", nn::leaky_relu(alpha), input)?));
    }
    let shape = ctx.shape_of(input)?;
    if let ([len], Some(channels)) = (&*ctx.shape_of(slope)?, shape.get(1)) {
        let open = channels.as_i64().is_none() || len.as_i64().is_none();
        if channels == len || (open && !len.is_one()) {
            ctx.require_equal(channels, len, "has a slope for each channel")?;
            let after = std::iter::repeat_n(AxisOp::Add(1), shape.len() - 2);
            slope = ctx.change_axes("slope", slope, after)?;
        }
    }
    // The output has the shape of the data.
    for dim in ctx.shape_of(slope)?.iter().rev().skip(shape.len()) {
        ctx.require_equal(dim, &1.to_dim(), "has one slope for all of its data")?;
        slope = ctx.wire("one", AxisOp::Rm(0), &[slope])?;
    }
    let operands = ctx.broadcast(&[input, slope])?;
    let input = unannotated(ctx, operands[0])?;
    let scaled = ctx.wire("scaled", math::mul(), &[input, operands[1]])?;
    Ok(tvec!(or_below(ctx, "", input, scaled)?))
}

/// `x` where it is positive, and `alpha * (exp(x) - 1)` elsewhere.
fn wire_elu(
    ctx: &mut LayerContext,
    suffix: &str,
    input: OutletId,
    alpha: OutletId,
) -> TractResult<OutletId> {
    let input = unannotated(ctx, input)?;
    // For large numbers the exponential is infinite, and infinity times 0 is NaN.
    let negative = with_number(ctx, "negative", math::min(), input, 0.)?;
    let exp = elementwise(ctx, "exp", math::exp(), negative)?;
    let below = with_number(ctx, "minus_1", math::sub(), exp, 1.)?;
    let scaled = ctx.wire("scaled", math::mul(), &[below, alpha])?;
    or_below(ctx, suffix, input, scaled)
}

/// **Elu-1**: `x` where it is positive, and `alpha * (exp(x) - 1)` elsewhere. `alpha` is an attribute.
fn elu(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let input = float_input(ctx)?;
    let alpha = ctx.attribute("alpha")?;
    // What is left of an exponential near 1 has few digits in half precision.
    let output = ctx.in_single("", input, |ctx, suffix, input| {
        let (dt, rank) = (ctx.type_of(input)?, ctx.rank(0)?);
        let alpha = ctx.scalar("alpha", alpha, dt, rank)?;
        wire_elu(ctx, suffix, input, alpha)
    })?;
    Ok(tvec!(output))
}

/// **Selu-1**: `lambda * elu(x)`. Inputs: data, alpha, lambda.
///
/// The output has the shape of the data, also of a scalar, although alpha and lambda have an axis.
fn selu(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    ctx.expect_floats(0, "data")?;
    let mut inputs = ctx.all_inputs()?;
    ctx.same_type(&inputs)?;
    if ctx.rank(0)? == 0 {
        for (factor, name) in inputs[1..].iter_mut().zip(["alpha", "lambda"]) {
            let shape = ctx.shape_of(*factor)?;
            ensure!(
                shape.iter().all(TDim::is_one),
                "{name} has shape {shape}, but must be one number",
                shape = listed(&shape)
            );
            *factor = ctx.change_axes(name, *factor, vec![AxisOp::Rm(0); shape.len()])?;
        }
    }
    let inputs = ctx.broadcast(&inputs)?;
    let factors = [ctx.single("alpha", inputs[1])?, ctx.single("lambda", inputs[2])?];
    let output = ctx.in_single("", inputs[0], |ctx, suffix, input| {
        let elu = wire_elu(ctx, "elu", input, factors[0])?;
        ctx.wire(suffix, math::mul(), &[elu, factors[1]])
    })?;
    Ok(tvec!(output))
}

/// **Clamp-1**: limits elements to `[min, max]`. For integers, min is rounded up and max down, and all are the latter if no integer
/// is between them.
fn clamp(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let input = number_input(ctx)?;
    let (mut min, mut max): (f64, f64) = (ctx.attribute("min")?, ctx.attribute("max")?);
    ensure!(min <= max, "attribute min is {min}, but must not be above max, which is {max}");
    if ctx.type_of(input)?.is_integer() {
        (min, max) = (min.ceil(), max.floor());
    }
    let above = with_number(ctx, "min", math::max(), input, min)?;
    Ok(tvec!(with_number(ctx, "", math::min(), above, max)?))
}

/// **Gelu-2**, **Gelu-7**: `approximation_mode` is `ERF` (the default, and all that revision 2 has) or
/// `TANH`. tract's operator of the second is not 0 for large negative numbers.
fn gelu(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let modes = [("erf", false), ("tanh", true)];
    let approximate = ctx.attribute_among("approximation_mode", &modes, Some(false))?;
    let is_approximate = approximate && ctx.since() >= 7;
    unary(ctx, if is_approximate { gelu_tanh() } else { nn::gelu_exact::gelu_exact() })
}

/// **Sigmoid-1**: `1 / (1 + exp(-x))`. tract's function of f16 is off by 0.001 for large numbers on processors without f16.
fn sigmoid(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let input = ctx.input(0)?;
    if ctx.type_of(input)? != DatumType::F16 {
        return rounded(ctx, nn::sigmoid());
    }
    let output = ctx.in_single("", input, |ctx, suffix, input| {
        elementwise(ctx, suffix, nn::sigmoid(), input)
    })?;
    Ok(tvec!(output))
}

/// **Swish-4**: `x * sigmoid(beta * x)`. The optional second input is beta, which is 1 without it.
fn swish(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=2)?;
    let inputs = float_inputs(ctx)?;
    let is_one = |beta: &OutletId| {
        let konst = &ctx.model.outlet_fact(*beta)?.konst;
        let beta = konst.as_ref().filter(|beta| beta.len() == 1);
        beta.map_or(Ok(false), |beta| Ok(beta.cast_to_scalar::<f32>()? == 1.))
    };
    let beta = inputs.get(1).copied();
    if beta.as_ref().map_or(TractResult::Ok(true), is_one)? {
        return Ok(tvec!(elementwise(ctx, "", nn::silu::silu(), inputs[0])?));
    }
    let beta = ctx.single("single_beta", inputs[1])?;
    let output = ctx.in_single("", inputs[0], |ctx, suffix, input| {
        let scaled = ctx.wire("scaled", math::mul(), &[input, beta])?;
        let sigmoid = elementwise(ctx, "sigmoid", nn::sigmoid(), scaled)?;
        ctx.wire(suffix, math::mul(), &[input, sigmoid])
    })?;
    Ok(tvec!(output))
}

/// **HSigmoid-5**: `min(max(x + 3, 0), 6) / 6`, which is 0 of NaN.
fn hsigmoid(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let input = float_input(ctx)?;
    let output = ctx.in_single("", input, |ctx, suffix, input| {
        let scaled = with_number(ctx, "scaled", math::mul(), input, 1. / 6.)?;
        let moved = with_number(ctx, "moved", math::add(), scaled, 0.5)?;
        let above = with_number(ctx, "min", math::max(), moved, 0.)?;
        with_number(ctx, suffix, math::min(), above, 1.)
    })?;
    Ok(tvec!(output))
}

/// **HardSigmoid-1**: `max(min(alpha * x + beta, 1), 0)`, which is 1 of NaN. Inputs: data, alpha, beta.
fn hard_sigmoid(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let inputs = float_inputs(ctx)?;
    let [alpha, beta] = [ctx.single("alpha", inputs[1])?, ctx.single("beta", inputs[2])?];
    let output = ctx.in_single("", inputs[0], |ctx, suffix, input| {
        let scaled = ctx.wire("scaled", math::mul(), &[input, alpha])?;
        let moved = ctx.wire("moved", math::add(), &[scaled, beta])?;
        let below = with_number(ctx, "max", math::min(), moved, 1.)?;
        with_number(ctx, suffix, math::max(), below, 0.)
    })?;
    Ok(tvec!(output))
}

/// **SoftSign-9**: `x / (1 + abs(x))`.
fn softsign(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let input = float_input(ctx)?;
    let output = ctx.in_single("", input, |ctx, suffix, input| {
        let size = ctx.wire("abs", math::abs(), &[input])?;
        let divisor = with_number(ctx, "plus_1", math::add(), size, 1.)?;
        ctx.wire(suffix, math::div(), &[input, divisor])
    })?;
    Ok(tvec!(output))
}
