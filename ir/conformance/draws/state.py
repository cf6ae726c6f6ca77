"""ReadValue and Assign: a variable, and what it becomes."""

from framework import *

from . import operation
from .control import BINARY, UNARY
from .sizes import computed_size


@operation("ReadValue-3 ReadValue-6 Assign-3 Assign-6")
def variable(draw, kind):
    revision = int(kind[-1])
    draw.has_state = True
    type_, shape = draw.type(["f16", "f32", "i32", "i64"]), list(draw.shape(least=1))
    rank, value = len(shape), draw.numbers(type_, *shape)
    unary, binary = draw.choice(*UNARY), draw.choice(*BINARY)
    updates = ["variable", "unary", "binary", "binary"]
    if revision == 6:
        # OpenVINO looks for the variable of an Assign-3 in front of it. Its CPU plugin does not write an input of the
        # model that is assigned as it is.
        updates += ["input", "joined"] if rank else ["input"]
    update = draw.choice(*updates)
    axis = draw.integer(0, rank - 1) if rank else 0
    # Without an input, the variable is zeros at first. OpenVINO needs its sizes for that.
    has_initial = revision == 3 or update == "joined" or draw.flag(0.8)
    is_open = has_initial and draw.flag(0.3)
    open_shape = [-1 if is_open and draw.flag() else size for size in shape]
    initial = draw.numbers(type_, *shape)
    if update == "joined":
        open_shape[axis] = -1
        initial = initial.take(range(draw.integer(0, 1)), axis)
    attributes = {"variable_id": draw.choice("state", "past.key", "a/b:0 c")}
    if revision == 6:
        attributes |= {"variable_type": type_, "variable_shape": ov.PartialShape(open_shape)}
    outputs = draw.subset(("read", "assigned", "joined", "size"), 1)

    def joined(read, x):
        return make("Concat-1", read, x, axis=axis) if rank else binary(x, read)

    def build(x, *initial):
        read = make(f"ReadValue-{revision}", *initial, **attributes)
        assigned = {
            "input": lambda: binary(x, x),
            "variable": lambda: read,
            "unary": lambda: unary(read),
            "binary": lambda: binary(read, x),
            "joined": lambda: joined(read, x),
        }[update]()
        both = joined(read, x)
        built = {"read": read, "assigned": assigned, "joined": both}
        # Beside a variable, a size of which only a run knows.
        size = computed_size(draw, both.output(0)) if rank else const(i64([2]))
        built["size"] = make("Broadcast-3", const(f32(1)), size, mode="numpy")
        assign = make(f"Assign-{revision}", assigned, variable_id=attributes["variable_id"])
        return [*(built[it] for it in outputs), assign]

    return [value, *([draw.fed(initial)] if has_initial else [])], build
