//! Callbacks from the middle of a commit.

use lode_layout::PoolOffset;

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
    /// Called before the record gets its number, while no other one gets one, and no thread is in
    /// [`Log::between_write_backs`](crate::Log::between_write_backs). `closed` is the last number of the batches that are closed.
    /// Returns false to give up the commit.
    #[inline]
    fn admits(&mut self, closed: u64) -> bool {
        let _ = closed;
        true
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
