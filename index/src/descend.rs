//! The way down the tree.
//!
//! Path compression is blind: skipped bytes are stored in leaves only. So a descent may come to a leaf, or to
//! the end of the tree, whose skipped bytes are not those of the key. Who needs to know compares with a leaf;
//! any leaf below a node tells all the bytes that lead to that node.

use crate::error::IndexError;
use crate::leaf::{self, Match};
use crate::node::{self, Node, Symbol};
use crate::view::View;
use lode_layout::{KEY_LEN_MAX, NODE_END, PoolOffset, SlotKind, TreeSlot};

/// A slot on the way down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Who has the slot.
    pub(crate) holder: Node,
    /// Where it is.
    pub(crate) place: PoolOffset,
    /// What it held.
    pub(crate) slot: TreeSlot,
    /// Key bytes that come before those that it skips.
    pub(crate) base: usize,
}

/// Where a descent ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The tree is empty.
    Empty,
    /// At a leaf, to which the last step leads.
    Leaf,
    /// At a node without a child for the key; the last step leads to it.
    Absent(Node),
    /// At a slot that skips more than there is of the key, or than was asked for; the last step leads to this node.
    Inside(Node),
}

/// A descent for a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descent {
    pub(crate) step: Step,
    pub(crate) stop: Stop,
    /// Whether any bytes were skipped.
    pub(crate) skipped: bool,
}

fn unknown(at: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "the slot of the tree", at }
}

/// The slot of the root object at `root`. The tree without a root object is empty.
#[inline(always)]
pub(crate) fn root_slot(view: &impl View, root: PoolOffset) -> TreeSlot {
    if root.is_null() { TreeSlot::EMPTY } else { Node::root(root).end_slot(view) }
}

/// The leaf that `key` has if it has one; the only one that needs to be compared with it.
#[inline(always)]
pub(crate) fn candidate(
    view: &impl View,
    root: PoolOffset,
    key: &[u8],
) -> Result<Option<PoolOffset>, IndexError> {
    let mut place = Node::root(root).end();
    let mut slot = root_slot(view, root);
    let mut depth = 0;
    loop {
        let kind = match slot.kind() {
            SlotKind::Node(kind) => kind,
            SlotKind::Leaf => return Ok(Some(slot.at())),
            SlotKind::Empty => return Ok(None),
            SlotKind::Unknown => return Err(unknown(place)),
        };
        depth += slot.skip();
        if let Some(byte) = key.get(depth) {
            (place, slot) = node::find(view, slot.at(), kind, *byte);
        } else if depth == key.len() {
            place = slot.at().plus(NODE_END);
            slot = TreeSlot::from_word(view.load8(place));
        } else {
            return Ok(None);
        }
        depth += 1;
    }
}

/// Goes down for `key`, but past no node whose depth is greater than `limit`.
#[inline]
pub(crate) fn descend(
    view: &impl View,
    root: PoolOffset,
    key: &[u8],
    limit: usize,
) -> Result<Descent, IndexError> {
    descend_noting(view, root, key, limit, |_| ())
}

/// All steps for `key`, from the root object's.
pub(crate) fn trail(view: &impl View, root: PoolOffset, key: &[u8]) -> Result<Vec<Step>, IndexError> {
    let mut steps = Vec::new();
    let last = descend_noting(view, root, key, key.len(), |step| steps.push(step))?;
    steps.push(last.step);
    Ok(steps)
}

/// Goes down for `key`, and notes each step before the last.
#[inline(always)]
fn descend_noting(
    view: &impl View,
    root: PoolOffset,
    key: &[u8],
    limit: usize,
    mut note: impl FnMut(Step),
) -> Result<Descent, IndexError> {
    let holder = Node::root(root);
    let mut step = Step { holder, place: holder.end(), slot: root_slot(view, root), base: 0 };
    let mut skipped = false;
    loop {
        let stop = match step.slot.kind() {
            SlotKind::Empty => Stop::Empty,
            SlotKind::Leaf => Stop::Leaf,
            SlotKind::Unknown => return Err(unknown(step.place)),
            SlotKind::Node(kind) => {
                let depth = step.base + step.slot.skip();
                let node = Node { at: step.slot.at(), kind: Some(kind), depth };
                if depth > limit.min(key.len()) {
                    Stop::Inside(node)
                } else {
                    skipped |= step.slot.skip() != 0;
                    let (place, slot) = node.find(view, Symbol::of(key, depth));
                    if slot.is_empty() {
                        Stop::Absent(node)
                    } else {
                        note(step);
                        step = Step { holder: node, place, slot, base: depth + 1 };
                        continue;
                    }
                }
            }
        };
        return Ok(Descent { step, stop, skipped });
    }
}

/// Any leaf below `slot`, whose skipped bytes begin after `base`; `None` if others change the tree meanwhile.
///
/// Nodes are never empty; only while it is read may one seem so.
pub(crate) fn any_leaf(
    view: &impl View,
    mut slot: TreeSlot,
    mut base: usize,
) -> Result<Option<PoolOffset>, IndexError> {
    loop {
        let kind = match slot.kind() {
            SlotKind::Leaf => return Ok(Some(slot.at())),
            SlotKind::Node(kind) => kind,
            SlotKind::Empty | SlotKind::Unknown => return Ok(None),
        };
        let node = Node { at: slot.at(), kind: Some(kind), depth: base + slot.skip() };
        if node.depth > KEY_LEN_MAX {
            return Err(IndexError::Corrupt { what: "the path to the node of the tree", at: node.at });
        }
        match node.any_child(view) {
            Some(child) => (slot, base) = (child, node.depth + 1),
            None => return Ok(None),
        }
    }
}

/// Compares `key` with any leaf below `slot`; `None` if others change the tree meanwhile.
pub(crate) fn compare_below(
    view: &impl View,
    slot: TreeSlot,
    base: usize,
    key: &[u8],
) -> Result<Option<Match>, IndexError> {
    Ok(any_leaf(view, slot, base)?.map(|leaf| leaf::compare(view, leaf, key)))
}
