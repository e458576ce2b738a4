//! Old bytes of a transaction that its record in the log can't hold: they go to free chunks of the heap.
//!
//! A spill is an undo log. An entry is durable before the program stores to its range, and the word that leads to the spill is, too.
//! A commit makes the new bytes durable first, and its record clears the word. An abort puts the old bytes back durably, and then
//! clears the word. Recovery puts back what the words lead to, after the log has brought all else home.
//!
//! | stops after | word | recovery |
//! |---|---|---|
//! | entries of a new spill | 0 | nothing: the program has not stored |
//! | the word, more entries | the spill | puts the whole entries back; the program has not stored to the range of a torn one |
//! | the new bytes of a commit | the spill | puts the old bytes back |
//! | the record of the commit | 0 | nothing |
//! | some old bytes of an abort | the spill | puts all back again |

use super::{Pool, Request, Reservation};
use crate::begin::begin;
use crate::bugs;
use crate::error::ObjError;
use crate::view::ObjView;
use crate::words::{random, store_words};
use lode_layout::{BLOCK, LINE, ObjSpill, ObjSpillEntry, ObjWords, PoolOffset, Record, align_up};
use lode_pmem::{FaultScope, Medium, hold};
use lode_redo::cover::{Changes, parts_beside};
use std::iter;
use std::ops::Range;

/// Most old bytes of an entry.
const ENTRY_MAX: u64 = 1 << 20;
/// The class of allocations whose blocks are chunks.
const CHUNKS: u8 = 0;

/// The old bytes that a transaction has spilled.
#[derive(Debug, Default)]
pub(super) struct Spills {
    pieces: Vec<Piece>,
    /// The ranges, in the order of their offsets. None touches another.
    ranges: Vec<Range<u64>>,
}

/// A spill.
#[derive(Debug)]
struct Piece {
    /// Index of the word that leads to it.
    word: u64,
    space: Reservation,
    at: PoolOffset,
    header: ObjSpill,
    used: u64,
}

impl Spills {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the ranges.
    pub(super) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the parts of a range that are not in one of `ranges`, which are in order.
    pub(super) fn parts_beside(range: Range<u64>, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let first = ranges.partition_point(|known| known.end <= range.start);
        let known = ranges[first..].iter().take_while(|known| known.start < range.end);
        parts_beside(range.clone(), known.cloned()).collect()
    }

    /// Adds a range that touches none of the others, or joins its neighbours.
    fn add(&mut self, range: Range<u64>) {
        let index = self.ranges.partition_point(|known| known.end < range.start);
        let Range { mut start, mut end } = range;
        let mut last = index;
        while let Some(known) = self.ranges.get(last).filter(|known| known.start <= end) {
            (start, end) = (start.min(known.start), end.max(known.end));
            last += 1;
        }
        self.ranges.splice(index..last, iter::once(start..end));
    }

    /// Adds the entries that clear the words.
    pub(super) fn push_clearing(&self, words: ObjWords, record: &mut Record) {
        self.pieces.iter().for_each(|piece| record.push_word(words.spill(piece.word), 0));
    }
}

impl<M: Medium> Pool<M> {
    /// Spills the old bytes of a part of the pool, which the program has not stored to.
    ///
    /// # Durability
    /// Durable on return.
    pub(super) fn spill(&self, spills: &mut Spills, part: Range<u64>) -> Result<(), ObjError> {
        let mut from = part.start;
        while from < part.end {
            let len = (part.end - from).min(ENTRY_MAX);
            let needed = ObjSpillEntry::len_in_spill(len);
            let has_room = |piece: &Piece| piece.header.len - piece.used >= needed;
            if !spills.pieces.last().is_some_and(has_room) {
                // As long as all before it together: a transaction has few spills.
                let total = spills.pieces.iter().map(|piece| piece.header.len).sum::<u64>();
                let rest = (part.end - from).div_ceil(ENTRY_MAX) * LINE + align_up(part.end - from, LINE);
                let least = ObjSpill::LEN as u64 + needed;
                self.add_piece(spills, least.max(ObjSpill::LEN as u64 + rest.max(total)), least)?;
            }
            if let Some(piece) = spills.pieces.last_mut() {
                self.append(piece, from..from + len)?;
            }
            from += len;
        }
        // ORDER: the old bytes are durable before the words that lead to them, and before the program stores. Stop here: nothing has changed.
        self.register(spills)?;
        spills.add(part);
        Ok(())
    }

