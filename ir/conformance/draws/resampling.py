"""Resizing, sampling at coordinates, regions of feature maps, and color formats."""

import numpy as np
from framework import *

from draws import FLOATS, NUMBERS, operation

COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"]
NEAREST_MODES = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"]


def resized(draw, mode, is_any=True):
    """Data, axes, the sizes of these with pads, and the pads. Mostly the axes are the last ones, and two
    for cubic modes and those of Pillow, as OpenVINO's CPU plugin wants them."""
    is_plane = mode not in ("nearest", "linear", "linear_onnx")
    spatial = 2 if is_plane else draw.choice(1, 2, 2, 2, 3)
    shape = [*draw.shape(draw.choice(2, 2, 2, 1, 0), least=0 if draw.flag(0.1) else 1)]
    shape += [draw.choice(1, 2, 3, 4, 5, 6, 8) for _ in range(spatial)]
    rank = len(shape)
    axes = list(range(rank - spatial, rank))
    if draw.flag(0.2) and not is_plane:
        axes = [axis % rank for axis in draw.axes(rank, least=1)]
    pads = {}
    if draw.flag(0.3):
        # Shorter lists have no pads for the last axes.
        # Interpolate-1 does not say in the file what those of other axes add.
        for name in ("pads_begin", "pads_end"):
            length = draw.choice(rank, rank, draw.integer(1, rank))
            pads[name] = [draw.choice(0, 0, 1, 2) if is_any or axis in axes else 0 for axis in range(length)]
    padded = [size + sum(it[axis] for it in pads.values() if axis < len(it)) for axis, size in enumerate(shape)]
    # The types that OpenVINO resizes. How integers are rounded is left open, and differs from kernel to kernel.
    type_ = draw.type([*FLOATS, "u8", "i8", "i32", "i64"] if mode == "nearest" else FLOATS)
    return draw.numbers(type_, *shape, low=-8, high=8), axes, [padded[axis] for axis in axes], pads


def wanted(draw, size):
    return draw.choice(size, 1, 2 * size, draw.integer(1, size), draw.integer(1, 12))


@operation("Interpolate-1")
def interpolate_1(draw, kind):
    mode = draw.choice("nearest", "linear", "cubic")
    x, axes, sizes, pads = resized(draw, mode, is_any=False)
    axes.sort()
    # OpenVINO forgets antialias in mode linear, but of five axes.
    antialias = draw.flag(0.3 if mode != "linear" or x.ndim == 5 else 0.02)
    flags = draw.optional({"align_corners": draw.flag(), "antialias": antialias})
    sizes = np.array([wanted(draw, size) for size in sizes], draw.choice(np.int32, np.int64))
    return [x, draw.fed(sizes)], op(kind, axes=axes, mode=mode, **flags, **pads)


@operation("Interpolate-4 Interpolate-11")
def interpolate(draw, kind):
    modes = ["nearest", "nearest", "linear", "linear_onnx", "cubic"]
    if kind == "Interpolate-11":
        modes += ["bilinear_pillow", "bicubic_pillow"]
    mode = draw.choice(*modes)
    x, axes, sizes, pads = resized(draw, mode)
    by_scales = draw.flag()
    every = [1.0, 2.0, 0.5, 3.0, 1.5, 0.25, draw.real(0.5, 3), 1.3, 0.7, 1.1]
    scales = np.array([draw.choice(*every) for _ in sizes], np.float32)
    if by_scales:
        # Of each axis an element is left.
        scales = np.maximum(scales, np.divide(1, sizes, dtype=np.float32))
    sizes = np.array([wanted(draw, size) for size in sizes], draw.choice(np.int32, np.int64))
    inputs = [scales if by_scales else sizes] if kind == "Interpolate-11" else [sizes, scales]
    inputs = [draw.fed(it) for it in inputs]
    if axes != list(range(x.ndim)) or draw.flag():
        inputs.append(draw.fed(np.array(axes, draw.choice(np.int32, np.int64)), 0.95))
    attributes = {
        "coordinate_transformation_mode": draw.choice(*COORDINATES),
        "nearest_mode": draw.choice(*NEAREST_MODES),
        "antialias": draw.flag(0.3),
    }
    coefficient = {"cube_coeff": draw.choice(-0.75, -0.5, -0.625, 0.0, -1.0)}
    # In this mode OpenVINO knows Pillow's coefficient only, which is not the default.
    is_fixed = mode == "bicubic_pillow"
    coefficient = {"cube_coeff": -0.5} if is_fixed else draw.optional(coefficient, 0.8)
    calculation = {"mode": mode, "shape_calculation_mode": "scales" if by_scales else "sizes"}
    attributes = {**calculation, **pads, **coefficient, **draw.optional(attributes, 0.8)}
    return [x, *inputs], op(kind, **attributes)


