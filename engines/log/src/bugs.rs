//! Seeded bugs: each breaks one rule of the log, and the crash explorer must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;

/// An append is durable before it returns.
pub static APPEND_NOT_DRAINED: Bug = Bug::new("append-not-drained", "an acknowledged append is lost");
/// An append returns when all appends before it are durable.
pub static RETURNED_BEFORE_EARLIER: Bug =
    Bug::new("returned-before-earlier", "an acknowledged append after one that is lost");
/// An opening begins a new epoch.
pub static EPOCH_KEPT: Bug =
    Bug::new("epoch-kept", "an append of an earlier epoch is back after a later one");
/// A frame at the end counts only if its body has its checksum.
pub static CONTENT_NOT_COMPARED: Bug = Bug::new("content-not-compared", "a torn frame is a frame");
/// The checksum of a frame covers the table that divides its contents.
pub static TABLE_NOT_COVERED: Bug =
    Bug::new("table-not-covered", "a torn frame is a frame, with contents of other records");
/// A position counts only if the frame has a record of that index.
pub static INDEX_NOT_COMPARED: Bug =
    Bug::new("index-not-compared", "a record is read at a position that no append returned");
/// The frame of the head stays until its last record is dropped.
pub static HEAD_FRAME_REUSED: Bug =
    Bug::new("head-frame-reused", "records after a truncation inside of a frame are overwritten");
/// A later record proves only what was durable when it was written.
pub static PROVES_ALL_BEFORE: Bug = Bug::new("proves-all-before", "the end of a power cut is called damage");
/// Space is used again when the state that frees it is durable.
pub static HEAD_BEFORE_STATE: Bug =
    Bug::new("head-before-state", "records that were not dropped are overwritten");
/// A state notes an end up to which all is durable.
pub static END_NOT_DURABLE: Bug = Bug::new("end-not-durable", "the end of a power cut is called damage");
/// A frame counts only at its own position.
pub static POSITION_NOT_COMPARED: Bug =
    Bug::new("position-not-compared", "a record of an earlier lap is back");
/// A persist returns when the one that took its appends has ended.
pub static PERSIST_NOT_AWAITED: Bug = Bug::new("persist-not-awaited", "a persisted append is lost");
/// A follower reads what is durable.
pub static FOLLOWED_BEFORE_DURABLE: Bug = Bug::new("followed-before-durable", "a follower saw what is lost");
/// An append takes no space of live records.
pub static FULL_NOT_CHECKED: Bug = Bug::new("full-not-checked", "live records are overwritten");

/// In a pool of PMDK, bytes are durable before the word that commits them.
pub static PMDK_BYTES_NOT_DRAINED: Bug = Bug::new("pmdk-bytes-not-drained", "a torn append is committed");
/// In a pool of PMDK, an append or a rewind returns when its word is durable.
pub static PMDK_WORD_NOT_DRAINED: Bug =
    Bug::new("pmdk-word-not-drained", "an acknowledged append is lost, or a rewind");
/// In a pool of PMDK, a persist commits what was appended before its first sync.
pub static PMDK_LATER_BYTES_COMMITTED: Bug =
    Bug::new("pmdk-later-bytes-committed", "a torn append is committed");

/// Every bug of this crate.
pub static ALL: [&Bug; 17] = [
    &APPEND_NOT_DRAINED,
    &RETURNED_BEFORE_EARLIER,
    &EPOCH_KEPT,
    &CONTENT_NOT_COMPARED,
    &TABLE_NOT_COVERED,
    &INDEX_NOT_COMPARED,
    &HEAD_FRAME_REUSED,
    &PROVES_ALL_BEFORE,
    &HEAD_BEFORE_STATE,
    &END_NOT_DURABLE,
    &POSITION_NOT_COMPARED,
    &PERSIST_NOT_AWAITED,
    &FOLLOWED_BEFORE_DURABLE,
    &FULL_NOT_CHECKED,
    &PMDK_BYTES_NOT_DRAINED,
    &PMDK_WORD_NOT_DRAINED,
    &PMDK_LATER_BYTES_COMMITTED,
];
