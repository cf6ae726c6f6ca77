//! The files of a model: those of a folder, or bytes in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tract_core::internal::*;
use tract_openvino_ir::{Ir, IrProtoModel, Weights};

/// The files of a model in memory, by the names that `optimum-cli export openvino` gives them. Clones share the bytes.
///
/// ```
/// use tract_openvino_generation::{Files, TextGenerator, rounding_kernels};
///
/// // Where they come from is the program's choice.
/// let mut files = Files::default();
/// for name in [
///     "openvino_model.xml",
///     "openvino_model.bin",
///     "tokenizer.json",
///     "config.json",
///     "generation_config.json",
///     "chat_template.jinja",
///     "tokenizer_config.json",
/// ] {
///     files = files.with(name, std::fs::read(format!("models/tiny/{name}"))?);
/// }
/// let generator = TextGenerator::from_files(files, &rounding_kernels())?;
/// assert!(generator.template()?.is_some());
/// # tract_openvino_generation::prelude::TractResult::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct Files(Place);

#[derive(Debug, Clone)]
enum Place {
    Folder(PathBuf),
    Memory(BTreeMap<String, Bytes>),
}

/// The bytes of a file.
#[derive(Clone)]
pub(crate) struct Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.as_ref().len())
    }
}

/// No files.
impl Default for Files {
    fn default() -> Files {
        Files(Place::Memory(BTreeMap::new()))
    }
}

impl Files {
    /// The files with one more: its name, and its bytes, which are not copied.
    pub fn with(
        mut self,
        name: impl Into<String>,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Files {
        if let Place::Memory(files) = &mut self.0 {
            files.insert(name.into(), Bytes(Arc::new(bytes)));
        }
        self
    }

    /// Those of a folder, which are read when they are needed.
    pub(crate) fn folder(path: impl Into<PathBuf>) -> Files {
        Files(Place::Folder(path.into()))
    }

    /// A file's path or name, for errors.
    pub(crate) fn place_of(&self, name: &str) -> String {
        match &self.0 {
            Place::Folder(folder) => folder.join(name).display().to_string(),
            Place::Memory(_) => name.into(),
        }
    }

    /// Where the files are, for errors.
    pub(crate) fn place(&self) -> String {
        match &self.0 {
            Place::Folder(folder) => folder.display().to_string(),
            Place::Memory(_) => "memory".into(),
        }
    }

    /// Whether there is a file.
    pub(crate) fn has(&self, name: &str) -> bool {
        match &self.0 {
            Place::Folder(folder) => folder.join(name).exists(),
            Place::Memory(files) => files.contains_key(name),
        }
    }

    /// The bytes of a file, or `None` if there is no such file.
    pub(crate) fn bytes(&self, name: &str) -> TractResult<Option<Bytes>> {
        match &self.0 {
            Place::Folder(folder) => match fs::read(folder.join(name)) {
                Ok(bytes) => Ok(Some(Bytes(Arc::new(bytes)))),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => {
                    Err(error).with_context(|| format!("reading {}", self.place_of(name)))
                }
            },
            Place::Memory(files) => Ok(files.get(name).cloned()),
        }
    }

    /// The bytes of a file that must be there.
    pub(crate) fn needed(&self, name: &str) -> TractResult<Bytes> {
        let bytes = self.bytes(name)?;
        bytes.with_context(|| format!("{} is missing", self.place_of(name)))
    }

    /// The text of a file, or `None` if there is no such file.
    pub(crate) fn text(&self, name: &str) -> TractResult<Option<String>> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let text = std::str::from_utf8(bytes.as_ref());
        let text = text.with_context(|| format!("reading {}", self.place_of(name)))?;
        Ok(Some(text.into()))
    }

    /// What a file of JSON says, or `None` if there is no such file.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> TractResult<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        parse_json(&text).map(Some).with_context(|| format!("reading {}", self.place_of(name)))
    }

    /// A model of IR, as its two files have it: this one, and that with the weights. Of a folder, the weights are read when they are
    /// needed.
    pub(crate) fn ir_model(&self, ir: &Ir, name: &str) -> TractResult<IrProtoModel> {
        match &self.0 {
            Place::Folder(folder) => ir.proto_model_for_path(folder.join(name)),
            Place::Memory(_) => {
                let weights = format!("{}.bin", name.trim_end_matches(".xml"));
                let weights = match self.bytes(&weights)? {
                    Some(bytes) => Weights::from_bytes(bytes),
                    // A model without constants needs none.
                    None => Weights::absent(format!("{weights} is missing")),
                };
                ir.proto_model_for_bytes(self.needed(name)?.as_ref(), weights)
            }
        }
    }

    /// Fails if there is another model than one that continues texts.
    pub(crate) fn check_model(&self) -> TractResult<()> {
        if self.has(MODEL) {
            return Ok(());
        }
        let found = OTHER_MODELS.iter().find(|(file, _)| self.has(file));
        let Some((file, what)) = found else { return Ok(()) };
        bail!(
            "{} has {file}: it is {what}, but text generation takes decoder-only models of text, in {MODEL}",
            self.place()
        )
    }
}

/// The model.
pub(crate) const MODEL: &str = "openvino_model.xml";

/// Models that are not in `openvino_model.xml`: a file or folder of each, and what it is.
const OTHER_MODELS: [(&str, &str); 3] = [
    ("openvino_encoder_model.xml", "an encoder-decoder model, as Whisper and T5 are"),
    ("openvino_language_model.xml", "a vision-language model"),
    ("model_index.json", "a pipeline of diffusion models, which make images"),
];

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
