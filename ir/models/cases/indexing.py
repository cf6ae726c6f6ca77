"""Gather, GatherND, GatherElements, ScatterUpdate, ScatterElementsUpdate, ScatterNDUpdate."""

from framework import *

# --- Gather ---------------------------------------------------------------------------------------

X = offsets(3, 4, 5)
case(
    "gather/revision_1",
    [X, i32([[2, 0], [1, 1]])],
    lambda x, i: [make("Gather-1", x, i, scalar(axis)) for axis in (0, 1, -1)],
    lambda x, i: [np.take(x, i, axis) for axis in (0, 1, -1)],
)
case(
    "gather/revision_1_scalar_index",
    [X, i64(1)],
    ops(op("Gather-1", scalar(1)), op("Gather-1", const(i32([2])))),
    lambda x, i: [x[:, 1], x[..., 1]],
)


def batched(x, indices, axis):
    """Gather with batch_dims = 1."""
    return np.stack([np.take(row, i, axis - 1) for row, i in zip(x, indices)])


case(
    "gather/revision_7",
    [X, i64([[3, 0], [1, 1], [2, 3]])],
    ops(
        op("Gather-7", scalar(1), batch_dims=1),
        op("Gather-7", scalar(-1), batch_dims=-1),
        op("Gather-7", scalar(1), batch_dims=0),
        op("Gather-7", scalar(2), batch_dims=1),
    ),
    lambda x, i: [batched(x, i, 1), batched(x, i, 2), np.take(x, i, 1), batched(x, i, 2)],
)
case(
    "gather/revision_8_negative_indices",
    [X, i64([-1, 0, -3])],
    lambda x, i: [make("Gather-8", x, i, scalar(axis), batch_dims=0) for axis in (0, 1, -1)],
    lambda x, i: [np.take(x, i, axis) for axis in (0, 1, -1)],
)
case(
    "gather/revision_8_batch_dims",
    [X, i32([[-1, 0], [1, -4], [2, 3]])],
    ops(op("Gather-8", scalar(1), batch_dims=1), op("Gather-8", scalar(2), batch_dims=-1)),
    lambda x, i: [batched(x, i, 1), batched(x, i, 2)],
)
case(
    "gather/revision_8_out_of_range",
    [offsets(3, 4) + 1, i32([0, 3, -4, 100, -1])],
    op("Gather-8", scalar(0), batch_dims=0),
    lambda x, i: np.stack([x[it] if -3 <= it < 3 else np.zeros(4, np.float32) for it in i]),
    formula="OpenVINO may read outside the buffer where an index is out of range",
)
case(
    "gather/without_batch_dims",
    [X, i32([1, 0])],
    op("Gather-8", scalar(1), batch_dims=0),
    lambda x, i: x[:, i],
    edit=[attribute("batch_dims", "0", None)],
)
# Under opset4 it is Gather-1, under opset10 Gather-8: of the last a negative index counts from the end.
case(
    "gather/opset4",
    [X, i32([2, 0])],
    op("Gather-1", scalar(1)),
    lambda x, i: x[:, i],
    edit=[opset("Gather", 1, "opset4")],
)
case(
    "gather/opset10",
    [X, i32([-1, 0])],
    op("Gather-8", scalar(1), batch_dims=0),
    lambda x, i: x[:, i],
    edit=[opset("Gather", 8, "opset10")],
)
case(
    "gather/types",
    [boolean([1, 0, 1]), u8([1, 2, 3]), f16([1, 2, 3]), i64([4, 5, 6]), i32([2, 0])],
    lambda *inputs: [make("Gather-8", it, inputs[-1], scalar(0), batch_dims=0) for it in inputs[:-1]],
    lambda *inputs: [it[[2, 0]] for it in inputs[:-1]],
)
case(
    "gather/embedding",
    [i64([[1, 2, 0]])],
    lambda i: make("Gather-8", const(offsets(4, 3)), i, scalar(0), batch_dims=0),
    lambda i: offsets(4, 3)[i],
    shapes=["?,?"],
    more=[[i64([[3, 1], [2, 0]])]],
)
case(
    "gather/open_dimensions",
    [offsets(2, 3), i64([[2, 0], [1, 1]])],
    op("Gather-8", scalar(1), batch_dims=1),
    lambda x, i: np.take_along_axis(x, i, 1),
    shapes=["?,?", "?,2"],
    more=[[offsets(1, 5), i64([[4, -1]])]],
)

