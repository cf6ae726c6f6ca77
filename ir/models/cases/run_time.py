"""Inputs that operations mostly have as constants, and that are only known when the model runs."""

from framework import *

X = spread(2, 3, 4)


def run_time(name, inputs, nodes, *more):
    several(f"values_at_run_time/{name}", inputs, nodes, more=more)


# Another axis in each run. What is subtracted has size 1 there.
def softmax(x, axes_):
    highest = make("ReduceMax-1", x, axes_, keep_dims=True)
    powers = make("Exp-1", make("Subtract-1", x, highest))
    return make("Divide-1", powers, make("ReduceSum-1", powers, axes_, keep_dims=True))


def softmax_formula(x, axis):
    powers = np.exp(x - np.max(x, int(axis[0]), keepdims=True))
    return powers / np.sum(powers, int(axis[0]), keepdims=True)


run_time("axes", [X, i64([1])], [(softmax, softmax_formula)], [X, i64([-1])], [X, i64([0])])

run_time(
    "shapes",
    [X, i64([4, 6]), i32([2, 1, 3])],
    [
        (
            lambda x, shape, repeats: make("Reshape-1", x, shape, special_zero=True),
            lambda x, shape, repeats: x.reshape(-1, shape[1]),
        ),
        (lambda x, shape, repeats: make("Tile-1", x, repeats), lambda x, shape, repeats: np.tile(x, repeats)),
    ],
    [X, i64([-1, 12]), i32([1, 1, 1])],
    [X, i64([0, 12]), i32([1, 0, 1])],
)

run_time(
    "pads",
    [X, i64([0, 1, 2])],
    [(op("Pad-1", axes(0, 0, 0), pad_mode="edge"), lambda x, pads: np.pad(x, [(int(it), 0) for it in pads], "edge"))],
    [X, i64([1, 0, 0])],
)

# --- sizes that only a run knows --------------------------------------------------------------------

# Each is computed from a tensor whose elements nothing else needs.

BOXES = f32([[[0, 0, 1, 1], [0, 0, 1, 1], [0, 2, 1, 3]]])
SCORES = f32([[[0.9, 0.8, 0.7]]])
EACH = f32([[3, 0, 1, 0], [3, 0, 1, 0], [0, 5, 6, 0]])


def unknown_sizes(x, end, k, repeats, shape):
    """Tensors of two or three axes, and the axis whose size only a run knows."""
    boxes = make("NonMaxSuppression-9", const(BOXES), const(SCORES), end, real(0.5))
    return {
        "boxes": (boxes, 0),
        "non_zero": (make("NonZero-3", x, output_type="i64"), 1),
        "slice": (make("Slice-8", x, axes(0), make("Unsqueeze-1", end, axes(0)), axes(1), axes(1)), 1),
        "unique": (make("Unique-10", x, scalar(0), sorted=True), 0),
        "top_k": (make("TopK-11", x, k, axis=1, mode="max", sort="value"), 1),
        "tile": (make("Tile-1", x, repeats), 0),
        "reshape": (make("Reshape-1", x, shape, special_zero=False), 0),
        "broadcast": (make("Broadcast-3", const(f32(7)), shape, mode="numpy"), 1),
        "eye": (make("Eye-9", k, scalar(2), scalar(0), output_type="f32"), 0),
        "deferred": (make("Transpose-1", x, make("Subtract-1", repeats, axes(1, 1))), 0),
    }


def known_sizes(x, end, k, repeats, shape):
    return [
        2 if end > 1 else 1,
        np.count_nonzero(x),
        min(int(end), x.shape[1]),
        len(np.unique(x, axis=0)),
        int(k),
        x.shape[0] * int(repeats[0]),
        int(shape[0]),
        int(shape[1]),
        int(k),
        x.shape[int(repeats[0]) - 1],
    ]


def size(tensor, axis):
    return make("Gather-8", shape_of(tensor), scalar(axis), scalar(0))


def count(tensor, axis):
    return make("Range-4", scalar(0), size(tensor, axis), scalar(1), output_type="i64")


def zeros(tensor, axis):
    return make("Broadcast-3", real(0), shape_of(tensor), mode="numpy")


def size_of_zeros(tensor, axis):
    return size(zeros(tensor, axis), axis)


