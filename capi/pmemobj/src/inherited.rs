//! Pools that a child of a fork has from its parent, and takes over when that is gone.
//!
//! The child has the mapping at the same address, so the program's handle stays. The engine is a copy from the moment of the fork, in
//! which other threads may have been in the middle of anything: it is left as it is, and never dropped. A new engine recovers the
//! pool as the next open would: it rolls the parent's open transactions back.

use crate::calls::under_way;
use crate::owner::Holder;
use crate::pool::OpenPool;
use crate::pools;
use crate::process_name::ProcessName;
use lode_capi_entry::{Table, errno, set_errno, uncancelled};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Milliseconds for which a process waits in all, when it would change a pool, for an owner that runs: that of a daemon is about to end.
const PATIENCE_MS: u32 = 200;
/// The same, while the owner is ending: the kernel takes some time for the pages of a large pool.
const PATIENCE_WITH_END_MS: u32 = 10_000;

/// Held by the thread of this process that takes a pool over.
static TAKING_OVER: Table<()> = Table::new(());

/// Milliseconds for which this process has waited.
static WAITED_MS: AtomicU32 = AtomicU32::new(0);

/// The purpose for which a call needs a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It changes the pool by the engine. It waits a moment for an owner that may be about to end.
    Change,
    /// It uses the engine.
    Engine,
    /// It makes stores durable. For a pool that its owner has closed, a flush in place is enough.
    Stores,
}

/// Returns the pool with this handle, for a call with this purpose. A child of a fork takes the pool over if its owner has closed it, or is
/// gone; otherwise it gets the pool as it was at the fork.
///
/// # Safety
/// Nothing closes the pool while the reference is in use.
///
/// # Cost
/// In a child a system call or some, while the owner is there, and the wait of a change; once, the recovery of the pool.
#[inline]
pub(crate) unsafe fn pool_at<'a>(handle: usize, purpose: Purpose) -> Option<&'a OpenPool> {
    // SAFETY: - the caller's promise.
    let pool = unsafe { pools::found(handle) }?;
    if pool.is_own() {
        return Some(pool);
    }
    take_over(handle, purpose);
    // SAFETY: - as above.
    unsafe { pools::found(handle) }
}

#[cold]
fn take_over(handle: usize, purpose: Purpose) {
    let before = errno();
    let wait = || {
        // A signal handler that has interrupted the same finds the pool as it was.
        while let Some(Some(owner)) = TAKING_OVER.with(|()| take_over_alone(handle, purpose)) {
            if purpose != Purpose::Change || !may_wait(owner) {
                return;
            }
            sleep(Duration::from_millis(1));
        }
    };
    under_way(|| uncancelled(wait));
    set_errno(before);
}

/// Counts a millisecond. Returns false if this process has waited long enough.
fn may_wait(owner: ProcessName) -> bool {
    // ORDER: a count of its own.
    let waited = WAITED_MS.load(Ordering::Relaxed);
    let may_wait = waited < PATIENCE_MS || (waited < PATIENCE_WITH_END_MS && owner.is_ending());
    if may_wait {
        // ORDER: as above.
        WAITED_MS.store(waited + 1, Ordering::Relaxed);
    }
    may_wait
}

/// Takes the pool over if that is possible. Returns its owner if another process is.
fn take_over_alone(handle: usize, purpose: Purpose) -> Option<ProcessName> {
    // SAFETY: - the program closes no pool that it passes to a call.
    let pool = unsafe { pools::found(handle) }?;
    if pool.is_own() || pool.has_refused() {
        return None;
    }
    let holder = pool.owner.holder();
    match holder {
        Holder::Present(name) => return Some(name),
        Holder::Closed if purpose == Purpose::Stores => return None,
        Holder::Closed | Holder::Gone(_) => {}
    }
    if !pool.owner.take(holder) {
        return None;
    }
    // SAFETY: - the table leads to the new pool, and the old one is never dropped.
    match unsafe { pool.taken_over() } {
        Ok(new) => pools::replace(handle, Box::new(new)),
        Err(failure) => {
            // Another child may have a mapping of the whole pool.
            pool.owner.release();
            pool.refuse(failure);
        }
    }
    None
}

/// Waits until no pool is being taken over, so that a child finds the lock free.
pub(crate) fn before_fork() {
    TAKING_OVER.before_fork();
}

/// Releases the lock, in the parent and in the child.
pub(crate) fn after_fork() {
    TAKING_OVER.after_fork();
}

/// Lets a child wait anew.
pub(crate) fn begin_child() {
    // ORDER: the child has one thread.
    WAITED_MS.store(0, Ordering::Relaxed);
}
