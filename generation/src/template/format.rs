//! Texts with places for values: `'%s' % value` and `'{}'.format(value)`. minijinja formats numbers and texts; other values have the
//! texts of Python.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{FormatStyle, Value, format_filter};

use super::values::{Number, Result, is_tuple, refused, repr, text};

/// The widest place.
const WIDEST: usize = 100_000;

/// `format % values`: a tuple has several values, and a mapping has them by name.
pub(super) fn printf(format: &str, values: &Value) -> Result<String> {
    let mut positional: Vec<Value> =
        if is_tuple(values) { values.try_iter()?.collect() } else { vec![values.clone()] };
    positional.reverse();
    let mut is_named = false;
    let mut out = String::new();
    let mut rest = format;
    while let Some((literal, after)) = rest.split_once('%') {
        out += literal;
        let (name, after) = match after.strip_prefix('(').map(|it| it.split_once(')')) {
            Some(Some((name, after))) => (Some(name), after),
            Some(None) => return Err(refused(format!("{format:?} has a name without an end"))),
            None => (None, after),
        };
        let length = after.bytes().take_while(|it| b"#0- +.0123456789".contains(it)).count();
        let (spec, after) = after.split_at(length);
        // C has them, and Python looks over them.
        let after = after.trim_start_matches(['h', 'l', 'L']);
        let mut characters = after.chars();
        let conversion = characters.next();
        rest = characters.as_str();
        if conversion == Some('%') && name.is_none() && spec.is_empty() {
            out.push('%');
            continue;
        }
        let value = match name {
            Some(name) if values.kind() == ValueKind::Map => {
                is_named = true;
                let value = values.get_item(&Value::from(name))?;
                (!value.is_undefined()).then_some(value)
            }
            Some(_) => None,
            None => positional.pop(),
        };
        let Some(value) = value else {
            return Err(refused(format!("there are not enough values for {format:?}")));
        };
        out += &printed(spec, conversion, &value)?;
    }
    out += rest;
    // Python takes a list for a mapping here, which may have more.
    let may_have_more =
        matches!(values.kind(), ValueKind::Map | ValueKind::Seq) && !is_tuple(values);
    if !is_named && !positional.is_empty() && !may_have_more {
        return Err(refused(format!("there are too many values for {format:?}")));
    }
    Ok(out)
}

fn printed(spec: &str, conversion: Option<char>, value: &Value) -> Result<String> {
    let digits = |text: &str| match text.parse::<usize>() {
        Ok(number) if number > WIDEST => Err(refused(format!("a place is {number} wide"))),
        other => Ok(other.unwrap_or_default()),
    };
    let (width, precision) = match spec.split_once('.') {
        Some((width, precision)) => (width, Some(digits(precision)?)),
        None => (spec, None),
    };
    let width = digits(width.trim_start_matches(['#', '0', '-', ' ', '+']))?;
    let wanted = |what: &str| {
        refused(format!("%{} takes {what}, not {}", conversion.unwrap_or(' '), value.kind()))
    };
    let converted = match conversion {
        Some('s' | 'r') => {
            let text = if conversion == Some('s') { text(value)? } else { repr(value)? };
            let text: String = text.chars().take(precision.unwrap_or(usize::MAX)).collect();
            let padding = " ".repeat(width.saturating_sub(text.chars().count()));
            return Ok(if spec.contains('-') { text + &padding } else { padding + &text });
        }
        Some('d' | 'i' | 'u') => match Number::of(value) {
            Some(Number::Float(number)) if number.abs() < 1e18 => {
                Value::from(number.trunc() as i64)
            }
            Some(Number::Int(number)) => Value::from(number),
            _ => return Err(wanted("a number")),
        },
        Some('x' | 'X' | 'o') => match Number::of(value) {
            Some(Number::Int(number)) => Value::from(number),
            _ => return Err(wanted("an integer")),
        },
        Some('e' | 'E' | 'f' | 'F' | 'g' | 'G') => match Number::of(value) {
            Some(number) if number.float().is_finite() => Value::from(number.float()),
            _ => return Err(wanted("a finite number")),
        },
        Some('c') if value.as_str().is_some_and(|it| it.chars().count() == 1) => value.clone(),
        _ => return Err(refused(format!("%{} is not known", conversion.unwrap_or(' ')))),
    };
    let place = format!("%{spec}{}", conversion.unwrap_or('s'));
    format_filter(FormatStyle::Printf, &place, &[converted])
}

