"""ShapeOf, Reshape, Squeeze, Unsqueeze, Transpose, Broadcast, Tile, Range, and graphs of shapes."""

from framework import *

# --- ShapeOf --------------------------------------------------------------------------------------

case(
    "shape_of/types",
    [offsets(2, 3, 4), f32(1)],
    lambda x, y: [make("ShapeOf-1", x), shape_of(x), make("ShapeOf-3", x, output_type="i32"), shape_of(y)],
    lambda x, y: [i64([2, 3, 4]), i64([2, 3, 4]), i32([2, 3, 4]), i64([])],
)
case(
    "shape_of/open_dimensions",
    [offsets(2, 3, 4)],
    ops(op("ShapeOf-1"), op("ShapeOf-3", output_type="i32")),
    lambda x: [i64(x.shape), i32(x.shape)],
    shapes=["?,3,?"],
    more=[[offsets(5, 3, 1)], [offsets(0, 3, 2)]],
)
# Under a later operator set without revisions of its own it is the newest of the earlier ones.
case(
    "shape_of/later_opset",
    [offsets(2, 3)],
    op("ShapeOf-3", output_type="i32"),
    lambda x: i32(x.shape),
    edit=[opset("ShapeOf", 3, "opset8"), attribute("output_type", "i32", "I32")],
)

# --- Reshape --------------------------------------------------------------------------------------


def reshape(name, data, target, special_zero, shape, **more):
    case(
        f"reshape/{name}",
        [data, target],
        op("Reshape-1", special_zero=special_zero),
        lambda x, _: x.reshape(shape),
        **more,
    )


reshape("plain", offsets(2, 3, 4), axes(4, 6), False, (4, 6))
reshape("minus_one", offsets(2, 3, 4), const(i32([3, -1, 2])), False, (3, 4, 2))
reshape("zero_copies", offsets(2, 3, 4), axes(0, -1), True, (2, 12))
reshape("zero_copies_the_same_index", offsets(2, 3, 4), axes(-1, 0), True, (8, 3))
reshape("empty_literal_zero", f32(np.zeros((0, 3))), axes(3, 0), False, (3, 0))
reshape("empty_copied_zero", f32(np.zeros((0, 3))), axes(0, 3, 1), True, (0, 3, 1))
reshape("empty_minus_one", f32(np.zeros((0, 4))), axes(2, 2, -1), True, (2, 2, 0))
reshape("to_rank_0", f32([[7]]), axes(), False, ())
reshape("from_rank_0", f32(7), axes(1, -1), False, (1, 1))
reshape(
    "special_zero_spelled_1",
    offsets(2, 3, 4),
    axes(0, 0, 2, 2),
    True,
    (2, 3, 2, 2),
    edit=[attribute("special_zero", "true", "1")],
)
case(
    "reshape/open_dimensions",
    [offsets(2, 3, 4)],
    ops(
        op("Reshape-1", axes(0, 3, -1, 2), special_zero=True),
        op("Reshape-1", axes(-1, 4), special_zero=False),
        op("Reshape-1", axes(0, -1), special_zero=True),
    ),
    lambda x: [x.reshape(len(x), 3, 2, 2), x.reshape(-1, 4), x.reshape(len(x), 12)],
    shapes=["?,3,4"],
    more=[[offsets(5, 3, 4)]],
)
case(
    "reshape/two_open_dimensions",
    [offsets(2, 3, 8)],
    op("Reshape-1", axes(0, 0, 2, 4), special_zero=True),
    lambda x: x.reshape(*x.shape[:2], 2, 4),
    shapes=["?,?,8"],
    more=[[offsets(1, 5, 8)]],
)
case(
    # As exporters flatten a mask: with the sizes of the tokens that belong to it.
    "reshape/sizes_of_another_input",
    [offsets(2, 3), offsets(2, 3, dtype=np.int64)],
    lambda x, mask: make(
        "Reshape-1",
        mask,
        make("Concat-1", make("ReduceProd-1", dims(x, 0, 1), axes(0), keep_dims=True), axes(-1), axis=0),
        special_zero=False,
    ),
    lambda x, mask: mask.reshape(x.size, -1),
    shapes=["?,?", "?,?"],
    more=[[offsets(1, 5), offsets(1, 5, dtype=np.int64)]],
)
case(
    "reshape/types",
    [offsets(2, 3, dtype=np.float16), offsets(2, 3, dtype=np.int64), boolean([[1, 0, 1], [0, 0, 1]])],
    lambda *inputs: [make("Reshape-1", it, axes(3, 2), special_zero=False) for it in inputs],
    lambda *inputs: [it.reshape(3, 2) for it in inputs],
)

