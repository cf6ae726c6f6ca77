"""Values that an operation cannot do anything with: constants of the file, and inputs."""

import numpy as np

from bad_file_cases import good, section
from bad_file_cases.net import Const, floats, one


def i32(values):
    return np.array(values, np.int32)


def i64(values):
    return np.array(values, np.int64)


def add_shapes():
    case = section("Values: shapes and lengths")
    x = floats(2, 3)
    case("reshape_product", "Reshape of 6 elements to [4, 2]",
         one("Reshape-1", [x, Const([4, 2])], [[4, 2]], special_zero="false"))
    case("reshape_overflow", "Reshape of 6 elements to [2³², 2³², 2³²]",
         one("Reshape-1", [x, Const([2**32] * 3)], [[6]], special_zero="false"))
    case("reshape_two_open", "Reshape to [−1, −1]",
         one("Reshape-1", [x, Const([-1, -1])], [[2, 3]], special_zero="false"))
    case("reshape_at_run_time", "Reshape of 6 elements to [4, 2], an input",
         one("Reshape-1", [x, ("shape", i64([4, 2]))], [[-1, -1]], special_zero="false"), fails="run")
    case("split_lengths", "VariadicSplit of 6 into 2 and 3",
         one("VariadicSplit-1", [floats(6), Const(0), Const([2, 3])], [[2], [3]]))
    case("split_uneven", "Split of 5 into 2", one("Split-1", [floats(5), Const(0)], [[2], [3]], num_splits=2))
    masks = {"begin_mask": [0], "end_mask": [0]}
    case("slice_step_0", "StridedSlice with stride 0",
         one("StridedSlice-1", [floats(6), Const([0]), Const([6]), Const([0])], [[6]], **masks))
    case("slice_step_0_at_run_time", "Slice with step 0, an input",
         one("Slice-8", [floats(6), Const([0]), Const([6]), ("step", i64([0])), Const([0])], [[-1]]),
         fails="run")
    numpy = {"auto_broadcast": "numpy"}
    case("broadcast_2_and_3", "Add of 2 and 3 elements", one("Add-1", [floats(2), floats(3)], [[3]], **numpy))
    open_inputs = [("a", floats(2), [-1]), ("b", floats(3), [-1])]
    case("broadcast_2_and_3_open", "the same, of open sizes", one("Add-1", open_inputs, [[-1]], **numpy),
         fails="run")
    case("matmul_sizes", "MatMul of 2 × 3 and 2 × 3",
         one("MatMul-1", [x, x], [[2, 3]], transpose_a="false", transpose_b="false"))
    pads = [floats(3), Const([3]), Const([0])]
    case("pad_reflect", "Pad in the mode reflect by as much as there is",
         one("Pad-1", pads, [[6]], pad_mode="reflect"))
    case("one_hot_negative", "OneHot of depth −1",
         one("OneHot-1", [i64([0]), Const(-1), Const(1, "float32"), Const(0, "float32")], [[1, 1]], axis=1))
    top = {"axis": 0, "mode": "max", "sort": "value", "index_element_type": "i32"}
    case("top_k_more", "TopK of 5 of 3 elements",
         one("TopK-3", [floats(3), Const(5)], [[5], ("i32", [5])], **top))
    case("top_k_nan", "TopK of NaN",
         one("TopK-3", [np.array([1, np.nan, 3], np.float32), Const(3)], [[3], ("i32", [3])], **top),
         text="not defined", outputs=[np.array([np.nan, 3, 1], np.float32), i32([1, 2, 0])])


