//! The checkpoint slots: tells whole copies from torn and damaged ones.
//!
//! A power cut tears at most the slot that is being written: any of its words may be there, in either copy. So a copy
//! that does not decode is a torn write if each of its words can be one of the new slot or of the older slot that it
//! replaces. A torn or damaged copy is harmless beside a whole one. Two such copies of the older slot are harmless,
//! too: the newer slot counts.

use super::{Finding, Report, Severity};
use crate::error::HeapError;
use lode_layout::{CHECKPOINT_SLOT_WORDS, CheckpointSlot};
use lode_pmem::{Fault, FaultScope, Medium};
use lode_redo::SEQUENCE_GAP;
use lode_redo::slots::{self, SlotCopy};
use zerocopy::IntoBytes;

/// Words of a slot: magic and checksum, generation, sequence, log epoch (two), rings and closed, reserved (two).
const GENERATION: usize = 1;
const SEQUENCE: usize = 2;
const RINGS: usize = 5;
/// The bit of that word that is set if the pool was closed.
const CLOSED: u64 = 1 << 32;
const RESERVED: [usize; 2] = [6, 7];

/// Checks the four copies in the pool `uuid`. Returns the slot that counts, if there is one.
pub fn check_slots<M: Medium>(medium: &M, uuid: &[u8; 16], report: &mut Report) -> Option<CheckpointSlot> {
    let (copies, lost) = read(medium, uuid);
    if let Some(lost) = lost {
        report.add(Finding::damage(
            "the checkpoint slots",
            lost.at,
            "a copy can't be read, and it may be the newest",
        ));
    }
    let newest = slots::newest(&copies);
    let pairs = copies.as_chunks::<2>().0;
    let whole_of =
        |pair: &[SlotCopy; 2]| pair.iter().filter_map(|copy| copy.slot).max_by_key(|slot| slot.generation);
    for (index, pair) in pairs.iter().enumerate() {
        let (whole, other) = (whole_of(pair), whole_of(&pairs[1 - index]));
        for copy in pair {
            report_copy(copy, whole, other, newest, uuid, report);
        }
    }
    if newest.is_none() {
        let means = "the pool can't be opened, and what its log holds can't be told from remains";
        report.add(Finding::damage("all copies of the checkpoint slots", copies[0].at, means));
    }
    newest
}

/// Reads all copies, and returns the first fault. A lost copy reads as zeros.
fn read<M: Medium>(medium: &M, uuid: &[u8; 16]) -> ([SlotCopy; 4], Option<Fault>) {
    let scope = FaultScope::open();
    let copies = slots::copies(scope.memory(medium.memory()), uuid);
    (copies, scope.close().err())
}

fn report_copy(
    copy: &SlotCopy,
    whole: Option<CheckpointSlot>,
    other: Option<CheckpointSlot>,
    newest: Option<CheckpointSlot>,
    uuid: &[u8; 16],
    report: &mut Report,
) {
    let Some(newest) = newest else { return };
    if let Some(slot) = copy.slot {
        if !slots::is_copy_of(copy, &slot) {
            let means = "the slot belongs to another place; no power cut moves it";
            report.add(Finding::damage("the checkpoint slot", copy.at, means));
        }
        return;
    }
    if copy.words == [0; CHECKPOINT_SLOT_WORDS] && whole.is_none() && newest.generation <= 1 {
        return;
    }
    // A torn copy has words of the slot that was written last at this place, and of the one before it. It also has
    // words of the next slot, if that was begun: the next slot replaces the one that is not the newest.
    let next = newest.generation.wrapping_add(1);
    let last = whole.map_or(next, |slot| slot.generation);
    let is_replaced = last.wrapping_add(2) == next;
    let near = [last, last.wrapping_sub(2), 0].contains(&copy.words[GENERATION])
        || is_replaced && copy.words[GENERATION] == next;
    let torn = copy.words == [0; CHECKPOINT_SLOT_WORDS]
        || near
            && RESERVED.iter().all(|word| copy.words[*word] == 0)
            && !whole.is_some_and(|slot| is_flipped(&slot.encode(uuid), &copy.words, other, is_replaced));
    let means = if whole.is_some() { "the other copy of the slot decides" } else { "the other slot decides" };
    let severity = if torn { Severity::Note } else { Severity::Damage };
    let what = "the copy of the checkpoint slot";
    report.add(Finding { severity, ..Finding::damage(what, copy.at, means) });
}

