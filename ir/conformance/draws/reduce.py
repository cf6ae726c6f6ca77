"""Reductions, normalizations and products."""

from draws import *
from draws.movement import number, vector
from framework import *

REDUCTIONS = "ReduceSum-1 ReduceMean-1 ReduceMax-1 ReduceMin-1 ReduceProd-1 ReduceL1-4 ReduceL2-4"
LOGICAL = "ReduceLogicalAnd-1 ReduceLogicalOr-1"


def axes_of(draw, rank, least=1):
    """An input of some axes: mostly one or more."""
    axes = draw.axes(rank, min(least, rank))
    if len(axes) == 1 and draw.flag(0.3):
        return number(draw, axes[0], 0.95)
    return vector(draw, axes, 0.95)


@operation(f"{REDUCTIONS} {LOGICAL}")
def reduction(draw, kind):
    shape = draw.shape()
    limits = {"low": -2, "high": 2} if kind == "ReduceProd-1" else {}
    types = ["boolean"] if kind in LOGICAL else FLOATS if draw.flag(0.6) else NUMBERS
    if kind in ("ReduceL1-4", "ReduceL2-4") and draw.flag(0.8):
        types = FLOATS
    x = draw.numbers(draw.type(types), *shape, **limits)
    least = 0 if draw.flag(0.1) else 1
    return [x, axes_of(draw, x.ndim, least)], op(kind, **draw.default("keep_dims", draw.flag(), False))


@operation("Softmax-1 Softmax-8 LogSoftmax-5")
def softmax(draw, kind):
    x = draw.numbers(draw.type(FLOATS), *draw.shape(draw.integer(1, 4)))
    if draw.flag(0.2):
        x = x * x.dtype.type(8)
    axis = draw.axis(x.ndim) % x.ndim if kind == "Softmax-1" else draw.axis(x.ndim)
    return [x], op(kind, **draw.default("axis", axis, 1))


# --- products -----------------------------------------------------------------------------------------


@operation("MatMul-1")
def mat_mul(draw, kind):
    type_ = draw.type(FLOATS if draw.flag(0.8) else NUMBERS)
    rows, inner, columns = (draw.size() for _ in range(3))
    batch = draw.shape(draw.choice(0, 0, 1, 2))
    shapes, attributes = [], {}
    transposed = draw.turn % 2 > 0, draw.turn // 2 % 2 > 0
    for name, matrix, is_transposed in zip("ab", [(rows, inner), (inner, columns)], transposed):
        attributes |= draw.default(f"transpose_{name}", is_transposed, False)
        if draw.flag(0.2):
            # A vector. It stays as it is.
            shapes.append((inner,))
        else:
            shapes.append((*draw.broadcastable(batch), *(matrix[::-1] if is_transposed else matrix)))
    x, y = (draw.numbers(type_, *shape) for shape in shapes)
    at = draw.integer(0, 3)
    return [Const(x) if at == 0 else x, Const(y) if at == 1 else y], op(kind, **attributes)


@operation("Einsum-7")
def einsum(draw, kind):
    letters = [draw.choice("ijk", "bhwc", "aBcD")[:4], "xyz"][draw.flag(0.1)]
    sizes = {letter: draw.size(1) for letter in letters}
    has_ellipsis = draw.flag(0.3)
    before = draw.shape(draw.integer(0, 2), 1)
    terms, arrays, type_ = [], [], draw.type([*FLOATS, "i32", "i64"])
    for _ in range(draw.choice(1, 2, 2, 2, 3)):
        term = draw.subset(letters, 1)
        draw.random.shuffle(term)
        if draw.flag(0.15) and len(term) > 1:
            # A diagonal.
            term[0] = term[1]
        shape = [sizes[letter] for letter in term]
        if has_ellipsis and draw.flag(0.8):
            at = draw.integer(0, len(term))
            dots = draw.broadcastable(before)
            shape[at:at] = dots
            term.insert(at, "...")
        terms.append("".join(term))
        arrays.append(draw.numbers(type_, *shape))
    equation = ",".join(terms)
    if draw.flag(0.8):
        found = sorted(set("".join(terms)) - {"."})
        output = draw.subset(found)
        draw.random.shuffle(output)
        if any("..." in it for it in terms):
            output.insert(draw.integer(0, len(output)), "...")
        equation += "->" + "".join(output)
    if draw.flag(0.1):
        equation = equation.replace(",", ", ").replace("->", " -> ")
    return [draw.fed(it, 0.15) for it in arrays], op(kind, equation=equation)


