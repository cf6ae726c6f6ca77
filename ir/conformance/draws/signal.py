"""Fourier transforms."""

import numpy as np
from framework import *

from draws import FLOATS, operation


@operation("DFT-7 IDFT-7")
def dft(draw, kind):
    shape = draw.shape(draw.choice(1, 1, 2, 2, 3, 4), least=0 if draw.flag(0.1) else 1)
    axes = draw.axes(len(shape), least=1)
    type_ = draw.choice(np.int32, np.int64)
    # Not f64.
    inputs = [draw.numbers(draw.type(["f16", "f32"]), *shape, 2), draw.fed(np.array(axes, type_))]
    if draw.flag():
        sizes = [draw.choice(-1, draw.integer(1, 8), max(shape[axis], 1)) for axis in axes]
        inputs.append(draw.fed(np.array(sizes, type_)))
    return inputs, op(kind)


@operation("RDFT-9 IRDFT-9")
def real_dft(draw, kind):
    """Axes and sizes are constants, as OpenVINO's CPU plugin wants them. No axis is padded: the plugin reads outside of
    the data there."""
    parts = () if kind == "RDFT-9" else (2,)
    shape = draw.shape(draw.choice(1, 1, 2, 2, 3, 4), least=1)
    axes = draw.axes(len(shape), least=1)
    last = axes[-1] % len(shape)
    shape = [max(size, 2) if axis == last else size for axis, size in enumerate(shape)]
    most = [shape[axis] for axis in axes]
    if parts:
        most[-1] = 2 * most[-1] - 1
    type_ = draw.choice(np.int32, np.int64)
    inputs = [draw.numbers(draw.type(["f16", "f32"]), *shape, *parts), Const(np.array(axes, type_))]
    if draw.flag():
        sizes = [draw.choice(size, draw.integer(1, size)) for size in most]
        if draw.flag(0.1):
            sizes[0] = -1
        inputs.append(Const(np.array(sizes, type_)))
    return inputs, op(kind)


def frames(draw, type_):
    """The size of a frame, the step, and a window."""
    size, step = draw.integer(1, 9), draw.integer(1, 6)
    return size, step, draw.numbers(type_, draw.choice(size, draw.integer(1, size)), low=0, high=1)


def scalars(draw, *values):
    type_ = draw.choice(np.int32, np.int64)
    return [draw.fed(np.array(it, type_)) for it in values]


@operation("STFT-15")
def stft(draw, kind):
    type_ = draw.type(FLOATS)
    size, step, window = frames(draw, type_)
    signal = draw.numbers(type_, *draw.shape(draw.choice(0, 1), least=1), size + draw.integer(0, 20))
    inputs = [signal, draw.fed(window), *scalars(draw, size, step)]
    return inputs, op(kind, transpose_frames=draw.flag())


@operation("ISTFT-16")
def istft(draw, kind):
    type_ = draw.type(FLOATS)
    size, step, window = frames(draw, type_)
    count = draw.integer(1, 6)
    data = draw.numbers(type_, *draw.shape(draw.choice(0, 1), least=1), size // 2 + 1, count, 2)
    inputs = [data, draw.fed(window), *scalars(draw, size, step)]
    if draw.flag():
        whole = (count - 1) * step + size
        inputs += scalars(draw, max(whole + draw.integer(-6, 6), 1))
    return inputs, op(kind, center=draw.flag(), normalized=draw.flag())
