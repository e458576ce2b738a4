//! The old bytes of the ranges of an open transaction.

use super::HEAD_WORDS;
use crate::ranges::parts_beside;
use lode_layout::{PoolOffset, RECORD_HEADER_WORDS, Record, WORD};
use lode_pmem::Readable;
use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

/// Ranges up to which they are kept in the order in which they were added.
const FEW: usize = 32;
/// Ranges up to which they are a list: a new one moves those after it.
const LISTED: usize = 128;
/// Units up to which a range is looked up by its units.
const FEW_UNITS: u64 = 4;
/// Words of the filter of units.
const FILTER_WORDS: usize = 8;

/// A range of a transaction, and its bytes before the transaction.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    start: u64,
    end: u64,
    /// Index of the first of its old bytes.
    old: usize,
}

impl Snapshot {
    fn len(&self) -> u64 {
        self.end - self.start
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.start < range.end && range.start < self.end
    }

    fn contains(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.end
    }
}

/// The memory of a record, and of the list of units that it claims.
///
/// Boxed, so that it is handed on as a pointer: a copy of words that were stored after the fence waits for its end.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) record: Record,
    pub(super) units: Vec<u64>,
}

/// The ranges of a transaction, none of which overlap, with their old bytes.
///
/// Most transactions have few, in units of their own. Their ranges stay in the order in which they were added, and a filter tells that
/// a unit has none yet. Others are kept in the order of their offsets: as a list, or as a tree if they are many.
#[derive(Debug)]
pub(super) struct Snapshots {
    ranges: Vec<Snapshot>,
    /// True if the ranges are in the order of their offsets.
    is_sorted: bool,
    /// All ranges by their start, if they are many.
    many: BTreeMap<u64, Snapshot>,
    old: Vec<u8>,
    /// A bit for each unit of a range, by its number.
    filter: [u64; FILTER_WORDS],
    /// Bytes of a unit, as a power of two.
    unit_shift: u32,
    /// True from the moment when the transaction can't be aborted any more.
    is_committing: bool,
    /// Words that its record holds, and that are stored when the record is durable.
    pending: Vec<(PoolOffset, u64)>,
    /// The buffers of the transaction that was at this place before.
    spare: Option<Box<Buffers>>,
    /// The number under which the old bytes are pending; 0 if they are not.
    pub(super) pending_id: u64,
    /// Bytes of the log that images of the units take, or pending bytes.
    pub(super) held: u64,
    /// Bytes of the log's share that the place has.
    pub(super) allowance: u64,
    /// Units that transactions at this place have covered in this epoch.
    pub(super) covered: Vec<u64>,
    /// Ranges that transactions at this place have added in this epoch.
    pub(super) added: u64,
    /// True if another thread has looked at the snapshots in this epoch: a bias would not pay.
    pub(super) is_shared: bool,
}

/// The way in which a new range lies among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addition {
    /// Words of a record that the content takes which no range has.
    pub(super) words: u64,
    /// Units that no range has.
    pub(super) new_units: u64,
    /// True if all of its bytes are in one range.
    is_within: bool,
}

impl Snapshots {
    /// Returns no ranges, for units of so many bytes.
    pub(super) fn new(unit_len: u64) -> Snapshots {
        Snapshots {
            ranges: Vec::new(),
            is_sorted: false,
            many: BTreeMap::new(),
            old: Vec::new(),
            filter: [0; FILTER_WORDS],
            unit_shift: unit_len.trailing_zeros(),
            is_committing: false,
            pending: Vec::new(),
            spare: None,
            pending_id: 0,
            held: 0,
            allowance: 0,
            covered: Vec::new(),
            added: 0,
            is_shared: false,
        }
    }

    /// Returns buffers, with what they held before.
    pub(super) fn take_buffers(&mut self) -> Box<Buffers> {
        self.spare.take().unwrap_or_default()
    }

    /// Keeps buffers for the next transaction.
    pub(super) fn spare(&mut self, buffers: Box<Buffers>) {
        self.spare = Some(buffers);
    }

