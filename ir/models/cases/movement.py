"""Concat, Split, VariadicSplit, Slice, StridedSlice, Pad, Roll, Select, TopK, CumSum, NonZero, OneHot,
DepthToSpace, SpaceToDepth, Reverse, ReverseSequence, ShuffleChannels, BatchToSpace, SpaceToBatch."""

from framework import *

# --- Concat ---------------------------------------------------------------------------------------

case(
    "concat/axes",
    [offsets(2, 3), spread(2, 1)],
    lambda x, y: [make("Concat-1", x, y, axis=1), make("Concat-1", y, x, x, axis=-1), make("Concat-1", x, axis=0)],
    lambda x, y: [np.concatenate([x, y], 1), np.concatenate([y, x, x], 1), x],
)
case(
    "concat/negative_axis",
    [offsets(2, 3, 4), spread(1, 3, 4)],
    op("Concat-1", axis=-3),
    lambda x, y: np.concatenate([x, y]),
)
case(
    "concat/empty_past",
    [f32(np.zeros((1, 2, 0, 4))), offsets(1, 2, 3, 4)],
    op("Concat-1", axis=2),
    lambda x, y: np.concatenate([x, y], 2),
    shapes=["?,2,?,4", "?,2,?,4"],
    more=[[spread(2, 2, 3, 4), offsets(2, 2, 1, 4)]],
)
case(
    "concat/types",
    [boolean([True]), u8([1, 2]), i64([2**40])],
    lambda x, y, z: [make("Concat-1", it, it, axis=0) for it in (x, y, z)],
    lambda x, y, z: [np.concatenate([it, it]) for it in (x, y, z)],
    formula="the CPU plugin computes 64-bit integers in 32 bits",
)

# --- Split, VariadicSplit -------------------------------------------------------------------------

case(
    "split/axes",
    [offsets(2, 6)],
    ops(
        op("Split-1", scalar(1), num_splits=3),
        op("Split-1", scalar(-2, np.int32), num_splits=2),
        op("Split-1", scalar(-1), num_splits=1),
    ),
    lambda x: [*np.split(x, 3, 1), *np.split(x, 2), x],
)
case(
    "split/open_dimensions",
    [offsets(2, 6)],
    op("Split-1", scalar(1), num_splits=2),
    lambda x: np.split(x, 2, 1),
    shapes=["?,6"],
    more=[[offsets(3, 6)]],
)
case(
    "split/open_axis",
    [offsets(2, 6)],
    op("Split-1", scalar(1), num_splits=2),
    lambda x: np.split(x, 2, 1),
    shapes=["2,?"],
    more=[[offsets(2, 8)]],
)
case(
    "split/one_output_used",
    [offsets(2, 6)],
    lambda x: make("Split-1", x, scalar(1), num_splits=3).output(1),
    lambda x: x[:, 2:4],
)
# tract's optimiser forgets the last one.
case(
    "split/equal_outputs",
    [offsets(2, 6)],
    lambda x: [
        make("Split-1", x, scalar(1), num_splits=3).output(1),
        make("Relu-1", make("Split-1", x, scalar(1), num_splits=3).output(1)),
        make("Split-1", x, scalar(1), num_splits=3).output(1),
    ],
    lambda x: [x[:, 2:4], np.maximum(x[:, 2:4], 0), x[:, 2:4]],
)
case(
    "variadic_split/lengths",
    [offsets(6, 2)],
    ops(
        op("VariadicSplit-1", scalar(0), axes(1, 2, 3)),
        op("VariadicSplit-1", axes(-2), const(i32([2, -1, 1]))),
        op("VariadicSplit-1", scalar(1), axes(2)),
    ),
    lambda x: [x[:1], x[1:3], x[3:], x[:2], x[2:5], x[5:], x],
)
case(
    "variadic_split/zero_length",
    [offsets(4, 2)],
    op("VariadicSplit-1", scalar(0), axes(1, 0, -1)),
    lambda x: [x[:1], x[1:1], x[1:]],
    formula="the CPU plugin is not sure of empty tensors",
)
case(
    "variadic_split/minus_one_is_nothing",
    [offsets(4, 2)],
    op("VariadicSplit-1", scalar(0), axes(3, -1, 1)),
    lambda x: [x[:3], x[3:3], x[3:]],
    formula="the CPU plugin is not sure of empty tensors",
)
case(
    "variadic_split/open_dimensions",
    [offsets(5, 2)],
    ops(op("VariadicSplit-1", scalar(0), axes(2, -1)), op("VariadicSplit-1", scalar(1), axes(1, 1))),
    lambda x: [x[:2], x[2:], x[:, :1], x[:, 1:]],
    shapes=["?,2"],
    more=[[offsets(3, 2)]],
)

