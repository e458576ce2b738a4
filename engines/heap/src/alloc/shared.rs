//! The part of a heap that outlives its threads and is in DRAM only.

use super::cache::{Cache, ThreadCache};
use super::central::{BlockOrSpan, Central};
use super::evacuation::Evacuation;
use super::limbo::{Limbo, SharedLimbo};
use crate::error::{GrowthRefusal, HeapError};
use crate::growth::Growth;
use crate::later::LaterCommits;
use crate::readers::Readers;
use crate::snapshot::{OpenList, Snapshots};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, SpinMutex, pause};
use std::sync::{Arc, OnceLock, PoisonError};

/// The free space that all threads share, the caches of all threads, and the readers and snapshots that keep freed
/// space from use.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) central: Central,
    limbo: Mutex<SharedLimbo>,
    readers: Readers,
    snapshots: Snapshots,
    later: LaterCommits,
    /// The caches of all threads that have one.
    caches: Mutex<Vec<Arc<ThreadCache>>>,
    /// Held by the thread that reclaims. Threads only try it, and never block on it.
    pub(super) reclaiming: SpinMutex<()>,
    /// True while a thread reclaims because there is no space. Threads then fetch no more blocks than they need at
    /// once.
    pub(super) is_scarce: AtomicBool,
    /// Threads that wait inside of a transaction until they can reclaim. Their pins keep freed space from use.
    pub(super) reclaim_waiters: AtomicUsize,
    /// Makes the pool larger when there is no space. Without it the pool does not grow by itself.
    pub(super) growth: OnceLock<Box<dyn Growth>>,
    /// The reason why the last growth failed.
    pub(super) refusal: Mutex<Option<GrowthRefusal>>,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        let limbo = Mutex::new(SharedLimbo::default());
        let (central, readers, reclaiming) = (Central::default(), Readers::new(), SpinMutex::new(()));
        let (snapshots, later) = (Snapshots::new(), LaterCommits::new());
        let (caches, is_scarce, reclaim_waiters) =
            (Mutex::new(Vec::new()), AtomicBool::new(false), AtomicUsize::new(0));
        let (growth, refusal) = (OnceLock::new(), Mutex::new(None));
        Shared {
            central,
            limbo,
            readers,
            snapshots,
            later,
            caches,
            reclaiming,
            is_scarce,
            reclaim_waiters,
            growth,
            refusal,
        }
    }

    /// Hands out no free space of an evacuation any more, see [`Central::evacuate`].
    pub(crate) fn evacuate(&self, evacuation: Evacuation) {
        self.central.evacuate(evacuation);
    }

    /// Returns true if the space at `at` is evacuated.
    pub(crate) fn is_evacuated(&self, at: PoolOffset) -> bool {
        self.central.is_evacuated(at)
    }

    /// Makes the pool grow by `growth` when there is no space. Later calls change nothing.
    pub(crate) fn set_growth(&self, growth: Box<dyn Growth>) {
        let _ = self.growth.set(growth);
    }

    /// Returns the error of a transaction that finds no room for `wanted` bytes.
    pub(crate) fn out_of_space(&self, wanted: u64) -> HeapError {
        match *self.refusal() {
            Some(refusal) => HeapError::CannotGrow { wanted, refusal },
            None => HeapError::OutOfSpace { wanted },
        }
    }

    pub(super) fn refusal(&self) -> MutexGuard<'_, Option<GrowthRefusal>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the readers that keep freed space from use.
    #[inline]
    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Returns the open snapshots.
    #[inline]
    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Returns the transactions that returned before their sync.
    #[inline]
    pub(crate) fn later(&self) -> &LaterCommits {
        &self.later
    }

    /// Locks the list of open snapshots. A thread that opens one may hold it until all lanes were held, so the
    /// caller holds no lane.
    pub(crate) fn open_snapshots(&self, medium: &impl Medium) -> OpenList<'_> {
        for round in 0.. {
            if let Some(list) = self.snapshots.try_lock(&self.readers) {
                return list;
            }
            medium.relax(round);
        }
        unreachable!("the loop ends with the list")
    }

    /// Takes back space that no thread uses.
    pub(crate) fn release(&self, place: BlockOrSpan) {
        self.central.release(place);
    }

    /// Makes a cache for the calling thread.
    pub(crate) fn add_cache(&self) -> Arc<ThreadCache> {
        let cache = Arc::new(ThreadCache::new());
        self.caches().push(Arc::clone(&cache));
        cache
    }

    /// Takes all blocks of the cache, whose thread exits.
    pub(crate) fn remove_cache(&self, cache: &Arc<ThreadCache>) {
        for mut cache in ThreadCache::lock_all(std::slice::from_ref(cache), pause) {
            self.empty(&mut cache);
        }
        self.caches().retain(|other| !Arc::ptr_eq(other, cache));
    }

    /// Moves all blocks of a cache to where all threads can take them. Freed ones wait there until no reader can hold
    /// them. Returns true if there were free blocks.
    pub(super) fn empty(&self, cache: &mut Cache) -> bool {
        let mut any = false;
        for (key, blocks) in cache.magazines.take_all() {
            any |= !blocks.is_empty();
            self.central.release_blocks(key, blocks.into_iter());
        }
        self.share(&mut cache.limbo);
        any
    }

    /// Moves the blocks that a thread has freed to the shared limbo. They wait there until no reader can hold them.
    fn share(&self, limbo: &mut Limbo) {
        let (young, (old_epoch, old)) = (limbo.take_young(), limbo.take_old());
        // The young ones were freed before this call; more is not known of them.
        let young_epoch = if young.is_empty() { 0 } else { self.readers.advance() };
        if young.is_empty() && old.is_empty() {
            return;
        }
        let mut waiting = self.limbo();
        for (epoch, blocks) in [(old_epoch, old), (young_epoch, young)] {
            // Sequence 0: small blocks do not wait for a checkpoint.
            blocks
                .into_iter()
                .for_each(|(key, block)| waiting.retire(0, epoch, BlockOrSpan::Block(key, block).into()));
        }
    }

    pub(crate) fn limbo(&self) -> MutexGuard<'_, SharedLimbo> {
        self.limbo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn caches(&self) -> MutexGuard<'_, Vec<Arc<ThreadCache>>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
