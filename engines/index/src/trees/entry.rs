//! Entries of the table of trees, decoded.

use crate::error::IndexError;
use lode_layout::{PoolOffset, TREE_NAME_LEN_MAX, TYPE_NAME_LEN_MAX, TreeEntry, TreeTableKey};

/// A tree that was found by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTree {
    /// Offset of its root object.
    pub root: PoolOffset,
    /// Name of the type of its keys.
    pub key_type: String,
    /// Name of the type of its values.
    pub value_type: String,
}

impl NamedTree {
    pub(super) fn of(entry: TreeEntry<'_>) -> NamedTree {
        let TreeEntry { root, key_type, value_type } = entry;
        NamedTree { root, key_type: key_type.to_owned(), value_type: value_type.to_owned() }
    }

    pub(super) fn entry(&self) -> TreeEntry<'_> {
        TreeEntry { root: self.root, key_type: &self.key_type, value_type: &self.value_type }
    }
}

/// Refuses names that the table can't hold.
pub(super) fn check_name(name: &str, types: [&str; 2]) -> Result<(), IndexError> {
    let is_valid = (1..=TREE_NAME_LEN_MAX).contains(&name.len())
        && types.iter().all(|name| name.len() <= TYPE_NAME_LEN_MAX);
    if is_valid { Ok(()) } else { Err(IndexError::TreeName { len: name.len() }) }
}

/// Decodes the value of a name in the table.
pub(super) fn decode(entry: &[u8], table: PoolOffset) -> Result<NamedTree, IndexError> {
    TreeEntry::decode(entry).map(NamedTree::of).map_err(|_| damaged_table(table))
}

/// Returns the name of the tree to which the key of the table belongs.
pub(super) fn name_of(key: &[u8], table: PoolOffset) -> Result<String, IndexError> {
    match TreeTableKey::decode(key) {
        Ok(TreeTableKey::Named(name)) => Ok(name.to_owned()),
        _ => Err(damaged_table(table)),
    }
}

/// Returns the error of an entry that no program stores.
#[cold]
pub(super) fn damaged_table(table: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "an entry of the table of trees", at: table }
}
