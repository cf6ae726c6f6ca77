//! Operations that choose among boxes that overlap.

use tract_core::internal::*;

use crate::context::LayerContext;
use crate::operators::detection::boxes::Extent;
use crate::operators::detection::matrix_nms::MatrixNms;
use crate::operators::detection::multiclass_nms::MulticlassNms;
use crate::operators::detection::non_max_suppression::{Encoding, NonMaxSuppression};
use crate::operators::detection::selection::{By, Order, Selection};

/// Notes that boxes and scores are of the same batches and boxes.
fn equal_boxes(ctx: &mut LayerContext, coordinates: usize) -> TractResult<()> {
    let boxes = ctx.shape_of_rank(0, "boxes", 3)?;
    let scores = ctx.shape_of_rank(1, "scores", 3)?;
    ctx.require_equal(&boxes[0], &scores[0], "has boxes and scores of these batches")?;
    ctx.require_equal(&boxes[1], &scores[2], "has these numbers of boxes and of scores")?;
    ctx.require_equal(&boxes[2], &coordinates.to_dim(), "has boxes of these coordinates")?;
    Ok(())
}

/// **NonMaxSuppression-1**, **-3**, **-4**, **-5**, **-9**: the boxes with the greatest scores, without those
/// that overlap one of them by `iou_threshold` or more. How many there are is known when the model runs.
///
/// Revision 3 adds `output_type`; revision 5 adds `soft_nms_sigma`, by which scores decay, and two more
/// outputs: the scores, and the number of boxes. OpenVINO runs all revisions as the newest: the indices are
/// not padded with -1, although the first revisions say so.
pub(super) fn non_max_suppression(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let encodings = [("corner", Encoding::Corner), ("center", Encoding::Center)];
    let encoding = ctx.attribute_among("box_encoding", &encodings, Some(Encoding::Corner))?;
    let newest = ctx.since() >= 5;
    ctx.expect_inputs(2..=if newest { 6 } else { 5 })?;
    equal_boxes(ctx, 4)?;
    let mut outputs = suppressed(ctx, encoding)?;
    if !newest {
        outputs.truncate(1);
    }
    Ok(outputs)
}

/// **NMSRotated-13**: as NonMaxSuppression, of boxes that have an angle after center, width and height.
pub(super) fn nms_rotated(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(5..=5)?;
    equal_boxes(ctx, 5)?;
    let clockwise = ctx.attribute_or("clockwise", true)?;
    suppressed(ctx, Encoding::Rotated { clockwise })
}

/// Wires the operator, with the outputs selected_indices, selected_scores and valid_outputs.
fn suppressed(ctx: &mut LayerContext, encoding: Encoding) -> TractResult<TVec<OutletId>> {
    let sort_result_descending = ctx.attribute_or("sort_result_descending", true)?;
    let index_type = match ctx.since() {
        1 => DatumType::I64,
        _ => ctx.index_type("output_type", DatumType::I64)?,
    };
    ctx.expect_floats(0, "boxes")?;
    ctx.expect_floats(1, "scores")?;
    let optional =
        ["max_output_boxes_per_class", "iou_threshold", "score_threshold", "soft_nms_sigma"];
    for (input, name) in (2..ctx.input_count()).zip(optional) {
        ctx.expect_one_element(input, name)?;
        match input {
            2 => ctx.expect_integers(input, name)?,
            _ => ctx.expect_floats(input, name)?,
        };
    }
    let count = ctx.size_at_run_time("boxes")?;
    let inputs = ctx.all_inputs()?;
    let op = NonMaxSuppression { encoding, sort_result_descending, count };
    let outputs = ctx.finish(op, &inputs)?;
    Ok(tvec!(
        ctx.cast("indices", outputs[0], index_type)?,
        outputs[1],
        ctx.cast("count", outputs[2], index_type)?
    ))
}

