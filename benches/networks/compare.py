"""Whole networks on this project's reader of IR, on tract's of ONNX, with and without this project's kernels, on OpenVINO and
on ONNX Runtime.

    benches/networks/run make                      the networks, once (some gigabytes)
    benches/networks/run compare                   times, as a table
    benches/networks/run profile resnet50          where the time goes, beside OpenVINO
    benches/networks/run kinds --processor intel-cascade-lake       keeps where it goes in all networks
    benches/networks/run compare --processor intel-cascade-lake     keeps the table, and draws the chart again
    benches/networks/run quantize                  quantised networks, once
    benches/networks/run quantized                 their times and errors, as a table; `--processor` keeps it

Each runtime has a process of its own with the network, which waits while another one runs. They run in turns, in an
order of their own each time, so that all meet the same machine. Figures are medians.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
RESULTS = HERE.parent / "results" / "networks"
OURS, ONNX, OPENVINO, ONNXRUNTIME, KERNELS = RUNTIMES = [
    "tract-openvino-ir",
    "tract (ONNX)",
    "OpenVINO",
    "ONNX Runtime",
    "kernels (ONNX)",
]
# In the precision that OpenVINO picks for the processor: what is not quantised may be computed in bf16.
OPENVINO_DEFAULTS = "OpenVINO, defaults"
# Memory is the peak of the process. Loading, and running too, take what it has beyond that before, without files that are
# mapped: one of them is the program.
COLUMNS = ["read_ms", "ready_ms", "first_ms", "median_ms", "memory_mib", "loading_mib", "running_mib"]


# The GNU C library keeps what is freed, as allocators of long-running programs do. By default it returns larger tensors to
# the system after each run, or does not, by what was freed before. What threads other than the first one free it always
# returns, unless there is one arena.
KEEPS_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}


class Worker:
    """A network on a runtime, in a process of its own."""

    def __init__(self, runtime, folder, threads, program, environment):
        command = {
            OURS: [program, "ir"],
            ONNX: [program, "onnx"],
            KERNELS: [program, "onnx-kernels"],
            OPENVINO: [sys.executable, HERE / "peer.py", "openvino"],
            OPENVINO_DEFAULTS: [sys.executable, HERE / "peer.py", "openvino-defaults"],
            ONNXRUNTIME: [sys.executable, HERE / "peer.py", "onnxruntime"],
        }[runtime]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [*command, folder, str(threads)]
        self.process = subprocess.Popen(command, text=True, env=os.environ | environment, **pipes)
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


def start(runtime, folder, threads, program, **environment):
    """A worker; none where a runtime does not take the network, which is said."""
    try:
        return Worker(runtime, folder, threads, program, environment)
    except RuntimeError as error:
        print(f"{folder.name}: {runtime} refuses it: {str(error)[:300]}", file=sys.stderr)
        return None


def measure(folder, threads, arguments):
    """A row for each runtime that takes the network."""
    loads = {}
    workers = {}
    # Whoever comes first must not be the one that reads them from the disk.
    for file in ["model.bin", "model.onnx"]:
        (folder / file).read_bytes()
    for _ in range(arguments.loads):
        for runtime in RUNTIMES:
            worker = start(runtime, folder, threads, arguments.program)
            if worker is None:
                continue
            _, ready = worker.ask("memory")
            first = worker.ask("run 0")[0] / 1e3
            memory, run = worker.ask("memory")
            own = [ready - worker.own_mib, run - worker.own_mib]
            loads.setdefault(runtime, []).append([worker.read_ms, worker.ready_ms, first, memory, *own])
            worker.close()
    for runtime in loads:
        workers[runtime] = start(runtime, folder, threads, arguments.program, **KEEPS_MEMORY)
    for _ in range(arguments.turns):
        for worker in random.sample(list(workers.values()), len(workers)):
            # The first run of a turn finds other data in the caches.
            times = worker.ask(f"run {arguments.seconds}")
            worker.times += times[1:] or times
    for runtime, worker in workers.items():
        read, ready, first, *memory = (statistics.median(column) for column in zip(*loads[runtime]))
        worker.close()
        yield runtime, [read, ready, first, statistics.median(worker.times) / 1e3, *memory]


def geometric_mean(ratios):
    return math.exp(statistics.mean(map(math.log, ratios)))


RATIOS = [ONNX, OPENVINO, ONNXRUNTIME, "ready", "memory", "loading", "running", KERNELS]


def cells(ratios):
    return " | ".join(f"{ratios[it]:.2f}" if it in ratios else "" for it in RATIOS)


def table(rows):
    """Markdown: medians of runs, and ours against others. A ratio below 1 is that we are faster."""
    by_network = {}
    for row in rows:
        by_network.setdefault((row["threads"], row["network"]), {})[row["runtime"]] = row
    lines = [
        "| network | ms | / tract (ONNX) | / OpenVINO | / ONNX Runtime "
        "| ready / OpenVINO | memory / OpenVINO | loading / weights | running / weights | / kernels (ONNX) |"
    ]
    lines += ["|---|---:" + "|---:" * len(RATIOS) + "|"]
    kept = {}
    for (threads, network), runtimes in by_network.items():
        ours = runtimes.get(OURS)
        if not ours:
            continue
        ratio = {
            other: float(ours["median_ms"]) / float(runtimes[other]["median_ms"])
            for other in RUNTIMES[1:]
            if other in runtimes
        }
        if OPENVINO in runtimes:
            for column in ["ready_ms", "memory_mib"]:
                ratio[column.split("_")[0]] = float(ours[column]) / float(runtimes[OPENVINO][column])
        for column in ["loading", "running"]:
            if f"{column}_mib" in ours:
                ratio[column] = float(ours[f"{column}_mib"]) / float(ours["weights_mib"])
        # A network of a few kilobytes may load into memory that is there already.
        for column, value in ((column, value) for column, value in ratio.items() if value > 0):
            kept.setdefault(threads, {}).setdefault(column, []).append(value)
        lines.append(f"| {network}, {threads} | {float(ours['median_ms']):.2f} | {cells(ratio)} |")
    for threads, ratios in sorted(kept.items()):
        means = {column: geometric_mean(values) for column, values in ratios.items()}
        lines.append(f"| **geometric mean, {threads}** | | {cells(means)} |")
    return "\n".join(lines)


def compare(arguments):
    rows = []
    for threads in arguments.threads:
        for folder in arguments.folders:
            weights = folder.joinpath("model.bin").stat().st_size * 2 / 2**20  # Half precision in the file.
            for runtime, figures in measure(folder, threads, arguments):
                row = {"network": folder.name, "threads": str(threads), "runtime": runtime}
                row |= {name: f"{value:.3f}" for name, value in zip(COLUMNS, figures)}
                rows.append(row | {"weights_mib": f"{weights:.1f}"})
            these = [it for it in rows if (it["network"], it["threads"]) == (folder.name, str(threads))]
            print(*table(these).splitlines()[2:3], file=sys.stderr, flush=True)
    print(table(rows))
    if arguments.processor:
        RESULTS.mkdir(parents=True, exist_ok=True)
        with open(RESULTS / f"{arguments.processor}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        draw()


# Quantised networks, and the same ones in single precision.
SINGLE, OPENVINO_SINGLE = "tract-openvino-ir, f32", "OpenVINO, f32"
QUANTIZED = {
    OURS: (OURS, True),
    OPENVINO: (OPENVINO_DEFAULTS, True),
    ONNXRUNTIME: (ONNXRUNTIME, True),
    KERNELS: (KERNELS, True),
    ONNX: (ONNX, True),
    SINGLE: (OURS, False),
    OPENVINO_SINGLE: (OPENVINO, False),
}
ERRORS = ["mean", "99 %"]


def quantized_table(rows):
    """Markdown: medians of runs on integers, ours against others, and errors against the simulation in single precision."""
    by_network = {}
    for row in rows:
        by_network.setdefault((row["threads"], row["network"]), {})[row["runtime"]] = row
    others = [it for it in QUANTIZED if it != OURS]
    lines = ["| network | ms | / " + " | / ".join(others) + " | error: mean, 99 % | of OpenVINO |"]
    lines += ["|---|" + "---:|" * (len(others) + 3)]
    kept = {}
    for (threads, network), runtimes in by_network.items():
        ours = runtimes[OURS]
        ratios = {it: float(ours["median_ms"]) / float(runtimes[it]["median_ms"]) for it in others if it in runtimes}
        for other, ratio in ratios.items():
            kept.setdefault(threads, {}).setdefault(other, []).append(ratio)
        cells = [f"{ratios[it]:.2f}" if it in ratios else "" for it in others]
        errors = [", ".join(f"{float(row[it]):.1e}" for it in ERRORS) for row in (ours, runtimes[OPENVINO])]
        lines.append(f"| {network}, {threads} | {float(ours['median_ms']):.2f} | {' | '.join(cells + errors)} |")
    for threads, ratios in kept.items():
        cells = [f"{geometric_mean(ratios[it]):.2f}" if it in ratios else "" for it in others]
        lines.append(f"| **geometric mean, {threads}** | | {' | '.join(cells)} | | |")
    return "\n".join(lines)


def quantized(arguments):
    rows = []
    for threads in arguments.threads:
        for folder in sorted(it.parent for it in arguments.quantized.glob("*/model.xml") if not it.parent.suffix):
            if arguments.only and folder.name not in arguments.only:
                continue
            workers = {}
            for name, (runtime, is_quantized) in QUANTIZED.items():
                path = folder if is_quantized else arguments.networks / folder.name
                worker = start(runtime, path, threads, arguments.program, **KEEPS_MEMORY)
                if worker is not None:
                    workers[name] = worker
            for _ in range(arguments.turns):
                for worker in random.sample(list(workers.values()), len(workers)):
                    times = worker.ask(f"run {arguments.seconds}")
                    worker.times += times[1:] or times
            errors = dict(zip([OURS, OPENVINO], workers[OURS].ask("errors")))
            for name, worker in workers.items():
                worker.close()
                row = {"network": folder.name, "threads": str(threads), "runtime": name}
                row["median_ms"] = f"{statistics.median(worker.times) / 1e3:.3f}"
                rows.append(row | dict(zip(ERRORS, (f"{it:.2e}" for it in errors.get(name, [])))))
            print(quantized_table(rows).splitlines()[1 + len({(it["threads"], it["network"]) for it in rows})], file=sys.stderr, flush=True)
    print(quantized_table(rows))
    if arguments.processor:
        path = RESULTS.parent / "quantized" / f"{arguments.processor}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="") as file:
            fields = ["network", "threads", "runtime", "median_ms", *ERRORS]
            writer = csv.DictWriter(file, fields, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


# Kinds of operators, by their names here and in OpenVINO; the first that fits. OpenVINO's subgraphs are attention and
# functions of elements.
KINDS = {
    "convolutions": "Conv|Deconv|Im2col|Reorder",
    "products": "MatMul|FullyConnected",
    "moves and copies": "Move|Transpose|Concat|Slice|Split|Gather|Reshape|IntoShape|Pad|Broadcast|Tile|Interpolate|Resize|ShuffleC|SpaceTo|DepthTo",
    "pools": "Pool",
    "loops and recurrent layers": "Scan|LSTM|GRU|RNN|TensorIterator|Loop",
    "attention, functions of elements, reductions and others": "",
}


def kinds(arguments):
    """Keeps the time of each kind of operators, of ours and of OpenVINO's, in each network."""
    rows = []
    for folder in arguments.folders:
        times = {}
        for runtime in [OURS, OPENVINO]:
            worker = start(runtime, folder, 1, arguments.program)
            if worker is None:
                break
            worker.ask("run 0.1")
            for name, time in worker.ask(f"profile {arguments.seconds}").items():
                kind = next(kind for kind, names in KINDS.items() if re.search(names, name))
                times.setdefault(kind, {OURS: 0, OPENVINO: 0})[runtime] += time / 1e3
            worker.close()
        else:
            milliseconds = [{it: f"{time:.4f}" for it, time in times[kind].items()} for kind in times]
            rows += [{"network": folder.name, "kind": kind} | it for kind, it in zip(times, milliseconds)]
    path = RESULTS / "kinds" / f"{arguments.processor}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, ["network", "kind", OURS, OPENVINO], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def profile(arguments):
    for folder in arguments.folders:
        for runtime in [OURS, ONNX, KERNELS, OPENVINO]:
            worker = start(runtime, folder, 1, arguments.program)
            if worker is None:
                continue
            worker.ask("run 0.3")
            median = statistics.median(worker.ask("run 0.5"))
            operators = worker.ask(f"profile {arguments.seconds * 2}")
            print(f"\n{folder.name}, {runtime}: {median / 1e3:.2f} ms")
            for name, time in sorted(operators.items(), key=lambda it: -it[1])[:12]:
                print(f"  {time / 1e3:9.3f} ms  {100 * time / sum(operators.values()):5.1f} %  {name}")
            worker.close()