    /// Takes space for `wanted` bytes of a spill, or for less in a heap that is nearly full, but not below `least`. Stores its header.
    fn add_piece(&self, spills: &mut Spills, wanted: u64, least: u64) -> Result<(), ObjError> {
        let word = self.take_word()?;
        let space = self.take_space(wanted, least).inspect_err(|_| self.leave_word(word))?;
        let at = PoolOffset::new(align_up(space.at.get(), BLOCK));
        let len = (space.at.get() + space.usable_size - at.get()) / LINE * LINE;
        let header = random().map(|[low, high]| {
            let mut nonce = [0; 16];
            nonce[..8].copy_from_slice(&low.to_le_bytes());
            nonce[8..].copy_from_slice(&high.to_le_bytes());
            ObjSpill { nonce, len }
        });
        let piece = Piece {
            word,
            space,
            at,
            header: header.inspect_err(|_| {
                self.leave_word(word);
                self.heap.cancel(&space);
            })?,
            used: ObjSpill::LEN as u64,
        };
        self.store_spilled(at, &piece.header.encode(&self.uuid))?;
        spills.pieces.push(piece);
        Ok(())
    }

    fn take_space(&self, wanted: u64, least: u64) -> Result<Reservation, ObjError> {
        let mut len = wanted;
        loop {
            let request =
                Request { size: align_up(len, LINE) + BLOCK, class: Some(CHUNKS), ..Request::default() };
            match self.heap.reserve(&self.cover, &request) {
                Err(ObjError::Full { .. }) if len > least => len = (len / 2).max(least),
                outcome => return outcome,
            }
        }
    }

    /// Stores bytes of a spill past the log: the units of free space that the log covers are logged, too.
    fn store_spilled(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), ObjError> {
        FaultScope::run(|| self.medium.store(at, bytes))?;
        if bugs::SPILL_NOT_PERSISTED.is_active() {
            return Ok(());
        }
        Ok(self.cover.persist(at, bytes.len() as u64)?)
    }

    fn append(&self, piece: &mut Piece, range: Range<u64>) -> Result<(), ObjError> {
        let len = range.end - range.start;
        let mut bytes = vec![0; ObjSpillEntry::len_in_spill(len) as usize];
        let (head, rest) = bytes.split_at_mut(ObjSpillEntry::LEN);
        let (old, _) = rest.split_at_mut(len as usize);
        let start = PoolOffset::new(range.start);
        self.medium.memory().reading(|memory| memory.read(start, old))?;
        head.copy_from_slice(&ObjSpillEntry::encode(start, old, &piece.header.nonce));
        self.store_spilled(piece.at.plus(piece.used), &bytes)?;
        piece.used += bytes.len() as u64;
        Ok(())
    }

    /// Makes the words lead to the spills that no word leads to yet.
    fn register(&self, spills: &Spills) -> Result<(), ObjError> {
        let mut record = Record::new();
        for piece in &spills.pieces {
            let at = self.words.spill(piece.word);
            let word = self.medium.memory().reading(|memory| memory.load8(at))?;
            if word != piece.at.get() {
                record.push_word(at, piece.at.get());
            }
        }
        self.commit_words(&record)
    }

    fn commit_words(&self, record: &Record) -> Result<(), ObjError> {
        if record.body().is_empty() {
            return Ok(());
        }
        let open = begin(&self.cover)?;
        Ok(self.cover.commit(open, Changes { entries: record.body(), ..Changes::default() })?)
    }

    /// Puts the old bytes back, durably, but for those of `kept`.
    pub(super) fn put_back(&self, spills: &Spills, kept: &[Range<u64>]) -> Result<(), ObjError> {
        let view = ObjView::open(&*self.medium)?;
        for piece in &spills.pieces {
            each_entry(&view, piece.at, &piece.header, |at, old| {
                let range = at.get()..at.get() + old.len() as u64;
                for part in Spills::parts_beside(range.clone(), kept) {
                    let (from, to) = (part.start - range.start, part.end - range.start);
                    let bytes = &old[from as usize..to as usize];
                    FaultScope::run(|| self.medium.store(PoolOffset::new(part.start), bytes))?;
                }
                Ok(self.cover.persist(at, old.len() as u64)?)
            })?;
        }
        let mut record = Record::new();
        spills.push_clearing(self.words, &mut record);
        // ORDER: the old bytes are durable before the words are cleared. Stop here: recovery puts them back again.
        self.commit_words(&record)
    }

