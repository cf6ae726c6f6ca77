//! Operations that make tensors from sizes.

use tract_core::internal::*;
use tract_core::ops::array::MultiBroadcastTo;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::logic::comp_eq;
use tract_core::ops::math::add;

use crate::operators::random_uniform::RandomUniform;
use crate::registry::Registry;
use crate::translate::LayerContext;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Eye", 9, eye);
    registry.add("RandomUniform", 8, random_uniform);
}

/// **Eye-9**: matrices with ones on a diagonal, and zeros elsewhere. A `diagonal_index` above 0 means one above
/// the main diagonal. With `batch_shape` there are as many as it says.
fn eye(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=4)?;
    let mut sizes = vec![];
    for (input, name) in [(0, "num_rows"), (1, "num_columns"), (2, "diagonal_index")] {
        ctx.expect_integers(input, name)?;
        ctx.expect_one_element(input, name)?;
        if name != "diagonal_index" {
            sizes.push(ctx.sizes(input, name)?[0].clone());
        }
    }
    let dt: DatumType = ctx.attribute("output_type")?;
    let diagonal = ctx.number_input(2)?;
    let diagonal = ctx.cast("diagonal", diagonal, DatumType::I64)?;
    let diagonal = ctx.one_element("diagonal", diagonal, 2)?;
    let rows = ctx.positions("rows", &sizes[0])?;
    let rows = ctx.change_axes("rows", rows, [AxisOp::Add(1)])?;
    let ones = ctx.wire("ones", add(), &[rows, diagonal])?;
    let columns = ctx.positions("columns", &sizes[1])?;
    let columns = ctx.change_axes("columns", columns, [AxisOp::Add(0)])?;
    let is_one = ctx.wire("is_one", TypedBinOp(comp_eq(), None), &[ones, columns])?;
    if ctx.input_count() == 3 {
        return Ok(tvec!(ctx.cast("", is_one, dt)?));
    }
    let mut eye = ctx.cast("eye", is_one, dt)?;
    let mut shape = ctx.sizes(3, "batch_shape")?;
    let added = vec![AxisOp::Add(0); shape.len()];
    eye = ctx.change_axes("eye", eye, added)?;
    shape.extend(sizes);
    ctx.finish(MultiBroadcastTo { shape: shape.into() }, &[eye])
}

/// **RandomUniform-8**: numbers in `[minval, maxval)`, aligned to TensorFlow: of each pair of seeds there is one
/// sequence. It goes on from run to run of a state. If both seeds are 0, it is another one for each state.
fn random_uniform(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let words = [("tensorflow", true), ("pytorch", false)];
    ensure!(
        ctx.attribute_among("alignment", &words, Some(true))?,
        "attribute alignment is pytorch, which is not supported: it must be tensorflow"
    );
    let dt: DatumType = ctx.attribute("output_type")?;
    let types = [DatumType::F16, DatumType::F32, DatumType::F64, DatumType::I32, DatumType::I64];
    ensure!(
        types.contains(&dt),
        "attribute output_type is {dt:?}, but must be one of f16, f32, f64, i32, i64"
    );
    let seed = |name: &str| -> TractResult<u64> { Ok(ctx.attribute_or(name, 0i64)? as u64) };
    let (global_seed, op_seed) = (seed("global_seed")?, seed("op_seed")?);
    let shape = ctx.sizes(0, "shape")?;
    let mut bounds = tvec![];
    for (input, name) in [(1, "minval"), (2, "maxval")] {
        ctx.expect_one_element(input, name)?;
        ctx.expect_numbers(input, name)?;
        let bound = ctx.number_input(input)?;
        bounds.push(ctx.cast(name, bound, dt)?);
    }
    ctx.finish(RandomUniform { global_seed, op_seed, shape }, &bounds)
}
