//! The last layer of an SSD.

use tract_core::internal::*;

use crate::context::{LayerContext, NotKnown};
use crate::limits::MAX_BOXES;
use crate::operators::detection::detection_output::DetectionOutput;
use crate::translators::blocks::multiply;

/// What the inputs are called.
const INPUTS: [&str; 5] =
    ["box_logits", "class_preds", "proposals", "additional_class_preds", "additional_box_preds"];

/// **DetectionOutput-1**, **DetectionOutput-8**: the boxes that an SSD finds, from what it predicts of its
/// prior boxes. Revision 1 has `num_classes`; later it follows from the shapes. The output has as many rows as
/// there can be boxes.
pub(super) fn detection_output(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=5)?;
    ensure!(ctx.input_count() != 4, "the number of inputs is 4, but must be 3 or 5");
    for (input, name) in (0..ctx.input_count()).zip(INPUTS) {
        ctx.expect_floats(input, name)?;
        ctx.shape_of_rank(input, name, if input == 2 { 3 } else { 2 })?;
    }
    let codes =
        [("caffe.PriorBoxParameter.CORNER", false), ("caffe.PriorBoxParameter.CENTER_SIZE", true)];
    let normalized = ctx.attribute_or("normalized", false)?;
    let image = [ctx.attribute_or("input_width", 1.)?, ctx.attribute_or("input_height", 1.)?];
    let mut op = DetectionOutput {
        background_label_id: limit(ctx.attribute_or("background_label_id", 0)?),
        top_k: limit(ctx.attribute_or("top_k", -1)?),
        keep_top_k: limit(keep_top_k(ctx)?),
        center_size: ctx.attribute_among("code_type", &codes, Some(false))?,
        variance_encoded_in_target: ctx.attribute_or("variance_encoded_in_target", false)?,
        share_location: ctx.attribute_or("share_location", true)?,
        nms_threshold: ctx.attribute("nms_threshold")?,
        confidence_threshold: ctx.attribute_or("confidence_threshold", 0.)?,
        clip_before_nms: ctx.attribute_or("clip_before_nms", false)?,
        clip_after_nms: ctx.attribute_or("clip_after_nms", false)?,
        decrease_label_id: ctx.attribute_or("decrease_label_id", false)?,
        image: (!normalized).then_some(image),
        objectness_score: ctx.attribute_or("objectness_score", 0.)?,
        rows: 0.to_dim(),
    };
    op.rows = rows(ctx, &op)?;
    ensure!(
        op.rows.as_i64().is_none_or(|rows| rows <= MAX_BOXES as i64),
        "the output would have {} rows, but must have {MAX_BOXES} or fewer",
        op.rows
    );
    let inputs = ctx.all_inputs()?;
    ctx.finish(op, &inputs)
}

/// A number for which -1 stands for none. One that no `usize` holds is more than there can be of anything.
fn limit(number: i64) -> Option<usize> {
    (number >= 0).then(|| usize::try_from(number).unwrap_or(usize::MAX))
}

fn keep_top_k(ctx: &LayerContext) -> TractResult<i64> {
    let keep_top_k: Vec<i64> = ctx.attribute("keep_top_k")?;
    keep_top_k.first().copied().context("attribute keep_top_k is empty, but must have a number")
}

/// Notes which dimensions are equal, and gives the number of rows of the output.
fn rows(ctx: &mut LayerContext, op: &DetectionOutput) -> TractResult<TDim> {
    let (logits, scores, priors) = (ctx.shape(0)?, ctx.shape(1)?, ctx.shape(2)?);
    let images = ctx.require_equal(&logits[0], &scores[0], "has predictions of these images")?;
    for input in 3..ctx.input_count() {
        let shape = ctx.shape(input)?;
        ctx.require_equal(&shape[0], &images, "has additional predictions of these images")?;
    }
    let count = priors[2].clone() / if op.image.is_some() { 5 } else { 4 };
    Ok(match (op.keep_top_k, op.top_k) {
        (Some(keep @ 1..), _) => multiply(&images, &keep.to_dim())?,
        (None, Some(top @ 1..)) => {
            multiply(&multiply(&images, &top.to_dim())?, &classes(ctx, &scores[1], &count)?)?
        }
        _ => images * &scores[1],
    })
}

/// The number of classes, from the numbers of scores and of prior boxes.
fn classes(ctx: &LayerContext, scores: &TDim, priors: &TDim) -> TractResult<TDim> {
    if ctx.since() < 8 {
        return Ok(ctx.attribute::<usize>("num_classes")?.to_dim());
    }
    let classes = scores.maybe_div(priors).ok();
    let classes = classes.filter(|(_, rest)| *rest == 1).map(|(classes, _)| classes);
    let error = || {
        let message = format!(
            "class_preds have {scores} scores of {priors} prior boxes, but must have the same number for each"
        );
        match (scores.as_i64(), priors.as_i64()) {
            (Some(_), Some(_)) => format_err!(message),
            _ => NotKnown::sizes(format!("{message}: give the sizes of the inputs")).into(),
        }
    };
    classes.ok_or_else(error)
}
