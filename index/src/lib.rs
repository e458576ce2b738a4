//! Floor 5: a persistent adaptive radix tree.
#![forbid(unsafe_code)]

mod attempt;
mod audit;
mod check;
mod count;
mod cursor;
mod delete;
mod descend;
mod error;
mod hints;
mod insert;
mod leaf;
mod node;
mod range;
mod reader;
mod rebuild;
mod repair;
mod sift;
mod tree;
mod view;

pub use audit::{LAYOUT_KV, check_pool};
pub use check::Finding;
pub use error::IndexError;
pub use range::{Entry, Range};
pub use reader::{Reader, Value};
pub use repair::{LostRange, Repair, RepairError, repair_pool};
pub use tree::Tree;
