"""If, TensorIterator and Loop, with bodies of about one operation."""

import openvino.opset15 as opset15

from framework import *

from . import operation

TYPES = ["f16", "f32", "i32", "i64"]

# Of one and of two tensors of one type and shape, what gives another one.
UNARY = [
    op("Negative-1"),
    op("Abs-1"),
    op("Clamp-1", min=-2.0, max=1.0),
    op("Sign-1"),
    op("Relu-1"),
    lambda x: x,
]
BINARY = [op(f"{it}-1") for it in ("Add", "Subtract", "Maximum", "Minimum")]


def resizing(draw, rank):
    """What changes the sizes of a tensor, but not its rank."""
    if rank == 0:
        return draw.choice(*UNARY)
    axis = draw.integer(0, rank - 1)
    return draw.choice(
        lambda x: make("Concat-1", x, x, axis=axis),
        lambda x: make("Slice-8", x, axes(1), axes(2**31 - 1), axes(1), axes(axis)),
        lambda x: make("ReduceSum-1", x, axes(axis), keep_dims=True),
        lambda x: make("Gather-8", x, axes(0, -1, 0), scalar(axis), batch_dims=0),
        lambda x: make("Tile-1", x, axes(*[2] * rank)),
    )


def of_other_rank(draw, rank):
    """What changes the type or the rank of a tensor."""
    return draw.choice(
        lambda x: make("ShapeOf-3", x, output_type="i64"),
        lambda x: make("Reshape-1", x, axes(-1), special_zero=False),
        lambda x: make("Unsqueeze-1", x, axes(rank)),
        lambda x: make("Convert-1", x, destination_type="i64"),
    )


@operation("If-8")
def if_(draw, kind):
    type_, shape, known = draw.type(TYPES), draw.shape(least=1), draw.flag()
    rank, count, outputs = len(shape), draw.integer(1, 3), draw.integer(1, 2)
    condition = np.array(draw.flag()).reshape(draw.choice((), (), (1,)))

    def some_output():
        first, second = draw.integer(0, count - 1), draw.integer(0, count - 1)
        unary, binary = draw.choice(*UNARY), draw.choice(*BINARY)
        # Where the condition is not known, the branches have outputs of one rank and type.
        unlike = of_other_rank(draw, rank) if known else resizing(draw, rank)
        values = draw.numbers(type_, *shape)
        return draw.choice(
            lambda *inputs: unary(inputs[first]),
            lambda *inputs: unary(inputs[first]),
            lambda *inputs: binary(inputs[first], inputs[second]),
            lambda *inputs: unlike(inputs[first]),
            lambda *inputs: const(values),
        )

    branches = [[some_output() for _ in range(outputs)] for _ in range(2)]

    def build(condition, *inputs):
        node = opset15.if_op(condition)
        parameters, results = [], []
        for name, set_body, some in (
            ("then", node.set_then_body, branches[0]),
            ("else", node.set_else_body, branches[1]),
        ):
            # Each body has all inputs, also those that it does not use.
            of_body = body(name, inputs, lambda *inputs: [it(*inputs) for it in some])
            set_body(of_body[2])
            parameters.append(of_body[0])
            results.append(of_body[1])
        for it, a, b in zip(inputs, *parameters):
            node.set_input(it, a, b)
        return [node.set_output(a, b) for a, b in zip(*results)]

    inputs = [draw.numbers(type_, *shape) for _ in range(count)]
    return [Const(condition) if known else condition, *inputs], build


def parts(axis, size, backwards):
    """start, stride, part_size, end and axis of a whole axis that is cut into parts."""
    return (-1, -size, size, 0, axis) if backwards else (0, size, size, -1, axis)


