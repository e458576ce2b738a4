//! libpmem2.so.1: the calls of PMDK's libpmem2, those of 1.12.1 and those of 2.1, on `lode-pmem`.
//!
//! ```text
//!   program, compiled against PMDK's <libpmem2.h>
//!        |  function pointers of a mapping     | pmem2_map_new, ...
//!   exports: C arguments become checked ones   |
//!        |                                     source, config -> plan -> registry: what is mapped where
//!   lode_pmem::ByAddress                       lode_pmem::ProgramView, ProgramBacking
//! ```
//!
//! It does: answer each call with the results of the manual pages, keep a message for each thread, and read PMDK's
//! environment variables. It does not: start a thread, install a signal handler, keep a descriptor open, or print, except
//! for pmem2_perror(3) and before it ends a process whose medium has failed.
//!
//! # From a call to the fence
//!
//! `pmem2_get_persist_fn(map)` returns the function of the mapping's granularity. Called for 8 bytes of persistent memory, it
//! takes the instructions that the library chose when it was loaded, writes back one line, and waits with one fence. There is
//! no lock and no allocation.
//!
//! # Panics
//!
//! None leaves the library, and none prints. The functions that could meet a broken invariant return PMEM2_E_UNKNOWN.

mod bad_blocks;
mod code;
mod config;
pub mod exports;
mod failure;
mod functions;
mod future;
mod granularity;
mod map;
#[cfg(test)]
mod node_fixture;
mod plan;
mod registry;
mod reservation;
mod source;
mod transfer;

pub use future::Future;
