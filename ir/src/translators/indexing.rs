//! Operations with indices: they read, write, choose and count elements.

use tract_core::internal::*;
use tract_core::ops::array::CumSum;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::logic::{Iff, comp_eq};
use tract_openvino::{
    Gather, GatherElements, GatherNdRevision, GatherRevision, Operation, Revision,
};

use super::elementwise::aligned;
use crate::context::LayerContext;
use crate::limits::MAX_STATED_ELEMENTS;
use crate::operators::non_zero::{NonZero, coordinates, shape_of_coordinates};
use crate::operators::top_k::TopK;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Gather", 1, gather_layer);
    registry.add("Gather", 7, gather_layer);
    registry.add("Gather", 8, gather_layer);
    registry.add("GatherND", 5, gather_nd);
    registry.add("GatherND", 8, gather_nd);
    registry.add("GatherElements", 6, gather_elements);
    registry.add("Select", 1, select);
    registry.add("TopK", 1, top_k);
    registry.add("TopK", 3, top_k);
    registry.add("TopK", 11, top_k);
    registry.add("CumSum", 3, cum_sum);
    registry.add("NonZero", 3, non_zero);
    registry.add("OneHot", 1, one_hot);
    registry.add("OneHot", 16, one_hot);
}

/// A Gather without batch dimensions. The user chose what its negative indices mean.
pub(super) fn gather(ctx: &LayerContext, revision: GatherRevision, axis: usize) -> Gather {
    Gather::new(revision, axis).with_negative_indices(ctx.options().negative_indices)
}

/// Notes that the batch dimensions of inputs 0 and 1 are equal.
fn equal_batches(ctx: &mut LayerContext, batch_dims: usize) -> TractResult<()> {
    let (data, indices) = (ctx.shape(0)?, ctx.shape(1)?);
    for (data, indices) in data.iter().zip(&indices).take(batch_dims) {
        ctx.require_equal(data, indices, "has them as a batch dimension of data and of indices")?;
    }
    Ok(())
}

/// **Gather-1**, **Gather-7**, **Gather-8**: elements at indices along an axis. Gather-7 adds `batch_dims`; a
/// negative one counts from the end of the indices. Gather-8 gives zeros for indices that are out of range.
fn gather_layer(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let operation = operation(ctx, GatherRevision::for_opset(ctx.since().into())?)?;
    // tract would read the first element of a tensor that has none.
    let axis = ctx.constant_opt(2)?.filter(|axis| axis.len() == 1);
    let axis = axis.and_then(|axis| axis.cast_to_scalar::<i64>().ok());
    let rows = axis == Some(0) && ctx.attribute_or("batch_dims", 0i64)? == 0;
    if rows {
        let [indices, axis] = [ctx.input(1)?, ctx.input(2)?];
        let gathered = ctx.gathered_rows(0, |ctx, name, table| {
            let inputs = [table, indices, axis];
            let (op, inputs) = operation.operator(ctx.model, &inputs)?;
            ctx.wire(name, op, inputs)
        })?;
        if let Some(rows) = gathered {
            return Ok(tvec!(rows));
        }
    }
    let inputs = ctx.all_inputs()?;
    let (op, inputs) = operation.operator(ctx.model, &inputs)?;
    ctx.finish(op, inputs)
}

/// **GatherND-5**, **GatherND-8**: slices at tuples of indices. The batch dimensions are one dimension in the
/// output of GatherND-5.
fn gather_nd(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let operation = operation(ctx, GatherNdRevision::for_opset(ctx.since().into())?)?;
    let inputs = ctx.all_inputs()?;
    let (op, inputs) = operation.operator(ctx.model, &inputs)?;
    ctx.finish(op, inputs)
}

