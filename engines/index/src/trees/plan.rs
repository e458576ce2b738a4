//! The plan of a repair: the trees to which loose leaves go, kept in the pool as long as the repair runs.
//!
//! The slots that a pass clears are the evidence for the tree of a leaf. So the plan is durable before the first slot is
//! cleared, and a repair that was killed goes on with it. It is a tree of the table, from the offset of a leaf to the
//! offset of a root object, or to 0 for [`LOST_AND_FOUND`].

use super::Trees;
use crate::error::IndexError;
use crate::tree::Tree;
use lode_heap::{Heap, Tx};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use std::collections::HashMap;

/// Name of the tree of keys whose tree is unknown. A key that it already has, with another value, goes to a tree with a
/// number after the name.
pub(super) const LOST_AND_FOUND: &str = "lost+found";
/// Name of the tree that holds the plan.
const NAME: &str = "lost+found.plan";
/// Name of the type of all bytes, as keys and as values.
pub(super) const BYTES: &str = "bytes";
/// Keys of the plan that one transaction deletes.
const RECLAIM_KEYS: usize = 1024;

/// The root object of the tree to which a leaf goes; `None` if its tree is unknown. A leaf that is missing here has
/// become loose after the plan was made.
pub(super) type Plan = HashMap<PoolOffset, Option<PoolOffset>>;

/// Returns the plan of a repair that was killed, if there was one.
pub(super) fn read<M: Medium>(heap: &Heap<M>, trees: &Trees<'_, M>) -> Result<Option<Plan>, IndexError> {
    let Some(named) = trees.get(NAME)? else { return Ok(None) };
    let mut plan = Plan::new();
    for entry in Tree::open(heap, named.root)?.reader().iter() {
        let entry = entry?;
        if let (Ok(leaf), Ok(root)) = (entry.key.as_slice().try_into(), entry.value[..].try_into()) {
            let root = PoolOffset::new(u64::from_be_bytes(root));
            plan.insert(PoolOffset::new(u64::from_be_bytes(leaf)), (!root.is_null()).then_some(root));
        }
    }
    Ok(Some(plan))
}

/// Stores the plan, as a part of `tx`.
pub(super) fn store_in<M: Medium>(
    heap: &Heap<M>,
    trees: &Trees<'_, M>,
    tx: &Tx<'_, M>,
    plan: &Plan,
) -> Result<(), IndexError> {
    let named = trees.create_in(tx, NAME, BYTES, BYTES)?;
    let tree = Tree::open_in(heap, tx, named.root)?;
    for (leaf, root) in plan {
        let root = root.unwrap_or(PoolOffset::NULL);
        tree.insert_in(tx, &leaf.get().to_be_bytes(), &root.get().to_be_bytes())?;
    }
    Ok(())
}

/// Deletes the plan, if there is one.
pub(super) fn delete<M: Medium>(heap: &Heap<M>, trees: &Trees<'_, M>) -> Result<(), IndexError> {
    if heap.run(|tx| trees.drop_in(tx, NAME))?.is_some() {
        while trees.reclaim(RECLAIM_KEYS)? {}
    }
    Ok(())
}
