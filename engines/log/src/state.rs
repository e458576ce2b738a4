//! The two copies of the state on a medium, and in the redo log.

use crate::error::Damage;
use lode_layout::{Entry, Geometry, LogDescriptor, LogState, PoolOffset, Record, WORD};
use lode_pmem::{Fault, FaultScope, Medium};
use lode_redo::scan::LogScan;
use lode_redo::{LogArea, slots};
use zerocopy::IntoBytes;

/// The places of the two copies.
pub(crate) type Places = [PoolOffset; 2];

/// The words of a copy, valid or not.
pub(crate) type Words = [u64; LogState::WORDS];

/// A copy of the state: where it is, and what it says.
pub(crate) type Copy = (PoolOffset, Result<LogState, Damage>);

/// Returns the places of the copies.
pub(crate) fn places(geometry: &Geometry) -> Places {
    let first = LogDescriptor::place(&geometry.extents()[0]).plus(LogDescriptor::STATE_OFF);
    [first, first.plus(LogDescriptor::COPY_STRIDE)]
}

/// Stores both copies. They become durable with the next drain.
///
/// # Errors
/// Fails if they can't be stored.
pub(crate) fn write<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    state: &LogState,
) -> Result<(), Fault> {
    let words = state.encode(uuid);
    FaultScope::run(|| places(geometry).into_iter().for_each(|at| medium.copy(at, words.as_bytes())))
}

/// Returns the redo record that changes both copies.
pub(crate) fn record(places: &Places, uuid: &[u8; 16], state: &LogState) -> Record {
    let words = state.encode(uuid);
    let mut record = Record::new();
    for at in *places {
        record.push(Entry::Words { at, words: &words });
    }
    record
}

/// Reads the words of both copies, as they are on the medium.
///
/// # Errors
/// Fails if they can't be read.
pub(crate) fn words<M: Medium>(medium: &M, places: &Places) -> Result<[Words; 2], Fault> {
    let mut words = [[0; LogState::WORDS]; 2];
    for (at, words) in places.iter().zip(&mut words) {
        medium.memory().reading(|memory| memory.read(*at, words.as_mut_bytes()))?;
    }
    Ok(words)
}

/// Reads both copies, as the replay of the redo log leaves them.
///
/// # Errors
/// Fails if the redo log has entries for other places than the state. A redo log that can't be read otherwise counts as
/// empty: its own recovery says so.
pub(crate) fn copies<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    descriptor: &LogDescriptor,
) -> Result<[Copy; 2], Damage> {
    let places = places(geometry);
    let logged = logged(medium, geometry, uuid, &places)?;
    let read = |index: usize| {
        let at = places[index];
        let words = match logged[index] {
            Some(words) => words,
            None => {
                let mut words = [0; LogState::WORDS];
                medium.memory().reading(|memory| memory.read(at, words.as_mut_bytes()))?;
                words
            }
        };
        LogState::decode(words, uuid, descriptor.area_len).map_err(|error| Damage::State { at, error })
    };
    Ok([(places[0], read(0)), (places[1], read(1))])
}

/// Reads the state, as the replay of the redo log leaves it.
///
/// # Errors
/// As [`copies`], and if neither copy is valid.
pub(crate) fn newest<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    descriptor: &LogDescriptor,
) -> Result<LogState, Damage> {
    let [(_, first), (_, second)] = copies(medium, geometry, uuid, descriptor)?;
    first.or_else(|error| second.map_err(|_| error))
}

/// Returns the words of each copy in the last record of the redo log that has it.
fn logged<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    places: &Places,
) -> Result<[Option<Words>; 2], Damage> {
    let mut logged = [None; 2];
    let slot = medium.memory().reading(|memory| slots::read(memory, uuid))?;
    let Some(slot) = slot else { return Ok(logged) };
    let scan = LogScan::read(medium, LogArea::of(geometry), uuid, &slot).map_err(Damage::Redo)?;
    for entry in scan.records.iter().flat_map(|record| record.entries()) {
        let (at, len) = match entry {
            Entry::Words { at, words } => {
                let place = places.iter().position(|place| *place == at);
                if let (Some(index), Ok(words)) = (place, words.try_into()) {
                    logged[index] = Some(words);
                    continue;
                }
                (at, words.len() as u64 * WORD)
            }
            Entry::SetBits { at, .. } | Entry::ClearBits { at, .. } => (at, WORD),
            Entry::Bytes { at, len, .. } | Entry::Zero { at, len } | Entry::Payload { at, len, .. } => {
                (at, len)
            }
            Entry::Continue { at, .. } => (at, WORD),
            Entry::Cover(entry) => entry.range(),
        };
        return Err(Damage::RedoRecord { at, len });
    }
    Ok(logged)
}
