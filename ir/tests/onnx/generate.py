#!/usr/bin/env python3
"""Writes the models of `models/`, or checks them: the nodes that OpenVINO's own reader of ONNX takes in its domain.

    python generate.py           writes every model and its test data
    python generate.py --check   compares the committed files with what would be written

Each folder has `model.onnx`, and `test_data_set_0.npz` with the arrays `input_K` and `output_K`. The expected outputs are
those of OpenVINO on the CPU in f32, which reads the same file. Of `detector`, which has an operation that it does not read, they
are those of the same operations in its own form.
"""

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "models"))

import numpy as np
import openvino as ov
import openvino.opset9 as ops
from onnx import TensorProto, checker, helper, numpy_helper
from shared import f32, npz_file, stale_files, write_files

DOMAIN = "org.openvinotoolkit"
# The kinds of arrays.
TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}


def numbers(*shape, seed=0, low=-1.0, high=1.0):
    """Random numbers of few digits."""
    return f32(np.round(np.random.default_rng(seed).uniform(low, high, shape), 2))


def boxes(count, seed=0, size=40.0):
    """Random boxes in an image."""
    corners = np.sort(np.random.default_rng(seed).uniform(0, size, (count, 2, 2)), axis=1)
    return f32(np.round(corners.reshape(count, 4), 1))


class Constant:
    """An input that is an initializer."""

    def __init__(self, array):
        self.array = array


CASES = {}


def case(name, op_type, inputs, outputs=1, **attributes):
    assert name not in CASES
    CASES[name] = op_type, inputs, outputs, attributes


X = numbers(1, 2, 3, 4, low=-2, high=2)
LIMITS = [f32([[[[-1]], [[-0.5]]]]), f32([[[[1]], [[1.5]]]]), f32([-0.9]), f32([1.1])]
case("fake_quantize", "FakeQuantize", [X, *map(Constant, LIMITS)], levels=16)

case("swish", "Swish", [X])
case("swish_beta", "Swish", [X, Constant(f32([[0.7]]))])

MAPS = numbers(2, 4, 3, 3, seed=1)
SCALE, BIAS = numbers(1, 4, 1, 1, seed=2), numbers(4, seed=3)
case("group_norm", "GroupNorm", [MAPS, Constant(SCALE), BIAS], num_groups=2)
case("experimental_detectron_group_norm", "ExperimentalDetectronGroupNorm", [MAPS, SCALE, BIAS], num_groups=4, eps=0.1)

case("normalize", "Normalize", [MAPS, Constant(BIAS)], eps=0.01)
case("normalize_computed_weights", "Normalize", [MAPS, BIAS], across_spatial=1, eps=0.01)
case(
    "normalize_shared", "Normalize", [MAPS, Constant(f32([1.5]))], across_spatial=1, channel_shared=1, eps=0.01
)

FEATURES, IMAGES = numbers(1, 2, 2, 3, seed=4), numbers(1, 3, 20, 30, seed=5)
case("prior_box", "PriorBox", [FEATURES, IMAGES], min_size=[6.0])
case(
    "prior_box_attributes",
    "PriorBox",
    [FEATURES, IMAGES],
    min_size=[6.0, 8.0],
    max_size=[12.0, 16.0],
    aspect_ratio=[2.0],
    flip=1,
    clip=1,
    step=10.0,
    offset=0.5,
    variance=[0.1, 0.1, 0.2, 0.2],
    scale_all_sizes=1,
    min_max_aspect_ratios_order=0,
)
case(
    "prior_box_clustered",
    "PriorBoxClustered",
    [FEATURES, IMAGES],
    width=[4.0, 9.0],
    height=[5.0, 3.0],
    step_w=10.0,
    step_h=11.0,
    offset=0.5,
    variance=[0.1, 0.1, 0.2, 0.2],
    clip=1,
)
case("prior_box_clustered_defaults", "PriorBoxClustered", [FEATURES, IMAGES], width=[4.0], height=[5.0])

