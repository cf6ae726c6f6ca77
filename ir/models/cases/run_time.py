"""Inputs that operations mostly have as constants, and that are only known when the model runs."""

from framework import *

X = spread(2, 3, 4)


def run_time(name, inputs, nodes, *more):
    several("values_at_run_time", name, inputs, nodes, more=more)


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
    [
        (
            lambda x, pads: make("Pad-1", x, pads, axes(0, 0, 0), pad_mode="edge"),
            lambda x, pads: np.pad(x, [(int(it), 0) for it in pads], "edge"),
        )
    ],
    [X, i64([1, 0, 0])],
)
