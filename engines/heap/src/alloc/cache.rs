//! A thread's cache: its free blocks and the ones that it freed last, within reach of a thread that finds no space.
//!
//! The lock is biased to the thread, which takes it with a plain store and a plain load for each of its operations,
//! and never while a closure runs. A thread that reclaims takes the locks of all caches. It waits for no closure
//! either. Blocks that a transaction has taken or freed are the transaction's until it is over, and in no cache.
//!
//! A thread that has locked a cache may lock `Central` and the shared limbo, and never another cache.

use super::limbo::Limbo;
use super::magazine::Magazines;
use lode_pmem::biased::{Bias, Biased, BiasedGuard, Owner};
use lode_pmem::sync::asymmetric;
use std::sync::Arc;

/// The content of a cache.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) magazines: Magazines,
    pub(crate) limbo: Limbo,
}

/// The cache of one thread for one heap.
#[derive(Debug)]
pub(crate) struct ThreadCache(Biased<Cache>);

impl ThreadCache {
    pub(crate) fn new() -> ThreadCache {
        ThreadCache(Biased::new(Cache::default()))
    }

    /// Locks the cache. Only its own thread calls this.
    ///
    /// # Cost
    /// A store, two loads, and a store at the end, unless another thread reclaimed since the last time.
    #[inline]
    pub(crate) fn lock(&self, wait: impl FnMut(u32)) -> BiasedGuard<'_, Cache> {
        match self.0.enter() {
            Some(hold) => hold,
            None => self.lock_contended(wait),
        }
    }

    #[cold]
    fn lock_contended(&self, mut wait: impl FnMut(u32)) -> BiasedGuard<'_, Cache> {
        for round in 0.. {
            if let Some(mut hold) = self.0.try_lock() {
                if asymmetric::is_available() {
                    hold.bias(Bias::To(Owner::current()));
                }
                return hold;
            }
            wait(round);
        }
        unreachable!("the loop ends with the lock")
    }

    /// Locks all of `caches`. The calling thread has locked none of them.
    pub(crate) fn lock_all(
        caches: &[Arc<ThreadCache>],
        wait: impl FnMut(u32),
    ) -> Vec<BiasedGuard<'_, Cache>> {
        Biased::lock_all(caches.iter().map(|cache| &cache.0), wait)
    }
}
