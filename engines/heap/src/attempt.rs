//! An attempt of a transaction: all that it owns until it is over.

use crate::alloc::allocations::Allocations;
use crate::alloc::allocator::Allocator;
use crate::growth::Wanted;
use crate::held_locks::HeldLocks;
use crate::locks::{LockTable, Stripe, Tag, Version};
use crate::read_set::ReadSet;
use crate::readers::Readers;
use crate::writes::write_set::WriteSet;
use lode_layout::{CHUNK, Geometry, WORD};
use lode_pmem::Medium;

/// The outcome of an attempt so far. Each variant takes precedence over those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It commits if its closure succeeds.
    Running,
    /// A step failed half-way, so the attempt must not commit.
    RollbackOnly,
    /// Its record would be too long: `wanted` bytes of changes, where `limit` are allowed.
    TooLarge { wanted: u64, limit: u64 },
    /// It did not get a lock, or read a value that changed meanwhile: the closure is started again. `is_inversion`: the
    /// lock comes before one that was held, so a thread that waits for a lock of this attempt may hold it.
    Conflict { is_inversion: bool },
}

impl Outcome {
    fn precedence(self) -> u8 {
        match self {
            Outcome::Running => 0,
            Outcome::RollbackOnly => 1,
            Outcome::TooLarge { .. } => 2,
            Outcome::Conflict { .. } => 3,
        }
    }
}

/// The locks that a transaction held at some moment, and the number of changes that it had made by then.
#[derive(Clone, Copy, Debug)]
pub struct LockSavepoint {
    count: usize,
    changes: u64,
}

impl LockSavepoint {
    /// Returns true if any lock was held.
    #[inline]
    pub fn has_locks(self) -> bool {
        self.count > 0
    }
}

/// The changes, the reads, the space and the locks of a running transaction, and its outcome so far.
#[derive(Debug)]
pub(crate) struct Attempt {
    writes: WriteSet,
    reads: ReadSet,
    space: Allocations,
    held: HeldLocks,
    /// True if the transaction was restarted often: its reads take locks, and it waits for each as long as it has to.
    is_senior: bool,
    outcome: Outcome,
    /// Maximum length of the log in words, once it was looked up.
    words_limit: Option<WordsLimit>,
}

/// The maximum length of the log of a transaction: half of the free space at some moment.
#[derive(Clone, Copy, Debug)]
struct WordsLimit {
    words: u64,
    /// Chunks that the transaction had taken by then. With more, less is free.
    own_chunks: u64,
}

impl Attempt {
    pub(crate) fn new() -> Attempt {
        Attempt {
            writes: WriteSet::new(),
            reads: ReadSet::default(),
            space: Allocations::default(),
            held: HeldLocks::new(),
            is_senior: false,
            outcome: Outcome::Running,
            words_limit: None,
        }
    }

    /// Returns the changes.
    #[inline]
    pub(crate) fn writes(&mut self) -> &mut WriteSet {
        &mut self.writes
    }

    /// Returns true if nothing was stored.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns what was read.
    #[inline]
    pub(crate) fn reads(&mut self) -> &mut ReadSet {
        &mut self.reads
    }

    /// Returns what was read, and the changes.
    #[inline]
    pub(crate) fn reads_and_writes(&mut self) -> (&mut ReadSet, &mut WriteSet) {
        (&mut self.reads, &mut self.writes)
    }

    /// Returns true if something was read that decides on changes.
    #[inline]
    pub(crate) fn has_reads_to_validate(&self) -> bool {
        !self.reads.is_empty() && !self.is_clean()
    }

    /// Returns true if the reads take locks.
    #[inline]
    pub(crate) fn is_senior(&self) -> bool {
        self.is_senior
    }

    /// Makes the reads take locks, once the caller is the senior of the lock table.
    pub(crate) fn set_senior(&mut self) {
        self.is_senior = true;
    }

    /// Returns the space that was taken or freed.
    #[inline]
    pub(crate) fn space(&self) -> &Allocations {
        &self.space
    }

    /// Returns the space, and the changes by which the medium says the same.
    #[inline]
    pub(crate) fn space_and_writes(&mut self) -> (&mut Allocations, &mut WriteSet) {
        (&mut self.space, &mut self.writes)
    }

