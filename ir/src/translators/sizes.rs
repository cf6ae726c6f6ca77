//! Arithmetic of sizes: what layers compute from the sizes of the inputs alone, as expressions of these.
//!
//! A size is often computed in several steps, through floats and comparisons: `Floor(Convert(H) * 0.25)`, or the larger of
//! two sizes. Where each step is exact for all sizes up to 2²⁴, as floats are, the result is an expression, of which the
//! reader can tell what it is equal to. Elsewhere the model computes it when it runs, and it gets a symbol for a name
//! ([`NamedSizes`]).

use tract_core::broadcast::multi_broadcast;
use tract_core::internal::*;
use tract_ndarray::ArrayD;

use crate::context::{Derived, Fraction, LayerContext, MOST_ELEMENTS};
use crate::document::ElementType;
use crate::weights::datum_type;
use crate::workarounds::expressions::{MOST_NUMBER, is_size, is_small, quotient};
use crate::workarounds::named_sizes::NamedSizes;

/// What a layer computes, if it does so from sizes alone and its result is an expression of them.
pub(crate) enum Computed {
    /// Integers, and what has the same value for all sizes: a constant is all that the layer is.
    Constant(OutletId),
    /// Floats and booleans: what is known of the layer's output, whose nodes must still be wired.
    Known(Derived),
}

/// The expression of a layer's output, if it has one.
pub(crate) fn computed(ctx: &mut LayerContext) -> TractResult<Option<Computed>> {
    let Some(operation) = operation(ctx)? else { return Ok(None) };
    let Some(inputs) = inputs(ctx)? else { return Ok(None) };
    let is_number = |element: &Fraction| element.numerator.as_i64().is_some();
    let has_symbols = |derived: &Derived| {
        derived.elements.as_ref().is_none_or(|elements| !elements.iter().all(is_number))
    };
    if !inputs.iter().any(has_symbols) {
        return Ok(None);
    }
    let Some(derived) = operation.of(&inputs) else { return Ok(None) };
    let elements = derived.elements.as_deref().unwrap_or_default();
    if elements.iter().any(|element| !is_small(&element.numerator)) {
        return Ok(None);
    }
    let dt = operation.result(ctx)?;
    let is_whole = elements.iter().all(|element| element.divisor == 1);
    if dt.is_tdim() || dt.is_integer() {
        let dims = elements.iter().map(|element| element.numerator.clone()).collect();
        let tensor = ArrayD::<TDim>::from_shape_vec(&*derived.shape, dims)?.into_tensor();
        let constant = is_whole.then(|| ctx.add_const("of_sizes", tensor));
        return Ok(constant.transpose()?.map(Computed::Constant));
    }
    if is_whole && elements.iter().all(is_number) {
        let numbers = elements.iter().filter_map(|element| element.numerator.as_i64()).collect();
        let tensor = ArrayD::<i64>::from_shape_vec(&*derived.shape, numbers)?.into_tensor();
        let tensor = tensor.cast_to_dt(dt)?.into_owned();
        return Ok(Some(Computed::Constant(ctx.add_const("of_sizes", tensor)?)));
    }
    Ok(Some(Computed::Known(derived)))
}

/// Notes that an output is computed from sizes alone, if it is. Integers that are no expression get names.
pub(crate) fn derived(
    ctx: &mut LayerContext,
    outlet: OutletId,
    known: Option<Derived>,
) -> TractResult<OutletId> {
    let fact = ctx.model.outlet_fact(outlet)?;
    let (dt, konst) = (fact.datum_type, &fact.konst);
    let Some(shape) = fact.shape.as_concrete().map(TVec::<usize>::from) else { return Ok(outlet) };
    let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
    if konst.is_some() || count.is_none_or(|count| count > MOST_ELEMENTS) {
        return Ok(outlet);
    }
    if let Some(known) = known {
        ctx.derive(outlet, known);
        return Ok(outlet);
    }
    if !ctx.layer().bodies.is_empty() || ctx.has_state() {
        return Ok(outlet);
    }
    let Some(inputs) = inputs(ctx)? else { return Ok(outlet) };
    let may_be_negative =
        !KEEPS_SIGN.contains(&ctx.operation()) || inputs.iter().any(|input| input.may_be_negative);
    if dt.is_float() || dt == DatumType::Bool {
        ctx.derive(outlet, Derived { shape, elements: None, may_be_negative });
        return Ok(outlet);
    }
    let named = [DatumType::I32, DatumType::I64].contains(&dt) && count <= Some(MOST_NAMED);
    if named { name(ctx, outlet, &shape, may_be_negative) } else { Ok(outlet) }
}

