//! The named trees beside the typed data of a pool.

use lode_heap::{Heap, MapPart};
use lode_index::{IndexError, NamedTree, Trees, visit_map};
use lode_layout::PoolOffset;
use lode_pmem::Medium;

/// A part of a tree.
pub(crate) enum TreePart {
    /// An entry, and the offset of its leaf.
    Entry(PoolOffset, Vec<u8>),
    /// Something that can't be right, at this offset.
    Damage(PoolOffset),
}

/// Returns the trees with their names, sorted.
pub(crate) fn named<M: Medium>(heap: &Heap<M>) -> Result<Vec<(String, NamedTree)>, IndexError> {
    let trees = Trees::of_typed(heap)?;
    let mut named = Vec::new();
    for name in heap.run(|tx| trees.names_in(tx))? {
        named.extend(trees.get(&name)?.map(|tree| (name, tree)));
    }
    Ok(named)
}

/// Passes the way to each entry of a tree to `visit`, as `tree "names"[b"key"]`, with the value, and each damage.
pub(crate) fn visit<M: Medium>(
    heap: &Heap<M>,
    name: &str,
    tree: &NamedTree,
    visit: &mut dyn FnMut(String, TreePart),
) {
    let way = format!("tree {name:?}");
    visit_map(heap, tree.root, &mut |part| {
        match part {
            MapPart::Entry { at, key, value } => {
                visit(format!("{way}[b\"{}\"]", key.escape_ascii()), TreePart::Entry(at, value()));
            }
            MapPart::Damage(at) => visit(way.clone(), TreePart::Damage(at)),
            _ => {}
        }
        true
    });
}
