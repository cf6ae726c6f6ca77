"""FakeQuantize, FakeConvert and compressed weights."""

from framework import *

# --- FakeQuantize ---------------------------------------------------------------------------------


def fake_quantize(x, il, ih, ol, oh, levels):
    with np.errstate(all="ignore"):
        # The order of the f32 operations is that of the text.
        inside = np.rint((x - il) / (ih - il) * f32(levels - 1)) / f32(levels - 1) * (oh - ol) + ol
    return f32(np.where(x <= np.minimum(il, ih), ol, np.where(x > np.maximum(il, ih), oh, inside)))


def quantized(il, ih, ol, oh, levels, auto_broadcast="numpy"):
    limits = [f32(it) for it in (il, ih, ol, oh)]
    return (
        op("FakeQuantize-1", *map(const, limits), levels=levels, auto_broadcast=auto_broadcast),
        lambda x: fake_quantize(x, *limits, levels),
    )


def channels(*values):
    return np.reshape(values, (1, -1, 1, 1))


X = spread(1, 3, 4, 5)
several(
    "fake_quantize/levels",
    [X],
    [
        quantized(-4, 4, -4, 4, 256),
        quantized(-2, 1, -2, 1, 4),
        quantized(0, 3, -1, 5, 16),
        quantized(-1, 2, 0, 1, 2),
        quantized(-3, 3, -3, 3, 255),
    ],
)
several(
    "fake_quantize/per_channel",
    [X],
    [
        quantized(channels(-1, -2, -4), channels(1, 2, 4), channels(-1, -2, -4), channels(1, 2, 4), 16),
        quantized(channels(-1, -2, -4), channels(1, 2, 4), -1, 1, 16),
    ],
)
several(
    "fake_quantize/other_broadcasts",
    [X],
    [
        quantized(np.linspace(-3, -1, 5), np.linspace(1, 3, 5), -1, 1, 8),
        quantized([[[-2]], [[-1]], [[-3]]], [[[2]], [[1]], [[3]]], 0, 1, 8),
        quantized([-2], [2], [-2], [2], 9),
    ],
)
# Halves go to the even level.
several("fake_quantize/halves", [f32([-0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7, 7.5])], [quantized(0, 7, 0, 7, 8)])
# Equal input limits: two values, with no division by zero.
several(
    "fake_quantize/binary",
    [X],
    [
        quantized(0, 0, -1, 1, 2),
        quantized(channels(0, 0.5, -0.5), channels(0, 0.5, -0.5), channels(-1, 0, 2), channels(1, 1, 3), 2),
    ],
    formula="the CPU plugin divides by zero",
)
several("fake_quantize/reversed_outputs", [X], [quantized(-2, 2, 2, -2, 16)])
several("fake_quantize/infinities", [f32([-np.inf, np.inf, 0, 1])], [quantized(-1, 1, -1, 1, 5)])
several(
    "fake_quantize/rank_2", [spread(2, 5)], [quantized(-1, 1, -1, 1, 5), quantized([[-1], [-2]], [[1], [2]], -1, 1, 5)]
)
several(
    "fake_quantize/without_auto_broadcast",
    [X],
    [quantized(-2, 2, -2, 2, 16)],
    edit=[attribute("auto_broadcast", "numpy", None)],
)
several("fake_quantize/later_opset", [X], [quantized(-2, 2, -2, 2, 16)], edit=[opset("FakeQuantize", 1, "opset13")])
several(
    "fake_quantize/open_dimensions",
    [X],
    [quantized(channels(-1, -2, -4), channels(1, 2, 4), -1, 1, 16)],
    shapes=["?,3,?,?"],
    more=[[spread(2, 3, 2, 3)]],
)
ACTIVATIONS = quantized(-4, 3.96875, -4, 3.96875, 256)
WEIGHTS = quantized(*(np.reshape(it, (2, 1, 1, 1)) for it in ([-4, -2], [4, 2], [-4, -2], [4, 2])), 255)
KERNEL = spread(2, 3, 1, 1, seed=1)
case(
    "fake_quantize/convolution",
    [spread(1, 3, 4, 5)],
    lambda x: make("Convolution-1", ACTIVATIONS[0](x), WEIGHTS[0](const(KERNEL)), **PLAIN),
    lambda x: np.einsum("nchw,oc->nohw", ACTIVATIONS[1](x), WEIGHTS[1](KERNEL)[:, :, 0, 0]),
    tolerance=1e-4,
    formula="the CPU plugin's sums of integers saturate on processors without VNNI",
)

# --- FakeConvert ----------------------------------------------------------------------------------


