"""Operations of one tensor, element by element."""

from math import erf

import math

from framework import *

erf = np.vectorize(erf, otypes=[np.float64])
X = f32([[-4, -2.5, -1, -0.5, -0.25], [0.0, 0.25, 0.5, 1, 2.5]])


def sigmoid(x):
    return 1 / (1 + np.exp(-np.float64(x)))


def of_f32(formula):
    """A formula in f64 for f32."""
    return lambda x, *more: f32(formula(np.float64(x), *map(np.float64, more)))


def unary(kind, formula, **attributes):
    return op(kind, **attributes), of_f32(formula)


# --- arithmetic -----------------------------------------------------------------------------------

several(
    "unary/signs_f32",
    [f32([-2.5, -0.0, 0, 3, -np.inf, np.inf])],
    [unary("Abs-1", np.abs), unary("Negative-1", np.negative), unary("Relu-1", lambda x: np.maximum(x, 0))],
)
several("unary/sign_f32", [f32([-2.5, 0, 3, -np.inf, np.inf, 1e-30])], [unary("Sign-1", np.sign)])
SIGNS = [(op("Abs-1"), np.abs), (op("Negative-1"), np.negative), (op("Sign-1"), np.sign)]
several("unary/signs_i32", [i32([-2, 0, 3])], [*SIGNS, (op("Relu-1"), lambda x: np.maximum(x, 0))])
several("unary/signs_i64", [i64([-2, 0, 3])], SIGNS)
several("unary/signs_f16", [f16([-2, 0, 3.5])], SIGNS)
several(
    "unary/rounding",
    [f32([-2.5, -1.5, -0.5, -0.2, 0.5, 1.5, 2.5, 2.4999998, 8388609, -np.inf])],
    [unary("Floor-1", np.floor), unary("Ceiling-1", lambda x: np.ceil(x))],
)
several("unary/rounding_i32", [i32([-3, 0, 7])], [(op("Floor-1"), lambda x: x), (op("Ceiling-1"), lambda x: x)])


