//! Panics as values.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

thread_local! {
    /// Place and message of the thread's last panic.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The panic that an attack raises on purpose, to examine the state after it.
#[derive(Debug)]
pub(crate) struct DeliberatePanic;

/// Keeps panics of this process off standard error and remembers their messages.
pub fn install_panic_hook() {
    panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        LAST.with(|last| *last.borrow_mut() = info.to_string());
    }));
}

/// Returns the result of `run`, or the text of its panic.
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        let said = LAST.with(RefCell::take);
        if said.is_empty() { "a panic".to_owned() } else { said }
    })
}

/// Returns the result of `run`, or `None` if it panicked on purpose. Any other panic goes on.
pub(crate) fn catch_deliberate<T>(run: impl FnOnce() -> T) -> Option<T> {
    match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<DeliberatePanic>() => None,
        Err(payload) => panic::resume_unwind(payload),
    }
}
