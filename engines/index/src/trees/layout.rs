//! The table of trees as the content of a whole pool, for [`lode_fsck`].

use super::Trees;
use super::salvage::salvage;
use crate::check::Finding;
use crate::error::IndexError;
use crate::layout::{evacuate_root_tree, report, stays_without_room};
use crate::map::TreeMaps;
use crate::tree::Tree;
use lode_fsck::{DamagedPool, Layout, Maps, Repair, RepairError, ShrinkError, ShrinkEvents, Trace};
use lode_heap::Heap;
use lode_layout::{PoolOffset, TreeEntry, TreeTableKey};
use lode_pmem::Medium;
use std::sync::Arc;

/// Keys of dropped trees that are deleted in one transaction before a pool shrinks.
const RECLAIM_KEYS: usize = 1 << 10;

/// The layout `store`: its root object is that of a table of trees.
#[derive(Clone, Copy, Debug)]
pub struct StoreLayout;

impl StoreLayout {
    /// The name of the layout.
    pub const NAME: &'static str = "store";
}

impl<M: Medium> Layout<M> for StoreLayout {
    fn name(&self) -> &str {
        StoreLayout::NAME
    }

    fn trace(&self, heap: &Heap<Arc<M>>, root: PoolOffset, trace: &mut Trace<'_>) -> bool {
        if root.is_null() {
            return true;
        }
        let Some((_, mut is_complete)) = trace_tree(heap, root, trace) else { return false };
        let mut keys = 0;
        let Ok(trees) = Trees::open(heap, root) else { return false };
        let reader = trees.table.reader();
        for entry in reader.iter() {
            // Damage of the table was reported above.
            let Ok(entry) = entry else {
                is_complete = false;
                continue;
            };
            let tree = match TreeTableKey::decode(&entry.key) {
                Ok(TreeTableKey::Named(_)) => TreeEntry::decode(&entry.value).ok().map(|entry| entry.root),
                Ok(TreeTableKey::Dropped(root)) if entry.value.is_empty() => Some(root),
                _ => None,
            };
            match tree {
                Some(tree) => match trace_tree(heap, tree, trace) {
                    Some((count, is_whole)) => {
                        keys += count;
                        is_complete &= is_whole;
                    }
                    None => is_complete = false,
                },
                None => {
                    trace.damage("an entry of the table of trees", root, "the tree can't be reached");
                    is_complete = false;
                }
            }
        }
        trace.keys(keys);
        is_complete
    }

    fn maps(&self) -> Option<&dyn Maps<M>> {
        Some(&TreeMaps)
    }

    fn salvage(&self, damaged: &DamagedPool<'_, M>, repair: &mut Repair) -> Result<(), RepairError> {
        salvage(damaged, repair)
    }

    fn can_evacuate(&self) -> bool {
        true
    }

    fn evacuate(&self, heap: &Heap<Arc<M>>, events: &dyn ShrinkEvents) -> Result<(), ShrinkError> {
        let root = heap.root().map_err(IndexError::from)?;
        if root.is_null() {
            return Ok(());
        }
        let trees = Trees::open(heap, root)?;
        while trees.reclaim(RECLAIM_KEYS)? {
            if events.is_stopped() {
                return Err(ShrinkError::Stopped);
            }
        }
        let names = heap.run(|tx| trees.names_in(tx))?;
        for name in names {
            let Some(found) = trees.get(&name)? else { continue };
            Tree::open(heap, found.root)?.evacuate(events)?;
            stays_without_room(trees.move_root(&name))?;
        }
        evacuate_root_tree(&trees.table, events)
    }
}

/// Traces the tree at `root`. Returns the number of its leaves, and true if all of its objects were reached; `None` if
/// there is no tree.
fn trace_tree<M: Medium>(
    heap: &Heap<Arc<M>>,
    root: PoolOffset,
    trace: &mut Trace<'_>,
) -> Option<(u64, bool)> {
    match Tree::open(heap, root) {
        Ok(tree) => {
            let mut is_whole = true;
            let count = tree.check(|found| match found {
                Finding::Object(object) => is_whole &= trace.object("the object of the tree", object.at),
                Finding::Damage(error) => {
                    is_whole = false;
                    report(&error, root, trace);
                }
            });
            return Some((count, is_whole));
        }
        Err(IndexError::NoTree { at }) => {
            trace.damage("the root of the tree", at, "no key of it can be reached");
        }
        Err(error) => report(&error, root, trace),
    }
    None
}
