//! Recovery: turns the remains of a log after a power cut into a working log.

use crate::bugs;
use crate::dirty::DirtyLines;
use crate::error::LogError;
use crate::log::{Log, LogArea, SEQUENCE_GAP, ring_count};
use crate::ranges::Ranges;
use crate::scan::{LogScan, ReplayRecord};
use crate::{apply, slots};
use lode_layout::{CHECKPOINT_SLOTS_OFF, CheckpointSlot, PoolOffset, align_down, align_up};
use lode_pmem::{Durability, FaultScope, Medium};

/// Bytes that are written again at once.
const PART: u64 = 64 << 10;

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
    /// Opens the log in `area` of the pool `uuid`: replays the records of the last log epoch. The log epoch `log_epoch`, a random
    /// number, begins with the first record, or before by [`begin_epoch`](Log::begin_epoch). A second recovery of the result
    /// changes no word of the heap.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] when no checkpoint slot can be read, when a record has entries that no writer wrote,
    /// and when a damaged record was durable: later ones may depend on it. `repair` goes on without it.
    /// [`LogError::Fault`] when bytes can't be read. The medium is then as it was, except for write-backs that the
    /// next recovery repeats.
    ///
    /// # Durability
    /// Every transaction that had returned is durable, and written back. The write-backs become durable when the new log epoch
    /// begins.
    ///
    /// # Cost
    /// Reads the log, and a synced write of what nothing proves durable; else one drain.
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
            (None, OnCorruption::Continue) => CheckpointSlot {
                generation: 0,
                sequence: 0,
                log_epoch,
                rings: 1,
                closed: true,
                in_second_area: false,
            },
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
            make_durable(&medium, &records, newest.rings, on_corruption)?;
        }
        let dirty = replay(&medium, &records, on_corruption)?;
        check_generation(newest.generation)?;
        let last = records.last().map_or(newest.sequence, |record| record.sequence);
        let slot = CheckpointSlot {
            generation: newest.generation,
            sequence: if bugs::EPOCH_NOT_IN_CHECKSUM.is_active() {
                newest.sequence
            } else {
                after_gap(last)?
            },
            log_epoch,
            rings: ring_count(medium.durability(), area),
            closed: false,
            in_second_area: newest.in_second_area,
        };
        let recovery =
            Recovery { was_closed: newest.closed, replayed: records.len() as u64, suspect_records };
        Ok((Log::recovered(medium, area, uuid, &slot, dirty), recovery))
    }
}

fn check_generation(generation: u64) -> Result<(), LogError> {
    let exhausted =
        LogError::Corrupt { what: "the generation of the checkpoint slot", at: CHECKPOINT_SLOTS_OFF };
    if generation < u64::MAX / 2 - 1 { Ok(()) } else { Err(exhausted) }
}

/// Returns a number above all that a log epoch can have assigned if `last` was its greatest number with a record.
pub(crate) fn after_gap(last: u64) -> Result<u64, LogError> {
    let exhausted =
        LogError::Corrupt { what: "the sequence number of the checkpoint slot", at: CHECKPOINT_SLOTS_OFF };
    last.checked_add(SEQUENCE_GAP).filter(|number| *number < u64::MAX / 2).ok_or(exhausted)
}

/// Makes durable what a killed process may have left in memory only: records and their contents. After a failed sync some of it
/// may lie in clean pages, which a further sync passes over, so what nothing proves durable is written again. A log of several
/// `rings` proves nothing: no commit has synced it.
fn make_durable<M: Medium>(
    medium: &M,
    records: &[ReplayRecord],
    rings: u32,
    on_corruption: OnCorruption,
) -> Result<(), LogError> {
    // ORDER: records and contents are durable before the first write-back, as in a commit: a killed process may not have drained
    // them. Stop here: the same records are replayed again, or fewer of those that no flush covered.
    if medium.durability() != Durability::Commit || bugs::LEFT_IN_CLEAN_PAGES.is_active() {
        return if records.is_empty() { Ok(()) } else { medium.drain().map_err(LogError::from) };
    }
    let block = medium.log_block();
    // If recovery is to go on, it leaves out what can't be read, and nothing beside it.
    let part = if on_corruption == OnCorruption::Continue { block } else { PART };
    let mut blocks = Ranges::default();
    let unproven = records.iter().filter(|record| rings > 1 || !record.is_proven);
    for range in unproven.flat_map(ReplayRecord::ranges) {
        blocks.add(align_down(range.start, block)..align_up(range.end, block));
    }
    let mut bytes = Vec::new();
    for range in blocks.iter() {
        for from in range.clone().step_by(part as usize) {
            bytes.resize(part.min(range.end - from) as usize, 0);
            let at = PoolOffset::new(from);
            let read = medium.memory().reading(|memory| memory.read(at, &mut bytes));
            // ORDER: as above, for each part: all return before the first write-back.
            let written = read.and_then(|()| FaultScope::run(|| medium.log_write(at, &bytes)));
            match (written, on_corruption) {
                (Ok(written), _) => written?,
                (Err(lost), OnCorruption::Refuse) => return Err(lost.into()),
                (Err(_), OnCorruption::Continue) => {}
            }
        }
    }
    Ok(())
}

/// Repeats the write-backs of `records`, in their order, after all images that they hold. Returns the lines that they change, to be flushed. Stores to lost memory are
/// an error. If recovery is to go on, they are left out, and the others are durable on return.
fn replay<M: Medium>(
    medium: &M,
    records: &[ReplayRecord],
    on_corruption: OnCorruption,
) -> Result<DirtyLines, LogError> {
    let in_order = records.is_sorted_by_key(|record| record.sequence);
    debug_assert!(in_order || bugs::REPLAY_BY_RING.is_active(), "records are replayed by number");
    let mut dirty = DirtyLines::new();
    let scope = FaultScope::open();
    let memory = scope.memory(medium.memory());
    let has_lines = medium.durability() == Durability::Line;
    let covering = || records.iter().filter(|record| record.covers);
    for record in covering().filter(|_| !bugs::COMMITS_BEFORE_IMAGES.is_active()) {
        apply::store_images(medium, record.body(), has_lines.then_some(&mut dirty));
    }
    for record in records {
        for body in [record.body(), &record.continued] {
            if record.covers {
                apply::store_at_home(medium, body, has_lines.then_some(&mut dirty));
            }
            apply::apply(medium, memory, body, has_lines.then_some(&mut dirty), true);
        }
        if record.covers && bugs::COMMITS_BEFORE_IMAGES.is_active() {
            apply::store_images(medium, record.body(), has_lines.then_some(&mut dirty));
        }
    }
    if on_corruption == OnCorruption::Refuse {
        scope.close()?;
        return Ok(dirty);
    }
    for (at, len) in dirty.ranges() {
        medium.flush(at, len);
    }
    // Lines of lost memory are not flushed.
    let _ = scope.close();
    // ORDER: as in `Log::begin_epoch`, which finds nothing to flush.
    medium.drain()?;
    Ok(DirtyLines::new())
}
