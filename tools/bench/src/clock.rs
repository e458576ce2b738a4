//! Time: the counter of the CPU, read so that nothing timed moves past it, and the clock of the kernel.

use serde::{Deserialize, Serialize};
use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::time::{Duration, Instant};

/// Operations and duration of one lap, or bytes in place of its duration.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lap {
    /// Operations done.
    pub(crate) ops: u64,
    /// Ticks of the time-stamp counter, all operations together.
    pub(crate) cycles: u64,
    /// Nanoseconds, all operations together.
    pub(crate) ns: u64,
    /// Bytes, all operations together, where these count.
    #[serde(default)]
    pub(crate) bytes: u64,
}

/// The time-stamp counter, after all that came before has finished, before anything that follows begins.
pub(crate) fn ticks() -> u64 {
    // SAFETY: - every x86-64 CPU has SSE2.
    unsafe { _mm_lfence() };
    // SAFETY: - every x86-64 CPU has the counter.
    let now = unsafe { _rdtsc() };
    // SAFETY: - every x86-64 CPU has SSE2.
    unsafe { _mm_lfence() };
    now
}

/// Times `ops` operations done by `work`.
pub(crate) fn lap<T>(ops: u64, work: impl FnOnce() -> T) -> (Lap, T) {
    let began = Instant::now();
    let first = ticks();
    let result = work();
    let cycles = ticks().wrapping_sub(first);
    let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    (Lap { ops, cycles, ns, bytes: 0 }, result)
}

/// Ticks of the time-stamp counter in a second, against the kernel's clock.
pub(crate) fn ticks_per_second() -> f64 {
    let (lap, ()) = lap(1, || std::thread::sleep(Duration::from_millis(100)));
    lap.cycles as f64 * 1e9 / lap.ns as f64
}
