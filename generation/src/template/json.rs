//! JSON as Python's `json.dumps` writes it.

use std::fmt::Write;

use minijinja::Value;
use minijinja::value::ValueKind;

use super::arguments::Arguments;
use super::operators::sorted;
use super::values::{Number, Result, check_depth, float_text, pairs, refused, text};

/// The filter `tojson` as transformers defines it. It escapes no HTML.
pub(super) fn tojson(value: &Value, arguments: &[Value]) -> Result<String> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ensure_ascii, indent, separators, sort_keys] =
        Arguments::of("tojson", names, arguments)?.0;
    let indent = match indent {
        None => None,
        Some(indent) if indent.is_none() => None,
        Some(indent) => Some(match (indent.as_str(), Number::of(&indent)) {
            (Some(text), _) => text.to_string(),
            (_, Some(Number::Int(count))) if count <= 100 => " ".repeat(count.max(0) as usize),
            _ => {
                return Err(refused(format!(
                    "indent is {indent}, but must be a text or at most 100"
                )));
            }
        }),
    };
    let separators = match separators {
        Some(both) if !both.is_none() => {
            let both: Vec<Value> = both.try_iter()?.collect();
            match both.iter().map(Value::as_str).collect::<Vec<_>>()[..] {
                [Some(item), Some(key)] => (item.to_string(), key.to_string()),
                _ => return Err(refused("separators must be two texts")),
            }
        }
        _ => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
    };
    let is_true = |it: Option<Value>| it.is_some_and(|it| it.is_true());
    let mut writer = Writer {
        ascii: is_true(ensure_ascii),
        indent,
        separators,
        sort_keys: is_true(sort_keys),
        out: String::new(),
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer {
    ascii: bool,
    indent: Option<String>,
    /// After an item, and after a key.
    separators: (String, String),
    sort_keys: bool,
    out: String,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        check_depth(depth)?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)?),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.all('[', &items, ']', depth, |writer, item| writer.value(item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut items: Vec<(Value, Value)> =
                    value.as_object().map(pairs).into_iter().flatten().collect();
                if self.sort_keys {
                    items = sorted(items, false)?;
                }
                self.all('{', &items, '}', depth, |writer, (key, value)| {
                    writer.string(&key_text(key)?);
                    writer.out.push_str(&writer.separators.1.clone());
                    writer.value(value, depth + 1)
                })?;
            }
            kind => return Err(refused(format!("a value of type {kind} has no JSON"))),
        }
        Ok(())
    }

    /// Items between brackets, each on its own line if there is an indent.
    fn all<T>(
        &mut self,
        open: char,
        items: &[T],
        close: char,
        depth: usize,
        mut write: impl FnMut(&mut Writer, &T) -> Result<()>,
    ) -> Result<()> {
        self.out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(&self.separators.0.clone());
            }
            self.line(depth + 1);
            write(self, item)?;
        }
        if !items.is_empty() {
            self.line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let _ = match character {
                '"' => write!(self.out, "\\\""),
                '\\' => write!(self.out, "\\\\"),
                '\n' => write!(self.out, "\\n"),
                '\r' => write!(self.out, "\\r"),
                '\t' => write!(self.out, "\\t"),
                '\u{8}' => write!(self.out, "\\b"),
                '\u{c}' => write!(self.out, "\\f"),
                '\0'..='\x1f' => write!(self.out, "\\u{:04x}", u32::from(character)),
                '\x7f'.. if self.ascii && character != '\x7f' => {
                    let mut units = [0; 2];
                    let units = character.encode_utf16(&mut units);
                    units.iter().try_for_each(|unit| write!(self.out, "\\u{unit:04x}"))
                }
                _ => write!(self.out, "{character}"),
            };
        }
        self.out.push('"');
    }
}

fn number(value: &Value) -> Result<String> {
    match Number::of(value) {
        Some(Number::Float(number)) if number.is_nan() => Ok("NaN".into()),
        Some(Number::Float(number)) if number.is_infinite() => {
            Ok(if number > 0. { "Infinity" } else { "-Infinity" }.into())
        }
        Some(Number::Float(number)) => Ok(float_text(number)),
        _ => text(value),
    }
}

/// A key as JSON has it: as a text.
fn key_text(key: &Value) -> Result<String> {
    match key.kind() {
        ValueKind::String => text(key),
        ValueKind::None => Ok("null".into()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.into()),
        ValueKind::Number => number(key),
        kind => Err(refused(format!("a key of type {kind} has no JSON"))),
    }
}
