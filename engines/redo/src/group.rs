//! Group commit: one synced write of the log for all waiting transactions, on media where the sync is the main cost.
//!
//! All transactions share one ring. Each appends its record to the open batch. The first that finds no batch being
//! written writes the open one, and then writes its records back, in their order. Transactions that come meanwhile
//! gather in the next batch.
//!
//! If write-backs are deferred, a record is stored in the ring when it is appended, and the end of the process leaves it
//! there. A drain then makes the batch durable. The two kinds of batches differ in their place:
//!
//! | a batch is       | its first record lies                                                             |
//! |------------------|-----------------------------------------------------------------------------------|
//! | written at once  | at the block after the batch before it                                            |
//! | stored meanwhile | there, or right after the batch before it if that was not durable at the time     |
//!
//! A batch of the second kind comes around the end of the ring only if all before it is durable.

use crate::apply::{ContinuedRange, apply_all};
use crate::batch::{Batch, BatchRecord, WaitingRecords};
use crate::bugs;
use crate::error::{InDoubtCause, LogError};
use crate::hooks::{AppendedRecord, CommitHooks};
use crate::written_back::WrittenBack;
use lode_layout::{ChecksumSeed, PoolOffset, RECORD_HEADER_WORDS, Record, WORD, align_up};
use lode_pmem::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, SpinMutex};
use lode_pmem::{Event, Fault, FaultScope, Medium, Readable, SyncError, checksum, hold};
use rustix::io::Errno;
use std::mem;
use std::sync::{Arc, PoisonError};
use zerocopy::IntoBytes;

/// Times that a thread yields the CPU, for each record that it expects.
const GATHER_ROUNDS: usize = 2;
/// A round of waiting in which [`Medium::relax`] yields the CPU.
const YIELDING_ROUND: u32 = 64;

/// Bytes of durable records without padding after them from which on a checkpoint is due: without either, recovery would take a
/// damaged one for torn.
const UNPROVEN_MAX: u64 = 64 << 10;

/// Bytes of a ring up to whose multiple a batch is filled with zeros where the ring may never have been written. The first write to a
/// block that is only allocated changes the file system's own records, and one such change takes as long for all of these bytes as for a
/// block.
const FILL_MAX: u64 = 256 << 10;
/// The same at the start of the ring, for programs that commit little.
const FILL_MIN: u64 = 16 << 10;

#[derive(Debug)]
struct State {
    /// Offset of the ring in the pool. It changes while no batch is open or being written, as the length.
    ring: PoolOffset,
    /// Length of the ring in bytes.
    ring_len: u64,
    open: Batch,
    /// The batch before it, until it is written back, or its sync has failed.
    closed: Option<Arc<Batch>>,
    /// True while the closed batch is being written back.
    is_writing_back: bool,
    /// Records for which threads waited at the end of the last batch: those of that batch, and those that were in the next one already.
    expected: usize,
    /// Position up to which the ring is durable and written back, counted as that of a batch.
    written_to: u64,
    /// Position after the last padding, or of the last checkpoint. Recovery can't tell a damaged record after it from a torn one.
    proven_to: u64,
    failed: Option<SyncError>,
    /// Position up to which batches have written the blocks of the ring since the open, if they may never have been written before. `None` after
    /// the first lap.
    filled_to: Option<u64>,
    /// Records whose write-backs met lost memory. The log accepts no more records then.
    faults: Vec<(u64, Fault)>,
    /// Buffer of a written batch, for reuse.
    spare: Vec<u64>,
    /// Durable batches that the next checkpoint writes back, in their order, if write-backs are deferred.
    deferred: Vec<Arc<Batch>>,
}

impl State {
    /// Returns the number of the batch with the record, which is not written back.
    fn batch_of(&self, sequence: u64) -> u64 {
        let closed =
            self.closed.as_deref().filter(|closed| closed.last().is_some_and(|last| sequence <= last));
        closed.unwrap_or(&self.open).number
    }

