"""Operations on each element."""

from draws import *
from framework import *

# Of each operation where it is defined, and not too steep.
UNARY = {
    "Abs-1 Negative-1 Sign-1 Relu-1 Floor-1 Ceiling-1 Sigmoid-1 Tanh-1 Exp-1 Erf-1 Sin-1 Cos-1 Atan-1": (-4, 4),
    "Sinh-1 Cosh-1 Asinh-4 SoftPlus-4 Mish-4 HSwish-4 HSigmoid-5 SoftSign-9 Gelu-2": (-5, 5),
    "Tan-1": (-1.5, 1.5),
    "Asin-1 Acos-1": (-1, 1),
    "Atanh-4 ErfInv-17": (-0.9375, 0.9375),
    "Acosh-4": (1, 6),
    "Log-1": (0.0625, 8),
    "Sqrt-1": (0, 8),
}
RANGES = {kind: limits for kinds, limits in UNARY.items() for kind in kinds.split()}
ONLY_FLOATS = "SoftPlus-4 Mish-4 SoftSign-9 Gelu-2 HSwish-4 HSigmoid-5 ErfInv-17".split()


def operand(draw, *, types=FLOATS, low=-4, high=4):
    return draw.numbers(draw.type(types), *draw.shape(), low=low, high=high)


@operation(" ".join(RANGES))
def unary(draw, kind):
    low, high = RANGES[kind]
    types = FLOATS if kind in ONLY_FLOATS or draw.flag(0.6) else NUMBERS
    x = operand(draw, types=types, low=low, high=high)
    # The numbers of integers are those in the range.
    return [x.clip(np.ceil(low), np.floor(high)) if x.dtype.kind in "iu" else x], op(kind)


@operation("Round-5")
def round_(draw, kind):
    # Quarters, so that there are halves.
    x = operand(draw, types=NUMBERS) * draw.choice(1, 4)
    x = (np.round(x * 4) / 4).astype(x.dtype)
    return [x], op(kind, **draw.optional({"mode": draw.choice("half_to_even", "half_away_from_zero")}))


def with_specials(draw, x):
    """Some of the numbers are infinite or not numbers."""
    specials = draw.numpy.choice(np.array([np.nan, np.inf, -np.inf], x.dtype), x.shape)
    return np.where(draw.numpy.random(x.shape) < 0.4, specials, x).astype(x.dtype)


@operation("IsNaN-10 IsFinite-10 IsInf-10")
def classified(draw, kind):
    x = with_specials(draw, operand(draw, types=["f32", "f16"]))
    detected = {"detect_negative": draw.flag(), "detect_positive": draw.flag()} if kind == "IsInf-10" else {}
    return [x], op(kind, **draw.optional(detected))


@operation("LogicalNot-1 BitwiseNot-13")
def not_(draw, kind):
    types = ["boolean"] if kind == "LogicalNot-1" else [*INTEGERS, "boolean"]
    return [operand(draw, types=types)], op(kind)


@operation("Gelu-7")
def gelu(draw, kind):
    return [operand(draw)], op(kind, **draw.optional({"approximation_mode": draw.choice("erf", "tanh")}))


@operation("Elu-1")
def elu(draw, kind):
    return [operand(draw)], op(kind, alpha=draw.real(-1, 2))


@operation("Clamp-1")
def clamp(draw, kind):
    low = draw.real(-4, 3)
    # Between them there must be an integer for integers.
    return [operand(draw, types=NUMBERS)], op(kind, min=low, max=draw.real(low + draw.choice(1, 1, 0), 5))


@operation("Swish-4")
def swish(draw, kind):
    x = operand(draw)
    return [x, *draw.subset([draw.fed(np.array(draw.real(-2, 2), x.dtype))])], op(kind)


@operation("HardSigmoid-1 Selu-1")
def with_scalars(draw, kind):
    x = operand(draw, low=-6, high=6)
    shape = () if kind == "HardSigmoid-1" else draw.choice((), (1,))
    # The CPU plugin has them only where these are constants.
    return [x, *(draw.fed(np.full(shape, draw.real(0.125, 2), x.dtype), 0.95) for _ in range(2))], op(kind)


@operation("PRelu-1")
def prelu(draw, kind):
    x = operand(draw)
    channels = x.shape[1] if x.ndim > 1 else x.size
    slope = draw.choice((1,), (channels,), (channels,), draw.broadcastable(x.shape))
    return [x, draw.fed(draw.numbers("f32", *slope).astype(x.dtype), 0.5)], op(kind)


# --- two operands -------------------------------------------------------------------------------------


