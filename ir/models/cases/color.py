"""NV12toRGB, NV12toBGR, I420toRGB, I420toBGR."""

from framework import *


def rgb(y, u, v, blue_first=False):
    """Brightness of shape `[N, H, W, 1]`, colors of `[N, H/2, W/2, 1]`."""
    c = y.astype(np.float64)[..., 0] - 16
    d, e = (it[..., 0].astype(np.float64).repeat(2, 1).repeat(2, 2) - 128 for it in (u, v))
    colors = [1.164 * c + 1.596 * e, 1.164 * c - 0.391 * d - 0.813 * e, 1.164 * c + 2.018 * d]
    output = np.clip(np.stack(colors[::-1] if blue_first else colors, -1), 0, 255)
    return (output if y.dtype.kind == "f" else np.round(output)).astype(y.dtype)


def nv12(image, blue_first=False):
    height = image.shape[1] * 2 // 3
    colors = image[:, height:].reshape(len(image), height // 2, -1, 2)
    return rgb(image[:, :height], colors[..., :1], colors[..., 1:], blue_first)


def i420(image, blue_first=False):
    height = image.shape[1] * 2 // 3
    colors = image[:, height:].reshape(len(image), 2, height // 2, -1, 1)
    return rgb(image[:, :height], colors[:, 0], colors[:, 1], blue_first)


IMAGE = spread_ints(0, 255, 1, 6, 4, 1, dtype=np.uint8)
Y, U, V = (spread_ints(0, 255, 1, *it, 1, seed=1, dtype=np.uint8) for it in [(4, 6), (2, 3), (2, 3)])
V = V[:, ::-1].copy()
several(
    "color_formats/one_plane",
    [IMAGE],
    [
        (op("NV12toRGB-8"), nv12),
        (op("NV12toBGR-8"), lambda x: nv12(x, True)),
        (op("I420toRGB-8"), i420),
        (op("I420toBGR-8"), lambda x: i420(x, True)),
    ],
)
several(
    "color_formats/several_planes",
    [Y, np.concatenate([U, V], -1), U, V],
    [
        (lambda y, uv, u, v: make("NV12toRGB-8", y, uv), lambda y, uv, u, v: rgb(y, u, v)),
        (lambda y, uv, u, v: make("I420toBGR-8", y, u, v), lambda y, uv, u, v: rgb(y, u, v, True)),
    ],
)
case("color_formats/floats", [IMAGE.astype(np.float32)], op("NV12toRGB-8"), nv12)
