//! The trees of a store with their numbers of keys.

use crate::error::KvError;
use lode_index::{IndexError, NamedTree};
use lode_layout::TREE_CELLS_OFF;

/// All trees of a store, and their numbers of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedTrees {
    /// The trees, sorted by name.
    pub trees: Vec<CountedTree>,
    /// Number of keys in all trees.
    pub keys: u64,
}

/// A tree of a store, and its number of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedTree {
    /// Its name.
    pub name: String,
    /// Number of keys as the tree has counted them. It is not proved.
    pub keys: u64,
    /// Its root object, and the names of its types.
    pub tree: NamedTree,
}

impl CountedTrees {
    /// Counts the keys of `named` trees by `count`. Names the tree in its error.
    pub(crate) fn count(
        named: impl IntoIterator<Item = Result<(String, NamedTree), KvError>>,
        mut count: impl FnMut(&NamedTree) -> Result<u64, KvError>,
    ) -> Result<CountedTrees, KvError> {
        let mut counted = CountedTrees { trees: Vec::new(), keys: 0 };
        for found in named {
            let (name, tree) = found?;
            let keys = count(&tree).map_err(|error| error.in_tree(&name))?;
            counted.keys = counted.keys.checked_add(keys).ok_or_else(|| {
                let at = tree.root.plus(TREE_CELLS_OFF);
                KvError::from(IndexError::Corrupt { what: "the number of keys of a tree", at }).in_tree(&name)
            })?;
            counted.trees.push(CountedTree { name, keys, tree });
        }
        Ok(counted)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::PoolOffset;

    #[test]
    fn more_keys_than_fit_are_damage() {
        let named = |name: &str| {
            let root = PoolOffset::new(64);
            Ok((name.to_owned(), NamedTree { root, key_type: String::new(), value_type: String::new() }))
        };
        let count = |counts: [u64; 2]| {
            let mut counts = counts.into_iter();
            CountedTrees::count(["left", "right"].map(named), |_| Ok(counts.next().expect("two trees")))
        };
        assert_eq!(count([u64::MAX - 1, 1]).expect("the sum fits").keys, u64::MAX);
        let error = count([u64::MAX, 1]).expect_err("the sum does not fit");
        assert!(error.is_damage() && error.to_string().starts_with("the tree \"right\": "), "{error}");
    }
}
