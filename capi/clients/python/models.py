#!/usr/bin/env python3
"""Runs the models of folders by the library, feeds them what is in their data sets, and compares what they give with what is there: as the
tests of the reader do, with its tolerances for whole models and for single operations.

    models.py LIBRARY FOLDER...
"""

import sys
from ctypes import c_size_t
from pathlib import Path

import numpy as np
from library import Failed, array_of, do, exact_core, make, ov, tensor_of


def in_order(arrays, kind):
    count = sum(name.startswith(kind) for name in arrays.files)
    # A scalar stays one.
    return [np.require(arrays[f"{kind}_{number}"], requirements="C") for number in range(count)]


def sets(folder):
    """The inputs and outputs of each data set."""
    for path in sorted(folder.glob("test_data_set_*.npz")):
        with np.load(path) as arrays:
            yield [in_order(arrays, kind) for kind in ("input", "output")]


def check(core, folder, tolerance):
    path = str(folder / "model.xml").encode()
    model = make("ov_core_read_model", core, path, None)
    compiled = make("ov_core_compile_model_props", core, model, b"CPU", c_size_t(0), None)
    # Variables go on from set to set.
    request = make("ov_compiled_model_create_infer_request", compiled)
    for inputs, outputs in sets(folder):
        tensors = [tensor_of(array) for array in inputs]
        for number, tensor in enumerate(tensors):
            do("ov_infer_request_set_input_tensor_by_index", request, c_size_t(number), tensor)
        do("ov_infer_request_infer", request)
        for number, expected in enumerate(outputs):
            tensor = make("ov_infer_request_get_output_tensor_by_index", request, c_size_t(number))
            if expected.dtype.kind in "UO":
                ov.ov_tensor_free(tensor)
                continue
            found = array_of(tensor)
            ov.ov_tensor_free(tensor)
            if found.shape != expected.shape or found.dtype != expected.dtype:
                raise Failed(f"output {number} is {found.dtype} {found.shape}, not {expected.dtype} {expected.shape}")
            np.testing.assert_allclose(found, expected, *tolerance, err_msg=f"output {number}")
        for tensor in tensors:
            ov.ov_tensor_free(tensor)
    ov.ov_infer_request_free(request)
    ov.ov_compiled_model_free(compiled)
    ov.ov_model_free(model)


core = exact_core()
passed, failed = 0, []
for root in map(Path, sys.argv[2:]):
    for file in sorted(root.rglob("model.xml")):
        folder = file.parent
        if not list(folder.glob("test_data_set_*.npz")):
            continue
        whole = "networks" in folder.parts
        try:
            check(core, folder, (1e-3, 1e-4) if whole else (2e-5, 2e-5))
            passed += 1
        except (Failed, AssertionError, KeyError) as error:
            failed.append(f"{folder}: {' '.join(str(error).split())[:300]}")
for line in failed:
    print(line)
print(f"{passed} passed, {len(failed)} failed")
sys.exit(bool(failed))
