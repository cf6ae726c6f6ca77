"""Operations of two tensors, element by element: arithmetic, comparisons, logic, bits."""

from framework import *

ARITHMETIC = "Add Subtract Multiply Divide Power Mod FloorMod Maximum Minimum SquaredDifference".split()
COMPARISONS = "Equal NotEqual Less LessEqual Greater GreaterEqual".split()
LOGIC, BITS = ([f"{kind}{it}" for it in ("And", "Or", "Xor")] for kind in ("Logical", "Bitwise"))
FORMULAS = {
    "Mod": np.fmod,
    "FloorMod": lambda x, y: x - y * np.floor(x / y),
    "SquaredDifference": lambda x, y: (x - y) ** 2,
    "BitwiseLeftShift": np.left_shift,
    "BitwiseRightShift": np.right_shift,
}


def floats(type_):
    # NumPy calls most of them as OpenVINO does.
    return FORMULAS.get(type_) or getattr(np, snake(type_))


def integers(type_):
    return {"Divide": np.floor_divide, "Mod": np.fmod, "FloorMod": np.mod}.get(type_) or floats(type_)


def node(type_, opset=1, formula=floats, **attributes):
    attributes.setdefault("auto_broadcast", "numpy")
    return op(f"{type_}-{opset}", **attributes), formula(type_)


def nodes(types, *more, **attributes):
    return [node(it, *more, **attributes) for it in types]


# --- arithmetic -----------------------------------------------------------------------------------

several(
    "arithmetic/f32",
    [f32([[1, 2.5, -3], [0.5, -7, 4]]), f32([[2, -1.5, 2], [-0.25, 3, -4]])],
    nodes(it for it in ARITHMETIC if it != "Power"),
)
several(
    "arithmetic/power_f32",
    [f32([[2, 0.5, 4], [0, -2, 9], [-2, 0, 1]]), f32([[3, 2, 0.5], [0, 2, -1], [3, 2, 100]])],
    nodes(["Power"]),
)
several(
    "arithmetic/power_of_negative",
    [f32([-2, -8, -1])],
    [(op("Power-1", const(f32(0.5))), lambda x: np.power(x, f32(0.5)))],
)
several(
    "arithmetic/power_of_repeated",
    [f32([[2, 0.5, 4]])],
    [
        (op("Power-1", const(it)), lambda x, it=it: np.power(x, it))
        for it in (np.full(shape, number, np.float32) for number in (0, 0.5, 2, 3) for shape in ((2, 1), (2, 3)))
    ],
)
several("arithmetic/f16", [f16([[1, 2.5, 3], [0.5, 7, 4]]), f16([[2, 1.5, 2], [0.25, 3, 4]])], nodes(ARITHMETIC))
# Signs of the remainders, floor of the quotients.
N, D = [7, -7, 7, -7, 6, -6, 0, -1], [2, 2, -2, -2, 3, 3, 5, 5]
for name, dtype in [("i32", np.int32), ("i64", np.int64)]:
    several(
        f"arithmetic/{name}",
        [np.array(N, dtype), np.array(D, dtype)],
        nodes((it for it in ARITHMETIC if it not in ("Power", "Divide")), formula=integers),
    )
several(
    "arithmetic/wide_i64",
    [i64([2**40 + 1, -(2**40), 2**33 + 7]), i64([3, 5, 2**33])],
    nodes(["Add", "Subtract", "Multiply", "Maximum", "Minimum", "Mod", "FloorMod"], formula=integers),
    formula="the CPU plugin computes 64-bit integers in 32 bits",
)
several("arithmetic/power_i32", [i32([2, -3, 0, 5]), i32([10, 3, 0, 1])], nodes(["Power"]))
several("arithmetic/u8", [u8([7, 200, 100, 9]), u8([2, 3, 50, 9])], nodes(["Add", "Subtract", "Maximum", "Minimum"]))
several(
    "arithmetic/u8_wraps",
    [u8([250, 0, 100]), u8([10, 1, 50])],
    nodes(["Add", "Subtract", "Multiply"]),
    formula="arithmetic that does not fit is unspecified; the CPU plugin saturates",
)
for name, type in [("i32_wraps", np.int32), ("i64_wraps", np.int64)]:
    ends = np.iinfo(type)
    several(
        f"arithmetic/{name}",
        [np.array([ends.max, ends.min, 5], type), np.array([1, -1, 7], type)],
        nodes(["Add", "Subtract", "Multiply"]),
        formula="arithmetic that does not fit is unspecified; the CPU plugin saturates",
    )
