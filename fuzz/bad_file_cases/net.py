"""Small models as text: nothing checks what is written."""

import numpy as np

PRECISION = {
    "f32": "FP32",
    "i32": "I32",
    "i64": "I64",
    "boolean": "BOOL",
    "string": "STRING",
}
TYPE = {"float32": "f32", "int32": "i32", "int64": "i64", "bool": "boolean"}


def dims(shape):
    """A shape as the <dim> elements of a port: -1 is a size that is not known."""
    return "".join(f"<dim>{size}</dim>" for size in shape)


def port(number, kind, shape, names=""):
    names = f' names="{names}"' if names else ""
    return f'<port id="{number}" precision="{PRECISION[kind]}"{names}>{dims(shape)}</port>'


def joined(value):
    """A value as an attribute has it: a list with commas."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


class Net:
    """Layers and edges in the order in which they are added; or a body of such, with the same weights."""

    def __init__(self, outer=None):
        self.layers, self.edges = [], []
        self.inputs = []
        self.results = 0
        self.weights = bytearray() if outer is None else outer.weights

    def layer(self, kind, inputs=(), outputs=(), name=None, inside="", **attributes):
        """Adds a layer of a kind like `Gather-8`, whose outputs are pairs of a type and a shape, and returns
        its outputs. `inside` is what it has beside ports and attributes."""
        number, (type_, opset) = len(self.layers), kind.rsplit("-", 1)
        name = name or type_.lower()
        data = "".join(f' {key}="{joined(value)}"' for key, value in attributes.items())
        text = [f'<layer id="{number}" name="{name}" type="{type_}" version="opset{opset}">']
        text += [f"<data{data}/>"] * bool(data) + [inside] * bool(inside)
        if inputs:
            ports = "".join(port(k, it[2], it[3]) for k, it in enumerate(inputs))
            text.append(f"<input>{ports}</input>")
        first = len(inputs)
        if outputs:
            names = [name] if len(outputs) == 1 else [f"{name}:{k}" for k in range(len(outputs))]
            ports = [port(first + k, *it, names[k]) for k, it in enumerate(outputs)]
            text.append(f"<output>{''.join(ports)}</output>")
        self.layers.append("\n".join([*text, "</layer>"]))
        for k, (layer, its_port, *_) in enumerate(inputs):
            self.edges.append(
                f'<edge from-layer="{layer}" from-port="{its_port}" to-layer="{number}" to-port="{k}"/>'
            )
        outlets = [(number, first + k, *it) for k, it in enumerate(outputs)]
        return outlets[0] if len(outlets) == 1 else outlets

    def input(self, name, array, shape=None):
        """A Parameter and what it is fed. `shape` is the one in the file, where it is not the array's."""
        array = np.asarray(array)
        self.inputs.append(array)
        return self.parameter(name, TYPE[array.dtype.name], array.shape if shape is None else shape)

    def parameter(self, name, kind, shape):
        text = joined(["?" if size == -1 else size for size in shape])
        return self.layer("Parameter-1", (), [(kind, shape)], name, shape=text, element_type=kind)

    def constant(self, values, name="constant", dtype=np.int64):
        """A Const, by default of i64."""
        array = np.array(values, dtype)
        return self.raw_constant(TYPE[array.dtype.name], array.shape, array.tobytes(), name)

    def raw_constant(self, kind, shape, content, name="constant", size=None):
        """A Const of these bytes."""
        offset, size = len(self.weights), len(content) if size is None else size
        self.weights += content
        data = {"element_type": kind, "shape": joined(shape), "offset": offset, "size": size}
        return self.layer("Const-1", (), [(kind, shape)], name, **data)

    def result(self, *outputs):
        for output in outputs:
            self.layer("Result-1", [output], (), f"result_{self.results}")
            self.results += 1
        return self

    def content(self):
        """Layers and edges."""
        layers, edges = "\n".join(self.layers), "\n".join(self.edges)
        return f"<layers>\n{layers}\n</layers>\n<edges>\n{edges}\n</edges>"

    def text(self):
        return f'<?xml version="1.0"?>\n<net name="net" version="11">\n{self.content()}\n</net>\n'


def one(kind, inputs, outputs, **attributes):
    """A model of one layer, whose inputs are arrays to be fed, `(name, array, shape in the file)`, or lists of
    integers and `Const`s, which are constants; outputs are shapes of f32, or pairs of a type and a shape."""
    net, outlets = Net(), []
    for k, it in enumerate(inputs):
        if isinstance(it, Const):
            outlets.append(net.constant(it.values, f"constant_{k}", it.values.dtype))
        elif isinstance(it, tuple):
            outlets.append(net.input(*it))
        else:
            outlets.append(net.input(f"input_{k}", it))
    outputs = [it if it and isinstance(it[0], str) else ("f32", it) for it in outputs]
    made = net.layer(kind, outlets, outputs, **attributes)
    return net.result(*(made if isinstance(made, list) else [made]))


class Const:
    """An input of [`one`] that is a constant."""

    def __init__(self, values, dtype=np.int64):
        self.values = np.array(values, dtype)


def floats(*shape):
    """1, 2, 3, ... in that shape."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def edited(text, *edits):
    """A text with the first of each old piece in place of its new one."""
    for old, new in edits:
        assert old in text, f"{old!r} is not in {text}"
        text = text.replace(old, new, 1)
    return text
