//! Operations of two tensors or one, element by element: arithmetic, comparisons, logic, bits.

use tract_core::internal::*;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::{logic, math};
use tract_openvino_kernels::checks::listed;

use super::sizes::Relation;
use crate::context::LayerContext;
use crate::operators::activation;
use crate::operators::arithmetic::Arithmetic;
use crate::registry::Registry;
use crate::workarounds::equal_shape::EqualShape;
use crate::workarounds::opaque::Opaque;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Add", 1, |ctx| sum_or_product(ctx, math::add(), Arithmetic::Add));
    registry.add("Subtract", 1, |ctx| sum_or_product(ctx, math::sub(), Arithmetic::Subtract));
    registry.add("Multiply", 1, |ctx| sum_or_product(ctx, math::mul(), Arithmetic::Multiply));
    registry.add("Divide", 1, divide);
    registry.add("Power", 1, power);
    registry.add("Mod", 1, |ctx| arithmetic(ctx, Arithmetic::Mod.op(), Arithmetic::Mod.op()));
    registry.add("FloorMod", 1, |ctx| {
        arithmetic(ctx, Arithmetic::FloorMod.op(), Arithmetic::FloorMod.op())
    });
    registry.add("Maximum", 1, |ctx| arithmetic(ctx, math::max(), math::max()));
    registry.add("Minimum", 1, |ctx| arithmetic(ctx, math::min(), math::min()));
    registry.add("SquaredDifference", 1, squared_difference);

    registry.add("Equal", 1, |ctx| compare(ctx, Relation::Equal));
    registry.add("NotEqual", 1, |ctx| compare(ctx, Relation::NotEqual));
    registry.add("Less", 1, |ctx| compare(ctx, Relation::Less));
    registry.add("LessEqual", 1, |ctx| compare(ctx, Relation::LessEqual));
    registry.add("Greater", 1, |ctx| compare(ctx, Relation::Greater));
    registry.add("GreaterEqual", 1, |ctx| compare(ctx, Relation::GreaterEqual));

    registry.add("LogicalAnd", 1, |ctx| logical(ctx, logic::and()));
    registry.add("LogicalOr", 1, |ctx| logical(ctx, logic::or()));
    registry.add("LogicalXor", 1, |ctx| logical(ctx, logic::xor()));
    registry.add("Xor", 1, |ctx| logical(ctx, logic::xor()));
    registry.add("LogicalNot", 1, |ctx| unary(ctx, logic::not()));

    registry.add("BitwiseAnd", 13, |ctx| bitwise(ctx, logic::bitand()));
    registry.add("BitwiseOr", 13, |ctx| bitwise(ctx, logic::bitor()));
    registry.add("BitwiseXor", 13, |ctx| bitwise(ctx, logic::bitxor()));
    registry.add("BitwiseNot", 13, |ctx| unary(ctx, logic::bitnot()));
    registry.add("BitwiseLeftShift", 15, |ctx| shift(ctx, Arithmetic::ShiftLeft));
    registry.add("BitwiseRightShift", 15, |ctx| shift(ctx, Arithmetic::ShiftRight));

    registry.add("Abs", 1, |ctx| unary(ctx, math::abs()));
    registry.add("Negative", 1, |ctx| unary(ctx, math::neg()));
    registry.add("Sign", 1, |ctx| unary(ctx, math::sign()));
    registry.add("Floor", 1, |ctx| unary(ctx, math::floor()));
    registry.add("Ceiling", 1, |ctx| unary(ctx, math::ceil()));
    registry.add("Round", 5, round);
    registry.add("Exp", 1, |ctx| rounded(ctx, math::exp()));
    registry.add("Log", 1, |ctx| rounded(ctx, math::ln()));
    registry.add("Sqrt", 1, |ctx| rounded(ctx, math::sqrt()));
    registry.add("Erf", 1, |ctx| rounded(ctx, math::erf()));
    registry.add("ErfInv", 17, erf_inv);
    registry.add("Sin", 1, |ctx| rounded(ctx, math::sin()));
    registry.add("Cos", 1, |ctx| rounded(ctx, math::cos()));
    registry.add("Tan", 1, |ctx| rounded(ctx, math::tan()));
    registry.add("Asin", 1, |ctx| rounded(ctx, math::asin()));
    registry.add("Acos", 1, |ctx| rounded(ctx, math::acos()));
    registry.add("Atan", 1, |ctx| rounded(ctx, math::atan()));
    registry.add("Sinh", 1, |ctx| rounded(ctx, math::sinh()));
    registry.add("Cosh", 1, |ctx| rounded(ctx, math::cosh()));
    registry.add("Asinh", 4, |ctx| rounded(ctx, math::asinh()));
    registry.add("Acosh", 4, |ctx| rounded(ctx, math::acosh()));
    registry.add("Atanh", 4, |ctx| rounded(ctx, math::atanh()));
    registry.add("IsNaN", 10, |ctx| unary(ctx, math::is_nan()));
    registry.add("IsInf", 10, is_inf);
    registry.add("IsFinite", 10, is_finite);
}

