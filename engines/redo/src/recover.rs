//! Recovery: turns the remains of a log after a power cut into a working log.

use crate::bugs;
use crate::dirty::DirtyLines;
use crate::error::LogError;
use crate::log::{Log, LogArea, SEQUENCE_GAP, ring_count};
use crate::scan::{LogScan, Ranges, ReplayRecord};
use crate::{apply, slots};
use lode_layout::{CHECKPOINT_SLOTS_OFF, CheckpointSlot, PoolOffset};
use lode_pmem::{Durability, FaultScope, Medium, store_again};

/// The result of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// True if the pool had been closed, so there was nothing to do.
    pub was_closed: bool,
    /// Records whose write-backs were repeated.
    pub replayed: u64,
    /// Records that were dropped as torn by a power cut, although a single flipped bit would make them whole. It is
    /// far more likely that they were never acknowledged than that a bit flipped in just these.
    pub suspect_records: u64,
}

/// Treatment of a log that lacks records that were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCorruption {
    /// Refuse to open the log.
    Refuse,
    /// Replay the records that are there.
    Continue,
}

impl<M: Medium> Log<M> {
    /// Opens the log in `area` of the pool `uuid`: replays the records of the last log epoch, and begins the log epoch
    /// `log_epoch`, a random number. A second recovery of the result changes no word of the heap.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] when no checkpoint slot can be read, when a record has entries that no writer wrote,
    /// and when a damaged record was durable: later ones may depend on it. `repair` goes on without it.
    /// [`LogError::Fault`] when bytes can't be read. The medium is then as it was, except for write-backs that the
    /// next recovery repeats.
    ///
    /// # Durability
    /// Every transaction that had returned is written back durably, and the new log epoch is durable.
    pub fn recover(
        medium: M,
        area: LogArea,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
    ) -> Result<(Log<M>, Recovery), LogError> {
        Log::recover_with(medium, area, uuid, log_epoch, OnCorruption::Refuse)
    }

    /// Recovers as [`recover`](Log::recover) does; `on_corruption` says what happens to a damaged log.
    pub fn recover_with(
        medium: M,
        area: LogArea,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
        on_corruption: OnCorruption,
    ) -> Result<(Log<M>, Recovery), LogError> {
        let scope = FaultScope::open();
        let read = slots::read(scope.memory(medium.memory()), &uuid);
        // A copy that can't be read may be the newest one.
        if let (Err(lost), OnCorruption::Refuse) = (scope.close(), on_corruption) {
            return Err(lost.into());
        }
        let newest = match (read, on_corruption) {
            (Some(slot), _) => slot,
            (None, OnCorruption::Refuse) => {
                return Err(LogError::Corrupt { what: "the checkpoint slots", at: CHECKPOINT_SLOTS_OFF });
            }
            // Without a slot the epoch of the log is unknown, and no record counts.
            (None, OnCorruption::Continue) => {
                CheckpointSlot { generation: 0, sequence: 0, log_epoch, rings: 1, closed: true }
            }
        };
        let scan = LogScan::read(&medium, area, &uuid, &newest)?;
        if let (Some(damage), OnCorruption::Refuse) = (scan.proven_corruption(), on_corruption) {
            return Err(damage);
        }
        let suspect_records = scan.corruptions.len() as u64;
        let mut records = scan.records;
        if bugs::REPLAY_BY_RING.is_active() {
            records.sort_by_key(|record| record.ring);
        }
        if !bugs::REPLAYED_BEFORE_DRAIN.is_active() {
            make_durable(&medium, &records, on_corruption)?;
        }
        if !bugs::RECOVERY_SLOT_BEFORE_DRAIN.is_active() {
            replay(&medium, &records, on_corruption)?;
        }
        let last = records.last().map_or(newest.sequence, |record| record.sequence);
        let slot = CheckpointSlot {
            generation: next_generation(newest.generation)?,
            sequence: if bugs::EPOCH_NOT_IN_CHECKSUM.is_active() {
                newest.sequence
            } else {
                after_gap(last)?
            },
            log_epoch,
            rings: ring_count(medium.durability(), area),
            closed: false,
        };
        // ORDER: records are durable, then write-backs (replay drained), then the slot ends the old log epoch, then records of the
        // new one may be written. Stop here: the old slot counts, and recovery does the same again.
        if !bugs::EPOCH_NOT_DRAINED.is_active() {
            slots::write(&medium, &uuid, &slot)?;
        }
        if bugs::RECOVERY_SLOT_BEFORE_DRAIN.is_active() {
            replay(&medium, &records, on_corruption)?;
        }
        let recovery =
            Recovery { was_closed: newest.closed, replayed: records.len() as u64, suspect_records };
        Ok((Log::from_slot(medium, area, uuid, &slot), recovery))
    }
}

