//! The superblocks and huge objects that a transaction makes.

use super::allocator::refill_of;
use super::central::{FreeBlocks, Key};
use super::space::{Block, Span};
use hashbrown::HashMap;
use lode_layout::{CHUNK, PoolOffset, SPAN_HEADER, Superblock, WORD};
use std::collections::BTreeMap;

/// A superblock that the transaction makes.
#[derive(Debug)]
pub(super) struct NewSuperblock {
    pub(super) span: Span,
    pub(super) shape: Superblock,
    pub(super) key: Key,
    /// Blocks that the transaction has not taken, except those in `next`.
    pub(super) free: FreeBlocks,
    /// Blocks that the transaction takes next, the first one at the end.
    pub(super) next: Vec<Block>,
    /// Blocks of which the transaction has made objects: a bitmap like the one on the medium.
    pub(super) taken: Vec<u64>,
}

impl NewSuperblock {
    /// Takes a block that the transaction has not taken.
    fn take(&mut self) -> Option<Block> {
        if self.next.is_empty() {
            self.free.take(self.span.start, &self.shape, refill_of(self.key.class), &mut self.next);
            // Ascending addresses: objects that are made together lie together.
            self.next.reverse();
        }
        self.next.pop()
    }

    /// Returns the index of the word of `taken` that has the block's bit.
    fn taken_word(&self, block: Block) -> usize {
        ((block.word.get() - self.span.start.get() - SPAN_HEADER) / WORD) as usize
    }

    fn set_taken(&mut self, block: Block) {
        let word = self.taken_word(block);
        self.taken[word] |= block.mask();
    }

    fn has_taken(&self, block: Block) -> bool {
        self.taken[self.taken_word(block)] & block.mask() != 0
    }
}

/// An object in a span of its own that the transaction makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewHuge {
    pub(super) span: Span,
    pub(super) at: PoolOffset,
    pub(super) size: u64,
    pub(super) type_number: u64,
}

/// The spans that a transaction makes.
#[derive(Debug, Default)]
pub(super) struct NewSpans {
    superblocks: Vec<NewSuperblock>,
    /// Indices of `superblocks`, by the number of each of their chunks.
    by_chunk: HashMap<u64, u32>,
    /// The index of the last superblock of each key, of which there are few. Those before it have no block left.
    last: Vec<(Key, u32)>,
    /// By the offset of the object.
    huge: BTreeMap<PoolOffset, NewHuge>,
}

impl NewSpans {
    /// Returns true if there is none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.superblocks.is_empty() && self.huge.is_empty()
    }

    /// Returns true if there is a huge object.
    #[inline]
    pub(super) fn has_huge(&self) -> bool {
        !self.huge.is_empty()
    }

    /// Returns the superblocks.
    pub(super) fn superblocks(&self) -> &[NewSuperblock] {
        &self.superblocks
    }

    /// Adds a superblock.
    pub(super) fn add_superblock(&mut self, superblock: NewSuperblock) {
        let index = u32::try_from(self.superblocks.len()).expect("superblocks fit in a pool");
        let first = superblock.span.start.get() / CHUNK;
        for chunk in first..first + superblock.span.chunks {
            self.by_chunk.insert(chunk, index);
        }
        match self.last.iter_mut().find(|(key, _)| *key == superblock.key) {
            Some((_, last)) => *last = index,
            None => self.last.push((superblock.key, index)),
        }
        self.superblocks.push(superblock);
    }

    /// Adds a huge object.
    pub(super) fn add_huge(&mut self, huge: NewHuge) {
        self.huge.insert(huge.at, huge);
    }

    /// Takes a block of `key` that the transaction has not taken.
    pub(super) fn take_block(&mut self, key: Key) -> Option<Block> {
        let (_, index) = self.last.iter().find(|(other, _)| *other == key)?;
        let superblock = &mut self.superblocks[*index as usize];
        let block = superblock.take();
        if block.is_none() {
            superblock.next = Vec::new();
        }
        block
    }

    /// Notes that the transaction has made an object of `block`. Returns false if it lies in none of the superblocks.
    #[inline]
    pub(super) fn set_taken(&mut self, block: Block) -> bool {
        let Some(index) = self.by_chunk.get(&(block.at.get() / CHUNK)) else { return false };
        self.superblocks[*index as usize].set_taken(block);
        true
    }

    /// Returns true if the transaction has made an object of `block`, which lies in one of the superblocks.
    pub(super) fn is_taken(&self, block: Block) -> bool {
        let index = self.by_chunk.get(&(block.at.get() / CHUNK));
        index.is_some_and(|index| self.superblocks[*index as usize].has_taken(block))
    }

    /// Returns true if the range lies in one superblock, or in one huge object.
    pub(super) fn hold_range(&self, at: PoolOffset, end: PoolOffset) -> bool {
        let holds = |span: Span| span.start <= at && end <= span.start.plus(span.len());
        let superblock =
            self.by_chunk.get(&(at.get() / CHUNK)).map(|index| &self.superblocks[*index as usize]);
        superblock.is_some_and(|superblock| holds(superblock.span))
            || self.huge.range(..end).next_back().is_some_and(|(_, huge)| holds(huge.span))
    }

    /// Returns the block that begins at `at` in one of the superblocks.
    pub(super) fn block(&self, at: PoolOffset) -> Option<(Block, Key, Superblock)> {
        let index = *self.by_chunk.get(&(at.get() / CHUNK))?;
        let NewSuperblock { span, shape, key, .. } = &self.superblocks[index as usize];
        let into = at.get().checked_sub(span.start.get() + shape.data_off)?;
        let index = into / shape.block_size;
        let exact = index * shape.block_size == into && index < shape.block_count;
        exact.then(|| (Block::of(span.start, shape, index), *key, *shape))
    }

    /// Returns the huge object that begins at `at`.
    pub(super) fn huge(&self, at: PoolOffset) -> Option<NewHuge> {
        self.huge.get(&at).copied()
    }

    /// Takes all superblocks, in the order in which they were added.
    pub(super) fn take_superblocks(&mut self) -> Vec<NewSuperblock> {
        self.by_chunk.clear();
        self.last.clear();
        std::mem::take(&mut self.superblocks)
    }

    /// Returns the spans of all, by address.
    pub(super) fn spans(&self) -> Vec<Span> {
        let superblocks = self.superblocks.iter().map(|superblock| superblock.span);
        let mut spans: Vec<Span> = superblocks.chain(self.huge.values().map(|huge| huge.span)).collect();
        spans.sort_unstable_by_key(|span| span.start);
        spans
    }

    /// Removes all.
    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.is_empty() {
            *self = NewSpans::default();
        }
    }
}
