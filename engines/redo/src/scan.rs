//! The scan of a log's last log epoch: the records to be replayed, and the corruption of others.

use crate::bugs;
use crate::error::LogError;
use crate::log::{LogArea, RINGS_MAX, ring_checksum_seed};
use crate::ranges::Ranges;
use crate::ring::{BitFlip, Gap, Ring};
use lode_layout::{
    BLOCK, CHECKPOINT_SLOTS_OFF, CheckpointSlot, CoverEntry, Entries, Entry, Geometry, PoolOffset,
    RECORD_HEADER_WORDS, WORD, align_down, flipped_bit_of,
};
use lode_pmem::{Medium, Readable};
use std::collections::BTreeSet;
use std::iter;
use std::ops::Range;

/// Bytes that are checksummed at a time.
const STEP: usize = 64 << 10;

/// A sound record above the checkpoint, with the entries that continue outside of its ring.
#[derive(Debug)]
pub struct ReplayRecord {
    pub(crate) sequence: u64,
    pub(crate) ring: u32,
    at: PoolOffset,
    /// True if a later record shows that the record and its payload were durable.
    pub(crate) is_proven: bool,
    /// True if it has entries of memory that programs store to in place.
    pub(crate) covers: bool,
    body: Vec<u64>,
    /// Number of words of the entries that count, the first ones: those after them have been settled.
    live: usize,
    pub(crate) continued: Vec<u64>,
}

impl ReplayRecord {
    /// Returns the entries of the record, those that continue outside of its ring included.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        [self.body(), &self.continued].into_iter().flat_map(entries_in)
    }

    /// Returns the words of the entries in the ring that count.
    pub(crate) fn body(&self) -> &[u64] {
        &self.body[..self.live]
    }

    /// Returns the ranges that became durable with the record: its own, and those of its content outside of the ring.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let len = (RECORD_HEADER_WORDS + self.body.len()) as u64 * WORD;
        let own = self.at.get()..self.at.get() + len;
        iter::once(own).chain(self.external_content().map(|entry| entry_range(&entry)))
    }

    /// Returns the entries whose content lies outside of the ring.
    fn external_content(&self) -> impl Iterator<Item = Entry<'_>> {
        let is_outside = |entry: &Entry<'_>| matches!(entry, Entry::Payload { .. } | Entry::Continue { .. });
        entries_in(&self.body).filter(is_outside)
    }

    /// Returns true if content outside of the ring became durable with the record.
    fn has_external_content(&self) -> bool {
        self.external_content().next().is_some()
    }
}

/// A part of the log that is not as a writer left it, or may not be.
#[derive(Clone, Debug)]
pub struct Corruption {
    /// The kind of structure.
    pub what: CorruptionKind,
    /// Offset of its first byte.
    pub at: PoolOffset,
    /// True if it was durable and is damaged. Otherwise a power cut may have left it like this.
    pub proven: bool,
    /// Candidate flips: each alone makes it whole.
    pub flips: Vec<BitFlip>,
}

/// The kind of structure that is corrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorruptionKind {
    /// The number of rings in the newest slot.
    Rings,
    /// A record.
    Record,
    /// A record whose checksum is right, with entries that no writer wrote.
    Entries,
    /// Content that was written past the log, and whose checksum is in a record.
    Payload,
    /// Entries of a record that are outside of its ring.
    Continued,
    /// A ring in which more looks like records than there can be.
    TooManyRecords,
}

/// The records to be replayed, by number, and the corruptions.
#[derive(Debug, Default)]
pub struct LogScan {
    /// The records to be replayed, by sequence number.
    pub records: Vec<ReplayRecord>,
    /// The other records, and what is wrong with each.
    pub corruptions: Vec<Corruption>,
}

impl LogScan {
    /// Scans the log for the records of the log epoch of `slot`, and for corruptions.
    ///
    /// # Errors
    /// [`LogError::Fault`] when bytes can't be read.
    pub fn read<M: Medium>(
        medium: &M,
        area: LogArea,
        uuid: &[u8; 16],
        slot: &CheckpointSlot,
    ) -> Result<LogScan, LogError> {
        Ok(medium.memory().reading(|memory| LogScan::read_in(memory, area, uuid, slot))?)
    }

    fn read_in(memory: &Readable, area: LogArea, uuid: &[u8; 16], slot: &CheckpointSlot) -> LogScan {
        let mut scan = LogScan::default();
        if slot.closed {
            return scan;
        }
        let ring_len = align_down(area.len / u64::from(slot.rings), BLOCK);
        if u64::from(slot.rings) > RINGS_MAX || ring_len == 0 {
            scan.add_corruption(CorruptionKind::Rings, CHECKPOINT_SLOTS_OFF, true, Vec::new());
            return scan;
        }
        for number in 0..slot.rings {
            let ring = Ring {
                memory,
                start: area.start.plus(u64::from(number) * ring_len),
                len: ring_len,
                checksum_seed: ring_checksum_seed(uuid, slot.log_epoch, number),
                shared: slot.rings == 1,
                checkpoint: slot.sequence,
            };
            scan.add_ring(number, &ring, area);
        }
        scan.records.sort_unstable_by_key(|record| record.sequence);
        scan.verify_payloads(memory, area);
        scan.leave_out_settled();
        scan
    }

