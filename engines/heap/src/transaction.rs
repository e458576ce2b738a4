//! A transaction from its closure to its end, phase by phase.
//!
//! ```text
//!   Running      the closure takes locks and space; its changes gather in a record    panic: rolled back
//!      | validate: what the closure has read still holds, if it has changed anything
//!      | decide: commit, roll back, or run the closure again
//!   Committing   write: the record becomes durable, and its write-backs follow         panic: in doubt
//!      |         (at durability commit its locks are handed on before that; see `commit_hooks.rs`)
//!      |         publish: new superblocks to all threads, freed space to limbo
//!   release      locks are open again, and the attempt is over
//! ```
//!
//! Locks are taken by the closure, and reads under them are validated as they are taken. Other reads are validated
//! with all locks held; see [`read_set`](crate::read_set). Writing the record and its write-backs is one call of the
//! log, which holds a lane during both.

use crate::attempt::{Attempt, CommitParts, Outcome, Words};
use crate::commit_hooks::HeapHooks;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::later::{LogPosition, NotedEnd};
use crate::session::Session;
use crate::snapshot::KeepReplaced;
use crate::tx::Tx;
use crate::writes::spill::commit_spilled;
use lode_pmem::{Fault, FaultScope, Medium};
use lode_redo::bugs;
use std::mem;

/// Highest waiting round that a transaction passes to [`Medium::relax`] before it starts again.
const BACKOFF_ROUNDS_MAX: u32 = 256;

/// Conflicts after which a transaction becomes the senior, whose reads take locks; see [`read_set`](crate::read_set).
const CONFLICTS_MAX: u32 = 8;

/// Conflicts of the senior after which its transaction ends with an error. Other transactions cause a few at most: they
/// are locked out of what the senior waits for.
const SENIOR_CONFLICTS_MAX: u32 = 10_000;

/// Maximum number of retries of a transaction that found no space, if its end may have made some free.
const RETRIES: u32 = 2;