/// The most integers of a tensor that get names: as many as tensors have axes, at most.
const MOST_NAMED: usize = 16;

/// Operations whose result is not negative if no input is.
const KEEPS_SIGN: [&str; 23] = [
    "Abs",
    "Add",
    "Ceiling",
    "Concat",
    "Convert",
    "ConvertLike",
    "Divide",
    "Floor",
    "Gather",
    "Maximum",
    "Minimum",
    "Multiply",
    "Power",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Round",
    "Sqrt",
    "Squeeze",
    "Unsqueeze",
];

/// Symbols for integers that the model computes, as a constant.
fn name(
    ctx: &mut LayerContext,
    integers: OutletId,
    shape: &[usize],
    may_be_negative: bool,
) -> TractResult<OutletId> {
    let count = shape.iter().product();
    let symbols = |ctx: &LayerContext, prefix: &str| -> TractResult<TVec<TDim>> {
        (0..count).map(|_| Ok(ctx.size_at_run_time(prefix)?.to_dim())).collect()
    };
    let sizes = symbols(ctx, "computed")?;
    let negative = if may_be_negative { symbols(ctx, "negative")? } else { tvec!() };
    let mut dims = sizes.to_vec();
    for (dim, negative) in dims.iter_mut().zip(&negative) {
        *dim -= negative;
    }
    ctx.wire("named", NamedSizes { sizes, negative }, &[integers])?;
    let tensor = ArrayD::from_shape_vec(shape, dims)?.into_tensor();
    ctx.add_const("sizes", tensor)
}

/// What is known of all inputs, if they are small constants or are computed from sizes alone.
fn inputs(ctx: &LayerContext) -> TractResult<Option<Vec<Derived>>> {
    match ctx.input_count() {
        0 => Ok(None),
        count => (0..count).map(|input| ctx.derived(input)).collect(),
    }
}

/// Operations whose result has booleans, whatever the inputs have.
const GIVES_BOOLEANS: [&str; 13] = [
    "Equal",
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "LogicalXor",
    "NotEqual",
    "ReduceLogicalAnd",
    "ReduceLogicalOr",
    "Xor",
];

/// An operation on expressions.
enum Operation {
    Unary(fn(&Fraction) -> Option<Fraction>),
    Binary(fn(&Fraction, &Fraction) -> Option<Fraction>),
    Clamp(Fraction, Fraction),
    Select,
    /// Of all axes.
    Reduce {
        keep_dims: bool,
        by: fn(&Fraction, &Fraction) -> Option<Fraction>,
    },
    /// To another type.
    Convert(DatumType),
}

