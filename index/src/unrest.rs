//! What does not look like a tree at rest: others change it, or it is damaged.
//!
//! Time tells nothing, for a writer may be kept from the CPU between two of its home stores for as long as there is.
//! Two things tell:
//!
//! - *A lock.* A writer holds the lock of a node until the home stores to its slots, and to the values of its leaves,
//!   are done. If the lock was free when a look began, and has the same version when it ended, then no writer stored
//!   there in between ([`at_rest`]). A node that was replaced meanwhile passes its leaves on to another one, so for a
//!   leaf its holder must be in the tree.
//! - *A checkpoint*, which waits until all home stores are done. An attempt between two checkpoints with no
//!   transaction between them met no writer ([`Unrest::outlast`]). So damage is also found where a transaction holds
//!   the lock for as long as it runs, the calling thread's own included, and no reader waits for that.

use crate::error::IndexError;
use lode_heap::Heap;
use lode_layout::PoolOffset;
use lode_pmem::{Fault, Medium};
use std::sync::atomic::{Ordering, fence};

/// Attempts after which what does not settle is looked at more closely.
const ATTEMPTS_MAX: u32 = 100;
/// Further attempts, each begun when all earlier home stores were done, after which it is damage even beside writers
/// that never rest.
const ATTEMPTS_APART_MAX: u32 = 200;

/// What an operation knows of attempts that found the tree unsettled.
#[derive(Debug, Default)]
pub(crate) struct Unrest {
    attempts: u32,
    /// The last number whose home stores were done before the attempt began; `None` if no checkpoint was made.
    checkpointed: Option<u64>,
}

impl Unrest {
    /// Returns when another attempt is worthwhile; an error if `damage` is no writer's doing.
    #[cold]
    pub(crate) fn outlast<M: Medium>(
        &mut self,
        heap: &Heap<M>,
        damage: IndexError,
    ) -> Result<(), IndexError> {
        if let Some(fault) = Fault::take() {
            return Err(fault.into());
        }
        self.attempts += 1;
        if self.attempts <= ATTEMPTS_MAX {
            return Ok(());
        }
        let log = heap.log();
        log.checkpoint()?;
        let before = self.checkpointed.replace(log.checkpointed());
        if before == self.checkpointed || self.attempts > ATTEMPTS_MAX + ATTEMPTS_APART_MAX {
            return Err(damage);
        }
        Ok(())
    }
}

/// What `look` sees, and whether no writer that holds the lock of `at` stored anything meanwhile.
pub(crate) fn at_rest<M: Medium, R>(heap: &Heap<M>, at: PoolOffset, look: impl FnOnce() -> R) -> (R, bool) {
    // ORDER: the version is acquired before the look.
    let before = heap.lock_version(at);
    let seen = look();
    // ORDER: the loads of the look come before that of the version. Who sees a home store of a writer sees, by its
    // release, that the writer holds the lock, or a later version.
    fence(Ordering::Acquire);
    let is_at_rest = !before.is_held() && heap.lock_version(at) == before;
    (seen, is_at_rest)
}
