"""What the cases are written with: a case is an operation (or a few of them on the same inputs), its
inputs, and how sure one can be of its outputs."""

import inspect
import re
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset15 as opset15
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2, float8_e8m0fnu
from openvino.utils.node_factory import NodeFactory

sys.path.append(str(Path(__file__).parents[2] / "models"))

from shared import f32, i32, i64, offsets

# --- data -----------------------------------------------------------------------------------------

# The element types that NumPy has, by OpenVINO's names.
DTYPES = {
    name: getattr(ov.Type, name).to_dtype() for name in "f16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 boolean".split()
}


def f16(values):
    return np.array(values, np.float16)


def u8(values):
    return np.array(values, np.uint8)


def boolean(values):
    return np.array(values, np.bool_)


def spread(*shape, seed=0, dtype=np.float32):
    """Values in [-4, 4] in no simple order, multiples of 1/16: sums and products of a few of them are
    exact in f32, so that the order of summation does not matter."""
    numbers = np.arange(np.prod(shape, dtype=np.int64)) + 1 + 1000 * seed
    return ((numbers * 7919 % 104729 % 129 - 64) / 16).astype(dtype).reshape(shape)


def spread_ints(low, high, *shape, seed=0, dtype=np.int32):
    """Integers in low..=high in no simple order."""
    numbers = np.arange(np.prod(shape, dtype=np.int64)) + 1 + 1000 * seed
    return (numbers * 7919 % 104729 % (high - low + 1) + low).astype(dtype).reshape(shape)


# --- graphs ---------------------------------------------------------------------------------------


@dataclass
class Const:
    """An input that is a constant of the model. `type` is for element types that NumPy lacks."""

    values: np.ndarray
    type: str | None = None

    def node(self):
        if self.values.dtype.kind == "U":
            return ov.op.Constant(ov.Tensor(np.ascontiguousarray(self.values)))
        if self.type is None:
            return ov.op.Constant(np.ascontiguousarray(self.values).reshape(self.values.shape))
        flat = [it.item() for it in self.values.ravel()]
        return ov.op.Constant(getattr(ov.Type, self.type), ov.Shape(self.values.shape), flat)


def const(values, type=None):
    return Const(np.asarray(values), type)


def axes(*values):
    """A constant list of axes, a shape and the like: i64, 1-D."""
    return const(i64(values).reshape(-1))


def scalar(value, dtype=np.int64):
    """A constant of rank 0."""
    return const(np.array(value, dtype))


def real(value):
    """A constant of rank 0 in f32."""
    return scalar(value, np.float32)


# The sixteen values of nf4.
NF4 = f32([
    -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
])  # fmt: skip


@cache
def factory(opset):
    return NodeFactory(f"opset{opset}")


def make(kind, *inputs, **attributes):
    """A node: `make("Gather-8", data, indices, axis, batch_dims=1)`, the type as OpenVINO's classes have
    it with the operator set that it is taken from, attributes as in the file."""
    type_, opset = kind.rsplit("-", 1)
    outputs = [it.node().output(0) if isinstance(it, Const) else it for it in inputs]
    outputs = [it.output(0) if isinstance(it, ov.Node) else it for it in outputs]
    return factory(int(opset)).create(type_, outputs, attributes)


def shape_of(x):
    return make("ShapeOf-3", x, output_type="i64")


def dims(x, *indices):
    """Some sizes of a tensor, as a list."""
    return make("Gather-8", shape_of(x), axes(*indices), scalar(0))


# The attributes of a convolution of images that has no others.
PLAIN = dict(strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], auto_pad="explicit")


def op(kind, *constants, **attributes):
    """What builds the graph of one node. Its last inputs may be constants."""
    return lambda *inputs: make(kind, *inputs, *constants, **attributes)


def ops(*builders):
    """What builds a graph of several nodes on the same inputs, with a Result each."""
    return lambda *inputs: [builder(*inputs) for builder in builders]


# --- cases ----------------------------------------------------------------------------------------


@dataclass
class Case:
    family: str
    operation: str
    name: str
    # Arrays are Parameters, `Const`s constants.
    inputs: list
    build: object
    # The formula in NumPy: from all inputs to the output, or to a list with None where there is no
    # easy formula.
    reference: object = None
    # Why the expected outputs are the formula's and OpenVINO is not asked.
    formula: str | None = None
    # Why OpenVINO's reference implementations are not asked.
    without_reference: str | None = None
    # Of each Parameter the shape in the file, such as "?,3"; None is the array's.
    shapes: list | None = None
    # More data sets: of each the arrays of the Parameters.
    more: tuple = ()
    # Edits of the XML, for spellings that OpenVINO's writer does not make: (old, new), old either text
    # that must be there or a compiled regular expression.
    edit: tuple = ()
    tolerance: float = 2e-5

    @property
    def folder(self):
        return f"{self.operation}/{self.name}"


CASES = []