# --- Slice ----------------------------------------------------------------------------------------

SLICES = [
    ([0], [2], [1], [0]),
    ([1], [3], [1], [1]),
    ([-2], [100], [1], [-1]),
    ([-100], [100], [2], [1]),
    ([3], [0], [-1], [1]),
    ([100], [-100], [-2], [1]),
    ([-1], [-4], [-1], [1]),
    ([1, 0], [3, 3], [1, 2], [1, 0]),
    ([0, 3], [2**31 - 1, -(2**31)], [1, -1], [0, 1]),
    ([3], [2**63 - 1], [1], [1]),
    ([2**63 - 1], [-(2**63)], [-3], [1]),
]


def sliced(x, start, stop, step, axes=None):
    which = [slice(None)] * x.ndim
    for start, stop, step, axis in zip(start, stop, step, range(x.ndim) if axes is None else axes):
        which[axis] = slice(start, stop if step > 0 or stop >= -x.shape[axis] else None, step)
    return x[tuple(which)]


case(
    "slice/bounds",
    [offsets(3, 4)],
    lambda x: [make("Slice-8", x, *(axes(*it) for it in bounds)) for bounds in SLICES],
    lambda x: [sliced(x, *it) for it in SLICES],
)
case(
    "slice/without_axes",
    [offsets(3, 4, 2)],
    ops(
        op("Slice-8", axes(1), axes(3), axes(1)),
        op("Slice-8", const(i32([0, -1])), const(i32([2, -5])), const(i32([1, -2]))),
    ),
    lambda x: [x[1:3], x[:2, ::-2]],
)
case(
    "slice/empty",
    [offsets(3, 4)],
    ops(
        op("Slice-8", axes(2), axes(1), axes(1), axes(1)),
        op("Slice-8", axes(1), axes(1), axes(1), axes(0)),
        op("Slice-8", axes(7), axes(9), axes(1), axes(0)),
        op("Slice-8", axes(0), axes(2), axes(-1), axes(0)),
    ),
    lambda x: [x[:, :0], x[:0], x[:0], x[:0]],
    formula="the CPU plugin is not sure of empty tensors",
)
# tract moves slices before such operations.
case(
    "slice/empty_after_others",
    [offsets(1, 4)],
    lambda x: [
        make("Slice-8", make("IsNaN-10", x), axes(0), axes(0), axes(1), axes(0)),
        make("Slice-8", make("Concat-1", x, x, axis=0), axes(0), axes(0), axes(1), axes(1)),
    ],
    lambda x: [np.zeros((0, 4), np.bool_), np.zeros((2, 0), np.float32)],
    shapes=["?,4"],
    formula="the CPU plugin is not sure of empty tensors",
)
case(
    "slice/types",
    [boolean([[1, 0, 1], [0, 0, 1]]), offsets(2, 3, dtype=np.int64), offsets(2, 3, dtype=np.float16)],
    lambda *inputs: [make("Slice-8", it, axes(1), axes(3), axes(1), axes(1)) for it in inputs],
    lambda *inputs: [it[:, 1:] for it in inputs],
)
case(
    "slice/open_dimensions",
    [offsets(3, 6)],
    ops(
        op("Slice-8", axes(-2), axes(2**31 - 1), axes(1), axes(0)),
        op("Slice-8", axes(0), axes(-1), axes(1), axes(1)),
        op("Slice-8", axes(1), axes(4), axes(2), axes(1)),
        op("Slice-8", axes(-1), axes(-(2**31)), axes(-1), axes(1)),
    ),
    lambda x: [x[-2:], x[:, :-1], x[:, 1:4:2], x[:, ::-1]],
    shapes=["?,?"],
    more=[[offsets(1, 3)], [offsets(5, 4)]],
)
case(
    "slice/bounds_are_inputs",
    [offsets(3, 6), i64([1]), i64([5])],
    op("Slice-8", axes(1), axes(1)),
    lambda x, start, stop: x[:, start[0] : stop[0]],
    more=[[offsets(3, 6), i64([-3]), i64([100])]],
)
case(
    "slice/to_a_shape",
    [offsets(3, 6), offsets(2, 2)],
    lambda x, y: make("Slice-8", x, axes(0), dims(y, 1), axes(1), axes(1)),
    lambda x, y: x[:, : y.shape[1]],
    shapes=["3,6", "?,?"],
    more=[[offsets(3, 6), offsets(1, 4)]],
)

# --- StridedSlice ---------------------------------------------------------------------------------


