//! Removing a key.
//!
//! A node that keeps more than one child only loses the slot. A node that would keep a single child is removed: the
//! child moves up to the slot that led to the node, which then skips more bytes. If a node above had no other child,
//! it is removed as well.

use crate::attempt::{Attempt, Met, Miss};
use crate::bugs;
use crate::descend::{Step, Stop, descend, trail};
use crate::error::IndexError;
use crate::leaf;
use crate::node::Node;
use crate::view::View;
use lode_heap::HeapError;
use lode_layout::{NodeKind, PoolOffset, SKIP_MAX, SlotKind, TreeSlot};
use lode_pmem::Medium;

/// The change that removes a leaf. All locks for it are held.
pub(crate) enum Removal {
    /// The leaf's slot becomes empty.
    Clear(Step),
    /// A smaller node of this kind takes the place of the leaf's node. The first step leads to the node, the second
    /// to the leaf.
    Shrink(Step, Step, NodeKind),
    /// The slot at `place` leads to the leaf's last sibling. The nodes between are removed.
    Prune { place: PoolOffset, slot: TreeSlot, nodes: Vec<Node> },
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
    /// Finds the leaf of `key` and locks all that its removal changes; `None` if there is no such leaf.
    pub(crate) fn removal(&self, key: &[u8]) -> Result<Option<(PoolOffset, Removal)>, Miss> {
        let descent = descend(self.view, self.root, key, key.len())?;
        let step = descent.step;
        if !matches!(descent.stop, Stop::Leaf) {
            return Ok(None);
        }
        if !leaf::is_of(self.view, step.slot.at(), key) {
            self.vouch_for_absence(key)?;
            return Ok(None);
        }
        let met = self.meet_holder(&step)?;
        let removal = match step.holder.kind {
            None => self.clear(met, step)?,
            Some(kind) => match smaller(kind) {
                Some((smaller, most)) if self.leaves_at_most(&step, most) => {
                    // A node of many slots has so few children only if the pool had no room for a smaller one.
                    if self.siblings(&step).nth(1).is_none() {
                        self.prune(key, met, step)?
                    } else {
                        self.shrink(key, step, smaller)?
                    }
                }
                None if self.siblings(&step).nth(1).is_none() => self.prune(key, met, step)?,
                _ => self.clear(met, step)?,
            },
        };
        Ok(Some((step.slot.at(), removal)))
    }

    fn clear(&self, met: Met, step: Step) -> Result<Removal, Miss> {
        self.lock(met)?;
        Ok(Removal::Clear(step))
    }

    /// Returns true if the holder of the step's slot has at most `most` other children, the end slot's not counted.
    fn leaves_at_most(&self, step: &Step, most: usize) -> bool {
        let mine = usize::from(step.place != step.holder.end());
        step.holder.children(self.view).take(most + mine + 1).count() <= most + mine
    }

    /// Returns the other children of the holder of the step's slot, the end slot's included.
    fn siblings(&self, step: &Step) -> impl Iterator<Item = TreeSlot> {
        let end = Some(step.holder.end_slot(self.view)).filter(|slot| !slot.is_empty());
        let mine = step.slot;
        // No two slots lead to the same object.
        end.into_iter().chain(step.holder.children(self.view)).filter(move |slot| *slot != mine)
    }

    /// Returns all steps to `key` if `last` is still the last of them. The one before it leads to its holder.
    fn trail_to(&self, key: &[u8], last: &Step) -> Result<Vec<Step>, Miss> {
        let trail = trail(self.view, self.root, key)?;
        let is_last = trail.last().is_some_and(|step| step.place == last.place && step.slot == last.slot);
        if is_last && trail.len() > 1 { Ok(trail) } else { Err(Miss::Conflict) }
    }

    fn shrink(&self, key: &[u8], step: Step, kind: NodeKind) -> Result<Removal, Miss> {
        let trail = self.trail_to(key, &step)?;
        let above = trail[trail.len() - 2];
        self.lock_link(&above, &step.holder)?;
        // Another thread may have changed the node until its version was read again.
        let same = self.view.load8(step.place) == step.slot.word();
        if !same || !self.leaves_at_most(&step, kind.capacity()) {
            return Err(Miss::Conflict);
        }
        Ok(Removal::Shrink(above, step, kind))
    }

    /// Locks the removal of the step's holder, whose only other child moves up. `met` is that holder.
    fn prune(&self, key: &[u8], met: Met, step: Step) -> Result<Removal, Miss> {
        let trail = self.trail_to(key, &step)?;
        let Some((top, slot)) = self.survivor(&trail)? else { return self.clear(met, step) };
        let met: Result<Vec<Met>, Miss> = trail[top..].iter().map(|step| self.meet_holder(step)).collect();
        for met in met? {
            self.lock(met)?;
        }
        if self.survivor(&trail)? != Some((top, slot)) {
            return Err(Miss::Conflict);
        }
        let nodes = trail[top + 1..].iter().map(|step| step.holder).collect();
        Ok(Removal::Prune { place: trail[top].place, slot, nodes })
    }

    /// Returns the step whose slot takes the child that is left when the leaf of the last step is removed, and that
    /// slot's content. `None` if the slot would have to skip too many bytes.
    fn survivor(&self, trail: &[Step]) -> Result<Option<(usize, TreeSlot)>, Miss> {
        let mut top = trail.len() - 1;
        let mut siblings = self.siblings(&trail[top]);
        let Some(mut slot) = siblings.next() else {
            return Err(Miss::Unsettled(trail[top].holder.at));
        };
        if siblings.next().is_some() {
            return Err(Miss::Conflict);
        }
        // The holder of step `top` is removed. Its only remaining child is `slot`, which moves up to the step above.
        while top > 0 {
            let above = &trail[top - 1];
            let skip = if slot.kind() == SlotKind::Leaf { 0 } else { above.slot.skip() + 1 + slot.skip() };
            if skip > SKIP_MAX {
                break;
            }
            slot = slot.with_byte(above.slot.byte()).with_skip(skip);
            top -= 1;
            if self.siblings(above).next().is_some() {
                break;
            }
        }
        Ok((top + 1 < trail.len()).then_some((top, slot)))
    }

    /// Empties the step's slot.
    fn empty(&self, step: &Step) {
        self.set(step.place, TreeSlot::EMPTY);
        if let Some((at, shift)) = step.holder.hint_of(step.place) {
            // ORDER: the hint is cleared after the slot; see `node::hinted`.
            self.tx.store8(at, self.view.load8(at) & !(0xFF << shift));
        }
    }

    /// Removes `leaf`.
    pub(crate) fn remove(&self, leaf: PoolOffset, removal: &Removal) -> Result<(), Miss> {
        let cell = self.lock_cell()?;
        match removal {
            Removal::Clear(step) => self.empty(step),
            Removal::Shrink(above, step, kind) => {
                let node = step.holder;
                let rest = |slot: &TreeSlot| *slot != step.slot;
                let end = Some(node.end_slot(self.view)).filter(rest).unwrap_or_default();
                match self.replace(above, &node, *kind, end, node.children(self.view).filter(rest)) {
                    // Removing must succeed in a full pool, so the node stays as large as it is.
                    Err(Miss::Failed(IndexError::Heap(HeapError::OutOfSpace { .. }))) => self.empty(step),
                    replaced => replaced?,
                }
            }
            Removal::Prune { place, slot, nodes } => {
                self.set(*place, *slot);
                for node in nodes {
                    self.bury(node)?;
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
