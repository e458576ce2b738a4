//! Freeing a whole tree, inside of the transaction that frees its owner.
//!
//! A node is locked before it is read. So a transaction that changes it at the same time is over, and its change is seen, or it
//! conflicts. Each node is marked dead, as any that is unlinked; the root object leads nowhere from then on, so that a comparison
//! of an older read finds no way to a dead node. Leaves are guarded by the nodes that lead to them.

use crate::node::Node;
use crate::view::View;
use lode_heap::HeapError;
use lode_heap::structure::FreeingTx;
use lode_layout::{META_DEAD, PoolOffset, SlotKind, TYPE_LEAF, TYPE_TREE};

/// The pool as the transaction that frees a tree sees it.
struct Freed<'a>(&'a dyn FreeingTx);

impl View for Freed<'_> {
    fn load8(&self, at: PoolOffset) -> u64 {
        self.0.load8(at)
    }

    fn prefetch(&self, _at: PoolOffset) {}

    fn read(&self, at: PoolOffset, into: &mut [u8]) {
        for (index, bytes) in (0..).zip(into.chunks_mut(8)) {
            let word = self.0.load8(at.plus(index * 8)).to_le_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
    }

    fn len(&self) -> u64 {
        u64::MAX
    }
}

/// Frees the tree whose root object is at `root`, and all its nodes and leaves.
pub(super) fn free_tree(tx: &dyn FreeingTx, root: PoolOffset) -> Result<(), HeapError> {
    let view = Freed(tx);
    let node = Node::root(root);
    lock_node(&view, &node, TYPE_TREE)?;
    let mut slots = vec![(node.end_slot(&view), node.base())];
    tx.store8(node.end(), 0);
    retire(&view, &node)?;
    while let Some((slot, base)) = slots.pop() {
        match slot.kind() {
            SlotKind::Empty => {}
            SlotKind::Unknown => return Err(damage(root)),
            SlotKind::Leaf => {
                check_type(&view, slot.at(), TYPE_LEAF)?;
                tx.free(slot.at())?;
            }
            SlotKind::Node(kind) => {
                let node = Node { at: slot.at(), kind: Some(kind), depth: base + slot.prefix_len() };
                lock_node(&view, &node, kind.type_number())?;
                let children = node.children(&view).chain([node.end_slot(&view)]);
                slots.extend(children.map(|slot| (slot, node.base())));
                retire(&view, &node)?;
            }
        }
    }
    Ok(())
}

/// Locks a node, which is in the tree.
fn lock_node(view: &Freed<'_>, node: &Node, type_number: u64) -> Result<(), HeapError> {
    view.0.lock(node.at)?;
    check_type(view, node.at, type_number)?;
    let is_sound = view.load8(node.meta_at()) == node.meta();
    if is_sound { Ok(()) } else { Err(damage(node.at)) }
}

fn check_type(view: &Freed<'_>, at: PoolOffset, type_number: u64) -> Result<(), HeapError> {
    let is_sound = view.0.object(at)?.1 == type_number;
    if is_sound { Ok(()) } else { Err(damage(at)) }
}

fn damage(at: PoolOffset) -> HeapError {
    HeapError::Corrupt { what: "the node or leaf of the map", at }
}

fn retire(view: &Freed<'_>, node: &Node) -> Result<(), HeapError> {
    view.0.store8(node.meta_at(), META_DEAD);
    view.0.free(node.at)
}