    /// Adds zeros to a batch that is the first to lie in its part of the ring.
    fn fill_after(&mut self, batch: &mut Batch) {
        let Some(filled_to) = self.filled_to else { return };
        if batch.end() >= self.ring_len {
            self.filled_to = None;
        } else if batch.end() > filled_to {
            // Nothing lies ahead in the first lap.
            let fill = filled_to.next_power_of_two().clamp(FILL_MIN, FILL_MAX);
            batch.pad_to(align_up(batch.end(), fill).min(self.ring_len));
            self.filled_to = Some(batch.end());
        }
    }
}

/// A record that was appended to a batch and is not ready to be written back. It is ready when this is dropped.
#[derive(Debug)]
#[must_use = "the record is ready when this is dropped"]
pub(crate) struct Appended<'a> {
    unready: &'a AtomicU64,
    pub(crate) record: AppendedRecord,
}

impl Drop for Appended<'_> {
    fn drop(&mut self) {
        // ORDER: releases what the thread did before its record may be written back.
        self.unready.fetch_sub(1, Ordering::Release);
    }
}

/// A record that has no place in the log yet.
pub(crate) struct NewRecord<'r, H> {
    pub(crate) record: &'r mut Record,
    /// The ranges outside of the ring that hold more of its entries.
    pub(crate) continued: &'r [ContinuedRange],
    pub(crate) hooks: &'r mut H,
    /// Bytes of the ring that it must leave.
    pub(crate) reserved: u64,
}

/// The outcome of an append.
pub(crate) enum Append<T> {
    Done(T),
    /// The ring has no room for it.
    NoRoom,
    /// The hooks have given up the commit.
    GivenUp,
}

/// A record that was appended, with its place.
struct Placed<'a, 'r> {
    appended: Appended<'a>,
    /// Its offset in the pool.
    at: PoolOffset,
    words: &'r [u64],
}

/// The one ring of a log at durability commit.
#[derive(Debug)]
pub(crate) struct Group {
    checksum_seed: ChecksumSeed,
    state: Mutex<State>,
    written_back: Arc<WrittenBack>,
    /// Records that are not ready to be written back: those of batches with even numbers, and with odd ones. Two batches at
    /// most have such records, the open one and the one before it.
    unready: [AtomicU64; 2],
    /// True while a thread gathers, writes or writes back a batch. Changes under the lock of the state.
    writing: AtomicBool,
    /// The threads that wait for a batch with an even number, and with an odd one.
    written: [Event; 2],
    /// True if checkpoints write records back, records are stored when they are appended, and a drain makes a batch durable.
    is_deferring: bool,
    /// Held while a record is appended and stored, so that records are stored in the order of their numbers.
    storing: SpinMutex<()>,
}

impl Group {
    /// Makes a group whose first record follows the record `last`.
    pub(crate) fn new(ring: PoolOffset, ring_len: u64, checksum_seed: ChecksumSeed, last: u64) -> Group {
        let open = Batch::default();
        let state = State {
            ring,
            ring_len,
            open,
            closed: None,
            is_writing_back: false,
            expected: 0,
            written_to: 0,
            proven_to: 0,
            failed: None,
            filled_to: None,
            faults: Vec::new(),
            spare: Vec::new(),
            deferred: Vec::new(),
        };
        Group {
            checksum_seed,
            state: Mutex::new(state),
            written_back: Arc::new(WrittenBack::new(last)),
            unready: [AtomicU64::new(0), AtomicU64::new(0)],
            writing: AtomicBool::new(false),
            written: [Event::new(), Event::new()],
            is_deferring: false,
            storing: SpinMutex::new(()),
        }
    }

    /// Leaves write-backs to checkpoints from now on.
    pub(crate) fn defer_write_backs(&mut self) {
        self.is_deferring = true;
    }

    /// Takes the ring for one whose blocks may never have been written, though the file system has allocated them.
    pub(crate) fn fill_ahead(&self) {
        self.lock_state().filled_to = Some(0);
    }

