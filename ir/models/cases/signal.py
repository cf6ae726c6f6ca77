"""DFT, IDFT, RDFT, IRDFT, STFT, ISTFT, ExtractImagePatches, Col2Im."""

from framework import *


def parts(z):
    return np.stack([z.real, z.imag], -1).astype(np.float32)


def complex_(x):
    return x[..., 0] + 1j * x[..., 1]


# --- DFT, IDFT ------------------------------------------------------------------------------------

Z = spread(3, 4, 5, 2)
case(
    "dft/axes",
    [Z],
    ops(
        op("DFT-7", axes(1)), op("DFT-7", axes(-1, 0)), op("IDFT-7", axes(0, 2)), op("IDFT-7", const(i32([-3, -2, -1])))
    ),
    lambda x: [
        parts(np.fft.fft(complex_(x), axis=1)),
        parts(np.fft.fftn(complex_(x), axes=(2, 0))),
        parts(np.fft.ifftn(complex_(x), axes=(0, 2))),
        parts(np.fft.ifftn(complex_(x))),
    ],
)
case(
    "dft/signal_size",
    [Z],
    ops(op("DFT-7", axes(2, 0), axes(7, 2)), op("IDFT-7", axes(1, 2), axes(6, -1))),
    lambda x: [parts(np.fft.fftn(complex_(x), (7, 2), (2, 0))), parts(np.fft.ifftn(complex_(x), (6, 5), (1, 2)))],
)
case(
    "dft/open_dimensions",
    [spread(2, 3, 2)],
    ops(op("DFT-7", axes(1)), op("IDFT-7", axes(1)), op("DFT-7", axes(1), axes(4))),
    lambda x: [parts(np.fft.fft(complex_(x))), parts(np.fft.ifft(complex_(x))), parts(np.fft.fft(complex_(x), 4))],
    shapes=["?,?,?"],
    more=[[spread(1, 5, 2)]],
)

# --- RDFT, IRDFT ----------------------------------------------------------------------------------

case(
    "rdft/axes",
    [spread(4, 5)],
    ops(op("RDFT-9", axes(-1)), op("RDFT-9", axes(1, 0)), op("RDFT-9", axes(0, 1), axes(3, 4))),
    lambda x: [parts(np.fft.rfft(x)), parts(np.fft.rfftn(x, axes=(1, 0))), parts(np.fft.rfftn(x, (3, 4), (0, 1)))],
)
case(
    "rdft/padded",
    [spread(4, 5)],
    op("RDFT-9", axes(0, 1), axes(6, 8)),
    lambda x: parts(np.fft.rfftn(x, (6, 8), (0, 1))),
    formula="the CPU plugin reads outside the buffer",
)
case(
    "rdft/open_dimensions",
    [spread(2, 4)],
    op("RDFT-9", axes(1)),
    lambda x: parts(np.fft.rfft(x)),
    shapes=["?,?"],
    more=[[spread(3, 5)]],
)
case(
    "irdft/axes",
    [spread(4, 3, 2)],
    ops(
        op("IRDFT-9", axes(-1)),
        op("IRDFT-9", axes(1, 0)),
        op("IRDFT-9", axes(1), axes(5)),
        op("IRDFT-9", axes(0, 1), axes(4, 3)),
    ),
    lambda x: [
        np.fft.irfft(complex_(x)).astype(np.float32),
        np.fft.irfftn(complex_(x), axes=(1, 0)).astype(np.float32),
        np.fft.irfft(complex_(x), 5).astype(np.float32),
        np.fft.irfftn(complex_(x), (4, 3), (0, 1)).astype(np.float32),
    ],
)
case(
    "irdft/padded",
    [spread(4, 3, 2)],
    op("IRDFT-9", axes(1), axes(7)),
    lambda x: np.fft.irfft(complex_(x), 7).astype(np.float32),
    formula="the CPU plugin does not pad with zeros",
)

# --- STFT, ISTFT ----------------------------------------------------------------------------------

WINDOW = f32([0.5, 1, 0.75, 0.25, 0.5])


def padded(window, size):
    before = (size - len(window)) // 2
    return np.pad(window, (before, size - len(window) - before))


def stft(x, window, size, step, transpose):
    frames = np.lib.stride_tricks.sliding_window_view(x, size, -1)[..., ::step, :]
    output = parts(np.fft.rfft(frames * padded(window, size)))
    return np.swapaxes(output, -2, -3) if transpose else output


case(
    "stft/batch",
    [spread(2, 16), WINDOW],
    lambda x, w: [
        make("STFT-15", x, w, scalar(size), scalar(step), transpose_frames=transpose)
        for size, step, transpose in [(5, 2, False), (8, 3, True)]
    ],
    lambda x, w: [stft(x, w, 5, 2, False), stft(x, w, 8, 3, True)],
)
case(
    "stft/open_dimensions",
    [spread(16), WINDOW],
    op("STFT-15", scalar(6), scalar(4), transpose_frames=True),
    lambda x, w: stft(x, w, 6, 4, True),
    shapes=["?", None],
    more=[[spread(23), WINDOW]],
)


def istft(x, window, size, step, length=None, center=False, normalized=False):
    window = padded(window, size)
    frames = np.fft.irfft(complex_(x), size, axis=-2) * window[:, None]
    total = (frames.shape[-1] - 1) * step + size
    signal, weights = np.zeros((*x.shape[:-3], total)), np.zeros(total)
    for i in range(frames.shape[-1]):
        signal[..., i * step : i * step + size] += frames[..., i]
        weights[i * step : i * step + size] += window**2
    signal /= np.where(weights == 0, 1, weights) / (np.sqrt(size) if normalized else 1)
    cut = size // 2 if center else 0
    length = total - 2 * cut if length is None else length
    signal = signal[..., cut : cut + length]
    return np.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, length - signal.shape[-1])]).astype(np.float32)


