//! The units that a record claims: their images are on the way to the log.

use super::Cover;
use crate::LogError;
use crate::bugs;
use lode_layout::{LINE, PoolOffset, Record};
use lode_pmem::{FaultScope, Medium, Readable};
use std::ops::Range;

/// Units that a thread has claimed, and covers when its record is durable.
#[derive(Debug)]
pub(super) struct Claims<'c, M: Medium> {
    cover: &'c Cover<M>,
    scope: &'c FaultScope,
    /// The place of the transaction for which they are claimed.
    place: Option<usize>,
    units: &'c mut Vec<u64>,
}

impl<'c, M: Medium> Claims<'c, M> {
    /// Returns no claims for the transaction at `place`. `units` is emptied, and then lists those that are claimed.
    pub(super) fn new(
        cover: &'c Cover<M>,
        scope: &'c FaultScope,
        place: Option<usize>,
        units: &'c mut Vec<u64>,
    ) -> Self {
        units.clear();
        Claims { cover, scope, place, units }
    }

    /// Returns the memory, for the content of the record.
    pub(super) fn memory(&self) -> &'c Readable {
        self.scope.memory(self.cover.medium().memory())
    }

    /// Returns false if the log accepts no more records. Asked while a lane is held: a checkpoint that failed may have begun an epoch,
    /// in which units of open transactions are not covered.
    pub(super) fn admit(&self) -> bool {
        self.cover.log.check_not_failed().is_ok()
    }

    /// Empties a record that has content of lost memory. Its commit fails, and so does the log.
    pub(super) fn check_content(&self, record: &mut Record) {
        if self.scope.has_fault() {
            record.clear();
        }
    }

    /// Returns the words that images of `units` units take in a record.
    pub(super) fn image_words(&self, units: u64) -> u64 {
        units * (self.cover.covered.units.unit_len() / 8 + super::HEAD_WORDS)
    }

    /// Claims those of the units that are free, or covered in the old epoch only, and adds their images to the record. No open
    /// transaction has stored to one of them: it would be covered in this epoch, or claimed.
    pub(super) fn push_images(&mut self, record: &mut Record, units: impl Iterator<Item = u64>) {
        let first = self.units.len();
        if bugs::IMAGE_BEFORE_CLAIM.is_active() {
            return self.push_stale_images(record, units);
        }
        // ORDER: claimed before it is read: a persist that does not see the claim made its store before.
        self.units.extend(units.filter(|unit| self.cover.covered.units.claim(*unit)));
        if bugs::IMAGE_LEFT_OUT.is_active() {
            return;
        }
        for run in self.units[first..].chunk_by(|unit, next| unit + 1 == *next) {
            let (at, len) = self.cover.covered.units.place(run[0], run.len() as u64);
            record.push_image_with(at, len, |bytes| self.memory().read(at, bytes));
        }
    }

    fn push_stale_images(&mut self, record: &mut Record, units: impl Iterator<Item = u64>) {
        for unit in units {
            let (at, len) = self.cover.covered.units.place(unit, 1);
            let mut content = vec![0; len as usize];
            self.memory().read(at, &mut content);
            self.cover.medium().relax(0);
            if self.cover.covered.units.claim(unit) {
                self.units.push(unit);
                record.push_image(at, &content);
            }
        }
    }

    /// Covers the units. Their images are durable, and the caller has held its lane since it claimed them. `exclusive`: no other lane can
    /// be held meanwhile.
    pub(super) fn cover(&mut self, exclusive: bool) {
        if self.units.is_empty() {
            return;
        }
        let covered = &self.cover.covered;
        covered.units.cover(self.units, exclusive);
        // ORDER: noted while the lane is held, so that the next checkpoint finds them.
        match self.place {
            Some(place) => {
                covered.open.snapshots(place, self.cover.medium()).covered.extend_from_slice(self.units);
            }
            None => covered.units.note_covered(self.units),
        }
    }
}

impl<M: Medium> Cover<M> {
    /// Returns an error if ranges can't be read, before a record needs their content: all of their units, unless the log covers them.
    pub(super) fn check_readable(
        &self,
        ranges: impl Iterator<Item = (PoolOffset, u64)>,
    ) -> Result<(), LogError> {
        let states = &self.covered.units;
        let read = |memory: &Readable| {
            for (at, len) in ranges {
                let units = states.of(at, len);
                let (at, len) = match states.are_covered(units.clone()) {
                    true => (at, len),
                    false => states.place(units.start, units.end - units.start),
                };
                load_lines(memory, at, len);
            }
        };
        Ok(self.medium().memory().reading(read)?)
    }

    /// Returns an error if units can't be read, before a record needs their content.
    pub(super) fn check_units(&self, units: Range<u64>) -> Result<(), LogError> {
        let (at, len) = self.covered.units.place(units.start, units.end - units.start);
        Ok(self.medium().memory().reading(|memory| load_lines(memory, at, len))?)
    }
}

/// Loads a byte of each line of a range: a line is lost as a whole.
#[inline]
fn load_lines(memory: &Readable, at: PoolOffset, len: u64) {
    let mut line = at.line() * LINE;
    while line < at.get() + len {
        let _ = memory.load1(PoolOffset::new(line));
        line += LINE;
    }
}