def broadcast(draw, kind):
    """The attribute, and two shapes."""
    modes = ["numpy", "pdpd", "numpy", "none", "pdpd", "numpy"]
    mode = modes[draw.turn % len(modes)]
    as_numpy = ("Bitwise", "Logical", "Xor", "Equal", "NotEqual", "Greater", "Less", "Mod")
    if kind.startswith(as_numpy) and mode == "pdpd":
        # OpenVINO broadcasts these as NumPy does, whatever the attribute says, or refuses the axis.
        mode = "none"
    attributes = {"auto_broadcast": mode}
    if mode == "numpy" and draw.turn % 2:
        draw.left_out.append("auto_broadcast")
    shape = draw.shape()
    if mode == "none":
        return attributes, [shape, shape]
    if mode == "pdpd":
        # OpenVINO's Python checks the shapes for the first axis, which must fit, too.
        axis = 0
        if draw.turn % len(modes) != 1:
            # The condition of a Select has all axes, so that it cannot begin at the second one.
            axis = -1 if kind == "Select-1" else draw.choice(1, -1)
        draw.rewritten["auto_broadcast.auto_broadcast_axis"] = str(axis)
        rows = draw.size()
        return attributes, [(rows, rows, rows if axis < 0 else draw.size()), (rows,)]
    shapes = [draw.broadcastable(shape), shape if draw.flag(0.6) else draw.broadcastable(shape)]
    draw.random.shuffle(shapes)
    return attributes, shapes


def operands(draw, kind, types, **limits):
    """The attribute, and two arrays of one type, of which one may be a constant."""
    attributes, shapes = broadcast(draw, kind)
    type_ = draw.type(types)
    arrays = [draw.numbers(type_, *shape, **limits) for shape in shapes]
    at = draw.integer(0, 3)
    return attributes, [Const(it) if number == at else it for number, it in enumerate(arrays)]


def values(it):
    return it.values if isinstance(it, Const) else it


def replaced(it, array):
    return Const(array) if isinstance(it, Const) else array


@operation("Add-1 Subtract-1 Multiply-1 Maximum-1 Minimum-1 SquaredDifference-1")
def arithmetic(draw, kind):
    attributes, inputs = operands(draw, kind, NUMBERS)
    if kind in ("Subtract-1", "SquaredDifference-1") and values(inputs[0]).dtype.kind == "u":
        # Differences of unsigned numbers stay above 0.
        inputs[0] = replaced(inputs[0], values(inputs[0]) + values(inputs[0]).dtype.type(4))
    return inputs, op(kind, **attributes)


@operation("Divide-1 Mod-1 FloorMod-1")
def quotient(draw, kind):
    attributes, [x, y] = operands(draw, kind, NUMBERS)
    divisor = values(y)
    if divisor.dtype.kind in "iu" or kind != "Divide-1":
        # Rounding decides on the remainders of fractions: these have exact quotients.
        divisor = np.where(divisor == 0, divisor.dtype.type(2), divisor)
    if kind == "Divide-1":
        attributes |= draw.default("m_pythondiv", draw.turn % 3 > 0, True)
    return [x, replaced(y, divisor)], op(kind, **attributes)


@operation("Power-1")
def power(draw, kind):
    attributes, [x, y] = operands(draw, kind, NUMBERS)
    bases, exponents = values(x), values(y)
    if bases.dtype.kind in "iu":
        exponents = np.abs(exponents) % exponents.dtype.type(4)
    elif draw.flag():
        exponents = np.round(exponents)
        bases = np.where(bases == 0, bases.dtype.type(1), bases)
    else:
        bases = np.abs(bases) + bases.dtype.type(0.0625)
    if draw.flag(0.4):
        exponents = np.full_like(exponents, draw.choice(0, 1, 2, 3))
    return [replaced(x, bases), replaced(y, exponents)], op(kind, **attributes)


@operation("Equal-1 NotEqual-1 Greater-1 GreaterEqual-1 Less-1 LessEqual-1")
def comparison(draw, kind):
    attributes, inputs = operands(draw, kind, ALL, low=-1, high=1)
    return inputs, op(kind, **attributes)


@operation("LogicalAnd-1 LogicalOr-1 LogicalXor-1 Xor-1")
def logical(draw, kind):
    attributes, inputs = operands(draw, kind, ["boolean"])
    return inputs, op(kind, **attributes)


@operation("BitwiseAnd-13 BitwiseOr-13 BitwiseXor-13")
def bitwise(draw, kind):
    attributes, inputs = operands(draw, kind, [*INTEGERS, "boolean"], low=-100, high=100)
    return inputs, op(kind, **attributes)


