"""Operations that move elements, and those of shapes."""

from draws import *
from framework import *


def anything(draw, *shape):
    return draw.numbers(draw.type(ALL), *shape)


def vector(draw, values, constant=0.8):
    """Axes, sizes and the like."""
    return draw.fed(np.array(list(values), draw.choice(np.int64, np.int32)).reshape(-1), constant)


def number(draw, value, constant=0.8):
    return draw.fed(np.array(value, draw.choice(np.int64, np.int32)), constant)


@operation("Transpose-1")
def transpose(draw, kind):
    x = anything(draw, *draw.shape())
    order = list(range(x.ndim))
    draw.random.shuffle(order)
    return [x, vector(draw, [] if draw.flag(0.15) else order)], op(kind)


@operation("Reshape-1")
def reshape(draw, kind):
    shape = draw.shape()
    x = anything(draw, *shape)
    special_zero = draw.flag()
    target, left = [], x.size
    if draw.flag(0.3):
        target = list(draw.subset(shape)) if 0 in shape else list(shape)
        draw.random.shuffle(target)
        target = target if np.prod(target, dtype=int) == x.size else list(shape)
    else:
        # Factors of the number of elements.
        for _ in range(draw.integer(0, 3) if left else 0):
            target.append(draw.choice(*(it for it in range(1, left + 1) if left % it == 0)))
            left //= target[-1]
        target.append(left)
    if 0 not in target and target and draw.flag():
        target[draw.integer(0, len(target) - 1)] = -1
    if special_zero:
        # Sizes that stay may be written as 0.
        target = [
            0 if at < len(shape) and size == shape[at] and draw.flag(0.4) else size for at, size in enumerate(target)
        ]
        # A 0 of its own would be the input's size.
        if x.size == 0:
            target = [0] * len(shape)
    return [x, vector(draw, target)], op(kind, special_zero=special_zero)


@operation("Squeeze-1 Squeeze-15")
def squeeze(draw, kind):
    shape = tuple(1 if draw.flag(0.4) else it for it in draw.shape())
    x = anything(draw, *shape)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    attributes = {}
    if kind == "Squeeze-15":
        attributes = draw.default("allow_axis_skip", draw.flag(0.2), False)
        if attributes.get("allow_axis_skip"):
            ones = list(range(len(shape)))
    axes = [axis - len(shape) if draw.flag(0.3) else axis for axis in draw.subset(ones)]
    draw.random.shuffle(axes)
    if len(axes) == 1 and draw.flag(0.3):
        return [x, number(draw, axes[0], 0.95)], op(kind, **attributes)
    return [x, *([vector(draw, axes, 0.95)] if draw.flag(0.9) else [])], op(kind, **attributes)


@operation("Unsqueeze-1")
def unsqueeze(draw, kind):
    x = anything(draw, *draw.shape())
    count = draw.integer(1, 2)
    axes = draw.random.sample(range(x.ndim + count), count)
    axes = [axis - x.ndim - count if draw.flag(0.3) else axis for axis in axes]
    if count == 1 and draw.flag(0.3):
        return [x, number(draw, axes[0], 0.95)], op(kind)
    return [x, vector(draw, axes, 0.95)], op(kind)


@operation("Concat-1")
def concat(draw, kind):
    shape, type_ = list(draw.shape(draw.integer(1, 4))), draw.type(ALL)
    axis = draw.axis(len(shape))
    inputs = []
    for _ in range(draw.integer(1, 4)):
        shape[axis] = draw.size()
        inputs.append(draw.fed(draw.numbers(type_, *shape), 0.2))
    return inputs, op(kind, axis=axis)


@operation("Split-1")
def split(draw, kind):
    shape = list(draw.shape(draw.integer(1, 4)))
    axis, count = draw.axis(len(shape)), draw.integer(1, 4)
    shape[axis] = count * draw.choice(1, 1, 2, 3)
    return [anything(draw, *shape), number(draw, axis, 0.9)], op(kind, num_splits=count)


