//! The check of a log, without a store.

use crate::error::LogError;
use crate::log::LogArea;
use crate::scan::LogScan;
use crate::slots;
use lode_layout::CHECKPOINT_SLOTS_OFF;
use lode_pmem::Medium;

/// Checks that the log in `area` of the pool `uuid` can be recovered. The traces of a crash are no damage.
///
/// # Errors
/// [`LogError::Corrupt`] with the first damage that [`recover`](crate::Log::recover) refuses, [`LogError::Fault`] when bytes
/// can't be read.
///
/// # Cost
/// Reads the log.
pub fn check<M: Medium>(medium: &M, area: LogArea, uuid: &[u8; 16]) -> Result<(), LogError> {
    let slot = medium.memory().reading(|memory| slots::read(memory, uuid))?;
    let Some(slot) = slot else {
        return Err(LogError::Corrupt { what: "the checkpoint slots", at: CHECKPOINT_SLOTS_OFF });
    };
    LogScan::read(medium, area, uuid, &slot)?.proven_corruption().map_or(Ok(()), Err)
}