PRIORS = 6
BOXES = np.concatenate([boxes(PRIORS, seed=6, size=1.0).reshape(1, 1, -1), np.full((1, 1, 4 * PRIORS), 0.1)], axis=1)
BOXES = f32(np.round(BOXES, 2))
LOGITS, PREDS = numbers(1, 4 * PRIORS, seed=7), numbers(1, 3 * PRIORS, seed=8, low=0)
case("detection_output", "DetectionOutput", [LOGITS, PREDS, BOXES], nms_threshold=0.4, keep_top_k=4)
case(
    "detection_output_center_size",
    "DetectionOutput",
    [LOGITS, PREDS, BOXES],
    nms_threshold=0.6,
    keep_top_k=5,
    top_k=10,
    code_type="CENTER_SIZE",
    confidence_threshold=0.3,
    background_label_id=1,
)
AUX = [numbers(1, 2 * PRIORS, seed=9, low=0), numbers(1, 4 * PRIORS, seed=10)]
case(
    "detection_output_additional",
    "DetectionOutput",
    [LOGITS, PREDS, BOXES, *AUX],
    nms_threshold=0.6,
    keep_top_k=6,
    objectness_score=0.2,
    code_type="caffe.PriorBoxParameter.CORNER",
)

REGIONS = boxes(5, seed=11)
INFO = f32([[40, 40, 1]])
case(
    "experimental_detectron_detection_output",
    "ExperimentalDetectronDetectionOutput",
    [REGIONS, numbers(5, 8, seed=12), numbers(5, 2, seed=13, low=0), INFO],
    outputs=3,
    num_classes=2,
    max_detections_per_image=6,
    score_threshold=0.1,
)
ANCHORS = boxes(2 * 3 * 2, seed=14)
SCORES, DELTAS = numbers(2, 2, 3, seed=15, low=0), numbers(8, 2, 3, seed=16)
case(
    "experimental_detectron_generate_proposals_single_image",
    "ExperimentalDetectronGenerateProposalsSingleImage",
    [INFO[0], ANCHORS, DELTAS, SCORES],
    outputs=2,
    post_nms_count=6,
)
case(
    "experimental_detectron_prior_grid_generator",
    "ExperimentalDetectronPriorGridGenerator",
    [boxes(2, seed=17), FEATURES, IMAGES],
)
case(
    "experimental_detectron_prior_grid_generator_strides",
    "ExperimentalDetectronPriorGridGenerator",
    [boxes(2, seed=17), FEATURES, IMAGES],
    flatten=0,
    stride_x=4.0,
    stride_y=8.0,
)
case(
    "experimental_detectron_roi_feature_extractor",
    "ExperimentalDetectronROIFeatureExtractor",
    [REGIONS, numbers(1, 2, 10, 10, seed=18), numbers(1, 2, 5, 5, seed=19)],
    outputs=2,
    output_size=2,
    pyramid_scales=[4, 8],
    aligned=1,
)
case(
    "experimental_detectron_topk_rois",
    "ExperimentalDetectronTopKROIs",
    [REGIONS, numbers(5, seed=20, low=0)],
    max_rois=3,
)
case(
    "generate_proposals",
    "GenerateProposals",
    [SCORES[None], DELTAS[None], INFO, Constant(boxes(2, seed=21))],
    outputs=3,
    post_nms_topN=4,
)
case(
    "generate_proposals_attributes",
    "GenerateProposals",
    [SCORES[None], DELTAS[None], INFO, boxes(2, seed=21)],
    outputs=3,
    min_size=3.0,
    nms_thresh=0.3,
    pre_nms_topN=8,
    post_nms_topN=5,
    legacy_plus_one=0,
)

DATA, WEIGHTS = numbers(1, 2, 5, 5, seed=22), numbers(2, 2, 2, 2, seed=23)
case("deformable_conv_2d", "DeformableConv2D", [DATA, numbers(1, 8, 4, 4, seed=24), Constant(WEIGHTS)])
case(
    "deformable_conv_2d_attributes",
    "DeformableConv2D",
    [DATA, numbers(1, 16, 4, 2, seed=25), Constant(WEIGHTS[:, :1]), numbers(1, 8, 4, 2, seed=26, low=0)],
    strides=[2, 2],
    dilations=[1, 2],
    pads=[1, 0, 2, 1],
    group=2,
    deformable_groups=2,
)


