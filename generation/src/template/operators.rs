//! Python's operators. minijinja's divide and compare otherwise, and write other texts.

use std::cmp::Ordering;

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Value};

use super::format::printf;
use super::values::{
    Number, Result, check_depth, html, integer, is_tuple, is_view, pairs, refused, text, tuple,
};

/// The longest text or list that an operator makes.
const LONGEST: usize = 10_000_000;

/// Adds them to an environment, as functions with the names of the operators.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_function("+", add);
    environment.add_function("-", subtract);
    environment.add_function("*", multiply);
    environment.add_function("/", divide);
    environment.add_function("//", floor_divide);
    environment.add_function("%", remainder);
    environment.add_function("**", power);
    environment.add_function("-x", negate);
    environment.add_function("~", concatenate);
    environment.add_function("==", |a: &Value, b: &Value| equal(a, b));
    environment.add_function("!=", |a: &Value, b: &Value| equal(a, b).map(|it| !it));
    environment.add_function("<", |a: &Value, b: &Value| compared(a, b, Ordering::is_lt));
    environment.add_function("<=", |a: &Value, b: &Value| compared(a, b, Ordering::is_le));
    environment.add_function(">", |a: &Value, b: &Value| compared(a, b, Ordering::is_gt));
    environment.add_function(">=", |a: &Value, b: &Value| compared(a, b, Ordering::is_ge));
    environment.add_function("in", is_in);
    environment.add_function("[:]", slice);
    environment.add_function("[]", item);
    environment.add_function("{:}", mapping);
    for name in METHODS {
        environment.add_function(name, move |value: &Value| attribute(value, &name[1..]));
    }
}

/// The methods of Python's mappings, texts and lists.
pub(super) const METHODS: [&str; 66] = [
    ".append",
    ".capitalize",
    ".casefold",
    ".center",
    ".clear",
    ".copy",
    ".count",
    ".encode",
    ".endswith",
    ".expandtabs",
    ".extend",
    ".find",
    ".format",
    ".format_map",
    ".fromkeys",
    ".get",
    ".index",
    ".insert",
    ".isalnum",
    ".isalpha",
    ".isascii",
    ".isdecimal",
    ".isdigit",
    ".isidentifier",
    ".islower",
    ".isnumeric",
    ".isprintable",
    ".isspace",
    ".istitle",
    ".isupper",
    ".items",
    ".join",
    ".keys",
    ".ljust",
    ".lower",
    ".lstrip",
    ".maketrans",
    ".partition",
    ".pop",
    ".popitem",
    ".remove",
    ".removeprefix",
    ".removesuffix",
    ".replace",
    ".reverse",
    ".rfind",
    ".rindex",
    ".rjust",
    ".rpartition",
    ".rsplit",
    ".rstrip",
    ".setdefault",
    ".sort",
    ".split",
    ".splitlines",
    ".startswith",
    ".strip",
    ".swapcase",
    ".title",
    ".translate",
    ".update",
    ".upper",
    ".values",
    ".zfill",
    ".__class__",
    ".__len__",
];

/// The methods of mappings.
const OF_MAPPINGS: [&str; 13] = [
    "clear",
    "copy",
    "fromkeys",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
    "__class__",
    "__len__",
];

/// Whether Python's values of this kind have a method of one of the names in `METHODS`.
fn has_method(value: &Value, name: &str) -> bool {
    match value.kind() {
        ValueKind::Map => OF_MAPPINGS.contains(&name),
        ValueKind::String | ValueKind::Seq => true,
        _ => false,
    }
}

/// `value.name` where Python has methods of this name. A method that is not called has no text that says anything, but comes before a
/// key of the same name.
fn attribute(value: &Value, name: &str) -> Result<Value> {
    if has_method(value, name) {
        let kind = value.kind();
        return Err(refused(format!("{name} is a method of a {kind}: [{name:?}] is an item")));
    }
    value.get_attr(name)
}

