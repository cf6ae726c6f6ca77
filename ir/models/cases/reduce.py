"""Reductions and normalisations."""

from framework import *

# --- Reduce* --------------------------------------------------------------------------------------


def product(x, axis, keepdims):
    return np.prod(x, axis, keepdims=keepdims, dtype=x.dtype)


REDUCE = {
    "ReduceSum-1": np.sum,
    "ReduceMean-1": np.mean,
    "ReduceMax-1": np.max,
    "ReduceMin-1": np.min,
    "ReduceProd-1": product,
    "ReduceL1-4": lambda x, axis, keepdims: np.sum(np.abs(x), axis, keepdims=keepdims),
    "ReduceL2-4": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis, keepdims=keepdims)),
    "ReduceLogicalAnd-1": np.all,
    "ReduceLogicalOr-1": np.any,
}


def reduction(kind, which, keep_dims, **attributes):
    def formula(x):
        axis = tuple(int(it) for it in np.ravel(which.values))
        # No axes: nothing is reduced.
        if not axis:
            return np.abs(x) if "L1" in kind or "L2" in kind else x
        return np.asarray(REDUCE[kind](x, axis, keepdims=keep_dims)).astype(x.dtype)

    return op(kind, which, keep_dims=keep_dims, **attributes), formula


X = spread(2, 3, 4)
LISTS = [axes(1), axes(0, 2), axes(-1), axes(-2, 0), axes(0, 1, 2), scalar(1), const(i32([2]))]
for kind in REDUCE:
    if "Logical" in kind:
        continue
    several(
        f"reduce/{snake(kind[:-2])}",
        [X],
        [reduction(kind, it, keep) for it, keep in zip(LISTS, [False, True, True, False, False, True, False])],
    )
several(
    "reduce/logical",
    [boolean(spread_ints(0, 5, 2, 3, 4) > 0)],
    [
        reduction(kind, it, keep)
        for kind in ("ReduceLogicalAnd-1", "ReduceLogicalOr-1")
        for it, keep in [(axes(1), False), (axes(0, -1), True), (scalar(2), False)]
    ],
)
several("reduce/no_axes", [X], [reduction(kind, axes(), True) for kind in REDUCE if "Logical" not in kind])
several(
    "reduce/no_axes_not_kept",
    [X],
    [reduction(kind, axes(), False) for kind in ("ReduceSum-1", "ReduceMean-1", "ReduceL1-4")],
    formula="the CPU plugin refuses it",
)
several(
    "reduce/no_axes_logical",
    [boolean([[1, 0], [1, 1]])],
    [reduction(kind, axes(), True) for kind in ("ReduceLogicalAnd-1", "ReduceLogicalOr-1")],
)
several(
    "reduce/i32",
    [spread_ints(-5, 9, 2, 3, 2)],
    [reduction(kind, axes(1), False) for kind in ("ReduceSum-1", "ReduceMax-1", "ReduceMin-1", "ReduceProd-1")],
)
several(
    "reduce/i64",
    [spread_ints(-5, 9, 2, 3, 2, dtype=np.int64)],
    [reduction(kind, axes(0, 1), True) for kind in ("ReduceSum-1", "ReduceMax-1", "ReduceMin-1", "ReduceProd-1")],
)
several(
    "reduce/mean_of_integers",
    [i32([[1, 2, 4], [-1, -2, -4], [3, 3, 3]])],
    [(op("ReduceMean-1", axes(1), keep_dims=False), lambda x: i32([2, -2, 3]))],
)
several(
    "reduce/f16",
    [f16(spread(2, 4))],
    [reduction(kind, axes(1), False) for kind in ("ReduceSum-1", "ReduceMean-1", "ReduceMax-1")],
)
several(
    "reduce/infinities",
    [f32([[np.inf, 1], [-np.inf, 2], [np.inf, -np.inf]])],
    [reduction(kind, axes(1), False) for kind in ("ReduceSum-1", "ReduceMax-1", "ReduceMin-1")],
)
several(
    "reduce/axis_of_size_1",
    [spread(2, 1, 3)],
    [reduction(kind, axes(1), False) for kind in ("ReduceSum-1", "ReduceMax-1", "ReduceL2-4")],
)
several(
    "reduce/empty",
    [f32(np.zeros((2, 0)))],
    [(op("ReduceSum-1", axes(1), keep_dims=False), lambda x: x.sum(1))],
    shapes=["2,?"],
    more=[[spread(2, 3)]],
)
several(
    "reduce/without_keep_dims",
    [X],
    [reduction("ReduceSum-1", axes(1), False), reduction("ReduceMax-1", axes(-1), False)],
    edit=[attribute("keep_dims", "false", None)],
)
several(
    "reduce/open_dimensions",
    [X],
    [
        reduction(kind, axes(-1, 1), keep)
        for kind in ("ReduceSum-1", "ReduceMean-1", "ReduceMax-1")
        for keep in (False, True)
    ],
    shapes=["?,?,?"],
    more=[[spread(1, 5, 2)]],
)