def case(folder, inputs, build, reference=None, **more):
    """Adds a case. Its folder is OPERATION/NAME."""
    callers = (inspect.getmodule(it.frame).__name__ for it in inspect.stack())
    family = next(it for it in callers if it.startswith("cases.")).removeprefix("cases.")
    CASES.append(Case(family, *folder.split("/"), inputs, build, reference, **more))


def several(folder, inputs, nodes, **more):
    """A case of several nodes on the same inputs: of each what builds it and its formula."""

    def reference(*arrays):
        outputs = []
        for _, formula in nodes:
            output = formula(*arrays)
            outputs += output if isinstance(output, (list, tuple)) else [output]
        return outputs

    case(folder, inputs, ops(*(build for build, _ in nodes)), reference, **more)


def join(folder, *names):
    """Makes one model of several cases of an operation, side by side, to keep the number of files down."""
    operation, name = folder.split("/")
    parts = {it.name: it for it in CASES if it.operation == operation and it.name in names}
    parts = [parts[it] for it in names]
    assert all(not it.edit and len(it.more) == len(parts[0].more) for it in parts), name
    for it in parts:
        CASES.remove(it)

    def split(inputs):
        inputs = iter(inputs)
        return [[next(inputs) for _ in it.inputs] for it in parts]

    def flat(outputs):
        return [
            it
            for some in outputs
            for it in (
                some if isinstance(some, (list, tuple)) else some.outputs() if isinstance(some, ov.Node) else [some]
            )
        ]

    def parameters(it):
        return [each for each in it.inputs if not isinstance(each, Const)]

    shapes = [shape for it in parts for shape in (it.shapes or [None] * len(parameters(it)))]
    reasons = {it.formula for it in parts} - {None}
    assert not reasons or all(it.formula for it in parts), name
    CASES.append(
        Case(
            parts[0].family,
            operation,
            name,
            [each for it in parts for each in it.inputs],
            lambda *inputs: flat(it.build(*some) for it, some in zip(parts, split(inputs))),
            lambda *inputs: flat(it.reference(*some) for it, some in zip(parts, split(inputs))),
            formula="; ".join(sorted(reasons)) or None,
            shapes=shapes,
            more=[sum((list(it.more[i]) for it in parts), []) for i in range(len(parts[0].more))],
            tolerance=max(it.tolerance for it in parts),
        )
    )


def attribute(name, old, new):
    """An edit: another spelling of an attribute's value; None removes the attribute."""
    text = "" if new is None else f' {name}="{new}"'
    return (f' {name}="{old}"', text)


def opset(type_, old, new):
    """An edit: another `version` of the layers of a type."""
    return (f'type="{type_}" version="opset{old}"', f'type="{type_}" version="{new}"')


# --- files ----------------------------------------------------------------------------------------


def build_model(case):
    """The model, with names that do not depend on what was made before it."""
    parameters, nodes = [], []
    for position, it in enumerate(case.inputs):
        if isinstance(it, Const):
            nodes.append(it.node().output(0))
            continue
        number = len(parameters)
        shape = case.shapes[number] if case.shapes else None
        shape = ov.PartialShape(list(it.shape) if shape is None else shape)
        parameter = ov.op.Parameter(ov.Type(it.dtype), shape)
        parameter.friendly_name = f"input_{number}"
        parameter.output(0).set_names({f"input_{number}"})
        parameters.append(parameter)
        nodes.append(parameter.output(0))
    built = case.build(*nodes)
    built = built if isinstance(built, list) else [built]
    results, sinks = [], []
    for it in built:
        it = it.node() if isinstance(it, Const) else it
        if isinstance(it, ov.Node) and it.get_type_name() == "Assign":
            sinks.append(it)
            continue
        for output in it.outputs() if isinstance(it, ov.Node) and it.outputs() else [it]:
            if isinstance(output, ov.Node):
                output = output.output(0)
            result = ov.op.Result(output)
            result.friendly_name = f"output_{len(results)}"
            result.output(0).set_names({f"output_{len(results)}"})
            results.append(result)
    model = ov.Model(results, sinks, parameters, case.name)
    rename(model)
    return model


def rename(model, prefix=""):
    counts = {}
    for node in model.get_ordered_ops():
        type_ = node.get_type_name()
        if type_ in ("Parameter", "Result"):
            continue
        counts[type_] = counts.get(type_, -1) + 1
        node.friendly_name = f"{prefix}{snake(type_)}_{counts[type_]}"


