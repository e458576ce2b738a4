//! Limbo: freed space, until no reader can hold it any more.

use super::central::{BlockOrSpan, Key};
use super::space::Block;
use std::collections::VecDeque;
use std::mem;

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

/// Freed space that all threads share. Large blocks and spans must also wait for the checkpoint, since a record of
/// the log could still be replayed over them.
#[derive(Debug, Default)]
pub(crate) struct SharedLimbo {
    waiting: VecDeque<(u64, u64, BlockOrSpan)>,
}

impl SharedLimbo {
    /// Adds space that the record `sequence` freed in `epoch`.
    pub(crate) fn retire(&mut self, sequence: u64, epoch: u64, place: BlockOrSpan) {
        self.waiting.push_back((sequence, epoch, place));
    }

    /// Takes the space that no reader holds and the checkpoint covers.
    pub(crate) fn take_reclaimable(&mut self, checkpointed: u64, oldest: u64) -> Vec<BlockOrSpan> {
        let reclaimable =
            |(sequence, epoch, _): &(u64, u64, BlockOrSpan)| *sequence <= checkpointed && *epoch < oldest;
        let mut taken = Vec::new();
        self.waiting.retain(|entry| {
            if reclaimable(entry) {
                taken.push(entry.2);
            }
            !reclaimable(entry)
        });
        taken
    }

    /// Returns true if space that no reader holds waits for the checkpoint.
    pub(crate) fn waits_for_checkpoint(&self, checkpointed: u64, oldest: u64) -> bool {
        self.waiting.iter().any(|(sequence, epoch, _)| *sequence > checkpointed && *epoch < oldest)
    }
}
