//! Seeded bugs: each breaks a promise of durability `commit`, and the power-cut test must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;

/// Breaks this promise: a log write returns only when its bytes are on the disk, not just in the page cache.
pub static LOG_WRITE_NOT_SYNCED: Bug = Bug::new("log-write-not-synced", "an acknowledged record is lost");
/// Breaks the same promise of a drain.
pub static DRAIN_NOT_SYNCED: Bug =
    Bug::new("drain-not-synced", "write-backs are lost with the log that had them");

/// Every bug of this crate.
pub static ALL: [&Bug; 2] = [&LOG_WRITE_NOT_SYNCED, &DRAIN_NOT_SYNCED];
