#!/usr/bin/env python3
"""Writes the models of this folder, or checks them.

    python generate.py           writes every model and its test data
    python generate.py --check   compares the committed files with what would be written

Each folder has the layout of the ONNX backend tests: `model.onnx` and `test_data_set_N/` with
`input_K.pb` and `output_K.pb`. Either way every model passes onnx's checker, and those for which
OpenVINO is a fair oracle run on OpenVINO and are compared with the expected outputs.

Where the specification prints an output, that is what stands here as the expected one. Where it
prints shapes only, data is made of offsets and the expected output comes from the formula of the
specification, written out in `gather` and `gather_nd` below. Two of those have no files, which would be of
80 MB: `gather-cases/src/layers.rs` makes them for the tests, and here they are compared with OpenVINO.
"""

import argparse
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, checker, helper, numpy_helper

from shared import f32, i32, i64, offsets, pb_files, stale_files, write_files

DOMAIN = "org.openvinotoolkit"
HERE = Path(__file__).parent

# --- the formulas ---------------------------------------------------------------------------------


def gather(data, indices, axis, batch_dims=0, from_end=False, zeros=False):
    """output[p_0, ..., p_{axis-1}, i_b, ..., i_{M-1}, p_{axis+1}, ..., p_{N-1}] =
    data[p_0, ..., p_{axis-1}, indices[p_0, ..., p_{b-1}, i_b, ..., i_{M-1}], p_{axis+1}, ..., p_{N-1}]
    """
    data, indices = np.asarray(data), np.asarray(indices)
    axis %= data.ndim
    if batch_dims < 0:
        batch_dims += indices.ndim
    size = data.shape[axis]
    assert data.shape[:batch_dims] == indices.shape[:batch_dims]
    output = np.zeros(data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis + 1 :], data.dtype)
    for p in np.ndindex(data.shape[:axis]):
        for i in np.ndindex(indices.shape[batch_dims:]):
            index = int(indices[p[:batch_dims] + i])
            if from_end and index < 0:
                index += size
            if 0 <= index < size:
                output[p + i] = data[p + (index,)]
            else:
                assert zeros, f"index {index} is out of range"
    return output


def gather_nd(data, indices, batch_dims=0):
    """output[i_0, ..., i_{K-2}, :, ..., :] = data[indices[i_0, ..., i_{K-2}], :, ..., :]"""
    data, indices = np.asarray(data), np.asarray(indices)
    assert data.shape[:batch_dims] == indices.shape[:batch_dims]
    output = np.zeros(indices.shape[:-1] + data.shape[batch_dims + indices.shape[-1] :], data.dtype)
    for i in np.ndindex(indices.shape[:-1]):
        tuple_ = tuple(int(index) for index in indices[i])
        assert all(0 <= x < s for x, s in zip(tuple_, data.shape[batch_dims:]))
        output[i] = data[i[:batch_dims] + tuple_]
    return output


def offsets_u8(*shape):
    """A tensor of bytes whose elements are their own offsets modulo 251, a prime, so that neighbours along any
    axis differ."""
    return (np.arange(np.prod(shape)) % 251).astype(np.uint8).reshape(shape)


def spread(size, *shape, dtype=np.int32):
    """Indices below `size` in no simple order, the same on every machine."""
    return (np.arange(np.prod(shape), dtype=np.int64) * 7919 % 104729 % size).astype(dtype).reshape(shape)


# --- models ---------------------------------------------------------------------------------------


@dataclass
class Case:
    name: str
    model: onnx.ModelProto
    # For each data set the inputs and the outputs, in the order of the graph.
    data_sets: list
    # For which data sets OpenVINO is a fair oracle: in-range indices, element types that it does not
    # narrow. See `unfair` of each case for why not.
    unfair: dict = field(default_factory=dict)
    # Its tensors are too large: the tests make it themselves.
    without_files: bool = False


CASES = []


def value_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def make_model(name, doc_string, nodes, inputs, outputs, initializers, opset):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers, doc_string)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9, doc_string=doc_string)
    model.producer_name = "tract-openvino"
    return model


