#!/usr/bin/env python3
"""Feeds bad input to gather operators and prints what each runtime does with it, as Markdown tables.

    cargo build --release --example run
    python bad_input.py --example ../target/release/examples/run
    python bad_input.py --only "batch" --runtimes openvino,onnxruntime

Four runtimes, of which those that are not installed are skipped:

* `ours`         OpenVINO's operators in tract: a node of domain org.openvinotoolkit
* `openvino`     the same operators in OpenVINO itself, on its CPU plugin
* `onnxruntime`  Gather and GatherND of ONNX, on the CPU provider
* `tract`        Gather and GatherND of ONNX, on tract's own operators

Every run is a process of its own with a limit of time and of memory. OpenVINO and ONNX Runtime take the
buffers of numpy arrays as they are: there data lie between two guards full of 777, and indices between two
full of 3, an index of no case with batches, so that a read past either end shows.
"""

import argparse
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper
from outcomes import (
    GUARD,
    GUARD_INDEX,
    NUMBER,
    add_limits,
    cell_of_python,
    child,
    describe_death,
    describe_error,
    describe_value,
    guarded,
    in_document,
    measure_all,
    print_row,
    print_section,
    print_versions,
    run_limited,
    version_of_crate,
    version_of_package,
)

HERE = Path(__file__).parent
DOMAIN = "org.openvinotoolkit"
TITLES = {
    "ours": "tract-openvino",
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
    "tract": "tract",
}

# --- the cases ------------------------------------------------------------------------------------


@dataclass
class Case:
    """One bad input to one operator."""

    section: str
    what: str
    operator: str  # "Gather" or "GatherND"
    revision: int  # of OpenVINO's operator
    text: str  # what the specification of that revision makes of it
    onnx: str  # "runs", "same" as the row above, or "none" where ONNX cannot say it
    data: np.ndarray
    indices: np.ndarray
    axis: np.ndarray
    batch_dims: int
    constant: bool  # indices are part of the model
    symbolic: str  # sizes that the model does not know: "", "all", or "tuples": all but their length
    axis_input: bool  # the axis is an input

    def inputs(self):
        """Names and arrays of what is fed when the model runs, in the order of the graph."""
        fed = {"data": self.data}
        if not self.constant:
            fed["indices"] = self.indices
        if self.axis_input:
            fed["axis"] = self.axis
        return fed

    def shape_of(self, name, unknown):
        """The shape that the model declares for an input; `unknown` makes a symbol for axis k."""
        shape = list(self.inputs()[name].shape)
        known = len(shape) - 1 if (self.symbolic, name) == ("tuples", "indices") else len(shape)
        return [*(unknown(k) for k in range(known)), *shape[known:]] if self.symbolic else shape


CASES = []


def add(section, what, operator, revisions, data, indices, axis=0, batch_dims=0, constant=False,
        symbolic="", axis_input=False, onnx=True):
    """Adds a case for each revision; `revisions` maps a revision to what its text says."""
    if operator == "Gather" and (batch_dims != 0 or axis_input):
        onnx = False
    for number, (revision, text) in enumerate(revisions.items()):
        use = "none" if not onnx else "runs" if number == 0 else "same"
        CASES.append(
            Case(section, what, operator, revision, text, use, data, indices, np.asarray(axis),
                 batch_dims, constant, symbolic, axis_input)
        )