UNCOMPUTED = (
    "the CPU plugin does not compute a tensor of which only the shape is needed, and gives what was there before"
)
SIZES = [EACH, np.array(2, np.int64), np.array(2, np.int64), i64([2, 1]), i64([3, 4])]
OTHER_SIZES = [EACH[:, ::-1] * 2, np.array(1, np.int64), np.array(3, np.int64), i64([1, 2]), i64([2, 6])]


def sizes(name, build, formula):
    case(
        f"values_at_run_time/{name}",
        SIZES,
        lambda *inputs: [build(*each) for each in unknown_sizes(*inputs).values()],
        lambda *inputs: [formula(each) for each in known_sizes(*inputs)],
        more=[OTHER_SIZES],
        formula=UNCOMPUTED,
    )


sizes("size", size, np.int64)
sizes("range_of_size", count, np.arange)
sizes("size_of_zeros", size_of_zeros, np.int64)


# A layer that is translated when it runs, of such a size.
def tiles_of_size(x, repeats):
    tensor = make("NonZero-3", x, output_type="i64").output(0)
    return [make("Tile-1", make("ShapeOf-3", tensor, output_type=type_), repeats) for type_ in ("i64", "i32")]


case(
    "values_at_run_time/tile_of_size",
    [EACH, i64([2])],
    tiles_of_size,
    lambda x, repeats: [np.tile(np.array([2, np.count_nonzero(x)], dtype), repeats) for dtype in (np.int64, np.int32)],
    more=[[EACH[:, ::-1] - 1, i64([3])]],
    formula=UNCOMPUTED,
)


# Layers that must know a size that only a run knows: a number of channels, and of batches.
def of_selected(x, mask):
    selected = make("Squeeze-1", make("NonZero-3", mask, output_type="i64"), axes(0))
    channels, batches = (make("Gather-8", x, selected, scalar(axis)) for axis in (1, 0))
    return [
        make("DepthToSpace-1", channels, block_size=2, mode="blocks_first"),
        make("BatchToSpace-2", batches, axes(1, 1, 1, 2), axes(0, 0, 0, 1), axes(0, 0, 0, 0)),
    ]


def of_selected_formula(x, mask):
    channels, batches = x[:, mask], x[mask]
    blocks = channels.reshape(len(x), 2, 2, -1, 1, 2).transpose(0, 3, 4, 1, 5, 2)
    pairs = batches.reshape(2, -1, 8, 1, 2).transpose(1, 2, 3, 4, 0)
    return [blocks.reshape(len(x), -1, 2, 4), pairs.reshape(-1, 8, 1, 4)[..., 1:]]


case(
    "values_at_run_time/selected_channels_and_batches",
    [offsets(8, 8, 1, 2), boolean([1, 0, 1, 1, 0, 1, 0, 0])],
    of_selected,
    of_selected_formula,
    more=[[offsets(8, 8, 1, 2), boolean([1] * 8)]],
    formula="the CPU plugin crashes",
    without_reference="it crashes, too",
)


# One axis of a product is 1, and the other one is what a mask leaves.
case(
    "values_at_run_time/product_with_a_mask",
    [spread(2, 3, 1), f32([2, 3]), boolean([False, True])],
    lambda x, y, mask: make(
        "MatMul-1",
        x,
        make("Gather-8", y, make("Squeeze-1", make("NonZero-3", mask, output_type="i64"), axes(0)), scalar(0)),
    ),
    lambda x, y, mask: np.matmul(x, y[mask]),
    shapes=["2,?,1", "?", "?"],
)


# In the body of a loop, too.
def in_loop(*inputs):
    def step(*inputs):
        each = unknown_sizes(*inputs).values()
        found = [size(*it) for it in each]
        found += [make("ReduceSum-1", count(*it), axes(0), keep_dims=False) for it in each]
        found = [make("Unsqueeze-1", it, axes(0)) for it in found]
        return [make("Concat-1", *found, axis=0), const(boolean(True))]

    parameters, results, model = body("body", inputs, step)
    node = loop(model, [-1, 1], scalar(2))
    for parameter, value in zip(parameters, inputs):
        node.set_invariant_input(parameter, value)
    return node.get_concatenated_slices(results[0].output(0), 0, 1, 1, -1, 0)


def in_loop_formula(*inputs):
    found = known_sizes(*inputs)
    return np.int64([*found, *(sum(range(it)) for it in found)] * 2)


case("values_at_run_time/sizes_in_loop", SIZES, in_loop, in_loop_formula, more=[OTHER_SIZES], formula=UNCOMPUTED)
