//! Windows that slide along axes: what is in them, and the sum of what overlaps in an image.

use tract_core::internal::*;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::math::mul;
use tract_openvino::GatherRevision;
use tract_openvino_kernels::checks::listed;

use super::chain::Chain;
use super::common::FAR;
use super::indexing::gather;
use super::matmul::unseen_positions;
use super::pad::pad_with_value;
use crate::context::{LayerContext, NotKnown};
use crate::operators::arithmetic::Arithmetic;
use crate::operators::overlap_add::{Axis, OverlapAdd};
use crate::operators::windows::extent;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("ExtractImagePatches", 3, extract_image_patches)
        .without("`auto_pad` same_upper and same_lower for open sizes, unless these are multiples of the stride; windows larger than the data");
    registry.add("Col2Im", 15, col2im);
}

/// How a window slides along an axis.
pub(super) struct Slide {
    /// The number of elements of the window.
    pub size: usize,
    /// How far the windows are apart.
    pub step: usize,
    /// How far the elements of a window are apart.
    pub rate: usize,
}

impl Slide {
    /// How many elements of the axis a window covers.
    fn extent(&self) -> TractResult<i64> {
        let extent = extent(self.size, self.rate).and_then(|extent| i64::try_from(extent).ok());
        extent.filter(|extent| (1..=FAR).contains(extent)).with_context(|| {
            format!("windows of {} elements, {} apart, are too large", self.size, self.rate)
        })
    }

    /// The number of windows on an axis.
    fn count(&self, dim: &TDim) -> TractResult<TDim> {
        let last = dim.clone() - self.extent()?;
        ensure!(
            last.as_i64().is_none_or(|last| last >= 0),
            "a window has size {}, but must have size {dim} or less, that of the axis",
            self.extent()?
        );
        Ok((last / self.step + 1).simplify())
    }

    /// Replaces an axis by two: the windows, and the elements of each.
    pub(super) fn wire(
        &self,
        ctx: &mut LayerContext,
        suffix: &str,
        data: OutletId,
        axis: usize,
    ) -> TractResult<OutletId> {
        let count = self.count(&ctx.shape_of(data)?[axis])?;
        let data = ctx.with_least_sizes(data, [(axis, usize::try_from(self.extent()?)?)])?;
        // tract's Range takes a count below 0 for one above.
        let starts = unseen_positions(ctx, "starts", &count)?;
        let starts = ctx.change_axes("starts", starts, [AxisOp::Add(1)])?;
        let step = ctx.scalar("step", self.step as f64, DatumType::I64, 2)?;
        let starts = ctx.wire("starts", mul(), &[starts, step])?;
        let elements = ctx.positions("elements", &self.size.to_dim())?;
        let elements = ctx.change_axes("elements", elements, [AxisOp::Add(0)])?;
        let rate = ctx.scalar("rate", self.rate as f64, DatumType::I64, 2)?;
        let elements = ctx.wire("elements", mul(), &[elements, rate])?;
        // There are as many as the windows have elements, of which only a run may know the number: tract's own addition
        // does not check that.
        let indices = ctx.wire("indices", Arithmetic::Add.op(), &[starts, elements])?;
        let gather = gather(ctx, GatherRevision::V1, axis);
        ctx.wire(suffix, gather, &[data, indices])
    }
}

/// An attribute with two numbers, for the two spatial axes.
fn pair(
    ctx: &LayerContext,
    name: &str,
    least: usize,
    default: Option<usize>,
) -> TractResult<[usize; 2]> {
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
    let shape = ctx.shape_of_rank(0, "data", 4)?;
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

/// The zeros before and after an axis, so that a window begins at each step of it.
fn same_pads(dim: &TDim, slide: &Slide, lower: bool) -> TractResult<[TDim; 2]> {
    let last = (dim.clone().div_ceil(slide.step as u64) - 1) * slide.step;
    let missing = (last + slide.extent()? - dim).simplify();
    let missing = missing.as_i64().ok_or_else(|| {
        NotKnown::sizes(format!(
            "the zeros at the ends of an axis of size {dim} depend on that size: give the input sizes, or \
             multiples of {}",
            slide.step
        ))
    })?;
    let missing = missing.max(0);
    let (less, more) = ((missing / 2).to_dim(), (missing - missing / 2).to_dim());
    Ok(if lower { [more, less] } else { [less, more] })
}

/// **Col2Im-15**: the opposite of windows that slide over an image: their elements are added where they were.
fn col2im(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    ctx.expect_numbers(0, "data")?;
    let shape = ctx.shape(0)?;
    let ([channels, count] | [_, channels, count]) = &*shape else {
        bail!("the data has rank {}, but must have rank 2 or 3", shape.len())
    };
    let batched = shape.len() == 3;
    let axes = col2im_axes(ctx)?;
    let elements = axes[0].size.checked_mul(axes[1].size).context("kernel_size is too large")?;
    ensure!(
        channels.as_i64().is_none_or(|channels| channels % elements as i64 == 0),
        "the data has shape {shape}, but must have channels in a multiple of {elements}, the size of a window",
        shape = listed(&shape)
    );
    let mut windows = 1.to_dim();
    for Axis { size, step, rate, before, after, dim } in &axes {
        let slide = Slide { size: *size, step: *step, rate: *rate };
        windows *= slide.count(&(dim.clone() + *before + *after))?;
    }
    ctx.require_equal(count, &windows, "adds windows of an image of output_size")?;
    let data = ctx.number_input(0)?;
    let output = ctx.in_single("", data, |ctx, suffix, data| {
        let data = ctx.change_axes("batch", data, (!batched).then_some(AxisOp::Add(0)))?;
        let name = if batched { suffix } else { "image" };
        let image = ctx.wire(name, OverlapAdd { axes }, &[data])?;
        ctx.change_axes(suffix, image, (!batched).then_some(AxisOp::Rm(0)))
    })?;
    Ok(tvec!(output))
}

/// How the windows of Col2Im slide along the two axes.
fn col2im_axes(ctx: &LayerContext) -> TractResult<[Axis<TDim>; 2]> {
    let (image, kernel) = (ctx.sizes(1, "output_size")?, ctx.integers(2, "kernel_size")?);
    ensure!(
        image.len() == 2
            && image.iter().all(|size| size.as_i64().is_none_or(|size| size <= FAR))
            && kernel.len() == 2
            && kernel.iter().all(|size| (1..=FAR).contains(size)),
        "output_size and kernel_size are {image} and {kernel:?}, but must be two numbers, {FAR} or less, and \
         those of kernel_size 1 or more",
        image = listed(&image)
    );
    let (steps, rates) = (pair(ctx, "strides", 1, Some(1))?, pair(ctx, "dilations", 1, Some(1))?);
    let (begin, end) = (pair(ctx, "pads_begin", 0, Some(0))?, pair(ctx, "pads_end", 0, Some(0))?);
    Ok([0, 1].map(|axis: usize| Axis {
        size: kernel[axis] as usize,
        step: steps[axis],
        rate: rates[axis],
        before: begin[axis],
        after: end[axis],
        dim: image[axis].clone(),
    }))
}
