"""Attributes that are missing, no numbers, or out of range."""

import numpy as np

from bad_file_cases import good, section
from bad_file_cases.net import Const, floats, one

CONVOLUTION = {
    "strides": [1, 1],
    "dilations": [1, 1],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "auto_pad": "explicit",
}
POOLING = {
    "kernel": [2, 2],
    "strides": [1, 1],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "rounding_type": "floor",
    "auto_pad": "explicit",
}
INTERPOLATE = {
    "mode": "nearest",
    "shape_calculation_mode": "sizes",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
    "antialias": "false",
    "pads_begin": [0],
    "pads_end": [0],
    "cube_coeff": "-0.75",
}


def add_axes():
    case = section("Attributes: axis, mode")
    two = [floats(2, 3), floats(2, 3)]
    case("axis_missing", "Concat without an axis", one("Concat-1", two, [[4, 3]]))
    case("axis_text", "an axis that is no number", one("Concat-1", two, [[4, 3]], axis="two"))
    case("axis_99", "axis 99, rank 2", one("Softmax-8", [floats(2, 3)], [[2, 3]], axis=99))
    case("axis_minimum", "axis −2⁶³", one("Softmax-8", [floats(2, 3)], [[2, 3]], axis=-(2**63)))
    case("axis_too_large", "axis 2⁶⁴", one("Softmax-8", [floats(2, 3)], [[2, 3]], axis=2**64))
    pads = [floats(3), Const([1]), Const([1])]
    case("mode_unknown", "Pad in the mode diagonal", one("Pad-1", pads, [[5]], pad_mode="diagonal"))


def add_convolutions():
    case = section("Attributes: convolution, pooling, resizing")
    data, kernel = floats(1, 2, 5, 5), Const(floats(3, 2, 3, 3), "float32")

    def convolution(name, what, data=data, kernel=kernel, out=(1, 3, 3, 3), kind="Convolution-1", **changes):
        case(name, what, one(kind, [data, kernel], [out], **{**CONVOLUTION, **changes}))

    convolution("strides_0", "Convolution with strides 0", strides=[0, 0])
    convolution("strides_of_3_axes", "Convolution in 2-D with 3 strides", strides=[1, 1, 1])
    convolution("dilations_negative", "Convolution with dilations −1", dilations=[-1, -1])
    convolution("pads_huge", "Convolution with pads of 2⁶³ − 1", pads_begin=[2**63 - 1] * 2)
    convolution("pads_negative", "Convolution with pads of −9", pads_begin=[-9, -9])
    convolution("kernel_larger", "Convolution whose kernel is larger than the input", data=floats(1, 2, 2, 2))
    convolution("channels", "Convolution of 2 channels by filters of 3",
                kernel=Const(floats(3, 3, 3, 3), "float32"))
    convolution("groups", "GroupConvolution of 3 channels in 2 groups of 2", data=floats(1, 3, 5, 5),
                kernel=Const(floats(2, 1, 2, 3, 3), "float32"), out=(1, 2, 3, 3), kind="GroupConvolution-1")
    for name, what, changes in [
        ("pooling_kernel_0", "MaxPool with a kernel of 0", {"kernel": [0, 0]}),
        ("pooling_kernel_larger", "MaxPool whose kernel is larger than the input", {"kernel": [9, 9]}),
        ("pooling_kernel_huge", "MaxPool with a kernel of 2⁶³", {"kernel": [2**63] * 2}),
    ]:
        case(name, what, one("MaxPool-1", [floats(1, 1, 4, 4)], [[1, 1, 3, 3]], **{**POOLING, **changes}))
    for name, what, size, more in [
        ("interpolate_to_0", "Interpolate to the size 0", 0,
         {"text": "empty", "outputs": good(np.zeros((1, 1, 0, 0)))}),
        ("interpolate_negative", "Interpolate to the size −1", -1, {}),
    ]:
        inputs = [floats(1, 1, 4, 4), Const([size, size]), Const([1, 1], "float32"), Const([2, 3])]
        case(name, what, one("Interpolate-4", inputs, [[1, 1, size, size]], **INTERPOLATE), **more)


def add():
    add_axes()
    add_convolutions()
