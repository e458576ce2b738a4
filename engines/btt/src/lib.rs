//! Layer 4: block translation tables, in the format of UEFI and the kernel, and in the block pools of PMDK.
//!
//! A block is written to a free block, and then a map entry of 4 bytes makes that the current one. So a power cut leaves
//! the old block or the new one.
//!
//! ```text
//!   users (volumes, exports)       blocks by number: read, write, zero, flush
//!        |
//!   Btt -> Table -> Arena          512 GiB each: info block | data | map | flog | info block
//!        |             lanes: a free block and a flog slot for each block that is being written
//!        |             readers: the blocks that are being read
//!        |             cache: what waits for a sync, on durability commit
//!        |  copy, store8, flush, drain
//!   Medium (lode-pmem, lode-sim)
//! ```
//!
//! It does: make, open, recover, check, repair; read and write from any number of threads, also in batches that share drains, and in
//! place for callers that do without whole blocks. It does not: know files, sockets or requests, or start a thread. The format is `lode-nvdimm`'s.
//!
//! # Write, and the states that a power cut leaves
//! | stops after | media show | open does |
//! |---|---|---|
//! | 1: the data, the first half of the flog entry | the older flog entry is current, the old map entry | nothing: the block is still free |
//! | 2: half of the flog entry's line | the same, or row 3 | either |
//! | 3: the flog entry | the entry is current, the map has old_map | sets the map to new_map |
//! | 4: the map entry | the entry is current, the map has new_map | nothing: old_map is free |
//!
//! Two rules make row 3 hold although a write does not wait for its map entry:
//! - before a flog entry is current, the map entry of the lane's last write is durable, since the flog entry that could
//!   restore it is replaced two writes later, and stops to be current now;
//! - and so is the old map entry of the block, which another lane may have stored: else recovery could look at the lanes
//!   in the wrong order, and set the older value last.
//!
//! The thread that stored such a map entry has flushed it, and its next drain completes that. Another thread flushes it
//! again before its own drain. An opening does so for the last write of each lane: a program that ended left it to the caches.
//! So neither rule costs a write a drain.
//!
//! # Batches
//! The blocks of a batch go through these steps together, each with a lane of its own, so after a power cut each of them is
//! in a row of its own. `write.rs` argues why recovery may still look at the lanes in any order, and why two batches never wait
//! for each other.
//!
//! # Block pools of PMDK
//! A pool of libpmemblk is a table of version 1.1 after a header and a descriptor. Its recovery compares the old map entry of
//! the flog with the map bit by bit, so the flog has whole map entries there, with the state that the map has when the entry
//! counts. A block that was never written reads as zeros, and the first write makes the table of a new pool. PMDK itself is the
//! judge, in `tests/pmdk/`.
//!
//! # Read
//! A reader announces the block that the map gives it, and looks at the map again. If that is unchanged, a writer that
//! frees the block later sees the announcement, and waits before it stores to the block.
//!
//! # Cost
//! | | drains | lines flushed | copied |
//! |---|---|---|---|
//! | write | 2 | 2: flog and map | the block |
//! | batch of n writes | 2 | 2 n: flog and map | the blocks |
//! | zeros in such a batch | 0 more | those of their map entries | - |
//! | n writes in place | 1 | 0 | the blocks |
//! | zero of n blocks | 1 | those of their map entries | - |
//! | read | 0 | 0 | - |
//!
//! On durability `commit`, a write costs no drain, and a flush two for all writes since the last one. `tests/cost.golden`
//! has the numbers.
#![forbid(unsafe_code)]

mod arena;
mod btt;
pub mod bugs;
mod cache;
mod check;
mod describe;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod found;
mod in_place;
mod lanes;
mod open;
mod piece;
mod plan;
mod pool;
mod repair;
mod settle;
mod state;
mod table;
mod undrained;
mod write;

pub use btt::Btt;
pub use check::{Finding, check, check_pool};
pub use describe::{Description, TableFormat, describe};
pub use error::{BttError, InDoubtCause};
pub use piece::{TablePiece, TablePieces};
pub use plan::{Plan, format_content};
pub use pool::PoolUuids;
pub use repair::{Repair, repair};
