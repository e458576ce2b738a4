//! The generation of a process: a child of a fork has another one than its parent.

use std::os::unix::process::parent_id;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The parent of this process when it was forked; 0 if the library was loaded after that.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// Returns the generation of this process.
#[inline]
pub(crate) fn generation() -> u32 {
    // ORDER: it changes in a child that has one thread.
    GENERATION.load(Ordering::Relaxed)
}

/// Returns the parent of this process when it was forked; 0 if the library was loaded after that.
pub(crate) fn parent() -> u32 {
    // ORDER: as in `generation`.
    PARENT.load(Ordering::Relaxed)
}

/// Notes that this process is a child, which has one thread.
pub(crate) fn begin() {
    // ORDER: as above.
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // ORDER: as above.
    PARENT.store(parent_id(), Ordering::Relaxed);
}