/// Returns true if a single bit differs, and no torn write explains the difference.
///
/// A torn write mixes the words of two slots. The replaced slot has a smaller generation and sequence number than the
/// one that replaces it. One of the two may say that the pool is closed. Their log epochs are random. If the log has
/// moved, the replaced slot has the number of rings that the slot between them, `other`, has. A recovery that
/// finds a torn slot writes one of the same generation, with a sequence number far above. Its write may be torn as
/// well, and its words may complete the torn slot.
fn is_flipped(
    whole: &[u64; CHECKPOINT_SLOT_WORDS],
    copy: &[u64; CHECKPOINT_SLOT_WORDS],
    other: Option<CheckpointSlot>,
    is_replaced: bool,
) -> bool {
    let mut differ = whole.iter().zip(copy).zip(0..).filter(|((a, b), _)| a != b);
    match (differ.next(), differ.next()) {
        (Some(((a, b), word)), None) => {
            let may_be_other = match word {
                GENERATION => b < a || is_replaced,
                SEQUENCE => b < a || is_replaced || a ^ b >= SEQUENCE_GAP,
                RINGS => {
                    let rings = b & !CLOSED;
                    a ^ b == CLOSED
                        || is_replaced
                        || other.is_some_and(|other| u64::from(other.rings) == rings)
                }
                _ => false,
            };
            (a ^ b).is_power_of_two() && !may_be_other
        }
        _ => false,
    }
}

/// Writes the copies of a slot that are not whole, from the one that is. If neither copy is whole, tries the
/// combinations of their words. Returns true if it wrote anything.
///
/// # Errors
/// [`HeapError::InDoubt`] when the medium can't make it durable.
///
/// # Durability
/// Durable on return.
pub fn repair_slots<M: Medium>(medium: &M, uuid: &[u8; 16]) -> Result<bool, HeapError> {
    // A lost copy is written again. That fails while it is lost.
    let (copies, _) = read(medium, uuid);
    let pairs = copies.as_chunks::<2>().0;
    let mut wrote = false;
    for pair in pairs {
        let whole = pair.iter().filter_map(|copy| copy.slot).max_by_key(|slot| slot.generation);
        let slot = whole.or_else(|| merge_copies(&pair[0].words, &pair[1].words, uuid));
        // A torn slot that is not the newest is written again by the next checkpoint.
        if let Some(slot) = slot.filter(|slot| slots::is_copy_of(&pair[0], slot))
            && pair.iter().any(|copy| copy.words.as_bytes() != slot.encode(uuid).as_bytes())
        {
            slots::write(medium, uuid, &slot)?;
            wrote = true;
        }
    }
    Ok(wrote)
}

/// Returns the slot whose words are partly in one copy and partly in the other.
fn merge_copies(
    a: &[u64; CHECKPOINT_SLOT_WORDS],
    b: &[u64; CHECKPOINT_SLOT_WORDS],
    uuid: &[u8; 16],
) -> Option<CheckpointSlot> {
    (0u32..1 << CHECKPOINT_SLOT_WORDS).find_map(|choice| {
        let words = std::array::from_fn(|word| if choice >> word & 1 == 0 { a[word] } else { b[word] });
        CheckpointSlot::decode(&words, uuid)
    })
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_pmem::Mapping;

    const UUID: [u8; 16] = [9; 16];

    fn slot(generation: u64, rings: u32) -> CheckpointSlot {
        CheckpointSlot {
            generation,
            sequence: 100,
            log_epoch: [3, 4],
            rings,
            closed: false,
            in_second_area: false,
        }
    }

    /// Returns the findings after a change of one word of the first copy of the newest slot. The log has moved, and
    /// that slot is the first one with the new number of rings.
    fn findings(word: usize, change: impl Fn(u64) -> u64) -> Vec<Severity> {
        let medium = Mapping::options().durability(lode_pmem::Durability::None).map_anonymous(64 << 10);
        let medium = medium.expect("memory");
        for slot in [slot(6, 2), slot(7, 2), slot(8, 6)] {
            slots::write(&medium, &UUID, &slot).expect("a slot");
        }
        let at = CheckpointSlot::offset(8).plus(word as u64 * 8);
        medium.memory().reading(|memory| medium.store8(at, change(memory.load8(at)))).expect("memory");
        let mut report = Report::default();
        assert_eq!(check_slots(&medium, &UUID, &mut report), Some(slot(8, 6)));
        report.findings.iter().map(|finding| finding.severity).collect()
    }

    /// The words of a copy reach the medium in any order: the number of rings may be the last one.
    #[test]
    fn torn_slot_of_a_moved_log_is_no_damage() {
        assert_eq!(findings(RINGS, |_| 2), [Severity::Note]);
        assert_eq!(findings(RINGS, |rings| rings ^ 16), [Severity::Damage]);
        assert_eq!(findings(SEQUENCE, |sequence| sequence ^ 256), [Severity::Damage]);
        assert_eq!(findings(RINGS, |rings| rings), []);
    }
}
