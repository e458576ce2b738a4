//! The allocator. The medium says which blocks are allocated, and nothing else. DRAM alone says which thread may use
//! a free block next. After opening, free blocks are found again lazily.
//!
//! ```text
//!   transaction -> Magazines (this thread's free blocks)  <-- 32 at a time -->  Central (all superblocks, spans)
//!        |                                                                         ^
//!        +-- free, once durable --> Limbo (until no reader can hold it) -----------+
//!                     both are the thread's cache, see `cache.rs`, until another thread finds no space
//! ```
//!
//! `Allocations` is the space that one transaction took and freed. `Allocator` is all of the above as one thread uses
//! it. Blocks of a superblock that a transaction makes are its own until it commits. A transaction that finds no space
//! reclaims all that it can, see `reclaim.rs`, before it is refused. If there is no room for a superblock of many
//! chunks, it makes a shorter one. If there is no room for that either, it takes a larger block of the same type. An
//! object larger than any block gets a span of its own.
//!
//! # Cost
//! No fence: allocating and freeing are entries of the transaction's record.

pub(crate) mod allocations;
pub(crate) mod allocator;
pub(crate) mod block_set;
pub(crate) mod cache;
pub(crate) mod central;
pub(crate) mod class;
pub(crate) mod evacuation;
pub(crate) mod limbo;
pub(crate) mod magazine;
mod new_spans;
mod reclaim;
pub(crate) mod shared;
pub(crate) mod space;
mod spans;
