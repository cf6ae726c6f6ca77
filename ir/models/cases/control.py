"""State and control flow."""

import re

import openvino.opset15 as opset15
import openvino.opset6 as opset6

from framework import *

# --- state ----------------------------------------------------------------------------------------

# The data sets of a model run one after the other on one state.
case(
    "read_value/accumulates",
    [f32([[1, 2, 3]])],
    lambda x: [
        total := make(
            "Add-1",
            x,
            opset6.read_value(
                make("Broadcast-3", real(0.5), axes(1, 3), mode="numpy"), "total", ov.Type.f32, ov.PartialShape([1, 3])
            ),
        ),
        opset6.assign(total, "total"),
    ],
    lambda x: [None],
    more=[[f32([[4, 5, 6]])]],
)
case(
    "read_value/revision_3",
    [f32([[1, 2, 3]])],
    lambda x: [
        total := make("Add-1", x, read := make("ReadValue-3", const(f32([[7, 8, 9]])), variable_id="total")),
        make("Assign-3", total, variable_id="total"),
        make("Relu-1", read),
    ],
    lambda x: [x + f32([[7, 8, 9]]), f32([[7, 8, 9]])],
)


def empty_past(x):
    return make("Broadcast-3", real(0), make("Concat-1", dims(x, 0), axes(0, 3), axis=0), mode="numpy")


def cache(x, initial, beams=None):
    past = opset6.read_value(initial, "past", ov.Type.f32, ov.PartialShape("?,?,3"))
    if beams is not None:
        past = make("Gather-8", past, beams, scalar(0))
    past = make("Concat-1", past, x, axis=1)
    return [past, opset6.assign(past, "past")]


case(
    "read_value/cache",
    [offsets(1, 2, 3)],
    lambda x: cache(x, const(f32(np.zeros((1, 0, 3)))).node()),
    lambda x: [None],
    shapes=["1,?,3"],
    more=[[offsets(1, 1, 3)]],
)
UNABLE = "the CPU plugin fails where the batch is open"
case(
    "read_value/cache_of_open_batch",
    [offsets(1, 2, 3)],
    lambda x: cache(x, empty_past(x)),
    lambda x: x,
    shapes=["?,?,3"],
    formula=UNABLE,
)
case(
    "read_value/cache_with_beams",
    [offsets(2, 2, 3), i32([1, 0])],
    lambda x, beams: cache(x, empty_past(x), beams),
    lambda x, beams: x,
    shapes=["?,?,3", "?"],
    formula=UNABLE,
)
case(
    "read_value/initial_value_of_input",
    [f32([[1, 2, 3]]), f32([[-1, -2, -3]])],
    lambda x, y: [
        kept := opset6.read_value(y, "kept", ov.Type.f32, ov.PartialShape([1, 3])),
        opset6.assign(make("Subtract-1", kept, x), "kept"),
        make("Multiply-1", kept, x),
    ],
    lambda x, y: [y, x * y],
)


def variable(id, initial):
    return opset6.read_value(const(f32([initial])).node(), id, ov.Type.f32, ov.PartialShape([1, 3]))


def assign(value, id):
    return make("Assign-6", value, variable_id=id)


