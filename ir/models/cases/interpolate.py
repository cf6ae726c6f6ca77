"""Interpolate."""

from math import ceil, floor

from framework import *

# --- formulas -------------------------------------------------------------------------------------


def coordinate(mode, x, scale, n, o):
    scale = np.float32(scale)
    if mode == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if o > 1 else 0.0
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    return 0.0 if o == 1 else x * (n - 1) / (o - 1)


def nearest(mode, x, downsample):
    return {
        "round_prefer_floor": lambda: ceil(x - 0.5),
        "round_prefer_ceil": lambda: floor(x + 0.5),
        "floor": lambda: floor(x),
        "ceil": lambda: ceil(x),
        "simple": lambda: ceil(x) if downsample else int(x),
    }[mode]()


def cubic_weights(t, a):
    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(1 + t), near(t), near(1 - t), far(2 - t)]


def taps(mode, x, n, scale, nearest_mode, a):
    """Of a coordinate in the input the elements it is made of, with their weights."""
    if mode == "nearest":
        return [(min(max(nearest(nearest_mode, x, scale < 1), 0), n - 1), 1.0)]
    if mode == "cubic":
        base = floor(x)
        return [(min(max(base - 1 + i, 0), n - 1), w) for i, w in enumerate(cubic_weights(x - base, a))]
    x = min(max(x, 0), n - 1)
    base = min(floor(x), n - 1)
    return [(base, 1 - (x - base)), (min(base + 1, n - 1), x - base)]


def interpolate(x, sizes, scales, which, mode, coordinates, nearest_mode, a=-0.75, begin=(), end=()):
    """Without antialias all modes are separable."""
    if any(begin) or any(end):
        x = np.pad(x, [*zip(begin, end)])
    y = x.astype(np.float64)
    for axis, size, scale in zip(which, sizes, scales):
        n = x.shape[axis]
        # OpenVINO copies an axis that keeps its size.
        if size == n:
            continue
        rows = []
        for i in range(size):
            where = taps(mode, coordinate(coordinates, np.float32(i), scale, n, size), n, scale, nearest_mode, a)
            rows.append(sum(y.take(at, axis) * w for at, w in where))
        y = np.stack(rows, axis)
    return y.astype(x.dtype)


# --- cases ----------------------------------------------------------------------------------------


DEFAULTS = dict(
    antialias=False,
    pads_begin=[0],
    pads_end=[0],
    nearest_mode="round_prefer_floor",
    coordinate_transformation_mode="half_pixel",
    cube_coeff=-0.75,
)


def resize(mode, which, kind, sizes, scales, attributes):
    """An Interpolate with either sizes or scales, and its formula."""
    at = {**DEFAULTS, **attributes}

    def build(x):
        # Of these, one is not used, and not there in later revisions.
        inputs = [axes(*(sizes or [9] * len(scales))), const(f32(scales or [1.0] * len(sizes)))]
        inputs = inputs if kind == 4 else inputs[:1] if sizes else inputs[1:]
        calculation = "sizes" if sizes else "scales"
        return make(
            f"Interpolate-{kind}", x, *inputs, axes(*which), mode=mode, shape_calculation_mode=calculation, **at
        )

    def reference(x):
        pads = [(*it, *[0] * (x.ndim - len(it))) for it in (at["pads_begin"], at["pads_end"])]
        padded = [x.shape[axis] + pads[0][axis] + pads[1][axis] for axis in which]
        return interpolate(
            x,
            sizes or [floor(n * (np.float32(s) + 1e-6)) for n, s in zip(padded, scales)],
            scales or [s / n for s, n in zip(sizes, padded)],
            which,
            mode,
            at["coordinate_transformation_mode"],
            at["nearest_mode"],
            at["cube_coeff"],
            *pads,
        )

    return build, reference


def by_sizes(mode, sizes, which=(2, 3), kind=4, **attributes):
    return resize(mode, which, kind, sizes, None, attributes)


def by_scales(mode, scales, which=(2, 3), kind=4, **attributes):
    return resize(mode, which, kind, None, scales, attributes)


COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]
X = spread(1, 2, 4, 5)

for mode in NEAREST:
    several(
        f"interpolate/nearest_{mode}",
        [X],
        [
            by_sizes("nearest", sizes, coordinate_transformation_mode=it, nearest_mode=mode)
            for it in COORDINATES
            for sizes in ((8, 10), (3, 7), (2, 2))
        ],
    )
