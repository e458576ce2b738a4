//! Short locks, whose waiters ask the medium how to wait.

use crate::Medium;
use crate::sync::{SpinMutex, SpinMutexGuard};

/// Takes a lock. Its holder may be in a drain, so a waiter spins, then yields, then sleeps, as the medium decides.
pub fn hold<'a, T, M: Medium>(lock: &'a SpinMutex<T>, medium: &M) -> SpinMutexGuard<'a, T> {
    let mut round = 0;
    loop {
        if let Some(guard) = lock.try_lock() {
            return guard;
        }
        medium.relax(round);
        round = round.saturating_add(1);
    }
}
