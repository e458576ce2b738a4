//! A log whose writes wait at a gate: transactions that wait for their sync as long as a test wants.

use crate::memory;
use lode_layout::PoolOffset;
use lode_pmem::{Durability, Layer, Mapping, Medium, SyncError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// A log whose writes wait at a gate.
#[derive(Debug)]
pub struct GatedLog {
    inner: Arc<Mapping>,
    is_shut: Mutex<bool>,
    moved: Condvar,
    /// Log writes that wait at the gate.
    waiting: AtomicU64,
    /// Log writes that have begun.
    begun: AtomicU64,
    /// True if each takes a millisecond.
    is_slow: AtomicBool,
}

impl GatedLog {
    /// Returns a log at durability commit with an open gate, over `len` bytes of memory.
    pub fn new(len: u64) -> GatedLog {
        GatedLog {
            inner: memory::volatile(len),
            is_shut: Mutex::new(false),
            moved: Condvar::new(),
            waiting: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Returns the number of log writes that have begun.
    pub fn log_writes(&self) -> u64 {
        // ORDER: as in `log_write`.
        self.begun.load(Ordering::Relaxed)
    }

    /// Makes each log write take a millisecond, as on a disk.
    pub fn slow_down(&self) {
        // ORDER: as in `log_write`.
        self.is_slow.store(true, Ordering::Relaxed);
    }

    /// Makes log writes wait, or lets them go on.
    pub fn shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.moved.notify_all();
    }

    /// Returns when a log write waits at the gate.
    pub fn await_write(&self) {
        // ORDER: as in `log_write`.
        while self.waiting.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
    }
}

impl Layer for GatedLog {
    type Inner = Arc<Mapping>;

    fn inner(&self) -> &Arc<Mapping> {
        &self.inner
    }
    fn durability(&self) -> Durability {
        Durability::Commit
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        // ORDER: none: counts and a flag that tests look at.
        self.begun.fetch_add(1, Ordering::Relaxed);
        // ORDER: as above.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        drop(self.moved.wait_while(self.is_shut.lock().unwrap(), |is_shut| *is_shut).unwrap());
        // ORDER: as above.
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        // ORDER: as above.
        if self.is_slow.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        Medium::log_write(&self.inner, at, bytes)
    }
}
