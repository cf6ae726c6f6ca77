"""Models on this project's reader of IR, on tract's reader of ONNX, with and without this project's kernels, on OpenVINO and on
ONNX Runtime.

    benches/models/run make                       writes the models, once (some gigabytes)
    benches/models/run quantize                   writes the int8 models, once
    benches/models/run compare --processor NAME   measures the models, and keeps the times in benches/results/models/NAME.csv
    benches/models/run quantized --processor NAME measures the int8 models, and keeps them in benches/results/quantized/NAME.csv
    benches/models/run compare resnet50 unet      measures two of them

Each runtime has a process of its own with the model, which waits while another one runs. They take turns, in a random order
each time, so that all meet the same machine. Figures are medians.
"""

import argparse
import csv
import json
import pathlib
import random
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
RESULTS = HERE.parent / "results"
OURS, ONNX, OPENVINO, ONNXRUNTIME, KERNELS = RUNTIMES = [
    "tract-openvino-ir",
    "tract (ONNX)",
    "OpenVINO",
    "ONNX Runtime",
    "kernels (ONNX)",
]
# In the precision that OpenVINO picks for the processor: what is not quantised may be computed in bf16. And with the option for that.
OPENVINO_DEFAULTS = "OpenVINO, defaults"
BF16 = "tract-openvino-ir, bf16"
# Memory is the peak of the process. Loading, and running too, take what it has beyond that before, without files that are
# mapped: one of them is the program.
COLUMNS = ["read_ms", "ready_ms", "first_ms", "memory_mib", "loading_mib", "running_mib"]
# How far outputs of an int8 model are from those of the same model in single precision.
ERRORS = ["mean", "99 %"]


class Worker:
    """A model on a runtime, in a process of its own."""

    def __init__(self, runtime, folder, threads, program):
        peer = [sys.executable, HERE / "peer.py"]
        command = {
            OURS: [program, "ir"],
            BF16: [program, "ir-bf16"],
            ONNX: [program, "onnx"],
            KERNELS: [program, "onnx-kernels"],
            OPENVINO: [*peer, "openvino"],
            OPENVINO_DEFAULTS: [*peer, "openvino-defaults"],
            ONNXRUNTIME: [*peer, "onnxruntime"],
        }[runtime]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [*command, folder, str(threads)]
        self.process = subprocess.Popen(command, text=True, **pipes)
        self.read_ms, self.ready_ms, self.own_mib = self.answer()
        self.times = []

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            error = self.process.stderr.read().strip()
            raise RuntimeError(error.splitlines()[-1] if error else "it ended")
        return json.loads(line)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(cases, threads, arguments):
    """A row for each case, which is a runtime and a folder. One that its runtime does not take has none, which is said."""

    def start(case):
        return Worker(*cases[case], threads, arguments.program)

    # Whoever comes first must not be the one that reads them from the disk.
    for folder in {folder for _, folder in cases.values()}:
        for file in ["model.bin", "model.onnx"]:
            (folder / file).read_bytes()
    loads = {}
    for case in list(cases) * arguments.loads:
        try:
            worker = start(case)
        except RuntimeError as error:
            print(f"{cases[case][1].name}: {case} refuses it: {str(error)[:300]}", file=sys.stderr)
            continue
        _, ready = worker.ask("memory")
        first = worker.ask("run 0")[0] / 1e3
        memory, run = worker.ask("memory")
        own = [ready - worker.own_mib, run - worker.own_mib]
        loads.setdefault(case, []).append([worker.read_ms, worker.ready_ms, first, memory, *own])
        worker.close()
    workers = {case: start(case) for case in loads}
    for _ in range(arguments.turns):
        for worker in random.sample(list(workers.values()), len(workers)):
            # The first run of a turn finds other data in the caches.
            times = worker.ask(f"run {arguments.seconds}")
            worker.times += times[1:] or times
    errors = {}
    if arguments.command == "quantized" and OURS in workers:
        errors = dict(zip([OURS, OPENVINO], workers[OURS].ask("errors")))
    for case, worker in workers.items():
        worker.close()
        row = {"runtime": case, "median_ms": f"{statistics.median(worker.times) / 1e3:.3f}"}
        row |= {name: f"{statistics.median(column):.3f}" for name, column in zip(COLUMNS, zip(*loads[case]))}
        yield row | dict(zip(ERRORS, (f"{it:.2e}" for it in errors.get(case, []))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=pathlib.Path, help="the folder with f32 and int8, which have the models")
    parser.add_argument("command", choices=["compare", "quantized"])
    parser.add_argument("only", nargs="*", help="names of models; all if there are none")
    parser.add_argument("--program", default="target/release/examples/model")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--loads", type=int, default=3, help="how often a model is loaded")
    parser.add_argument("--seconds", type=float, default=0.25, help="how long a turn is")
    parser.add_argument("--processor", help="the name of the CSV file, for example intel-xeon-amx")
    arguments = parser.parse_args()

    single, int8 = arguments.kept / "f32", arguments.kept / "int8"
    is_int8 = arguments.command == "quantized"
    rows = []
    for threads in arguments.threads:
        for folder in sorted(it.parent for it in (int8 if is_int8 else single).glob("*/model.xml")):
            if folder.suffix or arguments.only and folder.name not in arguments.only:
                continue
            cases = {runtime: (runtime, folder) for runtime in [*RUNTIMES, BF16]}
            if is_int8:
                cases[OPENVINO] = (OPENVINO_DEFAULTS, folder)
                cases[f"{OURS}, f32"] = (OURS, single / folder.name)
                cases[f"{OPENVINO}, f32"] = (OPENVINO, single / folder.name)
            else:
                cases[OPENVINO_DEFAULTS] = (OPENVINO_DEFAULTS, folder)
            model = {"model": folder.name, "threads": str(threads)}
            weights = single.joinpath(folder.name, "model.bin").stat().st_size * 2 / 2**20  # Half precision in the file.
            found = [model | row | {"weights_mib": f"{weights:.1f}"} for row in measure(cases, threads, arguments)]
            times = ", ".join(f"{row['runtime']} {row['median_ms']} ms" for row in found)
            print(f"{folder.name}, {threads} threads: {times}", flush=True)
            rows += found
    if arguments.processor:
        path = RESULTS / ("quantized" if is_int8 else "models") / f"{arguments.processor}.csv"
        with open(path, "w", newline="") as file:
            columns = ["median_ms", *COLUMNS, "weights_mib", *(ERRORS if is_int8 else [])]
            writer = csv.DictWriter(file, ["model", "threads", "runtime", *columns], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
