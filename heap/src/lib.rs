//! Floor 4: one-fence durable transactions, and an allocator that needs no fence of its own.
#![deny(unsafe_code)]

mod error;
mod log;

pub use error::HeapError;
pub use log::{Log, LogArea, Recovery};
