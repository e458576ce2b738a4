//! Floor 1: maps memory that outlives power, and makes stores to it durable.
//!
//! ```text
//!   engines (heap, tree, ...)          generic over Medium: no mmap, no instruction, no file descriptor
//!        |  store, copy, flush, drain, log_write          | load8, read: direct
//!   trait Medium -- Counted, the simulator -------------- Memory
//!        |                                                |   fixup: a load of lost memory reads as zeros
//!   Mapping                                               |   and raises a Fault
//!        |  cpu: flush, copy, fence    sysfs, badblocks   |   live: what is mapped, for the signal handler
//!        |  pwritev2, fdatasync        report             |   reservation: address space, to grow in place
//!   file, DAX file, device-DAX node, anonymous memory ----+
//! ```
//!
//! It does: map, find the rung of the durability ladder and tell how, load, store, flush, drain, copy without
//! cache, write logs with their own sync, grow in place, turn hardware faults into errors, count.
//! It does not: know what is stored, lock files, start a thread, or print (but for one message when a fault
//! in a reference lent to the user must end the process). It is the only floor that knows the kernel and the
//! CPU.
//!
//! # From a call to the fence
//!
//! `medium.log_write(at, record)` of 128 bytes, on the rung `line`:
//! 1. [`Mapping`] checks that both ends are multiples of [`log_block`](Medium::log_block), and [`Memory`] that
//!    the range is inside; otherwise the thread's [`Fault`] is raised and nothing is written.
//! 2. The record is copied past the cache: two 64-byte stores, each with an entry in the fix-up table, so that
//!    a poisoned line or a cut file ends the copy with an error, and not the process.
//! 3. One fence waits until the memory controller has taken both lines. With them everything that this thread
//!    flushed before is durable.
//!
//! On the rung `commit` step 2 and 3 are one `pwritev2(RWF_DSYNC)` of the range; on `byte` the copy goes
//! through the cache; on `none` nothing waits.
//!
//! # Cost
//!
//! A load is a comparison and a move: as fast as a plain load where one waits for the other. A record of 64,
//! 128 or 256 bytes costs what the memory takes to accept it, the same as the bare instructions.

mod access;
pub mod asymmetric;
mod badblocks;
pub mod bugs;
mod checksum;
mod chunks;
mod counted;
mod cpu;
mod cycles;
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
#[cfg(lode_bugs)]
pub mod stepped;
mod sysfs;

pub use checksum::checksum;
pub use counted::{Counted, Counts};
pub use cpu::{Cpu, MASK_VARIABLE};
pub use cycles::cycles;
pub use error::PmemError;
pub use fault::{Fault, FaultKind};
pub use gate::Gate;
pub use lode_layout::Rung;
pub use mapping::{Mapping, MappingOptions};
pub use medium::{Medium, SyncError};
pub use memory::Memory;
pub use report::{Backing, RungHow, RungReport, RungWarning};
pub use sysfs::Sysfs;
