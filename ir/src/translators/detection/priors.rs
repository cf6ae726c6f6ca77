//! Boxes around the cells of a feature map.

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use crate::context::LayerContext;
use crate::limits::MAX_BOXES_OF_CELL;
use crate::operators::detection::prior_box::{PriorBox, aspect_ratios};
use crate::operators::detection::prior_box_clustered::PriorBoxClustered;
use crate::operators::detection::prior_boxes::{Layout, PriorBoxes};
use crate::translators::blocks::multiply;

/// **PriorBox-1**, **PriorBox-8**: boxes of some sizes and aspect ratios around each cell of a feature map.
/// Revision 8 adds `min_max_aspect_ratios_order`, which is true before.
///
/// Half of an odd `fixed_size` is a fraction, as on OpenVINO's CPU. The specification does not round it; OpenVINO's
/// reference does.
pub(super) fn prior_box(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let listed: Vec<f32> = ctx.attribute_or("aspect_ratio", vec![])?;
    let density: Vec<f32> = ctx.attribute_or("density", vec![])?;
    let layout = PriorBox {
        min_size: ctx.attribute_or("min_size", vec![])?,
        max_size: ctx.attribute_or("max_size", vec![])?,
        aspect_ratios: aspect_ratios(&listed, ctx.attribute_or("flip", false)?),
        density: density.into_iter().map(|density| density as usize).collect(),
        fixed_ratio: ctx.attribute_or("fixed_ratio", vec![])?,
        fixed_size: ctx.attribute_or("fixed_size", vec![])?,
        step: ctx.attribute_or("step", -1.)?,
        offset: ctx.attribute_or("offset", 0.)?,
        scale_all_sizes: ctx.attribute_or("scale_all_sizes", true)?,
        min_max_aspect_ratios_order: ctx.attribute_or("min_max_aspect_ratios_order", true)?
            || ctx.since() < 8,
    };
    let densities = layout.density.len();
    ensure!(
        densities == layout.fixed_size.len() && !layout.density.contains(&0),
        "attribute density is {:?}, but must have a number of 1 or more for each of the {} fixed sizes",
        layout.density,
        layout.fixed_size.len()
    );
    let per_cell = layout.count().filter(|count| *count <= MAX_BOXES_OF_CELL);
    let per_cell = per_cell.with_context(|| {
        format!(
            "the attributes make too many boxes for a cell, or none, but must make 1 to {MAX_BOXES_OF_CELL}"
        )
    })?;
    ensure!(
        layout.priors(1.).take(per_cell + 1).count() <= per_cell,
        "the attributes make more boxes for a cell than the {per_cell} that the output has: look at min_size, max_size, \
         aspect_ratio and density"
    );
    prior_boxes(ctx, Layout::PriorBox(layout), per_cell)
}

/// **PriorBoxClustered-1**: boxes of the listed widths and heights around each cell of a feature map. A step
/// that is 0 is `step`; if both are 0, the cells fill the image.
pub(super) fn prior_box_clustered(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let widths: Vec<f32> = ctx.attribute("width")?;
    let heights: Vec<f32> = ctx.attribute("height")?;
    ensure!(
        widths.len() == heights.len() && widths.len() <= MAX_BOXES_OF_CELL,
        "attributes width and height have {} and {} numbers, but must have the same number, up to {MAX_BOXES_OF_CELL}",
        widths.len(),
        heights.len()
    );
    let all = ctx.attribute_or("step", 0.)?;
    let step = |name| match ctx.attribute_or(name, 0.) {
        Ok(0.) => Ok(all),
        step => step,
    };
    let layout = PriorBoxClustered {
        sizes: widths.iter().zip(&heights).map(|(width, height)| [*width, *height]).collect(),
        step: [step("step_h")?, step("step_w")?],
        offset: ctx.attribute_or("offset", 0.)?,
    };
    prior_boxes(ctx, Layout::Clustered(layout), widths.len())
}

fn prior_boxes(
    ctx: &mut LayerContext,
    layout: Layout,
    per_cell: usize,
) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    for (input, name) in [(0, "output_size"), (1, "image_size")] {
        ctx.expect_integers(input, name)?;
        let shape = ctx.shape(input)?;
        ensure!(
            matches!(&shape[..], [size] if size.as_i64().is_none_or(|size| size == 2)),
            "input {input} ({name}) has shape {shape}, but must have shape [2]: height and width",
            shape = listed(&shape)
        );
        ctx.expect_size(input, 0, 2, "reads a height and a width")?;
    }
    let variance: Vec<f32> = ctx.attribute_or("variance", vec![])?;
    let variance = match variance[..] {
        [] => [0.1; 4],
        [one] => [one; 4],
        [a, b, c, d] => [a, b, c, d],
        _ => bail!("attribute variance is {variance:?}, but must have 4 numbers, or 1, or none"),
    };
    let (length, length_at_run_time) = match ctx.constant_opt(0)? {
        Some(_) => {
            let cells = ctx.sizes(0, "output_size")?;
            (multiply(&multiply(&cells[0], &cells[1])?, &(4 * per_cell).to_dim())?, false)
        }
        None => (ctx.size_at_run_time("boxes")?.to_dim(), true),
    };
    let clip = ctx.attribute_or("clip", false)?;
    let inputs = ctx.all_inputs()?;
    ctx.finish(PriorBoxes { layout, clip, variance, per_cell, length, length_at_run_time }, &inputs)
}