def strided_slice(begin, end, strides, formula, begin_mask="", end_mask="", **masks):
    bounds = [const(i64(it)) for it in (begin, end, strides) if it is not None]
    masks = dict(begin_mask=begin_mask, end_mask=end_mask, **masks)
    return op("StridedSlice-1", *bounds, **{key: [int(it) for it in mask] for key, mask in masks.items()}), formula


X = offsets(2, 3, 4)
several(
    "strided_slice/bounds",
    [X],
    [
        strided_slice([0, 1, 1], [2, 3, 4], [1, 1, 2], lambda x: x[0:2, 1:3, 1:4:2], "000", "000"),
        strided_slice([1, 0], [2, 2], None, lambda x: x[1:2, 0:2], "00", "00"),
        strided_slice([1, 1, 1], [1, 2, 2], [1, 1, 1], lambda x: x[:, 1:, :2], "101", "110"),
        strided_slice([-1, -2, -3], [2, -1, -1], [1, 1, 1], lambda x: x[-1:2, -2:-1, -3:-1], "000", "000"),
        strided_slice([-9, 0, 2], [9, 9, 9], [1, 2, 1], lambda x: x[:, ::2, 2:], "000", "000"),
        # Masks that are too short are filled with zeros.
        strided_slice([0, 1, 1], [2, 3, 3], [1, 1, 1], lambda x: x[:, 1:3, 1:3], "1", ""),
    ],
)
several(
    "strided_slice/negative_strides",
    [X],
    [
        strided_slice([1, 2, 3], [-9, 0, 0], [-1, -1, -2], lambda x: x[::-1, 2:0:-1, 3:0:-2], "000", "000"),
        strided_slice([0, 1, 1], [0, 1, 2], [-1, -1, -1], lambda x: x[::-1, 1::-1, :2:-1], "101", "110"),
    ],
)
several(
    "strided_slice/shrink_axis",
    [X],
    [
        strided_slice([0, 1, 1], [2, 2, 4], [1, 1, 1], lambda x: x[0:2, 1, 1:4], "000", "000", shrink_axis_mask="010"),
        strided_slice([-1, 0, -2], [0, 0, 0], [1, 1, 1], lambda x: x[-1, :, -2], "010", "010", shrink_axis_mask="101"),
        strided_slice([1, 0], [2, 3], [1, 1], lambda x: x[1], "00", "11", shrink_axis_mask="10"),
        strided_slice([1, 2, 3], [2, 3, 4], [1, 1, 1], lambda x: x[1, 2, 3], "000", "000", shrink_axis_mask="111"),
    ],
)
several(
    "strided_slice/new_axis",
    [X],
    [
        strided_slice([0, 1, 0], [1, 2, 3], [1, 1, 1], lambda x: x[None, 1:2, 0:3], "000", "000", new_axis_mask="100"),
        strided_slice(
            [0] * 4, [0, 0, 0, 2], [1] * 4, lambda x: x[:, None, :, :2], "1111", "1110", new_axis_mask="0100"
        ),
        strided_slice([0] * 4, [0] * 4, [1] * 4, lambda x: x[..., None], "1111", "1111", new_axis_mask="0001"),
        # Of both masks the new axis wins.
        strided_slice(
            [0, 0], [1, 1], [1, 1], lambda x: x[None, 0:1], "00", "00", new_axis_mask="10", shrink_axis_mask="10"
        ),
    ],
)
several(
    "strided_slice/ellipsis",
    [X],
    [
        strided_slice([0, 1], [0, 3], [1, 1], lambda x: x[..., 1:3], "00", "00", ellipsis_mask="10"),
        strided_slice([1, 0, 1], [2, 0, 4], [1, 1, 2], lambda x: x[1:2, ..., 1:4:2], "000", "000", ellipsis_mask="010"),
        strided_slice(
            [1, 0, 1, 2], [2, 0, 3, 4], [1] * 4, lambda x: x[1:2, ..., 1:3, 2:4], "0000", "0000", ellipsis_mask="0100"
        ),
        strided_slice(
            [0, 0, 0],
            [0, 0, 1],
            [1, 1, 1],
            lambda x: x[..., None, :1],
            "000",
            "000",
            ellipsis_mask="100",
            new_axis_mask="010",
        ),
        strided_slice(
            [0, -1], [0, 0], [1, 1], lambda x: x[..., -1], "00", "00", ellipsis_mask="10", shrink_axis_mask="01"
        ),
    ],
)
several(
    "strided_slice/begin_is_end",
    [X],
    [strided_slice([1], [1], [1], lambda x: x[1:1], "0", "0")],
    formula="the text says one element, OpenVINO's shapes say none; the CPU plugin is not sure of empty tensors",
)
several(
    "strided_slice/spelling_of_masks",
    [X],
    [strided_slice([1, 1, 1], [1, 2, 2], [1, 1, 1], lambda x: x[:, 1:, 0], "101", "110", shrink_axis_mask="001")],
    edit=[
        attribute("begin_mask", "1, 0, 1", "1,0,1"),
        attribute("new_axis_mask", "", None),
        attribute("ellipsis_mask", "", None),
    ],
)
several(
    "strided_slice/open_dimensions",
    [X],
    [
        strided_slice([0, -2, 0], [0, 2**31 - 1, -1], [1, 1, 1], lambda x: x[:, -2:, :-1], "101", "100"),
        strided_slice([0, -1], [0, 0], [1, 1], lambda x: x[:, -1], "10", "10", shrink_axis_mask="01"),
        strided_slice([0, 0, 0], [0, 0, 0], [1, 1, -1], lambda x: x[..., ::-1], "111", "111"),
    ],
    shapes=["?,?,?"],
    more=[[offsets(1, 5, 2)]],
)

