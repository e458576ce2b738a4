//! The settings of a pool: numbers that its program sets and gets.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering};

/// The settings of a pool that only programs read. Each orders nothing.
#[derive(Debug)]
pub(crate) struct PoolSettings {
    pub(crate) skip_expensive_checks: AtomicI32,
    pub(crate) verify_user_buffers: AtomicI32,
    pub(crate) alloc_pattern: AtomicI32,
    pub(crate) stats_enabled: AtomicI32,
    pub(crate) cache_size: AtomicI64,
    /// The most arenas; 0 for the heap's own limit.
    pub(crate) arenas_max: AtomicU32,
}

impl PoolSettings {
    /// Returns PMDK's values.
    pub(crate) fn new() -> PoolSettings {
        PoolSettings {
            skip_expensive_checks: AtomicI32::new(0),
            verify_user_buffers: AtomicI32::new(0),
            alloc_pattern: AtomicI32::new(-1),
            stats_enabled: AtomicI32::new(0),
            cache_size: AtomicI64::new(32768),
            arenas_max: AtomicU32::new(0),
        }
    }

    /// Sets all to the values of other settings.
    pub(crate) fn copy(&self, from: &PoolSettings) {
        for (to, from) in self.integers().into_iter().zip(from.integers()) {
            // ORDER: numbers of their own, which order nothing.
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        // ORDER: as above.
        self.cache_size.store(from.cache_size.load(Ordering::Relaxed), Ordering::Relaxed);
        // ORDER: as above.
        self.arenas_max.store(from.arenas_max.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn integers(&self) -> [&AtomicI32; 4] {
        [&self.skip_expensive_checks, &self.verify_user_buffers, &self.alloc_pattern, &self.stats_enabled]
    }

    /// Returns true if memory is to be in one log at a time.
    pub(crate) fn verifies_buffers(&self) -> bool {
        // ORDER: a number of its own, which orders nothing.
        self.verify_user_buffers.load(Ordering::Relaxed) != 0
    }

    /// Returns the byte that fills new objects, the lowest one of the setting; `None` for a negative one.
    pub(crate) fn alloc_pattern(&self) -> Option<u8> {
        // ORDER: a number of its own, which orders nothing.
        let pattern = self.alloc_pattern.load(Ordering::Relaxed);
        (pattern >= 0).then_some(pattern as u8)
    }
}