/// The operation of a layer, if it is one of those that are computed here.
fn operation(ctx: &LayerContext) -> TractResult<Option<Operation>> {
    use Operation::{Binary, Unary};
    let count = ctx.input_count();
    if count == 0 || count > 3 || ctx.output_type(0) == Some(DatumType::F16) {
        return Ok(None);
    }
    let floats = || Ok::<bool, TractError>(ctx.datum_type(0)?.is_float());
    let operation = match ctx.operation() {
        "Abs" => Unary(absolute),
        "Negative" => Unary(|a| Some(negative(a))),
        "Sign" => Unary(sign),
        "Floor" => Unary(floor),
        "Ceiling" => Unary(|a| Some(negative(&floor(&negative(a))?))),
        "Round" => Unary(|a| (a.divisor == 1).then(|| a.clone())),
        "Sqrt" if floats()? => Unary(square_root),
        "Relu" => Unary(|a| larger(a, &Fraction::whole(0.to_dim()))),
        "LogicalNot" => Unary(|a| Some(Fraction::whole(negated(&a.numerator)))),
        "Convert" => {
            let text: String = ctx.attribute("destination_type")?;
            let dt = ElementType::from_text(&text).and_then(datum_type);
            return Ok(dt.map(Operation::Convert));
        }
        "ConvertLike" if count == 2 => Operation::Convert(ctx.datum_type(1)?),
        "Clamp" => {
            let [min, max] = ["min", "max"].map(|name| ctx.attribute::<f64>(name));
            let bounds = Fraction::of_float(min?).zip(Fraction::of_float(max?));
            return Ok(bounds.map(|(min, max)| Operation::Clamp(min, max)));
        }
        "Add" => Binary(sum),
        "Subtract" => Binary(|a, b| sum(a, &negative(b))),
        "Multiply" => Binary(product),
        "Divide" if floats()? => Binary(quotient_of_floats),
        "Divide" if ctx.attribute_or("m_pythondiv", true)? => {
            Binary(|a, b| of_whole(a, b, floor_divide))
        }
        "Divide" => Binary(|a, b| of_whole(a, b, divide)),
        "Mod" => Binary(|a, b| of_whole(a, b, remainder)),
        "FloorMod" => Binary(|a, b| of_whole(a, b, floor_mod)),
        "Power" => Binary(power),
        "SquaredDifference" => Binary(|a, b| {
            let difference = sum(a, &negative(b))?;
            product(&difference, &difference)
        }),
        "Maximum" => Binary(larger),
        "Minimum" => Binary(smaller),
        "Equal" => Binary(|a, b| compared(a, b, Relation::Equal)),
        "NotEqual" => Binary(|a, b| compared(a, b, Relation::NotEqual)),
        "Less" => Binary(|a, b| compared(a, b, Relation::Less)),
        "LessEqual" => Binary(|a, b| compared(a, b, Relation::LessEqual)),
        "Greater" => Binary(|a, b| compared(a, b, Relation::Greater)),
        "GreaterEqual" => Binary(|a, b| compared(a, b, Relation::GreaterEqual)),
        "LogicalAnd" => Binary(product),
        "LogicalOr" => Binary(larger),
        "LogicalXor" | "Xor" => Binary(|a, b| {
            let different = [&a.numerator, &b.numerator];
            Some(Fraction::whole(negated(&Relation::Equal.term(different[0], different[1]))))
        }),
        "Select" if count == 3 => Operation::Select,
        name @ ("ReduceSum" | "ReduceProd" | "ReduceMax" | "ReduceMin" | "ReduceLogicalAnd"
        | "ReduceLogicalOr") => {
            let all = ctx.rank(0)? == 1 && ctx.shape(1)?.iter().all(TDim::is_one);
            if !all || !ctx.is_constant(1) {
                return Ok(None);
            }
            let by: fn(&Fraction, &Fraction) -> Option<Fraction> = match name {
                "ReduceSum" => sum,
                "ReduceMax" | "ReduceLogicalOr" => larger,
                "ReduceMin" => smaller,
                _ => product,
            };
            Operation::Reduce { keep_dims: ctx.attribute_or("keep_dims", false)?, by }
        }
        _ => return Ok(None),
    };
    let broadcasts = matches!(operation, Binary(_) | Operation::Select)
        && ctx.attribute_or("auto_broadcast", String::from("numpy"))?.eq_ignore_ascii_case("pdpd");
    Ok(Some(operation).filter(|_| !broadcasts))
}

impl Operation {
    /// The result, if each element is an expression.
    fn of(&self, inputs: &[Derived]) -> Option<Derived> {
        match (self, inputs) {
            (Operation::Unary(f), [input]) => elementwise(&[input], |it| f(it[0])),
            (Operation::Convert(dt), [input, ..]) => elementwise(&[input], |it| match dt {
                DatumType::I32 | DatumType::I64 | DatumType::TDim => truncated(it[0]),
                DatumType::F32 | DatumType::F64 => Some(it[0].clone()),
                DatumType::Bool => {
                    compared(it[0], &Fraction::whole(0.to_dim()), Relation::NotEqual)
                }
                _ => None,
            }),
            (Operation::Clamp(min, max), [input]) => {
                elementwise(&[input], |it| smaller(&larger(it[0], min)?, max))
            }
            (Operation::Binary(f), [a, b]) => elementwise(&[a, b], |it| f(it[0], it[1])),
            (Operation::Select, [condition, a, b]) => {
                elementwise(&[condition, a, b], |it| select(it[0], it[1], it[2]))
            }
            (Operation::Reduce { keep_dims, by }, [input, _]) => {
                let (first, others) = input.elements.as_ref()?.split_first()?;
                let small = |it: &Fraction| is_small(&it.numerator);
                let reduced = others.iter().try_fold(first.clone(), |reduced, element| {
                    by(&reduced, element).filter(small)
                })?;
                let shape: &[usize] = if *keep_dims { &[1] } else { &[] };
                Some(of_elements(shape, vec![reduced]))
            }
            _ => None,
        }
    }

