"""Sizes that a network computes from those of its inputs, through floats, comparisons and choices."""

from framework import *

X = offsets(5, 12)
MORE = [[offsets(3, 7)], [offsets(1, 64)], [offsets(8, 33)], [offsets(2, 49)]]


def concat(*parts, axis=0):
    return make("Concat-1", *parts, axis=axis)


def convert(destination):
    return lambda x: make("Convert-1", x, destination_type=destination)


floats, whole = convert("f32"), convert("i64")


def sizes(name, *functions, **options):
    """Each size is computed of that of axis 1, and is the length of an output and an output itself."""

    def build(x):
        computed = [function(dims(x, 1), x) for function, _ in functions]
        first = make("ReduceMin-1", x, axes(0, 1), keep_dims=False)
        return [it for size in computed for it in (make("Broadcast-3", first, size, mode="numpy"), size)]

    def reference(x):
        computed = [int(formula(x.shape[1], x)) for _, formula in functions]
        return [it for size in computed for it in (np.zeros(size, np.float32), i64([size]))]

    case(f"computed_sizes/{name}", [X], build, reference, shapes=["?,?"], more=MORE, **options)


def times(size, factor):
    return make("Multiply-1", floats(size), real(factor))


def by(size, divisor):
    return make("Divide-1", floats(size), real(divisor))


