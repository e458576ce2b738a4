//! The state that a thread keeps for a heap between transactions: its cache of free blocks, and the buffers of its
//! attempts.

use crate::alloc::cache::ThreadCache;
use crate::alloc::shared::Shared;
use crate::attempt::Attempt;
use lode_pmem::sync::thread_local;
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// A thread's state for one heap.
pub(crate) struct Session {
    heap: u64,
    /// True while the thread is in a transaction.
    is_active: Cell<bool>,
    /// True while the thread's transaction may return before its sync.
    is_later: Cell<bool>,
    /// The sequence number up to which the last such transaction waits for a sync.
    waits_for: Cell<u64>,
    /// The running attempt. Between transactions it is empty and keeps its buffers.
    attempt: RefCell<Attempt>,
    cache: Arc<ThreadCache>,
    /// True if the last attempt, or the running one, found no space.
    starved: Cell<bool>,
    /// The part of the heap that takes the cache's blocks when the thread exits.
    shared: Weak<Shared>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.remove_cache(&self.cache);
        }
    }
}

thread_local! {
    static SESSIONS: RefCell<Vec<Rc<Session>>> = const { RefCell::new(Vec::new()) };
}

impl Session {
    /// Returns this thread's session for the heap number `heap`, whose shared part is `shared`.
    #[inline]
    pub(crate) fn of(heap: u64, shared: &Arc<Shared>) -> Rc<Session> {
        let known = SESSIONS.with(|sessions| {
            let sessions = sessions.borrow();
            sessions.iter().find(|session| session.heap == heap).map(Rc::clone)
        });
        known.unwrap_or_else(|| Session::begin(heap, shared))
    }

    #[cold]
    fn begin(heap: u64, shared: &Arc<Shared>) -> Rc<Session> {
        let session = Rc::new(Session {
            heap,
            is_active: Cell::new(false),
            is_later: Cell::new(false),
            waits_for: Cell::new(0),
            attempt: RefCell::new(Attempt::new()),
            cache: shared.add_cache(),
            starved: Cell::new(false),
            shared: Arc::downgrade(shared),
        });
        SESSIONS.with(|sessions| {
            let sessions = &mut *sessions.borrow_mut();
            // Closed heaps have no shared part any more.
            sessions.retain(|session| session.is_active() || session.shared.strong_count() > 0);
            sessions.push(Rc::clone(&session));
        });
        session
    }

    /// Ends this thread's session for the heap number `heap`, if it has one.
    pub(crate) fn end(heap: u64) {
        // A thread whose thread-local storage is gone has no session either.
        let _ = SESSIONS.try_with(|sessions| sessions.borrow_mut().retain(|session| session.heap != heap));
    }

    /// Returns true if the thread is in a transaction.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.get()
    }

    /// Lets the transactions that are begun while the result lives return before their sync.
    pub(crate) fn begin_later(&self) -> LaterGuard<'_> {
        self.is_later.set(true);
        self.waits_for.set(0);
        LaterGuard(self)
    }

    /// Returns true if the thread's transaction may return before its sync.
    #[inline]
    pub(crate) fn is_later(&self) -> bool {
        self.is_later.get()
    }

    /// Notes that the transaction, which returns, waits for the sync of the record `sequence`.
    pub(crate) fn note_waits_for(&self, sequence: u64) {
        self.waits_for.set(self.waits_for.get().max(sequence));
    }

    /// Begins an attempt.
    #[inline]
    pub(crate) fn enter(&self) {
        self.is_active.set(true);
        self.starved.set(false);
    }

    /// Ends the attempt, which was reset.
    #[inline]
    pub(crate) fn leave(&self) {
        self.is_active.set(false);
    }

    /// Returns the running attempt.
    #[inline]
    pub(crate) fn attempt(&self) -> RefMut<'_, Attempt> {
        self.attempt.borrow_mut()
    }

    /// Returns the thread's cache.
    #[inline]
    pub(crate) fn cache(&self) -> &ThreadCache {
        &self.cache
    }

    /// Returns the mark of an attempt that found no space.
    #[inline]
    pub(crate) fn starved(&self) -> &Cell<bool> {
        &self.starved
    }
}

/// The time in which a thread's transactions may return before their sync.
#[must_use = "it ends when this is dropped"]
pub(crate) struct LaterGuard<'a>(&'a Session);

impl LaterGuard<'_> {
    /// Returns the sequence number up to which the transaction waits for a sync; 0 if it does not.
    pub(crate) fn waits_for(&self) -> u64 {
        self.0.waits_for.get()
    }
}

impl Drop for LaterGuard<'_> {
    fn drop(&mut self) {
        self.0.is_later.set(false);
    }
}
