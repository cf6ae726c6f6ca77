//! Pads.

use tract_core::internal::*;
use tract_core::num_traits::Zero;
use tract_core::ops::array::{MultiBroadcastTo, Pad, PadMode as CorePadMode, TypedConcat};
use tract_openvino_kernels::checks::listed;

use super::chain::Chain;
use crate::context::LayerContext;
use crate::limits::MAX_PAD;
use crate::operators::take::{PadMode, Positions, Take};
use crate::registry::Registry;
use crate::workarounds::expressions::is_size;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Pad", 1, pad);
    registry.add("Pad", 12, pad);
}

/// **Pad-1**, **Pad-12**: adds elements at both ends of each axis. `pad_mode` says which. Pads may be
/// negative in revision 12, and take elements away; the modes mirror the elements as they are before that.
fn pad(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=4)?;
    let shape = ctx.shape(0)?;
    let (begin, end) = (ctx.dims(1, "pads_begin")?, ctx.dims(2, "pads_end")?);
    for (name, pads) in [("pads_begin", &begin), ("pads_end", &end)] {
        ensure!(
            pads.len() == shape.len(),
            "{name} has length {}, but must have length {}, the rank of the data",
            pads.len(),
            shape.len()
        );
        let least = if ctx.since() >= 12 { -MAX_PAD } else { 0 };
        for pad in pads.iter().filter_map(|pad| pad.as_i64()) {
            ensure!(
                (least..=MAX_PAD).contains(&pad),
                "{name} has {pad}, but must be in [{least}, {MAX_PAD}]"
            );
        }
    }
    let modes = [
        ("constant", None),
        ("edge", Some(PadMode::Edge)),
        ("reflect", Some(PadMode::Reflect)),
        ("symmetric", Some(PadMode::Symmetric)),
    ];
    let mode = ctx.attribute_among("pad_mode", &modes, None)?;
    let data = ctx.input(0)?;
    let Some(mode) = mode else {
        let pads: Vec<[TDim; 2]> = begin.into_iter().zip(end).map(|(a, b)| [a, b]).collect();
        let value = if ctx.input_count() == 4 { Some(ctx.input(3)?) } else { None };
        return Ok(tvec!(match ctx.since() >= 12 && pads.iter().flatten().any(may_crop) {
            true => pad_or_crop(ctx, data, &pads, value)?,
            false => pad_with_value(ctx, "", data, &pads, value)?,
        }));
    };
    let mut chain = Chain::default();
    for (axis, (before, after)) in begin.into_iter().zip(end).enumerate() {
        if !before.is_zero() || !after.is_zero() {
            let len = (shape[axis].clone() + &before + &after).simplify();
            ensure!(
                len.as_i64().is_none_or(|len| len >= 0),
                "pads {before} and {after} crop more than the size of axis {axis}, which is {}",
                shape[axis]
            );
            chain.take(ctx, axis, &shape[axis], Positions::Pad { mode, before, after })?;
        }
    }
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// Whether a pad is negative for some sizes of the inputs, and not for all.
fn may_crop(pad: &TDim) -> bool {
    pad.as_i64().is_none() && !is_size(pad) && !pad.prove_positive_or_zero()
}

/// Pads with a value, or with zeros, where only a run knows whether pads are negative.
fn pad_or_crop(
    ctx: &mut LayerContext,
    data: OutletId,
    pads: &[[TDim; 2]],
    value: Option<OutletId>,
) -> TractResult<OutletId> {
    let mut shape = ctx.shape_of(data)?;
    let (mut crop, mut added) = (Chain::default(), vec![]);
    for (axis, pads) in pads.iter().enumerate() {
        let more = pads.each_ref().map(|pad| match may_crop(pad) {
            true => pad.clone().maxi(0.to_dim()),
            false => pad.clone(),
        });
        let [before, after] = pads.each_ref().map(|pad| match may_crop(pad) {
            true => (-pad.clone()).maxi(0.to_dim()),
            false => 0.to_dim(),
        });
        if !before.is_zero() || !after.is_zero() {
            let end = (shape[axis].clone() - after).simplify();
            crop.contiguous(axis, &shape[axis], before, end)?;
        }
        shape[axis] = pads.iter().fold(shape[axis].clone(), |size, pad| size + pad).simplify();
        added.push(more);
    }
    let cropped = crop.wire_as(ctx, "cropped", data)?;
    let padded = pad_with_value(ctx, "padded", cropped, &added, value)?;
    // What is taken away and what is added is one number.
    ctx.with_shape(padded, shape)
}