@operation("BitwiseLeftShift-15 BitwiseRightShift-15")
def shift(draw, kind):
    attributes, [x, y] = operands(draw, kind, INTEGERS)
    numbers = values(x)
    if kind == "BitwiseLeftShift-15":
        numbers = np.abs(numbers)
    return [replaced(x, numbers), replaced(y, np.abs(values(y)))], op(kind, **attributes)


@operation("Select-1")
def select(draw, kind):
    attributes, [then, other] = operands(draw, kind, ALL)
    if attributes.get("auto_broadcast", "numpy") == "numpy":
        shape = draw.broadcastable(np.broadcast_shapes(values(then).shape, values(other).shape))
    else:
        shape = values(then).shape
    return [draw.fed(draw.numbers("boolean", *shape), 0.3), then, other], op(kind, **attributes)


# --- types --------------------------------------------------------------------------------------------


def convertible(draw, source, target):
    """Numbers of one type that another one has; fractions are cut off."""
    is_signed = target[0] in "if"
    x = draw.numbers(source, *draw.shape(), low=-100 if is_signed else 0, high=100)
    return np.where(draw.numpy.random(x.shape) < 0.3, np.zeros((), x.dtype), x)


@operation("Convert-1")
def convert(draw, kind):
    source, target = draw.choice(*ALL), draw.choice(*ALL)
    return [convertible(draw, source, target)], op(kind, destination_type=target)


@operation("ConvertLike-1")
def convert_like(draw, kind):
    source, target = draw.choice(*ALL), draw.choice(*ALL)
    like = draw.numbers(target, *draw.shape())
    return [convertible(draw, source, target), draw.fed(like, 0.5)], op(kind)


@operation("ConvertPromoteTypes-14")
def promoted(draw, kind):
    types = [draw.choice(*ALL), draw.choice(*ALL)]
    arrays = [draw.numbers(it, *draw.shape(), low=0) for it in types]
    choices = {"promote_unsafe": draw.flag(), "pytorch_scalar_promotion": draw.flag()}
    if draw.flag():
        choices["u64_integer_promotion_target"] = draw.choice("f32", "f64", "i64", "i32")
    if {"f16", "f32", "f64"} & set(types) or "u64" in types:
        choices["promote_unsafe"] = draw.flag(0.8)
    return [arrays[0], draw.fed(arrays[1], 0.3)], op(kind, **choices)


@operation("FakeQuantize-1")
def fake_quantize(draw, kind):
    x = operand(draw, types=["f32", "f32", "f16"])
    levels = draw.choice(2, 3, 5, 16, 17, 255, 256)

    mode = ["numpy", "none", "numpy"][draw.turn % 3]

    def limits():
        shape = draw.broadcastable(x.shape) if draw.flag() else draw.choice((), (1,) * x.ndim)
        shape = x.shape if mode == "none" else shape
        low = draw.numbers("f32", *shape, low=-4, high=0)
        # Widths that are multiples of the number of steps keep away from the edges of rounding.
        width = draw.numpy.integers(1, 3, shape, endpoint=True) * draw.choice(1, 1.5, (levels - 1) / 16)
        if draw.flag(0.2):
            width = -width
        return [low.astype(x.dtype), (low + width).astype(x.dtype)]

    # An edge of two levels is where a number may be.
    x = x + x.dtype.type(1 / 64)
    inputs = limits()
    outputs = inputs if draw.flag(0.3) else limits()
    attributes = {"levels": levels, **draw.default("auto_broadcast", mode, "numpy")}
    return [x, *(draw.fed(it, 0.9) for it in (*inputs, *outputs))], op(kind, **attributes)


@operation("FakeConvert-13")
def fake_convert(draw, kind):
    # Sixteenths, some of which are halfway between floats of 8 bits.
    x = operand(draw, types=["f32", "f32", "f16"]) * draw.choice(1, 1, 16)
    shape = draw.broadcastable(x.shape) if draw.flag() else draw.choice((), (1,) * x.ndim)
    # Powers of two, so that scaling is exact.
    scale = 2.0 ** draw.numpy.integers(-2, 3, shape, endpoint=True)
    shift = draw.numbers("f32", *shape, low=-2, high=2)
    more = [np.asarray(it, x.dtype) for it in (scale, shift)[: draw.choice(1, 2)]]
    destination = draw.optional({"destination_type": draw.choice("f8e4m3", "f8e5m2")})
    return [x, *(draw.fed(it, 0.9) for it in more)], op(kind, **destination)
