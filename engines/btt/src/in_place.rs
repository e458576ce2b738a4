//! Writes to the places that blocks have: no flog entry and no map entry changes, so a power cut may leave a mixture of the
//! old and the new content in a block.
//!
//! A block keeps its place meanwhile. Without a volatile cache its stripe is held until the drain, and a write that gives the
//! block another place needs that. With one, the writer announces the place as a reader does, so a later write to the place waits.

use crate::arena::Arena;
use crate::bugs;
use crate::cache::Cache;
use crate::error::BttError;
use crate::table::Table;
use lode_nvdimm::{BttBlockState, BttMapEntry};
use lode_pmem::Medium;

impl Arena {
    /// Returns the place of the content of a block; `None` if it has none: it reads as zeros, or is lost.
    fn content_place(&self, entry: BttMapEntry) -> Option<u32> {
        match self.read_state(entry) {
            BttBlockState::Initial | BttBlockState::Normal => Some(entry.number),
            BttBlockState::Zero | BttBlockState::Error => None,
        }
    }
}

impl Table {
    /// Writes blocks, each at most once, to the places that they have. Returns the writes of blocks that have none.
    ///
    /// # Errors
    /// Fails if a block can't be written, or if its map entry can't be used. Those before it may be written.
    ///
    /// # Durability
    /// Durable on return; with a volatile cache, after the next [`flush`](Table::flush).
    ///
    /// # Cost
    /// Without a volatile cache, one drain.
    pub(crate) fn write_in_place<'w, M: Medium>(
        &self,
        medium: &M,
        writes: &[(u64, &'w [u8])],
    ) -> Result<Vec<(u64, &'w [u8])>, BttError> {
        match self.cache() {
            Some(cache) => self.write_in_place_cached(medium, cache, writes),
            None => self.write_in_place_held(medium, writes),
        }
    }

    fn write_in_place_held<'w, M: Medium>(
        &self,
        medium: &M,
        writes: &[(u64, &'w [u8])],
    ) -> Result<Vec<(u64, &'w [u8])>, BttError> {
        let mut placed = Vec::with_capacity(writes.len());
        for (lba, from) in writes {
            let (arena, inner) = self.locate_writable(*lba)?;
            placed.push((arena, inner, *from));
        }
        placed.sort_unstable_by_key(|(arena, lba, _)| arena.stripe_order(*lba));
        let mut stripes = Vec::with_capacity(placed.len());
        let (mut last, mut homeless) = (None, Vec::new());
        for (arena, lba, from) in placed {
            let stripe = arena.stripe_order(lba);
            if last.replace(stripe) != Some(stripe) && !bugs::IN_PLACE_NOT_HELD.is_active() {
                stripes.push(arena.lock_stripe(medium, arena.stripe_index(lba))?);
            }
            match arena.content_place(arena.entry(medium, lba)?) {
                Some(block) => arena.copy_in(medium, block, from)?,
                None => homeless.push((arena.first_lba + u64::from(lba), from)),
            }
        }
        if homeless.len() < writes.len() && !bugs::IN_PLACE_NOT_DRAINED.is_active() {
            // ORDER: the contents are durable before the caller is told, and before the stripes let another write take their
            // places. Stop here: each block is old, new, or a mixture.
            medium.drain()?;
        }
        Ok(homeless)
    }

    fn write_in_place_cached<'w, M: Medium>(
        &self,
        medium: &M,
        cache: &Cache,
        writes: &[(u64, &'w [u8])],
    ) -> Result<Vec<(u64, &'w [u8])>, BttError> {
        let mut homeless = Vec::new();
        for (lba, from) in writes {
            let (arena, inner) = self.locate_writable(*lba)?;
            let entry = || medium.memory().try_reading(|memory| cache.entry(medium, memory, (arena, inner)));
            let mut seen = entry()?;
            loop {
                let Some(block) = arena.content_place(seen) else {
                    homeless.push((*lba, *from));
                    break;
                };
                let is_held = !bugs::IN_PLACE_NOT_HELD.is_active();
                let _announcement = is_held.then(|| arena.readers.announce(medium, block));
                let again = entry()?;
                if again == seen || !is_held {
                    arena.copy_in(medium, block, from)?;
                    cache.note_in_place();
                    break;
                }
                seen = again;
            }
        }
        Ok(homeless)
    }
}
