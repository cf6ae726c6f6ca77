//! Tokens by their bytes, for the longest one at a place.

use tract_core::internal::*;

/// A trie. The nodes are in the order of their levels, so that the children of a node are side by side.
#[derive(Debug)]
pub(crate) struct Trie {
    /// For each node, its first child. The last number is one of no node.
    first_child: Vec<u32>,
    /// For each node, the byte that leads to it.
    labels: Vec<u8>,
    /// For each node, its token.
    values: Vec<i32>,
    /// The child of the root for each byte, or 0.
    roots: Box<[u32; 256]>,
}

/// No token ends here.
const NONE: i32 = -1;

impl Trie {
    /// A trie of tokens and their numbers. A token that comes twice has the last number. The number -1 is that of no token.
    pub fn new<'a>(tokens: impl IntoIterator<Item = (&'a [u8], i32)>) -> TractResult<Trie> {
        let mut tokens: Vec<(&[u8], i32)> = tokens.into_iter().collect();
        // This keeps the order of equal ones.
        tokens.sort_by_key(|(token, _)| *token);
        let mut trie = Trie {
            first_child: vec![],
            labels: vec![0],
            values: vec![NONE],
            roots: Box::new([0; 256]),
        };
        // The tokens that begin with the bytes of each node of a level, and the number of these bytes.
        let mut level: Vec<std::ops::Range<usize>> = std::iter::once(0..tokens.len()).collect();
        let mut depth = 0;
        while !level.is_empty() {
            let mut next = vec![];
            for range in level {
                let first =
                    u32::try_from(trie.labels.len()).context("a vocabulary has too many bytes")?;
                trie.first_child.push(first);
                let mut at = range.start;
                // The tokens that end here come first.
                while at < range.end && tokens[at].0.len() == depth {
                    at += 1;
                }
                while at < range.end {
                    let label = tokens[at].0[depth];
                    let same =
                        tokens[at..range.end].partition_point(|(token, _)| token[depth] == label);
                    let child = at..at + same;
                    let ending = tokens[child.clone()]
                        .iter()
                        .take_while(|(token, _)| token.len() == depth + 1);
                    trie.labels.push(label);
                    trie.values.push(ending.last().map_or(NONE, |(_, value)| *value));
                    at = child.end;
                    next.push(child);
                }
            }
            level = next;
            depth += 1;
        }
        trie.first_child.push(trie.labels.len() as u32);
        for child in trie.children(0) {
            trie.roots[trie.labels[child] as usize] = child as u32;
        }
        trie.first_child.shrink_to_fit();
        trie.labels.shrink_to_fit();
        trie.values.shrink_to_fit();
        Ok(trie)
    }

    fn children(&self, node: usize) -> std::ops::Range<usize> {
        self.first_child[node] as usize..self.first_child[node + 1] as usize
    }

    fn child(&self, node: usize, byte: u8) -> Option<usize> {
        let children = self.children(node);
        let labels = &self.labels[children.clone()];
        let place = match labels.len() {
            0..=8 => labels.iter().position(|label| *label == byte)?,
            _ => labels.binary_search(&byte).ok()?,
        };
        Some(children.start + place)
    }

    /// Calls a function with the length and the number of each token that the text begins with, the shortest first.
    #[inline]
    pub fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, i32)) {
        let Some((first, rest)) = text.split_first() else { return };
        let mut node = self.roots[*first as usize] as usize;
        if node == 0 {
            return;
        }
        let mut len = 1;
        let mut rest = rest.iter();
        loop {
            let value = self.values[node];
            if value != NONE {
                found(len, value);
            }
            let Some(byte) = rest.next() else { return };
            let Some(child) = self.child(node, *byte) else { return };
            node = child;
            len += 1;
        }
    }

    /// The length and the number of the longest token that the text begins with.
    pub fn longest(&self, text: &[u8]) -> Option<(usize, i32)> {
        let mut longest = None;
        self.prefixes(text, |len, value| longest = Some((len, value)));
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest() {
        let tokens: [(&[u8], i32); 6] =
            [(b"ab", 1), (b"a", 2), (b"abcd", 3), (b"", 4), (b"ab", 5), (b"\xff", 6)];
        let trie = Trie::new(tokens).unwrap();
        assert_eq!(trie.longest(b"abc"), Some((2, 5)));
        assert_eq!(trie.longest(b"abcde"), Some((4, 3)));
        assert_eq!(trie.longest(b"aab"), Some((1, 2)));
        assert_eq!(trie.longest(b"\xff\xff"), Some((1, 6)));
        assert_eq!(trie.longest(b"ba"), None);
        assert_eq!(trie.longest(b""), None);
        let mut all = vec![];
        trie.prefixes(b"abcd", |len, value| all.push((len, value)));
        assert_eq!(all, [(1, 2), (2, 5), (4, 3)]);
        assert_eq!(Trie::new([]).unwrap().longest(b"a"), None);
    }

    proptest::proptest! {
        #[test]
        fn as_a_search_through_all(
            tokens in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..6), 0..40),
            text in proptest::collection::vec(0u8..3, 0..10),
        ) {
            let trie = Trie::new(tokens.iter().map(|it| &**it).zip(0..)).unwrap();
            let expected = tokens
                .iter()
                .zip(0..)
                .filter(|(token, _)| !token.is_empty() && text.starts_with(token))
                .max_by_key(|(token, _)| token.len())
                .map(|(token, value)| (token.len(), value));
            proptest::prop_assert_eq!(trie.longest(&text), expected);
        }
    }
}
