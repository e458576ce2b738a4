//! Telling damage from a writer at work, where the tree does not look as it does at rest.
//!
//! Time is no evidence: a writer may lose the CPU between two of its home stores for any length of time. Two
//! things are evidence:
//!
//! - *A lock.* A writer holds the lock of a node until the home stores to its slots, and to the values of its leaves,
//!   is done. If the lock was free when a look began, and has the same version when it ended, then no writer stored
//!   there in between ([`at_rest`]). A node that was replaced meanwhile passes its leaves on to another one. So for a
//!   leaf, its holder must also be in the tree.
//! - *A checkpoint*, which waits until all home stores are done. If no transaction ran between two checkpoints, an
//!   attempt between them met no writer ([`Unrest::outlast`]). So damage is found even where a transaction, perhaps
//!   the calling thread's own, holds the lock as long as it runs. No reader waits for that transaction.

use crate::error::IndexError;
use lode_heap::{Heap, HeapError};
use lode_layout::PoolOffset;
use lode_pmem::{Medium, Readable};
use std::sync::atomic::{Ordering, fence};

/// Failed attempts after which the place is examined more closely.
const ATTEMPTS_MAX: u32 = 100;
/// Further attempts, each begun after all earlier home stores were done. If all of them fail, the place is damaged,
/// even if writers never rest.
const ATTEMPTS_APART_MAX: u32 = 200;

/// State of an operation whose attempts found the tree inconsistent.
#[derive(Debug, Default)]
pub(crate) struct Unrest {
    attempts: u32,
    /// Greatest record number written back before the attempt began; `None` if no checkpoint was made.
    checkpointed: Option<u64>,
}

impl Unrest {
    /// Returns when another attempt is worthwhile, or returns `damage` if no writer explains it. Fails at once if the
    /// scope of `memory` has a fault.
    #[cold]
    pub(crate) fn outlast<M: Medium>(
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

/// Calls `look`. Returns its result, and true if no writer that holds the lock of `at` stored anything meanwhile.
pub(crate) fn at_rest<M: Medium, R>(heap: &Heap<M>, at: PoolOffset, look: impl FnOnce() -> R) -> (R, bool) {
    // ORDER: the version is acquired before the look.
    let before = heap.lock_version(at);
    let seen = look();
    // ORDER: the loads of the look come before that of the version. A home store stores with release ordering. A
    // thread that sees such a store also sees that the writer holds the lock, or a later version.
    fence(Ordering::Acquire);
    let is_at_rest = !before.is_held() && heap.lock_version(at) == before;
    (seen, is_at_rest)
}
