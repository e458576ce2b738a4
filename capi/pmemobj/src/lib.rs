//! libpmemobj.so.1: the calls of PMDK's libpmemobj 1.12.1, on `lode-obj`.
//!
//! ```text
//!   program, compiled against PMDK's <libpmemobj.h>
//!        |  pmemobj_tx_begin, pmemobj_persist, ...   | pmemobj_create, pmemobj_open, ...
//!   exports: C arguments become checked ones         |
//!        |                                           |
//!   Pools: an address or an OID -> OpenPool          lode_capi_entry::PoolFiles, on lode-pmdk
//!        |                                           |
//!   lode_obj::Pool ----------------------------------+
//! ```
//!
//! It does: answer each call with the results and the errno of the manual pages, in PMDK's format; keep a message and a transaction
//! for each thread; take memory from the functions that the program sets. It does not: start a thread, install a signal handler,
//! keep a descriptor, or print, except before it ends a process that can't go on.
//!
//! # Panics
//!
//! None leaves the library, and none prints: a broken invariant is an error of the call, with EIO.

mod action;
mod addresses;
mod allocation;
mod buffers;
mod calls;
mod ctl;
mod defrag;
pub mod exports;
mod failure;
mod fatal;
mod first_arenas;
mod fork;
mod generation;
mod inherited;
mod list;
mod logs;
mod memory;
mod mode;
mod oid;
mod owner;
mod pool;
mod pools;
mod process_name;
mod session;
mod settings;