def body(prefix, inputs, build):
    """The body of an operation that has one: its Parameters, its Results and itself. `inputs` are
    outputs of which the Parameters take type and shape, or pairs of a type and a shape."""
    parameters, results = [], []
    for it in inputs:
        type_, shape = it if isinstance(it, tuple) else (it.get_element_type(), it.get_partial_shape())
        parameters.append(ov.op.Parameter(type_, ov.PartialShape(shape)))
    built = build(*(it.output(0) for it in parameters))
    for it in built if isinstance(built, list) else [built]:
        it = it.node() if isinstance(it, Const) else it
        results.append(ov.op.Result(it.output(0) if isinstance(it, ov.Node) else it))
    for kind, nodes in [("input", parameters), ("output", results)]:
        for number, node in enumerate(nodes):
            node.friendly_name = f"{prefix}_{kind}_{number}"
            node.output(0).set_names({node.friendly_name})
    model = ov.Model(results, parameters, prefix)
    rename(model, f"{prefix}_")
    return parameters, results, model


def loop(model, ports, count, condition=Const(np.array(True))):
    """A Loop without its inputs and outputs. `ports` are those of the iteration and the condition in the body."""
    node = opset15.loop(*(it.node() if isinstance(it, Const) else it for it in (count, condition)))
    node.set_function(model)
    node.set_special_body_ports(ports)
    return node


def last_and_all(node, result):
    """What a loop gives of an output of its body: the last value, and all of them along axis 0."""
    result = result.output(0)
    return [node.get_iter_value(result, -1), node.get_concatenated_slices(result, 0, 1, 1, -1, 0)]


def snake(type_):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type_).lower()


def saved(model):
    """The files that OpenVINO's writer makes of a model."""
    with tempfile.TemporaryDirectory() as folder:
        xml, weights = Path(folder, "model.xml"), Path(folder, "model.bin")
        ov.serialize(model, xml, weights)
        return xml.read_bytes(), weights.read_bytes()


def edited(case, xml):
    for old, new in case.edit:
        if isinstance(old, re.Pattern):
            xml, count = old.subn(new, xml)
        else:
            xml, count = xml.replace(old, new), xml.count(old)
        if not count:
            raise ValueError(f"{case.folder}: nothing to edit: {old!r} in\n{xml}")
    return xml


def xml_and_weights(case):
    """The two files of a case's model."""
    xml, weights = saved(build_model(case))
    return edited(case, xml.decode()).encode(), weights


def model_files(xml, weights):
    """The files of a model. There is no `model.bin` where it would be empty and nothing is read from it."""
    has_none = not weights and b'type="Const"' not in xml
    return {"model.xml": xml} if has_none else {"model.xml": xml, "model.bin": weights}


# --- outputs --------------------------------------------------------------------------------------


def data_sets_of(case):
    parameters = [it for it in case.inputs if not isinstance(it, Const)]
    return [parameters, *map(list, case.more)]


def formula_outputs(case, parameters):
    parameters = iter(parameters)
    arrays = [it.values if isinstance(it, Const) else next(parameters) for it in case.inputs]
    with np.errstate(all="ignore"):
        outputs = case.reference(*arrays)
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


# Element types that NumPy has from `ml_dtypes`, and OpenVINO's Python hands over as bits.
BITS = {
    ov.Type.bf16: bfloat16,
    ov.Type.f8e4m3: float8_e4m3fn,
    ov.Type.f8e5m2: float8_e5m2,
    ov.Type.f8e8m0: float8_e8m0fnu,
}


def tensor_of(array, port):
    """An array for OpenVINO."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    if port.element_type not in BITS:
        return ov.Tensor(array)
    return ov.Tensor(array.reshape(-1).view(np.uint8), ov.Shape(array.shape), port.element_type)


def array_of(tensor):
    """What is in a tensor of OpenVINO."""
    if tensor.element_type.bitwidth < 8:
        raise TypeError(f"{tensor.element_type} is packed")
    if tensor.element_type == ov.Type.string:
        return np.array(tensor.str_data)
    array = np.array(tensor.data)
    return array.view(BITS.get(tensor.element_type, array.dtype))


class Runner:
    """OpenVINO's CPU plugin in f32."""

    def __init__(self):
        self.core = ov.Core()
        self.core.set_property(
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "f32",
                # Nothing of a product with compressed weights is quantised.
                "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
                "INFERENCE_NUM_THREADS": 1,
            },
        )

    def run(self, model, data_sets):
        compiled = self.core.compile_model(model, "CPU")
        # One request for all: variables go on from data set to data set.
        request = compiled.create_infer_request()
        outputs = []
        for inputs in data_sets:
            request.infer([tensor_of(it, port) for it, port in zip(inputs, compiled.inputs, strict=True)])
            outputs.append([array_of(it) for it in request.output_tensors])
        return outputs

    def evaluate(self, model, inputs, like):
        """The outputs of OpenVINO's reference implementations; None where an operation has none."""
        tensors = [tensor_of(np.zeros_like(it), port) for it, port in zip(like, model.outputs)]
        inputs = [tensor_of(it, port) for it, port in zip(inputs, model.inputs)]
        try:
            done = model.evaluate(tensors, inputs)
        except RuntimeError:
            return None
        return [array_of(it) for it in tensors] if done else None
