#!/usr/bin/env python3
"""Makes models of what OpenVINO reads and writes, far more than anybody would look at.

    python generate.py FOLDER                  all of them
    python generate.py FOLDER resize gather    those with one of these texts in their names
    python generate.py FOLDER --sample 150     as many of them, drawn with `--seed` 1
    python generate.py FOLDER --random 800     as many random ones instead, of `--seed` 1

It needs Linux, where each process has a processor of its own.

There are three kinds: FOLDER/onnx/TEST are ONNX's backend tests, as OpenVINO reads and saves them;
FOLDER/opsets/OPERATION are those of `opsets.py`; FOLDER/random/OPERATION/SEED-NUMBER those of
`random_models.py`. Each has the files of the folders of `ir/models/`, whose `requirements.txt` says what is
needed here, too.

The outputs are those that OpenVINO computes on the CPU in f32 from the file that it saved. If these are not
what ONNX expects, but those of OpenVINO's reference implementations are, they are the latter; without
ONNX's, both must agree. FOLDER/refused.txt says which models OpenVINO does not read, run or agree with
itself about, and why; FOLDER/differ.txt of which its outputs are not those that ONNX expects.

Of random models `rules.py` may say which outputs are right, or that this project's reader gives others: these
models are in FOLDER/differs.txt. The run fails if there is no model of an operation that has been tried
5 times.
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import shutil
import sys
import threading
from collections import Counter
from functools import cache, partial
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

import numpy as np
import onnx
import openvino as ov
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import opsets
import rules
from framework import Runner, data_sets_of, model_files, saved, xml_and_weights
from random_models import RandomTest
from shared import compare, npz_file, write_files

# Of one test. None takes more than a few seconds.
TIME_LIMIT = 60

# An operation that has no model after so many is drawn wrongly.
TRIES = 5

# The processes have the tests from the start.
FORK = multiprocessing.get_context("fork")


class OnnxTest:
    """A backend test of ONNX."""

    def __init__(self, test):
        self.name = f"onnx/{test.name.removeprefix('test_')}"
        self.test = test

    def files(self, core):
        return saved(core.read_model(self.test.model.SerializeToString()))

    def data_sets(self, model):
        """Of each data set the inputs that OpenVINO has left, and the outputs that ONNX expects."""
        graph = self.test.model.graph
        given = {it.name for it in graph.initializer}
        names = [it.name for it in graph.input if it.name not in given]
        # Where an operation is left out, one of the two names may be that of its output.
        ports = [{*port.names, port.node.friendly_name} for port in model.inputs]
        for inputs, outputs in self.test.data_sets:
            named = dict(zip(names, inputs, strict=True))
            inputs = [next(named[name] for name in names if name in port) for port in ports]
            yield [array_of(it) for it in inputs], [array_of(it) for it in outputs]


class OpsetTest:
    """A case of `opsets.py`."""

    def __init__(self, case):
        self.name = f"opsets/{case.folder}"
        self.case = case

    def files(self, core):
        xml, weights = xml_and_weights(self.case)
        return opsets.as_older_file(core, xml, weights), weights

    def data_sets(self, model):
        return [(inputs, None) for inputs in data_sets_of(self.case)]


def array_of(value):
    """A tensor of ONNX's tests, in NumPy."""
    if value is None or isinstance(value, list):
        raise TypeError("sequences and optionals are no tensors")
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def is_as_stated(model, outputs):
    """Whether outputs have the shapes that OpenVINO states."""
    pairs = zip(model.outputs, outputs, strict=True)
    return all(port.get_partial_shape().compatible(ov.PartialShape(it.shape)) for port, it in pairs)


def any_difference(outputs, expected, tolerance=1e-3):
    """None, or how some outputs differ."""
    differences = (compare(*pair, tolerance) for pair in zip(outputs, expected, strict=True))
    return next((it for it in differences if it), None)


def computed(runner, model, data_sets):
    """The outputs of the CPU plugin."""
    return runner.run(model, [inputs for inputs, _ in data_sets])


def computed_twice(runner, model, data_sets):
    """The same; it computes them twice, for outputs that are random."""
    outputs = computed(runner, model, data_sets * 2)
    once, again = outputs[: len(data_sets)], outputs[len(data_sets) :]
    for pair in zip(once, again, strict=True):
        expect_same(*pair)
    return once


def expect_same(outputs, again):
    """Refuses outputs that another run does not give."""
    if any_difference(again, outputs, 0):
        raise ValueError("its outputs are not the same each time")


