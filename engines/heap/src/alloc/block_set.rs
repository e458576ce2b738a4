//! Sets of blocks.

use super::central::Key;
use super::space::Block;
use lode_layout::PoolOffset;
use std::collections::BTreeMap;

/// Maximum number of blocks that are looked at one by one. More are looked up by their bitmap word.
const LIST_MAX: usize = 16;

/// Blocks of one bitmap word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordBlocks {
    pub(crate) key: Key,
    /// Offset of the bitmap word.
    word: PoolOffset,
    /// Offset of the block whose bit is number 0.
    first: PoolOffset,
    /// The bits of the blocks.
    mask: u64,
}

impl WordBlocks {
    /// Returns the set that has only `block`.
    pub(crate) fn of(key: Key, block: Block) -> WordBlocks {
        let before = block.bit * key.class.block_size();
        let first = PoolOffset::new(block.at.get() - before);
        WordBlocks { key, word: block.word, first, mask: block.mask() }
    }

    /// Returns true if the range lies in one of the blocks. It does not begin before the block of bit 0.
    fn hold(self, at: PoolOffset, end: PoolOffset) -> bool {
        let size = self.key.class.block_size();
        let bit = (at.get() - self.first.get()) / size;
        bit < 64 && self.mask >> bit & 1 != 0 && end <= self.first.plus((bit + 1) * size)
    }

    /// Returns the blocks, by address.
    pub(crate) fn blocks(self) -> impl Iterator<Item = Block> {
        let mut rest = self.mask;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            let at = self.first.plus(u64::from(bit) * self.key.class.block_size());
            Some(Block { at, word: self.word, bit: u64::from(bit) })
        })
    }
}

/// The blocks that a transaction has taken, or those that it has freed.
///
/// # Cost
/// Constant time a question. Many blocks take a few bytes each, if they are neighbours.
#[derive(Debug, Default)]
pub(crate) struct BlockSet {
    /// All blocks, if they are few.
    list: Vec<(Key, Block)>,
    /// All blocks by their bitmap word, if they are many.
    words: BTreeMap<PoolOffset, WordBlocks>,
}

impl BlockSet {
    /// Returns true if the set has no block.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.words.is_empty()
    }

    /// Returns true if the set has `block`.
    pub(super) fn contains(&self, block: Block) -> bool {
        if self.words.is_empty() {
            return self.list.iter().any(|(_, other)| *other == block);
        }
        self.words.get(&block.word).is_some_and(|word| word.mask & block.mask() != 0)
    }

    /// Returns true if the range lies in one of the blocks.
    pub(super) fn holds_range(&self, at: PoolOffset, end: PoolOffset) -> bool {
        if self.words.is_empty() {
            let holds =
                |(key, block): &(Key, Block)| block.at <= at && end <= block.at.plus(key.class.block_size());
            return self.list.iter().any(holds);
        }
        // A bitmap word lies before its blocks, and after those of earlier words.
        let before = self.words.range(..at).rev().map(|(_, blocks)| blocks);
        before.into_iter().find(|blocks| blocks.first <= at).is_some_and(|blocks| blocks.hold(at, end))
    }

    /// Returns the block that begins at `at`.
    pub(super) fn starting_at(&self, at: PoolOffset) -> Option<(Key, Block)> {
        if self.words.is_empty() {
            return self.list.iter().find(|(_, block)| block.at == at).copied();
        }
        // As above.
        let (_, blocks) = self.words.range(..at).rev().find(|(_, blocks)| blocks.first <= at)?;
        blocks.blocks().find(|block| block.at == at).map(|block| (blocks.key, block))
    }

    /// Adds a block.
    #[inline]
    pub(super) fn insert(&mut self, key: Key, block: Block) {
        if self.list.len() < LIST_MAX && self.words.is_empty() {
            self.list.push((key, block));
        } else {
            self.insert_by_word(key, block);
        }
    }

    #[cold]
    fn insert_by_word(&mut self, key: Key, block: Block) {
        for (key, block) in self.list.drain(..).chain([(key, block)]) {
            let blocks = self.words.entry(block.word).or_insert(WordBlocks::of(key, block));
            blocks.mask |= block.mask();
        }
    }

    /// Takes the blocks of a small set, in the order in which they were added.
    #[inline]
    pub(super) fn take_list(&mut self) -> impl Iterator<Item = (Key, Block)> {
        self.list.drain(..)
    }

    /// Takes the blocks of a large set, by address.
    pub(super) fn take_words(&mut self) -> impl Iterator<Item = WordBlocks> + use<> {
        std::mem::take(&mut self.words).into_values()
    }

    /// Removes all blocks.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.list.clear();
        if !self.words.is_empty() {
            self.words = BTreeMap::new();
        }
    }
}
