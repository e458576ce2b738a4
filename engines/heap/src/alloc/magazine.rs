//! Magazines: free blocks that belong to one thread.
//!
//! The block that was put back last is used first: its lines are in the CPU's cache. But a superblock with one block in
//! use serves its class alone. So a magazine that is full keeps the blocks of the lowest addresses and hands them out
//! before all others: they are of few superblocks, and the others can become empty.

use super::central::Key;
use super::space::Block;
use std::cmp::Reverse;
use std::mem;

/// Number of blocks that a thread fetches at a time.
pub(crate) const REFILL: usize = 32;
/// Number of blocks above which a magazine gives half of them back.
const MAGAZINE_MAX: usize = 4 * REFILL;

/// The free blocks of one key.
#[derive(Debug)]
struct Magazine {
    key: Key,
    /// Blocks that were kept when the magazine was full, to be used first.
    lowest: Vec<Block>,
    /// The other blocks, the next one at the end.
    blocks: Vec<Block>,
}

impl Magazine {
    /// Takes half of the blocks: those of the highest addresses.
    #[cold]
    fn take_surplus(&mut self) -> Vec<Block> {
        self.lowest.append(&mut self.blocks);
        let half = self.lowest.len() / 2;
        self.lowest.select_nth_unstable_by_key(half, |block| Reverse(block.at));
        self.lowest.drain(..half).collect()
    }
}

/// A thread's magazines.
#[derive(Debug, Default)]
pub(crate) struct Magazines {
    magazines: Vec<Magazine>,
    /// Index of the magazine that was used last.
    last: usize,
}

impl Magazines {
    /// Takes a block of `key`.
    #[inline]
    pub(crate) fn pop(&mut self, key: Key) -> Option<Block> {
        let Magazine { lowest, blocks, .. } = self.of(key);
        lowest.pop().or_else(|| blocks.pop())
    }

    /// Returns the list to which blocks of `key` can be added, the next one at the end.
    pub(crate) fn blocks_of(&mut self, key: Key) -> &mut Vec<Block> {
        &mut self.of(key).blocks
    }

    #[inline]
    fn of(&mut self, key: Key) -> &mut Magazine {
        if self.magazines.get(self.last).is_none_or(|magazine| magazine.key != key) {
            self.last = self.find(key);
        }
        &mut self.magazines[self.last]
    }

    fn find(&mut self, key: Key) -> usize {
        let found = self.magazines.iter().position(|magazine| magazine.key == key);
        found.unwrap_or_else(|| {
            let blocks = Vec::with_capacity(MAGAZINE_MAX + 1);
            self.magazines.push(Magazine { key, lowest: Vec::new(), blocks });
            self.magazines.len() - 1
        })
    }

    /// Puts back a block. Returns surplus blocks for other threads when there are too many.
    #[inline]
    pub(crate) fn put(&mut self, key: Key, block: Block) -> Option<Vec<Block>> {
        let magazine = self.of(key);
        magazine.blocks.push(block);
        let count = magazine.lowest.len() + magazine.blocks.len();
        (count > MAGAZINE_MAX).then(|| magazine.take_surplus())
    }

    /// Takes all blocks.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (Key, Vec<Block>)> + use<> {
        self.last = 0;
        mem::take(&mut self.magazines).into_iter().map(|magazine| {
            let Magazine { key, lowest, mut blocks } = magazine;
            blocks.extend(lowest);
            (key, blocks)
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::alloc::class::Class;
    use lode_layout::PoolOffset;

    #[test]
    fn full_magazine_keeps_the_lowest_addresses_and_hands_them_out_first() {
        let key = Key { class: Class::of(64, 8).unwrap(), type_number: 0 };
        let block =
            |number: u64| Block { at: PoolOffset::new(number * 64), word: PoolOffset::new(0), bit: 0 };
        let mut magazines = Magazines::default();
        let count = MAGAZINE_MAX as u64 + 1;
        let mut surplus = Vec::new();
        // A step that has no divisor in common with the count, so the order is no address order.
        for number in (0..count).map(|number| number * 50 % count) {
            assert!(surplus.is_empty(), "the magazine was full before");
            surplus = magazines.put(key, block(number)).unwrap_or_default();
        }
        assert_eq!(surplus.len(), MAGAZINE_MAX / 2);
        assert!(surplus.iter().all(|block| block.at.get() / 64 > count / 2));
        assert!(magazines.put(key, block(count)).is_none());
        let popped: Vec<u64> =
            std::iter::from_fn(|| magazines.pop(key)).map(|block| block.at.get() / 64).collect();
        assert_eq!(
            (popped.len(), popped.last()),
            (MAGAZINE_MAX / 2 + 2, Some(&count)),
            "what came last is used last"
        );
    }
}
