"""MatMul, GroupedMatMul, Einsum, ScaledDotProductAttention."""

from framework import *

# --- MatMul ---------------------------------------------------------------------------------------


def t(x):
    return x.swapaxes(-1, -2) if x.ndim > 1 else x


def product(a=False, b=False):
    return op("MatMul-1", transpose_a=a, transpose_b=b), lambda x, y: np.matmul(t(x) if a else x, t(y) if b else y)


def matmul(name, x, y, *flags, **more):
    several(f"matmul/{name}", [x, y], [product(*it) for it in flags or [(False, False)]], **more)


matmul("rank_2", spread(2, 3), spread(3, 4, seed=1))
matmul("rank_2_transposes", spread(3, 3), spread(3, 3, seed=1), *((a, b) for a in (False, True) for b in (False, True)))
matmul("transpose_a", spread(3, 2), spread(3, 4, seed=1), (True, False))
matmul("transpose_b", spread(2, 3), spread(4, 3, seed=1), (False, True))
matmul("transpose_both", spread(3, 2), spread(4, 3, seed=1), (True, True))
matmul("rank_1_by_1", spread(3), spread(3, seed=1))
matmul(
    "rank_1_by_1_transposes",
    spread(3),
    spread(3, seed=1),
    (True, False),
    (False, True),
    (True, True),
    formula="a transposed vector is the vector; the CPU plugin refuses some",
)
matmul("rank_1_by_2", spread(3), spread(3, 4, seed=1), (False, False), (True, False))
matmul("rank_2_by_1", spread(2, 3), spread(3, seed=1), (False, False), (False, True))
matmul("rank_1_by_3", spread(3), spread(2, 3, 4, seed=1))
matmul("rank_3_by_1", spread(2, 4, 3), spread(3, seed=1))
matmul("rank_3_by_2", spread(2, 4, 3), spread(3, 2, seed=1))
matmul("rank_2_by_3", spread(4, 3), spread(2, 3, 2, seed=1))
matmul("rank_4_broadcast", spread(2, 1, 2, 3), spread(1, 3, 3, 2, seed=1))
matmul("rank_4_by_3_transposes", spread(2, 2, 3, 2), spread(2, 2, 3, seed=1), (True, True))
matmul("f16", f16(spread(2, 3)), f16(spread(3, 2, seed=1)))
matmul("inner_1", spread(2, 1), spread(1, 3, seed=1))
matmul(
    "open_dimensions",
    spread(2, 4, 3),
    spread(2, 3, 2, seed=1),
    shapes=["?,?,3", "?,3,?"],
    more=[[spread(1, 2, 3), spread(1, 3, 5)]],
)
matmul(
    "open_inner_dimension",
    spread(2, 3),
    spread(3, 2, seed=1),
    shapes=["?,?", "?,2"],
    more=[[spread(1, 5), spread(5, 2)]],
)
W = spread(4, 3, seed=2)
several(
    "matmul/linear",
    [spread(2, 5, 3)],
    [
        (
            lambda x: make(
                "Add-1",
                make("MatMul-1", x, const(W), transpose_a=False, transpose_b=True),
                const(f32([[[1, 2, 3, 4]]])),
            ),
            lambda x: x @ W.T + f32([1, 2, 3, 4]),
        ),
        (lambda x: make("MatMul-1", const(W), x, transpose_a=False, transpose_b=True), lambda x: W @ x.swapaxes(1, 2)),
    ],
    shapes=["?,?,3"],
    more=[[spread(1, 2, 3)]],
)
matmul(
    "without_transposes",
    spread(2, 3),
    spread(3, 4, seed=1),
    edit=[attribute("transpose_a", "false", None), attribute("transpose_b", "false", None)],
)
matmul(
    "spelling",
    spread(3, 2),
    spread(4, 3, seed=1),
    (True, True),
    edit=[attribute("transpose_a", "true", "1"), attribute("transpose_b", "true", "TRUE")],
)

# --- GroupedMatMul --------------------------------------------------------------------------------


def grouped(x, matrices, ends=None):
    if x.ndim == 3:
        return (x.astype(np.float64) @ t(matrices).astype(np.float64)).astype(x.dtype)
    output, start = np.zeros((len(x), matrices.shape[1])), 0
    for matrix, end in zip(matrices, ends):
        output[start:end] = x[start:end].astype(np.float64) @ matrix.T.astype(np.float64)
        start = end
    return output.astype(x.dtype)


