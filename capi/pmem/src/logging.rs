//! The log of libpmem 2.1: thresholds, and the function that gets the messages.

use std::sync::atomic::{AtomicI32, Ordering};

/// Least severe level: PMEM_LOG_LEVEL_DEBUG. The most severe one, PMEM_LOG_LEVEL_HARK, is 0.
const LEVEL_MAX: i32 = 6;
/// PMEM_LOG_LEVEL_HARK: basic information about the library.
pub(crate) const HARK: i32 = 0;
/// PMEM_LOG_LEVEL_ERROR: the current operation fails.
pub(crate) const ERROR: i32 = 2;
const WARNING: i32 = 3;

/// The two thresholds: PMEM_LOG_THRESHOLD and PMEM_LOG_THRESHOLD_AUX.
static THRESHOLDS: [AtomicI32; 2] = [AtomicI32::new(WARNING), AtomicI32::new(HARK)];

/// Returns the threshold with this number; `None` if there is none.
pub(crate) fn threshold(number: i32) -> Option<i32> {
    // ORDER: a number of its own, which orders nothing.
    Some(THRESHOLDS.get(usize::try_from(number).ok()?)?.load(Ordering::Relaxed))
}

/// Sets the threshold with this number. Returns false if there is none, or no such level.
pub(crate) fn set_threshold(number: i32, level: i32) -> bool {
    let place = usize::try_from(number).ok().and_then(|number| THRESHOLDS.get(number));
    let Some(place) = place.filter(|_| (HARK..=LEVEL_MAX).contains(&level)) else { return false };
    // ORDER: a number of its own, which orders nothing.
    place.store(level, Ordering::Relaxed);
    true
}

/// Returns true if a message of this level gets to the log function.
pub(crate) fn passes(level: i32) -> bool {
    threshold(0).is_some_and(|threshold| level <= threshold)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn thresholds_take_known_levels_only() {
        assert_eq!((threshold(0), threshold(1), threshold(2), threshold(-1)), (Some(3), Some(0), None, None));
        assert!(!set_threshold(0, 7) && !set_threshold(0, -1) && !set_threshold(2, 1));
        assert!(passes(ERROR) && passes(HARK) && !passes(4));
        assert!(set_threshold(0, 1) && !passes(ERROR));
        assert_eq!(threshold(0), Some(1));
    }
}