/// The Gather or GatherND that the layer states.
fn operation<R: Revision>(ctx: &mut LayerContext, revision: R) -> TractResult<Operation<R>> {
    let operation = Operation::new(revision).with_negative_indices(ctx.options().negative_indices);
    let Some(batch_dims) = ctx.attribute_opt::<i64>("batch_dims")? else { return Ok(operation) };
    let from_start = match batch_dims {
        0.. => batch_dims,
        _ => batch_dims.saturating_add(i64::try_from(ctx.rank(1)?)?),
    };
    equal_batches(ctx, usize::try_from(from_start).unwrap_or(0))?;
    operation.with_batch_dims(batch_dims)
}

/// **GatherElements-6**: an element for each index, from the same line along `axis`. Data and indices have
/// equal dimensions, except along `axis`.
fn gather_elements(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let (data, indices) = (ctx.shape(0)?, ctx.shape(1)?);
    let axis = ctx.axis("axis", ctx.attribute("axis")?, data.len())?;
    ctx.expect_integers(1, "indices")?;
    let doing = format!("gathers elements along axis {axis}");
    ctx.equal_shapes(&data, &indices, Some(axis), &doing)?;
    let inputs = [ctx.input(0)?, ctx.input(1)?];
    let op = GatherElements::new(axis).with_negative_indices(ctx.options().negative_indices);
    ctx.finish(op, &inputs)
}

/// **Select-1**: the second input where the first is true, and the third elsewhere. They are broadcast as
/// `auto_broadcast` says.
fn select(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let inputs = ctx.all_inputs()?;
    let dt = ctx.type_of(inputs[0])?;
    ensure!(dt == DatumType::Bool, "input 0 (cond) is of type {dt:?}, but must be boolean");
    let values = ctx.unify(&inputs[1..])?;
    // pdpd broadcasts the others to the data that is taken where the condition is true.
    let aligned = aligned(ctx, &[values[0], inputs[0], values[1]])?;
    ctx.finish(Iff, &[aligned[1], aligned[0], aligned[2]])
}

/// **TopK-1**, **TopK-3**, **TopK-11**: the `k` greatest or smallest elements of each line along `axis`, and
/// their indices. `sort` says whether they are in the order of their values or of their indices. Of equal
/// elements the first comes first, whether `stable` asks for it or not.
fn top_k(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let rank = ctx.rank(0)?;
    let axis = ctx.axis("axis", ctx.attribute("axis")?, rank)?;
    let greatest = ctx.attribute_among("mode", &[("max", true), ("min", false)], None)?;
    let sorts = [("value", false), ("index", true), ("none", false)];
    let by_position = ctx.attribute_among("sort", &sorts, None)?;
    let index_type = match ctx.since() {
        1 => DatumType::I32,
        _ => ctx.index_type("index_element_type", DatumType::I32)?,
    };
    ctx.expect_numbers(0, "data")?;
    let data = ctx.number_input(0)?;
    let outputs = if ctx.constant_opt(1)?.is_some() {
        ctx.expect_one_element(1, "k")?;
        let k = &ctx.sizes(1, "k")?[0];
        let op = TopK { axis, greatest, by_position, k: k.clone(), k_is_input: false };
        ctx.finish(op, &[data])?
    } else {
        ctx.expect_integers(1, "k")?;
        let k = ctx.size_at_run_time("k")?.to_dim();
        let inputs = [data, ctx.input(1)?];
        let op = TopK { axis, greatest, by_position, k, k_is_input: true };
        ctx.finish(op, &inputs)?
    };
    let indices = ctx.cast("indices", outputs[1], index_type)?;
    Ok(tvec!(outputs[0], indices))
}

/// **CumSum-3**: sums of all elements up to each one along an axis. With `exclusive` without the element
/// itself, with `reverse` from the end.
fn cum_sum(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=2)?;
    let axis = if ctx.input_count() == 2 { ctx.integer(1, "axis")? } else { 0 };
    let axis = ctx.axis("axis", axis, ctx.rank(0)?)?;
    ctx.expect_numbers(0, "data")?;
    let data = ctx.number_input(0)?;
    let (exclusive, reverse) =
        (ctx.attribute_or("exclusive", false)?, ctx.attribute_or("reverse", false)?);
    // Each sum is made of the one before.
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        ctx.wire(suffix, CumSum { axis, exclusive, reverse }, &[data])
    })?;
    Ok(tvec!(output))
}

