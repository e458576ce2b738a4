//! The part of covered memory in a checkpoint: a new epoch, in which only the units of open transactions are covered.

use super::careful::append_old;
use super::{Covered, HEAD_WORDS};
use crate::{CheckpointHooks, LogError, NewRecords, bugs};
use lode_layout::{PoolOffset, RECORD_HEADER_WORDS, Record, WORD};
use lode_pmem::{Medium, Readable};
use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

/// Share of the log's longest record that a record of a checkpoint takes: short ones leave little of a ring unused.
const RECORD_SHARE: u64 = 4;

/// Begins and ends epochs with the checkpoints of a log.
#[derive(Debug)]
pub(super) struct EpochHooks {
    covered: Arc<Covered>,
}

impl EpochHooks {
    pub(super) fn new(covered: Arc<Covered>) -> Self {
        EpochHooks { covered }
    }

    /// Returns the units of all open transactions, in their order.
    fn open_units<M: Medium>(&self, medium: &M) -> Vec<u64> {
        let mut open = BTreeSet::new();
        self.covered.open.each(medium, |snapshots| {
            for (at, len) in snapshots.ranges().filter(|_| snapshots.pending_id == 0) {
                open.extend(self.covered.units.of(at, len));
            }
        });
        if bugs::OPEN_FORGOTTEN.is_active() { Vec::new() } else { open.into_iter().collect() }
    }

    /// Appends the old bytes of all open transactions that are pending.
    fn append_pending<M: Medium>(
        &self,
        records: &mut dyn NewRecords<M>,
        words_max: u64,
    ) -> Result<(), LogError> {
        let mut places = self.covered.open.taken();
        if bugs::OPEN_FORGOTTEN.is_active() {
            places.clear();
        }
        for place in places {
            let (id, old): (u64, Vec<_>) = {
                let snapshots = self.covered.open.snapshots(place, records.medium());
                (snapshots.pending_id, snapshots.old().map(|(at, bytes)| (at, bytes.to_vec())).collect())
            };
            if id != 0 {
                append_old(id, &old, words_max, &mut |record| records.append(record))?;
            }
        }
        Ok(())
    }

    /// Adds the image of some units in a row to the record: as they are, with the old bytes of all open transactions.
    fn push_image<M: Medium>(&self, medium: &M, memory: &Readable, record: &mut Record, run: &[u64]) {
        let (at, len) = self.covered.units.place(run[0], run.len() as u64);
        let mut content = vec![0; len as usize];
        memory.read(at, &mut content);
        if bugs::OTHERS_BYTES_FORGOTTEN.is_active() {
            self.overlay_first(medium, at, &mut content);
        } else {
            self.covered.open.overlay(medium, at.get(), &mut content, false);
        }
        record.push_image(at, &content);
    }

    /// The seeded bug: puts the old bytes of one transaction in.
    fn overlay_first<M: Medium>(&self, medium: &M, at: PoolOffset, content: &mut [u8]) {
        let mut is_first = true;
        self.covered.open.each(medium, |snapshots| {
            if is_first && snapshots.overlaps(at.get()..at.get() + content.len() as u64) {
                snapshots.overlay(at.get(), content);
                is_first = false;
            }
        });
    }
}

impl<M: Medium> CheckpointHooks<M> for EpochHooks {
    fn begun(&self, records: &mut dyn NewRecords<M>) -> Result<(), LogError> {
        let mut ranges = 0;
        self.covered.open.end_epoch(records.medium(), |snapshots| {
            self.covered.units.note_covered(&mem::take(&mut snapshots.covered));
            ranges += snapshots.added;
        });
        // ORDER: the epoch begins before open transactions are looked for: one that is not seen asks for the states of its units
        // after it has registered its range, so it sees the new epoch.
        self.covered.units.begin_epoch(ranges);
        let open = self.open_units(records.medium());
        // ORDER: claimed before the first image is in the log. If a later image can't be logged they stay so: no persist takes a unit for
        // free of which recovery has an image, and no transaction one for covered of which it has none.
        open.iter().for_each(|unit| {
            self.covered.units.claim(*unit);
        });
        let of_unit = self.covered.units.unit_len() / WORD + HEAD_WORDS;
        let words_max = records.words_max() as u64 / RECORD_SHARE;
        let in_record = (words_max.saturating_sub(RECORD_HEADER_WORDS as u64) / of_unit).max(1);
        let mut record = Record::new();
        for units in open.chunks(in_record as usize) {
            record.clear();
            for run in units.chunk_by(|unit, next| unit + 1 == *next) {
                self.push_image(records.medium(), records.memory(), &mut record, run);
            }
            records.append(&mut record)?;
        }
        self.append_pending(records, words_max)?;
        // ORDER: covered before any lane is released. The images are durable before the slot of this checkpoint; until then the old
        // epoch's images count.
        self.covered.units.cover(&open, true);
        self.covered.units.note_covered(&open);
        Ok(())
    }

    fn ended(&self) {
        self.covered.units.forget_old();
    }
}
