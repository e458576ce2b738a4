//! The interface between engines and media.

use crate::{Durability, Event, Memory};
use lode_layout::PoolOffset;
use std::hint;
use std::io;
use std::thread;
use std::time::Duration;

/// A sync that the kernel refused. Data in flight is in an unknown state: it may be durable or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sync failed: {}", io::Error::from_raw_os_error(*.errno))]
pub struct SyncError {
    /// The error number of the system call.
    pub errno: i32,
}

/// Memory that keeps its stores across power loss once they are durable.
///
/// Loads are direct, through [`memory`](Medium::memory), whose address is fixed until close. Every store goes through
/// this trait: a real mapping executes it, the simulator records it. An access outside of the memory raises a
/// [`Fault`](crate::Fault) and changes nothing.
pub trait Medium: Send + Sync {
    /// Returns the mapped bytes, for loads.
    fn memory(&self) -> &Memory;

    /// Returns the durability: the event that makes a store durable on this medium.
    fn durability(&self) -> Durability;

    /// Returns the unit in bytes to which [`log_write`](Medium::log_write) pads. Two groups of records never share a
    /// unit.
    fn log_block(&self) -> u64;

    /// Stores an aligned word atomically. Visible on return, not durable; released to readers.
    fn store8(&self, at: PoolOffset, value: u64);

    /// Stores bytes through the cache. Visible on return, not durable. Aligned words inside are stored atomically.
    fn store(&self, at: PoolOffset, bytes: &[u8]);

    /// Replaces an aligned word if it is `current`. Visible on return, not durable.
    ///
    /// # Errors
    /// Returns the value found if it was not `current`.
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64>;

    /// Copies bytes past the cache. They need no flush and are durable after the next drain of this thread. Both ends
    /// are multiples of 8.
    fn copy(&self, at: PoolOffset, bytes: &[u8]);

    /// Starts the write-back of the lines that hold the range.
    fn flush(&self, at: PoolOffset, len: u64);

    /// Waits until all that this thread flushed and copied is durable. At durability `commit` it syncs the whole file.
    ///
    /// # Errors
    /// Fails at durability `commit` if the kernel reports an error of the sync. The kernel does so once, and its next sync passes
    /// over the pages that the failed one has lost. So all later drains and log writes of the medium fail with the first error,
    /// whichever thread makes them.
    fn drain(&self) -> Result<(), SyncError>;

    /// Writes log bytes and returns when they are durable. All that this thread flushed and copied before is durable,
    /// too, except at durability `commit`. `at` and the length are multiples of 64 and of
    /// [`log_block`](Medium::log_block).
    ///
    /// # Errors
    /// Fails if the kernel reports an error of the write or its sync, and after a failed sync, as [`drain`](Medium::drain).
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError>;

    /// Returns true if stores to one cache line through the cache become durable in the order in which they were made.
    /// Elsewhere a store that must come first needs a flush and a drain before the other one.
    fn keeps_order_in_lines(&self) -> bool {
        cfg!(target_arch = "x86_64")
    }

    /// Returns the sum of the modules' dirty shutdown counts at open: power losses with data in flight to the media.
    /// Returns `None` if there are no modules, or if any of them does not report its count.
    fn dirty_shutdowns(&self) -> Option<u64> {
        None
    }

    /// Waits briefly in a loop that waits for another thread; `round` is the number of rounds so far.
    fn relax(&self, round: u32) {
        match round {
            0..64 => hint::spin_loop(),
            64..128 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(20)),
        }
    }

    /// Blocks at `event` as long as `blocked` returns true.
    fn wait_while(&self, event: &Event, blocked: &mut dyn FnMut() -> bool) {
        event.wait_while(blocked);
    }
}
