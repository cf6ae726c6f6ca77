//! What matches are replaced by, as `pcre2_substitute` has it.

use tract_core::internal::*;

/// A text with groups of a match in it: `$1`, `${1}`, and `$$` for a dollar sign.
#[derive(Debug, PartialEq)]
pub(crate) struct Replacement(Vec<Part>);

#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    Group(usize),
}

impl Replacement {
    /// Reads a replacement. `\1` to `\9` are groups, too.
    pub fn new(text: &str) -> TractResult<Replacement> {
        let mut parts = vec![];
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            let group = match (c, next) {
                ('\\', Some('1'..='9')) => true,
                ('$', Some('$')) => {
                    chars.next();
                    literal.push('$');
                    continue;
                }
                ('$', _) => true,
                _ => false,
            };
            if !group {
                literal.push(c);
                continue;
            }
            let braces = chars.next_if_eq(&'{').is_some();
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let closed = !braces || chars.next_if_eq(&'}').is_some();
            let number = digits.parse().ok().filter(|_| closed);
            let number = number.with_context(|| {
                format!("the replacement {text:?} has a {c:?} that no number of a group follows")
            })?;
            parts.push(Part::Text(std::mem::take(&mut literal)));
            parts.push(Part::Group(number));
        }
        parts.push(Part::Text(literal));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Replacement(parts))
    }

    /// The text, if there are no groups in it.
    pub fn literal(&self) -> Option<&str> {
        match &*self.0 {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The largest group.
    pub fn largest_group(&self) -> usize {
        let groups = self.0.iter().map(|part| match part {
            Part::Group(number) => *number,
            Part::Text(_) => 0,
        });
        groups.max().unwrap_or(0)
    }

    /// Adds the text with the groups of a match to another text, or says that a group took no part.
    pub fn expand<'t>(
        &self,
        to: &mut String,
        group: impl Fn(usize) -> Option<&'t str>,
    ) -> Option<()> {
        for part in &self.0 {
            match part {
                Part::Text(text) => to.push_str(text),
                Part::Group(number) => to.push_str(group(*number)?),
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        let replacement = Replacement::new(r" $1\2${3}$$\x$10").unwrap();
        assert_eq!(replacement.largest_group(), 10);
        let mut text = String::new();
        let groups = ["", "a", "b", "c", "", "", "", "", "", "", "d"];
        replacement.expand(&mut text, |group| Some(groups[group])).unwrap();
        assert_eq!(text, r" abc$\xd");
        assert_eq!(replacement.expand(&mut text, |group| (group < 3).then_some("x")), None);
        assert_eq!(Replacement::new("▁").unwrap().literal(), Some("▁"));
        for wrong in ["$", "$x", "${1", "${x}"] {
            Replacement::new(wrong).unwrap_err();
        }
    }
}