MATRICES = spread(3, 5, 8, seed=2)
CONSTANT = "the CPU plugin has it with constant matrices only, and OpenVINO's core has no reference implementation"
case(
    "grouped_matmul/batches",
    [spread(3, 2, 8), const(MATRICES)],
    op("GroupedMatMul-17"),
    grouped,
    shapes=["3,?,8"],
    more=[[spread(3, 1, 8, seed=1)], [spread(3, 0, 8)]],
)
case(
    "grouped_matmul/batches_of_inputs",
    [spread(2, 3, 4), spread(2, 5, 4, seed=1)],
    op("GroupedMatMul-17"),
    grouped,
    shapes=["?,?,?", "?,?,?"],
    more=[[spread(3, 1, 2), spread(3, 2, 2, seed=1)]],
    formula=CONSTANT,
)
# Some groups are small, some are not, and some are empty.
case(
    "grouped_matmul/groups",
    [spread(9, 8), const(MATRICES), i32([1, 3, 9])],
    op("GroupedMatMul-17"),
    grouped,
    shapes=["?,8", "3"],
    more=[
        [spread(6, 8, seed=1), i32([0, 6, 6])],
        [spread(1, 8, seed=2), i32([0, 0, 1])],
        [spread(7, 8, seed=3), i32([5, 6, 7])],
    ],
)
case(
    "grouped_matmul/half",
    [spread(5, 4, dtype=np.float16), const(spread(2, 3, 4, seed=1, dtype=np.float16)), i64([2, 5])],
    op("GroupedMatMul-17"),
    grouped,
)
case(
    "grouped_matmul/rows_after_the_last_group",
    [spread(5, 4), spread(2, 3, 4, seed=1), i64([2, 4])],
    op("GroupedMatMul-17"),
    grouped,
    shapes=["?,?", "?,?,?", "?"],
    more=[[spread(3, 4), spread(1, 3, 4, seed=1), i64([0])]],
    formula="the rows are 0; the CPU plugin does not write them",
)
case(
    "grouped_matmul/integers",
    [spread_ints(-100, 100, 5, 4), spread_ints(-100, 100, 2, 3, 4, seed=1), i32([2, 5])],
    op("GroupedMatMul-17"),
    grouped,
    formula=CONSTANT,
)

# --- Einsum ---------------------------------------------------------------------------------------


def einsum(name, equation, *inputs, **more):
    case(
        f"einsum/{name}",
        list(inputs),
        op("Einsum-7", equation=equation),
        lambda *inputs: np.einsum(equation, *inputs),
        **more,
    )


einsum("matmul", "ij,jk->ik", spread(2, 3), spread(3, 4, seed=1))
einsum("attention", "bqhd,bkhd->bhqk", spread(1, 2, 2, 3), spread(1, 4, 2, 3, seed=1))
einsum("outer", "i,j->ij", spread(2), spread(3, seed=1))
einsum("dot", "i,i->", spread(3), spread(3, seed=1))
einsum("transpose", "ijk->kij", spread(2, 3, 4))
einsum("sum", "ij->i", spread(2, 3))
einsum("diagonal", "ii->i", spread(3, 3))
einsum("ellipsis", "...ij,jk->...ik", spread(2, 2, 3), spread(3, 2, seed=1))
einsum("implicit", "ij,jk", spread(2, 3), spread(3, 2, seed=1))
einsum("capitals", "bD,Db->bD", spread(2, 3), spread(3, 2, seed=1))
einsum("three", "ij,jk,kl->il", spread(2, 2), spread(2, 2, seed=1), spread(2, 2, seed=2))
einsum(
    "open_dimensions",
    "bij,bjk->bik",
    spread(2, 2, 3),
    spread(2, 3, 2, seed=1),
    shapes=["?,?,3", "?,3,?"],
    more=[[spread(1, 4, 3), spread(1, 3, 1)]],
)

# --- ScaledDotProductAttention --------------------------------------------------------------------


