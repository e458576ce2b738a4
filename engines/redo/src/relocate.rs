//! The move of the log: to a larger area, or that of a log with hooks to its second one.

use crate::bugs;
use crate::checkpoint::in_own_scope;
use crate::error::LogError;
use crate::lane::LaneState;
use crate::log::{Checkpointer, FailOnUnwind, Log, LogArea, place_rings, ring_count};
use lode_layout::{BLOCK, align_down};
use lode_pmem::biased::BiasedGuard;
use lode_pmem::sync::{Ordering, SpinMutexGuard};
use lode_pmem::{FaultScope, Medium};
use std::mem;

impl<M: Medium> Log<M> {
    /// Moves the log to `area`, which is at least as long, all zeros, and durable. `publish` makes the header of the
    /// pool name that area, durably. No transaction is committed meanwhile.
    ///
    /// # Errors
    /// Those of [`checkpoint`](Log::checkpoint): the log stays where it was. The error of `publish`: the header may
    /// name either area, so the log accepts no more records. It has none that is needed.
    ///
    /// # Durability
    /// Every transaction that returned before is durable, and its write-backs are. A crash leaves the header with the
    /// old area or the new one. Both hold no record above the checkpoint slot until this returns.
    ///
    /// # Cost
    /// That of two checkpoints, that of `publish`, and another slot.
    pub fn relocate<E: From<LogError>>(
        &self,
        area: LogArea,
        publish: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.begin_epoch()?;
        if !bugs::LOG_MOVED_WITH_RECORDS.is_active() {
            // Makes most write-backs durable while other threads still commit.
            self.checkpoint()?;
        }
        let checkpointer = self.wait_for_checkpointer();
        in_own_scope(|scope| self.relocate_in(scope, checkpointer, area, publish))
    }

    /// Moves the log. The lanes are released without a bias: an exclusive one must not let in the lanes that are added.
    fn relocate_in<E: From<LogError>>(
        &self,
        scope: &FaultScope,
        mut checkpointer: SpinMutexGuard<'_, Checkpointer>,
        area: LogArea,
        publish: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        // ORDER: the log is empty when it moves. Stop here: the old slot counts.
        let (mut lanes, written) = self.claim_all_written_back();
        written.map_err(|_| LogError::Poisoned)?;
        self.gather_lanes(&mut lanes, &mut checkpointer.dirty);
        // ORDER: all lanes are held, so no thread gets a number before they are released.
        let sequence = self.next_sequence.0.load(Ordering::Relaxed) - 1;
        if !bugs::LOG_MOVED_WITH_RECORDS.is_active() {
            // ORDER: the slot that covers all records is durable before the header names an area without them. Stop
            // here: the header names the old area, which has no needed record (crash table in log.md, row 2).
            self.finish_checkpoint(scope, &mut checkpointer, sequence, false)?;
        }
        if bugs::LOG_MOVED_BEFORE_HEADER.is_active() {
            drop(self.place_log(&mut lanes, &mut checkpointer, area));
            drop((lanes, checkpointer));
            return publish();
        }
        // ORDER: both copies of the header name the new area before a record is written there. Stop here: some or all
        // copies name the new area, whose zeros are no records (rows 3 and 4).
        // Dropped after an error or a panic: the header may name either area.
        let failing = FailOnUnwind(self);
        publish()?;
        let mut added = self.place_log(&mut lanes, &mut checkpointer, area);
        if bugs::RINGS_ADDED_BEFORE_SLOT.is_active() {
            added.clear();
        }
        // ORDER: the slot with the new number of rings is durable before any lane, an added one included, is released,
        // and so before a record is in one of them. Stop here: the slot before it counts, with fewer rings of the new
        // area, all of zeros (row 5).
        self.write_slot(&mut checkpointer, sequence, false)?;
        mem::forget(failing);
        drop(added);
        Ok(())
    }

    /// Moves a log whose checkpoints have [hooks](Log::hook_checkpoints) to `area`, its second one, which may be shorter. Asks
    /// `admits` while all lanes are held, and returns false if that refuses, or if the log has moved before. No bytes of the first area
    /// are needed after that.
    ///
    /// # Errors
    /// Those of [`checkpoint`](Log::checkpoint).
    ///
    /// # Durability
    /// As [`checkpoint`](Log::checkpoint). The slot that covers all records names the area, too: a crash leaves the log in one of both.
    ///
    /// # Cost
    /// That of two checkpoints. Other transactions that are about to commit wait for the second one.
    pub(crate) fn move_to_second_area(
        &self,
        area: LogArea,
        admits: impl FnOnce() -> bool,
    ) -> Result<bool, LogError> {
        // Makes most write-backs durable while other threads still commit.
        self.checkpoint()?;
        let checkpointer = self.wait_for_checkpointer();
        in_own_scope(|scope| self.move_in(scope, checkpointer, area, admits))
    }

