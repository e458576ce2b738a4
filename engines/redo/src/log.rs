//! The log: commit and checkpoint.

use crate::apply::{ContinuedRange, apply_all, continued_entries};
use crate::batch::WaitingRecords;
use crate::{bugs, slots};
use lode_pmem::sync::{AtomicBool, AtomicU64, Ordering, SpinMutex};

use crate::dirty::DirtyLines;
use crate::error::{InDoubtCause, LogError};
use crate::group::{Append, Group, NewRecord};
use crate::hooks::{AppendedRecord, CheckpointHooks, CommitHooks};
use crate::lane::{LaneState, Lanes, RingPosition, SpareRings, bias_used};
use crate::written_back::WrittenBack;
use lode_layout::{BLOCK, CheckpointSlot, ChecksumSeed, Geometry, PoolOffset, Record, WORD, align_down};
use lode_pmem::biased::BiasedGuard;
use lode_pmem::{Durability, FaultScope, Medium, Readable, checksum};
use std::mem;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Maximum number of rings in a log. It bounds the number of threads that can be in their drain at once.
pub(crate) const RINGS_MAX: u64 = 16;
/// Minimum length of a ring in bytes: shorter ones do not pay.
const RING_LEN_MIN: u64 = 2 * BLOCK;
/// Maximum number of transactions that wait for one synced write together, at durability commit. Those that return before
/// it are not counted.
const GROUP_LANES: usize = if cfg!(loom) { 2 } else { 64 };
/// Sequence numbers that recovery skips: more than a log epoch can assign without leaving a record.
pub const SEQUENCE_GAP: u64 = 1 << 32;

/// Position of a log in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogArea {
    /// Offset of its first byte, a multiple of 4096.
    pub start: PoolOffset,
    /// Its length in bytes, a multiple of 4096.
    pub len: u64,
}

impl LogArea {
    /// Returns the place of the log in a pool.
    pub fn of(geometry: &Geometry) -> LogArea {
        LogArea { start: geometry.log_off(), len: geometry.log_len() }
    }
}

/// A redo log on a medium of its own or inside of a pool.
#[derive(Debug)]
pub struct Log<M: Medium> {
    pub(crate) medium: M,
    pub(crate) uuid: [u8; 16],
    /// Offset of the log's first byte. It changes with all lanes held.
    pub(crate) start: AtomicU64,
    pub(crate) log_epoch: [u64; 2],
    /// Length of a ring in bytes. It changes with all lanes held.
    pub(crate) ring_len: AtomicU64,
    /// One for each ring that the log may ever have.
    pub(crate) checksum_seeds: Vec<ChecksumSeed>,
    /// Present at durability commit, where all lanes share one ring.
    pub(crate) group: Option<Group>,
    pub(crate) lanes: Lanes,
    /// Position in each ring below which no record is needed, counted like [`crate::lane::RingPosition::head`].
    pub(crate) tails: Vec<AtomicU64>,
    pub(crate) next_sequence: CachePadded<AtomicU64>,
    pub(crate) checkpointed: AtomicU64,
    pub(crate) checkpointer: SpinMutex<Checkpointer>,
    /// True while the log takes no records: before its epoch has begun, and once it has failed.
    pub(crate) refuses: AtomicBool,
    /// Set once the log accepts no more records.
    pub(crate) failed: AtomicBool,
    /// True if the log refuses records because its medium must not be changed.
    pub(crate) is_read_only: bool,
    pub(crate) checkpoint_hooks: Option<Box<dyn CheckpointHooks<M>>>,
    /// Present if lanes share the rings.
    pub(crate) spare_rings: Option<SpareRings>,
}

/// A word that every transaction changes, on cache lines of its own. Any other word on these lines would be read by
/// all threads and fetched anew after each change. Two lines, because CPUs fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

/// State that only the checkpointing thread touches.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    pub(crate) generation: u64,
    /// Number of rings.
    pub(crate) rings: u32,
    pub(crate) dirty: DirtyLines,
    /// True if the log lies in its second area.
    pub(crate) in_second_area: bool,
    /// True once the slot of the log epoch is durable.
    has_begun: bool,
}