    /// Returns true if checkpoints write records back.
    pub(crate) fn is_deferring(&self) -> bool {
        self.is_deferring
    }

    /// Moves the empty ring to `ring`, and returns the position of the next record. The caller holds all lanes, so no
    /// batch is open or being written.
    pub(crate) fn relocate(&self, ring: PoolOffset, ring_len: u64) -> u64 {
        let mut state = self.lock_state();
        debug_assert!(state.open.words.is_empty(), "no transaction is in its commit");
        let start = state.open.start.next_multiple_of(ring_len);
        (state.ring, state.ring_len, state.open.start) = (ring, ring_len, start);
        (state.written_to, state.proven_to) = (start, start);
        // The blocks of another place were written before.
        state.filled_to = None;
        start
    }

    /// Returns the bytes appended since the log epoch began, padding included.
    pub(crate) fn head<M: Medium>(&self, medium: &M) -> u64 {
        let state = self.lock_state();
        align_up(state.open.end(), medium.log_block())
    }

    /// Returns the bytes appended, as [`head`](Group::head) does, for a checkpoint that holds all lanes.
    pub(crate) fn checkpoint_head<M: Medium>(&self, medium: &M) -> u64 {
        let mut state = self.lock_state();
        state.proven_to = align_up(state.open.end(), medium.log_block());
        state.proven_to
    }

    /// Returns true if so many durable records have no padding after them that a checkpoint is due.
    pub(crate) fn needs_proof(&self) -> bool {
        let is_unproven = |state: &State| state.written_to.saturating_sub(state.proven_to) > UNPROVEN_MAX;
        self.is_deferring && is_unproven(&self.lock_state())
    }