# --- GatherND -------------------------------------------------------------------------------------

case(
    "gather_nd/tuples",
    [X, i32([[0, 1], [2, 3]]), i64([[[0], [2]]]), i32([[[1, 2, 3]]])],
    lambda x, i, j, k: [make(kind, x, it, batch_dims=0) for kind in ("GatherND-5", "GatherND-8") for it in (i, j, k)],
    lambda x, i, j, k: [x[[0, 2], [1, 3]], x[[[0, 2]]], f32([[x[1, 2, 3]]])] * 2,
)
case(
    "gather_nd/one_batch_dim",
    [X, i32([[1], [0], [3]])],
    ops(op("GatherND-5", batch_dims=1), op("GatherND-8", batch_dims=1)),
    lambda x, i: [x[np.arange(3), i[:, 0]]] * 2,
)
case(
    "gather_nd/two_batch_dims",
    [offsets(2, 3, 4, 2), i32(np.array([[1, 0, 3], [2, 2, 0]])[..., None])],
    ops(op("GatherND-5", batch_dims=2), op("GatherND-8", batch_dims=2)),
    lambda x, i: [(y := np.take_along_axis(x, i[..., None], 2)[:, :, 0]).reshape(6, 2), y],
)
case(
    "gather_nd/without_batch_dims",
    [X, i32([[0, 1], [2, 3]])],
    op("GatherND-8", batch_dims=0),
    lambda x, i: x[[0, 2], [1, 3]],
    edit=[attribute("batch_dims", "0", None)],
)
case(
    "gather_nd/open_dimensions",
    [X, i32([[0, 1], [2, 3]])],
    op("GatherND-8", batch_dims=0),
    lambda x, i: x[tuple(i.T)],
    shapes=["?,?,5", "?,2"],
    more=[[offsets(2, 2, 5), i32([[1, 0], [0, 1], [1, 1]])]],
)

# --- GatherElements -------------------------------------------------------------------------------


def elements(axis):
    return op("GatherElements-6", axis=axis), lambda x, i: np.take_along_axis(x, i, axis)


case(
    "gather_elements/axes",
    [offsets(3, 4), i32([[2, 0, 1, 1], [0, 2, 2, 0]]), i64([[3, 3], [0, 1], [2, 0]])],
    lambda x, i, j: [
        make("GatherElements-6", x, i, axis=0),
        make("GatherElements-6", x, j, axis=1),
        make("GatherElements-6", x, j, axis=-1),
    ],
    lambda x, i, j: [np.take_along_axis(x, i, 0), *[np.take_along_axis(x, j, 1)] * 2],
)
case("gather_elements/negative_indices", [offsets(3, 4), i64([[-1, 3], [-4, 1], [2, -2]])], *elements(1))
case("gather_elements/axis_between", [offsets(2, 3, 4), spread_ints(-3, 2, 2, 5, 4)], *elements(1))
case(
    "gather_elements/open_dimensions",
    [offsets(3, 4), i64([[3, 3], [0, 1], [2, 0]])],
    *elements(1),
    shapes=["?,?", "?,?"],
    more=[[offsets(1, 2), i64([[1, 0, 1]])]],
)

# --- ScatterUpdate --------------------------------------------------------------------------------


def scatter_update(x, indices, updates, axis):
    output, axis = x.copy(), axis % x.ndim
    for i in np.ndindex(indices.shape):
        which = (slice(None),) * axis
        output[(*which, indices[i])] = updates[(*which, *i)]
    return output


def update(axis):
    return op("ScatterUpdate-3", scalar(axis)), lambda x, i, u: scatter_update(x, i, u, axis)