    /// Returns the outcome so far.
    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Sets the outcome, unless the present one takes precedence or is of the same kind.
    pub(crate) fn escalate(&mut self, outcome: Outcome) {
        if outcome.precedence() > self.outcome.precedence() {
            self.outcome = outcome;
        }
    }

    /// Records a conflict on a lock. Replaces the `is_inversion` of an earlier conflict.
    pub(crate) fn conflict(&mut self, is_inversion: bool) {
        self.outcome = Outcome::Conflict { is_inversion };
    }

    /// Returns true if the log may have `words` words.
    pub(crate) fn allows_words<M: Medium>(&mut self, allocator: Allocator<'_, M>, words: u64) -> bool {
        let half_of_free = || allocator.free_chunks() * CHUNK / WORD / 2;
        let own_chunks = self.writes.own_chunks();
        let known = self.words_limit.filter(|limit| limit.own_chunks == own_chunks);
        let mut allowed = known.map_or_else(half_of_free, |limit| limit.words);
        if words > allowed && matches!(self.outcome, Outcome::Running | Outcome::RollbackOnly) {
            // Ignores an error: it shows again when the transaction commits.
            let bytes = words.saturating_mul(2 * WORD);
            let fits = |geometry: &Geometry| half_of_free() + allocator.added(geometry) / WORD / 2 >= words;
            let wanted = Wanted { bytes, fits: &fits };
            let _ = allocator.reclaim_for_wanted(&wanted, || (half_of_free() >= words).then_some(()));
            allowed = half_of_free();
        }
        self.words_limit = Some(WordsLimit { words: allowed, own_chunks });
        if words > allowed {
            self.escalate(Outcome::TooLarge { wanted: words * WORD, limit: allowed * WORD });
        }
        words <= allowed
    }

    /// Returns true if the lock is held.
    #[inline]
    pub(crate) fn holds(&self, stripe: Stripe) -> bool {
        self.held.contains(stripe)
    }

    /// Returns true if the lock comes before one that is held.
    pub(crate) fn inverts_lock_order(&self, stripe: Stripe) -> bool {
        self.held.greatest().is_some_and(|greatest| greatest > stripe)
    }

    /// Takes the lock, which is not held yet, for the offset that has `tag`, if its version is still `version`.
    #[inline]
    pub(crate) fn try_lock(&mut self, locks: &LockTable, stripe: Stripe, tag: Tag, version: Version) -> bool {
        let is_reserved = locks.is_wanted(stripe) && !self.is_senior;
        let taken = !is_reserved && locks.take(stripe, tag, version);
        if taken {
            self.held.push(stripe);
        }
        taken
    }

    /// Notes the locks that are held, and the changes that were made.
    #[inline]
    pub(crate) fn lock_savepoint(&self) -> LockSavepoint {
        LockSavepoint { count: self.held.len(), changes: self.writes.changes() }
    }

    /// Releases the locks that were taken since `savepoint`, unless anything was stored since.
    pub(crate) fn unlock_since(&mut self, locks: &LockTable, savepoint: LockSavepoint) {
        if self.writes.changes() == savepoint.changes {
            self.held.truncate(savepoint.count, |stripe| locks.release(stripe));
        }
    }

    /// Releases all locks. `changed` is the number of the transaction, if it may have changed words under them.
    #[inline]
    pub(crate) fn unlock(&mut self, locks: &LockTable, changed: Option<u64>) {
        if !self.held.is_empty() {
            self.held.truncate(0, |stripe| match changed {
                Some(number) => locks.release_changed(stripe, number),
                None => locks.release(stripe),
            });
        }
    }

    /// Resets the attempt after its end. Its space was dealt with before, and its locks are released.
    #[inline]
    pub(crate) fn reset(&mut self, locks: &LockTable, readers: &Readers) {
        debug_assert!(self.held.is_empty(), "locks are released before the next attempt");
        if self.is_senior {
            self.is_senior = false;
            locks.end_senior();
        }
        self.writes.clear();
        self.reads.clear(readers);
        self.space.clear();
        self.words_limit = None;
        self.outcome = Outcome::Running;
    }
}