@operation("GridSample-9")
def grid_sample(draw, kind):
    sizes = [draw.integer(0 if draw.flag(0.05) else 1, 6) for _ in range(2)]
    x = draw.numbers(draw.type(["f32", *NUMBERS]), *draw.shape(2), *sizes)
    most = draw.choice(1, 2, 4)
    grid = draw.numbers(draw.type(FLOATS), len(x), draw.size(), draw.size(1), 2, low=-most, high=most)
    attributes = {
        "align_corners": draw.flag(),
        "padding_mode": draw.choice("zeros", "border", "reflection"),
    }
    attributes = draw.optional(attributes, 0.8)
    if x.dtype.kind in "iu":
        # Nothing says how means of integers are rounded.
        attributes["mode"] = "nearest"
    else:
        attributes |= draw.optional({"mode": draw.choice("bilinear", "bicubic", "nearest")}, 0.8)
    return [x, draw.fed(grid, 0.2)], op(kind, **attributes)


@operation("NV12toRGB-8 NV12toBGR-8 I420toRGB-8 I420toBGR-8")
def color(draw, kind):
    batch, rows, columns = draw.size(), draw.integer(1, 4), draw.integer(1, 4)
    shapes = [(2 * rows, 2 * columns, 1)]
    if draw.flag():
        shapes = [(3 * rows, 2 * columns, 1)]
    elif kind.startswith("NV12"):
        shapes.append((rows, columns, 2))
    else:
        shapes += 2 * [(rows, columns, 1)]
    type_ = draw.choice("u8", "u8", *FLOATS)
    return [draw.numbers(type_, batch, *it, low=0, high=255) for it in shapes], op(kind)


# RGBtoNV12 and BGRtoNV12 cannot be drawn: OpenVINO's CPU plugin does not have them.


def regions(draw, type_, count, size):
    """Regions `[x, y, x, y]` within a size, mostly. Some are beyond it, and some have no elements."""
    starts = draw.numbers(type_, count, 2, low=-1 if draw.flag(0.3) else 0, high=size)
    lengths = draw.numbers(type_, count, 2, low=-1 if draw.flag(0.3) else 0, high=size)
    return np.concatenate([starts, starts + lengths], 1)


def feature_map(draw, type_, channels=None):
    channels = draw.size(1) if channels is None else channels
    return draw.numbers(type_, draw.size(1), channels, draw.integer(1, 8), draw.integer(1, 8))


def with_images(draw, x, boxes):
    """Regions with the number of an image each in front."""
    images = draw.numpy.integers(0, len(x), (len(boxes), 1))
    return np.concatenate([images.astype(boxes.dtype), boxes], 1)


@operation("ROIAlign-3 ROIAlign-9")
def roi_align(draw, kind):
    type_ = draw.type(FLOATS)
    x, count = feature_map(draw, type_), draw.size()
    attributes = {
        "pooled_h": draw.integer(1, 4),
        "pooled_w": draw.integer(1, 4),
        "sampling_ratio": draw.integer(0, 3),
        "spatial_scale": draw.choice(1.0, 0.5, 0.25, 2.0, 0.375),
        "mode": draw.choice("avg", "max"),
    }
    if kind == "ROIAlign-9":
        attributes |= draw.optional({"aligned_mode": draw.choice("asymmetric", "half_pixel_for_nn", "half_pixel")})
    boxes = regions(draw, type_, count, draw.choice(4, 8))
    images = draw.indices(0, len(x) - 1, count)
    return [x, draw.fed(boxes, 0.3), draw.fed(images)], op(kind, **attributes)


