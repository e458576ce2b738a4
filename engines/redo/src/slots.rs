//! Reading and writing the checkpoint slots.

use crate::bugs;
use crate::error::LogError;
use lode_layout::{BLOCK, LINE, PoolOffset, SLOT_COPY_STRIDE, SLOT_WORDS, Slot};
use lode_pmem::{FaultScope, Medium, Readable, SyncError};
use zerocopy::IntoBytes;

/// Writes both copies of `slot`.
///
/// # Errors
/// [`LogError::InDoubt`] when the medium can't make it durable; [`LogError::Fault`] when a copy can't be stored.
///
/// # Durability
/// Durable on return.
pub fn write<M: Medium>(medium: &M, uuid: &[u8; 16], slot: &Slot) -> Result<(), LogError> {
    let scope = FaultScope::open();
    let stored = store(medium, uuid, slot);
    let faultless = scope.close();
    stored?;
    Ok(faultless?)
}

fn store<M: Medium>(medium: &M, uuid: &[u8; 16], slot: &Slot) -> Result<(), SyncError> {
    let words = slot.encode(uuid);
    let home = Slot::home(slot.generation);
    if medium.log_block() <= LINE {
        medium.copy(home.plus(SLOT_COPY_STRIDE), words.as_bytes());
        if bugs::REUSE_BEFORE_SLOT.is_active() {
            medium.copy(home, words.as_bytes());
            return Ok(());
        }
        // ORDER: one drain for both copies; the caller has drained what the slot promises. Stop here: any whole copy
        // counts. If neither is whole, the other slot counts (crash table in slot.md).
        medium.log_write(home, words.as_bytes())
    } else {
        let mut block = [0u64; (BLOCK / 8) as usize];
        for copy in block.chunks_exact_mut((SLOT_COPY_STRIDE / 8) as usize) {
            copy[..SLOT_WORDS].copy_from_slice(&words);
        }
        // ORDER: as above.
        medium.log_write(home, block.as_bytes())
    }
}

/// One of the four copies, as read from the medium.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Offset of the copy.
    pub at: PoolOffset,
    /// Its words as they are.
    pub words: [u64; SLOT_WORDS],
    /// The decoded slot, if the copy is whole.
    pub slot: Option<Slot>,
}

/// Reads all copies, the two of each slot side by side.
pub fn copies(memory: &Readable, uuid: &[u8; 16]) -> [Copy; 4] {
    [(0, 0), (0, SLOT_COPY_STRIDE), (1, 0), (1, SLOT_COPY_STRIDE)].map(|(generation, copy)| {
        let at = Slot::home(generation).plus(copy);
        let mut words = [0; SLOT_WORDS];
        memory.read(at, words.as_mut_bytes());
        Copy { at, words, slot: Slot::decode(&words, uuid) }
    })
}

/// Returns true if `copy` lies at one of the two places of `slot`.
pub fn belongs(copy: &Copy, slot: &Slot) -> bool {
    let home = Slot::home(slot.generation);
    copy.at == home || copy.at == home.plus(SLOT_COPY_STRIDE)
}

/// Returns the newest slot that has a whole copy.
pub fn newest(copies: &[Copy; 4]) -> Option<Slot> {
    let whole = copies.iter().filter_map(|copy| copy.slot.filter(|slot| belongs(copy, slot)));
    whole.max_by_key(|slot| slot.generation)
}

/// Reads the newest slot that has a whole copy.
pub(crate) fn read(memory: &Readable, uuid: &[u8; 16]) -> Option<Slot> {
    newest(&copies(memory, uuid))
}
