//! Reclaiming: how what was freed, and can't be used yet, is made free when a transaction finds no space.
//!
//! A transaction is refused only when all of this was done, by itself or by another thread while it waited, and the
//! space is still not there. What was free or freed when it began to look was offered to it then, wherever it was, or was
//! taken by others, who use it: a thread that finds blocks meanwhile fetches the one that it needs.
//!
//! What a reader may hold stays as it is. Pins of closures that wait for their own turn to reclaim keep space from each
//! other, so a transaction that was refused is tried again when its closure's pin is gone and those of the others are.

use crate::alloc::Span;
use crate::alloc::cache::ThreadCache;
use crate::alloc::limbo::Freed;
use crate::session::State;
use crate::sync::{AtomicUsize, Ordering, SpinMutexGuard};
use crate::{Heap, HeapError};
use lode_layout::{Descriptor, Record};
use lode_pmem::Medium;

/// Rounds of reclaiming, as long as each makes something free. After the first one all is known that was freed before;
/// the second one can use what the first made whole.
const ROUNDS: usize = 3;

/// Rounds for which a transaction that was refused waits until closures that were refused too are over.
const PATIENCE: u32 = 192;

/// No thread fetches more than it needs as long as this lives.
struct Short<'a, M: Medium> {
    heap: &'a Heap<M>,
    _alone: SpinMutexGuard<'a, ()>,
}

impl<M: Medium> Drop for Short<'_, M> {
    fn drop(&mut self) {
        // ORDER: none: see `Tx::fetch_blocks`.
        self.heap.shared.is_short.store(false, Ordering::Relaxed);
    }
}

/// A transaction that reclaims, counted for as long as this lives.
struct Stuck<'a>(&'a AtomicUsize);

impl<'a> Stuck<'a> {
    fn new(count: &'a AtomicUsize) -> Stuck<'a> {
        // ORDER: none: a number to wait by, see `reclaim`.
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

impl<M: Medium> Heap<M> {
    /// Takes a span of free chunks. When there is none, all that can be reclaimed is.
    pub(crate) fn find_span(
        &self,
        state: &mut State,
        chunks: u64,
        align: u64,
    ) -> Result<Option<Span>, HeapError> {
        if chunks > self.space.chunks() {
            return Ok(None);
        }
        match self.take_span(chunks, align) {
            Some(span) => Ok(Some(span)),
            None => self.reclaim_for(state, || self.take_span(chunks, align)),
        }
    }

    pub(crate) fn take_span(&self, chunks: u64, align: u64) -> Option<Span> {
        self.shared.central.take_span(&self.space, self.memory(), chunks, align)
    }

    /// Makes free what was freed, until `find` finds something. The calling thread has not locked its cache.
    #[cold]
    pub(crate) fn reclaim_for<T>(
        &self,
        state: &mut State,
        find: impl Fn() -> Option<T>,
    ) -> Result<Option<T>, HeapError> {
        let stuck = Stuck::new(&self.shared.stuck);
        let found = self.reclaim_in_turn(find);
        drop(stuck);
        state.starved |= matches!(found, Ok(None));
        found
    }

    fn reclaim_in_turn<T>(&self, find: impl Fn() -> Option<T>) -> Result<Option<T>, HeapError> {
        let _short = self.reclaim_alone();
        // Maybe another thread has just reclaimed it.
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

    /// Makes free what the calling thread's last transaction had to leave, if it was refused, because it was pinned
    /// itself, or others were who were refused too. Whether there was any: then it is worth another attempt.
    #[cold]
    pub(crate) fn reclaim(&self) -> bool {
        if !self.session().state.borrow().was_starved {
            return false;
        }
        for round in 0..PATIENCE {
            // ORDER: none: when the number is late the attempt is one in vain.
            if self.shared.stuck.load(Ordering::Relaxed) == 0 {
                break;
            }
            self.medium().relax(round);
        }
        let _short = self.reclaim_alone();
        self.empty_caches() || self.waits_for_checkpoint()
    }

    /// Waits until no other thread reclaims: what it is about to make free is on no list meanwhile.
    fn reclaim_alone(&self) -> Short<'_, M> {
        for round in 0.. {
            if let Some(alone) = self.shared.reclaiming.try_lock() {
                // ORDER: none: see `Tx::fetch_blocks`.
                self.shared.is_short.store(true, Ordering::Relaxed);
                return Short { heap: self, _alone: alone };
            }
            self.medium().relax(round);
        }
        unreachable!("the loop ends with the lock")
    }

    /// Gives the free blocks of all threads to all, so that superblocks without a used block show, and gives back what
    /// they freed and no reader holds. Whether anything is free now that was not.
    fn empty_caches(&self) -> bool {
        let caches = self.shared.caches().clone();
        let mut any = false;
        for mut cache in ThreadCache::lock_all(&caches, |round| self.medium().relax(round)) {
            any |= self.shared.empty(&mut cache);
        }
        any | self.take_ripe()
    }

    /// Gives back what was freed, is covered by the checkpoint and held by no reader. Whether there was any.
    pub(crate) fn take_ripe(&self) -> bool {
        let oldest = self.shared.readers.oldest();
        // Locked until all is given back, for whoever looks for it next.
        let mut limbo = self.shared.limbo();
        let ripe = limbo.take_ripe(self.log.checkpointed(), oldest);
        for freed in &ripe {
            match *freed {
                Freed::Block(key, block) => self.shared.central.give_blocks(key, [block].into_iter()),
                Freed::Span(span) => self.shared.central.give_span(span),
            }
        }
        !ripe.is_empty()
    }

    /// Whether a checkpoint is all that keeps something freed from being free.
    fn waits_for_checkpoint(&self) -> bool {
        let oldest = self.shared.readers.oldest();
        self.shared.limbo().waits_for_checkpoint(self.log.checkpointed(), oldest)
    }

    /// Makes free chunks of the superblocks that have no block in use: by a record of its own, since they are
    /// nobody's, and a checkpoint, after which no record is left that could be replayed over them. Whether there were any.
    fn give_up_empty_superblocks(&self) -> Result<bool, HeapError> {
        let empty = self.shared.central.take_empty_superblocks(&self.space);
        // As many descriptors as fit a record with certainty.
        for part in empty.chunks(self.log.record_words_max() / 4) {
            let mut record = Record::new();
            for span in part {
                let at = self.space.descriptor_at(span.start).expect("spans lie in extents");
                record.push_word(at, Descriptor::Free.encode());
            }
            self.log.commit_apart(&mut record)?;
            self.log.checkpoint()?;
            for span in part {
                self.shared.central.give_span(*span);
            }
        }
        Ok(!empty.is_empty())
    }
}