/// Pads with a value, or with zeros.
pub(super) fn pad_with_value(
    ctx: &mut LayerContext,
    name: &str,
    data: OutletId,
    pads: &[[TDim; 2]],
    value: Option<OutletId>,
) -> TractResult<OutletId> {
    let mut crop = Chain::default();
    let mut shape = ctx.shape_of(data)?;
    let is_crop = |pad: &TDim| pad.as_i64().is_some_and(|pad| pad < 0);
    for (axis, pads) in pads.iter().enumerate().filter(|(_, pads)| pads.iter().any(is_crop)) {
        let [before, after] =
            pads.each_ref().map(|pad| if is_crop(pad) { -pad.clone() } else { 0.to_dim() });
        let end = (shape[axis].clone() - after).simplify();
        let len = (end.clone() - &before).simplify();
        ensure!(
            len.as_i64().is_none_or(|len| len >= 0),
            "pads {pads} crop more than the size of axis {axis}, which is {}",
            shape[axis],
            pads = listed(pads)
        );
        crop.contiguous(axis, &shape[axis], before, end)?;
        shape[axis] = len;
    }
    let pads: Vec<[TDim; 2]> = pads
        .iter()
        .map(|pads| pads.each_ref().map(|pad| if is_crop(pad) { 0.to_dim() } else { pad.clone() }))
        .collect();
    if pads.iter().flatten().all(|pad| pad.is_zero()) {
        return crop.wire_as(ctx, name, data);
    }
    let dt = ctx.type_of(data)?;
    let value = match value {
        Some(value) => value,
        None => ctx.add_const("value", Tensor::zero_scalar_dt(dt)?)?,
    };
    let fact = ctx.model.outlet_fact(value)?;
    ensure!(
        fact.shape.volume().is_one(),
        "pad_value has shape {}, but must have one element",
        listed(&fact.shape)
    );
    let known: Option<Vec<(usize, usize)>> =
        pads.iter().map(|[a, b]| Some((a.to_usize().ok()?, b.to_usize().ok()?))).collect();
    if let (Some(known), Some(value)) = (known, &fact.konst)
        && dt.is_number()
        && !dt.is_tdim()
    {
        let value = value.cast_to_dt(dt)?.into_owned().into_shape(&[])?.into_arc_tensor();
        let op = Pad::new(known, CorePadMode::Constant(value));
        crop.then("pad", op, &[]);
        return crop.wire_as(ctx, name, data);
    }
    let cropped = crop.wire_as(ctx, "cropped", data)?;
    let value = ctx.one_element("value", value, shape.len())?;
    let unified = ctx.unify(&[cropped, value])?;
    let (mut whole, value) = (unified[0], unified[1]);
    let padded: Vec<usize> =
        (0..pads.len()).filter(|axis| pads[*axis].iter().any(|pad| !pad.is_zero())).collect();
    for (number, axis) in padded.iter().enumerate() {
        let filled = |ctx: &mut LayerContext, pad: &TDim| -> TractResult<Option<OutletId>> {
            if pad.is_zero() {
                return Ok(None);
            }
            let mut shape = shape.clone();
            if is_size(pad) || pad.prove_positive_or_zero() {
                shape[*axis] = pad.clone();
                let op = MultiBroadcastTo { shape: shape.into() };
                return ctx.wire("filled", op, &[value]).map(Some);
            }
            // Unlike a broadcast, it fails if there is a negative number of elements when it runs.
            shape[*axis] = 1.to_dim();
            let one = ctx.wire("filled", MultiBroadcastTo { shape: shape.into() }, &[value])?;
            let positions = Positions::Stride { first: 0.to_dim(), step: 0, len: pad.clone() };
            ctx.wire("filled", Take { axis: *axis, positions }, &[one]).map(Some)
        };
        let [before, after] = &pads[*axis];
        let (first, last) = (filled(ctx, before)?, filled(ctx, after)?);
        let all: TVec<OutletId> = first.into_iter().chain([whole]).chain(last).collect();
        let suffix = if number + 1 == padded.len() { name } else { "padded" };
        whole = ctx.wire(suffix, TypedConcat::new(*axis), &all)?;
        shape[*axis] = ctx.shape_of(whole)?[*axis].clone();
    }
    Ok(whole)
}
