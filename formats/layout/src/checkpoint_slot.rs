//! Checkpoint slots: the last transaction that the log need not hold any more.
#![doc = include_str!("checkpoint_slot.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{BLOCK, PoolOffset};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Words of a slot: a cache line.
pub const CHECKPOINT_SLOT_WORDS: usize = 8;
/// Offset of the first of the two slot blocks; the second follows it.
pub const CHECKPOINT_SLOTS_OFF: PoolOffset = PoolOffset::new(2 * BLOCK);
/// Distance in bytes between the two copies of a slot in its block: each has a sector of its own.
pub const CHECKPOINT_COPY_STRIDE: u64 = BLOCK / 2;

const MAGIC: u32 = u32::from_le_bytes(*b"LdCk");

/// A slot as it lies on the medium.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct SlotBytes {
    magic: u32,
    crc: u32,
    generation: u64,
    sequence: u64,
    log_epoch: [u64; 2],
    rings: u32,
    closed: u32,
    area: u64,
    reserved: u64,
}

pub(crate) const TABLE: FormatTable = format_table!(
    "checkpoint_slot",
    SlotBytes,
    [magic, crc, generation, sequence, log_epoch, rings, closed, area, reserved]
);

/// A checkpoint: every transaction up to `sequence` is written back and durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSlot {
    /// Number of the checkpoint; the newer of two valid slots counts.
    pub generation: u64,
    /// The last sequence number whose write-back is durable.
    pub sequence: u64,
    /// Random number of this epoch of the log, drawn when the pool was opened for writing.
    pub log_epoch: [u64; 2],
    /// Number of rings in the log area in this log epoch.
    pub rings: u32,
    /// True if the pool was closed, so the log holds no records.
    pub closed: bool,
    /// True if the log lies in the second of its two areas, to which that of an object pool moves.
    pub in_second_area: bool,
}

impl CheckpointSlot {
    /// Returns the offset of the slot for `generation`. Its two copies are [`CHECKPOINT_COPY_STRIDE`] apart.
    pub const fn offset(generation: u64) -> PoolOffset {
        CHECKPOINT_SLOTS_OFF.plus(generation % 2 * BLOCK)
    }

    /// Returns the slot as stored in the pool `uuid`.
    pub fn encode(&self, uuid: &[u8; 16]) -> [u64; CHECKPOINT_SLOT_WORDS] {
        let mut bytes = SlotBytes {
            magic: MAGIC,
            crc: 0,
            generation: self.generation,
            sequence: self.sequence,
            log_epoch: self.log_epoch,
            rings: self.rings,
            closed: u32::from(self.closed),
            area: u64::from(self.in_second_area),
            reserved: 0,
        };
        bytes.crc = crc(&bytes, uuid);
        transmute!(bytes)
    }

    /// Decodes the slot stored as `words` in the pool `uuid`. Returns `None` if it is damaged or was never written.
    pub fn decode(words: &[u64; CHECKPOINT_SLOT_WORDS], uuid: &[u8; 16]) -> Option<CheckpointSlot> {
        let bytes: SlotBytes = transmute!(*words);
        let SlotBytes { generation, sequence, log_epoch, rings, closed, area, .. } = bytes;
        let intact = bytes.magic == MAGIC && bytes.crc == crc(&bytes, uuid) && rings > 0 && area < 2;
        intact.then_some(CheckpointSlot {
            generation,
            sequence,
            log_epoch,
            rings,
            closed: closed == 1,
            in_second_area: area == 1,
        })
    }
}

fn crc(bytes: &SlotBytes, uuid: &[u8; 16]) -> u32 {
    let covered = &bytes.as_bytes()[core::mem::offset_of!(SlotBytes, generation)..];
    crc32c::crc32c_append(crc32c::crc32c(uuid), covered)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "thousands of checksums: minutes to hours")]
    fn slots_round_trip_and_detect_bit_flips() {
        let uuid = [9; 16];
        for closed in [false, true] {
            let slot = CheckpointSlot {
                generation: 7,
                sequence: 1 << 60,
                log_epoch: [3, 4],
                rings: 16,
                closed,
                in_second_area: !closed,
            };
            let words = slot.encode(&uuid);
            assert_eq!(CheckpointSlot::decode(&words, &uuid), Some(slot));
            assert_eq!(CheckpointSlot::decode(&words, &[8; 16]), None, "another pool's slot");
            for bit in 0..512 {
                let mut damaged = words;
                damaged[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(CheckpointSlot::decode(&damaged, &uuid), None, "bit {bit}");
            }
        }
        assert_eq!(CheckpointSlot::decode(&[0; CHECKPOINT_SLOT_WORDS], &uuid), None, "never written");
    }

    #[test]
    fn consecutive_slots_use_different_blocks() {
        assert_ne!(CheckpointSlot::offset(4), CheckpointSlot::offset(5));
        assert_eq!(CheckpointSlot::offset(4), CheckpointSlot::offset(6));
    }
}
