//! Filters and tests of Jinja2 where those of minijinja are missing, or give something else.

use std::collections::BTreeSet;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, State, Value, filters};

use super::arguments::{Arguments, is_set, optional_integer, required_text};
use super::format::printf;
use super::json::tojson;
use super::methods::{self, capitalize, lines, replaced};
use super::operators::{add, compare, equal, is_in, item as item_of, sorted};
use super::values::{
    Number, Result, escaped, float_text, generator, group, html, integer, items, pairs, refused,
    text, tuple,
};

/// The longest indentation, and the most parts that a list is divided into.
const MOST: i64 = 10_000;

/// Adds them to an environment.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    add_filters(environment);
    add_tests(environment);
}

fn add_filters(environment: &mut Environment<'static>) {
    // They give other texts, and templates of chats do without them.
    for name in ["attr", "pprint", "debug"] {
        environment.remove_filter(name);
    }
    environment
        .add_filter("tojson", |value: &Value, arguments: Rest<Value>| tojson(value, &arguments));
    environment.add_filter("string", |value: &Value| same_safety(value, text));
    environment.add_filter("upper", |value: &Value| {
        same_safety(value, |value| Ok(text(value)?.to_uppercase()))
    });
    environment.add_filter("lower", |value: &Value| {
        same_safety(value, |value| Ok(text(value)?.to_lowercase()))
    });
    environment.add_filter("capitalize", |value: &Value| {
        same_safety(value, |value| Ok(capitalize(&text(value)?)))
    });
    environment.add_filter("title", |value: &Value| same_safety(value, title));
    for name in ["e", "escape"] {
        environment.add_filter(name, |value: &Value| html(value).map(Value::from_safe_string));
    }
    environment.add_filter("forceescape", |value: &Value| {
        text(value).map(|it| Value::from_safe_string(escaped(&it)))
    });
    environment.add_filter("safe", |value: &Value| text(value).map(Value::from_safe_string));
    environment.add_filter("trim", |state: &State, value: &Value, arguments: Rest<Value>| {
        let stripped = |value: &Value| {
            let stripped = methods::call(state, &text(value)?.into(), "strip", &arguments)?;
            text(&stripped)
        };
        same_safety(value, stripped)
    });
    environment.add_filter("replace", replace);
    environment.add_filter("indent", indent);
    environment.add_filter("join", join);
    environment.add_filter("format", format);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("round", round);
    for name in ["default", "d"] {
        environment.add_filter(name, default);
    }
    for name in ["length", "count"] {
        environment.add_filter(name, |value: &Value| match value.kind() {
            ValueKind::Undefined => Ok(0),
            _ => filters::length(value),
        });
    }
    environment.add_filter("list", all);
    environment.add_filter("items", |value: &Value| match value.as_object() {
        Some(map) if value.kind() == ValueKind::Map => all(&items(map)).map(generator),
        _ if value.is_undefined() => Ok(generator(vec![])),
        _ => Err(refused(format!("items takes a mapping, not {}", value.kind()))),
    });
    environment.add_filter("reverse", |value: &Value| match value.kind() {
        ValueKind::String => value.reverse(),
        _ => Ok(generator(all(value)?.into_iter().rev().collect())),
    });
    environment.add_filter("sum", sum);
    environment.add_filter("sort", sort);
    environment.add_filter("dictsort", dictsort);
    environment.add_filter("unique", unique);
    environment.add_filter("groupby", groupby);
    environment.add_filter("min", |value: &Value, arguments: Rest<Value>| {
        extreme("min", value, &arguments)
    });
    environment.add_filter("max", |value: &Value, arguments: Rest<Value>| {
        extreme("max", value, &arguments)
    });
    environment.add_filter("batch", batch);
    environment.add_filter("slice", slice);
    environment.add_filter("map", map);
    for (name, has_attribute, is_wanted) in [
        ("select", false, true),
        ("reject", false, false),
        ("selectattr", true, true),
        ("rejectattr", true, false),
    ] {
        environment.add_filter(
            name,
            move |state: &State, value: &Value, arguments: Rest<Value>| {
                let (attribute, test) = match arguments.split_first() {
                    Some((attribute, test)) if has_attribute => (Some(attribute), test),
                    None if has_attribute => {
                        return Err(refused(format!("{name} needs an attribute")));
                    }
                    _ => (None, &arguments[..]),
                };
                chosen(state, value, attribute, test, is_wanted)
            },
        );
    }
}

