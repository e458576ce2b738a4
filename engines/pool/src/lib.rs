//! Layer 3: a pool as a whole. Its headers on any medium; its file, its lock, its durability.
//!
//! ```text
//!   engines (heap, ...)        content: what the pool holds
//!        |  format, open, grow, close
//!   lode-pool                  headers twice, file made whole or not at all, one writer
//!        |  Medium             |  file descriptors, rename, locks
//!   lode-pmem, lode-sim        kernel
//! ```
//!
//! It does: make, open, lock, grow and close pools; keep two copies of the header, one of which is whole after every
//! crash; check and repair them. It does not: know the content of the log and the heap, start a thread, or print.
//!
//! [`Headers`] and [`format()`] work on any [`Medium`](lode_pmem::Medium).
#![forbid(unsafe_code)]

mod check;
mod create;
mod dirty_shutdown;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod file;
mod format;
mod growth;
mod header_copy;
mod headers;
mod lock;
mod unchecked;
mod zero;

pub use check::{Damage, check_headers, repair_headers};
pub use create::{CreateOptions, SIZE_MAX_DEFAULT};
pub use dirty_shutdown::DirtyShutdown;
pub use error::{PoolError, SpaceLimit};
pub use file::{Grower, OpenOptions, PoolFile};
pub use format::format;
pub use header_copy::{HeaderCopy, HeaderCopyError};
pub use headers::{Headers, Publish, check_heap};
pub use lock::{Access, LockedFile};
pub use lode_pmem::LockHolder;
pub use unchecked::{UncheckedPool, map_for_repair, map_unchecked};
