"""Random models: one of the operations of `draws/`, sometimes with others before and after it, some dimensions
open, and sometimes all of it in a body."""

import importlib
import pkgutil
import re

import numpy as np
import openvino as ov
import openvino.opset15 as opset15

import draws
from draws import ALL, Draw, OPERATIONS
from draws.sizes import computed_size, one_size, rank
from framework import Case, Const, body, const, make, scalar, xml_and_weights
from rules import drawn_of
from shared import i64

for module in pkgutil.iter_modules(draws.__path__, "draws."):
    importlib.import_module(module.name)


class RandomTest:
    """The model of a seed and a number."""

    def __init__(self, seed, number):
        kinds = sorted(OPERATIONS)
        self.turn, index = divmod(number, len(kinds))
        self.kind = kinds[index]
        self.seed = f"{seed}-{number:05}"
        self.name = f"random/{self.kind}/{self.seed}"

    def files(self, core):
        # The operation comes first, so that its inputs do not depend on what is drawn around it.
        drawn = Draw(self.seed, self.turn)
        inputs, build = OPERATIONS[self.kind](drawn, self.kind)
        self.is_as_stated, self.has_reference = not drawn.is_alone, drawn.has_reference
        arrays = [it.values if isinstance(it, Const) else np.asarray(it) for it in inputs]
        draw = Draw(f"{self.seed} around it")
        parameters, build = with_preludes(draw, drawn, self.kind, inputs, build)
        alone = build
        if not drawn.is_alone:
            is_empty = any(it.size == 0 for it in arrays)
            build = with_chain(draw, build, is_empty) if draw.flag() else build
            if parameters and not self.kind.startswith(("ReadValue", "Assign")) and draw.flag(0.1):
                build = in_body(draw, build)
        shapes = declared_shapes(draw, drawn, parameters)
        xml, weights = xml_and_weights(Case("random", self.kind, "model", parameters, build, shapes=shapes))
        xml = without_attributes(xml, self.kind, drawn.left_out)
        for name, value in drawn.rewritten.items():
            xml = re.sub(rb' %s="[^"]*"' % name.encode(), rb' %s="%s"' % (name.encode(), value.encode()), xml)
        self.drawn = drawn_of(xml, self.kind, arrays, build is alone)
        self.parameters = parameters
        return xml, weights

    def data_sets(self, model):
        if "ReadValue" not in self.drawn.layers:
            return [(self.parameters, None)]
        # Later ones see the state that earlier ones have left.
        turned = [np.roll(it, 1) if it.dtype.kind == "f" else it for it in self.parameters]
        return [(self.parameters, None), (turned, None), (self.parameters, None)]


def without_attributes(xml, kind, names):
    """The file without some attributes of the operation. OpenVINO's writer leaves none out."""
    type_ = kind.rsplit("-", 1)[0].encode()
    for name in names:
        pattern = rb'(type="%s"[^>]*>\s*<data\b[^>]*?) %s="[^"]*"' % (type_, re.escape(name.encode()))
        xml = re.sub(pattern, rb"\1", xml, flags=re.IGNORECASE)
    return xml


def declared_shapes(draw, drawn, parameters):
    """Shapes of the Parameters, in which no, the first, some or all dimensions are open."""
    openness = "none" if drawn.is_closed else draw.choice("none", "first", "some", "all")

    def shape(array):
        # If nobody knows how many axes there are, mostly nobody knows the rank of the output.
        if array.ndim == 0 or array.ndim == 1 and array.dtype.kind in "iu" and draw.flag():
            return None
        return ",".join(dimension(axis, size) for axis, size in enumerate(array.shape))

    def dimension(axis, size):
        if openness == "all" or openness == "some" and draw.flag() or openness == "first" and axis == 0:
            return "1..7" if 1 <= size <= 7 and draw.flag(0.2) else "?"
        return str(size)

    return list(map(shape, parameters))


def flat(built):
    """What a function has built, as a list of outputs. An Assign has none, and is itself."""
    for it in built if isinstance(built, list) else [built]:
        it = it.node() if isinstance(it, Const) else it
        if isinstance(it, ov.Node) and it.get_type_name() != "Assign":
            yield from it.outputs()
        else:
            yield it


def is_assign(it):
    return isinstance(it, ov.Node)


# --- before the operation ---------------------------------------------------------------------------

# None of these changes the values that the operation sees.


