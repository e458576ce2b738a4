//! Transactions that are no closures.

use crate::attempt::Outcome;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::later::LogPosition;
use crate::session::Session;
use crate::transaction::{AttemptEnd, Running};
use crate::tx::Tx;
use lode_pmem::{Fault, FaultScope, Medium};
use std::cell::Cell;
use std::fmt;
use std::mem;
use std::rc::Rc;

/// A transaction that the caller begins and commits, of one attempt. [`Heap::run`] is to be preferred: it starts again
/// after a conflict, and keeps shorter transactions from starving a long one.
///
/// It holds the locks of what it has changed until it is committed or dropped, and transactions of other threads that want
/// one of them start again until then. So the thread must not wait for such a thread meanwhile. At durability commit it
/// also holds the locks of what it has read, once it has waited for the sync of a transaction that it met.
///
/// Dropping it rolls it back. It belongs to the thread that began it; a call of [`Heap::run`] by this thread joins it.
/// One that is leaked, by [`mem::forget`], stays open, so that later transactions of the thread never commit.
pub struct OpenTransaction<'h, M: Medium> {
    heap: &'h Heap<M>,
    session: Rc<Session>,
    /// The first fault of a step.
    fault: Cell<Option<Fault>>,
    is_over: bool,
}

impl<M: Medium> fmt::Debug for OpenTransaction<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTransaction").finish_non_exhaustive()
    }
}

impl<M: Medium> Heap<M> {
    /// Begins a transaction on the calling thread. It sees all transactions that have returned.
    ///
    /// # Errors
    /// [`HeapError::InTransaction`] if the thread is in a transaction on this heap already. [`HeapError::Poisoned`] if the
    /// sync fails of transactions that [returned before theirs](Heap::run_later).
    ///
    /// # Cost
    /// None. A synced write, shared with other threads, if transactions have returned that wait for theirs.
    pub fn begin(&self) -> Result<OpenTransaction<'_, M>, HeapError> {
        let session = self.session();
        if session.is_active() {
            return Err(HeapError::InTransaction);
        }
        // It reads from memory, bitmaps that no lock guards included.
        if self.has_later() {
            self.make_durable(self.log_position()).map_err(|_| HeapError::Poisoned)?;
        }
        session.enter();
        // Its steps return before it commits, so they see nothing that may be lost.
        session.attempt().wait_for_pending();
        Ok(OpenTransaction { heap: self, session, fault: Cell::new(None), is_over: false })
    }
}

impl<'h, M: Medium> OpenTransaction<'h, M> {
    /// Returns the heap.
    pub fn heap(&self) -> &'h Heap<M> {
        self.heap
    }

    /// Runs a step of the transaction. After [`HeapError::Conflict`] the transaction can't commit.
    ///
    /// # Errors
    /// The error of `step`, or [`HeapError::Fault`].
    pub fn step<R, E: From<HeapError>>(&self, step: impl FnOnce(&Tx<'_, M>) -> Result<R, E>) -> Result<R, E> {
        let unfinished = Unfinished { session: &self.session };
        let scope = FaultScope::open();
        let result = step(&Tx::new(self.heap, &self.session, scope.memory(self.heap.memory())));
        let closed = scope.close();
        mem::forget(unfinished);
        if let Err(fault) = closed {
            self.fault.set(self.fault.get().or(Some(fault)));
            return Err(HeapError::Fault(fault).into());
        }
        result
    }

    /// Commits.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] if another transaction has changed what this one has read, or kept a lock that it needed.
    /// Nothing is changed then; the caller may begin again. Otherwise as [`Heap::run`].
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// That of [`Heap::run`].
    pub fn commit(mut self) -> Result<(), HeapError> {
        self.is_over = true;
        let fault = self.fault.get();
        let running = Running::resume(self.heap, &self.session);
        match running.end(FaultScope::open(), fault.is_none()) {
            AttemptEnd::Committed => Ok(()),
            AttemptEnd::RolledBack => Err(fault.map_or(HeapError::NestedFailed, HeapError::Fault)),
            AttemptEnd::Conflict { .. } => Err(HeapError::Conflict),
            AttemptEnd::Failed(error) => {
                // So that another attempt finds what pins of this one kept from use.
                self.heap.reclaim();
                Err(error)
            }
        }
    }
}

impl<M: Medium> OpenTransaction<'_, M> {
    /// Commits, and returns before the changes are durable, as [`Heap::run_later`] does.
    ///
    /// # Errors
    /// Those of [`commit`](OpenTransaction::commit).
    ///
    /// # Durability
    /// None on return; see [`Heap::run_later`].
    ///
    /// # Cost
    /// That of [`Heap::run_later`].
    pub fn commit_later(self) -> Result<LogPosition, HeapError> {
        let (heap, session) = (self.heap, Rc::clone(&self.session));
        let later = session.begin_later();
        self.commit()?;
        let position = LogPosition::new(later.waits_for());
        drop(later);
        heap.finish_written_back();
        Ok(position)
    }
}

impl<M: Medium> Drop for OpenTransaction<'_, M> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(Running::resume(self.heap, &self.session));
        }
    }
}

/// A step that has not ended. It is dropped when the step panics: a part of the step may then be done, so the drop keeps
/// the transaction from being committed.
struct Unfinished<'a> {
    session: &'a Session,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.session.attempt().escalate(Outcome::RollbackOnly);
    }
}