case(
    "scatter_update/axes",
    [offsets(3, 4), i32([2, 0]), -spread(2, 4), -spread(3, 2)],
    lambda x, i, u, v: [
        make("ScatterUpdate-3", x, i, u, scalar(0)),
        make("ScatterUpdate-3", x, i, v, scalar(1)),
        make("ScatterUpdate-3", x, i, v, const(i32([-1]))),
    ],
    lambda x, i, u, v: [scatter_update(x, i, u, 0), *[scatter_update(x, i, v, 1)] * 2],
)
case("scatter_update/indices_2d", [offsets(4, 3), i64([[3, 0], [1, 2]]), -spread(2, 2, 3)], *update(0))
case("scatter_update/indices_2d_axis_1", [offsets(2, 4), i64([[3, 0], [1, 2]]), -spread(2, 2, 2)], *update(1))
case(
    "scatter_update/scalar_index",
    [offsets(3, 4), i64(1), f32([-1, -2, -3])],
    *update(1),
    formula="the CPU plugin refuses it",
)
case(
    "scatter_update/open_dimensions",
    [offsets(3, 4), i32([2, 0]), -spread(3, 2)],
    *update(1),
    shapes=["?,?", "?", "?,?"],
    more=[[offsets(1, 5), i32([4, 1, 0]), -spread(1, 3)]],
)

# --- ScatterElementsUpdate ------------------------------------------------------------------------

REDUCE = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "sub": np.subtract}


def scatter_elements(x, indices, updates, axis, reduction="none", use_init_val=True):
    output, axis = x.copy(), axis % x.ndim
    gathered = {}
    for i in np.ndindex(indices.shape):
        where = list(i)
        where[axis] = int(indices[i]) % x.shape[axis]
        gathered.setdefault(tuple(where), []).append(updates[i])
    for where, values in gathered.items():
        if reduction == "none":
            output[where] = values[-1]
            continue
        values = [output[where], *values] if use_init_val else values
        if reduction == "mean":
            total = sum(it.item() for it in values)
            output[where] = total / len(values) if x.dtype.kind == "f" else total // len(values)
        else:
            output[where] = REDUCE[reduction].reduce(np.array(values, x.dtype))
    return output


def update_elements(axis, reduction="none", use_init_val=True):
    return (
        op("ScatterElementsUpdate-12", scalar(axis), reduction=reduction, use_init_val=use_init_val),
        lambda x, i, u: scatter_elements(x, i, u, axis, reduction, use_init_val),
    )


E = [offsets(3, 4), i32([[2, 0], [0, 2], [1, 1]]), -spread(3, 2)]
case(
    "scatter_elements_update/revision_3",
    E,
    lambda x, i, u: [make("ScatterElementsUpdate-3", x, i, u, scalar(axis)) for axis in (0, 1, -1)],
    lambda x, i, u: [scatter_elements(x, i, u, axis) for axis in (0, 1, 1)],
)
case(
    "scatter_elements_update/revision_3_axis_1d",
    E,
    op("ScatterElementsUpdate-3", const(i32([1]))),
    lambda x, i, u: scatter_elements(x, i, u, 1),
)
case(
    "scatter_elements_update/negative_indices",
    [offsets(3, 4), i32([[-1, 0], [0, -3], [1, 2]]), -spread(3, 2)],
    *update_elements(1),
)
D = [f32([[1, 2, 3], [4, 5, 6]]), i64([[1, 1, 0], [2, 2, 2]]), f32([[10, -20, 0.5], [7, -9, 8]])]
for name, reductions, init in [
    ("reductions", ("sum", "prod", "min", "max"), True),
    ("without_initial_values", ("sum", "prod", "min", "max"), False),
    ("mean", ("mean",), True),
    ("mean_without_initial_values", ("mean",), False),
]:
    several(f"scatter_elements_update/{name}", D, [update_elements(1, it, init) for it in reductions])
several(
    "scatter_elements_update/integers",
    [i32([[1, 2, 3], [4, 5, 6]]), i64([[1, 1, 0], [2, 2, 2]]), i32([[10, -20, 5], [7, -9, 8]])],
    [update_elements(-1, it) for it in ("sum", "prod", "min", "max")],
)
case(
    "scatter_elements_update/without_attributes",
    E,
    *update_elements(1),
    edit=[attribute("reduction", "none", None), attribute("use_init_val", "true", None)],
)
case(
    "scatter_elements_update/open_dimensions",
    E,
    *update_elements(1, "sum"),
    shapes=["?,?", "?,?", "?,?"],
    more=[[offsets(1, 2), i32([[1, 1, 0]]), f32([[4, 5, 6]])]],
)

# --- ScatterNDUpdate ------------------------------------------------------------------------------


def scatter_nd(x, indices, updates, reduction="none"):
    output = x.copy()
    for i in np.ndindex(indices.shape[:-1]):
        where = tuple(int(it) for it in indices[i])
        output[where] = updates[i] if reduction == "none" else REDUCE[reduction](output[where], updates[i])
    return output


