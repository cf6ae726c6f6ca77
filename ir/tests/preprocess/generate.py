#!/usr/bin/env python3
"""Writes what OpenVINO's PrePostProcessor makes of the cases of `cases.txt`, or checks it.

    python generate.py             writes the files of `expected/`
    python generate.py --check     compares the committed files with what would be written
    python generate.py --verbose   says what the errors are

`ports.txt` has the inputs and outputs of each model that was built, or that there was an error. `data.npz` has the arrays
`input_K/CASE/RUN` and `output_K/CASE/RUN`: random inputs, and outputs on the CPU in f32.
"""

import argparse
import io
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "models"))

import numpy as np
import openvino as ov
import openvino.opset13 as ops
from openvino.preprocess import ColorFormat, PaddingMode, PrePostProcessor, ResizeAlgorithm
from shared import stale_files, write_files

# The binding has no name for mode EDGE.
MODES = {"CONSTANT": 0, "EDGE": 1, "REFLECT": 2, "SYMMETRIC": 3}


def cases():
    """The lines of each case, by its name."""
    found = {}
    for line in (HERE / "cases.txt").read_text().splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = lines = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


def sizes(text):
    return [-1 if size == "?" else int(size) for size in text.split(",") if size]


def floats(text):
    numbers = [float(number) for number in text.split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


def element_type(name):
    return getattr(ov.Type, name)


def padding_mode(name):
    return PaddingMode(MODES[name])


def apply(tensor, steps, model, part, method, rest):
    """Calls the method that a line names."""
    words = rest.split()
    if part == "model":
        model.set_layout(ov.Layout(rest))
    elif part == "tensor":
        match method:
            case "element_type":
                tensor.set_element_type(element_type(rest))
            case "layout":
                tensor.set_layout(ov.Layout(rest))
            case "shape":
                tensor.set_shape(ov.PartialShape(sizes(rest)))
            case "spatial_shape":
                tensor.set_spatial_static_shape(*map(int, words))
            case "spatial_dynamic":
                tensor.set_spatial_dynamic_shape()
            case "from":
                tensor.set_from(ov.Tensor(element_type(words[0]), sizes(words[1])))
            case "color_format":
                names = words[1].split(",") if len(words) > 1 else []
                tensor.set_color_format(getattr(ColorFormat, words[0]), names)
            case "memory_type":
                tensor.set_memory_type(rest)
            case _:
                raise SystemExit(f"there is no {method}")
    else:
        match method:
            case "resize":
                algorithm = getattr(ResizeAlgorithm, f"RESIZE_{words[0]}")
                steps.resize(algorithm, *map(int, words[1:]))
            case "mean":
                steps.mean(floats(rest))
            case "scale":
                steps.scale(floats(rest))
            case "convert_element_type":
                steps.convert_element_type(*map(element_type, words))
            case "convert_layout":
                steps.convert_layout(ov.Layout(rest))
            case "convert_layout_dims":
                steps.convert_layout(sizes(rest))
            case "reverse_channels":
                steps.reverse_channels()
            case "convert_color":
                steps.convert_color(getattr(ColorFormat, rest))
            case "crop":
                steps.crop(*map(sizes, words))
            case "pad":
                value = [] if words[2] == "none" else floats(words[2])
                steps.pad(sizes(words[0]), sizes(words[1]), value, padding_mode(words[3]))
            case _:
                raise SystemExit(f"there is no {method}")


def built(lines):
    """The model with its steps, and the shapes of each run."""
    inputs = [line.split() for line in lines if line.startswith("input ")]
    parameters, results = [], []
    for number, (_, dt, *shape) in enumerate(inputs):
        suffix = str(number) if number else ""
        parameter = ops.parameter(ov.PartialShape(sizes("".join(shape))), element_type(dt), name=f"x{suffix}")
        parameter.output(0).tensor.set_names({f"x{suffix}"})
        # What the plug-in does not take away before there are steps.
        same = ops.reshape(parameter, np.int64([0] * len(sizes("".join(shape)))), special_zero=True, name=f"y{suffix}")
        same.output(0).tensor.set_names({f"y{suffix}"})
        parameters.append(parameter)
        results.append(ops.result(same))
    model = ov.Model(results, parameters, "preprocess")
    processor = PrePostProcessor(model)
    feeds = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "feed":
            feeds.append([sizes(shape) for shape in rest.split()])
        elif word != "input":
            port, part = word.split(".")
            method, _, rest = rest.partition(" ")
            if port.startswith("x"):
                info = processor.input(port)
                apply(info.tensor(), info.preprocess(), info.model(), part, method, rest)
            else:
                info = processor.output(port)
                apply(info.tensor(), info.postprocess(), info.model(), part, method, rest)
    return processor.build(), feeds


def described(kind, port):
    """A line about an input or an output."""
    names = sorted(port.get_names())
    shape = ",".join(str(dim) if dim.is_static else "?" for dim in port.partial_shape)
    return f"{kind} {names[0] if names else '-'} {port.element_type.to_string()} {shape}".rstrip()


def random(generator, port, shape):
    dt = port.element_type.to_dtype()
    if port.element_type == ov.Type.boolean:
        return generator.integers(0, 2, shape).astype(bool)
    if np.issubdtype(dt, np.floating):
        return np.round(generator.uniform(-3, 3, shape), 2).astype(dt)
    return generator.integers(0 if np.issubdtype(dt, np.unsignedinteger) else -50, 256, shape).astype(dt)


def generated(verbose):
    text, arrays = [], {}
    core = ov.Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}
    for name, lines in cases().items():
        text.append(f"[{name}]")
        try:
            model, feeds = built(lines)
            compiled = core.compile_model(model, "CPU", exact)
        except Exception as error:
            if verbose:
                print(f"{name}: {error}", file=sys.stderr)
            text.append("error")
            continue
        text += [described("input", port) for port in model.inputs]
        text += [described("output", port) for port in model.outputs]
        generator = np.random.default_rng(len(text))
        for run, shapes in enumerate(feeds or [[list(port.shape) for port in model.inputs]]):
            fed = [random(generator, port, shape) for port, shape in zip(model.inputs, shapes, strict=True)]
            computed = compiled(fed)
            for number, array in enumerate(fed):
                arrays[f"input_{number}/{name}/{run}"] = array
            for number in range(len(model.outputs)):
                arrays[f"output_{number}/{name}/{run}"] = computed[number].copy()
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return {"ports.txt": ("\n".join(text) + "\n").encode(), "data.npz": file.getvalue()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--verbose", action="store_true", help="say what the errors are")
    arguments = parser.parse_args()
    files = generated(arguments.verbose)
    folder = HERE / "expected"
    if not arguments.check:
        write_files(folder, files)
        print("written")
    elif stale := stale_files(folder, files, tolerance=1e-5):
        sys.exit("these are not what this script writes: " + ", ".join(stale))
    else:
        print("the committed files are what this script writes")


if __name__ == "__main__":
    main()
