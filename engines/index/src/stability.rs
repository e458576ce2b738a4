//! Telling damage from a writer at work, where the tree does not look as it does at rest.
//!
//! Time is no evidence: a writer may lose the CPU between two of its write-backs for any length of time. Two
//! things are evidence:
//!
//! - *A lock.* A writer holds the lock of a node until the write-backs to its slots, and to the values of its leaves,
//!   are done, or leaves it pending until then. If the lock was free when a read began, and has the same version when it
//!   ended, or if nothing was written back meanwhile, then no writer stored there in between ([`read_versioned`]). A node
//!   that was replaced meanwhile passes its leaves on to another one. So for a leaf, its parent must also be in the tree.
//! - *A checkpoint*, which waits until all write-backs are done. If no transaction ran between two checkpoints, an
//!   attempt between them met no writer ([`StabilityWait::wait_until_stable`]). So damage is found even where a
//!   transaction, perhaps the calling thread's own, holds the lock as long as it runs. No reader waits for that
//!   transaction.

use crate::error::IndexError;
use lode_heap::{Heap, HeapError};
use lode_layout::PoolOffset;
use lode_pmem::{Medium, Readable};

/// Failed attempts after which the place is examined more closely.
const ATTEMPTS_MAX: u32 = 100;
/// Further attempts, each begun after all earlier write-backs were done. If all of them fail, the place is damaged,
/// even if writers never rest.
const ATTEMPTS_APART_MAX: u32 = 200;

/// State of an operation whose attempts found the tree inconsistent.
#[derive(Debug, Default)]
pub(crate) struct StabilityWait {
    attempts: u32,
    /// Greatest record number written back before the attempt began; `None` if no checkpoint was made.
    checkpointed: Option<u64>,
}

impl StabilityWait {
    /// Returns when another attempt is worthwhile, or returns `damage` if no writer explains it. Fails at once if the
    /// scope of `memory` has a fault.
    #[cold]
    pub(crate) fn wait_until_stable<M: Medium>(
        &mut self,
        heap: &Heap<M>,
        memory: &Readable,
        damage: IndexError,
    ) -> Result<(), IndexError> {
        if let Some(fault) = memory.fault() {
            return Err(fault.into());
        }
        self.attempts += 1;
        if self.attempts <= ATTEMPTS_MAX {
            return Ok(());
        }
        let log = heap.log();
        log.checkpoint().map_err(HeapError::from)?;
        let before = self.checkpointed.replace(log.checkpointed());
        if before == self.checkpointed || self.attempts > ATTEMPTS_MAX + ATTEMPTS_APART_MAX {
            return Err(damage);
        }
        Ok(())
    }
}

/// Calls `read`. Returns its result, and true if no writer that holds the lock of `at` stored anything meanwhile.
pub(crate) fn read_versioned<M: Medium, R>(
    heap: &Heap<M>,
    at: PoolOffset,
    read: impl FnOnce() -> R,
) -> (R, bool) {
    let mark = heap.begin_read(at);
    let value = read();
    (value, mark.is_some_and(|mark| heap.is_unchanged(at, mark)))
}
