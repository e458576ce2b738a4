//! Transactions that return before they are durable: their tickets, and the thread that makes them durable.
//!
//! The thread starts with the first such transaction, and ends with the store. It sleeps while nothing waits. Tickets outlive
//! the store.

use crate::error::{Error, Result};
use lode_heap::{Heap, HeapError, LogPosition, OpenError, Pool, Watch};
use lode_pmem::Medium;
use lode_pool::PoolError;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::pin::Pin;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The promise that a transaction becomes durable, which [`Store::write_later`](crate::Store::write_later) returns.
///
/// It is also a future, which is ready when [`wait`](Ticket::wait) would return. A ticket that is dropped changes nothing.
/// One that is left when the store is closed or dropped has its answer: closing makes everything durable. It keeps neither
/// the store nor its file open.
#[must_use = "a ticket that is not needed is dropped by name, `let _ = ...` or `drop`"]
pub struct Ticket {
    /// `None` if the transaction was durable when it returned.
    waiting: Option<Waiting>,
}

/// A transaction that may not be durable yet.
struct Waiting {
    progress: Arc<Progress>,
    position: LogPosition,
    /// The key of this ticket's waker.
    waker: Option<u64>,
}

/// The state of the transactions that wait, as tickets and the thread share it.
struct Progress {
    path: PathBuf,
    /// The process that has the thread. In the child of a fork the state may be locked for ever.
    process: u32,
    watch: Watch,
    state: Mutex<State>,
    /// Told when there is something to do for the thread.
    work: Condvar,
    /// Told when tickets may have their answer.
    answered: Condvar,
    /// True if a transaction waits. The thread begins to count its time.
    has_work: AtomicBool,
    /// True if what waits is to be durable at once.
    is_urgent: AtomicBool,
}

#[derive(Default)]
struct State {
    failed: Option<HeapError>,
    is_stopping: bool,
    /// True once the thread has ended.
    is_over: bool,
    wakers: BTreeMap<u64, (LogPosition, Waker)>,
    next_waker: u64,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a flag, and wakes the thread if it was not set.
    fn tell(&self, flag: &AtomicBool) {
        // ORDER: releases the transaction that waits, to the thread that clears the flag before it looks.
        if !flag.swap(true, Ordering::AcqRel) {
            // Locked, so that the thread has looked at the flag before, or waits already.
            drop(self.lock());
            self.work.notify_one();
        }
    }

    /// Returns the answer for the transactions up to `position`; `None` while there is none.
    fn answer(&self, state: &State, position: LogPosition) -> Option<Result<()>> {
        if self.watch.is_durable(position) {
            return Some(Ok(()));
        }
        let error = state.failed.clone().or(state.is_over.then_some(HeapError::Poisoned))?;
        Some(Err(Error::from(error).at(&self.path)))
    }

    /// Returns the error of a ticket in the child of a fork.
    fn check_process(&self) -> Result<()> {
        if process::id() == self.process {
            return Ok(());
        }
        let error = PoolError::Forked { opener: self.process }.at(&self.path);
        Err(OpenError::Pool(error).into())
    }

    /// Makes durable what waits, until the store is closed. Does not keep the pool while it wakes tasks: one of them may
    /// have the last handle of the store, and close it.
    fn run<M: Medium>(&self, pool: &Weak<Pool<M>>, interval: Duration) {
        loop {
            let is_stopping = self.await_work(interval);
            match pool.upgrade() {
                Some(pool) => {
                    let done = self.make_durable(pool.heap());
                    drop(pool);
                    self.tell_tasks(done);
                }
                None => return,
            }
            if is_stopping {
                return;
            }
        }
    }

    /// Makes durable what waits, and notes an error. Returns the wakers of the tickets that have their answer.
    fn make_durable<M: Medium>(&self, heap: &Heap<M>) -> Vec<Waker> {
        let done = heap.make_durable(heap.log_position());
        let mut state = self.lock();
        state.failed = state.failed.take().or(done.err());
        self.take_answered(&mut state)
    }

    /// Tells threads and tasks that tickets have their answers. The caller has not locked the state.
    fn tell_tasks(&self, wakers: Vec<Waker>) {
        self.answered.notify_all();
        for waker in wakers {
            // A task that panics has printed why. The others, and the store, go on.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// Waits until a transaction has waited for the `interval`, or is urgent. Returns true if the store is being closed.
    fn await_work(&self, interval: Duration) -> bool {
        // ORDER: acquires the transactions of the threads that have set the flags.
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let is_urgent = |state: &State| state.is_stopping || is_set(&self.is_urgent);
        let idle = |state: &mut State| !is_urgent(state) && !is_set(&self.has_work);
        let state = self.work.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let patient = |state: &mut State| !is_urgent(state);
        let waited = self.work.wait_timeout_while(state, interval, patient);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for flag in [&self.has_work, &self.is_urgent] {
            // ORDER: as above; a transaction that returns from here on sets it again.
            flag.swap(false, Ordering::AcqRel);
        }
        state.is_stopping
    }

    fn take_answered(&self, state: &mut State) -> Vec<Waker> {
        let wakers = mem::take(&mut state.wakers);
        let (answered, left) =
            wakers.into_iter().partition(|(_, (position, _))| self.answer(state, *position).is_some());
        state.wakers = left;
        let answered: BTreeMap<u64, (LogPosition, Waker)> = answered;
        answered.into_values().map(|(_, waker)| waker).collect()
    }
}

/// Answers all tickets when the thread ends, also by a panic of its own.
struct EndGuard<'a>(&'a Progress);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_over = true;
        let wakers = self.0.take_answered(&mut state);
        drop(state);
        self.0.tell_tasks(wakers);
    }
}

