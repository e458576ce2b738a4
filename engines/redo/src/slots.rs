//! Reading and writing the checkpoint slots.

use crate::bugs;
use crate::error::LogError;
use lode_layout::{BLOCK, CHECKPOINT_COPY_STRIDE, CHECKPOINT_SLOT_WORDS, CheckpointSlot, LINE, PoolOffset};
use lode_pmem::{FaultScope, Medium, Readable, SyncError};
use zerocopy::IntoBytes;

/// Writes both copies of `slot`.
///
/// # Errors
/// [`LogError::InDoubt`] when the medium can't make it durable; [`LogError::Fault`] when a copy can't be stored.
///
/// # Durability
/// Durable on return.
pub fn write<M: Medium>(medium: &M, uuid: &[u8; 16], slot: &CheckpointSlot) -> Result<(), LogError> {
    let scope = FaultScope::open();
    let stored = store(medium, uuid, slot);
    let faultless = scope.close();
    stored?;
    Ok(faultless?)
}

fn store<M: Medium>(medium: &M, uuid: &[u8; 16], slot: &CheckpointSlot) -> Result<(), SyncError> {
    let words = slot.encode(uuid);
    let offset = CheckpointSlot::offset(slot.generation);
    if medium.log_block() <= LINE {
        medium.copy(offset.plus(CHECKPOINT_COPY_STRIDE), words.as_bytes());
        if bugs::REUSE_BEFORE_SLOT.is_active() {
            medium.copy(offset, words.as_bytes());
            return Ok(());
        }
        // ORDER: one drain for both copies; the caller has drained what the slot promises. Stop here: any whole copy
        // counts. If neither is whole, the other slot counts (crash table in checkpoint_slot.md).
        medium.log_write(offset, words.as_bytes())
    } else {
        let mut block = [0u64; (BLOCK / 8) as usize];
        for copy in block.chunks_exact_mut((CHECKPOINT_COPY_STRIDE / 8) as usize) {
            copy[..CHECKPOINT_SLOT_WORDS].copy_from_slice(&words);
        }
        // ORDER: as above.
        medium.log_write(offset, block.as_bytes())
    }
}

/// One of the four copies, as read from the medium.
#[derive(Clone, Copy, Debug)]
pub struct SlotCopy {
    /// Offset of the copy.
    pub at: PoolOffset,
    /// Its words as they are.
    pub words: [u64; CHECKPOINT_SLOT_WORDS],
    /// The decoded slot, if the copy is whole.
    pub slot: Option<CheckpointSlot>,
}

/// Reads all copies, the two of each slot side by side.
pub fn copies(memory: &Readable, uuid: &[u8; 16]) -> [SlotCopy; 4] {
    [(0, 0), (0, CHECKPOINT_COPY_STRIDE), (1, 0), (1, CHECKPOINT_COPY_STRIDE)].map(|(generation, copy)| {
        let at = CheckpointSlot::offset(generation).plus(copy);
        let mut words = [0; CHECKPOINT_SLOT_WORDS];
        memory.read(at, words.as_mut_bytes());
        SlotCopy { at, words, slot: CheckpointSlot::decode(&words, uuid) }
    })
}

/// Returns true if `copy` lies at one of the two places of `slot`.
pub fn is_copy_of(copy: &SlotCopy, slot: &CheckpointSlot) -> bool {
    let offset = CheckpointSlot::offset(slot.generation);
    copy.at == offset || copy.at == offset.plus(CHECKPOINT_COPY_STRIDE)
}

/// Returns the newest slot that has a whole copy.
pub fn newest(copies: &[SlotCopy; 4]) -> Option<CheckpointSlot> {
    let whole = copies.iter().filter_map(|copy| copy.slot.filter(|slot| is_copy_of(copy, slot)));
    whole.max_by_key(|slot| slot.generation)
}

/// Reads the newest slot that has a whole copy.
pub fn read(memory: &Readable, uuid: &[u8; 16]) -> Option<CheckpointSlot> {
    newest(&copies(memory, uuid))
}
