"""Models of one operation each, with OpenVINO's own operation sets: every element type, and open
dimensions.

What attributes and other inputs mean is shown by `ir/models/`. Here OpenVINO is asked which types an
operation takes: a type that it refuses makes no model.
"""

import re
from functools import partial

from framework import *

FLOATS = ["f16", "f32", "f64"]
SIGNED = ["i8", "i16", "i32", "i64"]
INTEGERS = [*SIGNED, "u8", "u16", "u32", "u64"]
NUMBERS = [*FLOATS, *INTEGERS]
ALL = [*NUMBERS, "boolean"]


def numbers(type_, *shape, seed=0):
    """Numbers of a type: small ones, so that nothing overflows, and none of them 0."""
    dtype = DTYPES[type_]
    if type_ == "boolean":
        return boolean(spread_ints(0, 1, *shape, seed=seed))
    if dtype.kind == "f":
        return spread(*shape, seed=seed, dtype=dtype) + dtype.type(1 / 32)
    magnitudes = spread_ints(1, 3, *shape, seed=seed, dtype=dtype)
    signs = spread_ints(0, 1, *shape, seed=seed + 1) * (dtype.kind == "i")
    return np.where(signs, -magnitudes, magnitudes).astype(dtype)


def rows(types, shapes, kinds, *, more=(), is_open=True, name="", build=None, **attributes):
    """Models of some operations for each type. The first inputs are numbers of that type in these shapes, the
    others are the same for all types. Dimensions are open unless the operation must know them."""
    for kind in kinds.split():
        for type_ in types:
            given = [numbers(type_, *shape, seed=seed) for seed, shape in enumerate(shapes)]
            arrays = [*given, *more]
            parameters = [it for it in arrays if not isinstance(it, Const)]
            declared = [",".join("1" if size == 1 else "?" for size in it.shape) for it in parameters]
            case = "_".join(it for it in (name, type_) if it)
            CASES.append(
                Case(
                    "opsets",
                    kind,
                    case,
                    arrays,
                    build or op(kind, **attributes),
                    shapes=declared if is_open else None,
                )
            )


def as_older_file(core, xml, weights):
    """A file of operations that were there in opset7, in the version that Model Optimizer wrote then.

    Of such files OpenVINO's inputs and outputs have types that its older plugins knew, mostly f32 and i32.
    Here they have those of the file. So those that make a difference stay as they are."""
    if any(int(it) > 7 for it in re.findall(rb'version="opset(\d+)"', xml)):
        return xml
    older = re.sub(rb' output_names="[^"]*"', b"", xml).replace(b'version="11"', b'version="10"', 1)
    models = [core.read_model(it, weights) for it in (xml, older)]
    types = [[it.element_type for it in (*model.inputs, *model.outputs)] for model in models]
    return older if types[0] == types[1] else xml


# --- elementwise ------------------------------------------------------------------------------------

X = (2, 3, 4)
rows(
    FLOATS,
    [X],
    "Relu-1 Sigmoid-1 Tanh-1 Exp-1 Erf-1 Sin-1 Cos-1 Tan-1 Atan-1 Sinh-1 Cosh-1 Asinh-4 "
    "Floor-1 Ceiling-1 SoftPlus-4 Mish-4 HSwish-4 HSigmoid-5 SoftSign-9 IsNaN-10",
)
rows(NUMBERS, [X], "Abs-1 Negative-1 Sign-1 Relu-1", name="number")
rows(NUMBERS, [X], "Clamp-1", min=-1.5, max=2.0)
rows(FLOATS, [X], "Elu-1", alpha=0.5)
rows(["f32"], [X], "Selu-1", more=[const(f32(1.5)), const(f32(1.0))])
rows(FLOATS, [X, (3,)], "PRelu-1")
for type_ in FLOATS:
    eighth = Const(np.array(0.125, DTYPES[type_]))
    rows([type_], [X], "ErfInv-17", build=partial(lambda by, x: make("ErfInv-17", make("Multiply-1", x, by)), eighth))
