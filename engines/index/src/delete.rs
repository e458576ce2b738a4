//! Removing keys whose leaves have one parent: mostly a single key.
//!
//! A node that keeps more than one child only loses the slots. A node that would keep a single child is removed: the
//! child moves up to the slot that led to the node, whose prefix then is longer. If a node above had no other child,
//! it is removed as well.
//!
//! If a node would keep no child, the last leaf is left in the tree for now. So it moves up, and the caller removes it
//! from the node above, perhaps together with others.

use crate::attempt::{Attempt, ReadVersion, Retry};
use crate::bugs;
use crate::descend::{Step, Stop, descend, find_child, path_to};
use crate::error::IndexError;
use crate::key_bytes::nonzero_bytes;
use crate::leaf;
use crate::node::{Node, Symbol};
use crate::view::View;
use lode_layout::{NodeKind, PREFIX_LEN_MAX, PoolOffset, SlotKind, TreeSlot, WORD};
use lode_pmem::Medium;

/// Number of slots that are counted together.
const SLOTS: usize = 16;
/// Number of children in so many slots above which their node is not taken for a sparse one: about the average of a node of
/// 256 that is to be replaced.
const SPARSE_CHILDREN: usize = 2;

/// Leaves of one node that are to be removed.
#[derive(Debug)]
pub(crate) struct Leaves {
    /// The step to the first leaf, and those to the others.
    first: Step,
    others: Vec<Step>,
    /// The leaves' bytes in the node, 64 in a word.
    bytes: [u64; 4],
}

impl Leaves {
    fn of(first: Step) -> Leaves {
        let mut leaves = Leaves { first, others: Vec::new(), bytes: [0; 4] };
        leaves.mark(&first);
        leaves
    }

    fn push(&mut self, step: Step) {
        self.mark(&step);
        self.others.push(step);
    }

    /// Leaves the last leaf in the tree. The first one stays in the set.
    fn pop(&mut self) -> Option<Step> {
        let step = self.others.pop()?;
        self.mark(&step);
        Some(step)
    }