ISTFT = [
    dict(size=7, step=3),
    dict(size=6, step=2, center=True, normalized=True),
    dict(size=7, step=3, center=True),
    dict(size=7, step=3, length=21),
    dict(size=6, step=2, length=11, center=True),
]


def make_istft(x, w, size, step, length=None, center=False, normalized=False):
    length = [] if length is None else [scalar(length)]
    return make("ISTFT-16", x, w, scalar(size), scalar(step), *length, center=center, normalized=normalized)


case(
    "istft/batch",
    [spread(2, 4, 4, 2), WINDOW],
    lambda x, w: [make_istft(x, w, **it) for it in ISTFT],
    lambda x, w: [istft(x, w, **it) for it in ISTFT],
)
case(
    "istft/open_dimensions",
    [spread(4, 4, 2), WINDOW],
    lambda x, w: make_istft(x, w, 6, 4, center=True),
    lambda x, w: istft(x, w, 6, 4, center=True),
    shapes=["4,?,2", None],
    more=[[spread(4, 6, 2), WINDOW]],
)

# --- ExtractImagePatches --------------------------------------------------------------------------


def patches(x, sizes, strides, rates, auto_pad):
    pads = [(0, 0), (0, 0)]
    for axis, dim in enumerate(x.shape[2:]):
        extent = (sizes[axis] - 1) * rates[axis] + 1
        missing = max((-(-dim // strides[axis]) - 1) * strides[axis] + extent - dim, 0)
        less, more = missing // 2, missing - missing // 2
        pads.append({"valid": (0, 0), "same_upper": (less, more), "same_lower": (more, less)}[auto_pad])
    x = np.pad(x, pads)
    ends = [x.shape[2 + axis] - (sizes[axis] - 1) * rates[axis] for axis in (0, 1)]
    return np.concatenate(
        [
            x[:, :, i * rates[0] :, j * rates[1] :][:, :, : ends[0] : strides[0], : ends[1] : strides[1]]
            for i in range(sizes[0])
            for j in range(sizes[1])
        ],
        1,
    )


PATCHES = [
    dict(sizes=[3, 2], strides=[2, 3], rates=[1, 1], auto_pad="valid"),
    dict(sizes=[2, 2], strides=[1, 2], rates=[2, 3], auto_pad="same_upper"),
    dict(sizes=[2, 3], strides=[5, 2], rates=[1, 2], auto_pad="same_lower"),
]
case(
    "extract_image_patches/attributes",
    [offsets(2, 3, 6, 7)],
    ops(*(op("ExtractImagePatches-3", **it) for it in PATCHES)),
    lambda x: [patches(x, **it) for it in PATCHES],
)
OPEN = [PATCHES[0], dict(sizes=[3, 2], strides=[1, 1], rates=[1, 2], auto_pad="same_lower")]
case(
    "extract_image_patches/open_dimensions",
    [offsets(2, 3, 6, 7)],
    ops(*(op("ExtractImagePatches-3", **it) for it in OPEN)),
    lambda x: [patches(x, **it) for it in OPEN],
    shapes=["?,3,?,?"],
    more=[[offsets(1, 3, 5, 8)]],
)

# --- Col2Im ---------------------------------------------------------------------------------------


def col2im(x, image, kernel, strides=(1, 1), dilations=(1, 1), pads_begin=(0, 0), pads_end=(0, 0)):
    if x.ndim == 2:
        return col2im(x[None], image, kernel, strides, dilations, pads_begin, pads_end)[0]
    whole = [a + b + c for a, b, c in zip(image, pads_begin, pads_end)]
    counts = [(dim - d * (k - 1) - 1) // s + 1 for dim, d, k, s in zip(whole, dilations, kernel, strides)]
    x = x.reshape(x.shape[0], -1, *kernel, *counts)
    output = np.zeros((*x.shape[:2], *whole), x.dtype)
    for i, j, y, z in np.ndindex(*kernel, *counts):
        at = y * strides[0] + i * dilations[0], z * strides[1] + j * dilations[1]
        output[:, :, *at] += x[:, :, i, j, y, z]
    (top, left), (height, width) = pads_begin, image
    return output[:, :, top : top + height, left : left + width]


COL2IM = [
    ((2, 18, 9), dict(image=(5, 5), kernel=(3, 3))),
    ((12, 4), dict(image=(4, 6), kernel=(2, 2), strides=(2, 3), dilations=(1, 2))),
    ((1, 6, 12), dict(image=(3, 4), kernel=(3, 2), strides=(1, 2), pads_begin=(1, 2), pads_end=(2, 1))),
]


def make_col2im(x, image, kernel, strides=(1, 1), dilations=(1, 1), pads_begin=(0, 0), pads_end=(0, 0)):
    attributes = dict(strides=strides, dilations=dilations, pads_begin=pads_begin, pads_end=pads_end)
    return make("Col2Im-15", x, axes(*image), axes(*kernel), **{k: list(v) for k, v in attributes.items()})


case(
    "col2im/attributes",
    [spread(*shape) for shape, _ in COL2IM],
    lambda *inputs: [make_col2im(x, **it) for x, (_, it) in zip(inputs, COL2IM)],
    lambda *inputs: [col2im(x, **it) for x, (_, it) in zip(inputs, COL2IM)],
)
case(
    "col2im/open_dimensions",
    [spread(2, 8, 6)],
    lambda x: make_col2im(x, (3, 4), (2, 2)),
    lambda x: col2im(x, (3, 4), (2, 2)),
    shapes=["?,8,?"],
    more=[[spread(1, 8, 6)]],
)
