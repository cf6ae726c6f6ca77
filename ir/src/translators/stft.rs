//! Short-time Fourier transforms: those of the frames of a signal.

use tract_core::internal::*;
use tract_core::num_traits::Zero;
use tract_core::ops::array::MultiBroadcastTo;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::logic::{Iff, comp_eq};
use tract_core::ops::math::{div, mul};
use tract_openvino_kernels::checks::listed;

use super::blocks::multiply;
use super::chain::Chain;
use super::fourier::{Signal, divided, real_inverse, real_transformed, with_size};
use super::pad::pad_with_value;
use super::windows::Slide;
use crate::context::LayerContext;
use crate::limits::{MAX_SIGNAL, MAX_STATED_ELEMENTS};
use crate::operators::overlap_add::{Axis, OverlapAdd};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("STFT", 15, stft);
    registry.add("ISTFT", 16, istft);
}

/// The frames of STFT and ISTFT: how the window slides, and the window with zeros at both ends, as long as a
/// frame.
fn frames(ctx: &mut LayerContext) -> TractResult<(Slide, OutletId)> {
    let dt = ctx.expect_floats(0, "data")?;
    ensure!(
        ctx.expect_floats(1, "window")? == dt,
        "data and window are of types {dt:?} and {:?}, but must be of one type",
        ctx.datum_type(1)?
    );
    let positive = |input: usize, name: &str| -> TractResult<usize> {
        let number = ctx.integer(input, name)?;
        ensure!(
            (1..=MAX_SIGNAL).contains(&number),
            "{name} is {number}, but must be in [1, {MAX_SIGNAL}]"
        );
        Ok(number as usize)
    };
    let slide =
        Slide { size: positive(2, "frame_size")?, step: positive(3, "frame_step")?, rate: 1 };
    let shape = ctx.shape(1)?;
    let len = match &*shape {
        [len] => len.to_usize().ok().filter(|len| (1..=slide.size).contains(len)),
        _ => None,
    };
    let len = len.with_context(|| {
        format!(
            "the window has shape {shape}, but must have 1 to frame_size elements: {}",
            slide.size,
            shape = listed(&shape)
        )
    })?;
    let missing = slide.size - len;
    let before = missing / 2;
    let window = ctx.input(1)?;
    let window = ctx.single("window", window)?;
    let pads = [[before.to_dim(), (missing - before).to_dim()]];
    Ok((slide, pad_with_value(ctx, "window", window, &pads, None)?))
}

/// **STFT-15**: the transforms of frames of a signal, each multiplied by a window before. A window that is
/// shorter than a frame is in its middle. With `transpose_frames` the frames are the last but one axis.
fn stft(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=4)?;
    let rank = ctx.rank(0)?;
    ensure!([1, 2].contains(&rank), "the data has rank {rank}, but must have rank 1 or 2");
    let (slide, window) = frames(ctx)?;
    let transpose: bool = ctx.attribute("transpose_frames")?;
    let data = ctx.input(0)?;
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        let frames = slide.wire(ctx, "frames", data, rank - 1)?;
        let window = ctx.change_axes("window", window, vec![AxisOp::Add(0); rank])?;
        let frames = ctx.wire("windowed", mul(), &[frames, window])?;
        let signal = Signal { axis: rank, size: slide.size.to_dim(), is_given: true };
        let name = if transpose { "half" } else { suffix };
        let output = real_transformed(ctx, name, frames, &signal)?;
        ctx.change_axes(suffix, output, transpose.then_some(AxisOp::Move(rank, rank - 1)))
    })?;
    Ok(tvec!(output))
}

