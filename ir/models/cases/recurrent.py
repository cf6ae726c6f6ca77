"""Recurrent cells and sequences, state, control flow."""

import openvino.opset15 as opset15
import openvino.opset6 as opset6

from framework import *

# --- formulas -------------------------------------------------------------------------------------

ACTIVATIONS = {
    "sigmoid": lambda x, *_: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, *_: np.tanh(x),
    "relu": lambda x, *_: np.maximum(x, 0),
}


def clipped(x, clip):
    return np.clip(x, -clip, clip) if clip else x


def lstm_cell(x, h, c, w, r, b, activations=("sigmoid", "tanh", "tanh"), clip=0):
    """The order of the gates is f, i, c, o."""
    f, g, k = (ACTIVATIONS[it] for it in activations)
    gates = np.split(clipped(x @ w.T + h @ r.T + b, clip), 4, 1)
    c = f(gates[0]) * c + f(gates[1]) * g(gates[2])
    return f(gates[3]) * k(c), c


def gru_cell(x, h, w, r, b, activations=("sigmoid", "tanh"), clip=0, linear_before_reset=False):
    """The order of the gates is z, r, h."""
    f, g = (ACTIVATIONS[it] for it in activations)
    wz, wr, wh = np.split(w, 3)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh, *brh = np.split(b, 4 if linear_before_reset else 3)
    z = f(clipped(x @ wz.T + h @ rz.T + bz, clip))
    reset = f(clipped(x @ wr.T + h @ rr.T + br, clip))
    if linear_before_reset:
        hidden = x @ wh.T + reset * (h @ rh.T + brh[0]) + bh
    else:
        hidden = x @ wh.T + (reset * h) @ rh.T + bh
    return ((1 - z) * g(clipped(hidden, clip)) + z * h,)


def rnn_cell(x, h, w, r, b, activations=("tanh",), clip=0):
    return (ACTIVATIONS[activations[0]](clipped(x @ w.T + h @ r.T + b, clip)),)


def sequence(cell, direction, x, *states_lengths_weights, states, **attributes):
    """Y [batch, directions, time, hidden] and the last states; past a sequence's length Y is zero."""
    initial, lengths = states_lengths_weights[:states], states_lengths_weights[states]
    weights = states_lengths_weights[states + 1 :]
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    batch, time, _ = x.shape
    y = np.zeros((batch, len(directions), time, initial[0].shape[-1]))
    last = [it.astype(np.float64).copy() for it in initial]
    for d, backward in enumerate(directions):
        for n in range(batch):
            state = tuple(it[n : n + 1, d].astype(np.float64) for it in initial)
            steps = range(int(lengths[n]))
            for t in reversed(steps) if backward else steps:
                state = cell(
                    x[n : n + 1, t].astype(np.float64), *state, *(it[d] for it in weights), **attributes
                )
                y[n, d, t] = state[0]
            for it, value in zip(last, state):
                it[n, d] = value
    return [f32(y), *map(f32, last)]


# --- LSTM -----------------------------------------------------------------------------------------

BATCH, TIME, INPUT, HIDDEN = 2, 4, 3, 2
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weights(kind, directions, bias_gates=None):
    gates = GATES[kind]
    return [
        const(spread(directions, gates * HIDDEN, INPUT, seed=5) / 4),
        const(spread(directions, gates * HIDDEN, HIDDEN, seed=6) / 4),
        const(spread(directions, (bias_gates or gates) * HIDDEN, seed=7) / 8),
    ]


def states(number, directions=1):
    return [spread(BATCH, directions, HIDDEN, seed=8 + i) / 4 for i in range(number)]


X = spread(BATCH, TIME, INPUT) / 2
CELLS = {"LSTM": lstm_cell, "GRU": gru_cell, "RNN": rnn_cell}
DEFAULT = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


def recurrent(
    name,
    kind,
    direction="forward",
    lengths=(TIME, TIME),
    opset=5,
    lengths_constant=True,
    x=X,
    shapes=None,
    more=(),
    edit=(),
    formula=None,
    **attributes,
):
    attributes.setdefault("activations", DEFAULT[kind])
    directions = 2 if direction == "bidirectional" else 1
    number = 2 if kind == "LSTM" else 1
    bias_gates = 4 if attributes.get("linear_before_reset") else None
    lengths = const(i32(lengths)) if lengths_constant else i32(lengths)
    case(
        f"{kind.lower()}_sequence",
        name,
        [x, *states(number, directions), lengths, *weights(kind, directions, bias_gates)],
        op(
            f"{kind}Sequence-{opset}",
            hidden_size=HIDDEN,
            direction=direction,
            **{k: list(v) if isinstance(v, tuple) else v for k, v in attributes.items()},
        ),
        lambda *inputs: sequence(CELLS[kind], direction, *inputs, states=number, **attributes),
        shapes=shapes,
        more=more,
        edit=edit,
        formula=formula,
        tolerance=1e-4,
    )


