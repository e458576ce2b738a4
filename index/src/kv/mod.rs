//! The layout `kv`: a tree of keys and values as the pool's only content, and loading it from text.
//!
//! ```text
//!   Store      the pool's root is a tree, which notes how far a load has come
//!   load       Input -> lines -> Pair --by the key's hash--> threads that share group commits -> LoadEvents
//!   Format     text lines <-> pairs            escape   bytes <-> text without TAB and newline
//! ```

mod error;
mod escape;
mod format;
mod input;
mod load;
mod progress;
mod store;

pub use error::{KvError, LineError};
pub use escape::{escape, unescape};
pub use format::{Format, Pair};
pub use input::Input;
pub use load::{LoadEvents, LoadOptions, LoadReport, OnError};
pub use store::{LAYOUT_NAME, Store};

/// Least size in bytes of a pool with a store in it. A smaller one would have no room for keys.
pub const STORE_SIZE_MIN: u64 = 128 << 10;