impl<M: Medium> Log<M> {
    /// Makes an empty log by writing its first checkpoint slot. The area's old content does not matter.
    ///
    /// # Errors
    /// [`LogError::InDoubt`] when the medium can't make it durable.
    ///
    /// # Durability
    /// The slot is durable on return.
    pub fn format(medium: &M, area: LogArea, uuid: &[u8; 16], log_epoch: [u64; 2]) -> Result<(), LogError> {
        let rings = ring_count(medium.durability(), area);
        slots::write(
            medium,
            uuid,
            &CheckpointSlot {
                generation: 1,
                sequence: 0,
                log_epoch,
                rings,
                closed: true,
                in_second_area: false,
            },
        )
    }

    /// Returns the log of a medium on which `dirty` is to be flushed before its epoch begins. `slot` is the first one of the epoch,
    /// apart from its generation, which is that of the last slot of the epoch before.
    pub(crate) fn recovered(
        medium: M,
        area: LogArea,
        uuid: [u8; 16],
        slot: &CheckpointSlot,
        dirty: DirtyLines,
    ) -> Log<M> {
        let ring_len = align_down(area.len / u64::from(slot.rings), BLOCK);
        let grouped = medium.durability() == Durability::Commit;
        // A log that moves may get more rings. The model checker explores no such log.
        let rings_max = if grouped || cfg!(loom) { slot.rings } else { slot.rings.max(RINGS_MAX as u32) };
        let checksum_seeds: Vec<_> =
            (0..rings_max).map(|ring| ring_checksum_seed(&uuid, slot.log_epoch, ring)).collect();
        let group = grouped.then(|| Group::new(area.start, ring_len, checksum_seeds[0], slot.sequence));
        let lanes = match grouped {
            true => Lanes::new(GROUP_LANES, GROUP_LANES),
            false => Lanes::new(rings_max as usize, slot.rings as usize),
        };
        debug_assert!(
            ring_len > 0 && u64::from(slot.rings) * ring_len <= area.len,
            "the rings lie in the log"
        );
        place_rings(&mut lanes.claim_all(&medium), 0, area.start, ring_len);
        Log {
            uuid,
            start: AtomicU64::new(area.start.get()),
            log_epoch: slot.log_epoch,
            ring_len: AtomicU64::new(ring_len),
            group,
            lanes,
            tails: (0..rings_max).map(|_| AtomicU64::new(0)).collect(),
            checksum_seeds,
            next_sequence: CachePadded(AtomicU64::new(slot.sequence + 1)),
            checkpointed: AtomicU64::new(slot.sequence),
            checkpointer: SpinMutex::new(Checkpointer {
                generation: slot.generation,
                rings: slot.rings,
                dirty,
                in_second_area: slot.in_second_area,
                has_begun: false,
            }),
            refuses: AtomicBool::new(true),
            failed: AtomicBool::new(false),
            is_read_only: false,
            checkpoint_hooks: None,
            spare_rings: None,
            medium,
        }
    }

    /// Refuses all records from now on, because their changes would be lost with the medium.
    pub fn set_read_only(&mut self) {
        self.is_read_only = true;
        self.fail();
    }

    /// Leaves write-backs to checkpoints from now on, at durability commit; at the others commits go on to write back.
    /// A record is then visible in the pool after the next checkpoint only: the caller keeps what it needs of it until
    /// [`checkpointed`](Log::checkpointed) covers its number. For callers whose payloads lie outside of the log: a batch
    /// becomes durable by one [`drain`](Medium::drain), together with all payloads that were copied before, and no page with
    /// a write-back is dirty then.
    pub fn defer_write_backs(&mut self) {
        if let Some(group) = &mut self.group {
            group.defer_write_backs();
        }
    }

    /// Lets `hooks` take part in every checkpoint from now on. A quarter of each ring is left to the records that they append. A
    /// thread that fills a ring goes on in another one. It lies where the file system may have allocated
    /// blocks that were never written: at durability commit it writes many of them at a time when it comes to them.
    pub fn hook_checkpoints(&mut self, hooks: Box<dyn CheckpointHooks<M>>) {
        self.checkpoint_hooks = Some(hooks);
        match &self.group {
            None => self.share_rings(),
            Some(group) => group.fill_ahead(),
        }
    }

