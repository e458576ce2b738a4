//! A medium that times what is asked of it.

use super::pool::Mapped;
use crate::clock::glance;
use lode_layout::PoolOffset;
use lode_pmem::{Gate, Medium, Memory, Rung, SyncError};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a call of a medium is part of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// Copying a record and waiting for it.
    Log,
    /// Stores at home.
    Home,
    /// Flushes of home and the drain behind them.
    Checkpoint,
}

/// Ticks and calls of one part, added up by one thread.
#[derive(Debug, Default)]
struct Sum {
    ticks: AtomicU64,
    calls: AtomicU64,
    bytes: AtomicU64,
}

/// A medium that times what is asked of it. For one thread.
#[derive(Debug)]
pub(super) struct Timed {
    medium: Mapped,
    /// Ticks that looking at the clock twice adds.
    glance_ticks: u64,
    sums: [Sum; 3],
}

/// What came together in one part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    /// Ticks of all calls.
    pub(super) ticks: u64,
    /// Bytes that they were given.
    pub(super) bytes: u64,
}

impl Timed {
    /// Times what is asked of `medium` from now on.
    pub(super) fn new(medium: Mapped) -> Timed {
        let differences = (0..1000).map(|_| glance().abs_diff(glance()));
        let glance_ticks = differences.min().unwrap_or(0);
        Timed { medium, glance_ticks, sums: Default::default() }
    }

    /// What one part took so far, without what timing it took.
    pub(super) fn spent(&self, part: Part) -> Spent {
        let sum = &self.sums[part as usize];
        let timing = read(&sum.calls) * self.glance_ticks;
        Spent { ticks: read(&sum.ticks).saturating_sub(timing), bytes: read(&sum.bytes) }
    }

    #[inline]
    fn time<T>(&self, part: Part, bytes: u64, call: impl FnOnce(&Mapped) -> T) -> T {
        let began = glance();
        let result = call(&self.medium);
        let ticks = glance().wrapping_sub(began);
        let sum = &self.sums[part as usize];
        add(&sum.ticks, ticks);
        add(&sum.calls, 1);
        add(&sum.bytes, bytes);
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

impl Medium for Timed {
    fn memory(&self) -> &Memory {
        self.medium.memory()
    }
    fn rung(&self) -> Rung {
        self.medium.rung()
    }
    fn log_block(&self) -> u64 {
        self.medium.log_block()
    }
    #[inline]
    fn store8(&self, at: PoolOffset, value: u64) {
        self.time(Part::Home, 8, |medium| medium.store8(at, value));
    }
    #[inline]
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.time(Part::Home, bytes.len() as u64, |medium| medium.store(at, bytes));
    }
    #[inline]
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.time(Part::Home, 8, |medium| medium.compare_exchange8(at, current, new))
    }
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.time(Part::Checkpoint, bytes.len() as u64, |medium| medium.copy(at, bytes));
    }
    #[inline]
    fn flush(&self, at: PoolOffset, len: u64) {
        self.time(Part::Checkpoint, len, |medium| medium.flush(at, len));
    }
    fn drain(&self) -> Result<(), SyncError> {
        // ORDER: the medium's own.
        self.time(Part::Checkpoint, 0, Medium::drain)
    }
    #[inline]
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.time(Part::Log, bytes.len() as u64, |medium| medium.log_write(at, bytes))
    }
    fn relax(&self, round: u32) {
        self.medium.relax(round);
    }
    fn wait_while(&self, gate: &Gate, blocked: &mut dyn FnMut() -> bool) {
        self.medium.wait_while(gate, blocked);
    }
}