def add(op_type, opset, name, doc_string, data, indices, output, axis=None, shape=None,
        unfair=None, without_files=False, **attributes):
    """One node of op_type in the given operator set."""
    data, indices, output = np.asarray(data), np.asarray(indices), np.asarray(output)
    if shape is not None:
        assert output.shape == shape, f"{name}: {output.shape} is not the text's {shape}"
    inputs, initializers = ["data", "indices"], []
    if axis is not None:
        inputs.append("axis")
        initializers.append(numpy_helper.from_array(np.asarray(axis), "axis"))
    node = helper.make_node(op_type, inputs, ["output"], name="gather", domain=DOMAIN, **attributes)
    fed, found = [value_info("data", data), value_info("indices", indices)], [value_info("output", output)]
    model = make_model(name, doc_string, [node], fed, found, initializers, opset)
    unfair = {} if unfair is None else {0: unfair}
    CASES.append(Case(name, model, [([data, indices], [output])], unfair, without_files))


def gather_1():
    def case(name, what, data, indices, axis, **more):
        doc = f"Gather-1, the formula of the detailed description: {what}."
        output = gather(data, indices, int(np.ravel(axis)[0]))
        add("Gather", 1, f"gather_1_{name}", doc, data, indices, output, axis=axis, **more)

    data = offsets(3, 4, 5)
    case("axis_first", "axis = 0", data, i32([2, 0]), i64(0))
    case("axis_middle", "axis = 1", data, i32([3, 0, 0, 2]), i64(1))
    case("axis_last", "axis = 2", data, i64([4, 1, 0]), i32(2))
    case("axis_negative", "axis = -2, which means 1", data, i32([3, 0, 0, 2]), i64(-2))
    case("axis_tensor", "axis is a 1-D tensor", data, i32([1, 2]), i32([1]))
    case("indices_scalar", "indices of rank 0 drop the axis", data, i32(2), i64(1))
    case("indices_2d", "indices of rank 2", data, i64([[0, 3, 1], [2, 2, 0]]), i64(1))
    add(
        "Gather", 1, "gather_1_layer",
        "Gather-1, the layer of the example, with its shapes.",
        data := offsets_u8(6, 12, 10, 24),
        indices := spread(12, 15, 4, 20, 28),
        gather(data, indices, 1),
        axis=i64(1),
        shape=(6, 15, 4, 20, 28, 10, 24),
        without_files=True,
    )


# The examples that Gather-7 and Gather-8 share: number, batch_dims, axis, data, indices, output.
GATHER_EXAMPLES = [
    (1, 0, 0, [1, 2, 3, 4, 5], [0, 0, 4], [1, 1, 5]),
    (2, 1, 1, [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], [[0, 0, 4], [4, 0, 0]], [[1, 1, 5], [10, 6, 6]]),
    (
        3, 2, 2,
        [[[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], [[11, 12, 13, 14, 15], [16, 17, 18, 19, 20]]],
        [[[0, 0, 4], [4, 0, 0]], [[1, 2, 4], [4, 3, 2]]],
        [[[1, 1, 5], [10, 6, 6]], [[12, 13, 15], [20, 19, 18]]],
    ),
    (
        4, 1, 2,
        [
            [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], [17, 18, 19, 20]]],
            [[[21, 22, 23, 24], [25, 26, 27, 28], [29, 30, 31, 32], [33, 34, 35, 36], [37, 38, 39, 40]]],
        ],
        [[1, 2, 4], [4, 3, 2]],
        [
            [[[5, 6, 7, 8], [9, 10, 11, 12], [17, 18, 19, 20]]],
            [[[37, 38, 39, 40], [33, 34, 35, 36], [29, 30, 31, 32]]],
        ],
    ),
    (5, -1, 1, [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], [[0, 0, 4], [4, 0, 0]], [[1, 1, 5], [10, 6, 6]]),
]


def gather_7():
    for number, batch_dims, axis, data, indices, output in GATHER_EXAMPLES:
        add(
            "Gather", 7, f"gather_7_example_{number}", f"Gather-7, example {number}.",
            f32(data), i64(indices), f32(output), axis=i64(axis), batch_dims=batch_dims,
        )
    add(
        "Gather", 7, "gather_7_layer",
        "Gather-7, the layer of the example, with its shapes.",
        data := offsets(2, 64, 128),
        indices := spread(64, 2, 32, 21),
        gather(data, indices, 1, 1),
        axis=i64(1),
        shape=(2, 32, 21, 128),
        batch_dims=1,
    )


