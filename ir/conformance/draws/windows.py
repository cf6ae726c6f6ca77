"""Convolutions and pools."""

import numpy as np
from framework import *

from draws import FLOATS, INTEGERS, NUMBERS, operation

AUTO_PADS = ["explicit", "same_upper", "same_lower", "valid"]


class Windows:
    """The windows of a model: for each spatial axis the size of the data, the kernel and the attributes. Windows
    fit in the data."""

    def __init__(self, draw, spatial=None, dilated=True, least_pad=0):
        self.spatial = draw.choice(1, 2, 2, 2, 3) if spatial is None else spatial
        self.kernel = self.each(lambda: draw.choice(1, 1, 2, 2, 3, 4))
        self.strides = self.each(lambda: draw.choice(1, 1, 2, 3, 5))
        self.dilations = self.each(lambda: draw.choice(1, 1, 2, 3) if dilated else 1)
        self.auto_pad = draw.choice("explicit", *AUTO_PADS)
        pads = (0, 0) if draw.flag(0.3) else (least_pad, 3)
        self.begin, self.end = (self.each(lambda: draw.integer(*pads)) for _ in range(2))
        self.extents = [(size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations)]
        self.sizes = [draw.integer(0, 5) + self.least(axis) for axis in range(self.spatial)]

    def each(self, number):
        return [number() for _ in range(self.spatial)]

    def least(self, axis):
        """The least size of the data."""
        if self.auto_pad.startswith("same"):
            return 1
        pads = self.begin[axis] + self.end[axis] if self.auto_pad == "explicit" else 0
        return max(self.extents[axis] - pads, 1)

    def attributes(self, draw):
        pads = {"pads_begin": self.begin, "pads_end": self.end, "strides": self.strides}
        # Explicit pads are the default.
        auto_pad = {} if self.auto_pad == "explicit" and draw.flag() else {"auto_pad": self.auto_pad}
        return {**pads, **auto_pad}

    def outputs(self):
        """How many windows there are."""
        if self.auto_pad.startswith("same"):
            return [-(-size // step) for size, step in zip(self.sizes, self.strides)]
        pads = [0] * self.spatial if self.auto_pad == "valid" else np.add(self.begin, self.end)
        every = zip(self.sizes, pads, self.extents, self.strides)
        return [max((size + pad - extent) // step + 1, 0) for size, pad, extent, step in every]

    def has_empty(self, rounding_type):
        """Whether a window of a pool has no elements of the data."""
        return any(self.has_empty_along(axis, rounding_type) for axis in range(self.spatial))

    def has_empty_along(self, axis, rounding_type):
        size, extent, stride = self.sizes[axis], self.extents[axis], self.strides[axis]
        begin, end = (self.begin[axis], self.end[axis]) if self.auto_pad == "explicit" else (0, 0)
        if self.auto_pad.startswith("same"):
            pads = max((-(-size // stride) - 1) * stride + extent - size, 0)
            begin = pads // 2 if self.auto_pad == "same_upper" else pads - pads // 2
            end = pads - begin
        beyond = size + begin + end - extent
        count = (beyond // stride if rounding_type == "floor" else -(-beyond // stride)) + 1
        if rounding_type == "ceil_torch" and end >= extent:
            # The reader refuses it.
            return True
        if rounding_type == "ceil_torch" and (count - 1) * stride >= size + begin:
            count -= 1
        offsets = range(0, extent, self.dilations[axis])
        return not all(any(0 <= i * stride - begin + it < size for it in offsets) for i in range(count))


def elements(draw):
    """A type, and the greatest number of it, so that sums of products of integers do not overflow."""
    type_ = draw.type(FLOATS) if draw.flag(0.8) else draw.choice(*INTEGERS)
    return type_, 4 if type_ in FLOATS else 1


def weights(draw, array):
    return draw.fed(array, constant=0.85)


@operation("Convolution-1 GroupConvolution-1")
def convolution(draw, kind):
    # Negative pads crop.
    windows = Windows(draw, least_pad=-1 if draw.flag(0.05) else 0)
    type_, most = elements(draw)
    # OpenVINO takes these as quantised, without a sign.
    while type_ in ("i8", "u8"):
        type_, most = elements(draw)
    groups = draw.choice(1, 2, 3) if kind.startswith("Group") else 1
    channels, outputs = draw.size(1), draw.size(1)
    x = draw.numbers(type_, draw.size(), groups * channels, *windows.sizes, low=-most, high=most)
    leading = (groups, outputs, channels) if kind.startswith("Group") else (outputs, channels)
    w = draw.numbers(type_, *leading, *windows.kernel, low=-most, high=most)
    return [x, weights(draw, w)], op(kind, dilations=windows.dilations, **windows.attributes(draw))


@operation("BinaryConvolution-1")
def binary_convolution(draw, kind):
    # OpenVINO's CPU plugin must know the sizes, and takes 8 channels together.
    draw.is_closed = True
    windows = Windows(draw, spatial=2)
    x = draw.numbers(draw.type(["f32", "f16"]), draw.size(1), 8 * draw.integer(1, 2), *windows.sizes, low=-1, high=1)
    bits = draw.numpy.integers(0, 2, (draw.size(1), x.shape[1], *windows.kernel))
    attributes = {"mode": "xnor-popcount", "pad_value": draw.choice(-1.0, 0.0, 1.0)}
    return [x, const(bits, "u1")], op(kind, dilations=windows.dilations, **attributes, **windows.attributes(draw))


@operation("ConvolutionBackpropData-1 GroupConvolutionBackpropData-1")
def convolution_backprop_data(draw, kind):
    windows = Windows(draw)
    type_, most = elements(draw)
    groups = draw.choice(1, 2, 2, 3, 3, 4) if kind.startswith("Group") else 1
    channels, outputs = draw.size(1), draw.size(1)
    sizes = windows.each(lambda: draw.choice(1, 2, 3, 4, 5, 6))
    more = [draw.integer(0, step - 1) if draw.flag(0.3) else 0 for step in windows.strides]
    full = [(size - 1) * step + extent for size, step, extent in zip(sizes, windows.strides, windows.extents)]
    # Pads leave an element of the output.
    windows.begin = [min(pad, size - 1) for pad, size in zip(windows.begin, full)]
    windows.end = [min(pad, size - 1 - begin) for pad, size, begin in zip(windows.end, full, windows.begin)]
    x = draw.numbers(type_, draw.size(), groups * channels, *sizes, low=-most, high=most)
    leading = (groups, channels, outputs) if kind.startswith("Group") else (channels, outputs)
    w = draw.numbers(type_, *leading, *windows.kernel, low=-most, high=most)
    inputs = [x, weights(draw, w)]
    if draw.flag(0.4):
        wanted = [max(size + add + draw.integer(-3, 1), 1) for size, add in zip(full, more)]
        inputs.append(draw.fed(np.array(wanted, draw.choice(np.int32, np.int64)), constant=0.8))
    padding = {"output_padding": more} if any(more) or draw.flag() else {}
    return inputs, op(kind, dilations=windows.dilations, **padding, **windows.attributes(draw))


@operation("DeformableConvolution-1 DeformableConvolution-8")
def deformable_convolution(draw, kind):
    windows = Windows(draw, spatial=2)
    type_ = draw.type(FLOATS)
    group, deformable_group = draw.choice(1, 1, 2), draw.choice(1, 1, 2, 3)
    channels, outputs = deformable_group * draw.integer(1, 2), draw.size(1)
    x = draw.numbers(type_, draw.size(), group * channels, *windows.sizes)
    offset_pairs = deformable_group * windows.kernel[0] * windows.kernel[1]
    offsets = draw.numbers(type_, len(x), 2 * offset_pairs, *windows.outputs(), low=-2, high=2)
    w = draw.numbers(type_, group * outputs, channels, *windows.kernel)
    # OpenVINO's Python has no defaults of these.
    attributes = {"group": group, "deformable_group": deformable_group}
    if kind == "DeformableConvolution-8":
        attributes |= draw.optional({"bilinear_interpolation_pad": draw.flag()})
    inputs = [x, offsets, weights(draw, w)]
    if kind == "DeformableConvolution-8" and draw.flag():
        inputs.append(draw.numbers(type_, len(x), offset_pairs, *windows.outputs(), low=0, high=1))
    return inputs, op(kind, dilations=windows.dilations, **attributes, **windows.attributes(draw))


def pool(draw, dilated, rounding_types):
    """The data of a pool, and the attributes that all pools have."""
    rounding_type = draw.optional({"rounding_type": draw.choice(*rounding_types)})
    # OpenVINO's outputs differ from revision to revision, and from run to run, where a window has no elements.
    while (windows := Windows(draw, dilated=dilated)).has_empty(rounding_type.get("rounding_type", "floor")):
        pass
    # Few different numbers are often equal.
    most = draw.choice(1, 4, 100)
    type_ = draw.type(NUMBERS)
    # In windows of the least number of a type OpenVINO may not find the index of any.
    low = 1 if type_[0] == "u" else -most
    x = draw.numbers(type_, draw.size(), draw.size(), *windows.sizes, low=low, high=most)
    return x, {"kernel": windows.kernel, **windows.attributes(draw), **rounding_type}, windows


def rounding_types(kind):
    return ["floor", "ceil", "ceil_torch"] if int(kind.split("-")[1]) >= 14 else ["floor", "ceil"]


@operation("MaxPool-1 MaxPool-8 MaxPool-14")
def max_pool(draw, kind):
    first = kind == "MaxPool-1"
    x, attributes, windows = pool(draw, not first, rounding_types(kind))
    if not first:
        attributes["dilations"] = windows.dilations
        axis = draw.axis(x.ndim)
        attributes |= draw.optional({"axis": axis, "index_element_type": draw.choice("i32", "i64")})
    return [x], op(kind, **attributes)


@operation("AvgPool-1 AvgPool-14 AvgPool-16")
def avg_pool(draw, kind):
    last = kind == "AvgPool-16"
    x, attributes, windows = pool(draw, last, rounding_types(kind))
    if last:
        attributes["dilations"] = windows.dilations
    return [x], op(kind, **{"exclude-pad": draw.flag()}, **attributes)


@operation("AdaptiveAvgPool-8 AdaptiveMaxPool-8")
def adaptive_pool(draw, kind):
    spatial = draw.choice(1, 2, 3)
    most = draw.choice(1, 4)
    sizes = [draw.integer(1, 8) for _ in range(spatial)]
    x = draw.numbers(draw.type(FLOATS), draw.size(), draw.size(), *sizes, low=-most, high=most)
    wanted = [draw.choice(1, size, draw.integer(1, size), draw.integer(1, 9)) for size in sizes]
    wanted = draw.fed(np.array(wanted, draw.choice(np.int32, np.int64)))
    # OpenVINO's CPU plugin refuses i64, which is the default.
    types = draw.optional({"index_element_type": draw.choice("i32", "i32", "i32", "i32", "i64")}, likely=0.9)
    return [x, wanted], op(kind, **(types if kind == "AdaptiveMaxPool-8" else {}))
