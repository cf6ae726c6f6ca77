//! Regions in which there may be something.

use tract_core::internal::*;

use super::count_of_boxes;
use crate::context::LayerContext;
use crate::limits::MAX_BOXES_OF_CELL;
use crate::operators::detection::proposal::{Framework, Proposal};
use crate::translators::blocks::multiply;

/// **Proposal-1**, **Proposal-4**: regions of a feature map by their scores, without those that overlap.
/// Revision 4 adds a second output: the scores.
pub(super) fn proposal(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    for (input, name) in ["class_probs", "bbox_deltas", "image_shape"].iter().enumerate() {
        ctx.expect_floats(input, name)?;
    }
    let probs = ctx.shape_of_rank(0, "class_probs", 4)?;
    let deltas = ctx.shape_of_rank(1, "bbox_deltas", 4)?;
    ctx.equal_shapes(&probs, &deltas, Some(1), "has scores and boxes of one feature map")?;
    let frameworks = [
        ("", Framework::Default),
        ("caffe", Framework::Default),
        ("tensorflow", Framework::TensorFlow),
    ];
    let framework = ctx.attribute_among("framework", &frameworks, Some(Framework::Default))?;
    let (ratios, scales): (Vec<f32>, Vec<f32>) = (ctx.attribute("ratio")?, ctx.attribute("scale")?);
    let anchors = ratios.len().saturating_mul(scales.len());
    ensure!(
        anchors <= MAX_BOXES_OF_CELL,
        "attributes ratio and scale make {anchors} anchors, but must make {MAX_BOXES_OF_CELL} or fewer"
    );
    for (shape, factor) in [(probs.clone(), 2), (deltas, 4)] {
        let channels = (factor * anchors).to_dim();
        ctx.require_equal(&shape[1], &channels, &format!("has {anchors} anchors"))?;
    }
    let post_nms_topn = count_of_boxes(ctx, "post_nms_topn")?;
    let op = Proposal {
        anchors: framework.anchors(ctx.attribute("base_size")?, &ratios, &scales),
        pre_nms_topn: ctx.attribute("pre_nms_topn")?,
        post_nms_topn,
        nms_thresh: ctx.attribute("nms_thresh")?,
        feat_stride: ctx.attribute("feat_stride")?,
        min_size: ctx.attribute("min_size")?,
        clip_before_nms: ctx.attribute_or("clip_before_nms", true)?,
        clip_after_nms: ctx.attribute_or("clip_after_nms", false)?,
        normalize: ctx.attribute_or("normalize", false)?,
        box_size_scale: ctx.attribute_or("box_size_scale", 1.)?,
        box_coordinate_scale: ctx.attribute_or("box_coordinate_scale", 1.)?,
        framework,
        regions: multiply(&probs[0], &post_nms_topn.to_dim())?,
    };
    let inputs = ctx.all_inputs()?;
    let mut outputs = ctx.finish(op, &inputs)?;
    if ctx.since() < 4 {
        outputs.truncate(1);
    }
    Ok(outputs)
}
