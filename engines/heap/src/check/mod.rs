//! Checking: the parts of a pool that are not as they were written. A check stores nothing; `repair_*` functions do.
//!
//! ```text
//!   check_slots   each copy of both checkpoint slots      -+
//!   check_log     the records of an unclean pool           +--> Report
//!   SpaceMap      descriptors, headers, bitmaps, root word -+
//!                 and the objects that a layout says it reaches
//! ```
//!
//! A state that a power cut can leave is no damage. Records that are not replayed yet are none either. A caller that
//! checks more than slots and log replays them into a private view first, see
//! [`Heap::salvage`](crate::Heap::salvage).

mod log;
mod report;
mod slots;
mod space;

pub use log::{check_log, repair_log};
pub use report::{Counts, Finding, Report, Severity};
pub use slots::{check_slots, repair_slots};
pub use space::{MarkResult, SpaceMap};