def add_indices():
    case = section("Values: indices")
    table = floats(3, 2)
    case("gather_7_constant", "Gather-7: index 3 of 3, a constant",
         one("Gather-7", [table, Const([3]), Const(0)], [[1, 2]], batch_dims=0), moves=True)
    case("gather_8_constant", "Gather-8: index 3 of 3, a constant",
         one("Gather-8", [table, Const([3]), Const(0)], [[1, 2]], batch_dims=0), text="zeros",
         outputs=good([[0, 0]]), moves=True)
    case("gather_nd_tuple", "GatherND: tuples of 3 entries, rank 2",
         one("GatherND-8", [table, Const([[0, 0, 0]])], [[1]], batch_dims=0), moves=True)
    case("gather_elements", "GatherElements: index 9 of 3",
         one("GatherElements-6", [floats(3), i32([0, 9, 1])], [[3]], axis=0), fails="run", moves=True)
    case("gather_tree", "GatherTree: a parent 99 of 2",
         one("GatherTree-1", [("steps", floats(2, 1, 2)), ("parents", np.full((2, 1, 2), 99, np.float32)),
                              ("lengths", np.array([2], np.float32)), ("end", np.float32(0))], [[2, 1, 2]]),
         fails="run", moves=True)
    case("scatter_update", "ScatterUpdate: index 9 of 3",
         one("ScatterUpdate-3", [floats(3), i64([9]), np.float32([7]), Const(0)], [[3]]), fails="run")
    case("scatter_nd_update", "ScatterNDUpdate: index −9 of 3",
         one("ScatterNDUpdate-4", [floats(3), i64([[-9]]), np.float32([7])], [[3]]), fails="run")
    case("scatter_elements_update", "ScatterElementsUpdate: index 2⁶² of 3",
         one("ScatterElementsUpdate-3", [floats(3), i64([2**62]), np.float32([7]), Const(0)], [[3]]),
         fails="run")
    case("bag_offsets", "EmbeddingBagOffsetsSum: offset 99 of 3 indices",
         one("EmbeddingBagOffsetsSum-3", [table, i32([0, 1, 2]), i32([0, 99])], [[2, 2]]), fails="run")
    case("bag_indices", "EmbeddingBagOffsetsSum: index 99 of 3 rows",
         one("EmbeddingBagOffsetsSum-3", [table, i32([0, 99, 2]), i32([0, 1])], [[2, 2]]), fails="run")
    case("segments_order", "EmbeddingSegmentsSum: segments that are not in order",
         one("EmbeddingSegmentsSum-3", [table, i32([0, 1]), i32([1, 0]), Const(2, "int32")], [[2, 2]]),
         fails="run")
    case("reverse_lengths", "ReverseSequence: length 9 of 3",
         one("ReverseSequence-1", [table.T.copy(), i32([9, 1])], [[2, 3]], batch_axis=0, seq_axis=1),
         fails="run", moves=True)


def add_detection():
    case = section("Values: detection, sequences, arithmetic")
    rois = np.float32([[0, 0, 2, 2]])
    case("roi_batch", "ROIAlign: batch 7 of 1",
         one("ROIAlign-9", [floats(1, 1, 4, 4), rois, i32([7])], [[1, 1, 2, 2]], pooled_h=2, pooled_w=2,
             sampling_ratio=2, spatial_scale=1, mode="avg", aligned_mode="asymmetric"), fails="run")
    nan = np.full((1, 2, 4), np.nan, np.float32)
    count = [Const(2**62), Const(0.5, "float32"), Const(0, "float32")]
    outputs = [("i64", [-1, 3]), [-1, 3], ("i64", [1])]
    nms = {"box_encoding": "corner", "sort_result_descending": "true", "output_type": "i64"}
    case("nms_nan", "NonMaxSuppression: NaN for boxes and scores, at most 2⁶² boxes",
         one("NonMaxSuppression-9", [nan, nan[:, :1, :2].copy(), *count], outputs, **nms), text="not defined",
         outputs=[np.zeros((0, 3), np.int64), np.zeros((0, 3), np.float32), i64([0])])
    # All weights are 0: each step halves the state of the cell.
    lstm = [floats(1, 3, 1), np.zeros((1, 1, 1), np.float32), np.full((1, 1, 1), 8, np.float32), i32([9]),
            *(Const(np.zeros(shape), "float32") for shape in [(1, 4, 1), (1, 4, 1), (1, 4)])]
    case("sequence_lengths", "LSTMSequence: length 9 of 3",
         one("LSTMSequence-5", lstm, [[1, 1, 3, 1], [1, 1, 1], [1, 1, 1]], direction="forward", hidden_size=1,
             activations="sigmoid,relu,relu", activations_alpha="", activations_beta=""), text="not defined",
         outputs=[np.float32([[[[2], [1], [0.5]]]]), np.float32([[[0.5]]]), np.float32([[[1]]])])
    numpy = {"auto_broadcast": "numpy"}
    case("divide_by_0", "Divide of i32 by 0, a constant",
         one("Divide-1", [Const([7], "int32"), Const([0], "int32")], [("i32", [1])], **numpy,
             m_pythondiv="true"), fails="run")
    case("divide_by_0_at_run_time", "Divide of i32 by 0, an input",
         one("Divide-1", [i32([7]), i32([0])], [("i32", [1])], **numpy, m_pythondiv="true"), fails="run")
    case("divide_minimum", "Divide of −2³¹ by −1, inputs",
         one("Divide-1", [i32([-(2**31)]), i32([-1])], [("i32", [1])], **numpy, m_pythondiv="true"),
         text="overflow", outputs=[i32([-(2**31)])])
    case("mod_by_0", "FloorMod of i64 by 0, an input",
         one("FloorMod-1", [i64([7]), i64([0])], [("i64", [1])], **numpy), fails="run")


def add():
    add_shapes()
    add_indices()
    add_detection()
