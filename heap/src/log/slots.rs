//! Reading and writing the checkpoint slots.

use crate::{HeapError, bugs};
use lode_layout::{BLOCK, LINE, SLOT_COPY_STRIDE, SLOT_WORDS, Slot};
use lode_pmem::Medium;
use zerocopy::IntoBytes;

/// Writes both copies of `slot`.
///
/// # Durability
/// Durable on return.
pub(super) fn write<M: Medium>(medium: &M, uuid: &[u8; 16], slot: &Slot) -> Result<(), HeapError> {
    let words = slot.encode(uuid);
    let home = Slot::home(slot.generation);
    let stored = if medium.log_block() <= LINE {
        medium.copy(home.plus(SLOT_COPY_STRIDE), words.as_bytes());
        if bugs::REUSE_BEFORE_SLOT.is_active() {
            medium.copy(home, words.as_bytes());
            return Ok(());
        }
        // ORDER: one drain for both copies; the caller has drained what the slot promises. Stop here: whichever
        // copy is whole counts, and if none is, the other slot does (crash table in slot.md).
        medium.log_write(home, words.as_bytes())
    } else {
        let mut block = [0u64; (BLOCK / 8) as usize];
        for copy in block.chunks_exact_mut((SLOT_COPY_STRIDE / 8) as usize) {
            copy[..SLOT_WORDS].copy_from_slice(&words);
        }
        // ORDER: as above.
        medium.log_write(home, block.as_bytes())
    };
    stored.map_err(HeapError::InDoubt)
}

/// The newest slot that can be read.
pub(super) fn read<M: Medium>(medium: &M, uuid: &[u8; 16]) -> Option<Slot> {
    (0..2)
        .flat_map(|generation| [0, SLOT_COPY_STRIDE].map(|copy| Slot::home(generation).plus(copy)))
        .filter_map(|at| {
            let mut words = [0; SLOT_WORDS];
            medium.memory().read(at, words.as_mut_bytes());
            Slot::decode(&words, uuid)
        })
        .max_by_key(|slot| slot.generation)
}