    /// Returns the first corruption that no power cut leaves, as an error.
    pub(crate) fn proven_corruption(&self) -> Option<LogError> {
        let corruption = self.corruptions.iter().find(|corruption| corruption.proven)?;
        Some(LogError::Corrupt { what: corruption.what.name(), at: corruption.at })
    }

    fn add_corruption(&mut self, what: CorruptionKind, at: PoolOffset, proven: bool, flips: Vec<BitFlip>) {
        self.corruptions.push(Corruption { what, at, proven, flips });
    }

    fn add_ring(&mut self, number: u32, ring: &Ring<'_>, area: LogArea) {
        let scan = ring.scan();
        if scan.too_many_records {
            self.add_corruption(CorruptionKind::TooManyRecords, ring.start, true, Vec::new());
        }
        for Gap { at, proven, flips } in scan.gaps {
            self.add_corruption(CorruptionKind::Record, at, proven, flips);
        }
        for (index, position) in scan.needed.into_iter().enumerate() {
            let (at, body) = (ring.start.plus(position.offset), ring.body(&position));
            if let Some(covers) = survey(&body, area, ring.memory) {
                let (sequence, continued) = (position.sequence, Vec::new());
                let is_proven = index < scan.proven;
                let live = body.len();
                let record =
                    ReplayRecord { sequence, ring: number, at, is_proven, covers, body, live, continued };
                self.records.push(record);
            } else {
                self.add_corruption(CorruptionKind::Entries, at, true, Vec::new());
            }
        }
    }

    /// Leaves out the pending entries whose number a record has settled.
    fn leave_out_settled(&mut self) {
        let covering = |record: &&ReplayRecord| record.covers;
        let entries = self.records.iter().filter(covering).flat_map(|record| entries_in(&record.body));
        let settled: BTreeSet<u64> = entries.filter_map(settled_id).collect();
        if bugs::SETTLED_REPLAYED.is_active() {
            return;
        }
        for record in self.records.iter_mut().filter(|record| record.covers) {
            record.live = live_words(&record.body, &settled);
        }
    }

    /// Loads the entries that continue outside of the rings. Drops the last record of a ring if its content outside
    /// of the ring did not become durable with it: its transaction was never acknowledged.
    ///
    /// An earlier record of a ring was followed by another, so its drain returned; in a shared ring, one of an earlier
    /// batch. Later records may have changed the
    /// content whose checksum it holds. For the same reason a record is believed if a later one of any ring writes to
    /// the range: the later transaction could do so only after this one released its locks.
    fn verify_payloads(&mut self, memory: &Readable, area: LogArea) {
        if !self.records.iter().any(ReplayRecord::has_external_content) {
            return;
        }
        let mut later = Ranges::default();
        let mut newest_of_ring_seen = [false; RINGS_MAX as usize];
        let mut budget = ChecksumBudget { bytes_left: memory.len() };
        let records = std::mem::take(&mut self.records);
        let mut kept = Vec::with_capacity(records.len());
        for mut record in records.into_iter().rev() {
            let is_last = !std::mem::replace(&mut newest_of_ring_seen[record.ring as usize], true);
            let mut touched = Vec::new();
            let mut continued = Vec::new();
            let mut keep = true;
            for entry in entries_in(&record.body) {
                let range = entry_range(&entry);
                let (crc, what, exempt) = match entry {
                    Entry::Payload { crc, .. } => {
                        let is_proven = match bugs::LAST_PAYLOAD_ONLY.is_active() {
                            true => !is_last,
                            false => record.is_proven,
                        };
                        let exempt = (is_proven || later.overlaps(&range))
                            && !bugs::OVERWRITTEN_PAYLOAD_CHECKED.is_active();
                        (crc, CorruptionKind::Payload, exempt || bugs::PAYLOAD_UNCHECKED.is_active())
                    }
                    // Space to which entries continue is not used again before the checkpoint covers the record.
                    Entry::Continue { crc, .. } => (crc, CorruptionKind::Continued, false),
                    _ => {
                        touched.push(range);
                        continue;
                    }
                };
                if exempt {
                    continue;
                }
                if budget.crc(memory, &range) != Some(crc) {
                    keep = false;
                    let proven = !is_last && what == CorruptionKind::Continued;
                    let flips = find_flips(memory, &range, crc);
                    // Content that a power cut tore is not corrupt.
                    if proven || !flips.is_empty() {
                        self.add_corruption(what, PoolOffset::new(range.start), proven, flips);
                    }
                } else if what == CorruptionKind::Continued {
                    continued.append(&mut words_of(&load(memory, &range)));
                }
            }
            if keep && survey(&continued, area, memory).is_none() {
                self.add_corruption(CorruptionKind::Entries, record.at, true, Vec::new());
                keep = false;
            }
            touched.extend(entries_in(&continued).map(|entry| entry_range(&entry)));
            touched.into_iter().filter(|range| !range.is_empty()).for_each(|range| later.add(range));
            if keep {
                record.continued = continued;
                kept.push(record);
            }
        }
        kept.reverse();
        self.records = kept;
    }
}

