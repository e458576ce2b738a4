//! The progress of a load by many threads.

use lode_layout::KvLoad;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Consecutive lines, divided among the threads.
#[derive(Debug)]
pub(crate) struct Block {
    /// Number of the block, from 0.
    number: u64,
    /// The progress of a load that has loaded this block and all before it.
    end: KvLoad,
    parts_left: AtomicUsize,
}

/// The blocks that are loaded.
#[derive(Debug)]
pub(crate) struct Progress {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The part of the input that is loaded without a gap.
    reached: KvLoad,
    /// Number of the block after that part.
    next: u64,
    /// Loaded blocks that come after a block that is not.
    completed: BTreeMap<u64, KvLoad>,
}

impl Block {
    pub(crate) fn new(number: u64, end: KvLoad, parts: usize) -> Block {
        Block { number, end, parts_left: AtomicUsize::new(parts) }
    }

    /// Returns the progress of a load that has loaded this block and all before it.
    pub(crate) fn end(&self) -> &KvLoad {
        &self.end
    }
}

impl Progress {
    pub(crate) fn new(reached: KvLoad) -> Progress {
        Progress { state: Mutex::new(State { reached, next: 0, completed: BTreeMap::new() }) }
    }

    /// Returns the part of the input that is loaded without a gap.
    pub(crate) fn reached(&self) -> KvLoad {
        self.lock_state().reached
    }

    /// Records that one part of `block` is durable.
    pub(crate) fn part_done(&self, block: &Block) {
        // ORDER: releases this part's end to the thread that ends the block, and acquires those before it.
        if block.parts_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let state = &mut *self.lock_state();
            state.completed.insert(block.number, block.end);
            while let Some(end) = state.completed.remove(&state.next) {
                state.reached = end;
                state.next += 1;
            }
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn mark(lines: u64) -> KvLoad {
        KvLoad { mode: 1, offset: lines * 10, lines, hash: [lines; 2], begun: lines * 10 }
    }

    #[test]
    fn progress_ends_at_first_missing_block() {
        let progress = Progress::new(mark(0));
        let blocks: Vec<_> =
            [(0, 5, 2), (1, 9, 1), (2, 12, 1)].map(|(n, end, parts)| Block::new(n, mark(end), parts)).into();
        progress.part_done(&blocks[1]);
        assert_eq!(progress.reached(), mark(0), "block 0 is missing");
        progress.part_done(&blocks[0]);
        assert_eq!(progress.reached(), mark(0), "another part of block 0 is missing");
        progress.part_done(&blocks[0]);
        assert_eq!(progress.reached(), mark(9));
        progress.part_done(&blocks[2]);
        assert_eq!(progress.reached(), mark(12));
    }
}
