//! The frame of a call that is no call of a transaction: it tells a fork in a signal handler that it is under way.

use lode_capi_entry::{Failure, forget_refusal};
use std::cell::Cell;

thread_local! {
    /// True while the thread is in such a call.
    static IS_UNDER_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call as [`lode_capi_entry::guarded`] does.
pub(crate) fn guarded<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    under_way(|| lode_capi_entry::guarded(failed, call))
}

/// Runs a call as [`lode_capi_entry::guarded_briefly`] does.
#[inline]
pub(crate) fn guarded_briefly<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    under_way(|| lode_capi_entry::guarded_briefly(failed, call))
}

/// Returns true in a signal handler that has interrupted a call of the same thread.
pub(crate) fn is_under_way() -> bool {
    IS_UNDER_WAY.get()
}

/// Runs a call so that a fork in a signal handler finds it under way.
#[inline]
pub(crate) fn under_way<T>(call: impl FnOnce() -> T) -> T {
    let was_under_way = IS_UNDER_WAY.replace(true);
    let result = call();
    IS_UNDER_WAY.set(was_under_way);
    // The C library's memory has served, so the call has taken effect. A later one is not to fail for it.
    forget_refusal();
    result
}