    /// Forgets all ranges.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        if self.is_sorted {
            self.many.clear();
        }
        self.is_sorted = false;
        self.old.clear();
        self.filter = [0; FILTER_WORDS];
        self.is_committing = false;
        self.pending.clear();
        self.pending_id = 0;
        self.held = 0;
    }

    /// Returns the words that the content of the ranges takes in a record.
    pub(super) fn record_words(&self) -> u64 {
        self.ranges().map(|(at, len)| words_of_part(at.get()..at.get() + len)).sum::<u64>()
            + RECORD_HEADER_WORDS as u64
    }

    /// Says that the transaction can't be aborted any more, and that its record holds the words `pending`.
    pub(super) fn begin_commit(&mut self, pending: &[(PoolOffset, u64)]) {
        self.is_committing = true;
        self.pending.clear();
        self.pending.extend_from_slice(pending);
    }

    /// Returns true if the transaction can't be aborted any more.
    pub(super) fn is_committing(&self) -> bool {
        self.is_committing
    }

    /// Returns the parts of a range that no snapshot has.
    pub(super) fn parts_not_kept(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        self.sort();
        self.parts_beside(range).collect()
    }

    /// Returns the parts of a range that no snapshot has. The ranges are sorted.
    fn parts_beside(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let known = self.overlapping(range.clone()).map(|snapshot| snapshot.start..snapshot.end);
        parts_beside(range, known)
    }

    /// Returns the way in which a range of these units lies among the others. Sorts them if that is not seen at once.
    #[inline]
    pub(super) fn addition(&mut self, range: &Range<u64>, units: &Range<u64>) -> Addition {
        let is_apart = !self.is_sorted
            && self.ranges.len() < FEW
            && units.start + 1 == units.end
            && !self.may_have_unit(units.start);
        if is_apart {
            return Addition { words: words_of_part(range.clone()), new_units: 1, is_within: false };
        }
        self.addition_among(range, units)
    }

    fn addition_among(&mut self, range: &Range<u64>, units: &Range<u64>) -> Addition {
        if range.is_empty() {
            return Addition { words: 0, new_units: 0, is_within: true };
        }
        let is_wide = self.ranges.len() >= FEW || units.end - units.start > FEW_UNITS;
        if !self.is_sorted && !is_wide {
            let mut overlapping = self.ranges.iter().filter(|snapshot| snapshot.overlaps(range));
            match overlapping.next() {
                None => {
                    let new_units = units.clone().filter(|unit| !self.has_unit(*unit)).count() as u64;
                    return Addition { words: words_of_part(range.clone()), new_units, is_within: false };
                }
                Some(snapshot) if snapshot.contains(range) => {
                    return Addition { words: 0, new_units: 0, is_within: true };
                }
                Some(_) => {}
            }
        }
        self.sort();
        let new_units = self.new_units(units.clone());
        Addition { words: self.words_of(range.clone()), new_units, is_within: false }
    }

    fn filter_bit(unit: u64) -> (usize, u64) {
        ((unit / 64) as usize % FILTER_WORDS, 1 << (unit % 64))
    }

    fn may_have_unit(&self, unit: u64) -> bool {
        let (word, bit) = Snapshots::filter_bit(unit);
        self.filter[word] & bit != 0
    }

    fn has_unit(&self, unit: u64) -> bool {
        self.may_have_unit(unit) && self.ranges.iter().any(|snapshot| self.units_of(snapshot).contains(&unit))
    }

    fn units_of(&self, snapshot: &Snapshot) -> Range<u64> {
        snapshot.start >> self.unit_shift..((snapshot.end - 1) >> self.unit_shift) + 1
    }

    /// Keeps the ranges in the order of their offsets from now on.
    #[cold]
    fn sort(&mut self) {
        if self.is_sorted {
            return;
        }
        self.is_sorted = true;
        self.ranges.sort_unstable_by_key(|snapshot| snapshot.start);
    }

    /// Returns the words of a record that the content of those parts of a range takes which no snapshot has.
    fn words_of(&self, range: Range<u64>) -> u64 {
        self.parts_beside(range).map(words_of_part).sum()
    }

    /// Returns the number of those units that no range has. The ranges are sorted.
    fn new_units(&self, units: Range<u64>) -> u64 {
        let (mut new, mut from) = (0, units.start);
        while from < units.end {
            let known = self.first_after(from << self.unit_shift).map(|snapshot| self.units_of(snapshot));
            let known = known.unwrap_or(units.end..units.end);
            new += known.start.clamp(from, units.end) - from;
            from = known.end;
        }
        new
    }

    /// Keeps the bytes of a range as they are now, but for those that it has already. Returns a mark of the state before.
    #[inline]
    pub(super) fn keep(
        &mut self,
        memory: &Readable,
        range: Range<u64>,
        units: Range<u64>,
        addition: Addition,
    ) -> usize {
        let before = self.old.len();
        self.added += 1;
        if addition.is_within {
            return before;
        }
        if self.is_sorted {
            self.keep_sorted(memory, range);
            return before;
        }
        for unit in units {
            let (word, bit) = Snapshots::filter_bit(unit);
            self.filter[word] |= bit;
        }
        let snapshot = self.load_old(memory, range);
        self.ranges.push(snapshot);
        before
    }

    fn keep_sorted(&mut self, memory: &Readable, range: Range<u64>) {
        let parts: Vec<_> = self.parts_beside(range).collect();
        for part in parts {
            let snapshot = self.load_old(memory, part);
            self.insert(snapshot);
        }
    }

    /// Inserts a range into those that are sorted.
    fn insert(&mut self, snapshot: Snapshot) {
        if self.ranges.len() == LISTED {
            self.many = self.ranges.drain(..).map(|listed| (listed.start, listed)).collect();
        }
        if self.many.is_empty() {
            let index = self.ranges.partition_point(|listed| listed.start < snapshot.start);
            self.ranges.insert(index, snapshot);
        } else {
            self.many.insert(snapshot.start, snapshot);
        }
    }

    /// Forgets the bytes that were kept since the mark, because they could not be read.
    pub(super) fn forget_since(&mut self, mark: usize) {
        self.ranges.retain(|snapshot| snapshot.old < mark);
        self.many.retain(|_, snapshot| snapshot.old < mark);
        self.old.truncate(mark);
    }

    /// Keeps the bytes of a range.
    #[inline]
    fn load_old(&mut self, memory: &Readable, range: Range<u64>) -> Snapshot {
        let old = self.old.len();
        let at = PoolOffset::new(range.start);
        if range.end - range.start == WORD && range.start.is_multiple_of(WORD) {
            self.old.extend_from_slice(&memory.load8(at).to_le_bytes());
        } else {
            self.old.resize(old + (range.end - range.start) as usize, 0);
            memory.read(at, &mut self.old[old..]);
        }
        Snapshot { start: range.start, end: range.end, old }
    }

    /// Returns the first range that ends after `at`, if they are sorted.
    fn first_after(&self, at: u64) -> Option<&Snapshot> {
        if self.many.is_empty() {
            return self.ranges.get(self.ranges.partition_point(|snapshot| snapshot.end <= at));
        }
        let before = self.many.range(..at).next_back().filter(|(_, snapshot)| snapshot.end > at);
        before.or_else(|| self.many.range(at..).next()).map(|(_, snapshot)| snapshot)
    }

    /// Returns true if a snapshot or a pending word has a byte of the range.
    pub(super) fn overlaps(&self, range: Range<u64>) -> bool {
        let is_inside = |at: PoolOffset| at.get() < range.end && at.get() + WORD > range.start;
        self.pending.iter().any(|(at, _)| is_inside(*at)) || self.overlapping(range).next().is_some()
    }

    /// Replaces those of `bytes`, which are the content from `at` on, that a pending word has.
    pub(super) fn overlay_pending(&self, at: u64, bytes: &mut [u8]) {
        for (word_at, word) in &self.pending {
            for (place, byte) in (word_at.get()..).zip(word.to_le_bytes()) {
                let index = place.checked_sub(at).and_then(|index| usize::try_from(index).ok());
                if let Some(found) = index.and_then(|index| bytes.get_mut(index)) {
                    *found = byte;
                }
            }
        }
    }

    /// Replaces those of `bytes`, which are the content from `at` on, that a snapshot has by the old ones.
    pub(super) fn overlay(&self, at: u64, bytes: &mut [u8]) {
        let end = at + bytes.len() as u64;
        for snapshot in self.overlapping(at..end) {
            let (from, to) = (snapshot.start.max(at), snapshot.end.min(end));
            let old = snapshot.old + (from - snapshot.start) as usize;
            let len = (to - from) as usize;
            bytes[(from - at) as usize..][..len].copy_from_slice(&self.old[old..old + len]);
        }
    }

    /// Returns the ranges: offsets and lengths.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (PoolOffset, u64)> {
        self.all().map(|snapshot| (PoolOffset::new(snapshot.start), snapshot.len()))
    }

    /// Calls `with` for each range. For the moment after a fence: the iterator over both lists is copied when it is made, and the copy
    /// would wait for the end of the fence.
    #[inline]
    pub(super) fn each_range(&self, mut with: impl FnMut(PoolOffset, u64)) {
        let mut call = |snapshot: &Snapshot| with(PoolOffset::new(snapshot.start), snapshot.len());
        self.ranges.iter().for_each(&mut call);
        if !self.many.is_empty() {
            self.many.values().for_each(call);
        }
    }

    /// Calls `with` for the parts of a range that were kept since the mark, with their old bytes.
    #[inline]
    pub(super) fn each_kept_since(
        &self,
        mark: usize,
        range: Range<u64>,
        mut with: impl FnMut(PoolOffset, &[u8]),
    ) {
        for kept in self.overlapping(range).filter(|kept| kept.old >= mark) {
            with(PoolOffset::new(kept.start), &self.old[kept.old..][..kept.len() as usize]);
        }
    }

    /// Returns the ranges, with their old bytes.
    pub(super) fn old(&self) -> impl Iterator<Item = (PoolOffset, &[u8])> {
        self.all().map(|snapshot| {
            let old = &self.old[snapshot.old..][..snapshot.len() as usize];
            (PoolOffset::new(snapshot.start), old)
        })
    }

    #[inline]
    fn all(&self) -> impl Iterator<Item = &Snapshot> {
        self.ranges.iter().chain(self.many.values())
    }

    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &Snapshot> {
        let range = if range.is_empty() { 0..0 } else { range };
        let (unsorted, first) = match self.is_sorted {
            true => (&[][..], self.first_after(range.start)),
            false => (&self.ranges[..], None),
        };
        let end = range.end;
        let sorted = iter::successors(first, |snapshot| self.first_after(snapshot.end));
        let sorted = sorted.take_while(move |snapshot| snapshot.start < end);
        unsorted.iter().chain(sorted).filter(move |snapshot| snapshot.overlaps(&range))
    }
}

