//! The merges of byte-pair encoding, by the pair of tokens.

/// A table of pairs of tokens with open addresses: it is looked up for each pair of neighbours.
#[derive(Debug)]
pub(crate) struct Pairs {
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    left: i32,
    right: i32,
    /// The place of the merge in the list, or [`FREE`].
    rank: u32,
    merged: i32,
}

/// A slot without a pair.
const FREE: u32 = u32::MAX;

impl Pairs {
    /// An empty table with room for so many pairs.
    pub fn with_capacity(pairs: usize) -> Pairs {
        let slots = (pairs + pairs / 2 + 1).next_power_of_two();
        Pairs { slots: vec![Slot { left: 0, right: 0, rank: FREE, merged: 0 }; slots] }
    }

    fn slot(&self, left: i32, right: i32) -> usize {
        let key = (left as u32 as u64) << 32 | right as u32 as u64;
        let mut at =
            (key.wrapping_mul(0x9e37_79b9_7f4a_7c15u64) >> 32) as usize & (self.slots.len() - 1);
        loop {
            let slot = &self.slots[at];
            if slot.rank == FREE || (slot.left, slot.right) == (left, right) {
                return at;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds a pair. A pair that is there gets the new rank.
    pub fn insert(&mut self, left: i32, right: i32, rank: u32, merged: i32) {
        let at = self.slot(left, right);
        self.slots[at] = Slot { left, right, rank, merged };
    }

    /// The rank of a pair, and the token that it becomes.
    pub fn get(&self, left: i32, right: i32) -> Option<(u32, i32)> {
        let slot = &self.slots[self.slot(left, right)];
        (slot.rank != FREE).then_some((slot.rank, slot.merged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs() {
        let mut pairs = Pairs::with_capacity(100);
        for number in 0..100 {
            pairs.insert(number, number * 7 % 100, number as u32, number + 1);
        }
        pairs.insert(3, 21, 1000, 5);
        assert_eq!(pairs.get(3, 21), Some((1000, 5)));
        assert_eq!(pairs.get(4, 28), Some((4, 5)));
        assert_eq!(pairs.get(28, 4), None);
        assert_eq!(Pairs::with_capacity(0).get(0, 0), None);
    }
}