// Operands.

/// **auto_broadcast**: `numpy` (the default); `none`, the shapes must be equal; `pdpd`, the axes of the
/// second input are those of the first from `auto_broadcast_axis` on. That is 0 by default; -1 means the last
/// axes.
#[derive(Clone, Copy)]
enum AutoBroadcast {
    Numpy,
    Pdpd,
    None,
}

/// Gives outlets one rank, and dimensions that fit, by the attribute `auto_broadcast`. `pdpd` broadcasts the
/// others to the first.
pub(super) fn aligned(ctx: &mut LayerContext, outlets: &[OutletId]) -> TractResult<TVec<OutletId>> {
    let words = [
        ("numpy", AutoBroadcast::Numpy),
        ("pdpd", AutoBroadcast::Pdpd),
        ("none", AutoBroadcast::None),
    ];
    let mode = ctx.attribute_among("auto_broadcast", &words, Some(AutoBroadcast::Numpy))?;
    let to = ctx.shape_of(outlets[0])?;
    let mut aligned: TVec<OutletId> = outlets.into();
    for outlet in &mut aligned[1..] {
        let shape = ctx.shape_of(*outlet)?;
        match mode {
            AutoBroadcast::Numpy => (),
            AutoBroadcast::None => {
                ctx.equal_shapes(&to, &shape, None, "has auto_broadcast none")?;
            }
            AutoBroadcast::Pdpd => {
                // OpenVINO writes this attribute with the first one's name in front.
                let axis = match ctx.attribute_opt("auto_broadcast.auto_broadcast_axis")? {
                    Some(axis) => axis,
                    None => ctx.attribute_or("auto_broadcast_axis", 0i64)?,
                };
                let most = to.len().checked_sub(shape.len()).with_context(|| {
                    format!(
                        "auto_broadcast is pdpd, but {shape} has a higher rank than {to}",
                        shape = listed(&shape),
                        to = listed(&to)
                    )
                })?;
                let first = if axis == -1 { Some(most) } else { usize::try_from(axis).ok() };
                let first = first.filter(|first| *first <= most).with_context(|| {
                    format!("auto_broadcast_axis is {axis}, but must be in [-1, {most}]")
                })?;
                let end = AxisOp::Add(shape.len());
                let added = std::iter::repeat_n(end, most - first);
                *outlet = ctx.change_axes("align", *outlet, added)?;
            }
        }
    }
    ctx.broadcast(&aligned)
}

/// Two inputs with one rank and one type.
fn operands(ctx: &mut LayerContext) -> TractResult<[OutletId; 2]> {
    ctx.expect_inputs(2..=2)?;
    let mut operands = [ctx.input(0)?, ctx.input(1)?];
    let types = [ctx.type_of(operands[0])?, ctx.type_of(operands[1])?];
    if types.iter().any(|dt| dt.is_tdim()) {
        // Sizes are numbers when the model runs. Both may be sizes; the output may be a boolean.
        let integer = |dt: &DatumType| dt.is_integer();
        let dt = types.into_iter().find(integer).or(ctx.output_type(0).filter(integer));
        for operand in &mut operands {
            *operand = ctx.cast("sizes", *operand, dt.unwrap_or(DatumType::I64))?;
        }
    } else {
        ctx.same_type(&operands)?;
    }
    let aligned = aligned(ctx, &operands)?;
    Ok([unannotated(ctx, aligned[0])?, unannotated(ctx, aligned[1])?])
}

