//! The nodes that OpenVINO's reader of ONNX takes in its domain. They are operations of IR, but with other defaults, names of
//! attributes, or inputs.

use std::collections::BTreeMap;

use tract_core::internal::*;
use tract_core::ops::change_axes::AxisOp;
use tract_openvino::DOMAIN;
use tract_openvino_kernels::checks::listed;

use crate::context::{LayerContext, Value};
use crate::registry::Registry;
use crate::translate::translate_as;

type Outlets = TractResult<TVec<OutletId>>;
type Form = fn(&mut LayerContext) -> Outlets;

const FORMS: [(&str, Form); 15] = [
    ("DeformableConv2D", deformable_conv_2d),
    ("DetectionOutput", detection_output),
    ("ExperimentalDetectronDetectionOutput", detectron_detection_output),
    ("ExperimentalDetectronGenerateProposalsSingleImage", generate_proposals_single_image),
    ("ExperimentalDetectronGroupNorm", group_norm),
    ("ExperimentalDetectronPriorGridGenerator", prior_grid_generator),
    ("ExperimentalDetectronROIFeatureExtractor", roi_feature_extractor),
    ("ExperimentalDetectronTopKROIs", top_k_rois),
    ("FakeQuantize", fake_quantize),
    ("GenerateProposals", generate_proposals),
    ("GroupNorm", group_norm),
    ("Normalize", normalize),
    ("PriorBox", prior_box),
    ("PriorBoxClustered", prior_box_clustered),
    ("Swish", swish),
];

/// The op types of these nodes.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|(name, _)| *name)
}

/// Adds them to the registry, as of the operation set [`DOMAIN`].
pub(super) fn register(registry: &mut Registry) {
    for (name, form) in FORMS {
        registry.add_extension(name, DOMAIN, form);
    }
}

/// The attributes of the node, and defaults of those that it does not have.
fn attributes(ctx: &LayerContext, defaults: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut attributes = ctx.layer().attributes.clone();
    for (name, default) in defaults {
        attributes.entry(name.to_string()).or_insert_with(|| default.to_string());
    }
    attributes
}

/// Gives an attribute the name that it has in IR.
fn rename(attributes: &mut BTreeMap<String, String>, from: &str, to: &str) {
    if let Some(text) = attributes.remove(from) {
        attributes.insert(to.into(), text);
    }
}

/// The inputs of the node, wherever they are.
fn values(ctx: &LayerContext) -> TractResult<Vec<Value>> {
    (0..ctx.input_count()).map(|input| ctx.input_value(input)).collect()
}

/// The operation with the inputs of the node.
fn operation(
    ctx: &mut LayerContext,
    operation: (&str, u32),
    attributes: BTreeMap<String, String>,
) -> Outlets {
    let inputs = values(ctx)?;
    translate_as(ctx, "", operation, attributes, inputs)
}

fn deformable_conv_2d(ctx: &mut LayerContext) -> Outlets {
    ctx.expect_inputs(3..=4)?;
    let defaults = [("strides", "1,1"), ("dilations", "1,1"), ("pads", "0,0,0,0")];
    let mut attributes = attributes(ctx, &defaults);
    attributes.remove("deformable_group");
    rename(&mut attributes, "deformable_groups", "deformable_group");
    let words = [
        ("NOTSET", "explicit"),
        ("SAME_UPPER", "same_upper"),
        ("SAME_LOWER", "same_lower"),
        ("VALID", "valid"),
    ];
    let auto_pad = ctx.attribute_among("auto_pad", &words, Some("explicit"))?;
    attributes.insert("auto_pad".into(), auto_pad.into());
    let pads: Vec<i64> = ctx.attribute_or("pads", vec![0; 4])?;
    let [top, left, bottom, right] = pads[..] else {
        bail!(
            "attribute pads is {pads:?}, but must have 4 numbers: two of the beginnings, two of the ends"
        )
    };
    attributes.insert("pads_begin".into(), format!("{top},{left}"));
    attributes.insert("pads_end".into(), format!("{bottom},{right}"));
    operation(ctx, ("DeformableConvolution", 8), attributes)
}

/// One number of `keep_top_k` is enough, and `normalized` is true.
fn detection_output(ctx: &mut LayerContext) -> Outlets {
    let mut attributes = attributes(ctx, &[("keep_top_k", "1"), ("normalized", "1")]);
    if let Some(code_type) = attributes.get_mut("code_type")
        && !code_type.contains(CODE_TYPE)
    {
        code_type.insert_str(0, CODE_TYPE);
    }
    operation(ctx, ("DetectionOutput", 8), attributes)
}

