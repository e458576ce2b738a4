//! The log of an unclean pool: every record that may have been acknowledged must be there.

use super::{Finding, Report, Severity};
use crate::error::HeapError;
use lode_redo::LogArea;
use lode_redo::LogError;
use lode_redo::past::{Flaw, FlawKind, Past};

use lode_layout::{Geometry, Slot, WORD};
use lode_pmem::{Fault, Medium};

/// Checks the records that the log epoch of `slot` left in the pool `uuid`.
pub fn check_log<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    slot: &Slot,
    report: &mut Report,
) {
    report.unclean = !slot.closed;
    match Past::read(medium, LogArea::of(geometry), uuid, slot) {
        Ok(past) => {
            report.counts.records = past.records.len() as u64;
            past.flaws.iter().for_each(|flaw| report.add(finding(flaw)));
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

fn finding(flaw: &Flaw) -> Finding {
    let severity = if flaw.proven { Severity::Damage } else { Severity::Doubt };
    let means = match (flaw.what, flaw.proven, flaw.flips.is_empty()) {
        (FlawKind::Rings | FlawKind::Flood, ..) => "no log has that, so the pool is not opened",
        (FlawKind::Entries, ..) => "no writer wrote this, so the pool is not opened",
        (_, true, true) => "a transaction is lost on which others may depend, so the pool is not opened",
        (_, true, false) => {
            "one bit has flipped, and repair can put it right; until then the pool is not opened"
        }
        (_, false, _) => {
            "a power cut tore it before anyone saw it succeed, or one bit has flipped since; \
             opening drops it, repair puts the bit right"
        }
    };
    Finding { severity, what: flaw.what.name(), at: flaw.at, found: None, want: None, means }
}

/// Puts right every flipped bit that makes a record of the log whole. Returns the number of bits, and true if a
/// durable record remains that no flip makes whole.
///
/// # Errors
/// [`HeapError::Fault`], [`HeapError::InDoubt`].
///
/// # Durability
/// Durable on return. If it is killed before, it can be run again.
pub fn mend_log<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    slot: &Slot,
) -> Result<(u64, bool), HeapError> {
    let mut mended = 0;
    let mut last = usize::MAX;
    loop {
        let past = Past::read(medium, LogArea::of(geometry), uuid, slot)?;
        let flips = past.flaws.iter().find_map(|flaw| flaw.flips.first());
        let lost = past.flaws.iter().any(|flaw| flaw.proven && flaw.flips.is_empty());
        let Some(flip) = flips.filter(|_| past.flaws.len() < last) else { return Ok((mended, lost)) };
        // A flip that does not make the list shorter is the last one.
        last = past.flaws.len();
        medium.memory().reading(|memory| {
            medium.store8(flip.at, memory.load8(flip.at) ^ flip.mask);
            medium.flush(flip.at, WORD);
        })?;
        // ORDER: the record is whole before it is replayed. Stop here: it is whole, or the next run mends it.
        medium.drain().map_err(HeapError::from)?;
        mended += 1;
    }
}
