//! The log of an unclean pool: every record that may have been acknowledged must be there.

use super::{Finding, Report, Severity};
use crate::error::HeapError;
use lode_redo::LogArea;
use lode_redo::LogError;
use lode_redo::scan::{Corruption, CorruptionKind, LogScan};

use lode_layout::{CheckpointSlot, Geometry, WORD};
use lode_pmem::{Fault, Medium};

/// Checks the records that the log epoch of `slot` left in the pool `uuid`.
pub fn check_log<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    slot: &CheckpointSlot,
    report: &mut Report,
) {
    report.unclean = !slot.closed;
    match LogScan::read(medium, LogArea::of(geometry), uuid, slot) {
        Ok(scan) => {
            report.counts.records = scan.records.len() as u64;
            scan.corruptions.iter().for_each(|corruption| report.add(finding(corruption)));
        }
        Err(error) => report_error(error, geometry, report),
    }
}

fn report_error(error: LogError, geometry: &Geometry, report: &mut Report) {
    let at = match error {
        LogError::Fault(Fault { at, .. }) => at,
        _ => geometry.log_off(),
    };
    report.add(Finding::damage("the log", at, "it can't be read, so what it holds is not replayed"));
}

fn finding(corruption: &Corruption) -> Finding {
    let severity = if corruption.proven { Severity::Damage } else { Severity::Doubt };
    let means = match (corruption.what, corruption.proven, corruption.flips.is_empty()) {
        (CorruptionKind::Rings | CorruptionKind::TooManyRecords, ..) => {
            "no log has that, so the pool is not opened"
        }
        (CorruptionKind::Entries, ..) => "no writer wrote this, so the pool is not opened",
        (_, true, true) => "a transaction is lost on which others may depend, so the pool is not opened",
        (_, true, false) => {
            "one bit has flipped, and repair can put it right; until then the pool is not opened"
        }
        (_, false, _) => {
            "a power cut tore it before anyone saw it succeed, or one bit has flipped since; \
             opening drops it, repair puts the bit right"
        }
    };
    Finding { severity, ..Finding::damage(corruption.what.name(), corruption.at, means) }
}

/// Puts right every flipped bit that makes a record of the log whole. Returns the number of bits, and true if a
/// durable record remains that no flip makes whole.
///
/// # Errors
/// [`HeapError::Fault`], [`HeapError::InDoubt`].
///
/// # Durability
/// Durable on return. If it is killed before, it can be run again.
pub fn repair_log<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    slot: &CheckpointSlot,
) -> Result<(u64, bool), HeapError> {
    let mut mended = 0;
    let mut last = usize::MAX;
    loop {
        let scan = LogScan::read(medium, LogArea::of(geometry), uuid, slot)?;
        let flips = scan.corruptions.iter().find_map(|corruption| corruption.flips.first());
        let lost = scan.corruptions.iter().any(|corruption| corruption.proven && corruption.flips.is_empty());
        let Some(flip) = flips.filter(|_| scan.corruptions.len() < last) else { return Ok((mended, lost)) };
        // A flip that does not make the list shorter is the last one.
        last = scan.corruptions.len();
        medium.memory().reading(|memory| {
            medium.store8(flip.at, memory.load8(flip.at) ^ flip.mask);
            medium.flush(flip.at, WORD);
        })?;
        // ORDER: the record is whole before it is replayed. Stop here: it is whole, or the next run repairs it.
        medium.drain().map_err(HeapError::from)?;
        mended += 1;
    }
}
