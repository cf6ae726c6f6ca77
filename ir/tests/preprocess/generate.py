#!/usr/bin/env python3
"""Writes what OpenVINO's PrePostProcessor makes of the cases of `cases.txt`, or checks it.

    python generate.py             writes the files of `expected/`
    python generate.py --check     compares the committed files with what would be written
    python generate.py --verbose   says what the errors are
    python generate.py --random 1000 --seed 1 --to FOLDER
                                   writes so many random cases, which are another set for each seed, and their files there

`ports.txt` has the inputs and outputs of each model that was built, or that there was an error, or that OpenVINO could not run it. `data.npz` has the arrays
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


def cases(text):
    """The lines of each case, by its name."""
    found = {}
    for line in text.splitlines():
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


def drawn(generator):
    """The lines of a random case: an image, or what looks like one. Left out is where OpenVINO is wrong or different: negative
    numbers and those above 255 that become bytes, Pillow's modes on other axes than those of its images, and brightness in half
    precision."""

    def either(*values, p=None):
        return values[generator.choice(len(values), p=p)]

    def maybe(probability):
        return generator.random() < probability

    def shuffled(text):
        return "".join(generator.permutation(list(text)))

    def numbers(count, low=-9, high=9):
        return ",".join(str(int(it)) for it in generator.integers(low, high + 1, count))

    model = either("NCHW", "NHWC", shuffled("NCHW"))
    tensor = either(model, "NHWC", "NCHW", shuffled("NCHW"))
    planes = either("", "RGB", "BGR", "GRAY", "RGBX", "BGRX", "NV12_SINGLE_PLANE", "NV12_TWO_PLANES", "I420_SINGLE_PLANE",
                    "I420_THREE_PLANES", p=[0.55, *[0.05] * 9])
    size = {"N": either(1, 2), "C": 3 if planes and planes != "GRAY" or maybe(0.7) else either(1, 4)}
    size |= {"H": 2 * int(generator.integers(1, 5)), "W": 2 * int(generator.integers(1, 5))}
    to = either("RGB", "BGR", "GRAY") if planes else ""
    if to == "GRAY" or planes == "GRAY":
        size["C"] = 1
    is_open = {name: maybe(0.12) for name in "NCHW"}
    dt = either("f32", "u8", "f16", "i32", p=[0.7, 0.15, 0.1, 0.05])
    lines = [f"input {dt} {','.join('?' if is_open[name] else str(size[name]) for name in model)}"]
    if maybe(0.9):
        lines.append(f"x.model layout {model}")
    if planes:
        lines.append(f"x.tensor color_format {planes}")
        tensor = "NHWC" if "PLANE" in planes or maybe(0.9) else tensor
    if maybe(0.85) and not (planes and tensor == "NHWC" and maybe(0.5)):
        lines.append(f"x.tensor layout {tensor if maybe(0.9) else either(tensor[:2] + '..' + '.' + tensor[-1:], tensor.replace('N', '?'))}")
    fed = either("u8", "f32", "f16", "i32", "f64", p=[0.5, 0.3, 0.1, 0.05, 0.05])
    if to == "GRAY":
        fed = "u8"
    if dt == "u8" or to == "GRAY" or maybe(0.7):
        fed = fed if dt != "u8" else "u8"
        lines.append(f"x.tensor element_type {fed}")
    image = dict(size)
    resizes = maybe(0.4)
    if resizes:
        image |= {"H": 2 * int(generator.integers(1, 7)), "W": 2 * int(generator.integers(1, 7))}
        lines.append(f"x.tensor spatial_shape {image['H']} {image['W']}" if maybe(0.7) else "x.tensor spatial_dynamic")
    steps = []
    if planes and maybe(0.9):
        steps.append(f"convert_color {to}")
    if maybe(0.5):
        steps.append(f"convert_element_type {either('f32', 'f32', 'f16', '')}".rstrip())
    if resizes and maybe(0.9):
        algorithms = ["LINEAR", "NEAREST"]
        if model == tensor and tensor in ("NCHW", "NHWC"):
            algorithms += ["BILINEAR_PILLOW"]
        if dt != "u8":
            algorithms += [it.replace("BILINEAR", "BICUBIC").replace("LINEAR", "CUBIC") for it in algorithms if "LINEAR" in it]
        algorithm = either(*algorithms)
        exact = f" {size['H']} {size['W']}" if maybe(0.3) else ""
        steps.append(f"resize {algorithm}{exact}")
    channels = size["C"]
    for _ in range(generator.integers(0, 4)):
        steps.append(
            either(
                f"mean {numbers(either(1, channels))}",
                f"scale {numbers(either(1, channels), 1, 9)}",
                "reverse_channels",
                f"convert_layout {shuffled('NCHW')}",
                "convert_layout",
                f"convert_layout_dims {','.join(map(str, generator.permutation(4)))}",
                f"convert_element_type {either('f32', 'i32', 'f64')}",
                "crop 0,0,0,1 100,100,100,100",
                f"pad {numbers(4, 0, 1)} {numbers(4, 0, 1)} 3 {either('CONSTANT', 'EDGE', 'SYMMETRIC', 'REFLECT')}",
            )
        )
    if dt == "u8":
        steps = [it for it in steps if it.split()[0] not in ("mean", "pad")]
    if maybe(0.1):
        steps = [str(it) for it in generator.permutation(steps)]
    lines += [f"x.steps {step}" for step in steps]
    if maybe(0.2):
        lines.append(f"y.model layout {model}")
        lines.append(f"y.tensor layout {shuffled('NCHW')}")
    if maybe(0.2):
        lines.append(f"y.tensor element_type {either('f32', 'f64', 'i32')}")
    return lines, size | {"open": is_open}, image


def feed(lines, image):
    """The shapes of a run, or None if the model is not built, or its inputs have other sizes."""
    model, _ = built(lines)
    layouts = [line.split()[-1] for line in lines if line.startswith("x.tensor layout")]
    shapes = []
    for port in model.inputs:
        shape = [dim.get_length() if dim.is_static else None for dim in port.partial_shape]
        layout = str(ov.layout_helpers.get_layout(port)).strip("[]").split(",")
        if None in shape:
            if len(layout) != len(shape) or set(layout) - set("NCHW"):
                return None
            divisor = 2 if len(model.inputs) > 1 and shapes else 1
            sizes_of = dict(image)
            sizes_of["H"], sizes_of["W"] = image["H"] // divisor, image["W"] // divisor
            if len(model.inputs) == 1 and any("SINGLE_PLANE" in line for line in lines):
                sizes_of["H"] = image["H"] * 3 // 2
            shape = [sizes_of[name] if dim is None else dim for name, dim in zip(layout, shape)]
        shapes.append(",".join(map(str, shape)))
    return " ".join(shapes)


def random_cases(count, seed):
    text = []
    for number in range(count):
        generator = np.random.default_rng([seed, number])
        lines, _, image = drawn(generator)
        try:
            shapes = feed(lines, image)
        except Exception:
            shapes = None
        text += [f"[random_{number}]", *lines]
        if shapes:
            text.append(f"feed {shapes}")
    return "\n".join(text) + "\n"


def generated(text_of_cases, verbose):
    text, arrays = [], {}
    core = ov.Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}
    for name, lines in cases(text_of_cases).items():
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
        if not feeds and not any(port.partial_shape.is_dynamic for port in model.inputs):
            feeds = [[list(port.shape) for port in model.inputs]]
        for run, shapes in enumerate(feeds):
            fed = [random(generator, port, shape) for port, shape in zip(model.inputs, shapes, strict=True)]
            try:
                computed = compiled(fed)
            except Exception as error:
                if verbose:
                    print(f"{name}, run {run}: {error}", file=sys.stderr)
                text.append("no run")
                continue
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
    parser.add_argument("--random", type=int, help="write so many random cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, help="the folder of random cases")
    arguments = parser.parse_args()
    if arguments.random:
        text = random_cases(arguments.random, arguments.seed)
        write_files(arguments.to, {"cases.txt": text.encode()} | generated(text, arguments.verbose))
        return
    files = generated((HERE / "cases.txt").read_text(), arguments.verbose)
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
