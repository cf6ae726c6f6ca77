//! What is refused before the XML is parsed.

use anyhow::{Result, ensure};

use crate::limits::MAX_XML_ATTRIBUTES;

/// Checks the number of attributes of each element, and of namespaces. The parser compares each of them with all
/// others.
pub(super) fn check(text: &str) -> Result<()> {
    let (mut rest, mut namespaces) = (text, 0);
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
        let skipped = skipped.iter().find(|(begin, _)| rest.starts_with(begin));
        rest = match skipped {
            Some((begin, end)) => rest[begin.len()..].split_once(end).map_or("", |parts| parts.1),
            None => element(rest, &mut namespaces)?,
        };
    }
    Ok(())
}

/// Counts the attributes of the element that a text begins with, and gives what follows it.
fn element<'a>(text: &'a str, namespaces: &mut usize) -> Result<&'a str> {
    let (mut attributes, mut quote, mut name) = (0, None, 0);
    for (position, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => (),
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'=') => {
                attributes += 1;
                *namespaces += usize::from(text[name..].starts_with("xmlns"));
                ensure!(
                    attributes <= MAX_XML_ATTRIBUTES,
                    "an element has more than {MAX_XML_ATTRIBUTES} attributes"
                );
                ensure!(
                    *namespaces <= MAX_XML_ATTRIBUTES,
                    "the file has more than {MAX_XML_ATTRIBUTES} namespaces"
                );
            }
            (None, b'>') => return Ok(&text[position + 1..]),
            (None, byte) if byte.is_ascii_whitespace() => name = position + 1,
            _ => (),
        }
    }
    Ok("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_counted_where_they_are() {
        let many = |text: &str| text.repeat(MAX_XML_ATTRIBUTES + 1);
        for (text, expected) in [
            (many("<a b='c' d=\"e\"/>"), None),
            (format!("<a b='{}'/>", many("c=\"d\">")), None),
            (format!("<!-- <a {} -->", many("b='c' ")), None),
            (format!("<![CDATA[<a {}]]>", many("b='c' ")), None),
            (format!("<a {}/>", many("b = 'c' ")), Some("256 attributes")),
            (format!("<a b='>' {}", many("c=")), Some("256 attributes")),
            (many("<a xmlns:b='c'>"), Some("256 namespaces")),
            ("<a é='é'".into(), None),
        ] {
            let error = check(&text).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{text}");
            assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{text}");
        }
    }
}
