//! Sets of bytes.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

/// A set of bytes, as ranges that do not overlap, in the order of their offsets.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// The end of each range, by its start.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Returns true if there is no range.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a range. It becomes one with those that it touches.
    ///
    /// # Cost
    /// The logarithm of the number of ranges, for each of those and once more.
    pub fn add(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        while let Some((from, to)) = self.ends.range(..=end).next_back().map(|(from, to)| (*from, *to)) {
            if to < start {
                break;
            }
            self.ends.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.ends.insert(start, end);
    }

    /// Adds a range that has bytes, and none that is in the set. It stays a range of its own.
    ///
    /// # Cost
    /// The logarithm of the number of ranges.
    pub fn add_apart(&mut self, range: Range<u64>) {
        debug_assert!(!range.is_empty(), "a range of bytes");
        self.ends.insert(range.start, range.end);
    }

    /// Removes the ranges that lie in `range` as a whole.
    pub fn remove_within(&mut self, range: &Range<u64>) {
        let inside: Vec<u64> =
            self.inside(range).filter(|known| known.end <= range.end).map(|known| known.start).collect();
        inside.iter().for_each(|start| {
            self.ends.remove(start);
        });
    }

    /// Returns the ranges.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + Clone {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// Returns true if a range begins at `at`.
    pub fn begins_at(&self, at: u64) -> bool {
        self.ends.contains_key(&at)
    }

    /// Returns true if a byte of `range` is in the set.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.ends.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    /// Returns the parts of a range that are not in the set.
    ///
    /// # Cost
    /// The logarithm of the number of ranges, and that of those which have bytes of `range`.
    pub fn parts_beside(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let before = self.ends.range(..range.start).next_back().map(|(start, end)| *start..*end);
        parts_beside(range.clone(), before.into_iter().chain(self.inside(&range))).collect()
    }

    /// Returns the ranges that begin in `range`.
    fn inside(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let inside = self.ends.range(range.start..range.end.max(range.start));
        inside.map(|(start, end)| *start..*end)
    }
}

/// Returns the parts of a range that are in none of `known`, which are in the order of their offsets. Those that have no byte of the range
/// do not count.
pub fn parts_beside(
    range: Range<u64>,
    known: impl IntoIterator<Item = Range<u64>>,
) -> impl Iterator<Item = Range<u64>> {
    let (start, end) = (range.start, range.end);
    let inside = known.into_iter().filter(move |known| known.start < end && known.end > start);
    let between = inside.chain(iter::once(end..end)).scan(start, |from, known| {
        let part = *from..known.start;
        *from = known.end.max(*from);
        Some(part)
    });
    between.filter(|part| part.start < part.end)
}

#[cfg(test)]
mod test {
    use super::*;

    fn of(ranges: impl IntoIterator<Item = Range<u64>>) -> Ranges {
        let mut set = Ranges::default();
        ranges.into_iter().for_each(|range| set.add(range));
        set
    }

    #[test]
    fn ranges_merge_and_overlap() {
        let ranges = of([10..20, 40..50, 20..25, 0..1, 45..60, 24..41]);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [0..1, 10..60]);
        for (range, touched) in [(1..10, false), (0..1, true), (9..11, true), (59..80, true), (60..80, false)]
        {
            assert_eq!(ranges.overlaps(&range), touched, "{range:?}");
        }
    }

    #[test]
    fn parts_lie_beside_known_ranges() {
        let parts = |range| parts_beside(range, [10..25, 30..40, 50..60]).collect::<Vec<_>>();
        assert_eq!(parts(0..70), [0..10, 25..30, 40..50, 60..70]);
        assert_eq!((parts(31..40), parts(7..7)), (vec![], vec![]));
    }

    #[test]
    fn parts_lie_beside_the_set() {
        let ranges = of([10..25, 30..40, 50..60]);
        assert_eq!(ranges.parts_beside(0..70), [0..10, 25..30, 40..50, 60..70]);
        assert_eq!(ranges.parts_beside(12..45), [25..30, 40..45]);
        assert!(ranges.parts_beside(31..40).is_empty() && ranges.parts_beside(27..27).is_empty());
        assert!(Ranges::default().is_empty() && !ranges.is_empty());
    }

    #[test]
    fn ranges_apart_stay_their_own() {
        let mut ranges = of([0..5, 5..10]);
        for range in [20..30, 10..20, 30..40] {
            ranges.add_apart(range);
        }
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [0..10, 10..20, 20..30, 30..40]);
        ranges.remove_within(&(10..35));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [0..10, 30..40]);
        assert!(ranges.begins_at(30) && !ranges.begins_at(20));
    }
}
