//! A flag that ends other threads.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, also by a panic: the threads that wait for the flag end then, too.
pub(crate) struct AtEnd<'f>(pub(crate) &'f AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