/// `value[key]`
pub(super) fn item(value: &Value, key: &Value) -> Result<Value> {
    let number = Number::of(key);
    let found = match (value.kind(), number) {
        // 1, 1.0 and True are one key.
        (ValueKind::Map, Some(_)) => {
            let mut found = Value::UNDEFINED;
            for (other, item) in value.as_object().map(pairs).into_iter().flatten() {
                if equal(&other, key)? {
                    found = item;
                }
            }
            found
        }
        (ValueKind::Iterable, _) if value.len().is_none() || is_view(value) => Value::UNDEFINED,
        (ValueKind::String | ValueKind::Seq | ValueKind::Iterable, Some(Number::Int(index))) => {
            value.get_item(&integer(index))?
        }
        (ValueKind::String | ValueKind::Seq | ValueKind::Iterable, Some(_)) => Value::UNDEFINED,
        _ => value.get_item(key)?,
    };
    match key.as_str() {
        // Where there is no such item, Jinja2 takes the method.
        Some(name)
            if found.is_undefined()
                && METHODS.iter().any(|it| it[1..] == *name)
                && has_method(value, name) =>
        {
            Err(refused(format!("there is no item {name:?}, but a method of this name")))
        }
        _ => Ok(found),
    }
}

/// `{key: value}`, from keys and values in turn.
fn mapping(both: Rest<Value>) -> Result<Value> {
    let mut pairs: Vec<(Value, Value)> = Vec::with_capacity(both.len() / 2);
    for pair in both.chunks_exact(2) {
        let [key, value] = pair else { continue };
        let mut same = None;
        for (index, (other, _)) in pairs.iter().enumerate() {
            // 1, 1.0 and True are one key.
            if equal(other, key)? {
                same = Some(index);
            }
        }
        match same {
            Some(index) => pairs[index].1 = value.clone(),
            None => pairs.push((key.clone(), value.clone())),
        }
    }
    Ok(Value::from_iter(pairs))
}

fn cannot(operator: &str, a: &Value, b: &Value) -> minijinja::Error {
    refused(format!("{operator} does not take {} and {}", a.kind(), b.kind()))
}

fn too_large(operator: &str) -> minijinja::Error {
    refused(format!("the result of {operator} is too large"))
}

/// Calculates with integers, or with floats if one of both is one.
fn calculate(
    operator: &str,
    (a, b): (&Value, &Value),
    integers: impl FnOnce(i128, i128) -> Option<i128>,
    floats: impl FnOnce(f64, f64) -> f64,
) -> Result<Value> {
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => {
            integers(a, b).map(integer).ok_or_else(|| too_large(operator))
        }
        (Some(a), Some(b)) => Ok(floats(a.float(), b.float()).into()),
        _ => Err(cannot(operator, a, b)),
    }
}

pub(super) fn add(a: &Value, b: &Value) -> Result<Value> {
    match (a.kind(), b.kind()) {
        (ValueKind::String, ValueKind::String) if a.is_safe() || b.is_safe() => {
            joined("+", html(a)?, &html(b)?).map(Value::from_safe_string)
        }
        (ValueKind::String, ValueKind::String) => joined("+", text(a)?, &text(b)?).map(Value::from),
        (ValueKind::Seq, ValueKind::Seq) if is_tuple(a) == is_tuple(b) => {
            if a.len().unwrap_or(0) + b.len().unwrap_or(0) > LONGEST {
                return Err(too_large("+"));
            }
            let items: Vec<Value> = a.try_iter()?.chain(b.try_iter()?).collect();
            Ok(if is_tuple(a) { tuple(items) } else { items.into() })
        }
        _ => calculate("+", (a, b), i128::checked_add, |a, b| a + b),
    }
}

fn subtract(a: &Value, b: &Value) -> Result<Value> {
    calculate("-", (a, b), i128::checked_sub, |a, b| a - b)
}

fn multiply(a: &Value, b: &Value) -> Result<Value> {
    let (items, count) = match (a.kind(), b.kind()) {
        (ValueKind::String | ValueKind::Seq, _) => (a, b),
        (_, ValueKind::String | ValueKind::Seq) => (b, a),
        _ => return calculate("*", (a, b), i128::checked_mul, |a, b| a * b),
    };
    let Some(Number::Int(count)) = Number::of(count) else { return Err(cannot("*", a, b)) };
    let count = usize::try_from(count.max(0)).map_err(|_| too_large("*"))?;
    let long = items.as_str().map_or_else(|| items.len().unwrap_or_default(), str::len);
    if long.checked_mul(count).is_none_or(|length| length > LONGEST) {
        return Err(too_large("*"));
    }
    if let Some(text) = items.as_str() {
        return Ok(text.repeat(count).into());
    }
    let mut result = Vec::with_capacity(long * count);
    for _ in 0..count {
        result.extend(items.try_iter()?);
    }
    Ok(if is_tuple(items) { tuple(result) } else { result.into() })
}

