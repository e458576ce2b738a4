//! A write on a medium without a volatile cache, step by step.
//!
//! ```text
//!   data -> free block of the lane     past the cache                                    (row 1)
//!   first half of the flog entry       not current yet: seq is in the second half        (row 1)
//!   DRAIN
//!   second half of the flog entry      the entry is current                              (row 2)
//!   DRAIN                              the write is durable: recovery sets the map       (row 3)
//!   map entry                          visible; flushed, and durable with the next drain (row 4)
//! ```
//!
//! The rows are those of the crash table at the head of the crate.

use crate::arena::Arena;
use crate::bugs;
use crate::error::{BttError, InDoubtCause};
use crate::lanes::LaneState;
use crate::undrained::Undrained;
use lode_layout::{PoolOffset, WORD};
use lode_nvdimm::{BttBlockState, BttDialect, BttFlogEntry, BttMapEntry};
use lode_pmem::hold;
use lode_pmem::{FaultScope, Medium};

/// Runs stores of which nothing is known if one of them meets lost memory.
///
/// # Errors
/// [`BttError::InDoubt`] with the first fault.
pub(crate) fn in_doubt<R>(stores: impl FnOnce() -> R) -> Result<R, BttError> {
    FaultScope::run(stores).map_err(|fault| BttError::InDoubt(InDoubtCause::Memory(fault)))
}

impl Arena {
    /// Writes a block.
    ///
    /// # Errors
    /// Fails if its free block or its map entry can't be used, and nothing was changed; or with
    /// [`BttError::InDoubt`].
    ///
    /// # Durability
    /// The write is durable on return.
    ///
    /// # Cost
    /// Two drains; the lines of the block, one of the flog and one of the map.
    pub(crate) fn write_through<M: Medium>(&self, medium: &M, lba: u32, from: &[u8]) -> Result<(), BttError> {
        let Some((index, mut lane)) = self.lanes.claim(medium, |lane| !lane.is_waiting) else {
            return Err(BttError::Poisoned);
        };
        self.lanes.wait_for_readers(medium, lane.free);
        self.copy_in(medium, lane.free, from)?;
        // Held until the map entry is stored: no other write of the block may read the same old entry.
        let mut stripe = hold(self.stripe(lba), medium);
        let old = self.entry(medium, lba)?;
        // The next drain covers them. The lane's last map entry: this flog entry replaces the one that could restore
        // it. The stripe's: recovery looks at the lanes in any order, so a flog entry must not be ahead of the entry
        // of another lane that led to its old block.
        let of_lane = lane.undrained.filter(|_| !bugs::SLOT_REUSED_BEFORE_MAP.is_active());
        let of_stripe = stripe.filter(|_| !bugs::OLD_ENTRY_NOT_DURABLE.is_active());
        FaultScope::run(|| {
            of_lane.iter().chain(&of_stripe).for_each(|undrained| undrained.join_drain(medium))
        })?;
        let new = BttMapEntry { state: BttBlockState::Normal, number: lane.free };
        // A lane whose write is in doubt has no free block for the next one: recovery may need either.
        lane.is_waiting = true;
        // No map entry without its flog entry: the block would have two owners after a crash.
        in_doubt(|| self.make_current(medium, index, &mut lane, (lba, old)))??;
        in_doubt(|| self.store_entry(medium, lba, new))?;
        lane.is_waiting = false;
        lane.free = old.number;
        let undrained = Some(Undrained::new(self.word_at(lba)));
        (lane.undrained, *stripe) = (undrained, undrained);
        Ok(())
    }

    /// Makes the data and the flog entry of a write durable.
    fn make_current<M: Medium>(
        &self,
        medium: &M,
        index: usize,
        lane: &mut LaneState,
        (lba, old): (u32, BttMapEntry),
    ) -> Result<(), BttError> {
        let at = self.flog_at(index).plus(lane.flog.next_off);
        let entry = self.next_entry(lane, lba, old, lane.free);
        let [first, second] = entry.words();
        medium.store8(at, first);
        if !medium.keeps_order_in_lines() && !bugs::FLOG_HALVES_UNORDERED.is_active() {
            medium.flush(at, WORD);
        }
        if bugs::MAP_BEFORE_FLOG.is_active() {
            self.store_entry(medium, lba, BttMapEntry { state: BttBlockState::Normal, number: lane.free });
        }
        if !bugs::DATA_NOT_DRAINED.is_active() {
            // ORDER: the data, and the first half where lines keep no order, are durable before the entry is current.
            // So is every map entry that this one builds on. Stop here: row 1, the old entry is current.
            medium.drain()?;
        }
        medium.store8(at.plus(WORD), second);
        medium.flush(at, 2 * WORD);
        if !bugs::FLOG_NOT_DRAINED.is_active() {
            // ORDER: the flog entry is durable before the map entry is visible, and before the caller is told. Stop
            // here: row 3, recovery sets the map.
            medium.drain()?;
        }
        self.advance(lane, entry);
        Ok(())
    }

    /// Returns the flog entry of the next write of a lane: in the map, `old` gives way to block `number`.
    pub(crate) fn next_entry(
        &self,
        lane: &LaneState,
        lba: u32,
        old: BttMapEntry,
        number: u32,
    ) -> BttFlogEntry {
        let dialect = if bugs::FLOG_WITHOUT_STATE.is_active() { BttDialect::Kernel } else { self.dialect };
        let new = BttMapEntry { state: BttBlockState::Normal, number };
        let [old_map, new_map] = [old, new].map(|entry| dialect.flog_word(entry));
        let current = &lane.flog.current;
        let seq = if bugs::SEQ_NOT_ADVANCED.is_active() { current.seq } else { current.next_seq() };
        BttFlogEntry { lba, old_map, new_map, seq }
    }

    /// Notes that `entry` is current: the next one goes to the other place.
    pub(crate) fn advance(&self, lane: &mut LaneState, entry: BttFlogEntry) {
        lane.flog.current = entry;
        if !bugs::FLOG_PLACE_NOT_CHANGED.is_active() {
            lane.flog.next_off = self.flog_offs - lane.flog.next_off;
        }
    }

    /// Stores a state in the map entry of a block, whose number stays.
    ///
    /// # Errors
    /// Fails if the map entry can't be used, and nothing was changed; or with [`BttError::InDoubt`].
    ///
    /// # Durability
    /// The state is durable on return.
    ///
    /// # Cost
    /// One drain, one line of the map.
    pub(crate) fn set_state<M: Medium>(
        &self,
        medium: &M,
        lba: u32,
        state: BttBlockState,
    ) -> Result<(), BttError> {
        let _stripe = hold(self.stripe(lba), medium);
        let old = self.entry(medium, lba)?;
        let stored = in_doubt(|| {
            self.store_entry(medium, lba, BttMapEntry { state, ..old });
            if bugs::ZERO_NOT_DRAINED.is_active() {
                return Ok(());
            }
            // ORDER: the map entry is durable before the caller is told. Stop here: the old entry or the new one.
            medium.drain()
        });
        Ok(stored??)
    }

    /// Stores a flog entry as a whole, and flushes it. For callers who drain the data before, and the entry after.
    pub(crate) fn store_flog<M: Medium>(&self, medium: &M, at: PoolOffset, entry: BttFlogEntry) {
        let [first, second] = entry.words();
        medium.store8(at, first);
        medium.store8(at.plus(WORD), second);
        medium.flush(at, 2 * WORD);
    }
}