rows(FLOATS, [X], "Round-5", mode="half_to_even")
rows(FLOATS, [X], "Gelu-2")
rows(FLOATS, [X], "Gelu-7", approximation_mode="tanh")
rows(FLOATS, [X], "Swish-4")
rows(
    NUMBERS,
    [X, (3, 1)],
    "Add-1 Subtract-1 Multiply-1 Divide-1 FloorMod-1 Mod-1 Maximum-1 Minimum-1 SquaredDifference-1",
)
rows(FLOATS, [X, (3, 1)], "Power-1")
rows(ALL, [X, (3, 1)], "Equal-1 NotEqual-1 Greater-1 GreaterEqual-1 Less-1 LessEqual-1")
rows(["boolean"], [X, (3, 1)], "LogicalAnd-1 LogicalOr-1 LogicalXor-1 Xor-1")
rows(["boolean"], [X], "LogicalNot-1")
rows([*INTEGERS, "boolean"], [X, (3, 1)], "BitwiseAnd-13 BitwiseOr-13 BitwiseXor-13")
rows([*INTEGERS, "boolean"], [X], "BitwiseNot-13")
for kind in ["BitwiseLeftShift-15", "BitwiseRightShift-15"]:
    build = partial(lambda kind, x, y: make(kind, x, make("Abs-1", y)), kind)
    rows(INTEGERS, [X, (3, 1)], kind, build=build)
rows(
    ALL,
    [X, (3, 1)],
    "Select-1",
    build=lambda x, y: make("Select-1", const(boolean([[True], [False], [True]])), x, y),
)
# Negative numbers have no unsigned equivalents.
for source in ALL:
    rows(
        [source],
        [],
        "Convert-1",
        more=[abs(numbers(source, *X))],
        build=ops(*(op("Convert-1", destination_type=target) for target in ALL)),
    )
rows(ALL, [X], "ConvertLike-1", more=[np.zeros(1, np.int8)])

# --- movement ---------------------------------------------------------------------------------------

rows(ALL, [X], "Transpose-1", more=[axes(2, 0, 1)])
rows(ALL, [X], "Reshape-1", more=[axes(0, -1)], special_zero=True)
rows(ALL, [(2, 1, 4)], "Squeeze-1", more=[axes(1)], is_open=False)
rows(ALL, [X], "Unsqueeze-1", more=[axes(1, -1)])
rows(ALL, [X, (2, 1, 4)], "Concat-1", axis=1)
rows(ALL, [X], "Split-1", more=[scalar(2)], num_splits=2, is_open=False)
rows(ALL, [X], "VariadicSplit-1", more=[scalar(1), axes(1, -1)], is_open=False)
rows(ALL, [X], "Tile-1", more=[axes(2, 1, 3)])
rows(ALL, [(3, 1)], "Broadcast-1", more=[axes(2, 3, 4)], mode="numpy", is_open=False)
rows(ALL, [(3, 1)], "Broadcast-3", more=[axes(2, 3, 4)], mode="bidirectional", is_open=False)
rows(
    ALL,
    [X],
    "StridedSlice-1",
    more=[axes(0, -1, 1), axes(9, 0, 3), axes(1, -1, 1)],
    begin_mask=[1, 0, 0],
    end_mask=[1, 0, 0],
)
rows(ALL, [X], "Slice-8", more=[axes(2, 1), axes(0, 3), axes(-1, 1), axes(1, 2)])
for mode in ["constant", "edge", "reflect", "symmetric"]:
    rows(ALL, [X], "Pad-1 Pad-12", more=[axes(0, 1, 2), axes(1, 0, 1)], pad_mode=mode, name=mode)
rows(ALL, [X], "Reverse-1", more=[axes(0, 2)], mode="index")
rows(ALL, [X], "ReverseSequence-1", more=[i32([2, 3])], batch_axis=0, seq_axis=1)
rows(ALL, [(1, 4, 2, 2)], "DepthToSpace-1", mode="blocks_first", block_size=2, is_open=False)
rows(ALL, [(1, 2, 4, 2)], "SpaceToDepth-1", mode="depth_first", block_size=2, is_open=False)
rows(ALL, [(1, 4, 2, 2)], "ShuffleChannels-1", axis=1, group=2, is_open=False)
rows(
    ALL,
    [(4, 1, 2, 2)],
    "BatchToSpace-2",
    more=[axes(1, 1, 2, 2), axes(0, 0, 0, 1), axes(0, 0, 0, 0)],
    is_open=False,
)
rows(
    ALL,
    [(1, 1, 2, 3)],
    "SpaceToBatch-2",
    more=[axes(1, 1, 2, 2), axes(0, 0, 0, 1), axes(0, 0, 0, 0)],
    is_open=False,
)
rows(ALL, [X], "Roll-7", more=[axes(1, -1), axes(0, 2)])
rows(ALL, [X], "ShapeOf-1")
rows(ALL, [X], "ShapeOf-3", output_type="i32")

# --- indexing ---------------------------------------------------------------------------------------

