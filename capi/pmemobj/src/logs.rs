//! The accounts of PMDK's logs of a transaction: the answers of the calls that give them memory depend on them.
//!
//! PMDK keeps old bytes in an undo log and allocations in a redo log. A program may forbid that they grow by themselves, and append
//! memory of its own. Lodestone needs neither, but a transaction that PMDK refuses is refused here, too: a program may count on it.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a cache line: entries of the undo log, and appended memory, begin at a multiple of it.
const LINE: u64 = 64;
/// Bytes of the header of a log, which appended memory has as well.
const LOG_HEADER: u64 = 64;
/// Bytes of the header of an entry with old bytes.
const ENTRY_HEADER: u64 = 24;
/// Bytes of an entry for an allocation, a free or a word.
const ACTION: u64 = 16;
/// Bytes of a lane's redo log, and of each extension.
const REDO: u64 = 640;
/// Bytes of a lane's undo log.
const UNDO: u64 = 2048;
/// Bytes of an extension of an undo log.
const UNDO_EXTENSION: u64 = 32_768 - LOG_HEADER;
/// Bytes of the largest allocation.
const ALLOCATION_MAX: u64 = 0x3_ffdf_ffc0;

/// TX_LOG_TYPE_* of the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogType {
    Snapshot,
    Intent,
}

/// A log that has no room, and may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The logs of a transaction.
#[derive(Debug)]
pub(crate) struct Logs {
    redo: Redo,
    undo: Undo,
}

#[derive(Debug)]
struct Redo {
    grows: bool,
    actions: u64,
    /// Bytes of the log without the program's memory.
    capacity: u64,
    /// Bytes of the program's memory.
    appended: u64,
}

#[derive(Debug)]
struct Undo {
    grows: bool,
    is_used: bool,
    /// Bytes of all pieces, and of the entries.
    capacity: u64,
    logged: u64,
    /// Bytes left in the current piece.
    left: u64,
    /// The pieces that were appended, and are not in use yet, the next one last.
    pieces: Vec<u64>,
    /// Ranges that were added since the log may not grow: they need no entry again. By their ends.
    known: BTreeMap<u64, u64>,
}

impl Logs {
    pub(crate) const fn new() -> Logs {
        Logs { redo: Redo::new(), undo: Undo::new() }
    }

    /// Begins the logs of a new transaction.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.redo = Redo::new();
        if self.undo.is_used || !self.undo.pieces.is_empty() || !self.undo.grows {
            self.undo = Undo::new();
        }
    }

    /// Lets a log grow by itself, or not.
    pub(crate) fn set_growth(&mut self, log: LogType, grows: bool) {
        match log {
            LogType::Snapshot => self.undo.grows = grows,
            LogType::Intent => self.redo.grows = grows,
        }
    }

    /// Appends `size` bytes of the program's memory at an offset.
    ///
    /// # Errors
    /// [`Full`] if they have no room for an entry.
    pub(crate) fn append(&mut self, log: LogType, at: u64, size: u64) -> Result<(), Full> {
        let skipped = at.next_multiple_of(LINE) - at;
        let capacity = size.checked_sub(skipped + LOG_HEADER).ok_or(Full)? / LINE * LINE;
        if capacity == 0 {
            return Err(Full);
        }
        match log {
            LogType::Snapshot => self.undo.append(capacity),
            LogType::Intent => self.redo.appended = self.redo.appended.saturating_add(capacity),
        }
        Ok(())
    }

    /// Counts allocations, frees and words that the commit publishes.
    ///
    /// # Errors
    /// [`Full`]: none of them is counted.
    #[inline]
    pub(crate) fn add_actions(&mut self, count: u64) -> Result<(), Full> {
        self.redo.add(count)
    }

    /// Counts no more this number of actions, which were counted.
    pub(crate) fn remove_actions(&mut self, count: u64) {
        self.redo.actions = self.redo.actions.saturating_sub(count);
    }

    /// Counts a range whose old bytes are kept.
    ///
    /// # Errors
    /// [`Full`]: a part of it may be counted.
    #[inline]
    pub(crate) fn add_range(&mut self, range: Range<u64>) -> Result<(), Full> {
        if range.is_empty() {
            return Ok(());
        }
        if self.undo.grows {
            return self.add_entry(range.end - range.start);
        }
        for part in self.undo.unknown(&range) {
            self.add_entry(part.end - part.start)?;
        }
        self.undo.note(range);
        Ok(())
    }

    /// Notes a new object, whose ranges need no old bytes.
    #[inline]
    pub(crate) fn add_object(&mut self, range: Range<u64>) {
        if !self.undo.grows && !range.is_empty() {
            self.undo.note(range);
        }
    }

    #[inline]
    fn add_entry(&mut self, len: u64) -> Result<(), Full> {
        if !self.undo.is_used {
            // The commit has to clear the log, too.
            self.redo.add(1)?;
            self.undo.is_used = true;
        }
        self.undo.add(len)
    }
}

