//! Copying all trees of a snapshot to the table of another pool.

use super::entry::{self, NamedTree, damaged_table};
use super::{Trees, TreesSnapshot};
use crate::error::IndexError;
use crate::snapshot::TreeSnapshot;
use crate::tree::Tree;
use lode_layout::{TREE_CELLS_OFF, TreeTableKey};
use lode_pmem::Medium;

impl<M: Medium> Trees<'_, M> {
    /// Makes all trees that `source` shows in this table, with their names, types, keys and values. Calls `before` with the
    /// number of keys of each transaction before it begins. Returns the number of keys.
    ///
    /// Everything is verified: a tree or a key that damage hides is an error, since the table and each tree have counted
    /// what they hold.
    ///
    /// # Errors
    /// Those of `source`, as `located` makes them, with the name of the tree in which they are; as
    /// [`create_in`](Trees::create_in) and [`Tree::load_sorted`]. The transactions before the error stay.
    ///
    /// # Durability
    /// Each transaction is durable before the next one begins.
    ///
    /// # Cost
    /// A transaction for each tree, and one for every 65,536 keys or 1 MiB of it.
    pub fn copy_from<S: Medium, E: From<IndexError>>(
        &self,
        source: &TreesSnapshot<'_, '_, S>,
        located: impl Fn(Option<&str>, IndexError) -> E,
        mut before: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<u64, E> {
        let heap = self.table.heap();
        let mut keys = 0;
        for (name, tree) in source.all_named().map_err(|error| located(None, error))? {
            let in_tree = |error| located(Some(&name), error);
            let from = source.open_tree(&tree).map_err(in_tree)?;
            let made = heap.run(|tx| self.create_in(tx, &name, &tree.key_type, &tree.value_type))?;
            let entries = from.iter().map(|entry| entry.map_err(in_tree));
            let copied = Tree::open(heap, made.root)?.load_sorted(entries, &mut before)?;
            if copied != from.count().map_err(in_tree)? {
                let at = tree.root.plus(TREE_CELLS_OFF);
                return Err(in_tree(IndexError::Corrupt { what: "the number of keys of a tree", at }));
            }
            keys += copied;
        }
        Ok(keys)
    }
}

impl<'s, 'h, M: Medium> TreesSnapshot<'s, 'h, M> {
    /// Opens a tree that the snapshot shows.
    ///
    /// # Errors
    /// As [`TreeSnapshot::open`].
    pub fn open_tree(&self, tree: &NamedTree) -> Result<TreeSnapshot<'s, 'h, M>, IndexError> {
        self.table.of_same_snapshot(tree.root)
    }

    /// Returns all trees with their names, sorted. Their number, with those that are dropped and not reclaimed, is the one
    /// that the table has counted.
    ///
    /// # Errors
    /// As [`RangeAt`](crate::RangeAt); [`IndexError::Corrupt`] if the table leads to more or fewer trees than it has counted.
    pub fn all_named(&self) -> Result<Vec<(String, NamedTree)>, IndexError> {
        let (mut named, mut found) = (Vec::new(), 0);
        for entry in self.table.iter() {
            let entry = entry?;
            found += 1;
            match TreeTableKey::decode(&entry.key) {
                Ok(TreeTableKey::Named(name)) => {
                    named.push((name.to_owned(), entry::decode(&entry.value, self.at)?));
                }
                Ok(TreeTableKey::Dropped(_)) => {}
                Err(_) => return Err(damaged_table(self.at)),
            }
        }
        if found != self.table.count()? {
            let at = self.at.plus(TREE_CELLS_OFF);
            return Err(IndexError::Corrupt { what: "the number of trees in the table of trees", at });
        }
        Ok(named)
    }
}
