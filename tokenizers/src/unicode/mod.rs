//! Characters that become others: as sentencepiece does it, at each place by the longest rule.

mod chars_map;
mod fold;
mod forms;

pub(crate) use chars_map::CharsMap;
pub(crate) use forms::Form;

/// The rules.
pub(crate) enum Normalizer {
    Table(CharsMap),
    /// Those of a form of Unicode, with folded cases.
    Form(Form, bool),
}

/// What becomes of spaces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spaces {
    /// Puts one in front.
    pub dummy_prefix: bool,
    /// Takes those at both ends away, and all but one between words.
    pub remove_extra: bool,
    /// Makes each `▁`.
    pub escape: bool,
}

/// What a rule makes of the first characters of a text: how many bytes, and what they become.
pub(crate) enum Rule<'a> {
    /// These bytes stay.
    Keep(usize),
    Replace(usize, &'a str),
}

impl Normalizer {
    /// Adds a string in its new form to bytes. What is not UTF-8 becomes U+FFFD, one for each byte.
    pub fn normalize(&self, string: &[u8], spaces: Spaces, to: &mut Vec<u8>) {
        if string.is_empty() {
            return;
        }
        let begin = to.len();
        let mut output = Output { to, spaces, after_space: spaces.remove_extra, begun: false };
        let mut rest = string;
        let mut buffer = String::new();
        while !rest.is_empty() {
            if let (Normalizer::Form(form, folds), false) = (self, spaces.remove_extra) {
                let unchanged = form.unchanged(*folds, rest);
                if unchanged > 0 {
                    output.push(&rest[..unchanged]);
                    rest = &rest[unchanged..];
                    continue;
                }
            }
            let (consumed, text): (usize, &[u8]) = match self.rule(rest, &mut buffer) {
                Some(Rule::Keep(len)) => (len, &rest[..len]),
                Some(Rule::Replace(len, text)) => (len, text.as_bytes()),
                None => (1, "\u{fffd}".as_bytes()),
            };
            output.push(text);
            rest = &rest[consumed..];
        }
        if spaces.remove_extra {
            let space = spaces.text();
            while to.len() >= begin + space.len() && to.ends_with(space) {
                to.truncate(to.len() - space.len());
            }
        }
    }

    /// The longest rule for the beginning of a text. `None` if that is not UTF-8.
    fn rule<'a>(&'a self, text: &[u8], buffer: &'a mut String) -> Option<Rule<'a>> {
        match self {
            Normalizer::Table(map) => match map.longest(text) {
                Some((len, text)) => Some(Rule::Replace(len, text)),
                None => first_char(text).map(|(_, len)| Rule::Keep(len)),
            },
            Normalizer::Form(form, folds) => form.rule(*folds, text, buffer),
        }
    }
}

struct Output<'a> {
    to: &'a mut Vec<u8>,
    spaces: Spaces,
    /// Whether spaces are left out now.
    after_space: bool,
    /// Whether something other than the spaces at the beginning has come.
    begun: bool,
}

impl Spaces {
    fn text(&self) -> &'static [u8] {
        if self.escape { "▁".as_bytes() } else { b" " }
    }
}

impl Output<'_> {
    fn push(&mut self, mut text: &[u8]) {
        if !self.begun {
            if self.spaces.remove_extra && text == b" " {
                return;
            }
            self.begun = true;
            if self.spaces.dummy_prefix {
                self.to.extend_from_slice(self.spaces.text());
            }
        }
        while self.after_space
            && let Some(rest) = text.strip_prefix(b" ")
        {
            text = rest;
        }
        if !text.is_empty() {
            match self.spaces.escape {
                true => {
                    for part in text.split_inclusive(|byte| *byte == b' ') {
                        let word = part.strip_suffix(b" ");
                        self.to.extend_from_slice(word.unwrap_or(part));
                        if word.is_some() {
                            self.to.extend_from_slice(self.spaces.text());
                        }
                    }
                }
                false => self.to.extend_from_slice(text),
            }
            self.after_space = text.ends_with(b" ");
        }
        self.after_space &= self.spaces.remove_extra;
    }
}

/// The first character of a text, and its length in bytes. `None` if the text is empty, or does not begin with UTF-8.
fn first_char(text: &[u8]) -> Option<(char, usize)> {
    let len = match *text.first()? {
        byte @ 0..0x80 => return Some((char::from(byte), 1)),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    let c = std::str::from_utf8(text.get(..len)?).ok()?.chars().next()?;
    Some((c, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(form: Form, folds: bool, spaces: Spaces, text: &[u8]) -> String {
        let mut to = b"before".to_vec();
        Normalizer::Form(form, folds).normalize(text, spaces, &mut to);
        String::from_utf8(to).unwrap().strip_prefix("before").unwrap().to_string()
    }

    #[test]
    fn spaces() {
        let all = Spaces { dummy_prefix: true, remove_extra: true, escape: true };
        let of = |spaces, text: &str| normalized(Form::Nfc, false, spaces, text.as_bytes());
        assert_eq!(of(all, "  a  b c  "), "▁a▁b▁c");
        assert_eq!(of(all, "   "), "");
        assert_eq!(of(all, ""), "");
        assert_eq!(of(Spaces { remove_extra: false, ..all }, " a  b "), "▁▁a▁▁b▁");
        assert_eq!(of(Spaces { remove_extra: true, ..Spaces::default() }, "  a  b  "), "a b");
        assert_eq!(of(Spaces { dummy_prefix: true, ..Spaces::default() }, " a"), "  a");
    }

    #[test]
    fn forms() {
        let of = |form, text: &str| normalized(form, false, Spaces::default(), text.as_bytes());
        assert_eq!(of(Form::Nfc, "e\u{301}x"), "éx");
        assert_eq!(of(Form::Nfc, "\u{1100}\u{1161}\u{11a8}"), "각");
        // The rules are for characters as they are in the text: these two make no one.
        assert_eq!(of(Form::Nfc, "\u{fc}\u{304}"), "\u{fc}\u{304}");
        assert_eq!(of(Form::Nfc, "u\u{308}\u{304}"), "\u{1d6}");
        assert_eq!(of(Form::Nfd, "é각"), "e\u{301}\u{1100}\u{1161}\u{11a8}");
        assert_eq!(of(Form::Nfkc, "ﬁ Ｋａ½\u{ff76}\u{ff9e}"), "fi Ka1\u{2044}2ガ");
        assert_eq!(of(Form::Nfkd, "ﬁé"), "fie\u{301}");
        assert_eq!(normalized(Form::Nfd, true, Spaces::default(), "ÉẞΣ".as_bytes()), "e\u{301}ßσ");
        assert_eq!(normalized(Form::Identity, true, Spaces::default(), "Éé".as_bytes()), "éé");
    }

    #[test]
    fn bytes_that_are_not_utf8() {
        let broken = b"a\xff\xc3\xe2\x82b\xed\xa0\x80";
        let of = normalized(Form::Nfc, false, Spaces::default(), broken);
        assert_eq!(of, "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\u{fffd}");
    }
}