/// Fails where a divisor is 0.
fn check_divisor(operator: &str, divisor: &Value) -> Result<()> {
    if Number::of(divisor).is_some_and(|it| it.float() == 0.) {
        return Err(refused(format!("{operator} divides by 0")));
    }
    Ok(())
}

fn divide(a: &Value, b: &Value) -> Result<Value> {
    check_divisor("/", b)?;
    match (Number::of(a), Number::of(b)) {
        (Some(a), Some(b)) => Ok((a.float() / b.float()).into()),
        _ => Err(cannot("/", a, b)),
    }
}

/// The quotient towards minus infinity.
fn floor_divide(a: &Value, b: &Value) -> Result<Value> {
    check_divisor("//", b)?;
    let integers = |a: i128, b: i128| {
        let quotient = a.checked_div(b)?;
        Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
    };
    // As Python does it, with the remainder.
    let floats = |a: f64, b: f64| {
        let quotient = (a - float_remainder(a, b)) / b;
        if quotient == 0. { 0_f64.copysign(a / b) } else { quotient.round() }
    };
    calculate("//", (a, b), integers, floats)
}

/// The remainder with the sign of the divisor.
fn remainder(a: &Value, b: &Value) -> Result<Value> {
    if let Some(format) = a.as_str() {
        return printf(format, b).map(Value::from);
    }
    check_divisor("%", b)?;
    let integers = |a: i128, b: i128| {
        let rest = a.checked_rem(b)?;
        Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
    };
    calculate("%", (a, b), integers, float_remainder)
}

fn float_remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest == 0. {
        0_f64.copysign(b)
    } else if (rest < 0.) != (b < 0.) {
        rest + b
    } else {
        rest
    }
}

fn power(a: &Value, b: &Value) -> Result<Value> {
    if let (Some(Number::Int(base)), Some(Number::Int(exponent))) = (Number::of(a), Number::of(b)) {
        if exponent >= 0 {
            let power = u32::try_from(exponent).ok().and_then(|it| base.checked_pow(it));
            return power.map(integer).ok_or_else(|| too_large("**"));
        }
        check_divisor("**", a)?;
    }
    match (Number::of(a), Number::of(b)) {
        (Some(a), Some(b)) => {
            let power = a.float().powf(b.float());
            // That of a negative number may be complex.
            if power.is_nan() || power.is_infinite() {
                Err(too_large("**"))
            } else {
                Ok(power.into())
            }
        }
        _ => Err(cannot("**", a, b)),
    }
}

fn negate(value: &Value) -> Result<Value> {
    match Number::of(value) {
        Some(Number::Int(number)) => {
            number.checked_neg().map(integer).ok_or_else(|| too_large("-"))
        }
        Some(Number::Float(number)) => Ok((-number).into()),
        None => Err(refused(format!("- does not take {}", value.kind()))),
    }
}

fn concatenate(a: &Value, b: &Value) -> Result<Value> {
    joined("~", text(a)?, &text(b)?).map(Value::from)
}

/// Both texts, if they are not too long.
fn joined(operator: &str, a: String, b: &str) -> Result<String> {
    if a.len() + b.len() > LONGEST { Err(too_large(operator)) } else { Ok(a + b) }
}

pub(super) fn equal(a: &Value, b: &Value) -> Result<bool> {
    equal_at(a, b, 0)
}

