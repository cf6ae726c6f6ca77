#!/usr/bin/env python3
"""Language models here and on OpenVINO, in turns: writes a CSV with the times of both.

    cargo build --release --package tract-openvino-generation --features multithread-mm --example speed
    generation/speed.py make FOLDER              models with random weights, in the shapes of Qwen2 0.5B and Llama 1B
    generation/speed.py measure FOLDER CSV --context 128 1024 --threads 1 2

It measures all models in the folder: those of smollm2.py, too, if they are there. Needs the packages of requirements.txt.
Each of the two runs twice: with OpenVINO's defaults, which round activations and the KV cache to 8 bits (`tract_bytes` and
`openvino`), and in single precision (`tract` and `openvino_f32`). All compute the logits of the last position alone.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ACCURATE = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
TOKENS = 16


def make(folder):
    import torch
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    shapes = {
        "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(
            vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
            num_attention_heads=14, num_key_value_heads=2, max_position_embeddings=32768,
            rope_theta=1e6, tie_word_embeddings=True,
        )),
        "llama": lambda: LlamaForCausalLM(LlamaConfig(
            vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
            num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131072,
            rope_theta=5e5, tie_word_embeddings=True,
        )),
    }
    kinds = {
        "f16": {"load_in_8bit": False},
        "int8": {"quantization_config": OVWeightQuantizationConfig(bits=8)},
        "int4": {"quantization_config": OVWeightQuantizationConfig(bits=4, group_size=64, sym=False, ratio=1.0)},
    }
    for shape, make_model in shapes.items():
        source = folder / "torch" / shape
        if not source.exists():
            torch.manual_seed(7)
            make_model().eval().half().save_pretrained(source)
        for kind, options in kinds.items():
            if (folder / f"{shape}_{kind}").exists():
                continue
            model = OVModelForCausalLM.from_pretrained(source, export=True, compile=False, **options)
            model.save_pretrained(folder / f"{shape}_{kind}")


def openvino(folder, threads, context, options):
    """Runs in a process of its own, for the memory."""
    import numpy as np
    import openvino as ov
    import openvino.opset13 as ops

    started = time.perf_counter()
    core = ov.Core()
    model = core.read_model(folder / "openvino_model.xml")
    matmul = next(it for it in model.outputs if "logits" in it.names).node.input_value(0).node
    while matmul.get_type_name() != "MatMul":
        matmul = matmul.input_value(0).node
    last = ops.gather(matmul.input_value(0), np.array([-1], np.int32), np.array(1, np.int32))
    matmul.input(0).replace_source_output(last.output(0))
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", **options}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    ready = time.perf_counter() - started

    def step(tokens, past):
        started = time.perf_counter()
        count = len(tokens)
        request.infer({
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, past + count), np.int64),
            "position_ids": np.arange(past, past + count, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        })
        return time.perf_counter() - started

    prompt = [(place * 7919 + 13) % 30000 for place in range(context)]
    # As speed.rs.
    cold = step(prompt, 0)
    request.reset_state()
    warm = step(prompt, 0)
    steps = sorted(step([100 + token], context + token) for token in range(TOKENS))
    status = Path("/proc/self/status").read_text()
    memory = int(status.split("VmHWM:")[1].split()[0]) // 1024
    times = {"ready": ready, "first": ready + cold, "prompt": min(cold, warm), "token": steps[len(steps) // 2]}
    print(json.dumps({**times, "memory": memory}))


def measure(folder, file, contexts, threads, turns):
    program = ROOT / "target/release/examples/speed"
    rows = []
    for model in sorted(folder.glob("*/openvino_model.xml")):
        # Otherwise the program that runs first would also wait for the disk.
        with open(model.with_suffix(".bin"), "rb") as weights, open(os.devnull, "wb") as nowhere:
            shutil.copyfileobj(weights, nowhere)
        for count in threads:
            for context in contexts:
                here = [program, model.parent, str(count), str(context), str(TOKENS)]
                there = [sys.executable, __file__, "openvino", model.parent, str(count), str(context)]
                commands = {
                    "tract": [*here, "--exact"],
                    "tract_bytes": here,
                    "openvino": [*there, "{}"],
                    "openvino_f32": [*there, json.dumps(ACCURATE)],
                }
                best = {}
                for _ in range(turns):
                    for name, command in commands.items():
                        process = subprocess.run(command, capture_output=True, text=True)
                        if process.returncode != 0:
                            print(f"{model.parent.name}: {name} ended with {process.returncode}: {process.stderr[-300:]}")
                            continue
                        times = json.loads(process.stdout.splitlines()[-1])
                        kept = best.setdefault(name, times)
                        best[name] = {key: min(kept[key], times[key]) for key in times}
                for name, times in best.items():
                    rows.append({"model": model.parent.name, "threads": count, "context": context, "runtime": name,
                                 "ready_s": round(times["ready"], 2),
                                 "first_s": round(times["first"], 2),
                                 "prompt_ms": round(times["prompt"] * 1e3),
                                 "tokens_per_s": round(1 / times["token"], 1), "memory_mib": times["memory"]})
                    print(rows[-1], flush=True)
    with open(file, "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make").add_argument("folder", type=Path)
    measuring = commands.add_parser("measure")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("csv", type=Path)
    measuring.add_argument("--context", type=int, nargs="+", default=[128, 1024])
    measuring.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    measuring.add_argument("--turns", type=int, default=2)
    one = commands.add_parser("openvino")
    one.add_argument("folder", type=Path)
    one.add_argument("threads", type=int)
    one.add_argument("context", type=int)
    one.add_argument("options", type=json.loads)
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.folder)
    elif arguments.command == "openvino":
        openvino(arguments.folder, arguments.threads, arguments.context, arguments.options)
    else:
        measure(arguments.folder, arguments.csv, arguments.context, arguments.threads, arguments.turns)


if __name__ == "__main__":
    main()