    /// The element type of the result.
    fn result(&self, ctx: &LayerContext) -> TractResult<DatumType> {
        match self {
            Operation::Convert(dt) => Ok(*dt),
            Operation::Select => ctx.datum_type(1),
            _ if GIVES_BOOLEANS.contains(&ctx.operation()) => Ok(DatumType::Bool),
            _ => ctx.datum_type(0),
        }
    }
}

fn of_elements(shape: &[usize], elements: Vec<Fraction>) -> Derived {
    let may_be_negative = elements.iter().any(|element| !is_size(&element.numerator));
    Derived { shape: shape.into(), elements: Some(elements), may_be_negative }
}

/// Computes element by element of tensors that are broadcast to each other.
fn elementwise(
    inputs: &[&Derived],
    f: impl Fn(&[&Fraction]) -> Option<Fraction>,
) -> Option<Derived> {
    let shapes: TVec<&[usize]> = inputs.iter().map(|input| &*input.shape).collect();
    let shape = multi_broadcast(&shapes).ok()?;
    let count: usize = shape.iter().product();
    let mut columns = vec![];
    for input in inputs {
        let elements = input.elements.as_ref()?;
        let elements = ArrayD::from_shape_vec(&*input.shape, elements.iter().collect()).ok()?;
        columns.push(elements.broadcast(&*shape)?.iter().copied().collect::<Vec<&Fraction>>());
    }
    let row = |number: usize| columns.iter().map(|column| column[number]).collect::<TVec<_>>();
    let elements: Option<Vec<Fraction>> = (0..count)
        .map(|number| {
            let row = row(number);
            if row.iter().all(|element| is_small(&element.numerator)) { f(&row) } else { None }
        })
        .collect();
    elements.filter(|_| count <= MOST_ELEMENTS).map(|elements| of_elements(&shape, elements))
}

// Fractions. Each function gives nothing where the result is not exact.

/// With one divisor, two fractions that are not rounded.
fn in_common(a: &Fraction, b: &Fraction) -> Option<(TDim, TDim, u64)> {
    let divisor = common_multiple(a.divisor, b.divisor)?;
    let numerator = |it: &Fraction| {
        let factor = i64::try_from(divisor / it.divisor).ok()?;
        (!it.rounded).then(|| (it.numerator.clone() * factor).simplify())
    };
    Some((numerator(a)?, numerator(b)?, divisor))
}

/// The larger of two divisors, if it is a multiple of the other one, as powers of two are.
fn common_multiple(a: u64, b: u64) -> Option<u64> {
    let larger = a.max(b);
    larger.is_multiple_of(a.min(b)).then_some(larger).filter(|larger| *larger < MOST_NUMBER)
}

fn sum(a: &Fraction, b: &Fraction) -> Option<Fraction> {
    let (numerator, other, divisor) = in_common(a, b)?;
    Some(Fraction { numerator: (numerator + other).simplify(), divisor, rounded: false })
}

fn negative(a: &Fraction) -> Fraction {
    Fraction { numerator: (-a.numerator.clone()).simplify(), ..a.clone() }
}

fn product(a: &Fraction, b: &Fraction) -> Option<Fraction> {
    if !is_small(&a.numerator) || !is_small(&b.numerator) {
        return None;
    }
    let divisor = a.divisor.checked_mul(b.divisor).filter(|divisor| *divisor <= MOST_DIVISOR)?;
    let numerator = (a.numerator.clone() * &b.numerator).simplify();
    (!a.rounded && !b.rounded).then(|| reduced(numerator, divisor, false))
}

/// The largest divisor of floats that are exact.
const MOST_DIVISOR: u64 = 1 << 16;

