//! The allocator. The medium says which blocks are allocated, and nothing else; who may use the free ones next
//! is known in DRAM only, and found again lazily after opening.
//!
//! ```text
//!   transaction -> Magazines (this thread's free blocks)  <-- 32 at a time -->  Central (all superblocks, spans)
//!        |                                                                         ^
//!        +-- free, once durable --> Limbo (until no reader can hold it) -----------+
//! ```
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
