//! Transactions that are closures.

use crate::changes::Changes;
use crate::error::Error;
use crate::tree_pool::TreePool;
use lode_heap::HeapError;
use std::cell::Cell;
use std::result::Result;

/// The state in which the last run of a closure left its transaction. A run replaces that of the one before.
#[derive(Debug, Default)]
pub(crate) struct LastRun {
    has_dropped: Cell<bool>,
    was_full: Cell<bool>,
}

/// The error of a transaction that is a closure.
pub(crate) enum Failure<E> {
    Closure(E),
    Heap(HeapError),
}

impl<E> From<HeapError> for Failure<E> {
    fn from(error: HeapError) -> Failure<E> {
        Failure::Heap(error)
    }
}

impl LastRun {
    /// Ends a run of a closure that returned `result`, and makes the changes that it deferred.
    pub(crate) fn end<R, E: From<Error>>(
        &self,
        changes: &Changes<'_>,
        result: Result<R, E>,
    ) -> Result<R, Failure<E>> {
        let result = result.and_then(|result| Ok(changes.apply_deferred().map(|()| result)?));
        self.has_dropped.set(changes.has_dropped());
        self.was_full.set(changes.was_full());
        result.map_err(Failure::Closure)
    }
}

/// Runs a transaction on `pool` by `run`. Runs it again if it found no space, and dropped trees then gave some back.
pub(crate) fn run_closure<R, E: From<Error>>(
    pool: &dyn TreePool,
    mut run: impl FnMut(&LastRun) -> Result<R, Failure<E>>,
) -> Result<R, E> {
    let last = LastRun::default();
    let mut result = run(&last);
    let is_full = matches!(&result, Err(Failure::Heap(error)) if error.is_out_of_space());
    // Dropped trees of an earlier process count, too.
    if (is_full || result.is_err() && last.was_full.get())
        && pool.reclaimer().reclaim(usize::MAX, || pool.trees())
    {
        result = run(&last);
    }
    let result = result.map_err(|failure| match failure {
        Failure::Closure(error) => error,
        Failure::Heap(error) => pool.located(error).into(),
    });
    if result.is_ok() {
        pool.reclaimer().after_commit(last.has_dropped.get(), || pool.trees());
    }
    result
}
