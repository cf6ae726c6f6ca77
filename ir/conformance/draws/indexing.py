"""Operations that read and write at indices, or give them."""

from draws import *
from draws.movement import anything, number, vector
from framework import *


def index_type(draw):
    return draw.choice("i32", "i32", "i64")


def scalar_or_vector(draw, value, constant=0.8):
    return number(draw, value, constant) if draw.flag() else vector(draw, [value], constant)


# --- gather -------------------------------------------------------------------------------------------


@operation("Gather-1 Gather-7 Gather-8")
def gather(draw, kind):
    shape = draw.shape(draw.integer(1, 4))
    has_batch = kind != "Gather-1" and len(shape) > 1 and draw.turn % 2
    axis = draw.integer(1 if has_batch else 0, len(shape) - 1)
    batch_dims = draw.integer(1, axis) if has_batch else 0
    size = shape[axis]
    low, high = 0, size - 1
    if kind == "Gather-8" and draw.flag(0.4):
        # What is outside is 0.
        low, high = (-size, size - 1) if draw.flag() and size else (-size - 2, size + 2)
    more = draw.shape(draw.choice(0, 1, 1, 2)) if high >= low else (0,)
    indices = draw.indices(low, max(low, high), *shape[:batch_dims], *more, types=(index_type(draw),))
    attributes = {}
    if kind != "Gather-1":
        given = batch_dims
        if batch_dims and draw.flag(0.3):
            # Counted from the end of the indices.
            given -= indices.ndim
        attributes = draw.default("batch_dims", given, 0)
    axis = axis - len(shape) if draw.flag(0.3) else axis
    return [anything(draw, *shape), draw.fed(indices, 0.4), scalar_or_vector(draw, axis, 0.9)], op(kind, **attributes)


@operation("GatherElements-6")
def gather_elements(draw, kind):
    shape = draw.shape(draw.integer(1, 4), least=1)
    axis = draw.axis(len(shape))
    count = list(shape)
    count[axis] = draw.size()
    size = shape[axis]
    indices = draw.indices(-size if draw.flag(0.3) else 0, size - 1, *count, types=(index_type(draw),))
    return [anything(draw, *shape), draw.fed(indices, 0.4)], op(kind, axis=axis)


def tuples(draw, shape, batch_dims, count, *before):
    """Indices of some axes after those of the batch."""
    columns = [draw.numpy.integers(0, shape[batch_dims + it], before) for it in range(count)]
    return np.stack(columns, -1) if columns else np.zeros((*before, 0))


@operation("GatherND-5 GatherND-8")
def gather_nd(draw, kind):
    shape = draw.shape(draw.integer(1, 4), least=1)
    batch_dims = draw.integer(0, len(shape) - 1) if draw.flag(0.4) else 0
    count = draw.integer(1, len(shape) - batch_dims)
    more = draw.shape(draw.choice(0, 1, 1, 2))
    indices = tuples(draw, shape, batch_dims, count, *shape[:batch_dims], *more).astype(DTYPES[index_type(draw)])
    return [anything(draw, *shape), draw.fed(indices, 0.8)], op(kind, **draw.default("batch_dims", batch_dims, 0))


# --- scatter ------------------------------------------------------------------------------------------


def updates_of(draw, data, shape):
    type_ = next(it for it, dtype in DTYPES.items() if dtype == data.dtype)
    return draw.fed(draw.numbers(type_, *shape), 0.3)


@operation("ScatterUpdate-3")
def scatter_update(draw, kind):
    data = anything(draw, *draw.shape(draw.integer(1, 4), least=1))
    axis = draw.integer(0, data.ndim - 1)
    # Each position once: which update is the last is not said.
    count = draw.integer(0 if draw.flag(0.2) else 1, data.shape[axis])
    indices = draw.numpy.permutation(data.shape[axis])[:count].astype(DTYPES[index_type(draw)])
    indices = indices.reshape(draw.choice((count,), (1, count), (count, 1), () if count == 1 else (count,)))
    updates = updates_of(draw, data, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))
    axis = axis - data.ndim if draw.flag(0.2) else axis
    return [data, draw.fed(indices, 0.4), updates, scalar_or_vector(draw, axis, 0.9)], op(kind)


@operation("ScatterElementsUpdate-3 ScatterElementsUpdate-12")
def scatter_elements_update(draw, kind):
    data = anything(draw, *draw.shape(draw.integer(1, 4), least=1))
    axis = draw.axis(data.ndim)
    shape = [draw.integer(0 if draw.flag(0.1) else 1, size) for size in data.shape]
    attributes = {}
    if kind == "ScatterElementsUpdate-12":
        attributes = draw.default("reduction", draw.choice("none", "sum", "prod", "min", "max", "mean"), "none")
        attributes |= draw.default("use_init_val", draw.flag(), True)
    size = data.shape[axis]
    if attributes.get("reduction", "none") == "none":
        # Each position once: which update is the last is not said.
        places = [*shape]
        places[axis] = size
        indices = np.take(np.argsort(draw.numpy.random(places), axis), range(shape[axis]), axis)
    else:
        shape[axis] = draw.integer(1, size + 2)
        indices = draw.numpy.integers(0, size, shape)
    if draw.flag(0.3):
        indices = np.where(draw.numpy.random(shape) < 0.5, indices, indices - size)
    indices = indices.astype(DTYPES[index_type(draw)])
    inputs = [data, draw.fed(indices, 0.4), updates_of(draw, data, shape), scalar_or_vector(draw, axis, 0.95)]
    return inputs, op(kind, **attributes)