impl<M: Medium> Heap<M> {
    /// Runs `closure` as a transaction. All its changes are durable when this returns `Ok`. Nothing is changed when
    /// this returns an error or panics. A call inside of another closure on the same heap joins that transaction.
    ///
    /// Bytes that the memory can't deliver read as zeros. The transaction then fails with [`HeapError::Fault`],
    /// whatever the closure returns.
    ///
    /// Transactions are serializable: the result is that of some order of them, one after the other. This holds for
    /// what they read by [`Tx::read8`], the typed interface, and what is built on [`Tx::note_read`]. While the closure
    /// runs it sees the pool as it was at one moment. [`Tx::load8`] and [`Tx::read`] are not validated.
    ///
    /// A closure that meets a lock of another transaction is started again, and so is one whose reads another
    /// transaction has changed. One that was started again often locks out what it conflicts with, so shorter ones do
    /// not starve it. A closure that finds no space is started again, if its end makes some free. Its effects outside
    /// of the heap must therefore bear repetition.
    ///
    /// # Errors
    /// The closure's error, or a [`HeapError`]. [`HeapError::TooLarge`] whatever the closure returns: it may have seen only
    /// a part of what it stored. Only [`HeapError::InDoubt`] leaves the outcome of the transaction open. Space that such a
    /// transaction has allocated is left alone until the pool is opened again.
    /// [`HeapError::NeverValid`] after some ten thousand conflicts that are the closure's own.
    ///
    /// # Durability
    /// Durable on return of the outermost call, and so is all that the closure has read. At durability commit it may have
    /// read changes of transactions that were waiting for their sync. If that fails, this returns an error, also if the
    /// closure has changed nothing.
    ///
    /// # Cost
    /// One drain; none if nothing was changed. A transaction whose record is longer than the log takes, a quarter of a
    /// ring, has a second one if it made superblocks or huge objects, and at durability commit. Until it returns, its
    /// log takes at most 72 bytes for each line of older objects that it changed in whole words, 24 for each run of other
    /// bytes in a word, and 32 for each word of bitmaps, of free chunks, which are free again after the next checkpoint. It also takes about 90 bytes of private memory for
    /// each such line. The time grows with the number of changes.
    #[inline]
    pub fn run<R, E: From<HeapError>>(
        &self,
        closure: impl FnMut(&Tx<'_, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        let session = self.session();
        if session.is_active() { self.join(&session, closure) } else { self.run_as(&session, closure) }
    }

    /// Runs `closure` as a transaction of the calling thread, whose session this is, and which is in none.
    #[inline]
    pub(crate) fn run_as<R, E: From<HeapError>>(
        &self,
        session: &Session,
        mut closure: impl FnMut(&Tx<'_, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        let (mut retries, mut conflicts, mut senior_conflicts) = (0, 0, 0);
        // What has returned is seen, also where no lock leads to it.
        let mut sees_pending = self.has_later();
        for round in 0.. {
            // Takes the transaction's faults. A transaction on another heap whose closure runs this one keeps its own.
            let scope = FaultScope::open();
            let running = Running::begin(self, session);
            let is_senior = (round > 0 || sees_pending) && self.begin_again(session, conflicts, sees_pending);
            let result = closure(&Tx::new(self, session, scope.memory(self.memory())));
            // The closure's value stays in place until the end is known: a copy after the fence would have to wait
            // for all write-backs.
            match running.end(scope, result.is_ok()) {
                // Pins of this closure, and closures of other threads, may have kept freed space from being used
                // again.
                AttemptEnd::RolledBack
                | AttemptEnd::Failed(
                    HeapError::OutOfSpace { .. } | HeapError::CannotGrow { .. } | HeapError::TooLarge { .. },
                ) if retries < RETRIES && self.reclaim() => {
                    retries += 1;
                }
                AttemptEnd::Committed | AttemptEnd::RolledBack => return result,
                AttemptEnd::Failed(error) => return Err(error.into()),
                AttemptEnd::Conflict { wants_pending: true, .. } => sees_pending = true,
                AttemptEnd::Conflict { is_inversion, .. } => {
                    conflicts += 1;
                    senior_conflicts += u32::from(is_senior);
                    if senior_conflicts >= SENIOR_CONFLICTS_MAX {
                        return Err(HeapError::NeverValid { restarts: conflicts }.into());
                    }
                    // A waiter polls rarely, so back off long enough for it to see the lock free.
                    let rounds =
                        if is_inversion { BACKOFF_ROUNDS_MAX } else { round.min(BACKOFF_ROUNDS_MAX) };
                    self.medium().relax(rounds);
                }
            }
        }
        unreachable!("the loop ends with a result")
    }

    /// Runs `closure` as [`run`](Heap::run) does, and returns before its changes are durable, with their place in the log.
    /// Later transactions see them at once. Readers outside of transactions see them when they are durable, and so do
    /// snapshots. They become durable with the next transaction that waits for its sync, with
    /// [`make_durable`](Heap::make_durable), and at a checkpoint. At other durabilities than commit they are durable on
    /// return, as those of `run`: the one drain is all that there is to wait for.
    ///
    /// It waits all the same if it makes or frees huge objects, changes more than 64 KiB or no word under a lock, or if
    /// more of the log waits than [`set_waiting_max`](Heap::set_waiting_max) allows.
    ///
    /// # Errors
    /// Those of [`run`](Heap::run). [`HeapError::InTransaction`] inside of a transaction on this heap.
    ///
    /// # Durability
    /// None on return. After a crash the heap has all transactions up to some place in the log, and no other. If the sync
    /// fails, [`make_durable`](Heap::make_durable) says so. An error of the closure is returned when what it has read is
    /// durable.
    ///
    /// # Cost
    /// No drain, but for a checkpoint when half of the log is full. Private memory for the changed lines until they are
    /// durable: some 100 bytes each, and the record.
    pub fn run_later<R, E: From<HeapError>>(
        &self,
        closure: impl FnMut(&Tx<'_, M>) -> Result<R, E>,
    ) -> Result<(R, LogPosition), E> {
        let session = self.session();
        if session.is_active() {
            return Err(HeapError::InTransaction.into());
        }
        let later = session.begin_later();
        let result = self.run(closure)?;
        let position = LogPosition::new(later.waits_for());
        drop(later);
        self.finish_written_back();
        Ok((result, position))
    }

    /// Prepares an attempt that sees pending words, or is not the first one. Returns true if it is the senior's.
    #[cold]
    fn begin_again(&self, session: &Session, conflicts: u32, sees_pending: bool) -> bool {
        let attempt = &mut *session.attempt();
        let is_senior = conflicts >= CONFLICTS_MAX && self.locks().begin_senior();
        if is_senior {
            attempt.set_senior();
        }
        if let Some(words) = self.pending().filter(|_| sees_pending) {
            attempt.see_pending(words);
        }
        is_senior
    }

    /// Returns the end of an attempt that has seen a word of the transaction `sequence`, when that is durable and written
    /// back; at once if the transaction may return before its sync.
    #[cold]
    fn await_seen(&self, session: &Session, sequence: u64, end: AttemptEnd) -> AttemptEnd {
        if session.is_later() && matches!(end, AttemptEnd::Committed) {
            session.note_waits_for(sequence);
            return end;
        }
        if matches!(end, AttemptEnd::Conflict { .. }) || bugs::RETURNS_BEFORE_WHAT_IT_READ.is_active() {
            return end;
        }
        match (self.log().wait_written_back(sequence), end) {
            // An error of its own, which may say that the outcome is open, stays.
            (Ok(()), end) | (Err(_), end @ AttemptEnd::Failed(_)) => end,
            (Err(error), _) => AttemptEnd::Failed(error.into()),
        }
    }

    /// Runs `closure` as a part of the transaction in which the calling thread is.
    pub(crate) fn join<R, E: From<HeapError>>(
        &self,
        session: &Session,
        mut closure: impl FnMut(&Tx<'_, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        let joined = Joined { session };
        let result = self.memory().reading_in_scope(|memory| closure(&Tx::new(self, session, memory)));
        if result.is_ok() {
            mem::forget(joined);
        }
        result
    }
}

/// A closure inside of another one's transaction. It is dropped when the closure fails or panics. A part of the
/// closure may then be done, so the drop keeps the transaction from being committed.
struct Joined<'a> {
    session: &'a Session,
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.session.attempt().escalate(Outcome::RollbackOnly);
    }
}

/// The end of an attempt.
pub(crate) enum AttemptEnd {
    Committed,
    /// The closure returned an error.
    RolledBack,
    /// The transaction can't commit, or its commit returned an error.
    Failed(HeapError),
    /// The closure is to be started again, see [`Outcome::Conflict`].
    Conflict {
        is_inversion: bool,
        /// True if it is to see pending words then.
        wants_pending: bool,
    },
}

/// The first phase: the closure runs. A panic of the closure drops this, which rolls the transaction back.
pub(crate) struct Running<'a, M: Medium> {
    heap: &'a Heap<M>,
    session: &'a Session,
}

impl<'a, M: Medium> Running<'a, M> {
    #[inline]
    fn begin(heap: &'a Heap<M>, session: &'a Session) -> Running<'a, M> {
        session.enter();
        Running::resume(heap, session)
    }

