//! Unigram language models.

use tract_openvino_ir::internal::*;

use super::OPSET;
use super::tokens::{row_facts, tokens_of_rows};
use crate::layer::{ConstantStrings, expect_one_of, expect_rows_of_strings, wire};
use crate::strings::slice;
use crate::tables::{Cache, Trie};

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("UnigramTokenizer", OPSET, unigram_tokenizer);
}

/// The number of pieces that are kept with their tokens.
const PIECES: usize = 10_000;

/// **UnigramTokenizer**: the tokens of strings whose scores have the largest sum.
///
/// Inputs are rows of strings, the vocabulary, and the scores. Several characters in a row that are in no token are one unknown token.
fn unigram_tokenizer(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[9])?;
    let (rows, _) = expect_rows_of_strings(layer)?;
    let vocabulary = ConstantStrings::new(layer, 5, "vocabulary")?;
    let scores = layer.constant(8, "scores")?;
    let scores = scores.cast_to::<f32>()?;
    let scores = slice::<f32>(&scores, "the scores")?;
    let unknown: i64 = layer.attribute_or("unk_token_id", 0)?;
    let unigram = Unigram::new(&vocabulary, scores, i32::try_from(unknown)?)?;
    let cache = Cache::new(PIECES);
    let facts = row_facts(layer, rows)?;
    wire(layer, "UnigramTokenizer", 0..5, facts, move |inputs| {
        let mut best = vec![];
        let mut cache = cache.hold();
        tokens_of_rows(inputs, |string, tokens| {
            cache.tokens(string, tokens, |tokens| {
                unigram.tokens(string, tokens, &mut best);
                Ok(())
            })
        })
    })
}

struct Unigram {
    trie: Trie,
    scores: Vec<f32>,
    /// How many bytes each token has.
    lengths: Vec<u32>,
    unknown: i32,
    unknown_score: f32,
}

/// The best way to a place. A long string has one for each byte: 8 bytes each, not 12, so that a megabyte stays nearer to the processor.
#[derive(Clone, Copy)]
struct Best {
    /// The token that ends there. If it is an unknown character, the number of its bytes, negated. Or [`NOWHERE`].
    token: i32,
    score: f32,
}

const NOWHERE: i32 = i32::MIN;

impl Unigram {
    fn new(vocabulary: &ConstantStrings, scores: &[f32], unknown: i32) -> TractResult<Unigram> {
        let tokens = vocabulary.view();
        ensure!(
            tokens.len() == scores.len(),
            "the vocabulary has {} tokens, but {} scores",
            tokens.len(),
            scores.len()
        );
        // What is no number compares with none.
        let least = scores
            .iter()
            .copied()
            .fold(f32::MAX, |least, score| if score < least { score } else { least });
        // Of tokens that come twice, the first counts.
        let trie = Trie::new(tokens.iter().zip(0..).collect::<Vec<_>>().into_iter().rev())?;
        let lengths = tokens.iter().map(|token| token.len() as u32).collect();
        Ok(Unigram { trie, scores: scores.to_vec(), lengths, unknown, unknown_score: least - 10. })
    }

    /// Adds the tokens of a string to others.
    fn tokens(&self, string: &[u8], tokens: &mut Vec<i32>, best: &mut Vec<Best>) {
        best.clear();
        best.resize(string.len() + 1, Best { token: NOWHERE, score: 0. });
        let mut begin = 0;
        while begin < string.len() {
            let so_far = best[begin].score;
            let character = character_len(string[begin]).min(string.len() - begin);
            let mut has_character = false;
            let reach = |best: &mut Vec<Best>, len: usize, token: i32, score: f32| {
                let target = &mut best[begin + len];
                let score = score + so_far;
                if target.token == NOWHERE || score > target.score {
                    *target = Best { token, score };
                }
            };
            self.trie.prefixes(&string[begin..], |len, token| {
                reach(best, len, token, self.scores[token as usize]);
                has_character |= len == character;
            });
            if !has_character {
                reach(best, character, -(character as i32), self.unknown_score);
            }
            begin += character;
        }
        let first = tokens.len();
        let mut end = string.len();
        let mut last = None;
        while end > 0 {
            // Each character is reached from the one before it.
            let (token, length) = match best[end].token {
                NOWHERE => break,
                token @ 0.. => (token, self.lengths[token as usize]),
                character => (self.unknown, character.unsigned_abs()),
            };
            end -= length as usize;
            if token != self.unknown || last != Some(token) {
                tokens.push(token);
            }
            last = Some(token);
        }
        tokens[first..].reverse();
    }
}

/// The length of a character of UTF-8, by its first byte.
fn character_len(first: u8) -> usize {
    match first >> 4 {
        0..=11 => 1,
        12 | 13 => 2,
        14 => 3,
        _ => 4,
    }
}
