//! Writes on a medium without a volatile cache, step by step: a batch of blocks, or a single one.
//!
//! ```text
//!   each block:  data -> free block of a lane     past the cache                                     (row 1)
//!   the stripes of the blocks are held, in their order
//!   each block:  first half of the flog entry     not current yet: seq is in the second half         (row 1)
//!   DRAIN
//!   each block:  second half of the flog entry    the entry is current                               (row 2)
//!   DRAIN                                         the writes are durable: recovery sets the map      (row 3)
//!   each block:  map entry                        visible; flushed, and durable with the next drain  (row 4)
//! ```
//!
//! Blocks of the batch that become zeros get their map entries before the first drain, which makes them durable. They need nothing
//! of the writes, nor the writes of them.
//!
//! The rows are those of the crash table at the head of the crate, and each block of a batch is in a row of its own. No block
//! is in a batch twice, so no flog entry of a batch builds on a map entry of the same batch, and recovery may look at them in
//! any order.
//!
//! # Locks
//! Lanes come before stripes, and stripes have an order. A write waits for a lane only while it holds none, so two batches
//! never wait for lanes of each other. A batch that finds no further lane is cut there, and the rest is another batch.

use crate::arena::Arena;
use crate::bugs;
use crate::error::{BttError, InDoubtCause};
use crate::lanes::{HeldLane, LaneState, Lanes};
use crate::undrained::{Stripe, Undrained};
use lode_layout::{LINE, PoolOffset, WORD, align_down};
use lode_nvdimm::{BttBlockState, BttDialect, BttFlogEntry, BttMapEntry};
use lode_pmem::sync::SpinMutexGuard;
use lode_pmem::{FaultScope, Medium};
use std::slice;

/// Runs stores of which nothing is known if one of them meets lost memory.
///
/// # Errors
/// [`BttError::InDoubt`] with the first fault.
pub(crate) fn in_doubt<R>(stores: impl FnOnce() -> R) -> Result<R, BttError> {
    FaultScope::run(stores).map_err(|fault| BttError::InDoubt(InDoubtCause::Memory(fault)))
}

/// A block whose new content is in the free block of a lane.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    arena: &'a Arena,
    lba: u32,
    lane: HeldLane<'a>,
}

/// A block whose stripe is held, too.
#[derive(Debug)]
struct BlockWrite<'a> {
    arena: &'a Arena,
    lba: u32,
    lane: HeldLane<'a>,
    /// Index of its stripe among those that the batch holds.
    stripe: usize,
    /// The next flog entry of the lane.
    entry: BttFlogEntry,
}

impl<'a> Staged<'a> {
    /// Reads the map entry that the write replaces. The caller holds the stripe, and does so until the new entry is stored: no
    /// other write of the block may read the same old entry.
    #[inline]
    fn begin<M: Medium>(self, medium: &M, stripe: usize) -> Result<BlockWrite<'a>, BttError> {
        let Staged { arena, lba, lane } = self;
        let old = arena.entry_to_replace(medium, lba)?;
        let entry = arena.next_entry(&lane.state, lba, old, lane.state.free);
        Ok(BlockWrite { arena, lba, lane, stripe, entry })
    }
}

/// A block that becomes zeros, whose stripe is held.
#[derive(Debug)]
struct Zeroed<'a> {
    arena: &'a Arena,
    lba: u32,
    old: BttMapEntry,
}