    /// Returns the phase of the attempt that the session has begun.
    #[inline]
    pub(crate) fn resume(heap: &'a Heap<M>, session: &'a Session) -> Running<'a, M> {
        Running { heap, session }
    }

    /// Commits if the closure was `successful` and nothing else is against it, and rolls back if not.
    #[inline]
    pub(crate) fn end(self, scope: FaultScope, successful: bool) -> AttemptEnd {
        let Running { heap, session } = self;
        let attempt = &mut *session.attempt();
        let mut end = self.decide(attempt.outcome(), scope.fault(), successful);
        if end.is_none() && attempt.has_reads_to_validate() && !bugs::READS_NOT_VALIDATED.is_active() {
            // ORDER: before the record gets its number, so that a transaction whose reads do not hold needs none. It may not have
            // seen what later ones change, and a snapshot of one of them makes it start again.
            let _ = heap.validate_reads(attempt, scope.memory(heap.memory()));
            end = self.decide(attempt.outcome(), scope.fault(), successful);
        }
        let seen = if attempt.sees_memory() { 0 } else { attempt.writes().seen_pending() };
        let wants_pending = attempt.wants_pending();
        let end = match end {
            None => {
                let committing = Committing { heap, session, scope: &scope, attempt, noted: None };
                mem::forget(self);
                match committing.commit() {
                    Ok(()) => {
                        scope.close_faultless();
                        AttemptEnd::Committed
                    }
                    Err(HeapError::Conflict) => {
                        let _ = scope.close();
                        AttemptEnd::Conflict { is_inversion: false, wants_pending: false }
                    }
                    Err(error) => {
                        // The error reports the fault.
                        let _ = scope.close();
                        AttemptEnd::Failed(error)
                    }
                }
            }
            Some(end) => {
                attempt.space_and_writes().0.roll_back(heap.allocator(session));
                release(heap, session, attempt, Words::Unchanged);
                mem::forget(self);
                // The next attempt reads again, and an error reports the fault.
                let _ = scope.close();
                match end {
                    AttemptEnd::Conflict { is_inversion, .. } => {
                        AttemptEnd::Conflict { is_inversion, wants_pending }
                    }
                    end => end,
                }
            }
        };
        if seen > 0 { heap.await_seen(session, seen, end) } else { end }
    }

    /// Decides how the attempt ends; `None` if it commits. The first row that fits decides.
    #[inline]
    fn decide(&self, outcome: Outcome, fault: Option<Fault>, successful: bool) -> Option<AttemptEnd> {
        match (outcome, fault, successful) {
            (Outcome::Conflict { is_inversion }, ..) => {
                Some(AttemptEnd::Conflict { is_inversion, wants_pending: false })
            }
            // The closure's result follows from zeros.
            (_, Some(fault), _) => Some(AttemptEnd::Failed(fault.into())),
            // The closure may have seen only a part of what it stored.
            (Outcome::TooLarge { wanted, limit }, ..) => {
                let error = HeapError::TooLarge { wanted, limit };
                Some(AttemptEnd::Failed(self.heap.check_writable().err().unwrap_or(error)))
            }
            (_, _, false) => Some(AttemptEnd::RolledBack),
            (Outcome::RollbackOnly, ..) => Some(AttemptEnd::Failed(HeapError::NestedFailed)),
            (Outcome::Running, ..) => None,
        }
    }
}