def gather_8():
    for number, batch_dims, axis, data, indices, output in GATHER_EXAMPLES:
        add(
            "Gather", 8, f"gather_8_example_{number}", f"Gather-8, example {number}.",
            i32(data), i32(indices), i32(output), axis=i32(axis), batch_dims=batch_dims,
        )
    add(
        "Gather", 8, "gather_8_example_6",
        "Gather-8, example 6: negative indices count from the end.",
        i32([1, 2, 3, 4, 5]), i32([0, -2, -1]), i32([1, 4, 5]), axis=i32(0), batch_dims=0,
    )
    add(
        "Gather", 8, "gather_8_example_7",
        "Gather-8, example 7: indices out of range give zeros.",
        i32([1, 2, 3, 4, 5]), i32([3, 10, -20]), i32([4, 0, 0]), axis=i32(0), batch_dims=0,
        unfair="OpenVINO reads outside the buffer for small 1-D tensors",
    )
    add(
        "Gather", 8, "gather_8_layer",
        "Gather-8, the layer of the example, with its shapes; a quarter of the indices negative.",
        data := offsets(2, 64, 128),
        indices := np.where(spread(4, 2, 32, 21) == 0, -1, 1) * spread(64, 2, 32, 21, dtype=np.int64),
        gather(data, indices, 1, 1, from_end=True),
        axis=i64(1),
        shape=(2, 32, 21, 128),
        batch_dims=1,
    )


GATHER_ND_EXAMPLES = [
    (1, 0, [[1, 2], [3, 4]], [[0, 0], [1, 0]], [1, 3]),
    (2, 0, [[1, 2], [3, 4]], [[1], [0]], [[3, 4], [1, 2]]),
    (3, 0, [[1, 2], [3, 4]], [[[1]], [[0]]], [[[3, 4]], [[1, 2]]]),
    (4, 1, [[1, 2], [3, 4]], [[1], [0]], [2, 3]),
    (
        5, 1,
        [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]],
         [[13, 14, 15, 16], [17, 18, 19, 20], [21, 22, 23, 24]]],
        [[1], [0]],
        [[5, 6, 7, 8], [13, 14, 15, 16]],
    ),
    (
        6, 2,
        [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]],
         [[13, 14, 15, 16], [17, 18, 19, 20], [21, 22, 23, 24]]],
        [[[[1]], [[0]], [[2]]], [[[0]], [[2]], [[2]]]],
        [[[2], [5], [11]], [[13], [19], [23]]],
    ),
    (
        7, 3,
        [[[[1, 2, 3, 4], [5, 6, 7, 8]], [[9, 10, 11, 12], [13, 14, 15, 16]]]],
        [[[[1], [0]], [[3], [2]]]],
        [[[2, 5], [12, 15]]],
    ),
]


def gather_nd_8():
    # The text's indices of example 7 stand there as (1, 2, 2, 1), and so they do here.
    for number, batch_dims, data, indices, output in GATHER_ND_EXAMPLES:
        add(
            "GatherND", 8, f"gather_nd_8_example_{number}", f"GatherND-8, example {number}.",
            f32(data), i32(indices), f32(output), batch_dims=batch_dims,
        )
    layers = [
        (1, 0, offsets_u8(1000, 256, 10, 15), [1000, 256, 10], (25, 125, 3), (25, 125, 15)),
        (2, 2, offsets(30, 2, 100, 35), [100], (30, 2, 3, 1), (30, 2, 3, 35)),
        (3, 3, offsets_u8(1, 64, 64, 320), [320], (1, 64, 64, 1, 1), (1, 64, 64, 1)),
    ]
    for number, batch_dims, data, sizes, indices_shape, shape in layers:
        indices = np.stack([spread(size, *indices_shape[:-1]) for size in sizes], axis=-1)
        assert indices.shape == indices_shape
        add(
            "GatherND", 8, f"gather_nd_8_layer_{number}",
            f"GatherND-8, layer {number} of the examples, with its shapes.",
            data, indices, gather_nd(data, indices, batch_dims), shape=shape,
            batch_dims=batch_dims, without_files=number == 1,
        )