    /// Returns true if all lanes share one ring, so that a record is durable only with all before it.
    #[inline]
    pub fn is_grouped(&self) -> bool {
        self.group.is_some()
    }

    /// Returns the bytes of each ring that only the [hooks](Log::hook_checkpoints) of a checkpoint use.
    #[inline]
    pub(crate) fn reserved(&self) -> u64 {
        // ORDER: none: changed with all lanes held. A caller that holds none has it for a choice.
        if self.checkpoint_hooks.is_some() { self.ring_len.load(Ordering::Relaxed) / 4 } else { 0 }
    }

    /// Returns the number of rings.
    pub(crate) fn rings(&self) -> u64 {
        if self.group.is_some() { 1 } else { self.lanes.len() as u64 }
    }

    /// Calls `with` while a lane is held, so that no checkpoint begins meanwhile. It notes the lines that it changes as dirty, where
    /// the medium has lines to flush, and the next checkpoint makes them durable.
    pub fn with_lane<R>(&self, with: impl FnOnce(Option<&mut DirtyLines>) -> R) -> R {
        let (_, mut lane) = self.lanes.claim(&self.medium);
        let dirty = (self.medium.durability() == Durability::Line).then_some(&mut lane.dirty);
        with(dirty)
    }

    /// Spares the thread that opened the log its locked instructions, as long as no other thread uses it.
    pub(crate) fn bias_to_opener(&self) {
        if self.group.is_none() {
            self.lanes.bias_to_opener(&self.medium);
        }
    }

    /// Calls `with` while this thread alone can hold a lane. Returns `None` if other threads can.
    #[inline]
    pub(crate) fn with_exclusive_lane<R>(&self, with: impl FnOnce() -> R) -> Option<R> {
        self.lanes.enter_exclusive().map(|_lane| with())
    }

    /// Returns true if the log refuses records because its medium must not be changed.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns an error if the log refuses records because its medium must not be changed.
    #[inline]
    pub fn check_writable(&self) -> Result<(), LogError> {
        if self.is_read_only { Err(LogError::ReadOnly) } else { Ok(()) }
    }

    /// Begins the log epoch if it has not begun. A caller does so before its first store to space that is free: a record of the
    /// epoch before may lead there, and recovery reads it until that epoch has ended. The caller holds no lane.
    ///
    /// # Errors
    /// [`LogError::ReadOnly`]; [`LogError::Poisoned`] if the log accepts no more records, or if a sync of the beginning failed.
    ///
    /// # Durability
    /// What recovery has written back is durable on return, and so is the log epoch.
    ///
    /// # Cost
    /// Two drains the first time, then none.
    #[inline]
    pub fn begin_epoch(&self) -> Result<(), LogError> {
        // ORDER: acquires the durable slot of the epoch. None for a failure: a transaction that depends on the failed one sees the
        // flag with the locks that it acquires, and a checkpoint with the lanes. Any other commit is sound by itself.
        if self.refuses.load(Ordering::Acquire) { self.begin_or_refuse() } else { Ok(()) }
    }

    #[cold]
    fn begin_or_refuse(&self) -> Result<(), LogError> {
        self.check_not_failed()?;
        self.begin_epoch_in(&mut self.wait_for_checkpointer())
    }

    /// Begins the log epoch if it has not begun.
    pub(crate) fn begin_epoch_in(&self, checkpointer: &mut Checkpointer) -> Result<(), LogError> {
        self.check_not_failed()?;
        if checkpointer.has_begun {
            return Ok(());
        }
        if !bugs::RECOVERY_SLOT_BEFORE_DRAIN.is_active() {
            // ORDER: the write-backs of recovery are durable before the slot says that the old records are not needed. Stop here:
            // the old slot counts, and recovery does the same again.
            let scope = FaultScope::open();
            let persisted = self.persist_write_backs(&scope, &checkpointer.dirty);
            let _ = scope.close();
            persisted?;
            checkpointer.dirty.clear();
        }
        if !bugs::EPOCH_NOT_DRAINED.is_active() {
            // ORDER: the slot ends the old log epoch before records of the new one are written, and before free space is used.
            // Stop here: as above.
            self.write_slot(checkpointer, self.checkpointed(), false)?;
        }
        checkpointer.has_begun = true;
        // ORDER: releases the slot. One order with `fail`, which stores to the flags the other way round: a failure stays.
        self.refuses.store(false, Ordering::SeqCst);
        if self.failed.load(Ordering::SeqCst) {
            self.refuses.store(true, Ordering::SeqCst);
        }
        self.check_not_failed()
    }