@operation("ROIPooling-2")
def roi_pooling(draw, kind):
    type_ = draw.type(FLOATS)
    x, count = feature_map(draw, type_), draw.size()
    method = draw.choice("max", "bilinear")
    boxes = regions(draw, type_, count, draw.choice(4, 8) if method == "max" else 1)
    if method == "bilinear":
        boxes /= 2
    boxes = with_images(draw, x, boxes)
    if count and draw.flag(0.1):
        # The regions end here.
        boxes[draw.integer(0, count - 1), 0] = -1
    size = [draw.integer(1, 4), draw.integer(1, 4)]
    scale = draw.choice(1.0, 0.5, 0.25, 2.0)
    method = {"method": method} if method != "max" or draw.flag() else {}
    return [x, draw.fed(boxes, 0.3)], op(kind, output_roi=size, spatial_scale=scale, **method)


@operation("PSROIPooling-1")
def psroi_pooling(draw, kind):
    draw.is_closed = True
    type_ = draw.type(FLOATS)
    outputs, group = draw.integer(1, 3), draw.integer(1, 3)
    bins = {"spatial_bins_x": draw.integer(1, 3), "spatial_bins_y": draw.integer(1, 3)}
    bilinear = draw.flag()
    parts = bins["spatial_bins_x"] * bins["spatial_bins_y"] if bilinear else group * group
    x, count = feature_map(draw, type_, outputs * parts), draw.size()
    boxes = regions(draw, type_, count, 1 if bilinear else draw.choice(4, 8))
    attributes = {"output_dim": outputs, "group_size": group, "spatial_scale": draw.choice(1.0, 0.5, 0.25, 0.75)}
    attributes["mode"] = "bilinear" if bilinear else "average"
    attributes |= bins
    # OpenVINO's CPU plugin and its reference differ outside of the data, of which the specification says nothing.
    if bilinear:
        ends = 1 / attributes["spatial_scale"]
    else:
        ends = np.floor(np.array([x.shape[3], x.shape[2]] * 2) / attributes["spatial_scale"] - 1)
    boxes = np.minimum(boxes, ends).astype(boxes.dtype)
    if not bilinear:
        # Nor does it say what the mean of nothing is.
        boxes[:, 2:] = np.maximum(boxes[:, :2], boxes[:, 2:])
    return [x, draw.fed(with_images(draw, x, boxes), 0.3)], op(kind, **attributes)


@operation("ROIAlignRotated-15")
def roi_align_rotated(draw, kind):
    type_ = draw.type(FLOATS)
    x, count = feature_map(draw, type_), draw.size()
    attributes = {
        "pooled_h": draw.integer(1, 4),
        "pooled_w": draw.integer(1, 4),
        "sampling_ratio": draw.integer(0, 3),
        "spatial_scale": draw.choice(1.0, 0.5, 0.25, 2.0, 0.375),
        "clockwise_mode": draw.flag(),
    }
    boxes = np.concatenate(
        [
            draw.numbers(type_, count, 2, low=-1 if draw.flag(0.3) else 0, high=8),
            draw.numbers(type_, count, 2, low=-1 if draw.flag(0.1) else 1 / 16, high=8),
            # Angles of which no sample is on the border of the data.
            draw.numbers(type_, count, 1, low=-3, high=3) + DTYPES[type_].type(1 / 64),
        ],
        1,
    )
    images = draw.indices(0, len(x) - 1, count)
    return [x, draw.fed(boxes, 0.3), draw.fed(images)], op(kind, **attributes)


@operation("DeformablePSROIPooling-1")
def deformable_psroi_pooling(draw, kind):
    # OpenVINO's CPU plugin must know the sizes.
    draw.is_closed = True
    type_ = draw.type(FLOATS)
    classes, group, part = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 3)
    outputs = classes * draw.integer(1, 2)
    x, count = feature_map(draw, type_, outputs * group * group), draw.size(1)
    boxes = with_images(draw, x, regions(draw, type_, count, draw.choice(4, 8)))
    attributes = {"output_dim": outputs, "spatial_scale": draw.choice(1.0, 0.5, 0.25, 0.75), "group_size": group}
    attributes |= {"mode": "bilinear_deformable", "part_size": part, "trans_std": draw.choice(1.0, 0.125, 0.3)}
    attributes |= {"spatial_bins_x": draw.integer(1, 3), "spatial_bins_y": draw.integer(1, 3)}
    offsets = draw.numbers(type_, count, 2 * classes, part, part, low=-1, high=1)
    return [x, boxes, *draw.subset([offsets])], op(kind, **attributes)