/// What the values of `code_type` may begin with.
const CODE_TYPE: &str = "caffe.PriorBoxParameter.";

fn detectron_detection_output(ctx: &mut LayerContext) -> Outlets {
    let defaults = [
        ("score_threshold", "0.05"),
        ("nms_threshold", "0.5"),
        // The logarithm of 1000 / 16.
        ("max_delta_log_wh", "4.135166556742356"),
        ("num_classes", "81"),
        ("post_nms_count", "2000"),
        ("max_detections_per_image", "100"),
        ("class_agnostic_box_regression", "0"),
        ("deltas_weights", "10,10,5,5"),
    ];
    let attributes = attributes(ctx, &defaults);
    operation(ctx, ("ExperimentalDetectronDetectionOutput", 6), attributes)
}

fn generate_proposals_single_image(ctx: &mut LayerContext) -> Outlets {
    let defaults = [
        ("min_size", "0"),
        ("nms_threshold", "0.7"),
        ("post_nms_count", "1000"),
        ("pre_nms_count", "1000"),
    ];
    let attributes = attributes(ctx, &defaults);
    operation(ctx, ("ExperimentalDetectronGenerateProposalsSingleImage", 6), attributes)
}

fn prior_grid_generator(ctx: &mut LayerContext) -> Outlets {
    let attributes = attributes(ctx, &[]);
    operation(ctx, ("ExperimentalDetectronPriorGridGenerator", 6), attributes)
}

fn roi_feature_extractor(ctx: &mut LayerContext) -> Outlets {
    let defaults =
        [("output_size", "7"), ("sampling_ratio", "2"), ("pyramid_scales", "4,8,16,32,64")];
    let attributes = attributes(ctx, &defaults);
    operation(ctx, ("ExperimentalDetectronROIFeatureExtractor", 6), attributes)
}

fn top_k_rois(ctx: &mut LayerContext) -> Outlets {
    let attributes = attributes(ctx, &[("max_rois", "1000")]);
    operation(ctx, ("ExperimentalDetectronTopKROIs", 6), attributes)
}

fn fake_quantize(ctx: &mut LayerContext) -> Outlets {
    let attributes = attributes(ctx, &[]);
    operation(ctx, ("FakeQuantize", 1), attributes)
}

/// The inputs are scores, deltas, sizes of images, and anchors of a cell, which are those of all cells.
fn generate_proposals(ctx: &mut LayerContext) -> Outlets {
    ctx.expect_inputs(4..=4)?;
    let defaults = [
        ("min_size", "1"),
        ("nms_thresh", "0.7"),
        ("pre_nms_topN", "6000"),
        ("post_nms_topN", "300"),
    ];
    let mut attributes = attributes(ctx, &defaults);
    for (from, to) in [
        ("nms_thresh", "nms_threshold"),
        ("pre_nms_topN", "pre_nms_count"),
        ("post_nms_topN", "post_nms_count"),
    ] {
        rename(&mut attributes, from, to);
    }
    let pixels = ctx.attribute_or("legacy_plus_one", true)?;
    attributes.insert("normalized".into(), (!pixels).to_string());
    let (scores, anchors) = (ctx.shape(0)?, ctx.shape(3)?);
    for (name, shape, rank) in [("scores", &scores, 4), ("anchors", &anchors, 2)] {
        ensure!(
            shape.len() == rank,
            "{name} has shape {}, but must have rank {rank}",
            listed(shape)
        );
    }
    let shape: TVec<TDim> = scores[2..].iter().chain(&anchors).cloned().collect();
    let of_a_cell = ctx.input_value(3)?;
    let anchors = translate_as(
        ctx,
        ".anchors",
        ("Broadcast", 3),
        BTreeMap::from([("mode".into(), "numpy".into())]),
        vec![of_a_cell, sizes(&shape)],
    )?[0];
    let [scores, deltas, im_info] = [ctx.input_value(0)?, ctx.input_value(1)?, ctx.input_value(2)?];
    let inputs = vec![im_info, Value::Outlet(anchors), deltas, scores];
    translate_as(ctx, "", ("GenerateProposals", 9), attributes, inputs)
}

/// Scales and biases may have axes of size 1.
fn group_norm(ctx: &mut LayerContext) -> Outlets {
    ctx.expect_inputs(3..=3)?;
    let mut attributes = attributes(ctx, &[("eps", "1e-6")]);
    rename(&mut attributes, "eps", "epsilon");
    let mut inputs = values(ctx)?;
    for (input, name) in [(1, "scale"), (2, "bias")] {
        let shape = ctx.shape(input)?;
        if shape.len() != 1 {
            let outlet = ctx.input(input)?;
            let ones = (0..shape.len()).rev().filter(|axis| shape[*axis].is_one());
            inputs[input] = Value::Outlet(ctx.change_axes(name, outlet, ones.map(AxisOp::Rm))?);
        }
    }
    translate_as(ctx, "", ("GroupNormalization", 12), attributes, inputs)
}

