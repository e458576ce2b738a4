//! Seeded bugs: each breaks one rule of the recovery or of the allocator, and the crash tests must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;

/// A redo log counts only if its checksum fits.
pub static REDO_NOT_COMPARED: Bug = Bug::new("redo-not-compared", "a torn redo log is replayed");
/// The changes of a redo log are durable before it ends.
pub static REDO_NOT_DRAINED: Bug = Bug::new("redo-not-drained", "half of an atomic change is lost");
/// A redo log is durable before its changes begin.
pub static CHANGES_BEFORE_LOG: Bug = Bug::new("changes-before-log", "half of an atomic change is made");
/// Old bytes are durable before their undo log ends.
pub static UNDO_NOT_DRAINED: Bug = Bug::new("undo-not-drained", "bytes of an open transaction stay");
/// An undo log ends before its extensions are given back.
pub static UNDO_NOT_ENDED: Bug = Bug::new("undo-not-ended", "a log without its extensions is in force");
/// An extension is given back together with the word that leads to it.
pub static EXTENSION_FREED_FIRST: Bug = Bug::new("extension-freed-first", "a log leads to a free block");
/// A zone has its new chunks when their header is durable.
pub static ZONE_BEFORE_CHUNKS: Bug = Bug::new("zone-before-chunks", "a zone has chunks without a header");
/// A free block is split on the medium before a part of it is given away.
pub static SPLIT_NOT_LOGGED: Bug = Bug::new("split-not-logged", "an object ends outside of its block");
/// Header and bitmap of a new run are in its record.
pub static BITMAP_NOT_LOGGED: Bug = Bug::new("bitmap-not-logged", "a run has a bitmap of other bytes");
/// Records with bits of a run that became free chunks are not replayed any more when these are given away.
pub static BITS_OF_FREED_RUNS: Bug = Bug::new("bits-of-freed-runs", "bits of old bitmaps are set in objects");
/// Freed blocks are given away when their record is durable.
pub static FREED_AT_ONCE: Bug = Bug::new("freed-at-once", "two objects have one block");

/// The header of a new object is in the record that makes it one.
pub static HEADER_NOT_LOGGED: Bug = Bug::new("header-not-logged", "an object has the size of an older one");

/// The bugs of the allocator.
pub static OF_HEAP: [&Bug; 5] =
    [&SPLIT_NOT_LOGGED, &BITMAP_NOT_LOGGED, &BITS_OF_FREED_RUNS, &FREED_AT_ONCE, &HEADER_NOT_LOGGED];

/// Old bytes are durable in their spill before the program stores.
pub static SPILL_NOT_PERSISTED: Bug =
    Bug::new("spill-not-persisted", "bytes of a large transaction that was open stay");
/// New bytes of spilled ranges are durable before the record of the commit.
pub static SPILLED_NOT_PERSISTED: Bug =
    Bug::new("spilled-not-persisted", "bytes of a large transaction that was committed are lost");
/// One copy of a slot is zero before the others change.
pub static SLOT_NOT_ZEROED: Bug = Bug::new("slot-not-zeroed", "a pool that was being closed is refused");
/// The words stay as they are as long as a slot is sound.
pub static WORDS_BEFORE_SLOTS: Bug =
    Bug::new("words-before-slots", "a pool that was being closed is refused");
/// The pool is marked until the lanes are PMDK's.
pub static MARK_OFF_FIRST: Bug = Bug::new("mark-off-first", "records are taken for logs of PMDK");

/// The heap has its new size before a zone has chunks beyond the old one.
pub static CHUNKS_BEFORE_SIZE: Bug =
    Bug::new("chunks-before-size", "a zone has chunks after the end of the heap");

/// The bugs of open pools.
pub static OF_POOL: [&Bug; 6] = [
    &SPILL_NOT_PERSISTED,
    &SPILLED_NOT_PERSISTED,
    &SLOT_NOT_ZEROED,
    &WORDS_BEFORE_SLOTS,
    &MARK_OFF_FIRST,
    &CHUNKS_BEFORE_SIZE,
];

/// Every bug of the recovery.
pub static ALL: [&Bug; 7] = [
    &REDO_NOT_COMPARED,
    &REDO_NOT_DRAINED,
    &CHANGES_BEFORE_LOG,
    &UNDO_NOT_DRAINED,
    &UNDO_NOT_ENDED,
    &EXTENSION_FREED_FIRST,
    &ZONE_BEFORE_CHUNKS,
];
