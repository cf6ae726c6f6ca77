//! Operations of Detectron, and GenerateProposals.

use tract_core::internal::*;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::identity::Identity;

use super::count_of_boxes;
use super::regions::check_pooled;
use crate::context::LayerContext;
use crate::operators::detection::boxes::Extent;
use crate::operators::detection::detectron_output::DetectronOutput;
use crate::operators::detection::generate_proposals::{GenerateProposals, Output};
use crate::operators::detection::prior_grid::PriorGrid;
use crate::operators::detection::roi_align::{Aligned, RoiAlign};
use crate::operators::detection::roi_feature_extractor::RoiFeatureExtractor;
use crate::operators::detection::top_k_rois::TopKRois;
use crate::translators::blocks::multiply;

/// Checks that inputs have floats, and shapes of these ranks.
fn expect_ranks(ctx: &LayerContext, inputs: &[(&str, usize)]) -> TractResult<Vec<TVec<TDim>>> {
    ctx.expect_inputs(inputs.len()..=inputs.len())?;
    let shape = |(input, (name, rank)): (usize, &(&str, usize))| {
        ctx.expect_floats(input, name)?;
        ctx.shape_of_rank(input, name, *rank)
    };
    inputs.iter().enumerate().map(shape).collect()
}

fn product(sizes: &[TDim]) -> TractResult<TDim> {
    sizes.iter().try_fold(1.to_dim(), |product, size| multiply(&product, size))
}

/// **ExperimentalDetectronPriorGridGenerator-6**: boxes around the cells of a feature map. The sizes of the map
/// and of the image are those of inputs. `h` and `w` can be the sizes of the map only.
pub(super) fn prior_grid(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let ranks = [("priors", 2), ("feature_map", 4), ("im_data", 4)];
    let shapes = expect_ranks(ctx, &ranks)?;
    let (map, image) = (&shapes[1][2..], &shapes[2][2..]);
    ctx.require_equal(&shapes[0][1], &4.to_dim(), "has boxes of four coordinates")?;
    for (axis, name) in [(2, "h"), (3, "w")] {
        let stated: usize = ctx.attribute_or(name, 0)?;
        let size = &shapes[1][axis];
        ensure!(
            stated == 0 || size.as_i64().is_none_or(|size| size == stated as i64),
            "attribute {name} is {stated}, but must be 0 or {size}, the size of the feature map"
        );
        if stated > 0 {
            ctx.expect_size(1, axis, stated, &format!("has a feature map of this {name}"))?;
        }
    }
    let op = PriorGrid {
        sizes: map.iter().chain(image).cloned().collect(),
        stride: [ctx.attribute_or("stride_y", 0.)?, ctx.attribute_or("stride_x", 0.)?],
    };
    let flatten = ctx.attribute_or("flatten", true)?;
    let priors = ctx.input(0)?;
    let grid = ctx.wire(if flatten { "grid" } else { "" }, op, &[priors])?;
    if !flatten {
        return Ok(tvec!(grid));
    }
    let three: TVec<TDim> = ctx.shape_of(grid)?[..3].into();
    let product = product(&three)?;
    Ok(tvec!(ctx.wire("", AxisOp::Reshape(0, three, tvec![product]), &[grid])?))
}

/// **ExperimentalDetectronTopKROIs-6**: the regions with the greatest scores.
pub(super) fn top_k_rois(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let shapes = expect_ranks(ctx, &[("input_rois", 2), ("input_probs", 1)])?;
    ctx.require_equal(&shapes[0][0], &shapes[1][0], "has a score for each region")?;
    ctx.require_equal(&shapes[0][1], &4.to_dim(), "has boxes of four coordinates")?;
    let inputs = ctx.all_inputs()?;
    ctx.finish(TopKRois { max_rois: count_of_boxes(ctx, "max_rois")? }, &inputs)
}

