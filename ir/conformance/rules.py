"""What is known of random models whose outputs are not simply those that OpenVINO's CPU plugin computes."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np


@dataclass
class Drawn:
    """What a rule may ask of a model: the operation that was drawn, its attributes as the file has them, and the
    values of its inputs."""

    kind: str
    attributes: dict
    inputs: list
    # Whether the outputs of the model are those of the operation.
    is_alone: bool
    # Of each Parameter of the model the shape as the file has it.
    shapes: list
    # The types of all layers.
    layers: list


@dataclass(frozen=True)
class Rule:
    # `MaxPool-8`, or `MaxPool` for all revisions.
    operation: str
    # Of a `Drawn`, whether the rule is about it.
    condition: object
    # The condition in words.
    text: str
    # How one knows.
    evidence: str
    # "plugin" or "reference": whose outputs are right, the CPU plugin's or those of OpenVINO's reference
    # implementations. A function of the inputs: its list of outputs is right. "differs": this project's reader
    # gives something else.
    verdict: object

    def is_about(self, drawn):
        return self.operation in (drawn.kind, drawn.kind.rsplit("-", 1)[0]) and self.condition(drawn)


def softmax(x):
    """Along axis 1."""
    powers = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return [powers / powers.sum(1, keepdims=True)]


def space_to_batch(x, block, begin, end):
    x = np.pad(x, list(zip(begin, end)))
    in_blocks = [part for size, by in zip(x.shape[1:], block[1:]) for part in (size // by, by)]
    axes = range(1, 2 * x.ndim - 1, 2)
    x = x.reshape(len(x), *in_blocks).transpose(*(axis + 1 for axis in axes), 0, *axes)
    return [x.reshape(-1, *x.shape[len(axes) + 1 :])]


def is_smaller_than_block(drawn):
    x, block = drawn.inputs[:2]
    return any(size < by for size, by in zip(x.shape, block))


def sliced(x, start, stop, step, axes=None):
    """As in Python."""
    parts = [slice(None)] * x.ndim
    for axis, *bounds in zip(range(x.ndim) if axes is None else axes, start, stop, step):
        parts[axis] = slice(*map(int, bounds))
    return [x[tuple(parts)]]


def slices_backwards_from_before(drawn):
    x, start, _, step, *axes = drawn.inputs
    axes = axes[0] if axes else range(x.ndim)
    return any(a < -x.shape[axis] and by < 0 for a, by, axis in zip(start, step, axes))


def strides_backwards_from_before(drawn):
    x, begin, _, *strides = drawn.inputs
    return bool(strides) and any(a < -max(x.shape) and by < 0 for a, by in zip(begin, strides[0]))


# Their integers of 8 bits go through floats in the CPU plugin.
EIGHT_BITS = ("Divide-1", "SquaredDifference-1")

COMPARISONS = ("Equal-1", "NotEqual-1", "Greater-1", "GreaterEqual-1", "Less-1", "LessEqual-1", "LogicalAnd-1",
               "LogicalOr-1", "LogicalXor-1", "Xor-1")

RULES = [
    *(
        Rule(
            operation,
            lambda it: it.inputs[0].dtype.kind in "iu" and it.inputs[0].dtype.itemsize == 1,
            "the numbers have 8 bits",
            "the specification computes with integers, as the reference does; the CPU plugin rounds and saturates",
            "reference",
        )
        for operation in EIGHT_BITS
    ),
    *(
        Rule(
            operation,
            lambda it: it.attributes.get("auto_broadcast") == "pdpd" and it.inputs[0].shape != it.inputs[1].shape,
            "shapes are broadcast as in PaddlePaddle",
            "the reference follows the axis of the attribute; the CPU plugin aligns the last axes, as NumPy does",
            "reference",
        )
        for operation in COMPARISONS
    ),
    Rule(
        "Softmax-1",
        lambda it: "axis" not in it.attributes,
        "the file does not have the axis",
        "the specification says that it is 1; OpenVINO's CPU plugin and reference take 0",
        softmax,
    ),
    Rule(
        "SpaceToBatch-2",
        is_smaller_than_block,
        "an axis is smaller than its block, so that there may be blocks of padding alone",
        "OpenVINO's reference gives the same as NumPy, its CPU plugin mixes up the batches",
        space_to_batch,
    ),
    Rule(
        "Slice-8",
        slices_backwards_from_before,
        "a slice goes backwards from before the first element",
        "it is empty in Python, which the specification follows; OpenVINO begins at the first element",
        sliced,
    ),
    Rule(
        "StridedSlice-1",
        strides_backwards_from_before,
        "a slice goes backwards from before the first element",
        "it is empty in Python, as in Slice; OpenVINO begins at the first element",
        "differs",
    ),
    Rule(
        "Range",
        lambda it: (it.inputs[1] - it.inputs[0]) * np.sign(it.inputs[2]) <= 0,
        "there is nothing between start and stop",
        "the reference gives no elements, as NumPy does; the CPU plugin some",
        "reference",
    ),
    Rule(
        "ReduceMin",
        lambda it: it.inputs[0].size == 0,
        "it is the least of no elements",
        "the reference gives the identity, as NumPy does with `initial`, the CPU plugin the largest finite number",
        "reference",
    ),
    Rule(
        "NormalizeL2-1",
        lambda it: it.inputs[1].size == 0,
        "there are no axes",
        "the specification says that each element is divided by itself; OpenVINO adds eps, too",
        lambda x, axes: [(x != 0).astype(x.dtype)],
    ),
    Rule(
        "BitwiseNot-13",
        lambda it: it.inputs[0].dtype.kind == "u",
        "the numbers have no sign",
        "the CPU plugin computes with wider ones that have a sign, and the next operation sees negative ones",
        lambda x: [~x],
    ),
    Rule(
        "Interpolate-1",
        lambda it: it.attributes.get("antialias") in ("true", "1")
        and it.attributes.get("mode") == "linear"
        and it.inputs[0].ndim != 5,
        "mode linear with antialias, and not five axes",
        "the specification smoothes; OpenVINO translates it to linear_onnx of Interpolate-4, which does not",
        "differs",
    ),
]


def outputs_rule(drawn):
    """The first rule that says which outputs are right, or None."""
    return next((it for it in RULES if it.verdict != "differs" and it.is_about(drawn)), None)


def reader_rule(drawn):
    """The first rule that says that this project's reader gives something else, or None."""
    return next((it for it in RULES if it.verdict == "differs" and it.is_about(drawn)), None)


def drawn_of(xml, kind, inputs, is_alone):
    """What rules may ask, of the file."""
    root = ElementTree.fromstring(xml)
    layers = list(root.iter("layer"))
    type_ = kind.rsplit("-", 1)[0].lower()
    data = (it.find("data") for it in layers if it.get("type").lower() == type_)
    first = next(data, None)
    parameters = [it.find("data") for it in root.findall("layers/layer") if it.get("type") == "Parameter"]
    return Drawn(
        kind,
        {} if first is None else dict(first.attrib),
        inputs,
        is_alone,
        [re.sub(r"\s", "", it.get("shape", "")) for it in parameters],
        [it.get("type") for it in layers],
    )
