//! Proofs that a tree hides no key: the reasons are in docs/decisions/proof-of-absence.md.

use crate::error::KvError;
use lode_index::{Finding, IndexError, Tree};
use lode_layout::TREE_CELLS_OFF;
use lode_pmem::Medium;

/// Returns a copy of the value of `key`, and proves `None`. No thread may change the tree meanwhile.
///
/// # Errors
/// [`KvError::Index`] as [`Tree::get`]. [`KvError::Unproven`] when the key is not found and there is damage, which may
/// have lost the key.
///
/// # Cost
/// That of a lookup if the key is present, else that of [`Tree::check`].
pub(crate) fn get_proven<M: Medium>(tree: &Tree<'_, M>, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
    let found = tree.get(key)?;
    if found.is_none() {
        prove(tree).map_err(KvError::Unproven)?;
    }
    Ok(found)
}

/// Proves that the tree hides no key: it has no damage, and leads to as many keys as it has counted. No thread may change
/// the tree meanwhile.
///
/// # Errors
/// The first damage.
///
/// # Cost
/// That of [`Tree::check`].
pub(crate) fn prove<M: Medium>(tree: &Tree<'_, M>) -> Result<(), IndexError> {
    let mut damage = None;
    tree.check(|finding| match finding {
        Finding::Damage(error) => drop(damage.get_or_insert(error)),
        Finding::Object(_) => {}
    });
    damage.map_or(Ok(()), Err)
}

/// Returns the number of keys that the tree has counted, after a comparison with those to which it leads. No thread may
/// change the tree meanwhile.
///
/// # Errors
/// [`KvError::Index`] when a node is damaged. [`KvError::Count`] when the tree leads to more or fewer keys.
///
/// # Cost
/// Reads each node once, and no leaf.
pub(crate) fn count_proven<M: Medium>(tree: &Tree<'_, M>) -> Result<u64, KvError> {
    let counted = tree.count()?;
    let found = tree.count_leaves(counted)?;
    if found != counted {
        return Err(KvError::Count { counted, found, at: tree.root().plus(TREE_CELLS_OFF) });
    }
    Ok(counted)
}