/// The thread that makes transactions durable. Dropping it makes all of them durable, and ends it.
pub(crate) struct Flusher {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Flusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flusher").finish_non_exhaustive()
    }
}

impl Flusher {
    /// Starts the thread. Transactions that wait become durable after the `interval`, or sooner.
    pub(crate) fn start<M: Medium + 'static>(pool: &Arc<Pool<M>>, interval: Duration) -> io::Result<Flusher> {
        let progress = Arc::new(Progress {
            path: pool.path().to_owned(),
            process: process::id(),
            watch: pool.heap().watch(),
            state: Mutex::default(),
            work: Condvar::new(),
            answered: Condvar::new(),
            has_work: AtomicBool::new(false),
            is_urgent: AtomicBool::new(false),
        });
        let (pool, shared) = (Arc::downgrade(pool), Arc::clone(&progress));
        let run = move || {
            let _end = EndGuard(&shared);
            shared.run(&pool, interval);
        };
        let thread = thread::Builder::new().name("lode-later".to_owned()).spawn(run)?;
        Ok(Flusher { progress, thread: Some(thread) })
    }

    /// Makes everything durable, and ends the thread. If that is the calling one, a task that it has woken, it ends later:
    /// it does not have the pool meanwhile.
    pub(crate) fn end<M: Medium>(mut self, heap: &Heap<M>) {
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if self.progress.check_process().is_ok() && self.thread.as_ref().is_some_and(is_own) {
            self.thread = None;
            self.progress.tell_tasks(self.progress.make_durable(heap));
        }
    }

    /// Returns the ticket of a transaction that waits. `is_urgent`: much of the log waits.
    pub(crate) fn ticket(&self, position: LogPosition, is_urgent: bool) -> Ticket {
        self.progress.tell(&self.progress.has_work);
        if is_urgent {
            self.progress.tell(&self.progress.is_urgent);
        }
        let progress = Arc::clone(&self.progress);
        Ticket { waiting: Some(Waiting { progress, position, waker: None }) }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        if self.progress.check_process().is_err() {
            // The thread is the parent's.
            mem::forget(self.thread.take());
            return;
        }
        self.progress.lock().is_stopping = true;
        self.progress.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has printed why.
            let _ = thread.join();
        }
    }
}

impl Ticket {
    /// Returns the ticket of a transaction that is durable.
    pub(crate) fn durable() -> Ticket {
        Ticket { waiting: None }
    }

    /// Returns true if the transaction is durable, and so are all before it. After a failed sync it stays false, and so it does
    /// if memory that one of them changes is lost.
    pub fn is_durable(&self) -> bool {
        self.waiting.as_ref().is_none_or(|waiting| waiting.progress.watch.is_durable(waiting.position))
    }

    /// Waits until the transaction is durable. It becomes so at once, and not only after the
    /// [interval](crate::Options::later_interval).
    ///
    /// # Errors
    /// [`is_in_doubt`](Error::is_in_doubt) after a failed sync: the transaction may or may not be there when the store is
    /// opened again. [`is_poisoned`](Error::is_poisoned) if the thread of the store ended by a panic, which says as little of
    /// it. In the child of a fork an error that says so.
    ///
    /// # Durability
    /// Durable on return, as all transactions before it.
    ///
    /// # Cost
    /// None if it is durable. Otherwise a synced write, shared with others, by another thread.
    pub fn wait(&self) -> Result<()> {
        let Some(Waiting { progress, position, .. }) = &self.waiting else { return Ok(()) };
        if self.is_durable() {
            return Ok(());
        }
        progress.check_process()?;
        progress.tell(&progress.is_urgent);
        let mut state = progress.lock();
        loop {
            if let Some(answer) = progress.answer(&state, *position) {
                return answer;
            }
            state = progress.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("is_durable", &self.is_durable()).finish_non_exhaustive()
    }
}

impl Future for Ticket {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(Waiting { progress, position, waker }) = &mut self.waiting else {
            return Poll::Ready(Ok(()));
        };
        if let Err(error) = progress.check_process() {
            let is_durable = progress.watch.is_durable(*position);
            return Poll::Ready(if is_durable { Ok(()) } else { Err(error) });
        }
        // Wakers are cloned and dropped without the lock: their code may drop another ticket.
        let new = context.waker().clone();
        let replaced = {
            let mut state = progress.lock();
            if let Some(answer) = progress.answer(&state, *position) {
                drop(state);
                return Poll::Ready(answer);
            }
            let key = *waker.get_or_insert_with(|| {
                state.next_waker += 1;
                state.next_waker
            });
            state.wakers.insert(key, (*position, new))
        };
        drop(replaced);
        progress.tell(&progress.is_urgent);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(Waiting { progress, waker: Some(waker), .. }) = &self.waiting
            && progress.check_process().is_ok()
        {
            let dropped = progress.lock().wakers.remove(waker);
            // Without the lock: it may be the last handle of a task.
            drop(dropped);
        }
    }
}

#[cfg(test)]
mod test;
