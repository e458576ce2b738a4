//! Magazines: free blocks that belong to one thread.

use super::central::Key;
use super::space::Block;

/// Number of blocks that a thread fetches at a time.
pub(crate) const REFILL: usize = 32;
/// Number of blocks above which a magazine gives half of them back.
const FULL: usize = 4 * REFILL;

/// The free blocks of one key.
#[derive(Debug)]
struct Magazine {
    key: Key,
    blocks: Vec<Block>,
}

/// A thread's magazines.
#[derive(Debug, Default)]
pub(crate) struct Magazines {
    magazines: Vec<Magazine>,
    /// Index of the magazine that was used last.
    last: usize,
}

impl Magazines {
    /// Returns the blocks of `key`, the next to be used at the end.
    #[inline]
    pub(crate) fn of(&mut self, key: Key) -> &mut Vec<Block> {
        if self.magazines.get(self.last).is_none_or(|magazine| magazine.key != key) {
            self.last = self.find(key);
        }
        &mut self.magazines[self.last].blocks
    }

    fn find(&mut self, key: Key) -> usize {
        let found = self.magazines.iter().position(|magazine| magazine.key == key);
        found.unwrap_or_else(|| {
            self.magazines.push(Magazine { key, blocks: Vec::with_capacity(FULL + 1) });
            self.magazines.len() - 1
        })
    }

    /// Puts back a block. Returns surplus blocks for other threads when there are too many.
    #[inline]
    pub(crate) fn put(&mut self, key: Key, block: Block) -> Option<Vec<Block>> {
        let blocks = self.of(key);
        blocks.push(block);
        (blocks.len() > FULL).then(|| blocks.drain(..FULL / 2).collect())
    }

    /// Takes all blocks.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (Key, Vec<Block>)> + use<> {
        self.last = 0;
        std::mem::take(&mut self.magazines).into_iter().map(|magazine| (magazine.key, magazine.blocks))
    }
}