fn next_generation(generation: u64) -> Result<u64, LogError> {
    let exhausted =
        LogError::Corrupt { what: "the generation of the checkpoint slot", at: CHECKPOINT_SLOTS_OFF };
    generation.checked_add(1).filter(|next| *next < u64::MAX / 2).ok_or(exhausted)
}

/// Returns a number above all that a log epoch can have assigned if `last` was its greatest number with a record.
pub(crate) fn after_gap(last: u64) -> Result<u64, LogError> {
    let exhausted =
        LogError::Corrupt { what: "the sequence number of the checkpoint slot", at: CHECKPOINT_SLOTS_OFF };
    last.checked_add(SEQUENCE_GAP).filter(|number| *number < u64::MAX / 2).ok_or(exhausted)
}

/// Makes durable what a killed process may have left in memory only: records and their contents. After a failed sync some of it
/// may lie in clean pages, which a further sync passes over, so what nothing proves durable is stored again.
fn make_durable<M: Medium>(
    medium: &M,
    records: &[ReplayRecord],
    on_corruption: OnCorruption,
) -> Result<(), LogError> {
    if records.is_empty() {
        return Ok(());
    }
    if medium.durability() == Durability::Commit && !bugs::LEFT_IN_CLEAN_PAGES.is_active() {
        let mut ranges = Ranges::default();
        let unproven = records.iter().filter(|record| !record.is_proven);
        unproven.flat_map(ReplayRecord::ranges).for_each(|range| ranges.add(range));
        for range in ranges.iter() {
            let stored = store_again(medium, PoolOffset::new(range.start), range.end - range.start);
            if let (Err(lost), OnCorruption::Refuse) = (stored, on_corruption) {
                return Err(lost.into());
            }
        }
    }
    // ORDER: records and contents are durable before the first write-back, as in a commit: a killed process may not have drained
    // them. Stop here: the same records are replayed again, or fewer of those that no flush covered.
    medium.drain().map_err(LogError::from)
}

/// Repeats the write-backs of `records`, in their order, and makes them durable. Stores to lost memory are an error,
/// or are left out if recovery is to go on.
pub(crate) fn replay<M: Medium>(
    medium: &M,
    records: &[ReplayRecord],
    on_corruption: OnCorruption,
) -> Result<(), LogError> {
    let in_order = records.is_sorted_by_key(|record| record.sequence);
    debug_assert!(in_order || bugs::REPLAY_BY_RING.is_active(), "records are replayed by number");
    let mut dirty = DirtyLines::new();
    let scope = FaultScope::open();
    let memory = scope.memory(medium.memory());
    for record in records {
        for body in [&record.body, &record.continued] {
            apply::apply(
                medium,
                memory,
                body,
                (medium.durability() == Durability::Line).then_some(&mut dirty),
                true,
            );
        }
    }
    for (at, len) in dirty.ranges() {
        medium.flush(at, len);
    }
    if let (Err(lost), OnCorruption::Refuse) = (scope.close(), on_corruption) {
        return Err(lost.into());
    }
    // ORDER: write-backs are durable before the new slot says that the old records are not needed.
    medium.drain().map_err(LogError::from)
}
