#!/usr/bin/env python3
"""Writes the models of this folder, or checks them.

    python generate.py                  writes every model and its test data
    python generate.py shape indexing   writes those of some families
    python generate.py --check          compares the committed files with what would be written

Each folder OPERATION/CASE has `model.xml` and, if there are constants, `model.bin`, as OpenVINO's own
writer makes them; and for each data set `test_data_set_N.npz` with the arrays `input_K` and `output_K`, in
the order of the file's Parameters and Results. The cases are in `cases/`, one module for each family of operations.

The expected outputs are OpenVINO's, on the CPU in f32. Where a case has a formula (`reference`) they
must be equal to its outputs. Where the CPU plugin is wrong, refuses a model or leaves a result open, the
formula's outputs are the expected ones, and `formula` says why; these, and those without a formula, must
be equal to the outputs of OpenVINO's reference implementation of the operation, if it has one.
"""

import argparse
import importlib
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import openvino as ov

import framework
from framework import Runner, data_sets_of, formula_outputs, model_files, xml_and_weights
from shared import compare, npz_file, stale_files, write_files

HERE = Path(__file__).parent
FAMILIES = (
    "sources shape movement indexing elementwise activation matmul reduce convolution interpolate recurrent control "
    "quantize run_time signal searching embedding decoding deformable color detection detectors sizes"
).split()


class Mismatch(Exception):
    pass


def outputs_of(case, runner, xml, weights):
    """Of each data set the expected outputs."""
    data_sets = data_sets_of(case)

    def read():
        return runner.core.read_model(xml, weights)

    formulas = [formula_outputs(case, it) if case.reference else None for it in data_sets]
    outputs = formulas if case.formula else runner.run(read(), data_sets)
    for number, (inputs, expected) in enumerate(zip(data_sets, outputs)):
        for port, array in zip(read().outputs, expected, strict=True):
            if ov.Type(array.dtype) != port.element_type:
                raise Mismatch(f"{array.dtype} is not {port.element_type}")
            if not port.partial_shape.compatible(ov.PartialShape(list(array.shape))):
                raise Mismatch(f"{array.shape} is not {port.partial_shape}")
        others, whose = formulas[number] or [None] * len(expected), "the formula"
        # The reference has no variables that go on.
        goes_on = number > 0 and read().get_sinks()
        incomplete = case.formula or any(it is None for it in others)
        if incomplete and not goes_on and not case.without_reference:
            others, whose = runner.evaluate(read(), inputs, expected), "OpenVINO's reference"
        for k, (array, other) in enumerate(zip(expected, others or [])):
            difference = None if other is None else compare(array, other, case.tolerance)
            if difference:
                raise Mismatch(f"output {k} of data set {number} and {whose} differ: {difference}")
    return outputs


def files_of(case, runner):
    xml, weights = xml_and_weights(case)
    files = model_files(xml, weights)
    outputs = outputs_of(case, runner, xml, weights)
    for number, arrays in enumerate(zip(data_sets_of(case), outputs)):
        files |= npz_file(number, *arrays)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("families", nargs="*", choices=[[], *FAMILIES], metavar="FAMILY")
    arguments = parser.parse_args()

    families = arguments.families or FAMILIES
    for family in families:
        importlib.import_module(f"cases.{family}")

    runner, wrong, counts = Runner(), [], {}
    expected = {}
    for case in framework.CASES:
        if case.folder in expected:
            wrong.append(f"{case.folder}: twice")
        expected[case.folder] = case.operation
        try:
            files = files_of(case, runner)
        except Exception as error:
            text = " ".join(str(error).split())
            wrong.append(f"{case.folder}: {type(error).__name__}: {text[:1000]}")
            continue
        folder = HERE / case.folder
        if arguments.check:
            # The last bits of floats depend on the processor's instructions.
            wrong += [f"{case.folder}/{name}" for name in stale_files(folder, files, tolerance=1e-5)]
        else:
            write_files(folder, files)
        counts[case.family] = counts.get(case.family, 0) + 1

    operations = set(expected.values())
    for model in sorted(HERE.glob("*/*/model.xml")):
        folder = model.parent.relative_to(HERE)
        # Most networks are not made here.
        if folder.as_posix() in expected or folder.parts[0] == "networks":
            continue
        if arguments.check and not arguments.families:
            wrong.append(f"{folder}: no case of this name")
        elif not arguments.check and folder.parts[0] in operations:
            shutil.rmtree(HERE / folder)

    for family, count in counts.items():
        print(f"{count:4} {family}")
    if wrong:
        print(f"{len(wrong)} are wrong:", *wrong, sep="\n  ")
        sys.exit(1)
    print("the committed files are what this script writes" if arguments.check else "written")


if __name__ == "__main__":
    main()