# What is read second is assigned first, and each variable gets what the other had.
case(
    "read_value/exchanged",
    [f32([[1, 2, 3]])],
    lambda x: [
        a := variable("a", [1, 1, 1]),
        b := variable("b", [2, 4, 8]),
        assign(make("Add-1", a, x), "b"),
        assign(b, "a"),
    ],
    lambda x: [None, None],
    more=[[f32([[4, 5, 6]])], [f32([[7, 8, 9]])]],
)
# Both see the value of the run before, which is 3 less.
case(
    "read_value/read_twice",
    [f32([[1, 2, 3]])],
    lambda x: [
        make("Add-1", x, variable("last", [-2, -1, 0])),
        make("Multiply-1", x, variable("last", [-2, -1, 0])),
        assign(x, "last"),
    ],
    lambda x: [x + (x - 3), x * (x - 3)],
    more=[[f32([[4, 5, 6]])], [f32([[7, 8, 9]])]],
    formula="the CPU plugin reads memory that nothing has written",
)
case(
    "read_value/without_initial_value",
    [f32([[1, 2, 3]])],
    lambda x: [total := make("Add-1", x, variable("total", [1, 1, 1])), assign(total, "total")],
    lambda x: [None],
    more=[[f32([[4, 5, 6]])]],
    edit=[
        (re.compile(r'\n\t+<edge from-layer="1" .*?/>'), ""),
        (re.compile(r'(type="ReadValue".*?)<input>.*?</input>', re.S), r"\1"),
    ],
)

# --- If -------------------------------------------------------------------------------------------


def if_(condition, inputs, then, else_):
    inputs = [it.output(0) if isinstance(it, ov.Node) else it for it in inputs]
    then_parameters, then_results, then_body = body("then", inputs, then)
    else_parameters, else_results, else_body = body("else", inputs, else_)
    node = opset15.if_op(condition.node() if isinstance(condition, Const) else condition)
    node.set_then_body(then_body)
    node.set_else_body(else_body)
    for it, a, b in zip(inputs, then_parameters, else_parameters):
        node.set_input(it, a, b)
    return [node.set_output(a, b) for a, b in zip(then_results, else_results)]


for value in (True, False):
    case(
        f"if/constant_{str(value).lower()}",
        [f32([1, 2]), f32([3, 4])],
        lambda x, y, value=value: if_(
            const(boolean(value)),
            [x, y],
            lambda x, y: [make("Add-1", x, y), make("Negative-1", x)],
            lambda x, y: [make("Subtract-1", x, y), make("Multiply-1", y, const(f32(2)))],
        ),
        lambda x, y, value=value: [x + y, -x] if value else [x - y, y * 2],
    )
case(
    "if/condition_is_input",
    [boolean(True), f32([1, 2]), f32([3, 4])],
    lambda c, x, y: if_(c, [x, y], op("Add-1"), op("Subtract-1")),
    lambda c, x, y: x + y if c else x - y,
    more=[[boolean(False), f32([1, 2]), f32([3, 4])]],
)
case(
    "if/condition_of_rank_1",
    [f32([[1, 2]])],
    lambda x: if_(const(boolean([True])), [x], op("Relu-1"), op("Negative-1")),
    lambda x: np.maximum(x, 0),
)
case(
    "if/nested",
    [boolean(True), f32([1, -2])],
    lambda c, x: if_(
        c,
        [c, x],
        lambda c, x: if_(const(boolean(False)), [x], op("Relu-1"), op("Negative-1")),
        lambda c, x: make("Abs-1", x),
    ),
    lambda c, x: -x if c else np.abs(x),
    more=[[boolean(False), f32([1, -2])]],
)
# The branches' outputs have other shapes.
case(
    "if/constant_other_shapes",
    [f32([[1, 2, 3]])],
    lambda x: if_(const(boolean(True)), [x], op("Squeeze-1", axes(0)), lambda x: make("Concat-1", x, x, axis=0)),
    lambda x: x[0],
)

# The sizes of the outputs depend on the condition.
case(
    "if/other_sizes",
    [boolean(True), f32([[1, 2, 3]])],
    lambda c, x: if_(c, [x], op("Relu-1"), op("Concat-1", const(f32([[4, 5, 6]])), axis=0)),
    lambda c, x: x if c else np.concatenate([x, f32([[4, 5, 6]])]),
    more=[[boolean(False), f32([[1, 2, 3]])]],
)
# The body of one branch uses a constant, an input and nothing else; the other two inputs.
case(
    "if/inputs_of_one_branch",
    [boolean(True), f32([1, 2]), f32([3, 4])],
    lambda c, x, y: if_(
        c,
        [x, y, const(f32([10, 20])).node()],
        lambda x, y, k: make("Subtract-1", k, x),
        lambda x, y, k: make("Multiply-1", y, const(f32([0.5]))),
    ),
    lambda c, x, y: f32([10, 20]) - x if c else y / 2,
    more=[[boolean(False), f32([1, 2]), f32([3, 4])]],
)