def reshaped(draw, array):
    """A Parameter with two of the dimensions in one, or one dimension more."""
    shape = list(array.shape)
    at = draw.integer(0, len(shape))
    if at + 1 < len(shape):
        given = [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    else:
        given = [*shape[:at], 1, *shape[at:]]
    target = list(shape)
    if shape and 0 not in shape:
        target[draw.integer(0, len(shape) - 1)] = -1
    pattern = i64(target).reshape(-1)
    return [array.reshape(given)], lambda x: make("Reshape-1", x, const(pattern), special_zero=False)


def added_to_nothing(draw, array):
    type_, identity = draw.choice(("Add-1", 0), ("Multiply-1", 1), ("Subtract-1", 0))
    return [array], lambda x: make(type_, x, scalar(identity, array.dtype), auto_broadcast="numpy")


def selected(draw, array):
    """A Parameter with rows that a mask leaves out, so that only values say how many there are."""
    axis = draw.integer(0, array.ndim - 1)
    mask = np.array([True] * array.shape[axis] + [False] * draw.integer(0, 2), np.bool_)
    draw.random.shuffle(mask)
    shape = [*array.shape[:axis], len(mask), *array.shape[axis + 1 :]]
    given = np.zeros(shape, array.dtype)
    given[(slice(None),) * axis + (mask,)] = array

    def build(x, mask):
        rows = make("Squeeze-1", make("NonZero-3", mask, output_type="i64"), const(i64([0])))
        return make("Gather-8", x, rows, scalar(axis), batch_dims=0)

    return [given, mask], build


def with_preludes(draw, drawn, kind, inputs, build):
    """The Parameters, and what builds the outputs from them."""
    is_selectable = not (drawn.is_alone or drawn.is_closed or drawn.has_state)
    parameters, preludes = [], []
    type_ = kind.rsplit("-", 1)[0]
    for it in inputs:
        if isinstance(it, Const):
            preludes.append((0, lambda it=it: it.node().output(0)))
            continue
        it = np.asarray(it)
        options = [reshaped] if type_ != "Reshape" else []
        if it.dtype.kind in "fiu" and type_ not in ("Add", "Multiply", "Subtract"):
            options.append(added_to_nothing)
        if it.ndim and is_selectable and type_ not in ("Gather", "NonZero", "Squeeze"):
            options.append(selected)
        if it.dtype.kind in "fiub" and options and draw.flag(0.12):
            given, prelude = draw.choice(*options)(draw, it)
        else:
            given, prelude = [it], lambda x: x
        parameters += given
        preludes.append((len(given), prelude))

    def outer(*nodes):
        nodes = iter(nodes)
        inputs = (prelude(*(next(nodes) for _ in range(count))) for count, prelude in preludes)
        return list(flat(build(*(next(flat(it)) for it in inputs))))

    return parameters, outer


# --- after the operation ----------------------------------------------------------------------------


def type_name(output):
    return output.get_element_type().get_type_name()


def broadcast_by_size(draw, x):
    value, sizes = draw.numbers(draw.type(ALL), *draw.choice((), (1,), (3, 1))), computed_size(draw, x)
    if value.ndim == 2:
        sizes = make("Concat-1", const(i64([3])), sizes, axis=0)
    return make("Broadcast-3", const(value), sizes, mode=draw.choice("numpy", "bidirectional"))


def range_to_size(draw, x):
    type_ = draw.choice("i32", "i64", "f32")
    return make("Range-4", scalar(0), computed_size(draw, x, False), scalar(1), output_type=type_)


def tile_by_size(draw, x):
    value = draw.numbers(draw.type(ALL), *draw.choice((1,), (2,), (2, 3)))
    return make("Tile-1", const(value), computed_size(draw, x))


def reshape_by_size(draw, x):
    pattern = make("Concat-1", one_size(draw, x), const(i64([-1])), axis=0)
    return make("Reshape-1", x, pattern, special_zero=False)


def reshape_by_pieces(draw, x):
    """The same sizes in another order."""
    order = list(range(rank(x)))
    draw.random.shuffle(order)
    sizes = make("ShapeOf-3", x, output_type="i64")
    pieces = [make("Gather-8", sizes, const(i64([axis])), scalar(0), batch_dims=0) for axis in order]
    return make("Reshape-1", x, make("Concat-1", *pieces, axis=0), special_zero=False)


def transpose(draw, x):
    order = list(range(rank(x)))
    draw.random.shuffle(order)
    return make("Transpose-1", x, const(i64(order)))


def slice_(draw, x):
    start, stop, step = draw.choice((0, 2, 1), (1, 99, 1), (-1, -99, -1), (0, 99, 2), (0, 0, 1))
    bounds = [const(i64([it])) for it in (start, stop, step, draw.axis(rank(x)))]
    return make("Slice-8", x, *bounds)


def concat_itself(draw, x):
    return make("Concat-1", x, x, axis=draw.axis(rank(x)))


def reduce(draw, x):
    # A sum of integers may overflow.
    type_ = "ReduceSum-1" if type_name(x).startswith("f") else "ReduceMax-1"
    axes = i64(draw.axes(rank(x), 1)).reshape(-1)
    return make(type_, x, const(axes), keep_dims=draw.flag())


def to_one_dimension(draw, x):
    return make("Reshape-1", x, const(i64([-1])), special_zero=draw.flag())


def relu(draw, x):
    return make("Relu-1", x)


def maximum_or_sum(draw, x):
    type_ = "Add-1" if type_name(x).startswith("f") else "Maximum-1"
    return make(type_, x, x, auto_broadcast="numpy")


def softmax(draw, x):
    return make("Softmax-8", x, axis=draw.axis(rank(x)))


def chains(x, is_empty):
    """What may follow an output, which may have no elements: nothing says what -1 means to a Reshape of none, nor what
    the greatest one is."""
    yield to_one_dimension
    is_number = type_name(x) not in ("boolean", "string")
    if is_number:
        yield from (relu, maximum_or_sum)
    if rank(x):
        yield from (broadcast_by_size, range_to_size, tile_by_size, reshape_by_pieces)
        if not is_empty:
            yield reshape_by_size
        yield from (transpose, slice_, concat_itself)
        # Sums and powers of numbers in half precision multiply their errors.
        if is_number and type_name(x) != "f16":
            if type_name(x).startswith("f"):
                yield from (reduce, softmax)
            elif not is_empty:
                yield reduce


def with_chain(draw, build, is_empty):
    seed = draw.random.getrandbits(64)

    def outer(*nodes):
        built = build(*nodes)
        # It may be built more than once, each time the same.
        draw = Draw(seed)
        outputs = [number for number, it in enumerate(built) if not is_assign(it)]
        if not outputs:
            return built
        number = draw.choice(*outputs)
        after = draw.choice(*chains(built[number], is_empty))(draw, built[number])
        if draw.flag(0.3):
            after = draw.choice(*chains(after.output(0), is_empty))(draw, after.output(0))
        # Where the operation's output is one of the model's, too, the two may not become one.
        return [*built, after] if draw.flag() else [*built[:number], after, *built[number + 1 :]]

    return lambda *nodes: list(flat(outer(*nodes)))


# --- around it --------------------------------------------------------------------------------------


def in_body(draw, build):
    form = draw.choice("if", "if at run time", "loop")
    condition, count = draw.flag(), draw.integer(1, 3)
    is_joined = draw.flag()

    def other(*nodes):
        """Outputs of the same types and shapes."""
        for it in build(*nodes):
            if type_name(it) == "boolean":
                yield make("LogicalNot-1", it)
            else:
                one = const(np.ones((), it.get_element_type().to_dtype()))
                yield make("Minimum-1", it, one, auto_broadcast="numpy")

    def if_(*nodes):
        then_parameters, then_results, then = body("then", nodes, build)
        else_parameters, else_results, else_ = body("else", nodes, lambda *nodes: list(other(*nodes)))
        given = const(np.array(condition)).node()
        if form == "if at run time":
            # If dimensions are open, nothing knows it before the model runs.
            sizes = make("ShapeOf-3", nodes[0], output_type="i64")
            product = make("ReduceProd-1", sizes, const(i64([0])), keep_dims=False)
            given = make("GreaterEqual-1" if condition else "Less-1", product, scalar(0))
        node = opset15.if_op(given.output(0))
        node.set_then_body(then)
        node.set_else_body(else_)
        for it, a, b in zip(nodes, then_parameters, else_parameters):
            node.set_input(it, a, b)
        return [node.set_output(a, b) for a, b in zip(then_results, else_results)]

    def step(*nodes):
        # A loop joins parts of size 1.
        some = (make("Unsqueeze-1", it, const(i64([0]))) if is_joined else it for it in build(*nodes))
        return [const(np.array(True)), *some]

    def loop(*nodes):
        parameters, results, model = body("body", nodes, step)
        node = opset15.loop(scalar(count).node(), const(np.array(True)).node())
        node.set_function(model)
        node.set_special_body_ports([-1, 0])
        for it, parameter in zip(nodes, parameters):
            node.set_invariant_input(parameter, it)
        outputs = [it.output(0) for it in results[1:]]
        return [
            node.get_concatenated_slices(it, 0, 1, 1, -1, 0) if is_joined else node.get_iter_value(it, -1)
            for it in outputs
        ]

    return loop if form == "loop" else if_
