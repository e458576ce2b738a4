//! Seeded bugs: each breaks one rule of the recovery, and the crash tests must find the loss.
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

/// Every bug of this crate.
pub static ALL: [&Bug; 7] = [
    &REDO_NOT_COMPARED,
    &REDO_NOT_DRAINED,
    &CHANGES_BEFORE_LOG,
    &UNDO_NOT_DRAINED,
    &UNDO_NOT_ENDED,
    &EXTENSION_FREED_FIRST,
    &ZONE_BEFORE_CHUNKS,
];
