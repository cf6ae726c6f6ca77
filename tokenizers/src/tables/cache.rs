//! What pieces of texts became before.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard};

use tract_core::internal::*;

/// The tokens of pieces that have come before, up to a number of pieces. Clones of a model share it.
#[derive(Debug)]
pub(crate) struct Cache {
    capacity: usize,
    pieces: Mutex<Pieces>,
}

type Pieces = HashMap<Box<[u8]>, Box<[i32]>, Seed>;

/// Where the hashes of pieces begin: nobody can know it before, so as to write pieces that all have one hash.
#[derive(Debug, Clone)]
struct Seed(u64);

impl Default for Seed {
    fn default() -> Seed {
        Seed(RandomState::new().hash_one(0u8) | 1)
    }
}

impl BuildHasher for Seed {
    type Hasher = PieceHasher;

    fn build_hasher(&self) -> PieceHasher {
        PieceHasher { seed: self.0, hash: self.0 }
    }
}

/// A hash of short strings of bytes: each eight are multiplied by the seed in 128 bits.
struct PieceHasher {
    seed: u64,
    hash: u64,
}

impl PieceHasher {
    fn fold(&mut self, word: u64) {
        let product =
            u128::from(self.hash ^ word) * u128::from(self.seed ^ 0x9e37_79b9_7f4a_7c15u64);
        self.hash = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for PieceHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.fold(u64::from_le_bytes(last));
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// The longest piece that is kept, in bytes: longer ones hardly come again.
const LONGEST: usize = 48;

impl Cache {
    pub fn new(capacity: usize) -> Cache {
        Cache { capacity, pieces: Mutex::default() }
    }

    /// The cache for as long as it is held, or nothing while another thread has it: then all is computed.
    pub fn hold(&self) -> Held<'_> {
        Held { capacity: self.capacity, pieces: self.pieces.try_lock().ok() }
    }
}

pub(crate) struct Held<'a> {
    capacity: usize,
    pieces: Option<MutexGuard<'a, Pieces>>,
}

impl Held<'_> {
    /// Adds the tokens of a piece to the others: those that are known, or those that `tokenize` adds.
    pub fn tokens(
        &mut self,
        piece: &[u8],
        tokens: &mut Vec<i32>,
        tokenize: impl FnOnce(&mut Vec<i32>) -> TractResult<()>,
    ) -> TractResult<()> {
        let Some(pieces) = self.pieces.as_mut().filter(|_| piece.len() <= LONGEST) else {
            return tokenize(tokens);
        };
        if let Some(known) = pieces.get(piece) {
            tokens.extend_from_slice(known);
            return Ok(());
        }
        let before = tokens.len();
        tokenize(tokens)?;
        if pieces.len() < self.capacity {
            pieces.insert(piece.into(), tokens[before..].into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_and_one_that_is_held() {
        let cache = Cache::new(1);
        let mut held = cache.hold();
        let mut tokens = vec![];
        for piece in [b"a", b"a", b"b", b"b"] {
            let one = |tokens: &mut Vec<i32>| {
                tokens.push(tokens.len() as i32);
                Ok(())
            };
            held.tokens(piece, &mut tokens, one).unwrap();
        }
        assert_eq!(tokens, [0, 0, 2, 3]);
        let mut other = cache.hold();
        let seven = |tokens: &mut Vec<i32>| {
            tokens.push(7);
            Ok(())
        };
        other.tokens(b"a", &mut tokens, seven).unwrap();
        assert_eq!(tokens.last(), Some(&7));
    }
}
