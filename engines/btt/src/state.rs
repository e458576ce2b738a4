//! Changes of the state of blocks, whose data stay where they are.

use crate::arena::{Arena, claim};
use crate::bugs;
use crate::error::BttError;
use crate::undrained::Stripe;
use crate::write::in_doubt;
use lode_layout::WORD;
use lode_nvdimm::{BttBlockState, BttMapEntry};
use lode_pmem::sync::SpinMutexGuard;
use lode_pmem::{Medium, Readable};
use std::ops::Range;

impl Arena {
    /// Stores a state in the map entries of blocks that do not read like that already. Their numbers stay.
    ///
    /// # Errors
    /// Fails if one of the map entries can't be used, and nothing was changed; or with [`BttError::InDoubt`].
    ///
    /// # Durability
    /// The state is durable on return.
    ///
    /// # Cost
    /// One drain, and the lines of the map entries; nothing if all blocks read like that already.
    pub(crate) fn set_state<M: Medium>(
        &self,
        medium: &M,
        lbas: Range<u32>,
        state: BttBlockState,
    ) -> Result<(), BttError> {
        // Held until the drain, so what another thread sees of these states is durable.
        let _stripes = self.hold_stripes(medium, &lbas)?;
        let changed: Vec<(u32, BttMapEntry)> = medium.memory().try_reading(|memory| {
            let changed = self.entries_not_in(memory, lbas, state)?;
            changed.iter().for_each(|(lba, _)| claim(medium, self.word_at(*lba)));
            Ok::<_, BttError>(changed)
        })?;
        let (Some((first, _)), Some((last, _))) = (changed.first(), changed.last()) else { return Ok(()) };
        let (first, last) = (self.word_at(*first), self.word_at(*last));
        let stored = in_doubt(|| {
            for (lba, old) in &changed {
                self.store_entry_unflushed(medium, *lba, BttMapEntry { state, ..*old });
            }
            medium.flush(first, last.get() - first.get() + WORD);
            if bugs::ZERO_NOT_DRAINED.is_active() {
                return Ok(());
            }
            // ORDER: the map entries are durable before the caller is told. Stop here: each is the old entry or the new one.
            medium.drain()
        });
        Ok(stored??)
    }

    /// Returns the map entries of blocks that do not read as `state` says.
    fn entries_not_in(
        &self,
        memory: &Readable,
        lbas: Range<u32>,
        state: BttBlockState,
    ) -> Result<Vec<(u32, BttMapEntry)>, BttError> {
        let mut changed = Vec::new();
        for lba in lbas {
            let entry = self.load_entry(memory, lba)?;
            if self.read_state(entry) != state {
                changed.push((lba, entry));
            }
        }
        Ok(changed)
    }

    /// Holds the stripes of blocks that follow each other, in the order of stripes.
    fn hold_stripes<M: Medium>(
        &self,
        medium: &M,
        lbas: &Range<u32>,
    ) -> Result<Vec<SpinMutexGuard<'_, Stripe>>, BttError> {
        let count = self.stripes.len();
        let Some(last) = lbas.clone().next_back() else { return Ok(Vec::new()) };
        let words = (self.word_at(last).get() - self.word_at(lbas.start).get()) / WORD + 1;
        let start = self.stripe_index(lbas.start);
        let end = start + (words as usize).min(count);
        let from_the_first = 0..end.saturating_sub(count);
        from_the_first.chain(start..end.min(count)).map(|index| self.lock_stripe(medium, index)).collect()
    }
}
