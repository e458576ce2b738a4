//! Checkpoint slots: the last transaction that the log need not hold any more.
#![doc = include_str!("slot.md")]

use crate::drawing;
use crate::drawing::Drawing;
use crate::{BLOCK, PoolOffset};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

/// Words of a slot: a cache line.
pub const SLOT_WORDS: usize = 8;
/// Offset of the first of the two slot blocks; the second follows it.
pub const SLOT_BLOCKS: PoolOffset = PoolOffset::new(2 * BLOCK);
/// Distance in bytes between the two copies of a slot in its block: each has a sector of its own.
pub const SLOT_COPY_STRIDE: u64 = BLOCK / 2;

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
    reserved: [u64; 2],
}

pub(crate) const DRAWING: Drawing =
    drawing!("slot", SlotBytes, [magic, crc, generation, sequence, log_epoch, rings, closed, reserved]);

/// A checkpoint: every transaction up to `sequence` is written back and durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
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
}

impl Slot {
    /// Returns the offset of the slot for `generation`. Its two copies are [`SLOT_COPY_STRIDE`] apart.
    pub const fn home(generation: u64) -> PoolOffset {
        SLOT_BLOCKS.plus(generation % 2 * BLOCK)
    }

    /// Returns the slot as stored in the pool `uuid`.
    pub fn encode(&self, uuid: &[u8; 16]) -> [u64; SLOT_WORDS] {
        let mut bytes = SlotBytes {
            magic: MAGIC,
            crc: 0,
            generation: self.generation,
            sequence: self.sequence,
            log_epoch: self.log_epoch,
            rings: self.rings,
            closed: u32::from(self.closed),
            reserved: [0; 2],
        };
        bytes.crc = crc(&bytes, uuid);
        transmute!(bytes)
    }

    /// Decodes the slot stored as `words` in the pool `uuid`. Returns `None` if it is damaged or was never written.
    pub fn decode(words: &[u64; SLOT_WORDS], uuid: &[u8; 16]) -> Option<Slot> {
        let bytes: SlotBytes = transmute!(*words);
        let SlotBytes { generation, sequence, log_epoch, rings, closed, .. } = bytes;
        let intact = bytes.magic == MAGIC && bytes.crc == crc(&bytes, uuid) && rings > 0;
        intact.then_some(Slot { generation, sequence, log_epoch, rings, closed: closed == 1 })
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
    fn slots_come_back_and_every_flipped_bit_is_found() {
        let uuid = [9; 16];
        for closed in [false, true] {
            let slot = Slot { generation: 7, sequence: 1 << 60, log_epoch: [3, 4], rings: 16, closed };
            let words = slot.encode(&uuid);
            assert_eq!(Slot::decode(&words, &uuid), Some(slot));
            assert_eq!(Slot::decode(&words, &[8; 16]), None, "another pool's slot");
            for bit in 0..512 {
                let mut damaged = words;
                damaged[bit / 64] ^= 1 << (bit % 64);
                assert_eq!(Slot::decode(&damaged, &uuid), None, "bit {bit}");
            }
        }
        assert_eq!(Slot::decode(&[0; SLOT_WORDS], &uuid), None, "never written");
    }

    #[test]
    fn neighbours_do_not_share_a_block() {
        assert_ne!(Slot::home(4), Slot::home(5));
        assert_eq!(Slot::home(4), Slot::home(6));
    }
}