def floats(*shape):
    """1, 2, 3, ... in that shape: no zero, so that a zero in the output is not one of them."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def i64(values):
    return np.array(values, np.int64)


def index_cases():
    section = "Gather: the index"
    outside = {7: "error", 8: "zeros"}
    line, table = floats(5), floats(5, 3)

    def case(what, indices, revisions=outside, data=table, **more):
        add(section, what, "Gather", revisions, data, indices, **more)

    case("the size of the axis, 5", i64([5]), {1: "error", **outside})
    case("the same, symbolic shapes", i64([5]), symbolic="all")
    case("the same, constant indices", i64([5]), constant=True)
    case("the same, data of rank 1", i64([5]), data=line)
    case("−1", i64([-1]), {1: "error", 7: "error", 8: "the last"})
    case("−1, constant indices", i64([-1]), {7: "error", 8: "the last"}, constant=True)
    case("−6, one before the first", i64([-6]))
    case("−6, data of rank 1", i64([-6]), data=line)
    case("i32: 2³¹ − 1", np.array([2**31 - 1], np.int32))
    case("i64: 2³¹", i64([2**31]))
    case("i64: 2³²", i64([2**32]))
    case("i64: 2³² + 1", i64([2**32 + 1]))
    case("i64: 2³² + 1, constant", i64([2**32 + 1]), constant=True)
    case("i64: the maximum", i64([2**63 - 1]))
    case("i64: the minimum", i64([-(2**63)]))
    case("u64: 2⁶³", np.array([2**63], np.uint64))
    case("u64: 2⁶⁴ − 1", np.array([2**64 - 1], np.uint64))
    case("f32: 1.0", np.array([1], np.float32), {8: "error"})
    case("0, axis of size 0", i64([0]), data=floats(0, 3))
    case("7, rows of size 0", i64([7]), {7: "error", 8: "empty"}, data=floats(5, 0))
    case("the same, symbolic shapes", i64([7]), {8: "empty"}, data=floats(5, 0), symbolic="all")
    case("no index", i64([]), {8: "empty"})
    case("the same, symbolic shapes", i64([]), {8: "empty"}, symbolic="all")
    case("no index, axis of size 0", i64([]), {8: "empty"}, data=floats(0, 3))


def batch_cases():
    section = "Gather: batch_dims"
    error = {7: "error", 8: "error"}

    def case(what, data, indices, revisions=None, batch_dims=1, axis=1, **more):
        revisions = {8: "error"} if revisions is None else revisions
        add(section, what, "Gather", revisions, data, indices, axis, batch_dims, **more)

    two, three = np.array([[0], [4]], np.int32), np.array([[0], [4], [1]], np.int32)
    none = np.zeros((0, 1), np.int32)
    case("2 batches of data, 3 of indices", floats(2, 5), three)
    case("the same, symbolic shapes", floats(2, 5), three, error, symbolic="all")
    case("3 of data, 2 of indices, symbolic", floats(3, 5), two, symbolic="all")
    case("1 of data, 3 of indices, symbolic", floats(1, 5), three, symbolic="all")
    case("2 of data, 0 of indices, symbolic", floats(2, 5), none, symbolic="all")
    case("0 of data, 2 of indices, symbolic", floats(0, 5), two, symbolic="all")
    case("the size of the axis, in the last batch", floats(2, 5), i64([[0], [5]]),
         {7: "error", 8: "zeros"})
    case("`batch_dims` = −3, indices of rank 2", floats(2, 5), two, batch_dims=-3)
    case("`batch_dims` = 2, axis = 1", floats(2, 2, 5), np.zeros((2, 2, 1), np.int64), batch_dims=2)
    case("`batch_dims` = 3, rank 2", floats(2, 5), two, batch_dims=3)
    case("`batch_dims` = 2³² + 1", floats(2, 5), two, batch_dims=2**32 + 1)
    case("`batch_dims` = 2⁴⁰", floats(2, 5), two, batch_dims=2**40)
    case("`batch_dims` = the minimum of i64", floats(2, 5), two, batch_dims=-(2**63))


def axis_cases():
    section = "Gather: the axis"

    def case(what, axis, data=floats(5, 3), **more):
        add(section, what, "Gather", {8: "error"}, data, i64([1]), i64(axis), **more)

    # OpenVINO refuses an axis that is an input where the shapes are known, even a good one.
    as_input = {"axis_input": True, "symbolic": "all"}
    case("2, rank 2", 2)
    case("2, an input of the model", 2, **as_input)
    case("−3, rank 2", -3)
    case("−3, an input of the model", -3, **as_input)
    case("2³²", 2**32)
    case("2³², an input of the model", 2**32, **as_input)
    case("two axes, [0, 1]", [0, 1], onnx=False)
    case("no axis, [], an input", [], **as_input)
    case("0, data a scalar", 0, data=np.array(1, np.float32))


def nd_cases():
    section = "GatherND"
    table = floats(5, 3)

    def case(what, indices, data=table, text="error", revisions=(8,), **more):
        texts = revisions if isinstance(revisions, dict) else dict.fromkeys(revisions, text)
        add(section, what, "GatherND", texts, data, indices, **more)

    case("[5, 0]: the size of the first axis", i64([[5, 0]]), revisions=(5, 8))
    case("the same, symbolic shapes", i64([[5, 0]]), symbolic="tuples")
    case("the same, constant indices", i64([[5, 0]]), constant=True)
    case("[0, 3]: the size of the second axis", i64([[0, 3]]), revisions=(5, 8))
    newer = {8: "error; newer: the last"}
    case("[−1, 0]", i64([[-1, 0]]), revisions={5: "error", **newer})
    case("[−1, 0], constant indices", i64([[-1, 0]]), revisions=newer, constant=True)
    case("[−6, 0]", i64([[-6, 0]]))
    case("[2³¹, 0]", i64([[2**31, 0]]))
    case("[2³² + 1, 0]", i64([[2**32 + 1, 0]]))
    case("[the maximum of i64, 0]", i64([[2**63 - 1, 0]]))
    case("[the minimum of i64, 0]", i64([[-(2**63), 0]]))
    case("[0], axis of size 0", i64([[0]]), data=floats(0, 3))
    case("[0, 0], axis of size 0", i64([[0, 0]]), data=floats(3, 0))
    case("[7], rows of size 0", i64([[7]]), data=floats(5, 0))
    case("no tuple", i64([[]]).reshape(0, 2), text="empty")
    case("tuple of 3 entries, rank 2", i64([[0, 0, 0]]))
    case("the same, all symbolic", i64([[0, 0, 0]]), symbolic="all")
    case("tuples of 0 entries", i64([[], []]), text="all of data")
    case("tuples of 2⁴⁰ entries, none of them", np.zeros((0, 2**40), np.int64))
    case("the same, all symbolic", np.zeros((0, 2**40), np.int64), symbolic="all")
    case("indices a scalar", i64(0))
    case("data a scalar", i64([[0]]), data=np.array(1, np.float32))
    two, three = i64([[0], [1]]), i64([[0], [1], [2]])
    case("2 batches of data, 3 of indices", three, data=floats(2, 3), batch_dims=1)
    case("the same, symbolic shapes", three, data=floats(2, 3), batch_dims=1, symbolic="tuples")
    case("3 of data, 2 of indices, symbolic", two, data=floats(3, 3), batch_dims=1, symbolic="tuples")
    case("1 of data, 3 of indices, symbolic", three, data=floats(1, 3), batch_dims=1,
         symbolic="tuples", text="error; newer: repeats")
    case("2 of data, 0 of indices, symbolic", i64([[]]).reshape(0, 1), data=floats(2, 3),
         batch_dims=1, symbolic="tuples")
    case("0 of data, 2 of indices, symbolic", two, data=floats(0, 3), batch_dims=1, symbolic="tuples")
    case("`batch_dims` = −1", two, batch_dims=-1)
    case("`batch_dims` = 2, indices of rank 2", i64([[0, 0]] * 5), batch_dims=2)
    case("`batch_dims` = 2³² + 1", two, data=floats(2, 3), batch_dims=2**32 + 1)
    case("`batch_dims` = 2⁴⁰", two, batch_dims=2**40)


def size_cases():
    section = "The size of the output"
    million = 2**20
    row, many = np.ones((1, million), np.float32), np.zeros(million, np.int64)
    add(section, "2²⁰ times a row of 2²⁰ f32: 4 TiB", "Gather", {8: "valid"}, row, many)
    add(section, "the same, symbolic shapes", "Gather", {8: "valid"}, row, many, symbolic="all")
    add(section, "the same", "GatherND", {8: "valid"}, row, many.reshape(-1, 1), symbolic="tuples")
    add(section, "dimensions 2³⁰ × 0 × 2⁴⁰: empty", "Gather", {8: "empty"},
        np.zeros((1, 2**40, 0), np.float32), np.zeros((2**30, 0), np.int64), symbolic="all")


for make_cases in [index_cases, batch_cases, axis_cases, nd_cases, size_cases]:
    make_cases()

# --- the models -----------------------------------------------------------------------------------


def onnx_model(case, standard):
    """The case as an ONNX model, of the standard domain or of OpenVINO's."""
    names, attributes, initializers = ["data", "indices"], {}, []
    if case.constant:
        initializers.append(numpy_helper.from_array(case.indices, "indices"))
    if standard and case.operator == "Gather":
        attributes["axis"] = int(case.axis)
    elif case.operator == "Gather":
        names.append("axis")
        if not case.axis_input:
            initializers.append(numpy_helper.from_array(case.axis, "axis"))
    if case.batch_dims != 0:
        attributes["batch_dims"] = case.batch_dims
    domain = "" if standard else DOMAIN
    node = helper.make_node(
        case.operator, names, ["output"], name="gather", domain=domain, **attributes
    )
    inputs = []
    for name, array in case.inputs().items():
        shape = case.shape_of(name, lambda k, name=name: f"{name}_{k}")
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(name, kind, shape))
    kind = helper.np_dtype_to_tensor_dtype(case.data.dtype)
    outputs = [helper.make_tensor_value_info("output", kind, None)]
    graph = helper.make_graph([node], "bad_input", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", 18)]
    if not standard:
        imports.append(helper.make_opsetid(DOMAIN, case.revision))
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def feeds(case):
    """What is fed when the model runs, between guards."""
    guards = {"data": GUARD, "indices": GUARD_INDEX, "axis": 0}
    return {name: guarded(array, guards[name]) for name, array in case.inputs().items()}


# --- in the process of one run ----------------------------------------------------------------------


def run_openvino(case, loaded):
    """Runs a case on OpenVINO's CPU plugin."""
    import openvino
    from openvino import opset1, opset5, opset7, opset8

    opset = {1: opset1, 5: opset5, 7: opset7, 8: opset8}[case.revision]
    parameters = {
        name: opset.parameter(case.shape_of(name, lambda k: -1), array.dtype)
        for name, array in case.inputs().items()
    }
    indices = opset.constant(case.indices) if case.constant else parameters["indices"]
    inputs = [parameters["data"], indices]
    if case.operator == "Gather":
        inputs.append(parameters["axis"] if case.axis_input else opset.constant(case.axis))
        node = opset.gather(*inputs, *([] if case.revision == 1 else [case.batch_dims]))
    else:
        node = opset.gather_nd(*inputs, case.batch_dims)
    model = openvino.Model([node], list(parameters.values()))
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    loaded()
    request = compiled.create_infer_request()
    fed = feeds(case)
    for k, array in enumerate(fed.values()):
        request.set_input_tensor(k, openvino.Tensor(array, shared_memory=True))
    request.start_async()
    request.wait()
    output = request.get_output_tensor(0)
    return list(output.shape), output.data.ravel() if 0 not in output.shape else []


def run_onnxruntime(case, loaded):
    """Runs a case on ONNX Runtime's CPU provider."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx_model(case, standard=True).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    loaded()
    fed = feeds(case)
    values = {k: onnxruntime.OrtValue.ortvalue_from_numpy(v) for k, v in fed.items()}
    output = session.run_with_ort_values(None, values)[0]
    return output.shape(), output.numpy().ravel() if 0 not in output.shape() else []


# --- what came of it --------------------------------------------------------------------------------


def known(case):
    """What may be in an output: all that the data have."""
    return set(case.data.ravel()[:100].tolist())


def cell_of_example(case, process):
    """A cell for a run of the example binary."""
    death = describe_death(process.returncode, process.stderr)
    if death is not None:
        return death
    if process.returncode != 0:
        message = process.stderr.split("error: ", 1)[-1]
        return describe_error(message, "\n  input 0: " in process.stdout)
    shape, values = re.search(r"output 0: (.*?),?F32(.*)", process.stdout).groups()
    shape = [int(size) for size in shape.split(",") if size]
    values = [float(value) for value in NUMBER.findall(values)][:6]
    return describe_value(known(case), shape, values)


def measure(runtime, number, options):
    """Runs one case on one runtime and returns the cell of the table."""
    case = CASES[number]
    if runtime in ["openvino", "onnxruntime"]:
        command = [sys.executable, __file__, "--child", runtime, str(number)]
        return cell_of_python(known(case), run_limited(command, options))
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        model.write_bytes(onnx_model(case, standard=runtime == "tract").SerializeToString())
        paths = [str(model)]
        for k, (name, array) in enumerate(case.inputs().items()):
            path = Path(folder) / f"input_{k}.pb"
            path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())
            paths.append(str(path))
        environment = {**os.environ, "RUST_LOG": "off", "RUST_BACKTRACE": "0"}
        process = run_limited([str(options.example), *paths], options, env=environment)
        process.stderr = process.stderr.replace(folder + "/", "")
        return cell_of_example(case, process)


# --- the tables -------------------------------------------------------------------------------------


def version_of(runtime, options):
    """The version of a runtime, or None if it is not installed."""
    if runtime in ["openvino", "onnxruntime"]:
        return version_of_package(runtime)
    crate = {"ours": "tract-openvino", "tract": "tract-onnx"}[runtime]
    return version_of_crate(crate) if options.example.is_file() else None


def use_of(runtime, case):
    """Whether a runtime has a cell of its own in the row of a case."""
    return "runs" if runtime in ["ours", "openvino"] else case.onnx


def print_tables(cells, versions, numbers, options):
    """Prints all that was measured."""
    print_versions(TITLES, versions, options)
    section = what = None
    for number in numbers:
        case = CASES[number]
        if case.section != section:
            section, what = case.section, None
            header = ["bad input", "operator", "specification", *(TITLES[name] for name in versions)]
            print_section(section, header)
        row = ["″" if case.what == what else case.what, f"{case.operator}-{case.revision}", case.text]
        for name, version in versions.items():
            use = use_of(name, case)
            if use == "runs":
                row.append(cells[name, number] if version else "not installed")
            else:
                row.append("″" if use == "same" else "—")
        what = case.what
        print_row(row)


def main():
    if sys.argv[1:2] == ["--child"]:
        run = {"openvino": run_openvino, "onnxruntime": run_onnxruntime}[sys.argv[2]]
        return child(lambda loaded: run(CASES[int(sys.argv[3])], loaded))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = HERE.parent / "target" / "release" / "examples" / "run"
    parser.add_argument("--example", type=Path, default=default, help="the example binary `run`")
    parser.add_argument("--runtimes", default=",".join(TITLES), help="which, with commas")
    add_limits(parser)
    options = parser.parse_args()
    options.example = options.example.resolve()

    versions = {name: version_of(name, options) for name in options.runtimes.split(",")}
    numbers = [n for n, it in enumerate(CASES) if options.only in f"{it.section} {it.what}"]
    pairs = [
        (name, number)
        for number in numbers
        for name, version in versions.items()
        if version and use_of(name, CASES[number]) == "runs"
    ]
    cells = measure_all(measure, pairs, options)
    if options.document:
        ours = [cells["ours", number] for number in numbers]
        return in_document("bad input", ours, options.document == "write")
    print_tables(cells, versions, numbers, options)
    return None


if __name__ == "__main__":
    sys.exit(main())
