//! libpmem.so.1: the calls of PMDK's libpmem 1.12.1, and the three that 2.1 added, on `lode-pmem`.
//!
//! ```text
//!   program, compiled against PMDK's <libpmem.h>
//!        |  pmem_persist, pmem_memcpy, ...        | pmem_map_file, pmem_is_pmem, ...
//!   exports: C arguments become checked ones      |
//!        |                                        request -> ranges: what this library mapped where
//!   lode_pmem::ByAddress                          lode_pmem::ProgramMapping
//!   owners: ranges whose stores another library makes durable
//! ```
//!
//! It does: answer each call with the results and the errno of the manual pages, keep a message for each thread, and read
//! PMDK's environment variables. It does not: start a thread, install a signal handler, keep a descriptor open, or print,
//! unless the program asks for a log.
//!
//! # From a call to the fence
//!
//! `pmem_persist(address, 8)` takes the instructions that the library chose when it was loaded, writes back one line, and
//! waits with one fence. There is no lock and no allocation.
//!
//! # Panics
//!
//! None leaves the library, and none prints. The functions that could meet a broken invariant return their error, with EIO.
//! A process without memory for a message or for the table of ranges is aborted by Rust's library, with one line.

mod deep;
mod environment;
pub mod exports;
mod failure;
mod logging;
mod owners;
mod ranges;
mod request;