/// A fraction in lower terms, where that is plain to see.
fn reduced(numerator: TDim, divisor: u64, rounded: bool) -> Fraction {
    let common = gcd(numerator.gcd(), divisor).max(1);
    let numerator = if common > 1 { (numerator / common).simplify() } else { numerator };
    let divisor = divisor / common;
    Fraction { numerator, divisor, rounded: rounded && !divisor.is_power_of_two() }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The quotient of floats, the second of which is a number.
fn quotient_of_floats(a: &Fraction, b: &Fraction) -> Option<Fraction> {
    let by = b.numerator.as_i64().filter(|by| *by != 0 && !a.rounded && !b.rounded)?;
    let factor = i64::try_from(b.divisor).ok()?.checked_mul(by.signum())?;
    let divisor =
        a.divisor.checked_mul(by.unsigned_abs()).filter(|divisor| *divisor < MOST_NUMBER)?;
    let numerator = (a.numerator.clone() * factor).simplify();
    Some(reduced(numerator, divisor, true))
}

fn floor(a: &Fraction) -> Option<Fraction> {
    if a.divisor == 1 {
        return Some(a.clone());
    }
    floor_divide(&a.numerator, &i64::try_from(a.divisor).ok()?.to_dim()).map(Fraction::whole)
}

/// Rounded towards zero.
fn truncated(a: &Fraction) -> Option<Fraction> {
    if a.divisor == 1 {
        return Some(a.clone());
    }
    divide(&a.numerator, &i64::try_from(a.divisor).ok()?.to_dim()).map(Fraction::whole)
}

fn absolute(a: &Fraction) -> Option<Fraction> {
    let numerator = &a.numerator;
    let numerator = match (is_size(numerator), is_size(&(-numerator.clone()).simplify())) {
        (true, _) => numerator.clone(),
        (_, true) => (-numerator.clone()).simplify(),
        _ => maximum(numerator, &-numerator.clone())?,
    };
    Some(Fraction { numerator, ..a.clone() })
}

fn sign(a: &Fraction) -> Option<Fraction> {
    let zero = 0.to_dim();
    let [above, below] =
        [Relation::Greater.term(&a.numerator, &zero), Relation::Less.term(&a.numerator, &zero)];
    Some(Fraction::whole((above - below).simplify()))
}

/// The root of a square.
fn square_root(a: &Fraction) -> Option<Fraction> {
    if a.divisor != 1 {
        return None;
    }
    let root = match &a.numerator {
        TDim::Val(number) => {
            let root = (*number as f64).sqrt() as i64;
            (root.checked_mul(root) == Some(*number)).then(|| root.to_dim())?
        }
        TDim::Mul(factors) => match &**factors {
            [one, other] if one == other => absolute(&Fraction::whole(one.clone()))?.numerator,
            _ => return None,
        },
        _ => return None,
    };
    Some(Fraction::whole(root))
}

fn power(a: &Fraction, b: &Fraction) -> Option<Fraction> {
    if b.divisor == 2 && b.numerator.is_one() {
        return square_root(a);
    }
    let exponent = b.numerator.as_i64().filter(|exponent| b.divisor == 1 && *exponent <= 4)?;
    let one = Fraction::whole(1.to_dim());
    (0..u32::try_from(exponent).ok()?).try_fold(one, |power, _| product(&power, a))
}

/// An operation on integers, which may be floats.
fn of_whole(a: &Fraction, b: &Fraction, f: fn(&TDim, &TDim) -> Option<TDim>) -> Option<Fraction> {
    let whole = a.divisor == 1 && b.divisor == 1;
    if whole { f(&a.numerator, &b.numerator).map(Fraction::whole) } else { None }
}

fn larger(a: &Fraction, b: &Fraction) -> Option<Fraction> {
    let (a, b, divisor) = in_common(a, b)?;
    Some(Fraction { numerator: maximum(&a, &b)?, divisor, rounded: false })
}

fn smaller(a: &Fraction, b: &Fraction) -> Option<Fraction> {
    let (a, b, divisor) = in_common(a, b)?;
    Some(Fraction { numerator: minimum(&a, &b)?, divisor, rounded: false })
}

/// 1 where the relation holds, and 0 elsewhere. Rounding keeps a quotient on its side of each integer.
fn compared(a: &Fraction, b: &Fraction, relation: Relation) -> Option<Fraction> {
    let exact = |a: &Fraction, b: &Fraction| !a.rounded || (!b.rounded && b.divisor == 1);
    if !exact(a, b) || !exact(b, a) {
        return None;
    }
    let [of_a, of_b] = [a.divisor, b.divisor].map(|divisor| divisor as i64);
    let a = (a.numerator.clone() * of_b).simplify();
    let b = (b.numerator.clone() * of_a).simplify();
    Some(Fraction::whole(relation.term(&a, &b)))
}

/// `a` where the condition is 1, and `b` where it is 0.
fn select(condition: &Fraction, a: &Fraction, b: &Fraction) -> Option<Fraction> {
    let condition = &condition.numerator;
    match condition.as_i64() {
        Some(0) => return Some(b.clone()),
        Some(_) => return Some(a.clone()),
        None if a == b => return Some(a.clone()),
        None => (),
    }
    let (a, b, divisor) = in_common(a, b)?;
    // Where the condition holds, both are the same.
    if let TDim::Eq(one, other) = condition
        && ((**one == a && **other == b) || (**one == b && **other == a))
    {
        return Some(Fraction { numerator: b, divisor, rounded: false });
    }
    let numerator = a * condition + b * negated(condition);
    Some(Fraction { numerator: numerator.simplify(), divisor, rounded: false })
}

/// 1 for 0, and 0 for 1.
fn negated(condition: &TDim) -> TDim {
    match condition {
        TDim::Ge(a, b) => TDim::Ge(b.clone(), Box::new(((**a).clone() + 1).simplify())),
        condition => (1.to_dim() - condition).simplify(),
    }
}

// Sizes. They give nothing where the result depends on values of symbols.

#[derive(Clone, Copy)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Relation {
    /// Whether it holds between two sizes, if the answer is the same for all values of symbols.
    pub fn of_sizes(self, a: &TDim, b: &TDim) -> Option<bool> {
        let difference = (a.clone() - b).simplify();
        let positive = if difference.prove_strict_positive() {
            Some(true)
        } else {
            difference.prove_negative_or_zero().then_some(false)
        };
        let negative = if difference.prove_strict_negative() {
            Some(true)
        } else {
            difference.prove_positive_or_zero().then_some(false)
        };
        let equal = match (positive, negative) {
            (Some(false), Some(false)) => Some(true),
            (Some(true), _) | (_, Some(true)) => Some(false),
            _ => None,
        };
        match self {
            Relation::Equal => equal,
            Relation::NotEqual => equal.map(|equal| !equal),
            Relation::Less => negative,
            Relation::LessEqual => positive.map(|positive| !positive),
            Relation::Greater => positive,
            Relation::GreaterEqual => negative.map(|negative| !negative),
        }
    }

    /// 1 where it holds between two sizes, and 0 where it does not.
    fn term(self, a: &TDim, b: &TDim) -> TDim {
        if let Some(holds) = self.of_sizes(a, b) {
            return i64::from(holds).to_dim();
        }
        let above = |a: &TDim, b: &TDim| {
            let least = (b.clone() + 1).simplify();
            TDim::Ge(Box::new(a.clone()), Box::new(least))
        };
        let boxed = [a, b].map(|dim| Box::new(dim.clone()));
        let [boxed_a, boxed_b] = boxed;
        match self {
            Relation::Equal => TDim::Eq(boxed_a, boxed_b),
            Relation::NotEqual => negated(&TDim::Eq(boxed_a, boxed_b)),
            Relation::Less => above(b, a),
            Relation::LessEqual => TDim::Ge(boxed_b, boxed_a),
            Relation::Greater => above(a, b),
            Relation::GreaterEqual => TDim::Ge(boxed_a, boxed_b),
        }
    }
}

