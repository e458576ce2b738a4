//! The end of the process in the middle of a migration.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of conversions up to the one at which the process aborts; 0 for none.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Lets the process abort at the conversion with this number, from 1.
pub(crate) fn abort_at(number: Option<u64>) {
    // ORDER: none: one thread migrates.
    LEFT.store(number.unwrap_or(0), Ordering::Relaxed);
}

/// Counts a conversion, or aborts at it.
pub(crate) fn count_conversion() {
    // ORDER: none: one thread migrates.
    match LEFT.load(Ordering::Relaxed) {
        0 => {}
        1 => process::abort(),
        left => LEFT.store(left - 1, Ordering::Relaxed),
    }
}