/// **NonZero-3**: the coordinates of the elements that are not 0, a column for each. Unless the input is a
/// constant, their number is a symbol. As in OpenVINO, a scalar is a row of one element.
fn non_zero(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let output_type = ctx.index_type("output_type", DatumType::I64)?;
    let mut data = ctx.number_input(0)?;
    if ctx.rank(0)? == 0 {
        data = ctx.wire("row", AxisOp::Add(0), &[data])?;
    }
    let coordinates = match ctx.model.outlet_fact(data)?.konst.clone() {
        Some(constant) => {
            let shape = shape_of_coordinates(&constant)?;
            ctx.add_computed("coordinates", DatumType::I64, &shape, || coordinates(&constant))?
        }
        None => {
            let suffix = if output_type == DatumType::I64 { "" } else { "coordinates" };
            let count = ctx.size_at_run_time("non_zero")?;
            ctx.wire(suffix, NonZero { count }, &[data])?
        }
    };
    Ok(tvec!(ctx.cast("", coordinates, output_type)?))
}

/// **OneHot-1**, **OneHot-16**: a new axis of size `depth`, with `on_value` at the index and `off_value`
/// elsewhere. An index outside of `[0, depth)` gives `off_value` everywhere. In revision 16,
/// `negative_indices_mode` may say that negative indices count from the end.
fn one_hot(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=4)?;
    let rank = ctx.rank(0)?;
    let depth = ctx.integer(1, "depth")?;
    ensure!(
        (0..=MAX_STATED_ELEMENTS as i64).contains(&depth),
        "input 1 (depth) is {depth}, but must be in [0, {MAX_STATED_ELEMENTS}]"
    );
    let axis = ctx.axis("axis", ctx.attribute_or("axis", -1)?, rank + 1)?;
    let modes = [("ignore_negative", false), ("ignore-negative", false), ("normalize", true)];
    let normalize =
        ctx.since() >= 16 && ctx.attribute_among("negative_indices_mode", &modes, Some(false))?;
    ctx.expect_integers(0, "indices")?;
    let indices = ctx.number_input(0)?;
    let indices = ctx.cast("indices", indices, DatumType::I64)?;
    let indices = ctx.change_axes("indices", indices, [AxisOp::Add(axis)])?;
    let positions = ctx.positions("positions", &depth.to_dim())?;
    let mut shape: TVec<TDim> = tvec![1.to_dim(); rank + 1];
    shape[axis] = depth.to_dim();
    let to = AxisOp::Reshape(0, tvec![depth.to_dim()], shape);
    let positions = ctx.wire("positions", to, &[positions])?;
    let mut hot = ctx.wire("hot", TypedBinOp(comp_eq(), None), &[indices, positions])?;
    if normalize {
        let depth = ctx.scalar("depth", depth as f64, DatumType::I64, rank + 1)?;
        let before = ctx.wire("before", tract_core::ops::math::sub(), &[positions, depth])?;
        let also = ctx.wire("hot_before", TypedBinOp(comp_eq(), None), &[indices, before])?;
        hot = ctx.wire("hot", tract_core::ops::logic::or(), &[hot, also])?;
    }
    let mut values = vec![];
    for (input, name) in [(2, "on_value"), (3, "off_value")] {
        ctx.expect_one_element(input, name)?;
        let value = ctx.input(input)?;
        values.push(ctx.one_element(name, value, rank + 1)?);
    }
    let values = ctx.unify(&values)?;
    ctx.finish(Iff, &[hot, values[0], values[1]])
}