/// **ExperimentalDetectronROIFeatureExtractor-6**: regions in one size, each from the feature map of its scale.
/// The second output are the regions.
pub(super) fn roi_feature_extractor(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let pyramid_scales: Vec<f32> = ctx.attribute("pyramid_scales")?;
    let levels = pyramid_scales.len();
    ensure!(
        levels > 0,
        "attribute pyramid_scales is empty, but must have a scale for each feature map"
    );
    let mut ranks = vec![("ROIs", 2)];
    ranks.resize(levels + 1, ("features", 4));
    let shapes = expect_ranks(ctx, &ranks)?;
    ctx.require_equal(&shapes[0][1], &4.to_dim(), "has boxes of four coordinates")?;
    for shape in &shapes[2..] {
        ctx.require_equal(&shape[1], &shapes[1][1], "has feature maps of these channels")?;
    }
    let aligned = ctx.attribute_or("aligned", false)?;
    let size = ctx.attribute("output_size")?;
    let op = RoiFeatureExtractor {
        pyramid_scales,
        align: RoiAlign {
            pooled: check_pooled([size; 2])?,
            sampling_ratio: ctx.attribute("sampling_ratio")?,
            spatial_scale: 1.,
            greatest: false,
            aligned: if aligned { Aligned::HalfPixelOfOne } else { Aligned::Asymmetric },
        },
    };
    let inputs = ctx.all_inputs()?;
    let features = ctx.wire("", op, &inputs)?;
    Ok(tvec!(features, ctx.wire("regions", Identity, &inputs[..1])?))
}

/// **ExperimentalDetectronDetectionOutput-6**: the boxes of regions, from what is predicted of each class. They
/// are not clipped to the image.
pub(super) fn detection_output(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let ranks = [("input_rois", 2), ("input_deltas", 2), ("input_scores", 2), ("input_im_info", 2)];
    let shapes = expect_ranks(ctx, &ranks)?;
    let classes: usize = ctx.attribute("num_classes")?;
    for (shape, size) in shapes.iter().zip([4, classes.saturating_mul(4), classes]) {
        ctx.require_equal(&shape[0], &shapes[0][0], "has these regions")?;
        ctx.require_equal(&shape[1], &size.to_dim(), &format!("has {classes} classes"))?;
    }
    let deltas_weights: Vec<f32> = ctx.attribute("deltas_weights")?;
    let deltas_weights = deltas_weights[..].try_into().with_context(|| {
        format!("attribute deltas_weights is {deltas_weights:?}, but must have 4 numbers")
    })?;
    let post_nms_count: i64 = ctx.attribute("post_nms_count")?;
    let op = DetectronOutput {
        score_threshold: ctx.attribute("score_threshold")?,
        nms_threshold: ctx.attribute("nms_threshold")?,
        classes,
        post_nms_count: usize::try_from(post_nms_count).ok(),
        max_detections_per_image: count_of_boxes(ctx, "max_detections_per_image")?,
        max_delta_log_wh: ctx.attribute("max_delta_log_wh")?,
        deltas_weights,
    };
    let dt = ctx.datum_type(0)?;
    let inputs = ctx.all_inputs()?;
    let outputs = ctx.finish(op, &inputs[..3])?;
    Ok(tvec!(ctx.cast("boxes", outputs[0], dt)?, outputs[1], ctx.cast("scores", outputs[2], dt)?))
}

/// **GenerateProposals-9**: regions of feature maps by their scores, without those that overlap. The last
/// output is how many there are of each image.
pub(super) fn generate_proposals(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let ranks = [("im_info", 2), ("anchors", 4), ("boxesdeltas", 4), ("scores", 4)];
    let shapes = expect_ranks(ctx, &ranks)?;
    equal_cells(ctx, &shapes[1], &shapes[2], &shapes[3])?;
    ctx.require_equal(&shapes[0][0], &shapes[3][0], "has these images")?;
    let count = ctx.size_at_run_time("regions")?;
    let normalized = ctx.attribute_or("normalized", true)?;
    let extent = if normalized { Extent::Distance } else { Extent::Pixels };
    let op = proposals(ctx, extent, Output::Found(count))?;
    let (dt, index_type) = (ctx.datum_type(1)?, ctx.index_type("roi_num_type", DatumType::I64)?);
    let inputs = ctx.all_inputs()?;
    let outputs = ctx.finish(op, &inputs)?;
    Ok(tvec!(
        ctx.cast("regions", outputs[0], dt)?,
        ctx.cast("scores", outputs[1], dt)?,
        ctx.cast("counts", outputs[2], index_type)?
    ))
}

