//! Seeded bugs: each breaks a promise of the rung `commit`, and the power-cut test must find what it loses.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;

/// A log write returns when its bytes are on the disk for good, and not only in the page cache.
pub static LOG_WRITE_NOT_SYNCED: Bug = Bug::new("log-write-not-synced", "an acknowledged record is lost");
/// So does a drain.
pub static DRAIN_NOT_SYNCED: Bug =
    Bug::new("drain-not-synced", "home stores are lost with the log that had them");

/// Every bug of this crate.
pub static ALL: [&Bug; 2] = [&LOG_WRITE_NOT_SYNCED, &DRAIN_NOT_SYNCED];
