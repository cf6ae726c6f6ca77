"""The bad files of OpenVINO IR: what is bad in each, and what the error has to say.

Each module has the cases of a section or two, which its `add` adds to `CASES`."""

import importlib
from dataclasses import dataclass

import numpy as np

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
    outputs: list | None  # of a file that is good: the right ones
    fails: str  # "load", "run", or "" for a file that is good
    error: tuple  # pieces that our error has to contain
    moves: bool  # outputs have elements of the inputs, or zeros
    endless: bool  # so many steps that nobody waits for the end


CASES = []


def section(title):
    """What adds cases to a section."""

    def case(name, what, model, *error, text="error", fails="load", outputs=None, moves=False,
             endless=False, **files):
        """`model` is a `Net`, its text or its bytes; `weights` and `inputs` are given where it is no `Net`. A
        file that has right `outputs` is good."""
        if isinstance(model, Net):
            files = {"weights": bytes(model.weights), "inputs": model.inputs, **files}
            model = model.text()
        xml = model.encode() if isinstance(model, str) else model
        fails = fails if outputs is None else ""
        CASES.append(
            Case(title, name, what, text, xml, files.get("weights", b""), files.get("inputs", []),
                 outputs, fails, error, moves, endless)
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