/// The attributes that MulticlassNms and MatrixNms have in common.
fn selection(ctx: &LayerContext) -> TractResult<Selection> {
    let orders = [("classid", By::ClassId), ("score", By::Score), ("none", By::None)];
    // -1 stands for none.
    let limit = |name| {
        let number: i64 = ctx.attribute_or(name, -1)?;
        TractResult::Ok(usize::try_from(number).ok())
    };
    let normalized = ctx.attribute_or("normalized", true)?;
    Ok(Selection {
        order: Order {
            by: ctx.attribute_among("sort_result_type", &orders, Some(By::None))?,
            across_batch: ctx.attribute_or("sort_result_across_batch", false)?,
        },
        score_threshold: ctx.attribute_or("score_threshold", 0.)?,
        nms_top_k: limit("nms_top_k")?,
        keep_top_k: limit("keep_top_k")?,
        background_class: limit("background_class")?,
        extent: if normalized { Extent::Distance } else { Extent::Pixels },
    })
}

/// Wires an operator with the outputs selected_outputs, selected_indices and selected_num.
fn select(ctx: &mut LayerContext, op: impl TypedOp) -> TractResult<TVec<OutletId>> {
    let index_type = ctx.index_type("output_type", DatumType::I64)?;
    let inputs = ctx.all_inputs()?;
    let dt = ctx.datum_type(0)?;
    let op: Box<dyn TypedOp> = Box::new(op);
    let outputs = ctx.finish(op, &inputs)?;
    Ok(tvec!(
        ctx.cast("selected", outputs[0], dt)?,
        ctx.cast("indices", outputs[1], index_type)?,
        ctx.cast("counts", outputs[2], index_type)?
    ))
}

/// **MulticlassNms-8**, **MulticlassNms-9**: of each image and class, the boxes with the greatest scores,
/// without those that overlap one of them. Revision 9 adds a form in which each class has boxes of its own,
/// and a third input says how many each image has.
pub(super) fn multiclass_nms(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=if ctx.since() < 9 { 2 } else { 3 })?;
    ctx.expect_floats(0, "boxes")?;
    ctx.expect_floats(1, "scores")?;
    if ctx.input_count() == 3 {
        ctx.expect_integers(2, "roisnum")?;
    }
    if ctx.input_count() == 3 && ctx.rank(1)? == 2 {
        let (boxes, scores) = (ctx.shape_of_rank(0, "boxes", 3)?, ctx.shape(1)?);
        ctx.equal_shapes(&boxes[..2], &scores, None, "has these numbers of boxes and of scores")?;
    } else {
        equal_boxes(ctx, 4)?;
    }
    let op = MulticlassNms {
        selection: selection(ctx)?,
        iou_threshold: ctx.attribute_or("iou_threshold", 0.)?,
        nms_eta: ctx.attribute_or("nms_eta", 1.)?,
        count: ctx.size_at_run_time("boxes")?,
    };
    select(ctx, op)
}

/// **MatrixNms-8**: of each image and class, the boxes with the greatest scores, which become less for boxes
/// that overlap others. Within an image OpenVINO orders them by score, even if `sort_result_type` is `classid`.
pub(super) fn matrix_nms(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    ctx.expect_floats(0, "boxes")?;
    ctx.expect_floats(1, "scores")?;
    equal_boxes(ctx, 4)?;
    let mut selection = selection(ctx)?;
    let functions = [("linear", false), ("gaussian", true)];
    let gaussian = ctx.attribute_among("decay_function", &functions, Some(false))?;
    let sigma = ctx.attribute_or("gaussian_sigma", 2.)?;
    if !selection.order.across_batch {
        selection.order.by = By::Score;
    }
    let op = MatrixNms {
        selection,
        post_threshold: ctx.attribute_or("post_threshold", 0.)?,
        gaussian_sigma: gaussian.then_some(sigma),
        count: ctx.size_at_run_time("boxes")?,
    };
    select(ctx, op)
}
