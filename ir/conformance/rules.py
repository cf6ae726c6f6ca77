"""What is known of random models whose outputs are not simply those that OpenVINO's CPU plugin computes."""

import re
from dataclasses import dataclass, field
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
    # The values of the model's outputs, once they are known.
    outputs: list = field(default_factory=list)


@dataclass(frozen=True)
class Rule:
    # `MaxPool-8`, or `MaxPool` for all revisions, or `*` for all operations.
    operation: str
    # Of a `Drawn`, whether the rule is about it.
    condition: object
    # The condition in words.
    text: str
    # How one knows.
    evidence: str
    # "plugin", "sizes" or "reference": whose outputs are right, the CPU plugin's, the same where it knows the sizes of
    # the inputs, or those of OpenVINO's reference implementations. A function of the inputs: its list of outputs is
    # right. "differs": this project's reader gives something else.
    verdict: object

    def is_about(self, drawn):
        return self.operation in ("*", drawn.kind, drawn.kind.rsplit("-", 1)[0]) and self.condition(drawn)


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
    return bool(strides) and any(a < -min(x.shape) and by < 0 for a, by in zip(begin, strides[0]))


def cut_real_dft(x, axes, sizes):
    """What an IRDFT reads of each axis but that of the complex numbers, in the order of its axes, and the sizes."""
    counts = [x.shape[:-1][axis] for axis in axes]
    whole = [*counts[:-1], 2 * (counts[-1] - 1)]
    sizes = [int(size) if size >= 0 else most for size, most in zip(sizes, whole)]
    return counts, [*sizes[:-1], sizes[-1] // 2 + 1], sizes


def cuts_several_axes(drawn):
    if len(drawn.inputs) < 3 or len(drawn.inputs[1]) < 2:
        return False
    counts, read, _ = cut_real_dft(*drawn.inputs)
    return any(some < count for some, count in zip(read, counts))


def inverse_real_dft(x, axes, sizes):
    _, _, sizes = cut_real_dft(x, axes, sizes)
    axes = [axis % (x.ndim - 1) for axis in axes]
    numbers = x[..., 0].astype(np.float64) + 1j * x[..., 1]
    for axis, size in zip(axes[:-1], sizes[:-1]):
        numbers = np.fft.ifft(numbers, size, axis)
    return [np.fft.irfft(numbers, sizes[-1], axes[-1]).astype(x.dtype)]


def listed(drawn, name):
    """An attribute that is a list of integers."""
    return [int(it) for it in drawn.attributes.get(name, "").split(",") if it.strip()]


def is_padded(drawn):
    return any(listed(drawn, "pads_begin") + listed(drawn, "pads_end"))


def resizes_batch_or_channels(drawn):
    """Whether one of the first two axes of more than two is resized."""
    x, *more = drawn.inputs
    # Revision 4 has sizes and scales in front of the axes, revision 11 one of them.
    axes = more[2 if drawn.kind == "Interpolate-4" else 1 :]
    axes = axes[0] if axes else range(x.ndim)
    return x.ndim > 2 and any(axis % x.ndim < 2 for axis in axes)


def is_product_of_channels(drawn):
    """Whether the kernel of a transposed convolution has one element, and its output the sizes of the input."""
    x, weights, *sizes = drawn.inputs
    spatial = x.shape[2:]
    return (
        weights.shape[-len(spatial) :] == (1,) * len(spatial)
        and set(listed(drawn, "strides")) == {1}
        and bool(sizes)
        and tuple(sizes[0]) == spatial
    )


# Their integers of 8 bits go through floats in the CPU plugin.
EIGHT_BITS = ("Clamp-1", "Divide-1", "SquaredDifference-1")


def has_no_elements(arrays):
    return any(0 in it.shape for it in arrays)


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
        "Roll-7",
        lambda it: "?" in str(it.shapes) or "NonZero" in it.layers,
        "sizes are open",
        "the CPU plugin may give nothing then",
        lambda x, shift, axes: [np.roll(x, tuple(shift) if shift.ndim else int(shift), tuple(axes))],
    ),
    Rule(
        "Range",
        lambda it: (float(it.inputs[1]) - float(it.inputs[0])) * np.sign(float(it.inputs[2])) <= 0,
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
        "IRDFT-9",
        cuts_several_axes,
        "of several axes, one is cut",
        "the CPU plugin reads where nothing was written",
        inverse_real_dft,
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
    *(
        Rule(
            operation,
            lambda it: it.attributes.get("antialias") in ("true", "1") and it.attributes.get("mode") == "linear",
            "mode linear with antialias",
            "the reference smoothes, as the specification says; the CPU plugin does not",
            "reference",
        )
        for operation in ("Interpolate-4", "Interpolate-11")
    ),
    *(
        Rule(
            operation,
            lambda it: is_padded(it) and resizes_batch_or_channels(it),
            "pads, and one of the first two axes is resized",
            "the CPU plugin takes the second axis as the last one, and pads other axes than the reference does",
            "reference",
        )
        for operation in ("Interpolate-4", "Interpolate-11")
    ),
    *(
        Rule(
            operation,
            lambda it: it.attributes.get("auto_pad", "explicit") == "explicit"
            and any(listed(it, "pads_begin"))
            and is_product_of_channels(it),
            "a kernel of one element with pads, and an output as large as the input",
            "the CPU plugin has no pads then; with other kernels and sizes the output begins where they say",
            "differs",
        )
        for operation in ("ConvolutionBackpropData-1", "GroupConvolutionBackpropData-1")
    ),
    *(
        Rule(
            operation,
            lambda it: it.attributes.get("auto_pad", "").startswith("same") and "NonZero" in it.layers,
            "auto_pad is same_upper or same_lower, and sizes are known at run time only",
            "with dilations the CPU plugin has no padding then; with known sizes it has",
            "differs",
        )
        for operation in ("MaxPool-8", "MaxPool-14")
    ),
    *(
        Rule(
            operation,
            lambda it: it.attributes.get("auto_pad", "").startswith("same")
            and any(open in str(it.shapes) for open in ("?", "..")),
            "auto_pad is same_upper or same_lower, and sizes are open",
            "with dilations the CPU plugin has no padding then",
            "sizes",
        )
        for operation in ("MaxPool-8", "MaxPool-14")
    ),
    Rule(
        "Divide-1",
        lambda it: it.inputs[0].dtype.kind == "i" and it.attributes.get("m_pythondiv", "true") == "true",
        "quotients of integers that are rounded down",
        "the CPU plugin computes in floats, and rounds some quotients up, against the specification",
        "differs",
    ),
    Rule(
        "BinaryConvolution-1",
        lambda it: float(it.attributes["pad_value"]) == 0
        and listed(it, "strides")[1] > listed(it, "dilations")[1] > 1,
        "pads that do not count, and columns further apart than the elements of a window, which are apart, too",
        "the CPU plugin leaves out elements that are no pads; with another pad_value it does not",
        "differs",
    ),
    Rule(
        "Pad",
        lambda it: "If" in it.layers,
        "in a branch, with the value an input",
        "the CPU plugin pads with 0 then, against the specification",
        "differs",
    ),
    *(
        Rule(
            operation,
            lambda it: "NonZero" in it.layers,
            "the other input is a constant, and sizes are known at run time only",
            "the reader's model is right, but tract's optimiser leaves out what gives the size its value",
            "differs",
        )
        for operation in ("LogicalAnd-1", "LogicalOr-1", "Multiply-1")
    ),
    Rule(
        "MatMul-1",
        lambda it: "NonZero" in it.layers and any(1 in each.shape[:-2] for each in it.inputs),
        "a size of the batch that is known at run time only is 1",
        "it could be broadcast, but the reader says that open sizes must be equal",
        "differs",
    ),
    Rule(
        "CumSum-3",
        lambda it: "NonZero" in it.layers and it.attributes.get("exclusive") == "true",
        "sums of nothing, because the axis has size 1, and sizes are known at run time only",
        "the reader's model is right, but tract's optimiser leaves out what gives the size its value",
        "differs",
    ),
    Rule(
        "GRN-1",
        lambda it: not {"Loop", "TensorIterator", "Reshape"}.isdisjoint(it.layers),
        "in a loop, of what the loop does not change, or of what is reshaped",
        "the CPU plugin writes the result over its input, and takes the axes before the reshape",
        "reference",
    ),
    Rule(
        "Loop-5",
        lambda it: any(each.size == 1 and not each.any() for each in it.inputs),
        "a loop may have no iteration",
        "the specification does not say what its outputs are then; the CPU plugin gives shape [0], whatever the rank is",
        "differs",
    ),
    Rule(
        "ScatterElementsUpdate-12",
        lambda it: it.inputs[0].dtype.kind == "i" and it.attributes.get("reduction") == "mean",
        "means of negative integers",
        "the specification does not say how they are rounded; the reader rounds down, the CPU plugin towards 0",
        "differs",
    ),
    Rule(
        "*",
        lambda it: it.attributes.get("auto_broadcast") == "pdpd" and "NonZero" in it.layers,
        "shapes are broadcast as in PaddlePaddle, and sizes are known at run time only",
        "the CPU plugin broadcasts as NumPy then; with known sizes it does as the reader",
        "differs",
    ),
    Rule(
        "*",
        lambda it: not it.is_alone and has_no_elements(it.outputs) and "Reshape" in it.layers,
        "a tensor without elements is reshaped by sizes of which one is computed and one is -1",
        "the specification does not say what the -1 is; here it is 1 if another size is 0",
        "differs",
    ),
    Rule(
        "*",
        lambda it: not it.is_alone and has_no_elements(it.inputs) and "Slice" in it.layers,
        "an open axis turns out to be without elements, and is sliced from its second one on",
        "here such a slice is an error: the size of its result would be less than 0",
        "differs",
    ),
    Rule(
        "*",
        lambda it: not it.is_alone and "ReduceMax" in it.layers,
        "the greatest of what may have no elements",
        "the reference gives the least number, as NumPy does with `initial`; the CPU plugin another one",
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