    fn move_in(
        &self,
        scope: &FaultScope,
        mut checkpointer: SpinMutexGuard<'_, Checkpointer>,
        area: LogArea,
        admits: impl FnOnce() -> bool,
    ) -> Result<bool, LogError> {
        if checkpointer.in_second_area {
            return Ok(false);
        }
        // ORDER: the slot covers no record that is not written back. Stop here: the old slot counts.
        let (mut lanes, written) = self.claim_all_written_back();
        written.map_err(|_| LogError::Poisoned)?;
        self.bias_lanes(&mut lanes, &[]);
        if !admits() {
            return Ok(false);
        }
        self.gather_lanes(&mut lanes, &mut checkpointer.dirty);
        // ORDER: all lanes are held, so no thread gets a number before they are released.
        let sequence = self.next_sequence.0.load(Ordering::Relaxed) - 1;
        let failing = FailOnUnwind(self);
        self.use_area(area);
        // ORDER: the images of the new epoch are durable in the second area before the slot that names it. Stop here: the old slot names
        // the first area, which has all records above its number still.
        if !bugs::MOVED_WITHOUT_IMAGES.is_active() {
            self.begin_hooks(scope)?;
        }
        checkpointer.in_second_area = !bugs::SLOT_NAMES_FIRST_AREA.is_active();
        // ORDER: all that is at home, and then the slot, before any lane is released: no record of the second area has a number that the
        // old slot does not cover while that counts. Stop here: as above.
        self.finish_checkpoint(scope, &mut checkpointer, sequence, false)?;
        if let Some(hooks) = &self.checkpoint_hooks {
            hooks.ended();
        }
        mem::forget(failing);
        self.note_free_rings();
        Ok(true)
    }

    /// Makes the lanes, which have left their rings, use rings of `area`. The caller holds all of them.
    fn use_area(&self, area: LogArea) {
        let ring_len = self.ring_len_in(area);
        match (&self.group, &self.spare_rings) {
            // ORDER: none: published with the lanes.
            (Some(group), _) => self.tails[0].store(group.relocate(area.start, ring_len), Ordering::Relaxed),
            (None, Some(spare)) => self.move_spare_rings(spare, area.start, ring_len),
            (None, None) => unreachable!("a log with hooks has spare rings"),
        }
        // ORDER: none: published with the lanes.
        self.start.store(area.start.get(), Ordering::Relaxed);
        // ORDER: as above.
        self.ring_len.store(ring_len, Ordering::Relaxed);
    }

    /// Returns the length of a ring if the rings of this log lie in `area`.
    pub(crate) fn ring_len_in(&self, area: LogArea) -> u64 {
        align_down(area.len / self.rings(), BLOCK)
    }

    /// Makes the lanes use `area`. The caller holds all lanes, and no record of the log is needed. Returns the lanes that
    /// are added, which no other thread can hold before the caller drops them.
    fn place_log<'a>(
        &'a self,
        lanes: &mut [BiasedGuard<'_, LaneState>],
        checkpointer: &mut Checkpointer,
        area: LogArea,
    ) -> Vec<BiasedGuard<'a, LaneState>> {
        let rings = ring_count(self.medium.durability(), area).min(self.checksum_seeds.len() as u32);
        let ring_len = align_down(area.len / u64::from(rings), BLOCK);
        // ORDER: none: changed with all lanes held, as now.
        debug_assert!(ring_len >= self.ring_len.load(Ordering::Relaxed), "rings do not become shorter");
        debug_assert!(rings >= checkpointer.rings, "rings are added");
        let mut added = Vec::new();
        match &self.group {
            // ORDER: none: published with the lanes.
            Some(group) => self.tails[0].store(group.relocate(area.start, ring_len), Ordering::Relaxed),
            None => {
                added = self.lanes.claim_unused(rings as usize, &self.medium);
                place_rings(lanes, 0, area.start, ring_len);
                place_rings(&mut added, lanes.len(), area.start, ring_len);
                for (tail, lane) in self.tails.iter().zip(lanes.iter().chain(&added)) {
                    // ORDER: none: published with the lanes.
                    tail.store(lane.ring.head, Ordering::Relaxed);
                }
                self.lanes.use_lanes(rings as usize);
            }
        }
        checkpointer.rings = rings;
        // ORDER: none: published with the lanes.
        self.start.store(area.start.get(), Ordering::Relaxed);
        // ORDER: as above.
        self.ring_len.store(ring_len, Ordering::Relaxed);
        added
    }
}
