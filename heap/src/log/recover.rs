//! Recovery: from whatever a power cut left to a log that goes on.

use super::dirty::DirtyLines;
use super::{Log, LogArea, SEQUENCE_GAP, apply, ring_count, seal_of, slots};
use crate::{HeapError, bugs};
use lode_layout::{
    BLOCK, Entries, Entry, LINE, PoolOffset, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, RecordSeal, SLOT_BLOCKS,
    Slot, WORD, align_down, align_up,
};
use lode_pmem::{Fault, Medium, Rung, checksum};
use std::ops::Range;
use zerocopy::IntoBytes;

/// What recovery found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the pool had been closed, so that there was nothing to do.
    pub was_closed: bool,
    /// Records whose home stores were repeated.
    pub replayed: u64,
}

/// A sound record above the checkpoint, with the entries that it leads to elsewhere.
#[derive(Debug)]
struct Found {
    sequence: u64,
    ring: u32,
    body: Vec<u64>,
    continued: Vec<u64>,
}

impl<M: Medium> Log<M> {
    /// Opens the log in `area` of the pool `uuid`: replays what the last life left, and begins the life `life`,
    /// a random number. Running it again on what it leaves changes no home location.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`] when no checkpoint slot can be read or a record holds what no writer wrote;
    /// [`HeapError::Fault`] when bytes can't be read. The medium is then as it was, but for home stores that
    /// the next recovery repeats.
    ///
    /// # Durability
    /// Every transaction that had returned is durable at home, and the new life is.
    pub fn recover(
        medium: M,
        area: LogArea,
        uuid: [u8; 16],
        life: [u64; 2],
    ) -> Result<(Log<M>, Recovery), HeapError> {
        Fault::take();
        let found = slots::read(&medium, &uuid);
        let newest = found.ok_or(HeapError::Corrupt { what: "the checkpoint slots", at: SLOT_BLOCKS })?;
        let mut records = if newest.closed { Vec::new() } else { scan(&medium, area, &uuid, &newest)? };
        records.sort_unstable_by_key(|record| record.sequence);
        drop_unproved(&medium, area, &mut records)?;
        if bugs::REPLAY_BY_RING.is_active() {
            records.sort_by_key(|record| record.ring);
        }
        if !bugs::RECOVERY_SLOT_FIRST.is_active() {
            replay(&medium, &records)?;
        }
        let last = records.last().map_or(newest.sequence, |record| record.sequence);
        let slot = Slot {
            generation: newest.generation + 1,
            sequence: if bugs::LIFE_NOT_SEALED.is_active() { newest.sequence } else { above(last)? },
            life,
            rings: ring_count(medium.rung(), area),
            closed: false,
        };
        // ORDER: home is durable (replay drained), then the slot ends the old life, then records of the new
        // one may be written. Stop here: the old slot counts, and recovery does the same again.
        if !bugs::LIFE_NOT_DRAINED.is_active() {
            slots::write(&medium, &uuid, &slot)?;
        }
        if bugs::RECOVERY_SLOT_FIRST.is_active() {
            replay(&medium, &records)?;
        }
        let recovery = Recovery { was_closed: newest.closed, replayed: records.len() as u64 };
        Ok((Log::start(medium, area, uuid, &slot), recovery))
    }
}

/// A number above any that can have been drawn when `last` was the greatest to leave a record.
fn above(last: u64) -> Result<u64, HeapError> {
    let exhausted =
        HeapError::Corrupt { what: "the sequence number of the checkpoint slot", at: SLOT_BLOCKS };
    last.checked_add(SEQUENCE_GAP).ok_or(exhausted)
}

/// All sound records above `slot` in all rings.
fn scan<M: Medium>(medium: &M, area: LogArea, uuid: &[u8; 16], slot: &Slot) -> Result<Vec<Found>, HeapError> {
    let mut records = Vec::new();
    let ring_len = align_down(area.len / u64::from(slot.rings), BLOCK);
    for ring in 0..slot.rings {
        let start = area.start.plus(u64::from(ring) * ring_len);
        let seal = seal_of(uuid, slot.life, ring);
        let mut offset = 0;
        while offset < ring_len {
            let sound = record_at(medium, start, offset..ring_len, seal, slot.sequence);
            let Some((sequence, body)) = sound else {
                offset += LINE;
                continue;
            };
            let words = RECORD_HEADER_WORDS + body.len();
            offset += align_up(words as u64, RECORD_LINE_WORDS as u64) * WORD;
            validate(medium, area, &body, start)?;
            records.push(Found { sequence, ring, body, continued: Vec::new() });
        }
    }
    match Fault::take() {
        None => Ok(records),
        Some(fault) => Err(fault.into()),
    }
}

