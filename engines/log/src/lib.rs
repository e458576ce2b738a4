//! Layer 4: the append log. Records of any length are appended with one drain, and a power cut leaves all of them up to some
//! place.
//!
//! Records lie in frames: a record alone, or several of one call. A frame certifies itself: its header has the position, the
//! checksums of header and contents, and the number of the opening that wrote it. So nothing else has to be durable for an append,
//! and an opening finds the end by reading frames until there is none.
//!
//! ```text
//!   users (programs, lode log)     records by position: append, read, walk, follow, truncate
//!        |
//!   LogPool                        the log of a pool in a file
//!        |
//!   AppendLog                      reserved, durable: positions        state: head, noted end, epoch
//!        |  copy past the cache, drain                                   |  one record for each truncation
//!        |                                                             lode-redo
//!        |                                                               |
//!   Medium (lode-pmem, lode-sim)
//! ```
//!
//! It does: make, open and check the log of a pool; append, read and walk from any number of threads; drop records from the
//! front; report records that are not what was appended, and read on after them; the same for PMDK's log pools, whose bytes
//! have no records and no checksums ([`pmdk`]). It does not: interpret contents, start a
//! thread, or print. The format, with its crash tables, is `lode-layout`'s.
//!
//! # Append
//! 1. The records of the call are put into frames in a buffer, with room for the headers.
//! 2. Under a short lock the append gets its position.
//! 3. The lines of a frame go to the area past the cache. Meanwhile the CRC32C of its contents is computed, and the header is
//!    completed: position, epoch, and how far back all was durable. Its line goes last.
//! 4. **The one drain** makes all frames durable.
//! 5. When all appends before it are durable, the durable position moves behind it, and the call returns. So no append is
//!    acknowledged that lies after a gap.
//!
//! # The end, and damage
//! An opening begins where the last state notes an end, and goes from frame to frame. A frame counts if its checksums fit,
//! it names its own position, and its epoch is that of the state: all of its records do then, or none. Where none counts, the log
//! ends. But a frame that was durable may be rotten there. A later one that was written when that position was durable says so, and
//! then the log goes on after the damage. [append-log.md](../../../docs/decisions/append-log.md) has the reasons.
//!
//! # Durability `commit`
//! An append goes to the page cache. It is visible on return, and durable after the next `persist`, which takes one sync for all.
//! A follower reads only what is durable.
//!
//! # Cost
//! | | drains | lines copied |
//! |---|---|---|
//! | append of a record | 1 | those of the content and 32 bytes |
//! | append of n records in one call | 1 | for up to 64 with at most 4096 bytes, those of the contents, 32 bytes and 2 (n - 1) |
//! | read, walk, follow | 0 | - |
//! | truncate, rewind | 1 | 3, of the redo record |
//!
//! On durability `commit`, an append costs no drain, and a `persist` one for all appends since the last one. `tests/cost.golden`
//! has the numbers.
#![forbid(unsafe_code)]

mod append;
mod append_log;
mod area;
pub mod bugs;
mod check;
mod descriptor;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod frame;
mod open;
mod plan;
pub mod pmdk;
mod pool;
mod scan;
mod staging;
mod state;
mod truncate;
mod view;
mod walk;

pub use append_log::AppendLog;
pub use check::check;
pub use error::{AppendLogError, Damage, InDoubtCause};
pub use open::LogRecovery;
pub use pool::{LogPool, LogPoolError};
pub use view::LogView;
pub use walk::{LogRecord, Walk};
