//! Layer 8: a store of keys and values, which is the layout `kv` of a pool, and loads of text that resume after a kill.
//! Pools of the layout `store`, whose trees have names, are read and copied, too.
//!
//! ```text
//!   Store      the pool's root is a tree, which notes the progress of a load
//!   StoreReader  its keys for reading, in use by another process or not
//!   NamedTrees   the same for the trees of a pool of the layout `store`
//!   CopySource   a pool of either layout, to be copied to a compact one
//!   load       Input -> lines -> Pair --by the key's hash--> threads that share group commits -> LoadEvents
//!   Format     text lines <-> pairs            escape   bytes <-> text without TAB and newline
//! ```
//!
//! # Example
//! ```
//! use lode_heap::{CreateOptions, Durability};
//! use lode_kv::Store;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("stones.pool");
//! // A pool file that holds one tree. `durability` is only needed on memory that loses its content with the power.
//! let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(4 << 20, Store::layout_name()) };
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
#![forbid(unsafe_code)]

mod copy;
mod counted;
mod delete;
mod error;
mod escape;
mod format;
mod input;
mod layouts;
mod line_error;
mod load;
mod named_trees;
mod opening;
mod progress;
mod proof;
mod reader;
mod snapshot;
mod store;

pub use copy::{CopyError, CopyEvents, CopyReport, CopySource};
pub use counted::{CountedTree, CountedTrees};
pub use delete::KeyRange;
pub use error::KvError;
pub use escape::{escape, escape_word, unescape};
pub use format::{Format, Pair};
pub use input::Input;
pub use line_error::LineError;
pub use load::{LineEnd, LoadEvents, LoadOptions, LoadReport, OnError, Transactions};
pub use named_trees::NamedTrees;
pub use reader::StoreReader;
pub use snapshot::StoreSnapshot;
pub use store::{LAYOUT, LAYOUT_NAME, Store};

/// Least size in bytes of a pool with a store in it. A smaller one would have no room for keys.
pub const STORE_SIZE_MIN: u64 = 128 << 10;
