"""Recurrent cells and sequences."""

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


def sequence(cell, direction, x, *states_lengths_weights, states, activations=None, **attributes):
    """Y [batch, directions, time, hidden] and the last states; past a sequence's length Y is zero. Activations may be
    those of one direction after the other."""
    initial, lengths = states_lengths_weights[:states], states_lengths_weights[states]
    weights = states_lengths_weights[states + 1 :]
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    batch, time, _ = x.shape
    y = np.zeros((batch, len(directions), time, initial[0].shape[-1]))
    last = [it.astype(np.float64).copy() for it in initial]
    count = {lstm_cell: 3, gru_cell: 2, rnn_cell: 1}[cell]
    for d, backward in enumerate(directions):
        if activations:
            attributes["activations"] = activations[d * count :][:count] or activations
        for n in range(batch):
            state = tuple(it[n : n + 1, d].astype(np.float64) for it in initial)
            steps = range(int(lengths[n]))
            if not steps:
                # The specification does not say what is last.
                state = tuple(np.zeros_like(it) for it in state)
            for t in reversed(steps) if backward else steps:
                of_weights = (it[d] for it in weights)
                step = x[n : n + 1, t].astype(np.float64)
                state = cell(step, *state, *of_weights, **attributes)
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
    without_reference=None,
    **attributes,
):
    attributes.setdefault("activations", DEFAULT[kind])
    directions = 2 if direction == "bidirectional" else 1
    number = 2 if kind == "LSTM" else 1
    bias_gates = 4 if attributes.get("linear_before_reset") else None
    lengths = const(i32(lengths)) if lengths_constant else i32(lengths)
    case(
        f"{kind.lower()}_sequence/{name}",
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
        without_reference=without_reference,
        tolerance=1e-4,
    )


def cell(name, kind, opset, edit=(), formula=None, **attributes):
    attributes.setdefault("activations", DEFAULT[kind])
    number = 2 if kind == "LSTM" else 1
    bias_gates = 4 if attributes.get("linear_before_reset") else None
    case(
        f"{kind.lower()}_cell/{name}",
        [X[:, 0], *(it[:, 0] for it in states(number)), *(const(it.values[0]) for it in weights(kind, 1, bias_gates))],
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
recurrent(
    "lengths_are_input",
    "LSTM",
    lengths_constant=False,
    more=[[X, *states(2), i32([1, 3])], [X, *states(2), i32([0, 2])]],
)
recurrent("clip", "LSTM", clip=0.5)
recurrent("clip", "GRU", clip=0.5)
recurrent("activations", "LSTM", activations=("sigmoid", "relu", "tanh"))
recurrent("activations", "RNN", activations=("relu",))
for kind in ("LSTM", "GRU", "RNN"):
    recurrent("activations_of_both_directions", kind, "bidirectional", activations=DEFAULT[kind] * 2)
recurrent(
    "activations_of_each_direction",
    "GRU",
    "bidirectional",
    activations=("sigmoid", "tanh", "tanh", "relu"),
    formula="as in ONNX; OpenVINO takes the first ones for both directions",
    without_reference="it takes them, too",
)
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
    "lstm_sequence/open_dimensions",
    [X, *states(2)],
    lambda x, h, c: make(
        "LSTMSequence-5",
        x,
        h,
        c,
        make("Broadcast-3", dims(x, 1), dims(x, 0), mode="numpy"),
        *weights("LSTM", 1),
        hidden_size=HIDDEN,
        direction="forward",
        activations=[*DEFAULT["LSTM"]],
    ),
    lambda x, h, c: sequence(
        lstm_cell, "forward", x, h, c, [x.shape[1]] * len(x), *(it.values for it in weights("LSTM", 1)), states=2
    ),
    shapes=["?,?,3", "?,1,2", "?,1,2"],
    more=[[spread(count, 6, 3), *(it[:count] for it in states(2))] for count in (1, 0)],
    tolerance=1e-4,
)


def of_mask(x, mask, state):
    """Only a run knows that X has one feature, as W."""
    rows = make("Squeeze-1", make("NonZero-3", mask, output_type="i64"), axes(0))
    x = make("Gather-8", x, rows, scalar(2), batch_dims=0)
    rest = [const(i32([TIME] * BATCH)), *(const(f32(np.ones(shape))) for shape in ((1, 1, 1), (1, 1, 1), (1, 1)))]
    return make("RNNSequence-5", x, state, *rest, hidden_size=1, direction="forward", activations=["relu"])


case(
    "rnn_sequence/features_of_a_mask",
    [X, boolean([False, True, False]), np.zeros((BATCH, 1, 1), np.float32)],
    of_mask,
    lambda x, mask, state: sequence(
        rnn_cell,
        "forward",
        x[..., mask],
        state,
        [TIME] * BATCH,
        *(np.ones(shape) for shape in ((1, 1, 1), (1, 1, 1), (1, 1))),
        states=1,
        activations=("relu",),
    ),
    tolerance=1e-4,
)


