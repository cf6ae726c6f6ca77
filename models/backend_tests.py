#!/usr/bin/env python3
"""Writes ONNX's own backend tests as model folders.

    python backend_tests.py FOLDER               all of them
    python backend_tests.py FOLDER gather conv   those with one of these texts in their names

FOLDER/TEST has `model.onnx` and `test_data_set_N/`, as `tract-openvino check` and the tests of this repository
take them. Tests whose inputs or outputs are no tensors (sequences, optionals), or tensors that tract has no
element type for, are left out; FOLDER/left_out.txt says which and why.
"""

import argparse
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from shared import write_files

KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator"]


def is_known(element_type):
    """Whether tract has tensors of this element type."""
    known = "FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL STRING"
    return TensorProto.DataType.Name(element_type) in known.split()


def tensor(value, info):
    """The TensorProto of an input or output."""
    if info.type.WhichOneof("value") != "tensor_type" or value is None or isinstance(value, list):
        raise TypeError(f"{info.name} is no tensor")
    if not is_known(info.type.tensor_type.elem_type):
        raise TypeError(f"{info.name} is of {TensorProto.DataType.Name(info.type.tensor_type.elem_type)}")
    if not isinstance(value, TensorProto):
        value = numpy_helper.from_array(np.asarray(value))
    copy = TensorProto()
    copy.CopyFrom(value)
    copy.name = info.name
    return copy


def tests():
    """The name, model and data sets of each test."""
    for kind in KINDS:
        for test in load_model_tests(kind=kind):
            name = test.name.removeprefix("test_")
            if test.model is not None:
                yield name, test.model, test.data_sets
                continue
            folder = Path(test.model_dir)
            read = lambda path: onnx.load_tensor(str(path))
            numbered = lambda place, what: sorted(place.glob(f"{what}_*.pb"), key=lambda it: int(it.stem.split("_")[1]))
            data_sets = [
                tuple([read(path) for path in numbered(place, what)] for what in ["input", "output"])
                for place in sorted(folder.glob("test_data_set_*"))
            ]
            yield name, onnx.load(str(folder / "model.onnx")), data_sets


def files(model, data_sets):
    """The files of a test, by name."""
    graph = model.graph
    given = {it.name for it in graph.initializer}
    fed = [it for it in graph.input if it.name not in given]
    written = {"model.onnx": model.SerializeToString()}
    for number, data_set in enumerate(data_sets):
        for kind, values, infos in zip(["input", "output"], data_set, [fed, graph.output], strict=True):
            for k, (value, info) in enumerate(zip(values, infos, strict=True)):
                written[f"test_data_set_{number}/{kind}_{k}.pb"] = tensor(value, info).SerializeToString()
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    left_out, number = [], 0
    for name, model, data_sets in tests():
        if arguments.names and not any(text in name for text in arguments.names):
            continue
        try:
            written = files(model, data_sets)
        except (TypeError, ValueError) as error:
            left_out.append(f"{name}: {error}\n")
            continue
        write_files(arguments.folder / name, written)
        number += 1
    (arguments.folder / "left_out.txt").write_text("".join(left_out))
    print(f"{number} tests written, {len(left_out)} left out")


if __name__ == "__main__":
    main()