case(
    "scatter_nd_update/elements_and_slices",
    [offsets(3, 4), i32([[0, 1], [2, 3]]), f32([-1, -2]), i64([[2], [0]]), -spread(2, 4)],
    lambda x, i, u, j, v: [make("ScatterNDUpdate-4", x, i, u), make("ScatterNDUpdate-4", x, j, v)],
    lambda x, i, u, j, v: [scatter_nd(x, i, u), scatter_nd(x, j, v)],
)
case(
    "scatter_nd_update/indices_3d",
    [offsets(3, 4), i32([[[0, 1], [2, 3]], [[1, 1], [1, 0]]]), f32([[-1, -2], [-3, -4]])],
    op("ScatterNDUpdate-4"),
    scatter_nd,
)
case(
    "scatter_nd_update/negative_indices",
    [offsets(3, 4), i32([[0, -1], [-3, 0]]), f32([-1, -2])],
    ops(op("ScatterNDUpdate-4"), op("ScatterNDUpdate-15", reduction="none")),
    lambda x, i, u: [scatter_nd(x, i, u)] * 2,
)
REDUCTIONS = [
    (op("ScatterNDUpdate-15", reduction=r), lambda x, i, u, r=r: scatter_nd(x, i, u, r))
    for r in ("sum", "sub", "prod", "min", "max")
]
several(
    "scatter_nd_update/reductions",
    [f32([1, 2, 3, 4, 5]), i64([[1], [3], [1], [0]]), f32([10, -20, 0.5, 7])],
    REDUCTIONS,
)
several(
    "scatter_nd_update/reductions_of_slices",
    [i32([[1, 2], [3, 4], [5, 6]]), i64([[1], [1], [-1]]), i32([[10, -20], [5, 7], [1, 1]])],
    REDUCTIONS,
)
case(
    "scatter_nd_update/differences_of_booleans",
    [boolean([1, 1, 0, 0]), i64([[0], [1], [1], [2], [3]]), boolean([1, 1, 1, 1, 0])],
    op("ScatterNDUpdate-15", reduction="sub"),
    lambda x, i, u: boolean([0, 1, 1, 0]),
)
case(
    "scatter_nd_update/without_reduction",
    [offsets(3, 4), i32([[0, 1], [2, 3]]), f32([-1, -2])],
    op("ScatterNDUpdate-15", reduction="none"),
    scatter_nd,
    edit=[attribute("reduction", "none", None)],
)
case(
    "scatter_nd_update/types",
    [boolean([1, 1, 0]), i64([[1], [2]]), boolean([0, 1]), i64([5, 6, 7]), i64([-1, -2]), f16([1, 2, 3]), f16([4, 5])],
    lambda x, i, u, *more: [
        make("ScatterNDUpdate-4", x, i, u),
        make("ScatterNDUpdate-4", more[0], i, more[1]),
        make("ScatterNDUpdate-4", more[2], i, more[3]),
    ],
    lambda x, i, u, *more: [scatter_nd(x, i, u), scatter_nd(more[0], i, more[1]), scatter_nd(more[2], i, more[3])],
)
case(
    "scatter_nd_update/open_dimensions",
    [offsets(3, 4), i64([[2], [0]]), -spread(2, 4)],
    op("ScatterNDUpdate-4"),
    scatter_nd,
    shapes=["?,?", "?,?", "?,?"],
    more=[[offsets(5, 4), i64([[4], [1], [0]]), -spread(3, 4)]],
)

# --- cases that share a model ----------------------------------------------------------------------

join("gather/revision_1", "revision_1", "revision_1_scalar_index")
join("gather/revision_8", "revision_8_negative_indices", "revision_8_batch_dims", "types")
join("gather_nd/batch_dims", "one_batch_dim", "two_batch_dims")
join("gather_elements/axes", "axes", "negative_indices", "axis_between")
join("scatter_update/axes", "axes", "indices_2d", "indices_2d_axis_1")
join("scatter_elements_update/revision_3", "revision_3", "revision_3_axis_1d", "negative_indices")
join("scatter_nd_update/elements_and_slices", "elements_and_slices", "indices_3d", "types")
join("scatter_nd_update/reductions", "reductions", "reductions_of_slices", "differences_of_booleans")
join("scatter_elements_update/reductions", "reductions", "integers")