def gather_nd_5():
    # GatherND-5 fuses the batch axes of the output: the data of GatherND-8's examples 6 and 7.
    for number, name, shape in [(6, "two", (6, 1)), (7, "three", (4,))]:
        _, batch_dims, data, indices, output = GATHER_ND_EXAMPLES[number - 1]
        add(
            "GatherND", 5, f"gather_nd_5_fused_{name}_batch_dims",
            f"GatherND-5 on the data of example {number} of GatherND-8: the output has one axis for "
            f"the {name} batch dimensions.",
            f32(data), i64(indices), f32(output).reshape(shape), shape=shape, batch_dims=batch_dims,
        )
    _, batch_dims, data, indices, output = GATHER_ND_EXAMPLES[4]
    add(
        "GatherND", 5, "gather_nd_5_one_batch_dim",
        "GatherND-5 on the data of example 5 of GatherND-8: with one batch dimension nothing is fused.",
        f32(data), i32(indices), f32(output), batch_dims=batch_dims,
    )


def token_picker():
    """What such nodes do in a language model: token ids become rows of an embedding table, some
    positions of each sequence are picked, and of those some points are looked up."""
    vocabulary, width, hidden = 32, 8, 4
    table = (np.arange(vocabulary * width, dtype=np.float32).reshape(vocabulary, width) % 13) - 6
    languages = offsets(3, width) % 5
    weights = offsets(width, hidden) % 7 - 3

    nodes = [
        helper.make_node(kind, inputs, [output], name=name, **attributes)
        for kind, inputs, output, name, attributes in [
            ("Gather", ["table", "token_ids", "axis_0"], "tokens", "embedding", dict(domain=DOMAIN)),
            ("Gather", ["languages", "language_ids"], "language", "language_embedding", dict(axis=0)),
            ("Unsqueeze", ["language", "axes_1"], "language_of_sequence", "per_sequence", {}),
            ("Add", ["tokens", "language_of_sequence"], "embedded", "add", {}),
            ("MatMul", ["embedded", "weights"], "projected", "project", {}),
            ("Gather", ["projected", "positions", "axis_1"], "picked", "pick",
             dict(domain=DOMAIN, batch_dims=1, version="opset7")),
            ("Cast", ["points"], "point_indices", "cast", dict(to=TensorProto.INT64)),
            ("GatherND", ["picked", "point_indices"], "scores", "look_up", dict(domain=DOMAIN)),
        ]
    ]
    initializers = [
        numpy_helper.from_array(array, name)
        for name, array in [
            ("table", table), ("languages", languages), ("weights", weights),
            ("axis_0", i64(0)), ("axis_1", i64(1)), ("axes_1", i64([1])),
        ]
    ]
    inputs = [
        helper.make_tensor_value_info("token_ids", TensorProto.INT64, ["batch", "sequence"]),
        helper.make_tensor_value_info("language_ids", TensorProto.INT32, ["batch"]),
        helper.make_tensor_value_info("positions", TensorProto.INT32, ["batch", "picks"]),
        helper.make_tensor_value_info("points", TensorProto.FLOAT, ["queries", 2]),
    ]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["queries", hidden])]
    model = make_model(
        "token_picker",
        "Token ids, through an embedding table (Gather-8), a projection, a pick of positions for "
        "each sequence (Gather-7 with batch_dims) and a look-up of points (GatherND-8), among "
        "operators of the standard domain. Batch and sequence are symbolic.",
        nodes, inputs, outputs, initializers, 8,
    )

    def run(token_ids, language_ids, positions, points):
        tokens = gather(table, token_ids, 0, from_end=True, zeros=True)
        embedded = tokens + gather(languages, language_ids, 0)[:, None]
        picked = gather(embedded @ weights, positions, 1, 1)
        return gather_nd(picked, points.astype(np.int64))

    batches = [
        # A padding token is -1: the last row of the table.
        (i64([[5, 7, 30, -1], [2, 9, -1, -1]]), i32([2, 0]), i32([[2, 0], [1, 1]]),
         f32([[0, 0], [1, 1], [0, 1]])),
        # A token that the table does not have has the embedding zero.
        (i64([[1, 32, 3], [4, 5, 6], [31, 1000, -33]]), i32([0, 1, 2]), i32([[1], [0], [2]]),
         f32([[0, 0], [2, 0]])),
    ]
    unfair = {1: "OpenVINO may read outside the buffer where an index is out of range"}
    CASES.append(Case("token_picker", model, [([*batch], [run(*batch)]) for batch in batches], unfair))


