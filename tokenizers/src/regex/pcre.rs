//! From the syntax of PCRE2 to that of the crates `regex-automata` and `fancy-regex`.

use tract_core::internal::*;

/// A pattern in the syntax of the crates here.
#[derive(Debug, PartialEq)]
pub(super) struct Translated {
    /// The alternatives at the top, in order.
    pub alternatives: Vec<Alternative>,
    /// For each capture group, from 1 on, the number that PCRE2 gives it.
    pub groups: Vec<usize>,
    /// Whether it needs look-around, back-references or atomic groups.
    pub fancy: bool,
    /// Whether it can only match at the beginning of a text.
    pub anchored: bool,
}

#[derive(Debug, PartialEq, Clone)]
pub(super) enum Alternative {
    Pattern(String),
    /// `\s+(?!\S)`: all of the whitespace at the end of a text, and elsewhere all but the last character, if there are more.
    AllButLastSpace,
}

impl Translated {
    /// The whole pattern, as one.
    pub fn whole(&self) -> String {
        let texts = self.alternatives.iter().map(|alternative| match alternative {
            Alternative::Pattern(pattern) => pattern.clone(),
            Alternative::AllButLastSpace => format!("{SPACE}+(?!{NO_SPACE})"),
        });
        texts.collect::<Vec<_>>().join("|")
    }
}

// PCRE2 has U+180E among the whitespace, which Unicode has no more. With Unicode's properties, its words are not those of other libraries.
pub(super) const SPACE: &str = r"[\s\x{180E}]";
pub(super) const NO_SPACE: &str = r"[^\s\x{180E}]";
const SPACES: &str = r"\s\x{180E}";
const WORDS: &str = r"\p{L}\p{N}\p{Mn}\p{Pc}";
const HORIZONTAL: &str = r"\t\x{20}\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
const VERTICAL: &str = r"\n\x{0B}\x{0C}\r\x{85}\x{2028}\x{2029}";
/// `$`, which may stand before the newline that ends a text.
const END: &str = r"(?=\n?\z)";

/// What groups may be nested in.
const DEEPEST: usize = 100;

/// The general categories of Unicode, and what else is no script.
const NO_SCRIPTS: [&str; 41] = [
    "any", "l", "lu", "ll", "lt", "lm", "lo", "lc", "m", "mn", "mc", "me", "n", "nd", "nl", "no",
    "p", "pc", "pd", "ps", "pe", "pi", "pf", "po", "s", "sm", "sc", "sk", "so", "z", "zs", "zl",
    "zp", "c", "cc", "cf", "cs", "co", "cn", "ascii", "assigned",
];

/// Writes a pattern anew.
pub(super) fn translate(pattern: &str) -> TractResult<Translated> {
    let mut parser = Parser {
        chars: pattern.char_indices().collect(),
        at: 0,
        len: pattern.len(),
        groups: vec![],
        next_group: 1,
        multiline: pattern.contains("(?") && has_flag_m(pattern),
        depth: 0,
    };
    let sequences = parser.sequences()?;
    if let Some(c) = parser.peek() {
        bail!("{c:?} at byte {} closes no group", parser.position());
    }
    let anchored =
        !sequences.is_empty() && !parser.multiline && sequences.iter().all(|it| it.is_anchored());
    // Flags are for all that follows, and a pattern of its own would not have them.
    let flags = sequences.iter().flat_map(|it| &it.items).any(|item| item.is_flags());
    let mut fancy = flags && sequences.iter().any(Sequence::is_all_but_last_space);
    let alternatives = sequences.into_iter().map(|sequence| match &*sequence.items {
        // With a possessive quantifier, nothing but the end of the text could follow.
        [spaces, _] if sequence.is_all_but_last_space() && spaces.is_possessive() => {
            Alternative::Pattern(format!(r"{SPACE}+\z"))
        }
        [..] if sequence.is_all_but_last_space() => Alternative::AllButLastSpace,
        _ => {
            let (text, needs) = sequence.written(true);
            fancy |= needs;
            Alternative::Pattern(text)
        }
    });
    let alternatives = alternatives.collect();
    Ok(Translated { alternatives, groups: parser.groups, fancy, anchored })
}

