"""Rows of a table that become one, by bags or by segments, and sparse matrices."""

from framework import *

from . import FLOATS, NUMBERS, operation


def table(draw, types=NUMBERS):
    """A type, and one row or more, each of any shape."""
    type_ = draw.type(types)
    return type_, draw.numbers(type_, draw.integer(1, 5), *draw.shape(draw.choice(0, 1, 1, 2)))


def indices_of(draw, rows, *shape):
    return draw.indices(0, len(rows) - 1, *shape)


def ascending(draw, most, like, count):
    """The numbers of segments, or where bags begin."""
    return np.sort(draw.numpy.integers(0, most, count, endpoint=True)).astype(like.dtype)


def default_and_weights(draw, type_, rows, indices, weighted=True):
    """Inputs that may be absent: the row of a bag without rows, or -1 for zeros, and a weight for each index."""
    index = draw.fed(np.array(draw.integer(-1, len(rows) - 1), indices.dtype))
    more = [index, *([draw.fed(draw.numbers(type_, len(indices)))] if weighted else [])]
    return more[: draw.integer(0, 2)]


def reduction(draw, kind):
    """The attributes, and whether they say mean, of which there are no weights."""
    if not kind.endswith("-15"):
        return {}, False
    attributes = {"reduction": ("sum", "mean")[draw.turn % 2]}
    attributes = attributes if draw.turn % 4 else draw.optional(attributes)
    return attributes, attributes.get("reduction") == "mean"


@operation("EmbeddingBagOffsetsSum-3 EmbeddingBagOffsets-15")
def embedding_bag_offsets(draw, kind):
    attributes, is_mean = reduction(draw, kind)
    type_, rows = table(draw, FLOATS if is_mean else NUMBERS)
    indices = indices_of(draw, rows, draw.size(1))
    # The first bag begins with the first index.
    offsets = ascending(draw, len(indices) - draw.flag(0.9), indices, draw.size(1))
    offsets[0] = 0
    more = default_and_weights(draw, type_, rows, indices, not is_mean)
    return [rows, indices, offsets, *more], op(kind, **attributes)


@operation("EmbeddingBagPackedSum-3 EmbeddingBagPacked-15")
def embedding_bag_packed(draw, kind):
    attributes, is_mean = reduction(draw, kind)
    type_, rows = table(draw, FLOATS if is_mean else NUMBERS)
    indices = indices_of(draw, rows, draw.size(1), draw.size(1))
    weights = [] if is_mean or draw.flag() else [draw.fed(draw.numbers(type_, *indices.shape))]
    return [rows, indices, *weights], op(kind, **attributes)


@operation("EmbeddingSegmentsSum-3")
def embedding_segments_sum(draw, kind):
    type_, rows = table(draw)
    indices = indices_of(draw, rows, draw.size(1))
    most = draw.integer(0, 4)
    # OpenVINO's CPU plugin does not write all rows if the number of a segment is too large.
    count = np.array(most + draw.choice(1, 1, 2), indices.dtype)
    ids = ascending(draw, most, indices, len(indices))
    more = default_and_weights(draw, type_, rows, indices)
    return [rows, indices, ids, draw.fed(count), *more], op(kind)


@operation("SegmentMax-16")
def segment_max(draw, kind):
    fill_mode = draw.choice("ZERO", "LOWEST")
    # OpenVINO's CPU plugin knows the lowest numbers of these types only.
    _, data = table(draw, ["f32", "i32"] if fill_mode == "LOWEST" else NUMBERS)
    most = draw.integer(0, 4)
    ids = ascending(draw, most, draw.indices(0, 0), len(data))
    inputs = [data, ids]
    if draw.flag(0.7):
        inputs.append(draw.fed(np.array(max(0, most + draw.choice(-1, 0, 1, 2)), ids.dtype)))
    return inputs, op(kind, fill_mode=fill_mode)


@operation("SparseFillEmptyRows-16")
def sparse_fill_empty_rows(draw, kind):
    rows, columns = draw.integer(1, 5), draw.integer(1, 5)
    type_ = DTYPES[draw.choice("i32", "i64")]
    # Places in no order, each once. If there are none, OpenVINO's CPU plugin fills nothing.
    places = draw.numpy.permutation(rows * columns)[: draw.size(1)]
    indices = np.stack([places // columns, places % columns], -1).astype(type_)
    values = draw.numbers(draw.type(NUMBERS), len(places) + 1)
    shape = np.array([rows, columns], type_)
    return [values[1:], draw.fed(shape), indices, draw.fed(values[0])], op(kind)
