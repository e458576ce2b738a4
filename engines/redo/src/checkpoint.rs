//! Checkpoints: write-backs become durable, and the log's space is free again.

use crate::dirty::DirtyLines;
use crate::error::LogError;
use crate::lane::LaneState;
use crate::log::{Checkpointer, Log};
use crate::new_records::CheckpointRecords;
use crate::{bugs, slots};
use lode_layout::CheckpointSlot;
use lode_pmem::biased::BiasedGuard;
use lode_pmem::sync::{Ordering, SpinMutexGuard};
use lode_pmem::{Durability, FaultScope, Medium};

impl<M: Medium> Log<M> {
    /// Makes all write-backs so far durable, and frees the log's space. Waits for a running checkpoint.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when a sync failed, now or before; [`LogError::ReadOnly`].
    ///
    /// # Durability
    /// Every write-back of a transaction that returned before the call is durable on return.
    ///
    /// # Cost
    /// One flush for each distinct line written back since the last checkpoint, and two drains. A synced write if records
    /// wait for theirs.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        self.checkpoint_locked(self.wait_for_checkpointer(), false)
    }

    /// Makes a checkpoint unless another thread has made one since the number of the last one was `seen`.
    pub(crate) fn checkpoint_after(&self, seen: u64) -> Result<(), LogError> {
        let checkpointer = self.wait_for_checkpointer();
        if self.checkpointed() != seen { Ok(()) } else { self.checkpoint_locked(checkpointer, false) }
    }

    /// Makes a checkpoint unless one is running. If it fails, the log accepts no more records; the calling
    /// transaction is durable all the same.
    #[cold]
    pub(crate) fn checkpoint_if_idle(&self) {
        if let Some(checkpointer) = self.checkpointer.try_lock() {
            let _ = self.checkpoint_locked(checkpointer, false);
        }
    }

    /// Ends this epoch of the log. All write-backs are durable, and no record is left to replay.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when a sync failed, now or before.
    pub fn close(&self) -> Result<(), LogError> {
        if self.is_read_only {
            return Ok(());
        }
        self.checkpoint_locked(self.wait_for_checkpointer(), true)
    }

    pub(crate) fn wait_for_checkpointer(&self) -> SpinMutexGuard<'_, Checkpointer> {
        for round in 0.. {
            if let Some(checkpointer) = self.checkpointer.try_lock() {
                return checkpointer;
            }
            self.medium.relax(round);
        }
        unreachable!("the loop ends with the checkpointer")
    }

    fn checkpoint_locked(
        &self,
        checkpointer: SpinMutexGuard<'_, Checkpointer>,
        closed: bool,
    ) -> Result<(), LogError> {
        in_own_scope(|scope| self.checkpoint_in(scope, checkpointer, closed))
    }

    fn checkpoint_in(
        &self,
        scope: &FaultScope,
        mut checkpointer: SpinMutexGuard<'_, Checkpointer>,
        closed: bool,
    ) -> Result<(), LogError> {
        self.begin_epoch_in(&mut checkpointer)?;
        let (sequence, heads, used) = {
            let (mut lanes, written) = match bugs::CHECKPOINT_OVER_WAITING.is_active() {
                true => (self.lanes.claim_all(&self.medium), Ok(())),
                // ORDER: the slot covers no record that is not written back. Stop here: the old slot counts.
                false => self.claim_all_written_back(),
            };
            written.map_err(|_| LogError::Poisoned)?;
            let used = self.bias_lanes(&mut lanes, &[]);
            let heads = self.gather_lanes(&mut lanes, &mut checkpointer.dirty);
            // ORDER: all lanes are held, so no thread gets a number between this load and the end of the block.
            let last = || self.next_sequence.0.load(Ordering::Relaxed) - 1;
            if bugs::CHECKPOINT_BEFORE_WRITE_BACK.is_active() {
                drop(lanes);
                self.medium.relax(0);
                (last(), heads, used)
            } else {
                let sequence = last();
                if !closed {
                    self.begin_hooks(scope)?;
                }
                (sequence, heads, used)
            }
        };
        self.finish_checkpoint(scope, &mut checkpointer, sequence, closed)?;
        for (tail, head) in self.tails.iter().zip(heads) {
            // ORDER: releases the durable slot before the space below the new tail, which it frees.
            tail.store(head, Ordering::Release);
        }
        self.note_free_rings();
        if let Some(hooks) = &self.checkpoint_hooks {
            let mut lanes = self.lanes.claim_all(&self.medium);
            hooks.ended();
            self.bias_lanes(&mut lanes, &used);
        }
        Ok(())
    }

    /// Lets the hooks append the first records after the checkpoint, which are durable on return. The caller holds all lanes.
    pub(crate) fn begin_hooks(&self, scope: &FaultScope) -> Result<(), LogError> {
        let Some(hooks) = &self.checkpoint_hooks else { return Ok(()) };
        let begun = hooks.begun(&mut CheckpointRecords { log: self, scope });
        begun.and_then(|()| self.write_back_to(self.last_sequence())).inspect_err(|_| self.fail())
    }

    /// Makes the dirty lines durable, then the slot that covers the numbers up to `sequence`.
    pub(crate) fn finish_checkpoint(
        &self,
        scope: &FaultScope,
        checkpointer: &mut Checkpointer,
        sequence: u64,
        closed: bool,
    ) -> Result<(), LogError> {
        // ORDER: asked after all lanes were held: a commit whose write-backs met lost memory called `fail` before it
        // released its lane. Stop here: the old slot counts, and the record is replayed.
        self.check_not_failed()?;
        if let Some(group) = &self.group
            && !bugs::DEFERRED_NOT_WRITTEN_BACK.is_active()
        {
            group.write_back_deferred(&self.medium, scope.memory(self.medium.memory()));
        }
        if self.medium.durability() != Durability::None {
            self.persist_write_backs(scope, &checkpointer.dirty)?;
        }
        // The slot is written even where nothing becomes durable. A pool on tmpfs outlives its process, and a record
        // must not be replayed once a later one was overwritten.
        self.write_slot(checkpointer, sequence, closed)?;
        checkpointer.dirty.clear();
        debug_assert!(sequence >= self.checkpointed(), "checkpoints go forward");
        // ORDER: releases the durable slot before blocks that were freed up to this number. They may not be
        // overwritten earlier.
        self.checkpointed.store(sequence, Ordering::Release);
        Ok(())
    }

    /// Takes the dirty lines of all lanes, which the caller holds, and returns the heads of their rings. All
    /// write-backs of the numbers that were assigned are done then.
    pub(crate) fn gather_lanes(
        &self,
        lanes: &mut [BiasedGuard<'_, LaneState>],
        dirty: &mut DirtyLines,
    ) -> Vec<u64> {
        debug_assert_eq!(lanes.len(), self.lanes.len(), "a checkpoint holds all lanes");
        for lane in &mut *lanes {
            dirty.merge(&mut lane.dirty);
            lane.continued = 0;
        }
        match (&self.group, &self.spare_rings) {
            (Some(group), _) => vec![group.checkpoint_head(&self.medium)],
            (None, Some(spare)) => self.leave_rings(spare, lanes),
            (None, None) => lanes.iter().map(|lane| lane.ring.head).collect(),
        }
    }

    /// Makes the write-backs to the lines in `dirty` durable.
    pub(crate) fn persist_write_backs(&self, scope: &FaultScope, dirty: &DirtyLines) -> Result<(), LogError> {
        if !bugs::CHECKPOINT_WITHOUT_FLUSH.is_active() {
            // Iterated from within: the state between two calls of `next` is part of what memcheck takes for uninitialised.
            dirty.ranges().for_each(|(at, len)| self.medium.flush(at, len));
        }
        if bugs::CHECKPOINT_WITHOUT_DRAIN.is_active() {
            return Ok(());
        }
        // ORDER: write-backs are durable before the slot says so. Stop here: the old slot counts, and
        // replaying stores that were already made changes nothing.
        self.medium.drain().map_err(|_| LogError::Poisoned).inspect_err(|_| self.fail())?;
        match scope.fault() {
            None => Ok(()),
            Some(fault) => Err(LogError::Fault(fault)).inspect_err(|_| self.fail()),
        }
    }

    /// Writes the next checkpoint slot. It is durable on return.
    pub(crate) fn write_slot(
        &self,
        checkpointer: &mut Checkpointer,
        sequence: u64,
        closed: bool,
    ) -> Result<(), LogError> {
        let slot = CheckpointSlot {
            generation: checkpointer.generation + 1,
            sequence,
            log_epoch: self.log_epoch,
            rings: checkpointer.rings,
            closed,
            in_second_area: checkpointer.in_second_area,
        };
        let written = slots::write(&self.medium, &self.uuid, &slot);
        written.map_err(|_| LogError::Poisoned).inspect_err(|_| self.fail())?;
        checkpointer.generation += 1;
        Ok(())
    }
}

/// Calls `with` in a scope of its own: the faults of the calling thread's transaction are not the checkpoint's. The result reports a fault.
pub(crate) fn in_own_scope<R>(with: impl FnOnce(&FaultScope) -> R) -> R {
    let scope = FaultScope::open();
    let done = with(&scope);
    let _ = scope.close();
    done
}
