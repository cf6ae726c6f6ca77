"""Sizes of a tensor, and what models compute of them: through floats, by comparisons, in steps."""

from framework import *


def rank(output):
    return len(output.get_partial_shape()) if output.get_partial_shape().rank.is_static else None


def one_size(draw, x, is_vector=True):
    axis = draw.axis(rank(x))
    sizes = make("ShapeOf-3", x, output_type="i64" if is_vector else draw.choice("i32", "i64"))
    return make("Gather-8", sizes, const(i64([axis] if is_vector else axis)), scalar(0), batch_dims=0)


def in_floats(draw, size):
    """A size that is computed through floats."""
    floats = make("Convert-1", size, destination_type="f32")
    if draw.flag(0.2):
        return make("Convert-1", make("Sqrt-1", floats), destination_type="i64")
    scaled = make("Multiply-1", floats, const(f32(draw.choice(0.25, 0.5, 1.5, 0.3))), auto_broadcast="numpy")
    rounded = make(draw.choice("Floor-1", "Ceiling-1"), scaled)
    return make("Convert-1", rounded, destination_type="i64")


def chosen(draw, size):
    """A size that depends on a comparison."""
    relation = draw.choice("Equal-1", "NotEqual-1", "Less-1", "GreaterEqual-1")
    holds = make(relation, size, const(i64(draw.integer(0, 4))), auto_broadcast="numpy")
    if draw.flag(0.3):
        holds = make("LogicalNot-1", holds)
    other = make("Add-1", size, const(i64(draw.integer(0, 2))), auto_broadcast="numpy")
    return make("Select-1", holds, size, draw.choice(other, const(i64(3))), auto_broadcast="numpy")


def stepped(draw, size):
    """A size in steps, as of a convolution. OpenVINO's CPU plugin does not round a quotient below 0 down."""
    size = make("Maximum-1", size, const(i64(1)), auto_broadcast="numpy")
    less = make("Subtract-1", size, const(i64(1)), auto_broadcast="numpy")
    steps = make("Divide-1", less, const(i64(draw.integer(2, 4))), auto_broadcast="numpy", m_pythondiv=True)
    return make("Add-1", steps, const(i64(1)), auto_broadcast="numpy")


def computed_size(draw, x, is_vector=True):
    """One size, or what is computed of it. It is i64 then."""
    if draw.flag():
        return one_size(draw, x, is_vector)
    axis = draw.axis(rank(x))
    sizes = make("ShapeOf-3", x, output_type="i64")
    size = make("Gather-8", sizes, const(i64([axis] if is_vector else axis)), scalar(0), batch_dims=0)
    return draw.choice(in_floats, chosen, stepped)(draw, size)
