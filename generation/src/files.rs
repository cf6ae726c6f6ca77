//! The files of a model's folder.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;
use tract_core::internal::*;

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
    let value = serde_json::from_str(&text);
    value.map(Some).with_context(|| format!("reading {}", path.display()))
}
