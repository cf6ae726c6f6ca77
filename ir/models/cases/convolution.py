"""Convolutions and pooling."""

import re
from itertools import product

from framework import *

# --- formulas -------------------------------------------------------------------------------------


def convolve(x, w, strides, dilations, begin, end, groups=1):
    """x [N, C, ...], w [O, C / groups, ...]; negative pads crop."""
    x = x[(..., *(slice(max(-b, 0), n - max(-e, 0)) for b, e, n in zip(begin, end, x.shape[2:])))]
    x = np.pad(x, [(0, 0), (0, 0), *((max(b, 0), max(e, 0)) for b, e in zip(begin, end))]).astype(np.float64)
    sizes = [(n - ((f - 1) * d + 1)) // s + 1 for n, f, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations)]
    output = np.zeros((len(x), len(w), *sizes))
    per, width = len(w) // groups, w.shape[1]
    for g in range(groups):
        for tap in product(*map(range, w.shape[2:])):
            where = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in zip(tap, dilations, strides, sizes)
            )
            part = x[(slice(None), slice(g * width, (g + 1) * width), *where)]
            weights = w[(slice(g * per, (g + 1) * per), slice(None), *tap)].astype(np.float64)
            output[:, g * per : (g + 1) * per] += np.einsum("nc...,oc->no...", part, weights)
    return output.astype(w.dtype)