def cell(name, kind, opset, edit=(), formula=None, **attributes):
    attributes.setdefault("activations", DEFAULT[kind])
    number = 2 if kind == "LSTM" else 1
    bias_gates = 4 if attributes.get("linear_before_reset") else None
    case(
        f"{kind.lower()}_cell",
        name,
        [
            X[:, 0],
            *(it[:, 0] for it in states(number)),
            *(const(it.values[0]) for it in weights(kind, 1, bias_gates)),
        ],
        op(
            f"{kind}Cell-{opset}",
            hidden_size=HIDDEN,
            **{k: list(v) if isinstance(v, tuple) else v for k, v in attributes.items()},
        ),
        lambda *inputs: [f32(it) for it in CELLS[kind](*inputs, **attributes)],
        edit=edit,
        formula=formula,
        tolerance=1e-4,
    )


for kind in ("LSTM", "GRU", "RNN"):
    for direction in ("forward", "reverse", "bidirectional"):
        recurrent(direction, kind, direction)
recurrent("short_lengths", "LSTM", lengths=(2, 4))
recurrent("short_lengths_bidirectional", "LSTM", "bidirectional", lengths=(3, 1))
recurrent("short_lengths", "GRU", "reverse", lengths=(2, 4))
recurrent("lengths_are_input", "LSTM", lengths_constant=False, more=[[X, *states(2), i32([1, 3])]])
recurrent("clip", "LSTM", clip=0.5)
recurrent("clip", "GRU", clip=0.5)
recurrent("activations", "LSTM", activations=("sigmoid", "relu", "tanh"))
recurrent("activations", "RNN", activations=("relu",))
recurrent("linear_before_reset", "GRU", linear_before_reset=True)
recurrent("linear_before_reset_bidirectional", "GRU", "bidirectional", linear_before_reset=True)
recurrent("upper_case", "LSTM", "reverse", edit=[attribute("direction", "reverse", "REVERSE")])
recurrent(
    "without_optional_attributes",
    "LSTM",
    edit=[(re.compile(' (activations(_alpha|_beta)?|clip)="[^"]*"'), "")],
    formula="the defaults are the text's; without activations OpenVINO refuses the file",
)
case(
    "lstm_sequence",
    "open_dimensions",
    [X, *states(2)],
    lambda x, h, c: make(
        "LSTMSequence-5",
        x,
        h,
        c,
        make(
            "Broadcast-3",
            make("Gather-8", make("ShapeOf-3", x, output_type="i64"), axes(1), scalar(0)),
            make("Gather-8", make("ShapeOf-3", x, output_type="i64"), axes(0), scalar(0)),
            mode="numpy",
        ),
        *weights("LSTM", 1),
        hidden_size=HIDDEN,
        direction="forward",
        activations=[*DEFAULT["LSTM"]],
    ),
    lambda x, h, c: sequence(
        lstm_cell,
        "forward",
        x,
        h,
        c,
        [x.shape[1]] * len(x),
        *(it.values for it in weights("LSTM", 1)),
        states=2,
    ),
    shapes=["?,?,3", "?,1,2", "?,1,2"],
    more=[[spread(1, 6, 3), *(it[:1] for it in states(2))]],
    tolerance=1e-4,
)

cell("plain", "LSTM", 4)
cell("revision_1", "LSTM", 1)
cell("clip_and_activations", "LSTM", 4, clip=0.5, activations=("sigmoid", "relu", "tanh"))
cell("plain", "GRU", 3)
cell("linear_before_reset", "GRU", 3, linear_before_reset=True)
cell("clip", "GRU", 3, clip=0.5)
cell("experimental", "GRU", 3, edit=[opset("GRUCell", 3, "experimental")])
cell("plain", "RNN", 3)
cell("relu_and_clip", "RNN", 3, activations=("relu",), clip=0.5)

