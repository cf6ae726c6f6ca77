"""NV12toRGB, NV12toBGR, I420toRGB, I420toBGR, RGBtoNV12, BGRtoNV12."""

from framework import *


def rgb(y, u, v, blue_first=False):
    """Brightness of shape `[N, H, W, 1]`, colors of `[N, H/2, W/2, 1]`. The order of the f32 operations is that of the
    text, and halves become even."""
    c = y.astype(np.float32)[..., 0] - f32(16)
    d, e = (it[..., 0].astype(np.float32).repeat(2, 1).repeat(2, 2) - f32(128) for it in (u, v))
    c = f32(1.164) * c
    colors = [c + f32(1.596) * e, c - f32(0.391) * d - f32(0.813) * e, c + f32(2.018) * d]
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
case(
    "color_formats/open_dimensions",
    [Y, U, V],
    op("I420toRGB-8"),
    rgb,
    shapes=["?,?,?,?", "?,?,?,?", "?,?,?,?"],
    more=[[Y[:1, :2], U[:1, :1], V[:1, :1]]],
)

# Blue is halfway between integers, mostly, and the lower one is even.
H = np.stack(np.meshgrid(np.arange(256), np.arange(256)), -1).reshape(-1, 2)
BLUE = f32(1.164) * f32(H[:, 0] - 16) + f32(2.018) * f32(H[:, 1] - 128)
H = H[(BLUE % 1 == 0.5) & (BLUE % 2 < 1) & (0 < BLUE) & (BLUE < 255)][:8]
HALVES = u8(H[:, 0]).reshape(1, 1, 8, 1).repeat(2, 1).repeat(2, 2), u8(H[:, 1]).reshape(1, 1, 8, 1)
several(
    "color_formats/halves",
    [*HALVES, u8(np.full((1, 1, 8, 1), 128))],
    [
        (op("I420toRGB-8"), rgb),
        (lambda y, u, v: make("NV12toBGR-8", y, make("Concat-1", u, v, axis=-1)), lambda y, u, v: rgb(y, u, v, True)),
    ],
)


def to_nv12(image, blue_first=False, single_plane=True):
    r, g, b = np.moveaxis(image.astype(np.float32), -1, 0)[:: -1 if blue_first else 1]
    rounded = (lambda x: np.floor(x + f32(0.5))) if image.dtype == np.uint8 else (lambda x: x)
    y = f32(0.257) * r + f32(0.504) * g + f32(0.098) * b + f32(16)
    u = f32(-0.148) * r + f32(-0.291) * g + f32(0.439) * b + f32(128)
    v = f32(0.439) * r + f32(-0.368) * g + f32(-0.071) * b + f32(128)
    y, u, v = (rounded(np.clip(it, 0, 255)) for it in (y, u, v))
    batch, height, width = y.shape
    fours = np.stack([u, v], -1).reshape(batch, height // 2, 2, width // 2, 2, 2)
    colors = rounded(fours.sum((2, 4)) / 4).astype(image.dtype)
    y = y[..., None].astype(image.dtype)
    if single_plane:
        return [np.concatenate([y, colors.reshape(batch, height // 2, width, 1)], 1)]
    return [y, colors]


ABSENT = "the CPU plugin does not have it, and OpenVINO's core has no reference implementation"
RGB = spread_ints(0, 255, 2, 4, 6, 3, dtype=np.uint8)
several(
    "color_formats/to_nv12",
    [RGB],
    [
        (op("RGBtoNV12-17", single_plane=True), to_nv12),
        (op("BGRtoNV12-17", single_plane=True), lambda x: to_nv12(x, True)),
        (op("RGBtoNV12-17", single_plane=False), lambda x: to_nv12(x, single_plane=False)),
        (op("BGRtoNV12-17", single_plane=False), lambda x: to_nv12(x, True, False)),
    ],
    formula=ABSENT,
)
several(
    "color_formats/to_nv12_floats",
    [RGB.astype(np.float32) * f32(1.01), f16(RGB[:1] / 8)],
    [
        (lambda x, y: make("RGBtoNV12-17", x, single_plane=True), lambda x, y: to_nv12(x)),
        (lambda x, y: make("BGRtoNV12-17", y, single_plane=False), lambda x, y: to_nv12(y, True, False)),
    ],
    shapes=["?,4,6,3", "?,4,6,3"],
    formula=ABSENT,
)
# The default is one plane.
case(
    "color_formats/to_nv12_without_single_plane",
    [RGB],
    op("RGBtoNV12-17", single_plane=True),
    to_nv12,
    edit=[attribute("single_plane", "true", None)],
    formula=ABSENT,
)