    /// Adds the step's byte to the set, or removes it.
    fn mark(&mut self, step: &Step) {
        if !is_end(step) {
            let byte = step.slot.byte();
            self.bytes[usize::from(byte / 64)] ^= 1 << (byte % 64);
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns the node whose children the leaves are.
    fn parent(&self) -> &Node {
        &self.first.parent
    }

    /// Returns the number of leaves.
    pub(crate) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the number of leaves, that in the end slot not counted.
    fn len_without_end(&self) -> usize {
        self.steps().filter(|step| !is_end(step)).count()
    }

    fn has_end(&self) -> bool {
        self.steps().any(is_end)
    }

    /// Returns true if the child in `slot`, which is not the end slot, is one of the leaves.
    fn has(&self, slot: TreeSlot) -> bool {
        let byte = slot.byte();
        self.bytes[usize::from(byte / 64)] >> (byte % 64) & 1 != 0
    }
}

fn is_end(step: &Step) -> bool {
    step.slot_at == step.parent.end()
}

/// The removal of leaves. All locks for it are held.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) leaves: Leaves,
    change: NodeChange,
}

/// The change of the leaves' parent.
#[derive(Debug)]
enum NodeChange {
    /// The leaves' slots become empty.
    Clear,
    /// A smaller node of this kind takes its place. The step leads to it.
    Shrink(Step, NodeKind),
    /// The slot at `slot_at` leads to the only child that stays. The nodes between are removed.
    Prune { slot_at: PoolOffset, slot: TreeSlot, nodes: Vec<Node> },
}

impl Removal {
    /// Returns true if the leaves' parent goes with them.
    pub(crate) fn is_prune(&self) -> bool {
        matches!(self.change, NodeChange::Prune { .. })
    }
}

/// Returns the kind that replaces a node of `kind`, and the number of remaining children at which it does. The number
/// is below the smaller node's capacity, so that keys that come and go do not replace nodes each time.
fn smaller(kind: NodeKind) -> Option<(NodeKind, usize)> {
    match kind {
        NodeKind::N4 => None,
        NodeKind::N16 => Some((NodeKind::N4, 3)),
        NodeKind::N48 => Some((NodeKind::N16, 12)),
        NodeKind::N256 => Some((NodeKind::N48, 36)),
    }
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Finds the leaf of the first key, and those of the keys after it that have the same parent. Locks all that their
    /// removal changes. `None` if there is no leaf of the first key, which is noted as a read.
    pub(crate) fn find_removal(&self, keys: &[&[u8]]) -> Result<Option<Removal>, Retry> {
        let key = keys[0];
        let descent = descend(self.view, self.root, key, key.len())?;
        let step = descent.step;
        if !matches!(descent.stop, Stop::Leaf) {
            self.note_absence(key, &descent)?;
            return Ok(None);
        }
        if !leaf::has_key(self.view, step.slot.at(), key) {
            self.verify_absence(key)?;
            self.note_absence(key, &descent)?;
            return Ok(None);
        }
        let read_version = self.validate_parent(&step)?;
        if !is_end(&step) && Symbol::of(key, step.parent.depth) != Symbol::Byte(step.slot.byte()) {
            return Err(Retry::Inconsistent(step.parent.at));
        }
        let mut leaves = self.leaves_with(step, &keys[1..]);
        let smaller = self.kind_after(&leaves);
        if step.parent.kind == Some(NodeKind::N4) || smaller == Some(NodeKind::N4) {
            let mut siblings = self.siblings(&leaves);
            let (has_sibling, has_more) = (siblings.next().is_some(), siblings.next().is_some());
            drop(siblings);
            let keeps_one = if has_sibling { !has_more } else { leaves.pop().is_some() || !has_more };
            // A node of many slots has so few children if the pool had no room for a smaller one, or many are removed.
            if keeps_one {
                return self.lock_for_prune(key, read_version, leaves).map(Some);
            }
        }
        let removal = match smaller {
            Some(kind) => self.lock_for_shrink(key, leaves, kind)?,
            None => self.lock_for_clear(read_version, leaves)?,
        };
        Ok(Some(removal))
    }

    /// Returns the leaf to which `step` leads, and the leaves of `keys`, as long as they have the same parent.
    fn leaves_with(&self, step: Step, keys: &[&[u8]]) -> Leaves {
        let mut leaves = Leaves::of(step);
        for key in keys {
            let (slot_at, slot) = find_child(self.view, &step.parent, key);
            let is_leaf = slot.kind() == SlotKind::Leaf && leaf::has_key(self.view, slot.at(), key);
            let is_new = match Symbol::of(key, step.parent.depth) {
                // The root's only slot is its end slot, whatever the key begins with.
                _ if slot_at == step.parent.end() => !leaves.has_end(),
                Symbol::End => false,
                Symbol::Byte(byte) => slot.byte() == byte && !leaves.has(slot),
            };
            if !(is_leaf && is_new) {
                break;
            }
            leaves.push(Step { slot_at, slot, ..step });
        }
        leaves
    }

    /// Returns the kind of node that is to replace the parent of the leaves when they are removed; `None` if the parent
    /// stays.
    fn kind_after(&self, leaves: &Leaves) -> Option<NodeKind> {
        let mut next = smaller(leaves.parent().kind?);
        let mut found = None;
        while let Some((kind, most)) = next
            && (found.is_some() || self.looks_sparse(leaves, most))
            && self.keeps_at_most(leaves, most)
        {
            (found, next) = (Some(kind), smaller(kind));
        }
        found
    }

    fn lock_for_clear(&self, read_version: ReadVersion, leaves: Leaves) -> Result<Removal, Retry> {
        self.lock(read_version)?;
        Ok(Removal { leaves, change: NodeChange::Clear })
    }

    /// Returns false if the parent of the leaves has more than `most` other children, as a look at a few of its words
    /// tells.
    fn looks_sparse(&self, leaves: &Leaves, most: usize) -> bool {
        let (parent, step_off) = (leaves.parent(), leaves.first.slot_at.get());
        if parent.kind == Some(NodeKind::N256) {
            // A count of all children costs little for each of many leaves. As long as single keys are removed, some removal
            // meets slots that have as few children as a sparse node's.
            let Some(off) = step_off.checked_sub(parent.slot_at(0).get()) else { return true };
            let first = (off / WORD) as usize / SLOTS * SLOTS;
            let sparse = SPARSE_CHILDREN + leaves.len();
            return leaves.len() >= SLOTS / 2 || self.children_from(parent, first) < sparse;
        }
        let children: usize = parent.key_bytes(self.view).map(nonzero_bytes).sum();
        children <= most + leaves.len()
    }

    /// Returns true if the parent of the leaves has at most `most` other children, the end slot's not counted.
    fn keeps_at_most(&self, leaves: &Leaves, most: usize) -> bool {
        let parent = leaves.parent();
        let mut rest = most + leaves.len_without_end();
        (0..parent.capacity()).step_by(SLOTS).all(|first| {
            let less = rest.checked_sub(self.children_from(parent, first));
            rest = less.unwrap_or_default();
            less.is_some()
        })
    }

    /// Returns the number of children of `parent` in the [`SLOTS`] slots from number `first` on.
    fn children_from(&self, parent: &Node, first: usize) -> usize {
        let slots: [_; SLOTS] = parent.slots(self.view, first);
        slots.iter().filter(|slot| !slot.is_empty()).count()
    }

    /// Returns the other children of the parent of the leaves, the end slot's included.
    fn siblings(&self, leaves: &Leaves) -> impl Iterator<Item = TreeSlot> {
        let parent = leaves.parent();
        let end = Some(parent.end_slot(self.view)).filter(|slot| !slot.is_empty() && !leaves.has_end());
        end.into_iter().chain(parent.children(self.view).filter(|slot| !leaves.has(*slot)))
    }

    /// Returns an error if another thread has changed the slot of a leaf. Its parent is locked.
    fn recheck(&self, leaves: &Leaves) -> Result<(), Retry> {
        let is_same = leaves.steps().all(|step| self.view.load8(step.slot_at) == step.slot.word());
        if is_same { Ok(()) } else { Err(Retry::Conflict) }
    }

    /// Returns all steps to `key` if `last` is still the last of them. The one before it leads to its parent.
    fn verified_path(&self, key: &[u8], last: &Step) -> Result<Vec<Step>, Retry> {
        let path = path_to(self.view, self.root, key)?;
        let is_last = path.last().is_some_and(|step| step.slot_at == last.slot_at && step.slot == last.slot);
        if is_last && path.len() > 1 { Ok(path) } else { Err(Retry::Conflict) }
    }

    fn lock_for_shrink(&self, key: &[u8], leaves: Leaves, kind: NodeKind) -> Result<Removal, Retry> {
        let path = self.verified_path(key, &leaves.first)?;
        let above = path[path.len() - 2];
        self.lock_with_parent(&above, leaves.parent())?;
        // Another thread may have changed the node until its version was read again.
        self.recheck(&leaves)?;
        let keeps_two = self.siblings(&leaves).nth(1).is_some();
        if !keeps_two || !self.keeps_at_most(&leaves, kind.capacity()) {
            return Err(Retry::Conflict);
        }
        Ok(Removal { leaves, change: NodeChange::Shrink(above, kind) })
    }

    /// Locks the removal of the leaves' parent, whose only other child moves up. `read_version` is that of the parent.
    fn lock_for_prune(
        &self,
        key: &[u8],
        read_version: ReadVersion,
        leaves: Leaves,
    ) -> Result<Removal, Retry> {
        let path = self.verified_path(key, &leaves.first)?;
        let Some((top, slot)) = self.merge_target(&path, &leaves)? else {
            return self.lock_for_clear(read_version, leaves);
        };
        let read_versions: Result<Vec<ReadVersion>, Retry> =
            path[top..].iter().map(|step| self.validate_parent(step)).collect();
        for read_version in read_versions? {
            self.lock(read_version)?;
        }
        self.recheck(&leaves)?;
        if self.merge_target(&path, &leaves)? != Some((top, slot)) {
            return Err(Retry::Conflict);
        }
        let nodes = path[top + 1..].iter().map(|step| step.parent).collect();
        Ok(Removal { leaves, change: NodeChange::Prune { slot_at: path[top].slot_at, slot, nodes } })
    }

    /// Returns the target of the only sibling of the leaves, to the first of which the path leads: the number of the step
    /// whose slot leads to the sibling once the leaves are removed, and the new content of that slot. `None` if the slot
    /// would need too long a prefix.
    fn merge_target(&self, path: &[Step], leaves: &Leaves) -> Result<Option<(usize, TreeSlot)>, Retry> {
        let mut top = path.len() - 1;
        let mut siblings = self.siblings(leaves);
        let Some(mut slot) = siblings.next() else {
            return Err(Retry::Inconsistent(leaves.parent().at));
        };
        if siblings.next().is_some() {
            return Err(Retry::Conflict);
        }
        // The parent of step `top` is removed. Its only remaining child is `slot`, which moves up to the step above.
        while top > 0 {
            let above = &path[top - 1];
            let joined = above.slot.prefix_len() + 1 + slot.prefix_len();
            let prefix_len = if slot.kind() == SlotKind::Leaf { 0 } else { joined };
            if prefix_len > PREFIX_LEN_MAX {
                break;
            }
            slot = slot.with_byte(above.slot.byte()).with_prefix_len(prefix_len);
            top -= 1;
            if self.siblings(&Leaves::of(*above)).next().is_some() {
                break;
            }
        }
        Ok((top + 1 < path.len()).then_some((top, slot)))
    }

    /// Empties the step's slot.
    fn clear_slot(&self, step: &Step) {
        self.store_slot(step.slot_at, TreeSlot::EMPTY);
        if let Some((at, shift)) = step.parent.key_byte_at(step.slot_at) {
            // ORDER: the key byte is cleared after the slot; see `node::find_by_key_byte`.
            // The word may have lost the byte of another leaf before, which the attempt's view need not show.
            self.tx.store8(at, self.tx.load8(at) & !(0xFF << shift));
        }
    }

    /// Empties the slots of the leaves.
    fn clear_slots(&self, leaves: &Leaves) {
        leaves.steps().for_each(|step| self.clear_slot(step));
    }

    /// Removes the leaves.
    pub(crate) fn remove(&self, Removal { leaves, change }: &Removal) -> Result<(), Retry> {
        let cell = self.lock_cell()?;
        match change {
            NodeChange::Clear => self.clear_slots(leaves),
            NodeChange::Shrink(above, kind) => {
                let node = leaves.parent();
                let end = if leaves.has_end() { TreeSlot::EMPTY } else { node.end_slot(self.view) };
                let rest = node.children(self.view).filter(|slot| !leaves.has(*slot));
                match self.replace(above, node, *kind, end, rest) {
                    // Removing must succeed in a full pool, so the node stays as large as it is.
                    Err(Retry::Failed(IndexError::Heap(error))) if error.is_out_of_space() => {
                        self.clear_slots(leaves)
                    }
                    replaced => replaced?,
                }
            }
            NodeChange::Prune { slot_at, slot, nodes } => {
                self.store_slot(*slot_at, *slot);
                for node in nodes {
                    self.retire(node)?;
                }
            }
        }
        if !bugs::LEAF_LEAKED.is_active() {
            leaves.steps().try_for_each(|step| self.tx.free(step.slot.at()))?;
        }
        self.count(cell, -(leaves.len() as i64));
        Ok(())
    }
}