# --- state ----------------------------------------------------------------------------------------

# Each data set is the first run of a new state.
case(
    "read_value",
    "accumulates",
    [f32([[1, 2, 3]])],
    lambda x: [
        total := make(
            "Add-1",
            x,
            opset6.read_value(
                make("Broadcast-3", scalar(0.5, np.float32), axes(1, 3), mode="numpy"),
                "total",
                ov.Type.f32,
                ov.PartialShape([1, 3]),
            ),
        ),
        opset6.assign(total, "total"),
    ],
    lambda x: x + f32(0.5),
    more=[[f32([[4, 5, 6]])]],
)
case(
    "read_value",
    "revision_3",
    [f32([[1, 2, 3]])],
    lambda x: [
        total := make("Add-1", x, read := make("ReadValue-3", const(f32([[7, 8, 9]])), variable_id="total")),
        make("Assign-3", total, variable_id="total"),
        make("Relu-1", read),
    ],
    lambda x: [x + f32([[7, 8, 9]]), f32([[7, 8, 9]])],
)


def empty_past(x):
    batch = make("Gather-8", make("ShapeOf-3", x, output_type="i64"), axes(0), scalar(0))
    return make(
        "Broadcast-3", scalar(0, np.float32), make("Concat-1", batch, axes(0, 3), axis=0), mode="numpy"
    )


def cache(x, initial, beams=None):
    past = opset6.read_value(initial, "past", ov.Type.f32, ov.PartialShape("?,?,3"))
    if beams is not None:
        past = make("Gather-8", past, beams, scalar(0))
    past = make("Concat-1", past, x, axis=1)
    return [past, opset6.assign(past, "past")]


case(
    "read_value",
    "cache",
    [offsets(1, 2, 3)],
    lambda x: cache(x, const(f32(np.zeros((1, 0, 3)))).node()),
    lambda x: x,
    shapes=["1,?,3"],
    more=[[offsets(1, 1, 3)]],
)
UNABLE = "the CPU plugin fails where the batch is open"
case(
    "read_value",
    "cache_of_open_batch",
    [offsets(1, 2, 3)],
    lambda x: cache(x, empty_past(x)),
    lambda x: x,
    shapes=["?,?,3"],
    more=[[offsets(2, 1, 3)]],
    formula=UNABLE,
)
case(
    "read_value",
    "cache_with_beams",
    [offsets(2, 2, 3), i32([1, 0])],
    lambda x, beams: cache(x, empty_past(x), beams),
    lambda x, beams: x,
    shapes=["?,?,3", "?"],
    more=[[offsets(3, 1, 3), i32([0, 0, 1])]],
    formula=UNABLE,
)
case(
    "read_value",
    "initial_value_of_input",
    [f32([[1, 2, 3]]), f32([[-1, -2, -3]])],
    lambda x, y: [
        kept := opset6.read_value(y, "kept", ov.Type.f32, ov.PartialShape([1, 3])),
        opset6.assign(make("Subtract-1", kept, x), "kept"),
        make("Multiply-1", kept, x),
    ],
    lambda x, y: [y, x * y],
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
        "if",
        f"constant_{str(value).lower()}",
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
    "if",
    "condition_is_input",
    [boolean(True), f32([1, 2]), f32([3, 4])],
    lambda c, x, y: if_(c, [x, y], lambda x, y: make("Add-1", x, y), lambda x, y: make("Subtract-1", x, y)),
    lambda c, x, y: x + y if c else x - y,
    more=[[boolean(False), f32([1, 2]), f32([3, 4])]],
)
case(
    "if",
    "condition_of_rank_1",
    [f32([[1, 2]])],
    lambda x: if_(const(boolean([True])), [x], lambda x: make("Relu-1", x), lambda x: make("Negative-1", x)),
    lambda x: np.maximum(x, 0),
)
case(
    "if",
    "nested",
    [boolean(True), f32([1, -2])],
    lambda c, x: if_(
        c,
        [c, x],
        lambda c, x: if_(
            const(boolean(False)), [x], lambda x: make("Relu-1", x), lambda x: make("Negative-1", x)
        ),
        lambda c, x: make("Abs-1", x),
    ),
    lambda c, x: -x if c else np.abs(x),
    more=[[boolean(False), f32([1, -2])]],
)
# The branches' outputs have other shapes.
case(
    "if",
    "constant_other_shapes",
    [f32([[1, 2, 3]])],
    lambda x: if_(
        const(boolean(True)),
        [x],
        lambda x: make("Squeeze-1", x, axes(0)),
        lambda x: make("Concat-1", x, x, axis=0),
    ),
    lambda x: x[0],
)

