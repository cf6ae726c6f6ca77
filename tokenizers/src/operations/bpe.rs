//! Byte-pair encoding.

use std::collections::HashMap;

use tract_openvino_ir::internal::*;

use super::OPSET;
use super::tokens::{row_facts, tokens_of_rows};
use crate::layer::{ConstantStrings, expect_one_of, expect_rows_of_strings, wire};
use crate::tables::{Cache, Pairs, Trie};

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("BPETokenizer", OPSET, bpe_tokenizer);
}

/// The most pieces that are kept with their tokens, whatever a model asks for.
const MOST_PIECES: usize = 1 << 20;

/// **BPETokenizer**: the tokens of strings by byte-pair encoding.
///
/// Inputs are rows of strings; the vocabulary; the merges, as strings with a space (11 or 15 inputs) or as left and right parts (14 or
/// 18 inputs); and added tokens with their numbers (15 or 18 inputs).
fn bpe_tokenizer(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let count = expect_one_of(layer, &[11, 14, 15, 18])?;
    let (rows, _) = expect_rows_of_strings(layer)?;
    let vocabulary = ConstantStrings::new(layer, 5, "vocabulary")?;
    let mut numbers: HashMap<&[u8], i32> = vocabulary.view().iter().zip(0..).collect();
    let added = match count {
        15 | 18 => Some(ConstantStrings::new(layer, count - 4, "added tokens")?),
        _ => None,
    };
    if let Some(added) = &added {
        let ids = layer.integers(count - 1, "numbers of added tokens")?;
        let tokens = added.view();
        ensure!(
            ids.len() == tokens.len(),
            "the number of added tokens is {}, but there are {} numbers for them",
            tokens.len(),
            ids.len()
        );
        for (token, id) in tokens.iter().zip(ids) {
            numbers.entry(token).or_insert(i32::try_from(id)?);
        }
    }
    let unknown: String = layer.attribute_or("unk_token", String::new())?;
    let unknown = numbers.get(unknown.as_bytes()).copied();
    let left = ConstantStrings::new(layer, 8, "merges")?;
    let right = match count {
        14 | 18 => Some(ConstantStrings::new(layer, 11, "right parts of merges")?),
        _ => None,
    };
    let merges = merges(&left, right.as_ref(), &mut numbers)?;
    let mut bytes = Box::new([None; 256]);
    if layer.attribute_or("byte_fallback", false)? {
        for (byte, token) in bytes.iter_mut().enumerate() {
            *token = numbers.get(format!("<0x{byte:02X}>").as_bytes()).copied();
        }
    }
    let end: String = layer.attribute_or("end_suffix", String::new())?;
    let trie = Trie::new(numbers)?;
    let bpe = Bpe { trie, merges, unknown, bytes, end: end.into_bytes() };
    let capacity: i64 = layer.attribute_or("cache_capacity", 20_000)?;
    let cache = Cache::new(usize::try_from(capacity).unwrap_or(0).min(MOST_PIECES));
    let facts = row_facts(layer, rows)?;
    wire(layer, "BPETokenizer", 0..5, facts, move |inputs| {
        let mut cache = cache.hold();
        let mut scratch = Scratch::default();
        tokens_of_rows(inputs, |piece, tokens| {
            cache.tokens(piece, tokens, |tokens| bpe.tokens(piece, tokens, &mut scratch))
        })
    })
}

/// The table of merges. What is merged of other tokens is taken out of the vocabulary: the tokens that a piece begins with are the others.
fn merges(
    left: &ConstantStrings,
    right: Option<&ConstantStrings>,
    numbers: &mut HashMap<&[u8], i32>,
) -> TractResult<Pairs> {
    let (left, right) = (left.view(), right.map(ConstantStrings::view));
    ensure!(
        right.is_none_or(|right| right.len() == left.len()),
        "the merges have {} left parts, but {} right ones",
        left.len(),
        right.map_or(0, |right| right.len())
    );
    let mut pairs = Pairs::with_capacity(left.len());
    let mut merged = vec![];
    let mut ends = vec![0];
    for (rank, text) in left.iter().enumerate() {
        let (left, right) = match right {
            Some(right) => (text, right.get(rank)),
            None => {
                let space = text.iter().position(|byte| *byte == b' ');
                // Without a space, OpenVINO takes the whole string for both parts.
                space.map_or((text, text), |space| (&text[..space], &text[space + 1..]))
            }
        };
        let begin = merged.len();
        merged.extend_from_slice(left);
        merged.extend_from_slice(right);
        let number = |token: &[u8]| {
            let number = numbers.get(token).copied();
            number.with_context(|| {
                let token = String::from_utf8_lossy(token);
                format!("merge {rank} has the token {token:?}, which is not in the vocabulary")
            })
        };
        let whole = number(&merged[begin..])?;
        pairs.insert(number(left)?, number(right)?, u32::try_from(rank)?, whole);
        ends.push(merged.len());
    }
    for range in ends.windows(2) {
        numbers.remove(&merged[range[0]..range[1]]);
    }
    Ok(pairs)
}

struct Bpe {
    /// What pieces are first cut into.
    trie: Trie,
    merges: Pairs,
    /// The token for what is in none.
    unknown: Option<i32>,
    /// The tokens for bytes that are in none.
    bytes: Box<[Option<i32>; 256]>,
    /// What is added to each piece.
    end: Vec<u8>,
}

