//! Simple case folding: of each character, one that does not depend on its case.

/// The character that all of its cases have in common: the `C` and `S` entries of Unicode's `CaseFolding.txt`.
pub(super) fn folded(c: char) -> char {
    match c {
        'A'..='Z' => return c.to_ascii_lowercase(),
        '\0'..'\u{b5}' => return c,
        // Only in Turkish is this the other case of `I`.
        'ı' => return c,
        // Cherokee has its lower case since Unicode 8, and folds to the upper one.
        '\u{13a0}'..='\u{13f5}' => return c,
        '\u{13f8}'..='\u{13fd}' | '\u{ab70}'..='\u{abbf}' => {
            return only(c.to_uppercase()).unwrap_or(c);
        }
        _ => {}
    }
    let upper = only(c.to_uppercase()).unwrap_or(c);
    only(upper.to_lowercase()).unwrap_or(upper)
}

fn only(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases() {
        let pairs = [
            ('K', 'k'),
            ('É', 'é'),
            ('ſ', 's'),
            ('ς', 'σ'),
            ('\u{212a}', 'k'),
            ('µ', 'μ'),
            ('ẞ', 'ß'),
            ('ß', 'ß'),
            ('İ', 'İ'),
            ('ı', 'ı'),
            ('ϑ', 'θ'),
            ('ϴ', 'θ'),
            ('\u{345}', 'ι'),
            ('\u{ab70}', '\u{13a0}'),
            ('\u{13a0}', '\u{13a0}'),
            ('ᾈ', 'ᾀ'),
            ('ᾀ', 'ᾀ'),
            ('ǅ', 'ǆ'),
            ('Ა', 'ა'),
            ('ẛ', 'ṡ'),
            ('\u{1e921}', '\u{1e921}'),
            ('中', '中'),
        ];
        for (c, expected) in pairs {
            let expected = if c == '\u{1e921}' { '\u{1e943}' } else { expected };
            assert_eq!(folded(c), expected, "{c}");
        }
    }

    #[test]
    fn folding_twice_is_folding_once() {
        for c in '\0'..=char::MAX {
            assert_eq!(folded(folded(c)), folded(c), "{c:?}");
        }
    }
}
