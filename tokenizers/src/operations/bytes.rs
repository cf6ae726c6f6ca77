//! Strings whose bytes become others.

use tract_openvino_ir::internal::*;

use super::OPSET;
use super::split::skips;
use crate::layer::{
    expect_one_of, expect_rows_of_strings, expect_strings, expect_type, string_facts, wire,
};
use crate::strings::{NewStrings, Ranges, Rows, Strings, rows_of_strings};

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("BytesToChars", OPSET, bytes_to_chars);
    registry.add_extension("CharsToBytes", OPSET, chars_to_bytes);
    registry.add_extension("ByteFallback", OPSET, byte_fallback);
    registry.add_extension("FuzeRagged", OPSET, fuze_ragged);
    registry.add_extension("UTF8Validate", OPSET, utf8_validate);
}

/// The character that stands for a byte in the vocabularies of GPT-2 and its descendants: itself, or one from U+0100 on for those
/// that are no visible character of Latin-1.
fn character(byte: u8) -> char {
    let is_visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if is_visible(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|byte| !is_visible(*byte)).count() as u32;
    char::from_u32(0x100 + before).expect("there are a few of them")
}

/// **BytesToChars**: a character for each byte, but for strings to skip.
fn bytes_to_chars(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let count = expect_one_of(layer, &[5, 6])?;
    let (_, strings) = expect_rows_of_strings(layer)?;
    if count == 6 {
        expect_type(layer, 5, DatumType::Bool, "skips")?;
    }
    let characters: Vec<String> = (0..=255).map(|byte| character(byte).to_string()).collect();
    let facts = string_facts(layer, strings)?;
    let changed = wire(layer, "BytesToChars", 2..count, facts, move |inputs| {
        let strings = Strings::of(inputs)?;
        let skips = inputs.get(3).map(|tensor| skips(tensor, &strings)).transpose()?;
        let mut new = NewStrings::with_capacity(strings.len(), strings.bytes().len() * 2);
        for (number, string) in strings.iter().enumerate() {
            if skips.is_some_and(|skips| skips[number]) {
                new.push(string)?;
                continue;
            }
            let begin = new.bytes.len();
            for byte in string {
                new.bytes.extend_from_slice(characters[*byte as usize].as_bytes());
            }
            new.end(begin)?;
        }
        new.into_tensors(inputs[0].shape())
    })?;
    let mut outputs = tvec!(layer.input(0)?, layer.input(1)?);
    outputs.extend(changed);
    if count == 6 {
        outputs.push(layer.input(5)?);
    }
    Ok(outputs)
}

/// **CharsToBytes**: the bytes of the characters that stand for them, a string for each row.
fn chars_to_bytes(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[5])?;
    let (rows, _) = expect_rows_of_strings(layer)?;
    let mut bytes: HashMap<[u8; 2], u8> = HashMap::new();
    for byte in 0..=255 {
        let mut buffer = [0; 4];
        if let [first, second] = *character(byte).encode_utf8(&mut buffer).as_bytes() {
            bytes.insert([first, second], byte);
        }
    }
    let facts = string_facts(layer, rows)?;
    wire(layer, "CharsToBytes", 0..5, facts, move |inputs| {
        let (rows, strings) = rows_of_strings(inputs)?;
        let mut new = NewStrings::with_capacity(rows.len(), strings.bytes().len());
        for row in rows.iter() {
            let begin = new.bytes.len();
            for number in row {
                let mut string = strings.get(number);
                while let [first, rest @ ..] = string {
                    let (byte, rest) = match (*first, rest) {
                        (byte @ 0..0x80, rest) => (Some(byte), rest),
                        (first, [second, rest @ ..]) => {
                            (bytes.get(&[first, *second]).copied(), rest)
                        }
                        (_, []) => (None, rest),
                    };
                    new.bytes.push(byte.with_context(|| {
                        format!("string {number} has byte {first:#04x} in a character that stands for no byte")
                    })?);
                    string = rest;
                }
            }
            new.end(begin)?;
        }
        new.into_tensors(inputs[0].shape())
    })
}

/// **ByteFallback**: strings like `<0x0A>` become the byte.
fn byte_fallback(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[3])?;
    let shape = expect_strings(layer, 0)?;
    let facts = string_facts(layer, shape)?;
    wire(layer, "ByteFallback", 0..3, facts, move |inputs| {
        let strings = Strings::of(inputs)?;
        let mut new = NewStrings::with_capacity(strings.len(), strings.bytes().len());
        for string in strings.iter() {
            match byte(string) {
                Some(byte) => new.push(&[byte])?,
                None => new.push(string)?,
            }
        }
        new.into_tensors(inputs[0].shape())
    })
}