def fake_convert(x, scale, shift=None, type_="f8e4m3"):
    format_, greatest = {"f8e4m3": (float8_e4m3fn, 448), "f8e5m2": (float8_e5m2, 57344)}[type_]
    scale, shift = (f32(0 if it is None else it) for it in (scale, shift))
    scaled = np.clip(f32(x) * scale - shift, -greatest, greatest)
    return ((scaled.astype(format_).astype(np.float32) + shift) / scale).astype(x.dtype)


def converted(scale, shift=None, type_="f8e4m3", dtype=np.float32):
    inputs = [const(np.array(it, dtype)) for it in (scale, shift) if it is not None]
    return op("FakeConvert-13", *inputs, destination_type=type_), lambda x: fake_convert(x, scale, shift, type_)


# Halves, numbers without the first bit of the mantissa, and what is too large.
F8 = f32([0, -0.3, 1.0625, 1.1875, 3.3, 17.7, -100, 447, 464, 465, 1e5, -np.inf, 1e-4, 2.0**-10, 3 * 2.0**-10])
several(
    "fake_convert/types",
    [F8],
    [converted(scale, shift, type_) for type_ in ("f8e4m3", "f8e5m2") for scale, shift in ((1.0, 0.0), (2.0, None))],
    shapes=["?"],
    more=[[spread(4)], [f32([])]],
)
several(
    "fake_convert/per_channel",
    [spread(3, 2, 4)],
    [converted([[1.0], [2.0]], [[0.5], [-1.0]]), converted([[[2.0]], [[1.5]], [[0.5]]], None, "f8e5m2")],
)
several("fake_convert/f16", [f16([1.0625, -0.3, 600, 3 * 2.0**-10])], [converted(2.0, 0.5, dtype=np.float16)])
several(
    "fake_convert/nan",
    [f32([np.nan, 1])],
    [converted(1.0, 0.0)],
    formula="they stay; the CPU plugin makes the greatest number of them",
    without_reference="it does, too",
)
case(
    "fake_convert/without_destination_type",
    [F8],
    converted(1.0)[0],
    converted(1.0)[1],
    edit=[attribute("destination_type", "f8e4m3", None)],
)

# --- compressed weights ---------------------------------------------------------------------------


def decompressed(values, type_, scale, zero_point=None, shape=None, half=True, zero_point_type=None):
    """Const → Convert → [Subtract] → Multiply → [Reshape] → [Convert], as compression of weights writes it."""
    float_type, dtype = ("f16", np.float16) if half else ("f32", np.float32)
    weights = make("Convert-1", const(values, type_), destination_type=float_type)
    if zero_point is not None:
        zero_point = make("Convert-1", const(zero_point, zero_point_type or type_), destination_type=float_type)
        weights = make("Subtract-1", weights, zero_point)
    weights = make("Multiply-1", weights, const(np.array(scale, dtype)))
    if shape:
        weights = make("Reshape-1", weights, axes(*shape), special_zero=False)
    return make("Convert-1", weights, destination_type="f32") if half else weights


def dequantized(values, scale, zero_point=0, shape=None, half=True):
    scale = np.array(scale, np.float16 if half else np.float32).astype(np.float32)
    weights = (np.asarray(values, np.float32) - np.asarray(zero_point, np.float32)) * scale
    return weights.reshape(shape) if shape else weights


def product(x, weights):
    return make("MatMul-1", x, weights, transpose_a=False, transpose_b=True)


def linear(name, values, type_, scale, zero_point=None, shape=None, half=True, zero_point_type=None, **more):
    width = shape[-1] if shape else np.shape(values)[-1]
    case(
        f"compressed_weights/{name}",
        [spread(2, width) / 4],
        op(
            "MatMul-1",
            decompressed(values, type_, scale, zero_point, shape, half, zero_point_type),
            transpose_a=False,
            transpose_b=True,
        ),
        lambda x: x @ dequantized(values, scale, 0 if zero_point is None else zero_point, shape, half).T,
        tolerance=2e-3,
        **more,
    )