/// Hides from tract what it knows of an outlet, where that leads it astray: see [`Opaque::is_needed_for`].
pub(super) fn unannotated(ctx: &mut LayerContext, outlet: OutletId) -> TractResult<OutletId> {
    match Opaque::is_needed_for(ctx.model.outlet_fact(outlet)?) {
        true => ctx.wire("opaque", Opaque, &[outlet]),
        false => Ok(outlet),
    }
}

// Arithmetic.

/// **Power-1**, **Mod-1**, **FloorMod-1**, **Maximum-1**, **Minimum-1**: with an operator for floats and one
/// for integers. The remainder of Mod has the sign of the dividend, that of FloorMod the sign of the divisor.
fn arithmetic(
    ctx: &mut LayerContext,
    floats: TypedBinOp,
    integers: TypedBinOp,
) -> TractResult<TVec<OutletId>> {
    let operands = operands(ctx)?;
    let op = if number_type(ctx, operands[0])?.is_float() { floats } else { integers };
    ctx.finish(op, &operands)
}

/// **Power-1**: tract takes an exponent of equal numbers for a number, and forgets that its shape repeats the base. It would also
/// leave out its own operator that repeats.
fn power(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let [mut base, exponent] = operands(ctx)?;
    if !number_type(ctx, base)?.is_float() {
        return ctx.finish(Arithmetic::Power.op(), &[base, exponent]);
    }
    let shapes = [ctx.shape_of(base)?, ctx.shape_of(exponent)?];
    let shape = ctx.broadcast_shapes(&shapes)?;
    if shape != shapes[0] {
        base = ctx.wire("base", EqualShape::or_broadcast(shape), &[base])?;
    }
    ctx.finish(math::pow(), &[base, exponent])
}

/// The element type of an outlet that must have numbers.
pub(super) fn number_type(ctx: &LayerContext, outlet: OutletId) -> TractResult<DatumType> {
    let dt = ctx.type_of(outlet)?;
    ensure!(dt.is_float() || dt.is_integer(), "elements of type {dt:?} are not supported");
    Ok(dt)
}

/// **Add-1**, **Subtract-1**, **Multiply-1**.
///
/// For integers there are two operators. tract's own are used where one operand is a constant, as where a
/// network computes indices, because they can be saved. Elsewhere it is [`Arithmetic`], which says what is wrong with tract's own.
fn sum_or_product(
    ctx: &mut LayerContext,
    tracts: TypedBinOp,
    own: Arithmetic,
) -> TractResult<TVec<OutletId>> {
    let mut dt = DatumType::I64;
    let mut constants = 0;
    for input in 0..ctx.input_count() {
        let outlet = ctx.input(input)?;
        let fact = ctx.model.outlet_fact(outlet)?;
        constants += usize::from(fact.konst.is_some());
        if !fact.datum_type.is_tdim() {
            dt = fact.datum_type;
        }
    }
    let tracts_do = matches!(dt, DatumType::I32 | DatumType::I64) && constants == 1;
    let integers = if tracts_do { tracts.clone() } else { own.op() };
    arithmetic(ctx, tracts, integers)
}

/// **Divide-1**: the quotient of integers is rounded down, as in Python, if `m_pythondiv` is true (the
/// default), and towards zero if it is false.
fn divide(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let integers = match ctx.attribute_or("m_pythondiv", true)? {
        true => Arithmetic::FloorDivide,
        false => Arithmetic::Divide,
    };
    // tract multiplies by the reciprocal, which leaves half precision sooner than the quotient.
    if [0, 1].map(|input| ctx.datum_type(input).ok()) == [Some(DatumType::F16); 2] {
        let operands = operands(ctx)?;
        let divisor = ctx.single("divisor", operands[1])?;
        let output = ctx.in_single("", operands[0], |ctx, suffix, dividend| {
            ctx.wire(suffix, math::div(), &[dividend, divisor])
        })?;
        return Ok(tvec!(output));
    }
    arithmetic(ctx, math::div(), integers.op())
}