def model(op_type, inputs, outputs, attributes):
    names = [f"input_{k}" for k in range(len(inputs))]
    fed, constants = [], []
    for name, it in zip(names, inputs):
        if isinstance(it, Constant):
            constants.append(numpy_helper.from_array(it.array, name))
        else:
            fed.append(helper.make_tensor_value_info(name, TYPES[it.dtype], it.shape))
    results = [helper.make_tensor_value_info(f"output_{k}", TensorProto.UNDEFINED, None) for k in range(outputs)]
    node = helper.make_node(op_type, names, [it.name for it in results], domain=DOMAIN, **attributes)
    graph = helper.make_graph([node], "graph", fed, results, constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def detector():
    """Scores that are quantized, and the boxes with the greatest ones: of any number."""
    limits = [numpy_helper.from_array(f32(it), name) for name, it in [("low", 0), ("high", 1)]]
    limits += [numpy_helper.from_array(np.int64(10), "most")]
    limits += [numpy_helper.from_array(f32(it), name) for name, it in [("iou", 0.5), ("least", 0.1)]]
    levels = {"levels": 5}
    quantize = helper.make_node(
        "FakeQuantize", ["scores", "low", "high", "low", "high"], ["quantized"], domain=DOMAIN, **levels
    )
    attributes = {"version": "opset9", "box_encoding": "corner", "sort_result_descending": 1}
    names = ["boxes", "quantized", "most", "iou", "least"]
    select = helper.make_node("NonMaxSuppression", names, ["selected"], domain=DOMAIN, **attributes)
    fed = [
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, "N", 4]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 1, "N"]),
    ]
    result = helper.make_tensor_value_info("selected", TensorProto.INT64, [None, 3])
    graph = helper.make_graph([quantize, select], "detector", fed, [result], limits)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    checker.check_model(made)

    arrays = [boxes(5, seed=27)[None], f32([[[0.3, 0.9, 0.55, 0.1, 0.7]]])]
    parameters = [ops.parameter(list(it.shape), np.float32) for it in arrays]
    quantized = ops.fake_quantize(parameters[1], f32(0), f32(1), f32(0), f32(1), 5)
    arguments = [np.int64(10), f32(0.5), f32(0.1), f32(0)]
    selected = ops.non_max_suppression(parameters[0], quantized, *arguments, sort_result_descending=True)
    compiled = ov.Core().compile_model(ov.Model([selected.output(0)], parameters), "CPU")
    found = compiled(arrays)[0]
    # It fills rows up to the most that there can be.
    found = found[found[:, 0] >= 0].astype(np.int64)
    return {"model.onnx": made.SerializeToString(deterministic=True)} | npz_file(0, arrays, [found])


def files(op_type, inputs, outputs, attributes):
    """The files of a folder, with OpenVINO's outputs."""
    inputs = [it if isinstance(it, Constant) else np.ascontiguousarray(it) for it in inputs]
    made = model(op_type, inputs, outputs, attributes)
    fed = [it for it in inputs if not isinstance(it, Constant)]
    core = ov.Core()
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(made.SerializeToString()), "CPU", settings)
    found = compiled(fed)
    arrays = [np.array(found[k]) for k in range(outputs)]
    for result, array, port in zip(made.graph.output, arrays, compiled.outputs):
        kind = TensorProto.INT64 if port.element_type == ov.Type.i64 else TYPES.get(array.dtype, TensorProto.INT32)
        # The sizes are OpenVINO's, which may be those of the largest output.
        result.CopyFrom(helper.make_tensor_value_info(result.name, kind, [None] * array.ndim))
    checker.check_model(made)
    return {"model.onnx": made.SerializeToString(deterministic=True)} | npz_file(0, fed, arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    stale = []
    makers = {name: lambda it=it: files(*it) for name, it in CASES.items()} | {"detector": detector}
    for name, make in makers.items():
        folder = HERE / "models" / name
        try:
            written = make()
        except Exception as error:
            sys.exit(f"{name}: {error}")
        if arguments.check:
            stale += [f"{name}/{it}" for it in stale_files(folder, written, tolerance=1e-5)]
        else:
            write_files(folder, written)
    there = {it.name for it in (HERE / "models").iterdir()}
    stale += sorted(there - makers.keys())
    if stale:
        sys.exit("these are not what this script writes: " + ", ".join(stale))
    print("the committed files are what this script writes" if arguments.check else "written")


if __name__ == "__main__":
    main()
