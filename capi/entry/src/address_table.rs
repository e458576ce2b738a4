//! A table of address ranges in which look-ups take no lock and store nothing.
//!
//! The slots of the table stay for as long as the library is loaded, so a look-up beside the insertion or the removal of another
//! range reads words that are there. A table grows by pieces, and never shrinks.

use crate::table::Table;
use std::iter::successors;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Slots of a piece.
const SLOTS: usize = 32;

/// Ranges of addresses that do not overlap, each with two words.
#[derive(Debug)]
pub struct AddressTable {
    first: Piece,
    /// Taken by a thread that changes the table.
    change: Table<()>,
}

/// A range of an [`AddressTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// Its first address, not 0.
    pub start: usize,
    /// Number of its addresses.
    pub len: usize,
    /// A number that look-ups can ask for.
    pub number: u64,
    /// A number for the user of the table.
    pub word: usize,
}

/// The reason why a range is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInserted {
    /// The caller is a signal handler that interrupted a change in the same thread.
    Nested,
    /// Another range has the number.
    NumberTaken,
}

#[derive(Debug)]
struct Piece {
    slots: [Slot; SLOTS],
    next: OnceLock<Box<Piece>>,
}

/// A place for a range; `start` is 0 while it is free.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    number: AtomicU64,
    word: AtomicUsize,
}

impl AddressTable {
    /// Returns an empty table.
    pub const fn new() -> AddressTable {
        AddressTable { first: Piece::new(), change: Table::new(()) }
    }

    /// Adds a range. Returns false in a signal handler that interrupted a change in the same thread.
    pub fn insert(&'static self, range: AddressRange) -> bool {
        self.change.with(|()| self.add(range)).is_some()
    }

    /// Adds a range with a number that no other range has.
    ///
    /// # Errors
    /// See [`NotInserted`].
    pub fn insert_numbered(&'static self, range: AddressRange) -> Result<(), NotInserted> {
        let added = self.change.with(|()| {
            let is_new = self.numbered(range.number).is_none();
            if is_new {
                self.add(range);
            }
            is_new
        });
        match added {
            Some(true) => Ok(()),
            Some(false) => Err(NotInserted::NumberTaken),
            None => Err(NotInserted::Nested),
        }
    }

    /// Adds a range. The caller has the lock.
    fn add(&self, range: AddressRange) {
        // ORDER: changes are alone.
        let free = self.slots().find(|slot| slot.start.load(Ordering::Relaxed) == 0);
        free.unwrap_or_else(|| &self.last().next.get_or_init(|| Box::new(Piece::new())).slots[0]).fill(range);
    }

    /// Removes the range that begins at `start`, and returns it. `None` if there is none, and in a signal handler that interrupted a
    /// change in the same thread.
    pub fn remove(&'static self, start: usize) -> Option<AddressRange> {
        let removed = self.change.with(|()| {
            let (slot, range) = self.found().find(|(_, range)| range.start == start)?;
            // ORDER: the slot is free before another range takes it.
            slot.start.store(0, Ordering::Release);
            Some(range)
        });
        removed.flatten()
    }

    /// Gives the range that begins at `start` another length. Does nothing if there is none. It takes no lock: the caller keeps the range in
    /// the table meanwhile.
    pub fn lengthen(&self, start: usize, len: usize) {
        let slot = self.slots().find(|slot| slot.range().is_some_and(|range| range.start == start));
        if let Some(slot) = slot {
            // ORDER: a look-up that reads the old length finds no address of the new part, which no thread has got yet.
            slot.len.store(len, Ordering::Relaxed);
        }
    }

    /// Changes the word of the range that begins at `start`. Look-ups beside it find the old word or the new one. The caller keeps the range
    /// from being removed meanwhile.
    pub fn set_word(&self, start: usize, word: usize) {
        if let Some((slot, _)) = self.found().find(|(_, range)| range.start == start) {
            // ORDER: pairs with `range`: what the word leads to is visible with it.
            slot.word.store(word, Ordering::Release);
        }
    }

    /// Returns all ranges.
    pub fn ranges(&self) -> impl Iterator<Item = AddressRange> {
        self.found().map(|(_, range)| range)
    }

    /// Returns the range that begins at `start`.
    #[inline]
    pub fn starting_at(&self, start: usize) -> Option<AddressRange> {
        let mut piece = &self.first;
        loop {
            // ORDER: `range` looks again.
            let mut slots = piece.slots.iter().filter(|slot| slot.start.load(Ordering::Relaxed) == start);
            if let Some(range) = slots.find_map(Slot::range).filter(|range| range.start == start) {
                return Some(range);
            }
            piece = piece.next.get()?;
        }
    }

    /// Returns the range in which an address lies.
    #[inline]
    pub fn holding(&self, address: usize) -> Option<AddressRange> {
        self.find(|range| address.wrapping_sub(range.start) < range.len)
    }

    /// Returns the range with this number.
    #[inline]
    pub fn numbered(&self, number: u64) -> Option<AddressRange> {
        self.find(|range| range.number == number)
    }

    /// Returns the range with the lowest addresses of those that share addresses with `len` bytes at `start`.
    pub fn first_in(&self, start: usize, len: usize) -> Option<AddressRange> {
        let end = start.saturating_add(len);
        let overlaps =
            |range: &AddressRange| range.start < end && range.start.saturating_add(range.len) > start;
        self.found().map(|(_, range)| range).filter(overlaps).min_by_key(|range| range.start)
    }

    /// Takes the lock of changes before a fork, so that the child finds the table whole.
    pub fn before_fork(&'static self) {
        self.change.before_fork();
    }

