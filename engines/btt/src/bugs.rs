//! Seeded bugs: each breaks one rule of a write, and the crash explorer must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;

/// The data are durable before their flog entry is current.
pub static DATA_NOT_DRAINED: Bug = Bug::new("data-not-drained", "a block is torn");
/// The flog entry is durable before the map entry is visible.
pub static FLOG_NOT_DRAINED: Bug = Bug::new("flog-not-drained", "an acknowledged write is lost");
/// The map entry is stored after the flog entry is durable.
pub static MAP_BEFORE_FLOG: Bug = Bug::new("map-before-flog", "a block of the data has two owners");
/// The first half of a flog entry is durable before the second, on a CPU whose lines keep no order.
pub static FLOG_HALVES_UNORDERED: Bug =
    Bug::new("flog-halves-unordered", "recovery sets the map of another block");
/// A lane's map entry is durable before the flog entry that could restore it is replaced.
pub static SLOT_REUSED_BEFORE_MAP: Bug = Bug::new("slot-reused-before-map", "an acknowledged write is lost");
/// The old map entry is durable before a flog entry that builds on it.
pub static OLD_ENTRY_NOT_DURABLE: Bug =
    Bug::new("old-entry-not-durable", "recovery of one lane undoes the write of another");
/// The last content of a block that is in a batch twice counts, and takes one lane.
pub static BLOCK_TWICE_IN_BATCH: Bug = Bug::new("block-twice-in-batch", "a block of the data has two owners");
/// Every flog entry of a batch is durable when the batch returns.
pub static BATCH_FLOG_NOT_FLUSHED: Bug = Bug::new("batch-flog-not-flushed", "an acknowledged write is lost");
/// The seq of a flog entry follows that of the entry before it.
pub static SEQ_NOT_ADVANCED: Bug = Bug::new("seq-not-advanced", "neither flog entry is the newer one");
/// A flog entry goes to the place of the one before the last.
pub static FLOG_PLACE_NOT_CHANGED: Bug =
    Bug::new("flog-place-not-changed", "a torn flog entry replaces the current one");
/// A free block is written when no reader reads it.
pub static READERS_NOT_AWAITED: Bug = Bug::new("readers-not-awaited", "a read returns another block");
/// A reader looks at the map again once it has announced the block that it reads.
pub static READ_NOT_REPEATED: Bug = Bug::new("read-not-repeated", "a read returns another block");
/// Zeros are durable before the caller is told.
pub static ZERO_NOT_DRAINED: Bug = Bug::new("zero-not-drained", "an acknowledged write of zeros is lost");
/// Zeros of a batch are stored before its first drain.
pub static ZEROS_AFTER_DRAIN: Bug = Bug::new("zeros-after-drain", "an acknowledged write of zeros is lost");
/// On durability commit, a lane keeps the old block until its write is flushed.
pub static LANE_FREE_BEFORE_FLUSH: Bug =
    Bug::new("lane-free-before-flush", "a block that the durable map has is overwritten");
/// A flush returns when the flush that took its writes has ended.
pub static FLUSH_NOT_AWAITED: Bug = Bug::new("flush-not-awaited", "a flushed write is lost");
/// After a failed sync nothing is acknowledged.
pub static FAILED_SYNC_IGNORED: Bug = Bug::new("failed-sync-ignored", "a flushed write is lost");
/// Recovery sets the map entry of a write that did not reach it.
pub static FLOG_IGNORED: Bug = Bug::new("flog-ignored", "an acknowledged write is lost");
/// Recovery makes the map durable before a lane is used again.
pub static RECOVERY_NOT_DRAINED: Bug = Bug::new("recovery-not-drained", "recovery itself loses a write");
/// Recovery makes flog entries durable before a map entry follows from them.
pub static FINISHED_BEFORE_DRAIN: Bug = Bug::new("finished-before-drain", "a block has two owners");
/// The info block of the first arena is the last store of a new table.
pub static INFO_BEFORE_LAYOUT: Bug = Bug::new("info-before-layout", "a new table has no flog");
/// In a pool of PMDK, the flog has whole map entries, as its recovery compares them.
pub static FLOG_WITHOUT_STATE: Bug = Bug::new("flog-without-state", "PMDK's recovery leaves a write out");
/// On durability commit, the flog has the entry that the map has, not a newer one that never got there.
pub static VISIBLE_STATE_IN_FLOG: Bug =
    Bug::new("visible-state-in-flog", "PMDK's recovery leaves a write out");

/// A block that is written in place keeps that place until the write has ended.
pub static IN_PLACE_NOT_HELD: Bug = Bug::new("in-place-not-held", "another block is overwritten");
/// A write in place is durable before the caller is told.
pub static IN_PLACE_NOT_DRAINED: Bug = Bug::new("in-place-not-drained", "an acknowledged write is lost");
/// On durability commit, a flush syncs also if only blocks written in place wait for it.
pub static IN_PLACE_NOT_NOTED: Bug = Bug::new("in-place-not-noted", "a flushed write is lost");

/// Every bug of this crate.
pub static ALL: [&Bug; 26] = [
    &DATA_NOT_DRAINED,
    &FLOG_NOT_DRAINED,
    &MAP_BEFORE_FLOG,
    &FLOG_HALVES_UNORDERED,
    &SLOT_REUSED_BEFORE_MAP,
    &OLD_ENTRY_NOT_DURABLE,
    &BLOCK_TWICE_IN_BATCH,
    &BATCH_FLOG_NOT_FLUSHED,
    &SEQ_NOT_ADVANCED,
    &FLOG_PLACE_NOT_CHANGED,
    &READERS_NOT_AWAITED,
    &READ_NOT_REPEATED,
    &ZERO_NOT_DRAINED,
    &ZEROS_AFTER_DRAIN,
    &LANE_FREE_BEFORE_FLUSH,
    &FLUSH_NOT_AWAITED,
    &FAILED_SYNC_IGNORED,
    &FLOG_IGNORED,
    &RECOVERY_NOT_DRAINED,
    &FINISHED_BEFORE_DRAIN,
    &INFO_BEFORE_LAYOUT,
    &FLOG_WITHOUT_STATE,
    &VISIBLE_STATE_IN_FLOG,
    &IN_PLACE_NOT_HELD,
    &IN_PLACE_NOT_DRAINED,
    &IN_PLACE_NOT_NOTED,
];