@operation("VariadicSplit-1")
def variadic_split(draw, kind):
    shape = list(draw.shape(draw.integer(1, 4)))
    axis = draw.axis(len(shape))
    lengths = [draw.size() for _ in range(draw.integer(1, 4))]
    shape[axis] = sum(lengths)
    if draw.flag(0.4):
        lengths[draw.integer(0, len(lengths) - 1)] = -1
    axis = number(draw, axis, 0.95) if draw.flag() else vector(draw, [axis], 0.95)
    return [anything(draw, *shape), axis, vector(draw, lengths, 0.95)], op(kind)


@operation("Tile-1")
def tile(draw, kind):
    x = anything(draw, *draw.shape())
    count = max(0, x.ndim + draw.choice(-1, 0, 0, 0, 1))
    return [x, vector(draw, (draw.choice(0, 1, 1, 2, 2, 3) for _ in range(count)))], op(kind)


@operation("Broadcast-1 Broadcast-3")
def broadcast(draw, kind):
    target = draw.shape()
    mode = draw.choice("numpy", "explicit", *(["bidirectional"] if kind == "Broadcast-3" else []))
    shape = draw.broadcastable(target)
    # OpenVINO has another default for the older revision.
    attributes = draw.default("mode", mode, "numpy") if kind == "Broadcast-3" else {"mode": mode}
    if mode == "bidirectional":
        # Either of the two may be the smaller one.
        pair = [shape, draw.broadcastable(target)]
        if draw.flag():
            pair = [target, shape]
        shape, target = pair if draw.flag() else pair[::-1]
    elif mode == "explicit":
        axes = draw.subset(range(len(target)))
        shape = tuple(1 if draw.flag(0.2) else target[axis] for axis in axes)
        return [anything(draw, *shape), vector(draw, target), vector(draw, axes, 0.9)], op(kind, **attributes)
    return [anything(draw, *shape), vector(draw, target)], op(kind, **attributes)


# --- slices -------------------------------------------------------------------------------------------


def bound(draw, size):
    return draw.choice(*range(-size - 2, size + 3), 2**31 - 1, -(2**31) + 1)


def step(draw):
    return draw.choice(1, 1, 1, 2, 3, -1, -1, -2)


