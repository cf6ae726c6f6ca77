//! The files of a model's folder.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;
use tract_core::internal::*;

/// Models that are not in `openvino_model.xml`: a file or folder of each, and what it is.
const OTHER_MODELS: [(&str, &str); 3] = [
    ("openvino_encoder_model.xml", "an encoder-decoder model, as Whisper and T5 are"),
    ("openvino_language_model.xml", "a vision-language model"),
    ("model_index.json", "a pipeline of diffusion models, which make images"),
];

/// Fails if a folder has another model than one that continues texts.
pub(crate) fn check_model(folder: &Path) -> TractResult<()> {
    if folder.join("openvino_model.xml").exists() {
        return Ok(());
    }
    let found = OTHER_MODELS.iter().find(|(file, _)| folder.join(file).exists());
    let Some((file, what)) = found else { return Ok(()) };
    bail!(
        "{} has {file}: it is {what}, but text generation takes decoder-only models of text, in openvino_model.xml",
        folder.display()
    )
}

/// The text of a file, or `None` if there is no such file.
pub(crate) fn read_text(path: &Path) -> TractResult<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// What a file of JSON says, or `None` if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> TractResult<Option<T>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    parse_json(&text).map(Some).with_context(|| format!("reading {}", path.display()))
}

/// What a text of JSON says, as Python writes it: with the numbers `NaN`, `Infinity` and `-Infinity`. They become texts, which fail
/// where a number is asked for, and nowhere else.
pub(crate) fn parse_json<T: DeserializeOwned>(text: &str) -> TractResult<T> {
    match (serde_json::from_str(text), with_numbers_as_texts(text)) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(text)) => Ok(serde_json::from_str(&text)?),
        (Err(error), None) => Err(error.into()),
    }
}

/// The text with quotes around numbers that JSON does not have, if there are some.
fn with_numbers_as_texts(text: &str) -> Option<String> {
    const NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    let mut result = String::new();
    let mut rest = text;
    let mut is_text = false;
    while let Some(at) = rest.find(['"', '\\', '-', 'I', 'N']) {
        result += &rest[..at];
        rest = &rest[at..];
        let number = NUMBERS.into_iter().find(|it| !is_text && rest.starts_with(it));
        let length = match number {
            Some(number) => {
                result += &format!("\"{number}\"");
                rest = &rest[number.len()..];
                continue;
            }
            // What it escapes ends no text.
            None if is_text && rest.starts_with('\\') => {
                1 + rest[1..].chars().next().map_or(0, char::len_utf8)
            }
            None => 1,
        };
        is_text ^= rest.starts_with('"');
        result += &rest[..length];
        rest = &rest[length..];
    }
    result += rest;
    (result.len() > text.len()).then_some(result)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn numbers_that_python_writes() -> TractResult<()> {
        let text = r#"{"limit": [0.0, Infinity], "low": -Infinity, "NaN": NaN, "a": "Infinity \" NaN \\", "b": -1}"#;
        let value: Value = parse_json(text)?;
        let expected = json!({
            "limit": [0.0, "Infinity"], "low": "-Infinity", "NaN": "NaN", "a": "Infinity \" NaN \\", "b": -1,
        });
        assert_eq!(value, expected);
        // Where a number matters, they are none.
        let error = parse_json::<Vec<f32>>("[1, Infinity]").unwrap_err().to_string();
        assert!(error.contains("\"Infinity\""), "{error}");
        // The place in other errors is that of the text.
        let error = parse_json::<Value>("{\"a\": 1,\n \"b\": no}").unwrap_err().to_string();
        assert!(error.contains("line 2 column 8"), "{error}");
        Ok(())
    }
}
