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
/// A transaction does not note that it found a tree by its name.
pub static TREE_NAME_UNVALIDATED: Bug =
    Bug::new("tree-name-unvalidated", "a key is put to a tree that was dropped before");
/// A dropped tree gets no entry of its own in the table of trees.
pub static DROPPED_TREE_FORGOTTEN: Bug =
    Bug::new("dropped-tree-forgotten", "the space of a dropped tree is lost for good");
/// The root object of a dropped tree is not freed.
pub static DROPPED_ROOT_LEAKED: Bug = Bug::new("dropped-root-leaked", "space is lost for good");
/// A root object moves in one transaction, and the entry of its tree changes in the next one.
pub static ROOT_MOVED_IN_TWO: Bug =
    Bug::new("root-moved-in-two", "a tree has no root object after a shrink that was cut off");

/// Every bug of this crate.
pub static ALL: [&Bug; 8] = [
    &PARENT_UNLOCKED,
    &CELL_UNLOCKED,
    &VALUE_BEFORE_DRAIN,
    &LEAF_LEAKED,
    &TREE_NAME_UNVALIDATED,
    &DROPPED_TREE_FORGOTTEN,
    &DROPPED_ROOT_LEAKED,
    &ROOT_MOVED_IN_TWO,
];
