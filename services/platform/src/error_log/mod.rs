//! The error logs of modules, which `ipmctl show -error` shows.
//!
//! ```text
//!   inject-smart, set -dimm     a temperature that trips its alarm          thermal, low
//!                               a remaining life that trips its alarm       media, low
//!                               a fatal health state                        media, high
//!   inject-error                an error that the kernel is told            media, high
//!   scrub, start                an error that the kernel finds              media, high
//!        |
//!   state: [[error]]            the entries, the oldest of each log first
//! ```
//!
//! A module has four logs, by kind and level, each with numbers of its own. The clock of an emulated module stands still: an
//! entry has the up-time that `show -sensor` shows. The rules are own, section *Errors* of `docs/ipmctl-rules.md`.

mod entry;

pub use entry::{ErrorLevel, FoundBy, LoggedError, LoggedKind, TemperatureSensor};

use crate::machine::Handle;
use std::ops::Range;

/// Entries that a log keeps. The oldest ones make room.
pub(crate) const ENTRIES_MAX: usize = 255;

/// Returns the entries of a log of a module, the oldest first.
pub(crate) fn entries(
    all: &[LoggedError],
    module: Handle,
    is_thermal: bool,
    level: ErrorLevel,
) -> impl Iterator<Item = &LoggedError> {
    all.iter().filter(move |entry| entry.is_in(module, is_thermal, level))
}

/// Adds an entry to a log of a module. The oldest entry makes room if the log is full.
pub(crate) fn add(all: &mut Vec<LoggedError>, module: Handle, level: ErrorLevel, what: LoggedKind) {
    let is_thermal = what.is_thermal();
    let last = entries(all, module, is_thermal, level).last().map_or(0, |entry| entry.sequence);
    if entries(all, module, is_thermal, level).count() >= ENTRIES_MAX
        && let Some(oldest) = all.iter().position(|entry| entry.is_in(module, is_thermal, level))
    {
        all.remove(oldest);
    }
    all.push(LoggedError { module, sequence: LoggedError::after(last), level, what });
}

/// Logs a range of the media that can't be read: an entry for each aligned power of two of bytes in it, of which an entry has one.
pub(crate) fn add_lost(all: &mut Vec<LoggedError>, module: Handle, range: &Range<u64>, found_by: FoundBy) {
    let mut dpa = range.start;
    while dpa < range.end {
        let left = range.end - dpa;
        let aligned = if dpa == 0 { left } else { 1 << dpa.trailing_zeros() };
        let len = aligned.min(1 << left.ilog2());
        add(all, module, ErrorLevel::High, LoggedKind::Uncorrectable { dpa, len, found_by });
        dpa += len;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn lens(range: Range<u64>) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        add_lost(&mut all, Handle(1), &range, FoundBy::PatrolScrub);
        let piece = |entry: &LoggedError| match entry.what {
            LoggedKind::Uncorrectable { dpa, len, .. } => (dpa, len),
            _ => unreachable!(),
        };
        all.iter().map(piece).collect()
    }

    #[test]
    fn media_errors_are_logged_in_powers_of_two() {
        assert_eq!(lens(0x600..0x1400), [(0x600, 0x200), (0x800, 0x800), (0x1000, 0x400)]);
        assert_eq!(lens(0..768), [(0, 512), (512, 256)]);
        assert_eq!(lens(7..7), []);
    }

    #[test]
    fn logs_are_bounded_and_numbered() {
        let mut all = Vec::new();
        for _ in 0..ENTRIES_MAX + 10 {
            add(&mut all, Handle(1), ErrorLevel::Low, LoggedKind::PercentageRemaining);
        }
        add(&mut all, Handle(1), ErrorLevel::High, LoggedKind::HealthChange);
        add(&mut all, Handle(2), ErrorLevel::Low, LoggedKind::PercentageRemaining);
        let numbers = |module, level| -> Vec<u16> {
            entries(&all, Handle(module), false, level).map(|entry| entry.sequence).collect()
        };
        assert_eq!(numbers(1, ErrorLevel::Low), (11..=265).collect::<Vec<u16>>());
        assert_eq!((numbers(1, ErrorLevel::High), numbers(2, ErrorLevel::Low)), (vec![1], vec![1]));
        assert_eq!((LoggedError::after(65535), LoggedError::after(7)), (1, 8));
    }
}