    /// Gives the space back. The words are cleared durably.
    pub(super) fn leave_spills(&self, spills: Spills) {
        for piece in spills.pieces {
            self.heap.cancel(&piece.space);
            self.leave_word(piece.word);
        }
    }

    fn take_word(&self) -> Result<u64, ObjError> {
        let mut taken = hold(&self.spill_words, &*self.medium);
        let free = taken.iter().position(|is_taken| !is_taken).ok_or(ObjError::TooManySpills)?;
        taken[free] = true;
        Ok(free as u64)
    }

    fn leave_word(&self, word: u64) {
        hold(&self.spill_words, &*self.medium)[word as usize] = false;
    }
}

/// Puts back the old bytes of all spills to which the words lead, and clears the words. The log is not in use, or has no units.
///
/// # Durability
/// Durable on return.
pub(super) fn put_all_back<M: Medium>(
    view: &ObjView<M>,
    words: ObjWords,
    uuid: &[u8; 16],
) -> Result<(), ObjError> {
    let medium = view.medium();
    let mut found = Vec::new();
    for index in 0..ObjWords::SPILLS {
        let at = PoolOffset::new(view.word(words.spill(index))?);
        if !at.is_null() {
            found.push((index, at));
        }
    }
    for (_, at) in &found {
        let damaged = ObjError::damaged(crate::Structure::Spill, *at);
        let room = view.heap_end().saturating_sub(at.get());
        let header = ObjSpill::decode(view.bytes(*at)?, uuid, room).map_err(damaged)?;
        each_entry(view, *at, &header, |at, old| {
            FaultScope::run(|| medium.store(at, old))?;
            medium.flush(at, old.len() as u64);
            Ok(())
        })?;
    }
    if found.is_empty() {
        return Ok(());
    }
    // ORDER: the old bytes are durable before the words are cleared. Stop here: they are put back again.
    medium.drain()?;
    store_words(medium, found.into_iter().map(|(index, _)| (words.spill(index), 0)))?;
    // ORDER: the words before anything is allocated in the place of a spill. Stop here: the old bytes are put back again.
    Ok(medium.drain()?)
}

/// Calls `with` for each whole entry of a spill at `at`: the place and the old bytes of its range, which lies in the heap.
fn each_entry<M: Medium>(
    view: &ObjView<M>,
    at: PoolOffset,
    header: &ObjSpill,
    mut with: impl FnMut(PoolOffset, &[u8]) -> Result<(), ObjError>,
) -> Result<(), ObjError> {
    let mut done = ObjSpill::LEN as u64;
    while header.len - done >= ObjSpill::LEN_MIN {
        let place = at.plus(done);
        let Some(entry) = ObjSpillEntry::decode(view.bytes(place)?, header.len - done) else { break };
        if entry.len > ENTRY_MAX {
            break;
        }
        let old = view.range(place.plus(ObjSpillEntry::LEN as u64), entry.len)?;
        if !entry.is_whole(&old, &header.nonce) {
            break;
        }
        if !view.is_in_heap(entry.at, entry.len) {
            let reason = crate::DamageReason::Target { target: entry.at, len: entry.len };
            return Err(ObjError::of(crate::Structure::Spill, place, reason));
        }
        with(entry.at, &old)?;
        done += ObjSpillEntry::len_in_spill(entry.len);
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ranges_join_and_parts_lie_beside_them() {
        let mut spills = Spills::default();
        for range in [10..20, 30..40, 20..25, 50..60] {
            spills.add(range);
        }
        assert_eq!(spills.ranges(), [10..25, 30..40, 50..60]);
        assert_eq!(Spills::parts_beside(0..70, spills.ranges()), [0..10, 25..30, 40..50, 60..70]);
        assert_eq!(Spills::parts_beside(12..45, spills.ranges()), [25..30, 40..45]);
        assert!(Spills::parts_beside(31..40, spills.ranges()).is_empty());
        spills.add(25..50);
        spills.add(70..80);
        assert_eq!(spills.ranges(), [10..60, 70..80]);
    }
}
