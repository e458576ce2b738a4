//! Layer 3: the one-fence log.
//!
//! Redo records that make a transaction durable with one drain, and checkpoints that free its space.
//!
//! ```text
//!   commit:  hold a lane -> assign a number, add the checksum -> log_write (the one drain) -> write-backs -> release
//!   checkpoint:  hold all lanes, note the number S and the dirty lines -> release -> flush each line once
//!                -> drain -> slot S -> the rings are free up to where they stood
//!   recover:  newest slot -> sound records above S, by number -> write-backs -> flush, drain -> new slot and epoch
//! ```
//!
//! The target of an entry is the place in the heap that it changes. Targets change only after the record is durable, so
//! nothing is ever undone. It needs no flush until the checkpoint, so a hot line costs nothing.
//!
//! # Cost
//! A commit: one drain, the record's lines. A checkpoint: one flush for each distinct line, two drains.

#![forbid(unsafe_code)]

mod apply;
mod batch;
pub mod bugs;
mod check;
mod checkpoint;
pub mod cover;
mod dirty;
mod epoch;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod group;
mod hooks;
mod lane;
mod log;
mod new_records;
mod ranges;
mod recover;
mod relocate;
mod ring;
pub mod scan;
pub mod slots;
mod spare_rings;
mod written_back;

pub use apply::{ContinuedRange, apply_entry};
pub use batch::WaitingRecords;
pub use check::check;
pub use dirty::DirtyLines;
pub use epoch::random_log_epoch;
pub use error::{InDoubtCause, LogError};
pub use hooks::{AppendedRecord, CheckpointHooks, CommitHooks, NewRecords};
pub use log::{Log, LogArea, SEQUENCE_GAP};
pub use ranges::Ranges;
pub use recover::{OnCorruption, Recovery};
pub use written_back::{Phase, WrittenBack};
