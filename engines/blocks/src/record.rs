//! Records of changes.

use crate::bugs;
use crate::change::Change;
use crate::segments::Segments;
use lode_layout::{Entry, RECORD_HEADER_WORDS, Record};
use std::cell::RefCell;

/// Words of a record for one change: payload and map word.
const WORDS: usize = 5;

thread_local! {
    /// The buffer of the thread's last record.
    static BUFFER: RefCell<Option<Record>> = const { RefCell::new(None) };
}

#[cfg(lode_bugs)]
thread_local! {
    /// The number of the last record that this thread stored and did not wait for: for a seeded bug.
    pub(crate) static LAST_OWN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Calls `with` with the record of these changes.
#[inline]
pub(crate) fn with_record<R>(
    segments: &Segments,
    changes: &[Change],
    with: impl FnOnce(&mut Record) -> R,
) -> R {
    BUFFER.with_borrow_mut(|record| {
        let record = record.get_or_insert_default();
        compose(segments, changes, record);
        with(record)
    })
}

/// Makes `record` that of these changes.
#[inline]
fn compose(segments: &Segments, changes: &[Change], record: &mut Record) {
    record.clear();
    for change in changes {
        if let Some(word) = change.word
            && !bugs::RECORD_WITHOUT_PAYLOAD.is_active()
        {
            let (at, len) = (segments.data_at(word.block), segments.block_size().into());
            record.push(Entry::Payload { at, len, crc: word.crc });
        }
        record.push_word(segments.word_at(change.lba), change.stored_word());
    }
}

/// Returns the number of changes of which a record of `words` words has room.
pub(crate) fn changes_max(words: usize) -> usize {
    ((words - RECORD_HEADER_WORDS) / WORDS).max(1)
}