impl Redo {
    const fn new() -> Redo {
        Redo { grows: true, actions: 0, capacity: REDO, appended: 0 }
    }

    #[inline]
    fn add(&mut self, count: u64) -> Result<(), Full> {
        let actions = self.actions.saturating_add(count);
        let needed = actions.saturating_mul(ACTION).saturating_sub(self.appended);
        if needed > self.capacity {
            if !self.grows {
                return Err(Full);
            }
            self.capacity = needed.div_ceil(REDO).saturating_mul(REDO);
        }
        self.actions = actions;
        Ok(())
    }
}

impl Undo {
    const fn new() -> Undo {
        Undo {
            grows: true,
            is_used: false,
            capacity: UNDO,
            logged: 0,
            left: 0,
            pieces: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    fn append(&mut self, capacity: u64) {
        self.pieces.insert(0, capacity);
        self.capacity = self.capacity.saturating_add(capacity);
    }

    /// Counts an entry, which goes on in the next piece when one is full.
    #[inline]
    fn add(&mut self, len: u64) -> Result<(), Full> {
        let entry = (len + ENTRY_HEADER).next_multiple_of(LINE);
        if entry > self.left {
            return self.add_in_pieces(len);
        }
        self.logged += entry;
        self.left -= entry;
        Ok(())
    }

    #[cold]
    fn add_in_pieces(&mut self, len: u64) -> Result<(), Full> {
        let mut left = len;
        while left > 0 {
            if self.left == 0 {
                self.take_piece(left + ENTRY_HEADER)?;
            }
            let part = (left + ENTRY_HEADER).min(self.left);
            let entry = part.next_multiple_of(LINE);
            self.logged += entry;
            self.left -= entry;
            left -= part - ENTRY_HEADER;
        }
        Ok(())
    }

    fn take_piece(&mut self, needed: u64) -> Result<(), Full> {
        if self.logged == 0 {
            self.left = UNDO;
        }
        while self.logged + needed > self.capacity {
            if !self.grows {
                return Err(Full);
            }
            self.append(UNDO_EXTENSION);
        }
        if self.logged > 0 {
            self.left = self.pieces.pop().ok_or(Full)?;
        }
        Ok(())
    }

    /// Returns the parts of a range that were not added.
    fn unknown(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut parts, mut at) = (Vec::new(), range.start);
        for (end, start) in self.known.range(range.start + 1..) {
            if *start >= range.end {
                break;
            }
            if *start > at {
                parts.push(at..*start);
            }
            at = at.max(*end);
        }
        if at < range.end {
            parts.push(at..range.end);
        }
        parts
    }

    /// Adds a range to those that are known.
    fn note(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        while let Some((known_end, known_start)) =
            self.known.range(start..).next().map(|(end, start)| (*end, *start))
            && known_start <= end
        {
            self.known.remove(&known_end);
            (start, end) = (start.min(known_start), end.max(known_end));
        }
        self.known.insert(end, start);
    }
}

/// Returns the bytes of program memory that ranges of these sizes may need, in one transaction; `None` for too many.
pub(crate) fn snapshots_size_max(sizes: &[usize]) -> Option<u64> {
    let mut total = LOG_HEADER;
    for size in sizes {
        let entry = (*size as u64).checked_add(ENTRY_HEADER)?.checked_next_multiple_of(LINE)?;
        total = total.checked_add(entry)?;
    }
    with_headers(total, LOG_HEADER + ENTRY_HEADER)
}

/// Returns the bytes of program memory that this number of actions may need, in one transaction; `None` for too many.
pub(crate) fn intents_size_max(count: usize) -> Option<u64> {
    let entries = (count as u64).checked_mul(ACTION)?.checked_next_multiple_of(LINE)?;
    with_headers(entries.checked_add(LOG_HEADER)?, LOG_HEADER + ACTION)
}

/// Adds the headers of the allocations into which memory is divided that is larger than one. `None` for the number that stands for an
/// error, and those above it.
fn with_headers(total: u64, header: u64) -> Option<u64> {
    let total = total.checked_add((total / ALLOCATION_MAX).checked_mul(header)?)?;
    (total != u64::MAX).then_some(total)
}

#[cfg(test)]
mod test {
    use super::*;