several(
    "arithmetic/remainders_f32",
    [f32([7, -7, 7, -7, 5.5, -5.5, 0]), f32([3, 3, -3, -3, 2.5, 2.5, 2])],
    nodes(["Mod", "FloorMod"]),
)
several(
    "arithmetic/infinities",
    [f32([np.inf, -np.inf, np.inf, 1, -1, 0, -0.0]), f32([1, np.inf, -np.inf, 0, 0, 0, 5])],
    nodes(["Add", "Subtract", "Multiply", "Divide"]),
)
several(
    "arithmetic/maximum_minimum_infinities",
    [f32([np.inf, -np.inf, 3, -0.5]), f32([1, 2, -np.inf, np.inf])],
    nodes(["Maximum", "Minimum"]),
)

# --- Divide of integers ---------------------------------------------------------------------------

PYTHON = "the CPU plugin truncates in spite of m_pythondiv; OpenVINO's reference implementation floors"


def truncated(x, y):
    return np.trunc(x / y).astype(x.dtype)


for name, dtype in [("i32", np.int32), ("i64", np.int64)]:
    several(
        f"divide/{name}_python",
        [np.array(N, dtype), np.array(D, dtype)],
        [(op("Divide-1", m_pythondiv=True, auto_broadcast="numpy"), np.floor_divide)],
        formula=PYTHON,
    )
    several(
        f"divide/{name}_truncates",
        [np.array(N, dtype), np.array(D, dtype)],
        [(op("Divide-1", m_pythondiv=False, auto_broadcast="numpy"), truncated)],
    )