# --- Squeeze, Unsqueeze ---------------------------------------------------------------------------

case(
    "squeeze/axes",
    [offsets(1, 3, 1, 2, 1)],
    ops(
        op("Squeeze-1", axes(0)),
        op("Squeeze-1", axes(2, 0)),
        op("Squeeze-1", axes(-1)),
        op("Squeeze-1", scalar(2)),
        op("Squeeze-1", const(i32([0, -3, 4]))),
        op("Squeeze-1"),
    ),
    lambda x: [x[0], x[0, :, 0], x[..., 0], x[:, :, 0], x.reshape(3, 2), x.reshape(3, 2)],
)
case("squeeze/to_rank_0", [f32([[5]])], ops(op("Squeeze-1", axes(0, 1)), op("Squeeze-1")), lambda x: [f32(5)] * 2)
case(
    "squeeze/revision_15",
    [offsets(1, 3, 1)],
    ops(
        op("Squeeze-15", axes(0), allow_axis_skip=False),
        op("Squeeze-15", axes(-1), allow_axis_skip=False),
        op("Squeeze-15", allow_axis_skip=False),
    ),
    lambda x: [x[0], x[..., 0], x.reshape(3)],
)
case(
    "squeeze/open_dimensions",
    [offsets(2, 1, 3)],
    ops(op("Squeeze-1", axes(1)), op("Squeeze-15", axes(-2))),
    lambda x: [x[:, 0]] * 2,
    shapes=["?,1,?"],
    more=[[offsets(3, 1, 5)]],
)
# An axis whose dimension is not 1 is left alone since OpenVINO 2024.3.
case(
    "squeeze/not_1",
    [offsets(1, 3)],
    ops(op("Squeeze-1", axes(1)), op("Squeeze-1", axes(0, 1)), op("Squeeze-15", axes(1), allow_axis_skip=True)),
    lambda x: [x, x[0], x],
)
case(
    "unsqueeze/axes",
    [offsets(3, 2)],
    ops(
        *(
            op("Unsqueeze-1", it)
            for it in (axes(0), axes(-1), axes(0, 3), axes(3, 0), axes(-4, 2), scalar(1), const(i32([1, -1])))
        )
    ),
    lambda x: [
        x[None],
        x[..., None],
        x[None, ..., None],
        x[None, ..., None],
        x[None, :, None],
        x[:, None],
        x[:, None, :, None],
    ],
)
case(
    "unsqueeze/from_rank_0",
    [f32(5)],
    ops(op("Unsqueeze-1", axes(0)), op("Unsqueeze-1", axes(0, 1))),
    lambda x: [f32([5]), f32([[5]])],
)
case(
    "unsqueeze/open_dimensions",
    [i64([1, 2])],
    ops(op("Unsqueeze-1", axes(1)), op("Unsqueeze-1", axes(0, -1))),
    lambda x: [x[:, None], x[None, :, None]],
    shapes=["?"],
    more=[[i64([1, 2, 3])]],
)

# --- Transpose ------------------------------------------------------------------------------------

case(
    "transpose/orders",
    [offsets(2, 3, 4)],
    ops(*(op("Transpose-1", it) for it in (axes(2, 0, 1), const(i32([0, 2, 1])), axes(0, 1, 2), axes()))),
    lambda x: [x.transpose(2, 0, 1), x.transpose(0, 2, 1), x, x.transpose()],
)
case(
    "transpose/open_dimensions",
    [offsets(2, 3, 4)],
    ops(op("Transpose-1", axes(1, 2, 0)), op("Transpose-1", axes())),
    lambda x: [x.transpose(1, 2, 0), x.transpose()],
    shapes=["?,3,?"],
    more=[[offsets(1, 3, 2)]],
)
case(
    "transpose/types",
    [offsets(2, 3, dtype=np.int64), boolean([[1, 0, 1], [0, 0, 1]]), f32(np.zeros((0, 3)))],
    lambda *inputs: [make("Transpose-1", it, axes(1, 0)) for it in inputs],
    lambda *inputs: [it.T for it in inputs],
    shapes=[None, None, "?,3"],
)

