"""Small files that ask for a huge tensor, when they are loaded or when they run."""

import numpy as np

from bad_file_cases import section
from bad_file_cases.attributes import INTERPOLATE
from bad_file_cases.net import Const, Net, floats, one

HUGE = 2**40


def tiles():
    """Four times 1024 times as much."""
    net = Net()
    x = net.constant([1], "x", np.float32)
    for number in range(4):
        repeats = net.constant([1024], f"repeats_{number}")
        x = net.layer("Tile-1", [x, repeats], [("f32", [1024 ** (number + 1)])], f"tile_{number}")
    return net.result(x)


def add_constants():
    case = section("Sizes: constants that the file asks for")
    one_float = Const([1], "float32")
    tebi = "valid: 4 TiB"
    case("broadcast_2_40", "Broadcast of a constant to 2⁴⁰",
         one("Broadcast-3", [one_float, Const([HUGE])], [[HUGE]], mode="numpy"), text=tebi)
    case("tile_2_40", "Tile of a constant, 2⁴⁰ times", one("Tile-1", [one_float, Const([HUGE])], [[HUGE]]),
         text=tebi)
    case("tile_chain", "four times Tile, 1024 times each", tiles(), text=tebi)
    case("range_2_40", "Range from 0 to 2⁴⁰",
         one("Range-4", [Const(0), Const(HUGE), Const(1)], [("i64", [HUGE])], output_type="i64"),
         text="valid: 8 TiB")
    case("range_step_0", "Range with step 0",
         one("Range-4", [Const(0), Const(5), Const(0)], [("i64", [5])], output_type="i64"), fails="run")
    case("one_hot_2_40", "OneHot of depth 2⁴⁰",
         one("OneHot-1", [Const([0]), Const(HUGE), one_scalar(1), one_scalar(0)], [[1, HUGE]], axis=1),
         text=tebi)
    case("pad_2_40", "Pad of a constant by 2⁴⁰",
         one("Pad-1", [one_float, Const([HUGE]), Const([0])], [[HUGE + 1]], pad_mode="constant"), text=tebi)
    case("pad_overflow", "Pad by 2⁶³ − 1 on both sides",
         one("Pad-1", [one_float, Const([2**63 - 1]), Const([2**63 - 1])], [[1]], pad_mode="constant"))


def one_scalar(value):
    return Const(value, "float32")


def add_at_run_time():
    case = section("Sizes: outputs when the model runs")
    x = floats(1)
    huge = ("shape", np.array([HUGE], np.int64))
    case("broadcast_at_run_time", "Broadcast of an input to 2⁴⁰, a constant",
         one("Broadcast-3", [x, Const([HUGE])], [[HUGE]], mode="numpy"), text="valid: 4 TiB", fails="run")
    case("broadcast_to_input", "Broadcast to 2⁴⁰, an input",
         one("Broadcast-3", [x, huge], [[-1]], mode="numpy"), text="valid: 4 TiB", fails="run")
    case("tile_overflow", "Tile of 2 × 2 elements, 2³² times along both axes",
         one("Tile-1", [floats(2, 2), Const([2**32, 2**32])], [[2**33, 2**33]]),
         text="valid: 2⁶⁸ bytes", fails="run")
    sizes = [floats(1, 1, 4, 4), Const([2**30, 2**30]), Const([1, 1], "float32"), Const([2, 3])]
    case("interpolate_2_30", "Interpolate to 2³⁰ × 2³⁰",
         one("Interpolate-4", sizes, [[1, 1, 2**30, 2**30]], **INTERPOLATE), text="valid: 4 EiB", fails="run")
    case("eye_2_20", "Eye of 2²⁰ rows and columns, inputs",
         one("Eye-9", [("rows", np.array(2**20, np.int64)), ("columns", np.array(2**20, np.int64)), Const(0)],
             [[-1, -1]], output_type="f32"), text="valid: 4 TiB", fails="run")


def add():
    add_constants()
    add_at_run_time()
