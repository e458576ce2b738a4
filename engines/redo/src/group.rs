//! Group commit: one synced write of the log for all waiting transactions, on media where the sync is the main cost.
//!
//! All transactions share one ring. Each appends its record to the open batch. The first that finds no batch being
//! written writes the open one. Transactions that come meanwhile gather in the next batch.

use crate::bugs;
use crate::error::LogError;
use lode_layout::{ChecksumSeed, PoolOffset, Record, WORD, align_up};
use lode_pmem::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use lode_pmem::{Event, Medium, SyncError, checksum};
use rustix::io::Errno;
use std::mem;
use std::sync::PoisonError;
use zerocopy::IntoBytes;

/// Times that a thread yields the CPU, for each record that it expects.
const GATHER_ROUNDS: u32 = 2;
/// A round of waiting in which [`Medium::relax`] yields the CPU.
const YIELDING_ROUND: u32 = 64;

/// Records on their way to the log.
#[derive(Debug, Default)]
struct Batch {
    /// Position of its first byte, in bytes since the log epoch began, without wrapping.
    start: u64,
    words: Vec<u64>,
    /// Index of the word that lies at the start of the ring, if the batch reached the ring's end.
    wrap: Option<usize>,
}

#[derive(Debug)]
struct State {
    /// Offset of the ring in the pool. It changes while no batch is open or being written, as the length.
    ring: PoolOffset,
    /// Length of the ring in bytes.
    ring_len: u64,
    open: Batch,
    /// Number of the open batch.
    number: u64,
    /// Records in the open batch.
    records: u32,
    /// Records in the batch before it.
    previous_records: u32,
    failed: Option<SyncError>,
    /// Buffer of a written batch, for reuse.
    spare: Vec<u64>,
}

/// The batch that a record joined, and the record's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    batch: u64,
    /// The record's sequence number.
    pub(crate) sequence: u64,
}

/// The one ring of a log at durability commit.
#[derive(Debug)]
pub(crate) struct Group {
    checksum_seed: ChecksumSeed,
    state: Mutex<State>,
    /// Batches with a lower number are durable.
    durable: AtomicU64,
    /// True while a thread gathers or writes a batch. Changes under the lock of the state.
    writing: AtomicBool,
    written: Event,
}

impl Group {
    pub(crate) fn new(ring: PoolOffset, ring_len: u64, checksum_seed: ChecksumSeed) -> Group {
        let open = Batch::default();
        let state = State {
            ring,
            ring_len,
            open,
            number: 0,
            records: 0,
            previous_records: 0,
            failed: None,
            spare: Vec::new(),
        };
        let (durable, writing, written) = (AtomicU64::new(0), AtomicBool::new(false), Event::new());
        Group { checksum_seed, state: Mutex::new(state), durable, writing, written }
    }

    /// Moves the empty ring to `ring`, and returns the position of the next record. The caller holds all lanes, so no
    /// batch is open or being written.
    pub(crate) fn relocate(&self, ring: PoolOffset, ring_len: u64) -> u64 {
        let mut state = self.lock_state();
        debug_assert!(state.open.words.is_empty(), "no transaction is in its commit");
        let start = state.open.start.next_multiple_of(ring_len);
        (state.ring, state.ring_len, state.open.start) = (ring, ring_len, start);
        start
    }

    /// Returns the bytes appended since the log epoch began, padding included.
    pub(crate) fn head<M: Medium>(&self, medium: &M) -> u64 {
        let state = self.lock_state();
        state.open.start + batch_len(&state.open, medium.log_block())
    }

    /// Assigns a sequence number to `record`, adds its checksum and appends it to the open batch. Returns `None` when
    /// the ring has no room for it above `tail`.
    pub(crate) fn append<M: Medium>(
        &self,
        medium: &M,
        record: &mut Record,
        next: &AtomicU64,
        tail: u64,
    ) -> Result<Option<Ticket>, LogError> {
        let mut state = self.lock_state();
        if state.failed.is_some() {
            return Err(LogError::Poisoned);
        }
        let (block, ring_len) = (medium.log_block(), state.ring_len);
        let len = record.padded_len() as u64 * WORD;
        let at = state.open.start + state.open.words.as_bytes().len() as u64;
        // A batch that fills the ring exactly continues at its start, too: bytes after the ring are not the log's.
        let is_at_end = !state.open.words.is_empty() && at.is_multiple_of(ring_len);
        let wraps = is_at_end || at % ring_len + align_up(len, block) > ring_len;
        let end = if wraps { at.next_multiple_of(ring_len) } else { at } + align_up(len, block);
        if end - tail > ring_len || (wraps && state.open.wrap.is_some()) {
            return Ok(None);
        }
        if wraps {
            let padded = (at.next_multiple_of(ring_len) - state.open.start) / 8;
            state.open.words.resize(padded as usize, 0);
            state.open.wrap = Some(state.open.words.len());
        }
        let at = state.open.start + state.open.words.as_bytes().len() as u64;
        debug_assert!(at % ring_len + len <= ring_len, "a record does not wrap");
        // ORDER: assigned and appended under one lock, so the order of records in the log is that of their numbers.
        let sequence = next.fetch_add(1, Ordering::SeqCst);
        state.open.words.extend_from_slice(record.finish(
            self.checksum_seed,
            sequence,
            at % ring_len,
            checksum,
        ));
        state.records += 1;
        Ok(Some(Ticket { batch: state.number, sequence }))
    }

