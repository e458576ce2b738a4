//! Layer 4: atomic blocks. A power cut leaves each block as it was, or as it was written, never a mixture.
//!
//! A write copies the content to a data block that is free, and puts one record into the log: the new map word, and the
//! checksum of the content. One drain makes both durable.
//!
//! ```text
//!   users (volumes, exports)       blocks by number: read, write, zero, flush
//!        |
//!   BlockPool                      the blocks of a pool in a file
//!        |
//!   Blocks                         spares: free data blocks      readers: the data blocks that are being read
//!        |                         logged words: what the map lacks, on durability commit
//!        |  Record                 |  copy past the cache, load
//!   lode-redo                      |
//!        |                         |
//!   Medium (lode-pmem, lode-sim)
//! ```
//!
//! It does: make, open, recover and check the blocks of a pool; read and write from any number of threads; report content
//! that is not what was written. It does not: know sockets or requests, start a thread, or print. The format, with its
//! crash table, is `lode-layout`'s.
//!
//! # Write
//! 1. A data block leaves the spares. No map word names it, and no reader reads it.
//! 2. The content goes there past the cache, and its CRC32C is computed.
//! 3. The record `{payload: data block, CRC32C; map word}` goes to the log. **The one drain** makes content and record
//!    durable: recovery drops a last record if the content does not have its checksum.
//! 4. The map word is stored: from now on readers see the new content.
//! 5. The old data block is retired with the number of the record. It is a spare again when a checkpoint covers the number:
//!    until then recovery may look for the old content, or store a map word that names it.
//!
//! [atomic-blocks.md](../../../docs/decisions/atomic-blocks.md) has the number of spares.
//!
//! # Durability `commit`
//! A write stores content and record in the page cache, and the map word in DRAM, where readers look first. A flush makes all
//! contents and records durable by one sync. The map words are stored by the next checkpoint only, so a sync writes no page of
//! the map. The page cache outlives the process: a killed server loses no write that had returned.
//!
//! # Read
//! A reader announces the data block that the map gives it, and looks at the map again. If that is unchanged, a writer that
//! takes the data block later sees the announcement, and waits.
//!
//! # Cost
//! | | drains | lines flushed | copied |
//! |---|---|---|---|
//! | write of a block, or of n blocks in one call | 1 | 0 | the blocks, a line of the log for each |
//! | read | 0 | 0 | - |
//! | checkpoint, at least once for as many writes as there are spares | 2 | 1 for each line of the map | - |
//!
//! On durability `commit`, a write costs no drain, and a flush one for all writes since the last one; the next record begins at a
//! block of the disk. `tests/cost.golden` has the numbers.
#![forbid(unsafe_code)]

mod blocks;
pub mod bugs;
mod census;
mod change;
mod check;
mod descriptor;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod growth;
mod logged;
mod map;
mod open;
mod plan;
mod pool;
mod record;
mod repair;
mod segments;
mod spares;
mod staging;
mod stripes;
mod write;

pub use blocks::Blocks;
pub use check::check;
pub use error::{BlocksError, Damage, InDoubtCause};
pub use growth::Growth;
pub use lode_redo::random_log_epoch;
pub use pool::{BlockPool, BlockPoolError};
pub use repair::{BlocksInfo, Repair, describe, repair};