# --- TensorIterator, Loop -------------------------------------------------------------------------


def iterate(node, parameters, results, model, connect):
    (getattr(node, "set_body", None) or node.set_function)(model)
    return connect(node, parameters, results)


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
    case("tensor_iterator", name, T, build, formula)


def invariant(x, h, w):
    parameters, results, model = body(
        "body",
        [(ov.Type.f32, [1, 3]), (ov.Type.f32, [1, 3]), (ov.Type.f32, [3, 3])],
        lambda x, h, w: [
            new := make(
                "Tanh-1", make("MatMul-1", make("Add-1", x, h), w, transpose_a=False, transpose_b=False)
            )
        ],
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


case(
    "tensor_iterator",
    "invariant_input",
    [spread(4, 3) / 4, spread(1, 3, seed=1), spread(3, 3, seed=2) / 4],
    invariant,
    invariant_formula,
    tolerance=1e-4,
)
case(
    "tensor_iterator",
    "open_dimensions",
    [spread(4, 3) / 4, spread(1, 3, seed=1), spread(3, 3, seed=2) / 4],
    invariant,
    invariant_formula,
    shapes=["?,3", None, None],
    more=[[spread(2, 3) / 4, spread(1, 3, seed=1), spread(3, 3, seed=2) / 4]],
    tolerance=1e-4,
)


def loop(trip_count, condition, go_on, with_iteration):
    def build(x, h):
        inputs = [(ov.Type.f32, [1, 3]), (ov.Type.f32, [1, 3])]
        inputs += [(ov.Type.i64, [])] if with_iteration else []

        def step(x, h, i=None):
            added = make("Add-1", h, x)
            if i is not None:
                added = make("Add-1", added, make("Convert-1", i, destination_type="f32"))
            return [added, go_on(added)]

        parameters, results, model = body("body", inputs, step)
        node = opset15.loop(scalar(trip_count).node(), const(boolean(condition)).node())
        node.set_function(model)
        node.set_special_body_ports([2 if with_iteration else -1, 1])
        node.set_invariant_input(parameters[0], x)
        node.set_merged_input(parameters[1], h, results[0].output(0))
        return [
            node.get_iter_value(results[0].output(0), -1),
            node.get_concatenated_slices(results[0].output(0), 0, 1, 1, -1, 0),
        ]

    return build


def counted(x, h, count, with_iteration):
    rows = []
    for i in range(count):
        h = h + x + (i if with_iteration else 0)
        rows.append(h)
    return [h, np.concatenate(rows)]


L = [f32([[1, 2, 3]]), f32([[0.5, 0, -1]])]
case(
    "loop",
    "trip_count",
    L,
    loop(3, True, lambda _: const(boolean(True)), False),
    lambda x, h: counted(x, h, 3, False),
)
case(
    "loop",
    "current_iteration",
    L,
    loop(4, True, lambda _: const(boolean(True)), True),
    lambda x, h: counted(x, h, 4, True),
)
case(
    "loop",
    "until_condition",
    L,
    loop(
        -1,
        True,
        lambda h: make("Less-1", make("ReduceMax-1", h, axes(0, 1), keep_dims=False), const(f32(7))),
        False,
    ),
    lambda x, h: counted(x, h, 3, False),
)

# --- cases that share a model ----------------------------------------------------------------------

join("lstm_sequence", "directions", "forward", "reverse", "bidirectional")
join("gru_sequence", "directions", "forward", "reverse", "bidirectional")
join("rnn_sequence", "directions", "forward", "reverse", "bidirectional")
join("lstm_sequence", "short_lengths", "short_lengths", "short_lengths_bidirectional")
join("lstm_sequence", "clip_and_activations", "clip", "activations")
join("gru_sequence", "linear_before_reset", "linear_before_reset", "linear_before_reset_bidirectional")
join("lstm_cell", "revisions", "plain", "revision_1", "clip_and_activations")
join("gru_cell", "plain", "plain", "linear_before_reset", "clip")
join("rnn_cell", "plain", "plain", "relu_and_clip")
join("if", "constant", "constant_true", "constant_false")
