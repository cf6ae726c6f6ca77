//! Operations that write updates into data.

use tract_core::internal::*;
use tract_core::ops::math;

use crate::context::LayerContext;
use crate::operators::addressing::Addressing;
use crate::operators::scatter::{Reduction, Scatter};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("ScatterUpdate", 3, scatter_update);
    registry.add("ScatterElementsUpdate", 3, scatter_elements_update);
    registry
        .add("ScatterElementsUpdate", 12, scatter_elements_update)
        .without("`reduction` mean of booleans");
    registry.add("ScatterNDUpdate", 3, scatter_nd_update);
    registry.add("ScatterNDUpdate", 4, scatter_nd_update);
    registry.add("ScatterNDUpdate", 15, scatter_nd_update);
}

/// Wires an operation that writes updates into data.
fn scatter(
    ctx: &mut LayerContext,
    operator: &'static str,
    addressing: Addressing,
    reduction: Reduction,
    use_init_val: bool,
) -> TractResult<TVec<OutletId>> {
    ctx.expect_integers(1, "indices")?;
    if addressing == Addressing::Tuples {
        expect_tuples(ctx)?;
    }
    let expected = addressing.updates_shape(&ctx.shape(0)?, &ctx.shape(1)?)?;
    let updates = ctx.shape(2)?;
    let doing = "writes updates of the shape that data and indices say";
    ctx.equal_shapes(&expected, &updates, None, doing)?;
    let indices = ctx.input(1)?;
    let (data, updates) = match reduction {
        Reduction::None => (ctx.input(0)?, ctx.input(2)?),
        _ => (ctx.number_input(0)?, ctx.number_input(2)?),
    };
    let unified = ctx.unify(&[data, updates])?;
    let (mut data, mut updates) = (unified[0], unified[1]);
    // An element may be added to, and multiplied, many times.
    let dt = ctx.type_of(data)?;
    let is_single = dt == DatumType::F16 && reduction != Reduction::None;
    if is_single {
        (data, updates) = (ctx.single("data", data)?, ctx.single("updates", updates)?);
    }
    let boolean = ctx.type_of(data)? == DatumType::Bool && reduction != Reduction::None;
    if !boolean {
        let op = Scatter { operator, addressing, reduction, use_init_val };
        let output =
            ctx.wire(if is_single { "single" } else { "" }, op, &[data, indices, updates])?;
        return Ok(tvec!(ctx.cast("", output, dt)?));
    }
    // Of booleans the sum and the maximum are "or", the product and the minimum "and". The difference is "exclusive
    // or": whether that of the numbers is odd.
    let reduction = match reduction {
        Reduction::Sum | Reduction::Max => Reduction::Max,
        Reduction::Prod | Reduction::Min => Reduction::Min,
        Reduction::Sub => Reduction::Sub,
        _ => {
            let reduction: String = ctx.attribute("reduction")?;
            bail!("attribute reduction is {reduction:?}, which is not supported for booleans")
        }
    };
    let data = ctx.cast("data", data, DatumType::U8)?;
    let updates = ctx.cast("updates", updates, DatumType::U8)?;
    let op = Scatter { operator, addressing, reduction, use_init_val };
    let mut output = ctx.wire("numbers", op, &[data, indices, updates])?;
    if reduction == Reduction::Sub {
        let two = ctx.scalar("two", 2., DatumType::U8, ctx.rank(0)?)?;
        output = ctx.wire("odd", math::rem(), &[output, two])?;
    }
    Ok(tvec!(ctx.cast("", output, DatumType::Bool)?))
}

/// Of tuples whose length is open, the ranks of the three inputs say it.
fn expect_tuples(ctx: &mut LayerContext) -> TractResult<()> {
    let indices = ctx.shape(1)?;
    let Some((tuple, leading)) = indices.split_last() else { return Ok(()) };
    match (leading.len() + ctx.rank(0)?).checked_sub(ctx.rank(2)?) {
        Some(length) if tuple.as_i64().is_none() => {
            let doing = "writes updates of a rank that its tuples leave";
            ctx.expect_size(1, leading.len(), length, doing)
        }
        _ => Ok(()),
    }
}

/// **ScatterUpdate-3**: writes slices of `axis`. In the shape of the updates, the axes of the indices stand
/// in the place of `axis`.
fn scatter_update(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=4)?;
    let axis = ctx.axis("axis", ctx.integer(3, "axis")?, ctx.rank(0)?)?;
    scatter(ctx, "ScatterUpdate", Addressing::Slices(axis), Reduction::None, true)
}

/// **ScatterElementsUpdate-3**, **ScatterElementsUpdate-12**: writes single elements along an axis. Revision
/// 12 adds `reduction` and `use_init_val`.
fn scatter_elements_update(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=4)?;
    let axis = ctx.axis("axis", ctx.integer(3, "axis")?, ctx.rank(0)?)?;
    let words = [
        ("none", Reduction::None),
        ("sum", Reduction::Sum),
        ("prod", Reduction::Prod),
        ("min", Reduction::Min),
        ("max", Reduction::Max),
        ("mean", Reduction::Mean),
    ];
    let (reduction, use_init_val) = match ctx.since() {
        12.. => (
            ctx.attribute_among("reduction", &words, Some(Reduction::None))?,
            ctx.attribute_or("use_init_val", true)?,
        ),
        _ => (Reduction::None, true),
    };
    let addressing = Addressing::Elements(axis);
    scatter(ctx, "ScatterElementsUpdate", addressing, reduction, use_init_val)
}

/// **ScatterNDUpdate-3**, **ScatterNDUpdate-15**: writes slices at tuples of indices. Revision 15 adds
/// `reduction`.
fn scatter_nd_update(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let words = [
        ("none", Reduction::None),
        ("sum", Reduction::Sum),
        ("sub", Reduction::Sub),
        ("prod", Reduction::Prod),
        ("min", Reduction::Min),
        ("max", Reduction::Max),
    ];
    let reduction = match ctx.since() {
        15.. => ctx.attribute_among("reduction", &words, Some(Reduction::None))?,
        _ => Reduction::None,
    };
    scatter(ctx, "ScatterNDUpdate", Addressing::Tuples, reduction, true)
}
