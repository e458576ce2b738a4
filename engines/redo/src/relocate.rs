//! The move of the log to a larger area.

use crate::bugs;
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
        let scope = FaultScope::open();
        let done = self.relocate_in(&scope, checkpointer, area, publish);
        // The error reports the fault.
        let _ = scope.close();
        done
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
