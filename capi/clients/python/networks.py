#!/usr/bin/env python3
"""Runs programs from Python packages by the library, in place of the runtime that they were written for: PP-OCR reads a page, from where its
lines are to what they say, and a detector looks at a picture. Prints what they find.

    networks.py LIBRARY PAGE PICTURE
"""

import sys
import types
from ctypes import byref, c_char_p, c_size_t
from types import SimpleNamespace

import numpy as np
import onnx
from library import array_of, do, exact_core, make, ov, tensor_of

core = exact_core()


class InferenceSession:
    """What the packages use of the class of ONNX Runtime."""

    def __init__(self, path, sess_options=None, providers=None):
        self.path = str(path)
        model = make("ov_core_read_model", core, self.path.encode(), None)
        self.model = make("ov_core_compile_model_props", core, model, b"CPU", c_size_t(0), None)
        ov.ov_model_free(model)
        self.request = make("ov_compiled_model_create_infer_request", self.model)

    def ports(self, side):
        count = c_size_t()
        do(f"ov_compiled_model_{side}s_size", self.model, byref(count))
        for number in range(count.value):
            port = make(f"ov_compiled_model_{side}_by_index", self.model, c_size_t(number))
            name = c_char_p()
            do("ov_port_get_any_name", port, byref(name))
            yield SimpleNamespace(name=name.value.decode())
            ov.ov_free(name)
            ov.ov_output_const_port_free(port)

    def get_inputs(self):
        return list(self.ports("input"))

    def get_outputs(self):
        return list(self.ports("output"))

    def get_providers(self):
        return get_available_providers()

    def get_modelmeta(self):
        properties = onnx.load(self.path).metadata_props
        return SimpleNamespace(custom_metadata_map={entry.key: entry.value for entry in properties})

    def run(self, names, inputs):
        # The arrays stay where they are until it has run.
        arrays = {name: np.require(array, requirements="C") for name, array in inputs.items()}
        tensors = {name: tensor_of(array) for name, array in arrays.items()}
        for name, tensor in tensors.items():
            do("ov_infer_request_set_tensor", self.request, name.encode(), tensor)
        do("ov_infer_request_infer", self.request)
        found = []
        for name in names or [output.name for output in self.get_outputs()]:
            tensor = make("ov_infer_request_get_tensor", self.request, name.encode())
            found.append(array_of(tensor))
            ov.ov_tensor_free(tensor)
        for tensor in tensors.values():
            ov.ov_tensor_free(tensor)
        return found


def get_available_providers():
    return ["CPUExecutionProvider"]


runtime = types.ModuleType("onnxruntime")
runtime.InferenceSession = InferenceSession
runtime.SessionOptions = SimpleNamespace
runtime.GraphOptimizationLevel = SimpleNamespace(ORT_ENABLE_ALL=None)
runtime.get_available_providers = get_available_providers
runtime.get_device = lambda: "CPU"
runtime.capi = types.ModuleType("onnxruntime.capi")
runtime.capi._pybind_state = None
sys.modules |= {"onnxruntime": runtime, "onnxruntime.capi": runtime.capi}

from nudenet import NudeDetector  # noqa: E402
from rapidocr_onnxruntime import RapidOCR  # noqa: E402

page, picture = sys.argv[2:]
lines, _ = RapidOCR()(page)
for box, text, score in lines:
    print(f"text {text!r}")
    print("values score, corners:", score, *np.ravel(box))
for found in NudeDetector().detect(picture):
    print(f"found {found['class']}")
    print("values score, box:", found["score"], *found["box"])
