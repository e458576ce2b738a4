//! Callbacks from the middle of a commit.

use crate::dirty::DirtyLines;
use crate::error::LogError;
use lode_layout::{PoolOffset, Record};
use lode_pmem::{Medium, Readable};
use std::fmt::Debug;

/// A record that has its place in the log.
#[derive(Clone, Copy, Debug)]
pub struct AppendedRecord {
    /// Its sequence number.
    pub sequence: u64,
    /// The number of its batch. The records of a batch become durable together, and count as written back together.
    pub batch: u64,
    /// Bytes of the log that wait for their write-back, those of the record included.
    pub waiting: u64,
    /// True if the commit returns at once, and the log makes the record durable later.
    pub returns_early: bool,
}

/// Called by [`Log::commit_in`](crate::Log::commit_in) between the phases of a commit. `()` does nothing.
pub trait CommitHooks {
    /// Called before the record gets its number, with room for it. At durability commit no other one gets a number meanwhile, and
    /// no thread is in [`Log::between_write_backs`](crate::Log::between_write_backs). `closed` is the last number of the batches that are closed.
    /// Returns false to give up the commit.
    #[inline]
    fn admits(&mut self, closed: u64) -> bool {
        let _ = closed;
        true
    }

    /// Returns the length to which [`compose`](CommitHooks::compose) may bring the record, in words, padding included.
    #[inline]
    fn padded_len_max(&self, record: &Record) -> usize {
        record.padded_len()
    }

    /// Called when the record has its number, before it is in the log: what it loads is newer than all records before it.
    /// Other threads may hold lanes meanwhile. At durability commit no other record gets a number before this one is in its place.
    #[inline]
    fn compose(&mut self, record: &mut Record) {
        let _ = record;
    }

    /// Returns the part of the record's entries that is to be written back. The others are at home: notes their lines in `dirty`, where
    /// the medium has lines to flush. Not called at durability commit.
    #[inline]
    fn to_write_back<'e>(&mut self, entries: &'e [u64], dirty: Option<&mut DirtyLines>) -> &'e [u64] {
        let _ = dirty;
        entries
    }

    /// Called when the record is durable and written back, while the lane is held: the next checkpoint covers it. `exclusive`: no other
    /// lane can be held meanwhile.
    #[inline]
    fn finished(&mut self, exclusive: bool) {
        let _ = exclusive;
    }

    /// Returns the last number that had been assigned when the reads of the transaction were validated: it may not have seen
    /// what later ones change. The greatest number if it has no reads. Asked after [`admits`](CommitHooks::admits).
    #[inline]
    fn validated_at(&self) -> u64 {
        u64::MAX
    }

    /// Returns the ranges of older content that the entries of the record replace: offsets and ends. `None` if they are many, or
    /// not known.
    #[inline]
    fn replaced(&self, entries: &[u64]) -> Option<Vec<(PoolOffset, PoolOffset)>> {
        let _ = entries;
        None
    }

    /// Called when the record has its number. Returns true if
    /// [`before_write_back`](CommitHooks::before_write_back) is to be called.
    #[inline]
    fn wants_entries(&mut self) -> bool {
        false
    }

    /// Called with some entries of the record `sequence`, and then with the others, before any of them is written back.
    fn before_write_back(&mut self, sequence: u64, entries: &[u64]) {
        let _ = (sequence, entries);
    }

    /// Returns the bytes of the log that may wait for their write-back if the commit returns before its record, of these
    /// entries, is durable; `None` if it waits for that in any case.
    #[inline]
    fn waiting_max(&self, entries: &[u64]) -> Option<u64> {
        let _ = entries;
        None
    }

    /// Called at durability commit when the record with these entries has its place in the log, and is not written back
    /// yet. From now on it becomes durable, or no later one does. No other hook follows if the commit
    /// [returns early](AppendedRecord::returns_early).
    fn appended(&mut self, record: &AppendedRecord, entries: &[u64]) {
        let _ = (record, entries);
    }

    /// Called after [`appended`](CommitHooks::appended) when the record is durable and written back.
    fn written_back(&mut self, sequence: u64, entries: &[u64]) {
        let _ = (sequence, entries);
    }
}

impl CommitHooks for () {}

/// Called by every checkpoint, for callers whose records cover memory that programs store to in place.
pub trait CheckpointHooks<M: Medium>: Debug + Send + Sync {
    /// Called while all lanes are held, when the number of the checkpoint is fixed. The `records` that this appends are the first
    /// after that number, and they are durable before the checkpoint is.
    ///
    /// # Errors
    /// Those of [`NewRecords::append`]. The old checkpoint counts, and the log accepts no more records.
    fn begun(&self, records: &mut dyn NewRecords<M>) -> Result<(), LogError>;

    /// Called while all lanes are held, when the checkpoint is durable: no record up to its number is replayed any more.
    fn ended(&self);
}

/// The first records after a checkpoint. All lanes are held, so no other thread appends one.
pub trait NewRecords<M: Medium> {
    /// Returns the medium.
    fn medium(&self) -> &M;

    /// Returns the memory of the medium. A load that fails makes the checkpoint fail.
    fn memory(&self) -> &Readable;

    /// Returns the maximum length of a record in words, as [`Log::record_words_max`](crate::Log::record_words_max).
    fn words_max(&self) -> usize;

    /// Appends a record. Its entries are not written back: they hold what memory has.
    ///
    /// # Errors
    /// [`LogError::Fault`] when a load of [`memory`](NewRecords::memory) has failed, so that the record may lack content;
    /// [`LogError::InDoubt`] when its log write failed; [`LogError::Poisoned`] when the log has no room for it, although its
    /// checkpoints have [a share](crate::Log::hook_checkpoints) to themselves.
    ///
    /// # Durability
    /// Durable before the checkpoint is.
    ///
    /// # Cost
    /// One drain; at durability commit one synced write for all records.
    fn append(&mut self, record: &mut Record) -> Result<(), LogError>;
}