/// `format.format(values)`
pub(super) fn str_format(format: &str, values: &[Value]) -> Result<String> {
    let (values, named) = match values.split_last() {
        Some((last, values)) if last.is_kwargs() => (values, Some(Kwargs::try_from(last.clone())?)),
        _ => (values, None),
    };
    let mut next = 0;
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        let (literal, after) = rest.split_at(at);
        out += literal;
        if let Some(after) = after.strip_prefix("{{").or_else(|| after.strip_prefix("}}")) {
            out += &after_brace(rest, at);
            rest = after;
            continue;
        }
        let place = after.strip_prefix('{').and_then(|it| it.split_once('}'));
        let Some((place, after)) = place else {
            return Err(refused(format!("{format:?} has a single brace")));
        };
        rest = after;
        let (place, spec) = place.split_once(':').unwrap_or((place, ""));
        let (field, conversion) = match place.split_once('!') {
            Some((field, conversion)) => (field, Some(conversion)),
            None => (place, None),
        };
        let end = field.find(['.', '[']).unwrap_or(field.len());
        let (name, path) = field.split_at(end);
        let missing = || refused(format!("{format:?} has {{{field}}}, but there is no such value"));
        let value = if name.is_empty() {
            next += 1;
            values.get(next - 1).cloned()
        } else if let Ok(index) = name.parse::<usize>() {
            values.get(index).cloned()
        } else {
            named.as_ref().and_then(|it| it.peek::<Value>(name).ok())
        };
        let value = at_path(value.ok_or_else(missing)?, path)?;
        let value = match conversion {
            None => value,
            Some("s") => text(&value)?.into(),
            Some("r") => repr(&value)?.into(),
            Some(other) => return Err(refused(format!("the conversion !{other} is not known"))),
        };
        out += &formatted(spec, value)?;
    }
    Ok(out + rest)
}

fn after_brace(text: &str, at: usize) -> String {
    text[at..].chars().take(1).collect()
}

/// What `.name` and `[key]` after the name of a field say.
fn at_path(mut value: Value, mut path: &str) -> Result<Value> {
    while !path.is_empty() {
        let (key, rest) = match (path.strip_prefix('['), path.strip_prefix('.')) {
            (Some(after), _) => after.split_once(']').ok_or_else(|| refused("a key has no end"))?,
            (_, Some(after)) => after.split_at(after.find(['.', '[']).unwrap_or(after.len())),
            _ => return Err(refused(format!("{path:?} is no path to a value"))),
        };
        let key = key.parse::<usize>().map_or_else(|_| Value::from(key), Value::from);
        value = value.get_item(&key)?;
        if value.is_undefined() {
            return Err(refused(format!("there is nothing at {key}")));
        }
        path = rest;
    }
    Ok(value)
}

fn formatted(spec: &str, value: Value) -> Result<String> {
    if spec.is_empty() {
        return text(&value);
    }
    if spec.split(|it: char| !it.is_ascii_digit()).any(|it| it.parse().unwrap_or(0) > WIDEST) {
        return Err(refused(format!("a place is as wide as {spec:?} says")));
    }
    let value = match (value.kind(), Number::of(&value)) {
        // A 0 fills texts too, but at their end.
        (ValueKind::String, _) if !spec.starts_with('0') => value,
        (_, Some(Number::Int(number))) => Value::from(number),
        (_, Some(Number::Float(number)))
            if number.is_finite() && spec.ends_with(['e', 'E', 'f', 'F', 'g', 'G']) =>
        {
            value
        }
        // Without a type, it is the shortest number, which only gets its width here.
        (_, Some(Number::Float(_))) if spec.parse::<usize>().is_ok() && !spec.starts_with('0') => {
            return formatted(&format!(">{spec}"), text(&value)?.into());
        }
        (_, Some(Number::Float(_))) if is_aligned(spec) => text(&value)?.into(),
        (kind, _) => return Err(refused(format!("{spec:?} is no format of {kind}"))),
    };
    format_filter(FormatStyle::StrFormat, &format!("{{:{spec}}}"), &[value])
}

/// Whether a format says only how to align, and how wide.
fn is_aligned(spec: &str) -> bool {
    let width = spec.trim_start_matches(|it: char| !it.is_ascii_digit());
    let align = &spec[..spec.len() - width.len()];
    let is_width = !width.is_empty() && width.parse::<usize>().is_ok() && !width.starts_with('0');
    is_width && align.chars().count() <= 2 && align.ends_with(['<', '>', '^'])
}
