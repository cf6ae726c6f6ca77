"""Layers, edges and operations that do not hold together."""

from bad_file_cases import good, section
from bad_file_cases.files import WHOLE, changed
from bad_file_cases.net import Const, floats, one


def add_edges():
    case = section("Layers and edges")
    first = '<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>'
    last = '<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>'

    def bad(name, what, *edits, **more):
        case(name, what, changed(*edits), **WHOLE, **more)

    bad("layer_id_twice", "two layers of one id", ('id="1" name="order"', 'id="0" name="order"'))
    bad("layer_id_text", "an id that is no number", ('id="1" name="order"', 'id="one" name="order"'))
    bad("edge_from_nowhere", "an edge from a layer that is not there", ('from-layer="0"', 'from-layer="9"'))
    bad("edge_to_no_port", "an edge to a port that is not there",
        ('to-layer="2" to-port="1"', 'to-layer="2" to-port="9"'))
    bad("edge_in_a_circle", "a layer that depends on itself",
        (first, first.replace('from-layer="0" from-port="0"', 'from-layer="2" from-port="2"')))
    bad("input_driven_twice", "an input that is connected twice",
        ('to-layer="2" to-port="1"', 'to-layer="2" to-port="0"'))
    bad("input_missing", "an input without an edge", (first, ""))
    bad("result_missing", "a result without an edge", (last, ""))
    bad("no_result", "no result", (last, ""),
        ('<layer id="3" name="result_0" type="Result" version="opset1">\n'
         '<input><port id="0" precision="FP32"><dim>3</dim><dim>2</dim></port></input>\n</layer>', ""),
        text="valid: no output", outputs=[])
    bad("port_dim_negative", "a port of size −3", ("<dim>3</dim><dim>2</dim>", "<dim>-3</dim><dim>2</dim>"))
    bad("port_contradicts", "a port that declares [2,3] where [3,2] comes out",
        ("<dim>3</dim><dim>2</dim>", "<dim>2</dim><dim>3</dim>"), outputs=good(floats(2, 3).T),
        text="valid: shapes are computed", moves=True)


def add_operations():
    case = section("Operations")
    to = 'type="Transpose" version="opset1"'
    case("operation_unknown", "an operation that is not there",
         changed((to, 'type="Transmogrify" version="opset1"')), **WHOLE)
    case("operation_set_unknown", "operation set 99",
         changed((to, 'type="Transpose" version="opset99"')), **WHOLE)
    case("operation_set_older", "an operation that opset1 does not have yet",
         one("Gelu-1", [floats(2)], [[2]]))
    case("operation_inputs", "a MatMul of one input", one("MatMul-1", [floats(2, 3)], [[2, 2]]))
    case("operation_type", "And of floats",
         one("LogicalAnd-1", [floats(2), floats(2)], [("boolean", [2])], auto_broadcast="numpy"))
    case("operation_order", "Transpose by [0, 0]",
         one("Transpose-1", [floats(2, 3), Const([0, 0])], [[2, 3]]))


def add():
    add_edges()
    add_operations()