def evaluated(runner, files, inputs, like):
    """The outputs of OpenVINO's reference implementations; None where an operation has none, or fails."""
    model = runner.core.read_model(*files)
    try:
        model.reshape({number: it.shape for number, it in enumerate(inputs)})
        return runner.evaluate(model, inputs, like)
    except (RuntimeError, ValueError):
        return None


def computed_for_sizes(runner, files, inputs):
    """The outputs of the CPU plugin where it knows the sizes of the inputs."""
    model = runner.core.read_model(*files)
    model.reshape({number: it.shape for number, it in enumerate(inputs)})
    return runner.run(model, [inputs])[0]


def settled(outputs, again, reference, drawn, for_sizes):
    """The outputs of a random model to go by: of those of the CPU plugin, of what it computes `again`, of the reference,
    if any, and of the CPU plugin where it knows the sizes."""
    rule = rules.outputs_rule(drawn)
    if rule is None:
        return judged(outputs, None, lambda: reference, again)[0]
    if rule.verdict == "plugin":
        return outputs
    if rule.verdict == "sizes":
        return for_sizes()
    found = reference
    if rule.verdict != "reference":
        found = rule.verdict(*drawn.inputs) if drawn.is_alone else None
    if found is None:
        raise ValueError(f"nothing gives the outputs that are right by a rule: {rule.text}")
    return found


def with_inferred_shapes(runner, files, inputs, outputs):
    """The outputs. The shapes of those without elements are what OpenVINO infers: the CPU plugin may give others."""
    if all(it.size for it in outputs):
        return outputs
    model = runner.core.read_model(*files)
    # If it fails, nothing says what the shapes are.
    model.reshape({number: it.shape for number, it in enumerate(inputs)})
    shapes = [tuple(it.shape) if it.partial_shape.is_static else None for it in model.outputs]
    pairs = list(zip(outputs, shapes, strict=True))
    if any(it.size == 0 and (shape is None or 0 not in shape) for it, shape in pairs):
        raise ValueError("an output has no elements, which OpenVINO does not infer")
    return [it.reshape(shape) if it.size == 0 else it for it, shape in pairs]


def judged(outputs, expected, evaluate, again):
    """The outputs to go by, and how they differ from those that are expected. Where nothing else gives them, the CPU
    plugin must, when it compiles the model `again`."""
    difference = None
    if expected is not None:
        difference = any_difference(outputs, expected)
        if difference is None:
            return outputs, None
        if (reference := evaluate()) and not any_difference(reference, expected):
            return reference, None
    elif reference := evaluate():
        if difference := any_difference(outputs, reference):
            raise ValueError(f"the CPU plugin and the reference implementation differ: {difference}")
        return outputs, None
    expect_same(outputs, again())
    return outputs, difference


def generate(test, folder, runner, asks_reference=True):
    """Writes one folder. Gives the verdict, and how OpenVINO's outputs differ from those that ONNX expects, or why
    those of this project's reader do."""
    xml, weights = test.files(runner.core)
    model = runner.core.read_model(xml, weights)
    data_sets = list(test.data_sets(model))
    is_random = isinstance(test, RandomTest)
    compute = computed if is_random else computed_twice
    recomputed = cache(partial(computed, runner, model, data_sets))
    files, differences = model_files(xml, weights), []
    for number, outputs in enumerate(compute(runner, model, data_sets)):
        inputs, expected = data_sets[number]
        if is_random and test.is_as_stated and not is_as_stated(model, outputs):
            raise ValueError("an output has another shape than OpenVINO states")
        if is_random:
            outputs = with_inferred_shapes(runner, (xml, weights), inputs, outputs)
        evaluate = partial(evaluated, runner, (xml, weights), inputs, outputs)
        if is_random:
            # The reference implementations have no state.
            is_asked = asks_reference and test.has_reference and len(data_sets) == 1
            reference = evaluate() if is_asked else None
            for_sizes = partial(computed_for_sizes, runner, (xml, weights), inputs)
            outputs = settled(outputs, lambda: recomputed()[number], reference, test.drawn, for_sizes)
            test.drawn.outputs = outputs
        else:
            outputs, difference = judged(outputs, expected, evaluate, lambda: recomputed()[number])
            differences += [difference] if difference else []
        files |= npz_file(number, inputs, outputs)
    write_files(folder, files)
    if is_random and (rule := rules.reader_rule(test.drawn)):
        return "differs", f"{rule.text}: {rule.evidence}"
    return ("differ", differences[0]) if differences else ("same", "")