/// Whether `^` and `$` may be those of lines.
fn has_flag_m(pattern: &str) -> bool {
    pattern.split("(?").skip(1).any(|flags| {
        let flags: String = flags.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
        flags.contains('m')
    })
}

struct Parser {
    chars: Vec<(usize, char)>,
    at: usize,
    len: usize,
    groups: Vec<usize>,
    next_group: usize,
    multiline: bool,
    depth: usize,
}

/// What stands between two `|`.
#[derive(Default)]
struct Sequence {
    items: Vec<Item>,
}

/// A part of a pattern, with its quantifier.
struct Item {
    text: String,
    quantifier: String,
    /// Whether `text` is one character of a set.
    is_set: bool,
    /// Whether it needs look-around, whatever stands around it.
    fancy: bool,
    anchor: bool,
}

impl Item {
    fn new(text: impl Into<String>) -> Item {
        Item {
            text: text.into(),
            quantifier: String::new(),
            is_set: false,
            fancy: false,
            anchor: false,
        }
    }

    fn set(text: impl Into<String>) -> Item {
        Item { is_set: true, ..Item::new(text) }
    }

    fn is_possessive(&self) -> bool {
        self.quantifier.len() > 1 && self.quantifier.ends_with('+')
    }

    fn is_flags(&self) -> bool {
        self.text.starts_with("(?") && self.text[2..].chars().all(|c| "ims-)".contains(c))
    }

    fn may_be_absent(&self) -> bool {
        let quantifier = &*self.quantifier;
        quantifier.starts_with(['*', '?']) || quantifier.starts_with("{0")
    }
}

impl Sequence {
    fn is_all_but_last_space(&self) -> bool {
        let [spaces, ahead] = &*self.items else { return false };
        spaces.text == SPACE
            && ["+", "++"].contains(&&*spaces.quantifier)
            && ahead.text == format!("(?!{NO_SPACE})")
            && ahead.quantifier.is_empty()
    }

    fn is_anchored(&self) -> bool {
        self.items.first().is_some_and(|item| item.anchor && !item.may_be_absent())
    }

    /// The sequence as text, and whether it needs look-around or atomic groups. `alone` says that nothing follows it.
    fn written(&self, alone: bool) -> (String, bool) {
        let (mut text, mut fancy) = (String::new(), false);
        for (number, item) in self.items.iter().enumerate() {
            let (before, after) = (&self.items[..number], &self.items[number + 1..]);
            // Where whitespace ends a text, all of it does.
            let ends = item.text == END
                && alone
                && after.is_empty()
                && before
                    .last()
                    .is_some_and(|it| it.text == SPACE && it.quantifier.starts_with(['*', '+']));
            if ends {
                text.push_str(r"\z");
                continue;
            }
            fancy |= item.fancy;
            text.push_str(&item.text);
            if item.is_possessive() && gives_nothing_back(item, after, alone) {
                text.push_str(&item.quantifier[..item.quantifier.len() - 1]);
            } else {
                fancy |= item.is_possessive();
                text.push_str(&item.quantifier);
            }
        }
        (text, fancy)
    }
}

/// Whether a possessive quantifier is no other than a greedy one: nothing that follows begins with what is repeated.
fn gives_nothing_back(item: &Item, after: &[Item], alone: bool) -> bool {
    for next in after {
        if next.text == END && item.text == SPACE {
            return true;
        }
        if !item.is_set || !next.is_set || !are_disjoint(&item.text, &next.text) {
            return false;
        }
        if !next.may_be_absent() {
            return true;
        }
    }
    alone
}