/// A NormalizeL2 over the channels, or all axes but the first, that is multiplied by a weight of each channel, or by one.
fn normalize(ctx: &mut LayerContext) -> Outlets {
    ctx.expect_inputs(2..=2)?;
    let rank = ctx.rank(0)?;
    ensure!(rank >= 2, "input 0 (data) has rank {rank}, but must have rank 2 or more");
    let mut inputs = values(ctx)?;
    let channels = ctx.shape(0)?[1].clone();
    if ctx.attribute_or("channel_shared", false)? {
        let rank = ctx.rank(1)?;
        ensure!(
            rank == 1,
            "input 1 (weights) has rank {rank}, but must have rank 1, as channel_shared is 1"
        );
    } else {
        let shape = std::iter::once(1).chain([channels.as_i64().unwrap_or(0)]);
        let shape: Vec<i64> = shape.chain(std::iter::repeat_n(1, rank - 2)).collect();
        let shape = Value::Constant(tensor1(&shape).into_arc_tensor());
        let attributes = BTreeMap::from([("special_zero".into(), "true".into())]);
        let weights = vec![inputs[1].clone(), shape];
        inputs[1] =
            Value::Outlet(translate_as(ctx, ".weights", ("Reshape", 1), attributes, weights)?[0]);
    }
    let last = if ctx.attribute_or("across_spatial", false)? { rank as i64 } else { 2 };
    let axes = tensor1(&(1..last).collect::<Vec<i64>>()).into_arc_tensor();
    let mut attributes = attributes(ctx, &[("eps", "0")]);
    attributes.insert("eps_mode".into(), "add".into());
    let data = vec![inputs[0].clone(), Value::Constant(axes)];
    let normalized = translate_as(ctx, ".normalized", ("NormalizeL2", 1), attributes, data)?[0];
    let inputs = vec![Value::Outlet(normalized), inputs[1].clone()];
    translate_as(ctx, "", ("Multiply", 1), BTreeMap::new(), inputs)
}

/// The inputs are a feature map and images, of which the last two axes count.
fn prior_box(ctx: &mut LayerContext) -> Outlets {
    let attributes = attributes(ctx, &[("step", "0")]);
    of_maps(ctx, ("PriorBox", 8), attributes)
}

fn prior_box_clustered(ctx: &mut LayerContext) -> Outlets {
    let mut attributes = attributes(ctx, &[("variance", "0.1")]);
    attributes.remove("step");
    of_maps(ctx, ("PriorBoxClustered", 1), attributes)
}

fn of_maps(
    ctx: &mut LayerContext,
    operation: (&str, u32),
    attributes: BTreeMap<String, String>,
) -> Outlets {
    ctx.expect_inputs(2..=2)?;
    let mut inputs = vec![];
    for (input, name) in ["feature map", "images"].into_iter().enumerate() {
        let shape = ctx.shape(input)?;
        ensure!(
            shape.len() == 4,
            "input {input} ({name}) has shape {}, but must have rank 4",
            listed(&shape)
        );
        inputs.push(sizes(&shape[2..]));
    }
    let boxes = translate_as(ctx, ".boxes", operation, attributes, inputs)?;
    Ok(tvec!(ctx.wire("", AxisOp::Add(0), &boxes)?))
}

/// `beta` may have axes of size 1.
fn swish(ctx: &mut LayerContext) -> Outlets {
    ctx.expect_inputs(1..=2)?;
    let mut inputs = values(ctx)?;
    if inputs.len() == 2 {
        let shape = ctx.shape(1)?;
        ensure!(
            shape.iter().all(TDim::is_one),
            "input 1 (beta) has shape {}, but must have one element",
            listed(&shape)
        );
        let outlet = ctx.input(1)?;
        let axes = std::iter::repeat_n(AxisOp::Rm(0), shape.len());
        inputs[1] = Value::Outlet(ctx.change_axes("beta", outlet, axes)?);
    }
    translate_as(ctx, "", ("Swish", 4), BTreeMap::new(), inputs)
}

/// Sizes as a constant: numbers, or expressions of symbols.
fn sizes(sizes: &[TDim]) -> Value {
    let numbers: Option<Vec<i64>> = sizes.iter().map(|size| size.as_i64()).collect();
    let tensor = numbers.map_or_else(|| tensor1(sizes), |numbers| tensor1(&numbers));
    Value::Constant(tensor.into_arc_tensor())
}
