#!/usr/bin/env python3
"""Makes a small model of each of many architectures, with random weights, as optimum-intel exports it.

    python architectures.py FOLDER                  all of them
    python architectures.py FOLDER gemma2 swin      those

Needs the packages of `generation/requirements.txt` and `models/requirements.txt`. FOLDER/ARCHITECTURE/PART has the files of the
folders of `ir/models/`, with the outputs of OpenVINO in f32. Language models with a state have two data sets: some tokens, and then
one more. To check them:

    IR_MODELS=FOLDER cargo test --release --workspace --all-features --test models
"""

import sys
import tempfile
import warnings
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parents[2] / "models"))
warnings.filterwarnings("ignore")

import numpy as np
import openvino as ov
import torch
import transformers
from shared import npz_file, write_files

TOKENS, WORDS, WIDTH = 7, 200, 32
TEXT = {
    "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": WORDS, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
DECODER = TEXT | {"num_key_value_heads": 2, "head_dim": 8}
BOTH = {
    "d_model": WIDTH, "vocab_size": WORDS, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
IMAGE = {
    "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
SOUND = {
    "conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
} | TEXT  # fmt: skip
STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}

# For each task of optimum, the class of transformers and the architectures, with what their configurations need.
TASKS = {
    "feature-extraction": ("AutoModel", {
        "bert": TEXT, "roberta": TEXT, "distilbert": TEXT | {"hidden_dim": 64}, "albert": TEXT | {"embedding_size": 16},
        "electra": TEXT | {"embedding_size": 16}, "mpnet": TEXT, "deberta-v2": TEXT, "xlm-roberta": TEXT,
        "camembert": TEXT, "convbert": TEXT | {"embedding_size": 16}, "roformer": TEXT | {"embedding_size": 16},
        "vit": IMAGE, "deit": IMAGE, "beit": IMAGE,
        "swin": {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
        "convnext": STAGES, "resnet": STAGES | {"embedding_size": 8},
        "segformer": STAGES | {"num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16},
        "wav2vec2": SOUND, "hubert": SOUND,
    }),
    "text-generation-with-past": ("AutoModelForCausalLM", {
        "gpt2": TEXT, "llama": DECODER, "mistral": DECODER, "mixtral": DECODER | {"num_local_experts": 2}, "qwen2": DECODER,
        "qwen3": DECODER, "gemma": DECODER, "gemma2": DECODER, "gemma3_text": DECODER, "phi": TEXT, "phi3": TEXT,
        "gpt_neox": TEXT, "opt": TEXT | {"ffn_dim": 64, "word_embed_proj_dim": WIDTH}, "bloom": TEXT, "falcon": TEXT,
        "gptj": TEXT | {"rotary_dim": 8}, "codegen": TEXT | {"rotary_dim": 8}, "stablelm": DECODER, "starcoder2": DECODER,
        "olmo": DECODER, "mpt": TEXT, "granite": DECODER, "cohere": DECODER,
    }),
    "text2text-generation-with-past": ("AutoModelForSeq2SeqLM", {
        "t5": {"d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": WORDS,
               "decoder_start_token_id": 0},
        "bart": BOTH, "pegasus": BOTH,
    }),
    "automatic-speech-recognition-with-past": ("AutoModelForSpeechSeq2Seq", {
        "whisper": BOTH,
    }),
}  # fmt: skip

# What these need to know of the sizes of their inputs: those of an image are in a table of positions, and those of a sound
# are compared with a range.
SHAPES = {
    "vit": "pixel_values=N,3,32,32", "deit": "pixel_values=N,3,32,32", "swin": "pixel_values=N,3,32,32",
    "wav2vec2": "input_values=N,200", "hubert": "input_values=N,200",
}  # fmt: skip


def value_of(parameter, past, count, random):
    """A value of an input, for `count` tokens after `past` others."""
    name, shape = parameter.get_any_name(), parameter.get_partial_shape()
    total = past + count
    if name in ["input_ids", "decoder_input_ids"]:
        return random.integers(3, WORDS, (1, count))
    if name == "attention_mask":
        return np.ones((1, total), np.int64)
    if name == "position_ids":
        return np.arange(past, total)[None]
    if name == "token_type_ids":
        return np.zeros((1, count), np.int64)
    if name == "beam_idx":
        return np.zeros(1, np.int32)
    if name == "cache_position":
        return np.arange(past, total)
    if name == "encoder_attention_mask":
        return np.ones((1, TOKENS), np.int64)
    open_sizes = {
        "pixel_values": [1, 3, 32, 32],
        "input_values": [1, 200],
        "input_features": [1, 80, 3000],
        "encoder_hidden_states": [1, TOKENS, WIDTH],
    }[name]
    sizes = [size.get_length() if size.is_static else open_size for size, open_size in zip(shape, open_sizes)]
    return random.standard_normal(sizes).astype(np.float32)


def runs(model, random):
    """The inputs of one run, or of two where there is a state."""
    encoded = {}
    for past, count in [(0, TOKENS), (TOKENS, 1)] if model.get_sinks() else [(0, TOKENS)]:
        values = {}
        for parameter in model.inputs:
            name = parameter.get_any_name()
            value = value_of(parameter, past, count, random)
            # What an encoder gives stays the same.
            values[name] = encoded.setdefault(name, value) if name.startswith("encoder") else value
        yield values


def data_sets(file, runs):
    """The data sets of a model. `runs` takes the model and a source of random numbers; it yields the inputs by name, for one
    run after the other, and is sent the outputs."""
    core = ov.Core()
    model = core.read_model(file)
    options = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    steps = runs(model, np.random.default_rng(7))
    files, outputs = {}, None
    while True:
        try:
            values = steps.send(outputs)
        except StopIteration:
            return files
        inputs = []
        for parameter in model.inputs:
            value = next(values[name] for name in parameter.get_names() if name in values)
            inputs.append(np.array(value, parameter.get_element_type().to_dtype(), order="C"))
        results = request.infer(inputs)
        outputs = [results[it].copy() for it in range(len(model.outputs))]
        for output, value in zip(model.outputs, outputs):
            assert value.dtype.kind != "f" or np.isfinite(value).all(), f"{output.get_any_name()} is not finite"
        files |= npz_file(len(files), inputs, outputs)


def main():
    # Here, so that `exporter.py` takes from this file without optimum.
    from optimum.exporters.openvino import export_from_model

    root, *only = sys.argv[1:]
    failed = False
    for task, (kind, architectures) in TASKS.items():
        for name, sizes in architectures.items():
            if only and name not in only:
                continue
            torch.manual_seed(7)
            try:
                config = transformers.AutoConfig.for_model(name, **sizes)
                module = getattr(transformers, kind).from_config(config).eval()
                with tempfile.TemporaryDirectory() as exported:
                    export_from_model(model=module, output=exported, task=task)
                    for xml in sorted(Path(exported).glob("openvino*_model.xml")):
                        files = {"model.xml": xml.read_bytes(), "model.bin": xml.with_suffix(".bin").read_bytes()}
                        files |= {"shapes": f"{SHAPES[name]}\n".encode()} if name in SHAPES else {}
                        part = xml.stem.removeprefix("openvino_").removesuffix("model").strip("_") or "model"
                        write_files(Path(root, name, part), files | data_sets(xml, runs))
                        print(f"{name}/{part}", flush=True)
            except Exception as error:
                failed = True
                print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
