//! The words of transactions that have handed on their locks, and wait for their sync.
//!
//! ```text
//!   a line   home, in the pool  <-  pieces of the transactions n, n+1, ... in the order of the log, in DRAM
//! ```
//!
//! A transaction that has its place in the log adds its changes here, line by line, and then hands on its locks. Only a
//! transaction that sees pending words looks at them. The pieces up to the number that the log has written back lie in
//! the pool, too, and count no more. Their transaction removes them, sooner or later.
//!
//! A line is read with the lock of its shard held. So pieces that are missing were written back before.
//!
//! The changes of a line by the transactions of one batch are one piece, and those of each bitmap word in it: they count as
//! written back together. Pieces of two batches would not bear that: a transaction that hands on no lock may change
//! a word between them, and its change would be hidden by the older one as long as the newer one waits.
//!
//! # Cost
//! A line without pieces: one load. A line with pieces: a lock, and a copy of each piece. At most two batches wait.

use hashbrown::HashMap;
use lode_layout::{Entries, Entry, LINE, PoolOffset, WORD, checked, unchecked};
use lode_pmem::Readable;
use lode_pmem::sync::{Mutex, MutexGuard};
use lode_redo::{AppendedRecord, WrittenBack};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use zerocopy::IntoBytes;

/// Number of maps, each with a lock of its own.
const SHARDS: usize = 64;
/// Number of counters that tell which lines have no pieces.
const COUNTERS: usize = 4096;
const LINE_WORDS: usize = (LINE / WORD) as usize;

/// Changes of a line by the transactions of one batch.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The number of the batch.
    batch: u64,
    /// The greatest sequence number of one of the transactions.
    sequence: u64,
    change: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// Bytes of the line, those of the mask.
    Bytes { mask: u64, words: [u64; LINE_WORDS] },
    /// Bits of the checked word number `word` of the line.
    Bits { word: usize, set: u64, clear: u64 },
}

type Shard = HashMap<u64, Vec<Piece>, hashbrown::DefaultHashBuilder>;

/// All pending words of a heap.
pub(crate) struct PendingWords {
    written_back: Arc<WrittenBack>,
    shards: Box<[Mutex<Shard>]>,
    /// The number of lines with pieces, for each hash. Changes with the lock of the shard held.
    counters: Box<[AtomicU32]>,
}

impl fmt::Debug for PendingWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingWords").field("written_back", &self.written_back).finish_non_exhaustive()
    }
}

