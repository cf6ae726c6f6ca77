"""The bad files of OpenVINO IR: what is bad in each.

Each module has the cases of a section or two, which its `add` adds to `CASES`."""

import importlib
from dataclasses import dataclass

import numpy as np

from bad_file_cases.errors import ERRORS
from bad_file_cases.net import Net


@dataclass
class Case:
    """A bad file, or one that only looks bad."""

    section: str
    name: str  # of its folder
    what: str  # is bad
    text: str  # what the specification or the format makes of it
    xml: bytes
    weights: bytes | None  # None: there is no model.bin
    inputs: list  # arrays, in the order of the Parameters
    results: int  # how many there are
    outputs: list | None  # of a file that is good: the right ones
    fails: str  # "load", "run", or "" for a file that is good
    error: list  # pieces that our error has to contain
    moves: bool  # outputs have elements of the inputs, or zeros


CASES = []


def section(title):
    """What adds cases to a section."""

    def case(name, what, model, text="error", fails="load", outputs=None, moves=False, **files):
        """`model` is a `Net`, its text or its bytes; `weights` and `inputs` are given where it is no `Net`, and
        there is one result. A file that has right `outputs` is good."""
        if isinstance(model, Net):
            of_net = {"weights": bytes(model.weights), "inputs": model.inputs, "results": model.results}
            files = {**of_net, **files}
            model = model.text()
        xml = model.encode() if isinstance(model, str) else model
        fails = fails if outputs is None else ""
        weights, inputs = files.get("weights", b""), files.get("inputs", [])
        CASES.append(
            Case(title, name, what, text, xml, weights, inputs, files.get("results", 1), outputs, fails,
                 ERRORS.get(name, []), moves)
        )

    return case


def good(array, dtype=np.float32):
    """The right output of a file that only looks bad."""
    return [np.asarray(array, dtype)]


def load():
    """All cases."""
    for module in ["files", "graph", "attributes", "bodies", "sizes", "values"]:
        importlib.import_module(f"{__name__}.{module}").add()
    return CASES