fn add_tests(environment: &mut Environment<'static>) {
    // What has a length, and items at places.
    environment.add_test("sequence", |value: &Value| match value.kind() {
        ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined => true,
        ValueKind::Iterable => value.len().is_some() && !super::values::is_view(value),
        _ => false,
    });
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("number", |value: &Value| Number::of(value).is_some());
    environment.add_test("odd", |value: &Value| has_rest(value, 2, 1));
    environment.add_test("even", |value: &Value| has_rest(value, 2, 0));
    environment.add_test("divisibleby", |value: &Value, divisor: &Value| {
        match (Number::of(value), Number::of(divisor)) {
            (Some(Number::Int(value)), Some(Number::Int(divisor))) if divisor != 0 => {
                Ok(value.checked_rem(divisor).unwrap_or(0) == 0)
            }
            _ => Err(refused("divisibleby takes integers, and none is divisible by 0")),
        }
    });
    environment.add_test("lower", |state: &State, value: &Value| {
        methods::call(state, &text(value)?.into(), "islower", &[])
    });
    environment.add_test("upper", |state: &State, value: &Value| {
        methods::call(state, &text(value)?.into(), "isupper", &[])
    });
    for name in ["eq", "equalto", "=="] {
        environment.add_test(name, |a: &Value, b: &Value| equal(a, b));
    }
    for name in ["ne", "!="] {
        environment.add_test(name, |a: &Value, b: &Value| equal(a, b).map(|it| !it));
    }
    for (names, is) in [
        (["lt", "lessthan", "<"], std::cmp::Ordering::is_lt as fn(_) -> bool),
        (["gt", "greaterthan", ">"], std::cmp::Ordering::is_gt),
        (["le", "le", "<="], std::cmp::Ordering::is_le),
        (["ge", "ge", ">="], std::cmp::Ordering::is_ge),
    ] {
        for name in names {
            environment.add_test(name, move |a: &Value, b: &Value| {
                Ok::<bool, minijinja::Error>(compare(a, b)?.is_some_and(is))
            });
        }
    }
    environment.add_test("in", is_in);
}

fn has_rest(value: &Value, divisor: i128, rest: i128) -> Result<bool> {
    match Number::of(value) {
        Some(Number::Int(value)) => Ok(value.rem_euclid(divisor) == rest),
        Some(Number::Float(value)) => Ok(value.rem_euclid(divisor as f64) == rest as f64),
        None => Err(refused(format!("a value of type {} is neither odd nor even", value.kind()))),
    }
}

/// All items of a value that has some.
fn all(value: &Value) -> Result<Vec<Value>> {
    if value.is_none() {
        return Err(refused("none has no items"));
    }
    Ok(value.try_iter()?.collect())
}

/// A text that is safe if the value that it was made of is.
fn same_safety(value: &Value, change: impl FnOnce(&Value) -> Result<String>) -> Result<Value> {
    let text = change(value)?;
    Ok(if value.is_safe() { Value::from_safe_string(text) } else { text.into() })
}

