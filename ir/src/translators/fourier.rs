//! Fourier transforms. A complex number is two elements of the last axis.

use tract_core::internal::*;
use tract_core::num_traits::Zero;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::fft::Fft;
use tract_core::ops::math::{div, mul};
use tract_openvino_kernels::checks::{checked_volume, known_sizes, listed};

use super::chain::Chain;
use super::pad::pad_with_value;
use crate::context::{LayerContext, NotKnown};
use crate::limits::MAX_SIGNAL;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("DFT", 7, |ctx| dft(ctx, false));
    registry.add("IDFT", 7, |ctx| dft(ctx, true));
    registry.add("RDFT", 9, rdft);
    registry
        .add("IRDFT", 9, irdft)
        .without("an open size of the last of `axes`, unless `signal_size` says it");
}

/// **DFT-7**, **IDFT-7**: transforms of complex numbers along `axes`. With `signal_size` an axis is cut or
/// padded with zeros at its end before; -1 leaves it as it is. A negative axis does not count the last one,
/// which has the parts of the complex numbers. The inverse is divided by the number of elements.
fn dft(ctx: &mut LayerContext, inverse: bool) -> TractResult<TVec<OutletId>> {
    let rank = complex_rank(ctx)?;
    let signals = signals(ctx, rank)?;
    let data = ctx.input(0)?;
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        let data = resized(ctx, data, &signals)?;
        let name = if inverse { "sum" } else { suffix };
        let output = transformed(ctx, name, data, &signals, inverse)?;
        if inverse { divided(ctx, suffix, output, &signals) } else { Ok(output) }
    })?;
    Ok(tvec!(output))
}

/// **RDFT-9**: as DFT-7, but of real numbers. Of the last one of `axes` only the first half of the output is
/// there, and the element in the middle: the others are their conjugates.
fn rdft(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_floats(0, "data")?;
    let signals = signals(ctx, ctx.rank(0)?)?;
    let data = ctx.input(0)?;
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        let data = resized(ctx, data, &signals)?;
        let Some((last, others)) = signals.split_last() else { return complex(ctx, suffix, data) };
        let name = if others.is_empty() { suffix } else { "half" };
        let half = real_transformed(ctx, name, data, last)?;
        transformed(ctx, suffix, half, others, false)
    })?;
    Ok(tvec!(output))
}

/// **IRDFT-9**: the inverse of RDFT-9. Of the last one of `axes` the input has the first half. Without a
/// `signal_size` the output is twice as long as that half without its last element.
fn irdft(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let rank = complex_rank(ctx)?;
    let mut signals = signals(ctx, rank)?;
    let data = ctx.input(0)?;
    let Some(mut last) = signals.pop() else { bail!("axes is empty, but must have one or more") };
    if !last.is_given {
        last.size = ((last.size - 1) * 2).simplify();
    }
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        let data = resized(ctx, data, &signals)?;
        let data = transformed(ctx, "others", data, &signals, true)?;
        let real = real_inverse(ctx, "sum", data, &last)?;
        signals.push(last);
        divided(ctx, suffix, real, &signals)
    })?;
    Ok(tvec!(output))
}

/// An axis, and how many elements of it are transformed.
pub(super) struct Signal {
    pub axis: usize,
    pub size: TDim,
    /// Whether `signal_size` says so.
    pub is_given: bool,
}

/// The rank without the axis of complex numbers, which is the last one of the first input.
fn complex_rank(ctx: &mut LayerContext) -> TractResult<usize> {
    ctx.expect_floats(0, "data")?;
    let shape = ctx.shape(0)?;
    let last = shape.last().and_then(|dim| dim.as_i64());
    ensure!(
        shape.len() >= 2 && last.is_none_or(|size| size == 2),
        "the data has shape {shape}, but must have rank 2 or more and a last dimension of 2, for the parts of \
         complex numbers",
        shape = listed(&shape)
    );
    let rank = shape.len() - 1;
    ctx.expect_size(0, rank, 2, "transforms complex numbers, of two parts")?;
    Ok(rank)
}

/// The axes that are transformed, of the first `rank` axes.
fn signals(ctx: &LayerContext, rank: usize) -> TractResult<Vec<Signal>> {
    ctx.expect_inputs(2..=3)?;
    let shape = ctx.shape(0)?;
    let axes = ctx.integers(1, "axes")?;
    ctx.axes("axes", &axes, rank)?;
    let sizes = match ctx.input_count() {
        3 => ctx.integers(2, "signal_size")?,
        _ => tvec![-1; axes.len()],
    };
    ensure!(
        sizes.len() == axes.len(),
        "signal_size has length {}, but must have length {}, as axes",
        sizes.len(),
        axes.len()
    );
    let signal = |(axis, size): (&i64, &i64)| {
        let axis = ctx.axis("axes", *axis, rank)?;
        ensure!(
            *size == -1 || (1..=MAX_SIGNAL).contains(size),
            "signal_size has {size}, but must have -1 or sizes in [1, {MAX_SIGNAL}]"
        );
        let is_given = *size != -1;
        let size = if is_given { size.to_dim() } else { shape[axis].clone() };
        Ok(Signal { axis, size, is_given })
    };
    axes.iter().zip(&sizes).map(signal).collect()
}

/// Cuts axes, or pads them with zeros at their end.
fn resized(
    ctx: &mut LayerContext,
    mut data: OutletId,
    signals: &[Signal],
) -> TractResult<OutletId> {
    for Signal { axis, size, .. } in signals {
        data = with_size(ctx, "resized", data, *axis, size)?;
    }
    Ok(data)
}

