//! Layer 6: a persistent adaptive radix tree, ordered keys and values in a pool.
//!
//! ```text
//!   root object        slot, count cells
//!        |  slot word: key byte | kind | prefix length | offset
//!   inner nodes        4, 16, 48 or 256 slots, and one for the key that ends there
//!        |
//!   leaves             the whole key, the value, a checksum
//! ```
//!
//! A returned value is right, which the checksum of its leaf proves, or an error is returned instead.
//! [`Reader::get_unchecked`] skips the proof for callers that need the last cycles.
//!
//! It does: insert, replace, look up, change, delete, scan both ways, count, check; readers without locks beside
//! writers; any number of operations in one transaction of [`lode_heap`]. It does not: know a medium, keep anything
//! in DRAM except the offset of its root, or start a thread. So opening a tree costs nothing.
//!
//! Path compression is *optimistic*: nodes store none of the bytes that a slot skips. A slot says how many it skips,
//! and the leaf, which has the whole key, decides. So a lookup reads no node's header, and a new fork in the path
//! changes one slot of the node above and nothing below.
//!
//! An insertion, from call to drain: descend without a lock; read the version of the lock of the node to be changed,
//! then the node; take the lock if the version is still the same; put leaf, slot and count into the transaction's
//! record; leave the closure. The heap makes the record durable, writes it back, the slot last, and releases the
//! locks.
//!
//! Readers see every change as one store of one word: a slot that leads to a complete leaf or node. Larger changes
//! make a new node beside the old one. An unlinked object stays as it is while any reader is pinned that could have
//! reached it.
//!
//! # Example
//! ```
//! use lode_heap::{CreateOptions, Pool, Durability};
//! use lode_index::{IndexError, Tree};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("stones.pool");
//! # let layout = lode_layout::LayoutName::new("stones")?;
//! // `durability` is only needed on memory that loses its content with the power.
//! let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(4 << 20, layout) };
//! let pool = Pool::create(&path, &options)?;
//! let root = pool.heap().run(|tx| {
//!     let root = Tree::create(tx)?;
//!     tx.set_root(root);
//!     Ok::<_, IndexError>(root)
//! })?;
//! let tree = Tree::open(pool.heap(), root)?;
//!
//! // One transaction, one drain, both keys or none.
//! pool.heap().run(|tx| {
//!     tree.insert_in(tx, b"basalt", b"volcanic")?;
//!     tree.insert_in(tx, b"marble", b"metamorphic")
//! })?;
//!
//! // A reader takes no lock, and runs beside writers.
//! let reader = tree.reader();
//! let found = reader.get(b"marble")?.ok_or("no marble")?;
//! assert_eq!(&found[..], b"metamorphic");
//! for (entry, key) in reader.prefix(b"b").zip(["basalt"]) {
//!     assert_eq!(entry?.key, key.as_bytes());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Cost
//! For keys and values of 8 bytes, an insertion takes one drain and two lines of the log. So does a new value for an
//! old key. A lookup stores nothing. A leaf has 32 bytes. For random keys, all nodes together come to about as many
//! bytes as all leaves.
#![forbid(unsafe_code)]

mod attempt;
pub mod bugs;
mod check;
mod children;
mod count;
mod cursor;
mod delete;
mod delete_sorted;
mod descend;
mod direction;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod insert;
mod key_bytes;
mod key_range;
mod layout;
mod leaf;
mod load;
mod lookup;
mod losses;
mod map;
mod node;
mod range;
mod reader;
mod rebuild;
mod relocate;
mod salvage;
mod salvage_pass;
mod snapshot;
mod sorted;
mod stability;
mod tree;
mod trees;
mod validated;
mod verified;
mod view;

pub use check::Finding;
pub use direction::Direction;
pub use error::IndexError;
pub use key_range::{KeyBounds, KeyRange};
pub use layout::TreeLayout;
pub use map::{MapKey, MapRange, MapRangeIn, PMap, visit_map};
pub use range::{Entry, Range, RangeIn, Scan, exclude, prefix_end};
pub use reader::{Reader, UncheckedValue};
pub use snapshot::{RangeAt, TreeSnapshot};
pub use tree::Tree;
pub use trees::{NamedTree, StoreLayout, Trees, TreesSnapshot};
pub use verified::Value;
