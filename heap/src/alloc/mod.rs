//! The allocator. The medium says which blocks are allocated, and nothing else; who may use the free ones next
//! is known in DRAM only, and found again lazily after opening.
//!
//! ```text
//!   transaction -> Magazines (this thread's free blocks)  <-- 32 at a time -->  Central (all superblocks, spans)
//!        |                                                                         ^
//!        +-- free, once durable --> Limbo (until no reader can hold it) -----------+
//!                     both are the thread's cache, see `cache.rs`, until another thread finds no space
//! ```
//!
//! Blocks of a superblock that a transaction makes are its own until it commits. A transaction that finds no space has
//! all reclaimed that can be, see `reclaim.rs`, before it is refused. Where there is no room for a superblock of many
//! chunks it makes a shorter one; where there is none for that either, it takes a larger block of the same type. An object
//! larger than any block gets a span of its own.
//!
//! # Cost
//! No fence: allocating and freeing are entries of the record of the transaction that does it.

pub(crate) mod cache;
pub(crate) mod central;
pub(crate) mod class;
pub(crate) mod limbo;
pub(crate) mod magazine;
pub(crate) mod space;
mod spans;

pub(crate) use central::{Central, Key};
pub(crate) use class::Class;
pub(crate) use space::{Block, Found, Space, Span, SpanKind};
