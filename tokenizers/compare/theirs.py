"""Runs a model on OpenVINO, in a process of its own, as `examples/texts.rs` runs it here.

A line of standard input is a batch as JSON: an array of texts, of rows of ids, or of objects with `bytes` in hexadecimal numbers,
which are texts that need not be UTF-8. An answer is an object with `outputs`, or only their `shapes` if the word `shapes` follows the
file, or with `error`. The first line is about loading the model.
"""

import json
import sys
import time
from pathlib import Path


def memory(process, name):
    """Bytes of memory of a process: `VmRSS` for those of now, `VmHWM` for the most."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def main(file, answers="outputs"):
    import numpy as np
    import openvino as ov
    import openvino_tokenizers  # noqa: F401: its operations.

    core = ov.Core()
    before = memory("self", "VmRSS")
    began = time.perf_counter_ns()
    model = core.compile_model(file, "CPU", {"INFERENCE_NUM_THREADS": 1})
    print(json.dumps({"load_nanoseconds": time.perf_counter_ns() - began, "memory_before": before}), flush=True)
    for line in sys.stdin:
        batch = json.loads(line)
        if isinstance(batch[0], list):
            tensor = ov.Tensor(np.array(batch, np.int64))
        else:
            # A NUL at the end of a text would be lost.
            texts = [text.encode() if isinstance(text, str) else bytes.fromhex(text["bytes"]) for text in batch]
            tensor = ov.Tensor(np.array(texts))
        try:
            outputs = model([tensor])
            if answers == "shapes":
                answer = {"shapes": [outputs[port].shape for port in model.outputs]}
            else:
                answer = {"outputs": [outputs[port].tolist() for port in model.outputs]}
        except (RuntimeError, UnicodeDecodeError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
