"""Parameter, Const, Convert, ConvertLike, Result."""

import re

from framework import *

# --- Const ----------------------------------------------------------------------------------------


def with_constant(x, values, type_=None, kind="Add-1"):
    """An input and a constant of any type, in f32."""
    return make(kind, x, make("Convert-1", const(values, type_), destination_type="f32"))


# Each constant is added to a Parameter of zeros.
for name, constants in {
    "unsigned": [
        ("u8", [0, 1, 127, 128, 255]),
        ("u16", [0, 1, 32767, 32768, 65535]),
        ("u32", [0, 1, 70000, 8388608, 16777216]),
        ("u64", [0, 1, 70000, 8388608, 16777216]),
    ],
    "signed": [
        ("i8", [0, 1, 127, -128, -1]),
        ("i16", [0, 1, 32767, -32768, -1]),
        ("i32", [0, 1, 70000, -8388608, -1]),
        ("i64", [0, 1, 70000, -8388608, -1]),
    ],
    "boolean": [("boolean", [0, 1, 1, 0, 1])],
    "f16": [("f16", [0, -1.5, 65504, 6.103515625e-05, 5.960464477539063e-08])],
    "f32": [("f32", [0, -1.5, 3.4028234663852886e38, 1.1754943508222875e-38, 1e-3])],
    "bf16": [("bf16", [0, -1.5, 3.140625, 1.0078125, 3.3895313892515355e38])],
    "f64": [("f64", [0, -1.5, 0.1, 123456789, 1e-3])],
    "u4": [("u4", [*range(16), 3])],
    "i4": [("i4", [0, 1, 7, -8, -1, -2, 3])],
    "u1": [("u1", [1, 0, 1, 1, 0, 0, 0, 1, 1, 1])],
    "u2": [("u2", [1, 2, 3, 0, 3, 1])],
    "u3": [("u3", [1, 2, 3, 4, 5, 6, 7, 0, 6, 1, 4])],
    "u6": [("u6", [1, 2, 3, 4, 63, 33, 31])],
    "f8e4m3": [("f8e4m3", [0, 0.001953125, -0.5, 1.125, 240, 448, -448])],
    "f8e5m2": [("f8e5m2", [0, 0.0000152587890625, -0.5, 1.25, 57344, -57344])],
}.items():
    case(
        f"const/{name}",
        [f32(np.zeros(len(constants[0][1])))],
        lambda x, constants=constants: [with_constant(x, values, type_) for type_, values in constants],
        lambda x, constants=constants: [f32(values) for _, values in constants],
    )

