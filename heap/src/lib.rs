//! Floor 4: one-fence durable transactions, and an allocator that needs no fence of its own.
#![deny(unsafe_code)]

mod alloc;
pub mod bugs;
mod error;
mod heap;
mod locks;
mod log;
mod readers;
mod session;
mod tx;
mod writeset;

pub use error::HeapError;
pub use heap::Heap;
pub use locks::Version;
pub use log::{Log, LogArea, Recovery};
pub use readers::Pin;
pub use tx::Tx;
