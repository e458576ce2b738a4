//! The old bytes of the ranges of an open transaction.

use super::HEAD_WORDS;
use lode_layout::{PoolOffset, Record, WORD};
use lode_pmem::Readable;
use std::ops::Range;

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
}

/// The ranges of a transaction, none of which overlap, with their old bytes.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// In the order of their offsets.
    ranges: Vec<Snapshot>,
    old: Vec<u8>,
    /// The units of the ranges, in their order.
    units: Vec<u64>,
    /// True from the moment when the transaction can't be aborted any more.
    is_committing: bool,
    /// Words that its record holds, and that are stored when the record is durable.
    pending: Vec<(PoolOffset, u64)>,
    /// The record of the transaction that was at this place before, for its memory.
    spare: Option<Record>,
}

impl Snapshots {
    /// Returns an empty record.
    pub(super) fn take_record(&mut self) -> Record {
        self.spare.take().unwrap_or_default()
    }

    /// Keeps the memory of a record for the next one.
    pub(super) fn spare(&mut self, record: Record) {
        self.spare = Some(record);
    }

    /// Forgets all ranges.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.old.clear();
        self.units.clear();
        self.is_committing = false;
        self.pending.clear();
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

    /// Returns the words of a record that the content of those parts of a range takes which no snapshot has.
    pub(super) fn words_of(&self, range: Range<u64>) -> u64 {
        let mut words = 0;
        let mut from = range.start;
        for snapshot in self.overlapping(range.clone()) {
            words += words_of_part(from..snapshot.start);
            from = from.max(snapshot.end);
        }
        words + words_of_part(from..range.end)
    }

    /// Returns the number of those units that no range has.
    pub(super) fn new_units(&self, units: Range<u64>) -> u64 {
        let from = self.units.partition_point(|unit| *unit < units.start);
        let known = self.units[from..].partition_point(|unit| *unit < units.end);
        units.end.saturating_sub(units.start) - known as u64
    }

    /// Notes the units of a range.
    pub(super) fn add_units(&mut self, units: Range<u64>) {
        for unit in units {
            if let Err(index) = self.units.binary_search(&unit) {
                self.units.insert(index, unit);
            }
        }
    }

    /// Keeps the bytes of a range as they are now, but for those that it has already. Returns a mark of the state before.
    pub(super) fn keep(&mut self, memory: &Readable, range: Range<u64>) -> usize {
        let before = self.old.len();
        let (mut index, mut from) = (self.first_after(range.start), range.start);
        while from < range.end {
            let next = self.ranges.get(index).copied().filter(|next| next.start < range.end);
            let end = next.map_or(range.end, |next| next.start);
            if from < end {
                self.keep_at(index, memory, from..end);
                index += 1;
            }
            from = next.map_or(range.end, |next| next.end.max(from));
            index += 1;
        }
        before
    }

    /// Forgets the bytes that were kept since the mark, because they could not be read.
    pub(super) fn forget_since(&mut self, mark: usize) {
        self.ranges.retain(|snapshot| snapshot.old < mark);
        self.old.truncate(mark);
    }

    fn keep_at(&mut self, index: usize, memory: &Readable, range: Range<u64>) {
        let old = self.old.len();
        self.old.resize(old + (range.end - range.start) as usize, 0);
        memory.read(PoolOffset::new(range.start), &mut self.old[old..]);
        self.ranges.insert(index, Snapshot { start: range.start, end: range.end, old });
    }

    /// Returns the index of the first range that ends after `at`.
    fn first_after(&self, at: u64) -> usize {
        self.ranges.partition_point(|snapshot| snapshot.end <= at)
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
        self.ranges.iter().map(|snapshot| (PoolOffset::new(snapshot.start), snapshot.len()))
    }

    /// Returns the ranges, with their old bytes.
    pub(super) fn old(&self) -> impl Iterator<Item = (PoolOffset, &[u8])> {
        self.ranges.iter().map(|snapshot| {
            let old = &self.old[snapshot.old..][..snapshot.len() as usize];
            (PoolOffset::new(snapshot.start), old)
        })
    }

    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &Snapshot> {
        let from = &self.ranges[self.first_after(range.start)..];
        let end = if range.is_empty() { 0 } else { range.end };
        from.iter().take_while(move |snapshot| snapshot.start < end)
    }
}

/// Returns the words of an entry with so many bytes.
fn words_of_part(part: Range<u64>) -> u64 {
    if part.is_empty() { 0 } else { HEAD_WORDS + (part.end - part.start).div_ceil(WORD) }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_pmem::Memory;

    #[test]
    fn first_content_is_kept() {
        let memory = Memory::anonymous(4096).expect("memory");
        let fill = |byte: u8| memory.store(PoolOffset::NULL, &[byte; 64]);
        let mut snapshots = Snapshots::default();
        let mut keep = |range| memory.reading(|memory| snapshots.keep(memory, range)).expect("memory");
        fill(1);
        keep(8..16);
        fill(2);
        keep(4..20);
        keep(30..31);
        fill(3);
        keep(0..64);
        let mut bytes = [9; 66];
        snapshots.overlay(0, &mut bytes);
        let mut expected = [3; 66];
        for (range, byte) in [(4..20, 2), (8..16, 1), (30..31, 2), (64..66, 9)] {
            expected[range].fill(byte);
        }
        assert_eq!(bytes, expected);
        let mut part = [9; 3];
        snapshots.overlay(15, &mut part);
        assert_eq!(part, [1, 2, 2]);
        let kept: Vec<_> = snapshots.ranges().map(|(at, len)| (at.get(), len)).collect();
        assert_eq!(kept, [(0, 4), (4, 4), (8, 8), (16, 4), (20, 10), (30, 1), (31, 33)]);
        assert!(snapshots.overlaps(63..70) && !snapshots.overlaps(64..70) && !snapshots.overlaps(10..10));
        snapshots.begin_commit(&[(PoolOffset::new(62), u64::MAX)]);
        snapshots.overlay_pending(60, &mut part);
        assert_eq!(
            (part, snapshots.overlaps(69..70), snapshots.overlaps(70..71)),
            ([1, 2, 255], true, false)
        );
        assert_eq!(
            [snapshots.words_of(0..64), snapshots.words_of(60..70), snapshots.words_of(70..79)],
            [0, 3, 4]
        );
        snapshots.add_units(3..6);
        snapshots.add_units(2..5);
        let new = [0..2, 0..9, 4..5, 5..7, 0..0].map(|units| snapshots.new_units(units));
        assert_eq!(new, [2, 5, 0, 1, 0]);
        snapshots.forget_since(8);
        assert_eq!(snapshots.ranges().map(|(at, _)| at.get()).collect::<Vec<_>>(), [8]);
        snapshots.clear();
        assert_eq!((snapshots.ranges().count(), snapshots.old().count()), (0, 0));
    }
}