    /// Returns an error if the log accepts no more records.
    #[inline]
    pub fn check_not_failed(&self) -> Result<(), LogError> {
        // ORDER: none, as for a failure in `begin_epoch`.
        if self.failed.load(Ordering::Relaxed) { Err(self.refusal()) } else { Ok(()) }
    }

    #[cold]
    fn refusal(&self) -> LogError {
        if self.is_read_only { LogError::ReadOnly } else { LogError::Poisoned }
    }

    /// Returns the medium under the log.
    #[inline]
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Returns the UUID of the pool.
    pub fn uuid(&self) -> &[u8; 16] {
        &self.uuid
    }

    /// Returns the greatest sequence number whose write-backs are durable.
    pub fn checkpointed(&self) -> u64 {
        // ORDER: acquires the finished checkpoint: a thread that sees the number may overwrite what the checkpoint
        // freed.
        self.checkpointed.load(Ordering::Acquire)
    }

    /// Returns the greatest sequence number that was assigned so far. Locks of the transactions up to it were taken
    /// before: a thread that looks at one of them afterwards sees that it is held, or was released.
    #[inline]
    pub fn last_sequence(&self) -> u64 {
        // ORDER: acquires the locks that were taken before the number was assigned.
        self.next_sequence.0.load(Ordering::Acquire) - 1
    }

    /// Returns how far the records are written back, at durability commit. At the others a transaction writes its own
    /// record back.
    pub fn written_back(&self) -> Option<&Arc<WrittenBack>> {
        self.group.as_ref().map(Group::written_back)
    }

    /// Waits until the record `sequence` is durable and written back. Writes it if no other thread does.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when its sync failed. A write-back that met lost memory is no error here: its own transaction
    /// reports it.
    pub fn wait_written_back(&self, sequence: u64) -> Result<(), LogError> {
        let Some(group) = &self.group else { return Ok(()) };
        group
            .wait_written_back(&self.medium, sequence)
            .map_err(|_| LogError::Poisoned)
            .inspect_err(|_| self.fail())
    }

    /// Makes all records up to `sequence` durable, and writes them back, for those that have not waited for it. A number that
    /// no record has yet stands for the last one.
    ///
    /// # Errors
    /// [`LogError::InDoubt`] when a sync of them failed, or a write-back of one of them met lost memory: the log accepts no
    /// more records.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// None if they are; otherwise a synced write, shared with others.
    pub fn write_back_to(&self, sequence: u64) -> Result<(), LogError> {
        let Some(group) = &self.group else { return Ok(()) };
        let sequence = sequence.min(self.last_sequence());
        group.wait_all_written_back(&self.medium, sequence).inspect_err(|_| self.fail())
    }

    /// Holds all lanes, with all records durable and written back. Returns an error beside them if some are not: the log
    /// accepts no more records then.
    pub(crate) fn claim_all_written_back(&self) -> (Vec<BiasedGuard<'_, LaneState>>, Result<(), LogError>) {
        // While other threads still commit, so that little waits when they are stopped. An error shows again.
        let _ = self.write_back_to(self.last_sequence());
        let lanes = self.lanes.claim_all(&self.medium);
        // ORDER: all lanes are held, so no thread gets a number from here on.
        let written = self.write_back_to(self.last_sequence());
        (lanes, written)
    }

    /// Returns the maximum length of a record in words, header included. A longer record continues elsewhere, by
    /// [`Entry::Continue`](lode_layout::Entry::Continue).
    pub fn record_words_max(&self) -> usize {
        // ORDER: none: a record of an older length fits into longer rings. A commit that finds shorter ones is given up.
        (self.ring_len.load(Ordering::Relaxed) / 4 / 8) as usize
    }

    /// Returns the offset of the log's first byte.
    pub fn start(&self) -> PoolOffset {
        // ORDER: none: the caller alone moves the log.
        PoolOffset::new(self.start.load(Ordering::Relaxed))
    }