def work(tests, root, processor, connection):
    """A process that writes the folders of the tests that it is told, and answers with a verdict."""
    # Or OpenVINO compiles with threads for all processors, in each process.
    os.sched_setaffinity(0, {processor})
    # OpenVINO has much to say.
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    runner = Runner()
    while (request := connection.recv()) is not None:
        name, asks_reference = request
        try:
            verdict = generate(tests[name], root / name, runner, asks_reference)
        except Exception as error:
            verdict = ("refused", f"{type(error).__name__}: {error}")
        connection.send(verdict)


def supervise(tests, root, processor, names, verdicts):
    """Has a process write folders on a processor, and starts another one where it crashes or does not end."""
    process, connection = None, None
    for name in names:
        # A process may crash because of what it has done before, or in a reference implementation.
        for asks_reference in [True, True, False]:
            if process is None:
                connection, theirs = FORK.Pipe()
                process = FORK.Process(target=work, args=(tests, root, processor, theirs), daemon=True)
                process.start()
                theirs.close()
            connection.send((name, asks_reference))
            try:
                verdicts[name] = (
                    connection.recv() if connection.poll(TIME_LIMIT) else ("refused", "it does not end")
                )
            except EOFError:
                verdicts[name] = ("refused", "it crashes")
            if verdicts[name][1] in ("it does not end", "it crashes"):
                process.kill()
                process.join()
                process = None
                shutil.rmtree(root / name, ignore_errors=True)
            if verdicts[name][1] != "it crashes":
                break
    if process:
        connection.send(None)
        process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("filters", nargs="*", metavar="TEXT")
    parser.add_argument("--random", type=int, metavar="COUNT", help="random models, as many as this")
    parser.add_argument("--sample", type=int, metavar="COUNT", help="as many of the models as this")
    parser.add_argument("--seed", type=int, default=1, help="of random models and of samples")
    parser.add_argument("--verbose", action="store_true", help="count the random models of each operation")
    arguments = parser.parse_intermixed_args()

    if arguments.random:
        tests = [RandomTest(arguments.seed, number) for number in range(arguments.random)]
    else:
        # The tests have much to say when they are made.
        with contextlib.redirect_stdout(None), np.errstate(all="ignore"):
            tests = [OnnxTest(it) for it in load_model_tests(kind="node")]
        tests += [OpsetTest(it) for it in opsets.CASES]
    tests = {it.name: it for it in tests if any(text in it.name for text in arguments.filters or [""])}
    if arguments.sample:
        names = random.Random(arguments.seed).sample(sorted(tests), min(arguments.sample, len(tests)))
        tests = {name: tests[name] for name in names}
    root = arguments.folder
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)

    # There is a process for each processor. They take from the same names.
    names, lock, verdicts = iter(tests), threading.Lock(), {}

    def next_names():
        while True:
            with lock:
                name = next(names, None)
            if name is None:
                return
            yield name

    threads = [
        threading.Thread(target=supervise, args=(tests, root, processor, next_names(), verdicts))
        for processor in os.sched_getaffinity(0)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for kind in ("refused", "differs" if arguments.random else "differ"):
        some = sorted((name, text) for name, (verdict, text) in verdicts.items() if verdict == kind)
        lines = [f"{name}: {' '.join(text.split())[:300]}\n" for name, text in some]
        (root / f"{kind}.txt").write_text("".join(lines))
    for source in ["random"] if arguments.random else ["onnx", "opsets"]:
        counts = Counter(verdict for name, (verdict, _) in verdicts.items() if name.startswith(source))
        made = counts.total() - counts["refused"]
        differ = counts["differ"] + counts["differs"]
        print(f"{source}: {made} models, {counts['refused']} refused, {differ} that differ")
    if arguments.random and any_is_missing(tests, verdicts, arguments.verbose):
        sys.exit(1)


def any_is_missing(tests, verdicts, verbose):
    """Prints how many random models there are of operations, and whether one has none after some tries."""
    tries = Counter(it.kind for it in tests.values())
    made = Counter(it.kind for name, it in tests.items() if verdicts[name][0] != "refused")
    for kind in tries:
        if verbose or not made[kind]:
            print(f"{kind}: {made[kind]} of {tries[kind]} models")
    return any(not made[kind] for kind in tries if tries[kind] >= TRIES)


if __name__ == "__main__":
    main()
