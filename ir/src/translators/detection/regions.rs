//! Regions of feature maps in one size.

use tract_core::internal::*;

use crate::context::LayerContext;
use crate::operators::detection::deformable_psroi_pooling::DeformablePsroiPooling;
use crate::operators::detection::psroi_pooling::{self, PsroiPooling};
use crate::operators::detection::roi_align::{Aligned, RoiAlign};
use crate::operators::detection::roi_align_rotated::RoiAlignRotated;
use crate::operators::detection::roi_pooling::{Method, RoiPooling};

/// Checks the inputs: data of rank 4, and regions of that many coordinates, both of floats.
fn expect_regions(ctx: &mut LayerContext, coordinates: usize) -> TractResult<()> {
    ctx.expect_floats(0, "data")?;
    ctx.expect_floats(1, "rois")?;
    ctx.shape_of_rank(0, "data", 4)?;
    let regions = ctx.shape_of_rank(1, "rois", 2)?;
    ctx.require_equal(&regions[1], &coordinates.to_dim(), "has regions of these coordinates")?;
    Ok(())
}

/// Checks the size of the output of a region.
pub(super) fn check_pooled(sizes: [usize; 2]) -> TractResult<[usize; 2]> {
    ensure!(
        sizes.iter().all(|size| (1..1 << 16).contains(size)),
        "the size of a pooled region is {sizes:?}, but must be from 1 to 65535"
    );
    Ok(sizes)
}

/// **ROIAlign-3**, **ROIAlign-9**: of each region, samples in the middle of parts. Revision 9 adds
/// `aligned_mode`: `half_pixel` and `half_pixel_for_nn` count coordinates from the middle of elements.
pub(super) fn roi_align(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    expect_regions(ctx, 4)?;
    ctx.expect_integers(2, "batch_indices")?;
    let (regions, images) = (ctx.shape(1)?, ctx.shape(2)?);
    ctx.equal_shapes(&images, &regions[..1], None, "has an image for each region")?;
    let aligned_modes = [
        ("asymmetric", Aligned::Asymmetric),
        ("half_pixel_for_nn", Aligned::HalfPixelForNn),
        ("half_pixel", Aligned::HalfPixel),
    ];
    let aligned = match ctx.since() {
        9.. => ctx.attribute_among("aligned_mode", &aligned_modes, Some(Aligned::Asymmetric))?,
        _ => Aligned::Asymmetric,
    };
    let op = RoiAlign {
        pooled: check_pooled([ctx.attribute("pooled_h")?, ctx.attribute("pooled_w")?])?,
        sampling_ratio: ctx.attribute("sampling_ratio")?,
        spatial_scale: ctx.attribute("spatial_scale")?,
        greatest: ctx.attribute_among("mode", &[("avg", false), ("max", true)], None)?,
        aligned,
    };
    let inputs = ctx.all_inputs()?;
    ctx.finish(op, &inputs)
}

/// **ROIAlignRotated-15**: of each region, means of samples in the middle of parts. A region has a center, a width, a height and
/// an angle in radians, by which it is turned clockwise if `clockwise_mode` is true.
pub(super) fn roi_align_rotated(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    expect_regions(ctx, 5)?;
    ctx.expect_integers(2, "batch_indices")?;
    let (regions, images) = (ctx.shape(1)?, ctx.shape(2)?);
    ctx.equal_shapes(&images, &regions[..1], None, "has an image for each region")?;
    let op = RoiAlignRotated {
        pooled: check_pooled([ctx.attribute("pooled_h")?, ctx.attribute("pooled_w")?])?,
        sampling_ratio: ctx.attribute("sampling_ratio")?,
        spatial_scale: ctx.attribute("spatial_scale")?,
        clockwise: ctx.attribute("clockwise_mode")?,
    };
    let inputs = ctx.all_inputs()?;
    ctx.finish(op, &inputs)
}