# --- Pad ------------------------------------------------------------------------------------------


def padded(x, begin, end, mode, value):
    widths = [(max(b, 0), max(e, 0)) for b, e in zip(begin, end)]
    x = np.pad(x, widths, mode, **({"constant_values": value} if mode == "constant" else {}))
    return x[tuple(slice(max(-b, 0), n - max(-e, 0)) for b, e, n in zip(begin, end, x.shape))]


def pad(kind, begin, end, mode="constant", value=None):
    inputs = [const(i64(begin)), const(i64(end)), *([] if value is None else [const(f32(value))])]
    return op(kind, *inputs, pad_mode=mode), lambda x: padded(x, begin, end, mode, value or 0)


P = f32([[1, 2, 3], [4, 5, 6]])
several(
    "pad/constant",
    [P],
    [
        pad("Pad-1", [1, 0], [0, 2], value=-7),
        pad("Pad-1", [0, 1], [1, 0]),
        pad("Pad-12", [0, 1], [0, 1], value=9),
        pad("Pad-12", [0, 1], [0, 0], value=-np.inf),
    ],
)
for mode, begin, end in [("edge", [2, 1], [1, 2]), ("reflect", [1, 2], [1, 2]), ("symmetric", [2, 3], [1, 2])]:
    several(
        f"pad/{mode}",
        [P],
        # The value is not used.
        [pad("Pad-1", begin, end, mode), pad("Pad-12", begin, [0, 0], mode, 9), pad("Pad-12", [0, 0], [0, 0], mode)],
    )
X = offsets(4, 4)
several("pad/negative", [X], [pad("Pad-12", [-1, 2], [1, -1], value=-5), pad("Pad-12", [-1, -2], [-1, -1], value=1)])
several("pad/negative_edge", [X], [pad("Pad-12", [-1, 0], [2, -1], "edge")])
several("pad/negative_reflect", [X], [pad("Pad-12", [-1, 0], [2, 0], "reflect")])
several("pad/negative_symmetric", [X], [pad("Pad-12", [0, 3], [0, -1], "symmetric")])
case(
    "pad/types",
    [i32([[1, 2]]), i64([[1, 2]]), u8([[1, 2]]), f16([[1, 2]])],
    lambda *inputs: [
        make("Pad-12", it, axes(0, 1), axes(1, 0), const(np.array(3, dtype)), pad_mode="constant")
        for it, dtype in zip(inputs, ("int32", "int64", "uint8", "float16"))
    ],
    lambda *inputs: [np.pad(it, [(0, 1), (1, 0)], constant_values=3) for it in inputs],
)
several("pad/upper_case", [P], [pad("Pad-12", [0, 1], [0, 1], "edge")], edit=[attribute("pad_mode", "edge", "EDGE")])
several(
    "pad/open_dimensions",
    [P],
    [pad("Pad-12", [0, 2], [1, 1], mode) for mode in ("constant", "edge", "reflect", "symmetric")],
    shapes=["?,?"],
    more=[[offsets(3, 4)]],
)

# --- Roll, Reverse --------------------------------------------------------------------------------

