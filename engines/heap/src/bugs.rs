//! Seeded bugs: each breaks one rule of the heap or of the log under it, and the crash explorer must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;
pub use lode_redo::bugs::*;

/// A superblock whose objects are converted in place gets its new type by a transaction of its own.
pub static RETYPED_ALONE: Bug = Bug::new("retyped-alone", "an object has a type that its bytes are not of");

/// Every bug of this crate alone; [`ALL`] has those of the log.
pub static OF_HEAP: [&Bug; 1] = [&RETYPED_ALONE];
