//! Poison: a line that is lost at some access, and stays lost.

use lode_layout::LINE;
use lode_pmem::LossModel;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// In place of a line's number: no line is lost.
const NONE: u64 = u64::MAX;

/// The loss of one line. Every access to the lost line faults, as on a page that the kernel has unmapped after a
/// machine check. The rest of the memory is as it was.
#[derive(Debug)]
pub(crate) struct Poison {
    /// True while accesses meet the poison, and are counted.
    is_armed: AtomicBool,
    /// Number of accesses before the one that finds its line lost.
    accesses_left: AtomicU64,
    /// Number of accesses before the engine was open.
    opened: AtomicU64,
    /// Chooses among the lines of that access.
    choice: u64,
    line: AtomicU64,
}

impl Poison {
    fn new(accesses_left: u64, choice: u64, line: u64) -> Poison {
        let [accesses_left, opened, line] = [accesses_left, 0, line].map(AtomicU64::new);
        Poison { is_armed: AtomicBool::new(false), accesses_left, opened, choice, line }
    }

    /// Returns a poison that loses no line, and counts accesses.
    pub(crate) fn never() -> Poison {
        Poison::new(u64::MAX, 0, NONE)
    }

    /// Returns a poison that loses a line of the access after `accesses` others.
    pub(crate) fn after(accesses: u64, choice: u64) -> Poison {
        Poison::new(accesses, choice, NONE)
    }

    /// Returns a poison that has lost the line with this number.
    pub(crate) fn of(line: u64) -> Poison {
        Poison::new(u64::MAX, 0, line)
    }

    /// Switches the poison on or off. While it is off, all of the memory is as if nothing had been lost.
    pub(crate) fn arm(&self, on: bool) {
        // ORDER: none needed. The baton lets one logical thread run at a time, and orders it after the last one.
        self.is_armed.store(on, Ordering::Relaxed);
    }

    /// Returns true if the poison is switched on.
    pub(crate) fn is_armed(&self) -> bool {
        // ORDER: as in `arm`.
        self.is_armed.load(Ordering::Relaxed)
    }

    /// Notes that the engine is open.
    pub(crate) fn note_opened(&self) {
        // ORDER: as in `arm`.
        self.opened.store(self.accesses(), Ordering::Relaxed);
    }

    /// Returns the number of accesses so far, of a poison that [never](Poison::never) loses a line.
    pub(crate) fn accesses(&self) -> u64 {
        // ORDER: as in `arm`.
        u64::MAX - self.accesses_left.load(Ordering::Relaxed)
    }

    /// Returns the number of accesses before the engine was open, of such a poison.
    pub(crate) fn opened(&self) -> u64 {
        // ORDER: as in `arm`.
        self.opened.load(Ordering::Relaxed)
    }

    /// Returns the number of the lost line.
    pub(crate) fn line(&self) -> Option<u64> {
        // ORDER: as in `arm`.
        Some(self.line.load(Ordering::Relaxed)).filter(|line| *line != NONE)
    }

    /// Returns the lost range if it overlaps `range`.
    pub(crate) fn lost_range(&self, range: &Range<u64>) -> Option<Range<u64>> {
        // ORDER: as in `arm`.
        let lost = self.line().filter(|_| self.is_armed.load(Ordering::Relaxed))?;
        let lost = lost * LINE..(lost + 1) * LINE;
        (lost.start < range.end && range.start < lost.end).then_some(lost)
    }

    fn count(&self, range: &Range<u64>) {
        // ORDER: as in `arm`.
        let is_counted = self.is_armed.load(Ordering::Relaxed) && self.line().is_none() && !range.is_empty();
        // ORDER: as above.
        if is_counted && self.accesses_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let first = range.start / LINE;
            let lines = (range.end - 1) / LINE - first + 1;
            // ORDER: as above.
            self.line.store(first + self.choice % lines, Ordering::Relaxed);
        }
    }
}

impl LossModel for Poison {
    fn on_access(&self, range: Range<u64>) -> Option<Range<u64>> {
        self.count(&range);
        self.lost_range(&range)
    }
}