/// Words begin after white space and brackets here, and not after other signs as in the method of this name.
fn title(value: &Value) -> Result<String> {
    let mut out = String::new();
    let mut is_word = false;
    for character in text(value)?.chars() {
        if is_word {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        is_word = !(character.is_whitespace() || "-({[<".contains(character));
    }
    Ok(out)
}

fn replace(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([old, new, count]) =
        Arguments::of("replace", ["old", "new", "count"], &arguments)?;
    let (Some(old), Some(new)) = (old, new) else {
        return Err(refused("replace needs two texts"));
    };
    let count = optional_integer("replace", &count)?;
    let (old, new) = (text(&old)?, text(&new)?);
    same_safety(value, |value| Ok(replaced(&text(value)?, &old, &new, count)))
}

fn indent(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    if value.as_str().is_none() {
        return Err(refused(format!("indent takes a text, not {}", value.kind())));
    }
    let Arguments([width, first, blank]) =
        Arguments::of("indent", ["width", "first", "blank"], &arguments)?;
    let indentation = match width.as_ref().and_then(|it| it.as_str()) {
        Some(text) => text.to_string(),
        None => match optional_integer("indent", &width)?.unwrap_or(4) {
            width if width > MOST => return Err(refused(format!("indent takes {MOST} at most"))),
            width => " ".repeat(width.max(0) as usize),
        },
    };
    same_safety(value, |value| {
        // So an end of a line at the end stays.
        let text = text(value)? + "\n";
        let mut out = String::new();
        for (index, line) in lines(&text, false).into_iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            let is_indented = match index {
                0 => is_set(&first),
                _ => is_set(&blank) || !line.is_empty(),
            };
            if is_indented {
                out.push_str(&indentation);
            }
            out.push_str(line);
        }
        Ok(out)
    })
}

fn join(value: &Value, arguments: Rest<Value>) -> Result<String> {
    let Arguments([separator, attribute]) = Arguments::of("join", ["d", "attribute"], &arguments)?;
    let separator = separator.as_ref().map_or(Ok(String::new()), text)?;
    let texts = all(value)?.into_iter().map(|item| text(&key(&item, attribute.as_ref(), true)?));
    Ok(texts.collect::<Result<Vec<String>>>()?.join(&separator))
}

fn format(value: &Value, arguments: Rest<Value>) -> Result<String> {
    let format = text(value)?;
    match arguments.split_last() {
        Some((last, [])) if last.is_kwargs() => {
            let named = Kwargs::try_from(last.clone())?;
            let named: Result<Vec<(String, Value)>> =
                named.args().map(|name| Ok((name.to_string(), named.peek(name)?))).collect();
            printf(&format, &Value::from_iter(named?))
        }
        Some((last, _)) if last.is_kwargs() => {
            Err(refused("format takes values either with names or without"))
        }
        _ => printf(&format, &tuple(arguments.to_vec())),
    }
}

fn int(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([default, base]) = Arguments::of("int", ["default", "base"], &arguments)?;
    let default = default.unwrap_or(Value::from(0));
    let base = optional_integer("int", &base)?.unwrap_or(10);
    let Some(base) = u32::try_from(base).ok().filter(|it| (2..=36).contains(it)) else {
        return Err(refused(format!("int takes a base from 2 to 36, not {base}")));
    };
    let whole = |number: f64| {
        let limit = 2_f64.powi(126);
        if number.abs() < limit {
            Ok(integer(number.trunc() as i128))
        } else {
            Err(refused(format!("int does not take {}", float_text(number))))
        }
    };
    match (value.as_str(), Number::of(value)) {
        (Some(text), _) => match (integer_of(text, base)?, float_of(text)) {
            (Some(number), _) => Ok(integer(number)),
            (None, Some(number)) if number.is_finite() => whole(number),
            _ => Ok(default),
        },
        (_, Some(Number::Int(number))) => Ok(integer(number)),
        (_, Some(Number::Float(number))) => whole(number),
        _ if value.is_undefined() => Err(refused("int takes no undefined value")),
        _ => Ok(default),
    }
}

