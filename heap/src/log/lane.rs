//! Lanes: what a thread needs to itself between drawing a sequence number and the end of its home stores.

use super::dirty::DirtyLines;
use crate::sync::{AtomicUsize, Ordering, SpinMutex, SpinMutexGuard, thread_local};
use lode_pmem::Medium;
use std::cell::Cell;

/// The part of a lane that belongs to the thread that holds it.
#[derive(Debug)]
pub(super) struct LaneState {
    /// Where the next record goes, counted in bytes from the life's begin, without wrapping. Unused on the
    /// commit rung, where all lanes share one ring.
    pub(super) head: u64,
    /// Where that is in the ring.
    pub(super) offset: u64,
    /// Lines stored at home since the last checkpoint.
    pub(super) dirty: DirtyLines,
}

/// A lane. It is held from before a sequence number is drawn until the home stores are done; so whoever holds
/// all lanes knows that no transaction is between the two.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Lane {
    state: SpinMutex<LaneState>,
}

/// All lanes of a log.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Box<[Lane]>,
    /// The lane that the next thread tries first which has held none.
    next: AtomicUsize,
}

thread_local! {
    /// The lane that this thread held last, in whatever log.
    static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Lanes {
    pub(super) fn new(count: usize) -> Lanes {
        let lane =
            || Lane { state: SpinMutex::new(LaneState { head: 0, offset: 0, dirty: DirtyLines::new() }) };
        Lanes { lanes: (0..count).map(|_| lane()).collect(), next: AtomicUsize::new(0) }
    }

    /// Holds a free lane, by preference the one this thread held last; waits when there is none.
    #[inline]
    pub(super) fn claim<M: Medium>(&self, medium: &M) -> (usize, SpinMutexGuard<'_, LaneState>) {
        let hint = HINT.with(Cell::get);
        if let Some(lane) = self.lanes.get(hint)
            && let Some(state) = lane.state.try_lock()
        {
            return (hint, state);
        }
        self.claim_any(medium)
    }

    #[cold]
    fn claim_any<M: Medium>(&self, medium: &M) -> (usize, SpinMutexGuard<'_, LaneState>) {
        let start = match HINT.with(Cell::get) {
            // ORDER: none: the number only spreads threads over lanes.
            usize::MAX => self.next.fetch_add(1, Ordering::Relaxed),
            hint => hint,
        };
        for round in 0.. {
            for step in 0..self.lanes.len() {
                let index = (start + step) % self.lanes.len();
                if let Some(state) = self.lanes[index].state.try_lock() {
                    HINT.with(|hint| hint.set(index));
                    return (index, state);
                }
            }
            medium.relax(round);
        }
        unreachable!("the loop ends with a lane")
    }

    /// Holds all lanes. Waits for transactions that are in their drain, never for a user's closure.
    pub(super) fn claim_all<M: Medium>(&self, medium: &M) -> Vec<SpinMutexGuard<'_, LaneState>> {
        self.lanes.iter().map(|lane| claim_one(lane, medium)).collect()
    }
}

fn claim_one<'a, M: Medium>(lane: &'a Lane, medium: &M) -> SpinMutexGuard<'a, LaneState> {
    for round in 0.. {
        if let Some(state) = lane.state.try_lock() {
            return state;
        }
        medium.relax(round);
    }
    unreachable!("the loop ends with the lane")
}
