//! Where a pattern matches.

use regex_automata::meta;
use regex_automata::util::captures::Captures;
use regex_automata::{Anchored, Input, PatternID};
use tract_core::internal::*;

use super::pcre::{Alternative, SPACE, Translated, translate};

/// The bytes of a match.
pub(crate) type Span = std::ops::Range<usize>;

/// A pattern of PCRE2 that finds matches.
#[derive(Debug)]
pub(crate) struct Matcher {
    pattern: String,
    engine: Engine,
    /// For each capture group of the engine, from 1 on, the number that PCRE2 gives it.
    groups: Vec<usize>,
}

#[derive(Debug)]
enum Engine {
    Automaton {
        regex: meta::Regex,
        /// The pattern whose matches go without their last character.
        all_but_last: Option<PatternID>,
    },
    Backtracking {
        regex: fancy_regex::Regex,
        /// The group that takes part if an anchored pattern does not match.
        nothing: Option<usize>,
    },
}

/// The longest pattern, in bytes. The special tokens of a vocabulary are one.
const LONGEST: usize = 4 << 20;

/// The most memory of a compiled pattern, in bytes.
const LARGEST: usize = 64 << 20;

/// The most steps of a search that goes back.
const MOST_STEPS: usize = 10_000_000;

impl Matcher {
    pub fn new(pattern: &str) -> TractResult<Matcher> {
        Matcher::compile(pattern).with_context(|| format!("in the regular expression {pattern:?}"))
    }

    fn compile(pattern: &str) -> TractResult<Matcher> {
        ensure!(
            pattern.len() <= LONGEST,
            "it has {} bytes, but must have {LONGEST} or less",
            pattern.len()
        );
        let translated = translate(pattern)?;
        let engine = match translated.fancy {
            false => automaton(&translated)?,
            true => {
                let (pattern, nothing) = match translated.anchored {
                    // Elsewhere than at the beginning, it need not be tried.
                    true => (
                        format!("(?:{})|()", translated.whole()),
                        Some(translated.groups.len() + 1),
                    ),
                    false => (translated.whole(), None),
                };
                let builder = &mut fancy_regex::RegexBuilder::new(&pattern);
                let builder = builder.backtrack_limit(MOST_STEPS).delegate_size_limit(LARGEST);
                Engine::Backtracking { regex: builder.build()?, nothing }
            }
        };
        Ok(Matcher { pattern: pattern.into(), engine, groups: translated.groups })
    }

    /// The number of the largest group.
    pub fn largest_group(&self) -> usize {
        self.groups.iter().copied().max().unwrap_or(0)
    }

    /// The first match from a position on.
    pub fn find(&self, text: &str, from: usize) -> TractResult<Option<Span>> {
        match &self.engine {
            Engine::Automaton { regex, all_but_last } => {
                let Some(found) = regex.search(&Input::new(text).range(from..)) else {
                    return Ok(None);
                };
                let span = found.span();
                if Some(found.pattern()) == *all_but_last {
                    return Ok(Some(span.start..all_but_last_character(text, span.end)));
                }
                Ok(Some(span.start..span.end))
            }
            Engine::Backtracking { nothing: Some(_), .. } => {
                Ok(self.captures(text, from)?.map(|groups| groups.whole))
            }
            Engine::Backtracking { regex, nothing: None } => {
                let found = regex.find_from_pos(text, from).map_err(|error| self.stopped(error))?;
                Ok(found.map(|found| found.range()))
            }
        }
    }

    /// The first match from a position on, which is where the last one ended: it mostly begins there.
    pub fn find_next(&self, text: &str, from: usize) -> TractResult<Option<Span>> {
        if let Engine::Automaton { regex, all_but_last } = &self.engine {
            let input = Input::new(text).range(from..).anchored(Anchored::Yes);
            if let Some(found) = regex.search_half(&input) {
                let end = match Some(found.pattern()) == *all_but_last {
                    true => all_but_last_character(text, found.offset()),
                    false => found.offset(),
                };
                return Ok(Some(from..end));
            }
        }
        self.find(text, from)
    }

    /// The first match from a position on, with its groups.
    pub fn captures(&self, text: &str, from: usize) -> TractResult<Option<Groups>> {
        let mut groups = vec![None; self.largest_group() + 1];
        let mut set = |number: usize, span: Option<Span>| {
            if let (Some(group), Some(span)) = (self.groups.get(number - 1), span) {
                groups[*group] = Some(span);
            }
        };
        let whole = match &self.engine {
            Engine::Automaton { regex, all_but_last } => {
                let mut captures: Captures = regex.create_captures();
                regex.search_captures(&Input::new(text).range(from..), &mut captures);
                let Some(found) = captures.get_match() else { return Ok(None) };
                let span = found.span();
                let end = match Some(found.pattern()) == *all_but_last {
                    true => all_but_last_character(text, span.end),
                    false => span.end,
                };
                // With several patterns, each has groups of its own.
                let first = first_group(regex, found.pattern());
                for (number, span) in captures.iter().enumerate().skip(1) {
                    set(first + number, span.map(|span| span.start..span.end));
                }
                span.start..end
            }
            Engine::Backtracking { regex, nothing } => {
                let found =
                    regex.captures_from_pos(text, from).map_err(|error| self.stopped(error))?;
                let Some(captures) = found else { return Ok(None) };
                if nothing.is_some_and(|nothing| captures.get(nothing).is_some()) {
                    return Ok(None);
                }
                for number in 1..=self.groups.len() {
                    set(number, captures.get(number).map(|group| group.range()));
                }
                captures.get(0).expect("a match has it").range()
            }
        };
        Ok(Some(Groups { whole, groups }))
    }

