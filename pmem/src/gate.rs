//! A gate: where threads wait for a condition that another thread brings about.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A place to wait. The condition itself lives elsewhere, in atomics; the gate only wakes.
///
/// Wait through [`Medium::wait_while`](crate::Medium::wait_while), so that the simulator can run its logical
/// threads through the same code.
#[derive(Debug, Default)]
pub struct Gate {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    /// A gate that nobody waits at.
    pub const fn new() -> Gate {
        Gate { lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// Wakes all who wait. Call it after the condition has changed.
    pub fn open(&self) {
        drop(self.enter());
        self.changed.notify_all();
    }

    /// Blocks the calling thread while `blocked` says so; it is asked again after each [`open`](Gate::open).
    pub fn wait_while(&self, blocked: &mut dyn FnMut() -> bool) {
        let mut inside = self.enter();
        while blocked() {
            inside = self.changed.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn enter(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
