//! The arenas with which pools begin: settings of the process, which change no open pool.

use lode_obj::FirstArenas;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// POBJ_ARENAS_ASSIGNMENT_GLOBAL of the headers.
const GLOBAL: c_int = 1;

/// POBJ_ARENAS_ASSIGNMENT_* of the headers.
static ASSIGNMENT_TYPE: AtomicI32 = AtomicI32::new(0);
/// Number of arenas; 0 for the number of CPUs.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns the POBJ_ARENAS_ASSIGNMENT_* of pools that are opened later.
pub(crate) fn assignment_type() -> c_int {
    // ORDER: a number of its own, which orders nothing.
    ASSIGNMENT_TYPE.load(Ordering::Relaxed)
}

/// Sets the POBJ_ARENAS_ASSIGNMENT_* of pools that are opened later.
pub(crate) fn set_assignment_type(new: c_int) {
    // ORDER: as above.
    ASSIGNMENT_TYPE.store(new, Ordering::Relaxed);
}

/// Sets the number of arenas of pools that are opened later, 0 for the number of CPUs.
pub(crate) fn set_count(new: u32) {
    // ORDER: as above.
    COUNT.store(new, Ordering::Relaxed);
}

/// Returns the arenas of pools that are opened later.
pub(crate) fn first_arenas() -> FirstArenas {
    let by_cpus = FirstArenas::default();
    // ORDER: as above.
    let count = match COUNT.load(Ordering::Relaxed) {
        0 => by_cpus.count,
        count => count,
    };
    FirstArenas { count, is_shared: assignment_type() == GLOBAL }
}
