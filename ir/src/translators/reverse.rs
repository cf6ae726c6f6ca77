//! Elements in the opposite order, or shifted.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};

use super::chain::Chain;
use super::common::FAR;
use crate::context::LayerContext;
use crate::operators::reverse_sequence::ReverseSequence;
use crate::operators::take::{PadMode, Positions, Take};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Roll", 7, roll);
    registry.add("Reverse", 1, reverse);
    registry.add("ReverseSequence", 1, reverse_sequence);
}

/// **Reverse-1**: reverses the elements along some axes. `mode` says whether the second input has these axes,
/// or a boolean for each axis.
fn reverse(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let shape = ctx.shape(0)?;
    let axes = match ctx.attribute_among("mode", &[("index", false), ("mask", true)], None)? {
        false => ctx.axes("reversed_axes", &ctx.integers(1, "reversed_axes")?, shape.len())?,
        true => {
            let mask = ctx.constant(1, "reversed_axes")?;
            ensure!(
                mask.datum_type() == DatumType::Bool && mask.shape() == [shape.len()],
                "input 1 (reversed_axes) is {mask:?}, but must be {} booleans, one for each axis",
                shape.len()
            );
            let mask = mask.try_as_plain_ram()?;
            let mask = mask.as_slice::<bool>()?;
            (0..shape.len()).filter(|axis| mask[*axis]).collect()
        }
    };
    let mut chain = Chain::default();
    for axis in axes {
        chain.slice(ctx, axis, &shape[axis], [None, None], -1)?;
    }
    let data = ctx.input(0)?;
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// **ReverseSequence-1**: reverses the first elements along `seq_axis`. For each position on `batch_axis`,
/// `seq_lengths` says how many.
fn reverse_sequence(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let shape = ctx.shape(0)?;
    let batch_axis = ctx.axis("batch_axis", ctx.attribute_or("batch_axis", 0)?, shape.len())?;
    let seq_axis = ctx.axis("seq_axis", ctx.attribute_or("seq_axis", 1)?, shape.len())?;
    ensure!(
        batch_axis != seq_axis,
        "batch_axis and seq_axis are both {seq_axis}, but must be different"
    );
    let lengths = ctx.shape_of_rank(1, "seq_lengths", 1)?;
    ctx.require_equal(&shape[batch_axis], &lengths[0], "has a length for each batch")?;
    let (data, mut lengths) = (ctx.number_input(0)?, ctx.input(1)?);
    if ctx.type_of(lengths)?.is_float() {
        lengths = ctx.cast("lengths", lengths, DatumType::I64)?;
    }
    let op = ReverseSequence { batch_axis, seq_axis };
    ctx.finish(op, &[data, lengths])
}

/// **Roll-7**: shifts elements along axes. What leaves at one end comes in at the other. An axis may come
/// more than once: its shifts are added. A single shift is for all axes.
fn roll(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    let shape = ctx.shape(0)?;
    let (shifts, axes) = (ctx.integers(1, "shift")?, ctx.integers(2, "axes")?);
    ensure!(
        shifts.len() == axes.len() || shifts.len() == 1,
        "shift has length {}, but must have length 1, or {} as axes",
        shifts.len(),
        axes.len()
    );
    let mut by_axis = vec![0i64; shape.len()];
    for (number, axis) in axes.iter().enumerate() {
        let axis = ctx.axis("axes", *axis, shape.len())?;
        let shift = shifts[if shifts.len() == 1 { 0 } else { number }];
        // A shift by the size changes nothing.
        let shift = match shape[axis].as_i64() {
            Some(size) => shift.checked_rem(size).unwrap_or(0),
            None => shift,
        };
        let sum = by_axis[axis].checked_add(shift).filter(|shift| (-FAR..=FAR).contains(shift));
        by_axis[axis] = sum.with_context(|| {
            format!("shift is {shifts:?}, but the sum for each axis must be in [-{FAR}, {FAR}]")
        })?;
    }
    let mut outlet = ctx.input(0)?;
    let rolled: Vec<usize> = (0..shape.len()).filter(|axis| by_axis[*axis] != 0).collect();
    for (number, axis) in rolled.iter().enumerate() {
        let (axis, dim, shift) = (*axis, &shape[*axis], by_axis[*axis]);
        let suffix = if number + 1 == rolled.len() { "" } else { "rolled" };
        let split = match dim.as_i64() {
            Some(0) => continue,
            Some(size) => (-shift).rem_euclid(size).to_dim(),
            // The shift may be more than the size, which may be 0.
            None => {
                let (before, after) = (shift.to_dim(), (-shift).to_dim());
                let positions = Positions::Pad { mode: PadMode::Wrap, before, after };
                outlet = ctx.wire(suffix, Take { axis, positions }, &[outlet])?;
                continue;
            }
        };
        let tail = Slice { axis, start: split.clone(), end: dim.clone() };
        let head = Slice { axis, start: 0.to_dim(), end: split };
        let parts = [ctx.wire("tail", tail, &[outlet])?, ctx.wire("head", head, &[outlet])?];
        outlet = ctx.wire(suffix, TypedConcat::new(axis), &parts)?;
    }
    Ok(tvec!(outlet))
}
