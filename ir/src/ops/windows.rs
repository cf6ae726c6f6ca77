//! Windows that slide along axes: what is in them, and the sum of what overlaps.

use tract_core::internal::*;
use tract_core::ops::array::MultiBroadcastTo;
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::logic::{Iff, comp_eq};
use tract_core::ops::math::{add, div, mul};
use tract_openvino::GatherRevision;

use super::chain::Chain;
use super::common::FAR;
use super::fourier::{Signal, divided, real_inverse, real_transformed, with_size};
use super::indexing::gather;
use super::pad::pad_with_value;
use crate::operators::overlap_add::{Axis, OverlapAdd};
use crate::registry::Registry;
use crate::translate::LayerContext;

pub(super) fn register(registry: &mut Registry) {
    registry.add("ExtractImagePatches", 3, extract_image_patches);
    registry.add("Col2Im", 15, col2im);
    registry.add("STFT", 15, stft);
    registry.add("ISTFT", 16, istft);
}

/// How a window slides along an axis.
struct Slide {
    /// The number of elements of the window.
    size: usize,
    /// How far the windows are apart.
    step: usize,
    /// How far the elements of a window are apart.
    rate: usize,
}

impl Slide {
    /// How many elements of the axis a window covers.
    fn extent(&self) -> TractResult<i64> {
        let extent = (self.size as i64 - 1).checked_mul(self.rate as i64);
        let extent = extent.filter(|extent| (0..FAR).contains(extent));
        extent.map(|extent| extent + 1).with_context(|| {
            format!("windows of {} elements, {} apart, are too large", self.size, self.rate)
        })
    }

    /// The number of windows on an axis.
    fn count(&self, dim: &TDim) -> TractResult<TDim> {
        let last = dim.clone() - self.extent()?;
        ensure!(
            last.as_i64().is_none_or(|last| last >= 0),
            "a window covers {} elements of an axis that has {dim}",
            self.extent()?
        );
        Ok((last / self.step + 1).simplify())
    }

    /// Replaces an axis by two: the windows, and the elements of each.
    fn wire(
        &self,
        ctx: &mut LayerContext,
        suffix: &str,
        data: OutletId,
        axis: usize,
    ) -> TractResult<OutletId> {
        let count = self.count(&ctx.shape_of(data)?[axis])?;
        let starts = ctx.positions("starts", &count)?;
        let starts = ctx.change_axes("starts", starts, [AxisOp::Add(1)])?;
        let step = ctx.scalar("step", self.step as f64, DatumType::I64, 2)?;
        let starts = ctx.wire("starts", mul(), &[starts, step])?;
        let elements: Vec<i64> = (0..self.size).map(|it| (it * self.rate) as i64).collect();
        let elements = tensor1(&elements).into_shape(&[1, self.size])?;
        let elements = ctx.add_const("elements", elements)?;
        let indices = ctx.wire("indices", add(), &[starts, elements])?;
        let gather = gather(ctx, GatherRevision::V1, axis);
        ctx.wire(suffix, gather, &[data, indices])
    }
}

/// An attribute with two numbers, for the two spatial axes.
fn pair(ctx: &LayerContext, name: &str, least: usize, default: Option<usize>) -> TractResult<[usize; 2]> {
    let numbers: Vec<usize> = match default {
        Some(default) => ctx.attribute_or(name, vec![default; 2])?,
        None => ctx.attribute(name)?,
    };
    let fit = numbers.iter().all(|number| (least..=FAR as usize).contains(number));
    match *numbers {
        [height, width] if fit => Ok([height, width]),
        _ => bail!("attribute {name} is {numbers:?}, but must be two numbers in [{least}, {FAR}]"),
    }
}

/// **ExtractImagePatches-3**: windows of `sizes` that slide over the last two axes, `strides` apart, with
/// elements that are `rates` apart. The elements of a window become channels: those of one element of the
/// window are together.
fn extract_image_patches(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let sizes = pair(ctx, "sizes", 1, None)?;
    let (strides, rates) = (pair(ctx, "strides", 1, None)?, pair(ctx, "rates", 1, None)?);
    let modes = [("valid", None), ("same_lower", Some(true)), ("same_upper", Some(false))];
    let same = ctx.attribute_among("auto_pad", &modes, None)?;
    let shape = ctx.shape(0)?;
    ensure!(shape.len() == 4, "the data has rank {}, but must have rank 4", shape.len());
    let slide = |axis: usize| Slide { size: sizes[axis], step: strides[axis], rate: rates[axis] };
    let mut data = ctx.input(0)?;
    if let Some(lower) = same {
        let mut pads = vec![[0.to_dim(), 0.to_dim()]; 4];
        for axis in 0..2 {
            pads[axis + 2] = same_pads(&shape[axis + 2], &slide(axis), lower)?;
        }
        data = pad_with_value(ctx, "padded", data, &pads, None)?;
    }
    data = slide(0).wire(ctx, "rows", data, 2)?;
    data = slide(1).wire(ctx, "windows", data, 4)?;
    let mut chain = Chain::default();
    chain.permute(&[0, 3, 5, 1, 2, 4]);
    let window = [sizes[0].to_dim(), sizes[1].to_dim(), shape[1].clone()];
    let channels = window.iter().product();
    chain.reshape(1, &window, &[channels]);
    Ok(tvec!(chain.wire(ctx, data)?))
}

