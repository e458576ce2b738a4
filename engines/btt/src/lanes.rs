//! The lanes of an arena: each has a free block and a place in the flog.

use crate::undrained::Undrained;
use lode_nvdimm::BttFlogLane;
use lode_pmem::Medium;
use lode_pmem::sync::{SpinMutex, SpinMutexGuard};
use std::cell::Cell;

/// The state of a lane, which belongs to the write that holds the lane.
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

/// A lane that is held.
#[derive(Debug)]
pub(crate) struct HeldLane<'a> {
    /// The number of the lane.
    pub(crate) index: usize,
    pub(crate) state: SpinMutexGuard<'a, LaneState>,
}

/// The reason why there is no lane for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLane {
    /// Other writes hold lanes, so there may be one later.
    Held,
    /// Every lane waits for a flush, or is in doubt.
    Waiting,
}

#[derive(Debug)]
#[repr(align(128))]
struct Lane(SpinMutex<LaneState>);

thread_local! {
    /// The lane that this thread tries first, in any arena.
    static HINT: Cell<usize> = const { Cell::new(0) };
}

/// All lanes of an arena.
#[derive(Debug)]
pub(crate) struct Lanes(Box<[Lane]>);

impl Lanes {
    /// Returns the lanes that the flog describes.
    pub(crate) fn new(flog: impl Iterator<Item = BttFlogLane>) -> Lanes {
        let lane = |flog: BttFlogLane| {
            let free = flog.current.free_block();
            Lane(SpinMutex::new(LaneState { free, flog, is_waiting: false, undrained: None }))
        };
        Lanes(flog.map(lane).collect())
    }

    /// Holds a lane that has a free block, preferably the one that this thread held last. Waits for other writes. `None` if
    /// every lane waits for a flush, or is in doubt. The caller holds no lane: others may wait for that one.
    pub(crate) fn claim<M: Medium>(&self, medium: &M) -> Option<HeldLane<'_>> {
        let mut round = 0;
        loop {
            match self.try_claim() {
                Ok(lane) => return Some(lane),
                Err(NoLane::Waiting) => return None,
                Err(NoLane::Held) => medium.relax(round),
            }
            round += 1;
        }
    }

    /// Holds a lane that has a free block, without a wait.
    pub(crate) fn try_claim(&self) -> Result<HeldLane<'_>, NoLane> {
        let (count, start) = (self.0.len(), HINT.get());
        let mut reason = NoLane::Waiting;
        for index in (0..count).map(|step| (start + step) % count) {
            match self.0[index].0.try_lock() {
                Some(state) if !state.is_waiting => {
                    HINT.set(index);
                    return Ok(HeldLane { index, state });
                }
                Some(_) => {}
                None => reason = NoLane::Held,
            }
        }
        Err(reason)
    }

    /// Makes this thread try the lane after this one first: the free block of this one can't be written.
    pub(crate) fn avoid(index: usize) {
        HINT.set(index + 1);
    }

    /// Returns the lane with this number.
    pub(crate) fn state(&self, index: usize) -> &SpinMutex<LaneState> {
        &self.0[index].0
    }
}
