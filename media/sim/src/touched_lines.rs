//! The lines that were stored to, by which a recovery is undone without copying the pool.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The lines stored to since the last [`take`](TouchedLines::take), each listed once.
#[derive(Debug)]
pub(crate) struct TouchedLines {
    round: AtomicU32,
    stamps: Vec<AtomicU32>,
    lines: Mutex<Vec<u32>>,
}

impl TouchedLines {
    /// Returns a set for `count` lines, none of them touched.
    pub(crate) fn new(count: usize) -> TouchedLines {
        let stamps = (0..count).map(|_| AtomicU32::new(0)).collect();
        TouchedLines { round: AtomicU32::new(1), stamps, lines: Mutex::default() }
    }

    /// Notes a store to `line`.
    #[inline]
    pub(crate) fn mark(&self, line: u64) {
        // ORDER: none needed. The baton lets one logical thread run at a time, and orders it after the last one.
        let round = self.round.load(Ordering::Relaxed);
        let stamp = &self.stamps[line as usize];
        // ORDER: as above.
        if stamp.load(Ordering::Relaxed) != round {
            // ORDER: as above.
            stamp.store(round, Ordering::Relaxed);
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line as u32);
        }
    }

    /// Calls `undo` with each touched line, and forgets all of them.
    pub(crate) fn take(&self, undo: impl FnMut(u32)) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(undo);
        // ORDER: as in `mark`.
        let round = self.round.load(Ordering::Relaxed).wrapping_add(1);
        if round == 0 {
            // ORDER: as in `mark`. Old stamps would seem fresh after the counter wraps.
            self.stamps.iter().for_each(|stamp| stamp.store(0, Ordering::Relaxed));
        }
        // ORDER: as in `mark`.
        self.round.store(round.max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_line_is_listed_once() {
        let touched = TouchedLines::new(4);
        for _ in 0..3 {
            [1, 3, 1].iter().for_each(|line| touched.mark(*line));
            let mut lines = Vec::new();
            touched.take(|line| lines.push(line));
            assert_eq!(lines, [1, 3]);
        }
        touched.round.store(u32::MAX, Ordering::Relaxed);
        touched.mark(2);
        touched.take(|_| ());
        touched.mark(2);
        let mut lines = Vec::new();
        touched.take(|line| lines.push(line));
        assert_eq!(lines, [2]);
    }
}
