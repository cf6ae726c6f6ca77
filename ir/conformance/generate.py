#!/usr/bin/env python3
"""Makes models that nobody here has thought of: those of ONNX's backend tests, as OpenVINO reads and saves them.

    python generate.py FOLDER                  all of them
    python generate.py FOLDER resize gather    those with one of these texts in their names

Each folder FOLDER/onnx/TEST has `model.xml`, `model.bin` and `test_data_set_N/`, as those of `ir/models/`. The
inputs are the test's, the outputs what OpenVINO computes from the file that it saved, on the CPU in f32. Where these
are not what ONNX expects, but those of OpenVINO's reference implementations are, they are the latter.
FOLDER/refused.txt says which tests OpenVINO does not read or run, and why; FOLDER/differ.txt of which its outputs
are not those that ONNX expects.
"""

import argparse
import contextlib
import multiprocessing
import os
import shutil
import sys
import threading
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from framework import Runner, compare, data_set_files, saved, write_files

# Of one test. None takes more than a few seconds.
TIME_LIMIT = 60


def array_of(value):
    """A tensor of a data set, in NumPy."""
    if value is None or isinstance(value, list):
        raise TypeError("sequences and optionals are no tensors")
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def data_sets_of(test, model):
    """Of each data set the inputs that OpenVINO has left of the test's, and the outputs."""
    graph = test.model.graph
    given = {it.name for it in graph.initializer}
    names = [it.name for it in graph.input if it.name not in given]
    for inputs, outputs in test.data_sets:
        named = dict(zip(names, inputs, strict=True))
        # Where an operation is left out, one of the two names may be that of its output.
        ports = [{*port.names, port.node.friendly_name} for port in model.inputs]
        inputs = [next(named[name] for name in names if name in port) for port in ports]
        yield [array_of(it) for it in inputs], [array_of(it) for it in outputs]


def any_difference(outputs, expected, tolerance=1e-3):
    """None, or how some outputs differ."""
    differences = (compare(*pair, tolerance) for pair in zip(outputs, expected, strict=True))
    return next((it for it in differences if it), None)


def evaluated(runner, model, inputs, like):
    """The outputs of OpenVINO's reference implementations; None where an operation has none, or fails."""
    try:
        return runner.evaluate(model, inputs, like)
    except ValueError:
        return None


def generate(test, folder, runner):
    """Writes one folder. Gives how OpenVINO's outputs differ from those that ONNX expects, or None."""
    xml, weights = saved(runner.core.read_model(test.model.SerializeToString()))
    model = runner.core.read_model(xml, weights)
    data_sets = list(data_sets_of(test, model))
    count = len(data_sets)
    # Twice each time, for outputs that are random.
    twice = [inputs for inputs, _ in data_sets] * 2
    outputs = runner.run(model, twice) + runner.run(model, twice)
    for number, some in enumerate(outputs):
        if any_difference(some, outputs[number % count], 0):
            raise ValueError("its outputs are not the same each time")
    files, differences = {"model.xml": xml, "model.bin": weights}, []
    for number, ((inputs, expected), outputs) in enumerate(zip(data_sets, outputs)):
        difference = any_difference(outputs, expected)
        if difference:
            reference = evaluated(runner, model, inputs, outputs)
            if reference and not any_difference(reference, expected):
                outputs, difference = reference, None
        differences += [difference] if difference else []
        files |= data_set_files(number, inputs, outputs)
    write_files(folder, files)
    return differences[0] if differences else None


def work(tests, root, connection):
    """A process that writes the folders of the tests that it is told, and answers with a verdict."""
    # The tests and OpenVINO have much to say.
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    runner = Runner()
    while (name := connection.recv()) is not None:
        try:
            difference = generate(tests[name], root / name, runner)
            verdict = ("differ", difference) if difference else ("same", "")
        except Exception as error:
            verdict = ("refused", f"{type(error).__name__}: {error}")
        connection.send(verdict)


def supervise(tests, root, names, verdicts):
    """Has a process write folders, and starts another one where it crashes or does not end."""
    process, connection = None, None
    for name in names:
        if process is None:
            connection, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=work, args=(tests, root, theirs), daemon=True)
            process.start()
            theirs.close()
        connection.send(name)
        try:
            verdicts[name] = connection.recv() if connection.poll(TIME_LIMIT) else ("refused", "it does not end")
        except EOFError:
            verdicts[name] = ("refused", "it crashes")
        if verdicts[name][1] in ("it does not end", "it crashes"):
            process.kill()
            process.join()
            process = None
            shutil.rmtree(root / name, ignore_errors=True)
    if process:
        connection.send(None)
        process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("filters", nargs="*", metavar="TEXT")
    arguments = parser.parse_args()

    with contextlib.redirect_stdout(None):
        tests = {it.name.removeprefix("test_"): it for it in load_model_tests(kind="node")}
    if arguments.filters:
        tests = {name: it for name, it in tests.items() if any(text in name for text in arguments.filters)}
    root = arguments.folder / "onnx"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)

    # The processes take from the same names.
    names, lock, verdicts = iter(tests), threading.Lock(), {}

    def next_names():
        while True:
            with lock:
                name = next(names, None)
            if name is None:
                return
            yield name

    threads = [
        threading.Thread(target=supervise, args=(tests, root, next_names(), verdicts)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for kind in ("refused", "differ"):
        some = sorted((name, text) for name, (verdict, text) in verdicts.items() if verdict == kind)
        lines = [f"{name}: {' '.join(text.split())[:300]}\n" for name, text in some]
        (arguments.folder / f"{kind}.txt").write_text("".join(lines))
    counts = Counter(verdict for verdict, _ in verdicts.values())
    print(f"{len(tests)} tests of ONNX: {counts['same'] + counts['differ']} models, {counts['refused']} that")
    print(f"OpenVINO does not read or run; of {counts['differ']} its outputs are not ONNX's")


if __name__ == "__main__":
    main()