@operation("ScaledDotProductAttention-13")
def attention(draw, kind):
    type_, heads = draw.type(["f32", "f32", "f16", "f64"]), draw.shape(draw.choice(1, 2, 2, 2), 1)
    queries, keys, width, value_width = (draw.size(1) for _ in range(4))
    q = draw.numbers(type_, *heads, queries, width, low=-1, high=1)
    k = draw.numbers(type_, *heads, keys, width, low=-1, high=1)
    v = draw.numbers(type_, *heads, keys, value_width if draw.flag(0.3) else width)
    causal = draw.flag(0.4)
    more = []
    if draw.flag(0.6):
        shape = (*draw.choice((), draw.broadcastable(heads), heads), queries, keys)
        shape = draw.choice(shape, shape, (*heads, queries, keys), (1,) * len(heads) + (1, keys), ())
        if draw.flag() and shape:
            mask = draw.numbers("boolean", *shape)
            # A row in which nothing is kept has no defined result.
            mask[..., 0] = True
        else:
            mask = draw.numbers(type_, *shape)
        more.append(draw.fed(mask, 0.3))
        if draw.flag(0.5):
            more.append(draw.fed(np.full(draw.choice((), (1,)), draw.real(0.125, 2), q.dtype), 0.7))
            if draw.flag(0.4):
                # OpenVINO's sinks are of the queries' rank.
                more.append(draw.fed(draw.numbers(type_, *draw.broadcastable(heads), draw.choice(1, queries), 1), 0.7))
    return [q, k, v, *more], op(kind, causal=causal)


# --- normalizations -----------------------------------------------------------------------------------

EPS = (1e-5, 1e-3, 0.25)


def image(draw, *, rank=None, types=("f32", "f32", "f16", "f64"), least=1):
    """Numbers with a batch, channels, and maybe more axes."""
    return draw.numbers(draw.type(list(types)), *draw.shape(rank or draw.choice(2, 3, 4, 4, 5), least))


@operation("MVN-2")
def mvn_2(draw, kind):
    x = image(draw, rank=draw.choice(3, 4, 4, 5))
    attributes = {"across_channels": draw.flag(), "normalize_variance": draw.flag(), "eps": draw.choice(*EPS)}
    return [x], op(kind, **attributes)


@operation("MVN-6")
def mvn_6(draw, kind):
    x = image(draw, rank=draw.integer(1, 5))
    mode = draw.choice("inside_sqrt", "outside_sqrt")
    attributes = {"normalize_variance": draw.flag(), "eps": draw.choice(*EPS), "eps_mode": mode}
    return [x, vector(draw, draw.axes(x.ndim, 1), 0.95)], op(kind, **attributes)


@operation("LRN-1")
def lrn(draw, kind):
    x = image(draw)
    # OpenVINO's CPU plugin rounds the bias down.
    attributes = {"alpha": draw.real(0.125, 2), "beta": draw.choice(0.5, 0.75, 1.0), "bias": draw.integer(1, 3)}
    size = draw.choice(1, 3, 5, 2, 4)
    # OpenVINO's CPU plugin takes other axes than that of the channels as all axes after it.
    axes = [1] if x.ndim < 3 or draw.flag(0.6) else list(range(2, x.ndim))
    draw.random.shuffle(axes)
    return [x, vector(draw, axes, 0.97)], op(kind, size=size, **attributes)


@operation("GRN-1")
def grn(draw, kind):
    return [image(draw, rank=draw.choice(2, 3, 4))], op(kind, bias=draw.choice(*EPS, 1.0))


@operation("NormalizeL2-1")
def normalize_l2(draw, kind):
    x = image(draw, rank=draw.integer(1, 4))
    axes = draw.axes(x.ndim, 0 if draw.flag(0.1) else 1)
    mode = draw.choice("add", "max")
    return [x, vector(draw, axes, 0.97)], op(kind, eps=draw.choice(*EPS), eps_mode=mode)


@operation("BatchNormInference-1 BatchNormInference-5")
def batch_norm_inference(draw, kind):
    x = image(draw)
    # Of half precision OpenVINO rounds what it computes of the constants.
    x = x.astype(np.float32) if x.dtype == np.float16 else x
    gamma, beta, mean = (draw.fed(draw.numbers("f32", x.shape[1]).astype(x.dtype), 0.7) for _ in range(3))
    variance = draw.fed(draw.numbers("f32", x.shape[1], low=0, high=4).astype(x.dtype), 0.7)
    inputs = [x, gamma, beta, mean, variance] if kind == "BatchNormInference-5" else [gamma, beta, x, mean, variance]
    return inputs, op(kind, epsilon=draw.choice(*EPS))


@operation("GroupNormalization-12")
def group_normalization(draw, kind):
    groups = draw.choice(1, 2, 3)
    shape = (draw.size(1), groups * draw.integer(1, 3), *draw.shape(draw.integer(1, 3), 1))
    x = draw.numbers(draw.type(["f32", "f32", "f16", "f64"]), *shape)
    more = [draw.fed(draw.numbers("f32", shape[1]).astype(x.dtype), 0.6) for _ in range(2)]
    return [x, *more], op(kind, num_groups=groups, epsilon=draw.choice(*EPS))


@operation("GroupedMatMul-17")
def grouped_mat_mul(draw, kind):
    type_ = draw.type(FLOATS)
    groups, inner, columns = draw.size(1), draw.size(), draw.size()
    # OpenVINO's CPU plugin has it with constant matrices only.
    matrices = Const(draw.numbers(type_, groups, columns, inner))
    if draw.flag():
        return [draw.numbers(type_, groups, draw.size(), inner), matrices], op(kind)
    sizes = [draw.size() for _ in range(groups)]
    # It does not write rows after the last group, and there must be some.
    ends = np.cumsum(sizes).astype(DTYPES[draw.choice("i32", "i64")])
    return [draw.numbers(type_, int(ends[-1]), inner), matrices, ends], op(kind)
