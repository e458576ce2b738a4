//! The lanes of a pool, whose place the log takes while Lodestone has the pool open.

use crate::bugs;
use crate::error::ObjError;
use lode_layout::{BLOCK, CHECKPOINT_COPY_STRIDE, Geometry, LINE, ObjWords, PmdkObj, PmdkUlog, PoolOffset};
use lode_pmem::{FaultScope, Medium};
use lode_redo::LogArea;
use std::ops::Range;

/// Lanes that fill whole blocks: 12 KiB.
const IN_STEP: u64 = 4;

/// Returns the place of the log in the lanes of a pool.
///
/// # Errors
/// [`ObjError::Lanes`] if the lanes do not begin where the checkpoint slots lie, or are too few.
pub(super) fn log_area(descriptor: &PmdkObj) -> Result<LogArea, ObjError> {
    let PmdkObj { lanes, lane_count, heap, .. } = *descriptor;
    let start = Geometry::LOG.get();
    let end = lanes + lane_count * PmdkUlog::LANE_LEN;
    let is_usual =
        lanes == Geometry::SLOT_0.get() && heap - end < BLOCK && heap > start + ObjWords::LEN + BLOCK;
    if !is_usual {
        return Err(ObjError::Lanes { lanes, lane_count, heap });
    }
    Ok(LogArea { start: Geometry::LOG, len: heap - ObjWords::LEN - start })
}

/// Stores the lanes as a new pool has them: first the place of the log, then that of the checkpoint slots, then that of the words.
///
/// # Errors
/// [`ObjError::InDoubt`], [`ObjError::Memory`].
///
/// # Durability
/// Durable on return.
pub(super) fn store_new<M: Medium>(medium: &M, descriptor: &PmdkObj) -> Result<(), ObjError> {
    let (log, words) = (Geometry::LOG.get(), ObjWords::of(descriptor).start().get());
    let end = descriptor.lanes + descriptor.lane_count * PmdkUlog::LANE_LEN;
    // All zeros in a lane, and the second copy of a slot.
    let copy = descriptor.lanes + CHECKPOINT_COPY_STRIDE;
    let first = if bugs::WORDS_BEFORE_SLOTS.is_active() { log..end } else { log..words };
    let copy = if bugs::SLOT_NOT_ZEROED.is_active() { 0..0 } else { copy..copy + LINE };
    for part in [first, copy, descriptor.lanes..log, words..end] {
        FaultScope::run(|| store_part(medium, descriptor.lanes, part))?;
        // ORDER: the place of the log, then one copy of a slot, then all slots, then the words. Stop here: while a slot is sound, it says
        // that the log is closed, and the words are there; when none is, a copy is zero, and the words are those of the state.
        medium.drain()?;
    }
    Ok(())
}

/// Stores a part of the lanes, which begin at `lanes`.
fn store_part<M: Medium>(medium: &M, lanes: u64, part: Range<u64>) {
    let step = new_lanes();
    let len = step.len() as u64;
    let mut at = part.start;
    while at < part.end {
        let from = (at - lanes) % len;
        let count = (len - from).min(part.end - at);
        medium.copy(PoolOffset::new(at), &step[from as usize..(from + count) as usize]);
        at += count;
    }
}

/// Returns the bytes of some new lanes.
fn new_lanes() -> Vec<u8> {
    let mut lane = Vec::with_capacity(PmdkUlog::LANE_LEN as usize);
    for capacity in [PmdkUlog::INTERNAL_CAPACITY, PmdkUlog::EXTERNAL_CAPACITY, PmdkUlog::UNDO_CAPACITY] {
        let header =
            PmdkUlog { checksum: 0, next: PoolOffset::NULL, capacity, gen_num: 0, is_user_owned: false };
        lane.extend(header.encode());
        lane.resize(lane.len() + capacity as usize, 0);
    }
    lane.repeat(IN_STEP as usize)
}