def away_from_zero(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


ROUND = f32([-2.5, -1.5, -0.7, 0.5, 0.7, 1.5, 2.5, 3.5, 4, 100.2])
several(
    "round/modes",
    [ROUND],
    [unary("Round-5", np.rint, mode="half_to_even"), unary("Round-5", away_from_zero, mode="half_away_from_zero")],
)
several(
    "round/upper_case",
    [ROUND],
    [unary("Round-5", away_from_zero, mode="half_away_from_zero")],
    edit=[attribute("mode", "half_away_from_zero", "HALF_AWAY_FROM_ZERO")],
)
several("round/f16", [f16([-2.5, -1.5, 0.5, 1.5])], [(op("Round-5", mode="half_to_even"), np.rint)])
several(
    "unary/exponentials",
    [X],
    [
        unary("Exp-1", np.exp),
        unary("Sigmoid-1", sigmoid),
        unary("Tanh-1", np.tanh),
        unary("Erf-1", erf),
        unary("Sinh-1", np.sinh),
        unary("Cosh-1", np.cosh),
        unary("Asinh-4", np.arcsinh),
    ],
    tolerance=1e-4,
)
several(
    "unary/trigonometry",
    [X],
    [unary("Sin-1", np.sin), unary("Cos-1", np.cos), unary("Tan-1", np.tan), unary("Atan-1", np.arctan)],
)
several("unary/inverses", [f32([-1, -0.5, 0.25, 0.99])], [unary("Asin-1", np.arcsin), unary("Acos-1", np.arccos)])
several("unary/atanh", [f32([-0.9, -0.5, 0.25, 0.99])], [unary("Atanh-4", np.arctanh)])


@lambda function: np.vectorize(function, otypes=[np.float64])
def erf_inv(x):
    """The number whose error function is x, by Newton's steps."""
    if not -1 < x < 1:
        return np.inf * x if abs(x) == 1 else np.nan
    y = 0.0
    for _ in range(200):
        step = (math.erf(y) - x) * math.sqrt(math.pi) / 2 * math.exp(y * y)
        y -= min(max(step, -0.25), 0.25)
    return y


INVERTED = [0, 0.1, -0.5, 0.84, 0.86, -0.99, 0.9999, 1e-30]
several(
    "erf_inv/f32",
    [f32([*INVERTED, 1, -1, 1.5, -2, np.inf, np.nan])],
    [unary("ErfInv-17", lambda x: f32(erf_inv(x.astype(np.float64))))],
    shapes=["?"],
    more=[[f32([])], [f32([0.25])]],
    formula="the CPU plugin approximates it, with errors of up to 1e-4; OpenVINO's core has no reference implementation",
)
several("erf_inv/f16_and_rank_0", [f16(0.5)], [(op("ErfInv-17"), lambda x: f16(erf_inv(x.astype(np.float64))))])
several(
    "erf_inv/f64",
    [np.array([*INVERTED, 0.99999])],
    [(op("ErfInv-17"), erf_inv)],
    formula="the CPU plugin computes in f32",
)
several("unary/acosh", [f32([1, 1.5, 20])], [unary("Acosh-4", np.arccosh)])
several(
    "unary/roots_and_logarithms", [f32([0.25, 1, 2, 100, np.inf])], [unary("Sqrt-1", np.sqrt), unary("Log-1", np.log)]
)
several("unary/out_of_domain", [f32([-1, 0])], [unary("Sqrt-1", np.sqrt), unary("Log-1", np.log)])
several(
    "unary/large",
    [f32([-100, 100, -20, 20])],
    [unary("Exp-1", np.exp), unary("Sigmoid-1", sigmoid), unary("Tanh-1", np.tanh), unary("Erf-1", erf)],
    tolerance=1e-4,
)
several(
    "unary/f16",
    [f16([-1.5, 0.25, 2])],
    [
        (op("Exp-1"), np.exp),
        (op("Sigmoid-1"), lambda x: f16(sigmoid(x))),
        (op("Tanh-1"), np.tanh),
        (op("Floor-1"), np.floor),
        (op("Sqrt-1"), np.sqrt),
    ],
)
several(
    "unary/rank_0", [f32(0.5)], [unary("Exp-1", np.exp), unary("Relu-1", lambda x: x), unary("Negative-1", np.negative)]
)
several(
    "unary/empty",
    [f32(np.zeros((0, 2)))],
    [unary("Exp-1", np.exp), unary("Relu-1", lambda x: np.maximum(x, 0))],
    shapes=["?,2"],
    more=[[spread(1, 2)]],
)


def of_integers(kind, formula):
    """The results of integers are rounded."""
    return op(kind), lambda x: np.rint(formula(np.float64(x))).astype(x.dtype)


FRACTIONS = [
    of_integers("Exp-1", np.exp),
    of_integers("Tanh-1", np.tanh),
    of_integers("Atan-1", np.arctan),
    of_integers("Erf-1", erf),
    of_integers("Sinh-1", np.sinh),
    of_integers("Cosh-1", np.cosh),
    of_integers("Asinh-4", np.arcsinh),
    of_integers("HSwish-4", lambda x: x * np.clip(x + 3, 0, 6) / 6),
]
WAVES = [of_integers("Sin-1", np.sin), of_integers("Cos-1", np.cos), of_integers("Tan-1", np.tan)]
several("unary/fractions_i32", [i32([-5, -2, -1, 0, 1, 2, 3, 7, 10])], FRACTIONS + WAVES)
several("unary/fractions_i64", [i64([-5, -2, -1, 0, 1, 2, 3, 7, 10])], FRACTIONS + WAVES)
several("unary/fractions_u8", [u8([0, 1, 2, 3, 4])], FRACTIONS)
several(
    "unary/roots_and_logarithms_i32",
    [i32([1, 2, 3, 5, 7, 10, 1000])],
    [
        of_integers("Sqrt-1", np.sqrt),
        of_integers("Log-1", np.log),
        of_integers("Acosh-4", np.arccosh),
        of_integers("Sigmoid-1", sigmoid),
    ],
)
several(
    "unary/inverses_i32",
    [i32([-1, 0, 1])],
    [of_integers("Asin-1", np.arcsin), of_integers("Acos-1", np.arccos), of_integers("Sigmoid-1", sigmoid)],
)
# The names that OpenVINO's writer gives to some types, and the classes' own.
several(
    "unary/type_names",
    [X],
    [unary("Relu-1", lambda x: np.maximum(x, 0)), unary("Sigmoid-1", sigmoid)],
    edit=[('type="ReLU"', 'type="Relu"'), ('type="Sigmoid"', 'type="sigmoid"')],
)

# --- activations ----------------------------------------------------------------------------------


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


several(
    "activation/elu",
    [X],
    [unary("Elu-1", lambda x, a=a: np.where(x > 0, x, a * np.expm1(x)), alpha=a) for a in (1.0, 0.5)],
)
SELU = (
    op("Selu-1", const(f32([1.5])), const(f32([0.8]))),
    of_f32(lambda x: np.float64(f32(0.8)) * np.where(x > 0, x, 1.5 * np.expm1(x))),
)
several("activation/selu", [X], [SELU])
several("activation/selu_of_a_scalar", [f32(-1.5)], [SELU])
several(
    "activation/hard_sigmoid",
    [X],
    [
        (op("HardSigmoid-1", real(a), real(b)), of_f32(lambda x, a=a, b=b: np.clip(a * x + b, 0, 1)))
        for a, b in [(0.2, 0.5), (-0.5, 0.25)]
    ],
)
several(
    "activation/hard",
    [X],
    [
        unary("HSigmoid-5", lambda x: np.clip(x + 3, 0, 6) / 6),
        unary("HSwish-4", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ],
)
several(
    "activation/swish",
    [X],
    [
        unary("Swish-4", lambda x: x * sigmoid(x)),
        (op("Swish-4", real(1)), of_f32(lambda x: x * sigmoid(x))),
        (op("Swish-4", real(0.5)), of_f32(lambda x: x * sigmoid(x / 2))),
    ],
)
several(
    "activation/mish_softplus_softsign",
    [X],
    [
        unary("Mish-4", lambda x: x * np.tanh(softplus(x))),
        unary("SoftPlus-4", softplus),
        unary("SoftSign-9", lambda x: x / (1 + np.abs(x))),
    ],
    tolerance=1e-4,
)
several(
    "activation/softplus_large",
    [f32([-100, -30, 30, 88, 100, 1000])],
    [unary("SoftPlus-4", softplus), unary("Mish-4", lambda x: x * np.tanh(softplus(x)))],
    tolerance=1e-4,
)


def gelu(x):
    return x / 2 * (1 + erf(x / np.sqrt(2)))


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ERF, TANH = (unary("Gelu-7", f, approximation_mode=m) for f, m in [(gelu, "ERF"), (gelu_tanh, "TANH")])
several("activation/gelu", [X], [unary("Gelu-2", gelu), ERF, TANH], tolerance=1e-4)
for name, node, edit in [
    ("spelling", TANH, attribute("approximation_mode", "TANH", "tanh")),
    ("without_mode", ERF, attribute("approximation_mode", "ERF", None)),
    ("opset8", TANH, opset("Gelu", 7, "opset8")),
]:
    several(f"activation/gelu_{name}", [X], [node], edit=[edit], tolerance=1e-4)
several(
    "activation/nan",
    [f32([np.nan, -np.inf, -2, 0, 2, np.inf])],
    [
        unary("Elu-1", lambda x: np.where(x < 0, np.expm1(x) / 2, x), alpha=0.5),
        (
            op("Selu-1", const(f32([1.5])), const(f32([0.8]))),
            of_f32(lambda x: np.float64(f32(0.8)) * np.where(x < 0, 1.5 * np.expm1(x), x)),
        ),
        (op("PRelu-1", const(f32([0.5]))), lambda x: np.where(x < 0, x / 2, x)),
        (
            op("PRelu-1", const(f32([0.5, 0.5, -1, 2, 2, 2]))),
            lambda x: np.where(x < 0, x * f32([0.5, 0.5, -1, 2, 2, 2]), x),
        ),
        unary("Relu-1", lambda x: np.fmax(x, 0)),
        unary("Clamp-1", lambda x: np.fmin(np.fmax(x, -1), 2), min=-1.0, max=2.0),
        (op("HardSigmoid-1", real(0.2), real(0.5)), of_f32(lambda x: np.fmax(np.fmin(0.2 * x + 0.5, 1), 0))),
    ],
)
several(
    "activation/gelu_large",
    [f32([-1e10, -1000, -100, -30, -10, 10, 100, 1e10])],
    [ERF, TANH],
    formula="the CPU plugin gives 0 or -0, by the processor",
)


def prelu(x, slope):
    return np.where(x < 0, x * slope, x)


# A slope of rank 1 and of the channels' length belongs to axis 1.
SLOPE = f32([0.5, -1, 2])
OF_CHANNELS = SLOPE[:, None, None]
case(
    "prelu/channels",
    [spread(2, 3, 2, 2)],
    ops(*(op("PRelu-1", const(it)) for it in (SLOPE, f32([0.25]), OF_CHANNELS))),
    lambda x: [prelu(x, it) for it in (OF_CHANNELS, f32(0.25), OF_CHANNELS)],
)
case(
    "prelu/rank_2",
    [spread(2, 3)],
    ops(op("PRelu-1", const(SLOPE)), op("PRelu-1", real(0.25))),
    lambda x: [prelu(x, SLOPE), prelu(x, 0.25)],
)
case(
    "prelu/of_a_scalar",
    [f32(-1.5), f32([-3])],
    lambda x, slope: [make("PRelu-1", x, slope), make("PRelu-1", x, const(f32([0.25])))],
    lambda x, slope: [x * slope[0], x / 4],
    shapes=["", "?"],
)
# The length of the slope is that of axis 1 and of the last one.
case("prelu/axis_1_before_the_last", [spread(1, 3, 2, 3)], op("PRelu-1", const(SLOPE)), lambda x: prelu(x, OF_CHANNELS))
# The length of the slope is that of the last axis, too, and axis 1 is open.
case(
    "prelu/open_channels",
    [spread(1, 3, 2, 3)],
    op("PRelu-1", const(SLOPE)),
    lambda x: prelu(x, OF_CHANNELS),
    shapes=["?,?,?,3"],
    more=[[spread(2, 3, 4, 3)]],
)
case("prelu/last_axis", [spread(1, 2, 2, 3)], op("PRelu-1", const(SLOPE)), lambda x: prelu(x, SLOPE))
case(
    "prelu/slope_is_input",
    [spread(2, 3, 2), SLOPE, spread(2, 3, 2, seed=1)],
    lambda x, s, t: [make("PRelu-1", x, s), make("PRelu-1", x, t)],
    lambda x, s, t: [prelu(x, s[:, None]), prelu(x, t)],
)
case(
    "prelu/type_name",
    [spread(2, 3)],
    op("PRelu-1", const(SLOPE)),
    lambda x: prelu(x, SLOPE),
    edit=[('type="PReLU"', 'type="PRelu"')],
)

# --- Clamp ----------------------------------------------------------------------------------------

several(
    "clamp/f32",
    [f32([-np.inf, -3, -0.5, 0.5, 3, np.inf])],
    [
        unary("Clamp-1", lambda x: np.clip(x, -1, 2), min=-1.0, max=2.0),
        unary("Clamp-1", lambda x: np.clip(x, 0, 6), min=0.0, max=6.0),
        unary("Clamp-1", lambda x: np.clip(x, 0.5, 0.5), min=0.5, max=0.5),
    ],
)
# Of integers min is rounded up and max down.
several(
    "clamp/integers", [i32([-5, -1, 0, 1, 2, 9])], [(op("Clamp-1", min=-1.5, max=1.5), lambda x: np.clip(x, -1, 1))]
)
several("clamp/i64", [i64([-5, -1, 0, 1, 2, 9])], [(op("Clamp-1", min=-1.0, max=6.0), lambda x: np.clip(x, -1, 6))])
several(
    "clamp/one_bound",
    [f32([-3e38, -5, 0, 5])],
    [unary("Clamp-1", lambda x: np.maximum(x, 0), min=0.0, max=3.4028234663852886e38)],
)
several(
    "clamp/bounds_as_integers",
    [f32([-3, 0.5, 9])],
    [unary("Clamp-1", lambda x: np.clip(x, 0, 6), min=0.0, max=6.0)],
    edit=[attribute("min", "0", "0.0"), attribute("max", "6", "6.000000")],
)

# --- IsNaN, IsInf, IsFinite -----------------------------------------------------------------------

SPECIAL = f32([np.nan, np.inf, -np.inf, 0, -1.5, 3e38])
several(
    "is/nan_inf_finite",
    [SPECIAL],
    [
        (op("IsNaN-10"), np.isnan),
        (op("IsFinite-10"), np.isfinite),
        *(
            (
                op("IsInf-10", detect_negative=n, detect_positive=p),
                lambda x, n=n, p=p: (n & (x == -np.inf)) | (p & (x == np.inf)),
            )
            for n in (False, True)
            for p in (False, True)
        ),
    ],
)
several(
    "is/inf_without_attributes",
    [SPECIAL],
    [(op("IsInf-10", detect_negative=True, detect_positive=True), np.isinf)],
    edit=[attribute("detect_negative", "true", None), attribute("detect_positive", "true", None)],
)

# --- cases that share a model ----------------------------------------------------------------------

join("unary/signs", "signs_f32", "sign_f32", "signs_i32", "signs_i64", "signs_f16")
join("unary/rounding", "rounding", "rounding_i32")
join("round/modes", "modes", "f16")
join("unary/trigonometry", "trigonometry", "inverses", "atanh", "acosh")
join("unary/extremes", "roots_and_logarithms", "out_of_domain", "large")
join("unary/f16_and_rank_0", "f16", "rank_0")
join("activation/elu_selu", "elu", "selu", "selu_of_a_scalar")
join("activation/hard", "hard_sigmoid", "hard")
join("activation/softplus", "mish_softplus_softsign", "softplus_large")
join("prelu/constant_slopes", "channels", "rank_2", "axis_1_before_the_last")
join("clamp/floats", "f32", "one_bound")
join("clamp/integers", "integers", "i64")