impl<M: Medium> Drop for Running<'_, M> {
    fn drop(&mut self) {
        let attempt = &mut *self.session.attempt();
        attempt.space_and_writes().0.roll_back(self.heap.allocator(self.session));
        release(self.heap, self.session, attempt, Words::Unchanged);
    }
}

/// The phases that follow a closure whose changes are to become durable. A panic drops this: the record may be durable,
/// so the transaction is in doubt.
struct Committing<'a, 's, M: Medium> {
    heap: &'a Heap<M>,
    session: &'a Session,
    scope: &'s FaultScope,
    attempt: &'s mut Attempt,
    /// The last steps, if the transaction returns before its sync.
    noted: Option<NotedEnd>,
}

impl<M: Medium> Committing<'_, '_, M> {
    /// Runs all phases. Does not copy the result of a success: a copy after the fence would wait for all write-backs.
    #[inline]
    fn commit(mut self) -> Result<(), HeapError> {
        let written = self.write();
        let words = match &written {
            Ok(Some(sequence)) => {
                match self.noted.take() {
                    Some(noted) => self.leave(noted),
                    None => self.publish(*sequence),
                }
                Words::Changed(self.heap.number_of(*sequence))
            }
            Ok(None) => Words::Unchanged,
            Err(error) => {
                self.abort(error);
                // Only a record that may be durable changes words.
                if matches!(error, HeapError::InDoubt(_)) { self.heap.in_doubt() } else { Words::Unchanged }
            }
        };
        release(self.heap, self.session, self.attempt, words);
        let heap = self.heap;
        mem::forget(self);
        heap.limit_snapshots();
        written.map(drop)
    }