# --- SoftMax, LogSoftmax --------------------------------------------------------------------------


def softmax(x, axis):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return (e / e.sum(axis, keepdims=True)).astype(x.dtype)


def log_softmax(x, axis):
    y = x.astype(np.float64) - x.max(axis, keepdims=True)
    return (y - np.log(np.exp(y).sum(axis, keepdims=True))).astype(x.dtype)


def softmax_at(kind, axis):
    formula = log_softmax if kind.startswith("Log") else softmax
    return op(kind, axis=axis), lambda x: formula(x, axis)


several(
    "softmax/axes",
    [X],
    [*(softmax_at("Softmax-1", it) for it in (0, 1, 2)), *(softmax_at("Softmax-8", it) for it in (0, -1, -2))],
)
several(
    "softmax/large",
    [f32([[1000, 1001, 999], [-1000, -1000, -1001]])],
    [softmax_at("Softmax-8", -1), softmax_at("LogSoftmax-5", -1)],
)
several("softmax/minus_infinity", [f32([[1, -np.inf, 2], [-np.inf, 0, -np.inf]])], [softmax_at("Softmax-8", 1)])
several("softmax/rank_1", [f32([1, 2, 3])], [softmax_at("Softmax-8", 0), softmax_at("LogSoftmax-5", 0)])
several("softmax/type_name", [X], [softmax_at("Softmax-8", -1)], edit=[('type="SoftMax"', 'type="Softmax"')])
several(
    "softmax/open_dimensions",
    [X],
    [softmax_at("Softmax-8", -1), softmax_at("Softmax-1", 1), softmax_at("LogSoftmax-5", -1)],
    shapes=["?,?,?"],
    more=[[spread(1, 2, 5)]],
)
several("log_softmax/axes", [X], [softmax_at("LogSoftmax-5", it) for it in (0, 1, -1)])

# --- MVN ------------------------------------------------------------------------------------------


def mvn(x, axis, normalize, eps, inside=True):
    x = x.astype(np.float64)
    x = x - x.mean(axis, keepdims=True)
    if normalize:
        variance = (x * x).mean(axis, keepdims=True)
        x = x / (np.sqrt(variance + eps) if inside else np.sqrt(variance) + eps)
    return f32(x)


def mvn_6(which, normalize=True, eps=1e-5, mode="INSIDE_SQRT"):
    which = which if isinstance(which, Const) else axes(*which)
    axis = tuple(int(it) for it in which.values.ravel())
    return (
        op("MVN-6", which, normalize_variance=normalize, eps=eps, eps_mode=mode),
        lambda x: mvn(x, axis, normalize, eps, mode == "INSIDE_SQRT"),
    )


