"""Time and memory that loading a model takes, beside OpenVINO.

    cargo build --release -p tract-openvino-ir --example load
    python ir/benches/load.py minilm/model.xml "ocr_det/model.xml x=N,3,32*h,32*w"

A model's file may be followed by shapes of inputs, which OpenVINO is not given: its dimensions stay open.

Each load is a process of its own, the two kinds in turns; the table has medians. OpenVINO reads and compiles
for one thread and in f32, as tract does, and from the same files, which are in the system's cache by then.
Memory is the most that the process had (VmHWM), less what it had before it loaded.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

OPENVINO = """
import sys, time
import openvino as ov
core = ov.Core()
core.get_property("CPU", "FULL_DEVICE_NAME")
def memory(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return float(line.split()[1]) / 1024
before = memory("VmRSS")
started = time.perf_counter()
model = core.read_model(sys.argv[1])
read = time.perf_counter()
config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
compiled = core.compile_model(model, "CPU", config)
ready = time.perf_counter()
print((read - started) * 1e3, (ready - started) * 1e3, memory("VmHWM") - before)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--program", default="target/release/examples/load")
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    print("| model | | read, ms | ready to run, ms | peak memory, MiB | weights, MiB |")
    print("|---|---|---|---|---|---|")
    for text in arguments.models:
        model, *shapes = text.split()
        model = pathlib.Path(model)
        commands = {
            "tract-openvino-ir": [arguments.program, str(model), *shapes],
            "OpenVINO": [sys.executable, "-c", OPENVINO, str(model)],
        }
        rows = {name: [] for name in commands}
        for _ in range(arguments.runs):
            for name, command in commands.items():
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                rows[name].append([float(number) for number in output.split()])
        weights = model.with_suffix(".bin").stat().st_size / 2**20
        for name, runs in rows.items():
            medians = [statistics.median(column) for column in zip(*runs)]
            read, ready, memory = medians
            print(f"| {model.parent.name} | {name} | {read:.0f} | {ready:.0f} | {memory:.0f} | {weights:.0f} |")


if __name__ == "__main__":
    main()