# --- Broadcast ------------------------------------------------------------------------------------

case(
    "broadcast/numpy",
    [offsets(3, 1), f32(5), offsets(4)],
    lambda x, y, z: [
        make("Broadcast-3", x, axes(2, 3, 4), mode="numpy"),
        make("Broadcast-3", x, const(i32([3, 1])), mode="numpy"),
        make("Broadcast-3", y, axes(2, 2), mode="numpy"),
        make("Broadcast-3", z, axes(3, 4), mode="numpy"),
        make("Broadcast-1", x, axes(2, 3, 4), mode="numpy"),
        make("Broadcast-1", y, axes(3), mode="numpy"),
    ],
    lambda x, y, z: [
        np.broadcast_to(x, (2, 3, 4)),
        x,
        f32(np.full((2, 2), 5)),
        np.broadcast_to(z, (3, 4)),
        np.broadcast_to(x, (2, 3, 4)),
        f32([5, 5, 5]),
    ],
)
case(
    "broadcast/explicit",
    [offsets(3), offsets(2, 4), f32(7)],
    lambda x, y, z: [
        make("Broadcast-3", x, axes(2, 3, 4), axes(1), mode="explicit"),
        make("Broadcast-3", y, axes(2, 3, 4), axes(0, 2), mode="explicit"),
        make("Broadcast-1", x, axes(3, 2), const(i32([0])), mode="explicit"),
        make("Broadcast-1", y, axes(5, 2, 4), axes(1, 2), mode="explicit"),
    ],
    lambda x, y, z: [
        np.broadcast_to(x[None, :, None], (2, 3, 4)),
        np.broadcast_to(y[:, None], (2, 3, 4)),
        np.broadcast_to(x[:, None], (3, 2)),
        np.broadcast_to(y, (5, 2, 4)),
    ],
)
case(
    "broadcast/explicit_ones",
    [offsets(1, 3)],
    op("Broadcast-3", axes(2, 3, 4), axes(0, 1), mode="explicit"),
    lambda x: np.broadcast_to(x[:, :, None], (2, 3, 4)),
)
case(
    "broadcast/bidirectional",
    [offsets(3, 1), offsets(2, 3, 4)],
    lambda x, y: [
        make("Broadcast-3", x, axes(1, 4), mode="bidirectional"),
        make("Broadcast-3", x, axes(2, 1, 1), mode="bidirectional"),
        make("Broadcast-3", x, axes(1), mode="bidirectional"),
        make("Broadcast-3", y, axes(1, 4), mode="bidirectional"),
        make("Broadcast-3", y, axes(5, 1, 1, 1), mode="bidirectional"),
    ],
    lambda x, y: [np.broadcast_to(x, (3, 4)), np.broadcast_to(x, (2, 3, 1)), x, y, np.broadcast_to(y, (5, 2, 3, 4))],
)
case(
    "broadcast/types_and_spelling",
    [i64([[1], [2]]), boolean([True, False])],
    lambda x, y: [make("Broadcast-3", it, axes(2, 2), mode="numpy") for it in (x, y)],
    lambda x, y: [np.broadcast_to(it, (2, 2)) for it in (x, y)],
    edit=[attribute("mode", "numpy", "NUMPY")],
)
case(
    "broadcast/to_the_shape_of_another",
    [f32([[1], [2]]), offsets(3, 2, 4)],
    lambda x, y: [
        make("Broadcast-3", x, shape_of(y), mode="numpy"),
        make("Broadcast-3", real(0), make("ShapeOf-3", y, output_type="i32"), mode="numpy"),
    ],
    lambda x, y: [np.broadcast_to(x, y.shape), np.zeros_like(y)],
    shapes=[None, "?,2,?"],
    more=[[f32([[1], [2]]), offsets(1, 2, 3)]],
)
case(
    "broadcast/to_empty",
    [f32([[1, 2, 3]])],
    op("Broadcast-3", axes(0, 3), mode="numpy"),
    lambda x: f32(np.zeros((0, 3))),
    formula="the CPU plugin is not sure of empty tensors",
)

