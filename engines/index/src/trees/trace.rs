//! The table of trees and its trees, traced for a check.

use super::Trees;
use crate::check::Finding;
use crate::layout::report;
use crate::tree::Tree;
use lode_fsck::Trace;
use lode_heap::Heap;
use lode_layout::{PoolOffset, TreeEntry, TreeTableKey};
use lode_pmem::Medium;
use std::sync::Arc;

/// Passes every object of the table at `root` and of its trees, and every damage, to `trace`. Returns true if all of them were reached.
pub(crate) fn trace_table<M: Medium>(heap: &Heap<Arc<M>>, root: PoolOffset, trace: &mut Trace<'_>) -> bool {
    let Some((_, mut is_complete)) = trace_tree(heap, root, None, trace) else { return false };
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
            Ok(TreeTableKey::Named(name)) => {
                TreeEntry::decode(&entry.value).ok().map(|entry| (entry.root, Some(name)))
            }
            Ok(TreeTableKey::Dropped(root)) if entry.value.is_empty() => Some((root, None)),
            _ => None,
        };
        match tree {
            Some((tree, name)) => match trace_tree(heap, tree, name, trace) {
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

/// Traces the tree at `root`, whose `name` its damages get. Returns the number of its leaves, and true if all of its objects were reached; `None` if
/// there is no tree.
fn trace_tree<M: Medium>(
    heap: &Heap<Arc<M>>,
    root: PoolOffset,
    name: Option<&str>,
    trace: &mut Trace<'_>,
) -> Option<(u64, bool)> {
    match Tree::open(heap, root) {
        Ok(tree) => {
            let mut is_whole = true;
            let count = tree.check(|found| match found {
                Finding::Object(object) => is_whole &= trace.object("the object of the tree", object.at),
                Finding::Damage(error) => {
                    is_whole = false;
                    report(&error, root, name, trace);
                }
            });
            return Some((count, is_whole));
        }
        Err(error) => report(&error, root, name, trace),
    }
    None
}