/// Whether no character is in both sets.
fn are_disjoint(a: &str, b: &str) -> bool {
    let class = |set: &str| match regex_syntax::parse(set).ok()?.into_kind() {
        regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => Some(class),
        regex_syntax::hir::HirKind::Literal(literal) => {
            let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
            let (first, None) = (chars.next()?, chars.next()) else { return None };
            let range = regex_syntax::hir::ClassUnicodeRange::new(first, first);
            Some(regex_syntax::hir::ClassUnicode::new([range]))
        }
        _ => None,
    };
    let (Some(mut a), Some(b)) = (class(a), class(b)) else { return false };
    a.intersect(&b);
    a.ranges().is_empty()
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).map(|(_, c)| *c)
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).map(|(_, c)| *c)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += 1;
        c
    }

    /// The byte of the pattern that comes next.
    fn position(&self) -> usize {
        self.chars.get(self.at).map_or(self.len, |(position, _)| *position)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(ahead, c)| self.peek_at(ahead) == Some(c));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// What comes before this character, which is passed.
    fn until(&mut self, end: char) -> TractResult<String> {
        let from = self.position();
        let mut text = String::new();
        loop {
            match self.next() {
                Some(c) if c == end => return Ok(text),
                Some(c) => text.push(c),
                None => bail!("what begins at byte {from} has no {end:?}"),
            }
        }
    }

    /// The alternatives up to the end of a group, or of the pattern.
    fn sequences(&mut self) -> TractResult<Vec<Sequence>> {
        let mut sequences = vec![Sequence::default()];
        while let Some(c) = self.peek() {
            match c {
                ')' => break,
                '|' => {
                    self.at += 1;
                    sequences.push(Sequence::default());
                }
                _ => {
                    if let Some(mut item) = self.item()? {
                        item.quantifier = self.quantifier();
                        sequences.last_mut().expect("there is one").items.push(item);
                    }
                }
            }
        }
        Ok(sequences)
    }

    fn quantifier(&mut self) -> String {
        let mut quantifier = match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                c.to_string()
            }
            Some('{') => match self.counts() {
                Some(counts) => counts,
                None => return String::new(),
            },
            _ => return String::new(),
        };
        if let Some(c @ ('+' | '?')) = self.peek() {
            self.at += 1;
            quantifier.push(c);
        }
        quantifier
    }

    /// `{3}`, `{3,}`, `{3,5}` or `{,5}`. Other braces are characters.
    fn counts(&mut self) -> Option<String> {
        let mut counts = String::new();
        let mut ahead = 1;
        loop {
            match self.peek_at(ahead)? {
                c @ ('0'..='9' | ',') => counts.push(c),
                ' ' => {}
                '}' => break,
                _ => return None,
            }
            ahead += 1;
        }
        let (least, most) = counts.split_once(',').map_or((&*counts, None), |(a, b)| (a, Some(b)));
        if most.is_some_and(|most| most.contains(','))
            || (least.is_empty() && most.is_none_or(str::is_empty))
        {
            return None;
        }
        self.at += ahead + 1;
        let least = if least.is_empty() { "0" } else { least };
        Some(match most {
            None => format!("{{{least}}}"),
            Some(most) => format!("{{{least},{most}}}"),
        })
    }

    fn item(&mut self) -> TractResult<Option<Item>> {
        let from = self.position();
        Ok(Some(match self.next().expect("something is left") {
            '(' => return self.group(from),
            '[' => Item::set(self.class(from)?),
            '\\' => return self.escape(from).map(Some),
            '^' => Item { anchor: true, ..Item::new("^") },
            '$' if self.multiline => Item::new("$"),
            '$' => Item { fancy: true, ..Item::new(END) },
            '.' => Item::set(r"[^\n]"),
            c @ ('*' | '+' | '?') => bail!("{c:?} at byte {from} repeats nothing"),
            c => Item::set(escaped(c)),
        }))
    }

    /// A group, whose first parenthesis is passed. A comment is none.
    fn group(&mut self, from: usize) -> TractResult<Option<Item>> {
        ensure!(!self.eat("*"), "the verb at byte {from} is not supported");
        if self.eat("?#") {
            self.until(')')?;
            return Ok(None);
        }
        self.depth += 1;
        ensure!(
            self.depth <= DEEPEST,
            "at byte {from}, groups are nested more than {DEEPEST} deep"
        );
        let item = self.group_of(from);
        self.depth -= 1;
        item.map(Some)
    }

    fn group_of(&mut self, from: usize) -> TractResult<Item> {
        if self.eat("?|") {
            return self.branches(from);
        }
        let mut captures = false;
        let mut around = false;
        let start = if self.eat("?") {
            match self.next() {
                Some(':') => "(?:".to_string(),
                Some(c @ ('=' | '!' | '>')) => {
                    around = true;
                    format!("(?{c}")
                }
                Some('<') if matches!(self.peek(), Some('=' | '!')) => {
                    around = true;
                    format!("(?<{}", self.next().expect("it was seen"))
                }
                Some(c @ ('<' | '\'')) => {
                    self.until(if c == '<' { '>' } else { '\'' })?;
                    captures = true;
                    "(".to_string()
                }
                Some('P') if self.eat("<") => {
                    self.until('>')?;
                    captures = true;
                    "(".to_string()
                }
                Some(c) if "imsJ-^".contains(c) => {
                    let mut flags = c.to_string();
                    loop {
                        match self.next() {
                            Some(c) if "ims-".contains(c) => flags.push(c),
                            Some(')') => return Ok(Item::new(format!("(?{flags})"))),
                            Some(':') => break format!("(?{flags}:"),
                            _ => bail!("the flags at byte {from} are not among i, m and s"),
                        }
                    }
                }
                _ => bail!("the group at byte {from} is of a kind that is not supported"),
            }
        } else {
            captures = true;
            "(".to_string()
        };
        if captures {
            self.groups.push(self.next_group);
            self.next_group += 1;
        }
        let sequences = self.sequences()?;
        ensure!(self.next() == Some(')'), "the group at byte {from} is not closed");
        let anchor = !around && sequences.iter().all(Sequence::is_anchored);
        let mut item = Item { fancy: around, anchor, ..Item::new(start) };
        // What is inside of a look-around is alone, but only the end of the pattern can be left out.
        push_sequences(&mut item, &sequences);
        Ok(item)
    }

    /// `(?|`: the groups of each alternative have the same numbers.
    fn branches(&mut self, from: usize) -> TractResult<Item> {
        let first = self.next_group;
        let mut last = first;
        let mut sequences = vec![];
        loop {
            self.next_group = first;
            let at = self.at;
            sequences.push(self.sequence()?);
            last = last.max(self.next_group);
            ensure!(
                self.at > at || self.peek().is_some(),
                "the group at byte {from} is not closed"
            );
            match self.next() {
                Some('|') => continue,
                Some(')') => break,
                _ => bail!("the group at byte {from} is not closed"),
            }
        }
        self.next_group = last;
        let anchor = sequences.iter().all(Sequence::is_anchored);
        let mut item = Item { anchor, ..Item::new("(?:") };
        push_sequences(&mut item, &sequences);
        Ok(item)
    }

    /// One alternative.
    fn sequence(&mut self) -> TractResult<Sequence> {
        let mut sequence = Sequence::default();
        while let Some(c) = self.peek() {
            if matches!(c, ')' | '|') {
                break;
            }
            if let Some(mut item) = self.item()? {
                item.quantifier = self.quantifier();
                sequence.items.push(item);
            }
        }
        Ok(sequence)
    }

    /// What follows a backslash outside of a set.
    fn escape(&mut self, from: usize) -> TractResult<Item> {
        let c =
            self.next().with_context(|| format!("the backslash at byte {from} escapes nothing"))?;
        Ok(match c {
            's' => Item::set(SPACE),
            'S' => Item::set(NO_SPACE),
            'w' => Item::set(format!("[{WORDS}]")),
            'W' => Item::set(format!("[^{WORDS}]")),
            'h' => Item::set(format!("[{HORIZONTAL}]")),
            'H' => Item::set(format!("[^{HORIZONTAL}]")),
            'v' => Item::set(format!("[{VERTICAL}]")),
            'V' => Item::set(format!("[^{VERTICAL}]")),
            'd' | 'D' => Item::set(format!("\\{c}")),
            'N' => Item::set(r"[^\n]"),
            'R' => Item { fancy: true, ..Item::new(format!(r"(?>\r\n|[{VERTICAL}])")) },
            'A' => Item { anchor: true, ..Item::new(r"\A") },
            'z' => Item::new(r"\z"),
            'Z' => Item { fancy: true, ..Item::new(END) },
            'b' | 'B' => Item::new(format!("\\{c}")),
            'p' | 'P' => Item::set(self.property(c, from)?),
            '1'..='9' => {
                let mut number = c.to_string();
                while let Some(digit @ '0'..='9') = self.peek() {
                    self.at += 1;
                    number.push(digit);
                }
                let number: usize = number.parse()?;
                let place = self.groups.iter().position(|group| *group == number);
                let place = place.with_context(|| {
                    format!("the back-reference at byte {from} is to group {number}, which does not come before")
                })?;
                Item { fancy: true, ..Item::new(format!("(?:\\{})", place + 1)) }
            }
            'Q' => {
                let mut text = String::new();
                while self.peek().is_some() && !self.eat("\\E") {
                    text.push_str(&escaped(self.next().expect("it was seen")));
                }
                Item::new(format!("(?:{text})"))
            }
            'E' => Item::new(""),
            _ => Item::set(escaped(self.character(c, from)?)),
        })
    }

    /// The character that an escape stands for, in a set or outside.
    fn character(&mut self, c: char, from: usize) -> TractResult<char> {
        Ok(match c {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'a' => '\u{7}',
            'e' => '\u{1b}',
            'x' => {
                let digits = if self.eat("{") { self.until('}')? } else { self.digits(2, 16) };
                self.code(&digits, 16, from)?
            }
            'o' if self.eat("{") => {
                let digits = self.until('}')?;
                self.code(&digits, 8, from)?
            }
            '0' => {
                let digits = format!("0{}", self.digits(2, 8));
                self.code(&digits, 8, from)?
            }
            c if c.is_ascii_alphanumeric() => bail!("\"\\{c}\" at byte {from} is not supported"),
            c => c,
        })
    }

    fn digits(&mut self, most: usize, radix: u32) -> String {
        let mut digits = String::new();
        while let Some(c) = self.peek().filter(|c| digits.len() < most && c.is_digit(radix)) {
            self.at += 1;
            digits.push(c);
        }
        digits
    }

    fn code(&self, digits: &str, radix: u32, from: usize) -> TractResult<char> {
        let digits = if digits.is_empty() { "0" } else { digits.trim() };
        let code = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        code.with_context(|| format!("{digits:?} at byte {from} is no character of Unicode"))
    }

    /// A property of Unicode: `\p{L}`, `\pL`, `\P{^Han}`.
    fn property(&mut self, kind: char, from: usize) -> TractResult<String> {
        let mut name = match self.next() {
            Some('{') => self.until('}')?,
            Some(c) => c.to_string(),
            None => bail!("the property at byte {from} has no name"),
        };
        name.retain(|c| !c.is_whitespace());
        let mut negated = kind == 'P';
        if let Some(rest) = name.strip_prefix('^') {
            negated = !negated;
            name = rest.to_string();
        }
        ensure!(
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-&:=".contains(c)),
            "the property {name:?} at byte {from} is not known"
        );
        let kind = if negated { 'P' } else { 'p' };
        let lower = name.to_ascii_lowercase();
        Ok(match &*lower {
            "l&" => format!(r"\{kind}{{LC}}"),
            "xsp" | "xps" => set(negated, SPACES),
            "xan" => set(negated, r"\p{L}\p{N}"),
            "xwd" => set(negated, WORDS),
            // Scripts mean all characters that are used with them.
            _ if !NO_SCRIPTS.contains(&&*lower) && !lower.contains([':', '=']) => {
                let of_script = format!(r"\{kind}{{scx={name}}}");
                match regex_syntax::parse(&of_script) {
                    Ok(_) => of_script,
                    Err(_) => format!(r"\{kind}{{{name}}}"),
                }
            }
            _ => format!(r"\{kind}{{{}}}", name.replace(':', "=")),
        })
    }

    /// A set, whose first bracket is passed.
    fn class(&mut self, from: usize) -> TractResult<String> {
        let mut text = "[".to_string();
        if self.eat("^") {
            text.push('^');
        }
        if self.eat("]") {
            text.push_str(r"\]");
        }
        loop {
            let at = self.position();
            let c = self.next().with_context(|| format!("the set at byte {from} is not closed"))?;
            match c {
                ']' => break,
                '[' if self.peek() == Some(':') => {
                    self.at += 1;
                    let name = self.until(':')?;
                    ensure!(self.eat("]"), "the class of characters at byte {at} is not closed");
                    text.push_str(&format!("[:{name}:]"));
                }
                '\\' => {
                    let c = self
                        .next()
                        .with_context(|| format!("the backslash at byte {at} escapes nothing"))?;
                    match c {
                        's' => text.push_str(SPACES),
                        'S' => text.push_str(NO_SPACE),
                        'w' => text.push_str(WORDS),
                        'W' => text.push_str(&set(true, WORDS)),
                        'h' => text.push_str(HORIZONTAL),
                        'v' => text.push_str(VERTICAL),
                        'H' => text.push_str(&set(true, HORIZONTAL)),
                        'V' => text.push_str(&set(true, VERTICAL)),
                        'd' | 'D' => text.push_str(&format!("\\{c}")),
                        'p' | 'P' => {
                            let property = self.property(c, at)?;
                            text.push_str(&property);
                        }
                        'b' => text.push_str(r"\x{8}"),
                        'E' => {}
                        'Q' => {
                            while self.peek().is_some() && !self.eat("\\E") {
                                text.push_str(&escaped(self.next().expect("it was seen")));
                            }
                        }
                        '1'..='7' => {
                            let digits = format!("{c}{}", self.digits(2, 8));
                            text.push_str(&escaped(self.code(&digits, 8, at)?));
                        }
                        _ => text.push_str(&escaped(self.character(c, at)?)),
                    }
                }
                // It is part of a range, unless it is the first or the last.
                '-' if !matches!(text.as_str(), "[" | "[^")
                    && self.peek().is_some_and(|c| c != ']') =>
                {
                    // After a range or a class of characters, it is a character, too.
                    text.push('-');
                }
                c => text.push_str(&escaped(c)),
            }
        }
        text.push(']');
        Ok(text)
    }
}

