//! Limbo: freed space, until no reader can hold it any more.

use super::block_set::WordBlocks;
use super::central::{BlockOrSpan, Key};
use super::space::{Block, Span};
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;

/// Least number of freed blocks for which the limbo is rotated.
const ROTATE_MIN: usize = 32;

/// Small blocks that a thread freed. Their next content goes through the log, so they wait for readers only.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    /// Blocks freed since the last rotation.
    young: Vec<(Key, Block)>,
    /// Blocks freed in `epoch` or before.
    old: Vec<(Key, Block)>,
    epoch: u64,
}

impl Limbo {
    /// Adds a freed block. Returns true when it is time to [`rotate`](Limbo::rotate).
    #[inline]
    pub(crate) fn retire(&mut self, key: Key, block: Block) -> bool {
        self.young.push((key, block));
        self.young.len() >= ROTATE_MIN
    }

    /// Passes the old blocks to `reclaimable` if no reader holds them; `oldest` is the oldest pinned epoch. The young
    /// blocks then become the old ones, retired in the epoch that `advance` ends.
    pub(crate) fn rotate(
        &mut self,
        oldest: u64,
        advance: impl FnOnce() -> u64,
        mut reclaimable: impl FnMut(Key, Block),
    ) {
        if oldest > self.epoch {
            self.epoch = advance();
            for (key, block) in self.old.drain(..) {
                reclaimable(key, block);
            }
            mem::swap(&mut self.old, &mut self.young);
        }
    }

    /// Takes the blocks that were freed since the last rotation.
    pub(crate) fn take_young(&mut self) -> Vec<(Key, Block)> {
        mem::take(&mut self.young)
    }

    /// Takes the old blocks, and the epoch in which or before which they were freed.
    pub(crate) fn take_old(&mut self) -> (u64, Vec<(Key, Block)>) {
        (self.epoch, mem::take(&mut self.old))
    }
}

/// A part of the freed space that all threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    Blocks(WordBlocks),
    Span(Span),
}

impl From<BlockOrSpan> for Retired {
    fn from(place: BlockOrSpan) -> Retired {
        match place {
            BlockOrSpan::Block(key, block) => Retired::Blocks(WordBlocks::of(key, block)),
            BlockOrSpan::Span(span) => Retired::Span(span),
        }
    }
}

/// Freed space that all threads share. Large blocks and spans must also wait for the checkpoint, since a record of
/// the log could still be replayed over them.
///
/// # Cost
/// Space that waits is looked at when it becomes usable, not before.
#[derive(Debug, Default)]
pub(crate) struct SharedLimbo {
    /// Space that a reader may hold, with the number of the record that freed it, by the epoch of the free.
    held: BTreeMap<u64, Vec<(u64, Retired)>>,
    /// Space that no reader holds, by the number of the record that freed it.
    unheld: BTreeMap<u64, Vec<Retired>>,
}

impl SharedLimbo {
    /// Adds space that the record `sequence` freed in `epoch`.
    pub(crate) fn retire(&mut self, sequence: u64, epoch: u64, place: Retired) {
        self.held.entry(epoch).or_default().push((sequence, place));
    }

    /// Adds space that the record `sequence` freed, and that no reader can hold.
    pub(crate) fn retire_unheld(&mut self, sequence: u64, place: Retired) {
        self.unheld.entry(sequence).or_default().push(place);
    }

    /// Takes the space that no reader holds and the checkpoint covers.
    pub(crate) fn take_reclaimable(&mut self, checkpointed: u64, oldest: u64) -> Vec<Retired> {
        self.settle(oldest);
        let waiting = self.unheld.split_off(&(checkpointed + 1));
        let reclaimable = mem::replace(&mut self.unheld, waiting);
        reclaimable.into_values().flatten().collect()
    }

    /// Returns true if space that no reader holds waits for the checkpoint.
    pub(crate) fn waits_for_checkpoint(&mut self, checkpointed: u64, oldest: u64) -> bool {
        self.settle(oldest);
        self.unheld.last_key_value().is_some_and(|(sequence, _)| *sequence > checkpointed)
    }

    /// Returns the bytes that were freed in `epochs` and wait for a reader.
    pub(crate) fn held_in(&self, epochs: Range<u64>) -> u64 {
        if epochs.is_empty() {
            return 0;
        }
        let held = self.held.range(epochs).flat_map(|(_, places)| places);
        held.map(|(_, place)| match place {
            Retired::Blocks(blocks) => blocks.blocks().count() as u64 * blocks.key.class.block_size(),
            Retired::Span(span) => span.len(),
        })
        .sum()
    }

    /// Moves the space that was freed before the epoch `oldest`, so that no reader holds it.
    fn settle(&mut self, oldest: u64) {
        while let Some(epoch) = self.held.first_entry().filter(|epoch| *epoch.key() < oldest) {
            for (sequence, place) in epoch.remove() {
                self.retire_unheld(sequence, place);
            }
        }
    }
}