several(
    "divide/without_m_pythondiv",
    [i32(N), i32(D)],
    [(op("Divide-1", m_pythondiv=True, auto_broadcast="numpy"), np.floor_divide)],
    formula=PYTHON,
    edit=[attribute("m_pythondiv", "true", None)],
)
several(
    "divide/constant_divisor",
    [i64([7, -7, 8])],
    [
        (op("Divide-1", const(i64(2)), m_pythondiv=True), lambda x: x // 2),
        (op("Divide-1", const(i64([-2])), m_pythondiv=True), lambda x: x // -2),
    ],
    formula=PYTHON,
)
several("divide/u8", [u8([7, 200, 9]), u8([2, 3, 10])], [(op("Divide-1", m_pythondiv=True), np.floor_divide)])

# --- auto_broadcast -------------------------------------------------------------------------------

several("auto_broadcast/numpy", [spread(2, 1, 3), spread(4, 1, seed=1)], nodes(["Add", "Multiply", "Less"]))
several("auto_broadcast/rank_0", [spread(2, 3), f32(2)], nodes(["Add", "Subtract", "Greater"]))
several("auto_broadcast/both_rank_0", [f32(5), f32(2)], nodes(["Subtract", "FloorMod", "Equal"]))
several("auto_broadcast/lower_rank_first", [spread(3), spread(2, 2, 3, seed=1)], nodes(["Subtract", "Divide"]))
several(
    "auto_broadcast/none", [spread(2, 3), spread(2, 3, seed=1)], nodes(["Subtract", "Maximum"], auto_broadcast="none")
)
several(
    "auto_broadcast/upper_case",
    [spread(2, 3), spread(3, seed=1)],
    nodes(["Subtract"]),
    edit=[attribute("auto_broadcast", "numpy", "NUMPY")],
)
several(
    "auto_broadcast/absent",
    [spread(2, 3), spread(3, seed=1)],
    nodes(["Subtract", "Less"]),
    edit=[attribute("auto_broadcast", "numpy", None)],
)
several(
    "auto_broadcast/pdpd",
    [spread(2, 3, 4), f32([[1, np.nan, -2], [np.nan, 0, 3]])],
    [
        (op(f"{it}-1", auto_broadcast="pdpd"), lambda x, y, it=it: floats(it)(x, y[..., None]))
        for it in ("Add", "Multiply", "Less")
    ]
    + [
        (
            lambda x, y: make("Select-1", make("IsNaN-10", y), x, y, auto_broadcast="pdpd"),
            lambda x, y: np.where(np.isnan(y)[..., None], x, y[..., None]),
        )
    ],
    formula="the CPU plugin refuses this mode",
)
several(
    "auto_broadcast/pdpd_same_shape",
    [spread(2, 3), spread(2, 3, seed=1)],
    [(op("Add-1", auto_broadcast="pdpd"), lambda x, y: x + y)],
)
several(
    "auto_broadcast/empty",
    [f32(np.zeros((0, 3))), spread(1, 3)],
    nodes(["Add", "Less"]),
    shapes=["?,3", "1,3"],
    more=[[spread(2, 3, seed=1), spread(1, 3)]],
)
several(
    "auto_broadcast/open_dimensions",
    [spread(2, 3), spread(2, 3, seed=1)],
    nodes(["Add", "Equal"]),
    shapes=["?,?", "?,?"],
    more=[[spread(4, 1), spread(4, 1, seed=1)]],
)
several(
    "auto_broadcast/open_against_one",
    [spread(2, 1), spread(1, 3, seed=1)],
    nodes(["Add", "Multiply"]),
    shapes=["?,1", "1,?"],
    more=[[spread(4, 1), spread(1, 2, seed=1)]],
)

# --- comparisons ----------------------------------------------------------------------------------

FLOATS = [f32([1, 2, 2, 0, -0.0, np.inf, -np.inf, np.inf]), f32([2, 1, 2, -0.0, 0, np.inf, np.inf, 5])]
several("comparison/f32", FLOATS, nodes(COMPARISONS))
several(
    "comparison/nan",
    [f32([np.nan, np.nan, 1]), f32([np.nan, 1, np.nan])],
    nodes(COMPARISONS),
    formula="to the CPU plugin NaN is greater than everything, itself included",
)
several("comparison/i64", [i64([1, -2, 3]), i64([1, 2, -3])], nodes(COMPARISONS))
several("comparison/i32_and_u8", [i32([1, -2, 3]), i32([1, 2, -3])], nodes(COMPARISONS))
several("comparison/boolean", [boolean([1, 0, 1, 0]), boolean([1, 1, 0, 0])], nodes(["Equal", "NotEqual"]))
several("comparison/u8_f16", [u8([1, 200, 255]), u8([1, 255, 200])], nodes(COMPARISONS))
several(
    "comparison/wide_i64",
    [i64([2**40, 2**40 + 1, 1]), i64([0, 2**40, 2**32 + 1])],
    nodes(COMPARISONS),
    formula="the CPU plugin computes 64-bit integers in 32 bits",
)

# --- logic and bits -------------------------------------------------------------------------------

TABLE = [boolean([1, 1, 0, 0]), boolean([1, 0, 1, 0])]
several("logical/table", TABLE, [*nodes(LOGIC), (lambda x, y: make("LogicalNot-1", x), lambda x, y: ~x)])
several("logical/broadcast", [boolean([[1], [0]]), boolean([1, 0, 1])], nodes(LOGIC))
several(
    "logical/type_name_xor",
    [boolean([1, 0, 1]), boolean([1, 1, 0])],
    nodes(["LogicalXor"]),
    edit=[('type="LogicalXor"', 'type="logicalxor"')],
)
for name, x, y in [
    ("i32", i32([6, -1, 0, 12345]), i32([3, 255, -7, -54321])),
    ("i64", i64([6, -1, 0, 12345]), i64([3, 255, -7, -54321])),
    ("u8", u8([6, 255, 0, 170]), u8([3, 15, 7, 85])),
    ("boolean", *TABLE),
]:
    several(f"bitwise/{name}", [x, y], [*nodes(BITS, 13), (lambda x, y: make("BitwiseNot-13", x), lambda x, y: ~x)])
several(
    "bitwise/shifts_i32", [i32([1, 5, -8, -1]), i32([3, 0, 1, 4])], nodes(["BitwiseLeftShift", "BitwiseRightShift"], 15)
)
several("bitwise/shifts_u8", [u8([1, 5, 128, 16]), u8([3, 0, 1, 4])], nodes(["BitwiseRightShift"], 15))

# --- cases that share a model ----------------------------------------------------------------------

join("arithmetic/integers", "i32", "i64")
join("arithmetic/power", "power_f32", "power_of_negative", "power_of_repeated", "power_i32")
join("arithmetic/f32_special", "remainders_f32", "infinities", "maximum_minimum_infinities")
join("divide/truncates", "i32_truncates", "i64_truncates")
join("divide/python", "i32_python", "i64_python", "constant_divisor")
join("auto_broadcast/numpy", "numpy", "rank_0", "both_rank_0", "lower_rank_first", "none")
join("comparison/types", "f32", "i64", "i32_and_u8", "boolean", "u8_f16")
join("bitwise/types", "i32", "i64", "u8", "boolean")
join("bitwise/shifts", "shifts_i32", "shifts_u8")
join("logical/table", "table", "broadcast")
