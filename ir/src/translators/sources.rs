//! Conversions of element types. (Parameters, constants and results are in `translate`.)

use tract_core::internal::*;

use crate::context::LayerContext;
use crate::document::ElementType;
use crate::registry::Registry;
use crate::weights::{datum_type, held_type, widened};

pub(super) fn register(registry: &mut Registry) {
    registry.add("Convert", 1, convert).without("strings from or to numbers");
    registry.add("ConvertLike", 1, convert_like).without("strings from or to numbers");
    registry.add("ConvertPromoteTypes", 14, convert_promote_types);
    registry.add("Identity", 16, identity);
}

/// **Convert-1**: each element in `destination_type`. A float that becomes an integer is rounded towards
/// zero. A number that becomes a boolean is true unless it is 0.
fn convert(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let text: String = ctx.attribute("destination_type")?;
    let element_type = ElementType::from_text(&text).with_context(|| {
        format!("attribute destination_type is {text:?}, which is not an element type")
    })?;
    // Constants may be of other types that tract does not have, too.
    let dt = if ctx.folding() { Some(widened(element_type)) } else { held_type(element_type) };
    let dt = dt.with_context(|| {
        format!("attribute destination_type is {element_type}, but tract has that type for constants only")
    })?;
    if datum_type(element_type).is_none() && !ctx.widened() && dt == DatumType::F32 {
        let input = ctx.input(0)?;
        let single = ctx.cast("single", input, dt)?;
        return Ok(tvec!(ctx.rounded("", single, element_type)?));
    }
    if ctx.folding() && dt == DatumType::F16 {
        // Half precision that is computed with is single, as OpenVINO has it: weights that are compressed in
        // smaller types are not rounded.
        let input = ctx.input(0)?;
        let half = if ctx.widened() { input } else { ctx.cast("half", input, dt)? };
        return ctx.cast("", half, DatumType::F32).map(|output| tvec!(output));
    }
    convert_to(ctx, dt)
}

/// **ConvertLike-1**: each element in the type of the second input.
fn convert_like(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let like = ctx.datum_type(1)?;
    let dt = if like.is_tdim() { ctx.output_type(0).unwrap_or(DatumType::I64) } else { like };
    let output = convert_to(ctx, dt)?[0];
    Ok(tvec!(as_declared(ctx, 0, output)?))
}

/// **ConvertPromoteTypes-14**: both inputs in one type. The file states which one.
fn convert_promote_types(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let dt = ctx.output_type(0).context(
        "the model does not state the type of output 0, or it is one that tract does not have",
    )?;
    let mut outputs = ctx.all_inputs()?;
    for (number, output) in outputs.iter_mut().enumerate() {
        let converted = converted(ctx, *output, dt)?;
        *output = as_declared(ctx, number, converted)?;
    }
    Ok(outputs)
}

/// An output that is converted to what the file states, if tract does not have that type.
fn as_declared(ctx: &mut LayerContext, number: usize, output: OutletId) -> TractResult<OutletId> {
    let port = ctx.layer().outputs.get(number);
    match port.and_then(|port| port.element_type) {
        Some(element_type) => ctx.rounded("", output, element_type),
        None => Ok(output),
    }
}

fn convert_to(ctx: &mut LayerContext, dt: DatumType) -> TractResult<TVec<OutletId>> {
    let input = ctx.input(0)?;
    Ok(tvec!(converted(ctx, input, dt)?))
}

fn converted(ctx: &mut LayerContext, input: OutletId, dt: DatumType) -> TractResult<OutletId> {
    let from = ctx.type_of(input)?;
    ensure!(
        (from == DatumType::String) == (dt == DatumType::String),
        "{from:?} cannot be converted to {dt:?}"
    );
    // Sizes stay symbolic in either of the types that shapes come in.
    if from.is_tdim() && [DatumType::I64, DatumType::I32].contains(&dt) {
        return Ok(input);
    }
    ctx.cast("", input, dt)
}

/// **Identity-16**: the input.
fn identity(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    Ok(tvec!(ctx.input(0)?))
}