# --- TensorIterator, Loop -------------------------------------------------------------------------

# Type and shape of what many bodies take.
ROW, INDEX = (ov.Type.f32, [1, 3]), (ov.Type.i64, [])
TRUE = const(boolean(True))


def cumulative(start, end, stride, part=1):
    def build(x, h):
        parameters, results, model = body(
            "body",
            [(ov.Type.f32, [2, part, 3]), (ov.Type.f32, [2, 1, 3])],
            lambda x, h: [
                total := make("Add-1", make("ReduceSum-1", x, axes(1), keep_dims=True), h),
                make("Multiply-1", total, const(f32(2))),
            ],
        )
        node = opset15.tensor_iterator()
        node.set_body(model)
        node.set_sliced_input(parameters[0], x, start, stride, part, end, 1)
        node.set_merged_input(parameters[1], h, results[0].output(0))
        return [
            node.get_iter_value(results[0].output(0), -1),
            node.get_concatenated_slices(
                results[1].output(0),
                start if part == 1 else (0 if stride > 0 else -1),
                1 if stride > 0 else -1,
                1,
                end if part == 1 else (-1 if stride > 0 else 0),
                1,
            ),
        ]

    def formula(x, h):
        steps = np.split(x, x.shape[1] // part, 1)
        steps = steps if stride > 0 else steps[::-1]
        totals, total = [], h
        for step in steps:
            total = total + step.sum(1, keepdims=True)
            totals.append(total)
        return [total, 2 * np.concatenate(totals if stride > 0 else totals[::-1], 1)]

    return build, formula


T = [spread(2, 4, 3), spread(2, 1, 3, seed=1)]
for name, arguments in [("forward", (0, -1, 1)), ("reverse", (-1, 0, -1)), ("parts_of_2", (0, -1, 2, 2))]:
    build, formula = cumulative(*arguments)
    case(f"tensor_iterator/{name}", T, build, formula)


def invariant(x, h, w):
    parameters, results, model = body(
        "body",
        [ROW, ROW, (ov.Type.f32, [3, 3])],
        lambda x, h, w: make("Tanh-1", make("MatMul-1", make("Add-1", x, h), w, transpose_a=False, transpose_b=False)),
    )
    node = opset15.tensor_iterator()
    node.set_body(model)
    node.set_sliced_input(parameters[0], x, 0, 1, 1, -1, 0)
    node.set_merged_input(parameters[1], h, results[0].output(0))
    node.set_invariant_input(parameters[2], w)
    return [
        node.get_concatenated_slices(results[0].output(0), 0, 1, 1, -1, 0),
        node.get_iter_value(results[0].output(0), -1),
    ]


def invariant_formula(x, h, w):
    rows = []
    for row in x:
        h = np.tanh((row + h) @ w)
        rows.append(h)
    return [np.concatenate(rows), h]


H, W = spread(1, 3, seed=1), spread(3, 3, seed=2) / 4
for name, open_ in [
    ("invariant_input", {}),
    ("open_dimensions", dict(shapes=["?,3", None, None], more=[[spread(2, 3) / 4, H, W]])),
]:
    inputs = [spread(4, 3) / 4, H, W]
    case(f"tensor_iterator/{name}", inputs, invariant, invariant_formula, tolerance=1e-4, **open_)


def always(h):
    return TRUE


def below(limit):
    return lambda h: make("Less-1", make("ReduceMax-1", h, axes(0, 1), keep_dims=False), const(f32(limit)))


def adding(count, with_iteration=False, go_on=always):
    """A loop that adds an input, and the number of the iteration, to its state."""

    def step(x, h, i=None):
        added = make("Add-1", h, x)
        if i is not None:
            added = make("Add-1", added, make("Convert-1", i, destination_type="f32"))
        return [added, go_on(added)]

    def build(x, h):
        parameters, results, model = body("body", [ROW, ROW, INDEX] if with_iteration else [ROW, ROW], step)
        node = loop(model, [2 if with_iteration else -1, 1], scalar(count))
        node.set_invariant_input(parameters[0], x)
        node.set_merged_input(parameters[1], h, results[0].output(0))
        return last_and_all(node, results[0])

    return build


def counted(x, h, count, with_iteration=False):
    rows = []
    for i in range(count):
        h = h + x + (i if with_iteration else 0)
        rows.append(h)
    return [h, np.concatenate(rows)]


L = [f32([[1, 2, 3]]), f32([[0.5, 0, -1]])]
case("loop/trip_count", L, adding(3), lambda x, h: counted(x, h, 3))
case("loop/current_iteration", L, adding(4, True), lambda x, h: counted(x, h, 4, True))
case("loop/until_condition", L, adding(-1, go_on=below(7)), lambda x, h: counted(x, h, 3))


def reversed_parts(x):
    # Parts of 2 from the end, and what comes of each from the end or from the front.
    doubles_and_sums = ops(op("Multiply-1", const(f32(2))), op("ReduceSum-1", axes(1), keep_dims=True))
    parameters, results, model = body("body", [(ov.Type.f32, [2, 2])], doubles_and_sums)
    node = opset15.tensor_iterator()
    node.set_body(model)
    node.set_sliced_input(parameters[0], x, -1, -2, 2, 0, 1)
    return [
        node.get_concatenated_slices(results[0].output(0), -1, -2, 2, 0, 1),
        node.get_concatenated_slices(results[1].output(0), 0, 1, 1, -1, 1),
    ]


case(
    "tensor_iterator/parts_backwards",
    [spread(2, 6)],
    reversed_parts,
    lambda x: [x * 2, x.reshape(2, 3, 2).sum(2)[:, ::-1]],
)


def run_time(count, condition, x):
    """A loop whose count and condition are inputs, with a state and all its values."""
    parameters, results, model = body(
        "body",
        [ROW, INDEX],
        lambda h, i: [
            h := make("Add-1", make("Multiply-1", h, const(f32(2))), make("Convert-1", i, destination_type="f32")),
            below(50)(h),
        ],
    )
    node = loop(model, [1, 1], count, condition)
    node.set_merged_input(parameters[0], x, results[0].output(0))
    return last_and_all(node, results[0])


def run_time_formula(count, condition, x):
    rows, goes_on, i = [], bool(condition), 0
    while goes_on and (count < 0 or i < count):
        x = x * 2 + i
        rows.append(x)
        goes_on, i = x.max() < 50, i + 1
    return [x, np.concatenate([f32(np.zeros((0, 3))), *rows])]


ONE = f32([[1, 2, 3]])
case(
    "loop/count_and_condition_at_run_time",
    [i64(2), boolean(True), ONE],
    run_time,
    run_time_formula,
    more=[[i64(count), boolean(goes_on), ONE] for count, goes_on in [(-1, 1), (9, 1), (0, 1), (3, 0)]],
    formula="the CPU plugin gives the outputs of another run where there are no iterations",
)
case("loop/no_trips", L, adding(0), lambda x, h: [h, f32(np.zeros((0, 3)))], formula="the CPU plugin divides by zero")


def growing(x):
    # The state is longer after each iteration.
    parameters, results, model = body(
        "body", [(ov.Type.f32, "?,3")], lambda h: [make("Concat-1", h, const(f32([[7, 8, 9]])), axis=0), TRUE]
    )
    node = loop(model, [-1, 1], scalar(3))
    node.set_merged_input(parameters[0], x, results[0].output(0))
    return node.get_iter_value(results[0].output(0), -1)


case("loop/growing_state", [ONE], growing, lambda x: np.concatenate([x, *[f32([[7, 8, 9]])] * 3]))


def nested(x, k):
    # In the inner loop, a constant of the outer body, and an input that is a constant.
    def step(h, row, i, k):
        row = make("Multiply-1", row, make("Convert-1", i, destination_type="f32"))
        return [make("Add-1", make("Multiply-1", h, k), row), TRUE]

    def inner(h, row, k):
        parameters, results, model = body("inner", [ROW, ROW, INDEX, ROW], step)
        node = loop(model, [2, 1], scalar(2))
        node.set_merged_input(parameters[0], h, results[0].output(0))
        node.set_invariant_input(parameters[1], make("Multiply-1", row, const(f32(0.5))).output(0))
        node.set_invariant_input(parameters[3], k)
        return node.get_iter_value(results[0].output(0), -1)

    parameters, results, model = body("body", [ROW] * 3, inner)
    node = opset15.tensor_iterator()
    node.set_body(model)
    node.set_sliced_input(parameters[1], x, 0, 1, 1, -1, 0)
    node.set_merged_input(parameters[0], const(f32([[0, 0, 0]])).node().output(0), results[0].output(0))
    node.set_invariant_input(parameters[2], k)
    return [
        node.get_iter_value(results[0].output(0), -1),
        node.get_concatenated_slices(results[0].output(0), -1, -1, 1, 0, 0),
    ]


def nested_formula(x, k):
    h, rows = f32(np.zeros((1, 3))), []
    for row in x:
        for i in range(2):
            h = h * k + row * 0.5 * i
        rows.append(h)
    return [h, np.concatenate(rows[::-1])]


case("tensor_iterator/nested", [spread(3, 3), const(f32([[0.5, 1, -1]]))], nested, nested_formula)


def choosing(x):
    # An If in the body of a loop, whose condition is another one in each iteration.
    parameters, results, model = body(
        "body",
        [ROW, INDEX],
        lambda h, i: [
            *if_(
                make("Equal-1", make("FloorMod-1", i, scalar(2)), scalar(0)).output(0),
                [h],
                op("Multiply-1", const(f32(3))),
                op("Add-1", const(f32([[1, 2, 3]]))),
            ),
            TRUE,
        ],
    )
    node = loop(model, [1, 1], scalar(4))
    node.set_merged_input(parameters[0], x, results[0].output(0))
    return node.get_iter_value(results[0].output(0), -1)


case("loop/with_if", [ONE], choosing, lambda x: (x * 3 + ONE) * 3 + ONE)


def accumulating(x):
    # A variable of the body goes on from iteration to iteration, and from run to run.
    parameter = ov.op.Parameter(ov.Type.f32, ov.PartialShape([1, 3]))
    total = make("Add-1", parameter.output(0), variable("total", [1, 1, 1]))
    result, sink = ov.op.Result(total.output(0)), assign(total, "total")
    model = ov.Model([result], [sink], [parameter], "body")
    rename(model, "body_")
    for end, name in ((parameter, "body_input"), (result, "body_output")):
        end.friendly_name = name
        # Or the file would have one that counts what has been made before.
        end.output(0).get_tensor().set_names({name})
    node = opset15.tensor_iterator()
    node.set_body(model)
    node.set_sliced_input(parameter, x, 0, 1, 1, -1, 0)
    return node.get_concatenated_slices(result.output(0), 0, 1, 1, -1, 0)


case("tensor_iterator/variable_in_body", [offsets(2, 3)], accumulating, lambda x: [None], more=[[offsets(2, 3) + 5]])

# --- cases that share a model ----------------------------------------------------------------------

join("if/constant", "constant_true", "constant_false")
