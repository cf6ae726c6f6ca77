//! The forms of Unicode as rules of sentencepiece, which OpenVINO's tables have: they are not those of Unicode for marks that are in
//! another order, or that follow a character which has one already.

use std::collections::HashMap;
use std::sync::OnceLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_canonical, decompose_compatible};

use super::fold::folded;
use super::{Rule, first_char};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Identity,
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

/// Characters, and what they become together, by the first of them.
type Sequences = HashMap<char, Vec<(Box<[char]>, Box<str>)>>;

/// The rules of a form that composes.
struct Composition {
    /// What single characters become.
    single: HashMap<char, Box<str>>,
    /// Characters whose decomposition is one other.
    other: HashMap<char, char>,
    /// Decompositions that are composed again, the longest first.
    sequences: Sequences,
}

/// Characters with decompositions are before this one.
const END: u32 = 0x3_0000;

/// Syllables of Hangul, whose decompositions are computed.
const HANGUL: std::ops::Range<u32> = 0xac00..0xd7a4;

impl Composition {
    fn new(decompose: fn(char, &mut Vec<char>), compose: fn(&[char]) -> String) -> Composition {
        let (mut single, mut other) = (HashMap::new(), HashMap::new());
        let mut sequences = Sequences::new();
        let mut parts = vec![];
        for c in (0xa0..END).filter(|code| !HANGUL.contains(code)).filter_map(char::from_u32) {
            parts.clear();
            decompose(c, &mut parts);
            match *parts {
                [part] if part == c => continue,
                [part] => {
                    other.insert(c, part);
                }
                _ => {
                    let composed = compose(&parts);
                    if !composed.chars().eq(parts.iter().copied()) {
                        let of_first = sequences.entry(parts[0]).or_default();
                        if !of_first.iter().any(|(known, _)| **known == *parts) {
                            of_first.push((parts.clone().into(), composed.into()));
                        }
                    }
                }
            }
            let composed = compose(&[c]);
            if !composed.chars().eq([c]) {
                single.insert(c, composed.into());
            }
        }
        for sequences in sequences.values_mut() {
            sequences.sort_by_key(|(parts, _)| std::cmp::Reverse(parts.len()));
        }
        Composition { single, other, sequences }
    }

    /// The character that a character decomposes to, if it is one.
    fn part(&self, c: char) -> char {
        if c.is_ascii() { c } else { self.other.get(&c).copied().unwrap_or(c) }
    }

    /// What so many characters become together, which need a rule for this.
    fn composed(&self, chars: &[char], folds: bool) -> Option<String> {
        if let [c] = chars {
            let composed = self.single.get(c).map(|text| folded_text(text, folds));
            let composed = composed.or_else(|| folds.then(|| folded(*c).to_string()));
            return composed.filter(|composed| !composed.chars().eq([*c]));
        }
        let parts: Vec<char> = chars.iter().map(|c| self.part(*c)).collect();
        let composed = self.of_parts(&parts)?;
        // A rule is left out if shorter ones do the same.
        if composed.chars().eq(chars.iter().copied()) || composed == self.by_shorter(chars, false) {
            return None;
        }
        let composed = folded_text(&composed, folds);
        (!folds || composed != self.by_shorter(chars, true)).then_some(composed)
    }

    fn of_parts(&self, parts: &[char]) -> Option<String> {
        if let Some(syllable) = syllable(parts) {
            return Some(syllable.to_string());
        }
        let sequences = self.sequences.get(parts.first()?)?;
        sequences
            .iter()
            .find(|(known, _)| **known == *parts)
            .map(|(_, composed)| composed.to_string())
    }

    /// What characters become by rules for fewer of them.
    fn by_shorter(&self, chars: &[char], folds: bool) -> String {
        let mut text = String::new();
        let mut rest = chars;
        while let Some(first) = rest.first() {
            let most = rest.len().min(chars.len() - 1);
            let rule =
                (1..=most).rev().find_map(|len| Some((len, self.composed(&rest[..len], folds)?)));
            match rule {
                Some((len, composed)) => {
                    text.push_str(&composed);
                    rest = &rest[len..];
                }
                None => {
                    text.push(*first);
                    rest = &rest[1..];
                }
            }
        }
        text
    }