/// A token of a piece, in a list in both directions.
#[derive(Clone, Copy)]
struct Symbol {
    token: i32,
    previous: u32,
    /// The next one, or [`NONE`], or [`GONE`] if this was merged with the one before.
    next: u32,
}

/// No symbol.
const NONE: u32 = u32::MAX;

const GONE: u32 = NONE - 1;

/// Two neighbours that could be merged when they were found.
#[derive(Clone, Copy)]
struct Candidate {
    rank: u32,
    /// The number of the step that found it: of equal ranks, what was found earlier is merged first.
    step: u32,
    left: u32,
    right: u32,
}

impl Candidate {
    fn is_before(&self, other: &Candidate) -> bool {
        (self.rank, self.step) < (other.rank, other.step)
    }
}

/// What is needed while a piece is tokenized, kept for the next one.
#[derive(Default)]
struct Scratch {
    piece: Vec<u8>,
    symbols: Vec<Symbol>,
    candidates: Heap,
}

/// A heap of candidates. Of those that are equal in order, it gives that one first which OpenVINO's does: the steps are those of
/// `std::priority_queue` in libstdc++.
#[derive(Default)]
struct Heap(Vec<Candidate>);

impl Heap {
    fn push(&mut self, candidate: Candidate) {
        self.0.push(candidate);
        self.rise(self.0.len() - 1, candidate);
    }

    fn rise(&mut self, mut at: usize, candidate: Candidate) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !candidate.is_before(&self.0[parent]) {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = candidate;
    }

    fn pop(&mut self) -> Option<Candidate> {
        let last = self.0.pop()?;
        let Some(first) = self.0.first().copied() else { return Some(last) };
        // The gap goes down to a leaf, and the last one up from there.
        let len = self.0.len();
        let mut at = 0;
        while 2 * at + 1 < len {
            let mut child = 2 * at + 2;
            if child == len || self.0[child - 1].is_before(&self.0[child]) {
                child -= 1;
            }
            self.0[at] = self.0[child];
            at = child;
        }
        self.rise(at, last);
        Some(first)
    }
}

impl Bpe {
    /// Adds the tokens of a piece to others.
    fn tokens(
        &self,
        piece: &[u8],
        tokens: &mut Vec<i32>,
        scratch: &mut Scratch,
    ) -> TractResult<()> {
        let Scratch { piece: with_end, symbols, candidates } = scratch;
        let piece = match &*self.end {
            [] => piece,
            end => {
                with_end.clear();
                with_end.extend_from_slice(piece);
                with_end.extend_from_slice(end);
                with_end
            }
        };
        ensure!(
            piece.len() < GONE as usize,
            "a piece has {} bytes, but must have less than {GONE}",
            piece.len()
        );
        self.cut(piece, symbols);
        candidates.0.clear();
        let mut step = 0;
        for right in 1..symbols.len() as u32 {
            self.consider(symbols, candidates, right - 1, right, step);
            step += 1;
        }
        while let Some(Candidate { rank, left, right, .. }) = candidates.pop() {
            let (a, b) = (symbols[left as usize], symbols[right as usize]);
            // One of them may have become another token meanwhile.
            let Some((_, merged)) = self
                .merges
                .get(a.token, b.token)
                .filter(|(now, _)| *now == rank && a.next == right && b.next != GONE)
            else {
                continue;
            };
            symbols[left as usize] = Symbol { token: merged, next: b.next, ..a };
            symbols[right as usize].next = GONE;
            step += 1;
            if a.previous != NONE {
                self.consider(symbols, candidates, a.previous, left, step);
            }
            if b.next != NONE {
                symbols[b.next as usize].previous = left;
                self.consider(symbols, candidates, left, b.next, step);
            }
        }
        tokens
            .extend(symbols.iter().filter(|symbol| symbol.next != GONE).map(|symbol| symbol.token));
        Ok(())
    }

    /// Adds two neighbours to the candidates, if there is a merge of them.
    fn consider(
        &self,
        symbols: &[Symbol],
        candidates: &mut Heap,
        left: u32,
        right: u32,
        step: u32,
    ) {
        let tokens = (symbols[left as usize].token, symbols[right as usize].token);
        if let Some((rank, _)) = self.merges.get(tokens.0, tokens.1) {
            candidates.push(Candidate { rank, step, left, right });
        }
    }

    /// Cuts a piece into tokens that no merge makes: the longest at each place. What is in none of them becomes the token of its byte, or
    /// the unknown one, or nothing.
    fn cut(&self, piece: &[u8], symbols: &mut Vec<Symbol>) {
        symbols.clear();
        let mut at = 0;
        while at < piece.len() {
            let token = match self.trie.longest(&piece[at..]) {
                Some((len, token)) => {
                    at += len;
                    Some(token)
                }
                None => {
                    at += 1;
                    self.bytes[piece[at - 1] as usize].or(self.unknown)
                }
            };
            let Some(token) = token else { continue };
            let new = symbols.len() as u32;
            if let Some(last) = symbols.last_mut() {
                last.next = new;
            }
            symbols.push(Symbol { token, previous: new.wrapping_sub(1), next: NONE });
        }
    }
}