/// **SquaredDifference-1**: the square of the difference.
fn squared_difference(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let operands = operands(ctx)?;
    if number_type(ctx, operands[0])?.is_float() {
        // A difference that is rounded has a square of another size.
        let other = ctx.single("other", operands[1])?;
        let output = ctx.in_single("", operands[0], |ctx, suffix, one| {
            let difference = ctx.wire("difference", math::sub(), &[one, other])?;
            ctx.wire(suffix, math::square(), &[difference])
        })?;
        return Ok(tvec!(output));
    }
    let difference = ctx.wire("difference", Arithmetic::Subtract.op(), &operands)?;
    ctx.finish(Arithmetic::Multiply.op(), &[difference, difference])
}

// Comparisons, logic, bits.

/// **Equal-1**, **NotEqual-1**, **Less-1**, **LessEqual-1**, **Greater-1**, **GreaterEqual-1**: a boolean for
/// each pair of elements.
fn compare(ctx: &mut LayerContext, relation: Relation) -> TractResult<TVec<OutletId>> {
    let [mut a, mut b] = operands(ctx)?;
    // tract does not compare booleans.
    if ctx.type_of(a)? == DatumType::Bool {
        a = ctx.cast("as_u8", a, DatumType::U8)?;
        b = ctx.cast("as_u8", b, DatumType::U8)?;
    }
    let (op, operands) = match relation {
        Relation::Equal => (logic::comp_eq(), [a, b]),
        Relation::NotEqual => (logic::comp_ne(), [a, b]),
        Relation::Less => (logic::comp_lt(), [a, b]),
        Relation::LessEqual => (logic::comp_lte(), [a, b]),
        // For elements that come from ranges, tract's own Greater remembers what is true of GreaterEqual.
        Relation::Greater => (logic::comp_lt(), [b, a]),
        Relation::GreaterEqual => (logic::comp_lte(), [b, a]),
    };
    ctx.finish(TypedBinOp(op, None), &operands)
}

/// **LogicalAnd-1**, **LogicalOr-1**, **LogicalXor-1**, **Xor-1**: of booleans.
fn logical(ctx: &mut LayerContext, op: TypedBinOp) -> TractResult<TVec<OutletId>> {
    let operands = operands(ctx)?;
    let dt = ctx.type_of(operands[0])?;
    ensure!(dt == DatumType::Bool, "the inputs are of type {dt:?}, but must be booleans");
    ctx.finish(op, &operands)
}

/// **BitwiseAnd-13**, **BitwiseOr-13**, **BitwiseXor-13**: of integers, and of booleans too.
fn bitwise(ctx: &mut LayerContext, op: TypedBinOp) -> TractResult<TVec<OutletId>> {
    let operands = operands(ctx)?;
    let dt = ctx.type_of(operands[0])?;
    ensure!(
        dt == DatumType::Bool || dt.is_integer(),
        "the inputs are of type {dt:?}, but must be integers or booleans"
    );
    ctx.finish(op, &operands)
}

/// **BitwiseLeftShift-15**, **BitwiseRightShift-15**: of integers. The second input has the numbers of bits.
fn shift(ctx: &mut LayerContext, operation: Arithmetic) -> TractResult<TVec<OutletId>> {
    let operands = operands(ctx)?;
    let dt = ctx.type_of(operands[0])?;
    ensure!(dt.is_integer(), "the inputs are of type {dt:?}, but must be integers");
    ctx.finish(operation.op(), &operands)
}

// One tensor.

/// **LogicalNot-1**, **BitwiseNot-13**, **Abs-1**, **Negative-1**, **Sign-1**, **Floor-1**, **Ceiling-1**,
/// **Exp-1**, **Log-1**, **Sqrt-1**, **Erf-1**, **Sin-1**, **Cos-1**, **Tan-1**, **Asin-1**, **Acos-1**,
/// **Atan-1**, **Sinh-1**, **Cosh-1**, **Asinh-4**, **Acosh-4**, **Atanh-4**, **IsNaN-10**,
/// **Tanh-1**, **HSwish-4**, **Mish-4**, **SoftPlus-4**: one operator, element by element.
pub(super) fn unary(ctx: &mut LayerContext, op: ElementWiseOp) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let input = ctx.input(0)?;
    Ok(tvec!(elementwise(ctx, "", op, input)?))
}