@operation("ScatterNDUpdate-4 ScatterNDUpdate-15")
def scatter_nd_update(draw, kind):
    data = anything(draw, *draw.shape(draw.integer(1, 4), least=1))
    count = draw.integer(1, data.ndim)
    attributes = {}
    if kind == "ScatterNDUpdate-15":
        attributes = draw.default("reduction", draw.choice("none", "sum", "sub", "prod", "min", "max"), "none")
    before = draw.shape(draw.choice(0, 1, 1, 2))
    if attributes.get("reduction", "none") == "none":
        # Each tuple once.
        whole = int(np.prod(data.shape[:count]))
        some = draw.numpy.permutation(whole)[: draw.integer(1, whole)]
        indices = np.stack(np.unravel_index(some, data.shape[:count]), -1)
    else:
        indices = tuples(draw, data.shape, 0, count, *before)
    if draw.flag(0.2):
        indices = np.where(draw.numpy.random(indices.shape) < 0.5, indices, indices - data.shape[:count])
    indices = indices.astype(DTYPES[index_type(draw)])
    updates = updates_of(draw, data, (*indices.shape[:-1], *data.shape[count:]))
    return [data, draw.fed(indices, 0.4), updates], op(kind, **attributes)


# --- indices and sums ---------------------------------------------------------------------------------


def distinct(draw, type_, shape):
    """Numbers that differ within the type."""
    dtype = DTYPES[type_]
    size = int(np.prod(shape, dtype=int))
    start = 0 if dtype.kind == "u" else -(size // 2)
    return (draw.numpy.permutation(size) + start).reshape(shape).astype(dtype)


@operation("TopK-1 TopK-3 TopK-11")
def top_k(draw, kind):
    shape = tuple(draw.size() if draw.flag(0.3) else draw.size(1) for _ in range(draw.integer(1, 3)))
    axis, type_ = draw.axis(len(shape)), draw.type(NUMBERS)
    size = shape[axis]
    k = draw.integer(0, size) if draw.flag(0.2) else min(size, draw.integer(1, max(1, size)))
    stable = kind == "TopK-11" and draw.flag()
    # Which of equal numbers comes first is only said where it is stable.
    x = draw.numbers(type_, *shape, low=-1, high=1) if stable else distinct(draw, type_, shape)
    sort = draw.choice("value", "index") if stable or k > 1 else draw.choice("value", "index", "none")
    attributes = {"axis": axis, "mode": draw.choice("max", "min"), "sort": sort}
    if kind != "TopK-1":
        attributes |= draw.default("index_element_type", draw.choice("i32", "i64"), "i32")
    if kind == "TopK-11":
        attributes |= draw.default("stable", stable, False)
    return [x, number(draw, k)], op(kind, **attributes)


@operation("CumSum-3")
def cum_sum(draw, kind):
    x = draw.numbers(draw.type(NUMBERS), *draw.shape(draw.integer(1, 4)))
    attributes = draw.default("exclusive", draw.turn % 2 > 0, False)
    attributes |= draw.default("reverse", draw.turn // 2 % 2 > 0, False)
    axis = draw.axis(x.ndim)
    return [x, number(draw, axis)], op(kind, **attributes)


@operation("NonZero-3")
def non_zero(draw, kind):
    x = draw.numbers(draw.type(ALL), *draw.shape(), low=-1, high=1)
    x = np.where(draw.numpy.random(x.shape) < draw.choice(0, 0.5, 1), np.zeros((), x.dtype), x)
    return [x], op(kind, **draw.default("output_type", draw.choice("i32", "i64"), "i64"))


@operation("OneHot-1 OneHot-16")
def one_hot(draw, kind):
    depth = draw.integer(1, 5)
    shape = draw.shape(draw.choice(0, 1, 2, 3))
    # What is out of range is nowhere.
    indices = draw.indices(-depth - 1 if draw.flag(0.3) else 0, depth - 1 + draw.choice(0, 0, 2), *shape)
    axis = draw.integer(-len(shape) - 1, len(shape))
    attributes = {"axis": axis}
    if kind == "OneHot-16":
        modes = draw.choice("ignore_negative", "normalize")
        attributes |= draw.default("negative_indices_mode", modes, "ignore_negative")
    type_ = draw.type(ALL)
    values = [draw.fed(draw.numbers(type_)) for _ in range(2)]
    return [draw.fed(indices, 0.2), number(draw, depth, 0.9), *values], op(kind, **attributes)
