//! Layer 1: maps memory that outlives power, and makes stores to it durable.
//!
//! ```text
//!   engines (heap, tree, ...)          generic over Medium: no mmap, no instruction, no file descriptor
//!        |  store, copy, flush, drain, log_write          | load8, read: direct
//!   trait Medium -- Layer: Counted; the simulator ------- Memory
//!        |                                                |   fixup: a load of lost memory reads as zeros
//!   Mapping                                               |   and raises a Fault
//!        |  cpu: flush, copy, fence    sysfs, badblocks   |   live: what is mapped, for the signal handler
//!        |  pwritev2, fdatasync        report             |   reservation: address space, to grow in place
//!   file, DAX file, device-DAX node, anonymous memory ----+
//! ```
//!
//! It does: map; detect the durability and report the evidence; load, store, flush, drain; copy
//! past the cache; write logs with their own sync; grow in place; turn hardware faults into errors; count. It does not:
//! interpret the stored bytes, lock files, start a thread, or print. One message is the exception: a fault in a
//! reference lent to the user prints it and ends the process. This is the only layer that knows the kernel and the CPU.
//!
//! # From a call to the fence
//!
//! `medium.log_write(at, record)` of 128 bytes, at durability `line`:
//! 1. [`Mapping`] checks that both ends are multiples of [`log_block`](Medium::log_block). [`Memory`] checks that the
//!    range is inside. If a check fails, the thread's [`Fault`] is raised and no byte is written.
//! 2. The record is copied past the cache: two 64-byte stores, each with an entry in the fix-up table. So a poisoned
//!    line or a cut file ends the copy with an error, and does not end the process.
//! 3. One fence waits until the memory controller has taken both lines. All that this thread flushed before is then
//!    durable, too.
//!
//! At durability `commit`, steps 2 and 3 are one `pwritev2(RWF_DSYNC)` of the range. At `byte`, the copy goes through
//! the cache. On `none`, there is no wait.
//!
//! # Cost
//!
//! A load is a comparison and a move. It is as fast as a plain load when each load depends on the one before. A record
//! of 64, 128 or 256 bytes costs the time in which the memory accepts it, the same as the bare instructions.

mod access;
mod allocate;
pub mod asymmetric;
mod badblocks;
pub mod biased;
pub mod bugs;
mod by_address;
mod checksum;
mod chunks;
mod counted;
mod counter;
mod cpu;
mod cycles;
mod error;
mod event;
mod extents;
mod fault;
mod file_place;
mod fixup;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod folding;
mod hold;
mod layer;
mod live_mapping;
mod lock_holder;
mod loss_model;
mod mapping;
mod medium;
mod memory;
mod memory_limit;
mod network;
mod new_file;
mod program_backing;
mod program_mapping;
mod program_medium;
mod program_view;
mod readers;
mod report;
mod reservation;
#[cfg(lode_bugs)]
pub mod scheduled;
mod scope;
mod store_again;
pub mod sync;
mod sysfs;
mod sysfs_folder;

pub(crate) use allocate::punch_hole;
pub use allocate::{allocate, deallocate, file_size_limit};
pub use by_address::{ByAddress, CopyPath};
pub use checksum::{checksum, crc32c, crc32c_append};
pub use counted::{Counted, Counts};
pub use counter::Counter;
pub use cpu::{Cpu, MASK_VARIABLE};
pub use cycles::cycles;
pub use error::PmemError;
pub use event::Event;
pub use extents::FileExtent;
pub use fault::{Fault, FaultKind};
pub use file_place::FilePlace;
pub use hold::hold;
pub use layer::Layer;
pub use lock_holder::LockHolder;
pub use lode_layout::Durability;
pub use loss_model::LossModel;
pub use mapping::{MappedPart, Mapping, MappingOptions};
pub use medium::{Medium, SyncError};
pub use memory::Memory;
pub use new_file::NewFile;
pub use program_backing::ProgramBacking;
pub use program_mapping::{
    DaxDevice, ProgramMapping, allocate_program_file, deep_flush_region, msync_program, program_pages,
    unmap_program,
};
pub use program_medium::{ProgramMedium, ProgramShare};
pub use program_view::{
    ProgramAccess, ProgramContent, ProgramView, program_align, reserve_program, reserve_program_again,
};
pub use readers::{Announcement, Readers};
pub use report::{Backing, DurabilityEvidence, DurabilityReport, DurabilityWarning};
pub use scope::{FaultScope, Readable};
pub use store_again::store_again;
pub use sysfs::Sysfs;
pub use sysfs_folder::SysfsFolder;