/// Makes the blocks of a batch current, and makes others zeros; each block is there once.
///
/// # Errors
/// Fails if a map entry can't be used, and nothing was changed; or with [`BttError::InDoubt`].
///
/// # Durability
/// The changes are durable on return.
///
/// # Cost
/// Two drains, and one without a write; for each block that is written one line of the flog and one of the map, and for those that
/// become zeros the lines of their map entries.
pub(crate) fn commit_batch<'a, M: Medium>(
    medium: &M,
    batch: Vec<Staged<'a>>,
    zeros: &[(&'a Arena, u32)],
) -> Result<(), BttError> {
    let written = batch.iter().map(|staged| (staged.arena, staged.lba));
    let mut blocks: Vec<(&Arena, u32)> = written.chain(zeros.iter().copied()).collect();
    let order = |(arena, lba): &(&Arena, u32)| arena.stripe_order(*lba);
    blocks.sort_unstable_by_key(order);
    blocks.dedup_by_key(|block| order(block));
    let stripes = blocks.iter().map(|(arena, lba)| arena.hold_stripe(medium, *lba));
    let mut stripes = stripes.collect::<Result<Vec<_>, _>>()?;
    let mut writes = Vec::with_capacity(batch.len());
    for staged in batch {
        let stripe = blocks.partition_point(|block| order(block) < order(&(staged.arena, staged.lba)));
        writes.push(staged.begin(medium, stripe)?);
    }
    let mut zeroed = Vec::with_capacity(zeros.len());
    for (arena, lba) in zeros.iter().copied() {
        let old = arena.entry_to_replace(medium, lba)?;
        if arena.read_state(old) != BttBlockState::Zero {
            zeroed.push(Zeroed { arena, lba, old });
        }
    }
    commit(medium, &mut writes, &zeroed, &mut stripes)
}

/// Makes the blocks current whose stripes are held.
#[inline]
fn commit<M: Medium>(
    medium: &M,
    writes: &mut [BlockWrite<'_>],
    zeroed: &[Zeroed<'_>],
    stripes: &mut [SpinMutexGuard<'_, Stripe>],
) -> Result<(), BttError> {
    if writes.is_empty() && zeroed.is_empty() {
        return Ok(());
    }
    // A lane whose write is in doubt has no free block for the next one: recovery may need either.
    writes.iter_mut().for_each(|write| write.lane.state.is_waiting = true);
    // No map entry without its flog entry: the block would have two owners after a crash.
    let made = in_doubt(|| make_current(medium, writes, zeroed)).flatten();
    let made = made.and_then(|()| in_doubt(|| writes.iter().for_each(|write| write.store_map(medium))));
    if made.is_err() {
        stripes.iter_mut().for_each(|stripe| stripe.is_in_doubt = true);
        return made;
    }
    stripes.iter_mut().for_each(|stripe| stripe.clear());
    for write in writes {
        let undrained = Undrained::new(write.arena.word_at(write.lba));
        let lane = &mut write.lane.state;
        lane.is_waiting = false;
        lane.free = write.entry.free_block();
        lane.undrained = Some(undrained);
        stripes[write.stripe].note(undrained);
    }
    Ok(())
}

/// Makes the data and the flog entries of a batch durable, and the map entries of blocks that become zeros.
fn make_current<M: Medium>(
    medium: &M,
    writes: &mut [BlockWrite<'_>],
    zeroed: &[Zeroed<'_>],
) -> Result<(), BttError> {
    let keeps_order = medium.keeps_order_in_lines() || bugs::FLOG_HALVES_UNORDERED.is_active();
    for write in &*writes {
        let at = write.flog_at();
        medium.store8(at, write.entry.words()[0]);
        if !keeps_order {
            medium.flush(at, WORD);
        }
        if bugs::MAP_BEFORE_FLOG.is_active() {
            write.store_map(medium);
        }
    }
    let zeros_come_late = bugs::ZEROS_AFTER_DRAIN.is_active() && !writes.is_empty();
    if !zeros_come_late {
        store_zeros(medium, zeroed);
    }
    if !bugs::DATA_NOT_DRAINED.is_active() {
        // ORDER: the data of all blocks, and the first halves where lines keep no order, are durable before any entry is
        // current. So is every map entry that these build on. Stop here: row 1 for each block, the old entry is current. A block
        // that becomes zeros has its old map entry or the new one.
        medium.drain()?;
    }
    if writes.is_empty() {
        return Ok(());
    }
    let count = writes.len();
    for (place, write) in writes.iter().enumerate() {
        let at = write.flog_at();
        medium.store8(at.plus(WORD), write.entry.words()[1]);
        if place + 1 == count || !bugs::BATCH_FLOG_NOT_FLUSHED.is_active() {
            medium.flush(at, 2 * WORD);
        }
    }
    if !bugs::FLOG_NOT_DRAINED.is_active() {
        // ORDER: all flog entries are durable before any map entry of the batch is visible, and before the caller is told.
        // Stop here: row 3 for each block, recovery sets the map.
        medium.drain()?;
    }
    if zeros_come_late {
        store_zeros(medium, zeroed);
    }
    for write in writes {
        write.arena.advance(&mut write.lane.state, write.entry);
    }
    Ok(())
}

/// Stores the map entries of blocks that become zeros, and flushes each line of them once. Their numbers stay.
fn store_zeros<M: Medium>(medium: &M, zeroed: &[Zeroed<'_>]) {
    let line = |zeroed: &Zeroed<'_>| align_down(zeroed.arena.word_at(zeroed.lba).get(), LINE);
    for in_line in zeroed.chunk_by(|one, next| line(one) == line(next)) {
        for Zeroed { arena, lba, old } in in_line {
            arena.store_entry_unflushed(medium, *lba, BttMapEntry { state: BttBlockState::Zero, ..*old });
        }
        if let Some(first) = in_line.first() {
            medium.flush(PoolOffset::new(line(first)), LINE);
        }
    }
}

impl BlockWrite<'_> {
    /// Returns the place of the flog entry.
    fn flog_at(&self) -> PoolOffset {
        self.arena.flog_at(self.lane.index).plus(self.lane.state.flog.next_off)
    }

    /// Stores the map entry, and flushes it.
    fn store_map<M: Medium>(&self, medium: &M) {
        let new = BttMapEntry { state: BttBlockState::Normal, number: self.entry.written_block() };
        self.arena.store_entry(medium, self.lba, new);
    }
}

impl Arena {
    /// Writes a block.
    ///
    /// # Errors
    /// Fails if the free block can't be written, or if the map entry can't be used, and nothing was changed; or with
    /// [`BttError::InDoubt`].
    ///
    /// # Durability
    /// The write is durable on return.
    ///
    /// # Cost
    /// Two drains; one line of the flog and one of the map. No locked instruction lies between the copy and the first drain: it
    /// would wait for the copy, too.
    pub(crate) fn write_one<M: Medium>(&self, medium: &M, lba: u32, from: &[u8]) -> Result<(), BttError> {
        self.prefetch_entry(medium, lba);
        let lane = self.lanes.claim(medium).ok_or(BttError::Poisoned)?;
        let mut stripe = self.hold_stripe(medium, lba)?;
        let mut write = self.stage_in(medium, lane, lba, from)?.begin(medium, 0)?;
        commit(medium, slice::from_mut(&mut write), &[], slice::from_mut(&mut stripe))
    }

    /// Holds the stripe of a block, and makes sure that the next drain makes its words durable: recovery looks at the lanes in
    /// any order, so a flog entry must not be ahead of the entry of another lane that led to its old block.
    fn hold_stripe<M: Medium>(&self, medium: &M, lba: u32) -> Result<SpinMutexGuard<'_, Stripe>, BttError> {
        let stripe = self.lock_stripe(medium, self.stripe_index(lba))?;
        if !bugs::OLD_ENTRY_NOT_DURABLE.is_active() {
            FaultScope::run(|| stripe.join_drain(medium))?;
        }
        Ok(stripe)
    }

    /// Copies the new content of a block to the free block of a lane. Waits for a lane: the caller holds none. `None` if
    /// every lane waits for a flush, or is in doubt.
    ///
    /// # Errors
    /// Fails if the free block can't be written. The next write of this thread takes another one.
    pub(crate) fn stage<M: Medium>(
        &self,
        medium: &M,
        lba: u32,
        from: &[u8],
    ) -> Result<Option<Staged<'_>>, BttError> {
        match self.lanes.claim(medium) {
            Some(lane) => self.stage_in(medium, lane, lba, from).map(Some),
            None => Ok(None),
        }
    }

    /// Does as [`stage`](Arena::stage) without a wait for a lane. `None` if there is no lane now.
    pub(crate) fn try_stage<M: Medium>(
        &self,
        medium: &M,
        lba: u32,
        from: &[u8],
    ) -> Result<Option<Staged<'_>>, BttError> {
        match self.lanes.try_claim() {
            Ok(lane) => self.stage_in(medium, lane, lba, from).map(Some),
            Err(_) => Ok(None),
        }
    }

    #[inline]
    fn stage_in<'a, M: Medium>(
        &'a self,
        medium: &M,
        lane: HeldLane<'a>,
        lba: u32,
        from: &[u8],
    ) -> Result<Staged<'a>, BttError> {
        self.wait_for_readers(medium, lane.state.free);
        // The next flog entry replaces the one that could restore the last map entry of the lane. The first drain makes that
        // durable.
        let undrained = lane.state.undrained.filter(|_| !bugs::SLOT_REUSED_BEFORE_MAP.is_active());
        let prepared =
            FaultScope::run(|| undrained.iter().for_each(|undrained| undrained.join_drain(medium)));
        let staged =
            prepared.map_err(BttError::from).and_then(|()| self.copy_in(medium, lane.state.free, from));
        staged.inspect_err(|_| Lanes::avoid(lane.index))?;
        Ok(Staged { arena: self, lba, lane })
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

    /// Stores a flog entry as a whole, and flushes it. For callers who drain the data before, and the entry after.
    pub(crate) fn store_flog<M: Medium>(&self, medium: &M, at: PoolOffset, entry: BttFlogEntry) {
        let [first, second] = entry.words();
        medium.store8(at, first);
        medium.store8(at.plus(WORD), second);
        medium.flush(at, 2 * WORD);
    }
}

#[cfg(all(test, feature = "explore"))]
mod test {
    use super::*;
    use crate::explore::BttSubject;
    use crate::open;
    use lode_layout::BLOCK;
    use lode_pmem::Durability;
    use lode_sim::{Cpu, Machine, SimMedium, Subject};
    use std::sync::Arc;

    #[test]
    fn write_in_doubt_keeps_other_writes_from_its_blocks() {
        let machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
        let medium = Arc::new(SimMedium::new(BttSubject::SMALL.size(), machine).unwrap());
        BttSubject::SMALL.format(Arc::clone(&medium)).unwrap();
        let table = open::open(&medium, None).unwrap();
        let (arena, lba) = table.locate(0).unwrap();
        // A memory that ends before the flog does.
        let short = SimMedium::new(align_down(arena.flog_at(0).get(), BLOCK), machine).unwrap();
        let content = vec![1; 512];
        let done = arena.write_one(&short, lba, &content);
        assert!(matches!(done, Err(BttError::InDoubt(_))), "{done:?}");
        let later = arena.write_one(&medium, lba, &content);
        assert!(matches!(later, Err(BttError::Poisoned)), "{later:?}");
        let zeroed = arena.set_state(&medium, lba..lba + 1, BttBlockState::Zero);
        assert!(matches!(zeroed, Err(BttError::Poisoned)), "{zeroed:?}");
    }
}
