//! Old bytes of a transaction that its record in the log can't hold: they go to free chunks of the heap.
//!
//! A spill is an undo log. A transaction has one word for its spills: it leads to the newest one, whose header leads to the one before. An entry is durable before the program stores to its range, and the word that leads to the spill is, too.
//! A commit makes the new bytes durable first, and its record clears the word. An abort puts the old bytes back durably, and then
//! clears the word. Recovery puts back what the words lead to, after the log has brought all else home.
//!
//! | stops after | word | recovery |
//! |---|---|---|
//! | entries of a new spill | 0 | nothing: the program has not stored |
//! | the word, more entries | the spill | puts the whole entries back; the program has not stored to the range of a torn one |
//! | the header of a further spill | the one before | the same: no entry is there yet, or the program has not stored |
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
use lode_redo::cover::{Changes, CoverError, parts_beside};
use lode_redo::{LogError, Ranges};
use std::ops::Range;

/// Most old bytes of an entry.
const ENTRY_MAX: u64 = 1 << 20;
/// The class of allocations whose blocks are chunks.
const CHUNKS: u8 = 0;

/// The old bytes that a transaction has spilled.
#[derive(Debug, Default)]
pub(super) struct Spills {
    /// The spills, the oldest first.
    pieces: Vec<Piece>,
    /// Index of the word that leads to the newest one.
    word: Option<u64>,
    /// The ranges. None touches another.
    ranges: Ranges,
}

/// A spill.
#[derive(Debug)]
struct Piece {
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
    pub(super) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Adds the entry that clears the word.
    pub(super) fn push_clearing(&self, words: ObjWords, record: &mut Record) {
        self.word.iter().for_each(|word| record.push_word(words.spill(*word), 0));
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
        // ORDER: the old bytes are durable before the word that leads to them, and before the program stores. Stop here: nothing has changed.
        self.register(spills)?;
        spills.ranges.add(part);
        Ok(())
    }

    /// Takes space for `wanted` bytes of a spill, or for less in a heap that is nearly full, but not below `least`. Stores its header.
    fn add_piece(&self, spills: &mut Spills, wanted: u64, least: u64) -> Result<(), ObjError> {
        let [low, high] = random()?;
        let space = self.take_space(wanted, least)?;
        let at = PoolOffset::new(align_up(space.at.get(), BLOCK));
        let len = (space.at.get() + space.usable_size - at.get()) / LINE * LINE;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&low.to_le_bytes());
        nonce[8..].copy_from_slice(&high.to_le_bytes());
        let before = spills.pieces.last().map_or(PoolOffset::NULL, |piece| piece.at);
        let piece = Piece { space, at, header: ObjSpill { nonce, len, before }, used: ObjSpill::LEN as u64 };
        self.store_spilled(at, &piece.header.encode(&self.uuid)).inspect_err(|_| self.heap.cancel(&space))?;
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

    /// Makes the word of the transaction lead to its newest spill.
    fn register(&self, spills: &mut Spills) -> Result<(), ObjError> {
        let Some(newest) = spills.pieces.last().map(|piece| piece.at) else { return Ok(()) };
        let index = match spills.word {
            Some(index) => index,
            None => *spills.word.insert(self.take_word()?),
        };
        let at = self.words.spill(index);
        let mut record = Record::new();
        if self.medium.memory().reading(|memory| memory.load8(at))? != newest.get() {
            record.push_word(at, newest.get());
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
                for part in parts_beside(range.clone(), kept.iter().cloned()) {
                    let (from, to) = (part.start - range.start, part.end - range.start);
                    let bytes = &old[from as usize..to as usize];
                    FaultScope::run(|| self.medium.store(PoolOffset::new(part.start), bytes))?;
                }
                Ok(self.cover.persist(at, old.len() as u64)?)
            })?;
        }
        let mut record = Record::new();
        spills.push_clearing(self.words, &mut record);
        // ORDER: the old bytes are durable before the word is cleared. Stop here: recovery puts them back again.
        self.commit_words(&record)
    }

    /// Gives the space back. The word is cleared durably.
    pub(super) fn leave_spills(&self, spills: Spills) {
        spills.pieces.iter().for_each(|piece| self.heap.cancel(&piece.space));
        if let Some(word) = spills.word {
            hold(&self.spill_words, &*self.medium)[word as usize] = false;
        }
    }

    /// Takes a word. There are more than transactions that may be open, so none is free only while hundreds of threads abort theirs,
    /// which wait for no other transaction.
    fn take_word(&self) -> Result<u64, ObjError> {
        for round in 0.. {
            let free = {
                let mut taken = hold(&self.spill_words, &*self.medium);
                let free = taken.iter().position(|is_taken| !is_taken);
                free.inspect(|free| taken[*free] = true)
            };
            if let Some(free) = free {
                return Ok(free as u64);
            }
            if self.cover.has_failed() {
                return Err(CoverError::Log(LogError::Poisoned).into());
            }
            self.medium.relax(round);
        }
        unreachable!("the loop ends with a word")
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
    // No two spills share a byte.
    let mut room = view.heap_end();
    for (_, newest) in &found {
        let mut at = *newest;
        while !at.is_null() {
            let damaged = ObjError::damaged(crate::Structure::Spill, at);
            let room_here = room.min(view.heap_end().saturating_sub(at.get()));
            let header = ObjSpill::decode(view.bytes(at)?, uuid, room_here).map_err(damaged)?;
            room -= header.len;
            each_entry(view, at, &header, |at, old| {
                FaultScope::run(|| medium.store(at, old))?;
                medium.flush(at, old.len() as u64);
                Ok(())
            })?;
            at = header.before;
        }
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
