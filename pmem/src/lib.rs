//! Floor 1: the only floor that knows the kernel and the CPU.
//!
//! ```text
//!   engines (heap, tree, ...)          generic over Medium: no mmap, no instruction, no file descriptor
//!        |  store, copy, flush, drain, log_write          | load8, read: direct
//!   trait Medium ---------------------------------------- Memory
//!        |                                                |
//!   Mapping (file, DAX, device, anonymous)        the mapped bytes, at a fixed address
//! ```
//!
//! It does: map, load, store, flush, drain, copy without cache, sync, and turn hardware faults into errors.
//! It does not: know what is stored, start a thread, or print.

mod access;
mod badblocks;
mod counted;
mod cpu;
mod error;
mod fault;
mod fixup;
mod gate;
mod live;
mod mapping;
mod medium;
mod memory;
mod report;
mod reservation;
mod sysfs;

pub use counted::{Counted, Counts};
pub use cpu::{Cpu, MASK_VARIABLE};
pub use error::PmemError;
pub use fault::{Fault, FaultKind};
pub use gate::Gate;
pub use lode_layout::Rung;
pub use mapping::{Mapping, MappingOptions};
pub use medium::{Medium, SyncError};
pub use memory::Memory;
pub use report::{Backing, RungHow, RungReport, RungWarning};
pub use sysfs::Sysfs;