/// **ISTFT-16**: the inverse of STFT-15 with transposed frames. Frames are multiplied by the window again and
/// added, and the sum is divided by that of the squares of the windows. With `center` half a frame is cut off
/// at both ends. With `signal_length` the output is cut or padded with zeros at its end.
fn istft(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=5)?;
    let shape = ctx.shape(0)?;
    let rank = shape.len();
    ensure!(
        [3, 4].contains(&rank) && shape[rank - 1].as_i64() == Some(2),
        "the data has shape {shape}, but must have rank 3 or 4 and a last dimension of 2",
        shape = listed(&shape)
    );
    let (slide, window) = frames(ctx)?;
    let half = slide.size / 2 + 1;
    ctx.require_equal(&shape[rank - 3], &half.to_dim(), "has frames of frame_size")?;
    let (center, normalized): (bool, bool) =
        (ctx.attribute("center")?, ctx.attribute("normalized")?);
    let frames = &shape[rank - 2];
    ensure!(
        !frames.is_zero(),
        "the data has shape {shape}, but must have one frame or more",
        shape = listed(&shape)
    );
    let between = multiply(&(frames.clone() - 1), &slide.step.to_dim())?;
    let total = (between + slide.size).simplify();
    let cut = if center { slide.size / 2 } else { 0 };
    let mut length = total.clone() - 2 * cut;
    if ctx.input_count() == 5 {
        ctx.expect_one_element(4, "signal_length")?;
        length = ctx.sizes(4, "signal_length")?[0].clone();
        ensure!(
            length.as_i64().is_none_or(|length| length <= MAX_STATED_ELEMENTS as i64),
            "signal_length is {length}, but must be in [0, {MAX_STATED_ELEMENTS}]"
        );
    }
    let data = ctx.input(0)?;
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        let data = ctx.change_axes("batch", data, (rank == 3).then_some(AxisOp::Add(0)))?;
        let signal = Signal { axis: 1, size: slide.size.to_dim(), is_given: true };
        let frames = real_inverse(ctx, "frames", data, &signal)?;
        let frames = divided(ctx, "frames", frames, &[signal])?;
        let sum = overlapped(ctx, frames, window, &slide, &total, normalized)?;
        let mut start = Chain::default();
        start.contiguous(1, &total, cut.to_dim(), total.clone())?;
        let sum = start.wire_as(ctx, "from_start", sum)?;
        let name = if rank == 3 { "signal" } else { suffix };
        let output = with_size(ctx, name, sum, 1, &length.simplify())?;
        ctx.change_axes(suffix, output, (rank == 3).then_some(AxisOp::Rm(0)))
    })?;
    Ok(tvec!(output))
}

/// Adds frames that overlap, weighted by a window, and divides by the sum of the squares of the weights. Where
/// that is 0, nothing is divided.
fn overlapped(
    ctx: &mut LayerContext,
    frames: OutletId,
    window: OutletId,
    slide: &Slide,
    total: &TDim,
    normalized: bool,
) -> TractResult<OutletId> {
    let count = ctx.shape_of(frames)?[2].clone();
    let one = Axis { size: 1, step: 1, rate: 1, before: 0, after: 0, dim: 1.to_dim() };
    let along = Axis { size: slide.size, step: slide.step, dim: total.clone(), ..one.clone() };
    let add_up = |ctx: &mut LayerContext, name: &str, frames: OutletId| {
        let op = OverlapAdd { axes: [one.clone(), along.clone()] };
        let sum = ctx.wire("overlap", op, &[frames])?;
        ctx.change_axes(name, sum, [AxisOp::Rm(1), AxisOp::Rm(1)])
    };
    let window = ctx.change_axes("window", window, [AxisOp::Add(0), AxisOp::Add(2)])?;
    let frames = ctx.wire("windowed", mul(), &[frames, window])?;
    let sum = add_up(ctx, "sum", frames)?;
    let squares = ctx.wire("squares", mul(), &[window, window])?;
    let shape = tvec![1.to_dim(), slide.size.to_dim(), count].into();
    let squares = ctx.wire("squares", MultiBroadcastTo { shape }, &[squares])?;
    let weights = add_up(ctx, "weights", squares)?;
    let dt = ctx.type_of(sum)?;
    let (zero, one) = (ctx.scalar("zero", 0., dt, 2)?, ctx.scalar("one", 1., dt, 2)?);
    let none = ctx.wire("none", TypedBinOp(comp_eq(), None), &[weights, zero])?;
    let weights = ctx.wire("divisors", Iff, &[none, one, weights])?;
    if !normalized {
        return ctx.wire("weighted", div(), &[sum, weights]);
    }
    let factor = ctx.scalar("factor", (slide.size as f64).sqrt(), dt, 2)?;
    let sum = ctx.wire("normalized", mul(), &[sum, factor])?;
    ctx.wire("weighted", div(), &[sum, weights])
}
