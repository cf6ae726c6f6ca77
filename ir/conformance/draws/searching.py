"""Operations that look for elements, that make tensors from sizes, and inverses of matrices."""

from framework import *

from . import ALL, FLOATS, NUMBERS, operation

INDICES = ["i32", "i64"]


def one(draw, value, types=INDICES):
    """An input of one element."""
    return draw.fed(np.array(value, DTYPES[draw.choice(*types)]).reshape(draw.choice((), (1,))))


# --- searches ---------------------------------------------------------------------------------------


@operation("Unique-10")
def unique(draw, kind):
    # OpenVINO's CPU plugin crashes if there are no elements, and finds slices of bytes equal that are not.
    shape = draw.shape(least=1)
    axis = [] if not shape or draw.flag() else [Const(np.array(draw.axis(len(shape)), DTYPES[draw.choice(*INDICES)]))]
    types = [it for it in NUMBERS if not axis or it not in ("i8", "u8")]
    x = draw.numbers(draw.type(types), *shape, low=-1, high=2 if axis else 4)
    if axis and x.dtype.kind == "f":
        x = np.round(x)
    attributes = {
        "sorted": draw.flag(),
        "index_element_type": draw.choice(*INDICES),
        "count_element_type": draw.choice(*INDICES),
    }
    return [x, *axis], op(kind, **draw.optional(attributes))


@operation("Bucketize-3")
def bucketize(draw, kind):
    types = ["f16", "f32", "i32", "i64", "i8", "u8"]
    bounds = np.sort(draw.numbers(draw.type(types), draw.size()))
    data = draw.numbers(draw.type(types), *draw.shape())
    # Some are bounds themselves.
    if len(bounds) and draw.flag():
        places = draw.numpy.integers(0, len(bounds), data.shape)
        data = np.where(draw.numpy.random(data.shape) < 0.5, bounds[places], data.astype(bounds.dtype))
    right = draw.optional({"with_right_bound": draw.flag()})
    return [data, draw.fed(bounds, 0.5)], op(kind, output_type=draw.choice(*INDICES), **right)


@operation("SearchSorted-15")
def search_sorted(draw, kind):
    type_, shape = draw.type(NUMBERS), draw.shape(draw.choice(1, 1, 2, 3))
    lines = shape[:-1] if draw.flag() else ()
    # OpenVINO's CPU plugin reads in front of a sequence of nothing.
    found = np.sort(draw.numbers(type_, *lines, draw.size(1)), -1)
    values = draw.numbers(type_, *shape)
    attributes = {"right_mode": draw.flag(), "output_type": draw.choice(*INDICES)}
    return [found, values], op(kind, **draw.optional(attributes))


# --- tensors of sizes -------------------------------------------------------------------------------


@operation("Eye-9")
def eye(draw, kind):
    inputs = [one(draw, draw.size()), one(draw, draw.size()), one(draw, draw.integer(-5, 5))]
    if draw.flag():
        # For no axes OpenVINO's CPU plugin writes nothing.
        batch = draw.shape(draw.integer(1, 3))
        inputs.append(draw.fed(np.array(batch, DTYPES[draw.choice(*INDICES)])))
    return inputs, op(kind, output_type=draw.type(ALL))


@operation("Range-1 Range-4")
def range_(draw, kind):
    output_type = draw.type(NUMBERS)
    is_float, low = DTYPES[output_type].kind == "f", 0 if output_type.startswith("u") else -5
    types = [output_type] * 3
    if kind == "Range-4":
        # Numbers of other types are whole.
        options = [output_type, "i32", "i64"]
        types = [draw.choice(*options) for _ in range(3)]
    start, stop = draw.integer(low, 5), draw.integer(low, 9)
    forwards = output_type.startswith("u") or start < stop
    # Sometimes to the other side, where there is nothing.
    forwards = forwards if draw.flag(0.9) else output_type.startswith("u") or not forwards
    values = [start, stop, draw.choice(1, 2, 3) * (1 if forwards else -1)]
    if is_float and draw.flag():
        values = [it / 8 if type_ == output_type else it for it, type_ in zip(values, types)]
    attributes = {"output_type": output_type} if kind == "Range-4" else {}
    return [draw.fed(np.array(it, DTYPES[type_]), 0.5) for it, type_ in zip(values, types)], op(kind, **attributes)


# --- random numbers ---------------------------------------------------------------------------------


@operation("RandomUniform-8")
def random_uniform(draw, kind):
    """The greatest integers up to random numbers from one integer to the next are that integer."""
    draw.has_state = True
    type_ = draw.type(["f16", "f32", "f64", "i32", "i64"])
    is_float = DTYPES[type_].kind == "f"
    low = draw.integer(-1, 0) if is_float else draw.integer(-9, 9)
    shape = np.array(draw.shape(draw.integer(1, 3)), DTYPES[draw.choice(*INDICES)])
    attributes = {"global_seed": draw.choice(0, 7), "op_seed": draw.choice(0, 150), "alignment": "tensorflow"}
    if attributes["global_seed"] == attributes["op_seed"] == 0:
        attributes["alignment"] = draw.choice("tensorflow", "pytorch")

    def build(*inputs):
        numbers = make(kind, *inputs, output_type=type_, **attributes)
        return make("Floor-1", numbers) if is_float else numbers

    # Shapes of random numbers must be known.
    return [Const(shape), one(draw, low, [type_]), one(draw, low + 1, [type_])], build


@operation("Multinomial-13")
def multinomial(draw, kind):
    """All classes but one have the probability 0."""
    draw.has_state = True
    rows, classes = draw.integer(1, 4), draw.integer(1, 4)
    logarithms, again = draw.flag(), draw.flag(0.7)
    probs = np.full((rows, classes), -np.inf if logarithms else 0, DTYPES[draw.type(FLOATS)])
    for row in probs:
        row[draw.integer(0, classes - 1)] = draw.choice(0.5, 1, 3)
    attributes = {
        "convert_type": draw.choice(*INDICES),
        "with_replacement": again,
        "log_probs": logarithms,
        **draw.optional({"global_seed": draw.choice(0, 7), "op_seed": draw.choice(0, 150)}),
    }
    samples = np.array(draw.integer(1, 4) if again else 1, DTYPES[draw.choice(*INDICES)])
    # As of RandomUniform.
    return [probs, Const(samples if draw.flag() else samples.reshape(1))], op(kind, **attributes)


# --- matrices ---------------------------------------------------------------------------------------


@operation("Inverse-14")
def inverse(draw, kind):
    size = draw.integer(1, 4)
    x = draw.numbers("f64", *draw.shape(draw.choice(0, 0, 1, 2), 1), size, size, low=-1, high=1)
    # The diagonal is so large that there is an inverse, also where the rows are in another order.
    x = (x + 5 * np.eye(size))[..., draw.numpy.permutation(size), :]
    return [x.astype(DTYPES[draw.type(FLOATS)])], op(kind, **draw.optional({"adjoint": draw.flag()}))