# --- Tile -----------------------------------------------------------------------------------------

case(
    "tile/repeats",
    [offsets(2, 3)],
    ops(*(op("Tile-1", it) for it in (axes(1, 2), axes(2, 1), const(i32([2, 2])), axes(2, 1, 2), axes(2), axes(1, 1)))),
    lambda x: [np.tile(x, it) for it in [(1, 2), (2, 1), (2, 2), (2, 1, 2), (2,), (1, 1)]],
)
case(
    "tile/rank_0",
    [f32(5), i64([1, 2])],
    lambda x, y: [make("Tile-1", x, axes(3)), make("Tile-1", y, axes(2, 2))],
    lambda x, y: [f32([5, 5, 5]), np.tile(y, (2, 2))],
)
case(
    "tile/zero_repeats",
    [offsets(2, 3)],
    op("Tile-1", axes(0, 2)),
    lambda x: f32(np.zeros((0, 6))),
    formula="the CPU plugin is not sure of empty tensors",
)
case(
    "tile/open_dimensions",
    [offsets(2, 3)],
    op("Tile-1", axes(2, 1, 2)),
    lambda x: np.tile(x, (2, 1, 2)),
    shapes=["?,?"],
    more=[[offsets(1, 4)]],
)
case(
    "tile/empty_and_open",
    [offsets(2, 0), offsets(2, 3)],
    lambda x, y: [make("Tile-1", x, axes(1, 3)), make("Tile-1", x, axes(2, 3)), make("Tile-1", y, axes(0, 2))],
    lambda x, y: [np.tile(x, (1, 3)), np.tile(x, (2, 3)), np.tile(y, (0, 2))],
    shapes=["?,0", "?,3"],
    formula="the CPU plugin is not sure of empty tensors",
)

# --- Range ----------------------------------------------------------------------------------------


def range_of(start, stop, step, output_type, dtype):
    return lambda x: make(
        "Range-4", scalar(start, dtype), scalar(stop, dtype), scalar(step, dtype), output_type=output_type
    )


RANGES = [
    (2, 23, 3, "i32", np.int32),
    (23, 2, -3, "i64", np.int64),
    (1, 2.5, 0.5, "f32", np.float32),
    (0, 5, 1, "f32", np.int64),
    (-1, 2.5, 1, "i64", np.float32),
    (5, 0, -1, "f16", np.int32),
    (0, 1, 0.25, "f16", np.float16),
]
# Float bounds of an integer range are truncated first.
case(
    "range/constants",
    [f32([0])],
    lambda x: [make("Relu-1", x), *(range_of(*it)(x) for it in RANGES)],
    lambda x: [
        x,
        i32([2, 5, 8, 11, 14, 17, 20]),
        i64([23, 20, 17, 14, 11, 8, 5]),
        f32([1, 1.5, 2]),
        f32([0, 1, 2, 3, 4]),
        i64([-1, 0, 1]),
        f16([5, 4, 3, 2, 1]),
        f16([0, 0.25, 0.5, 0.75]),
    ],
)
case(
    "range/empty",
    [f32([0])],
    lambda x: [make("Relu-1", x), range_of(5, 5, 1, "i64", np.int64)(x), range_of(5, 2, 1, "i32", np.int32)(x)],
    lambda x: [x, i64([]), i32([])],
    formula="the CPU plugin is not sure of empty tensors",
)
case(
    "range/revision_1",
    [f32([0])],
    lambda x: [
        make("Relu-1", x),
        make("Range-1", scalar(1), scalar(8), scalar(3)),
        make("Range-1", real(2), real(0), real(-0.5)),
    ],
    lambda x: [x, i64([1, 4, 7]), f32([2, 1.5, 1, 0.5])],
)
case(
    "range/inputs",
    [i64(2), i64(11), i64(3)],
    op("Range-4", output_type="i64"),
    lambda start, stop, step: np.arange(start, stop, step),
    more=[[i64(5), i64(0), i64(-2)], [i64(0), i64(1), i64(1)]],
)
case(
    "range/to_an_open_dimension",
    [offsets(2, 3)],
    lambda x: make(
        "Range-4", scalar(0), make("Gather-8", shape_of(x), scalar(1), scalar(0)), scalar(1), output_type="i64"
    ),
    lambda x: np.arange(x.shape[1]),
    shapes=["?,?"],
    more=[[offsets(1, 7)]],
)
case(
    "range/past_and_present",
    [offsets(2, 3), offsets(2, 5)],
    lambda x, past: make(
        "Range-4",
        start := make("Gather-8", shape_of(past), scalar(1), scalar(0)),
        make("Add-1", start, make("Gather-8", shape_of(x), scalar(1), scalar(0))),
        scalar(1),
        output_type="f32",
    ),
    lambda x, past: f32(np.arange(past.shape[1], past.shape[1] + x.shape[1])),
    shapes=["?,?", "?,?"],
    more=[[offsets(1, 7), offsets(1, 1)]],
)

