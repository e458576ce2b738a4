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
//! # Cost
//! A line without pieces: one load. A line with pieces: a lock, and a copy of each piece.

use hashbrown::HashMap;
use lode_layout::{Entries, Entry, LINE, PoolOffset, WORD, checked, unchecked};
use lode_pmem::Readable;
use lode_pmem::sync::{Mutex, MutexGuard};
use lode_redo::WrittenBack;
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

/// Changes of a line by one transaction.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The sequence number of the transaction.
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

    /// Adds the changes of the entries of the record `sequence`, in their order. Those of one word come in the order of
    /// the log: the caller holds the locks.
    pub(crate) fn add(&self, sequence: u64, entries: &[u64]) {
        for entry in Entries::new(entries).map_while(Result::ok) {
            match entry {
                Entry::Words { at, words } => self.add_bytes(sequence, at, words.as_bytes()),
                Entry::Bytes { at, len, words } => {
                    self.add_bytes(sequence, at, &words.as_bytes()[..len as usize]);
                }
                Entry::Zero { at, len } => {
                    for (line, range) in parts(at, len) {
                        self.add_to_line(sequence, line, range, &[0; LINE as usize]);
                    }
                }
                Entry::SetBits { at, mask } => self.add_bits(sequence, at, mask, 0),
                Entry::ClearBits { at, mask } => self.add_bits(sequence, at, 0, mask),
                // Content in place, and further entries: their transactions hand on no locks.
                Entry::Payload { .. } | Entry::Continue { .. } => {}
            }
        }
    }

    fn add_bytes(&self, sequence: u64, at: PoolOffset, bytes: &[u8]) {
        let mut rest = bytes;
        for (line, range) in parts(at, bytes.len() as u64) {
            let (part, after) = rest.split_at(range.len());
            self.add_to_line(sequence, line, range, part);
            rest = after;
        }
    }

    /// Adds the first of `bytes` at `range` of the line.
    fn add_to_line(&self, sequence: u64, line: u64, range: Range<usize>, bytes: &[u8]) {
        let bytes = &bytes[..range.len()];
        self.with_pieces(line, |pieces| {
            if let Some(Piece { sequence: last, change: Change::Bytes { mask, words } }) = pieces.last_mut()
                && *last == sequence
            {
                *mask |= mask_of(&range);
                words.as_mut_bytes()[range.clone()].copy_from_slice(bytes);
                return;
            }
            let mut words = [0; LINE_WORDS];
            words.as_mut_bytes()[range.clone()].copy_from_slice(bytes);
            pieces.push(Piece { sequence, change: Change::Bytes { mask: mask_of(&range), words } });
        });
    }

    fn add_bits(&self, sequence: u64, at: PoolOffset, set: u64, clear: u64) {
        let word = (at.get() % LINE / WORD) as usize;
        self.with_pieces(at.get() / LINE, |pieces| {
            pieces.push(Piece { sequence, change: Change::Bits { word, set, clear } });
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