ROLLS = [([1], [0]), ([-1, 2], [1, 0]), ([5], [-1]), ([1, 1], [1, 1]), ([0], [0]), ([-7, 7], [-2, -1])]
case(
    "roll/axes",
    [offsets(3, 4)],
    lambda x: [
        *(make("Roll-7", x, axes(*shift), axes(*axis)) for shift, axis in ROLLS),
        make("Roll-7", x, scalar(-1), scalar(1)),
    ],
    lambda x: [*(np.roll(x, shift, axis) for shift, axis in ROLLS), np.roll(x, -1, 1)],
)
case(
    "roll/scalar_shift_of_two_axes",
    [offsets(3, 4)],
    op("Roll-7", scalar(2, np.int32), const(i32([0, 1]))),
    lambda x: np.roll(x, (2, 2), (0, 1)),
    formula="the CPU plugin refuses it",
)
case(
    "roll/open_dimensions",
    [offsets(3, 4)],
    # By more than the size, too, and of an axis without elements.
    lambda x: [
        make("Roll-7", x, axes(1, -2), axes(0, 1)),
        make("Roll-7", x, axes(-7, 9), axes(0, 1)),
        make("Reshape-1", make("Roll-7", x, axes(-7, 9), axes(0, 1)), axes(-1), special_zero=False),
    ],
    lambda x: [np.roll(x, (1, -2), (0, 1)), np.roll(x, (-7, 9), (0, 1)), np.roll(x, (-7, 9), (0, 1)).reshape(-1)],
    shapes=["?,?"],
    more=[[offsets(1, 5)], [offsets(2, 0)]],
    formula="the CPU plugin refuses an axis without elements",
)
case(
    "reverse/index",
    [offsets(2, 3, 2)],
    ops(op("Reverse-1", axes(1), mode="index"), op("Reverse-1", axes(0, 2), mode="index")),
    lambda x: [x[:, ::-1], x[::-1, :, ::-1]],
)
case(
    "reverse/mask",
    [offsets(2, 3, 2)],
    op("Reverse-1", const([False, True, True]), mode="mask"),
    lambda x: x[:, ::-1, ::-1],
)
case(
    "reverse_sequence/lengths",
    [offsets(3, 4, 2), i32([1, 4, 3])],
    op("ReverseSequence-1", batch_axis=0, seq_axis=1),
    lambda x, lengths: np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(x, lengths)]),
)
case(
    "reverse_sequence/constant_lengths",
    [offsets(4, 3), const(i64([4, 4, 4]))],
    op("ReverseSequence-1", batch_axis=1, seq_axis=0),
    lambda x, lengths: x[::-1],
)

# --- Select ---------------------------------------------------------------------------------------

select = op("Select-1", auto_broadcast="numpy")
CONDITION = boolean([[1, 0, 1], [0, 0, 1]])
case(
    "select/numpy",
    [CONDITION, spread(2, 3), spread(3), f32(7)],
    lambda c, x, y, z: [select(c, x, y), select(c, z, x), select(c, z, z), select(c, y, z)],
    lambda c, x, y, z: [np.where(c, x, y), np.where(c, z, x), np.where(c, z, z), np.where(c, y, z)],
)
case("select/condition_broadcasts", [boolean([[1], [0]]), spread(2, 3), f32(np.full((4, 1, 3), -1))], select, np.where)
case(
    "select/none",
    [CONDITION, i64([[1, 2, 3], [4, 5, 6]]), i64([[-1, -2, -3], [-4, -5, -6]])],
    op("Select-1", auto_broadcast="none"),
    np.where,
)
OTHERS = [f16(-1), i32(-1), u8(1)]
case(
    "select/types",
    [CONDITION, boolean([1, 0, 0]), boolean([0, 1, 1]), f16([1.5, 2, 3]), i32([4]), u8([5])],
    lambda c, x, y, *numbers: [select(c, x, y), *(select(c, it, const(other)) for it, other in zip(numbers, OTHERS))],
    lambda c, x, y, *numbers: [np.where(c, x, y), *(np.where(c, it, other) for it, other in zip(numbers, OTHERS))],
)
case("select/nan_is_not_spread", [CONDITION, f32([np.nan, 1, np.inf]), f32([0, np.nan, -np.inf])], select, np.where)
case(
    "select/open_dimensions",
    [CONDITION, spread(2, 3)],
    op("Select-1", const(f32(-np.inf)), auto_broadcast="numpy"),
    lambda c, x: np.where(c, x, f32(-np.inf)),
    shapes=["?,?", "?,?"],
    more=[[boolean([[1, 0]]), spread(1, 2)]],
)

# --- TopK -----------------------------------------------------------------------------------------


def topk(x, k, axis, mode, sort):
    """Values and positions; of equal values the first comes first."""
    order = np.argsort(-x.astype(np.float64) if mode == "max" else x, axis=axis, kind="stable")
    order = np.take(order, range(int(k)), axis)
    if sort == "index":
        order = np.sort(order, axis)
    return [np.take_along_axis(x, order, axis), order]


def top_k(kind, k, axis, mode, sort, type_="i32", **attributes):
    if kind != "TopK-1":
        attributes["index_element_type"] = type_

    def formula(x, *_):
        values, indices = topk(x, k, axis, mode, sort)
        return values.astype(x.dtype), indices.astype(DTYPES[type_])

    return op(kind, scalar(k), axis=axis, mode=mode, sort=sort, **attributes), formula