/// The zeros in front and behind an axis, so that a window begins at each step of it.
fn same_pads(dim: &TDim, slide: &Slide, lower: bool) -> TractResult<[TDim; 2]> {
    let last = (dim.clone().div_ceil(slide.step as u64) - 1) * slide.step;
    let missing = (last + slide.extent()? - dim).simplify();
    let missing = missing.as_i64().with_context(|| {
        format!(
            "the zeros at the ends of an axis of size {dim} depend on that size: give the input sizes, or \
             multiples of {}",
            slide.step
        )
    })?;
    let missing = missing.max(0);
    let (less, more) = ((missing / 2).to_dim(), (missing - missing / 2).to_dim());
    Ok(if lower { [more, less] } else { [less, more] })
}

/// **Col2Im-15**: the opposite of windows that slide over an image: their elements are added where they were.
fn col2im(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    ctx.expect_numbers(0, "data")?;
    let (image, kernel) = (ctx.sizes(1, "output_size")?, ctx.integers(2, "kernel_size")?);
    let (strides, dilations) =
        (pair(ctx, "strides", 1, Some(1))?, pair(ctx, "dilations", 1, Some(1))?);
    let pads = [pair(ctx, "pads_begin", 0, Some(0))?, pair(ctx, "pads_end", 0, Some(0))?];
    ensure!(
        image.len() == 2 && kernel.len() == 2,
        "output_size and kernel_size have {} and {} elements, but must have 2",
        image.len(),
        kernel.len()
    );
    let axis = |axis: usize| -> TractResult<Axis> {
        let size = usize::try_from(kernel[axis]).ok().filter(|size| *size > 0);
        let size = size.with_context(|| format!("kernel_size is {kernel:?}, but must be above 0"))?;
        let (step, rate, before) = (strides[axis], dilations[axis], pads[0][axis]);
        let whole = image[axis].clone() + before + pads[1][axis];
        let count = Slide { size, step, rate }.count(&whole)?;
        Ok(Axis { size, step, rate, before, count, dim: image[axis].clone() })
    };
    let op = OverlapAdd { axes: [axis(0)?, axis(1)?] };
    let shape = ctx.shape(0)?;
    ensure!(
        [2, 3].contains(&shape.len()),
        "the data has shape {shape:?}, but must have rank 2 or 3"
    );
    let doing = "adds windows, of which output_size says how many there are";
    ctx.equal(&shape[shape.len() - 1], &op.windows(), doing)?;
    let mut data = ctx.input(0)?;
    let batched = shape.len() == 3;
    if !batched {
        data = ctx.change_axes("batch", data, [AxisOp::Add(0)])?;
    }
    let whole = ctx.wire(if batched { "" } else { "whole" }, op, &[data])?;
    let unbatched = (!batched).then_some(AxisOp::Rm(0));
    Ok(tvec!(ctx.change_axes("", whole, unbatched)?))
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
        ensure!((1..FAR).contains(&number), "{name} is {number}, but must be in [1, {FAR})");
        Ok(number as usize)
    };
    let slide = Slide { size: positive(2, "frame_size")?, step: positive(3, "frame_step")?, rate: 1 };
    let shape = ctx.shape(1)?;
    let len = match &*shape {
        [len] => len.to_usize().ok().filter(|len| (1..=slide.size).contains(len)),
        _ => None,
    };
    let len = len.with_context(|| {
        format!("the window has shape {shape:?}, but must have 1 to frame_size elements: {}", slide.size)
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
        "the data has shape {shape:?}, but must have rank 3 or 4 and a last dimension of 2"
    );
    let (slide, window) = frames(ctx)?;
    let half = slide.size / 2 + 1;
    ctx.equal(&shape[rank - 3], &half.to_dim(), "has frames of frame_size")?;
    let (center, normalized): (bool, bool) = (ctx.attribute("center")?, ctx.attribute("normalized")?);
    let total = ((shape[rank - 2].clone() - 1) * slide.step + slide.size).simplify();
    let cut = if center { slide.size / 2 } else { 0 };
    let mut length = total.clone() - 2 * cut;
    if ctx.input_count() == 5 {
        ctx.expect_one_element(4, "signal_length")?;
        length = ctx.sizes(4, "signal_length")?[0].clone();
    }
    let data = ctx.input(0)?;
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        let data = ctx.change_axes("batch", data, (rank == 3).then_some(AxisOp::Add(0)))?;
        let signal = Signal { axis: 1, size: slide.size.to_dim(), is_given: true };
        let frames = real_inverse(ctx, "frames", data, &signal)?;
        let frames = divided(ctx, "frames", frames, &[signal])?;
        let sum = overlapped(ctx, frames, window, &slide, &total, normalized)?;
        let mut start = Chain::default();
        start.contiguous(1, &total, cut.to_dim(), total.clone());
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
    let one = Axis { size: 1, step: 1, rate: 1, before: 0, count: 1.to_dim(), dim: 1.to_dim() };
    let (size, step, dim) = (slide.size, slide.step, total.clone());
    let along = Axis { size, step, count: count.clone(), dim, ..one.clone() };
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
