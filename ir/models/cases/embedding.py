"""EmbeddingBagOffsets, EmbeddingBagPacked, EmbeddingSegmentsSum, SegmentMax, SparseFillEmptyRows."""

from framework import *

TABLE = f32([[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1, 1.5], [0.8, -0.7]])
INDICES, WEIGHTS = i32([0, 2, 3, 4]), f32([0.5, 2, 1, 0.25])


def bags(table, indices, ranges, default=-1, weights=None, mean=False):
    rows = table[indices] * (1 if weights is None else weights[:, None])
    empty = table[default] if default >= 0 else np.zeros_like(table[0])
    reduce = np.mean if mean else np.sum
    some = [reduce(rows[a:b], 0) if a < b else empty for a, b in ranges]
    return np.stack(some).astype(table.dtype)


def offsets_of(bounds, count=4):
    return list(zip(bounds, [*bounds[1:], count]))


OFFSETS = i32([0, 2, 2])
several(
    "embedding_bag_offsets/revisions",
    [TABLE, INDICES, OFFSETS, WEIGHTS],
    [
        (lambda t, i, o, w: make("EmbeddingBagOffsetsSum-3", t, i, o), lambda t, i, o, w: bags(t, i, offsets_of(o))),
        (
            lambda t, i, o, w: make("EmbeddingBagOffsetsSum-3", t, i, o, const(i32(1)), w),
            lambda t, i, o, w: bags(t, i, offsets_of(o), 1, w),
        ),
        (
            lambda t, i, o, w: make("EmbeddingBagOffsets-15", t, i, o, const(i32(-1)), w, reduction="sum"),
            lambda t, i, o, w: bags(t, i, offsets_of(o), -1, w),
        ),
        (
            lambda t, i, o, w: make("EmbeddingBagOffsets-15", t, i, o, reduction="mean"),
            lambda t, i, o, w: bags(t, i, offsets_of(o), mean=True),
        ),
    ],
)
case(
    "embedding_bag_offsets/open_dimensions",
    [INDICES, OFFSETS],
    lambda i, o: make("EmbeddingBagOffsetsSum-3", const(TABLE), i, o),
    lambda i, o: bags(TABLE, i, offsets_of(o, len(i))),
    shapes=["?", "?"],
    more=[[i32([3, 1]), i32([1])]],
)
PACKED, PACKED_WEIGHTS = i32([[0, 2], [1, 2], [3, 4]]), f32([[0.5, 1], [2, 1], [1, -1]])
several(
    "embedding_bag_packed/revisions",
    [TABLE, PACKED, PACKED_WEIGHTS],
    [
        (lambda t, i, w: make("EmbeddingBagPackedSum-3", t, i), lambda t, i, w: t[i].sum(1)),
        (op("EmbeddingBagPacked-15", reduction="sum"), lambda t, i, w: (t[i] * w[..., None]).sum(1)),
        (lambda t, i, w: make("EmbeddingBagPacked-15", t, i, reduction="mean"), lambda t, i, w: t[i].mean(1)),
    ],
)
SEGMENTS = i32([0, 0, 2, 2])


def ranges_of(segments, count):
    return [(np.searchsorted(segments, it), np.searchsorted(segments, it, "right")) for it in range(count)]


several(
    "embedding_segments_sum/inputs",
    [TABLE, INDICES, SEGMENTS, WEIGHTS],
    [
        (
            lambda t, i, s, w: make("EmbeddingSegmentsSum-3", t, i, s, const(i32(4))),
            lambda t, i, s, w: bags(t, i, ranges_of(s, 4)),
        ),
        (
            lambda t, i, s, w: make("EmbeddingSegmentsSum-3", t, i, s, const(i32(4)), const(i32(1)), w),
            lambda t, i, s, w: bags(t, i, ranges_of(s, 4), 1, w),
        ),
        # A segment that is too large is left out.
        (
            lambda t, i, s, w: make("EmbeddingSegmentsSum-3", t, i, s, const(i32(2))),
            lambda t, i, s, w: bags(t, i, ranges_of(s, 2)),
        ),
    ],
)


def segment_max(x, segments, count, empty):
    some = [x[a:b].max(0) if a < b else np.full_like(x[0], empty) for a, b in ranges_of(segments, count)]
    return np.stack(some)


LOWEST = np.finfo(np.float32).min
several(
    "segment_max/fill_modes",
    [f32([[1, 5], [3, 2], [-9, -8], [-4, -4]]), SEGMENTS],
    [
        (op("SegmentMax-16", const(i32(4)), fill_mode="ZERO"), lambda x, s: segment_max(x, s, 4, 0)),
        (op("SegmentMax-16", const(i32(2)), fill_mode="LOWEST"), lambda x, s: segment_max(x, s, 2, LOWEST)),
        (op("SegmentMax-16", fill_mode="LOWEST"), lambda x, s: segment_max(x, s, 3, LOWEST)),
    ],
)
case(
    "sparse_fill_empty_rows/unsorted",
    [f32([1, 2, 3]), i64([[2, 1], [0, 0], [2, 0]])],
    lambda v, i: make("SparseFillEmptyRows-16", v, axes(4, 6), i, real(9)),
    lambda v, i: [
        i64([[0, 0], [1, 0], [2, 0], [2, 1], [3, 0]]),
        f32([2, 9, 3, 1, 9]),
        boolean([False, True, False, True]),
    ],
)
