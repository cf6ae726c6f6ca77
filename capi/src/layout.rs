//! Layouts: what the axes of a tensor are called.

use std::collections::BTreeSet;
use std::ffi::c_char;

use crate::border::{Handle, OutHandle, Text, give_text};
use crate::error::{Error, Result};
use crate::handles::Object;

/// What stands for any number of axes in a layout.
const REST: &str = "...";

/// The names of axes, from the first to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// `?` is an axis without a name, and `...` any number of these.
    names: Vec<String>,
}

impl Object for Layout {
    const NAME: &'static str = "a layout";
}

/// Names that stand for letters.
const LONG_NAMES: [(&str, &str); 5] =
    [("BATCH", "N"), ("CHANNELS", "C"), ("DEPTH", "D"), ("HEIGHT", "H"), ("WIDTH", "W")];

impl Layout {
    /// The layout of a text: letters such as `NCHW`, or names such as `[N,...,C]`.
    ///
    /// # Errors
    ///
    /// The text is none, or has a name twice.
    pub fn parse(text: &str) -> Result<Layout> {
        let text = text.trim();
        let wrong = |why: &str| Error::general(format_args!("{text:?} is no layout: {why}"));
        let names: Vec<String> = if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or_else(|| wrong("there is no ] at its end"))?;
            if inner.is_empty() {
                return Err(wrong("there is nothing in the brackets"));
            }
            inner.split(',').map(|name| name.trim().to_uppercase()).collect()
        } else if text.is_empty() {
            vec![REST.into()]
        } else {
            let mut names = vec![];
            let mut left = text;
            while let Some(first) = left.chars().next() {
                if let Some(after) = left.strip_prefix(REST) {
                    names.push(REST.into());
                    left = after;
                } else if first == '.' {
                    return Err(wrong("any number of axes is written ..."));
                } else {
                    names.push(first.to_uppercase().to_string());
                    left = &left[first.len_utf8()..];
                }
            }
            names
        };
        let long = |name: String| {
            let known = LONG_NAMES.iter().find(|(long, _)| *long == name);
            known.map_or(name, |(_, letter)| (*letter).into())
        };
        let names: Vec<String> = names.into_iter().map(long).collect();
        let mut seen = BTreeSet::new();
        for name in &names {
            let is_name = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
            if name != "?" && name != REST && (name.is_empty() || !is_name) {
                return Err(wrong(&format!(
                    "the name of an axis is {name:?}, but must be of letters, digits and _"
                )));
            }
            if name != "?" && !seen.insert(name) {
                return Err(wrong(&format!("{name:?} is in it twice")));
            }
        }
        Ok(Layout { names })
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}]", self.names.join(","))
    }
}

// What the functions of the interface do.

pub(crate) fn create(text: Text, out: OutHandle<Layout>) -> Result<()> {
    out.check()?;
    out.write(Layout::parse(text.get("description of a layout")?)?)
}

pub(crate) fn free(layout: Handle<Layout>) -> Result<()> {
    layout.free().map(drop)
}

pub(crate) fn to_string(layout: Handle<Layout>) -> Result<*const c_char> {
    // A text in any case, as with OpenVINO.
    let text = match layout.get() {
        Ok(layout) => layout.to_string(),
        Err(error) => format!("Error: {error}"),
    };
    give_text(&text).map(<*mut c_char>::cast_const)
}
