//! Quantization. (Compressed weights need no operation of their own: they are constants of codes.)

use tract_core::internal::*;
use tract_openvino_kernels::FakeQuantize;

use super::elementwise::aligned;
use crate::layer::LayerContext;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("FakeQuantize", 1, fake_quantize);
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
