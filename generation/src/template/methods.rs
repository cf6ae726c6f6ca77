//! Methods of Python's texts, lists, tuples and mappings: those that minijinja's `pycompat` lacks, or has in another way.

use minijinja::value::{DynObject, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::arguments::{Arguments, is_set, optional_integer, required_text};
use super::format::str_format;
use super::operators::equal;
use super::values::{Result, items, keys, refused, tuple, values};

/// The largest width that a text is padded to.
const WIDEST: i64 = 100_000;

/// Calls a method of a value that is no object of minijinja's with methods of its own.
pub(super) fn call(state: &State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value> {
    let found = match (value.kind(), value.as_object()) {
        (ValueKind::String, _) => of_text(value.as_str().unwrap_or_default(), name, arguments)?,
        (ValueKind::Map, Some(map)) => of_map(map, name, arguments)?,
        (ValueKind::Seq, _) => of_list(value, name, arguments)?,
        _ => None,
    };
    let found = match found {
        Some(found) => found,
        None => pycompat::unknown_method_callback(state, value, name, arguments)?,
    };
    if !value.is_safe() || !matches!(found.kind(), ValueKind::String | ValueKind::Seq) {
        return Ok(found);
    }
    match (name, found.as_str()) {
        (
            "strip" | "lstrip" | "rstrip" | "lower" | "upper" | "title" | "capitalize",
            Some(text),
        ) => Ok(Value::from_safe_string(text.to_string())),
        // They also escape their arguments.
        _ => Err(refused(format!("{name} of a safe text is not supported"))),
    }
}

/// The characters that Python takes for white space.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

fn of_text(text: &str, name: &str, arguments: &[Value]) -> Result<Option<Value>> {
    let all = |is: fn(char) -> Result<bool>| -> Result<Value> {
        for character in text.chars() {
            if !is(character)? {
                return Ok(false.into());
            }
        }
        Ok((!text.is_empty()).into())
    };
    let alone = || Arguments::of(name, [], arguments).map(|Arguments([])| ());
    let one = |argument: &'static str| -> Result<String> {
        let Arguments([value]) = Arguments::of(name, [argument], arguments)?;
        required_text(name, &value)
    };
    Ok(Some(match name {
        "strip" | "lstrip" | "rstrip" => {
            let Arguments([characters]) = Arguments::of(name, ["chars"], arguments)?;
            let set = match characters {
                Some(set) if !set.is_none() => Some(required_text(name, &Some(set))?),
                _ => None,
            };
            let is_cut =
                |it: char| set.as_ref().map_or_else(|| is_space(it), |set| set.contains(it));
            let rest = if name == "rstrip" { text } else { text.trim_start_matches(is_cut) };
            let rest = if name == "lstrip" { rest } else { rest.trim_end_matches(is_cut) };
            rest.into()
        }
        "split" | "rsplit" => {
            let Arguments([separator, most]) = Arguments::of(name, ["sep", "maxsplit"], arguments)?;
            let most = optional_integer(name, &most)?.unwrap_or(-1);
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let separator = match separator {
                Some(separator) if !separator.is_none() => {
                    Some(required_text(name, &Some(separator))?)
                }
                _ => None,
            };
            split(text, separator.as_deref(), most, name == "rsplit")?.into()
        }
        "splitlines" => {
            let Arguments([keep]) = Arguments::of(name, ["keepends"], arguments)?;
            Value::from_iter(lines(text, is_set(&keep)))
        }
        "partition" => {
            let separator = separator(one("sep")?)?;
            let (before, after) = text.split_once(&separator).unwrap_or((text, ""));
            let found = if text.contains(&separator) { &*separator } else { "" };
            tuple([before, found, after].map(Value::from).to_vec())
        }
        "rpartition" => {
            let separator = separator(one("sep")?)?;
            let (before, after) = text.rsplit_once(&separator).unwrap_or(("", text));
            let found = if text.contains(&separator) { &*separator } else { "" };
            tuple([before, found, after].map(Value::from).to_vec())
        }
        "removeprefix" => text.strip_prefix(&*one("prefix")?).unwrap_or(text).into(),
        "removesuffix" => text.strip_suffix(&*one("suffix")?).unwrap_or(text).into(),
        "find" | "rfind" | "index" | "rindex" | "count" => {
            let Arguments([wanted, start, end]) =
                Arguments::of(name, ["sub", "start", "end"], arguments)?;
            let wanted = required_text(name, &wanted)?;
            let Some((from, part)) = part_of(text, name, &start, &end)? else {
                return missing_at(name).map(Some);
            };
            if name == "count" {
                return Ok(Some(part.matches(&*wanted).count().into()));
            }
            let at = if name.starts_with('r') { part.rfind(&*wanted) } else { part.find(&*wanted) };
            match at {
                Some(at) => (from + part[..at].chars().count()).into(),
                None => missing_at(name)?,
            }
        }
        "startswith" | "endswith" => {
            let Arguments([affix, start, end]) =
                Arguments::of(name, ["affix", "start", "end"], arguments)?;
            let affixes = match &affix {
                Some(affix) if affix.kind() == ValueKind::Seq => affix.try_iter()?.collect(),
                Some(affix) => vec![affix.clone()],
                None => vec![],
            };
            let part = part_of(text, name, &start, &end)?;
            let mut has = false;
            for affix in affixes {
                let affix = required_text(name, &Some(affix))?;
                has |= part.is_some_and(|(_, part)| match name {
                    "startswith" => part.starts_with(&*affix),
                    _ => part.ends_with(&*affix),
                });
            }
            has.into()
        }
        "join" => {
            let Arguments([all]) = Arguments::of(name, ["iterable"], arguments)?;
            let all = all.ok_or_else(|| refused("join needs texts"))?;
            let texts = all.try_iter()?.map(|it| required_text(name, &Some(it)));
            texts.collect::<Result<Vec<String>>>()?.join(text).into()
        }
        "replace" => {
            let Arguments([old, new, count]) =
                Arguments::of(name, ["old", "new", "count"], arguments)?;
            let count = optional_integer(name, &count)?;
            replaced(text, &required_text(name, &old)?, &required_text(name, &new)?, count).into()
        }
        "zfill" | "ljust" | "rjust" | "center" => padded(text, name, arguments)?.into(),
        "format" => str_format(text, arguments)?.into(),
        "title" => {
            alone()?;
            title(text).into()
        }
        "capitalize" => {
            alone()?;
            capitalize(text).into()
        }
        "isspace" => all(|it| Ok(is_space(it)))?,
        "isdecimal" | "isdigit" => all(|it| match it {
            _ if it.is_ascii() => Ok(it.is_ascii_digit()),
            _ if it.is_numeric() => Err(refused(format!("{it:?} may be a digit or none"))),
            _ => Ok(false),
        })?,
        "isnumeric" => all(is_numeric)?,
        "isalpha" => all(is_letter)?,
        "isalnum" => all(|it| Ok(is_letter(it)? || is_numeric(it)?))?,
        "islower" | "isupper" => {
            alone()?;
            let is_lower = name == "islower";
            let is = |it: char| if is_lower { it.is_lowercase() } else { it.is_uppercase() };
            let is_not = |it: char| if is_lower { it.is_uppercase() } else { it.is_lowercase() };
            let is_other = |it: char| is_not(it) || digraph(it) == Some(it);
            (text.chars().any(is) && !text.chars().any(is_other)).into()
        }
        _ => return Ok(None),
    }))
}

/// What `find` and the others give where there is nothing.
fn missing_at(name: &str) -> Result<Value> {
    match name {
        "index" | "rindex" => Err(refused(format!("{name} finds no such text"))),
        "count" => Ok(0.into()),
        _ => Ok((-1).into()),
    }
}

fn separator(text: String) -> Result<String> {
    if text.is_empty() { Err(refused("a separator is empty")) } else { Ok(text) }
}

/// The characters from `start` to `end`, and the index of the first one, or `None` where they end before they begin.
fn part_of<'a>(
    text: &'a str,
    name: &str,
    start: &Option<Value>,
    end: &Option<Value>,
) -> Result<Option<(usize, &'a str)>> {
    let (start, end) = (optional_integer(name, start)?, optional_integer(name, end)?);
    if start.is_none() && end.is_none() {
        return Ok(Some((0, text)));
    }
    let length = text.chars().count() as i64;
    let absolute = |bound: i64| if bound < 0 { bound.saturating_add(length).max(0) } else { bound };
    let (start, end) = (absolute(start.unwrap_or(0)), absolute(end.unwrap_or(length)).min(length));
    if start > end {
        return Ok(None);
    }
    let byte = |index: i64| {
        let byte = text.char_indices().nth(index as usize);
        byte.map_or(text.len(), |(byte, _)| byte)
    };
    Ok(Some((start as usize, &text[byte(start)..byte(end)])))
}

