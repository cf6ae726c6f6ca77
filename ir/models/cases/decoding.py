"""CTCGreedyDecoder, CTCGreedyDecoderSeqLen, GatherTree, SliceScatter, Inverse."""

from itertools import groupby

from framework import *

# --- CTCGreedyDecoder -----------------------------------------------------------------------------


def decoded(data, lengths, merge=True, blank=None):
    """Data are `[batch, steps, classes]`."""
    blank = data.shape[2] - 1 if blank is None else blank
    output, counts = np.full(data.shape[:2], -1), []
    for row, length in enumerate(lengths):
        path = data[row, :length].argmax(1).tolist()
        path = [it for it, _ in groupby(path)] if merge else path
        path = [it for it in path if it != blank]
        output[row, : len(path)] = path
        counts.append(len(path))
    return output, np.array(counts)


STEPS = np.eye(4, dtype=np.float32)[[[0, 1, 1, 3, 1, 3, 1], [2, 2, 3, 3, 2, 0, 0]]] + spread(2, 7, 4) / 16
MASK = f32([[1, 1, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1, 1]])


def ctc(x, mask, merge):
    lengths = [row.tolist().index(0) if 0 in row else len(row) for row in mask.T]
    return decoded(x.swapaxes(0, 1), lengths, merge)[0][..., None, None].astype(np.float32)


case(
    "ctc_greedy_decoder/merge_repeated",
    [STEPS.swapaxes(0, 1), MASK.T],
    lambda x, m: [make("CTCGreedyDecoder-1", x, m, ctc_merge_repeated=it) for it in (True, False)],
    lambda x, m: [ctc(x, m, it) for it in (True, False)],
)
case(
    "ctc_greedy_decoder/open_dimensions",
    [STEPS.swapaxes(0, 1), MASK.T],
    op("CTCGreedyDecoder-1", ctc_merge_repeated=True),
    lambda x, m: ctc(x, m, True),
    shapes=["?,?,4", "?,?"],
    more=[[STEPS[:1, :3].swapaxes(0, 1), f32([[1], [1], [1]])]],
)
several(
    "ctc_greedy_decoder_seq_len/attributes",
    [STEPS, i32([5, 7])],
    [
        (
            op("CTCGreedyDecoderSeqLen-6", merge_repeated=merge),
            lambda x, n, merge=merge: [it.astype(np.int32) for it in decoded(x, n, merge)],
        )
        for merge in (True, False)
    ]
    + [
        (
            op("CTCGreedyDecoderSeqLen-6", const(i32([1])), classes_index_type="i64", sequence_length_type="i64"),
            lambda x, n: [it.astype(np.int64) for it in decoded(x, n, True, 1)],
        )
    ],
)

# --- GatherTree -----------------------------------------------------------------------------------


def gather_tree(steps, parents, lengths, end):
    output = np.full_like(steps, end)
    for row, beam in np.ndindex(*steps.shape[1:]):
        from_ = beam
        for step in range(min(int(lengths[row]), len(steps)))[::-1]:
            output[step, row, beam] = steps[step, row, from_]
            from_ = int(parents[step, row, from_])
        ended = np.flatnonzero(output[:, row, beam] == end)
        if len(ended):
            output[ended[0] :, row, beam] = end
    return output


TREE = [
    [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [3, 2, 1]], [[10, 9, 5], [6, 7, 9]], [[3, 4, 5], [9, 8, 7]]],
    [[[0, 0, 0], [0, 0, 0]], [[0, 1, 1], [2, 1, 0]], [[2, 1, 2], [1, 0, 0]], [[0, 1, 2], [2, 2, 1]]],
]
case(
    "gather_tree/types",
    [*map(i32, TREE), i32([4, 3]), i32(9), *map(f32, TREE), f32([2, 4]), f32(7)],
    lambda *inputs: [make("GatherTree-1", *inputs[:4]), make("GatherTree-1", *inputs[4:])],
    lambda *inputs: [gather_tree(*inputs[:4]), gather_tree(*inputs[4:])],
)
case(
    "gather_tree/open_dimensions",
    [*map(i32, TREE), i32([4, 3])],
    op("GatherTree-1", const(i32(9))),
    lambda s, p, n: gather_tree(s, p, n, 9),
    shapes=["?,?,?", "?,?,?", "?"],
    more=[[i32(TREE[0])[:2, :1], i32(TREE[1])[:2, :1], i32([2])]],
)