SCALES = f16([[0.5], [0.25], [0.1], [2]])
BYTES = spread_ints(0, 255, 4, 8)
linear("u8_zero_point", BYTES, "u8", SCALES / 64, u8([[128], [120], [3], [255]]))
linear("u8_scalar_zero_point", BYTES, "u8", SCALES / 64, u8(127))
linear("i8_symmetric", BYTES - 128, "i8", SCALES / 64)
linear("i8_f32_scale", BYTES - 128, "i8", f32(SCALES) / 64, half=False)
linear("i8_zero_point", BYTES - 128, "i8", SCALES / 64, np.array([[1], [-2], [3], [0]]))
NIBBLES = spread_ints(0, 15, 4, 8, seed=1)
linear("u4_zero_point", NIBBLES, "u4", SCALES / 4, np.array([[8], [7], [0], [15]]))
linear("i4_symmetric", NIBBLES - 8, "i4", SCALES / 4)
GROUP_SCALES = f16(spread(4, 2, 1, seed=3) / 8)
linear("u4_groups", NIBBLES.reshape(4, 2, 4), "u4", GROUP_SCALES, spread_ints(0, 15, 4, 2, 1), (4, 8))
linear("i4_groups", NIBBLES.reshape(4, 2, 4) - 8, "i4", GROUP_SCALES, shape=(4, 8))
linear("u4_groups_scalar_zero_point", NIBBLES.reshape(4, 2, 4), "u4", GROUP_SCALES, np.array(8), (4, 8))
WIDE = spread_ints(0, 15, 3, 2, 32, seed=2)
linear("i4_groups_of_32", WIDE - 8, "i4", f16(spread(3, 2, 1, seed=4) / 8), shape=(3, 64))
linear("u4_groups_of_32", WIDE, "u4", f16(spread(3, 2, 1, seed=4) / 8), spread_ints(0, 15, 3, 2, 1, seed=1), (3, 64))
# As tables that can stay packed: symmetric, in groups of a multiple of 32.
GROUPS = spread_ints(0, 15, 3, 2, 64, seed=5)
linear("i4_per_channel", spread_ints(-8, 7, 4, 64, seed=4), "i4", SCALES / 4)
linear("u4_groups_of_64", GROUPS, "u4", f16(spread(3, 2, 1, seed=4) / 8), np.array(8), (3, 128))
linear("i4_f32_scale", WIDE - 8, "i4", f32(spread(3, 2, 1, seed=4) / 7), shape=(3, 64), half=False)
TABLE = spread_ints(0, 15, 5, 2, 32, seed=6)
TABLE_SCALES = f16(spread(5, 2, 1, seed=7) / 8)


def tied(i):
    """Rows of a table, and their products with all of its rows."""
    table = decompressed(TABLE - 8, "i4", TABLE_SCALES, shape=(5, 64))
    rows = make("Gather-8", table, i, scalar(0))
    return [rows, product(rows, table)]


case(
    "compressed_weights/embedding_and_product",
    [i64([[2, 0, -1]])],
    tied,
    lambda i: [(table := dequantized(TABLE - 8, TABLE_SCALES, shape=(5, 64)))[i], table[i] @ table.T],
    shapes=["?,?"],
    more=[[i64([[1]])]],
    tolerance=2e-3,
)


def heads(x):
    """Attention's heads become rows, and what the rows become is heads again."""
    table = decompressed(TABLE[:4] - 8, "i4", TABLE_SCALES[:4], shape=(4, 64))
    rows = make("Reshape-1", make("Transpose-1", x, axes(0, 2, 1, 3)), axes(0, 0, -1), special_zero=True)
    rows = product(rows, table)
    return make("Transpose-1", make("Reshape-1", rows, axes(0, 0, 2, 2), special_zero=True), axes(0, 2, 1, 3))


case(
    "compressed_weights/heads",
    [spread(2, 4, 3, 16) / 4],
    heads,
    lambda x: (
        (x.transpose(0, 2, 1, 3).reshape(2, 3, 64) @ dequantized(TABLE[:4] - 8, TABLE_SCALES[:4], shape=(4, 64)).T)
        .reshape(2, 3, 2, 2)
        .transpose(0, 2, 1, 3)
    ),
    tolerance=2e-3,
)
# Codes are the positions of values in a table.
CODEBOOK = f16([-1, -0.5, -0.25, -0.125, 0, 0.125, 0.5, 1])


def codebook(x):
    indices = make("Convert-1", const(NIBBLES % 8, "u4"), destination_type="u8")
    values = make("Convert-1", const(CODEBOOK.astype(np.float32), "f8e4m3"), destination_type="f16")
    weights = make("Gather-8", values, indices, scalar(0))
    weights = make("Convert-1", make("Multiply-1", weights, const(SCALES)), destination_type="f32")
    return product(x, weights)


case(
    "compressed_weights/codebook",
    [spread(2, 8) / 4],
    codebook,
    lambda x: x @ dequantized(CODEBOOK[NIBBLES % 8], SCALES).T,
    tolerance=2e-3,
)


# Small floats whose scales are small floats, too: powers of 2 ("MXFP4").
def small_floats(x):
    values = f32([-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6, 6])[WIDE]
    scales = f32(2.0 ** spread_ints(-3, 2, 3, 2, 1))
    weights = make("Convert-1", const(values, "f4e2m1"), destination_type="f16")
    weights = make("Multiply-1", weights, make("Convert-1", const(scales, "f8e8m0"), destination_type="f16"))
    weights = make("Reshape-1", weights, axes(3, 64), special_zero=False)
    weights = make("Convert-1", weights, destination_type="f32")
    return product(x, weights), (values * scales).reshape(3, 64)


