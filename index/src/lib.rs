//! Floor 5: a persistent adaptive radix tree, ordered keys and values in a pool.
//!
//! ```text
//!   root object        slot, count cells
//!        |  slot word: key byte | kind | skip | offset
//!   inner nodes        4, 16, 48 or 256 slots, and one for the key that ends there
//!        |
//!   leaves             the whole key, the value, a checksum
//! ```
//!
//! A value that is returned is right, which the checksum of its leaf proves, or it is an error;
//! [`Reader::get_unchecked`] is for who needs the last cycles.
//!
//! It does: insert, replace, look up, change, delete, scan both ways, count, check; readers without locks beside
//! writers; any number of operations in one transaction of [`lode_heap`]. It does not: know a medium, keep
//! anything in DRAM but where its root is, or start a thread. So opening a tree costs nothing.
//!
//! The tree is *blind*: path compression stores no bytes in nodes. A slot says how many it skips, and the leaf,
//! which has the whole key, decides. So a lookup reads no node's header, and a new fork in the path changes one
//! slot of the node above and nothing below.
//!
//! An insertion, from call to drain: go down without a lock; read the version of the lock of the node that is to
//! change, then look at the node; take the lock if the version is still the same; put leaf, slot and count into
//! the transaction's record; leave the closure. The heap makes the record durable, stores it at home, the slot last,
//! and releases the locks.
//!
//! Readers see every change as one store of one word: a slot that leads to a leaf or a node that is complete.
//! Larger changes make a new node beside the old one. What is unlinked stays as it is until no reader is pinned
//! that could have come to it.
//!
//! # Example
//! ```
//! use lode_heap::{CreateOptions, Rung};
//! use lode_index::kv::Store;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("stones.pool");
//! // A pool in a file whose one content is a tree; `rung` is only here for memory that is lost with the power.
//! let options = CreateOptions { rung: Some(Rung::None), ..CreateOptions::new(4 << 20, Store::layout()) };
//! let store = Store::create(&path, &options)?;
//! store.put(b"lodestone", b"magnetite")?;
//! let tree = store.tree()?;
//!
//! // One transaction, one drain, both keys or none.
//! store.heap().run(|tx| {
//!     tree.insert_in(tx, b"basalt", b"volcanic")?;
//!     tree.insert_in(tx, b"marble", b"metamorphic")
//! })?;
//!
//! // A reader takes no lock, and runs beside writers.
//! let reader = tree.reader();
//! let found = reader.get(b"marble")?.ok_or("no marble")?;
//! assert_eq!(&found[..], b"metamorphic");
//! for (entry, key) in reader.prefix(b"l").zip(["lodestone"]) {
//!     assert_eq!(entry?.key, key.as_bytes());
//! }
//! # drop(reader);
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Cost
//! For keys and values of 8 bytes: an insertion is one drain and two lines of the log, a new value for an old
//! key one drain and two lines, a lookup no store at all. A leaf has 32 bytes; all nodes together come to about as
//! many again for random keys.
#![forbid(unsafe_code)]

mod attempt;
mod audit;
pub mod bugs;
mod check;
mod checked;
mod count;
mod cursor;
mod delete;
mod descend;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod hints;
mod insert;
pub mod kv;
mod leaf;
mod lookup;
mod node;
mod range;
mod reader;
mod rebuild;
mod repair;
mod sift;
mod tree;
mod unrest;
mod view;

pub use audit::{LAYOUT_KV, check_pool};
pub use check::Finding;
pub use checked::Value;
pub use error::IndexError;
pub use range::{Entry, Range, prefix_end};
pub use reader::{Reader, UncheckedValue};
pub use repair::{LostRange, Repair, RepairError, repair_pool};
pub use tree::Tree;