# --- SliceScatter ---------------------------------------------------------------------------------


def put(x, updates, *where):
    output = x.copy()
    output[where] = updates
    return output


ALL = slice(None)
several(
    "slice_scatter/slices",
    [offsets(3, 5), -spread(3, 2), -spread(3, 3), -spread(1, 2)],
    [
        (
            lambda x, u, v, w: make("SliceScatter-15", x, u, axes(1), axes(-1), axes(2), axes(1)),
            lambda x, u, v, w: put(x, u, ALL, slice(1, -1, 2)),
        ),
        (
            lambda x, u, v, w: make("SliceScatter-15", x, v, axes(4), axes(-9), axes(-2), axes(-1)),
            lambda x, u, v, w: put(x, v, ALL, slice(4, None, -2)),
        ),
        (
            lambda x, u, v, w: make("SliceScatter-15", x, w, axes(1, 3), axes(2, 99), axes(1, 1)),
            lambda x, u, v, w: put(x, w, slice(1, 2), slice(3, None)),
        ),
        (
            lambda x, u, v, w: make("SliceScatter-15", x, w, axes(3, 1), axes(99, 2), axes(1, 1), axes(1, 0)),
            lambda x, u, v, w: put(x, w, slice(1, 2), slice(3, None)),
        ),
    ],
)
case(
    "slice_scatter/open_dimensions",
    [offsets(3, 5), -spread(3, 4)],
    op("SliceScatter-15", axes(1), axes(2**31 - 1), axes(1), axes(1)),
    lambda x, u: put(x, u, ALL, slice(1, None)),
    shapes=["?,?", "?,?"],
    more=[[offsets(1, 3), -spread(1, 2)]],
)

# --- Inverse --------------------------------------------------------------------------------------

MATRICES = f32([[[2, 1, 0], [1, 3, 1], [0, 1, 4]], [[0, 2, 1], [1, 0, 0], [4, 1, 0]]])
case(
    "inverse/adjoint",
    [MATRICES],
    ops(op("Inverse-14", adjoint=False), op("Inverse-14", adjoint=True)),
    lambda x: [np.linalg.inv(x), np.linalg.inv(x.swapaxes(1, 2))],
)
case(
    "inverse/open_dimensions",
    [MATRICES],
    op("Inverse-14", adjoint=False),
    lambda x: np.linalg.inv(x),
    shapes=["?,?,?"],
    more=[[f32([[[0.5]]])]],
)

# --- CTCLoss --------------------------------------------------------------------------------------


def ctc_loss(logits, lengths, labels, counts, collapse=False, merge=True, unique=False):
    """The sum over all paths that give the labels."""
    losses, blank = [], logits.shape[2] - 1
    for row, (steps, wanted) in enumerate(zip(logits, labels)):
        steps = steps[: lengths[row]].astype(np.float64)
        steps -= np.log(np.exp(steps).sum(1, keepdims=True))
        wanted = wanted[: counts[row]].tolist()
        wanted = [it for it, _ in groupby(wanted)] if collapse else wanted
        wanted = list(dict.fromkeys(wanted)) if unique else wanted
        total = 0
        for path in np.ndindex(*[logits.shape[2]] * len(steps)):
            found = [it for it, _ in groupby(path)] if merge else path
            if [it for it in found if it != blank] == wanted:
                total += np.exp(steps[range(len(steps)), path].sum())
        losses.append(-np.log(total))
    return f32(losses)


several(
    "ctc_loss/attributes",
    [spread(2, 5, 4), i32([5, 4]), i32([[0, 0, 1, 0, 0], [2, 1, 1, 0, 0]]), i32([3, 2])],
    [
        (
            op("CTCLoss-4", preprocess_collapse_repeated=it[0], ctc_merge_repeated=it[1], unique=it[2]),
            lambda *inputs, it=it: ctc_loss(*inputs, *it),
        )
        for it in [(False, True, False), (False, False, False), (True, True, False), (False, False, True)]
    ],
)
