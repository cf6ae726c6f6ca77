#!/usr/bin/env python3
"""Writes what OpenVINO computes in each layer of a model, for `tract-openvino compare`.

    cli/layer_values.py MODEL.xml INPUTS.npz VALUES.npz

INPUTS.npz has an array for each input, by one of its names or as `input_K`, where K is its number. `Compare` in
cli/README.md says what the arrays of VALUES.npz are called. It needs the Python package openvino.
"""

import sys
import zipfile
from collections import Counter

import numpy as np
import openvino as ov

# The element types that both NumPy and tract have.
TYPES = [getattr(ov.Type, name) for name in "boolean i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64".split()]
# Operations whose results do not depend on their inputs alone.
WITH_STATE = ["ReadValue", "RandomUniform", "Multinomial"]
# The CPU in single precision: nothing is quantised, and quantised networks do not run on integers. (There OpenVINO 2026.4
# computes other values in convolutions whose outputs are outputs of the model.)
CONFIG = {
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    "KV_CACHE_PRECISION": "f32",
    "LP_TRANSFORMS_MODE": "NO",
}


def key(output):
    """The name of an array: that of the layer, and the number of the output where it has several."""
    name, several = output.node.get_friendly_name(), output.node.get_output_size() > 1
    return f"{name}:{output.index}" if several else name


def layer_outputs(model):
    """The outputs of layers that an input or a variable decides, and that something reads: neither constants nor what is
    computed of them alone. (An output that nothing reads decides nothing. The indices of a pool are mostly such, and where
    two values are about equal, rounding decides which index it is.)
    """
    constants = set()
    for node in model.get_ordered_ops():
        type_ = node.get_type_name()
        sources = [source.get_node() for source in node.input_values()]
        if type_ != "Parameter" and type_ not in WITH_STATE and all(it.get_name() in constants for it in sources):
            constants.add(node.get_name())
        elif type_ not in ("Result", "Assign"):
            yield from (it for it in node.outputs() if it.get_target_inputs() and it.get_element_type() in TYPES)


def main(model_path, inputs_path, values_path):
    model = ov.Core().read_model(model_path)
    arrays = np.load(inputs_path)
    inputs = []
    for number, port in enumerate(model.inputs):
        names = [*sorted(port.get_names()), port.node.get_friendly_name(), f"input_{number}"]
        found = [name for name in names if name in arrays]
        if not found:
            sys.exit(f"{inputs_path} has no array for input {number}, which goes by these names: {', '.join(names)}")
        inputs.append(arrays[found[0]])

    outputs = list(layer_outputs(model))
    counts = Counter(map(key, outputs))
    if twice := [name for name, count in counts.items() if count > 1]:
        print(f"left out, as several layers have these names: {', '.join(twice)}", file=sys.stderr)
    outputs = [output for output in outputs if counts[key(output)] == 1]
    model.add_outputs(outputs)
    request = ov.Core().compile_model(model, "CPU", CONFIG).create_infer_request()
    request.infer(inputs)

    with zipfile.ZipFile(values_path, "w") as archive:
        for number, port in enumerate(model.outputs):
            source = port.node.input_value(0)
            if counts[key(source)] == 1:
                counts[key(source)] = 0
                with archive.open(f"{key(source)}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, request.get_output_tensor(number).data, allow_pickle=False)


if len(sys.argv) != 4:
    sys.exit(__doc__)
main(*sys.argv[1:])
