//! Writes to the volatile cache, and the flush that makes them durable. The head of `cache.rs` has the order.

use crate::arena::{Arena, claim};
use crate::bugs;
use crate::cache::{Cache, Entries};
use crate::error::BttError;
use crate::lanes::{HeldLane, Lanes};
use crate::table::Table;
use crate::write::in_doubt;
use lode_nvdimm::{BttBlockState, BttMapEntry};
use lode_pmem::{FaultScope, Medium, hold};

impl Table {
    /// Writes a block to the cache.
    ///
    /// # Errors
    /// Fails if its free block or its map entry can't be used, and nothing was changed; or as [`settle`](Table::settle).
    ///
    /// # Durability
    /// The write is visible on return, and durable after the next [`settle`](Table::settle).
    ///
    /// # Cost
    /// The lines of the block; two drains if no lane is free.
    pub(crate) fn write_cached<M: Medium>(
        &self,
        medium: &M,
        cache: &Cache,
        (arena, lba): (&Arena, u32),
        from: &[u8],
    ) -> Result<(), BttError> {
        let HeldLane { index, state: mut lane } = loop {
            match arena.lanes.claim(medium) {
                Some(claimed) => break claimed,
                None => self.settle(medium, cache)?,
            }
        };
        arena.wait_for_readers(medium, lane.free);
        let next = arena.flog_at(index).plus(lane.flog.next_off);
        let claimed = FaultScope::run(|| claim(medium, next)).map_err(BttError::from);
        let staged = claimed.and_then(|()| arena.copy_in(medium, lane.free, from));
        staged.inspect_err(|_| Lanes::avoid(index))?;
        let entry = BttMapEntry { state: BttBlockState::Normal, number: lane.free };
        // Before the entry is there: a thread that replaces the write makes the lane free again.
        lane.is_waiting = true;
        let replaced = cache.replace(medium, (arena, lba), Some(index), |_| entry);
        let old = replaced.inspect_err(|_| lane.is_waiting = false)?;
        if bugs::LANE_FREE_BEFORE_FLUSH.is_active() {
            (lane.free, lane.is_waiting) = (old.number, false);
        }
        Ok(())
    }

    /// Makes durable what the cache holds.
    ///
    /// # Errors
    /// [`BttError::Poisoned`] after a failure; otherwise [`BttError::InDoubt`].
    ///
    /// # Cost
    /// Two drains; one if only blocks written in place wait, none if nothing does.
    pub(crate) fn settle<M: Medium>(&self, medium: &M, cache: &Cache) -> Result<(), BttError> {
        // A flush that finds the cache empty has waited for the one that emptied it.
        let _one = hold(&cache.flushing, medium);
        self.check_sound()?;
        let batch = {
            let mut waiting = hold(&cache.waiting, medium);
            waiting.settling = std::mem::take(&mut waiting.newer);
            waiting.settling.clone()
        };
        let is_in_place = cache.take_in_place();
        let written = match (batch.is_empty(), is_in_place) {
            (true, false) => return Ok(()),
            // ORDER: what was written in place is durable before the caller is told.
            (true, true) => medium.drain().map_err(BttError::from),
            (false, _) => self.write_out(medium, &batch),
        };
        if written.is_err() && !bugs::FAILED_SYNC_IGNORED.is_active() {
            self.poison();
            return written;
        }
        hold(&cache.waiting, medium).settling.clear();
        for (lba, cached) in &batch {
            let (Some(lane), Ok((arena, _))) = (cached.lane, self.locate(*lba)) else { continue };
            let mut lane = hold(arena.lanes.state(lane), medium);
            (lane.free, lane.is_waiting) = (cached.old.number, false);
        }
        Ok(())
    }

    /// Writes flog entries, then the map words of their blocks. Map words without a flog entry are one store each, so
    /// they go with the flog entries.
    fn write_out<M: Medium>(&self, medium: &M, batch: &Entries) -> Result<(), BttError> {
        if !bugs::DATA_NOT_DRAINED.is_active() {
            // ORDER: the data are durable before their flog entries can be, and the map words of the last flush before
            // the entries that could restore them are replaced. Stop here: row 1 for each write.
            medium.drain()?;
        }
        in_doubt(|| self.store_flogs(medium, batch))??;
        if !bugs::FLOG_NOT_DRAINED.is_active() {
            // ORDER: the flog entries are durable before their map words can be, and the other map words before the
            // caller is told. Stop here: row 3 for each write.
            medium.drain()?;
        }
        in_doubt(|| {
            for (lba, cached) in batch.iter().filter(|(_, cached)| cached.lane.is_some()) {
                let (arena, lba) = self.locate(*lba)?;
                arena.store_entry(medium, lba, cached.entry);
            }
            Ok(())
        })?
    }

    /// Stores the flog entry of each write, and the map words of blocks that only have another state.
    fn store_flogs<M: Medium>(&self, medium: &M, batch: &Entries) -> Result<(), BttError> {
        // No stripe is needed for map words: one flush at a time stores them.
        for (lba, cached) in batch {
            let (arena, lba) = self.locate(*lba)?;
            let Some(index) = cached.lane else {
                arena.store_entry(medium, lba, cached.entry);
                continue;
            };
            let mut lane = hold(arena.lanes.state(index), medium);
            let entry = arena.next_entry(&lane, lba, cached.old, cached.entry.number);
            arena.store_flog(medium, arena.flog_at(index).plus(lane.flog.next_off), entry);
            arena.advance(&mut lane, entry);
        }
        Ok(())
    }
}
