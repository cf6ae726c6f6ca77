"""Recurrent cells and sequences."""

import numpy as np
from framework import *

from draws import operation

# Of each network its gates, states and default activations.
NETWORKS = {
    "LSTM": (4, 2, ["sigmoid", "tanh", "tanh"]),
    "GRU": (3, 1, ["sigmoid", "tanh"]),
    "RNN": (1, 1, ["tanh"]),
}


@operation("RNNCell-1 LSTMCell-1 LSTMCell-4 GRUCell-3 RNNSequence-5 LSTMSequence-5 GRUSequence-5")
def recurrent(draw, kind):
    gates, states, activations = NETWORKS[kind[: 4 if kind.startswith("L") else 3]]
    is_sequence = "Sequence" in kind
    type_ = draw.type(["f16", "f32"])
    # Without a batch OpenVINO mostly crashes.
    batch = draw.size(0 if draw.flag(0.1) else 1)
    features, hidden, time = draw.size(1), draw.integer(1, 4), draw.size(1)
    if draw.flag():
        activations = [draw.choice("sigmoid", "tanh", "relu") for _ in activations]
    attributes = {"hidden_size": hidden, "activations": activations}
    # The activations do not use these.
    unused = {f"activations_{it}": [draw.real(0, 1) for _ in activations] for it in ("alpha", "beta")}
    attributes |= draw.optional(unused, likely=0.4)
    clip = {"clip": draw.choice(0.25, 0.5, 1.0, 8.0)}
    bias_gates = gates
    if kind.startswith("GRU") and draw.flag(0.7):
        attributes["linear_before_reset"] = draw.flag()
        bias_gates += attributes["linear_before_reset"]
    direction = draw.choice("forward", "reverse", "bidirectional")
    directions = [2 if direction == "bidirectional" else 1] if is_sequence else []

    def numbers(*shape):
        return draw.numbers(type_, *shape, low=-1, high=1)

    inputs = [numbers(batch, *([time] if is_sequence else []), features)]
    inputs += [numbers(batch, *directions, hidden) for _ in range(states)]
    if is_sequence:
        attributes["direction"] = direction
        least = time if draw.flag() else draw.integer(0, 1)
        lengths = draw.indices(least, time, batch)
        inputs.append(draw.fed(lengths))
    if is_sequence and (lengths < time).any():
        # If a size is open, OpenVINO's CPU plugin forgets the lengths, unless it must clip.
        attributes |= clip
    elif draw.turn % 3:
        attributes |= clip if draw.turn % 3 == 1 else {"clip": 0.0}
    else:
        draw.left_out.append("clip")
    weights = [numbers(*directions, gates * hidden, features), numbers(*directions, gates * hidden, hidden)]
    weights.append(numbers(*directions, bias_gates * hidden))
    if kind == "LSTMCell-1" and draw.flag(0.3):
        # No bias.
        weights.pop()
    elif kind == "LSTMCell-1" and draw.flag():
        # No peepholes.
        weights.append(np.zeros((3 * hidden,), DTYPES[type_]))
    return inputs + [draw.fed(it, constant=0.8) for it in weights], op(kind, **attributes)