@operation("TensorIterator-1 Loop-5")
def iterate(draw, kind):
    """The body gets parts of inputs, tensors that are the same in all iterations, and states. All of them have one
    shape, but a state that grows. Each state becomes itself and something else, and there are other results."""
    is_loop, type_ = kind == "Loop-5", draw.type(TYPES)
    shape = [draw.choice(1, 1, 2, 3) for _ in range(draw.integer(1, 3))]
    rank, iterations = len(shape), 0 if draw.flag(0.03) else draw.integer(1, 4)
    along = list(range(rank))
    if is_loop:
        # OpenVINO has only parts of 1 forwards.
        shape[draw.integer(0, rank - 1)] = 1
        along = [it for it, size in enumerate(shape) if size == 1]

    def some_axis():
        return draw.choice(*along), not is_loop and draw.flag(0.4)

    cuts = [some_axis() for _ in range(draw.integer(0 if is_loop else 1, 2))]
    wholes, states = draw.integer(0 if cuts else 1, 1), draw.integer(0, 2)
    first_state, count = len(cuts) + wholes, len(cuts) + wholes + states
    # The axis along which the first state grows. OpenVINO crashes if that of a TensorIterator does.
    growing = draw.integer(0, rank - 1) if is_loop and states and draw.flag(0.15) else None
    fixed = [it for it in range(count) if growing is None or it != first_state]

    inputs, shapes = [], [list(shape) for _ in range(count)]
    for number in range(count):
        whole = list(shape)
        if number < len(cuts):
            whole[cuts[number][0]] *= iterations
        array = draw.numbers(type_, *whole)
        inputs.append(draw.fed(array, 0.15) if number else array)
    if growing is not None:
        shapes[first_state][growing] = -1

    # Whether there is another iteration: always, by its number, or by what the first state is.
    purpose = draw.choice("always", "number", "value") if is_loop else None
    if purpose == "value" and (not states or growing is not None):
        purpose = "always"
    has_number = is_loop and (purpose == "number" or draw.flag())
    number_type, most = draw.choice("i32", "i64"), draw.integer(0, 4)
    number = [(ov.Type(DTYPES[number_type]), draw.choice([], [1]))] if has_number else []
    adds_number, go_on = draw.flag(), const(boolean(draw.choice(True, [True])))

    operations = [(draw.choice(*BINARY), draw.choice(*fixed)) for _ in range(states)]
    others = [
        (draw.choice(*UNARY, resizing(draw, rank)), draw.choice(*fixed))
        for _ in range(draw.integer(0 if states else 1, 2))
    ]
    if not is_loop:
        # OpenVINO's CPU plugin counts the parts only of inputs that the body uses.
        others.append((draw.choice(*UNARY), draw.integer(0, len(cuts) - 1)))

    def step(*values):
        results = []
        for state, (binary, other) in enumerate(operations):
            value = values[first_state + state]
            if state == 0 and growing is not None:
                value = make("Concat-1", value, values[other], axis=growing)
            else:
                value = binary(value, values[other])
                if has_number and adds_number:
                    value = make("Add-1", value, make("Convert-1", values[-1], destination_type=type_))
            results.append(value)
        results += [change(values[position]) for change, position in others]
        if purpose == "number":
            results.append(make("Less-1", values[-1], scalar(most, DTYPES[number_type])))
        elif purpose == "value":
            greatest = make("ReduceMax-1", results[0], axes(*range(rank)), keep_dims=False)
            results.append(
                make("Less-1", make("Convert-1", greatest, destination_type="f32"), const(f32(5.03)))
            )
        elif is_loop:
            results.append(go_on)
        return results

    # Of each result whether the last one is an output, or all, along which axis, and whether backwards. Those that
    # would be parts of 0, and parts of a Loop that are not 1, are the last ones, too.
    outputs = []
    for result in range(states + len(others)):
        last = result < states and (draw.flag() or growing is not None and result == 0)
        last = last or result >= states and iterations > 0 and draw.flag(0.3)
        outputs.append(None if last else some_axis())

    def build(*inputs):
        node = opset15.loop(*inputs[:2]) if is_loop else opset15.tensor_iterator()
        inputs = inputs[2:] if is_loop else inputs
        parameters, results, model = body(
            "body", [*((ov.Type(DTYPES[type_]), it) for it in shapes), *number], step
        )
        result_shapes = [it.output(0).get_partial_shape() for it in results]
        (node.set_function if is_loop else node.set_body)(model)
        if is_loop:
            node.set_special_body_ports([count if has_number else -1, len(results) - 1])
        for position, (parameter, it) in enumerate(zip(parameters, inputs)):
            if position < len(cuts):
                axis, backwards = cuts[position]
                node.set_sliced_input(parameter, it, *parts(axis, shape[axis], backwards))
            elif position < first_state:
                node.set_invariant_input(parameter, it)
            else:
                node.set_merged_input(parameter, it, results[position - first_state].output(0))
        built = []
        for result, result_shape, all_ in zip(results, result_shapes, outputs):
            value = result.output(0)
            size = all_ and result_shape[all_[0]].get_length()
            if size == 1 or size and not is_loop:
                built.append(node.get_concatenated_slices(value, *parts(all_[0], size, all_[1])))
            else:
                built.append(node.get_iter_value(value, -1))
        return built

    if is_loop:
        trips = iterations
        if not cuts and purpose == "number" and draw.flag(0.3):
            trips = -1
        trips = np.array(trips, DTYPES[draw.choice("i32", "i64")]).reshape(draw.choice((), (1,)))
        condition = boolean(not draw.flag(0.03)).reshape(draw.choice((), (1,)))
        inputs = [draw.fed(trips, 0.6), draw.fed(condition, 0.7), *inputs]
    return inputs, build