    /// Makes `record` durable, then writes its entries back, and returns its sequence number. The caller holds the
    /// locks of all that the record changes until this returns. The record has at most
    /// [`record_words_max`](Log::record_words_max) words. `continued` are the ranges to which its `Continue`
    /// entries lead. Their content is durable.
    ///
    /// # Errors
    /// [`LogError::InDoubt`] when this record's log write failed, or when the record is durable and a write-back met
    /// lost memory; [`LogError::Poisoned`] after either; [`LogError::ReadOnly`].
    ///
    /// # Durability
    /// Durable and visible on return. After a crash before the return, either all entries are there or none.
    ///
    /// # Cost
    /// One drain; at durability commit one synced write shared with others. A checkpoint when the ring is half full; if
    /// write-backs are deferred, when it is full, or at its end.
    #[inline]
    pub fn commit(&self, record: &mut Record, continued: &[ContinuedRange]) -> Result<u64, LogError> {
        let scope = FaultScope::open();
        let committed = self.commit_in(&scope, record, continued, &mut ());
        // The error reports the fault.
        let _ = scope.close();
        committed.map(|sequence| sequence.expect("no hook gives up the commit"))
    }

    /// Commits as [`commit`](Log::commit) does, and calls `hooks` meanwhile. Returns `None` if they give up the commit, or if the log has
    /// moved and the record is longer than [`record_words_max`](Log::record_words_max) by now: nothing is changed then. A fault that `scope` has counts as one of the record's write-backs.
    ///
    /// # Errors
    /// As [`commit`](Log::commit).
    #[inline]
    pub fn commit_in(
        &self,
        scope: &FaultScope,
        record: &mut Record,
        continued: &[ContinuedRange],
        hooks: &mut impl CommitHooks,
    ) -> Result<Option<u64>, LogError> {
        self.begin_epoch()?;
        let result = if self.group.is_some() {
            self.commit_grouped(scope, record, continued, hooks)
        } else {
            self.commit_single(scope, record, continued, hooks)
        };
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// Ends a commit whose write-backs are done. If they met lost memory, the log accepts no more records before
    /// `lane` is released: only the record has their content, so no checkpoint may free it.
    #[inline]
    fn check_write_back<L>(&self, scope: &FaultScope, lane: &L) -> Result<(), LogError> {
        // Asks the thread, not a result: a value that is copied here waits for all write-backs.
        if scope.has_fault() { Err(self.fail_write_back(scope, lane)) } else { Ok(()) }
    }

    #[cold]
    fn fail_write_back<L>(&self, scope: &FaultScope, _held: &L) -> LogError {
        self.fail();
        let fault = scope.fault().expect("asked before");
        LogError::InDoubt(InDoubtCause::WriteBack(fault))
    }

    #[inline]
    fn commit_single(
        &self,
        scope: &FaultScope,
        record: &mut Record,
        continued: &[ContinuedRange],
        hooks: &mut impl CommitHooks,
    ) -> Result<Option<u64>, LogError> {
        let memory = scope.memory(self.medium.memory());
        let len_max = hooks.padded_len_max(record) as u64 * WORD;
        let (index, mut lane) = loop {
            let (index, mut lane) = self.lanes.claim(&self.medium);
            if !self.takes(len_max) {
                return Ok(None);
            }
            if self.has_room(&mut lane.ring, len_max, self.reserved())
                || self.take_spare_ring(&mut lane, len_max)
            {
                if !hooks.admits(0) {
                    return Ok(None);
                }
                break (index, lane);
            }
            let seen = self.checkpointed();
            drop(lane);
            self.checkpoint_after(seen)?;
        };
        let unwinding = FailOnUnwind(self);
        let exclusive = lane.is_exclusive();
        let sequence = self.assign_sequence(exclusive);
        hooks.compose(record);
        let ring = lane.ring;
        let (offset, len) = (ring.offset, record.padded_len() as u64 * WORD);
        debug_assert!(
            len <= len_max && offset + len <= ring.len && len.is_multiple_of(self.medium.log_block())
        );
        let place = ring.start.plus(offset);
        if bugs::WRITE_BACK_BEFORE_DRAIN.is_active() {
            apply_all(&self.medium, memory, record.body(), continued, None, exclusive);
        }
        let seed = if bugs::SEALED_BY_LANE.is_active() { index } else { ring.number };
        // ORDER: the record is durable before the first write-back: there is no undo to take a store back. Stop here:
        // the record is whole and replayed, or torn and skipped, and the caller has not returned.
        let bytes = record.finish(self.checksum_seeds[seed], sequence, offset, checksum).as_bytes();
        self.medium.log_write(place, bytes).map_err(LogError::from)?;
        lane.ring.advance(len);
        debug_assert!(self.fits(&lane.ring), "a record lies over none that is needed");
        let mut dirty = (self.medium.durability() == Durability::Line).then_some(&mut lane.dirty);
        let is_shown = hooks.wants_entries();
        if is_shown && !bugs::WORD_KEPT_TOO_LATE.is_active() {
            show_all(memory, record.body(), continued, sequence, hooks);
        }
        let entries = hooks.to_write_back(record.body(), dirty.as_deref_mut());
        apply_all(&self.medium, memory, entries, continued, dirty, exclusive);
        if is_shown && bugs::WORD_KEPT_TOO_LATE.is_active() {
            show_all(memory, record.body(), continued, sequence, hooks);
        }
        lane.continued += continued.iter().map(|(_, len)| len).sum::<u64>();
        let is_due = self.half_full(ring.number, lane.ring.head, ring.len) && !self.has_spare_ring()
            || lane.continued > self.area_len();
        self.check_write_back(scope, &lane)?;
        hooks.finished(exclusive);
        mem::forget(unwinding);
        drop(lane);
        if is_due {
            self.checkpoint_if_idle();
        }
        Ok(Some(sequence))
    }

    /// Assigns the next sequence number to a thread that holds a lane. `exclusive`: no other lane can be held.
    #[inline]
    pub(crate) fn assign_sequence(&self, exclusive: bool) -> u64 {
        let next = &self.next_sequence.0;
        // ORDER: assigned with the lane held: a checkpoint holds all lanes, so it covers no number whose write-backs
        // are still to come. Assigned with all locks held, so dependent records are in order. Releases those locks' words
        // to a reader that acquires the number.
        if !exclusive {
            return next.fetch_add(1, Ordering::Release);
        }
        // ORDER: no other lane can be held, so no other thread changes the number before this lane is released.
        let sequence = next.load(Ordering::Relaxed);
        next.store(sequence + 1, Ordering::Release);
        sequence
    }

    #[cold]
    fn commit_grouped(
        &self,
        scope: &FaultScope,
        record: &mut Record,
        continued: &[ContinuedRange],
        hooks: &mut impl CommitHooks,
    ) -> Result<Option<u64>, LogError> {
        let memory = scope.memory(self.medium.memory());
        let group = self.group.as_ref().expect("asked before");
        let (mut lane, appended) = loop {
            let (_, lane) = self.lanes.claim(&self.medium);
            if !self.takes(hooks.padded_len_max(record) as u64 * WORD) {
                return Ok(None);
            }
            // ORDER: acquires the checkpoint that freed the space below the tail.
            let tail = self.tails[0].load(Ordering::Acquire);
            let seen = self.checkpointed();
            let new = NewRecord { record, continued, hooks, reserved: self.reserved() };
            match group.append(scope, &self.medium, new, &self.next_sequence.0, tail)? {
                Append::Done(appended) => break (lane, appended),
                Append::GivenUp => return Ok(None),
                Append::NoRoom => drop(lane),
            }
            self.checkpoint_after(seen)?;
        };
        let unwinding = FailOnUnwind(self);
        let AppendedRecord { sequence, returns_early, .. } = appended.record;
        if hooks.wants_entries() {
            show_all(memory, record.body(), continued, sequence, hooks);
        }
        hooks.appended(&appended.record, record.body());
        // From now on the record is written back as soon as it is durable, perhaps by another thread.
        drop(appended);
        if !returns_early {
            group.wait_own_written_back(&self.medium, sequence)?;
            hooks.written_back(sequence, record.body());
        }
        lane.continued += continued.iter().map(|(_, len)| len).sum::<u64>();
        let is_due = lane.continued > self.area_len();
        self.check_write_back(scope, &lane)?;
        hooks.finished(false);
        mem::forget(unwinding);
        drop(lane);
        if is_due {
            self.checkpoint_if_idle();
        } else if !group.is_deferring() {
            self.checkpoint_if_due();
        }
        Ok(Some(sequence))
    }

    /// Makes a checkpoint if the ring is half full, or if recovery could not tell damage of many durable records from a torn end,
    /// and if no other thread makes one. For callers that defer write-backs, once they have released their locks: their commits
    /// make one only if there is no room, or if records before the end of the ring are not durable.
    pub fn checkpoint_if_due(&self) {
        let Some(group) = &self.group else { return };
        // ORDER: none: an old length only makes the checkpoint come earlier.
        let ring_len = self.ring_len.load(Ordering::Relaxed);
        if self.half_full(0, group.head(&self.medium), ring_len) || group.needs_proof() {
            self.checkpoint_if_idle();
        }
    }

    /// Returns the length of all rings. Entries outside of them that are longer together make a checkpoint due, because
    /// recovery reads all of them.
    fn area_len(&self) -> u64 {
        // ORDER: none: an old length only makes the checkpoint come earlier.
        self.ring_len.load(Ordering::Relaxed) * self.tails.len() as u64
    }

    /// Returns true if a record of `len` bytes is not too long, asked while a lane is held.
    #[inline]
    fn takes(&self, len: u64) -> bool {
        // ORDER: none: changed with all lanes held.
        let fits = len <= self.ring_len.load(Ordering::Relaxed) / 4;
        debug_assert!(
            fits || self.checkpoint_hooks.is_some(),
            "a log without hooks moves to longer rings only"
        );
        fits
    }

    /// Returns true if `ring` has room for a record of `len` bytes at its position, with `reserved` bytes left. Then moves the
    /// position to the start of the ring if the record does not fit before its end.
    #[inline]
    pub(crate) fn has_room(&self, ring: &mut RingPosition, len: u64, reserved: u64) -> bool {
        let rest = ring.len - ring.offset;
        let (head, offset) = if len > rest { (ring.head + rest, 0) } else { (ring.head, ring.offset) };
        // ORDER: acquires the checkpoint that freed the space below the tail.
        let tail = self.tails[ring.number].load(Ordering::Acquire);
        let has_room = head + len + reserved - tail <= ring.len;
        if has_room {
            (ring.head, ring.offset) = (head, offset);
        }
        has_room
    }

    /// Returns true if the records of `ring` that are not checkpointed fit in it.
    fn fits(&self, ring: &RingPosition) -> bool {
        // ORDER: none: tails only grow.
        ring.head - self.tails[ring.number].load(Ordering::Relaxed) <= ring.len
    }

    #[inline]
    fn half_full(&self, ring: usize, head: u64, ring_len: u64) -> bool {
        // ORDER: none: an old tail only makes the checkpoint come earlier. A tail above the head belongs to a later
        // checkpoint, or to a log that has moved.
        head.saturating_sub(self.tails[ring].load(Ordering::Relaxed)) > ring_len / 2
    }

    /// Calls `with` while no transaction is between its number and the end of its write-backs, with the last number that
    /// was assigned. Makes records that wait for their sync durable before. Waits for transactions that are in their drain,
    /// never for a closure.
    ///
    /// # Cost
    /// A synced write if records wait for theirs. Other transactions that are about to commit wait for `with`, and for the
    /// sync of what was committed during the first one.
    fn between_commits<R>(&self, with: impl FnOnce(u64) -> R) -> R {
        // After an error the log accepts no more records, which `with` may ask.
        let (mut lanes, _) = self.claim_all_written_back();
        debug_assert_eq!(lanes.len(), self.lanes.len(), "all lanes are held");
        // ORDER: all lanes are held, so no thread gets a number before they are released.
        let result = with(self.next_sequence.0.load(Ordering::Relaxed) - 1);
        self.bias_lanes(&mut lanes, &[]);
        result
    }

    /// Calls `with` while no record is being written back, with a number and the records that wait for their write-back. Memory
    /// has what the records up to that number have left. No transaction of a record that waits has to come before one of
    /// them because of what it has read. No record gets a number meanwhile.
    ///
    /// # Cost
    /// Other transactions that are about to commit wait for `with`. At durability commit no sync is waited for, but in rare
    /// cases: if the records that wait replace more than 4 MiB, or if one has been validated before an earlier batch was closed
    /// and its reads do not hold without a closer look. Then, and at the other durabilities, all lanes are held, the number is the last
    /// one, and no record waits.
    pub fn between_write_backs<R>(&self, with: impl FnOnce(u64, &WaitingRecords<'_>) -> R) -> R {
        let with = match &self.group {
            None if bugs::SNAPSHOT_WITHOUT_LANES.is_active() => {
                return with(self.last_sequence(), &WaitingRecords::none());
            }
            None => with,
            Some(group) => match group.between_write_backs(&self.medium, with) {
                Ok(result) => return result,
                Err(with) => with,
            },
        };
        self.between_commits(|last| with(last, &WaitingRecords::none()))
    }

    /// Biases the lanes that were used since the last checkpoint, and those that were used `before`. The caller holds all of
    /// them. Returns those that are biased.
    pub(crate) fn bias_lanes(&self, lanes: &mut [BiasedGuard<'_, LaneState>], before: &[bool]) -> Vec<bool> {
        if self.group.is_some() {
            return Vec::new();
        }
        let was_used = |(index, lane): (usize, &BiasedGuard<'_, LaneState>)| {
            let ring = &lane.ring;
            // ORDER: none: a tail that a checkpoint is about to change costs a bias at most.
            let is_used = !ring.is_none() && ring.head != self.tails[ring.number].load(Ordering::Relaxed);
            is_used || before.get(index).is_some_and(|before| *before)
        };
        let used: Vec<bool> = lanes.iter().enumerate().map(was_used).collect();
        bias_used(lanes, &used);
        used
    }

    /// Makes the log refuse all further records.
    #[cold]
    pub fn fail(&self) {
        // ORDER: see `begin_epoch_in`.
        self.failed.store(true, Ordering::SeqCst);
        self.refuses.store(true, Ordering::SeqCst);
    }
}

/// Makes the log refuse records when a commit unwinds: no checkpoint may cover a record whose write-backs are not
/// all done. Declared after the lane, so that the lane is still held.
pub(crate) struct FailOnUnwind<'a, M: Medium>(pub(crate) &'a Log<M>);

impl<M: Medium> Drop for FailOnUnwind<'_, M> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

/// Gives each lane its empty ring in the log that begins at `start`. `first` is the number of the first lane.
pub(crate) fn place_rings(
    lanes: &mut [BiasedGuard<'_, LaneState>],
    first: usize,
    start: PoolOffset,
    ring_len: u64,
) {
    for (index, lane) in lanes.iter_mut().enumerate() {
        let number = first + index;
        let head = if lane.ring.is_none() { 0 } else { lane.ring.head.next_multiple_of(ring_len) };
        let start = start.plus(number as u64 * ring_len);
        lane.ring = RingPosition { number, start, len: ring_len, head, offset: 0 };
    }
}

/// Passes all entries of the record `sequence` to `hooks`.
#[cold]
fn show_all(
    memory: &Readable,
    body: &[u64],
    continued: &[ContinuedRange],
    sequence: u64,
    hooks: &mut impl CommitHooks,
) {
    hooks.before_write_back(sequence, body);
    for range in continued {
        hooks.before_write_back(sequence, &continued_entries(memory, *range));
    }
}

pub(crate) fn ring_checksum_seed(uuid: &[u8; 16], log_epoch: [u64; 2], ring: u32) -> ChecksumSeed {
    let log_epoch = if bugs::EPOCH_NOT_IN_CHECKSUM.is_active() { [0; 2] } else { log_epoch };
    ChecksumSeed::new(uuid, log_epoch, ring)
}

/// Returns the number of rings into which `area` is divided on a medium of that durability.
pub(crate) fn ring_count(durability: Durability, area: LogArea) -> u32 {
    let rings =
        if durability == Durability::Commit { 1 } else { (area.len / RING_LEN_MIN).clamp(1, RINGS_MAX) };
    u32::try_from(rings).expect("a small number")
}