for mode in ("linear_onnx", "cubic"):
    several(
        f"interpolate/{mode}",
        [X],
        [
            by_sizes(mode, sizes, coordinate_transformation_mode=it)
            for it in COORDINATES
            for sizes in ((8, 10), (3, 7), (1, 2))
        ],
        tolerance=1e-4,
    )
several(
    "interpolate/linear",
    [X],
    [by_sizes("linear", sizes, coordinate_transformation_mode=it) for it in COORDINATES for sizes in ((8, 10), (6, 7))],
    tolerance=1e-4,
)
several(
    "interpolate/linear_down",
    [X],
    [by_sizes("linear", (2, 3), coordinate_transformation_mode=it) for it in COORDINATES],
    tolerance=1e-4,
)


def antialiased(x, sizes):
    """Mode linear with antialias: the triangle is as wide as a step of the output."""
    y = x.astype(np.float64)
    for axis, size in zip((2, 3), sizes):
        n = x.shape[axis]
        a = min(size / n, 1)
        at = (np.arange(size)[:, None] + 0.5) * n / size - 0.5 - np.arange(n)
        weights = np.maximum(1 - np.abs(a * at), 0)
        weights /= weights.sum(1, keepdims=True)
        y = np.moveaxis(np.tensordot(weights, y, (1, axis)), 0, axis)
    return f32(y)


several(
    "interpolate/linear_antialias",
    [X],
    [(by_sizes("linear", it, antialias=True)[0], lambda x, it=it: antialiased(x, it)) for it in ((2, 3), (1, 4))],
    formula="the CPU plugin takes no notice of antialias",
)
several(
    "interpolate/antialias_of_other_modes",
    [X],
    [by_sizes(mode, (2, 3), antialias=True) for mode in ("nearest", "linear_onnx", "cubic")],
    tolerance=1e-4,
)
several(
    "interpolate/scales",
    [X],
    [
        by_scales(mode, scales, coordinate_transformation_mode=it)
        for mode in ("nearest", "linear_onnx", "cubic")
        for it, scales in [("half_pixel", (2.0, 1.5)), ("asymmetric", (0.5, 2.3)), ("align_corners", (1.3, 0.7))]
    ],
    tolerance=1e-4,
)
several(
    "interpolate/scales_that_keep_a_size",
    [spread(1, 1, 3, 3)],
    [
        by_scales(mode, (2.0, 1.25), kind=kind, coordinate_transformation_mode=it)
        for kind, it in ((4, "half_pixel"), (11, "tf_half_pixel_for_nn"))
        for mode in ("nearest", "linear", "linear_onnx", "cubic")
    ],
    tolerance=1e-4,
)
several(
    "interpolate/revision_11",
    [X],
    [by_sizes(mode, (6, 7), kind=11) for mode in ("nearest", "linear_onnx", "cubic")]
    + [by_scales(mode, (1.5, 2.5), kind=11) for mode in ("nearest", "linear_onnx", "cubic")],
    tolerance=1e-4,
)
several(
    "interpolate/pillow",
    [X],
    [
        (by_sizes(mode, sizes, kind=11, cube_coeff=-0.5)[0], lambda x: None)
        for mode in ("bilinear_pillow", "bicubic_pillow")
        for sizes in ((8, 10), (2, 3))
    ],
)


def bicubic_pillow(x, sizes, a):
    """As Pillow, but with another coefficient."""

    def kernel(d):
        _, near, _, far = cubic_weights(d if d < 1 else 2 - d, a)
        return near if d < 1 else far if d < 2 else 0

    y = x.astype(np.float64)
    for axis, size in zip((2, 3), sizes):
        n = x.shape[axis]
        scale = n / size
        wide = max(scale, 1)
        weights = np.zeros((size, n))
        for i in range(size):
            center = (i + 0.5) * scale
            for at in range(max(int(center - 2 * wide + 0.5), 0), min(int(center + 2 * wide + 0.5), n)):
                weights[i, at] = kernel(abs(at - center + 0.5) / wide)
        weights /= weights.sum(1, keepdims=True)
        y = np.moveaxis(np.tensordot(weights, y, (1, axis)), 0, axis)
    return f32(y)