/// An operation of one tensor whose results are fractions. Those of integers are rounded. The specification does not say
/// how. The only half is Sigmoid of 0, which becomes 0, as in OpenVINO.
pub(super) fn rounded(ctx: &mut LayerContext, op: ElementWiseOp) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let input = ctx.number_input(0)?;
    let dt = ctx.type_of(input)?;
    if !dt.is_integer() {
        return Ok(tvec!(elementwise(ctx, "", op, input)?));
    }
    let float = if takes(&op, DatumType::F64) { DatumType::F64 } else { DatumType::F32 };
    let input = ctx.cast("as_float", input, float)?;
    let fractions = elementwise(ctx, "fractions", op, input)?;
    // tract's rounding to even numbers does not take f64.
    let round = match float {
        DatumType::F32 => math::round_half_to_even(),
        _ => math::round(),
    };
    let rounded = ctx.wire("rounded", round, &[fractions])?;
    Ok(tvec!(ctx.cast("", rounded, dt)?))
}

/// Wires an operator of tract. If it does not take the element type, sizes are computed as integers, and f64
/// as f32, as OpenVINO does on a CPU.
pub(super) fn elementwise(
    ctx: &mut LayerContext,
    suffix: &str,
    op: ElementWiseOp,
    input: OutletId,
) -> TractResult<OutletId> {
    let dt = ctx.type_of(input)?;
    if takes(&op, dt) {
        return ctx.wire(suffix, op, &[input]);
    }
    if dt.is_tdim() {
        let input = ctx.numbers(input)?;
        return elementwise(ctx, suffix, op, input);
    }
    ensure!(
        dt == DatumType::F64 && takes(&op, DatumType::F32),
        "elements of type {dt:?} are not supported"
    );
    let input = ctx.cast("as_f32", input, DatumType::F32)?;
    let output = ctx.wire("in_f32", op, &[input])?;
    match ctx.type_of(output)? {
        DatumType::F32 => ctx.cast(suffix, output, dt),
        _ => Ok(output),
    }
}

/// Whether an operator takes an element type. tract wires nodes of other types, too, and fails when they run.
fn takes(op: &ElementWiseOp, dt: DatumType) -> bool {
    let Ok(mut empty) = Tensor::zero_dt(dt, &[0]) else { return false };
    op.0.output_type(dt).is_some() || op.0.eval_in_place(&mut empty, None).is_ok()
}

/// **Round-5**: rounds to whole numbers. `mode` says where halves go: to the even number (the default) or
/// away from zero.
fn round(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let modes = [("half_to_even", true), ("half_away_from_zero", false)];
    let to_even = ctx.attribute_among("mode", &modes, Some(true))?;
    let input = ctx.input(0)?;
    let is_float = ctx.type_of(input)?.is_float();
    unary(ctx, if to_even && is_float { math::round_half_to_even() } else { math::round() })
}

/// **ErfInv-17**: the number whose error function is an element: infinite for -1 and 1, NaN for what is beyond them.
fn erf_inv(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    ctx.expect_floats(0, "arg")?;
    unary(ctx, activation::erf_inv())
}

/// **IsInf-10**: `detect_negative` and `detect_positive` say which infinities count. The default is both.
fn is_inf(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let negative = ctx.attribute_or("detect_negative", true)?;
    let positive = ctx.attribute_or("detect_positive", true)?;
    unary(ctx, math::is_inf(positive, negative))
}

/// **IsFinite-10**: whether an element is neither infinite nor NaN. Its absolute value is less than infinity
/// then.
fn is_finite(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let input = ctx.input(0)?;
    let dt = ctx.type_of(input)?;
    ensure!(dt.is_float(), "elements of type {dt:?} are not supported");
    let input = unannotated(ctx, input)?;
    let size = ctx.wire("abs", math::abs(), &[input])?;
    let rank = ctx.rank(0)?;
    let infinity = ctx.scalar("infinity", f64::INFINITY, dt, rank)?;
    ctx.finish(TypedBinOp(logic::comp_lt(), None), &[size, infinity])
}