# --- graphs of shapes -----------------------------------------------------------------------------


def concat(*parts):
    return make("Concat-1", *parts, axis=0)


def reshaped(x, *parts):
    return make("Reshape-1", x, concat(*parts), special_zero=False)


case(
    "shape_graphs/split_heads",
    [offsets(2, 3, 8)],
    lambda x: make("Transpose-1", reshaped(x, dims(x, 0), dims(x, 1), axes(2), axes(4)), axes(0, 2, 1, 3)),
    lambda x: x.reshape(*x.shape[:2], 2, 4).transpose(0, 2, 1, 3),
    shapes=["?,?,8"],
    more=[[offsets(1, 5, 8)]],
)
case(
    "shape_graphs/flatten",
    [offsets(2, 3, 4)],
    lambda x: reshaped(x, dims(x, 0), make("ReduceProd-1", dims(x, 1, 2), axes(0), keep_dims=True)),
    lambda x: x.reshape(len(x), -1),
    shapes=["?,?,4"],
    more=[[offsets(3, 1, 4)]],
)


def scalar_dim(x, axis):
    return make("Gather-1", make("ShapeOf-1", x), scalar(axis), scalar(0))


case(
    "shape_graphs/scalar_dimensions",
    [offsets(2, 3, 4)],
    lambda x: reshaped(
        x,
        make("Unsqueeze-1", scalar_dim(x, 0), scalar(0)),
        make("Unsqueeze-1", make("Multiply-1", scalar_dim(x, 1), scalar(4)), scalar(0)),
    ),
    lambda x: x.reshape(len(x), -1),
    shapes=["?,?,4"],
    more=[[offsets(5, 2, 4)]],
)
case(
    "shape_graphs/half_by_strided_slice",
    [offsets(2, 6)],
    lambda x: reshaped(
        x,
        make("StridedSlice-1", shape_of(x), axes(0), axes(1), axes(1), begin_mask=[0], end_mask=[0]),
        axes(2),
        axes(-1),
    ),
    lambda x: x.reshape(len(x), 2, -1),
    shapes=["?,6"],
    more=[[offsets(5, 6)]],
)


def positions(x, *axis):
    """Of axis 1 of a tensor. Without `axis` the one of a list is squeezed."""
    return make("Range-4", scalar(0), make("Squeeze-1", dims(x, 1), *axis), scalar(1), output_type="i64")


case(
    "shape_graphs/mask_of_lengths",
    [i64([2, 4, 0]), offsets(3, 5)],
    lambda lengths, x: make("Less-1", positions(x, axes(0)), make("Unsqueeze-1", lengths, axes(1))),
    lambda lengths, x: np.arange(x.shape[1]) < lengths[:, None],
    shapes=["?", "?,?"],
    more=[[i64([1, 3]), offsets(2, 3)]],
)
case(
    "shape_graphs/causal_mask",
    [i64([[1, 1, 1], [1, 1, 0]])],
    lambda mask: make(
        "LogicalAnd-1",
        make("LessEqual-1", positions(mask), make("Unsqueeze-1", positions(mask), axes(1))),
        make("Unsqueeze-1", make("Convert-1", mask, destination_type="boolean"), axes(1)),
    ),
    lambda mask: np.tril(np.ones((mask.shape[1],) * 2, bool)) & (mask != 0)[:, None],
    shapes=["?,?"],
    more=[[i64([[1, 1, 1, 0, 1]])]],
)


