//! Values as Python has them: their texts, tuples, and what can be run through once.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, Value};

pub(super) type Result<T> = std::result::Result<T, Error>;

/// How deep lists and mappings may be in each other where they are written or compared. Python's limit is about as large.
const DEPTH: usize = 200;

/// The error of a template that asks for what cannot be.
pub(super) fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Fails where lists and mappings are too deep in each other.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth > DEPTH {
        return Err(refused(format!("a value is more than {DEPTH} lists or mappings deep")));
    }
    Ok(())
}

/// A tuple. minijinja has lists only, which have another text.
#[derive(Debug)]
struct Tuple {
    items: Vec<Value>,
    /// The names of the items, if they have some.
    names: &'static [&'static str],
}

impl Object for Tuple {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index = match key.as_str() {
            Some(name) => self.names.iter().position(|it| *it == name),
            None => key.as_usize(),
        };
        self.items.get(index?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }
}

pub(super) fn tuple(items: Vec<Value>) -> Value {
    Value::from_object(Tuple { items, names: &[] })
}

/// What the filter `groupby` gives for each group.
pub(super) fn group(grouper: Value, list: Value) -> Value {
    Value::from_object(Tuple { items: vec![grouper, list], names: &["grouper", "list"] })
}

pub(super) fn is_tuple(value: &Value) -> bool {
    value.downcast_object_ref::<Tuple>().is_some()
}

/// What filters such as `map` give: items that come once. It is true, has no length, and has no text that says anything.
#[derive(Debug)]
struct Generator(Mutex<Vec<Value>>);

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let mut items = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Enumerator::Values(std::mem::take(&mut *items))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }
}

pub(super) fn generator(items: Vec<Value>) -> Value {
    Value::from_object(Generator(Mutex::new(items)))
}

/// The keys, values or items of a mapping.
#[derive(Debug)]
struct View {
    /// The name of the type in Python.
    name: &'static str,
    items: Vec<Value>,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

pub(super) fn keys(map: &DynObject) -> Value {
    let items = pairs(map).map(|(key, _)| key).collect();
    Value::from_object(View { name: "dict_keys", items })
}

pub(super) fn values(map: &DynObject) -> Value {
    let items = pairs(map).map(|(_, value)| value).collect();
    Value::from_object(View { name: "dict_values", items })
}

pub(super) fn items(map: &DynObject) -> Value {
    let items = pairs(map).map(|(key, value)| tuple(vec![key, value])).collect();
    Value::from_object(View { name: "dict_items", items })
}

/// Whether a value is the keys, values or items of a mapping, which have no places.
pub(super) fn is_view(value: &Value) -> bool {
    value.downcast_object_ref::<View>().is_some()
}

/// The keys and values of a mapping.
pub(super) fn pairs(map: &DynObject) -> impl Iterator<Item = (Value, Value)> + use<> {
    map.try_iter_pairs().into_iter().flatten()
}

/// A number. `True` is 1, and `False` is 0.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub(super) fn of(value: &Value) -> Option<Number> {
        match value.kind() {
            ValueKind::Bool => Some(Number::Int(value.is_true().into())),
            ValueKind::Number if value.is_integer() => {
                i128::try_from(value.clone()).ok().map(Number::Int)
            }
            ValueKind::Number => f64::try_from(value.clone()).ok().map(Number::Float),
            _ => None,
        }
    }

    pub(super) fn float(self) -> f64 {
        match self {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        }
    }
}

/// An integer as the smallest type of minijinja that has it.
pub(super) fn integer(number: i128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::from(number), Value::from)
}

/// The text of a value: `str(value)`.
pub(super) fn text(value: &Value) -> Result<String> {
    match value.kind() {
        ValueKind::Undefined => Ok(String::new()),
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_string()),
        _ => {
            let mut out = String::new();
            write_repr(value, 0, &mut out)?;
            Ok(out)
        }
    }
}

/// The text of a value in lists and mappings: `repr(value)`.
pub(super) fn repr(value: &Value) -> Result<String> {
    let mut out = String::new();
    write_repr(value, 0, &mut out)?;
    Ok(out)
}

fn write_repr(value: &Value, depth: usize, out: &mut String) -> Result<()> {
    check_depth(depth)?;
    let kind = value.kind();
    match kind {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => match Number::of(value) {
            Some(Number::Float(number)) => out.push_str(&float_text(number)),
            // It is also right for integers that are too large for calculations.
            _ => out.push_str(&value.to_string()),
        },
        ValueKind::String if value.is_safe() => {
            out.push_str("Markup(");
            write_string(value.as_str().unwrap_or_default(), out);
            out.push(')');
        }
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq => {
            let (open, close) = if is_tuple(value) { ("(", ")") } else { ("[", "]") };
            out.push_str(open);
            write_items(value, depth, out)?;
            if is_tuple(value) && value.len() == Some(1) {
                out.push(',');
            }
            out.push_str(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (index, (key, value)) in
                value.as_object().map(pairs).into_iter().flatten().enumerate()
            {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(&key, depth + 1, out)?;
                out.push_str(": ");
                write_repr(&value, depth + 1, out)?;
            }
            out.push('}');
        }
        _ => match value.downcast_object_ref::<View>() {
            Some(view) => {
                out.push_str(view.name);
                out.push_str("([");
                write_items(value, depth, out)?;
                out.push_str("])");
            }
            // Python writes an address.
            None => {
                return Err(refused(format!("a value of type {kind} has no text: list gives one")));
            }
        },
    }
    Ok(())
}

fn write_items(value: &Value, depth: usize, out: &mut String) -> Result<()> {
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(&item, depth + 1, out)?;
    }
    Ok(())
}

/// A text in quotes, with escapes where Python has them.
fn write_string(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        let code = u32::from(character);
        let _ = match character {
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            '\\' => write!(out, "\\\\"),
            _ if character == quote => write!(out, "\\{character}"),
            _ if is_printable(character) => write!(out, "{character}"),
            _ if code <= 0xff => write!(out, "\\x{code:02x}"),
            _ if code <= 0xffff => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
}

/// Whether Python writes a character as it is. Rust escapes the same ones: after the first character, marks are none of them.
fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\0'..='\x7f' => false,
        _ => ['a', character].iter().collect::<String>().escape_debug().nth(1) != Some('\\'),
    }
}

/// The shortest text that is this number, as Python writes it.
pub(super) fn float_text(number: f64) -> String {
    // Both take an exponent from 1e16 and below 1e-4.
    let text = format!("{number:?}");
    match text.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => text.replace("NaN", "nan"),
    }
}

/// A text without what means something in HTML, as `escape` of Python's markupsafe gives it.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            _ => out.push(character),
        }
    }
    out
}

/// The text of a value in HTML: one that is marked as safe stays as it is.
pub(super) fn html(value: &Value) -> Result<String> {
    let text = text(value)?;
    Ok(if value.is_safe() { text } else { escaped(&text) })
}
