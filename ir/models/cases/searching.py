"""Unique, Bucketize, SearchSorted, Eye, RandomUniform, Multinomial."""

from framework import *

# --- Unique ---------------------------------------------------------------------------------------


def unique(x, axis=None, sorted=True):
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.ravel()
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [values, *(it.astype(np.int64) for it in (first, inverse, counts))]


M = i32([[2, 1, 2, 2], [1, 1, 1, 1], [2, 1, 2, 2], [0, 5, 0, 2]])
several(
    "unique/elements_and_slices",
    [M],
    [
        (
            op("Unique-10", *([] if axis is None else [scalar(axis)]), sorted=sorted),
            lambda x, axis=axis, sorted=sorted: unique(x, axis, sorted),
        )
        # The CPU plugin puts the slices along a last axis into the wrong places if they are sorted.
        for axis, sorted in [(None, True), (None, False), (0, True), (-2, False), (1, False)]
    ],
)
case(
    "unique/sorted_slices",
    [M],
    op("Unique-10", const(i64([-1])), sorted=True),
    lambda x: unique(x, 1),
    formula="the CPU plugin does not put the slices along the axis",
)
case(
    "unique/types",
    [f32([[1.5, -2], [1.5, 3]])],
    op("Unique-10", index_element_type="i32", count_element_type="i32"),
    lambda x: [a.astype(t) for a, t in zip(unique(x), ("f4", "i4", "i4", "i4"))],
    shapes=["?,?"],
    more=[[f32([[7]])]],
)

# --- Bucketize, SearchSorted ----------------------------------------------------------------------

BOUNDS, VALUES = f32([1, 2, 2, 4]), f32([[0, 1, 1.5, 2], [3, 4, 5, -np.inf]])
case(
    "bucketize/bounds",
    [VALUES, BOUNDS],
    ops(
        op("Bucketize-3", with_right_bound=True, output_type="i64"),
        op("Bucketize-3", with_right_bound=False, output_type="i32"),
    ),
    lambda x, b: [np.searchsorted(b, x, "left").astype(np.int64), np.searchsorted(b, x, "right").astype(np.int32)],
)


def search_rows(sorted, values, side):
    return np.stack([np.searchsorted(s, v, side) for s, v in zip(sorted, values)]).astype(np.int64)


SORTED = i32([[1, 3, 3], [2, 5, 9]])
case(
    "search_sorted/modes",
    [BOUNDS, VALUES, SORTED, i32([[3, 0, 4, 1], [1, 9, 5, 2]])],
    lambda b, x, s, v: [
        make("SearchSorted-15", b, x, right_mode=False),
        make("SearchSorted-15", b, x, right_mode=True, output_type="i32"),
        make("SearchSorted-15", s, v, right_mode=False),
        make("SearchSorted-15", s, v, right_mode=True),
    ],
    lambda b, x, s, v: [
        np.searchsorted(b, x, "left").astype(np.int64),
        np.searchsorted(b, x, "right").astype(np.int32),
        search_rows(s, v, "left"),
        search_rows(s, v, "right"),
    ],
)
case(
    "search_sorted/open_dimensions",
    [SORTED, i32([[3, 0, 4, 1], [1, 9, 5, 2]])],
    op("SearchSorted-15", right_mode=True),
    lambda s, v: search_rows(s, v, "right"),
    shapes=["?,?", "?,?"],
    more=[[i32([[1, 2]]), i32([[1], [3]])[:1]]],
)

# --- Eye, RandomUniform ---------------------------------------------------------------------------

case(
    "eye/diagonals",
    [i64(0), i32([-1])],
    lambda d, e: [
        make("Eye-9", scalar(2), scalar(3), d, axes(2, 1), output_type="f32"),
        make("Eye-9", axes(3), axes(2), e, output_type="u8"),
        make("Eye-9", scalar(3), scalar(3), const(i64(1)), output_type="i64"),
    ],
    lambda d, e: [
        np.broadcast_to(np.eye(2, 3, int(d), np.float32), (2, 1, 2, 3)),
        np.eye(3, 2, int(e[0]), np.uint8),
        np.eye(3, 3, 1, np.int64),
    ],
)


def eye_like(x):
    rows = make("Gather-8", shape_of(x), scalar(0), scalar(0), batch_dims=0)
    return make("Eye-9", rows, rows, const(i64(0)), output_type="f32")


case(
    "eye/open_dimensions",
    [offsets(3, 2)],
    eye_like,
    lambda x: np.eye(x.shape[0], dtype=np.float32),
    shapes=["?,?"],
    more=[[offsets(2, 2)]],
)
# Another run goes on with the sequence.
case(
    "random_uniform/seeds",
    [f32(-1), i32([50])],
    lambda low, least: [
        make("RandomUniform-8", axes(3, 3), low, real(2), output_type="f32", global_seed=150, op_seed=10),
        make("RandomUniform-8", axes(2, 3), least, const(i32([100])), output_type="i32", global_seed=80, op_seed=100),
        make("RandomUniform-8", axes(0, 3), low, real(2), output_type="f32", global_seed=1, op_seed=0),
    ],
)
# Where only one class can come.
case(
    "multinomial/certain",
    [f32([[0, 2, 0], [0, 0, 0.5]])],
    ops(
        op("Multinomial-13", const(i32(3)), convert_type="i32", with_replacement=True, log_probs=False),
        op("Multinomial-13", const(i64([1])), convert_type="i64", with_replacement=False, log_probs=False),
    ),
    lambda x: [i32([[1, 1, 1], [2, 2, 2]]), i64([[1], [2]])],
    shapes=["?,3"],
)
case(
    "multinomial/logarithms",
    [f32([[-np.inf, 3, -np.inf]])],
    ops(
        op("Multinomial-13", const(i32(2)), convert_type="i32", with_replacement=True, log_probs=True),
        op("Multinomial-13", const(i32(1)), convert_type="i32", with_replacement=False, log_probs=True),
    ),
    lambda x: [i32([[1, 1]]), i32([[1]])],
)