    /// Releases the lock of changes after a fork, in the parent and in the child.
    pub fn after_fork(&'static self) {
        self.change.after_fork();
    }

    #[inline]
    fn find(&self, is_wanted: impl Fn(&AddressRange) -> bool) -> Option<AddressRange> {
        self.found().map(|(_, range)| range).find(is_wanted)
    }

    #[inline]
    fn found(&self) -> impl Iterator<Item = (&Slot, AddressRange)> {
        self.slots().filter_map(|slot| Some((slot, slot.range()?)))
    }

    #[inline]
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.pieces().flat_map(|piece| &piece.slots)
    }

    #[inline]
    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        successors(Some(&self.first), |piece| piece.next.get().map(|next| &**next))
    }

    fn last(&self) -> &Piece {
        self.pieces().last().unwrap_or(&self.first)
    }
}

impl Default for AddressTable {
    fn default() -> AddressTable {
        AddressTable::new()
    }
}

impl Piece {
    const fn new() -> Piece {
        Piece { slots: [const { Slot::new() }; SLOTS], next: OnceLock::new() }
    }
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            number: AtomicU64::new(0),
            word: AtomicUsize::new(0),
        }
    }

    /// Stores a range in a free slot.
    fn fill(&self, range: AddressRange) {
        // ORDER: a look-up that read an older range finds that its start has changed, since it reads one of these words after it was
        // freed.
        fence(Ordering::Release);
        // ORDER: `start` makes these words visible.
        self.len.store(range.len, Ordering::Relaxed);
        // ORDER: as above.
        self.number.store(range.number, Ordering::Relaxed);
        // ORDER: as above.
        self.word.store(range.word, Ordering::Relaxed);
        // ORDER: pairs with `range`.
        self.start.store(range.start, Ordering::Release);
    }

    /// Returns the range in the slot; `None` if it is free, or changes meanwhile.
    #[inline]
    fn range(&self) -> Option<AddressRange> {
        // ORDER: pairs with `fill`: the other words of the range are visible.
        let start = self.start.load(Ordering::Acquire);
        if start == 0 {
            return None;
        }
        let range = AddressRange {
            start,
            // ORDER: the fence below, and the second load of `start`, find a slot that was taken anew meanwhile.
            len: self.len.load(Ordering::Relaxed),
            // ORDER: as above.
            number: self.number.load(Ordering::Relaxed),
            // ORDER: as above; and pairs with `set_word`.
            word: self.word.load(Ordering::Acquire),
        };
        // ORDER: the loads above before the one below.
        fence(Ordering::Acquire);
        // ORDER: as above.
        (self.start.load(Ordering::Relaxed) == start).then_some(range)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::thread;

    fn table() -> &'static AddressTable {
        Box::leak(Box::new(AddressTable::new()))
    }

    fn range(number: usize) -> AddressRange {
        AddressRange { start: number * 100, len: 50, number: number as u64, word: !number }
    }

    #[test]
    fn ranges_are_found_until_they_are_removed() {
        let table = table();
        for round in 0..2 {
            let all: Vec<_> = (1..=3 * SLOTS).map(range).collect();
            all.iter().for_each(|range| assert!(table.insert(*range)));
            for range in &all {
                assert_eq!(table.starting_at(range.start), Some(*range));
                assert_eq!(table.numbered(range.number), Some(*range));
                for off in [0, 49] {
                    assert_eq!(table.holding(range.start + off), Some(*range));
                }
                assert_eq!((table.holding(range.start - 1), table.holding(range.start + 50)), (None, None));
                assert_eq!(table.first_in(range.start + 49, 1000), Some(*range));
                assert_eq!(table.first_in(range.start - 50, 50), None);
                assert_eq!(table.first_in(range.start - 50, 51), Some(*range));
                assert_eq!(table.first_in(range.start, usize::MAX), Some(*range));
            }
            all.iter().for_each(|range| assert_eq!(table.remove(range.start), Some(*range)));
            assert_eq!((table.remove(100), table.holding(100), table.starting_at(0)), (None, None, None));
            assert_eq!(table.pieces().count(), 3, "round {round}");
        }
    }

    #[test]
    fn number_is_taken_until_its_range_is_removed() {
        let table = table();
        let (first, second) = (range(1), AddressRange { start: 900, ..range(1) });
        assert_eq!(table.insert_numbered(first), Ok(()));
        assert_eq!(table.insert_numbered(second), Err(NotInserted::NumberTaken));
        assert_eq!((table.starting_at(900), table.numbered(1)), (None, Some(first)));
        assert_eq!(table.remove(100), Some(first));
        assert_eq!(table.insert_numbered(second), Ok(()));
    }

    /// A range comes and goes at one place, with words that belong together.
    #[test]
    fn look_ups_find_whole_ranges() {
        let table = table();
        thread::scope(|threads| {
            let reader = threads.spawn(|| {
                let mut found = 0_u64;
                while table.starting_at(1).is_none() {
                    if let Some(range) = table.holding(150) {
                        assert_eq!(range.number, range.word as u64);
                        found += 1;
                    }
                }
                found
            });
            let mut number = 0;
            while number < 20_000 {
                number += 1;
                table.insert(AddressRange {
                    start: 100 + number % 2,
                    len: 100,
                    number: number as u64,
                    word: number,
                });
                table.remove(100 + number % 2);
            }
            table.insert(AddressRange { start: 1, len: 1, number: 0, word: 0 });
            reader.join().unwrap();
        });
    }
}
