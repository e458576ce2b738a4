//! Floor 5: a persistent adaptive radix tree.
#![forbid(unsafe_code)]

mod attempt;
mod count;
mod delete;
mod descend;
mod error;
mod hints;
mod insert;
mod leaf;
mod node;
mod reader;
mod rebuild;
mod tree;
mod view;

pub use error::IndexError;
pub use reader::{Reader, Value};
pub use tree::Tree;