pub(super) fn replaced(text: &str, old: &str, new: &str, count: Option<i64>) -> String {
    match count.map(usize::try_from) {
        Some(Ok(count)) => text.replacen(old, new, count),
        _ => text.replace(old, new),
    }
}

fn split(text: &str, separator: Option<&str>, most: usize, from_end: bool) -> Result<Vec<Value>> {
    if separator == Some("") {
        return Err(refused("a separator is empty"));
    }
    let mut parts = vec![];
    let mut rest = Some(text);
    if separator.is_none() {
        rest = trimmed(text, from_end);
    }
    while let Some(text) = rest {
        let found = match (separator, from_end) {
            _ if parts.len() >= most => None,
            (Some(separator), false) => text.split_once(separator),
            (Some(separator), true) => text.rsplit_once(separator).map(|(rest, part)| (part, rest)),
            (None, false) => text.split_once(is_space),
            (None, true) => text.rsplit_once(is_space).map(|(rest, part)| (part, rest)),
        };
        let Some((part, after)) = found else {
            parts.push(text);
            break;
        };
        parts.push(part);
        rest = if separator.is_some() { Some(after) } else { trimmed(after, from_end) };
    }
    if from_end {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

/// A text without white space where it is split next, or `None` if nothing is left.
fn trimmed(text: &str, from_end: bool) -> Option<&str> {
    let rest =
        if from_end { text.trim_end_matches(is_space) } else { text.trim_start_matches(is_space) };
    (!rest.is_empty()).then_some(rest)
}

/// The lines of a text, with their ends if they are kept.
pub(super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_end = |it: char| {
        matches!(
            it,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = vec![];
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(is_end).unwrap_or(rest.len());
        let end = match &rest[at..] {
            after if after.starts_with("\r\n") => 2,
            after => after.chars().next().map_or(0, char::len_utf8),
        };
        lines.push(&rest[..if keep_ends { at + end } else { at }]);
        rest = &rest[at + end..];
    }
    lines
}

fn padded(text: &str, name: &str, arguments: &[Value]) -> Result<String> {
    let Arguments([width, fill]) = Arguments::of(name, ["width", "fillchar"], arguments)?;
    let Some(width) = optional_integer(name, &width)? else {
        return Err(refused(format!("{name} needs a width")));
    };
    if width > WIDEST {
        return Err(refused(format!("{name} makes {WIDEST} characters at most, not {width}")));
    }
    let fill = if fill.is_none() { " ".to_string() } else { required_text(name, &fill)? };
    if fill.chars().count() != 1 {
        return Err(refused(format!("{name} fills with one character")));
    }
    let length = text.chars().count();
    let width = usize::try_from(width).unwrap_or(0);
    let missing = width.saturating_sub(length);
    Ok(match name {
        "zfill" => {
            let sign =
                text.strip_prefix(['+', '-']).map_or("", |rest| &text[..text.len() - rest.len()]);
            format!("{sign}{}{}", "0".repeat(missing), &text[sign.len()..])
        }
        "ljust" => text.to_string() + &fill.repeat(missing),
        "rjust" => fill.repeat(missing) + text,
        // An odd one is left where the width is odd.
        _ => {
            let left = missing / 2 + (missing & width & 1);
            fill.repeat(left) + text + &fill.repeat(missing - left)
        }
    })
}

/// The form for titles of letters that are two, or `None` for others.
fn digraph(character: char) -> Option<char> {
    Some(match character {
        'Ǆ'..='ǆ' => 'ǅ',
        'Ǉ'..='ǉ' => 'ǈ',
        'Ǌ'..='ǌ' => 'ǋ',
        'Ǳ'..='ǳ' => 'ǲ',
        _ => return None,
    })
}

/// The letters that begin a title.
fn title_case(character: char) -> String {
    match digraph(character) {
        Some(title) => title.into(),
        // They have large forms that titles do not have.
        None if ('ა'..='ჿ').contains(&character) => character.into(),
        None => {
            let mut letters = character.to_uppercase();
            letters.next().into_iter().chain(letters.flat_map(char::to_lowercase)).collect()
        }
    }
}

fn title(text: &str) -> String {
    let mut out = String::new();
    let mut is_word = false;
    for character in text.chars() {
        if is_word {
            out.extend(character.to_lowercase());
        } else {
            out += &title_case(character);
        }
        is_word =
            character.is_lowercase() || character.is_uppercase() || digraph(character).is_some();
    }
    out
}

pub(super) fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(title_case).unwrap_or_default();
    first + &characters.as_str().to_lowercase()
}

/// Whether a character is a letter in Python: where Rust takes others for letters too, that is not known.
fn is_letter(character: char) -> Result<bool> {
    match character {
        '\0'..='\u{2ff}' | '\u{370}'..='\u{482}' | '\u{48a}'..='\u{52f}' => {}
        'ぁ'..='ゖ' | 'ァ'..='ヺ' | '㐀'..='䶿' | '一'..='鿿' | '가'..='힣' => {}
        _ if character.is_alphabetic() => {
            return Err(refused(format!("{character:?} may be a letter or none")));
        }
        _ => {}
    }
    Ok(character.is_alphabetic())
}

fn is_numeric(character: char) -> Result<bool> {
    // Some of these are numbers.
    if matches!(character, '㐀'..='䶿' | '一'..='鿿' | '豈'..='\u{faff}' | '\u{20000}'..) {
        return Err(refused(format!("{character:?} may be a number or none")));
    }
    Ok(character.is_numeric())
}

fn of_map(map: &DynObject, name: &str, arguments: &[Value]) -> Result<Option<Value>> {
    let alone = || Arguments::of(name, [], arguments).map(|Arguments([])| ());
    Ok(Some(match name {
        "keys" => {
            alone()?;
            keys(map)
        }
        "values" => {
            alone()?;
            values(map)
        }
        "items" => {
            alone()?;
            items(map)
        }
        "copy" => {
            alone()?;
            Value::from_dyn_object(map.clone())
        }
        _ => return Ok(None),
    }))
}

fn of_list(list: &Value, name: &str, arguments: &[Value]) -> Result<Option<Value>> {
    Ok(Some(match name {
        "count" | "index" => {
            let Arguments([wanted]) = Arguments::of(name, ["value"], arguments)?;
            let wanted = wanted.ok_or_else(|| refused(format!("{name} needs a value")))?;
            let mut count = 0;
            for (index, item) in list.try_iter()?.enumerate() {
                if equal(&item, &wanted)? {
                    if name == "index" {
                        return Ok(Some(index.into()));
                    }
                    count += 1;
                }
            }
            if name == "index" {
                return Err(refused("index finds no such item"));
            }
            Value::from(count)
        }
        "copy" => {
            let Arguments([]) = Arguments::of(name, [], arguments)?;
            list.clone()
        }
        // They change the list, which templates may not do.
        "append" | "clear" | "extend" | "insert" | "pop" | "remove" | "reverse" | "sort" => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("{name} would change a list, which templates may not do"),
            ));
        }
        _ => return Ok(None),
    }))
}
