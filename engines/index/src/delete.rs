//! Removing a key.
//!
//! A node that keeps more than one child only loses the slot. A node that would keep a single child is removed: the
//! child moves up to the slot that led to the node, whose prefix then is longer. If a node above had no other child,
//! it is removed as well.

use crate::attempt::{Attempt, ReadVersion, Retry};
use crate::bugs;
use crate::descend::{Step, Stop, descend, path_to};
use crate::error::IndexError;
use crate::key_bytes::nonzero_bytes;
use crate::leaf;
use crate::node::Node;
use crate::view::View;
use lode_layout::{NodeKind, PREFIX_LEN_MAX, PoolOffset, SlotKind, TreeSlot, WORD};
use lode_pmem::Medium;

/// Number of slots that are counted together.
const SLOTS: usize = 16;
/// Number of children in so many slots above which their node is not taken for a sparse one: about the average of a node of
/// 256 that is to be replaced.
const SPARSE_CHILDREN: usize = 2;

/// The change that removes a leaf. All locks for it are held.
pub(crate) enum Removal {
    /// The leaf's slot becomes empty.
    Clear(Step),
    /// A smaller node of this kind takes the place of the leaf's node. The first step leads to the node, the second
    /// to the leaf.
    Shrink(Step, Step, NodeKind),
    /// The slot at `slot_at` leads to the leaf's last sibling. The nodes between are removed.
    Prune { slot_at: PoolOffset, slot: TreeSlot, nodes: Vec<Node> },
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
    /// Finds the leaf of `key` and locks all that its removal changes; `None` if there is no such leaf, which is noted
    /// as a read.
    pub(crate) fn find_removal(&self, key: &[u8]) -> Result<Option<(PoolOffset, Removal)>, Retry> {
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
        let removal = match step.parent.kind {
            None => self.lock_for_clear(read_version, step)?,
            Some(kind) => match smaller(kind) {
                Some((smaller, most))
                    if self.looks_sparse(&step, most) && self.keeps_at_most(&step, most) =>
                {
                    // A node of many slots has so few children only if the pool had no room for a smaller one.
                    if self.siblings(&step).nth(1).is_none() {
                        self.lock_for_prune(key, read_version, step)?
                    } else {
                        self.lock_for_shrink(key, step, smaller)?
                    }
                }
                None if self.siblings(&step).nth(1).is_none() => {
                    self.lock_for_prune(key, read_version, step)?
                }
                _ => self.lock_for_clear(read_version, step)?,
            },
        };
        Ok(Some((step.slot.at(), removal)))
    }

    fn lock_for_clear(&self, read_version: ReadVersion, step: Step) -> Result<Removal, Retry> {
        self.lock(read_version)?;
        Ok(Removal::Clear(step))
    }

    /// Returns false if the parent of the step has more than `most` other children, as a look at a few of its words tells.
    fn looks_sparse(&self, step: &Step, most: usize) -> bool {
        let (parent, step_off) = (&step.parent, step.slot_at.get());
        if parent.kind == Some(NodeKind::N256) {
            // As long as keys are removed, some removal meets slots that have as few children as a sparse node's.
            let Some(off) = step_off.checked_sub(parent.slot_at(0).get()) else { return true };
            let first = (off / WORD) as usize / SLOTS * SLOTS;
            return self.children_from(step, first) <= SPARSE_CHILDREN;
        }
        let children: usize = parent.key_bytes(self.view).map(nonzero_bytes).sum();
        children <= most + 1
    }

    /// Returns true if the parent of the step has at most `most` other children, the end slot's not counted.
    fn keeps_at_most(&self, step: &Step, most: usize) -> bool {
        let mine = usize::from(step.slot_at != step.parent.end());
        let mut rest = most + mine;
        (0..step.parent.capacity()).step_by(SLOTS).all(|first| {
            let less = rest.checked_sub(self.children_from(step, first));
            rest = less.unwrap_or_default();
            less.is_some()
        })
    }

    /// Returns the number of children in the [`SLOTS`] slots from number `first` on, of the parent of the step.
    fn children_from(&self, step: &Step, first: usize) -> usize {
        let slots: [_; SLOTS] = step.parent.slots(self.view, first);
        slots.iter().filter(|slot| !slot.is_empty()).count()
    }

