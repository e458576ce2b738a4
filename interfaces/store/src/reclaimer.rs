//! Dropped trees, whose space transactions of their own give back.

use crate::engine::{EngineResult, Medium};
use lode_heap::HeapError;
use lode_index::{IndexError, Trees};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};

/// Keys of dropped trees that one transaction deletes. In a full pool, which has no room for its log, fewer.
const RECLAIM_KEYS: usize = 1024;

/// Gives the space of dropped trees of one pool back.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    /// True if there may be dropped trees with keys.
    has_dropped: AtomicBool,
    /// Held by the thread that gives the space of dropped trees back.
    reclaiming: Mutex<()>,
}

impl Reclaimer {
    pub(crate) fn new(has_dropped: bool) -> Reclaimer {
        Reclaimer { has_dropped: AtomicBool::new(has_dropped), reclaiming: Mutex::new(()) }
    }

    /// Notes that a tree was dropped.
    fn note_dropped(&self) {
        // ORDER: none: the entry in the table is what counts, and is visible once its transaction has returned.
        self.has_dropped.store(true, Ordering::Relaxed);
    }

    /// Gives the space of dropped trees back, in transactions of their own. With `steps` at most so many of them; one
    /// step if another thread is at it. Returns true if any space was given back. An error ends it: the trees stay
    /// dropped, and a later call goes on. `open` opens the table of trees.
    pub(crate) fn reclaim<'h>(
        &self,
        steps: usize,
        open: impl FnOnce() -> EngineResult<Trees<'h, Medium>>,
    ) -> bool {
        // ORDER: none: as above.
        if !self.has_dropped.load(Ordering::Relaxed) {
            return false;
        }
        let _reclaiming = match self.reclaiming.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        // ORDER: none: a tree that is dropped from here on sets it again.
        self.has_dropped.store(false, Ordering::Relaxed);
        let Ok(trees) = open() else { return false };
        let (mut done, mut keys) = (0, RECLAIM_KEYS);
        while done < steps {
            match trees.reclaim(keys) {
                Ok(true) => done += 1,
                Ok(false) => return done > 0,
                Err(IndexError::Heap(error)) if keys > 1 && needs_space(&error) => keys /= 8,
                Err(_) => break,
            }
        }
        self.note_dropped();
        done > 0
    }

    /// Gives space back after a transaction has committed: all of it if this one has dropped trees, and a part of what
    /// others have left. `open` opens the table of trees.
    pub(crate) fn after_commit<'h>(
        &self,
        has_dropped: bool,
        open: impl FnOnce() -> EngineResult<Trees<'h, Medium>>,
    ) {
        if has_dropped {
            self.note_dropped();
        }
        self.reclaim(if has_dropped { usize::MAX } else { 1 }, open);
    }
}

/// Returns true if a shorter transaction may have room.
fn needs_space(error: &HeapError) -> bool {
    error.is_out_of_space() || matches!(error, HeapError::TooLarge { .. })
}