/// A size, or zero where it is negative.
fn positive(a: &TDim) -> TDim {
    if is_size(a) {
        a.clone()
    } else if is_size(&-a.clone()) {
        0.to_dim()
    } else {
        a.clone().maxi(0.to_dim())
    }
}

fn truncated_quotient(a: &TDim, divisor: u64) -> Option<TDim> {
    Some(quotient(positive(a), divisor)? - quotient(positive(&-a.clone()), divisor)?)
}

/// The quotient rounded towards zero.
pub(super) fn divide(a: &TDim, b: &TDim) -> Option<TDim> {
    match b.as_i64() {
        Some(0) => None,
        Some(number) => {
            let quotient = truncated_quotient(a, number.unsigned_abs())?;
            Some(if number > 0 { quotient } else { -quotient })
        }
        // Where one is a multiple of the other.
        None => {
            let (product, divisor) = a.maybe_div(b).ok()?;
            truncated_quotient(&product, divisor)
        }
    }
}

/// The quotient rounded down, whatever the sign of the dividend is.
pub(super) fn floor_divide(a: &TDim, b: &TDim) -> Option<TDim> {
    let number = match b.as_i64() {
        Some(number) if number > 0 => number,
        Some(_) => return None,
        None => return divide(a, b).filter(|_| a.prove_positive_or_zero()),
    };
    // Moved by a multiple of the divisor, it is not negative.
    let least = a.low_inclusive_bound().filter(|least| (-(MOST_NUMBER as i64)..0).contains(least));
    if let Some(least) = least {
        let moved = (-least + number - 1) / number;
        if let Some(quotient) = quotient((a.clone() + moved * number).simplify(), number as u64) {
            return Some((quotient - moved).simplify());
        }
    }
    // Negative numbers are rounded up without their sign.
    let below = positive(&-a.clone()) + (number - 1);
    Some(quotient(positive(a), number as u64)? - quotient(below, number as u64)?)
}

