//! Strings that are split into pieces.

use std::collections::HashSet;

use tract_openvino_ir::internal::*;

use super::OPSET;
use crate::layer::{
    ConstantStrings, constant_text, expect_one_of, expect_rows_of_strings, expect_type, new_dim,
    wire,
};
use crate::regex::{Matcher, Text};
use crate::strings::{Ranges, Strings, rows_of_strings, slice, vector};

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("RegexSplit", OPSET, regex_split);
    registry.add_extension("SpecialTokensSplit", OPSET, special_tokens_split);
}

/// Pieces of strings, and which of them are left as they are by what follows.
struct Pieces {
    rows: Ranges,
    strings: Ranges,
    skips: Vec<bool>,
}

impl Pieces {
    fn new(rows: usize, strings: usize) -> Pieces {
        let strings_of = Ranges::with_capacity(strings);
        Pieces {
            rows: Ranges::with_capacity(rows),
            strings: strings_of,
            skips: Vec::with_capacity(strings),
        }
    }

    fn push(&mut self, begin: usize, end: usize, skip: bool) -> TractResult<()> {
        self.skips.push(skip);
        self.strings.push(begin, end)
    }

    /// The outputs for these inputs: the bytes are those of the strings.
    fn into_tensors(self, inputs: &[TValue], with_skips: bool) -> TractResult<TVec<Tensor>> {
        let pieces = [self.strings.len()];
        let [row_begins, row_ends] = self.rows.into_tensors(inputs[0].shape())?;
        let [begins, ends] = self.strings.into_tensors(&pieces)?;
        let bytes = inputs[4].clone().into_tensor();
        let mut outputs = tvec!(row_begins, row_ends, begins, ends, bytes);
        if with_skips {
            outputs.push(vector(self.skips));
        }
        Ok(outputs)
    }
}

/// Calls a function for each string, in the order of rows: with its number, and whether it is left as it is.
fn each_string(
    inputs: &[TValue],
    has_skips: bool,
    mut split: impl FnMut(&mut Pieces, Strings, usize, bool) -> TractResult<()>,
) -> TractResult<Pieces> {
    let (rows, strings) = rows_of_strings(inputs)?;
    let skips: Option<&[bool]> = match has_skips {
        true => Some(skips(&inputs[5], &strings)?),
        false => None,
    };
    let mut pieces = Pieces::new(rows.len(), strings.len().max(strings.bytes().len() / 5));
    for row in rows.iter() {
        let begin = pieces.strings.len();
        for number in row {
            let skip = skips.is_some_and(|skips| skips[number]);
            let string = strings.get(number);
            let split = split(&mut pieces, strings, number, skip);
            split
                .with_context(|| format!("in string {number}, which has {} bytes", string.len()))?;
        }
        let end = pieces.strings.len();
        pieces.rows.push(begin, end)?;
    }
    Ok(pieces)
}

/// Which strings are left as they are.
pub(super) fn skips<'a>(tensor: &'a Tensor, strings: &Strings) -> TractResult<&'a [bool]> {
    let skips = slice::<bool>(tensor, "the skips")?;
    ensure!(
        skips.len() == strings.len(),
        "the number of skips is {}, but there are {} strings",
        skips.len(),
        strings.len()
    );
    Ok(skips)
}

fn facts(
    layer: &LayerContext,
    rows: TVec<TDim>,
    with_skips: bool,
) -> TractResult<TVec<(DatumType, TVec<TDim>)>> {
    let pieces = tvec!(new_dim(layer, "pieces")?);
    let mut facts = tvec!(
        (DatumType::I32, rows.clone()),
        (DatumType::I32, rows),
        (DatumType::I32, pieces.clone()),
        (DatumType::I32, pieces.clone()),
        (DatumType::U8, layer.shape(4)?)
    );
    if with_skips {
        facts.push((DatumType::Bool, pieces));
    }
    Ok(facts)
}

/// How what a pattern matches, and what is between matches, become pieces.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    Remove,
    Isolate,
    MergedWithPrevious,
    MergedWithNext,
}

/// **RegexSplit**: splits strings at the matches of a pattern.
///
/// Inputs are rows of strings; which of them to skip (boolean), if there are 7 inputs; the pattern; and, if there are 9, strings that
/// are not split.
fn regex_split(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let count = expect_one_of(layer, &[6, 7, 9])?;
    let has_skips = count == 7;
    let (rows, _) = expect_rows_of_strings(layer)?;
    if has_skips {
        expect_type(layer, 5, DatumType::Bool, "skips")?;
    }
    let mut pattern = constant_text(layer, 5 + usize::from(has_skips), "split_pattern")?;
    let behaviour: String = layer.attribute_or("behaviour", "remove".to_string())?;
    if behaviour == "contiguous" && !pattern.ends_with('+') {
        pattern = format!("({pattern})+");
    }
    let behaviour = match &*behaviour {
        "remove" => Behaviour::Remove,
        "isolate" | "contiguous" => Behaviour::Isolate,
        "mergedwithprevious" => Behaviour::MergedWithPrevious,
        "mergedwithnext" => Behaviour::MergedWithNext,
        other => bail!(
            "attribute behaviour is {other:?}, but must be one of remove, isolate, contiguous, mergedwithprevious, \
             mergedwithnext"
        ),
    };
    let invert = layer.attribute_or("invert", false)?;
    let max_splits: i64 = layer.attribute_or("max_splits", -1)?;
    ensure!(
        max_splits == -1 || max_splits > 0,
        "attribute max_splits is {max_splits}, but must be -1 or more than 0"
    );
    let max_splits = usize::try_from(max_splits).ok();
    let matcher = Matcher::new(&pattern)?;
    let whole: HashSet<Box<[u8]>> = match count {
        9 => ConstantStrings::new(layer, 6, "skip_tokens")?.view().iter().map(Box::from).collect(),
        _ => HashSet::new(),
    };
    let split = Split { matcher, behaviour, invert, max_splits };
    let facts = facts(layer, rows, has_skips)?;
    let inputs = 0..5 + usize::from(has_skips);
    wire(layer, "RegexSplit", inputs, facts, move |inputs| {
        let pieces = each_string(inputs, has_skips, |pieces, strings, number, skip| {
            if skip || whole.contains(strings.get(number)) {
                return pieces.push(strings.begin(number), strings.end(number), skip);
            }
            split.string(pieces, strings, number)
        })?;
        pieces.into_tensors(inputs, has_skips)
    })
}

