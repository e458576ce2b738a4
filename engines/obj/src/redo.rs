//! Changes of several words that are made all or none, through the internal redo log of a lane, as PMDK makes them.

use crate::bugs;
use crate::error::{LogKind, ObjError};
use crate::log::LogEntry;
use crate::view::ObjView;
use lode_layout::{LINE, PmdkUlog, PmdkUlogEntry, PmdkWordChange, PoolOffset, WORD, align_up};
use lode_pmem::Medium;

/// A change of one word.
pub(crate) type WordChange = (PoolOffset, PmdkWordChange, u64);

impl<M: Medium> ObjView<M> {
    /// Makes the change of an entry, and starts its write-back.
    pub(crate) fn apply(&self, log: &LogEntry) -> Result<(), ObjError> {
        match log.entry {
            PmdkUlogEntry::Word { target, change, value } => return self.change_word(target, change, value),
            PmdkUlogEntry::Buffer { target, is_fill, size, .. } => {
                let bytes = match is_fill {
                    true => vec![self.bytes::<1>(log.data)?[0]; size as usize],
                    false => self.range(log.data, size)?,
                };
                self.medium().store(target, &bytes);
                self.medium().flush(target, size);
            }
        }
        Ok(())
    }

    fn change_word(&self, at: PoolOffset, change: PmdkWordChange, value: u64) -> Result<(), ObjError> {
        let word = match change {
            PmdkWordChange::Set => value,
            PmdkWordChange::And => self.word(at)? & value,
            PmdkWordChange::Or => self.word(at)? | value,
        };
        // Words of a log may lie at any offset: a store of bytes takes all of them.
        self.medium().store(at, &word.to_le_bytes());
        self.medium().flush(at, WORD);
        Ok(())
    }

    /// Makes up to six changes, all or none, through the internal redo log of a lane, which is not in use.
    ///
    /// # Durability
    /// The changes are durable on return. A crash before that leaves none of them, or a log that recovery replays.
    ///
    /// # Cost
    /// Three drains.
    pub(crate) fn change_atomically(&self, lane: u64, changes: &[WordChange]) -> Result<(), ObjError> {
        let entries: Vec<u8> = changes
            .iter()
            .flat_map(|(at, change, value)| PmdkUlogEntry::encode_word(*at, *change, *value))
            .collect();
        debug_assert!(!entries.is_empty() && entries.len() as u64 + LINE <= PmdkUlog::INTERNAL_CAPACITY);
        // The entry after the last one is cleared: entries of an earlier use may lie there.
        let capacity = align_up(entries.len() as u64 + WORD, LINE);
        let mut header =
            PmdkUlog { checksum: 0, next: PoolOffset::NULL, capacity, gen_num: 0, is_user_owned: false };
        header.checksum = PmdkUlog::redo_checksum(&[&header.encode()[..], &entries].concat());
        let mut log = [&header.encode()[..], &entries].concat();
        log.resize(PmdkUlog::LEN + capacity as usize, 0);
        let at = self.log_at(lane, LogKind::Internal);
        self.medium().store(at, &log);
        self.medium().flush(at, log.len() as u64);
        if !bugs::CHANGES_BEFORE_LOG.is_active() {
            // ORDER: the log before the changes. Stop here: recovery finds the whole log and makes them, or a torn one and none.
            self.medium().drain()?;
        }
        for (at, change, value) in changes {
            self.change_word(*at, *change, *value)?;
        }
        self.clobber(at, PoolOffset::NULL)
    }

    /// Ends a redo log whose changes are made and in write-back. Its extensions stay.
    pub(crate) fn clobber(&self, at: PoolOffset, next: PoolOffset) -> Result<(), ObjError> {
        if !bugs::REDO_NOT_DRAINED.is_active() {
            // ORDER: the changes before the end of their log. Stop here: recovery makes them again, with the same result.
            self.medium().drain()?;
        }
        let empty = PmdkUlog { checksum: 0, next, capacity: 0, gen_num: 0, is_user_owned: false }.encode();
        self.medium().store(at, &empty);
        self.medium().flush(at, empty.len() as u64);
        // ORDER: the end of this log before the changes of the next one, which may be of the same words. Stop here: as above.
        Ok(self.medium().drain()?)
    }
}
