"""DeformableConvolution."""

from framework import *


def sample(image, y, x, zeros_around):
    height, width = image.shape
    least = -1 if zeros_around else 0
    if not (least <= y < height and least <= x < width) or (zeros_around and (y == -1 or x == -1)):
        return 0
    top, left = int(np.floor(y)), int(np.floor(x))

    def at(i, j):
        if not zeros_around:
            i, j = min(i, height - 1), min(j, width - 1)
        return image[i, j] if 0 <= i < height and 0 <= j < width else 0

    down, right = y - top, x - left
    rows = [at(i, left) * (1 - right) + at(i, left + 1) * right for i in (top, top + 1)]
    return rows[0] * (1 - down) + rows[1] * down


PARTS = dict(strides=[1, 1], pads=[0, 0], dilations=[1, 1], group=1, deformable_group=1)


def deformable(x, offsets, weights, mask=None, zeros_around=False, **attributes):
    strides, pads, dilations, group, deformable_group = {**PARTS, **attributes}.values()
    outputs, per_group, *kernel = weights.shape
    batch, _, rows, columns = offsets.shape
    output = np.zeros((batch, outputs, rows, columns))
    offsets = offsets.reshape(batch, deformable_group, *kernel, 2, rows, columns)
    mask = np.ones_like(offsets[:, :, :, :, 0]) if mask is None else mask
    mask = mask.reshape(batch, deformable_group, *kernel, rows, columns)
    for n, o, c, i, j, row, column in np.ndindex(batch, *weights.shape, rows, columns):
        channel = o // (outputs // group) * per_group + c
        d = channel // (x.shape[1] // deformable_group)
        dy, dx = offsets[n, d, i, j, :, row, column]
        y = row * strides[0] - pads[0] + i * dilations[0] + dy
        z = column * strides[1] - pads[1] + j * dilations[1] + dx
        value = sample(x[n, channel], y, z, zeros_around) * mask[n, d, i, j, row, column]
        output[n, o, row, column] += value * weights[o, c, i, j]
    return output.astype(np.float32)


def make_deformable(kind, *inputs, auto_pad="explicit", zeros_around=None, **attributes):
    at = {**PARTS, **attributes}
    pads = at.pop("pads")
    more = {} if zeros_around is None else {"bilinear_interpolation_pad": zeros_around}
    return make(kind, *inputs, pads_begin=pads, pads_end=pads, auto_pad=auto_pad, **at, **more)


def small(*shape, seed=0):
    return spread(*shape, seed=seed) / 2


case(
    "deformable_convolution/revision_1",
    [spread(2, 2, 4, 5), small(2, 12, 2, 4, seed=1), const(spread(3, 2, 3, 2, seed=2))],
    lambda x, o, w: make_deformable("DeformableConvolution-1", x, o, w),
    lambda x, o, w: deformable(x, o, w),
)
GROUPS = dict(strides=[2, 1], pads=[1, 1], dilations=[1, 2], group=2, deformable_group=2)
INPUTS = [
    spread(1, 4, 4, 5),
    small(1, 24, 2, 5, seed=1),
    const(spread(4, 2, 3, 2, seed=2)),
    spread(1, 12, 2, 5, seed=3),
]
# Two models: the CPU plugin takes the second of two such nodes for the first.
for name, zeros_around in [("groups_and_factors", False), ("bilinear_interpolation_pad", True)]:
    case(
        f"deformable_convolution/{name}",
        INPUTS,
        lambda *inputs, it=zeros_around: make_deformable("DeformableConvolution-8", *inputs, **GROUPS, zeros_around=it),
        lambda *inputs, it=zeros_around: deformable(*inputs, **GROUPS, zeros_around=it),
    )
case(
    "deformable_convolution/open_dimensions",
    [spread(1, 1, 4, 4), small(1, 8, 4, 4, seed=1)],
    lambda x, o: make_deformable(
        "DeformableConvolution-8", x, o, const(spread(1, 1, 2, 2)), auto_pad="same_lower", zeros_around=True
    ),
    lambda x, o: deformable(x, o, spread(1, 1, 2, 2), pads=[1, 1], zeros_around=True),
    shapes=["?,?,?,?", "?,?,?,?"],
    more=[[spread(2, 1, 3, 5), small(2, 8, 3, 5, seed=1)]],
)
