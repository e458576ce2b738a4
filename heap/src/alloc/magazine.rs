//! Magazines: free blocks that one thread has to itself.

use super::central::Key;
use super::space::Block;

/// Blocks that a thread fetches at a time.
pub(crate) const REFILL: usize = 32;
/// Blocks above which a magazine gives half of them back.
const FULL: usize = 4 * REFILL;

/// The free blocks of one key.
#[derive(Debug)]
struct Magazine {
    key: Key,
    blocks: Vec<Block>,
}

/// A thread's magazines; the one used last comes first.
#[derive(Debug, Default)]
pub(crate) struct Magazines {
    magazines: Vec<Magazine>,
}

impl Magazines {
    /// The blocks of `key`, the next to be used at the end.
    #[inline]
    pub(crate) fn of(&mut self, key: Key) -> &mut Vec<Block> {
        let index = match self.magazines.iter().position(|magazine| magazine.key == key) {
            Some(index) => index,
            None => {
                self.magazines.push(Magazine { key, blocks: Vec::with_capacity(FULL + 1) });
                self.magazines.len() - 1
            }
        };
        &mut self.magazines[index].blocks
    }

    /// Puts back a block; returns blocks to be given to the others when there are too many.
    #[inline]
    pub(crate) fn put(&mut self, key: Key, block: Block) -> Option<Vec<Block>> {
        let blocks = self.of(key);
        blocks.push(block);
        (blocks.len() > FULL).then(|| blocks.drain(..FULL / 2).collect())
    }

    /// Takes everything.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (Key, Vec<Block>)> + use<> {
        std::mem::take(&mut self.magazines).into_iter().map(|magazine| (magazine.key, magazine.blocks))
    }
}