    /// Waits until the record of `ticket` is durable.
    pub(crate) fn wait_durable<M: Medium>(&self, medium: &M, ticket: Ticket) -> Result<(), LogError> {
        loop {
            {
                let state = self.lock_state();
                // ORDER: acquires what the writer of the batch released after its sync.
                if self.durable.load(Ordering::Acquire) > ticket.batch {
                    return Ok(());
                }
                if let Some(error) = state.failed {
                    return Err(error.into());
                }
                // ORDER: none: the flag changes under the lock that is held.
                if !self.writing.load(Ordering::Relaxed) {
                    self.writing.store(true, Ordering::Relaxed);
                    let unwinding = FailOnUnwind(self);
                    let ring = (state.ring, state.ring_len);
                    let batch = self.gather(medium, state);
                    if bugs::GROUP_COMMIT_BEFORE_SYNC.is_active() {
                        // ORDER: none: the seeded bug is wrong anyway.
                        self.durable.fetch_add(1, Ordering::Release);
                    }
                    let written = self.write(medium, ring, batch);
                    mem::forget(unwinding);
                    written?;
                    continue;
                }
            }
            let mut waits = || {
                // ORDER: as above.
                let durable = self.durable.load(Ordering::Acquire) > ticket.batch;
                // ORDER: acquires the end of a write that failed, or that was of another batch.
                !durable && self.writing.load(Ordering::Acquire)
            };
            medium.wait_while(&self.written, &mut waits);
        }
    }

    /// Takes the open batch when it has as many records as the last one, or when the threads of the last batch have
    /// had their chance to append. Those were woken a moment ago, and a sync for one record costs as much as for all.
    fn gather<'a, M: Medium>(&'a self, medium: &M, mut state: MutexGuard<'a, State>) -> Batch {
        let expected = state.previous_records;
        for _ in 0..GATHER_ROUNDS * expected {
            if state.records >= expected {
                break;
            }
            drop(state);
            medium.relax(YIELDING_ROUND);
            state = self.lock_state();
        }
        state.previous_records = mem::take(&mut state.records);
        self.close_batch(&mut state, medium.log_block())
    }

    /// Takes the open batch, and opens the next one after it.
    fn close_batch(&self, state: &mut State, block: u64) -> Batch {
        let start = state.open.start + batch_len(&state.open, block);
        let words = mem::take(&mut state.spare);
        state.number += 1;
        mem::replace(&mut state.open, Batch { start, words, wrap: None })
    }

    /// Writes `batch` to the ring of that offset and length.
    fn write<M: Medium>(
        &self,
        medium: &M,
        (ring, ring_len): (PoolOffset, u64),
        mut batch: Batch,
    ) -> Result<(), LogError> {
        let padded = batch_len(&batch, medium.log_block()) / 8;
        batch.words.resize(padded as usize, 0);
        let (first, second) = batch.words.split_at(batch.wrap.unwrap_or(batch.words.len()));
        let mut written = Ok(());
        for (part, at) in [(first, batch.start % ring_len), (second, 0)] {
            debug_assert!(at + part.as_bytes().len() as u64 <= ring_len, "a batch leaves the ring");
            if !part.is_empty() && written.is_ok() {
                // ORDER: the records are durable before any thread that waits for them returns or writes back.
                // Stop here: each record of the batch is whole or absent, and none was acknowledged.
                written = medium.log_write(ring.plus(at), part.as_bytes());
                if bugs::FAILED_SYNC_IGNORED.is_active() {
                    written = Ok(());
                }
            }
        }
        {
            let mut state = self.lock_state();
            // ORDER: releases the outcome to threads that ask without the lock.
            self.writing.store(false, Ordering::Release);
            state.failed = state.failed.or(written.err());
            if written.is_ok() && !bugs::GROUP_COMMIT_BEFORE_SYNC.is_active() {
                // ORDER: releases the finished sync to the threads that wait for this batch.
                self.durable.fetch_add(1, Ordering::Release);
            }
            batch.words.clear();
            state.spare = batch.words;
        }
        self.written.notify_all();
        written.map_err(LogError::from)
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
        // ORDER: releases the failure to the threads that ask without the lock.
        self.0.writing.store(false, Ordering::Release);
        drop(state);
        self.0.written.notify_all();
    }
}

/// Returns the bytes that the batch takes in the ring. Each of its parts is padded to `block`.
fn batch_len(batch: &Batch, block: u64) -> u64 {
    align_up(batch.words.as_bytes().len() as u64, block)
}
