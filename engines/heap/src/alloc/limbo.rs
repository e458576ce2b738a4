//! Limbo: freed space, until no reader can hold it any more.

use super::central::{Key, Place};
use super::space::Block;
use std::collections::VecDeque;
use std::mem;

/// Number of freed blocks from which a look at the readers is worthwhile.
const GENERATION: usize = 32;

/// Small blocks that a thread freed. Their next content goes through the log, so they wait for readers only.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    /// Blocks freed since the last look at the readers.
    young: Vec<(Key, Block)>,
    /// Blocks freed in `epoch` or before.
    old: Vec<(Key, Block)>,
    epoch: u64,
}

impl Limbo {
    /// Adds a freed block. Returns true when it is time to [`turn`](Limbo::turn).
    #[inline]
    pub(crate) fn add(&mut self, key: Key, block: Block) -> bool {
        self.young.push((key, block));
        self.young.len() >= GENERATION
    }

    /// Hands the old blocks to `ripe` if no reader holds them; `oldest` is the oldest pinned epoch. The young ones
    /// become the old ones then, as freed in the epoch that `advance` ends.
    pub(crate) fn turn(
        &mut self,
        oldest: u64,
        advance: impl FnOnce() -> u64,
        mut ripe: impl FnMut(Key, Block),
    ) {
        if oldest > self.epoch {
            self.epoch = advance();
            for (key, block) in self.old.drain(..) {
                ripe(key, block);
            }
            mem::swap(&mut self.old, &mut self.young);
        }
    }

    /// Takes the blocks that were freed since the last turn.
    pub(crate) fn take_young(&mut self) -> Vec<(Key, Block)> {
        mem::take(&mut self.young)
    }

    /// Takes the old blocks, and the epoch in which or before which they were freed.
    pub(crate) fn take_old(&mut self) -> (u64, Vec<(Key, Block)>) {
        (self.epoch, mem::take(&mut self.old))
    }
}

/// Freed space that all threads share. Large blocks and spans must also wait for the checkpoint, since a record of
/// the log could still be replayed over them.
#[derive(Debug, Default)]
pub(crate) struct SharedLimbo {
    waiting: VecDeque<(u64, u64, Place)>,
}

impl SharedLimbo {
    /// Adds space that the record `sequence` freed in `epoch`.
    pub(crate) fn add(&mut self, sequence: u64, epoch: u64, place: Place) {
        self.waiting.push_back((sequence, epoch, place));
    }

    /// Takes the space that no reader holds and the checkpoint covers.
    pub(crate) fn take_ripe(&mut self, checkpointed: u64, oldest: u64) -> Vec<Place> {
        let ripe = |(sequence, epoch, _): &(u64, u64, Place)| *sequence <= checkpointed && *epoch < oldest;
        let mut taken = Vec::new();
        self.waiting.retain(|entry| {
            if ripe(entry) {
                taken.push(entry.2);
            }
            !ripe(entry)
        });
        taken
    }

    /// Returns true if space that no reader holds waits for the checkpoint.
    pub(crate) fn waits_for_checkpoint(&self, checkpointed: u64, oldest: u64) -> bool {
        self.waiting.iter().any(|(sequence, epoch, _)| *sequence > checkpointed && *epoch < oldest)
    }
}