fn set(negated: bool, of: &str) -> String {
    if negated { format!("[^{of}]") } else { format!("[{of}]") }
}

/// A character that means nothing but itself, in a set or outside.
fn escaped(c: char) -> String {
    match c {
        _ if c.is_alphanumeric() && c.is_ascii() => c.to_string(),
        ' '..='~' if !"<>".contains(c) && c != ' ' => format!("\\{c}"),
        // The syntax of the crates has other meanings for these with a backslash.
        '<' | '>' | ' ' => c.to_string(),
        c if c.is_control() => format!(r"\x{{{:X}}}", c as u32),
        c => c.to_string(),
    }
}

fn push_sequences(item: &mut Item, sequences: &[Sequence]) {
    for (number, sequence) in sequences.iter().enumerate() {
        if number > 0 {
            item.text.push('|');
        }
        let (text, fancy) = sequence.written(false);
        item.text.push_str(&text);
        item.fancy |= fancy;
    }
    item.text.push(')');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pattern: &str) -> (String, bool) {
        let translated = translate(pattern).unwrap();
        (translated.whole(), translated.fancy)
    }

    #[test]
    fn gpt2() {
        let pattern = r"'s|'t| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
        let translated = translate(pattern).unwrap();
        assert!(!translated.fancy && !translated.anchored);
        let expected = [
            Alternative::Pattern(r"\'s".into()),
            Alternative::Pattern(r"\'t".into()),
            Alternative::Pattern(r" ?\p{L}+".into()),
            Alternative::Pattern(r" ?[^\s\x{180E}\p{L}\p{N}]+".into()),
            Alternative::AllButLastSpace,
            Alternative::Pattern(r"[\s\x{180E}]+".into()),
        ];
        assert_eq!(translated.alternatives, expected);
    }

    #[test]
    fn possessive_quantifiers() {
        // The pattern of cl100k_base.
        let pattern = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
        let (text, fancy) = whole(pattern);
        // Signs can be followed by line ends, which are not among them.
        assert!(!fancy, "{text}");
        assert!(text.contains(r"[\s\x{180E}]+\z"), "{text}");
        assert!(whole(r"a++a").1);
        assert!(whole(r"(?:a++)b").1);
        assert!(!whole(r"[ab]++c").1);
    }

    #[test]
    fn branches_share_numbers() {
        let translated = translate(r"(?| ([\\.\\?\\!,])| ('[ms])|(n(x)t))(z)").unwrap();
        assert_eq!(translated.groups, [1, 1, 1, 2, 3]);
        assert!(!translated.fancy);
    }

    #[test]
    fn ends_and_beginnings() {
        assert_eq!(whole(r"^\s*|\s*$"), (r"^[\s\x{180E}]*|[\s\x{180E}]*\z".into(), false));
        assert_eq!(whole(r" $"), (r" (?=\n?\z)".into(), true));
        assert!(translate(r"(^)((?!a|$)|(?=[\r\v]))").unwrap().anchored);
        assert!(translate(r"(?:^)([\s\S])").unwrap().anchored);
        assert!(!translate(r"(^)?a").unwrap().anchored);
        assert!(!translate(r"^a|b").unwrap().anchored);
    }

    #[test]
    fn sets() {
        assert_eq!(whole(r"[[a&&\-\]-]").0, r"[\[a\&\&\-\]\-]");
        assert_eq!(whole(r"[]a][^]]").0, r"[\]a][^\]]");
        assert_eq!(whole(r"[\[-`{-~]").0, r"[\[-\`\{-\~]");
        assert_eq!(whole(r"a{,3}b{2}c{x").0, r"a{0,3}b{2}c\{x");
        assert_eq!(whole(r"\p{Han}\P{L}\p{^Lu}").0, r"\p{scx=Han}\P{L}\P{Lu}");
    }

    #[test]
    fn errors() {
        for (pattern, expected) in [
            ("(a", "the group at byte 0 is not closed"),
            ("a)", "')' at byte 1 closes no group"),
            ("[a", "the set at byte 0 is not closed"),
            ("é+*", "'*' at byte 3 repeats nothing"),
            (r"\", "escapes nothing"),
            (r"\y", r#""\y" at byte 0 is not supported"#),
            (r"\x{110000}", "no character of Unicode"),
            ("(?R)", "of a kind that is not supported"),
            ("(*UTF)", "the verb at byte 0"),
            ("(?|(a)", "is not closed"),
            (r"\2(a)(b)", "does not come before"),
        ] {
            let error = translate(pattern).unwrap_err().to_string();
            assert!(error.contains(expected), "{pattern}: {error}");
        }
        translate(&"(".repeat(1000)).unwrap_err();
    }
}
