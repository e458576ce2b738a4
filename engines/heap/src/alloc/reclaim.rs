//! Reclaiming: makes freed space usable when a transaction finds none.
//!
//! A transaction is refused only after all of this was done and the space is still not there. Either it did so
//! itself, or another thread did while it waited. All space that was free or freed when the transaction began to look
//! was offered to it, or was taken by other threads that use it: a thread that finds blocks meanwhile fetches only
//! the one that it needs.
//!
//! Space that a reader may hold stays as it is. Closures that wait for their turn to reclaim keep space from each
//! other by their pins. So a refused transaction is tried again when its own closure's pin and theirs are gone.

use super::allocator::Allocator;
use super::cache::ThreadCache;
use super::shared::Shared;
use crate::error::HeapError;
use lode_layout::{Descriptor, Record};
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicBool, AtomicUsize, Ordering, SpinMutexGuard};

/// Rounds of reclaiming, as long as each makes something free. The first one finds all that was freed before; the
/// second one can use space that the first one made whole.
const ROUNDS: usize = 3;

/// Rounds for which a refused transaction waits for the end of other refused closures.
const PATIENCE: u32 = 192;

/// A guard during whose life threads fetch no more blocks than they need.
struct Short<'a> {
    is_short: &'a AtomicBool,
    _alone: SpinMutexGuard<'a, ()>,
}

impl Drop for Short<'_> {
    fn drop(&mut self) {
        // ORDER: none: see `Allocator::fetch_blocks`.
        self.is_short.store(false, Ordering::Relaxed);
    }
}

/// A transaction that reclaims, counted as stuck as long as this lives.
struct Stuck<'a>(&'a AtomicUsize);

impl<'a> Stuck<'a> {
    fn new(count: &'a AtomicUsize) -> Stuck<'a> {
        // ORDER: none: other threads only wait by the number, see `reclaim_after_refusal`.
        count.fetch_add(1, Ordering::Relaxed);
        Stuck(count)
    }
}

impl Drop for Stuck<'_> {
    fn drop(&mut self) {
        // ORDER: none: as above.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'a, M: Medium> Allocator<'a, M> {
    /// Reclaims freed space until `find` returns `Some`. The calling thread has not locked its cache.
    #[cold]
    pub(crate) fn reclaim_for<T>(self, find: impl Fn() -> Option<T>) -> Result<Option<T>, HeapError> {
        let stuck = Stuck::new(&self.shared.stuck);
        let found = self.reclaim_in_turn(find);
        drop(stuck);
        if matches!(found, Ok(None)) {
            self.starved.set(true);
        }
        found
    }

    fn reclaim_in_turn<T>(self, find: impl Fn() -> Option<T>) -> Result<Option<T>, HeapError> {
        let _short = self.reclaim_alone();
        // Another thread may have just reclaimed it.
        if let Some(found) = find() {
            return Ok(Some(found));
        }
        for _ in 0..ROUNDS {
            let mut any = self.empty_caches();
            if let Some(found) = find() {
                return Ok(Some(found));
            }
            if self.waits_for_checkpoint() {
                self.log.checkpoint()?;
                any |= self.take_ripe();
                if let Some(found) = find() {
                    return Ok(Some(found));
                }
            }
            any |= self.give_up_empty_superblocks()?;
            if let Some(found) = find() {
                return Ok(Some(found));
            }
            if !any {
                break;
            }
        }
        Ok(None)
    }

    /// Reclaims the space that pins kept from the thread's last transaction, if that was refused: its own pin, or
    /// those of other refused transactions. Returns true if another attempt is worthwhile.
    #[cold]
    pub(crate) fn reclaim_after_refusal(self) -> bool {
        if !self.starved.get() {
            return false;
        }
        for round in 0..PATIENCE {
            // ORDER: none: a late number only costs an attempt in vain.
            if self.shared.stuck.load(Ordering::Relaxed) == 0 {
                break;
            }
            self.log.medium().relax(round);
        }
        let _short = self.reclaim_alone();
        self.empty_caches() || self.waits_for_checkpoint()
    }

    /// Waits until no other thread reclaims: space that such a thread is about to make free is on no list meanwhile.
    fn reclaim_alone(self) -> Short<'a> {
        let Shared { reclaiming, is_short, .. } = self.shared;
        for round in 0.. {
            if let Some(alone) = reclaiming.try_lock() {
                // ORDER: none: see `Allocator::fetch_blocks`.
                is_short.store(true, Ordering::Relaxed);
                return Short { is_short, _alone: alone };
            }
            self.log.medium().relax(round);
        }
        unreachable!("the loop ends with the lock")
    }

    /// Moves the free blocks of all threads to the central part, which can then tell superblocks without a used
    /// block. Gives back freed space that no reader holds. Returns true if anything became free.
    fn empty_caches(self) -> bool {
        let caches = self.shared.caches().clone();
        let mut any = false;
        for mut cache in ThreadCache::lock_all(&caches, |round| self.log.medium().relax(round)) {
            any |= self.shared.empty(&mut cache);
        }
        any | self.take_ripe()
    }

    /// Gives back freed space that the checkpoint covers and no reader holds. Returns true if there was any.
    pub(super) fn take_ripe(self) -> bool {
        let oldest = self.shared.readers().oldest();
        // Locked until all is given back, for the next thread that looks for it.
        let mut limbo = self.shared.limbo();
        let ripe = limbo.take_ripe(self.log.checkpointed(), oldest);
        for place in &ripe {
            self.shared.central.give(*place);
        }
        !ripe.is_empty()
    }

    /// Returns true if only a checkpoint keeps some freed space from being free.
    fn waits_for_checkpoint(self) -> bool {
        let oldest = self.shared.readers().oldest();
        self.shared.limbo().waits_for_checkpoint(self.log.checkpointed(), oldest)
    }

    /// Makes free chunks of the superblocks that have no block in use. They belong to no transaction, so a record of
    /// their own frees them. A checkpoint follows, after which no record is left that could be replayed over them.
    /// Returns true if there were any.
    fn give_up_empty_superblocks(self) -> Result<bool, HeapError> {
        let empty = self.shared.central.take_empty_superblocks(self.space);
        // As many descriptors as are certain to fit in a record.
        for part in empty.chunks(self.log.record_words_max() / 4) {
            let mut record = Record::new();
            for span in part {
                let at = self.space.descriptor_at(span.start).expect("spans lie in extents");
                record.push_word(at, Descriptor::Free.encode());
            }
            self.log.commit(&mut record, &[])?;
            self.log.checkpoint()?;
            for span in part {
                self.shared.central.give_span(*span);
            }
        }
        Ok(!empty.is_empty())
    }
}
