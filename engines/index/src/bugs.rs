//! Seeded bugs: each breaks one rule of the tree, and the crash explorer must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;

/// A node is replaced while its parent is not locked.
pub static PARENT_UNLOCKED: Bug =
    Bug::new("parent-unlocked", "the change of another thread in the same slot is lost");
/// Threads count in one cell without a lock.
pub static CELL_UNLOCKED: Bug = Bug::new("cell-unlocked", "the count is not the number of keys");
/// A value changes in place before its record is durable.
pub static VALUE_BEFORE_DRAIN: Bug =
    Bug::new("value-before-drain", "a value is durable although its transaction is not");
/// A leaf that was removed is not freed.
pub static LEAF_LEAKED: Bug = Bug::new("leaf-leaked", "space is lost for good");

/// Every bug of this crate.
pub static ALL: [&Bug; 4] = [&PARENT_UNLOCKED, &CELL_UNLOCKED, &VALUE_BEFORE_DRAIN, &LEAF_LEAKED];