    /// The sizes are PMDK's, of 1.12.1.
    #[test]
    fn sizes_are_pmdks() {
        for (sizes, wanted) in [
            (&[][..], Some(64)),
            (&[1, 40, 41], Some(320)),
            (&[0x3_ffdf_ffc0], Some(0x3_ffe0_0098)),
            (&[0x3_ffdf_ff34 - 16], Some(0x3_ffdf_ff80)),
            (&[0x3_ffdf_ff34], Some(0x3_ffe0_0018)),
            (&[3 * 0x3_ffdf_ffc0], Some(0xb_ffa0_00c8)),
            (&[usize::MAX - 100], None),
            (&[usize::MAX], None),
        ] {
            assert_eq!(snapshots_size_max(sizes), wanted, "{sizes:x?}");
        }
        for (count, wanted) in [
            (0, Some(0x40)),
            (1, Some(0x80)),
            (4, Some(0x80)),
            (5, Some(0xc0)),
            (100, Some(0x680)),
            (0x3ffd_fff8, Some(0x3_ffe0_0010)),
            (0x7ffc_0002, Some(0x7_ffc0_0120)),
            (usize::MAX / 16, None),
            (usize::MAX, None),
        ] {
            assert_eq!(intents_size_max(count), wanted, "{count:#x}");
        }
    }

    /// Returns the number of ranges of `len` bytes that an undo log takes that may not grow, with this much memory at this offset.
    fn ranges(at: u64, size: u64, len: u64) -> u64 {
        let mut logs = Logs::new();
        logs.set_growth(LogType::Snapshot, false);
        if size > 0 && logs.append(LogType::Snapshot, at, size) == Err(Full) {
            return u64::MAX;
        }
        (0..).find(|index| logs.add_range(index * 2 * len..index * 2 * len + len) == Err(Full)).unwrap()
    }

    #[test]
    fn logs_that_may_not_grow_are_full() {
        // 2048 bytes of the lane, and 64 for each small range.
        assert_eq!(ranges(0, 0, 8), 32);
        assert_eq!(ranges(0, 0, 40), 32);
        assert_eq!(ranges(0, 0, 41), 16);
        // Two ranges of 1000 bytes fill the lane with their headers.
        assert_eq!(ranges(0, 0, 1000), 2);
        assert_eq!((ranges(0, 127, 8), ranges(1, 128 + 62, 8)), (u64::MAX, u64::MAX));
        assert_eq!((ranges(0, 128, 8), ranges(1, 128 + 63, 8)), (33, 33));
        assert_eq!(ranges(64, 64 + 640, 8), 42);
        // An entry goes on in the next piece, with a header of its own.
        assert_eq!(ranges(0, 64 + 128, 2048 - 24 + 128 - 24), 1);
        assert_eq!(ranges(0, 64 + 128, 2048 - 24 + 128 - 23), 0);
    }

    #[test]
    fn ranges_are_counted_once() {
        let mut logs = Logs::new();
        logs.set_growth(LogType::Snapshot, false);
        logs.add_object(10_000..20_000);
        for _ in 0..100 {
            for range in [0..100, 50..150, 140..160, 1000..1001, 0..1001, 10_000..20_000] {
                assert_eq!(logs.add_range(range), Ok(()));
            }
        }
        assert_eq!(logs.undo.known.iter().collect::<Vec<_>>(), [(&1001, &0), (&20_000, &10_000)]);
        // 100, 50, 10, 1 and 840 bytes.
        assert_eq!(logs.undo.logged, 128 + 128 + 64 + 64 + 896);
        logs.clear();
        assert_eq!((logs.undo.logged, logs.undo.grows, logs.undo.known.len()), (0, true, 0));
    }

    #[test]
    fn actions_fill_the_redo_log() {
        let mut logs = Logs::new();
        logs.set_growth(LogType::Intent, false);
        assert_eq!(logs.add_actions(39), Ok(()));
        assert_eq!(logs.add_actions(2), Err(Full));
        // The first range takes an action, too.
        assert_eq!(logs.add_range(0..8), Ok(()));
        assert_eq!(logs.add_actions(1), Err(Full));
        assert_eq!(logs.append(LogType::Intent, 0, 64 + 64), Ok(()));
        assert_eq!(logs.add_actions(4), Ok(()));
        assert_eq!(logs.add_actions(1), Err(Full));
        logs.set_growth(LogType::Intent, true);
        assert_eq!(logs.add_actions(1_000_000), Ok(()));
    }
}