DISTINCT = f32([[3, 1, -4, 15, 9], [2, 6, 5, -3.5, 8]])
TIES = f32([[1, 3, 3, 1, 3], [2, 2, 2, 2, 2], [0, 1, 0, 1, 0]])
several(
    "top_k/by_value",
    [DISTINCT],
    [
        top_k("TopK-3", 3, 1, "max", "value"),
        top_k("TopK-3", 3, -1, "min", "value", "i64"),
        top_k("TopK-3", 1, 0, "max", "value"),
        top_k("TopK-11", 2, -2, "min", "value", "i64"),
        top_k("TopK-3", 5, 1, "max", "value"),
    ],
)
several(
    "top_k/by_index", [DISTINCT], [top_k("TopK-3", 3, 1, "max", "index"), top_k("TopK-11", 2, 1, "min", "index", "i64")]
)
several("top_k/revision_1", [DISTINCT], [top_k("TopK-1", 2, 1, "max", "value"), top_k("TopK-1", 1, 0, "min", "value")])
several("top_k/revision_1_by_index", [DISTINCT], [top_k("TopK-1", 2, 1, "min", "index")])
several("top_k/not_sorted", [DISTINCT], [top_k("TopK-3", 1, 1, "max", "none"), top_k("TopK-11", 1, 0, "min", "none")])
several(
    "top_k/ties_stable",
    [TIES],
    [top_k("TopK-11", 4, 1, "max", "value", stable=True), top_k("TopK-11", 4, 1, "min", "value", "i64", stable=True)],
)
several(
    "top_k/ties",
    [TIES],
    [top_k("TopK-3", 3, 1, "max", "value"), top_k("TopK-3", 3, 1, "min", "value")],
    formula="which of equal values are taken is not specified; OpenVINO's reference takes the first",
)
several("top_k/ties_by_index", [TIES], [top_k("TopK-3", 3, 1, "max", "index")], formula="as above")
several(
    "top_k/i32",
    [i32([[5, -2, 9], [0, 7, -7]])],
    [top_k("TopK-3", 2, 1, "max", "value"), top_k("TopK-11", 1, 0, "min", "value", stable=True)],
)
several("top_k/i64", [i64([5, -2, 9])], [top_k("TopK-11", 2, 0, "min", "value", "i64")])
several("top_k/f16", [f16([5, -2, 9, 0.5])], [top_k("TopK-3", 2, 0, "max", "value")])
several("top_k/infinities", [f32([1, -np.inf, np.inf, 0])], [top_k("TopK-11", 3, 0, "max", "value", stable=True)])
case(
    "top_k/k_is_input",
    [DISTINCT, i64(2)],
    op("TopK-3", axis=1, mode="max", sort="value", index_element_type="i64"),
    lambda x, k: topk(x, k, 1, "max", "value"),
    more=[[DISTINCT[::-1], i64(4)]],
)
several(
    "top_k/open_dimensions",
    [DISTINCT],
    [top_k("TopK-11", 2, -1, "max", "value", "i64", stable=True)],
    shapes=["?,?"],
    more=[[f32([[1, 2, 3]])]],
)
several(
    "top_k/upper_case",
    [DISTINCT],
    [top_k("TopK-3", 2, 1, "max", "value")],
    edit=[
        attribute("mode", "max", "MAX"),
        attribute("sort", "value", "VALUE"),
        attribute("index_element_type", "i32", "I32"),
    ],
)
several(
    "top_k/without_index_element_type",
    [DISTINCT],
    [top_k("TopK-3", 2, 1, "max", "value")],
    edit=[attribute("index_element_type", "i32", None)],
)
case(
    "top_k/one_output_used",
    [DISTINCT],
    lambda x: [
        make("TopK-3", x, scalar(1), axis=1, mode="max", sort="value", index_element_type="i64").output(1),
        make("TopK-3", x, scalar(1), axis=1, mode="min", sort="value", index_element_type="i64").output(0),
    ],
    lambda x: [x.argmax(1)[:, None], x.min(1)[:, None]],
)

# --- CumSum ---------------------------------------------------------------------------------------