def same_pads(sizes, kernel, strides, dilations, upper):
    totals = [
        max((-(-n // s) - 1) * s + (f - 1) * d + 1 - n, 0) for n, f, s, d in zip(sizes, kernel, strides, dilations)
    ]
    small, large = [it // 2 for it in totals], [it - it // 2 for it in totals]
    return (small, large) if upper else (large, small)


def pads(x, kernel, strides, dilations, begin, end, auto_pad):
    if auto_pad == "explicit":
        return begin, end
    if auto_pad == "valid":
        return [0] * len(kernel), [0] * len(kernel)
    return same_pads(x.shape[2:], kernel, strides, dilations, auto_pad == "same_upper")


def deconvolve(x, w, strides, dilations, begin, end, output_padding, groups=1):
    """x [N, C, ...], w [C, O / groups, ...]."""
    per, width = w.shape[1], len(w) // groups
    full = [
        (n - 1) * s + (f - 1) * d + 1 + p
        for n, f, s, d, p in zip(x.shape[2:], w.shape[2:], strides, dilations, output_padding)
    ]
    # An end pad that is smaller than the output padding is more of the output.
    full = [n + max(-e, 0) for n, e in zip(full, end)]
    output = np.zeros((len(x), groups * per, *full))
    for g in range(groups):
        channels = slice(g * width, (g + 1) * width)
        for tap in product(*map(range, w.shape[2:])):
            where = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in zip(tap, dilations, strides, x.shape[2:])
            )
            output[(slice(None), slice(g * per, (g + 1) * per), *where)] += np.einsum(
                "nc...,co->no...",
                x[:, channels].astype(np.float64),
                w[(channels, slice(None), *tap)].astype(np.float64),
            )
    crop = tuple(slice(b, n - max(e, 0)) for b, e, n in zip(begin, end, full))
    return f32(output[(slice(None), slice(None), *crop)])


# --- Convolution ----------------------------------------------------------------------------------


def convolution(w, strides=None, dilations=None, begin=None, end=None, auto_pad="explicit", kind="Convolution-1"):
    w = np.asarray(w)
    grouped = kind.startswith("Group")
    flat = w.reshape(-1, *w.shape[2:]) if grouped else w
    k = flat.ndim - 2
    strides, dilations = strides or [1] * k, dilations or [1] * k
    begin, end = begin or [0] * k, end or [0] * k

    def build(x, *weights):
        return make(
            kind,
            x,
            *(weights or [const(w)]),
            strides=strides,
            dilations=dilations,
            pads_begin=begin,
            pads_end=end,
            auto_pad=auto_pad,
        )

    def formula(x, *weights):
        used = pads(x, flat.shape[2:], strides, dilations, begin, end, auto_pad)
        return convolve(x, flat, strides, dilations, *used, groups=len(w) if grouped else 1)

    return build, formula


X1, X2, X3 = spread(2, 2, 7), spread(1, 2, 5, 6), spread(1, 2, 3, 4, 3)
W1, W2, W3 = spread(3, 2, 3, seed=1), spread(3, 2, 3, 2, seed=1), spread(2, 2, 2, 2, 2, seed=1)
several(
    "convolution/rank_3",
    [X1],
    [convolution(W1), convolution(W1, [2], [1], [1], [2]), convolution(W1, [1], [2], [2], [0])],
)
several(
    "convolution/rank_4",
    [X2],
    [
        convolution(W2),
        convolution(W2, [2, 1], [1, 2], [1, 0], [2, 3]),
        convolution(W2, [2, 3], [2, 1], [2, 1], [1, 2]),
        convolution(spread(3, 2, 1, 1, seed=2)),
    ],
)
several("convolution/rank_5", [X3], [convolution(W3), convolution(W3, [1, 2, 1], [1, 1, 2], [1, 0, 1], [0, 1, 1])])

# --- What a stride follows ------------------------------------------------------------------------


def every_second(x):
    """Every second pixel along each axis, by a kernel of one."""
    axes, channels = len(x.shape) - 2, x.shape[1]
    return convolution(spread(3, channels, *[1] * axes, seed=2), [2] * axes)[0](x)


def lstm(x):
    """[1, 2, 5, 6] is five steps of 12 numbers, and becomes three numbers of five steps."""
    steps = opset15.reshape(opset15.transpose(x, i64([0, 2, 1, 3])), i64([1, 5, 12]), False)
    weights = [spread(1, 12, n, seed=n) / 8 for n in (12, 3)]
    state, lengths = np.zeros((1, 1, 3), np.float32), i64([5])
    node = opset15.lstm_sequence(steps, state, state, lengths, *weights, np.zeros((1, 12), np.float32), 3, "forward")
    return opset15.transpose(opset15.squeeze(node.output(0), i64([1])), i64([0, 2, 1]))


case(
    "convolution/strides_behind_layers",
    [X2],
    ops(
        lambda x: every_second(opset15.reshape(x, i64([1, 2, 3, 10]), False)),
        lambda x: every_second(opset15.relu(opset15.reshape(x, i64([1, 2, 30]), False))),
        lambda x: every_second(opset15.unsqueeze(opset15.reduce_max(x, i64([3])), i64([2]))),
        lambda x: every_second(opset15.softmax(x, 2)),
        lambda x: every_second(opset15.broadcast(opset15.reduce_max(x, i64([2, 3]), True), i64([1, 2, 5, 6]))),
        lambda x: every_second(opset15.slice(x, i64([1, 3]), i64([5, 6]), i64([1, 1]), i64([2, 3]))),
        lambda x: every_second(lstm(x)),
    ),
)
several(
    "convolution/auto_pad",
    [X2],
    [
        convolution(W2, strides, dilations, auto_pad=auto_pad)
        for auto_pad in ("same_upper", "same_lower", "valid")
        for strides, dilations in [([1, 1], [1, 1]), ([2, 2], [1, 1]), ([1, 1], [2, 2])]
    ],
)
# Pads of the file are not used where auto_pad says otherwise.
several(
    "convolution/auto_pad_with_pads",
    [X2],
    [convolution(W2, begin=[5, 5], end=[5, 5], auto_pad="same_upper")],
    edit=[(re.compile('pads_begin="[0-9, ]*" pads_end="[0-9, ]*"'), 'pads_begin="5, 5" pads_end="5,5"')],
)
several(
    "convolution/upper_case",
    [X2],
    [convolution(W2, auto_pad="same_lower")],
    edit=[attribute("auto_pad", "same_lower", "SAME_LOWER")],
)
several(
    "convolution/without_auto_pad",
    [X2],
    [convolution(W2, begin=[1, 1], end=[0, 1])],
    edit=[attribute("auto_pad", "explicit", None)],
)
several(
    "convolution/negative_pads",
    [X2],
    [convolution(W2, begin=[-1, 1], end=[1, -1])],
    formula="the CPU plugin refuses it",
)
several("convolution/weights_are_input", [X2, W2], [convolution(W2, [2, 1], begin=[1, 1], end=[0, 1])])
several(
    "convolution/open_dimensions",
    [X2],
    [
        convolution(W2, begin=[1, 1], end=[1, 0]),
        convolution(W2, [2, 2], auto_pad="same_upper"),
        convolution(W2, [2, 2]),
    ],
    shapes=["?,2,?,?"],
    more=[[spread(2, 2, 4, 7)]],
)
several("convolution/f16", [f16(X2)], [convolution(f16(W2), begin=[1, 0], end=[0, 1])])
several(
    "convolution/bias_and_relu",
    [X2],
    [
        (
            lambda x: make("Relu-1", make("Add-1", convolution(W2)[0](x), const(f32([1, -2, 3]).reshape(1, 3, 1, 1)))),
            lambda x: np.maximum(convolution(W2)[1](x) + f32([1, -2, 3]).reshape(1, 3, 1, 1), 0),
        )
    ],
)

# --- BinaryConvolution ----------------------------------------------------------------------------


def binary_convolution(w, pad_value, begin=(0, 0), end=(0, 0), strides=(1, 1), dilations=(1, 1), auto_pad="explicit"):
    """The node and its formula. The first of 8 weights is the lowest bit, which is not the order of OpenVINO's constants."""
    bits = w.reshape(-1, 8)[:, ::-1].reshape(w.shape)
    spatial = dict(strides=strides, dilations=dilations, pads_begin=begin, pads_end=end)
    attributes = {name: list(it) for name, it in spatial.items()}
    attributes |= dict(auto_pad=auto_pad, mode="xnor-popcount", pad_value=pad_value)

    def formula(x):
        sizes = pads(x, w.shape[2:], strides, dilations, begin, end, auto_pad)
        moved = 2.0 * (x > 0) - 1 - pad_value
        signs = 2.0 * w - 1
        output = convolve(moved, signs, strides, dilations, *sizes)
        return (output + pad_value * signs.sum((1, 2, 3)).reshape(-1, 1, 1)).astype(x.dtype)

    return op("BinaryConvolution-1", const(bits, "u1"), **attributes), formula


BITS, BINARY = spread_ints(0, 1, 2, 8, 4, 5).astype(np.float32), spread_ints(0, 1, 3, 8, 2, 3, seed=1)
several(
    "binary_convolution/pads",
    [BITS],
    [binary_convolution(BINARY, pad_value, (1, 0), (1, 2)) for pad_value in (0.0, 1.0, -1.0)],
)
several(
    "binary_convolution/strides_and_dilations",
    [BITS],
    [
        binary_convolution(BINARY, 0.0, strides=(2, 1), dilations=(1, 2)),
        binary_convolution(BINARY, 1.0, auto_pad="same_upper"),
        binary_convolution(BINARY, -1.0, auto_pad="same_lower"),
    ],
)
several("binary_convolution/f16", [f16(BITS)], [binary_convolution(BINARY, 1.0, (1, 1), (0, 0))])
several(
    "binary_convolution/signs",
    [spread(1, 8, 3, 3)],
    [binary_convolution(spread_ints(0, 1, 8, 8, 1, 1, seed=2), 0.0)],
    shapes=["?,8,?,?"],
    more=[[spread(2, 8, 1, 4)]],
    formula="the CPU plugin must know the sizes, and OpenVINO's core has no reference implementation",
)
several(
    "binary_convolution/integers",
    [spread_ints(0, 1, 1, 8, 3, 3)],
    [binary_convolution(BINARY[:, :, :, :1], -1.0, (1, 1), (1, 1))],
    formula="the CPU plugin takes floats only, and OpenVINO's core has no reference implementation",
)

# --- GroupConvolution -----------------------------------------------------------------------------


def group_convolution(*arguments, **more):
    return convolution(*arguments, kind="GroupConvolution-1", **more)


several(
    "group_convolution/groups",
    [spread(1, 4, 5, 5)],
    [
        group_convolution(spread(2, 3, 2, 3, 3, seed=1), [2, 1], [1, 1], [1, 1], [1, 0]),
        group_convolution(spread(4, 1, 1, 3, 3, seed=2), begin=[1, 1], end=[1, 1]),
        group_convolution(spread(4, 2, 1, 1, 3, seed=3), dilations=[1, 2], auto_pad="same_upper"),
        group_convolution(spread(1, 2, 4, 2, 2, seed=4)),
    ],
)
several(
    "group_convolution/rank_3", [spread(2, 4, 6)], [group_convolution(spread(2, 1, 2, 3, seed=1), [2], [1], [1], [1])]
)
several("group_convolution/rank_5", [spread(1, 2, 3, 3, 3)], [group_convolution(spread(2, 1, 1, 2, 2, 2, seed=1))])
several(
    "group_convolution/open_dimensions",
    [spread(1, 4, 5, 5)],
    [group_convolution(spread(4, 1, 1, 3, 3, seed=2), [2, 2], begin=[1, 1], end=[1, 1])],
    shapes=["?,4,?,?"],
    more=[[spread(2, 4, 4, 6)]],
)
several(
    "group_convolution/weights_reshaped",
    [spread(1, 4, 5, 5)],
    [
        (
            lambda x: make(
                "GroupConvolution-1",
                x,
                make("Reshape-1", const(spread(4, 1, 3, 3, seed=2)), axes(4, 1, 1, 3, 3), special_zero=False),
                **PLAIN,
            ),
            group_convolution(spread(4, 1, 1, 3, 3, seed=2))[1],
        )
    ],
)

# --- ConvolutionBackpropData ----------------------------------------------------------------------


def backprop(
    w,
    strides=None,
    dilations=None,
    begin=None,
    end=None,
    auto_pad="explicit",
    output_padding=None,
    output_shape=None,
    kind="ConvolutionBackpropData-1",
):
    grouped = kind.startswith("Group")
    flat = w.reshape(-1, *w.shape[2:]) if grouped else w
    k = flat.ndim - 2
    strides, dilations = strides or [1] * k, dilations or [1] * k
    begin, end, output_padding = begin or [0] * k, end or [0] * k, output_padding or [0] * k

    def build(x):
        return make(
            kind,
            x,
            const(w),
            *([axes(*output_shape)] if output_shape else []),
            strides=strides,
            dilations=dilations,
            pads_begin=begin,
            pads_end=end,
            auto_pad=auto_pad,
            output_padding=output_padding,
        )

    def formula(x):
        b, e = begin, end
        if output_shape:
            totals = [
                (n - 1) * s + (f - 1) * d + 1 + p - o
                for n, s, f, d, p, o in zip(
                    x.shape[2:], strides, flat.shape[2:], dilations, output_padding, output_shape
                )
            ]
            small, large = [it // 2 for it in totals], [it - it // 2 for it in totals]
            b, e = (large, small) if auto_pad == "same_upper" else (small, large)
            if not auto_pad.startswith("same"):
                # The specification has halves here, too, OpenVINO what the file says.
                b = begin if auto_pad == "explicit" else [0] * k
                e = [total - pad for total, pad in zip(totals, b)]
        elif auto_pad != "explicit":
            b, e = [0] * k, [0] * k
        return deconvolve(x, flat, strides, dilations, b, e, output_padding, len(w) if grouped else 1)

    return build, formula


Y1, Y2, Y3 = spread(2, 3, 4), spread(1, 3, 3, 4), spread(1, 2, 2, 3, 2)
V1, V2, V3 = spread(3, 2, 3, seed=1), spread(3, 2, 3, 2, seed=1), spread(2, 1, 2, 2, 2, seed=1)
several(
    "convolution_backprop_data/rank_3",
    [Y1],
    [backprop(V1), backprop(V1, [2], [1], [1], [0]), backprop(V1, [2], [2], [1], [2])],
)
several(
    "convolution_backprop_data/integers",
    [i32([[[1, -2, 3], [0, 4, -1]]])],
    [backprop(i32([[[1, 2], [3, 4]], [[-1, 0], [2, 1]]]), [2])],
)
several(
    "convolution_backprop_data/rank_4",
    [Y2],
    [backprop(V2), backprop(V2, [2, 3], [1, 1], [1, 0], [0, 1]), backprop(V2, [2, 1], [1, 2], [1, 1], [1, 1])],
)
several(
    "convolution_backprop_data/rank_5", [Y3], [backprop(V3), backprop(V3, [2, 1, 2], [1, 1, 1], [1, 0, 0], [0, 0, 1])]
)
several(
    "convolution_backprop_data/output_padding",
    [Y2],
    [backprop(V2, [2, 3], output_padding=[1, 2]), backprop(V2, [2, 2], [1, 1], [1, 0], [1, 1], output_padding=[1, 0])],
)
several(
    "convolution_backprop_data/output_shape",
    [Y2],
    [
        backprop(V2, [2, 2], output_shape=[6, 7], auto_pad="same_upper"),
        backprop(V2, [2, 2], output_shape=[6, 7], auto_pad="same_lower"),
        backprop(V2, [2, 2], output_shape=[5, 7], auto_pad="same_upper"),
        backprop(V2, [2, 2], output_shape=[5, 7], auto_pad="same_lower"),
        backprop(V2, [2, 2], begin=[2, 0], output_shape=[5, 7]),
        backprop(V2, [2, 2], begin=[2, 0], output_shape=[5, 7], auto_pad="valid"),
    ],
)
several("convolution_backprop_data/auto_pad_valid", [Y2], [backprop(V2, [2, 2], auto_pad="valid")])
several(
    "convolution_backprop_data/open_dimensions",
    [Y2],
    [backprop(V2, [2, 2], [1, 1], [1, 0], [0, 1])],
    shapes=["?,3,?,?"],
    more=[[spread(2, 3, 2, 5)]],
)
several(
    "convolution_backprop_data/without_output_padding",
    [Y2],
    [backprop(V2, [2, 2])],
    edit=[attribute("output_padding", "0, 0", None)],
)


def group_backprop(*arguments, **more):
    return backprop(*arguments, kind="GroupConvolutionBackpropData-1", **more)


several(
    "group_convolution_backprop_data/groups",
    [spread(1, 4, 3, 4)],
    [
        group_backprop(spread(2, 2, 3, 3, 2, seed=1), [2, 1], [1, 1], [1, 0], [0, 1]),
        group_backprop(spread(4, 1, 1, 2, 2, seed=2), [2, 2]),
        group_backprop(spread(2, 2, 1, 3, 3, seed=3), [2, 2], [1, 1], [1, 1], [1, 1], output_padding=[1, 1]),
    ],
)
several(
    "group_convolution_backprop_data/output_shape",
    [spread(1, 4, 3, 4)],
    [
        group_backprop(spread(2, 2, 3, 3, 3, seed=1), [2, 2], output_shape=[6, 8], auto_pad="same_upper"),
        group_backprop(spread(2, 2, 3, 3, 3, seed=1), [2, 2], begin=[2, 0], output_shape=[6, 8]),
    ],
)
several(
    "group_convolution_backprop_data/nothing_left",
    [spread(1, 4, 3, 4)],
    [
        backprop(spread(4, 3, 3, 3), begin=[0, 3], end=[1, 3]),
        group_backprop(spread(2, 2, 3, 3, 3), begin=[2, 1], end=[3, 0]),
    ],
    formula="the CPU plugin refuses groups",
)
several("group_convolution_backprop_data/rank_3", [spread(1, 4, 3)], [group_backprop(spread(2, 2, 1, 3, seed=1), [2])])

# --- pooling --------------------------------------------------------------------------------------


def windows(x, kernel, strides, dilations, begin, end, rounding):
    """Of each output position the offsets of its elements in each axis, padding included."""
    every = []
    for n, f, s, d, b, e in zip(x.shape[2:], kernel, strides, dilations, begin, end):
        span = n + b + e - ((f - 1) * d + 1)
        count = span // s + 1
        if rounding != "floor":
            count = -(-span // s) + 1
            # A window that would begin in the padding at the end.
            if rounding == "ceil_torch" and (count - 1) * s >= n + b:
                count -= 1
        every.append([[i * s + t * d - b for t in range(f)] for i in range(count)])
    return every


def max_pool(x, kernel, strides, dilations, begin, end, rounding, axis):
    every = windows(x, kernel, strides, dilations, begin, end, rounding)
    values = np.zeros((*x.shape[:2], *map(len, every)), x.dtype)
    indices = np.zeros(values.shape, np.int64)
    for where in np.ndindex(values.shape):
        best = None
        for at in product(*(each[i] for each, i in zip(every, where[2:]))):
            if all(0 <= p < n for p, n in zip(at, x.shape[2:])):
                full = (*where[:2], *at)
                if best is None or x[full] > x[best]:
                    best = full
        if best is None:
            values[where] = np.finfo(np.float32).min
            continue
        values[where] = x[best]
        indices[where] = np.ravel_multi_index(best[axis:], x.shape[axis:])
    return values, indices


def pool(
    kind,
    kernel,
    strides=None,
    begin=None,
    end=None,
    rounding="floor",
    auto_pad="explicit",
    dilations=None,
    axis=0,
    index="i64",
    exclude=None,
):
    k = len(kernel)
    strides, dilations = strides or [1] * k, dilations or [1] * k
    begin, end = begin or [0] * k, end or [0] * k
    attributes = dict(
        kernel=kernel, strides=strides, pads_begin=begin, pads_end=end, rounding_type=rounding, auto_pad=auto_pad
    )
    if kind in ("MaxPool-8", "MaxPool-14"):
        attributes.update(dilations=dilations, axis=axis, index_element_type=index)
    if kind == "AvgPool-16":
        attributes.update(dilations=dilations)
    if exclude is not None:
        attributes["exclude-pad"] = exclude

    def formula(x):
        b, e = pads(x, kernel, strides, dilations, begin, end, auto_pad)
        if kind.startswith("Max"):
            values, indices = max_pool(x, kernel, strides, dilations, b, e, rounding, axis)
            return [values] if kind == "MaxPool-1" else [values, indices.astype(DTYPES[index])]
        every = windows(x, kernel, strides, dilations, b, e, rounding)
        output = np.zeros((*x.shape[:2], *map(len, every)))
        # Without padding, elements beyond the data do not count.
        counts_pads = not exclude and any([*b, *e])
        for where in np.ndindex(output.shape[2:]):
            total, count = 0, 0
            for at in product(*(each[i] for each, i in zip(every, where))):
                inside = all(0 <= p < n for p, n in zip(at, x.shape[2:]))
                total = total + (x[(slice(None), slice(None), *at)].astype(np.float64) if inside else 0)
                count += counts_pads or inside
            output[(slice(None), slice(None), *where)] = np.divide(total, max(count, 1))
        return f32(output)

    return op(kind, **attributes), formula


P2 = spread(1, 2, 5, 6)
several(
    "max_pool/revision_1",
    [P2],
    [
        pool("MaxPool-1", [2, 3]),
        pool("MaxPool-1", [3, 2], [2, 2], [1, 1], [1, 0]),
        pool("MaxPool-1", [2, 2], [2, 2], rounding="ceil"),
        pool("MaxPool-1", [3, 3], [2, 2], auto_pad="same_upper"),
        pool("MaxPool-1", [3, 3], [2, 2], auto_pad="same_lower"),
        pool("MaxPool-1", [2, 2], [1, 2], auto_pad="valid"),
    ],
)
several(
    "max_pool/revision_8",
    [P2],
    [
        pool("MaxPool-8", [2, 3], axis=2),
        pool("MaxPool-8", [3, 2], [2, 2], [1, 1], [1, 0], index="i32"),
        pool("MaxPool-8", [2, 2], dilations=[2, 3]),
        pool("MaxPool-8", [2, 2], [2, 2], rounding="ceil", axis=2),
    ],
)
several(
    "max_pool/ceil",
    [spread(1, 1, 5, 5)],
    [
        pool(kind, [2, 2], [2, 2], begin, end, rounding=rounding, axis=2)
        for kind, rounding in [("MaxPool-8", "ceil"), *(("MaxPool-14", it) for it in ("ceil", "ceil_torch", "floor"))]
        for begin, end in [([0, 0], [0, 0]), ([1, 1], [0, 0])]
    ]
    + [
        pool("MaxPool-1", [1, 2], [3, 3], rounding="ceil", auto_pad=auto_pad)
        for auto_pad in ("same_upper", "same_lower")
    ],
)
# The last window would begin in the padding.
several(
    "max_pool/ceil_torch_drops_a_window",
    [spread(1, 1, 4, 4)],
    [pool("MaxPool-14", [2, 2], [3, 3], [1, 1], [1, 1], rounding="ceil_torch", axis=2)],
)
several("max_pool/indices", [spread(2, 2, 4, 4)], [pool("MaxPool-8", [2, 2], [2, 2], axis=axis) for axis in (0, 1, 2)])
several("max_pool/ties", [f32([[[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]])], [pool("MaxPool-8", [2, 2], axis=2)])
# Windows of the least number of their type.
several(
    "max_pool/of_zeros",
    [u8([[[0, 1, 0, 0, 0]]])],
    [pool("MaxPool-14", [2], [1])],
    formula="OpenVINO gives them an index that is not in the window",
    without_reference="so do they",
)
several(
    "max_pool/all_negative_with_pads",
    [-np.abs(spread(1, 1, 4, 4)) - 1],
    [pool("MaxPool-1", [3, 3], [1, 1], [1, 1], [1, 1]), pool("MaxPool-14", [3, 3], [2, 2], [1, 1], [1, 1], axis=2)],
)
several(
    "max_pool/rank_3",
    [spread(1, 2, 7)],
    [pool("MaxPool-1", [3], [2], [1], [1]), pool("MaxPool-8", [3], [2], [1], [1], axis=2)],
)
several(
    "max_pool/rank_5",
    [spread(1, 1, 3, 4, 3)],
    [pool("MaxPool-1", [2, 2, 2]), pool("MaxPool-8", [2, 2, 2], [1, 2, 1], [1, 0, 0], [0, 0, 1], axis=2)],
)
several(
    "max_pool/spelling",
    [P2],
    [pool("MaxPool-1", [2, 2], [2, 2], rounding="ceil", auto_pad="valid")],
    edit=[
        attribute("auto_pad", "valid", "VALID"),
        attribute("rounding_type", "ceil", "CEIL"),
        attribute("kernel", "2, 2", "2,2"),
    ],
)
several(
    "max_pool/without_optional_attributes",
    [P2],
    [pool("MaxPool-8", [2, 3])],
    edit=[
        attribute("index_element_type", "i64", None),
        attribute("axis", "0", None),
        attribute("auto_pad", "explicit", None),
        attribute("rounding_type", "floor", None),
    ],
)
several(
    "max_pool/open_dimensions",
    [P2],
    [
        pool("MaxPool-1", [3, 3], [2, 2], [1, 1], [1, 1]),
        pool("MaxPool-8", [2, 2], [2, 2], axis=2),
        pool("MaxPool-1", [2, 2], [2, 2], auto_pad="same_upper"),
    ],
    shapes=["?,2,?,?"],
    more=[[spread(2, 2, 4, 7)]],
)
several(
    "max_pool/open_dimensions_ceil",
    [P2],
    [
        pool("MaxPool-1", [2, 2], [2, 2], rounding="ceil"),
        pool("MaxPool-14", [2, 2], [2, 2], rounding="ceil_torch", axis=2),
    ],
    shapes=["?,2,?,?"],
    more=[[spread(1, 2, 4, 7)]],
)

for name, exclude in [("exclude_pad", True), ("include_pad", False)]:
    several(
        f"avg_pool/{name}",
        [P2],
        [
            pool("AvgPool-1", [2, 3], exclude=exclude),
            pool("AvgPool-1", [3, 2], [2, 2], [1, 1], [1, 0], exclude=exclude),
            pool("AvgPool-1", [3, 3], [2, 2], auto_pad="same_upper", exclude=exclude),
            pool("AvgPool-1", [3, 3], [2, 2], auto_pad="same_lower", exclude=exclude),
            pool("AvgPool-1", [2, 2], [1, 2], auto_pad="valid", exclude=exclude),
            pool("AvgPool-14", [3, 3], [1, 2], [1, 1], [1, 1], exclude=exclude),
        ],
    )
    several(
        f"avg_pool/ceil_{name}",
        [spread(1, 1, 6, 6)],
        [
            pool("AvgPool-1", [3, 3], [2, 2], rounding="ceil", exclude=exclude),
            pool("AvgPool-14", [3, 3], [2, 2], rounding="ceil", exclude=exclude),
            pool("AvgPool-14", [3, 3], [2, 2], rounding="ceil_torch", exclude=exclude),
        ],
    )
    several(
        f"avg_pool/ceil_with_pads_{name}",
        [spread(1, 1, 5, 5)],
        [
            pool("AvgPool-14", [2, 2], [2, 2], [1, 1], [1, 1], rounding="ceil_torch", exclude=exclude),
            pool("AvgPool-1", [3, 3], [2, 2], [1, 0], rounding="ceil", exclude=exclude),
            pool("AvgPool-14", [3, 3], [2, 2], [1, 0], rounding="ceil_torch", exclude=exclude),
        ],
    )
several(
    "avg_pool/windows_outside",
    [spread(1, 1, 5, 6)],
    [
        pool("AvgPool-1", [2, 2], [2, 3], rounding="ceil", exclude=exclude, auto_pad=auto_pad)
        for exclude in (True, False)
        for auto_pad in ("explicit", "same_upper", "same_lower")
    ]
    + [
        pool("AvgPool-1", kernel, kernel, [1, 1], [1, 1], rounding="ceil", exclude=exclude)
        for exclude in (True, False)
        for kernel in ([2, 2], [3, 3])
    ],
    formula="the CPU plugin divides nothing by nothing",
)
several(
    "avg_pool/ceil_torch_drops_a_window",
    [spread(1, 1, 4, 4)],
    [pool("AvgPool-14", [2, 2], [3, 3], [1, 1], [1, 1], rounding="ceil_torch", exclude=False)],
)
several(
    "avg_pool/revision_16",
    [P2],
    [
        pool("AvgPool-16", [2, 2], [1, 2], exclude=True),
        pool("AvgPool-16", [2, 2], begin=[1, 1], end=[0, 1], exclude=False),
    ],
)
several("avg_pool/dilations", [P2], [pool("AvgPool-16", [2, 2], dilations=[2, 3], exclude=True)])
several(
    "avg_pool/rank_3",
    [spread(1, 2, 7)],
    [pool("AvgPool-1", [3], [2], [1], [1], exclude=True), pool("AvgPool-1", [3], [2], [1], [1], exclude=False)],
)
several(
    "avg_pool/rank_5",
    [spread(1, 1, 3, 4, 3)],
    [pool("AvgPool-1", [2, 2, 2], [1, 2, 1], [1, 0, 0], [0, 0, 1], exclude=True)],
)
several(
    "avg_pool/open_dimensions",
    [P2],
    [
        pool("AvgPool-1", [3, 3], [2, 2], [1, 1], [1, 1], exclude=True),
        pool("AvgPool-1", [3, 3], [2, 2], [1, 1], [1, 1], exclude=False),
        pool("AvgPool-1", [2, 2], [2, 2], auto_pad="same_upper", exclude=True),
    ],
    shapes=["?,2,?,?"],
    more=[[spread(2, 2, 4, 7)]],
)
several(
    "avg_pool/spelling",
    [P2],
    [pool("AvgPool-1", [3, 3], [2, 2], [1, 1], [1, 1], exclude=True)],
    edit=[attribute("exclude-pad", "true", "True")],
)


def adaptive(*sizes):
    def formula(x):
        output = np.zeros((*x.shape[:2], *sizes))
        for where in np.ndindex(*sizes):
            window = tuple(slice(i * n // o, -(-(i + 1) * n // o)) for i, n, o in zip(where, x.shape[2:], sizes))
            output[(slice(None), slice(None), *where)] = x[(slice(None), slice(None), *window)].mean(
                axis=tuple(range(2, x.ndim)), dtype=np.float64
            )
        return f32(output)

    return op("AdaptiveAvgPool-8", axes(*sizes)), formula


several(
    "adaptive_avg_pool/sizes",
    [spread(1, 2, 5, 7)],
    [adaptive(1, 1), adaptive(2, 3), adaptive(5, 7), adaptive(3, 1), adaptive(4, 4)],
)
several("adaptive_avg_pool/rank_3", [spread(2, 2, 7)], [adaptive(3), adaptive(1)])
several("adaptive_avg_pool/rank_5", [spread(1, 1, 3, 4, 3)], [adaptive(2, 3, 1)])
several(
    "adaptive_avg_pool/open_dimensions_to_1",
    [spread(1, 2, 5, 7)],
    [adaptive(1, 1)],
    shapes=["?,2,?,?"],
    more=[[spread(2, 2, 3, 4)]],
)

# --- cases that share a model ----------------------------------------------------------------------

join("group_convolution/groups", "groups", "rank_3", "rank_5")
join("convolution_backprop_data/ranks", "rank_3", "rank_4", "rank_5")
join("group_convolution_backprop_data/groups", "groups", "output_shape", "rank_3")
join("max_pool/rank_3_and_5", "rank_3", "rank_5")
join("max_pool/values_and_indices", "indices", "ties", "all_negative_with_pads")
join("avg_pool/rank_3_and_5", "rank_3", "rank_5")
join("avg_pool/ceil", "ceil_exclude_pad", "ceil_include_pad")
join("avg_pool/ceil_with_pads", "ceil_with_pads_exclude_pad", "ceil_with_pads_include_pad")
join("adaptive_avg_pool/sizes", "sizes", "rank_3", "rank_5")
