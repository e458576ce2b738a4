//! A medium whose user is killed.

use lode_layout::PoolOffset;
use lode_pmem::{Layer, Mapping, Medium as _, SyncError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A medium that panics before one of its stores.
#[derive(Debug)]
pub struct KilledMedium {
    inner: Arc<Mapping>,
    stores_left: AtomicU64,
    dirty_shutdowns: Option<u64>,
}

impl KilledMedium {
    /// Returns `inner` with so many stores left, on modules that count so many dirty shutdowns.
    pub fn on(inner: &Arc<Mapping>, stores: u64, dirty_shutdowns: Option<u64>) -> Arc<KilledMedium> {
        let stores_left = AtomicU64::new(stores);
        Arc::new(KilledMedium { inner: Arc::clone(inner), stores_left, dirty_shutdowns })
    }

    fn step(&self) {
        // ORDER: none is needed, since one thread stores.
        let left = self.stores_left.load(Ordering::Relaxed);
        // ORDER: as above.
        self.stores_left.store(left.saturating_sub(1), Ordering::Relaxed);
        assert!(left > 0, "killed");
    }
}

impl Layer for KilledMedium {
    type Inner = Mapping;

    fn inner(&self) -> &Mapping {
        &self.inner
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        self.step();
        self.inner().store8(at, value);
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.step();
        self.inner().store(at, bytes);
    }
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.step();
        self.inner().compare_exchange8(at, current, new)
    }
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.step();
        self.inner().copy(at, bytes);
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.step();
        self.inner().log_write(at, bytes)
    }
    fn dirty_shutdowns(&self) -> Option<u64> {
        self.dirty_shutdowns
    }
}
