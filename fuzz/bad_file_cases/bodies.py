"""Bodies and variables: TensorIterator, Loop, If, ReadValue and Assign."""

import numpy as np

from bad_file_cases import good, section
from bad_file_cases.net import Net, edited, floats


def element(name, **attributes):
    text = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}{text}/>"


def mapped(kind, external, internal, **more):
    return element(kind, external_port_id=external, internal_layer_id=internal, **more)


def slices(axis, stride=1):
    return {"axis": axis, "start": 0, "end": -1, "stride": stride, "part_size": 1}


def doubling(outer, shape):
    """A body that doubles its input: layers 0 (Parameter), 1 (Add) and 2 (Result)."""
    body = Net(outer)
    x = body.parameter("inner", "f32", shape)
    return body.result(body.layer("Add-1", [x, x], [("f32", shape)], "double", auto_broadcast="numpy"))


def iterator(input_map, output_map):
    """A TensorIterator over the rows of a matrix."""
    net = Net()
    x = net.input("x", floats(4, 3))
    inside = (
        f"<port_map>{input_map}{output_map}</port_map>\n<body>\n{doubling(net, [1, 3]).content()}\n</body>"
    )
    return net.result(net.layer("TensorIterator-1", [x], [("f32", [4, 3])], "iterator", inside=inside))


def loop(count, output_map, out, names=("on", "count")):
    """A Loop that doubles its input, as often as `count` says."""
    net = Net()
    trips = net.constant(count, names[1])
    on = net.constant(True, names[0], np.bool_)
    x = net.input("x", floats(1, 3))
    body = doubling(net, [1, 3])
    going_on = body.constant(True, "going_on", np.bool_)
    body.result(going_on)
    inside = (
        f"<port_map>{mapped('input', 2, 0)}{output_map}"
        f"{mapped('output', -1, 4, purpose='execution_condition')}</port_map>\n"
        f"<back_edges>{element('edge', **{'from-layer': 2, 'to-layer': 0})}</back_edges>\n"
        f"<body>\n{body.content()}\n</body>"
    )
    return net.result(net.layer("Loop-5", [trips, on, x], [("f32", out)], "loop", inside=inside))


def condition(then_output=2, else_shape=(2,), else_output=True):
    """An If of two bodies that double their input."""
    net = Net()
    on = net.input("on", np.array(True))
    x = net.input("x", floats(2))
    then, other = doubling(net, [2]), doubling(net, else_shape)
    output = mapped("output", 2, 2) if else_output else ""
    inside = (
        f"<then_port_map>{mapped('input', 1, 0)}{mapped('output', 2, then_output)}</then_port_map>\n"
        f"<else_port_map>{mapped('input', 1, 0)}{output}</else_port_map>\n"
        f"<then_body>\n{then.content()}\n</then_body>\n<else_body>\n{other.content()}\n</else_body>"
    )
    return net.result(net.layer("If-8", [on, x], [("f32", [2])], "if", inside=inside))


def variable(twice):
    """A variable that is written, once or twice."""
    net = Net()
    x = net.input("x", floats(2))
    state = {"variable_id": "state", "variable_type": "f32", "variable_shape": [2]}
    read = net.layer("ReadValue-6", [x], [("f32", [2])], "read", **state)
    written = net.layer("Add-1", [read, x], [("f32", [2])], "add", auto_broadcast="numpy")
    for number in range(1 + twice):
        net.layer("Assign-6", [written], [("f32", [2])], f"write_{number}", variable_id="state")
    return net.result(written)


def add():
    case = section("Bodies and variables")
    good_input, good_output = mapped("input", 0, 0, **slices(0)), mapped("output", 1, 2, **slices(0))
    case("iterator_port", "TensorIterator: a port map of a port that is not there",
         iterator(mapped("input", 7, 0, **slices(0)), good_output))
    case("iterator_layer", "TensorIterator: a port map of a layer that is not there",
         iterator(good_input, mapped("output", 1, 9, **slices(0))))
    case("iterator_no_input", "TensorIterator: a Parameter that the port map leaves out",
         iterator("", good_output))
    case("iterator_axis", "TensorIterator: slices along axis 5",
         iterator(mapped("input", 0, 0, **slices(5)), good_output))
    case("iterator_stride_0", "TensorIterator: slices with stride 0",
         iterator(mapped("input", 0, 0, **slices(0, stride=0)), good_output))
    case("loop_no_condition", "Loop: the condition's layer is not there",
         edited(loop(3, mapped("output", 3, 2), [1, 3]).text(),
                ('internal_layer_id="4" purpose', 'internal_layer_id="9" purpose')),
         weights=bytes(loop(3, "", [1, 3]).weights), inputs=[floats(1, 3)])
    case("loop_2_40", "Loop of 2⁴⁰ steps", loop(2**40, mapped("output", 3, 2), [1, 3]), text="valid")
    case("loop_2_40_slices", "Loop of 2⁴⁰ steps, whose outputs are joined: 12 TiB",
         loop(2**40, mapped("output", 3, 2, **slices(0)), [2**40, 3]), text="valid")
    case("if_layer", "If: a port map of a layer that is not there", condition(then_output=9))
    case("if_outputs", "If: a branch without the output", condition(else_output=False))
    case("if_shapes", "If: a branch whose Parameter has another shape", condition(else_shape=(3,)),
         text="valid: shapes are computed", outputs=good([2, 4]))
    case("bodies_deep", "bodies within bodies, 250 deep", nested(250))
    case("variable_twice", "a variable that is written twice", variable(True))


def nested(depth):
    """TensorIterators within each other, in as few letters as possible."""
    opening = (
        '<layers><layer id="0" name="t" type="TensorIterator" version="opset1">'
        '<output><port id="0" precision="FP32"/></output><body>'
    )
    closing = (
        '</body></layer><layer id="1" name="r" type="Result" version="opset1">'
        '<input><port id="0" precision="FP32"/></input></layer></layers>'
        '<edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>'
    )
    text = opening * depth + "<layers/><edges/>" + closing * depth
    return f'<net name="net" version="11">{text}</net>\n'
