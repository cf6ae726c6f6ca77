"""Products with compressed weights on this project's reader of IR: weights that are unpacked, and that stay packed.

    benches/networks/run compressed --processor amd-epyc-zen-5     writes its CSV file anew
    benches/networks/run compressed                                prints it only

The model is 24 products in a row with matrices of 2048 x 2048, whose 4-bit weights are in groups of 128. Each kind
and number of rows has a process of its own, one at a time. Times are medians, on one thread.
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import openvino as ov
from openvino import opset13 as ops

SIZE, GROUP, PRODUCTS = 2048, 128, 24
KINDS = {"unpacked (default)": "ir", "packed": "ir-packed"}
ROWS = [1, 4, 128]


def write_model(path):
    random = np.random.default_rng(1)
    groups = (SIZE, SIZE // GROUP, GROUP)
    x = data = ops.parameter([-1, SIZE], np.float32, name="x")
    for _ in range(PRODUCTS):
        # Two weights in a byte, in two's complement. Scales that keep numbers as large as they are.
        codes = random.integers(0, 256, SIZE * SIZE // 2, np.uint8)
        codes = ops.constant(ov.Tensor(codes, ov.Shape(groups), ov.Type.i4))
        scales = np.full((*groups[:2], 1), 0.2 / SIZE**0.5, np.float16)
        weights = ops.multiply(ops.convert(codes, "f16"), ops.constant(scales))
        weights = ops.convert(ops.reshape(weights, [SIZE, SIZE], False), "f32")
        x = ops.matmul(x, weights, False, True)
    ov.save_model(ov.Model([ops.result(x)], [data], "products"), path, compress_to_fp16=False)


def measure(program, kind, folder, rows, seconds):
    """Milliseconds until the model is ready and of a run, and the peak of memory in MiB."""
    data = np.random.default_rng(2).standard_normal((rows, SIZE), np.float32)
    np.savez(folder / "test_data_set_0.npz", input_0=data)
    commands = f"run {seconds}\nmemory\n"
    process = subprocess.run([program, kind, folder, "1"], input=commands, stdout=subprocess.PIPE, text=True, check=True)
    (_, ready, _), times, (memory, _) = map(json.loads, process.stdout.splitlines())
    return ready, statistics.median(times) / 1e3, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/examples/network")
    parser.add_argument("--seconds", type=float, default=5, help="how long each model runs")
    parser.add_argument("--processor", help="what this machine is called, for example amd-epyc-zen-5")
    arguments = parser.parse_args()
    table = [["processor", "weights", "memory, MiB", "ready, ms", *(f"{it} row{'s' * (it > 1)}, ms" for it in ROWS)]]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_model(folder / "model.xml")
        for title, kind in KINDS.items():
            all_rows = [measure(arguments.program, kind, folder, rows, arguments.seconds) for rows in ROWS]
            ready, times, memory = zip(*all_rows)
            numbers = [f"{max(memory):.0f}", f"{min(ready):.0f}", *(f"{time:.1f}" for time in times)]
            table.append([arguments.processor, title, *numbers])
    csv.writer(sys.stdout, lineterminator="\n").writerows(table)
    if arguments.processor:
        path = pathlib.Path(__file__).parents[1] / "results" / "reader" / "compressed_weights.csv"
        with open(path, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


if __name__ == "__main__":
    main()
