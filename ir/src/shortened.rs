//! Errors and names of a length that one can read, whatever a file has in it.

use std::borrow::Cow;
use std::fmt::Display;

use tract_core::internal::*;

use crate::limits::{MAX_ERROR_BYTES, MAX_NAME_BYTES};

/// Room for the note that bytes were left out.
const NOTE: usize = 64;

/// An error whose texts are shortened if they are long: names, lists and shapes of a file may be megabytes.
pub(crate) fn shortened(error: TractError) -> TractError {
    let texts: Vec<String> = error.chain().map(|cause| shortened_text(&cause)).collect();
    let is_whole = error.chain().zip(&texts).all(|(cause, text)| cause.to_string() == *text);
    let mut texts = texts.into_iter().rev();
    match texts.next() {
        Some(cause) if !is_whole => {
            texts.fold(format_err!("{cause}"), |error, text| error.context(text))
        }
        _ => error,
    }
}

/// A text without its middle if it is long. Shortened once more, it stays as it is.
pub(crate) fn shortened_text(text: &dyn Display) -> String {
    without_middle(text.to_string().into(), MAX_ERROR_BYTES).into_owned()
}

/// A name for a node: that of a file without its middle if it is long. Shortened once more, it stays as it is.
pub(crate) fn shortened_name<'a>(name: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    without_middle(name.into(), MAX_NAME_BYTES)
}

/// A text of so many bytes at most: a longer one has lost its middle.
fn without_middle(text: Cow<'_, str>, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text;
    }
    let start = text.floor_char_boundary(most * 3 / 4 - NOTE);
    let end = text.ceil_char_boundary(text.len() - most / 4);
    format!("{} [{} bytes left out] {}", &text[..start], end - start, &text[end..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle() {
        let text = shortened_text(&"é".repeat(10_000));
        assert_eq!(shortened_text(&text), text);
        let error = format_err!("it is {}, but must be 1", "é".repeat(10_000));
        let error = format!("{:#}", shortened(error.context("in layer 1")));
        assert!(error.starts_with("in layer 1: it is éé"), "{error}");
        assert!(error.ends_with("éé, but must be 1") && error.len() < 5000, "{error}");
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = shortened_name(format!("first/{}/last", "é".repeat(10_000)));
        assert!(name.starts_with("first/éé") && name.ends_with("éé/last"), "{name}");
        assert!(name.len() <= MAX_NAME_BYTES, "{name}");
        assert_eq!(shortened_name(&*name), name);
        assert_eq!(shortened_name("short"), "short");
    }
}