fn equal_at(a: &Value, b: &Value, depth: usize) -> Result<bool> {
    check_depth(depth)?;
    if let (Some(a), Some(b)) = (Number::of(a), Number::of(b)) {
        return Ok(match (a, b) {
            (Number::Int(a), Number::Int(b)) => a == b,
            (Number::Float(a), Number::Float(b)) => a == b,
            (Number::Int(int), Number::Float(float)) | (Number::Float(float), Number::Int(int)) => {
                float.fract() == 0. && float as i128 == int && int as f64 == float
            }
        });
    }
    match (a.kind(), b.kind()) {
        (ValueKind::Seq, ValueKind::Seq) => {
            if is_tuple(a) != is_tuple(b) || a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.try_iter()?.zip(b.try_iter()?) {
                if !equal_at(&a, &b, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (ValueKind::Map, ValueKind::Map) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            let Some(b) = b.as_object() else { return Ok(false) };
            for (key, value) in a.as_object().map(pairs).into_iter().flatten() {
                match b.get_value(&key) {
                    Some(other) if equal_at(&value, &other, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (one, other) => Ok(one == other && a == b),
    }
}

fn compared(a: &Value, b: &Value, is: impl Fn(Ordering) -> bool) -> Result<bool> {
    Ok(compare(a, b)?.is_some_and(is))
}

/// The order of two values, or `None` if there is a number that is none. Python has no order of values of different types.
pub(super) fn compare(a: &Value, b: &Value) -> Result<Option<Ordering>> {
    compare_at(a, b, 0)
}

fn compare_at(a: &Value, b: &Value, depth: usize) -> Result<Option<Ordering>> {
    check_depth(depth)?;
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => return Ok(Some(a.cmp(&b))),
        (Some(a), Some(b)) => return Ok(a.float().partial_cmp(&b.float())),
        _ => {}
    }
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => return Ok(Some(a.cmp(b))),
        _ if a.kind() == ValueKind::Seq
            && b.kind() == ValueKind::Seq
            && is_tuple(a) == is_tuple(b) => {}
        _ => return Err(cannot("<", a, b)),
    }
    for (a, b) in a.try_iter()?.zip(b.try_iter()?) {
        if !equal_at(&a, &b, depth + 1)? {
            return compare_at(&a, &b, depth + 1);
        }
    }
    Ok(Some(a.len().cmp(&b.len())))
}

/// Sorts items by their keys. Those with the same key stay in their order.
pub(super) fn sorted(items: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<(Value, Value)>> {
    // A sort that may fail, and that no order confuses.
    if items.len() < 2 {
        return Ok(items);
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let (left, right) = (sorted(left, reverse)?, sorted(right, reverse)?);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some((a, _)), Some((b, _))) = (left.peek(), right.peek()) {
        let order = if reverse { compare(a, b)? } else { compare(b, a)? };
        let is_later = order.is_some_and(|it| it.is_lt());
        merged.extend(if is_later { right.next() } else { left.next() });
    }
    merged.extend(left.chain(right));
    Ok(merged)
}

pub(super) fn is_in(item: &Value, container: &Value) -> Result<bool> {
    if let Some(text) = container.as_str() {
        let item = item.as_str().ok_or_else(|| cannot("in", item, container))?;
        return Ok(text.contains(item));
    }
    match (container.kind(), container.as_object()) {
        (ValueKind::Undefined, _) => Ok(false),
        (ValueKind::Map, Some(map)) => Ok(map.get_value(item).is_some()),
        (ValueKind::Seq | ValueKind::Iterable, _) => {
            for other in container.try_iter()? {
                if equal(item, &other)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(cannot("in", item, container)),
    }
}

/// `value[start:stop:step]`
fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value> {
    let step = bound(step)?.unwrap_or(1);
    if step == 0 {
        return Err(refused("the step of a slice is 0"));
    }
    let bounds = (bound(start)?, bound(stop)?, step);
    if let Some(text) = value.as_str() {
        let characters: Vec<char> = text.chars().collect();
        let cut: String = indices(bounds, characters.len()).map(|it| characters[it]).collect();
        return Ok(cut.into());
    }
    if value.kind() != ValueKind::Seq {
        return Err(refused(format!("a value of type {} has no slices", value.kind())));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    let cut = indices(bounds, items.len()).map(|it| items[it].clone()).collect();
    Ok(if is_tuple(value) { tuple(cut) } else { cut.into() })
}

fn bound(value: &Value) -> Result<Option<i64>> {
    match Number::of(value) {
        // Beyond these, everything is out of range.
        Some(Number::Int(number)) => {
            Ok(Some(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64))
        }
        None if value.is_none() => Ok(None),
        _ => Err(refused(format!("a slice ends at an integer, not at {}", value.kind()))),
    }
}

/// The indices of a slice of so many items.
fn indices(
    (start, stop, step): (Option<i64>, Option<i64>, i64),
    length: usize,
) -> impl Iterator<Item = usize> {
    let length = length as i64;
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let absolute = |bound: i64| {
        let bound = if bound < 0 { bound.saturating_add(length) } else { bound };
        bound.clamp(lowest, highest)
    };
    let start = start.map_or(if step > 0 { lowest } else { highest }, absolute);
    let stop = stop.map_or(if step > 0 { highest } else { lowest }, absolute);
    let mut next = Some(start);
    std::iter::from_fn(move || {
        let index = next.filter(|it| if step > 0 { *it < stop } else { *it > stop })?;
        next = index.checked_add(step);
        usize::try_from(index).ok()
    })
}
