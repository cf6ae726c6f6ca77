//! Strings in another form.

use std::borrow::Cow;

use tract_openvino_ir::internal::*;

use super::OPSET;
use super::split::skips;
use crate::layer::{
    constant_bytes, constant_text, expect_one_of, expect_strings, expect_type, string_facts, wire,
};
use crate::regex::{Matcher, Replacement, Text};
use crate::strings::{NewStrings, Strings};
use crate::unicode::{CharsMap, Form, Normalizer, Spaces};

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("RegexNormalization", OPSET, regex_normalization);
    registry.add_extension("CharsMapNormalization", OPSET, chars_map_normalization);
    registry.add_extension("NormalizeUnicode", OPSET, normalize_unicode);
    registry.add_extension("CaseFold", OPSET, case_fold);
}

/// Wires an operation that changes strings, but for those to skip if they are input 3, which is an output, too.
fn normalization(
    layer: &mut LayerContext,
    operation: &'static str,
    has_skips: bool,
    normalize: impl Fn(&[u8], &mut Vec<u8>) -> TractResult<()> + Send + Sync + 'static,
) -> TractResult<TVec<OutletId>> {
    let shape = expect_strings(layer, 0)?;
    if has_skips {
        expect_type(layer, 3, DatumType::Bool, "skips")?;
    }
    let facts = string_facts(layer, shape)?;
    let mut outputs =
        wire(layer, operation, 0..3 + usize::from(has_skips), facts, move |inputs| {
            let strings = Strings::of(inputs)?;
            let skips = inputs.get(3).map(|tensor| skips(tensor, &strings)).transpose()?;
            let mut new = NewStrings::with_capacity(strings.len(), strings.bytes().len());
            for (number, string) in strings.iter().enumerate() {
                if skips.is_some_and(|skips| skips[number]) {
                    new.push(string)?;
                    continue;
                }
                let begin = new.bytes.len();
                let normalized = normalize(string, &mut new.bytes);
                normalized.with_context(|| {
                    format!("in string {number}, which has {} bytes", string.len())
                })?;
                new.end(begin)?;
            }
            new.into_tensors(inputs[0].shape())
        })?;
    if has_skips {
        outputs.push(layer.input(3)?);
    }
    Ok(outputs)
}

/// Patterns of older converters, and what OpenVINO makes of them.
const REWRITTEN: [(&str, &str); 3] = [
    (
        r" ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't)",
        r"(?| ([\\.\\?\\!,])| ('[ms])| (') | ('[rv]e)| (n't))",
    ),
    (r"(^)(.)", r"(^)([\s\S])"),
    (r"(^)(.+)", r"(^)([\s\S])"),
];

/// **RegexNormalization**: what a pattern matches becomes another text, at all places or at the first.
///
/// Inputs are strings; which of them to skip (boolean), if there are 6 inputs; the pattern; and the text.
fn regex_normalization(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let has_skips = expect_one_of(layer, &[5, 6])? == 6;
    let first = 3 + usize::from(has_skips);
    let pattern = constant_text(layer, first, "search_pattern")?;
    let replacement = constant_text(layer, first + 1, "replace_pattern")?;
    let rewritten = REWRITTEN.iter().find(|(old, _)| *old == pattern);
    let matcher = Matcher::new(rewritten.map_or(&pattern, |(_, new)| new))?;
    let replacement = Replacement::new(&replacement)?;
    ensure!(
        replacement.largest_group() <= matcher.largest_group(),
        "the replacement has group {}, but the pattern {pattern:?} has {}",
        replacement.largest_group(),
        matcher.largest_group()
    );
    let everywhere = layer.attribute_or("global_replace", true)?;
    normalization(layer, "RegexNormalization", has_skips, move |string, to| {
        let text = Text::new(string);
        match replaced(&matcher, &replacement, text.as_str(), everywhere)? {
            Some(new) => text.push_onto(to, &new),
            None => to.extend_from_slice(string),
        }
        Ok(())
    })
}

