//! Recovery: turns the remains of a log after a power cut into a working log.

use crate::bugs;
use crate::dirty::DirtyLines;
use crate::error::LogError;
use crate::log::{Log, LogArea, SEQUENCE_GAP, ring_count};
use crate::past::{Found, Past};
use crate::{apply, slots};
use lode_layout::{SLOT_BLOCKS, Slot};
use lode_pmem::{Durability, FaultScope, Medium};

/// The result of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// True if the pool had been closed, so there was nothing to do.
    pub was_closed: bool,
    /// Records whose home stores were repeated.
    pub replayed: u64,
    /// Records that were dropped as torn by a power cut, although a single flipped bit would make them whole. It is
    /// far more likely that they were never acknowledged than that a bit flipped in just these.
    pub doubtful: u64,
}

/// Treatment of a log that lacks records that were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// Refuse to open the log.
    Refuse,
    /// Replay the records that are there.
    GoOn,
}

impl<M: Medium> Log<M> {
    /// Opens the log in `area` of the pool `uuid`: replays the records of the last log epoch, and begins the log epoch
    /// `log_epoch`, a random number. A second recovery of the result changes no home location.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] when no checkpoint slot can be read, when a record has entries that no writer wrote,
    /// and when a damaged record was durable: later ones may depend on it. `repair` goes on without it.
    /// [`LogError::Fault`] when bytes can't be read. The medium is then as it was, except for home stores that the
    /// next recovery repeats.
    ///
    /// # Durability
    /// Every transaction that had returned is durable at home, and the new log epoch is durable.
    pub fn recover(
        medium: M,
        area: LogArea,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
    ) -> Result<(Log<M>, Recovery), LogError> {
        Log::restart(medium, area, uuid, log_epoch, Damaged::Refuse)
    }

    /// Recovers as [`recover`](Log::recover) does; `damaged` says what happens to a damaged log.
    pub fn restart(
        medium: M,
        area: LogArea,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
        damaged: Damaged,
    ) -> Result<(Log<M>, Recovery), LogError> {
        let scope = FaultScope::open();
        let read = slots::read(scope.memory(medium.memory()), &uuid);
        // A copy that can't be read may be the newest one.
        if let (Err(lost), Damaged::Refuse) = (scope.close(), damaged) {
            return Err(lost.into());
        }
        let newest = match (read, damaged) {
            (Some(slot), _) => slot,
            (None, Damaged::Refuse) => {
                return Err(LogError::Corrupt { what: "the checkpoint slots", at: SLOT_BLOCKS });
            }
            // Without a slot the epoch of the log is unknown, and no record counts.
            (None, Damaged::GoOn) => Slot { generation: 0, sequence: 0, log_epoch, rings: 1, closed: true },
        };
        let past = Past::read(&medium, area, &uuid, &newest)?;
        if let (Some(damage), Damaged::Refuse) = (past.damage(), damaged) {
            return Err(damage);
        }
        let doubtful = past.flaws.len() as u64;
        let mut records = past.records;
        if bugs::REPLAY_BY_RING.is_active() {
            records.sort_by_key(|record| record.ring);
        }
        if !bugs::RECOVERY_SLOT_FIRST.is_active() {
            replay(&medium, &records, damaged)?;
        }
        let last = records.last().map_or(newest.sequence, |record| record.sequence);
        let slot = Slot {
            generation: next_generation(newest.generation)?,
            sequence: if bugs::EPOCH_NOT_IN_CHECKSUM.is_active() { newest.sequence } else { above(last)? },
            log_epoch,
            rings: ring_count(medium.durability(), area),
            closed: false,
        };
        // ORDER: home is durable (replay drained), then the slot ends the old log epoch, then records of the new
        // one may be written. Stop here: the old slot counts, and recovery does the same again.
        if !bugs::EPOCH_NOT_DRAINED.is_active() {
            slots::write(&medium, &uuid, &slot)?;
        }
        if bugs::RECOVERY_SLOT_FIRST.is_active() {
            replay(&medium, &records, damaged)?;
        }
        let recovery = Recovery { was_closed: newest.closed, replayed: records.len() as u64, doubtful };
        Ok((Log::start(medium, area, uuid, &slot), recovery))
    }
}

fn next_generation(generation: u64) -> Result<u64, LogError> {
    let exhausted = LogError::Corrupt { what: "the generation of the checkpoint slot", at: SLOT_BLOCKS };
    generation.checked_add(1).filter(|next| *next < u64::MAX / 2).ok_or(exhausted)
}

/// Returns a number above all that a log epoch can have drawn if `last` was its greatest number with a record.
pub(crate) fn above(last: u64) -> Result<u64, LogError> {
    let exhausted = LogError::Corrupt { what: "the sequence number of the checkpoint slot", at: SLOT_BLOCKS };
    last.checked_add(SEQUENCE_GAP).filter(|number| *number < u64::MAX / 2).ok_or(exhausted)
}

/// Repeats the home stores of `records`, in their order, and makes them durable. Stores to lost memory are an error,
/// or are left out if recovery is to go on.
pub(crate) fn replay<M: Medium>(medium: &M, records: &[Found], damaged: Damaged) -> Result<(), LogError> {
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
    if let (Err(lost), Damaged::Refuse) = (scope.close(), damaged) {
        return Err(lost.into());
    }
    // ORDER: home is durable before the new slot says that the old records are not needed.
    medium.drain().map_err(LogError::from)
}