struct Split {
    matcher: Matcher,
    behaviour: Behaviour,
    invert: bool,
    max_splits: Option<usize>,
}

impl Split {
    fn string(&self, pieces: &mut Pieces, strings: Strings, number: usize) -> TractResult<()> {
        let text = Text::new(strings.get(number));
        let begin = strings.begin(number);
        let len = text.as_str().len();
        let mut state = State { splits: 0, last_begin: None };
        let mut add = |from: usize, to: usize, invert: bool| {
            let Some(from) = self.begin_of_split(&mut state, from, to == len, invert) else {
                return Ok(());
            };
            // The piece after the last split has all that is left.
            let to = if Some(state.splits) == self.max_splits { len } else { to };
            state.splits += 1;
            pieces.push(begin + text.original(from), begin + text.original(to), false)
        };
        let mut from = 0;
        while let Some(found) = self.matcher.find_next(text.as_str(), from)? {
            if found.is_empty() {
                break;
            }
            if found.start != from {
                add(from, found.start, self.invert)?;
            }
            add(found.start, found.end, !self.invert)?;
            from = found.end;
        }
        if from < len {
            return add(from, len, self.invert);
        }
        // A match at the end has nothing that it could be merged with.
        if self.behaviour == Behaviour::MergedWithNext && state.last_begin != Some(len) {
            let from = state.last_begin.unwrap_or(0);
            if !self.invert {
                return pieces.push(begin + text.original(from), begin + text.original(len), false);
            }
        }
        Ok(())
    }

    /// Where a piece begins, or `None` if this is none or waits for the next one. `matched` says that it is a match, or with
    /// `invert` that it is none.
    fn begin_of_split(
        &self,
        state: &mut State,
        from: usize,
        at_end: bool,
        matched: bool,
    ) -> Option<usize> {
        match self.behaviour {
            Behaviour::Remove => (!matched).then_some(from),
            Behaviour::Isolate => Some(from),
            Behaviour::MergedWithPrevious if !matched => {
                if at_end {
                    return Some(from);
                }
                state.last_begin = Some(from);
                None
            }
            Behaviour::MergedWithPrevious => Some(state.last_begin.unwrap_or(0)),
            Behaviour::MergedWithNext if matched => {
                state.last_begin = Some(from);
                None
            }
            Behaviour::MergedWithNext => Some(state.last_begin.unwrap_or(from)),
        }
    }
}

struct State {
    splits: usize,
    /// Where the piece begins that waits for another one.
    last_begin: Option<usize>,
}

/// **SpecialTokensSplit**: splits strings at special tokens, which what follows leaves as they are. A pattern has a group for what is
/// the token of its match: the spaces around it are dropped.
fn special_tokens_split(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let has_skips = expect_one_of(layer, &[6, 7])? == 7;
    let (rows, _) = expect_rows_of_strings(layer)?;
    if has_skips {
        expect_type(layer, 5, DatumType::Bool, "skips")?;
    }
    let pattern = constant_text(layer, 5 + usize::from(has_skips), "special_tokens_pattern")?;
    let matcher = Matcher::new(&pattern)?;
    let facts = facts(layer, rows, true)?;
    let inputs = 0..5 + usize::from(has_skips);
    wire(layer, "SpecialTokensSplit", inputs, facts, move |inputs| {
        let pieces = each_string(inputs, has_skips, |pieces, strings, number, skip| {
            let begin = strings.begin(number);
            if skip {
                return pieces.push(begin, strings.end(number), true);
            }
            let text = Text::new(strings.get(number));
            let mut from = 0;
            while let Some(found) = matcher.find(text.as_str(), from)? {
                if found.is_empty() {
                    break;
                }
                if from < found.start {
                    pieces.push(
                        begin + text.original(from),
                        begin + text.original(found.start),
                        false,
                    )?;
                }
                let group = matcher.captures(text.as_str(), from)?.and_then(|groups| groups.last());
                let token = group.filter(|group| !group.is_empty()).unwrap_or(found.clone());
                pieces.push(
                    begin + text.original(token.start),
                    begin + text.original(token.end),
                    true,
                )?;
                from = found.end;
            }
            let len = text.as_str().len();
            if from < len {
                pieces.push(begin + text.original(from), begin + text.original(len), false)?;
            }
            Ok(())
        })?;
        pieces.into_tensors(inputs, true)
    })
}
