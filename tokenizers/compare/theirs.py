"""Runs a model on OpenVINO, in a process of its own: on texts that are no UTF-8 it may crash.

Each line of standard input is a batch as JSON: texts, or rows of ids. A text that is no UTF-8 is an array of bytes. Each line of
standard output is an object with `outputs`, or with `error`. The first one is about loading the model.
"""

import json
import sys
import time
from pathlib import Path


def memory(process, name):
    """Bytes of memory of a process: `VmRSS` for those of now, `VmHWM` for the most."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def main(file):
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
        if isinstance(batch[0], list) and model.input(0).element_type != ov.Type.string:
            tensor = ov.Tensor(np.array(batch, np.int64))
        else:
            # A NUL at the end would be lost.
            tensor = ov.Tensor(np.array([bytes(text) if isinstance(text, list) else text.encode() for text in batch]))
        began = time.perf_counter_ns()
        try:
            outputs = model([tensor])
            answer = {"nanoseconds": time.perf_counter_ns() - began}
            answer["outputs"] = [outputs[port].tolist() for port in model.outputs]
        except (RuntimeError, UnicodeDecodeError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
