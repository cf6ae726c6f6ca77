#!/usr/bin/env python3
"""Writes quantised models to measure with: those of generate.py, with activations and weights of 8 bits.

    python quantize.py OUT                  writes all models that OUT does not have yet
    python quantize.py OUT --only unet      writes those with `unet` in their name

Each folder OUT/NAME has the files of generate.py:

- `model.xml` and `model.bin`: NNCF's post-training quantisation, with its defaults;
- `model.onnx`: ONNX Runtime's static quantisation with QuantizeLinear and DequantizeLinear, a scale for each output channel
  of the weights;
- `test_data_set_0/`: outputs are OpenVINO's, of the IR, on integers.

Both are calibrated on random inputs. Batch normalisations without trained weights get the statistics of a random image first:
otherwise most values of a model would be quantised to zero.
"""

import sys
import tempfile
import zlib

import nncf
import numpy as np
import onnx
import openvino as ov
import torch
from generate import (
    convert,
    entries,
    onnx_of_module,
    package_folder,
    run_openvino,
    settled,
    with_sizes,
    write_all,
    write_data_set,
)
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import nn

NAMES = [
    "bert_base",
    "efficientnet_b0",
    "minilm",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "nudenet",
    "ocr_det",
    "resnet50",
    "ssdlite_mobilenet_v3_large",
    "unet",
    "vit_b_16",
]
TRANSFORMERS = ["bert_base", "minilm", "vit_b_16"]
CALIBRATED_ON = 10


class Inputs(CalibrationDataReader):
    """Some inputs, by name."""

    def __init__(self, names, inputs):
        self.left = iter([dict(zip(names, each)) for each in inputs])

    def get_next(self):
        return next(self.left, None)


def write(entry, folder):
    """Writes the model's folder."""
    seed = zlib.crc32(entry.name.encode())
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    inputs = [[each.values(random) for each in entry.inputs] for _ in range(CALIBRATED_ON)]
    names = [each.name for each in entry.inputs]
    if entry.module:
        module = entry.module().eval()
        if any(isinstance(it, nn.BatchNorm2d) for it in module.modules()):
            settled(module, *entry.inputs[0].shape)
        arrays = tuple(torch.from_numpy(value) for value in inputs[0])
        source, model = convert(entry, module, arrays), onnx_of_module(module, entry, arrays)
    else:
        start, rest = entry.file.split("/", 1)
        path = package_folder(start) / rest
        source, model = convert(entry, path), onnx.load(path)
    kind = nncf.ModelType.TRANSFORMER if entry.name in TRANSFORMERS else None
    quantized = nncf.quantize(source, nncf.Dataset(inputs), subset_size=CALIBRATED_ON, model_type=kind)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    ov.save_model(quantized, folder / "model.xml")
    outputs = run_openvino(folder / "model.xml", inputs[0])
    with tempfile.TemporaryDirectory() as scratch:
        plain, prepared = f"{scratch}/plain.onnx", f"{scratch}/prepared.onnx"
        onnx.save(with_sizes(model, entry.inputs, outputs), plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        options = {"per_channel": True, "activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        reader = Inputs(names, inputs)
        quantize_static(prepared, folder / "model.onnx", reader, quant_format=QuantFormat.QDQ, **options)
    for value in outputs:
        assert np.isfinite(value).all() and np.any(value), "outputs that are not finite, or all zero"
    write_data_set(data, inputs[0], outputs)
    print(f"{entry.name}: {', '.join(f'{value.shape} up to {np.abs(value).max():.1e}' for value in outputs)}", flush=True)


def main():
    chosen = [entry for entry in entries() if entry.name in NAMES]
    _, failed = write_all(__doc__, chosen, write)
    sys.exit(failed)


if __name__ == "__main__":
    main()
