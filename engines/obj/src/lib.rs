//! Layer 4: the pools of PMDK's libpmemobj, in its format 6.
//!
//! ```text
//!   lode pool info, check, dump, stats, repair
//!        |
//!   recover        redo logs, heap, undo logs
//!   ObjView        descriptor, state -> zones -> blocks of chunks -> runs -> objects
//!        |
//!   Medium (lode-pmem, lode-sim)
//! ```
//!
//! It does: read the objects of a pool, all of whose bytes count as outside bytes; count what the heap holds; recover
//! what a crash of PMDK left ([`recover()`]); check the heap, and repair what is certain ([`repair()`]). It does not: read the
//! pool's header or its parts, which are `lode-pmdk`'s; allocate, or know a type.
//!
//! A pool is a descriptor, lanes and a heap. A lane has three logs: the redo log of the allocator (internal), the redo log of
//! commits (external), and the undo log of a transaction. Logs that are full go on in the heap. The heap is zones of chunks of
//! 256 KiB; headers of chunks say where blocks begin. A used block is one object. A run is blocks of one size with a bitmap; an
//! object takes one or more of these. Formats and rules are `lode-layout`'s (`pmdk_obj.md` and the pages beside it).
#![forbid(unsafe_code)]

mod action;
mod begin;
mod block;
pub mod bugs;
mod check;
mod error;
mod growth;
mod heap;
mod log;
mod object;
mod oid;
mod piece;
mod pool;
mod recover;
mod redo;
mod repair;
mod request;
mod statistics;
mod view;
mod words;

pub use block::{Block, Blocks};
pub use check::{Finding, check};
pub use error::{Damage, DamageReason, LogKind, ObjError, Structure};
pub use growth::{Growth, GrowthRefusal};
pub use heap::{ClassDescription, ClassError, FirstArenas, prepare};
pub use lode_redo::cover::Mode;
pub use object::{Object, Objects, Place};
pub use oid::pool_number;
pub use piece::{Piece, PieceKind};
pub use pool::{Action, Pool, Request, Reservation, Transaction};
pub use recover::{Recovery, begin_run, recover};
pub use repair::{Repair, plan_repair, repair};
pub use statistics::{RunStatistics, Statistics};
pub use view::ObjView;