def half(size):
    size = make("Multiply-1", make("Convert-1", size, destination_type="f32"), const(f32([0.5])))
    return make("Convert-1", make("Floor-1", size), destination_type="i64")


# The arithmetic of sizes in floats that exporters write before a resize.
case(
    "shape_graphs/size_in_floats",
    [offsets(1, 5, 4)],
    lambda x: make("Slice-8", x, axes(0), half(dims(x, 1)), axes(1), axes(1)),
    lambda x: x[:, : x.shape[1] // 2],
    shapes=["?,?,4"],
    more=[[offsets(2, 8, 4)]],
)


def to_a_multiple(x, kind, of):
    """Pads axis 1 with the remainder of what is missing."""
    missing = make(kind, make("Subtract-1", axes(of), make(kind, dims(x, 1), axes(of))), axes(of))
    return make("Pad-12", x, axes(0, 0, 0), concat(axes(0), missing, axes(0)), real(0), pad_mode="constant")


case(
    "shape_graphs/pad_to_a_multiple",
    [offsets(1, 5, 2)],
    lambda x: to_a_multiple(x, "FloorMod-1", 4),
    lambda x: np.pad(x, [(0, 0), (0, -x.shape[1] % 4), (0, 0)]),
    shapes=["?,?,2"],
    more=[[offsets(2, 8, 2)]],
)
# The dividend of the second Mod is negative for no size, but a part of it may be.
case(
    "shape_graphs/pad_with_mod",
    [offsets(1, 2, 2)],
    lambda x: to_a_multiple(x, "Mod-1", 8),
    lambda x: np.pad(x, [(0, 0), (0, -x.shape[1] % 8), (0, 0)]),
    shapes=["?,?,2"],
    more=[[offsets(2, 8, 2)], [offsets(1, 9, 2)]],
)
case(
    "shape_graphs/truncated_quotients",
    [offsets(2)],
    lambda x: [
        make("Mod-1", make("Subtract-1", dims(x, 0), axes(4)), axes(3)),
        make("Divide-1", make("Subtract-1", dims(x, 0), axes(4)), axes(3), m_pythondiv=False),
    ],
    lambda x: [np.fmod(i64([len(x) - 4]), 3), i64([np.trunc((len(x) - 4) / 3)])],
    shapes=["?"],
    more=[[offsets(1)], [offsets(3)], [offsets(8)], [offsets(9)], [offsets(12)]],
)
case(
    "shape_graphs/i32",
    [offsets(2, 3, 4)],
    lambda x: reshaped(
        x, make("Gather-8", make("ShapeOf-3", x, output_type="i32"), axes(0), scalar(0)), const(i32([-1]))
    ),
    lambda x: x.reshape(len(x), -1),
    shapes=["?,3,4"],
    more=[[offsets(4, 3, 4)]],
)
case(
    "shape_graphs/expand_and_add",
    [offsets(2, 3), offsets(1, 3)],
    lambda x, y: make("Add-1", x, make("Broadcast-3", y, shape_of(x), mode="bidirectional")),
    lambda x, y: x + y,
    shapes=["?,?", "1,?"],
    more=[[offsets(4, 2), offsets(1, 2)]],
)

# OpenVINO's writer calls this mode of Broadcast-1 "none".
case(
    "broadcast/revision_1_explicit_spelled",
    [offsets(3)],
    op("Broadcast-1", axes(3, 2), axes(0), mode="explicit"),
    lambda x: np.broadcast_to(x[:, None], (3, 2)),
    edit=[attribute("mode", "none", "explicit")],
)

# --- cases that share a model ----------------------------------------------------------------------

join(
    "reshape/targets",
    "plain",
    "minus_one",
    "zero_copies",
    "zero_copies_the_same_index",
    "types",
    "to_rank_0",
    "from_rank_0",
)
join("reshape/empty", "empty_literal_zero", "empty_copied_zero", "empty_minus_one")
join("squeeze/axes", "axes", "to_rank_0", "revision_15")
join("unsqueeze/axes", "axes", "from_rank_0")
join("broadcast/explicit", "explicit", "explicit_ones")
join("tile/repeats", "repeats", "rank_0")
join("range/constants", "constants", "revision_1")
