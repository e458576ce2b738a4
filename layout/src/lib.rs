//! Floor 0: every on-media format of Lodestone, as bytes and as validated values.
//!
//! It does: offsets and alignment, headers, checkpoint slots, log records, heap words, tree nodes and
//! leaves, each both ways. It does not: read a file, map memory, or know an instruction; so a broken pool
//! can be printed without opening it.
#![forbid(unsafe_code)]

pub mod bug;
mod offset;

pub use offset::{BLOCK, LINE, PoolOffset, WORD, align_down, align_up};