/// Returns the words of an entry with so many bytes.
#[inline]
fn words_of_part(part: Range<u64>) -> u64 {
    if part.is_empty() { 0 } else { HEAD_WORDS + (part.end - part.start).div_ceil(WORD) }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_pmem::Memory;

    /// Returns snapshots of units of 8 bytes, and a function that fills memory with a byte and keeps a range of it.
    fn kept(steps: &[(u8, Range<u64>)]) -> (Snapshots, Vec<Addition>) {
        let memory = Memory::anonymous(4096).expect("memory");
        let mut snapshots = Snapshots::new(8);
        let mut keep = |(byte, range): &(u8, Range<u64>)| {
            memory.store(PoolOffset::NULL, &[*byte; 512]);
            let units = range.start / 8..range.end.div_ceil(8);
            let addition = snapshots.addition(range, &units);
            let keep = |memory: &Readable| snapshots.keep(memory, range.clone(), units.clone(), addition);
            memory.reading(keep).expect("memory");
            addition
        };
        let additions = steps.iter().map(&mut keep).collect();
        (snapshots, additions)
    }

    fn bytes(snapshots: &Snapshots, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        snapshots.overlay(0, &mut bytes);
        bytes
    }

    #[test]
    fn first_content_is_kept() {
        let (mut snapshots, _) = kept(&[(1, 8..16), (2, 4..20), (2, 30..31), (3, 0..64)]);
        let mut expected = [3; 66];
        for (range, byte) in [(4..20, 2), (8..16, 1), (30..31, 2), (64..66, 0)] {
            expected[range].fill(byte);
        }
        assert_eq!(bytes(&snapshots, 66), expected);
        let mut part = [9; 3];
        snapshots.overlay(15, &mut part);
        assert_eq!(part, [1, 2, 2]);
        let ranges: Vec<_> = snapshots.ranges().map(|(at, len)| (at.get(), len)).collect();
        assert_eq!(ranges, [(0, 4), (4, 4), (8, 8), (16, 4), (20, 10), (30, 1), (31, 33)]);
        assert!(snapshots.overlaps(63..70) && !snapshots.overlaps(64..70) && !snapshots.overlaps(10..10));
        snapshots.begin_commit(&[(PoolOffset::new(62), u64::MAX)]);
        snapshots.overlay_pending(60, &mut part);
        assert_eq!(
            (part, snapshots.overlaps(69..70), snapshots.overlaps(70..71)),
            ([1, 2, 255], true, false)
        );
        snapshots.forget_since(8);
        assert_eq!(snapshots.ranges().map(|(at, _)| at.get()).collect::<Vec<_>>(), [8]);
        snapshots.clear();
        assert_eq!((snapshots.ranges().count(), snapshots.old().count()), (0, 0));
    }

    #[test]
    fn additions_count_new_words_and_units() {
        let (snapshots, additions) =
            kept(&[(1, 16..24), (2, 0..8), (2, 2..4), (3, 10..16), (4, 24..32), (5, 12..20), (6, 0..0)]);
        let counts: Vec<_> = additions.iter().map(|added| (added.words, added.new_units)).collect();
        assert_eq!(counts, [(3, 1), (3, 1), (0, 0), (3, 1), (3, 1), (0, 0), (0, 0)]);
        assert_eq!(bytes(&snapshots, 33)[..12], [2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 3, 3]);
        assert_eq!(bytes(&snapshots, 33)[12..], [[3; 4].as_slice(), &[1; 8], &[4; 8], &[0]].concat());
        // Beyond the few, and a range over all of them.
        let mut steps: Vec<_> =
            (0..FEW as u64 + 8).rev().map(|index| (7, index * 12..index * 12 + 6)).collect();
        steps.push((8, 0..480));
        let (snapshots, additions) = kept(&steps);
        assert_eq!(
            additions[FEW + 8].new_units,
            60 - additions[..FEW + 8].iter().map(|add| add.new_units).sum::<u64>()
        );
        let expected: Vec<u8> = (0..480).map(|at| if at % 12 < 6 { 7 } else { 8 }).collect();
        assert_eq!(bytes(&snapshots, 480), expected);
    }

    /// A new range moves none of the others once they are many.
    #[test]
    fn many_ranges_are_no_list() {
        const COUNT: u64 = 1_024;
        let memory = Memory::anonymous(COUNT * 16).expect("memory");
        let mut snapshots = Snapshots::new(256);
        for number in 0..COUNT {
            // In no order.
            let at = number * 2_477 % COUNT * 16;
            memory.store(PoolOffset::new(at), &[number as u8; 16]);
            let (range, units) = (at..at + 8, at / 256..at / 256 + 1);
            let addition = snapshots.addition(&range, &units);
            let is_known = snapshots.ranges().any(|(known, _)| known.get() / 256 == units.start);
            assert_eq!((addition.words, addition.new_units), (3, u64::from(!is_known)), "{number}");
            let keep = |memory: &Readable| snapshots.keep(memory, range, units, addition);
            memory.reading(keep).expect("memory");
            assert!(snapshots.ranges.len() <= LISTED, "a list of {} ranges", snapshots.ranges.len());
            assert_eq!(snapshots.all().count() as u64, number + 1);
        }
        assert!(snapshots.ranges().is_sorted(), "the ranges are in their order");
        let units = COUNT * 16 / 256;
        let whole = snapshots.addition(&(0..COUNT * 16), &(0..units + 3));
        assert_eq!((whole.words, whole.new_units), (COUNT * 3, 3));
        assert_eq!(
            snapshots.overlapping(24..56).map(|snapshot| snapshot.start).collect::<Vec<_>>(),
            [32, 48]
        );
        let found = bytes(&snapshots, 4_096);
        let is_old = |at: usize| {
            u64::from(found[at * 16])
                == (0..COUNT).find(|number| number * 2_477 % COUNT == at as u64).unwrap_or(0) % 256
        };
        assert!((0..256).all(is_old), "a range has bytes of another one");
        snapshots.clear();
        assert_eq!((snapshots.ranges().count(), snapshots.overlaps(0..COUNT)), (0, false));
    }
}
