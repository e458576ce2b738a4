//! The lines that a checkpoint has to flush.

use lode_layout::{LINE, PoolOffset};
use std::mem;

/// Recently noted lines, so that hot ones do not fill the list.
const RECENT: usize = 1024;

const NO_LINE: u64 = u64::MAX;

/// Numbers of cache lines with home stores that no flush has followed yet. A line may be listed more than
/// once; [`flush_order`] removes what is double.
#[derive(Debug)]
pub(super) struct DirtyLines {
    lines: Vec<u64>,
    recent: Box<[u64; RECENT]>,
}

impl DirtyLines {
    pub(super) fn new() -> DirtyLines {
        DirtyLines { lines: Vec::new(), recent: Box::new([NO_LINE; RECENT]) }
    }

    /// Notes the lines that hold the range.
    #[inline]
    pub(super) fn note(&mut self, at: PoolOffset, len: u64) {
        let last = at.plus(len.saturating_sub(1)).line();
        for line in at.line()..=last {
            let recent = &mut self.recent[line as usize % RECENT];
            if *recent != line {
                *recent = line;
                self.lines.push(line);
            }
        }
    }

    /// Moves all lines to the end of `into`.
    pub(super) fn drain_into(&mut self, into: &mut Vec<u64>) {
        into.append(&mut self.lines);
        self.recent.fill(NO_LINE);
    }

    /// Takes the lines and leaves none.
    pub(super) fn take(&mut self) -> Vec<u64> {
        self.recent.fill(NO_LINE);
        mem::take(&mut self.lines)
    }
}

/// The ranges to flush for `lines`: each line once, neighbours together, ascending.
pub(super) fn flush_order(lines: &mut Vec<u64>) -> impl Iterator<Item = (PoolOffset, u64)> {
    lines.sort_unstable();
    lines.dedup();
    lines.chunk_by(|a, b| a + 1 == *b).map(|run| (PoolOffset::new(run[0] * LINE), run.len() as u64 * LINE))
}

#[cfg(test)]
mod test {
    use super::*;

    fn order(notes: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut dirty = DirtyLines::new();
        for (at, len) in notes {
            dirty.note(PoolOffset::new(*at), *len);
        }
        let mut lines = dirty.take();
        flush_order(&mut lines).map(|(at, len)| (at.get(), len)).collect()
    }

    #[test]
    fn every_touched_line_once() {
        assert_eq!(order(&[(0, 1)]), [(0, 64)]);
        assert_eq!(order(&[(63, 2)]), [(0, 128)]);
        assert_eq!(order(&[(64, 64), (0, 64), (64, 8)]), [(0, 128)]);
        assert_eq!(order(&[(1 << 40, 65)]), [(1 << 40, 128)]);
    }

    #[test]
    fn lines_that_push_each_other_out_of_the_recent_ones_are_flushed_once() {
        let far = RECENT as u64 * LINE;
        assert_eq!(order(&[(0, 8), (far, 8), (0, 8), (far, 8)]), [(0, 64), (far, 64)]);
    }

    #[test]
    fn what_was_taken_is_noted_again() {
        let mut dirty = DirtyLines::new();
        dirty.note(PoolOffset::new(128), 8);
        assert_eq!(dirty.take(), [2]);
        dirty.note(PoolOffset::new(128), 8);
        assert_eq!(dirty.take(), [2]);
    }
}