# Three networks that people know, in the folders of results, and the processor of the chart.
KNOWN = [("ResNet-50", "networks", "resnet50"), ("ResNet-50, int8", "quantized", "resnet50"), ("BERT base", "networks", "bert_base")]
KNOWN_ON = "intel-xeon-amx"


def draw():
    """Two charts of times on one thread: of few networks on one processor, and of all, with OpenVINO's as unit, on each."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "networks"
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    runtimes = [ONNX, ONNXRUNTIME, OPENVINO, OURS]
    for place, (_, folder, network) in enumerate(KNOWN):
        rows = csv.DictReader(open(RESULTS.parent / folder / f"{KNOWN_ON}.csv"))
        times = {row["runtime"]: float(row["median_ms"]) for row in rows if (row["network"], row["threads"]) == (network, "1")}
        for number, runtime in enumerate(runtimes):
            bar = ax.barh(place * 5 + number, times[runtime], color=f"C{number}", label=runtime if place == 0 else None)
            ax.bar_label(bar, fmt=" {:.0f} ms", fontsize=8)
    ax.set(yticks=[place * 5 + 1.5 for place in range(len(KNOWN))], yticklabels=[name for name, *_ in KNOWN])
    ax.set(xlabel="milliseconds for a run on one thread")
    ax.invert_yaxis()
    ax.legend(fontsize=8)
    figure.savefig(RESULTS.parent / "known.svg", metadata={"Date": None})

    files = sorted(RESULTS.glob("*.csv"))
    figure, axes = plt.subplots(1, len(files), figsize=(5.5 * len(files), 9), squeeze=False, layout="constrained")
    for file, ax in zip(files, axes[0]):
        times = {}
        for row in csv.DictReader(open(file)):
            if row["threads"] == "1":
                times.setdefault(row["network"], {})[row["runtime"]] = float(row["median_ms"])
        times = {name: it for name, it in times.items() if OURS in it and OPENVINO in it}
        names = sorted(times, key=lambda name: -times[name][OURS] / times[name][OPENVINO])
        for runtime, marker in [(ONNX, "x"), (ONNXRUNTIME, "+"), (OURS, "o")]:
            points = [(times[it][runtime] / times[it][OPENVINO], n) for n, it in enumerate(names) if runtime in times[it]]
            ax.scatter(*zip(*points), marker=marker, s=25, label=runtime, zorder=3)
        ax.axvline(1, color="grey")
        ax.set(xscale="log", title=file.stem, xlabel="time / time of OpenVINO", yticks=range(len(names)))
        ax.set_yticklabels(names, fontsize=7)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("{x:g}")
        ax.tick_params(axis="x", which="both", labelsize=7)
        ax.grid(alpha=0.3, which="both")
    axes[0][0].legend(loc="upper right", fontsize=8)
    figure.savefig(RESULTS.parent / "networks.svg", metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["compare", "profile", "kinds", "quantized", "draw"])
    parser.add_argument("only", nargs="*", help="names of networks; all if there are none")
    parser.add_argument("--networks", type=pathlib.Path, required=True, help="their folder")
    parser.add_argument("--quantized", type=pathlib.Path, help="the folder of quantised networks")
    parser.add_argument("--program", default="target/release/examples/network")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--loads", type=int, default=3, help="how often a network is loaded")
    parser.add_argument("--seconds", type=float, default=0.25, help="how long a turn is")
    parser.add_argument("--processor", help="what the table of this machine is called, for example intel-cascade-lake")
    arguments = parser.parse_args()
    folders = sorted(it.parent for it in arguments.networks.glob("*/model.xml") if not it.parent.suffix)
    arguments.folders = [it for it in folders if not arguments.only or it.name in arguments.only]
    commands = {"compare": compare, "profile": profile, "kinds": kinds, "quantized": quantized, "draw": lambda _: draw()}
    commands[arguments.command](arguments)


if __name__ == "__main__":
    main()
