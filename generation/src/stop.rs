//! Strings that end a text.

/// Passes a text on, piece by piece, up to the first of some strings. What could be the beginning of such a string is held back
/// until it is known.
///
/// ```
/// use tract_openvino_generation::StopStrings;
///
/// let mut stop = StopStrings::new(["\nUser:"]);
/// assert_eq!(stop.push("Hello!\nUs"), "Hello!");
/// assert_eq!(stop.push("ed cars?\nU"), "\nUsed cars?");
/// assert_eq!(stop.push("ser: Hi"), "");
/// assert!(stop.has_stopped());
/// ```
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    strings: Vec<String>,
    held: String,
    stopped: bool,
}

impl StopStrings {
    /// For strings that are not empty: empty ones never end a text.
    pub fn new<S: Into<String>>(strings: impl IntoIterator<Item = S>) -> StopStrings {
        let strings = strings.into_iter().map(Into::into).filter(|it: &String| !it.is_empty());
        StopStrings { strings: strings.collect(), ..StopStrings::default() }
    }

    /// Whether the text has ended.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// What may be passed on once this piece has come. After the end, that is nothing.
    pub fn push(&mut self, piece: &str) -> String {
        if self.stopped {
            return String::new();
        }
        self.held += piece;
        // The string that is complete first, so that the result does not depend on the pieces.
        let found =
            |string: &String| self.held.find(string).map(|start| (start + string.len(), start));
        if let Some((_, start)) = self.strings.iter().filter_map(found).min() {
            self.stopped = true;
            self.held.truncate(start);
            return std::mem::take(&mut self.held);
        }
        let begins = |start: &usize| {
            let end = &self.held[*start..];
            self.strings.iter().any(|string| string.starts_with(end))
        };
        let starts = self.held.char_indices().map(|(start, _)| start);
        let kept = starts.into_iter().find(begins).unwrap_or(self.held.len());
        let held = self.held.split_off(kept);
        std::mem::replace(&mut self.held, held)
    }

    /// What was held back, if nothing else comes.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(stop: &mut StopStrings, pieces: &[&str]) -> String {
        let mut text: String = pieces.iter().map(|piece| stop.push(piece)).collect();
        text += &stop.finish();
        text
    }

    #[test]
    fn the_string_that_is_complete_first() {
        for pieces in [&["xabcd"][..], &["x", "ab", "cd"], &["xa", "b", "c", "d"]] {
            let mut stop = StopStrings::new(["abcd", "bc"]);
            assert_eq!(all(&mut stop, pieces), "xa");
            assert!(stop.has_stopped());
        }
    }

    #[test]
    fn nothing_is_lost() {
        let mut stop = StopStrings::new(["äöü", ""]);
        assert_eq!(stop.push("ein ä"), "ein ");
        assert_eq!(stop.push("äö"), "ä");
        assert_eq!(stop.finish(), "äö");
        assert!(!stop.has_stopped());
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            pieces in prop::collection::vec("[abä]{0,3}", 0..12),
            strings in prop::collection::vec("[abä]{1,4}", 0..4),
        ) {
            let text = pieces.concat();
            let mut whole = StopStrings::new(strings.clone());
            let expected = all(&mut whole, &[&text]);
            let mut parts = StopStrings::new(strings.clone());
            let pieces: Vec<&str> = pieces.iter().map(|piece| &**piece).collect();
            prop_assert_eq!(&all(&mut parts, &pieces), &expected);
            prop_assert_eq!(parts.has_stopped(), whole.has_stopped());
            prop_assert!(text.starts_with(&expected));
            if !whole.has_stopped() {
                prop_assert_eq!(&expected, &text);
                prop_assert!(strings.iter().all(|string| !text.contains(string)));
            }
        }
    }
}