/// A text with its matches replaced, or `None` if nothing is.
fn replaced(
    matcher: &Matcher,
    replacement: &Replacement,
    text: &str,
    everywhere: bool,
) -> TractResult<Option<String>> {
    let mut new = String::new();
    let (mut from, mut copied, mut any) = (0, 0, false);
    while from <= text.len() {
        let found = match replacement.literal() {
            Some(literal) => {
                let Some(found) = matcher.find(text, from)? else { break };
                new.push_str(&text[copied..found.start]);
                new.push_str(literal);
                found
            }
            None => {
                let Some(groups) = matcher.captures(text, from)? else { break };
                new.push_str(&text[copied..groups.whole.start]);
                let group = |number| groups.get(number).map(|group| &text[group]);
                // Where a group took no part, OpenVINO leaves the text as it is.
                let Some(()) = replacement.expand(&mut new, group) else { return Ok(None) };
                groups.whole
            }
        };
        any = true;
        copied = found.end;
        // The next match is not before the next character.
        let step = if found.is_empty() {
            text[found.end..].chars().next().map_or(1, char::len_utf8)
        } else {
            0
        };
        from = found.end + step;
        if !everywhere {
            break;
        }
    }
    if !any {
        return Ok(None);
    }
    new.push_str(&text[copied..]);
    Ok(Some(new))
}

/// **CharsMapNormalization**: characters become others by a table of sentencepiece, or by a form of Unicode, and spaces are changed.
///
/// Inputs are strings; which of them to skip, if there are 5 inputs, or 4 with a form; and the table, if there is no form.
fn chars_map_normalization(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let form: String = layer.attribute_or("normalization_form", String::new())?;
    let case_fold = layer.attribute_or("case_fold", false)?;
    let spaces = Spaces {
        dummy_prefix: layer.attribute_or("add_dummy_prefix", false)?,
        remove_extra: layer.attribute_or("remove_extra_whitespaces", true)?,
        escape: layer.attribute_or("escape_whitespaces", false)?,
    };
    let (has_skips, normalizer) = if form.is_empty() {
        let has_skips = expect_one_of(layer, &[4, 5])? == 5;
        let input = 3 + usize::from(has_skips);
        let map = CharsMap::new(constant_bytes(layer, input, "charsmap")?);
        (has_skips, Normalizer::Table(map.with_context(|| format!("in input {input} (charsmap)"))?))
    } else {
        let has_skips = expect_one_of(layer, &[3, 4])? == 4;
        (has_skips, Normalizer::Form(form_of(&form)?, case_fold))
    };
    ensure!(
        !matches!(normalizer, Normalizer::Form(Form::Identity, false)),
        "attribute normalization_form is {form:?}, which needs case_fold"
    );
    normalization(layer, "CharsMapNormalization", has_skips, move |string, to| {
        normalizer.normalize(string, spaces, to);
        Ok(())
    })
}

fn form_of(name: &str) -> TractResult<Form> {
    Ok(match &*name.to_ascii_lowercase() {
        "identity" => Form::Identity,
        "nfc" => Form::Nfc,
        "nfd" => Form::Nfd,
        "nfkc" => Form::Nfkc,
        "nfkd" => Form::Nfkd,
        _ => bail!(
            "attribute normalization_form is {name:?}, but must be one of identity, nfc, nfd, nfkc, nfkd"
        ),
    })
}

/// **NormalizeUnicode**: strings in a form of Unicode.
fn normalize_unicode(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let has_skips = expect_one_of(layer, &[3, 4])? == 4;
    let name: String = layer.attribute_or("normalization_form", "NFD".to_string())?;
    let form = form_of(&name)?;
    ensure!(
        form != Form::Identity,
        "attribute normalization_form is {name:?}, but must be one of NFC, NFD, NFKC, NFKD"
    );
    normalization(layer, "NormalizeUnicode", has_skips, move |string, to| {
        Normalizer::Form(form, false).normalize(string, Spaces::default(), to);
        Ok(())
    })
}

/// **CaseFold**: the letters of ASCII in lower or upper case, or all letters folded (`encoding` is `utf-8`).
fn case_fold(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let has_skips = expect_one_of(layer, &[3, 4])? == 4;
    let encoding: String = layer.attribute_or("encoding", "utf-8".to_string())?;
    let lower = layer.attribute_or("lower", true)?;
    let all = match &*encoding {
        "utf-8" if lower => true,
        "" => false,
        _ => bail!(
            "attribute encoding is {encoding:?} and lower is {lower}, but encoding must be \"\", or \"utf-8\" with lower"
        ),
    };
    normalization(layer, "CaseFold", has_skips, move |string, to| {
        if all {
            Normalizer::Form(Form::Identity, true).normalize(string, Spaces::default(), to);
        } else {
            let string: Cow<[u8]> = match lower {
                true => string.to_ascii_lowercase().into(),
                false => string.to_ascii_uppercase().into(),
            };
            to.extend_from_slice(&string);
        }
        Ok(())
    })
}