several(
    "interpolate/cube_coeff_of_pillow",
    [X],
    [
        (
            by_sizes("bicubic_pillow", sizes, kind=11, cube_coeff=-0.75)[0],
            lambda x, sizes=sizes: bicubic_pillow(x, sizes, -0.75),
        )
        for sizes in ((8, 10), (2, 3))
    ],
    formula="the CPU plugin takes no notice of cube_coeff",
    tolerance=1e-4,
)
several(
    "interpolate/cubic_of_integers",
    [spread_ints(60, 180, 1, 1, 3, 3, dtype=np.uint8)],
    [
        (
            by_sizes("cubic", sizes)[0],
            lambda x, sizes=sizes: np.rint(by_sizes("cubic", sizes)[1](f32(x))).astype(np.uint8),
        )
        for sizes in ((2, 2), (5, 4))
    ],
)
several(
    "interpolate/cube_coeff",
    [X],
    [by_sizes("cubic", (7, 8), cube_coeff=-0.5), by_scales("cubic", (2.0, 2.0), cube_coeff=-0.6)],
    tolerance=1e-4,
)
several(
    "interpolate/axes",
    [X],
    [
        by_sizes("nearest", (3,), (2,)),
        by_sizes("nearest", (8,), (3,)),
        by_sizes("linear_onnx", (7, 8), (2, 3)),
        by_sizes("nearest", (1, 2, 8, 10), (0, 1, 2, 3)),
        by_sizes("linear_onnx", (1, 2, 8, 10), (0, 1, 2, 3)),
    ],
    tolerance=1e-4,
)
several(
    "interpolate/without_axes",
    [X],
    [
        (
            op(
                "Interpolate-4",
                axes(1, 2, 8, 10),
                const(f32([1, 1, 2, 2])),
                mode="nearest",
                shape_calculation_mode="sizes",
                pads_begin=[0],
                pads_end=[0],
            ),
            by_sizes("nearest", (1, 2, 8, 10), (0, 1, 2, 3))[1],
        ),
        (
            op(
                "Interpolate-11",
                const(f32([1, 1, 2, 2])),
                mode="nearest",
                shape_calculation_mode="scales",
                pads_begin=[0],
                pads_end=[0],
            ),
            by_sizes("nearest", (1, 2, 8, 10), (0, 1, 2, 3))[1],
        ),
    ],
)
several("interpolate/axes_in_another_order", [X], [by_sizes("nearest", (10, 8), (3, 2))])
several(
    "interpolate/rank_3",
    [spread(1, 2, 5)],
    [by_sizes("nearest", (8,), (2,)), by_sizes("linear_onnx", (8,), (2,)), by_sizes("linear", (8,), (2,))],
    tolerance=1e-4,
)
several(
    "interpolate/rank_5",
    [spread(1, 1, 2, 3, 2)],
    [by_sizes("nearest", (4, 5, 3), (2, 3, 4)), by_sizes("linear_onnx", (4, 5, 3), (2, 3, 4))],
    tolerance=1e-4,
)
several(
    "interpolate/channels_last",
    [spread(1, 4, 5, 2)],
    [by_sizes("nearest", (8, 10), (1, 2)), by_sizes("linear_onnx", (6, 7), (1, 2))],
    tolerance=1e-4,
)
several(
    "interpolate/pads",
    [X],
    [
        by_sizes("nearest", (8, 10), pads_begin=[0, 0, 1, 0], pads_end=[0, 0, 0, 2]),
        by_sizes("linear_onnx", (8, 10), pads_begin=[0, 0, 1, 0], pads_end=[0, 0, 0, 2]),
    ],
    tolerance=1e-4,
)
several("interpolate/same_size", [X], [by_sizes(mode, (4, 5)) for mode in ("nearest", "linear_onnx", "cubic")])
several("interpolate/u8", [spread_ints(0, 255, 1, 1, 3, 3, dtype=np.uint8)], [by_sizes("nearest", (6, 6))])
several("interpolate/f16", [f16(X)], [by_sizes("nearest", (8, 10)), by_sizes("linear_onnx", (7, 9))])
several(
    "interpolate/upper_case",
    [X],
    [by_sizes("linear_onnx", (8, 10), coordinate_transformation_mode="align_corners")],
    edit=[
        attribute("mode", "linear_onnx", "LINEAR_ONNX"),
        attribute("coordinate_transformation_mode", "align_corners", "ALIGN_CORNERS"),
        attribute("shape_calculation_mode", "sizes", "SIZES"),
        attribute("antialias", "false", "0"),
    ],
    tolerance=1e-4,
)
several(
    "interpolate/without_optional_attributes",
    [X],
    [by_sizes("cubic", (8, 10))],
    edit=[
        attribute("coordinate_transformation_mode", "half_pixel", None),
        attribute("nearest_mode", "round_prefer_floor", None),
        attribute("antialias", "false", None),
        attribute("pads_begin", "0, 0, 0, 0", None),
        attribute("pads_end", "0, 0, 0, 0", None),
        attribute("cube_coeff", "-0.75", None),
    ],
    tolerance=1e-4,
)
several(
    "interpolate/open_dimensions_scales",
    [X],
    [
        by_scales("nearest", (2.0, 2.0)),
        by_scales("nearest", (2.0, 2.0), coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        by_scales("linear_onnx", (2.0, 2.0), kind=11),
        by_scales("cubic", (2.0, 2.0), kind=11),
    ],
    shapes=["?,2,?,?"],
    more=[[spread(2, 2, 3, 2)]],
    tolerance=1e-4,
)
several(
    "interpolate/open_dimensions_sizes",
    [X],
    [by_sizes("nearest", (7, 8)), by_sizes("linear_onnx", (7, 8))],
    shapes=["?,2,?,?"],
    more=[[spread(2, 2, 3, 2)]],
    tolerance=1e-4,
)
case(
    "interpolate/to_the_size_of_another",
    [X, spread(1, 2, 8, 10)],
    lambda x, y: make(
        "Interpolate-4",
        x,
        make("Slice-8", shape_of(y), axes(2), axes(4), axes(1)),
        const(f32([1, 1])),
        axes(2, 3),
        mode="nearest",
        shape_calculation_mode="sizes",
        pads_begin=[0],
        pads_end=[0],
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    lambda x, y: interpolate(
        x, y.shape[2:], [o / n for n, o in zip(x.shape[2:], y.shape[2:])], (2, 3), "nearest", "asymmetric", "floor"
    ),
    shapes=["?,2,?,?", "?,2,?,?"],
    more=[[spread(1, 2, 3, 3), spread(1, 2, 6, 6)]],
)


def revision_1(mode, sizes, which=(2, 3), align=False, antialias=False, pads=(0,), rank=4):
    is_half = mode == "linear" and (rank, which) != (4, (2, 3)) and not any(pads)
    coordinates = "align_corners" if align else "half_pixel" if is_half else "asymmetric"
    return (
        op(
            "Interpolate-1",
            axes(*sizes),
            axes=list(which),
            mode=mode,
            align_corners=align,
            antialias=antialias,
            pads_begin=list(pads),
            pads_end=list(pads),
        ),
        by_sizes(
            {"linear": "linear_onnx"}.get(mode, mode),
            sizes,
            which,
            coordinate_transformation_mode=coordinates,
            nearest_mode="simple",
            pads_begin=list(pads),
            pads_end=list(pads),
        )[1],
    )


several("interpolate/revision_1_nearest", [X], [revision_1("nearest", (8, 10)), revision_1("nearest", (3, 7))])
several(
    "interpolate/revision_1_linear",
    [X],
    [revision_1("linear", (8, 10)), revision_1("linear", (7, 7), align=True), revision_1("linear", (2, 3))],
    tolerance=1e-4,
)
several(
    "interpolate/revision_1_linear_axes",
    [X],
    [revision_1("linear", (7,), (2,)), revision_1("linear", (3, 7), (1, 3), align=True)],
    tolerance=1e-4,
)
several(
    "interpolate/revision_1_linear_rank_3",
    [spread(1, 2, 5)],
    [
        revision_1("linear", (8,), (2,), rank=3),
        revision_1("nearest", (8,), (2,), rank=3),
        revision_1("linear", (8,), (2,), rank=3, pads=(0, 0, 1)),
    ],
    tolerance=1e-4,
)
several(
    "interpolate/revision_1_cubic",
    [X],
    [revision_1("cubic", (8, 10)), revision_1("cubic", (7, 7), align=True)],
    tolerance=1e-4,
)

# --- cases that share a model ----------------------------------------------------------------------

join("interpolate/ranks", "rank_3", "rank_5", "channels_last")
join("interpolate/axes", "axes", "axes_in_another_order")
join("interpolate/same_size_and_u8", "same_size", "u8", "cubic_of_integers")
join("interpolate/antialias_and_pillow", "linear_antialias", "cube_coeff_of_pillow")
join("interpolate/scales", "scales", "scales_that_keep_a_size")
join("interpolate/revision_1_linear", "revision_1_linear", "revision_1_linear_axes", "revision_1_linear_rank_3")
join("interpolate/linear", "linear", "linear_down")