    /// Assigns a sequence number to a record, adds its checksum and appends it to the open batch. It is written back when the
    /// result was dropped. The record is to lie above `tail`. A fault that `scope` has counts as one of the record. The caller
    /// waits for the record, unless it [returns early](AppendedRecord::returns_early).
    pub(crate) fn append<M: Medium>(
        &self,
        scope: &FaultScope,
        medium: &M,
        new: NewRecord<'_, impl CommitHooks>,
        next: &AtomicU64,
        tail: u64,
    ) -> Result<Append<Appended<'_>>, LogError> {
        // ORDER: a record is stored before the next one gets its number. Stop here: the end of the process leaves all records
        // but this one, and its commit has not returned.
        let _in_order = self.is_deferring.then(|| hold(&self.storing, medium));
        let Placed { appended, at, words } = match self.append_to_batch(scope, medium, new, next, tail)? {
            Append::Done(placed) => placed,
            Append::NoRoom => return Ok(Append::NoRoom),
            Append::GivenUp => return Ok(Append::GivenUp),
        };
        if self.is_deferring && !bugs::RECORD_STORED_AT_SYNC.is_active() {
            medium.copy(at, words.as_bytes());
            if scope.has_fault() {
                // Recovery takes no record after one that is missing, so none may follow: the caller fails the log too late.
                self.fail_state(SyncError { errno: Errno::IO.raw_os_error() });
            }
        }
        Ok(Append::Done(appended))
    }

    /// Appends a record to the open batch, as [`append`](Group::append) does, and stores nothing.
    fn append_to_batch<'r, M: Medium>(
        &self,
        scope: &FaultScope,
        medium: &M,
        NewRecord { record, continued, hooks, reserved }: NewRecord<'r, impl CommitHooks>,
        next: &AtomicU64,
        tail: u64,
    ) -> Result<Append<Placed<'_, 'r>>, LogError> {
        let (waiting_max, replaced) = (hooks.waiting_max(record.body()), hooks.replaced(record.body()));
        let mut state = self.lock_state();
        // A record that met lost memory stays in the log, so none may follow that would make the log go on without it.
        if state.failed.is_some() || !state.faults.is_empty() {
            return Err(LogError::Poisoned);
        }
        // ORDER: with the lock held, as `between_write_backs` does: what that has left is seen, or it sees the record. No number
        // is drawn meanwhile.
        let first = state.open.records.first().map(|first| first.sequence);
        let closed = first.unwrap_or_else(|| next.load(Ordering::Relaxed)) - 1;
        if !hooks.admits(closed) {
            return Ok(Append::GivenUp);
        }
        let (block, ring_len) = (medium.log_block(), state.ring_len);
        let len_max = hooks.padded_len_max(record) as u64 * WORD;
        let at = state.open.end();
        // A batch that fills the ring exactly continues at its start, too: bytes after the ring are not the log's.
        let is_at_end = !state.open.words.is_empty() && at.is_multiple_of(ring_len);
        let wraps = is_at_end || align_up(at % ring_len + len_max, block) > ring_len;
        // A record at the start of the ring is taken as one that follows a durable batch, as after padding.
        let is_unproven =
            self.is_deferring && !bugs::WRAPPED_BEFORE_DRAIN.is_active() && at != state.written_to;
        if is_unproven && (wraps || at.is_multiple_of(ring_len)) {
            return Ok(Append::NoRoom);
        }
        let end = align_up(if wraps { at.next_multiple_of(ring_len) } else { at } + len_max, block);
        if end + reserved - tail > ring_len || (wraps && state.open.wrap.is_some()) {
            return Ok(Append::NoRoom);
        }
        if wraps {
            let padded = (at.next_multiple_of(ring_len) - state.open.start) / 8;
            state.open.words.resize(padded as usize, 0);
            state.open.wrap = Some(state.open.words.len());
        }
        let at = state.open.end();
        let validated_at = hooks.validated_at();
        // ORDER: assigned and appended under one lock, so the order of records in the log is that of their numbers.
        let sequence = next.fetch_add(1, Ordering::SeqCst);
        // A number without a record ends the log: it stays failed if a hook panics, or meets lost memory.
        let was_faultless = !scope.has_fault();
        state.failed = Some(SyncError { errno: Errno::IO.raw_os_error() });
        hooks.compose(record);
        if was_faultless && scope.has_fault() {
            self.written_back.end();
            return Err(LogError::Poisoned);
        }
        state.failed = None;
        let len = record.padded_len() as u64 * WORD;
        debug_assert!(len <= len_max && at % ring_len + len <= ring_len, "a record does not wrap");
        let first = state.open.words.len() + RECORD_HEADER_WORDS;
        let body = first..first + record.body().len();
        let words = record.finish(self.checksum_seed, sequence, at % ring_len, checksum);
        state.open.words.extend_from_slice(words);
        let continued = continued.to_vec();
        state.open.records.push(BatchRecord { sequence, body, continued, validated_at, replaced });
        let waiting = at + len - state.written_to;
        let returns_early = waiting_max.is_some_and(|max| waiting <= max);
        state.open.unattended += usize::from(returns_early);
        let unready = self.unready_of(&state.open);
        // ORDER: none: the thread that closes the batch takes the lock first.
        unready.fetch_add(1, Ordering::Relaxed);
        let batch = state.open.number;
        let appended =
            Appended { unready, record: AppendedRecord { sequence, batch, waiting, returns_early } };
        Ok(Append::Done(Placed { appended, at: state.ring.plus(at % ring_len), words }))
    }

    /// Returns the number of the batch's records that are not ready to be written back.
    fn unready_of(&self, batch: &Batch) -> &AtomicU64 {
        &self.unready[(batch.number % 2) as usize]
    }

    /// Returns the event of the batch with that number. Threads wait for two batches, the open one and the one before it; those of an
    /// older one are being woken.
    fn written_of(&self, batch: u64) -> &Event {
        &self.written[(batch % 2) as usize]
    }

    /// Returns how far the records are written back.
    pub(crate) fn written_back(&self) -> &Arc<WrittenBack> {
        &self.written_back
    }

    /// Waits until the record `sequence` is durable and written back. A write-back that met lost memory counts: the record
    /// is durable.
    pub(crate) fn wait_written_back<M: Medium>(&self, medium: &M, sequence: u64) -> Result<(), LogError> {
        self.wait(medium, sequence).map(drop)
    }

    /// Waits until the record `sequence`, the caller's own, is durable and written back. Returns the fault that its
    /// write-back met as an error.
    pub(crate) fn wait_own_written_back<M: Medium>(&self, medium: &M, sequence: u64) -> Result<(), LogError> {
        let state = self.wait(medium, sequence)?;
        let fault = state.faults.iter().find(|(lost, _)| *lost == sequence);
        fault.map_or(Ok(()), |(_, fault)| Err(LogError::InDoubt(InDoubtCause::WriteBack(*fault))))
    }

    /// Waits until all records up to `sequence` are durable and written back. Returns a fault that the write-back of one of
    /// them has met as an error.
    pub(crate) fn wait_all_written_back<M: Medium>(&self, medium: &M, sequence: u64) -> Result<(), LogError> {
        let state = self.wait(medium, sequence)?;
        let fault = state.faults.iter().find(|(lost, _)| *lost <= sequence);
        fault.map_or(Ok(()), |(_, fault)| Err(LogError::InDoubt(InDoubtCause::WriteBack(*fault))))
    }

    fn wait<M: Medium>(&self, medium: &M, sequence: u64) -> Result<MutexGuard<'_, State>, LogError> {
        let is_done = || self.written_back.last() >= sequence;
        loop {
            let batch = {
                let state = self.lock_state();
                if is_done() {
                    return Ok(state);
                }
                if let Some(error) = state.failed {
                    drop(state);
                    // It may have been woken to write the batch, which no thread writes now.
                    self.wake_all();
                    return Err(error.into());
                }
                // ORDER: none: the flag changes under the lock that is held.
                if !self.writing.load(Ordering::Relaxed) {
                    self.writing.store(true, Ordering::Relaxed);
                    let unwinding = FailOnUnwind(self);
                    self.write_next(medium, state);
                    mem::forget(unwinding);
                    continue;
                }
                state.batch_of(sequence)
            };
            // ORDER: acquires the end of a write that failed, or that was of another batch.
            let mut waits = || !is_done() && self.writing.load(Ordering::Acquire);
            medium.wait_while(self.written_of(batch), &mut waits);
        }
    }

    /// Makes the open batch durable, and writes it back.
    fn write_next<M: Medium>(&self, medium: &M, state: MutexGuard<'_, State>) {
        let ring = (state.ring, state.ring_len);
        let batch = self.gather(medium, state);
        let mut faults = Vec::new();
        let last = batch.last();
        if bugs::GROUP_COMMIT_BEFORE_SYNC.is_active() {
            self.write_back(medium, &batch, &mut faults);
            last.inspect(|last| self.written_back.advance(*last));
        }
        let written = self.write(medium, ring, &batch);
        if written.is_ok() && !self.is_deferring && !bugs::GROUP_COMMIT_BEFORE_SYNC.is_active() {
            self.write_back(medium, &batch, &mut faults);
        }
        let mut state = self.lock_state();
        if written.is_ok() {
            if state.open.words.is_empty() {
                // ORDER: no record was stored before the batch was durable, so the padding before the next one shows that
                // it is. Stop here: the ring ends with this batch.
                let end = state.open.start;
                state.open.start = align_up(end, medium.log_block());
                if state.open.start > end {
                    state.proven_to = state.open.start;
                }
            }
            state.written_to = state.open.start;
        }
        // ORDER: releases the outcome to threads that ask without the lock.
        self.writing.store(false, Ordering::Release);
        state.failed = state.failed.or(written.err());
        faults.iter().for_each(|(lost, _)| self.written_back.note_fault(*lost));
        state.faults.append(&mut faults);
        match (written, last) {
            (Ok(()), Some(last)) => self.written_back.advance(last),
            (Ok(()), None) => {}
            (Err(_), _) => self.written_back.end(),
        }
        (state.closed, state.is_writing_back) = (None, false);
        let (number, has_failed) = (batch.number, state.failed.is_some());
        state.expected = batch.attended() + state.open.attended();
        if self.is_deferring {
            state.deferred.extend(written.is_ok().then_some(batch));
        } else if let Some(mut batch) = Arc::into_inner(batch) {
            batch.words.clear();
            state.spare = batch.words;
        }
        drop(state);
        if has_failed {
            return self.wake_all();
        }
        self.written_of(number).notify_all();
        // The threads of the next batch need one that writes it. The others go on sleeping.
        self.written_of(number + 1).notify_one();
    }

    fn wake_all(&self) {
        self.written.iter().for_each(Event::notify_all);
    }

    /// Calls `with` while no record is being written back, with the number of the last one that is, and those that wait for it.
    /// Memory has what the records up to that number have left. No record gets a number meanwhile. Gives `with` back if
    /// memory has not all that is durable, if the records that wait replace much, and if the transaction of one of them
    /// has validated its reads before one that is written back got its number.
    pub(crate) fn between_write_backs<M: Medium, R, F: FnOnce(u64, &WaitingRecords<'_>) -> R>(
        &self,
        medium: &M,
        with: F,
    ) -> Result<R, F> {
        for round in 0.. {
            let state = self.lock_state();
            if self.is_deferring || state.failed.is_some() || !state.faults.is_empty() {
                return Err(with);
            }
            if !state.is_writing_back || bugs::SNAPSHOT_IN_WRITE_BACK.is_active() {
                let last = self.written_back.last();
                let waiting = WaitingRecords::of(state.closed.as_deref(), &state.open);
                let is_moment = waiting.are_validated_after(last) && waiting.replace_little();
                return if is_moment { Ok(with(last, &waiting)) } else { Err(with) };
            }
            drop(state);
            medium.relax(round);
        }
        unreachable!("the loop ends with the write-back")
    }

    /// Writes the records of `batch` back, which is durable, when all of them are ready. Adds those whose write-backs met
    /// lost memory to `faults`.
    fn write_back<M: Medium>(&self, medium: &M, batch: &Batch, faults: &mut Vec<(u64, Fault)>) {
        self.wait_until_ready(medium, batch);
        self.lock_state().is_writing_back = true;
        let _writing_back = self.written_back.begin_write_back();
        let is_reversed = bugs::WRITE_BACK_OUT_OF_ORDER.is_active();
        let last = batch.records.len().saturating_sub(1);
        for index in 0..batch.records.len() {
            let record = &batch.records[if is_reversed { last - index } else { index }];
            // The faults of the calling thread's transaction are not the record's.
            let scope = FaultScope::open();
            // One thread at a time writes back.
            let memory = scope.memory(medium.memory());
            apply_all(medium, memory, batch.body(record), &record.continued, None, true);
            if let Err(fault) = scope.close() {
                faults.push((record.sequence, fault));
            }
        }
    }

    /// Waits until the threads of a closed batch have done what comes before the write-back of their records.
    fn wait_until_ready<M: Medium>(&self, medium: &M, batch: &Batch) {
        for round in 0.. {
            // ORDER: acquires what threads did before their records were ready.
            if self.unready_of(batch).load(Ordering::Acquire) == 0 {
                break;
            }
            medium.relax(round);
        }
    }

    /// Takes the open batch when as many threads wait for it as at the end of the last one, or when the threads of the last batch have
    /// had their chance to append. Those were woken a moment ago, and a sync for one record costs as much as for all.
    fn gather<'a, M: Medium>(&'a self, medium: &M, mut state: MutexGuard<'a, State>) -> Arc<Batch> {
        let expected = state.expected;
        for _ in 0..GATHER_ROUNDS * expected {
            if state.open.attended() >= expected {
                break;
            }
            drop(state);
            medium.relax(YIELDING_ROUND);
            state = self.lock_state();
        }
        let closed = Arc::new(self.close_batch(&mut state, medium.log_block()));
        state.closed = Some(Arc::clone(&closed));
        closed
    }

    /// Takes the open batch, and opens the next one after it.
    fn close_batch(&self, state: &mut State, block: u64) -> Batch {
        let end = state.open.end();
        // A record that is stored before this batch is durable follows without padding, which would show that it is.
        let is_padded = !self.is_deferring || bugs::PADDED_BEFORE_DRAIN.is_active();
        let start = if is_padded { align_up(end, block) } else { end };
        let words = mem::take(&mut state.spare);
        let number = state.open.number + 1;
        let mut closed = mem::replace(&mut state.open, Batch { start, words, number, ..Batch::default() });
        if !self.is_deferring {
            closed.pad_to(align_up(end, block));
            state.fill_after(&mut closed);
        }
        closed
    }

    /// Makes `batch` durable in the ring of that offset and length.
    fn write<M: Medium>(
        &self,
        medium: &M,
        (ring, ring_len): (PoolOffset, u64),
        batch: &Batch,
    ) -> Result<(), SyncError> {
        if self.is_deferring {
            self.wait_until_ready(medium, batch);
            if bugs::RECORD_STORED_AT_SYNC.is_active() {
                batch.parts(ring_len).for_each(|(at, part)| medium.copy(ring.plus(at), part));
            }
            // ORDER: the records are stored, since they are ready, and no page of the pool but those of payloads and of the log
            // is dirty. Both are durable before any thread that waits for them returns. Stop here: each record of the batch
            // is whole or absent, one without its payload is dropped, and none was acknowledged as durable.
            return medium.drain();
        }
        // ORDER: the records are durable before any thread that waits for them returns or writes back.
        // Stop here: each record of the batch is whole or absent, and none was acknowledged.
        let written = batch.parts(ring_len).try_for_each(|(at, part)| medium.log_write(ring.plus(at), part));
        if bugs::FAILED_SYNC_IGNORED.is_active() { Ok(()) } else { written }
    }

    /// Writes deferred records back, in their order. They become durable with the next drain.
    pub(crate) fn write_back_deferred<M: Medium>(&self, medium: &M, memory: &Readable) {
        let deferred = mem::take(&mut self.lock_state().deferred);
        for batch in &deferred {
            for record in &batch.records {
                apply_all(medium, memory, batch.body(record), &record.continued, None, true);
            }
        }
    }

    /// Refuses all records from now on.
    fn fail_state(&self, error: SyncError) {
        self.lock_state().failed.get_or_insert(error);
        self.written_back.end();
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fails the batches of a writer that unwinds, so that the threads that wait for them go on.
struct FailOnUnwind<'a>(&'a Group);

