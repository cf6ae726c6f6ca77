#!/usr/bin/env python3
"""Makes a small model of each of many architectures, with random weights, as transformers exports them itself.

    python exporter.py FOLDER                       all of them
    python exporter.py FOLDER gemma2 rt_detr        those

Needs the packages of `exporter.txt` and `models/requirements.txt`. FOLDER/ARCHITECTURE/FORM has the files of the folders of
`ir/models/`, with the outputs of OpenVINO in f32. All sizes that can stay open are open. The forms of a language model are

* `prefill`: all tokens at once, which gives the keys and values as outputs;
* `decode`: one token after another, with a state;
* `decode_many`: any number of tokens after others, with a state;
* `decode_many_of_one`: the same from a single text, which leaves out the mask and fixes some sizes to 1;
* `decode_many_stateless`: `decode_many` with the keys and values as inputs and outputs.

To check them:

    IR_MODELS=FOLDER cargo test --release --workspace --all-features --test models
"""

import sys
import tempfile
import warnings
from pathlib import Path

sys.dont_write_bytecode = True
warnings.filterwarnings("ignore")

import numpy as np
import torch
import transformers
import transformers.models.rt_detr.modeling_rt_detr
from architectures import DECODER, IMAGE, STAGES, TEXT, WIDTH, WORDS, data_sets
from shared import write_files
from transformers.exporters.exporter_openvino import OpenVINOConfig, OpenVINOExporter
from transformers.exporters.utils import decompose_for_generation

# Else the exporter takes its size of the last feature map for the size of all images.
transformers.models.rt_detr.modeling_rt_detr.torch_int = lambda size: size

EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
WINDOW = {"sliding_window": 4}
LOCAL = WINDOW | {"layer_types": ["sliding_attention", "full_attention"]}
MAMBA = {
    "hidden_size": WIDTH, "num_hidden_layers": 2, "vocab_size": WORDS, "state_size": 8, "conv_kernel": 4, "expand": 2,
    "time_step_rank": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip

DECODERS = {
    "llama": DECODER, "qwen2": DECODER, "qwen3": DECODER, "mistral": DECODER | WINDOW, "gemma2": DECODER | LOCAL,
    "gemma3_text": DECODER | LOCAL, "phi3": TEXT | {"num_key_value_heads": 2}, "gpt2": TEXT, "gpt_neox": TEXT,
    "opt": TEXT | {"ffn_dim": 64, "word_embed_proj_dim": WIDTH}, "bloom": TEXT, "falcon": TEXT, "stablelm": DECODER,
    "olmo2": DECODER, "smollm3": DECODER, "granite": DECODER, "gpt_oss": DECODER | EXPERTS | LOCAL,
    "mixtral": DECODER | EXPERTS, "mamba": MAMBA,
}  # fmt: skip

# Their loops over the tokens are unrolled, so that only one token stays possible.
ONE_BY_ONE = ["mamba"]

QUERIES = {"num_queries": 6, "decoder_layers": 2, "encoder_layers": 1, "d_model": WIDTH, "decoder_attention_heads": 4,
           "encoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "num_labels": 5}  # fmt: skip
SMALL_RESNET = {
    "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
    "layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"],
}  # fmt: skip

# The class of transformers, the configuration, what else the model takes, and the sizes of images.
ANY, HALF = [(2, 64, 96), (1, 32, 32), (1, 128, 64)], [(2, 32, 48), (1, 32, 32), (1, 40, 72)]
IMAGES = {
    "rt_detr": ("AutoModelForObjectDetection", QUERIES | {
        "backbone_config": SMALL_RESNET | {"model_type": "rt_detr_resnet"}, "encoder_in_channels": [16, 24, 32],
        "encoder_hidden_dim": WIDTH, "decoder_in_channels": [WIDTH] * 3, "num_feature_levels": 3, "decoder_n_points": 2,
    }, [], [(1, 64, 96), (1, 96, 64), (1, 160, 128)]),
    "segformer": ("AutoModelForSemanticSegmentation", STAGES | {"num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16},
                  [], ANY),
    "detr": ("AutoModelForObjectDetection", QUERIES | {
        "backbone_config": SMALL_RESNET | {"out_features": ["stage4"]}, "use_timm_backbone": False, "backbone": None,
    }, ["pixel_mask"], ANY),
    "vit": ("AutoModelForImageClassification", IMAGE, ["interpolate_pos_encoding"], HALF),
    "dinov2": ("AutoModel", IMAGE | {"mlp_ratio": 2}, [], HALF),
    "convnext": ("AutoModel", STAGES, [], ANY),
    "resnet": ("AutoModel", STAGES | {"embedding_size": 8}, [], ANY),
    "depth_anything": ("AutoModelForDepthEstimation", {
        "backbone_config": IMAGE | {
            "model_type": "dinov2", "mlp_ratio": 2, "out_features": ["stage1", "stage2"], "reshape_hidden_states": False,
        }, "reassemble_hidden_size": WIDTH, "reassemble_factors": [4, 2], "neck_hidden_sizes": [8, 16],
        "fusion_hidden_size": 8, "patch_size": 8, "head_hidden_size": 8, "head_in_index": -1,
    }, [], HALF),
    "clip": ("AutoModel", {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 16},
             ["interpolate_pos_encoding", "input_ids", "attention_mask"], HALF),
    "siglip": ("AutoModel", {"text_config": TEXT, "vision_config": IMAGE | {"vision_use_head": True}},
               ["interpolate_pos_encoding", "input_ids"], HALF),
    "mobilenet_v2": ("AutoModelForImageClassification", {"depth_multiplier": 0.25}, [], ANY),
    "yolos": ("AutoModelForObjectDetection", IMAGE | {"image_size": [32, 32], "num_detection_tokens": 5}, [], HALF),
}  # fmt: skip

TEXTS = {
    "bert": ("AutoModel", TEXT), "modernbert": ("AutoModel", TEXT | {"local_attention": 4, "global_attn_every_n_layers": 2}),
    "distilbert": ("AutoModel", TEXT | {"hidden_dim": 64, "n_layers": 2, "n_heads": 4, "dim": WIDTH}),
    "deberta-v2": ("AutoModel", TEXT),
}  # fmt: skip


class Tokens:
    """What the runs of a language model are fed with: tokens, each time after those of the runs before."""

    def __init__(self, batch, random):
        self.batch, self.random = batch, random
        self.mask = np.zeros((batch, 0), np.int64)
        self.cache = {}

    def feed(self, model, count):
        """The inputs by name, for `count` more tokens."""
        past = self.mask.shape[1]
        rows = np.arange(self.batch)[:: -1 if past else 1]
        more = np.ones((self.batch, count), np.int64)
        if not past:
            # All but the first text are shorter.
            more[1:, : min(2, count - 1)] = 0
        has_beams = any(it.get_any_name() == "beam_idx" for it in model.inputs)
        self.mask = np.concatenate([self.mask[rows] if has_beams else self.mask, more], axis=1)
        values = {
            "input_ids": self.random.integers(3, WORDS, (self.batch, count)),
            "attention_mask": self.mask,
            "position_ids": np.maximum(self.mask.cumsum(1) - 1, 0)[:, past:],
            "cache_position": np.arange(past, past + count),
            "beam_idx": rows,
        }
        for parameter in model.inputs:
            name = parameter.get_any_name()
            if name.startswith("input."):
                sizes = parameter.get_partial_shape()
                shape = [it.get_length() if it.is_static else 0 for it in sizes]
                shape[:1] = [self.batch] * len(shape[:1])
                values[name] = self.cache.get(name.removeprefix("input."), np.zeros(shape))
        return values

    def keep(self, model, outputs):
        """Takes the keys and values that a model without a state gives."""
        for output, value in zip(model.outputs, outputs):
            for name in output.get_names():
                if name.startswith("output."):
                    self.cache[name.removeprefix("output.")] = value


def text_runs(*runs):
    """A function that gives the inputs of runs with so many texts and tokens. With None instead of texts, they follow the
    run before."""

    def values(model, random):
        for batch, count in runs:
            if batch is not None:
                tokens = Tokens(batch, random)
            outputs = yield tokens.feed(model, count)
            tokens.keep(model, outputs)

    return values


def image_runs(sizes):
    """The same of runs with so many images of a height and a width, and whatever else a model may take beside them."""

    def values(_, random):
        for batch, height, width in sizes:
            mask = np.ones((batch, height, width), np.int64)
            mask[0, :, width - 16 :] = 0
            yield {
                "pixel_values": random.standard_normal((batch, 3, height, width), np.float32),
                "pixel_mask": mask,
                "interpolate_pos_encoding": True,
                "input_ids": random.integers(3, WORDS, (3, 7)),
                "attention_mask": np.ones((3, 7), np.int64),
            }

    return values


PREFILL = text_runs((1, 7), (2, 5), (3, 12))
STEPS = text_runs((1, 1), (None, 1), (None, 1))
CHUNKS = text_runs((2, 7), (None, 1), (None, 3))
ONE = text_runs((1, 7), (None, 1), (None, 3))


def model_of(name, kind, sizes):
    torch.manual_seed(7)
    config = transformers.AutoConfig.for_model(name, **sizes)
    model = getattr(transformers, kind).from_config(config).eval()
    with torch.no_grad():
        # Else the numbers fade from layer to layer, a bias of 0 or a scale of 1 does nothing, and what is to be sorted is equal.
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, parameter[0].numel() ** -0.5 if parameter.ndim == 4 else parameter.shape[-1] ** -0.5)
            elif parameter.numel() > 1 and parameter.min() == parameter.max():
                parameter += 0.2 * torch.randn_like(parameter)
    return model


def text():
    """Two texts, the second of which is shorter."""
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[1, 0] = 0
    return {"input_ids": torch.arange(3, 15).reshape(2, 6), "attention_mask": mask}


def one_text():
    """One text, of which transformers knows that no mask is needed."""
    return {"input_ids": torch.arange(3, 9)[None], "attention_mask": torch.ones(1, 6, dtype=torch.int64)}


def whole(sample, runs):
    """The form of a model that is called once."""

    def export(model):
        # Else what depends on the image fades.
        scales = [it for it in model.modules() if isinstance(it, torch.nn.BatchNorm2d)]
        for it in scales:
            torch.nn.init.uniform_(it.weight, 0.5, 1.5)
            it.train()
        if scales:
            with torch.no_grad():
                for _ in range(20):
                    model(**sample)
            model.eval()
        return OpenVINOExporter().export(model, sample, OpenVINOConfig(dynamic=True)).program

    return {"model": (export, runs)}


def generation(name):
    """The forms of a language model."""

    def form(part, runs, many=False, stateful=True, sample=text):
        def export(model):
            parts = decompose_for_generation(model, sample(), multi_token_decode=many)
            return OpenVINOExporter().export(*parts[part], OpenVINOConfig(dynamic=True, stateful=stateful)).program

        return export, runs

    forms = {
        "prefill": form("prefill", PREFILL),
        "decode": form("decode", STEPS),
        "decode_many": form("decode", CHUNKS, many=True),
        "decode_many_of_one": form("decode", ONE, many=True, sample=one_text),
        "decode_many_stateless": form("decode", CHUNKS, many=True, stateful=False),
    }
    if name in ONE_BY_ONE:
        return {"decode": forms["decode"]}
    return forms


def architectures():
    """For each architecture the class of transformers, the configuration, and the forms."""
    for name, sizes in DECODERS.items():
        yield name, "AutoModelForCausalLM", sizes, generation(name)
    for name, (kind, sizes) in TEXTS.items():
        yield name, kind, sizes, whole(text(), PREFILL)
    for name, (kind, sizes, more, images) in IMAGES.items():
        runs = image_runs(images)
        values = next(runs(None, np.random.default_rng(5)))
        sample = {it: values[it] for it in ["pixel_values", *more]}
        sample = {it: torch.from_numpy(value) if value is not True else True for it, value in sample.items()}
        yield name, kind, sizes, whole(sample, runs)


def main():
    root, *only = sys.argv[1:]
    failed = False
    for name, kind, sizes, forms in architectures():
        for form, (export, runs) in forms.items():
            if only and name not in only and f"{name}/{form}" not in only:
                continue
            try:
                model = export(model_of(name, kind, sizes))
                with tempfile.TemporaryDirectory() as folder:
                    xml = Path(folder, "model.xml")
                    OpenVINOExporter.save_program(model, xml)
                    files = {"model.xml": xml.read_bytes(), "model.bin": xml.with_suffix(".bin").read_bytes()}
                    write_files(Path(root, name, form), files | data_sets(xml, runs))
                print(f"{name}/{form}", flush=True)
            except Exception as error:
                failed = True
                print(f"{name}/{form}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