/// The number and body of the record at the start of `place`, if there is a sound one above `checkpoint`.
fn record_at<M: Medium>(
    medium: &M,
    ring: PoolOffset,
    place: Range<u64>,
    seal: RecordSeal,
    checkpoint: u64,
) -> Option<(u64, Vec<u64>)> {
    let at = ring.plus(place.start);
    let words = RECORD_HEADER_WORDS as u64 + (medium.memory().load8(at) >> 32);
    let sequence = medium.memory().load8(at.plus(WORD));
    // Most of a ring is remains of records that the checkpoint covers: these two words tell.
    if sequence <= checkpoint || words * WORD > place.end - place.start {
        return None;
    }
    let mut record = vec![0u64; words as usize];
    medium.memory().read(at, record.as_mut_bytes());
    if !bugs::TORN_RECORD.is_active() {
        seal.open(&record, place.start, checksum)?;
    }
    record.drain(..RECORD_HEADER_WORDS);
    Some((sequence, record))
}

/// Whether every entry is one that a writer can have written: whole, and behind the log.
fn validate<M: Medium>(medium: &M, area: LogArea, body: &[u64], ring: PoolOffset) -> Result<(), HeapError> {
    let corrupt = HeapError::Corrupt { what: "a record of the log in the ring", at: ring };
    for entry in Entries::new(body) {
        let touched = extent(&entry.map_err(|_| corrupt)?);
        let heap = area.start.get() + area.len..medium.memory().len();
        let inside = touched.start >= heap.start && touched.start <= touched.end && touched.end <= heap.end;
        if !inside {
            return Err(corrupt);
        }
    }
    Ok(())
}

/// The range that `entry` writes, or whose content it vouches for.
fn extent(entry: &Entry<'_>) -> Range<u64> {
    let (at, len) = match *entry {
        Entry::Words { at, words } => (at, words.len() as u64 * WORD),
        Entry::SetBits { at, .. } | Entry::ClearBits { at, .. } => (at, WORD),
        Entry::Bytes { at, len, .. }
        | Entry::Zero { at, len }
        | Entry::Payload { at, len, .. }
        | Entry::Continue { at, len, .. } => (at, len),
    };
    at.get()..at.get().saturating_add(len)
}

/// Loads the entries that go on elsewhere, and drops the last record of each ring whose content outside of the
/// ring did not become durable with it: nobody saw it succeed.
///
/// Earlier records of a ring were followed by another, so their drain returned, and what they vouch for may
/// have been changed by later records since. For the same reason a record is believed when a later one of any
/// ring writes to the range: it could only do so after this one's locks were released.
fn drop_unproved<M: Medium>(medium: &M, area: LogArea, records: &mut Vec<Found>) -> Result<(), HeapError> {
    let mut later: Vec<Range<u64>> = Vec::new();
    let mut newest_of_ring_seen = Vec::new();
    let mut keep = vec![true; records.len()];
    for index in (0..records.len()).rev() {
        let is_last = !newest_of_ring_seen.contains(&records[index].ring);
        if is_last {
            newest_of_ring_seen.push(records[index].ring);
        }
        let mut continued = Vec::new();
        for entry in Entries::new(&records[index].body).map_while(Result::ok) {
            if let Entry::Continue { crc, .. } = entry {
                let bytes = load(medium, &extent(&entry));
                // Space to which entries went on is not used again before the checkpoint covers the record.
                keep[index] &= crc32c::crc32c(&bytes) == crc;
                continued.append(&mut words_of(&bytes));
            }
        }
        if keep[index] {
            validate(medium, area, &continued, area.start)?;
        }
        let mut touched = Vec::new();
        let bodies =
            if keep[index] { vec![&records[index].body, &continued] } else { vec![&records[index].body] };
        for entry in bodies.into_iter().flat_map(|body| Entries::new(body).map_while(Result::ok)) {
            let range = extent(&entry);
            match entry {
                Entry::Payload { crc, .. } => {
                    let overwritten =
                        later.iter().any(|other| other.start < range.end && range.start < other.end);
                    let excused = (!is_last || overwritten) && !bugs::PAYLOAD_OVERCHECKED.is_active();
                    let excused = excused || bugs::PAYLOAD_UNCHECKED.is_active();
                    keep[index] &= excused || crc32c::crc32c(&load(medium, &range)) == crc;
                }
                Entry::Continue { .. } => {}
                _ => touched.push(range),
            }
        }
        records[index].continued = continued;
        later.append(&mut touched);
    }
    let mut verdict = keep.into_iter();
    records.retain(|_| verdict.next().unwrap_or(true));
    Ok(())
}

fn load<M: Medium>(medium: &M, range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    medium.memory().read(PoolOffset::new(range.start), &mut bytes);
    bytes
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Repeats the home stores of `records`, in their order, and makes them durable.
fn replay<M: Medium>(medium: &M, records: &[Found]) -> Result<(), HeapError> {
    let mut dirty = DirtyLines::new();
    for record in records {
        for body in [&record.body, &record.continued] {
            apply::apply(medium, body, (medium.rung() == Rung::Line).then_some(&mut dirty));
        }
    }
    if let Some(fault) = Fault::take() {
        return Err(fault.into());
    }
    for (at, len) in dirty.ranges() {
        medium.flush(at, len);
    }
    // ORDER: home is durable before the new slot says that the old records are not needed.
    medium.drain().map_err(HeapError::InDoubt)
}
