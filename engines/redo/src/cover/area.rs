//! The two areas of a log: the one in which it begins, and a shorter one to which it moves when the first is needed for something else.
//!
//! A move is a checkpoint after which the log goes on elsewhere: it logs the images of open transactions anew in any case, and logs
//! them in the second area. Transactions must fit there: if one is too large, the log stays. One may become so while the others are
//! looked at, so the limits of the second area are in force before all are looked at again, with all lanes held.

use super::limits::Limits;
use super::{Cover, words_of_unit};
use crate::{LogArea, LogError};
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicBool, Ordering};

/// The areas of a log.
#[derive(Debug)]
pub(super) struct LogAreas {
    first: LogArea,
    second: Option<LogArea>,
    has_moved: AtomicBool,
}

impl LogAreas {
    /// Returns the only area of a log that does not move.
    pub(super) fn one(area: LogArea) -> LogAreas {
        LogAreas { first: area, second: None, has_moved: AtomicBool::new(false) }
    }

    /// Returns both areas of a log, which lies in the second if it has moved.
    pub(super) fn two(first: LogArea, second: LogArea, has_moved: bool) -> LogAreas {
        LogAreas { first, second: Some(second), has_moved: AtomicBool::new(has_moved) }
    }

    /// Returns the area in which the log lies.
    #[inline]
    pub(super) fn current(&self) -> LogArea {
        // ORDER: none: a caller that may use what was the first area has got it after the move.
        match self.second {
            Some(second) if self.has_moved.load(Ordering::Relaxed) => second,
            _ => self.first,
        }
    }
}

impl<M: Medium> Cover<M> {
    /// Returns the area in which the log lies.
    #[inline]
    pub fn log_area(&self) -> LogArea {
        self.areas.current()
    }

    /// Moves the log to its second area. Returns false if it has none, or lies there already, or if the open transactions have more than
    /// fits there. The first area is the caller's after that: ranges may lie in it.
    ///
    /// # Errors
    /// Those of [`checkpoint`](Cover::checkpoint).
    ///
    /// # Durability
    /// As [`checkpoint`](Cover::checkpoint).
    ///
    /// # Cost
    /// That of two checkpoints, and other threads wait for the second one.
    pub fn move_log(&self) -> Result<bool, LogError> {
        let Some(area) = self.areas.second.filter(|area| *area != self.areas.current()) else {
            return Ok(false);
        };
        let (unit, places) = (self.covered.units.unit_len(), self.covered.open.count());
        let limits = Limits::of(self.log.rings(), self.log.ring_len_in(area), unit, places);
        if limits.record_words() < words_of_unit(unit) {
            return Ok(false);
        }
        // A transaction that is too large has nothing to fear from limits that come back.
        if !self.would_keep(&limits) {
            return Ok(false);
        }
        self.log.move_to_second_area(area, || {
            let before = self.limits.get();
            self.limits.set(limits);
            self.covered.open.each_place(self.medium(), |snapshots, is_taken| {
                let least = if is_taken { snapshots.held } else { 0 };
                self.limits.reduce(&mut snapshots.allowance, least);
            });
            let fits = self.would_keep(&limits) && self.limits.are_kept();
            if fits {
                // ORDER: published with the lanes, and with what the caller gives away.
                self.areas.has_moved.store(true, Ordering::Relaxed);
            } else {
                self.limits.set(before);
            }
            fits
        })
    }

    /// Returns true if the open transactions are within the limits, and leave a part of a record to what else they commit.
    fn would_keep(&self, limits: &Limits) -> bool {
        let (mut fits, mut needed) = (true, 0);
        self.covered.open.each_place(self.medium(), |snapshots, is_taken| {
            let held = if is_taken { snapshots.held } else { 0 };
            needed += limits.share_of(held);
            fits &= !is_taken || snapshots.record_words() <= limits.ranges_words();
        });
        fits && needed <= limits.room()
    }
}