    fn stopped(&self, error: fancy_regex::Error) -> TractError {
        format_err!(
            "the regular expression {:?} takes too many steps: {error}, where {MOST_STEPS} are allowed",
            self.pattern
        )
    }
}

/// A match.
pub(crate) struct Groups {
    pub whole: Span,
    /// By the numbers of PCRE2.
    groups: Vec<Option<Span>>,
}

impl Groups {
    pub fn get(&self, number: usize) -> Option<Span> {
        if number == 0 { Some(self.whole.clone()) } else { self.groups.get(number)?.clone() }
    }

    /// The last group that took part.
    pub fn last(&self) -> Option<Span> {
        self.groups.iter().flatten().next_back().cloned()
    }
}

/// An automaton of several patterns, of which earlier ones are preferred, as earlier alternatives are.
fn automaton(translated: &Translated) -> TractResult<Engine> {
    let mut patterns: Vec<String> = vec![];
    let mut all_but_last = None;
    // Alternatives between those that need to be told apart are one pattern.
    let mut run: Vec<String> = vec![];
    for alternative in &translated.alternatives {
        match alternative {
            Alternative::Pattern(pattern) => run.push(pattern.clone()),
            Alternative::AllButLastSpace if all_but_last.is_none() => {
                // Whitespace up to the end, or what another character of whitespace follows.
                run.push(format!(r"{SPACE}+\z"));
                patterns.push(run.join("|"));
                run.clear();
                all_but_last = Some(PatternID::new(patterns.len())?);
                patterns.push(format!("{SPACE}+{SPACE}"));
            }
            // The first one has matched all that this could.
            Alternative::AllButLastSpace => {}
        }
    }
    if !run.is_empty() {
        patterns.push(run.join("|"));
    }
    let config = meta::Config::new().nfa_size_limit(Some(LARGEST));
    let regex = meta::Regex::builder().configure(config).build_many(&patterns)?;
    Ok(Engine::Automaton { regex, all_but_last })
}

/// The number of groups of the patterns before one.
fn first_group(regex: &meta::Regex, pattern: PatternID) -> usize {
    let before = (0..pattern.as_usize()).map(|number| {
        let count = regex.group_info().group_len(PatternID::must(number));
        count - 1
    });
    before.sum()
}

fn all_but_last_character(text: &str, end: usize) -> usize {
    let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
    end - last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pattern: &str, text: &str) -> Vec<String> {
        let matcher = Matcher::new(pattern).unwrap();
        let mut found = vec![];
        let mut from = 0;
        while let Some(span) = matcher.find(text, from).unwrap().filter(|span| !span.is_empty()) {
            assert_eq!(matcher.find_next(text, from).unwrap(), Some(span.clone()));
            found.push(text[span.clone()].to_string());
            from = span.end;
        }
        found
    }

    const GPT2: &str =
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

    #[test]
    fn gpt2() {
        assert_eq!(
            all(GPT2, "Hello  world's   12\n\nx \t\u{3000}!  "),
            [
                "Hello", " ", " world", "'s", "  ", " 12", "\n", "\n", "x", " \t", "\u{3000}", "!",
                "  "
            ]
        );
    }

    /// The automaton finds what the other engine does, which has the look-ahead.
    #[test]
    fn both_engines() {
        let texts = [
            "a  b",
            "  ",
            " \n x  ",
            "\u{180e}\u{180e}a",
            "it's 5\r\n\r\n ",
            "",
            "x\u{a0}\u{a0}\u{2003}y",
        ];
        for text in texts {
            let fancy = format!("(?:{GPT2})(?=.|\\n|$)");
            assert_eq!(all(GPT2, text), all(&fancy, text), "{text:?}");
        }
    }

    #[test]
    fn groups() {
        let matcher = Matcher::new(r"(?| ([.?])| ('[ms])| (n't))").unwrap();
        let found = matcher.captures("is n't .", 0).unwrap().unwrap();
        assert_eq!((found.whole.clone(), found.get(1)), (2..6, Some(3..6)));
        let matcher = Matcher::new(r"(a|b)|(?:\s*)(c)").unwrap();
        let found = matcher.captures("x  c", 0).unwrap().unwrap();
        assert_eq!((found.whole.clone(), found.last()), (1..4, Some(3..4)));
        let matcher = Matcher::new(r"(^)((?!a|$)|(?=[\r]))").unwrap();
        assert!(matcher.captures("abc", 0).unwrap().is_none());
        assert_eq!(matcher.find("bc", 0).unwrap(), Some(0..0));
        let matcher = Matcher::new(r"(x)|\s+(?!\S)|(y)").unwrap();
        assert_eq!(matcher.captures("y", 0).unwrap().unwrap().get(2), Some(0..1));
    }

    #[test]
    fn steps_have_a_limit() {
        let matcher = Matcher::new(r"(?:a|a)*(?=b)c").unwrap();
        let error = matcher.find(&"a".repeat(100), 0).unwrap_err();
        assert!(error.to_string().contains("too many steps"), "{error}");
    }

    #[test]
    fn what_is_no_pattern() {
        for pattern in ["(", "a{5,2}", r"\p{Unknown}", "[b-a]"] {
            let error = Matcher::new(pattern).unwrap_err();
            assert!(format!("{error:#}").contains("in the regular expression"), "{error:#}");
        }
        Matcher::new(r"(?:\p{L}{1000}){1000}").unwrap_err();
    }
}