# --- a batch that is an expression of the sizes of the inputs ---------------------------------------


def from_zeros(kind, direction, x):
    """A sequence whose initial states are zeros, made from the batch of X, and whose lengths are all of time."""
    shape = shape_of(x)
    batch, time = (make("Gather-8", shape, axes(axis), scalar(0)) for axis in (0, 1))
    directions = 2 if direction == "bidirectional" else 1
    start = make("Broadcast-3", real(0), make("Concat-1", batch, axes(directions, HIDDEN), axis=0))
    lengths = make("Broadcast-3", make("Squeeze-1", time, axes(0)), batch, mode="numpy")
    states = [start] * (2 if kind == "LSTM" else 1)
    attributes = {"hidden_size": HIDDEN, "direction": direction, "activations": [*DEFAULT[kind]]}
    return make(f"{kind}Sequence-5", x, *states, lengths, *weights(kind, directions), **attributes)


def from_zeros_formula(kind, direction, x):
    directions = 2 if direction == "bidirectional" else 1
    states = [np.zeros((len(x), directions, HIDDEN))] * (2 if kind == "LSTM" else 1)
    lengths = [x.shape[1]] * len(x)
    each = [it.values for it in weights(kind, directions)]
    return sequence(CELLS[kind], direction, x, *states, lengths, *each, states=len(states))


KINDS = [("LSTM", "bidirectional"), ("GRU", "reverse"), ("RNN", "forward")]


def of_expressions(x):
    """With a product as their batch, and with a half."""
    product = make("Reshape-1", x, axes(-1, TIME, INPUT), special_zero=False)
    half = make(
        "Split-1",
        make("Squeeze-1", make("Slice-8", x, axes(0), axes(1), axes(1), axes(1)), axes(1)),
        scalar(0),
        num_splits=2,
    )
    outputs = [it for kind in KINDS for it in from_zeros(*kind, product).outputs()]
    return [*outputs, *from_zeros("RNN", "forward", half.output(1)).outputs()]


def of_expressions_formula(x):
    product, half = x.reshape(-1, TIME, INPUT), np.split(x[:, 0], 2)[1]
    each = [(*kind, product) for kind in KINDS] + [("RNN", "forward", half)]
    return [it for some in each for it in from_zeros_formula(*some)]


EXPRESSION = [spread(2, 3, TIME, INPUT) / 2]
MORE_EXPRESSIONS = [[spread(4, 1, TIME, INPUT, seed=1) / 2]]
case(
    "lstm_sequence/batch_is_an_expression",
    EXPRESSION,
    of_expressions,
    of_expressions_formula,
    shapes=[f"?,?,{TIME},{INPUT}"],
    more=MORE_EXPRESSIONS,
    tolerance=1e-4,
)


def in_loop(x):
    parameters, results, model = body("body", [x], lambda x: [*of_expressions(x), const(boolean(True))])
    node = loop(model, [-1, len(results) - 1], scalar(2))
    node.set_invariant_input(parameters[0], x)
    return [node.get_iter_value(it.output(0), -1) for it in results[:-1]]


case(
    "lstm_sequence/batch_is_an_expression_in_loop",
    EXPRESSION,
    in_loop,
    of_expressions_formula,
    shapes=[f"?,?,{TIME},{INPUT}"],
    more=MORE_EXPRESSIONS,
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


def sums():
    """The sum of the first steps, of many steps: each summand is too small for one in half precision."""
    steps = np.full((1, 64, 2), 1 / 64, np.float16)
    steps[:, 0] = 64
    inputs = [steps, f16(np.zeros((1, 1, 2))), const(i32([64])), const(f16(np.eye(2)[None]))]
    inputs += [const(f16(np.eye(2)[None])), const(f16(np.zeros((1, 2))))]

    def formula(x, *_):
        y = x.astype(np.float64).cumsum(1)
        return [f16(y[:, None]), f16(y[:, None, -1])]

    case(
        "rnn_sequence/half",
        inputs,
        op("RNNSequence-5", hidden_size=2, direction="forward", activations=["relu"]),
        formula,
        tolerance=1e-3,
    )


sums()

# --- cases that share a model ----------------------------------------------------------------------

join("lstm_sequence/directions", "forward", "reverse", "bidirectional")
join("gru_sequence/directions", "forward", "reverse", "bidirectional")
join("rnn_sequence/directions", "forward", "reverse", "bidirectional")
join("lstm_sequence/short_lengths", "short_lengths", "short_lengths_bidirectional")
join("lstm_sequence/clip_and_activations", "clip", "activations")
join("gru_sequence/linear_before_reset", "linear_before_reset", "linear_before_reset_bidirectional")
join("lstm_cell/revisions", "plain", "revision_1", "clip_and_activations")
join("gru_cell/plain", "plain", "linear_before_reset", "clip")
join("rnn_cell/plain", "plain", "relu_and_clip")