/// The byte that a token like `<0x0A>` stands for.
pub(super) fn byte(token: &[u8]) -> Option<u8> {
    let [b'<', b'0', b'x', digits @ .., b'>'] = token else { return None };
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'A'..=b'F');
    let is_number = digits.len() == 2 && digits.iter().all(is_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u8::from_str_radix(digits, 16).ok()
}

/// **FuzeRagged**: a string for each row, from where its first one begins to where its last one ends.
fn fuze_ragged(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[4])?;
    for input in 0..4 {
        expect_type(layer, input, DatumType::I32, "begins and ends")?;
    }
    let rows = layer.shape(0)?;
    let facts = tvec!((DatumType::I32, rows.clone()), (DatumType::I32, rows));
    wire(layer, "FuzeRagged", 0..4, facts, |inputs| {
        let strings = Rows::new(&inputs[2], &inputs[3], i32::MAX as usize)?;
        let rows = Rows::new(&inputs[0], &inputs[1], strings.len())?;
        let mut ranges = Ranges::with_capacity(rows.len());
        for row in rows.iter() {
            let (first, last) = (row.start, row.end);
            let begin = if first < strings.len() { strings.get(first).start } else { 0 };
            let end = if first < last { strings.get(last - 1).end } else { begin };
            ensure!(begin <= end, "strings {first} to {last} are not in the order of their bytes");
            ranges.push(begin, end)?;
        }
        Ok(ranges.into_tensors(inputs[0].shape())?.into_iter().collect())
    })
}

/// **UTF8Validate**: what is not UTF-8 becomes U+FFFD, or nothing.
fn utf8_validate(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[3])?;
    let shape = expect_strings(layer, 0)?;
    let replaces = layer.attribute_or("replace_mode", false)?;
    let facts = string_facts(layer, shape)?;
    wire(layer, "UTF8Validate", 0..3, facts, move |inputs| {
        let strings = Strings::of(inputs)?;
        let mut new = NewStrings::with_capacity(strings.len(), strings.bytes().len());
        for string in strings.iter() {
            let begin = new.bytes.len();
            validate(string, replaces, &mut new.bytes);
            new.end(begin)?;
        }
        new.into_tensors(inputs[0].shape())
    })
}

/// Adds the characters of a string. One that is cut short is one replacement, and one that is too long a form or no character of Unicode
/// is one for each of its bytes.
fn validate(string: &[u8], replaces: bool, to: &mut Vec<u8>) {
    let mut rest = string;
    loop {
        let valid = match std::str::from_utf8(rest) {
            Ok(_) => return to.extend_from_slice(rest),
            Err(error) => error.valid_up_to(),
        };
        to.extend_from_slice(&rest[..valid]);
        rest = &rest[valid..];
        let len = match rest[0] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => 1,
        };
        let follow =
            rest[1..].iter().take(len - 1).take_while(|byte| **byte & 0xc0 == 0x80).count();
        let replacements = if follow == len - 1 { len } else { 1 };
        if replaces {
            for _ in 0..replacements {
                to.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        rest = &rest[1 + follow..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_bytes() {
        assert_eq!(character(b' '), 'Ġ');
        assert_eq!(character(b'\n'), 'Ċ');
        assert_eq!(
            (character(0), character(0x7f), character(0xad), character(0xa0)),
            ('Ā', 'ġ', 'Ń', 'ł')
        );
        assert_eq!((character(b'a'), character(0xe9)), ('a', 'é'));
    }

    #[test]
    fn tokens_of_bytes() {
        assert_eq!(byte(b"<0x0A>"), Some(10));
        for token in ["<0x0a>", "<mask>", "<0x+A>", "<0xA>", "0x0A", ""] {
            assert_eq!(byte(token.as_bytes()), None, "{token}");
        }
    }

    #[test]
    fn what_is_not_utf8() {
        let validated = |bytes: &[u8], replaces| {
            let mut to = vec![];
            validate(bytes, replaces, &mut to);
            String::from_utf8(to).unwrap()
        };
        assert_eq!(validated("aé€😀".as_bytes(), true), "aé€😀");
        // A byte of its own, a character that is cut short at the end and in the middle, and forms that are too long.
        assert_eq!(validated(b"a\xffb\x80", true), "a\u{fffd}b\u{fffd}");
        assert_eq!(validated(b"\xe2\x82", true), "\u{fffd}");
        assert_eq!(validated(b"\xe2\x82a", true), "\u{fffd}a");
        assert_eq!(validated(b"\xc0\x80", true), "\u{fffd}\u{fffd}");
        assert_eq!(validated(b"\xe0\x80\x80", true), "\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(validated(b"\xed\xa0\x80x", true), "\u{fffd}\u{fffd}\u{fffd}x");
        assert_eq!(validated(b"a\xffb\xe2\x82", false), "ab");
    }
}