    /// Returns the other children of the parent of the step, the end slot's included.
    fn siblings(&self, step: &Step) -> impl Iterator<Item = TreeSlot> {
        let end = Some(step.parent.end_slot(self.view)).filter(|slot| !slot.is_empty());
        let mine = step.slot;
        // No two slots lead to the same object.
        end.into_iter().chain(step.parent.children(self.view)).filter(move |slot| *slot != mine)
    }

    /// Returns all steps to `key` if `last` is still the last of them. The one before it leads to its parent.
    fn verified_path(&self, key: &[u8], last: &Step) -> Result<Vec<Step>, Retry> {
        let path = path_to(self.view, self.root, key)?;
        let is_last = path.last().is_some_and(|step| step.slot_at == last.slot_at && step.slot == last.slot);
        if is_last && path.len() > 1 { Ok(path) } else { Err(Retry::Conflict) }
    }

    fn lock_for_shrink(&self, key: &[u8], step: Step, kind: NodeKind) -> Result<Removal, Retry> {
        let path = self.verified_path(key, &step)?;
        let above = path[path.len() - 2];
        self.lock_with_parent(&above, &step.parent)?;
        // Another thread may have changed the node until its version was read again.
        let same = self.view.load8(step.slot_at) == step.slot.word();
        if !same || !self.keeps_at_most(&step, kind.capacity()) {
            return Err(Retry::Conflict);
        }
        Ok(Removal::Shrink(above, step, kind))
    }

    /// Locks the removal of the step's parent, whose only other child moves up. `read_version` is that of the parent.
    fn lock_for_prune(&self, key: &[u8], read_version: ReadVersion, step: Step) -> Result<Removal, Retry> {
        let path = self.verified_path(key, &step)?;
        let Some((top, slot)) = self.merge_target(&path)? else {
            return self.lock_for_clear(read_version, step);
        };
        let read_versions: Result<Vec<ReadVersion>, Retry> =
            path[top..].iter().map(|step| self.validate_parent(step)).collect();
        for read_version in read_versions? {
            self.lock(read_version)?;
        }
        if self.merge_target(&path)? != Some((top, slot)) {
            return Err(Retry::Conflict);
        }
        let nodes = path[top + 1..].iter().map(|step| step.parent).collect();
        Ok(Removal::Prune { slot_at: path[top].slot_at, slot, nodes })
    }

    /// Returns the target of the only sibling of the path's last leaf: the number of the step whose slot leads to the
    /// sibling once the leaf is removed, and the new content of that slot. `None` if the slot would need too long a
    /// prefix.
    fn merge_target(&self, path: &[Step]) -> Result<Option<(usize, TreeSlot)>, Retry> {
        let mut top = path.len() - 1;
        let mut siblings = self.siblings(&path[top]);
        let Some(mut slot) = siblings.next() else {
            return Err(Retry::Inconsistent(path[top].parent.at));
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
            if self.siblings(above).next().is_some() {
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
            self.tx.store8(at, self.view.load8(at) & !(0xFF << shift));
        }
    }

    /// Removes `leaf`.
    pub(crate) fn remove(&self, leaf: PoolOffset, removal: &Removal) -> Result<(), Retry> {
        let cell = self.lock_cell()?;
        match removal {
            Removal::Clear(step) => self.clear_slot(step),
            Removal::Shrink(above, step, kind) => {
                let node = step.parent;
                let rest = |slot: &TreeSlot| *slot != step.slot;
                let end = Some(node.end_slot(self.view)).filter(rest).unwrap_or_default();
                match self.replace(above, &node, *kind, end, node.children(self.view).filter(rest)) {
                    // Removing must succeed in a full pool, so the node stays as large as it is.
                    Err(Retry::Failed(IndexError::Heap(error))) if error.is_out_of_space() => {
                        self.clear_slot(step)
                    }
                    replaced => replaced?,
                }
            }
            Removal::Prune { slot_at, slot, nodes } => {
                self.store_slot(*slot_at, *slot);
                for node in nodes {
                    self.retire(node)?;
                }
            }
        }
        if !bugs::LEAF_LEAKED.is_active() {
            self.tx.free(leaf)?;
        }
        self.count(cell, -1);
        Ok(())
    }
}