impl CorruptionKind {
    /// Returns the name of the structure, for messages.
    pub fn name(self) -> &'static str {
        match self {
            CorruptionKind::Rings => "the number of rings in the checkpoint slot",
            CorruptionKind::Record => "the record of the log",
            CorruptionKind::Entries => "the content of the record of the log",
            CorruptionKind::Payload => "the content whose checksum a record of the log holds",
            CorruptionKind::Continued => "the part of a record that is outside of the log",
            CorruptionKind::TooManyRecords => "the ring of the log",
        }
    }
}

/// Returns `None` unless a writer can have written every entry: each is whole, and its range lies after headers and slots, and
/// outside of the log. Otherwise returns true if there are entries of memory that programs store to in place.
fn survey(body: &[u64], area: LogArea, memory: &Readable) -> Option<bool> {
    let (log, pool) = (area.start.get()..area.start.get() + area.len, Geometry::LOG.get()..memory.len());
    let mut covers = false;
    for entry in Entries::new(body) {
        let entry = entry.ok()?;
        covers |= matches!(entry, Entry::Cover(_));
        if let Entry::Cover(CoverEntry::Pending { .. } | CoverEntry::Settled { .. }) = entry {
            continue;
        }
        let touched = entry_range(&entry);
        let is_ordered = touched.start <= touched.end;
        let is_outside = touched.end <= log.start || touched.start >= log.end;
        if !(is_ordered && is_outside && touched.start >= pool.start && touched.end <= pool.end) {
            return None;
        }
    }
    Some(covers)
}

/// Returns the entries in words that are known to be whole ones.
fn entries_in(words: &[u64]) -> impl Iterator<Item = Entry<'_>> {
    Entries::new(words).map_while(Result::ok)
}

fn settled_id(entry: Entry<'_>) -> Option<u64> {
    match entry {
        Entry::Cover(CoverEntry::Settled { id }) => Some(id),
        _ => None,
    }
}

/// Returns the number of words of the entries of a record before the pending ones that are settled.
fn live_words(body: &[u64], settled: &BTreeSet<u64>) -> usize {
    let mut entries = Entries::new(body);
    loop {
        let before = body.len() - entries.rest().len();
        match entries.next() {
            Some(Ok(Entry::Cover(CoverEntry::Pending { id }))) if settled.contains(&id) => return before,
            Some(Ok(_)) => {}
            _ => return body.len(),
        }
    }
}

/// Returns the range that `entry` writes, or whose checksum it holds.
fn entry_range(entry: &Entry<'_>) -> Range<u64> {
    let (at, len) = match *entry {
        Entry::Words { at, words } => (at, words.len() as u64 * WORD),
        Entry::SetBits { at, .. } | Entry::ClearBits { at, .. } => (at, WORD),
        Entry::Bytes { at, len, .. }
        | Entry::Zero { at, len }
        | Entry::Payload { at, len, .. }
        | Entry::Continue { at, len, .. } => (at, len),
        Entry::Cover(entry) => entry.range(),
    };
    at.get()..at.get().saturating_add(len)
}

/// Bytes outside of the log for which further records may hold checksums. No two records hold one for the same range.
/// So the pool's size bounds the bytes that are summed up and loaded, even if an attacker made the log.
struct ChecksumBudget {
    bytes_left: u64,
}

impl ChecksumBudget {
    /// Returns the CRC32C of a range, or `None` if the range is longer than the bytes left.
    fn crc(&mut self, memory: &Readable, range: &Range<u64>) -> Option<u32> {
        self.bytes_left = self.bytes_left.checked_sub(range.end - range.start)?;
        let mut bytes = vec![0; STEP.min((range.end - range.start) as usize)];
        let mut crc = 0;
        for from in (range.start..range.end).step_by(STEP) {
            let part = &mut bytes[..STEP.min((range.end - from) as usize)];
            memory.read(PoolOffset::new(from), part);
            crc = crc32c::crc32c_append(crc, part);
        }
        Some(crc)
    }
}

/// Returns the flip that makes the CRC32C of the range `crc`. Skips long ranges: in a torn one some bit is likely to
/// do so by chance.
fn find_flips(memory: &Readable, range: &Range<u64>, crc: u32) -> Vec<BitFlip> {
    const LEN_MAX: u64 = 1 << 20;
    if range.end - range.start > LEN_MAX {
        return Vec::new();
    }
    let flip = |bit: usize| BitFlip {
        at: PoolOffset::new(range.start + bit as u64 / 64 * WORD),
        mask: 1 << (bit % 64),
    };
    flipped_bit_of(crc, &load(memory, range)).map(flip).into_iter().collect()
}

fn load(memory: &Readable, range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    memory.read(PoolOffset::new(range.start), &mut bytes);
    bytes
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
