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

    /// Returns the byte that fills new objects; `None` for none.
    pub(crate) fn alloc_pattern(&self) -> Option<u8> {
        // ORDER: a number of its own, which orders nothing.
        u8::try_from(self.alloc_pattern.load(Ordering::Relaxed)).ok()
    }
}