sizes(
    "functions",
    (lambda n, _: make("Clamp-1", n, min=8.0, max=20.0), lambda n, _: min(max(n, 8), 20)),
    (lambda n, _: make("Relu-1", make("Subtract-1", n, axes(9))), lambda n, _: max(n - 9, 0)),
    (lambda n, _: whole(make("Sqrt-1", floats(make("Multiply-1", n, n)))), lambda n, _: n),
    (lambda n, _: whole(make("Floor-1", times(n, 0.25))), lambda n, _: n // 4),
    (lambda n, _: whole(make("Ceiling-1", by(n, 5))), lambda n, _: -(-n // 5)),
    (lambda n, _: whole(by(n, 3)), lambda n, _: n // 3),
    (lambda n, x: whole(make("Minimum-1", times(n, 0.5), floats(dims(x, 0)))), lambda n, x: min(n // 2, len(x))),
    (lambda n, x: make("ReduceMax-1", shape_of(x), axes(0), keep_dims=True), lambda n, x: max(x.shape)),
    (
        lambda n, _: make("Add-1", make("Divide-1", make("Subtract-1", n, axes(1)), axes(4), m_pythondiv=True), axes(1)),
        lambda n, _: (n + 3) // 4,
    ),
)
sizes(
    "absolute_values",
    (lambda n, _: make("Abs-1", make("Subtract-1", n, axes(20))), lambda n, _: abs(n - 20)),
    (lambda n, _: make("Abs-1", make("Sign-1", make("Subtract-1", n, axes(12)))), lambda n, _: n != 12),
    formula="the plugin writes no element of Abs of i64",
)
sizes(
    "choices",
    (lambda n, x: make("Select-1", make("Equal-1", n, axes(7)), axes(2), n), lambda n, x: 2 if n == 7 else n),
    (
        lambda n, x: make("Select-1", make("Greater-1", n, make("Multiply-1", dims(x, 0), axes(3))), n, dims(x, 0)),
        lambda n, x: n if n > 3 * len(x) else len(x),
    ),
    (
        lambda n, x: make(
            "Select-1",
            make("LogicalAnd-1", make("Less-1", n, axes(20)), make("NotEqual-1", n, axes(7))),
            make("Add-1", n, axes(1)),
            dims(x, 0),
        ),
        lambda n, x: n + 1 if n < 20 and n != 7 else len(x),
    ),
    (lambda n, x: make("Add-1", n, whole(make("LessEqual-1", n, axes(12)))), lambda n, x: n + (n <= 12)),
    (
        lambda n, x: whole(make("Select-1", make("Less-1", by(n, 2), real(10)), times(n, 2), real(3))),
        lambda n, x: 2 * n if n / 2 < 10 else 3,
    ),
    (
        lambda n, x: make(
            "Select-1", make("LogicalNot-1", make("GreaterEqual-1", dims(x, 0), axes(3))), n, make("Maximum-1", n, axes(40))
        ),
        lambda n, x: n if len(x) < 3 else max(n, 40),
    ),
)
# No expression has these exactly for all sizes.
sizes(
    "functions_of_floats",
    (
        lambda n, _: whole(make("Round-5", times(n, 0.75), mode="half_to_even")),
        lambda n, _: np.round(n * 0.75),
    ),
    (lambda n, _: whole(make("Ceiling-1", times(n, 1 / 7))), lambda n, _: np.ceil(f32(n) * f32(1 / 7))),
    (
        lambda n, x: whole(make("Sqrt-1", floats(make("Multiply-1", n, dims(x, 0))))),
        lambda n, x: np.sqrt(f32(n * len(x))),
    ),
    (lambda n, _: whole(make("Power-1", floats(n), real(0.5))), lambda n, _: np.sqrt(f32(n))),
    (lambda n, _: whole(make("Ceiling-1", make("Log-1", floats(n)))), lambda n, _: np.ceil(np.log(f32(n)))),
    (
        lambda n, _: make("Maximum-1", whole(make("Floor-1", make("Subtract-1", real(3), times(n, 0.3)))), axes(1)),
        lambda n, _: max(int(np.floor(f32(3) - f32(n) * f32(0.3))), 1),
    ),
    (
        lambda n, x: make("Divide-1", make("Multiply-1", n, axes(10)), dims(x, 0), m_pythondiv=True),
        lambda n, x: 10 * n // len(x),
    ),
)

# --- what is done with such sizes -------------------------------------------------------------------


def padded_to(x, of, missing):
    return make("Pad-12", x, axes(0, 0), concat(axes(0), missing), real(0), pad_mode="constant")


def rows(x, width):
    """Rows of a width, of an axis that was padded for it."""
    return make("Reshape-1", x, axes(-1, width), special_zero=False)


def padded_formula(x, of):
    return np.pad(x, [(0, 0), (0, -x.shape[1] % of)])


case(
    "computed_sizes/pad_to_a_multiple_of_floats",
    [X],
    lambda x: rows(
        padded_to(x, 5, make("Subtract-1", make("Multiply-1", whole(make("Ceiling-1", by(dims(x, 1), 5))), axes(5)), dims(x, 1))), 5
    ),
    lambda x: padded_formula(x, 5).reshape(-1, 5),
    shapes=["?,?"],
    more=MORE,
)
# The length is only known when the model runs, and so is that the elements can be put in rows.
case(
    "computed_sizes/rows_of_a_computed_length",
    [X],
    lambda x: rows(
        padded_to(
            x, 6, make("Subtract-1", whole(make("Multiply-1", make("Ceiling-1", times(dims(x, 1), 1 / 6)), real(6))), dims(x, 1))
        ),
        6,
    ),
    lambda x: padded_formula(x, 6).reshape(-1, 6),
    shapes=["?,?"],
    more=MORE,
)
# Dimensions that are equal for the sizes that are fed, and not for all.
case(
    "computed_sizes/equal_for_some_sizes",
    [offsets(2, 12)],
    lambda x: make("Add-1", x, make("Reshape-1", make("Reshape-1", x, axes(-1, 4), special_zero=False), axes(2, -1), special_zero=False)),
    lambda x: x + x,
    shapes=["?,?"],
    more=[[offsets(2, 20)]],
)
case(
    "computed_sizes/halves_and_doubles",
    [offsets(1, 1, 6, 8)],
    lambda x: make(
        "Add-1",
        x,
        make(
            "Interpolate-11",
            make("MaxPool-1", x, strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], kernel=[2, 2], rounding_type="floor"),
            const(f32([2, 2])),
            axes(2, 3),
            mode="nearest",
            shape_calculation_mode="scales",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
    ),
    lambda x: x + x[:, :, 1::2, 1::2].repeat(2, 2).repeat(2, 3),
    shapes=["1,1,?,?"],
    more=[[offsets(1, 1, 2, 10)]],
)


def repeated_heads(cache, x, beams):
    """Keys of attention, whose heads are repeated by a Broadcast to a choice of sizes."""
    keys = concat(make("Gather-8", cache, beams, scalar(0)), x, axis=2)
    wide = make("Unsqueeze-1", keys, axes(2))
    length = make("Add-1", dims(cache, 2), dims(x, 2))
    target = concat(dims(x, 0), axes(2, 3), length, axes(4))
    chosen = make("Select-1", make("Equal-1", shape_of(wide), scalar(1)), target, shape_of(wide))
    chosen = make("Select-1", make("Equal-1", shape_of(wide), scalar(1)), target, chosen)
    return [make("Reshape-1", make("Broadcast-3", wide, chosen, mode="numpy"), axes(0, 6, -1, 4), special_zero=True)]


def repeated_heads_formula(cache, x, beams):
    return [np.concatenate([cache[beams], x], 2).repeat(3, 1)]


case(
    "computed_sizes/repeated_heads",
    [offsets(2, 2, 3, 4), offsets(2, 2, 1, 4), i32([1, 0])],
    repeated_heads,
    repeated_heads_formula,
    shapes=["?,2,?,4", "?,2,?,4", "?"],
    more=[
        [offsets(2, 2, 0, 4), offsets(2, 2, 5, 4), i32([0, 1])],
        [offsets(1, 2, 4, 4), offsets(1, 2, 2, 4), i32([0])],
    ],
)
case(
    "computed_sizes/scale_by_a_small_fraction",
    [spread(1, 2, 600)],
    op(
        "Interpolate-11",
        const(f32([1 / 150])),
        axes(2),
        mode="linear_onnx",
        shape_calculation_mode="scales",
        coordinate_transformation_mode="half_pixel",
        nearest_mode="round_prefer_floor",
    ),
    shapes=["1,2,?"],
    more=[[spread(1, 2, 450)]],
)
# Zeros around a picture, or less of it.
case(
    "computed_sizes/pad_or_crop",
    [offsets(2, 5)],
    lambda x: make(
        "Pad-12",
        x,
        axes(0, 0),
        concat(axes(0), make("Subtract-1", axes(8), dims(x, 1))),
        real(7),
        pad_mode="constant",
    ),
    lambda x: np.pad(x, [(0, 0), (0, max(8 - x.shape[1], 0))], constant_values=7)[:, :8],
    shapes=["?,?"],
    more=[[offsets(3, 8)], [offsets(1, 11)]],
)
