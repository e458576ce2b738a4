#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod changes;
mod closure;
mod committed;
mod copy;
mod deferred_deletes;
mod engine;
mod entries;
mod error;
mod fixed;
mod follower;
mod frozen;
mod later;
mod options;
mod reclaimer;
mod shared;
mod snapshot;
mod sorted_batch;
mod span;
mod store;
mod transaction;
mod tree_def;
mod tree_pool;
pub mod typed;
mod typed_store;
mod typed_transaction;
mod value;
mod write_tree;

pub use error::{Error, Result};
pub use fixed::Fixed;
pub use follower::Follower;
pub use later::Ticket;
pub use lode_heap::{CellValue, SnapshotStats};
pub use lode_index::{KeyBounds, KeyRange};
pub use lode_layout::{AsKey, AsPrefix, Key, Malformed, Place};
pub use lode_pmem::Durability;
pub use options::Options;
pub use snapshot::{ReadRange, ReadTree, Snapshot};
pub use store::Store;
pub use transaction::{Savepoint, Transaction};
pub use tree_def::TreeDef;
#[cfg(feature = "serde")]
pub use value::Json;
pub use value::{AsValue, Value};
pub use write_tree::{Entry, ExtractIf, WriteRange, WriteTree};