    /// Makes the record durable, and then writes its entries back. Returns its number; `None` if nothing was
    /// changed.
    #[inline]
    fn write(&mut self) -> Result<Option<u64>, HeapError> {
        if self.attempt.is_clean() {
            return Ok(None);
        }
        if bugs::EARLY_LOCK_RELEASE.is_active() {
            self.attempt.unlock(self.heap.locks(), Words::Changed(self.heap.last_commit()));
        }
        let log = self.heap.log();
        let allocator = self.heap.allocator(self.session);
        let memory = self.scope.memory(self.heap.memory());
        let CommitParts { held, space, writes, reads } = self.attempt.commit_parts();
        let is_short = writes.fits_in_record(log.record_words_max() as u64, 0);
        let keep = KeepReplaced::new(self.heap, memory, space);
        let is_later = self.session.is_later();
        let mut hooks = HeapHooks::new(self.heap, keep, space, held, reads, is_short, is_later);
        let sequence = if is_short {
            writes.push_payload_checksums();
            log.commit_in(self.scope, writes.record(), &[], &mut hooks)?
        } else {
            commit_spilled(allocator, self.scope, writes, &mut hooks)?
        };
        self.noted = hooks.into_noted();
        // A snapshot may see what replaced the reads since they were validated.
        Ok(Some(sequence.ok_or(HeapError::Conflict)?))
    }

    /// Lets other threads have the space that the transaction, now durable as `sequence`, made or freed.
    #[inline]
    fn publish(&mut self, sequence: u64) {
        let (space, _) = self.attempt.space_and_writes();
        space.publish(self.heap.allocator(self.session), sequence);
    }

    /// Leaves the last steps of the transaction to the thread that finds it written back.
    #[cold]
    fn leave(&mut self, mut noted: NotedEnd) {
        let (space, _) = self.attempt.space_and_writes();
        space.publish_taken(self.heap.allocator(self.session));
        noted.freed = space.take_freed();
        self.session.note_waits_for(noted.sequence);
        self.heap.later().push(noted);
    }

    /// Gives up the transaction, whose commit failed.
    #[cold]
    fn abort(&mut self, error: &HeapError) {
        let allocator = self.heap.allocator(self.session);
        let (space, _) = self.attempt.space_and_writes();
        match error {
            // The transaction may be there after reopening, so no other one gets the space that it had taken.
            HeapError::InDoubt(_) => {}
            _ => space.roll_back(allocator),
        }
    }
}

impl<M: Medium> Drop for Committing<'_, '_, M> {
    fn drop(&mut self) {
        // The record may be durable: no transaction gets the space that this one has taken, and no record follows.
        self.heap.log().fail();
        release(self.heap, self.session, self.attempt, self.heap.in_doubt());
    }
}

/// Runs the last phase: releases the locks of the attempt and ends the thread's transaction. The attempt's space is
/// published or given back by then.
#[inline]
fn release<M: Medium>(heap: &Heap<M>, session: &Session, attempt: &mut Attempt, words: Words) {
    attempt.unlock(heap.locks(), words);
    attempt.reset(heap.locks(), heap.shared().readers());
    session.leave();
}
