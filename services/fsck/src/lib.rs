//! Layer 5: check, repair and shrinking of whole pools.
//!
//! ```text
//!   check_pool    headers -> slots -> log -> heap -> objects of the layout -> leaks        --> Report
//!   repair_pool   the same order, each step durable before the next                       --> Repair
//!   shrink_pool   objects move down -> log closed -> headers -> file                    --> Shrunk
//!                                                     ^
//!   Layout        names the layout, traces its objects, salvages and moves them    (the crates of the layouts)
//!   typed data    traced and salvaged by its type tables, whatever its layout's name
//! ```
//!
//! It does: compose the checks of headers ([`lode_pool`]), of log and space ([`lode_heap::check`]) and of registered
//! layouts; say what is damaged, and what a repair lost. It does not: know a layout, or store anything in a check.
#![forbid(unsafe_code)]

mod check;
mod damaged_pool;
mod layout;
mod maps;
mod moves;
mod outcome;
mod repair;
mod shrink;
mod trace;
mod typed;

pub use check::check_pool;
pub use damaged_pool::DamagedPool;
pub use layout::Layout;
pub use maps::{DamagedMap, Maps, UnlinkedMaps};
pub use moves::{ShrinkError, ShrinkEvents};
pub use outcome::{LostRange, Repair, RepairError};
pub use repair::repair_pool;
pub use shrink::shrink_pool;
pub use trace::Trace;
pub use typed::{LossReason, TypedObject, TypedRepair};