/// **ExperimentalDetectronGenerateProposalsSingleImage-6**: as GenerateProposals, for one image. The output has
/// `post_nms_count` regions, of which the last are zeros if there are fewer. Regions below `min_size` are removed, as the
/// specification says; OpenVINO gives them a score of 0.
pub(super) fn generate_proposals_single_image(
    ctx: &mut LayerContext,
) -> TractResult<TVec<OutletId>> {
    let ranks =
        [("input_im_info", 1), ("input_anchors", 2), ("input_deltas", 3), ("input_scores", 3)];
    let shapes = expect_ranks(ctx, &ranks)?;
    let (anchors, scores) = (&shapes[1], &shapes[3]);
    let of_cells = tvec![scores[1].clone(), scores[2].clone(), scores[0].clone()];
    let product = product(&of_cells)?;
    ctx.require_equal(&anchors[0], &product, "has anchors and scores")?;
    let mut inputs = ctx.all_inputs()?;
    for input in [0, 2, 3] {
        inputs[input] = ctx.wire("images", AxisOp::Add(0), &[inputs[input]])?;
    }
    inputs[1] = ctx.with_shape(inputs[1], tvec![product.clone(), 4.to_dim()])?;
    let cells = AxisOp::Reshape(0, tvec![product], of_cells);
    inputs[1] = ctx.wire("cells", cells, &[inputs[1]])?;
    let shape = |ctx: &LayerContext, input: usize| ctx.shape_of(inputs[input]);
    let (anchors, deltas, scores) = (shape(ctx, 1)?, shape(ctx, 2)?, shape(ctx, 3)?);
    equal_cells(ctx, &anchors, &deltas, &scores)?;
    let count = count_of_boxes(ctx, "post_nms_count")?.to_dim();
    let op = proposals(ctx, Extent::Pixels, Output::Padded(count))?;
    let dt = ctx.datum_type(1)?;
    let outputs = ctx.finish(op, &inputs)?;
    Ok(tvec!(ctx.cast("regions", outputs[0], dt)?, ctx.cast("scores", outputs[1], dt)?))
}

/// Notes that anchors `[H, W, A, 4]`, deltas `[N, 4 * A, H, W]` and scores `[N, A, H, W]` go together.
fn equal_cells(
    ctx: &mut LayerContext,
    anchors: &[TDim],
    deltas: &[TDim],
    scores: &[TDim],
) -> TractResult<()> {
    let [rows, columns, of_cell, four] = anchors else { bail!("anchors have rank 4") };
    ctx.require_equal(four, &4.to_dim(), "has boxes of four coordinates")?;
    let expected = [&scores[0], of_cell, rows, columns];
    for (size, expected) in scores.iter().zip(expected) {
        ctx.require_equal(size, expected, "has anchors and scores")?;
    }
    let channels = of_cell.clone() * 4;
    for (size, expected) in deltas.iter().zip([&scores[0], &channels, rows, columns]) {
        ctx.require_equal(size, expected, "has anchors and deltas")?;
    }
    Ok(())
}

fn proposals(ctx: &LayerContext, extent: Extent, output: Output) -> TractResult<GenerateProposals> {
    Ok(GenerateProposals {
        min_size: ctx.attribute("min_size")?,
        nms_threshold: ctx.attribute("nms_threshold")?,
        pre_nms_count: ctx.attribute("pre_nms_count")?,
        post_nms_count: ctx.attribute("post_nms_count")?,
        extent,
        output,
    })
}