@operation("StridedSlice-1")
def strided_slice(draw, kind):
    shape = draw.shape(draw.integer(1, 4))
    masks = {name: [] for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")}
    begin, end, strides = [], [], []

    def entry(begins, ends, stride, **set_):
        begin.append(begins)
        end.append(ends)
        strides.append(stride)
        for name, mask in masks.items():
            mask.append(int(set_.get(name, 0)))

    axis, ellipsis_at = 0, draw.integer(0, len(shape)) if draw.flag(0.25) else None
    while axis < draw.integer(axis, len(shape)):
        if axis == ellipsis_at:
            entry(draw.integer(-2, 2), draw.integer(-2, 2), 1, ellipsis=1)
            # The axes that it leaves out.
            axis += draw.integer(0, len(shape) - axis)
            ellipsis_at = None
        elif draw.flag(0.15):
            entry(draw.integer(-2, 2), draw.integer(-2, 2), 1, new_axis=1, begin=draw.flag(0.3))
        elif draw.flag(0.15) and shape[axis]:
            entry(draw.integer(-shape[axis], shape[axis] - 1), 0, 1, shrink_axis=1, end=draw.flag(0.3))
            axis += 1
        else:
            a_begin, an_end = draw.flag(0.3), draw.flag(0.3)
            entry(bound(draw, shape[axis]), bound(draw, shape[axis]), step(draw), begin=a_begin, end=an_end)
            axis += 1
    attributes = {f"{name}_mask": mask for name, mask in masks.items()}
    # Masks may be shorter than the bounds, where they are 0.
    for name in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask"):
        if not any(attributes[name]) and draw.flag(0.7):
            attributes[name] = []
    type_ = draw.choice(np.int32, np.int64)
    bounds = [begin, end] + ([strides] if any(it != 1 for it in strides) or draw.flag() else [])
    bounds = [draw.fed(np.array(it, type_).reshape(-1), 0.85) for it in bounds]
    return [anything(draw, *shape), *bounds], op(kind, **attributes)


def slice_bounds(draw, shape):
    """Bounds of some axes, as inputs, and the shape of the part."""
    axes = draw.axes(len(shape), 1)
    has_axes = draw.flag(0.7)
    axes = axes if has_axes else list(range(len(axes)))
    starts, stops = ([bound(draw, shape[axis]) for axis in axes] for _ in range(2))
    steps = [step(draw) for _ in axes]
    part = list(shape)
    for axis, *bounds in zip(axes, starts, stops, steps):
        part[axis] = len(range(*slice(*bounds).indices(shape[axis])))
    return [starts, stops, steps] + ([axes] if has_axes else []), part


@operation("Slice-8")
def slice_(draw, kind):
    shape = draw.shape(draw.integer(1, 4))
    bounds, _ = slice_bounds(draw, shape)
    type_ = draw.choice(np.int32, np.int64)
    return [anything(draw, *shape), *(draw.fed(np.array(it, type_), 0.8) for it in bounds)], op(kind)


@operation("SliceScatter-15")
def slice_scatter(draw, kind):
    shape, type_ = draw.shape(draw.integer(1, 4)), draw.type(ALL)
    bounds, part = slice_bounds(draw, shape)
    data, updates = draw.numbers(type_, *shape), draw.numbers(type_, *part)
    return [data, draw.fed(updates, 0.3), *(vector(draw, it, 0.85) for it in bounds)], op(kind)


@operation("Pad-1 Pad-12")
def pad(draw, kind):
    mode = draw.choice("constant", "edge", "reflect", "symmetric")
    shape = draw.shape(least=0 if mode == "constant" else 1)
    limits = [{"reflect": size - 1, "symmetric": size}.get(mode, 3) for size in shape]
    type_ = draw.type(ALL)
    pads = [[draw.integer(0, limit) if draw.flag(0.7) else 0 for limit in limits] for _ in range(2)]
    if kind == "Pad-12" and draw.flag():
        for at, size in enumerate(shape):
            if size > 1 and draw.flag():
                draw.choice(*pads)[at] = -draw.integer(1, size - 1)
    value = [draw.fed(draw.numbers(type_))] if mode == "constant" and draw.flag(0.7) else []
    pads = [vector(draw, it, 0.85) for it in pads]
    return [draw.numbers(type_, *shape), *pads, *value], op(kind, pad_mode=mode)


# --- order --------------------------------------------------------------------------------------------


@operation("Reverse-1")
def reverse(draw, kind):
    x = anything(draw, *draw.shape(draw.integer(1, 4)))
    if draw.flag():
        return [x, vector(draw, draw.axes(x.ndim))], op(kind, mode="index")
    return [x, draw.fed(draw.numbers("boolean", x.ndim), 0.9)], op(kind, mode="mask")


@operation("ReverseSequence-1")
def reverse_sequence(draw, kind):
    x = anything(draw, *draw.shape(draw.integer(2, 4), least=1))
    batch, sequence = (it - x.ndim if draw.flag(0.2) else it for it in draw.random.sample(range(x.ndim), 2))
    lengths = draw.indices(1, x.shape[sequence], x.shape[batch])
    lengths = lengths.astype("f4") if draw.flag(0.2) else lengths
    axes = draw.default("batch_axis", batch, 0) | draw.default("seq_axis", sequence, 1)
    return [x, draw.fed(lengths, 0.4)], op(kind, **axes)


@operation("Roll-7")
def roll(draw, kind):
    x = anything(draw, *draw.shape(draw.integer(1, 4)))
    # The same axis may be there more than once.
    axes = [draw.axis(x.ndim) for _ in range(draw.integer(1, 3))]
    if draw.flag(0.3):
        return [x, number(draw, draw.integer(-7, 7), 0.7), vector(draw, axes)], op(kind)
    return [x, vector(draw, (draw.integer(-7, 7) for _ in axes), 0.7), vector(draw, axes)], op(kind)


# --- blocks -------------------------------------------------------------------------------------------


@operation("DepthToSpace-1 SpaceToDepth-1")
def depth_and_space(draw, kind):
    spatial, block = draw.integer(1, 3), draw.choice(1, 2, 2, 3)
    batch, depth, sizes = draw.size(), draw.choice(1, 2, 3), [draw.choice(1, 2, 3) for _ in range(spatial)]
    if kind == "DepthToSpace-1":
        shape = [batch, depth * block**spatial, *sizes]
    else:
        shape = [batch, depth, *(block * it for it in sizes)]
    attributes = {"mode": draw.choice("blocks_first", "depth_first"), "block_size": block}
    return [anything(draw, *shape)], op(kind, **attributes)


@operation("BatchToSpace-2 SpaceToBatch-2")
def batch_and_space(draw, kind):
    rank = draw.integer(3, 5)
    blocks = [1] + [draw.choice(1, 1, 2, 3) for _ in range(rank - 1)]
    shape, begin, end = [draw.integer(1, 2)], [0], [0]
    for block in blocks[1:]:
        before, after = draw.integer(0, 2), draw.integer(0, 2)
        size = block * draw.integer(1, 3)
        if kind == "SpaceToBatch-2":
            # The whole with its pads is in blocks.
            while size <= before + after:
                size += block
            shape.append(size - before - after)
        else:
            while size <= before + after:
                size += block
            shape.append(size // block)
        begin.append(before)
        end.append(after)
    if kind == "BatchToSpace-2":
        shape[0] *= int(np.prod(blocks))
    type_ = draw.choice(np.int64, np.int32)
    more = [draw.fed(np.array(it, type_), 0.9) for it in (blocks, begin, end)]
    return [anything(draw, *shape), *more], op(kind)


@operation("ShuffleChannels-1")
def shuffle_channels(draw, kind):
    shape = list(draw.shape(draw.integer(2, 4)))
    axis, group = draw.choice(1, 1, draw.axis(len(shape))), draw.choice(1, 2, 3)
    shape[axis] = group * draw.choice(1, 2, 3)
    attributes = draw.default("axis", axis, 1) | draw.default("group", group, 1)
    return [anything(draw, *shape)], op(kind, **attributes)


# --- patches ------------------------------------------------------------------------------------------


PATCHES = [("sizes", 4), ("strides", 6), ("rates", 3)]


@operation("ExtractImagePatches-3")
def extract_image_patches(draw, kind):
    shape = draw.size(1), draw.size(1), draw.integer(3, 9), draw.integer(3, 9)
    pairs = {name: [draw.integer(1, most) for _ in range(2)] for name, most in PATCHES}
    auto_pad = draw.choice("valid", "same_upper", "same_lower")
    if auto_pad == "valid":
        extents = ((size - 1) * rate + 1 for size, rate in zip(pairs["sizes"], pairs["rates"]))
        shape = *shape[:2], *(max(pair) for pair in zip(shape[2:], extents))
    return [anything(draw, *shape)], op(kind, **pairs, auto_pad=auto_pad)


@operation("Col2Im-15")
def col2im(draw, kind):
    kernel, strides, dilations = ([draw.choice(1, 1, 2, 2, 3) for _ in range(2)] for _ in range(3))
    begin, end = ([draw.choice(0, 0, 1, 2) for _ in range(2)] for _ in range(2))
    image = [
        max(1, d * (k - 1) + 1 - b - e) + draw.integer(0, 4) for k, d, b, e in zip(kernel, dilations, begin, end)
    ]
    columns = 1
    for size, b, e, k, d, s in zip(image, begin, end, kernel, dilations, strides):
        columns *= (size + b + e - d * (k - 1) - 1) // s + 1
    batch = [draw.size(1)] if draw.flag(0.7) else []
    x = draw.numbers(draw.type(NUMBERS), *batch, draw.integer(1, 3) * kernel[0] * kernel[1], columns)
    # OpenVINO crashes where one is left out.
    attributes = {"strides": strides, "dilations": dilations, "pads_begin": begin, "pads_end": end}
    type_ = draw.choice(np.int64, np.int32)
    sizes = [draw.fed(np.array(it, type_), 0.85) for it in (image, kernel)]
    return [x, *sizes], op(kind, **attributes)


# --- shapes -------------------------------------------------------------------------------------------


@operation("ShapeOf-1 ShapeOf-3")
def shape_of(draw, kind):
    output = {"output_type": draw.choice("i32", "i64")} if kind == "ShapeOf-3" else {}
    return [anything(draw, *draw.shape())], op(kind, **output)


@operation("Identity-16")
def identity(draw, kind):
    return [anything(draw, *draw.shape())], op(kind)
