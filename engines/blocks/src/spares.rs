//! Data blocks that no map word names.

use crate::bugs;
use lode_pmem::sync::SpinMutex;
use lode_pmem::{Medium, hold};
use std::collections::VecDeque;

/// The data blocks that no map word names, apart from those that writers have taken.
#[derive(Debug)]
pub(crate) struct Spares {
    state: SpinMutex<State>,
    /// Held by the writer that frees data blocks for all.
    pub(crate) reclaiming: SpinMutex<()>,
}

#[derive(Debug)]
struct State {
    /// Data blocks that can be written.
    ready: Vec<u32>,
    /// Data blocks that can be written when a checkpoint covers the record that freed them, whose number comes first.
    retired: VecDeque<(u64, u32)>,
    /// Number of data blocks that lie in lost memory.
    lost: u64,
}

impl Spares {
    /// Makes the set of these data blocks.
    pub(crate) fn new(ready: Vec<u32>) -> Spares {
        let state = State { ready, retired: VecDeque::new(), lost: 0 };
        Spares { state: SpinMutex::new(state), reclaiming: SpinMutex::new(()) }
    }

    /// Takes a data block that can be written, or `None` if there is none. Records up to `checkpointed` are not needed.
    pub(crate) fn take<M: Medium>(&self, medium: &M, checkpointed: u64) -> Option<u32> {
        let mut state = hold(&self.state, medium);
        if state.ready.is_empty() {
            state.reclaim(checkpointed);
        }
        state.ready.pop()
    }

    /// Puts back a data block that no record names.
    pub(crate) fn put_back<M: Medium>(&self, medium: &M, block: u32) {
        hold(&self.state, medium).ready.push(block);
    }

    /// Adds data blocks that the record `sequence` freed. Returns the data block that is likely to be taken next.
    pub(crate) fn retire<M: Medium>(
        &self,
        medium: &M,
        sequence: u64,
        blocks: impl Iterator<Item = u32>,
    ) -> Option<u32> {
        let mut state = hold(&self.state, medium);
        match bugs::REUSED_BEFORE_CHECKPOINT.is_active() {
            true => state.ready.extend(blocks),
            false => state.retired.extend(blocks.map(|block| (sequence, block))),
        }
        state.ready.last().copied()
    }

    /// Leaves out a data block in lost memory.
    pub(crate) fn lose<M: Medium>(&self, medium: &M) {
        hold(&self.state, medium).lost += 1;
    }

    /// Returns true if a data block waits for a checkpoint.
    pub(crate) fn has_retired<M: Medium>(&self, medium: &M) -> bool {
        !hold(&self.state, medium).retired.is_empty()
    }

    /// Returns the number of data blocks that lie in lost memory.
    pub(crate) fn lost<M: Medium>(&self, medium: &M) -> u64 {
        hold(&self.state, medium).lost
    }
}

impl State {
    /// Makes retired data blocks ready. Numbers are nearly in order: one that is not delays those after it.
    fn reclaim(&mut self, checkpointed: u64) {
        while let Some((sequence, block)) = self.retired.front().copied()
            && sequence <= checkpointed
        {
            self.retired.pop_front();
            self.ready.push(block);
        }
    }
}
