"""Random models of one operation each: what draws the numbers, and the table of functions that draw a model."""

import random

import numpy as np

from framework import Const, DTYPES  # noqa: F401

FLOATS = ["f16", "f32", "f64"]
SIGNED = ["i8", "i16", "i32", "i64"]
INTEGERS = [*SIGNED, "u8", "u16", "u32", "u64"]
NUMBERS = [*FLOATS, *INTEGERS]
ALL = [*NUMBERS, "boolean"]

# Of each operation with its revision, like `MaxPool-8`, what draws a model of it.
OPERATIONS = {}


def operation(kinds):
    """Registers a function for one or more operations, `"MaxPool-8 MaxPool-14"`. It is called with a `Draw` and the kind,
    and gives the inputs and what builds the outputs, as a `Case` has them."""

    def register(function):
        for kind in kinds.split():
            assert kind not in OPERATIONS, kind
            OPERATIONS[kind] = function
        return function

    return register


class Draw:
    """Random choices. The same seed makes the same model."""

    def __init__(self, seed, turn=0):
        # How many models of the operation came before. It takes a few of them through a list of values.
        self.turn = turn
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(self.random.getrandbits(32))
        # The attributes that the file does not have.
        self.left_out = []
        # Of attributes that OpenVINO's Python cannot set the texts that the file gets.
        self.rewritten = {}
        # OpenVINO takes the operation with known sizes only.
        self.is_closed = False
        # The reader must know all sizes when it loads the model, because the operation has a state.
        self.has_state = False
        # OpenVINO states a size of the outputs, which are smaller: nothing may follow.
        self.is_alone = False
        # Its reference implementation may be asked: it does not write where it must not.
        self.has_reference = True

    def choice(self, *options):
        return self.random.choice(options)

    def integer(self, low, high):
        """From low to high, both included."""
        return self.random.randint(low, high)

    def flag(self, likely=0.5):
        return self.random.random() < likely

    def real(self, low, high):
        """A multiple of 1/8, so that its text is exact."""
        return self.integer(int(low * 8), int(high * 8)) / 8

    def type(self, names):
        """An element type; f32 half of the time, if it is among them."""
        return "f32" if "f32" in names and self.flag() else self.choice(*names)

    def size(self, least=0):
        """A size: mostly 2 to 5, often 1, sometimes 0."""
        return max(least, self.choice(0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5))

    def shape(self, rank=None, least=0):
        rank = self.choice(0, 1, 1, 2, 2, 3, 3, 4) if rank is None else rank
        return tuple(self.size(least) for _ in range(rank))

    def subset(self, items, least=0):
        """Some of the items, in their order."""
        items = list(items)
        chosen = set(self.random.sample(range(len(items)), self.integer(least, len(items))))
        return [item for number, item in enumerate(items) if number in chosen]

    def axes(self, rank, least=0):
        """Some axes, each once, some of them counted from the end, in any order."""
        axes = self.subset(range(rank), least)
        self.random.shuffle(axes)
        return [axis - rank if self.flag(0.3) else axis for axis in axes]

    def axis(self, rank):
        return self.axes(rank, rank)[0] if rank else 0

    def broadcastable(self, shape):
        """A shape that is broadcast to this one as NumPy does it."""
        shape = shape[self.integer(0, len(shape)) :] if self.flag(0.4) else shape
        return tuple(1 if self.flag(0.3) else size for size in shape)

    def numbers(self, type_, *shape, low=-4, high=4):
        """Numbers of a type: multiples of 1/16 if it has fractions. Booleans if that is the type."""
        dtype = DTYPES[type_]
        if type_ == "boolean":
            return self.numpy.integers(0, 2, shape).astype(np.bool_)
        if dtype.kind == "f":
            return (self.numpy.integers(int(low * 16), int(high * 16), shape, endpoint=True) / 16).astype(dtype)
        return self.numpy.integers(max(low, 0) if dtype.kind == "u" else low, high, shape, endpoint=True).astype(dtype)

    def indices(self, low, high, *shape, types=("i32", "i64")):
        """Integers from low to high, both included."""
        return self.numpy.integers(low, high, shape, endpoint=True).astype(DTYPES[self.choice(*types)])

    def fed(self, array, constant=0.7):
        """An input that is mostly a constant of the model: axes, sizes, pads. Sometimes it is fed."""
        return Const(np.asarray(array)) if self.flag(constant) else np.asarray(array)

    def optional(self, attributes, likely=0.7):
        """Of attributes that have defaults some are left out, of the node and of the file."""
        given = {name: value for name, value in attributes.items() if self.flag(likely)}
        self.left_out += attributes.keys() - given.keys()
        return given

    def default(self, name, value, default):
        """An attribute that the node has. If it has the default, each third file leaves it out."""
        if value == default and self.turn % 3 == 0:
            self.left_out.append(name)
        return {name: value}