pub(super) fn remainder(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(a.clone() - divide(a, b)? * b)
}

pub(super) fn floor_mod(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(a.clone() - floor_divide(a, b)? * b)
}

pub(super) fn maximum(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(match Relation::GreaterEqual.of_sizes(a, b) {
        Some(true) => a.clone(),
        Some(false) => b.clone(),
        None => a.clone().maxi(b.clone()),
    })
}

pub(super) fn minimum(a: &TDim, b: &TDim) -> Option<TDim> {
    Some(match Relation::LessEqual.of_sizes(a, b) {
        Some(true) => a.clone(),
        Some(false) => b.clone(),
        None => a.clone().mini(b.clone()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sizes that expressions are evaluated for. 0 is one.
    const SIZES: [[i64; 2]; 9] =
        [[0, 0], [0, 5], [1, 0], [1, 1], [2, 9], [7, 2], [8, 3], [33, 64], [100, 7]];

    /// A fraction, and what the model would compute for each of the sizes.
    type Both = (Fraction, Vec<f32>);

    /// Applies an operation to both, if it has an expression.
    fn applied(number: usize, operands: [&Both; 3]) -> Option<Both> {
        let [(a, x), (b, y), (c, z)] = operands;
        let holds = |holds: bool| f32::from(u8::from(holds));
        let relations = [
            (Relation::Equal, f32::eq as fn(&f32, &f32) -> bool),
            (Relation::NotEqual, f32::ne),
            (Relation::Less, |x, y| x < y),
            (Relation::LessEqual, |x, y| x <= y),
            (Relation::Greater, |x, y| x > y),
            (Relation::GreaterEqual, |x, y| x >= y),
        ];
        let pairs = |f: &dyn Fn(f32, f32) -> f32| -> Vec<f32> {
            x.iter().zip(y).map(|(x, y)| f(*x, *y)).collect()
        };
        let each = |f: fn(f32) -> f32| -> Vec<f32> { x.iter().map(|x| f(*x)).collect() };
        Some(match number {
            0 => (sum(a, b)?, pairs(&|x, y| x + y)),
            1 => (sum(a, &negative(b))?, pairs(&|x, y| x - y)),
            2 => (product(a, b)?, pairs(&|x, y| x * y)),
            3 => (quotient_of_floats(a, b)?, pairs(&|x, y| x / y)),
            4 => (larger(a, b)?, pairs(&f32::max)),
            5 => (smaller(a, b)?, pairs(&f32::min)),
            6 => (floor(a)?, each(f32::floor)),
            7 => (negative(&floor(&negative(a))?), each(f32::ceil)),
            8 => (truncated(a)?, each(f32::trunc)),
            9 => (absolute(a)?, each(f32::abs)),
            10 => (sign(a)?, each(|x| if x == 0. { 0. } else { x.signum() })),
            11 => {
                let square = product(a, a)?;
                (square_root(&square)?, each(f32::abs))
            }
            12..18 => {
                let (relation, of_floats) = relations[number - 12];
                (compared(a, b, relation)?, pairs(&|x, y| holds(of_floats(&x, &y))))
            }
            _ => {
                let condition = compared(a, b, Relation::Less)?;
                let choice = pairs(&|x, y| holds(x < y));
                let chosen = choice.iter().zip(x).zip(z);
                let chosen = chosen.map(|((is, x), z)| if *is == 1. { *z } else { *x }).collect();
                (select(&condition, c, a)?, chosen)
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// What an expression says is what the model computes, whatever is computed from it.
        #[test]
        fn expressions_are_what_the_model_computes(
            steps in proptest::collection::vec((0usize..19, any::<[prop::sample::Index; 3]>()), 1..8)
        ) {
            let symbols = SymbolScope::default();
            for name in ["n", "m"] {
                symbols.add_assertion(format!("{name}>=0")).unwrap();
            }
            let [n, m] = ["n", "m"].map(|name| symbols.sym(name));
            let mut known: Vec<Both> = [&n, &m]
                .iter()
                .enumerate()
                .map(|(at, symbol)| {
                    (Fraction::whole(symbol.to_dim()), SIZES.iter().map(|it| it[at] as f32).collect())
                })
                .collect();
            for number in [0.25, 1.5, 3., 7., -2.] {
                known.push((Fraction::of_float(number).unwrap(), vec![number as f32; SIZES.len()]));
            }
            for (operation, operands) in steps {
                let operands = operands.map(|index| index.get(&known).clone());
                let Some((fraction, floats)) = applied(operation, operands.each_ref()) else { continue };
                if !is_small(&fraction.numerator) || floats.iter().any(|float| float.abs() > 1e5) {
                    continue;
                }
                for (sizes, float) in SIZES.iter().zip(&floats) {
                    let values = SymbolValues::default().with(&n, sizes[0]).with(&m, sizes[1]);
                    let numerator = fraction.numerator.eval_to_i64(&values).unwrap();
                    let quotient = numerator as f64 / fraction.divisor as f64;
                    let expected = f64::from(*float);
                    let same = match fraction.rounded {
                        true => quotient as f32 == *float && quotient.floor() == expected.floor(),
                        false => quotient == expected,
                    };
                    prop_assert!(same, "{operation}: {fraction:?} is {quotient}, not {expected}, for {sizes:?}");
                }
                known.push((fraction, floats));
            }
        }
    }

    #[test]
    fn large_numbers_are_no_expressions() {
        let large = Fraction::whole(((1i64 << 31) - 1).to_dim());
        assert!(power(&large, &Fraction::whole(2.to_dim())).is_some());
        assert!(power(&large, &Fraction::whole(4.to_dim())).is_none());
        let difference = sum(&large, &large).unwrap();
        assert!(product(&difference, &difference).is_none());
    }

    /// What exporters write has an expression.
    #[test]
    fn quotients_and_choices_have_expressions() {
        let symbols = SymbolScope::default();
        symbols.add_assertion("h>=0").unwrap();
        let h = Fraction::whole(symbols.sym("h").to_dim());
        let float = |number| Fraction::of_float(number).unwrap();
        let is = |fraction: Option<Fraction>, text: &str| {
            assert_eq!(fraction.unwrap().numerator, symbols.parse_tdim(text).unwrap().simplify());
        };
        let less = sum(&h, &float(-1.)).unwrap();
        let steps = of_whole(&less, &float(4.), floor_divide).unwrap();
        is(sum(&steps, &float(1.)), "(h+3)/4");
        let quarter = product(&h, &float(0.25)).unwrap();
        is(floor(&quarter), "h/4");
        let seventh = quotient_of_floats(&h, &float(7.)).unwrap();
        assert!(seventh.rounded && product(&seventh, &float(7.)).is_none());
        let is_one = compared(&h, &float(1.), Relation::Equal).unwrap();
        assert_eq!(select(&is_one, &h, &h), Some(h.clone()));
        assert_eq!(select(&is_one, &float(1.), &h), Some(h.clone()));
        // Not exactly 1 / 300.
        assert_eq!(Fraction::of_float(f64::from(1f32 / 300.)), None);
    }

    /// Compares operations on sizes with those on their values.
    #[test]
    fn quotients_of_sizes() {
        let symbols = SymbolScope::default();
        symbols.add_assertion("M>=4").unwrap();
        let (n, m) = (symbols.sym("N"), symbols.sym("M"));
        let (dim, other) = (n.to_dim(), m.to_dim());
        let pad = 8.to_dim() - remainder(&dim, &8.to_dim()).unwrap();
        let dividends = [
            dim.clone(),
            dim.clone() - 4,
            4.to_dim() - &dim,
            -dim.clone(),
            other.clone() - 4,
            dim.clone() * 3 - &other,
            dim + 7,
            pad,
        ];
        let mut symbolic = 0;
        for a in &dividends {
            for divisor in [1i64, 3, 8, -3] {
                let b = divisor.to_dim();
                let results =
                    [divide(a, &b), remainder(a, &b), floor_divide(a, &b), floor_mod(a, &b)];
                symbolic += results.iter().flatten().count();
                for (n_value, m_value) in
                    [(0, 4), (2, 4), (3, 5), (4, 6), (8, 13), (9, 30), (17, 4)]
                {
                    let values = SymbolValues::default().with(&n, n_value).with(&m, m_value);
                    let value = a.eval_to_i64(&values).unwrap();
                    let floor = value.div_euclid(divisor.abs());
                    let expected =
                        [value / divisor, value % divisor, floor, value - floor * divisor];
                    for (found, expected) in results.iter().zip(expected) {
                        let Some(found) = found else { continue };
                        let number = found.eval_to_i64(&values).unwrap();
                        assert_eq!(number, expected, "{a} by {divisor}: {found} at {values:?}");
                    }
                }
            }
        }
        // A divisor below zero is not rounded down.
        assert_eq!(symbolic, dividends.len() * (3 * 4 + 2));
    }
}