def attention(q, k, v, mask=None, scale=None, sink=None, causal=False):
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else np.float64(scale).reshape(())
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * scale
    if causal:
        mask = np.tril(np.ones(scores.shape[-2:], bool))
    if mask is not None and mask.dtype == bool:
        scores = np.where(mask, scores, -np.inf)
    elif mask is not None and mask.ndim:
        scores = scores + mask
    keys = scores.shape[-1]
    if sink is not None:
        scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:-1], 1))], -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return ((weights / weights.sum(-1, keepdims=True))[..., :keys] @ v).astype(v.dtype)


def sdpa(name, *inputs, causal=False, **more):
    case(
        f"scaled_dot_product_attention/{name}",
        list(inputs),
        op("ScaledDotProductAttention-13", causal=causal),
        lambda *inputs: attention(*inputs, causal=causal),
        **{"tolerance": 1e-4, **more},
    )


Q, K, V = spread(1, 2, 3, 4) / 4, spread(1, 2, 5, 4, seed=1) / 4, spread(1, 2, 5, 4, seed=2)
MASK = boolean([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
ADDED = np.where(MASK, f32(0.5), f32(-1e4)) + spread(3, 5, seed=4) / 8
sdpa("plain", Q, K, V)
sdpa("causal", Q, K, V, causal=True)
sdpa("causal_tall", spread(1, 2, 5, 4) / 4, spread(1, 2, 3, 4, seed=1) / 4, spread(1, 2, 3, 4, seed=2), causal=True)
sdpa("boolean_mask", Q, K, V, MASK[None, None])
sdpa("boolean_mask_rank_2", Q, K, V, MASK)
sdpa("boolean_mask_of_keys", Q, K, V, MASK[:1][None, None])
sdpa("added_mask", Q, K, V, ADDED[None, None])
sdpa("added_mask_rank_2", Q, K, V, ADDED)
sdpa("added_infinity", Q, K, V, np.where(MASK, f32(0), f32(-np.inf))[None, None])
# A row that is masked everywhere.
sdpa("masked_row_boolean", Q, K, V, MASK & boolean([[1], [0], [1]]))
sdpa("masked_row_infinity", Q, K, V, np.where(MASK & boolean([[1], [0], [1]]), f32(0), f32(-np.inf)))
# The mask is not used where causal is true.
case(
    "scaled_dot_product_attention/causal_ignores_the_mask",
    [Q, K, V, ADDED],
    op("ScaledDotProductAttention-13", causal=True),
    lambda q, k, v, mask: attention(q, k, v, causal=True),
    tolerance=1e-4,
)
sdpa("scale", Q, K, V, ADDED[None, None], const(f32(0.25)))
sdpa("scale_rank_1", Q, K, V, ADDED[None, None], const(f32([0.25])))
sdpa("scalar_mask_and_scale", Q, K, V, const(f32(0)), const(f32(2)))
sdpa("causal_with_scale", Q, K, V, const(f32(0)), const(f32(0.25)), causal=True)
sdpa("scale_is_input", Q, K, V, ADDED[None, None], f32(0.25), more=[[Q, K, V, ADDED[None, None], f32(1)]])
sdpa("rank_3", Q[0], K[0], V[0], ADDED[None])
sdpa("value_of_other_width", Q, K, spread(1, 2, 5, 3, seed=2))
sdpa(
    "batches",
    spread(2, 2, 3, 4) / 4,
    spread(2, 2, 5, 4, seed=1) / 4,
    spread(2, 2, 5, 4, seed=2),
    np.stack([MASK[None], MASK[None, ::-1]]),
)
sdpa("broadcast_heads", spread(2, 2, 3, 4) / 4, spread(2, 1, 5, 4, seed=1) / 4, spread(2, 1, 5, 4, seed=2))
sdpa("f16", f16(Q), f16(K), f16(V), tolerance=5e-3)
sdpa(
    "open_dimensions",
    Q,
    K,
    V,
    ADDED[None, None],
    shapes=["?,2,?,4", "?,2,?,4", "?,2,?,4", "?,1,?,?"],
    more=[[spread(2, 2, 1, 4), spread(2, 2, 3, 4), spread(2, 2, 3, 4), f32([[[[0, -1e4, 0]]], [[[0, 1, 0]]]])]],
)
sdpa(
    "causal_open_dimensions",
    Q[:, :, :3],
    K[:, :, :3],
    V[:, :, :3],
    causal=True,
    shapes=["?,2,?,4"] * 3,
    more=[[spread(2, 2, 4, 4), spread(2, 2, 4, 4), spread(2, 2, 4, 4)]],
)
# One more score of each head.
SINK, ZERO, HALF = f32([0.5, -1]).reshape(1, 2, 1, 1), const(f32(0)), const(f32(0.5))
sdpa("sink", Q, K, V, ADDED[None, None], HALF, const(SINK))
sdpa("sink_without_mask", Q, K, V, ZERO, HALF, const(SINK))
sdpa("sink_of_all_heads", Q, K, V, ZERO, HALF, const(f32([[[[0.25]]]])))
sdpa("sink_of_each_query", Q, K, V, ZERO, HALF, spread(1, 2, 3, 1, seed=5))
sdpa("sink_causal", Q, K, V, ZERO, HALF, const(SINK), causal=True)
sdpa("sink_rank_3", Q[0], K[0], V[0], ADDED[None], HALF, const(SINK[0]))
sdpa("sink_f16", f16(Q), f16(K), f16(V), const(f16(0)), const(f16(0.5)), const(f16(SINK)), tolerance=5e-3)
# A row that is masked everywhere gives zeros.
sdpa("sink_masked_row_boolean", Q, K, V, MASK & boolean([[1], [0], [1]]), HALF, const(SINK))
HIDDEN = np.where(MASK & boolean([[1], [0], [1]]), f32(0), f32(-np.inf))[None, None]
sdpa("sink_masked_row_infinity", Q, K, V, HIDDEN, HALF, const(SINK))
sdpa(
    "sink_broadcast_heads",
    spread(2, 2, 3, 4) / 4,
    spread(2, 1, 5, 4, seed=1) / 4,
    spread(2, 1, 5, 4, seed=2),
    ZERO,
    HALF,
    const(SINK),
)
sdpa(
    "sink_open_dimensions",
    Q,
    K,
    V,
    ADDED[None, None],
    HALF,
    SINK,
    shapes=["?,2,?,4", "?,2,?,4", "?,2,?,4", "?,1,?,?", "1,2,1,1"],
    more=[
        [spread(2, 2, 1, 4), spread(2, 2, 3, 4), spread(2, 2, 3, 4), f32([[[[0, -1e4, 0]]], [[[0, 1, 0]]]]), SINK],
        [spread(1, 2, 7, 4), spread(1, 2, 7, 4), spread(1, 2, 7, 4), np.zeros((1, 1, 7, 7), np.float32), SINK],
    ],
)

# --- cases that share a model ----------------------------------------------------------------------

join("matmul/rank_2", "rank_2", "rank_2_transposes", "transpose_a", "transpose_b", "transpose_both", "inner_1")
join("matmul/rank_1", "rank_1_by_1", "rank_1_by_2", "rank_2_by_1", "rank_1_by_3", "rank_3_by_1")
join("matmul/batches", "rank_3_by_2", "rank_2_by_3", "rank_4_broadcast", "rank_4_by_3_transposes")
join("einsum/equations", "matmul", "attention", "outer", "dot", "transpose", "sum", "implicit", "capitals", "three")
join("scaled_dot_product_attention/plain", "plain", "value_of_other_width")
join(
    "scaled_dot_product_attention/boolean_mask",
    "boolean_mask",
    "boolean_mask_rank_2",
    "boolean_mask_of_keys",
    "batches",
)
join("scaled_dot_product_attention/added_mask", "added_mask", "added_mask_rank_2", "added_infinity", "rank_3")
join("scaled_dot_product_attention/masked_row", "masked_row_boolean", "masked_row_infinity")
join("scaled_dot_product_attention/causal", "causal", "causal_tall", "causal_ignores_the_mask", "causal_with_scale")
join("scaled_dot_product_attention/scale", "scale", "scale_rank_1", "scalar_mask_and_scale")
join(
    "scaled_dot_product_attention/sink",
    "sink",
    "sink_without_mask",
    "sink_of_all_heads",
    "sink_of_each_query",
    "sink_causal",
    "sink_rank_3",
)
join("scaled_dot_product_attention/sink_masked_row", "sink_masked_row_boolean", "sink_masked_row_infinity")
