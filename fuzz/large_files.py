#!/usr/bin/env python3
"""Writes large files of OpenVINO IR, and prints what loading them takes, as CSV.

    cargo build --release --workspace --all-features --example network
    python fuzz/large_files.py --processor amd-epyc-zen-5 > benches/results/reader/large_files.csv
    python fuzz/large_files.py --only relu --sizes 1,2 --openvino

Each kind of file is written in three sizes: n, 2n and 4n. What grows in line with the file has about twice the
numbers in each next row. Each load is a process of its own, of the programs that ../benches/networks measures with.
Memory is the most that it had (VmHWM).
"""

import argparse
import csv
import importlib.util
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

PEER = pathlib.Path(__file__).parents[1] / "benches" / "networks" / "peer.py"
TYPES = {"f32": ("FP32", 32), "f16": ("FP16", 16), "i64": ("I64", 64), "u8": ("U8", 8), "i8": ("I8", 8), "u4": ("U4", 4)}


class Net:
    """A network that is written layer by layer. A tensor is a layer, a port and a shape."""

    def __init__(self):
        self.layers, self.edges, self.bin = [], [], bytearray()
        self.empty = 0  # bytes of the weights that are zero, after those in `bin`

    def layer(self, kind, inputs=(), outputs=((1,),), data="", name=None, opset="opset1", element_type="f32"):
        number = len(self.layers)
        ports = "".join(f'<port id="{port}"/>' for port in range(len(inputs)))
        for port, (source, source_port, _) in enumerate(inputs):
            self.edges.append(
                f'<edge from-layer="{source}" from-port="{source_port}" to-layer="{number}" to-port="{port}"/>'
            )
        precision = TYPES[element_type][0]
        tensors, out = [], ""
        for port, shape in enumerate(outputs, len(inputs)):
            dims = "".join(f"<dim>{-1 if size == '?' else size}</dim>" for size in shape)
            out += f'<port id="{port}" precision="{precision}">{dims}</port>'
            tensors.append((number, port, shape))
        name = f"{kind.lower()}{number}" if name is None else name
        self.layers.append(
            f'<layer id="{number}" name="{name}" type="{kind}" version="{opset}"><data {data}/>'
            + (f"<input>{ports}</input>" if ports else "")
            + (f"<output>{out}</output>" if out else "")
            + "</layer>\n"
        )
        return tensors

    def parameter(self, shape, element_type="f32"):
        sizes = ",".join(map(str, shape))
        data = f'shape="{sizes}" element_type="{element_type}"'
        return self.layer("Parameter", outputs=[shape], data=data, element_type=element_type)[0]

    def constant(self, shape, values, element_type="f32"):
        """`values` are numbers, or None for zeros that take no room on the disk."""
        bits = TYPES[element_type][1]
        size = (volume(shape) * bits + 7) // 8
        if values is None:
            offset = -(-(len(self.bin) + self.empty) // 64) * 64
            self.empty = offset + size - len(self.bin)
        else:
            offset = len(self.bin)
            self.bin += struct.pack(f"<{len(values)}{'q' if element_type == 'i64' else 'f'}", *values)
        sizes = ",".join(map(str, shape))
        data = f'element_type="{element_type}" shape="{sizes}" offset="{offset}" size="{size}"'
        return self.layer("Const", outputs=[shape], data=data, element_type=element_type)[0]

    def one(self, kind, *inputs, **more):
        more.setdefault("outputs", [inputs[0][2]])
        return self.layer(kind, inputs, **more)[0]

    def result(self, tensor):
        self.layer("Result", [tensor], outputs=[])

    def write(self, folder):
        path = folder / "model.xml"
        text = '<?xml version="1.0"?>\n<net name="net" version="11">\n<layers>\n' + "".join(self.layers)
        path.write_text(text + "</layers>\n<edges>\n" + "\n".join(self.edges) + "\n</edges>\n</net>\n")
        with open(path.with_suffix(".bin"), "wb") as file:
            file.write(self.bin)
            file.truncate(len(self.bin) + self.empty)
        return path


def volume(shape):
    product = 1
    for size in shape:
        product *= size
    return product


KINDS = {}


def kind(first, unit="layers"):
    """Adds a kind of file, whose smallest one is this large."""

    def add(write):
        KINDS[write.__name__] = (write, first, unit)
        return write

    return add


def row(net, count, tensor, step):
    for number in range(count):
        tensor = step(tensor, number)
    net.result(tensor)


@kind(10_000)
def identity(net, count):
    row(net, count, net.parameter([2, 3]), lambda x, _: net.one("Identity", x, opset="opset16"))


@kind(10_000)
def relu(net, count):
    row(net, count, net.parameter([2, 3]), lambda x, _: net.one("ReLU", x))


@kind(10_000)
def relu_open(net, count):
    row(net, count, net.parameter(["?", "?", 8]), lambda x, _: net.one("ReLU", x))


@kind(5_000)
def add_of_a_constant(net, count):
    def step(x, number):
        return net.one("Add", x, net.constant([4], [number, 1, 2, 3]), data='auto_broadcast="numpy"')

    row(net, count, net.parameter(["?", 4]), step)


@kind(5_000)
def reshape_open(net, count):
    """Each computes its shape from that of its input."""

    def step(x, _):
        shape = net.one("ShapeOf", x, outputs=[[3]], data='output_type="i64"', opset="opset3", element_type="i64")
        return net.one("Reshape", x, shape, data='special_zero="false"')

    row(net, count, net.parameter(["?", "?", 8]), step)


@kind(10_000)
def one_name(net, count):
    row(net, count, net.parameter([2, 3]), lambda x, _: net.one("ReLU", x, name="a"))


@kind(10_000, "parameters")
def parameters(net, count):
    for _ in range(count):
        net.result(net.one("ReLU", net.parameter([2, 3])))


@kind(500, "parameters")
def parameters_of_one_size(net, count):
    """All have the same open size, as their sum says."""
    total = net.parameter(["?", 4])
    row(net, count, total, lambda x, _: net.one("Add", x, net.parameter(["?", 4]), data='auto_broadcast="numpy"'))


@kind(10_000, "results")
def results(net, count):
    x = net.one("ReLU", net.parameter([2, 3]))
    for _ in range(count):
        net.result(x)


@kind(10_000, "layers")
def consumers(net, count):
    x = net.one("ReLU", net.parameter([2, 3]))
    for _ in range(count):
        net.result(net.one("Sigmoid", x))


@kind(10_000, "inputs")
def concat(net, count):
    x = net.parameter([2, 3])
    net.result(net.layer("Concat", [x] * count, [[2 * count, 3]], 'axis="0"')[0])


@kind(10_000, "outputs")
def split(net, count):
    axis = net.constant([], [0], "i64")
    x = net.parameter([count, 3])
    parts = net.layer("Split", [x, axis], [[1, 3]] * count, f'num_splits="{count}"')
    net.result(net.one("Add", parts[0], parts[-1], data='auto_broadcast="numpy"'))


@kind(3_000)
def residual_blocks(net, count):
    """Convolution, Add of a bias, ReLU, Convolution, Add of the input."""
    data = 'strides="1,1" dilations="1,1" pads_begin="1,1" pads_end="1,1" auto_pad="explicit"'

    def convolution(x, number):
        weights = net.constant([8, 8, 3, 3], [number + index / 576 for index in range(576)])
        return net.one("Convolution", x, weights, data=data)

    def block(x, number):
        bias = net.constant([1, 8, 1, 1], [number + index for index in range(8)])
        y = net.one("Add", convolution(x, 2 * number), bias, data='auto_broadcast="numpy"')
        y = convolution(net.one("ReLU", y), 2 * number + 1)
        return net.one("Add", x, y, data='auto_broadcast="numpy"')

    row(net, count // 5, net.parameter([1, 8, 16, 16]), block)


@kind(512, "MiB")
def constant_f32(net, count):
    weights = net.constant([count * 64, 4096], None)
    data = 'transpose_a="false" transpose_b="true"'
    x = net.parameter(["?", 4096])
    net.result(net.one("MatMul", x, weights, data=data, outputs=[["?", count * 64]]))


def compressed(net, rows, element_type):
    shape = [rows, 4096]
    codes = net.constant(shape, None, element_type)
    convert = net.one("Convert", codes, data='destination_type="f32"')
    scale = net.constant([rows, 1], None)
    weights = net.one("Multiply", convert, scale, data='auto_broadcast="numpy"')
    data = 'transpose_a="false" transpose_b="true"'
    x = net.parameter(["?", 4096])
    net.result(net.one("MatMul", x, weights, data=data, outputs=[["?", rows]]))


@kind(128, "MiB")
def constant_i8(net, count):
    compressed(net, count * 256, "i8")


@kind(64, "MiB")
def constant_u4(net, count):
    compressed(net, count * 512, "u4")


def measured(command, limit):
    try:
        done = subprocess.run(command, input="memory\n", capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return ["", f"more than {limit} s", ""]
    if done.returncode:
        return ["", f"status {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:200]}", ""]
    (read, ready), memory = map(json.loads, done.stdout.splitlines())
    return [f"{read:.0f}", f"{ready - read:.0f}", f"{memory:.0f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/release/examples/network")
    parser.add_argument("--processor", default="", help="what the first column says, for example amd-epyc-zen-5")
    parser.add_argument("--only", help="kinds of files, separated by commas")
    parser.add_argument("--sizes", default="1,2,4", help="multiples of the smallest file")
    parser.add_argument("--limit", type=int, default=300, help="seconds for one load")
    parser.add_argument("--openvino", action="store_true", help="measure OpenVINO, too")
    parser.add_argument("--keep", type=pathlib.Path, help="write the files into this folder, and leave them")
    arguments = parser.parse_args()
    if arguments.openvino and importlib.util.find_spec("openvino") is None:
        parser.error("OpenVINO is not installed")
    commands = {"": [arguments.program, "ir"]}
    if arguments.openvino:
        commands["OpenVINO: "] = [sys.executable, str(PEER), "openvino"]
    table = csv.writer(sys.stdout, lineterminator="\n")
    columns = [runtime + column for runtime in commands for column in ["read, ms", "optimise, ms", "memory, MiB"]]
    table.writerow(["processor", "file", "size", "MiB", *columns])
    for name in arguments.only.split(",") if arguments.only else KINDS:
        write, first, unit = KINDS[name]
        for size in map(int, arguments.sizes.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                if arguments.keep:
                    folder = arguments.keep / f"{name}_{size}"
                    folder.mkdir(parents=True, exist_ok=True)
                net = Net()
                write(net, first * size)
                path = net.write(pathlib.Path(folder))
                mebibytes = sum(file.stat().st_size for file in path.parent.iterdir()) / 2**20
                row = [arguments.processor, name, f"{first * size} {unit}", f"{mebibytes:.1f}"]
                for command in commands.values():
                    row += measured([*command, str(path.parent), "1"], arguments.limit)
            table.writerow(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
