//! A medium that can skip some of its operations, to measure what each costs.

use super::pool::Mapped;
use crate::clock::ticks;
use lode_layout::PoolOffset;
use lode_pmem::{Mapping, Medium, SyncError};
use std::sync::atomic::{AtomicU64, Ordering};

/// The operations that a [`Partial`] medium carries out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// True if records are written, and waited for.
    pub(super) log: bool,
    /// True if lines are flushed, and waited for.
    pub(super) flushes: bool,
    /// The treatment of stores in place.
    pub(super) home: HomeStores,
}

/// The treatment of stores in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeStores {
    /// Carried out.
    Done,
    /// Carried out, and timed, each on its own.
    Timed,
    /// Words are not stored. For transactions that read none of them again.
    LeftOut,
}

/// A medium that carries out only some operations. No store on it is durable. For one thread.
#[derive(Debug)]
pub(super) struct Partial {
    medium: Mapped,
    parts: Parts,
    /// Ticks of the stores in place, including the cost of timing them.
    home_ticks: AtomicU64,
    home_stores: AtomicU64,
    log_bytes: AtomicU64,
}

impl Partial {
    /// Wraps `medium` and carries out only the operations in `parts`.
    pub(super) fn new(medium: Mapped, parts: Parts) -> Partial {
        let (home_ticks, home_stores, log_bytes) = Default::default();
        Partial { medium, parts, home_ticks, home_stores, log_bytes }
    }

    /// Returns the ticks of all stores in place so far, excluding the cost of timing them.
    pub(super) fn home_ticks(&self) -> u64 {
        let timing = (0..1000).map(|_| ticks().abs_diff(ticks())).min().unwrap_or(0);
        read(&self.home_ticks).saturating_sub(read(&self.home_stores) * timing)
    }

    /// Returns the bytes of all records so far.
    pub(super) fn log_bytes(&self) -> u64 {
        read(&self.log_bytes)
    }

    #[inline]
    fn home<T>(&self, store: impl FnOnce(&Mapping) -> T) -> T {
        if self.parts.home != HomeStores::Timed {
            return store(&self.medium);
        }
        let began = ticks();
        let result = store(&self.medium);
        add(&self.home_ticks, ticks().wrapping_sub(began));
        add(&self.home_stores, 1);
        result
    }
}

/// Adds without a locked instruction, which would wait for the stores before it.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    // ORDER: one thread counts and reads.
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    // ORDER: as in `add`.
    counter.load(Ordering::Relaxed)
}

impl lode_pmem::Layer for Partial {
    type Inner = Mapping;

    #[inline]
    fn inner(&self) -> &Mapping {
        &self.medium
    }
    #[inline]
    fn store8(&self, at: PoolOffset, value: u64) {
        if self.parts.home != HomeStores::LeftOut {
            self.home(|medium| medium.store8(at, value));
        }
    }
    #[inline]
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.home(|medium| medium.store(at, bytes));
    }
    #[inline]
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.home(|medium| medium.compare_exchange8(at, current, new))
    }
    #[inline]
    fn flush(&self, at: PoolOffset, len: u64) {
        if self.parts.flushes {
            self.inner().flush(at, len);
        }
    }
    fn drain(&self) -> Result<(), SyncError> {
        if !self.parts.flushes {
            return Ok(());
        }
        // ORDER: the medium's own.
        self.inner().drain()
    }
    #[inline]
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        add(&self.log_bytes, bytes.len() as u64);
        if !self.parts.log {
            return Ok(());
        }
        self.inner().log_write(at, bytes)
    }
}