X4 = spread(2, 3, 2, 2)
several(
    "mvn/revision_6",
    [X4],
    [
        mvn_6((2, 3)),
        mvn_6((1, 2, 3)),
        mvn_6((-1,)),
        mvn_6((-1,), False),
        mvn_6((2, 3), eps=0.5),
        mvn_6((2, 3), eps=0.5, mode="OUTSIDE_SQRT"),
        mvn_6(const(i32([-2, -1]))),
    ],
    tolerance=1e-4,
)
several(
    "mvn/layer_norm",
    [spread(2, 3, 4)],
    [mvn_6((2,), eps=9.999999747378752e-06)],
    tolerance=1e-4,
    shapes=["?,?,4"],
    more=[[spread(1, 5, 4)]],
)
several("mvn/constant_data", [f32([[3, 3, 3], [0, 0, 0]])], [mvn_6((1,), eps=1e-3)])
several("mvn/axes_0_and_2", [X4], [mvn_6((0, 2))], tolerance=1e-4)
several(
    "mvn/lower_case_mode",
    [X4],
    [mvn_6((2, 3), eps=0.5, mode="OUTSIDE_SQRT")],
    edit=[attribute("eps_mode", "OUTSIDE_SQRT", "outside_sqrt")],
    tolerance=1e-4,
)
several(
    "mvn/revision_1",
    [X4],
    [
        (
            op("MVN-2", across_channels=a, normalize_variance=n, eps=1e-5),
            lambda x, a=a, n=n: mvn(x, (1, 2, 3) if a else (2, 3), n, 1e-5),
        )
        for a in (False, True)
        for n in (False, True)
    ],
    tolerance=1e-4,
)
several(
    "mvn/revision_1_without_axes",
    [spread(2, 3)],
    [
        (op("MVN-2", across_channels=False, normalize_variance=n, eps=1e-5), lambda x, n=n: mvn(x, (), n, 1e-5))
        for n in (False, True)
    ],
)
# Under opset1, where the text has it, although the class is of opset2.
several(
    "mvn/revision_1_of_opset1",
    [X4],
    [(op("MVN-2", across_channels=False, normalize_variance=True, eps=1e-3), lambda x: mvn(x, (2, 3), True, 1e-3))],
    edit=[opset("MVN", 2, "opset1")],
    tolerance=1e-4,
)

# --- NormalizeL2, LRN -----------------------------------------------------------------------------


def normalize_l2(*which, mode="add", eps=0.5):
    def formula(x):
        # Without axes each element is divided by itself, whatever its sign.
        if not which:
            return np.ones_like(x)
        squares = np.sum(x * x, which, keepdims=True)
        return x / np.sqrt(squares + f32(eps) if mode == "add" else np.maximum(squares, f32(eps)))

    return op("NormalizeL2-1", axes(*which), eps=eps, eps_mode=mode), formula


several(
    "normalize_l2/axes",
    [spread(2, 3, 2, 2) / 4],
    [
        normalize_l2(1),
        normalize_l2(1, 2, 3),
        normalize_l2(1, mode="max", eps=2.0),
        normalize_l2(1, 2, 3, mode="max", eps=100.0),
    ],
)
several("normalize_l2/rank_2", [spread(2, 3) / 4], [normalize_l2(1), normalize_l2(1, mode="max", eps=1e-6)])
several("normalize_l2/no_axes", [spread(2, 3, 2, 2) / 4], [normalize_l2()])
several(
    "normalize_l2/upper_case",
    [spread(2, 3) / 4],
    [normalize_l2(1, mode="max", eps=2.0)],
    edit=[attribute("eps_mode", "max", "MAX")],
)


