//! libpmemblk.so.1: the calls of PMDK's libpmemblk 1.12.1, on `lode-btt`.
//!
//! ```text
//!   program, compiled against PMDK's <libpmemblk.h>
//!        |  pmemblk_read, pmemblk_write, ...      | pmemblk_create, pmemblk_open, ...
//!   exports: C arguments become checked ones      |
//!        |                                        |
//!   Pool: Btt (lode-btt)                          lode_capi_entry::PoolFiles, on lode-pmdk
//!        |                                        |
//!   lode_pmem::ProgramMedium ---------------------+
//! ```
//!
//! It does: answer each call with the results and the errno of the manual pages, in PMDK's format; keep a message for each
//! thread; take memory from the functions that the program sets. It does not: start a thread, install a signal handler, keep a
//! descriptor, or print.
//!
//! # From a call to the fence
//!
//! `pmemblk_write(pbp, buf, 7)` copies the block past the cache to the free block of a lane and waits; then it makes the entry
//! of the flog durable, and stores that of the map, which the lane's next write makes durable: two fences. Reads take no lock.
//!
//! # Panics
//!
//! None leaves the library, and none prints: a broken invariant is an error of the call, with EIO.

pub mod exports;
mod pool;