/// Gives an axis a size: cuts it, or pads it with zeros at its end.
pub(super) fn with_size(
    ctx: &mut LayerContext,
    suffix: &str,
    data: OutletId,
    axis: usize,
    size: &TDim,
) -> TractResult<OutletId> {
    let shape = ctx.shape_of(data)?;
    let missing = match (shape[axis].as_i64(), size.as_i64()) {
        _ if shape[axis] == *size => return Ok(data),
        (Some(dim), Some(size)) => (size - dim).max(0).to_dim(),
        _ => size.clone(),
    };
    let mut sized = shape.clone();
    sized[axis] = size.clone();
    checked_volume(&ctx.layer().operation, &known_sizes(&sized)?)?;
    let mut pads = vec![[0.to_dim(), 0.to_dim()]; shape.len()];
    pads[axis][1] = missing;
    let padded = pad_with_value(ctx, "padded", data, &pads, None)?;
    let mut cut = Chain::default();
    cut.contiguous(axis, &ctx.shape_of(padded)?[axis], 0.to_dim(), size.clone())?;
    cut.wire_as(ctx, suffix, padded)
}

/// Makes real numbers complex: adds an axis.
fn complex(ctx: &mut LayerContext, suffix: &str, real: OutletId) -> TractResult<OutletId> {
    let rank = ctx.shape_of(real)?.len();
    let data = ctx.change_axes("complex", real, [AxisOp::Add(rank)])?;
    with_size(ctx, suffix, data, rank, &2.to_dim())
}

/// Transforms complex numbers along axes.
fn transformed(
    ctx: &mut LayerContext,
    suffix: &str,
    mut data: OutletId,
    signals: &[Signal],
    inverse: bool,
) -> TractResult<OutletId> {
    for (number, Signal { axis, .. }) in signals.iter().enumerate() {
        let name = if number + 1 == signals.len() { suffix } else { "transformed" };
        data = fft(ctx, name, data, *axis, inverse)?;
    }
    Ok(data)
}

/// A transform along an axis. tract's operator panics if there are no elements.
fn fft(
    ctx: &mut LayerContext,
    suffix: &str,
    data: OutletId,
    axis: usize,
    inverse: bool,
) -> TractResult<OutletId> {
    let shape = ctx.shape_of(data)?;
    if shape.iter().any(|dim| dim.is_zero()) {
        return Ok(data);
    }
    let data = ctx.with_least_sizes(data, (0..shape.len()).map(|axis| (axis, 1)))?;
    ctx.wire(suffix, Fft { axis, inverse }, &[data])
}

/// Transforms real numbers along an axis that has the signal's size. Gives the first half.
pub(super) fn real_transformed(
    ctx: &mut LayerContext,
    suffix: &str,
    real: OutletId,
    signal: &Signal,
) -> TractResult<OutletId> {
    let data = complex(ctx, "complex", real)?;
    let data = fft(ctx, "transformed", data, signal.axis, false)?;
    with_size(ctx, suffix, data, signal.axis, &half(&signal.size))
}

/// The number of elements of a transform of real numbers that are not conjugates of others.
fn half(size: &TDim) -> TDim {
    (size.clone() / 2 + 1).simplify()
}

/// The sums of the inverse transform along an axis to real numbers, from the first half.
///
/// The other half would add the conjugates: the real parts of the first half are taken twice, except for those
/// of the elements that have no conjugate.
pub(super) fn real_inverse(
    ctx: &mut LayerContext,
    suffix: &str,
    data: OutletId,
    signal: &Signal,
) -> TractResult<OutletId> {
    let Signal { axis, size, .. } = signal;
    let size = size.as_i64().ok_or_else(|| {
        NotKnown::sizes(format!(
            "the size of the output on axis {axis} is {size}, but must be a number: give the inputs sizes"
        ))
    })?;
    ensure!(
        (1..=MAX_SIGNAL).contains(&size),
        "the size of the output on axis {axis} would be {size}, but must be in [1, {MAX_SIGNAL}]"
    );
    let size = size as usize;
    let half = size / 2 + 1;
    let data = with_size(ctx, "half", data, *axis, &half.to_dim())?;
    let rank = ctx.shape_of(data)?.len();
    let mut shape = tvec![1; rank];
    shape[*axis] = half;
    let dt = ctx.type_of(data)?;
    let times = ctx.add_computed("times", dt, &shape, || {
        let times: Vec<f32> =
            (0..half).map(|at| if at == 0 || 2 * at == size { 1. } else { 2. }).collect();
        let times = tensor1(&times).into_shape(&shape)?;
        Ok(times.cast_to_dt(dt)?.into_owned())
    })?;
    let data = ctx.wire("both_halves", mul(), &[data, times])?;
    let data = with_size(ctx, "whole", data, *axis, &size.to_dim())?;
    let data = fft(ctx, "transformed", data, *axis, true)?;
    let mut real = Chain::default();
    real.contiguous(rank - 1, &2.to_dim(), 0.to_dim(), 1.to_dim())?;
    real.axis_op(AxisOp::Rm(rank - 1));
    real.wire_as(ctx, suffix, data)
}

/// Divides by the number of elements that were transformed.
pub(super) fn divided(
    ctx: &mut LayerContext,
    suffix: &str,
    data: OutletId,
    signals: &[Signal],
) -> TractResult<OutletId> {
    let count: TDim = signals.iter().map(|signal| &signal.size).product();
    let rank = ctx.shape_of(data)?.len();
    let count = ctx.add_const("count", tensor0(count).broadcast_into_rank(rank)?)?;
    let count = ctx.cast("count", count, ctx.type_of(data)?)?;
    ctx.wire(suffix, div(), &[data, count])
}
