//! Reclaiming: makes freed space usable when a transaction finds none. If that is not enough, transactions that wait for
//! their sync become durable, for the space that they have freed. Only then the pool grows. Only if it can't, snapshots
//! end, the oldest first.
//!
//! A transaction is refused only if the space is still missing after a complete reclaim, by its own thread or by
//! another one for which it waited. By then the transaction could have taken any space that was free or freed when it
//! began to search, except for space that other threads took and use. While a thread reclaims, the others fetch only
//! the block that they need.
//!
//! Space that a reader may hold stays as it is. Closures that wait for their turn to reclaim keep space from each
//! other by their pins. So a refused transaction is tried again when its own closure's pin and theirs are gone.

use super::allocations::Allocations;
use super::allocator::Allocator;
use super::block_set::BlockSet;
use super::cache::ThreadCache;
use super::class::SPAN_CHUNKS;
use super::limbo::Retired;
use super::shared::Shared;
use crate::error::HeapError;
use crate::growth::Wanted;
use lode_layout::{CHUNK, ChunkDescriptor, Record};
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicBool, AtomicUsize, Ordering, SpinMutexGuard};

/// Rounds of reclaiming, as long as each makes something free. The first one finds all that was freed before; the
/// second one can use space that the first one made whole.
const ROUNDS: usize = 3;

/// Bytes for which a pool grows if the caller does not say how many it wants: a superblock of the longest kind fits,
/// wherever the new space begins.
const WANTED: u64 = 2 * SPAN_CHUNKS[0] * CHUNK;

/// Growths for one request. One is enough, unless other threads take the space, or it is divided among two extents.
const GROWTHS_MAX: usize = 4;

/// Rounds for which a refused transaction waits for the end of other refused closures.
const WAIT_ROUNDS_MAX: u32 = 192;

/// A guard. While it lives, threads fetch no more blocks than they need.
struct ScarcityGuard<'a> {
    is_scarce: &'a AtomicBool,
    _lock: SpinMutexGuard<'a, ()>,
}

impl Drop for ScarcityGuard<'_> {
    fn drop(&mut self) {
        // ORDER: none: see `Allocator::fetch_blocks`.
        self.is_scarce.store(false, Ordering::Relaxed);
    }
}

/// A transaction that reclaims, counted as waiting as long as this lives.
struct ReclaimWaiter<'a>(&'a AtomicUsize);

