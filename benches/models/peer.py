"""One model on OpenVINO or ONNX Runtime, for compare.py: the same commands and answers as model.rs.

    python peer.py openvino|openvino-defaults|onnxruntime FOLDER THREADS
"""

import functools
import json
import pathlib
import sys
import time

import numpy as np
import onnx
from onnx import numpy_helper


def main():
    runtime, folder, threads = sys.argv[1:]
    folder = pathlib.Path(folder)
    inputs = []
    while (file := folder / f"test_data_set_0/input_{len(inputs)}.pb").is_file():
        inputs.append(numpy_helper.to_array(onnx.load_tensor(file)))
    if not inputs:
        sys.exit(f"{folder} has no test_data_set_0/input_0.pb")
    defaults = functools.partial(OpenVino, precision=None)
    runtimes = {"openvino": OpenVino, "openvino-defaults": defaults, "onnxruntime": OnnxRuntime}
    model = runtimes[runtime](folder, int(threads), inputs)
    print(json.dumps([model.read, model.ready, model.own]), flush=True)
    for line in sys.stdin:
        command, _, seconds = line.strip().partition(" ")
        if command == "run":
            answer = [elapsed * 1e6 for elapsed in repeat(float(seconds), model.run)]
        elif command == "memory":
            answer = memory()
        else:
            sys.exit(f"no such command: {line}")
        print(json.dumps(answer), flush=True)


def repeat(seconds, function):
    """Calls a function at least once, and until the time is over: the time of each call in seconds."""
    times = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return times


def memory():
    """The most that this process had, in MiB, and how much of it is not mapped from files."""
    lines = (line.split() for line in open("/proc/self/status"))
    mebibytes = {words[0]: float(words[1]) / 1024 for words in lines if words[-1] == "kB"}
    return [mebibytes["VmHWM:"], mebibytes["VmHWM:"] - mebibytes["RssFile:"]]


class OpenVino:
    """In single precision, or in what OpenVINO picks for the processor."""

    def __init__(self, folder, threads, inputs, precision="f32"):
        import openvino as ov

        core = ov.Core()
        core.get_property("CPU", "FULL_DEVICE_NAME")  # Loads the plug-in, which is no part of a model's time.
        configuration = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "ENABLE_CPU_PINNING": False,
        }
        if precision:
            configuration["INFERENCE_PRECISION_HINT"] = precision
        self.own = memory()[1]
        started = time.perf_counter()
        model = core.read_model(folder / "model.xml")
        self.read = (time.perf_counter() - started) * 1e3
        compiled = core.compile_model(model, "CPU", configuration)
        self.ready = (time.perf_counter() - started) * 1e3
        self.request = compiled.create_infer_request()
        for number, tensor in enumerate(inputs):
            self.request.set_input_tensor(number, ov.Tensor(np.ascontiguousarray(tensor)))

    def run(self):
        self.request.infer()


class OnnxRuntime:
    def __init__(self, folder, threads, inputs):
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.own = memory()[1]
        started = time.perf_counter()
        # Reads and prepares in one.
        session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
        self.read = self.ready = (time.perf_counter() - started) * 1e3
        self.session, self.feed = session, {it.name: tensor for it, tensor in zip(session.get_inputs(), inputs)}

    def run(self):
        self.session.run(None, self.feed)


if __name__ == "__main__":
    main()
