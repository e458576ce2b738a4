//! The lanes of an arena: each has a free block, a place in the flog, and a note of the block that it reads.

use crate::bugs;
use crate::undrained::Undrained;
use lode_nvdimm::BttFlogLane;
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicU64, AtomicUsize, Ordering, SpinMutex, SpinMutexGuard, fence};
use std::cell::Cell;

/// The state of a lane, which belongs to the operation that holds the lane.
#[derive(Debug)]
pub(crate) struct LaneState {
    /// The lane's free block.
    pub(crate) free: u32,
    /// The flog entry of the last write, and the place for the next one.
    pub(crate) flog: BttFlogLane,
    /// True while a write of the lane waits in the cache, or is in doubt: the lane has no free block.
    pub(crate) is_waiting: bool,
    /// The map entry of the last write. It must be durable before the next flog entry counts.
    pub(crate) undrained: Option<Undrained>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Lane {
    state: SpinMutex<LaneState>,
    /// The block that the holder reads, plus one; 0 while it reads none.
    reading: AtomicU64,
}

thread_local! {
    /// The lane that this thread held last, in any arena.
    static HINT: Cell<usize> = const { Cell::new(0) };
}

/// All lanes of an arena.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Box<[Lane]>,
    /// Number of lanes that were ever held, the first ones.
    used: AtomicUsize,
}

impl Lanes {
    /// Returns the lanes that the flog describes.
    pub(crate) fn new(flog: impl Iterator<Item = BttFlogLane>) -> Lanes {
        let state = |flog: BttFlogLane| {
            let free = flog.current.free_block();
            SpinMutex::new(LaneState { free, flog, is_waiting: false, undrained: None })
        };
        let lane = |flog| Lane { state: state(flog), reading: AtomicU64::new(0) };
        Lanes { lanes: flog.map(lane).collect(), used: AtomicUsize::new(0) }
    }

    /// Holds a lane that `is_fit`, preferably the one that this thread held last. Returns `None` if no lane is fit, and
    /// none is held.
    pub(crate) fn claim<M: Medium>(
        &self,
        medium: &M,
        is_fit: impl Fn(&LaneState) -> bool,
    ) -> Option<(usize, SpinMutexGuard<'_, LaneState>)> {
        let (count, start) = (self.lanes.len(), HINT.get());
        let mut round = 0;
        loop {
            let mut is_any_held = false;
            for index in (0..count).map(|step| (start + step) % count) {
                match self.lanes[index].state.try_lock() {
                    Some(state) if is_fit(&state) => {
                        self.note_used(index);
                        return Some((index, state));
                    }
                    Some(_) => {}
                    None => is_any_held = true,
                }
            }
            if !is_any_held {
                return None;
            }
            medium.relax(round);
            round += 1;
        }
    }

    fn note_used(&self, index: usize) {
        HINT.set(index);
        // ORDER: none: the number only grows, and the holder of a lane has raised it before.
        if self.used.load(Ordering::Relaxed) <= index {
            // ORDER: before the fence in `publish`: a writer that can miss the lane has made its map entry visible.
            self.used.fetch_max(index + 1, Ordering::SeqCst);
        }
    }

    /// Returns the lane with this number.
    pub(crate) fn state(&self, index: usize) -> &SpinMutex<LaneState> {
        &self.lanes[index].state
    }

    /// Announces that the holder of the lane is about to read `block`. It must then load the map entry again: if that
    /// is unchanged, no writer stores to the block before [`conceal`](Lanes::conceal).
    pub(crate) fn publish(&self, index: usize, block: u32) {
        // ORDER: the fence orders the note before the second load of the map entry. A writer orders its map entry before
        // its look at the notes, in `wait_for_readers`. So the reader sees the new entry, or the writer sees the note.
        self.lanes[index].reading.store(u64::from(block) + 1, Ordering::Relaxed);
        // ORDER: see above.
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement back.
    pub(crate) fn conceal(&self, index: usize) {
        // ORDER: releases the loads of the block: a writer that sees the 0 stores after them.
        self.lanes[index].reading.store(0, Ordering::Release);
    }

    /// Waits until no reader reads `block`, which no map entry has any more.
    pub(crate) fn wait_for_readers<M: Medium>(&self, medium: &M, block: u32) {
        if bugs::READERS_NOT_AWAITED.is_active() {
            return;
        }
        // ORDER: the map entry that freed the block is visible before the look at the notes; see `publish`.
        fence(Ordering::SeqCst);
        // ORDER: after the fence, as the notes.
        let used = self.used.load(Ordering::Relaxed);
        for lane in &self.lanes[..used] {
            let mut round = 0;
            // ORDER: acquires the end of the reader's loads, see `conceal`.
            while lane.reading.load(Ordering::Acquire) == u64::from(block) + 1 {
                medium.relax(round);
                round += 1;
            }
        }
    }
}
