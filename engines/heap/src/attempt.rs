//! An attempt of a transaction: all that it owns until it is over.

use crate::alloc::allocations::Allocations;
use crate::alloc::allocator::Allocator;
use crate::growth::Wanted;
use crate::held_locks::HeldLocks;
use crate::locks::{LockTable, Stripe, Tag, Version};
use crate::pending_words::PendingWords;
use crate::read_set::ReadSet;
use crate::readers::Readers;
use crate::writes::write_set::WriteSet;
use lode_layout::{CHUNK, Geometry, WORD};
use lode_pmem::Medium;
use std::sync::Arc;

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

/// The treatment of words that wait for their sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It reads from memory, and starts again as soon as it meets such words, to see them.
    #[default]
    Memory,
    /// It reads from memory, and waits until such words are written back.
    Durable,
    /// It sees them, wherever it reads, and returns when they are durable.
    Pending,
}

/// The words under the locks of an attempt that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Words {
    /// The attempt has changed none.
    Unchanged,
    /// The transaction of this number has changed them, and is written back.
    Changed(u64),
    /// The transaction, of this number at most, may be written back later.
    InDoubt(u64),
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

/// The parts of an attempt that its commit needs at once.
pub(crate) struct CommitParts<'a> {
    pub(crate) held: &'a mut HeldLocks,
    pub(crate) space: &'a mut Allocations,
    pub(crate) writes: &'a mut WriteSet,
    pub(crate) reads: &'a mut ReadSet,
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
    /// True if its reads take locks.
    locks_reads: bool,
    sight: Sight,
    /// True if the closure is to start again and see pending words.
    wants_pending: bool,
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
            locks_reads: false,
            sight: Sight::Memory,
            wants_pending: false,
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

    /// Returns true if the reads take locks: those of the senior, and those of an attempt that has waited for pending
    /// words.
    #[inline]
    pub(crate) fn locks_reads(&self) -> bool {
        self.locks_reads
    }

    /// Returns true if the transaction is the senior of the lock table.
    #[inline]
    pub(crate) fn is_senior(&self) -> bool {
        self.is_senior
    }

    /// Makes the reads take locks, once the caller is the senior of the lock table.
    pub(crate) fn set_senior(&mut self) {
        self.is_senior = true;
        self.locks_reads = true;
    }

    /// Returns the treatment of pending words.
    pub(crate) fn sight(&self) -> Sight {
        self.sight
    }

    /// Makes the attempt wait for pending words.
    pub(crate) fn wait_for_pending(&mut self) {
        self.sight = Sight::Durable;
    }

    /// Makes the attempt see pending words.
    pub(crate) fn see_pending(&mut self, words: &Arc<PendingWords>) {
        self.sight = Sight::Pending;
        self.writes.see_pending(words);
    }

    /// Makes the closure start again, so that it sees pending words.
    pub(crate) fn restart_to_see_pending(&mut self) {
        self.wants_pending = true;
        self.escalate(Outcome::Conflict { is_inversion: false });
    }

    /// Returns true if the closure is to start again and see pending words.
    pub(crate) fn wants_pending(&self) -> bool {
        self.wants_pending
    }

    /// Returns true if memory is what the attempt sees, apart from its own changes.
    #[inline]
    pub(crate) fn sees_memory(&self) -> bool {
        self.sight != Sight::Pending
    }

    /// Returns true if reads are not simply those of memory under an open lock.
    #[inline]
    pub(crate) fn has_slow_reads(&self) -> bool {
        self.locks_reads || !self.sees_memory()
    }

    /// Returns what a commit needs.
    #[inline]
    pub(crate) fn commit_parts(&mut self) -> CommitParts<'_> {
        CommitParts {
            held: &mut self.held,
            space: &mut self.space,
            writes: &mut self.writes,
            reads: &mut self.reads,
        }
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
        self.hold_if(locks, stripe, |attempt| {
            locks.take(stripe, tag, version)
                || !attempt.sees_memory() && locks.take_pending(stripe, tag, version)
        })
    }

    /// Notes the lock as held if `take` takes it. Leaves a lock alone for which the senior, another transaction, waits.
    #[inline]
    fn hold_if(&mut self, locks: &LockTable, stripe: Stripe, take: impl FnOnce(&Attempt) -> bool) -> bool {
        let is_reserved = locks.is_wanted(stripe) && !self.is_senior;
        let taken = !is_reserved && take(self);
        if taken {
            self.held.push(stripe);
        }
        taken
    }

    /// Takes the lock, which is not held yet and pending in that `version`, for an attempt that waits for pending words.
    /// From now on its reads take locks, so that it meets no lock that is pending all the time.
    pub(crate) fn try_lock_pending(
        &mut self,
        locks: &LockTable,
        stripe: Stripe,
        tag: Tag,
        version: Version,
    ) -> bool {
        self.locks_reads = true;
        self.hold_if(locks, stripe, |_| locks.take_pending(stripe, tag, version))
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

    /// Releases all locks. Those that were taken while pending stay so if the words are unchanged.
    #[inline]
    pub(crate) fn unlock(&mut self, locks: &LockTable, words: Words) {
        if !self.held.is_empty() {
            self.held.truncate(0, |stripe| match words {
                Words::Unchanged => locks.release(stripe),
                Words::Changed(number) => locks.release_changed(stripe, number),
                Words::InDoubt(number) => locks.hand_on(stripe, number),
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
        self.sight = Sight::Memory;
        self.locks_reads = false;
        self.wants_pending = false;
        self.outcome = Outcome::Running;
    }
}