def standard_gather():
    """The cases of ONNX's own backend tests for Gather and GatherND of the standard domain, which its
    Python package makes."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings(action="ignore"):
        tests = node.collect_testcases(None)
    for test in tests:
        if [it.op_type for it in test.model.graph.node] in (["Gather"], ["GatherND"]):
            CASES.append(Case(f"onnx_{test.name}", test.model, test.data_sets))


# --- OpenVINO -------------------------------------------------------------------------------------


def openvino_operator(op_type, default_opset):
    """Maps a node of ours to OpenVINO's own operator, as an extension of its ONNX reader."""
    import openvino.opset1
    import openvino.opset5
    import openvino.opset7
    import openvino.opset8

    make = {
        ("Gather", 1): openvino.opset1.gather,
        ("Gather", 7): openvino.opset7.gather,
        ("Gather", 8): openvino.opset8.gather,
        ("GatherND", 5): openvino.opset5.gather_nd,
        ("GatherND", 8): openvino.opset8.gather_nd,
    }

    def convert(node):
        version = node.get_attribute("version", "")
        opset = int(version.removeprefix("opset")) if version else default_opset
        inputs = [node.get_input(i) for i in range(node.get_input_size())]
        attributes = [] if (op_type, opset) == ("Gather", 1) else [node.get_attribute("batch_dims", 0)]
        return make[op_type, opset](*inputs, *attributes).outputs()

    return convert


def compare_with_openvino(case):
    """Runs a model on OpenVINO. Returns how many data sets were compared."""
    import openvino
    from openvino.frontend.onnx import ConversionExtension

    core = openvino.Core()
    for opset in (it.version for it in case.model.opset_import if it.domain == DOMAIN):
        for op_type in ["Gather", "GatherND"]:
            core.add_extension(ConversionExtension(op_type, DOMAIN, openvino_operator(op_type, opset)))
    compiled = core.compile_model(core.read_model(case.model.SerializeToString(), b""), "CPU")
    compared = 0
    for number, (inputs, outputs) in enumerate(case.data_sets):
        if number in case.unfair:
            continue
        results = compiled(inputs)
        for expected, port in zip(outputs, compiled.outputs):
            np.testing.assert_array_equal(
                results[port], expected, err_msg=f"{case.name}: OpenVINO disagrees", strict=True
            )
        compared += 1
    return compared


# --- files ----------------------------------------------------------------------------------------


def files_of(case):
    files = {"model.onnx": case.model.SerializeToString(deterministic=True)}
    graph = case.model.graph
    names = [[it.name for it in graph.input], [it.name for it in graph.output]]
    for number, arrays in enumerate(case.data_sets):
        files |= pb_files(number, *arrays, names)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()

    for family in [gather_1, gather_7, gather_8, gather_nd_8, gather_nd_5, token_picker, standard_gather]:
        family()

    stale, compared, skipped = [], 0, []
    for case in CASES:
        checker.check_model(case.model, full_check=True)
        if not case.without_files:
            files = files_of(case)
            if arguments.check:
                stale += [f"{case.name}/{name}" for name in stale_files(HERE / case.name, files)]
            else:
                write_files(HERE / case.name, files)
        compared += compare_with_openvino(case)
        skipped += [f"{case.name}, data set {n}: {why}" for n, why in case.unfair.items()]

    kept = {case.name for case in CASES if not case.without_files}
    stale += sorted(
        path.parent.name for path in HERE.glob("*/model.onnx")
        if path.parent.name not in kept and onnx.load(path).producer_name == "tract-openvino"
    )

    print(f"{len(CASES)} models pass onnx's checker")
    print(f"{compared} data sets agree with OpenVINO; not compared:")
    for line in skipped:
        print(f"  {line}")
    if stale:
        print("not what this script writes:", *stale, sep="\n  ")
        sys.exit(1)
    print("the committed files are what this script writes" if arguments.check else "written")


if __name__ == "__main__":
    main()