rows(ALL, [X], "Gather-1 Gather-7 Gather-8", more=[i32([[2, 0], [1, 2]]), scalar(1)])
rows(ALL, [X], "GatherElements-6", more=[i64(spread_ints(0, 2, 2, 2, 4))], axis=1)
rows(ALL, [X], "GatherND-5 GatherND-8", more=[i32([[2], [0]])], batch_dims=1, is_open=False)
for kind, updates, more in [
    ("ScatterUpdate-3", (2, 1, 4), [i64([2]), scalar(1)]),
    ("ScatterElementsUpdate-3", (1, 3, 4), [i64(spread_ints(0, 1, 1, 3, 4)), scalar(0)]),
    ("ScatterNDUpdate-4", (2, 4), [i64([[0, 2], [1, 0]])]),
]:
    build = partial(lambda kind, x, updates, indices, *axis: make(kind, x, indices, updates, *axis), kind)
    rows(ALL, [X, updates], kind, more=more, is_open=False, build=build)
rows(NUMBERS, [X], "CumSum-3", more=[scalar(1)], exclusive=False, reverse=True)
rows(NUMBERS, [X], "TopK-1 TopK-3", more=[scalar(2)], axis=0, mode="max", sort="value")
rows(NUMBERS, [X], "TopK-11", more=[scalar(1)], axis=2, mode="min", sort="value", stable=True)
rows(ALL, [X], "NonZero-3", output_type="i64")
rows(ALL, [()], "OneHot-1", build=lambda on: make("OneHot-1", const(i64([1, 0])), scalar(3), on, on, axis=-1))

# --- reductions and networks ------------------------------------------------------------------------

for keep in [True, False]:
    rows(
        NUMBERS,
        [X],
        "ReduceSum-1 ReduceMean-1 ReduceMax-1 ReduceMin-1 ReduceProd-1 ReduceL1-4 ReduceL2-4",
        more=[axes(0)],
        keep_dims=keep,
        name="keep" if keep else "",
    )
    rows(
        ["boolean"],
        [X],
        "ReduceLogicalAnd-1 ReduceLogicalOr-1",
        more=[axes(1)],
        keep_dims=keep,
        name="keep" if keep else "",
    )
rows(NUMBERS, [X, (4, 2)], "MatMul-1")
rows(NUMBERS, [X, (2, 4)], "MatMul-1", transpose_b=True, name="transposed")
for type_ in NUMBERS:
    matrices = Const(numbers(type_, 2, 3, 4, seed=1))
    build = partial(lambda matrices, x, ends: make("GroupedMatMul-17", x, matrices, ends), matrices)
    rows([type_], [(5, 4)], "GroupedMatMul-17", more=[i32([2, 5])], build=build, is_open=False)
    build = partial(lambda matrices, x: make("GroupedMatMul-17", x, matrices), matrices)
    rows([type_], [(2, 5, 4)], "GroupedMatMul-17", build=build, is_open=False, name="batches")
rows(FLOATS, [X], "Softmax-1 Softmax-8 LogSoftmax-5", axis=1)
IMAGE = (1, 2, 5, 4)
POOL = {"strides": [2, 1], "pads_begin": [0, 1], "pads_end": [1, 0], "kernel": [2, 2]}
rows(NUMBERS, [IMAGE], "MaxPool-1 MaxPool-8 MaxPool-14", **POOL, dilations=[1, 1])
rows(NUMBERS, [IMAGE], "AvgPool-1 AvgPool-14", **POOL, exclude_pad=True)
WINDOW = {"strides": [1, 2], "pads_begin": [1, 0], "pads_end": [0, 1], "dilations": [1, 1]}
for kind, weights in [
    ("Convolution-1", (3, 2, 2, 3)),
    ("GroupConvolution-1", (2, 3, 1, 2, 3)),
    ("ConvolutionBackpropData-1", (2, 3, 2, 3)),
    ("GroupConvolutionBackpropData-1", (2, 1, 3, 2, 3)),
]:
    rows(FLOATS, [IMAGE, weights], kind, is_open=False, **WINDOW)
