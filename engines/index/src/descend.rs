//! Descending the tree.
//!
//! Path compression is optimistic: only leaves hold the skipped bytes. So a descent may end below skipped bytes that
//! are not those of the key. An operation that depends on them compares the key with a leaf. Any leaf below a node
//! holds all the bytes that lead to that node.

use crate::error::IndexError;
use crate::leaf::{self, Match};
use crate::node::{self, Node, Symbol};
use crate::view::View;
use lode_layout::{KEY_LEN_MAX, NODE_END, PoolOffset, SlotKind, TreeSlot};

/// A slot on the way down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The node that has the slot.
    pub(crate) parent: Node,
    /// Offset of the slot.
    pub(crate) slot_at: PoolOffset,
    /// Content of the slot when it was read.
    pub(crate) slot: TreeSlot,
    /// Number of key bytes before those that the slot skips.
    pub(crate) base: usize,
}

impl Step {
    /// Returns the node to which the step leads, if it leads to one.
    #[inline]
    pub(crate) fn node(&self) -> Option<Node> {
        match self.slot.kind() {
            SlotKind::Node(kind) => {
                let depth = self.base + self.slot.prefix_len();
                Some(Node { at: self.slot.at(), kind: Some(kind), depth })
            }
            SlotKind::Leaf | SlotKind::Empty | SlotKind::Unknown => None,
        }
    }
}

/// The end of a descent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The tree is empty.
    Empty,
    /// A leaf, to which the last step leads.
    Leaf,
    /// A node without a child for the key. The last step leads to it.
    NoChild(Node),
    /// The prefix of the last step's slot ends past the key, or past the limit. It leads to this node.
    InPrefix(Node),
}

/// A descent for a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descent {
    pub(crate) step: Step,
    pub(crate) stop: Stop,
    /// True if any slot on the way has a prefix.
    pub(crate) has_prefix: bool,
}

fn corrupt_slot(at: PoolOffset) -> IndexError {
    IndexError::Corrupt { what: "the slot of the tree", at }
}

/// Returns the slot of the root object at `root`. A tree without a root object is empty.
#[inline(always)]
pub(crate) fn root_slot(view: &impl View, root: PoolOffset) -> TreeSlot {
    if root.is_null() { TreeSlot::EMPTY } else { Node::root(root).end_slot(view) }
}

/// Returns the only leaf that `key` can have. The caller compares the key with it.
#[inline(always)]
pub(crate) fn candidate_leaf(
    view: &impl View,
    root: PoolOffset,
    key: &[u8],
) -> Result<Option<PoolOffset>, IndexError> {
    let mut slot_at = Node::root(root).end();
    let mut slot = root_slot(view, root);
    let mut depth = 0;
    loop {
        let kind = match slot.kind() {
            SlotKind::Node(kind) => kind,
            SlotKind::Leaf => return Ok(Some(slot.at())),
            SlotKind::Empty => return Ok(None),
            SlotKind::Unknown => return Err(corrupt_slot(slot_at)),
        };
        depth += slot.prefix_len();
        if let Some(byte) = key.get(depth) {
            (slot_at, slot) = node::find(view, slot.at(), kind, *byte);
        } else if depth == key.len() {
            slot_at = slot.at().plus(NODE_END);
            slot = TreeSlot::from_word(view.load8(slot_at));
        } else {
            return Ok(None);
        }
        depth += 1;
    }
}

/// Descends for `key`, but past no node whose depth is greater than `limit`.
#[inline]
pub(crate) fn descend(
    view: &impl View,
    root: PoolOffset,
    key: &[u8],
    limit: usize,
) -> Result<Descent, IndexError> {
    descend_visiting(view, root_step(view, root), key, limit, |_| ())
}

/// Returns all steps for `key`, from the root object's on.
pub(crate) fn path_to(view: &impl View, root: PoolOffset, key: &[u8]) -> Result<Vec<Step>, IndexError> {
    let mut steps = Vec::new();
    let last = descend_visiting(view, root_step(view, root), key, key.len(), |step| steps.push(step))?;
    steps.push(last.step);
    Ok(steps)
}

/// Returns the step that every descent from the root object at `root` begins with.
#[inline(always)]
pub(crate) fn root_step(view: &impl View, root: PoolOffset) -> Step {
    let parent = Node::root(root);
    Step { parent, slot_at: parent.end(), slot: root_slot(view, root), base: 0 }
}

/// Descends for `key` from `step` on, and passes each step before the last to `visit`.
#[inline(always)]
pub(crate) fn descend_visiting(
    view: &impl View,
    mut step: Step,
    key: &[u8],
    limit: usize,
    mut visit: impl FnMut(Step),
) -> Result<Descent, IndexError> {
    let mut has_prefix = false;
    loop {
        let stop = match step.slot.kind() {
            SlotKind::Empty => Stop::Empty,
            SlotKind::Leaf => Stop::Leaf,
            SlotKind::Unknown => return Err(corrupt_slot(step.slot_at)),
            SlotKind::Node(kind) => {
                let depth = step.base + step.slot.prefix_len();
                let node = Node { at: step.slot.at(), kind: Some(kind), depth };
                if depth > limit.min(key.len()) {
                    Stop::InPrefix(node)
                } else {
                    has_prefix |= step.slot.prefix_len() != 0;
                    let (slot_at, slot) = find_child(view, &node, key);
                    if slot.is_empty() {
                        Stop::NoChild(node)
                    } else {
                        visit(step);
                        step = Step { parent: node, slot_at, slot, base: depth + 1 };
                        continue;
                    }
                }
            }
        };
        return Ok(Descent { step, stop, has_prefix });
    }
}

/// Returns the offset and content of the slot for `key` in a node on its way, as [`Node::find`] does.
#[inline(always)]
pub(crate) fn find_child(view: &impl View, node: &Node, key: &[u8]) -> (PoolOffset, TreeSlot) {
    #[cfg(test)]
    NODES_SEARCHED.set(NODES_SEARCHED.get() + 1);
    node.find(view, Symbol::of(key, node.depth))
}

#[cfg(test)]
thread_local! {
    /// Number of nodes that descents of this thread have searched.
    pub(crate) static NODES_SEARCHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Returns any leaf below `slot`, which skips bytes from number `base` on. `None` if others change the tree
/// meanwhile.
///
/// A node in the tree is never empty. It may seem empty only while other threads change it.
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
        let node = Node { at: slot.at(), kind: Some(kind), depth: base + slot.prefix_len() };
        if node.depth > KEY_LEN_MAX {
            return Err(IndexError::Corrupt { what: "the path to the node of the tree", at: node.at });
        }
        match node.any_child(view) {
            Some(child) => (slot, base) = (child, node.depth + 1),
            None => return Ok(None),
        }
    }
}

/// Compares `key` with any leaf below `slot`. `None` if others change the tree meanwhile.
pub(crate) fn compare_below(
    view: &impl View,
    slot: TreeSlot,
    base: usize,
    key: &[u8],
) -> Result<Option<Match>, IndexError> {
    Ok(any_leaf(view, slot, base)?.map(|leaf| leaf::compare(view, leaf, key)))
}