impl Drop for FailOnUnwind<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock_state();
        state.failed.get_or_insert(SyncError { errno: Errno::IO.raw_os_error() });
        self.0.written_back.end();
        // ORDER: releases the failure to the threads that ask without the lock.
        self.0.writing.store(false, Ordering::Release);
        drop(state);
        self.0.wake_all();
    }
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;
    use lode_testing::memory;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// The thread that was woken to write the next batch finds a failure, and the others sleep.
    #[test]
    fn failure_between_two_writers_reaches_all_that_wait() {
        const THREADS: usize = 3;
        let seed = ChecksumSeed::new(&[7; 16], [1; 2], 0);
        let group = Arc::new(Group::new(PoolOffset::new(4096), 1 << 20, seed, 1));
        group.writing.store(true, Ordering::Release);
        let (sender, results) = mpsc::channel();
        for _ in 0..THREADS {
            let (group, sender) = (Arc::clone(&group), sender.clone());
            thread::spawn(move || sender.send(group.wait(&memory::persistent(4096), 2).map(drop)));
        }
        // They sleep by then. If they do not, the test passes without its point.
        thread::sleep(Duration::from_millis(100));
        group.fail_state(SyncError { errno: 5 });
        group.writing.store(false, Ordering::Release);
        group.written_of(0).notify_one();
        for _ in 0..THREADS {
            results.recv_timeout(Duration::from_secs(60)).expect("no thread sleeps on").unwrap_err();
        }
    }
}