case(
    "compressed_weights/f4e2m1",
    [spread(2, 64) / 4],
    lambda x: small_floats(x)[0],
    lambda x: x @ small_floats(const(x).node())[1].T,
    tolerance=2e-3,
)
linear("u2", NIBBLES % 4, "u2", SCALES, np.array(1), zero_point_type="i8")
linear("nf4", NF4[NIBBLES], "nf4", SCALES)
linear("f8e4m3", np.array([-448, -1.5, -0.5, 0, 0.25, 1, 3.5, 240])[NIBBLES % 8], "f8e4m3", SCALES / 64)
case(
    "compressed_weights/u8_embedding",
    [i64([[2, 0, 3]])],
    lambda i: make("Gather-8", decompressed(BYTES, "u8", SCALES / 64, u8([[128], [120], [3], [255]])), i, scalar(0)),
    lambda i: dequantized(BYTES, SCALES / 64, [[128], [120], [3], [255]])[i],
    shapes=["?,?"],
    more=[[i64([[1]])]],
    tolerance=2e-3,
)
# Gather-8 gives zeros for rows that are not there, whatever zero their codes have.
TABLES = [
    (BYTES, "u8", SCALES / 64, u8([[128], [120], [3], [255]])),
    (BYTES, "u8", SCALES / 64, u8(127)),
    (BYTES, "u8", f16(0.1), u8([[128], [120], [3], [255]])),
    (BYTES, "u8", f16(0.1), u8(127)),
    (BYTES, "u8", f16(spread(1, 8) / 64), u8(spread_ints(0, 255, 1, 8, seed=1))),
    (BYTES - 128, "i8", f16(0.1), np.array(-7)),
    (BYTES - 128, "i8", SCALES / 64),
    (NIBBLES, "u4", f16(0.1), np.array(8)),
    (NIBBLES, "u4", SCALES / 4, np.array(8)),
    (NIBBLES - 8, "i4", f16(0.1), np.array(3)),
    (NIBBLES.reshape(4, 2, 4), "u4", f16(0.1), np.array(8), (4, 8)),
    (NIBBLES.reshape(4, 2, 4), "u4", GROUP_SCALES, np.array(8), (4, 8)),
    (NIBBLES.reshape(4, 2, 4), "u4", f16(spread(1, 2, 1) / 8), spread_ints(0, 15, 1, 2, 1), (4, 8)),
    (NIBBLES.reshape(4, 2, 4) - 8, "i4", GROUP_SCALES, None, (4, 8)),
    (NF4[NIBBLES], "nf4", SCALES),
]


def out_of_range(table):
    values, type_, *rest = table
    def formula(i):
        weights = dequantized(values, rest[0], 0 if len(rest) < 2 or rest[1] is None else rest[1], *rest[2:])
        there = (i >= -4) & (i < 4)
        return np.where(there[..., None], weights[np.where(there, i, 0)], np.float32(0))

    return lambda i: make("Gather-8", decompressed(values, type_, *rest), i, scalar(0)), formula


several(
    "compressed_weights/rows_out_of_range",
    [i64([[2, 9, -1, -9]])],
    [out_of_range(table) for table in TABLES],
    shapes=["?,?"],
    more=[[i64([[1]])]],
    tolerance=2e-3,
    formula="the CPU plugin reads beyond compressed tables for indices out of range",
)
case(
    "compressed_weights/i8_convolution",
    [spread(1, 3, 4, 4)],
    lambda x: make(
        "Convolution-1",
        x,
        decompressed(spread_ints(-127, 127, 2, 3, 1, 1), "i8", f16([[[[0.01]]], [[[0.02]]]])),
        **PLAIN,
    ),
    lambda x: np.einsum("nchw,oc->nohw", x, dequantized(spread_ints(-127, 127, 2, 3), f16([[0.01], [0.02]]))),
    tolerance=2e-3,
)
case(
    "compressed_weights/f16",
    [spread(2, 3)],
    lambda x: product(x, make("Convert-1", const(f16(spread(4, 3, seed=1) / 3)), destination_type="f32")),
    lambda x: x @ f16(spread(4, 3, seed=1) / 3).astype(np.float32).T,
)

# --- cases that share a model ----------------------------------------------------------------------

join("fake_quantize/levels", "levels", "reversed_outputs", "rank_2", "infinities")
join("fake_quantize/broadcasts", "per_channel", "other_broadcasts")
join("compressed_weights/u8", "u8_zero_point", "u8_scalar_zero_point")
join("compressed_weights/i8", "i8_symmetric", "i8_f32_scale", "i8_zero_point")
join("compressed_weights/nibbles", "u4_zero_point", "i4_symmetric")
join("compressed_weights/groups", "u4_groups", "i4_groups", "u4_groups_scalar_zero_point")
join(
    "compressed_weights/groups_of_32",
    "i4_groups_of_32",
    "u4_groups_of_32",
    "i4_per_channel",
    "u4_groups_of_64",
    "i4_f32_scale",
)
