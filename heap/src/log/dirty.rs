//! The lines that a checkpoint has to flush.

use lode_layout::{LINE, PoolOffset};

/// Lines for which there is room at first.
const CAPACITY_MIN: usize = 1024;

/// A set of cache lines with home stores that no flush has followed yet: a hash table of their numbers, so
/// that each is flushed once however often it was stored to, and the numbers in the order in which they came.
#[derive(Debug)]
pub(super) struct DirtyLines {
    lines: Vec<u64>,
    /// Line numbers plus one, 0 where there is none; at most half full. The length is a power of two.
    table: Vec<u64>,
}

impl DirtyLines {
    /// An empty set. It takes no memory before it is used.
    pub(super) fn new() -> DirtyLines {
        DirtyLines { lines: Vec::new(), table: Vec::new() }
    }

    /// Notes the lines that hold the range.
    #[inline]
    pub(super) fn note(&mut self, at: PoolOffset, len: u64) {
        let last = at.plus(len.saturating_sub(1)).line();
        for line in at.line()..=last {
            self.add(line);
        }
    }

    #[inline]
    fn add(&mut self, line: u64) {
        if self.lines.len() * 2 >= self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut place = (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask;
        while self.table[place] != line + 1 {
            if self.table[place] == 0 {
                self.table[place] = line + 1;
                self.lines.push(line);
                return;
            }
            place = (place + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let capacity = (self.table.len() * 2).max(CAPACITY_MIN);
        self.table = vec![0; capacity];
        for line in std::mem::take(&mut self.lines) {
            self.add(line);
        }
    }

    /// Adds all lines of `other`, and leaves it empty.
    pub(super) fn absorb(&mut self, other: &mut DirtyLines) {
        if self.lines.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        for line in &other.lines {
            self.add(*line);
        }
        other.clear();
    }

    /// Forgets all lines.
    pub(super) fn clear(&mut self) {
        if !self.lines.is_empty() {
            self.lines.clear();
            self.table.fill(0);
        }
    }

    /// The ranges to flush: each line once, those that came one after another together.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (PoolOffset, u64)> {
        let runs = self.lines.chunk_by(|a, b| a + 1 == *b);
        runs.map(|run| (PoolOffset::new(run[0] * LINE), run.len() as u64 * LINE))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn ranges(dirty: &DirtyLines) -> Vec<(u64, u64)> {
        dirty.ranges().map(|(at, len)| (at.get(), len)).collect()
    }

    fn noted(notes: &[(u64, u64)]) -> DirtyLines {
        let mut dirty = DirtyLines::new();
        for (at, len) in notes {
            dirty.note(PoolOffset::new(*at), *len);
        }
        dirty
    }

    #[test]
    fn every_touched_line_once() {
        assert_eq!(ranges(&noted(&[(0, 1)])), [(0, 64)]);
        assert_eq!(ranges(&noted(&[(63, 2)])), [(0, 128)]);
        assert_eq!(ranges(&noted(&[(64, 64), (0, 64), (64, 8)])), [(64, 64), (0, 64)]);
        assert_eq!(ranges(&noted(&[(1 << 40, 65), (1 << 40, 1)])), [(1 << 40, 128)]);
    }

    #[test]
    fn lines_that_fall_on_one_place_are_all_kept() {
        let notes: Vec<(u64, u64)> = (0..5000).map(|i| ((i * 7919 % 5000) * (LINE << 12), 8)).collect();
        let mut dirty = noted(&notes);
        for (at, len) in &notes {
            dirty.note(PoolOffset::new(*at), *len);
        }
        let mut found: Vec<u64> = ranges(&dirty).iter().map(|range| range.0).collect();
        found.sort_unstable();
        assert_eq!(found, (0..5000).map(|i| i * (LINE << 12)).collect::<Vec<_>>());
    }

    #[test]
    fn sets_join_and_start_again() {
        let (mut all, mut one, mut two) =
            (DirtyLines::new(), noted(&[(0, 64), (128, 64)]), noted(&[(128, 128)]));
        all.absorb(&mut one);
        all.absorb(&mut two);
        assert_eq!(ranges(&all), [(0, 64), (128, 128)]);
        assert_eq!((ranges(&one), ranges(&two)), (vec![], vec![]));
        all.clear();
        all.note(PoolOffset::new(128), 8);
        assert_eq!(ranges(&all), [(128, 64)]);
    }
}
