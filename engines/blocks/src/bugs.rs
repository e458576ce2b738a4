//! Seeded bugs: each breaks one rule of a write, and the crash explorer must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`]. The tests plant some bugs of `lode-redo`,
//! too.

use lode_layout::bug::Bug;

/// The record is durable before its map word is visible.
pub static MAP_BEFORE_RECORD: Bug =
    Bug::new("map-before-record", "a block has content that was never durable");
/// A data block is written again only when a checkpoint covers the record that freed it.
pub static REUSED_BEFORE_CHECKPOINT: Bug = Bug::new(
    "reused-before-checkpoint",
    "a record of several blocks is dropped because of one that was replaced",
);
/// The checksum is that of the whole new content.
pub static CHECKSUM_OF_A_PART: Bug = Bug::new("checksum-of-a-part", "a sound block can't be read");
/// The record has the checksum of the content.
pub static RECORD_WITHOUT_PAYLOAD: Bug = Bug::new("record-without-payload", "a block is torn");
/// Readers see a data block that no map word names before a writer takes it.
pub static READERS_NOT_AWAITED: Bug = Bug::new("readers-not-awaited", "a read returns another block");
/// A reader looks at the map again once it has announced the data block.
pub static READ_NOT_REPEATED: Bug = Bug::new("read-not-repeated", "a read returns another block");
/// Zeros are in the log before the caller is told.
pub static ZERO_NOT_LOGGED: Bug = Bug::new("zero-not-logged", "an acknowledged write of zeros is lost");
/// Writers of one block wait for each other.
pub static STRIPES_NOT_HELD: Bug = Bug::new("stripes-not-held", "a data block is free twice");
/// A flush makes the writes of all threads durable.
pub static FLUSH_OF_OWN_WRITES: Bug =
    Bug::new("flush-of-own-writes", "a flushed write of another thread is lost");
/// A map word stays in DRAM until the checkpoint has stored it.
pub static FORGOTTEN_BEFORE_CHECKPOINT: Bug =
    Bug::new("forgotten-before-checkpoint", "a read returns an older value");
/// A write retires the data block of the last map word in the log, which the pool may not have yet.
pub static REPLACED_WORD_OF_POOL: Bug = Bug::new("replaced-word-of-pool", "a data block is free twice");

/// A new segment is durable before the header of the pool reaches it.
pub static SEGMENT_NOT_DRAINED: Bug = Bug::new("segment-not-drained", "a grown pool has no descriptor");
/// The map of a new segment is cleared: its space may have other bytes.
pub static NEW_MAP_NOT_CLEARED: Bug = Bug::new("new-map-not-cleared", "new blocks have content");

/// Every bug of this crate.
pub static ALL: [&Bug; 13] = [
    &MAP_BEFORE_RECORD,
    &REUSED_BEFORE_CHECKPOINT,
    &CHECKSUM_OF_A_PART,
    &RECORD_WITHOUT_PAYLOAD,
    &READERS_NOT_AWAITED,
    &READ_NOT_REPEATED,
    &ZERO_NOT_LOGGED,
    &STRIPES_NOT_HELD,
    &FLUSH_OF_OWN_WRITES,
    &FORGOTTEN_BEFORE_CHECKPOINT,
    &REPLACED_WORD_OF_POOL,
    &SEGMENT_NOT_DRAINED,
    &NEW_MAP_NOT_CLEARED,
];