/// The integer that a text is, if it is one.
fn integer_of(text: &str, base: u32) -> Result<Option<i128>> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let lower = unsigned.to_ascii_lowercase();
    let digits = lower.strip_prefix(prefix).unwrap_or(&lower);
    let groups: Vec<&str> = digits.split('_').collect();
    let is_number =
        groups.iter().all(|it| !it.is_empty() && it.chars().all(|it| it.is_digit(base)));
    if !is_number {
        return Ok(None);
    }
    let number = i128::from_str_radix(&groups.concat(), base)
        .map_err(|_| refused(format!("int does not take numbers as large as {text}")))?;
    Ok(Some(if text.starts_with('-') { -number } else { number }))
}

/// The number that a text is, if it is one.
fn float_of(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

fn float(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([default]) = Arguments::of("float", ["default"], &arguments)?;
    let default = default.unwrap_or(Value::from(0.));
    match (value.as_str(), Number::of(value)) {
        (Some(text), _) => Ok(float_of(text).map_or(default, Value::from)),
        (_, Some(number)) => Ok(number.float().into()),
        _ if value.is_undefined() => Err(refused("float takes no undefined value")),
        _ => Ok(default),
    }
}

fn round(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([precision, method]) =
        Arguments::of("round", ["precision", "method"], &arguments)?;
    let precision = optional_integer("round", &precision)?.unwrap_or(0);
    let Some(precision) = i32::try_from(precision).ok().filter(|it| it.abs() <= 300) else {
        return Err(refused(format!("round takes a precision up to 300, not {precision}")));
    };
    let method = method.as_ref().map_or(Ok("common".into()), text)?;
    let factor = 10_f64.powi(precision);
    match (&*method, Number::of(value)) {
        ("common", Some(Number::Int(number))) if precision >= 0 => Ok(integer(number)),
        ("common", Some(Number::Float(number))) if precision >= 0 => {
            // The nearest one, or an even one in the middle, as Rust writes it.
            let text = format!("{number:.*}", precision as usize);
            Ok(text.parse::<f64>().unwrap_or(number).into())
        }
        ("common", Some(Number::Float(number))) => {
            let unit = 10_f64.powi(-precision);
            Ok(((number / unit).round_ties_even() * unit).into())
        }
        ("ceil", Some(number)) => Ok(((number.float() * factor).ceil() / factor).into()),
        ("floor", Some(number)) => Ok(((number.float() * factor).floor() / factor).into()),
        _ => Err(refused(format!("round does not take {} and {method}", value.kind()))),
    }
}

fn default(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([default, boolean]) =
        Arguments::of("default", ["default_value", "boolean"], &arguments)?;
    let is_missing = value.is_undefined() || is_set(&boolean) && !value.is_true();
    Ok(if is_missing { default.unwrap_or_else(|| "".into()) } else { value.clone() })
}

/// What an item is compared by: itself, or an attribute. Texts are compared without regard to case, unless that matters.
fn key(item: &Value, attribute: Option<&Value>, case_sensitive: bool) -> Result<Value> {
    let mut value = item.clone();
    let attribute = attribute.filter(|it| !it.is_none());
    let parts = match attribute.map(|it| (it.as_str(), Number::of(it))) {
        None => vec![],
        Some((Some(names), _)) => {
            let part = |it: &str| it.parse::<usize>().map_or_else(|_| it.into(), Value::from);
            names.split('.').map(part).collect()
        }
        Some((None, Some(Number::Int(index)))) => vec![integer(index)],
        Some(_) => return Err(refused("an attribute is a text or an integer")),
    };
    for part in parts {
        value = item_of(&value, &part)?;
    }
    Ok(match value.as_str() {
        Some(text) if !case_sensitive => text.to_lowercase().into(),
        _ => value,
    })
}

fn sort(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let names = ["reverse", "case_sensitive", "attribute"];
    let Arguments([reverse, case_sensitive, attribute]) = Arguments::of("sort", names, &arguments)?;
    let attributes = attribute.filter(|it| !it.is_none()).map(|it| text(&it)).transpose()?;
    let mut keyed = vec![];
    for item in all(value)? {
        let key = match &attributes {
            Some(attributes) if attributes.contains(',') => {
                let keys = attributes.split(',').map(|attribute| {
                    key(&item, Some(&Value::from(attribute)), is_set(&case_sensitive))
                });
                Value::from(keys.collect::<Result<Vec<Value>>>()?)
            }
            _ => {
                let attribute = attributes.as_deref().map(Value::from);
                key(&item, attribute.as_ref(), is_set(&case_sensitive))?
            }
        };
        keyed.push((key, item));
    }
    Ok(sorted(keyed, is_set(&reverse))?.into_iter().map(|(_, item)| item).collect())
}

fn dictsort(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let names = ["case_sensitive", "by", "reverse"];
    let Arguments([case_sensitive, by, reverse]) = Arguments::of("dictsort", names, &arguments)?;
    let by = by.as_ref().map_or(Ok("key".into()), text)?;
    let index = match &*by {
        "key" => 0,
        "value" => 1,
        _ => return Err(refused(format!("dictsort sorts by key or value, not by {by}"))),
    };
    let map = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    let map = map.ok_or_else(|| refused(format!("dictsort takes no {}", value.kind())))?;
    let mut keyed = vec![];
    for (name, item) in pairs(map) {
        let both = [name, item];
        let key = key(&both[index], None, is_set(&case_sensitive))?;
        keyed.push((key, tuple(both.to_vec())));
    }
    Ok(sorted(keyed, is_set(&reverse))?.into_iter().map(|(_, item)| item).collect())
}

fn unique(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([case_sensitive, attribute]) =
        Arguments::of("unique", ["case_sensitive", "attribute"], &arguments)?;
    let mut seen = BTreeSet::new();
    let mut result = vec![];
    for item in all(value)? {
        let key = key(&item, attribute.as_ref(), is_set(&case_sensitive))?;
        if matches!(key.kind(), ValueKind::Seq | ValueKind::Map) {
            return Err(refused(format!("unique takes no {}", key.kind())));
        }
        // Both are one in Python.
        let key =
            if let Some(Number::Int(number)) = Number::of(&key) { integer(number) } else { key };
        if seen.insert(key) {
            result.push(item);
        }
    }
    Ok(generator(result))
}

fn groupby(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let names = ["attribute", "default", "case_sensitive"];
    let Arguments([attribute, default, case_sensitive]) =
        Arguments::of("groupby", names, &arguments)?;
    let attribute = attribute.ok_or_else(|| refused("groupby needs an attribute"))?;
    let value_of = |item: &Value| -> Result<Value> {
        let value = key(item, Some(&attribute), true)?;
        Ok(if value.is_undefined() { default.clone().unwrap_or(value) } else { value })
    };
    let mut keyed = vec![];
    for item in all(value)? {
        keyed.push((key(&value_of(&item)?, None, is_set(&case_sensitive))?, item));
    }
    let mut groups: Vec<(Value, Vec<Value>)> = vec![];
    for (key, item) in sorted(keyed, false)? {
        match groups.last_mut() {
            Some((last, group)) if equal(last, &key)? => group.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let groups = groups.into_iter().map(|(_, items)| {
        // In the case of the first one.
        Ok(group(value_of(&items[0])?, items.into()))
    });
    Ok(groups.collect::<Result<Vec<Value>>>()?.into())
}

fn extreme(name: &str, value: &Value, arguments: &[Value]) -> Result<Value> {
    let Arguments([case_sensitive, attribute]) =
        Arguments::of(name, ["case_sensitive", "attribute"], arguments)?;
    let mut best: Option<(Value, Value)> = None;
    for item in all(value)? {
        let key = key(&item, attribute.as_ref(), is_set(&case_sensitive))?;
        let is_better = match &best {
            None => true,
            Some((best, _)) if name == "min" => compare(&key, best)?.is_some_and(|it| it.is_lt()),
            Some((best, _)) => compare(&key, best)?.is_some_and(|it| it.is_gt()),
        };
        if is_better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, item)| item))
}

fn sum(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([attribute, start]) = Arguments::of("sum", ["attribute", "start"], &arguments)?;
    let mut sum = start.unwrap_or(Value::from(0));
    if sum.as_str().is_some() {
        return Err(refused("sum adds no texts: join does"));
    }
    for item in all(value)? {
        sum = add(&sum, &key(&item, attribute.as_ref(), true)?)?;
    }
    Ok(sum)
}

/// How many items, or parts, a list is divided into.
fn parts(name: &str, count: &Option<Value>) -> Result<usize> {
    match optional_integer(name, count)? {
        Some(count) if (1..=MOST).contains(&count) => Ok(count as usize),
        _ => Err(refused(format!("{name} needs a number from 1 to {MOST}"))),
    }
}

fn batch(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([count, fill]) = Arguments::of("batch", ["linecount", "fill_with"], &arguments)?;
    let count = parts("batch", &count)?;
    let mut batches = vec![];
    for batch in all(value)?.chunks(count) {
        let mut batch = batch.to_vec();
        if let Some(fill) = fill.as_ref().filter(|it| !it.is_none()) {
            batch.resize(count, fill.clone());
        }
        batches.push(batch.into());
    }
    Ok(generator(batches))
}

fn slice(value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let Arguments([count, fill]) = Arguments::of("slice", ["slices", "fill_with"], &arguments)?;
    let count = parts("slice", &count)?;
    let items = all(value)?;
    let (each, more) = (items.len() / count, items.len() % count);
    let mut items = items.into_iter();
    let slices = (0..count).map(|index| {
        let mut slice: Vec<Value> = items.by_ref().take(each + usize::from(index < more)).collect();
        if let Some(fill) = fill.as_ref().filter(|it| !it.is_none() && index >= more) {
            slice.push(fill.clone());
        }
        slice.into()
    });
    Ok(generator(slices.collect()))
}

/// The items that pass a test, or whose attribute does; or those that do not.
fn chosen(
    state: &State,
    value: &Value,
    attribute: Option<&Value>,
    test: &[Value],
    is_wanted: bool,
) -> Result<Value> {
    let mut result = vec![];
    for item in all(value)? {
        let value = key(&item, attribute, true)?;
        let passes = match test.split_first() {
            Some((test, arguments)) => {
                let test = required_text("a test", &Some(test.clone()))?;
                let all: Vec<Value> =
                    std::iter::once(value).chain(arguments.iter().cloned()).collect();
                state.perform_test(&test, &all)?
            }
            None => value.is_true(),
        };
        if passes == is_wanted {
            result.push(item);
        }
    }
    Ok(generator(result))
}

fn map(state: &State, value: &Value, arguments: Rest<Value>) -> Result<Value> {
    let items = all(value)?;
    if arguments.first().is_some_and(|first| first.is_kwargs()) {
        let Arguments([attribute, default]) =
            Arguments::of("map", ["attribute", "default"], &arguments)?;
        let attribute = attribute.ok_or_else(|| refused("map needs a filter or an attribute"))?;
        let values = items.iter().map(|item| {
            let value = key(item, Some(&attribute), true)?;
            Ok(if value.is_undefined() { default.clone().unwrap_or(value) } else { value })
        });
        return Ok(generator(values.collect::<Result<Vec<Value>>>()?));
    }
    let filter = required_text("map", &arguments.first().cloned())?;
    let values = items.into_iter().map(|item| {
        let all: Vec<Value> =
            std::iter::once(item).chain(arguments.iter().skip(1).cloned()).collect();
        state.apply_filter(&filter, &all)
    });
    Ok(generator(values.collect::<Result<Vec<Value>>>()?))
}