BINARY = const(spread_ints(0, 1, 4, 8, 2, 3), "u1")
PADS_OF_ONES = {**WINDOW, "auto_pad": "explicit", "mode": "xnor-popcount", "pad_value": 1.0}
rows(FLOATS, [(1, 8, 5, 4)], "BinaryConvolution-1", more=[BINARY], is_open=False, **PADS_OF_ONES)
rows(FLOATS, [IMAGE], "LRN-1", more=[axes(1)], alpha=0.5, beta=0.75, bias=1.0, size=3)
rows(FLOATS, [IMAGE], "GRN-1", bias=0.5)
rows(FLOATS, [IMAGE], "MVN-2", across_channels=False, normalize_variance=True, eps=1e-5)
rows(FLOATS, [IMAGE], "MVN-6", more=[axes(2, 3)], normalize_variance=True, eps=1e-5, eps_mode="inside_sqrt")
rows(FLOATS, [IMAGE], "NormalizeL2-1", more=[axes(1)], eps=1e-5, eps_mode="add")
SCALES = [f32([1, 2]), f32([0, 1])]
rows(["f32"], [IMAGE], "GroupNormalization-12", more=SCALES, num_groups=2, epsilon=1e-5, is_open=False)
for type_ in ["f16", "f32"]:
    build = partial(lambda scale, x: make("FakeConvert-13", x, scale), Const(np.array(2, DTYPES[type_])))
    rows([type_], [X], "FakeConvert-13", build=build)
rows(["f32"], [X], "FakeQuantize-1", more=[const(f32(it)) for it in (-2, 2, -1, 3)], levels=9)
rows(
    FLOATS,
    [(2, 3, 4), (2, 5, 4), (2, 5, 4)],
    "ScaledDotProductAttention-13",
    build=lambda q, k, v: make("ScaledDotProductAttention-13", q, k, v, causal=False),
)
rows(NUMBERS, [X, (4, 2)], "Einsum-7", equation="abc,cd->abd", is_open=False)
for mode in ["nearest", "linear_onnx", "cubic"]:
    rows(
        NUMBERS,
        [IMAGE],
        "Interpolate-4",
        more=[axes(7, 3), const(f32([1.4, 0.75])), axes(2, 3)],
        name=mode,
        mode=mode,
        shape_calculation_mode="sizes",
        pads_begin=[0],
        pads_end=[0],
    )
rows(NUMBERS, [IMAGE], "GridSample-9", more=[spread(1, 3, 2, 2) / 4], mode="nearest", padding_mode="zeros")
rows(ALL, [IMAGE], "ExtractImagePatches-3", sizes=[2, 3], strides=[1, 2], rates=[1, 1], auto_pad="valid")

# --- sets, bags and searches --------------------------------------------------------------------------

# OpenVINO's CPU plugin finds slices of bytes equal that are not, and others not equal that are.
rows(
    [it for it in ALL if it not in ("i8", "u8", "boolean")],
    [X],
    "Unique-10",
    more=[axes(1)],
    sorted=True,
    is_open=False,
)
rows(NUMBERS, [X], "Bucketize-3", more=[const(f32([-1, 0, 2]))], output_type="i64")
rows(NUMBERS, [X], "SearchSorted-15", build=lambda x: make("SearchSorted-15", x, x, right_mode=True))
rows(ALL, [X, (2, 1, 4)], "SliceScatter-15", more=[axes(1), axes(2), axes(1), axes(1)], is_open=False)
rows(NUMBERS, [(4, 3)], "EmbeddingBagPackedSum-3", more=[i64([[0, 2], [1, 3]])])
rows(NUMBERS, [(4, 3)], "EmbeddingBagOffsetsSum-3", more=[i64([0, 2, 3]), i64([0, 2])])
rows(NUMBERS, [(4, 3)], "EmbeddingSegmentsSum-3", more=[i64([0, 2, 3]), i64([0, 0, 2]), scalar(4)])
for type_ in ALL:
    build = partial(lambda type_, n: make("Eye-9", n, n, scalar(1), output_type=type_), type_)
    rows([type_], [], "Eye-9", more=[scalar(3)], build=build)
    build = partial(lambda type_, x: make("Range-4", scalar(2), x, scalar(3), output_type=type_), type_)
    rows([type_], [], "Range-4", more=[np.int64(9)], build=build)

# --- regions ------------------------------------------------------------------------------------------

for type_ in FLOATS:
    turned = np.array([[1, 1, 3, 2, 0.5], [2, 1.5, 1, 3, -1]], DTYPES[type_])
    rows(
        [type_],
        [IMAGE],
        "ROIAlignRotated-15",
        more=[turned, i32([0, 0])],
        pooled_h=2,
        pooled_w=2,
        sampling_ratio=2,
        spatial_scale=1.0,
        clockwise_mode=True,
    )
    regions = np.array([[0, 0, 1, 3, 4], [0, 1, 1, 2, 2]], DTYPES[type_])
    rows(
        [type_],
        [(1, 4, 5, 4)],
        "DeformablePSROIPooling-1",
        more=[regions],
        output_dim=1,
        group_size=2,
        spatial_scale=0.5,
        mode="bilinear_deformable",
        spatial_bins_x=1,
        spatial_bins_y=2,
        trans_std=0.5,
        part_size=1,
        is_open=False,
    )
