"""What rounding to 8 bits does to a language model, here and in OpenVINO: its perplexity on a text, and the error of its logits.

    pip install -r generation/requirements.txt
    python generation/perplexity.py smollm2 docs/security.md

The text is read in prefills of 16 tokens with a KV cache, and each time the next token is guessed. `error` is the mean distance of the
logits from those of OpenVINO in f32, divided by the standard deviation of these. One line of each: OpenVINO and tract-openvino, with
their defaults and exact.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import openvino as ov
from tokenizers import Tokenizer

# perplexity.rs has the same number.
CHUNK = 16
MOST_TOKENS = 2048
EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    "KV_CACHE_PRECISION": "f32",
}
BUILD = ["cargo", "build", "--quiet", "--release", "--package", "tract-openvino-generation", "--example", "perplexity"]


def with_openvino(folder, tokens, options):
    request = ov.Core().compile_model(folder / "openvino_model.xml", "CPU", options).create_infer_request()
    names = {name for port in request.model_inputs for name in port.names}
    logits = []
    for start in range(0, len(tokens), CHUNK):
        feed = {
            "input_ids": tokens[None, start : start + CHUNK],
            "attention_mask": np.ones((1, start + CHUNK), np.int64),
            "position_ids": np.arange(start, start + CHUNK)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        request.infer({name: value for name, value in feed.items() if name in names})
        logits.append(request.get_output_tensor(0).data[0, -1].copy())
    return np.stack(logits)


def with_tract(folder, tokens, options):
    with tempfile.TemporaryDirectory() as scratch:
        ids, logits = Path(scratch, "tokens"), Path(scratch, "logits")
        tokens.astype("<u4").tofile(ids)
        subprocess.run(["target/release/examples/perplexity", folder, ids, logits, *options], check=True)
        return np.fromfile(logits, "<f4").reshape(len(tokens) // CHUNK, -1)


def main():
    folder, text = Path(sys.argv[1]), Path(sys.argv[2]).read_text()
    subprocess.run(BUILD, check=True)
    tokenizer = folder / "tokenizer.json"
    if tokenizer.exists():
        tokens = np.array(Tokenizer.from_file(str(tokenizer)).encode(text).ids, np.int64)[:MOST_TOKENS]
    else:
        # A model with random weights.
        tokens = np.random.default_rng(1).integers(0, 30000, MOST_TOKENS)
    # The one after each prefill is guessed.
    tokens, expected = tokens[: (len(tokens) - 1) // CHUNK * CHUNK], tokens[CHUNK::CHUNK]
    exact = with_openvino(folder, tokens, EXACT)
    print(f"{len(exact)} of {len(tokens)} tokens\nruntime, perplexity, error")
    for name, logits in [
        ("OpenVINO, exact", exact),
        ("OpenVINO, default", with_openvino(folder, tokens, {})),
        ("OpenVINO, default in f32", with_openvino(folder, tokens, {"INFERENCE_PRECISION_HINT": "f32"})),
        ("tract-openvino, exact", with_tract(folder, tokens, ["--exact"])),
        ("tract-openvino, default", with_tract(folder, tokens, [])),
    ]:
        shifted = logits - logits.max(1, keepdims=True)
        of_expected = shifted[np.arange(len(logits)), expected[: len(logits)]] - np.log(np.exp(shifted).sum(1))
        error = np.abs(logits - exact).mean() / exact.std()
        print(f"{name}, {np.exp(-of_expected.mean()):.3f}, {error:.4f}")


if __name__ == "__main__":
    main()
