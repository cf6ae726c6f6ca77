#!/usr/bin/env python3
"""Feeds bad files of OpenVINO IR to OpenVINO and to tract-openvino and prints what each does with them, as
Markdown tables.

    cargo build --release --bin tract-openvino
    python bad_files.py                     runs them
    python bad_files.py --only "Weights"
    python bad_files.py --write             writes the files anew

The cases are in `bad_file_cases/`, and the files of each in a folder of `cli/tests/bad_files/`: `model.xml`,
`model.bin`, and what it is fed. `cases.json` there says of each whether and where it fails, and what the
error has to contain: the tests of the command-line tool go through that list.

Every run is a process of its own with a limit of time and of memory. Floats that OpenVINO is fed lie between
two guards full of 777, integers between two full of 3, so that a read past either end may show.
"""

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
from bad_file_cases import load
from onnx import numpy_helper
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
FILES = HERE.parent / "cli" / "tests" / "bad_files"
TITLES = {"ours": "tract-openvino", "openvino": "OpenVINO"}
CASES = load()

# --- the files --------------------------------------------------------------------------------------


def write_case(case):
    """Writes the folder of a case."""
    folder = FILES / case.name
    data_set = folder / "test_data_set_0"
    data_set.mkdir(parents=True)
    (folder / "model.xml").write_bytes(case.xml)
    if case.weights is not None:
        (folder / "model.bin").write_bytes(case.weights)
    # What a bad file ought to compute nobody knows, but a data set has outputs.
    outputs = case.outputs
    if outputs is None:
        outputs = [np.zeros(0, np.float32)] * case.results
    for kind, arrays in [("input", case.inputs), ("output", outputs)]:
        for k, array in enumerate(arrays):
            tensor = numpy_helper.from_array(np.asarray(array), f"{kind}_{k}")
            (data_set / f"{kind}_{k}.pb").write_bytes(tensor.SerializeToString(deterministic=True))
    # So that git has the folder.
    if not any(data_set.iterdir()):
        (data_set / ".keep").touch()


def write_files():
    """Writes all cases, and the list of them."""
    shutil.rmtree(FILES, ignore_errors=True)
    for case in CASES:
        write_case(case)
    listed = [{"name": it.name, "fails": it.fails, "error": it.error} for it in CASES]
    lines = ",\n".join(json.dumps(it, ensure_ascii=False) for it in listed)
    (FILES / "cases.json").write_text(f"[\n{lines}\n]\n")


# --- the runs ---------------------------------------------------------------------------------------


def run_openvino(case, loaded):
    """Runs a case on OpenVINO's CPU plugin."""
    import openvino

    core = openvino.Core()
    model = core.read_model(FILES / case.name / "model.xml")
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    loaded()
    request = compiled.create_infer_request()
    fed = [guarded(it, GUARD if it.dtype == np.float32 else GUARD_INDEX) for it in case.inputs]
    for k, array in enumerate(fed):
        request.set_input_tensor(k, openvino.Tensor(array, shared_memory=True))
    request.start_async()
    request.wait()
    if not compiled.outputs:
        return [0], []
    output = request.get_output_tensor(0)
    return list(output.shape), output.data.ravel() if 0 not in output.shape else []


def known(case):
    """What may be in an output, where that is known: what the inputs have."""
    return {it for array in case.inputs for it in array.ravel().tolist()} if case.moves else None


# In front of what is wrong there is where that is.
PLACES = re.compile(
    r'^running the model: |(in|reading) model\.xml: |in layer \d+ "\w+" \(\w+, opset\d+\): '
    r'|Evaluating #\d+ "\S+" \S+: (\S+: (?=\S+: ))?|in <\w+>: |in output_facts invocation for \w+: '
)


def cell_of_tool(case, process):
    """A cell for a run of the command-line tool."""
    death = describe_death(process.returncode, process.stderr)
    if death is not None:
        return death
    output = re.search(r"^  \S+ (?:([\d,]+),)?([FIU]\d+|Bool|String) ?(.*)$", process.stdout, re.M)
    if process.returncode == 2:
        lines = process.stderr.split("error: ", 1)[-1].splitlines()
        message = ": ".join(it.strip() for it in lines if not it.startswith("help:"))
        cell = describe_error(re.sub(PLACES, "", message), "running the model" in message)
        return re.sub(r"^error( \(\w+\): .*panicked while)", r"**panic**: error\1", cell)
    if output is None:
        return describe_value(None, [0], [])
    shape = [int(size) for size in (output[1] or "").split(",") if size]
    values = [float(value) for value in NUMBER.findall(output[3])][:6]
    return describe_value(known(case), shape, values)


def measure(runtime, number, options):
    """Runs one case on one runtime and returns the cell of the table."""
    case = CASES[number]
    if runtime == "openvino":
        command = [sys.executable, __file__, "--child", str(number)]
        process = run_limited(command, options)
        process.stdout = process.stdout.replace(f"{FILES}/{case.name}/", "")
        return cell_of_python(known(case), process)
    command = [str(options.tool), "run", str(FILES / case.name)]
    process = run_limited(command, options, env={**os.environ, "RUST_LOG": "off"})
    process.stderr = process.stderr.replace(f"{FILES}/{case.name}/", "")
    return cell_of_tool(case, process)


# --- the tables -------------------------------------------------------------------------------------


def version_of(runtime, options):
    """The version of a runtime, or None if it is not installed."""
    if runtime == "openvino":
        return version_of_package(runtime)
    return version_of_crate("tract-openvino") if options.tool.is_file() else None


def print_tables(cells, versions, numbers, options):
    """Prints all that was measured."""
    print_versions(TITLES, versions, options)
    section = None
    for number in numbers:
        case = CASES[number]
        if case.section != section:
            section = case.section
            print_section(section, ["bad file", "it is", *(TITLES[name] for name in versions)])
        row = [cells.get((name, number), "not installed") for name in versions]
        print_row([case.what, case.text, *row])


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(lambda loaded: run_openvino(CASES[int(sys.argv[2])], loaded))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = HERE.parent / "target" / "release" / "tract-openvino"
    parser.add_argument("--write", action="store_true", help="write the files")
    parser.add_argument("--tool", type=Path, default=default, help="the command-line tool")
    parser.add_argument("--runtimes", default=",".join(TITLES), help="which, with commas")
    add_limits(parser)
    options = parser.parse_args()
    if options.write:
        return write_files()
    options.tool = options.tool.resolve()
    versions = {name: version_of(name, options) for name in options.runtimes.split(",")}
    numbers = [n for n, it in enumerate(CASES) if options.only in f"{it.section} {it.name} {it.what}"]
    pairs = [(name, number) for number in numbers for name, version in versions.items() if version]
    cells = measure_all(measure, pairs, options)
    if options.document:
        ours = [cells["ours", number] for number in numbers]
        return in_document("bad file", ours, options.document == "write")
    print_tables(cells, versions, numbers, options)
    return None


if __name__ == "__main__":
    sys.exit(main())
