//! Quantization. (Compressed weights need no operation of their own: they are constants of codes.)

use tract_core::internal::*;
use tract_core::ops::math::{add, div, mul, sub};
use tract_openvino_kernels::FakeQuantize;

use super::elementwise::aligned;
use crate::context::LayerContext;
use crate::operators::rounding::{saturate_f8e4m3, saturate_f8e5m2};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("FakeQuantize", 1, fake_quantize);
    registry.add("FakeConvert", 13, fake_convert);
}

/// **FakeQuantize-1**: rounds numbers between input_low and input_high to `levels` levels, and maps these to
/// the levels from output_low to output_high. The inputs are data and these four limits, which are broadcast
/// to it.
fn fake_quantize(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(5..=5)?;
    let levels: i64 = ctx.attribute("levels")?;
    let in_range = u32::try_from(levels).ok().filter(|levels| *levels >= 2);
    let levels =
        in_range.with_context(|| format!("attribute levels is {levels}, but must be 2 or more"))?;
    let mut inputs = ctx.all_inputs()?;
    let dt = ctx.same_type(&inputs)?;
    ensure!(dt.is_float(), "the inputs are of type {dt:?}, but must be floats");
    for input in &mut inputs {
        *input = ctx.cast("as_f32", *input, DatumType::F32)?;
    }
    let inputs = aligned(ctx, &inputs)?;
    let op = FakeQuantize { levels };
    if dt == DatumType::F32 {
        return ctx.finish(op, &inputs);
    }
    let output = ctx.wire("in_f32", op, &inputs)?;
    Ok(tvec!(ctx.cast("", output, dt)?))
}

/// **FakeConvert-13**: rounds numbers to floats of 8 bits and back, between a scale and a shift: `(round(data * scale -
/// shift) + shift) / scale`. What is beyond the greatest of these floats becomes that. The inputs are data, the scale, and
/// maybe the shift, of the shape of the scale, which is broadcast to the data.
///
/// Numbers less than the least float with all bits of its mantissa keep some of them, and those that are NaN stay so.
/// OpenVINO's reference implementation makes some of the former 0, and its CPU plug-in the latter the greatest float.
fn fake_convert(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    let formats = [("f8e4m3", true), ("f8e5m2", false)];
    let is_e4m3 = ctx.attribute_among("destination_type", &formats, Some(true))?;
    let mut inputs = ctx.all_inputs()?;
    let dt = ctx.same_type(&inputs)?;
    ensure!(
        [DatumType::F16, DatumType::F32].contains(&dt),
        "the inputs are of type {dt:?}, but must be F16 or F32"
    );
    if let [_, scale, shift] = *inputs {
        let (scale, shift) = (ctx.shape_of(scale)?, ctx.shape_of(shift)?);
        ctx.equal_shapes(&scale, &shift, None, "has a scale for each shift")?;
    }
    let shape = ctx.shape(0)?;
    for input in &mut inputs {
        *input = ctx.cast("single", *input, DatumType::F32)?;
    }
    let inputs = ctx.broadcast(&inputs)?;
    ensure!(
        ctx.shape_of(inputs[0])?.len() == shape.len(),
        "the scale has rank {}, but must be broadcast to data of rank {}",
        ctx.shape(1)?.len(),
        shape.len()
    );
    let mut numbers = ctx.wire("scaled", mul(), &inputs[..2])?;
    if let Some(shift) = inputs.get(2) {
        numbers = ctx.wire("shifted", sub(), &[numbers, *shift])?;
    }
    let rounding = if is_e4m3 { saturate_f8e4m3() } else { saturate_f8e5m2() };
    numbers = ctx.wire("rounded", rounding, &[numbers])?;
    if let Some(shift) = inputs.get(2) {
        numbers = ctx.wire("shifted_back", add(), &[numbers, *shift])?;
    }
    let suffix = if dt == DatumType::F32 { "" } else { "scaled_back" };
    let numbers = ctx.wire(suffix, div(), &[numbers, inputs[1]])?;
    ctx.equal_shapes(
        &shape,
        &ctx.shape_of(numbers)?,
        None,
        "has a scale that is broadcast to its data",
    )?;
    Ok(tvec!(ctx.cast("", numbers, dt)?))
}
