//! A transaction over memory that its program stores to in place.

use super::open_transaction::OpenTransaction;
use super::{Cover, CoverError, Mode};
use crate::ranges::parts_beside;
use crate::{LogError, bugs};
use lode_layout::PoolOffset;
use lode_pmem::{FaultScope, Medium};
use std::ops::Range;

/// An open transaction, and the memory that it changes. Dropped without an end, it is aborted.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is aborted"]
pub struct Transaction<'c, M: Medium> {
    pub(super) cover: &'c Cover<M>,
    pub(super) open: OpenTransaction,
    /// Ranges, in their order, whose bytes an abort leaves as they are.
    kept: &'c [Range<u64>],
    is_open: bool,
}

impl<'c, M: Medium> Transaction<'c, M> {
    pub(super) fn new(cover: &'c Cover<M>, open: OpenTransaction) -> Self {
        Transaction { cover, open, kept: &[], is_open: true }
    }

    /// Returns the guard whose abort leaves the bytes of the ranges `kept`, in their order, as they are.
    pub(super) fn keeping(self, kept: &'c [Range<u64>]) -> Self {
        let mut transaction = self;
        transaction.kept = kept;
        transaction
    }

    /// Adds a range, which the program may store to from now on. Bytes that were added before stay as they are kept.
    ///
    /// # Errors
    /// [`CoverError::OutOfRange`]; [`CoverError::TooLarge`]; [`CoverError::Log`] when an image can't be logged, or when the range
    /// can't be read.
    ///
    /// # Durability
    /// A crash before the end of [`commit`](Transaction::commit) leaves the range as it is now.
    ///
    /// # Cost
    /// None on the medium if the log covers all units of the range; otherwise one drain for all of them.
    pub fn add_range(&mut self, at: PoolOffset, len: u64) -> Result<(), CoverError> {
        self.open.add_range(self.cover, at, len)
    }

    /// Puts the old bytes of all ranges back.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when the old bytes can't be stored: the next open puts them back.
    ///
    /// # Cost
    /// No drain; two in careful mode.
    pub fn abort(mut self) -> Result<(), LogError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), LogError> {
        let done = put_back(self.cover, self.open.place, self.kept);
        self.has_ended();
        done
    }

    /// Notes that the transaction has ended: its place is free.
    pub(super) fn has_ended(&mut self) {
        self.is_open = false;
    }
}

impl<M: Medium> Drop for Transaction<'_, M> {
    fn drop(&mut self) {
        if self.is_open {
            // The next open puts back what this can't.
            let _ = self.put_back();
        }
    }
}

/// Ends the transaction at a place: puts the old bytes of its ranges back, but for those of the ranges `kept`, which are in their order.
pub(super) fn put_back<M: Medium>(
    cover: &Cover<M>,
    place: usize,
    kept: &[Range<u64>],
) -> Result<(), LogError> {
    let medium = cover.medium();
    let old: Vec<(PoolOffset, Vec<u8>)> = {
        let snapshots = cover.covered.open.snapshots(place, medium);
        snapshots.old().flat_map(|(at, bytes)| beside(at, bytes, kept)).collect()
    };
    let store = || FaultScope::run(|| old.iter().for_each(|(at, bytes)| medium.store(*at, bytes)));
    if bugs::ABORT_WITHOUT_LANE.is_active() {
        let stored = store();
        cover.leave(place);
        medium.relax(0);
        cover.log.with_lane(|dirty| note(dirty, &old));
        return Ok(stored?);
    }
    if cover.mode == Mode::Careful {
        // Its record may be durable: recovery decides by that, and finds the bytes as they are.
        cover.log.check_not_failed()?;
        let settled = store().map_err(CoverError::from).and_then(|()| cover.settle_aborted(place, &old));
        return settled.map_err(|_| LogError::Poisoned).inspect_err(|_| cover.log.fail());
    }
    // ORDER: put back, noted as dirty and forgotten while a lane is held: a checkpoint sees the transaction as open, and logs its
    // old bytes, or flushes them.
    let stored = cover.log.with_lane(|dirty| {
        let stored = store();
        note(dirty, &old);
        if stored.is_ok() {
            cover.leave(place);
        }
        stored
    });
    stored.map_err(|_| LogError::Poisoned).inspect_err(|_| cover.log.fail())
}

/// Returns the parts of the bytes at `at` that are in none of the ranges, which are in their order.
fn beside(at: PoolOffset, bytes: &[u8], ranges: &[Range<u64>]) -> Vec<(PoolOffset, Vec<u8>)> {
    let start = at.get();
    let parts = parts_beside(start..start + bytes.len() as u64, ranges.iter().cloned());
    let bytes_of = |part: Range<u64>| {
        let bytes = &bytes[(part.start - start) as usize..(part.end - start) as usize];
        (PoolOffset::new(part.start), bytes.to_vec())
    };
    parts.map(bytes_of).collect()
}

fn note(dirty: Option<&mut crate::DirtyLines>, ranges: &[(PoolOffset, Vec<u8>)]) {
    if let Some(dirty) = dirty {
        ranges.iter().for_each(|(at, bytes)| dirty.add(*at, bytes.len() as u64));
    }
}