def lrn(*which, alpha=0.5, beta=0.75, bias=1.0, size=3):
    def formula(x):
        sums = (x * x).astype(np.float64)
        for axis in which:
            n = x.shape[axis]
            window = [
                sums.take(range(max(i - (size - 1) // 2, 0), min(i + size // 2 + 1, n)), axis).sum(axis)
                for i in range(n)
            ]
            sums = np.stack(window, axis)
        return f32(x / (bias + alpha * sums / size ** len(which)) ** beta)

    return op("LRN-1", axes(*which), alpha=alpha, beta=beta, bias=bias, size=size), formula


several("lrn/channels", [spread(1, 5, 2, 2)], [lrn(1), lrn(1, size=5, alpha=1e-2)])
several("lrn/bias", [spread(1, 5, 2, 2)], [lrn(1, bias=1.5)], formula="the CPU plugin takes 1 for each bias")
several("lrn/space", [spread(1, 2, 3, 4)], [lrn(2, 3)])

# --- BatchNormInference, GroupNormalization -------------------------------------------------------

GAMMA, BETA, MEAN, VARIANCE = f32([1, -0.5, 2]), f32([0.5, 0, -1]), f32([0.25, 1, -2]), f32([1, 0.25, 4])


def per_channel(values, x):
    return values.reshape(-1, *[1] * (x.ndim - 2))


def batch_norm(x, eps):
    gamma, beta, mean, variance = (per_channel(it, x) for it in (GAMMA, BETA, MEAN, VARIANCE))
    return f32((x - mean) / np.sqrt(np.float64(variance) + eps) * gamma + beta)


for name, x, more in [
    ("rank_4", spread(2, 3, 2, 2), {}),
    ("rank_2", spread(2, 3), {}),
    ("open_dimensions", spread(2, 3, 2), {"shapes": ["?,3,?"], "more": [[spread(1, 3, 4)]]}),
]:
    several(
        f"batch_norm_inference/{name}",
        [x],
        [
            (
                op("BatchNormInference-5", const(GAMMA), const(BETA), const(MEAN), const(VARIANCE), epsilon=1e-3),
                lambda x: batch_norm(x, 1e-3),
            ),
            (
                lambda x: make(
                    "BatchNormInference-1", const(GAMMA), const(BETA), x, const(MEAN), const(VARIANCE), epsilon=0.5
                ),
                lambda x: batch_norm(x, 0.5),
            ),
        ],
        **more,
    )


def group_norm(groups, eps):
    scale, bias = f32([1, -0.5, 2, 0.25]), f32([0.5, 0, -1, 2])

    def formula(x):
        y = mvn(x.reshape(len(x), groups, -1), 2, True, eps).reshape(x.shape)
        return y * per_channel(scale, x) + per_channel(bias, x)

    return op("GroupNormalization-12", const(scale), const(bias), num_groups=groups, epsilon=eps), formula


several(
    "group_normalization/groups",
    [spread(2, 4, 3, 2)],
    [group_norm(2, 1e-3), group_norm(4, 0.5), group_norm(1, 1e-5)],
    tolerance=1e-4,
)
several(
    "group_normalization/rank_3",
    [spread(2, 4, 3)],
    [group_norm(2, 1e-3)],
    tolerance=1e-4,
    shapes=["?,?,?"],
    more=[[spread(1, 4, 5)]],
)

# --- cases that share a model ----------------------------------------------------------------------

join("reduce/sum_and_mean", "reduce_sum", "reduce_mean")
join("reduce/max_and_min", "reduce_max", "reduce_min")
join("reduce/l1_and_l2", "reduce_l1", "reduce_l2")
join("reduce/integers", "i32", "i64")
join("reduce/no_axes", "no_axes", "no_axes_logical")
join("reduce/f16_and_infinities", "f16", "infinities", "axis_of_size_1")
join("softmax/extremes", "large", "minus_infinity", "rank_1")
join("mvn/revision_6", "revision_6", "constant_data", "axes_0_and_2")
join("mvn/revision_1", "revision_1", "revision_1_without_axes")
join("batch_norm_inference/ranks", "rank_4", "rank_2")
join("normalize_l2/axes", "axes", "rank_2")
join("lrn/axes", "channels", "space")