/// Returns a hash of a line's number: that of its counter.
fn counter_of(line: u64) -> usize {
    (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % COUNTERS
}

/// Returns the parts of a range that lie in one line each: the line's number, and the range of bytes from its start.
fn parts(at: PoolOffset, len: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (start, end) = (at.get(), at.get() + len);
    (start / LINE..end.div_ceil(LINE)).map(move |line| {
        let first = line * LINE;
        (line, (start.max(first) - first) as usize..(end.min(first + LINE) - first) as usize)
    })
}

fn mask_of(range: &Range<usize>) -> u64 {
    if range.len() == LINE as usize { u64::MAX } else { ((1 << range.len()) - 1) << range.start }
}

impl Change {
    const NO_BYTES: Change = Change::Bytes { mask: 0, words: [0; LINE_WORDS] };

    /// Returns true if both are changes of bytes, or of bits in one word. A word with both gets its bytes first: with the
    /// header of its superblock.
    fn is_like(&self, other: &Change) -> bool {
        match (self, other) {
            (Change::Bytes { .. }, Change::Bytes { .. }) => true,
            (Change::Bits { word, .. }, Change::Bits { word: other, .. }) => word == other,
            _ => false,
        }
    }

    /// Makes the change in `into`, which holds the bytes of the line from number `off` on.
    fn apply_to(&self, off: usize, into: &mut [u8]) {
        match self {
            Change::Bytes { mask, words } => {
                let stored = &words.as_bytes()[off..off + into.len()];
                for (index, (byte, stored)) in into.iter_mut().zip(stored).enumerate() {
                    if mask >> (off + index) & 1 != 0 {
                        *byte = *stored;
                    }
                }
            }
            Change::Bits { word, set, clear } => {
                let start = word * WORD as usize;
                let whole = start.checked_sub(off).and_then(|from| into.get_mut(from..from + WORD as usize));
                // Bitmaps are read by word.
                if let Some(bytes) = whole
                    && let Ok(bytes) = <&mut [u8; WORD as usize]>::try_from(bytes)
                    && let Some(bits) = unchecked(u64::from_le_bytes(*bytes))
                {
                    *bytes = checked(bits & !clear | set).to_le_bytes();
                }
            }
        }
    }
}

impl PendingWords {
    pub(crate) fn new(written_back: Arc<WrittenBack>) -> PendingWords {
        PendingWords {
            written_back,
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Adds the changes of the entries of the record, in their order. Those of one word come in the order of the log: the
    /// caller holds the locks.
    pub(crate) fn add(&self, record: &AppendedRecord, entries: &[u64]) {
        for entry in Entries::new(entries).map_while(Result::ok) {
            match entry {
                Entry::Words { at, words } => self.add_bytes(record, at, words.as_bytes()),
                Entry::Bytes { at, len, words } => {
                    self.add_bytes(record, at, &words.as_bytes()[..len as usize]);
                }
                Entry::Zero { at, len } => {
                    for (line, range) in parts(at, len) {
                        self.add_to_line(record, line, range, &[0; LINE as usize]);
                    }
                }
                Entry::SetBits { at, mask } => self.add_bits(record, at, mask, 0),
                Entry::ClearBits { at, mask } => self.add_bits(record, at, 0, mask),
                // Content in place, and further entries: their transactions hand on no locks.
                Entry::Payload { .. } | Entry::Continue { .. } => {}
                Entry::Cover(_) => unreachable!("the heap covers no memory"),
            }
        }
    }

    fn add_bytes(&self, record: &AppendedRecord, at: PoolOffset, bytes: &[u8]) {
        let mut rest = bytes;
        for (line, range) in parts(at, bytes.len() as u64) {
            let (part, after) = rest.split_at(range.len());
            self.add_to_line(record, line, range, part);
            rest = after;
        }
    }

    /// Adds the first of `bytes` at `range` of the line.
    fn add_to_line(&self, record: &AppendedRecord, line: u64, range: Range<usize>, bytes: &[u8]) {
        self.change_piece(record, line, Change::NO_BYTES, |change| {
            if let Change::Bytes { mask, words } = change {
                *mask |= mask_of(&range);
                words.as_mut_bytes()[range.clone()].copy_from_slice(&bytes[..range.len()]);
            }
        });
    }

    fn add_bits(&self, record: &AppendedRecord, at: PoolOffset, set: u64, clear: u64) {
        let no_bits = Change::Bits { word: (at.get() % LINE / WORD) as usize, set: 0, clear: 0 };
        self.change_piece(record, at.get() / LINE, no_bits, |change| {
            if let Change::Bits { set: all_set, clear: all_clear, .. } = change {
                // Bits are cleared first when the piece is laid over a word.
                (*all_set, *all_clear) = (*all_set & !clear | set, *all_clear | clear);
            }
        });
    }

    /// Calls `with` with the change of the line that is like `none` and of the batch of the record. It is `none` if there
    /// is no such change.
    fn change_piece(&self, record: &AppendedRecord, line: u64, none: Change, with: impl FnOnce(&mut Change)) {
        let AppendedRecord { sequence, batch, .. } = *record;
        let last = self.written_back.last();
        self.with_pieces(line, |pieces| {
            pieces.retain(|piece| piece.sequence > last);
            let like = |piece: &Piece| piece.batch == batch && piece.change.is_like(&none);
            let index = pieces.iter().position(like).unwrap_or_else(|| {
                pieces.push(Piece { batch, sequence, change: none });
                pieces.len() - 1
            });
            let piece = &mut pieces[index];
            piece.sequence = piece.sequence.max(sequence);
            with(&mut piece.change);
        });
    }

    /// Removes the pieces of the lines that the entries change, as far as they are written back.
    pub(crate) fn remove(&self, entries: &[u64]) {
        for entry in Entries::new(entries).map_while(Result::ok) {
            let (at, len) = match entry {
                Entry::Words { at, words } => (at, words.len() as u64 * WORD),
                Entry::Bytes { at, len, .. } | Entry::Zero { at, len } => (at, len),
                Entry::SetBits { at, .. } | Entry::ClearBits { at, .. } => (at, WORD),
                Entry::Payload { .. } | Entry::Continue { .. } => continue,
                Entry::Cover(_) => unreachable!("the heap covers no memory"),
            };
            for (line, _) in parts(at, len) {
                let last = self.written_back.last();
                self.with_pieces(line, |pieces| pieces.retain(|piece| piece.sequence > last));
            }
        }
    }

    /// Calls `with` with the pieces of the line.
    fn with_pieces(&self, line: u64, with: impl FnOnce(&mut Vec<Piece>)) {
        let counter = counter_of(line);
        let shard = &mut *self.shard(counter);
        let pieces = shard.entry(line).or_default();
        let was_empty = pieces.is_empty();
        with(pieces);
        let is_empty = pieces.is_empty();
        if is_empty {
            shard.remove(&line);
        }
        match (was_empty, is_empty) {
            // ORDER: releases the piece, before the locks that are handed on.
            (true, false) => _ = self.counters[counter].fetch_add(1, Ordering::Release),
            // ORDER: releases the write-backs that this thread has seen.
            (false, true) => _ = self.counters[counter].fetch_sub(1, Ordering::Release),
            _ => {}
        }
    }

    fn shard(&self, counter: usize) -> MutexGuard<'_, Shard> {
        self.shards[counter % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays the pieces of the line that are not written back over what `load` loads of it, from byte number `off` on.
    /// Returns the greatest of their sequence numbers, or 0.
    fn read_line(&self, line: u64, off: usize, into: &mut [u8], load: impl FnOnce(&mut [u8])) -> u64 {
        let counter = counter_of(line);
        // ORDER: acquires what is written back of pieces that were removed.
        if self.counters[counter].load(Ordering::Acquire) == 0 {
            load(into);
            return 0;
        }
        let shard = self.shard(counter);
        // ORDER: before the load from the pool, where everything up to this number lies.
        let last = self.written_back.last();
        load(into);
        let mut seen = 0;
        for piece in shard.get(&line).into_iter().flatten().filter(|piece| piece.sequence > last) {
            piece.change.apply_to(off, into);
            seen = seen.max(piece.sequence);
        }
        seen
    }

    /// Returns the aligned word at `at` with all pending changes, and the greatest sequence number of these, or 0.
    pub(crate) fn load8(&self, memory: &Readable, at: PoolOffset) -> (u64, u64) {
        let mut word = [0; WORD as usize];
        let off = (at.get() % LINE) as usize;
        let load = |into: &mut [u8]| into.copy_from_slice(&memory.load8(at).to_le_bytes());
        let seen = self.read_line(at.get() / LINE, off, &mut word, load);
        (u64::from_le_bytes(word), seen)
    }
}

/// The pending words as an attempt sees them, and the last transaction of which it has seen one.
#[derive(Debug)]
pub(crate) struct PendingView {
    words: Arc<PendingWords>,
    /// The greatest sequence number of a change that was seen, or 0.
    seen: Cell<u64>,
}

impl PendingView {
    pub(crate) fn new(words: Arc<PendingWords>) -> PendingView {
        PendingView { words, seen: Cell::new(0) }
    }

    /// Returns the greatest sequence number of a change that was seen, or 0.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.get()
    }

    /// Returns the aligned word at `at`.
    pub(crate) fn load8(&self, memory: &Readable, at: PoolOffset) -> u64 {
        let (word, seen) = self.words.load8(memory, at);
        self.seen.set(self.seen.get().max(seen));
        word
    }

    /// Reads the range from `at`.
    pub(crate) fn read(&self, memory: &Readable, at: PoolOffset, into: &mut [u8]) {
        // A range that does not lie in the pool is a fault of the whole read.
        let end = at.get().checked_add(into.len() as u64);
        if end.is_none_or(|end| end > memory.len()) {
            return memory.read(at, into);
        }
        let mut rest = into;
        for (line, range) in parts(at, rest.len() as u64) {
            let (part, after) = rest.split_at_mut(range.len());
            let from = PoolOffset::new(line * LINE + range.start as u64);
            let seen = self.words.read_line(line, range.start, part, |into| memory.read(from, into));
            self.seen.set(self.seen.get().max(seen));
            rest = after;
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::Record;
    use lode_pmem::Memory;

    /// A line that every transaction changes takes as long to read after thousands of them as after one.
    #[test]
    fn pieces_of_a_batch_are_one() {
        let pending = PendingWords::new(Arc::new(WrittenBack::new(0)));
        let memory = Memory::anonymous(4096).expect("memory");
        let (count, bitmap) = (PoolOffset::new(LINE), PoolOffset::new(LINE + WORD));
        memory.store(bitmap, &checked(1).to_le_bytes());
        for sequence in 1..=2000 {
            let mut record = Record::new();
            record.push_word(count, sequence);
            match sequence % 3 {
                0 => record.push(Entry::ClearBits { at: bitmap, mask: 1 }),
                _ => record.push(Entry::SetBits { at: bitmap, mask: sequence % 3 }),
            }
            let batch = sequence / 1000;
            pending.add(&AppendedRecord { sequence, batch, waiting: 0, returns_early: true }, record.body());
        }
        let pieces = pending.shard(counter_of(1)).get(&1).map_or(0, Vec::len);
        assert!(pieces <= 3 * 2, "{pieces} pieces of 3 batches");
        let read = |at| memory.reading(|memory| pending.load8(memory, at)).expect("a word");
        assert_eq!(read(count), (2000, 2000));
        // 1998 has cleared bit 0, 1999 has set it, 2000 has set bit 1.
        assert_eq!(read(bitmap), (checked(3), 2000));
    }
}