    /// The longest rule for the beginning of a text.
    fn rule<'a>(&self, folds: bool, text: &[u8], buffer: &'a mut String) -> Option<Rule<'a>> {
        let (first, len) = first_char(text)?;
        // Whatever is composed ends with a character beyond ASCII.
        if text.get(len).is_some_and(|byte| !byte.is_ascii()) {
            let part = self.part(first);
            let of_first = self.sequences.get(&part).map_or(&[][..], |it| it);
            let most = of_first.first().map_or(0, |(parts, _)| parts.len());
            let most = if is_leading(part) { most.max(3) } else { most };
            let (mut chars, mut ends) = (vec![], vec![]);
            if most > 1 {
                chars.push(first);
                ends.push(len);
            }
            while !chars.is_empty() && chars.len() < most {
                let end = ends[ends.len() - 1];
                let Some((c, len)) = first_char(&text[end..]) else { break };
                chars.push(c);
                ends.push(end + len);
            }
            for count in (2..=chars.len()).rev() {
                if let Some(composed) = self.composed(&chars[..count], folds) {
                    *buffer = composed;
                    return Some(Rule::Replace(ends[count - 1], buffer));
                }
            }
        }
        match self.single.get(&first) {
            Some(single) => *buffer = folded_text(single, folds),
            None if folds && folded(first) != first => {
                buffer.clear();
                buffer.push(folded(first));
            }
            None => return Some(Rule::Keep(len)),
        }
        Some(Rule::Replace(len, buffer))
    }
}

fn folded_text(text: &str, folds: bool) -> String {
    if folds { text.chars().map(folded).collect() } else { text.to_string() }
}

/// Whether this is the first letter of a syllable of Hangul.
fn is_leading(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{1112}')
}

/// The syllable of Hangul that letters make.
fn syllable(parts: &[char]) -> Option<char> {
    let (first, second, third) = match *parts {
        [first, second] => (first, second, 0),
        [first, second, third @ '\u{11a8}'..='\u{11c2}'] => (first, second, third as u32 - 0x11a7),
        _ => return None,
    };
    if !is_leading(first) || !matches!(second, '\u{1161}'..='\u{1175}') {
        return None;
    }
    let (first, second) = (first as u32 - 0x1100, second as u32 - 0x1161);
    char::from_u32(HANGUL.start + (first * 21 + second) * 28 + third)
}

impl Form {
    fn composition(self) -> Option<&'static Composition> {
        static NFC: OnceLock<Composition> = OnceLock::new();
        static NFKC: OnceLock<Composition> = OnceLock::new();
        Some(match self {
            Form::Nfc => NFC.get_or_init(|| {
                Composition::new(canonical, |chars| chars.iter().copied().nfc().collect())
            }),
            Form::Nfkc => NFKC.get_or_init(|| {
                Composition::new(compatible, |chars| chars.iter().copied().nfkc().collect())
            }),
            _ => return None,
        })
    }

    /// How many bytes at the beginning of a text no rule is for: most texts are runs of ASCII.
    pub fn unchanged(self, folds: bool, text: &[u8]) -> usize {
        let changes = |byte: &u8| !byte.is_ascii() || (folds && byte.is_ascii_uppercase());
        match text.iter().position(changes) {
            // What comes last may be composed with what follows.
            Some(run) if !text[run].is_ascii() => run.saturating_sub(1),
            Some(run) => run,
            None => text.len(),
        }
    }

    /// The longest rule for the beginning of a text. `None` if that is not UTF-8.
    pub fn rule<'a>(self, folds: bool, text: &[u8], buffer: &'a mut String) -> Option<Rule<'a>> {
        if let Some(composition) = self.composition() {
            return composition.rule(folds, text, buffer);
        }
        let (c, len) = first_char(text)?;
        buffer.clear();
        let mut push = |c: char| buffer.push(if folds { folded(c) } else { c });
        match self {
            Form::Nfd => std::iter::once(c).nfd().for_each(&mut push),
            Form::Nfkd => std::iter::once(c).nfkd().for_each(&mut push),
            _ => push(c),
        }
        Some(Rule::Replace(len, buffer))
    }
}

fn canonical(c: char, parts: &mut Vec<char>) {
    decompose_canonical(c, |part| parts.push(part));
}

fn compatible(c: char, parts: &mut Vec<char>) {
    decompose_compatible(c, |part| parts.push(part));
}
