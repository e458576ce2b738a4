//! libpmemlog.so.1: the calls of PMDK's libpmemlog 1.12.1, on `lode-log`.
//!
//! ```text
//!   program, compiled against PMDK's <libpmemlog.h>
//!        |  pmemlog_append, pmemlog_walk, ...     | pmemlog_create, pmemlog_open, ...
//!   exports: C arguments become checked ones      |
//!        |                                        |
//!   Pool: PmemLog (lode-log), walks               lode_capi_entry::PoolFiles, on lode-pmdk
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
//! `pmemlog_append(plp, buf, 64)` copies the bytes past the cache and waits; then it stores the word that commits them, flushes
//! its line and waits. The format needs both fences. Appends wait for each other, and for no walk.
//!
//! # Panics
//!
//! None leaves the library, and none prints: a broken invariant is an error of the call, with EIO.

pub mod exports;
mod pool;
mod walks;