/// **ROIPooling-1**: of each region, the greatest elements of parts, or points of a grid between elements.
/// Older files have `output_size`, or `pooled_h` and `pooled_w`, for `output_roi`.
pub(super) fn roi_pooling(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    expect_regions(ctx, 5)?;
    let size: Option<Vec<usize>> = match ctx.attribute_opt("output_roi")? {
        None => ctx.attribute_opt("output_size")?,
        size => size,
    };
    let output_roi = match size.as_deref() {
        Some(&[height, width]) => [height, width],
        Some(size) => bail!("attribute output_roi is {size:?}, but must be height and width"),
        None => [ctx.attribute("pooled_h")?, ctx.attribute("pooled_w")?],
    };
    let max = Method::Max { spatial_scale: ctx.attribute("spatial_scale")? };
    let methods = [("max", max), ("bilinear", Method::Bilinear)];
    let method = ctx.attribute_among("method", &methods, Some(max))?;
    let inputs = ctx.all_inputs()?;
    ctx.finish(RoiPooling { output_roi: check_pooled(output_roi)?, method }, &inputs)
}

/// **PSROIPooling-1**: of each region, means of parts, or with `bilinear` of points in `spatial_bins_y` by
/// `spatial_bins_x` bins. Each part or bin has channels of its own.
pub(super) fn psroi_pooling(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    expect_regions(ctx, 5)?;
    let bins = check_pooled([
        ctx.attribute_or("spatial_bins_y", 1)?,
        ctx.attribute_or("spatial_bins_x", 1)?,
    ])?;
    let bilinear = psroi_pooling::Mode::Bilinear { bins_y: bins[0], bins_x: bins[1] };
    let average = psroi_pooling::Mode::Average;
    let modes = [("average", average), ("bilinear", bilinear)];
    let group_size = ctx.attribute_or("group_size", 1)?;
    let op = PsroiPooling {
        output_dim: ctx.attribute("output_dim")?,
        group_size: check_pooled([group_size; 2])?[0],
        spatial_scale: ctx.attribute("spatial_scale")?,
        mode: ctx.attribute_among("mode", &modes, Some(average))?,
    };
    let channels = op.channels().context("the number of channels cannot be counted")?;
    let data = ctx.shape(0)?;
    ctx.require_equal(&data[1], &channels.to_dim(), "has this number of channels for its parts")?;
    let inputs = ctx.all_inputs()?;
    ctx.finish(op, &inputs)
}

/// **DeformablePSROIPooling-1**: of each region, means of points in `spatial_bins_y` by `spatial_bins_x` bins of parts, each of
/// which has a channel of its own. The third input has offsets of the parts, in sizes of the region times `trans_std`. The first
/// region of image -1 ends the list, as in OpenVINO.
pub(super) fn deformable_psroi_pooling(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    expect_regions(ctx, 5)?;
    let modes = [("bilinear_deformable", ())];
    ctx.attribute_among("mode", &modes, Some(()))?;
    let bins = [ctx.attribute_or("spatial_bins_y", 1)?, ctx.attribute_or("spatial_bins_x", 1)?];
    let group_size = ctx.attribute_or("group_size", 1)?;
    let part_size = ctx.attribute_or("part_size", 1)?;
    let op = DeformablePsroiPooling {
        output_dim: ctx.attribute("output_dim")?,
        group_size: check_pooled([group_size; 2])?[0],
        spatial_scale: ctx.attribute("spatial_scale")?,
        bins: check_pooled(bins)?,
        trans_std: ctx.attribute_or("trans_std", 1.)?,
        part_size: check_pooled([part_size; 2])?[0],
    };
    let channels = op.channels().context("the number of channels cannot be counted")?;
    let (data, regions) = (ctx.shape(0)?, ctx.shape(1)?);
    ctx.require_equal(&data[1], &channels.to_dim(), "has this number of channels for its parts")?;
    if ctx.input_count() == 3 {
        ctx.expect_floats(2, "offsets")?;
        let offsets = ctx.shape_of_rank(2, "offsets", 4)?;
        let parts = op.part_size.to_dim();
        let expected = [regions[0].clone(), offsets[1].clone(), parts.clone(), parts];
        ctx.equal_shapes(&offsets, &expected, None, "has offsets for the parts of each region")?;
    }
    let inputs = ctx.all_inputs()?;
    ctx.finish(op, &inputs)
}