def cum_sum(x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    sums = np.cumsum(x, axis, dtype=x.dtype)
    sums = sums - x if exclusive else sums
    return np.flip(sums, axis) if reverse else sums


VARIANTS = [(axis, exclusive, reverse) for axis in (0, -1) for exclusive in (False, True) for reverse in (False, True)]
case(
    "cum_sum/variants",
    [spread(2, 3)],
    lambda x: [make("CumSum-3", x, scalar(axis), exclusive=e, reverse=r) for axis, e, r in VARIANTS],
    lambda x: [cum_sum(x, *it) for it in VARIANTS],
)
case(
    "cum_sum/without_attributes",
    [i64([[1, 2, 3]]), scalar(1)],
    op("CumSum-3", exclusive=False, reverse=False),
    lambda x, _: np.cumsum(x, 1),
    edit=[attribute("exclusive", "false", None), attribute("reverse", "false", None)],
)
case(
    "cum_sum/open_dimensions",
    [i64([[1, 1, 0], [1, 0, 0]])],
    op("CumSum-3", scalar(1), exclusive=True, reverse=False),
    lambda x: cum_sum(x, 1, True, False),
    shapes=["?,?"],
    more=[[i64([[1, 1, 1, 1]])]],
)

# --- NonZero, OneHot ------------------------------------------------------------------------------

case(
    "non_zero/types",
    [f32([[0, -0.0, 2], [np.inf, 0, -1]]), i32([0, 3, 0, 1]), boolean([[0, 1], [1, 0]]), f32(-2)],
    lambda x, y, z, scalar: [
        make("NonZero-3", x, output_type="i64"),
        make("NonZero-3", y, output_type="i32"),
        make("NonZero-3", z, output_type="i64"),
        make("NonZero-3", scalar, output_type="i64"),
    ],
    lambda x, y, z, scalar: [i64(np.nonzero(x)), i32(np.nonzero(y)), i64(np.nonzero(z)), i64([[0]])],
)
case(
    "non_zero/none",
    [f32([[0, 0]])],
    op("NonZero-3", output_type="i64"),
    lambda x: i64(np.nonzero(x)),
    more=[[f32([[1, 2]])]],
)
case(
    "non_zero/open_dimensions",
    [i64([[0, 5], [6, 0]])],
    op("NonZero-3", output_type="i64"),
    lambda x: i64(np.nonzero(x)),
    shapes=["?,?"],
    more=[[i64([[1, 2, 0]])]],
)


def one_hot(indices, depth, on, off, axis, normalize=False):
    indices = np.where(indices < 0, indices + depth, indices) if normalize else indices
    hot = indices[..., None] == np.arange(depth)
    return np.moveaxis(np.where(hot, np.asarray(on), np.asarray(off)), -1, axis)


INDICES = i64([[0, 2], [1, 5], [-1, 3]])
case(
    "one_hot/axes",
    [INDICES],
    lambda x: [make("OneHot-1", x, scalar(4), real(5), real(-1), axis=axis) for axis in (-1, 0, 1, 2, -3)],
    lambda x: [one_hot(x, 4, f32(5), f32(-1), axis) for axis in (-1, 0, 1, 2, -3)],
)
case(
    "one_hot/types",
    [i32([2, 0])],
    lambda x: [
        make("OneHot-1", x, scalar(3, np.int32), const(np.array(on)), const(np.array(off)), axis=-1)
        for on, off in [
            (np.int64(1), np.int64(0)),
            (np.bool_(True), np.bool_(False)),
            (np.float16(1), np.float16(0)),
            (np.uint8(1), np.uint8(0)),
        ]
    ],
    lambda x: [one_hot(x, 3, it(1), it(0), -1) for it in (np.int64, np.bool_, np.float16, np.uint8)],
)
case(
    "one_hot/rank_0",
    [i64(2)],
    op("OneHot-1", scalar(4), real(1), real(0), axis=0),
    lambda x: one_hot(x, 4, f32(1), f32(0), 0),
)
for mode in ("ignore_negative", "normalize"):
    case(
        f"one_hot/{mode}",
        [INDICES],
        op("OneHot-16", scalar(4), real(1), real(0), axis=-1, negative_indices_mode=mode),
        lambda x, mode=mode: one_hot(x, 4, f32(1), f32(0), -1, mode == "normalize"),
    )
case(
    "one_hot/open_dimensions",
    [i64([0, 2])],
    op("OneHot-1", scalar(3), real(1), real(0), axis=1),
    lambda x: one_hot(x, 3, f32(1), f32(0), 1),
    shapes=["?"],
    more=[[i64([1, 1, 0])]],
)

# --- depth, space, batch --------------------------------------------------------------------------


def depth_to_space(x, block, mode):
    n, c, *sizes = x.shape
    k = len(sizes)
    c //= block**k
    if mode == "blocks_first":
        x, blocks, channel = x.reshape(n, *[block] * k, c, *sizes), 1, k + 1
    else:
        x, blocks, channel = x.reshape(n, c, *[block] * k, *sizes), 2, 1
    order = [0, channel] + [it for i in range(k) for it in (k + 2 + i, blocks + i)]
    return x.transpose(order).reshape(n, c, *(it * block for it in sizes))


def space_to_depth(x, block, mode):
    n, c, *sizes = x.shape
    k = len(sizes)
    x = x.reshape(n, c, *(it for size in sizes for it in (size // block, block)))
    blocks, space = [3 + 2 * i for i in range(k)], [2 + 2 * i for i in range(k)]
    order = [0, *blocks, 1, *space] if mode == "blocks_first" else [0, 1, *blocks, *space]
    return x.transpose(order).reshape(n, c * block**k, *(it // block for it in sizes))


for mode in ("blocks_first", "depth_first"):
    case(
        f"depth_to_space/{mode}",
        [offsets(1, 8, 2, 3), offsets(2, 4, 3)],
        lambda x, y, mode=mode: [make("DepthToSpace-1", it, mode=mode, block_size=2) for it in (x, y)],
        lambda x, y, mode=mode: [depth_to_space(it, 2, mode) for it in (x, y)],
    )
    case(
        f"space_to_depth/{mode}",
        [offsets(1, 2, 4, 6), offsets(2, 3, 4)],
        lambda x, y, mode=mode: [make("SpaceToDepth-1", it, mode=mode, block_size=2) for it in (x, y)],
        lambda x, y, mode=mode: [space_to_depth(it, 2, mode) for it in (x, y)],
    )
case(
    "depth_to_space/open_dimensions",
    [offsets(1, 4, 2, 3)],
    op("DepthToSpace-1", mode="depth_first", block_size=2),
    lambda x: depth_to_space(x, 2, "depth_first"),
    shapes=["?,4,?,?"],
    more=[[offsets(2, 4, 1, 2)]],
)
case(
    "space_to_depth/upper_case",
    [offsets(1, 1, 4, 6)],
    op("SpaceToDepth-1", mode="depth_first", block_size=2),
    lambda x: space_to_depth(x, 2, "depth_first"),
    edit=[attribute("mode", "depth_first", "DEPTH_FIRST")],
)


def shuffle_channels(x, axis, group):
    x = np.moveaxis(x, axis, 0)
    shuffled = x.reshape(group, len(x) // group, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return np.moveaxis(shuffled, 0, axis)


for axis, group in [(1, 2), (-1, 3), (0, 1)]:
    case(
        f"shuffle_channels/axis_{axis}",
        [offsets(2, 4, 6)],
        op("ShuffleChannels-1", axis=axis, group=group),
        lambda x, axis=axis, group=group: shuffle_channels(x, axis, group),
    )
case(
    "batch_to_space/crops",
    [offsets(4, 1, 3, 2)],
    op("BatchToSpace-2", axes(1, 1, 2, 2), axes(0, 0, 1, 0), axes(0, 0, 0, 1)),
    lambda x: x.reshape(2, 2, 1, 1, 3, 2).transpose(2, 3, 4, 0, 5, 1).reshape(1, 1, 6, 4)[:, :, 1:, :3],
)
case(
    "space_to_batch/pads",
    [offsets(1, 1, 3, 3)],
    op("SpaceToBatch-2", axes(1, 1, 2, 2), axes(0, 0, 1, 0), axes(0, 0, 0, 1)),
    lambda x: (
        np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 1)])
        .reshape(1, 1, 2, 2, 2, 2)
        .transpose(3, 5, 0, 1, 2, 4)
        .reshape(4, 1, 2, 2)
    ),
)

# --- cases that share a model ----------------------------------------------------------------------

join("concat/axes", "axes", "negative_axis")
join("split/axes", "axes", "one_output_used", "equal_outputs")
join("variadic_split/zero_length", "zero_length", "minus_one_is_nothing")
join("slice/bounds", "bounds", "without_axes", "types")
join("strided_slice/bounds", "bounds", "negative_strides")
join("pad/negative_other_modes", "negative_edge", "negative_reflect", "negative_symmetric")
join("top_k/by_value", "by_value", "revision_1")
join("top_k/by_index", "by_index", "revision_1_by_index")
join("top_k/types", "i32", "i64", "f16", "infinities")
join("top_k/ties", "ties", "ties_by_index")
join("select/broadcasts", "numpy", "condition_broadcasts", "none")
join("select/types", "types", "nan_is_not_spread")
join("one_hot/axes", "axes", "types", "rank_0")
join("one_hot/revision_16", "ignore_negative", "normalize")
join("depth_to_space/modes", "blocks_first", "depth_first")
join("space_to_depth/modes", "blocks_first", "depth_first")
join("shuffle_channels/axes", "axis_1", "axis_-1", "axis_0")
join("reverse_sequence/lengths", "lengths", "constant_lengths")
join("reverse/modes", "index", "mask")