impl<'a> ReclaimWaiter<'a> {
    fn new(count: &'a AtomicUsize) -> ReclaimWaiter<'a> {
        // ORDER: none: other threads only wait by the number, see `reclaim_after_out_of_space`.
        count.fetch_add(1, Ordering::Relaxed);
        ReclaimWaiter(count)
    }
}

impl Drop for ReclaimWaiter<'_> {
    fn drop(&mut self) {
        // ORDER: none: as above.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'a, M: Medium> Allocator<'a, M> {
    /// Reclaims freed space until `find` returns `Some`. Makes the pool larger if that is not enough. The calling thread
    /// has not locked its cache.
    #[cold]
    pub(crate) fn reclaim_for<T>(self, find: impl Fn() -> Option<T>) -> Result<Option<T>, HeapError> {
        // A small pool has no long superblocks. Any space helps: the caller also takes shorter ones.
        let bytes = WANTED.min(self.space.chunks() * CHUNK / 2);
        self.reclaim_for_wanted(&Wanted { bytes, fits: &|_| true }, find)
    }

    /// Reclaims as [`reclaim_for`](Allocator::reclaim_for) does, for a caller that knows what it wants.
    #[cold]
    pub(crate) fn reclaim_for_wanted<T>(
        self,
        wanted: &Wanted<'_>,
        find: impl Fn() -> Option<T>,
    ) -> Result<Option<T>, HeapError> {
        let reclaim_waiters = ReclaimWaiter::new(&self.shared.reclaim_waiters);
        let found = self.reclaim_locked(wanted, find);
        drop(reclaim_waiters);
        if matches!(found, Ok(None)) {
            self.starved.set(true);
        }
        found
    }

    fn reclaim_locked<T>(
        self,
        wanted: &Wanted<'_>,
        find: impl Fn() -> Option<T>,
    ) -> Result<Option<T>, HeapError> {
        let _scarce = self.lock_reclaim();
        // Another thread may have just reclaimed it.
        if let Some(found) = find() {
            return Ok(Some(found));
        }
        if let Some(found) = self.reclaim_rounds(&find)? {
            return Ok(Some(found));
        }
        if self.retire_what_waits()
            && let Some(found) = self.reclaim_rounds(&find)?
        {
            return Ok(Some(found));
        }
        for _ in 0..GROWTHS_MAX {
            if !self.grow(wanted)? {
                break;
            }
            if let Some(found) = find() {
                return Ok(Some(found));
            }
        }
        while self.end_snapshot_for(wanted) {
            if let Some(found) = self.reclaim_rounds(&find)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Makes transactions durable that have freed space and returned before their sync, and retires that space. Returns
    /// true if there was any.
    fn retire_what_waits(self) -> bool {
        let later = self.shared.later();
        if !later.keep_freed() {
            return false;
        }
        // After a failed sync nothing more is freed.
        let _ = self.log.write_back_to(later.last());
        let is_over = |sequence| self.log.written_back().is_some_and(|last| last.last() >= sequence);
        let freed = later.take_freed(is_over);
        let any = !freed.is_empty();
        freed.into_iter().for_each(|(sequence, freed)| self.retire_freed(freed, sequence));
        any
    }

    /// Retires the space that the transaction `sequence`, which is written back, has freed. The calling thread has not
    /// locked its cache.
    pub(crate) fn retire_freed(self, freed: BlockSet, sequence: u64) {
        Allocations::of_freed(freed).publish(self, sequence);
    }

    /// Ends the oldest snapshot, if freed space waits for snapshots alone that may be what is wanted.
    fn end_snapshot_for(self, wanted: &Wanted<'_>) -> bool {
        let mut list = self.shared.open_snapshots(self.log.medium());
        let Some(epochs) = list.held_epochs() else { return false };
        let held = self.shared.limbo().held_in(epochs);
        let free = self.free_chunks() * CHUNK;
        held > 0 && (wanted.bytes <= WANTED || free + held >= wanted.bytes) && list.end_oldest()
    }

    /// Makes freed space usable until `find` returns `Some`, or there is no more of it.
    fn reclaim_rounds<T>(self, find: &impl Fn() -> Option<T>) -> Result<Option<T>, HeapError> {
        for _ in 0..ROUNDS {
            let mut any = self.empty_caches();
            if let Some(found) = find() {
                return Ok(Some(found));
            }
            if self.waits_for_checkpoint() {
                self.log.checkpoint()?;
                any |= self.take_reclaimable();
                if let Some(found) = find() {
                    return Ok(Some(found));
                }
            }
            any |= self.free_empty_superblocks()?;
            if let Some(found) = find() {
                return Ok(Some(found));
            }
            if !any {
                break;
            }
        }
        Ok(None)
    }

    /// Makes all freed space usable that no reader holds, and free chunks of all superblocks without a used block.
    pub(crate) fn reclaim_all(self) -> Result<(), HeapError> {
        let _scarce = self.lock_reclaim();
        self.free_chunks();
        self.reclaim_rounds(&|| None::<()>).map(drop)
    }

    /// Moves the free blocks of all threads to the central part, which then knows all superblocks.
    pub(crate) fn gather_free_blocks(self) {
        let _scarce = self.lock_reclaim();
        self.free_chunks();
        self.empty_caches();
    }

    /// Makes the pool larger for `wanted` bytes, as if a transaction had found none, for the crash explorer. Returns
    /// false if it does not grow.
    #[cfg(feature = "explore")]
    pub(crate) fn grow_locked(self, wanted: u64) -> Result<bool, HeapError> {
        let _scarce = self.lock_reclaim();
        self.grow(&Wanted { bytes: wanted, fits: &|_| true })
    }

    /// Reclaims the space that pins kept from the thread's last transaction, if that was refused: its own pin, or
    /// those of other refused transactions. Returns true if another attempt is worthwhile.
    #[cold]
    pub(crate) fn reclaim_after_out_of_space(self) -> bool {
        if !self.starved.get() {
            return false;
        }
        for round in 0..WAIT_ROUNDS_MAX {
            // ORDER: none: a late number only costs an attempt in vain.
            if self.shared.reclaim_waiters.load(Ordering::Relaxed) == 0 {
                break;
            }
            self.log.medium().relax(round);
        }
        let _scarce = self.lock_reclaim();
        self.empty_caches() || self.waits_for_checkpoint()
    }

    /// Waits until no other thread reclaims: space that such a thread is about to make free is on no list meanwhile.
    fn lock_reclaim(self) -> ScarcityGuard<'a> {
        let Shared { reclaiming, is_scarce, .. } = self.shared;
        for round in 0.. {
            if let Some(lock) = reclaiming.try_lock() {
                // ORDER: none: see `Allocator::fetch_blocks`.
                is_scarce.store(true, Ordering::Relaxed);
                return ScarcityGuard { is_scarce, _lock: lock };
            }
            self.log.medium().relax(round);
        }
        unreachable!("the loop ends with the lock")
    }

    /// Moves the free blocks of all threads to the central part, which can then identify superblocks without a used
    /// block. Gives back freed space that no reader holds. Returns true if anything became free.
    fn empty_caches(self) -> bool {
        let caches = self.shared.caches().clone();
        let mut any = false;
        for mut cache in ThreadCache::lock_all(&caches, |round| self.log.medium().relax(round)) {
            any |= self.shared.empty(&mut cache);
        }
        any | self.take_reclaimable()
    }

    /// Gives back freed space that the checkpoint covers and no reader holds. Returns true if there was any.
    pub(super) fn take_reclaimable(self) -> bool {
        let oldest = self.shared.readers().oldest();
        // Locked until all is given back, for the next thread that looks for it.
        let mut limbo = self.shared.limbo();
        let reclaimable = limbo.take_reclaimable(self.log.checkpointed(), oldest);
        for place in &reclaimable {
            match place {
                Retired::Blocks(blocks) => self.shared.central.release_blocks(blocks.key, blocks.blocks()),
                Retired::Span(span) => self.shared.central.release_span(*span),
            }
        }
        !reclaimable.is_empty()
    }

    /// Returns true if only a checkpoint keeps some freed space from being free.
    fn waits_for_checkpoint(self) -> bool {
        let oldest = self.shared.readers().oldest();
        self.shared.limbo().waits_for_checkpoint(self.log.checkpointed(), oldest)
    }

    /// Makes free chunks of the superblocks that have no block in use. They belong to no transaction, so a record of
    /// their own frees them. A checkpoint follows, after which no record is left that could be replayed over them.
    /// Returns true if there were any.
    fn free_empty_superblocks(self) -> Result<bool, HeapError> {
        let empty = self.shared.central.take_empty_superblocks(self.space);
        // As many descriptors as are certain to fit in a record.
        for part in empty.chunks(self.log.record_words_max() / 4) {
            let mut record = Record::new();
            for span in part {
                let at = self.space.descriptor_at(span.start).expect("spans lie in extents");
                record.push_word(at, ChunkDescriptor::Free.encode());
            }
            self.log.commit(&mut record, &[])?;
            self.log.checkpoint()?;
            for span in part {
                self.shared.central.release_span(*span);
            }
        }
        Ok(!empty.is_empty())
    }
}
