//! The allocator. The medium says which blocks are allocated, and nothing else; who may use the free ones next
//! is known in DRAM only, and found again lazily after opening.
//!
//! ```text
//!   transaction -> Magazines (this thread's free blocks)  <-- 32 at a time -->  Central (all superblocks, spans)
//!        |                                                                         ^
//!        +-- free, once durable --> Limbo (until no reader can hold it) -----------+
//! ```
//!
//! Blocks of a superblock that a transaction makes are its own until it commits. A transaction that finds no space has
//! all reclaimed that can be, see `reclaim.rs`, before it is refused. An object for which there is no block, and no
//! room for a superblock of many chunks, gets a span of its own.
//!
//! # Cost
//! No fence: allocating and freeing are entries of the record of the transaction that does it.

pub(crate) mod central;
pub(crate) mod class;
pub(crate) mod limbo;
pub(crate) mod magazine;
pub(crate) mod space;
mod spans;

pub(crate) use central::{Central, Key};
pub(crate) use class::Class;
pub(crate) use space::{Block, Found, Space, Span, SpanKind};