case("const/nf4", [f32(np.zeros(17))], lambda x: with_constant(x, [*NF4, -1], "nf4"), lambda x: f32([*NF4, -1]))
case(
    "const/special_floats",
    [f32(np.ones((3, 5)))],
    lambda x: [
        with_constant(x, [np.inf, -np.inf, np.nan, -0.0, 1], type_, kind="Multiply-1")
        for type_ in ("f32", "f16", "bf16")
    ],
    lambda x: [x * f32([np.inf, -np.inf, np.nan, -0.0, 1])] * 3,
)
case(
    "const/f8_special",
    [f32(np.ones(4))],
    lambda x: [
        with_constant(x, [np.nan, -0.0, 1, -2], "f8e4m3", kind="Multiply-1"),
        with_constant(x, [np.nan, -0.0, np.inf, -np.inf], "f8e5m2", kind="Multiply-1"),
    ],
    lambda x: [x * f32([np.nan, -0.0, 1, -2]), x * f32([np.nan, -0.0, np.inf, -np.inf])],
)
# Rows of packed types are not aligned to bytes.
case(
    "const/packed_rows",
    [f32(np.zeros((3, 3)))],
    lambda x: [
        with_constant(x, [[1, 2, 3], [4, 5, 6], [7, 8, 9]], "u4"),
        with_constant(x, [[-1, 2, -3], [4, -5, 6], [-7, 0, 1]], "i4"),
        with_constant(x, [[1, 0, 0], [0, 1, 1], [1, 0, 1]], "u1"),
    ],
    lambda x: [
        f32([[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        f32([[-1, 2, -3], [4, -5, 6], [-7, 0, 1]]),
        f32([[1, 0, 0], [0, 1, 1], [1, 0, 1]]),
    ],
)
# Blobs at offsets that are no multiples of the element's size.
case(
    "const/unaligned_offsets",
    [f32([1, 2])],
    lambda x: [
        with_constant(x, u8([3, 4])),
        with_constant(x, u8([7])),
        make("Add-1", x, const(f32([0.5, 0.25]))),
        make("Add-1", make("Convert-1", x, destination_type="i64"), const(i64([100, -1]))),
    ],
    lambda x: [f32([4, 6]), f32([8, 9]), f32([1.5, 2.25]), i64([101, 1])],
)
# Two constants with the same bytes are one range of the file.
case(
    "const/shared_bytes",
    [f32([[1, 2], [3, 4]])],
    lambda x: [
        make("Add-1", x, const(f32([[1, 2], [3, 4]]))),
        make("Multiply-1", x, const(f32([[1, 2], [3, 4]]))),
        make("Add-1", x, make("Reshape-1", const(f32([1, 2, 3, 4])), axes(2, 2), special_zero=False)),
    ],
    lambda x: [x + x, x * x, x + x],
)
case(
    "const/rank_0_and_empty",
    [f32([1, 2])],
    ops(op("Add-1", const(f32(3))), op("Concat-1", const(f32([])), axis=0)),
    lambda x: [x + 3, x],
)
case(
    "const/result_of_constant",
    [f32([1, 2])],
    lambda x: [make("Relu-1", x), const(i64([5, -6])).node(), const(f32(0.5)).node()],
    lambda x: [x, i64([5, -6]), f32(0.5)],
)

STRINGS = np.array([["ab", "", "über"], ["x", "y z", "q"]])
case(
    "const/strings",
    [i64([1, 0])],
    lambda i: [make("Gather-8", const(STRINGS), i, scalar(0)), const(STRINGS[:, 2]).node()],
    lambda i: [STRINGS[i], STRINGS[:, 2]],
)

# --- Parameter, Result ----------------------------------------------------------------------------

case(
    "parameter/types",
    [
        np.array([[0, 1, 2], [3, 100, 127]]).astype(it)
        for it in ("bool", "uint8", "int8", "int32", "int64", "float16", "float32")
    ],
    lambda *inputs: [make("Concat-1", it, it, axis=0) for it in inputs],
    lambda *inputs: [np.concatenate([it, it]) for it in inputs],
)
case(
    "parameter/wide_types",
    [np.array([0, 1, 40000], it) for it in ("uint16", "uint32", "uint64", "float64")],
    lambda *inputs: [make("Reshape-1", it, axes(3, 1), special_zero=False) for it in inputs],
    lambda *inputs: [it.reshape(3, 1) for it in inputs],
)
case(
    "parameter/rank_0",
    [f32(2.5), i64(-3), boolean(True)],
    lambda *inputs: [make("Unsqueeze-1", it, axes(0)) for it in inputs],
    lambda *inputs: [it.reshape(1) for it in inputs],
)
case(
    "parameter/unused",
    [f32([1, 2]), f32([3, 4, 5]), f32([6, 7])],
    lambda a, b, c: make("Subtract-1", c, a),
    lambda a, b, c: c - a,
)
case(
    "parameter/open_dimensions",
    [f32([[1, 2, 3]]), f32([[1, 1, 1]])],
    op("Concat-1", axis=0),
    lambda a, b: np.concatenate([a, b]),
    shapes=["?,3", "1..4,3"],
    more=[[offsets(4, 3), offsets(2, 3)], [offsets(2, 3), offsets(4, 3)]],
)
case(
    "parameter/bounds",
    [f32([[1, 2, 3]])],
    op("Relu-1"),
    lambda a: np.maximum(a, 0),
    shapes=["..5,2.."],
    more=[[spread(5, 2)], [spread(3, 7)]],
)
case(
    "parameter/spellings_of_shapes",
    [offsets(2, 3), offsets(2, 3), f32(1)],
    lambda a, b, c: make("Add-1", make("Add-1", a, b), c),
    lambda a, b, c: a + b + c,
    shapes=["?,3", "2..7,?", ""],
    edit=[attribute("shape", "?,3", "[-1, 3]"), attribute("shape", "2..7,?", " 2..7 , -1 ")],
    more=[[offsets(4, 3), offsets(4, 3), f32(-1)]],
)
case("parameter/straight_to_result", [f32([1, 2]), i32([3])], lambda a, b: [b, a, b], lambda a, b: [b, a, b])
case(
    "result/same_output_twice",
    [f32([-1, 2])],
    lambda a: [it := make("Relu-1", a), it],
    lambda a: [np.maximum(a, 0)] * 2,
)
# Several names of one tensor, one of them with a comma and one with an entity, and no output_names.
case(
    "result/names",
    [f32([-1, 2]), f32([3, 4])],
    ops(op("Add-1"), op("Subtract-1")),
    lambda a, b: [a + b, a - b],
    edit=[
        ('names="input_0"', 'names="data,data:0,x&lt;0&gt;"'),
        ('names="input_1"', r'names="a\,b,other"'),
        ('names="output_0"', 'names="sum,sum/add"'),
        (' output_names="sum,sum/add"', ""),
    ],
)
# A file of version 10: names of layers are names of tensors.
case(
    "result/version_10",
    [f32([-1, 2])],
    op("Relu-1"),
    lambda a: np.maximum(a, 0),
    edit=[
        (' version="11"', ' version="10"'),
        (' names="input_0"', ""),
        (re.compile(' (output_)?names="output_0"'), ""),
        ("<rt_info />", '<meta_data><cli_parameters><unset unset_cli_parameters="" /></cli_parameters></meta_data>'),
    ],
)

# --- Convert, ConvertLike -------------------------------------------------------------------------

case(
    "convert/from_f32",
    [f32([-1.5, -0.4, -0.0, 0.5, 1.5, 2.9, 100])],
    lambda x: [make("Convert-1", x, destination_type=it) for it in ("i32", "i64", "i8", "f16", "f32")],
    lambda x: [i32(x), i64(x), np.array(x, np.int8), f16(x), x],
)
case(
    "convert/to_unsigned",
    [f32([0, 0.4, 0.5, 1.5, 2.9, 100, 255])],
    lambda x: [make("Convert-1", x, destination_type=it) for it in ("u8", "u16", "u32", "u64")],
    lambda x: [np.array(x, it) for it in ("uint8", "uint16", "uint32", "uint64")],
)
case(
    "convert/to_boolean",
    [f32([-1.5, -0.4, -0.0, 0, 0.5, -np.inf, np.inf]), i32([0, -1, 256, 2, 1, 65536, 0])],
    lambda x, y: [make("Convert-1", it, destination_type="boolean") for it in (x, y)],
    lambda x, y: [x != 0, y != 0],
)
case(
    "convert/from_integers",
    [i64([0, -1, 300, 40000]), i32([0, -1, 200, 100]), u8([0, 1, 200, 255]), boolean([0, 1, 1, 0])],
    lambda *inputs: [
        make("Convert-1", it, destination_type=type_) for it in inputs for type_ in ("f32", "i32", "i64", "f16")
    ],
    lambda *inputs: [it.astype(type_) for it in inputs for type_ in ("float32", "int32", "int64", "float16")],
)
case(
    "convert/integers_wrap",
    [i32([0, -1, 255, 256, 300, -129, 128, 65536])],
    lambda x: [make("Convert-1", x, destination_type=it) for it in ("u8", "i8")],
    lambda x: [x.astype(np.uint8), x.astype(np.int8)],
    formula="a conversion that does not fit is unspecified; OpenVINO's reference implementation wraps "
    "and its CPU plugin saturates",
)
case(
    "convert/wide_integers",
    [i64([2**40 + 3, -(2**40), 2**31, 2**53])],
    ops(op("Convert-1", destination_type="i64"), op("Convert-1", destination_type="f32")),
    lambda x: [x, x.astype(np.float32)],
    formula="the CPU plugin computes 64-bit integers in 32 bits",
)
case(
    "convert/f16",
    [f16([-1.5, 0.333, 65504, np.inf, np.nan, 6e-8])],
    op("Convert-1", destination_type="f32"),
    lambda x: x.astype(np.float32),
)
case(
    "convert/to_f16_rounds_to_even",
    [f32([2049, 2051, 2050.999, 1e-8, -0.0, 65519])],
    op("Convert-1", destination_type="f16"),
    lambda x: x.astype(np.float16),
)


def bf16(x):
    return x.astype(bfloat16).astype(np.float32)


def through(x, type_, *nodes):
    """An input in another type, some nodes on it, and what comes of it in f32."""
    x = make("Convert-1", x, destination_type=type_)
    for node in nodes:
        x = node(x)
    return make("Convert-1", x, destination_type="f32")


# Halves, and what single precision has and bf16 has not.
BF16 = f32([1 + 2.0**-8, 1 + 3 * 2.0**-8, -3.14159265, 1e-3, 65504, 3.39e38, 3.4e38, -np.inf, 0, -0.0])
case(
    "convert/bf16",
    [BF16],
    lambda x: [
        through(x, "bf16"),
        through(x, "bf16", op("Reshape-1", axes(-1, 1), special_zero=False)),
        through(make("Abs-1", x), "bf16", op("Sqrt-1")),
        make("Convert-1", make("Clamp-1", make("Convert-1", x, destination_type="bf16"), min=-9, max=9), destination_type="i32"),
    ],
    lambda x: [
        bf16(x),
        bf16(x).reshape(-1, 1),
        bf16(np.sqrt(bf16(np.abs(x)))),
        i32(np.clip(bf16(x), -9, 9)),
    ],
    shapes=["?"],
    more=[[spread(4) / 3]],
)
several(
    "convert/bf16_arithmetic",
    [spread(2, 3) / 3, spread(3, seed=1) / 7],
    [
        (
            lambda x, y: make("Convert-1", make("ConvertLike-1", x, const(1.0, "bf16")), destination_type="f32"),
            lambda x, y: bf16(x),
        ),
        (
            lambda x, y: through(x, "bf16", op("Multiply-1", const(3.0, "bf16"), auto_broadcast="numpy")),
            lambda x, y: bf16(bf16(x) * f32(3)),
        ),
        (
            lambda x, y: through(x, "bf16", lambda x: make("Add-1", x, make("Convert-1", y, destination_type="bf16"))),
            lambda x, y: bf16(bf16(x) + bf16(y)),
        ),
    ],
    formula="each result is rounded; the CPU plugin leaves some as they are",
    without_reference="the reference cuts off digits",
)
case(
    "convert/f8",
    [f32([1.0625, -0.3, 2.0**-10, 3 * 2.0**-10, 100, 448, 0, -0.0])],
    lambda x: [through(x, type_) for type_ in ("f8e4m3", "f8e5m2")],
    lambda x: [x.astype(type_).astype(np.float32) for type_ in (float8_e4m3fn, float8_e5m2)],
)
case(
    "convert/rank_0_and_empty",
    [f32(1.5), f32(np.zeros((0, 3)))],
    lambda *inputs: [make("Convert-1", it, destination_type="i32") for it in inputs],
    lambda *inputs: [it.astype(np.int32) for it in inputs],
    shapes=["", "?,3"],
)
case(
    "convert/upper_case_type",
    [f32([1.5, 2])],
    op("Convert-1", destination_type="i32"),
    lambda x: i32(x),
    edit=[attribute("destination_type", "i32", "I32")],
)
# A half-precision constant and what OpenVINO's writer makes of it: Convert with the mark of
# decompression.
case(
    "convert/decompression",
    [f32([1, 2])],
    lambda x: with_constant(x, f16([0.1, 3]), kind="Multiply-1"),
    lambda x: x * f16([0.1, 3]).astype(np.float32),
    edit=[
        (
            re.compile(r'(<data destination_type="f32" />)'),
            r'\1\n\t\t\t<rt_info>\n\t\t\t\t<attribute name="decompression" version="0" />\n\t\t\t</rt_info>',
        )
    ],
)
case(
    "convert_like/types",
    [f32([1.5, -2.5, 0]), i32([1]), u8([[1, 2]]), boolean(False), f16([])],
    lambda x, *likes: [make("ConvertLike-1", x, like) for like in likes[:1] + likes[2:]],
    lambda x, *likes: [x.astype(like.dtype) for like in likes[:1] + likes[2:]],
    shapes=["3", "1", "1,2", "", "?"],
)

# --- operator sets ------------------------------------------------------------------------------------


def revisions(x):
    vector = const(f32([1, 2]))
    return [
        make("Softmax-1", x, axis=1),
        make("Broadcast-1", x, axes(3, 2, 2), mode="numpy"),
        make("Pad-1", x, axes(0, 1), axes(0, 0), pad_mode="edge"),
        make("TopK-3", x, scalar(1), axis=1, mode="max", sort="value", index_element_type="i64"),
        make("GatherND-5", x, const(i64([[1], [0]])), batch_dims=1),
        make("OneHot-1", const(i64([1, 0])), scalar(2), real(1), real(0), axis=-1),
        make("Squeeze-1", make("Unsqueeze-1", x, axes(0)), axes(0)),
        make("ScatterNDUpdate-4", x, const(i64([[0, 1]])), const(f32([9]))),
        make("ShapeOf-1", x),
        make("BatchNormInference-1", vector, vector, x, vector, vector, epsilon=0.5),
        make("Gelu-2", x),
        make("ScatterElementsUpdate-3", x, const(i64([[1, 0]])), const(f32([[8, 7]])), scalar(0)),
    ]


def revisions_formula(x):
    e = np.exp(x - x.max(1, keepdims=True))
    scattered = x.copy()
    scattered[0, 1] = 9
    elements = x.copy()
    elements[1, 0], elements[0, 1] = 8, 7
    return [
        e / e.sum(1, keepdims=True),
        np.broadcast_to(x, (3, 2, 2)),
        np.pad(x, [(0, 0), (1, 0)], "edge"),
        x.max(1, keepdims=True),
        x.argmax(1)[:, None],
        x[[0, 1], [1, 0]],
        f32([[0, 1], [1, 0]]),
        x,
        scattered,
        i64([2, 2]),
        f32((x - f32([1, 2])) / np.sqrt(f32([1.5, 2.5])) * f32([1, 2]) + f32([1, 2])),
        None,
        elements,
    ]


# The revision of an operation is the newest that is not newer than the operator set: the last operator
# set before that of the next revision.
case(
    "opset/older_revisions",
    [f32([[0.5, 2], [3, -1]])],
    revisions,
    revisions_formula,
    tolerance=1e-4,
    edit=[
        opset("SoftMax", 1, "opset7"),
        opset("Broadcast", 1, "opset2"),
        opset("Pad", 1, "opset11"),
        opset("TopK", 3, "opset10"),
        opset("GatherND", 5, "opset7"),
        opset("OneHot", 1, "opset15"),
        opset("Squeeze", 1, "opset14"),
        opset("ScatterNDUpdate", 4, "opset14"),
        opset("ShapeOf", 1, "opset2"),
        opset("BatchNormInference", 1, "opset4"),
        opset("Gelu", 2, "opset6"),
        opset("ScatterElementsUpdate", 3, "opset11"),
        opset("Unsqueeze", 1, "opset16"),
    ],
)
case(
    "opset/newest",
    [f32([[0.5, 2], [3, -1]])],
    ops(
        op("Add-1", const(f32([1, 2]))),
        op("Gather-8", const(i64([-1])), scalar(0)),
        op("Softmax-8", axis=-1),
        op("Relu-1"),
    ),
    lambda x: [x + f32([1, 2]), x[[-1]], (e := np.exp(x)) / e.sum(-1, keepdims=True), np.maximum(x, 0)],
    edit=[(re.compile('version="opset[0-9]+"'), 'version="opset16"')],
)
case("opset/identity", [f32([[0.5, 2], [3, -1]])], op("Identity-16"), lambda x: x)
# Integers written as floats, as old files have them.
case(
    "opset/integers_as_floats",
    [offsets(1, 1, 4, 4)],
    lambda x: [
        make(
            "MaxPool-8",
            x,
            **{**PLAIN, "strides": [2, 2]},
            kernel=[2, 2],
            axis=2,
            rounding_type="floor",
            index_element_type="i64",
        ).output(0),
        make("Concat-1", x, x, axis=1),
    ],
    lambda x: [x[..., 1::2, 1::2], np.concatenate([x, x], 1)],
    edit=[
        attribute("dilations", "1, 1", "1.0,1.0"),
        attribute("strides", "2, 2", "2.0, 2.0"),
        attribute("axis", "1", "1.0"),
    ],
)

# --- cases that share a model ----------------------------------------------------------------------

join("const/floats", "f16", "f32", "bf16", "f64")
join("const/packed_2026", "u2", "u3", "u6")
join("const/packed", "u4", "i4", "u1", "packed_rows")
join("const/f8", "f8e4m3", "f8e5m2", "f8_special")
join("convert/types", "from_f32", "to_unsigned", "to_boolean", "from_integers")
join("convert/half", "f16", "to_f16_rounds_to_even")
join("parameter/types", "types", "wide_types", "rank_0")
several(
    "convert_promote_types/types",
    [u8([1, 255]), i32([-1]), f16([2.5]), i64([3])],
    [
        (
            lambda a, b, c, d, x=x, y=y: make(
                "ConvertPromoteTypes-14", [a, b, c, d][x], [a, b, c, d][y], promote_unsafe=True
            ),
            lambda a, b, c, d, x=x, y=y, t=t: [[a, b, c, d][x].astype(t), [a, b, c, d][y].astype(t)],
        )
        for x, y, t in [(0, 1, np.int32), (2, 3, np.float16), (3, 0, np.int64)]
    ],
)
