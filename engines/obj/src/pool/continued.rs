//! Entries of a transaction that a record can't hold: the record continues in free chunks of the heap.

use super::{Pool, Request, Reservation};
use crate::error::ObjError;
use lode_layout::{Entry, PoolOffset, Record, WORD, align_up};
use lode_pmem::{FaultScope, Medium};
use lode_redo::ContinuedRange;
use zerocopy::IntoBytes;

/// Share of a record that entries may take, in eighths: the rest is for the ranges.
const ENTRIES_SHARE: u64 = 1;
/// Most bytes of entries by which an action changes the heap.
const OF_ACTION: u64 = 128;

/// Space for entries, and the range that has them.
#[derive(Debug)]
pub(super) struct Continued {
    pub(super) range: ContinuedRange,
    pub(super) space: Reservation,
}

impl<M: Medium> Pool<M> {
    /// Reserves space for the entries of so many actions. `None` if a record holds them.
    pub(super) fn space_for_entries(&self, actions: usize) -> Result<Option<Continued>, ObjError> {
        let len = actions as u64 * OF_ACTION;
        if len <= self.cover.record_len_max() / 8 * ENTRIES_SHARE {
            return Ok(None);
        }
        let space = self.heap.reserve(&self.cover, &Request { size: len + WORD, ..Request::default() })?;
        let at = PoolOffset::new(align_up(space.at.get(), WORD));
        Ok(Some(Continued { range: (at, 0), space }))
    }

    /// Moves the entries of a record to the space, and replaces them by one that leads to them.
    ///
    /// # Durability
    /// The entries are durable on return.
    pub(super) fn continue_in(&self, continued: &mut Continued, record: &mut Record) -> Result<(), ObjError> {
        let (at, bytes) = (continued.range.0, record.body().as_bytes());
        let len = bytes.len() as u64;
        let room = continued.space.at.get() + continued.space.usable_size - at.get();
        debug_assert!(len <= room, "an action has few entries");
        self.store_entries(at, bytes)?;
        let crc = crc32c::crc32c(bytes);
        record.clear();
        record.push(Entry::Continue { at, len, crc });
        continued.range.1 = len;
        Ok(())
    }

    fn store_entries(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), ObjError> {
        FaultScope::run(|| {
            self.medium.store(at, bytes);
            self.medium.flush(at, bytes.len() as u64);
        })?;
        // ORDER: at home before the record: recovery compares the checksum before it repeats anything. Stop here: nothing leads there.
        self.medium.drain()?;
        // Recovery stores the images of these units, and then repeats this.
        Ok(self.cover.persist(at, bytes.len() as u64)?)
    }

    /// Gives the space back, if no recovery reads it any more: after a failed checkpoint the log takes no more records.
    pub(super) fn leave_continued(&self, continued: Option<Continued>) {
        if let Some(Continued { space, .. }) = continued
            && self.cover.checkpoint().is_ok()
        {
            self.heap.cancel(&space);
        }
    }
}
