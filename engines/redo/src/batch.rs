//! A batch: records that become durable by one synced write.

use crate::apply::ContinuedRange;
use lode_layout::{PoolOffset, WORD};
use std::ops::Range;
use zerocopy::IntoBytes;

/// Records on their way to the log.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Position of its first byte, in bytes since the log epoch began, without wrapping.
    pub(crate) start: u64,
    pub(crate) words: Vec<u64>,
    /// Index of the word that lies at the start of the ring, if the batch reached the ring's end.
    pub(crate) wrap: Option<usize>,
    pub(crate) records: Vec<BatchRecord>,
    /// Number of records for which no thread may wait.
    pub(crate) unattended: usize,
    /// Number of batches before it.
    pub(crate) number: u64,
}

/// A record of a batch.
#[derive(Debug)]
pub(crate) struct BatchRecord {
    pub(crate) sequence: u64,
    /// The words of the batch that are its body.
    pub(crate) body: Range<usize>,
    pub(crate) continued: Vec<ContinuedRange>,
    /// As [`CommitHooks::validated_at`](crate::CommitHooks::validated_at).
    pub(crate) validated_at: u64,
    /// As [`CommitHooks::replaced`](crate::CommitHooks::replaced).
    pub(crate) replaced: Option<Vec<(PoolOffset, PoolOffset)>>,
}

impl Batch {
    /// Returns the number of records for which a thread waits.
    pub(crate) fn attended(&self) -> usize {
        self.records.len() - self.unattended
    }

    /// Returns the number of the last record.
    pub(crate) fn last(&self) -> Option<u64> {
        self.records.last().map(|record| record.sequence)
    }

    /// Returns the entries of a record's body.
    pub(crate) fn body(&self, record: &BatchRecord) -> &[u64] {
        &self.words[record.body.clone()]
    }

    /// Returns the position of the end of the last record.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.words.as_bytes().len() as u64
    }

    /// Adds zeros up to that position.
    pub(crate) fn pad_to(&mut self, end: u64) {
        self.words.resize(((end - self.start) / WORD) as usize, 0);
    }

    /// Returns the parts of a batch that has records, each with its offset in a ring of that length.
    pub(crate) fn parts(&self, ring_len: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let (first, second) = self.words.split_at(self.wrap.unwrap_or(self.words.len()));
        let parts = [(self.start % ring_len, first), (0, second)];
        parts.into_iter().map(|(at, part)| (at, part.as_bytes())).filter(|(_, part)| !part.is_empty())
    }
}

/// The records that have a number and are not written back.
#[derive(Debug)]
pub struct WaitingRecords<'a> {
    batches: [Option<&'a Batch>; 2],
}

impl<'a> WaitingRecords<'a> {
    /// Bytes that they may replace together for a moment between write-backs to be taken.
    const REPLACED_MAX: u64 = 4 << 20;

    /// Returns those of two batches.
    pub(crate) fn of(closed: Option<&'a Batch>, open: &'a Batch) -> Self {
        WaitingRecords { batches: [closed, Some(open)] }
    }

    /// Returns no records.
    pub(crate) fn none() -> Self {
        WaitingRecords { batches: [None, None] }
    }

    fn each(&self) -> impl Iterator<Item = &'a BatchRecord> {
        self.batches.into_iter().flatten().flat_map(|batch| &batch.records)
    }

    /// Returns true if each transaction has validated its reads after the record `sequence` got its number.
    pub(crate) fn are_validated_after(&self, sequence: u64) -> bool {
        self.each().all(|record| record.validated_at >= sequence)
    }

    /// Returns true if it is known what they replace, and that is not much.
    pub(crate) fn replace_little(&self) -> bool {
        let len = |(at, end): &(PoolOffset, PoolOffset)| end.get() - at.get();
        let bytes = |record: &BatchRecord| Some(record.replaced.as_ref()?.iter().map(len).sum::<u64>());
        let all: Option<u64> = self.each().map(bytes).sum();
        all.is_some_and(|all| all <= WaitingRecords::REPLACED_MAX)
    }

    /// Returns the numbers of the records, in their order, each with a range of content that it replaces: its offset and its
    /// end.
    pub fn replaced(&self) -> impl Iterator<Item = (u64, PoolOffset, PoolOffset)> {
        self.each().flat_map(|record| {
            let ranges = record.replaced.iter().flatten();
            ranges.map(|(at, end)| (record.sequence, *at, *end))
        })
    }
}
