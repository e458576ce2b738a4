//! Adding a key, or giving it a new value.

use crate::attempt::{Attempt, Miss};
use crate::bugs;
use crate::descend::{Descent, Step, Stop, compare_below, descend};
use crate::leaf::{self, Match};
use crate::node::{Node, Symbol};
use crate::view::View;
use lode_layout::{PoolOffset, SlotKind, TreeSlot};
use lode_pmem::Medium;

/// The place of a key, or the place where it would be added. All locks for a change there are held.
pub(crate) enum Spot {
    /// The tree has the key. The step leads to its leaf.
    There(Step),
    /// The slot is empty and takes the key's leaf.
    Empty { node: Node, place: PoolOffset, symbol: Symbol },
    /// The node is full. The step leads to it.
    Full(Step, Node),
    /// The key leaves the path at its byte number `at`, where all keys below the step's slot have `theirs`.
    Fork { step: Step, at: usize, theirs: Symbol },
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Finds the spot for `key` and locks it.
    #[inline]
    pub(crate) fn spot(&self, key: &[u8]) -> Result<Spot, Miss> {
        let Descent { step, stop, skipped } = descend(self.view, self.root, key, key.len())?;
        match stop {
            Stop::Empty => {
                self.lock(self.meet_holder(&step)?)?;
                Ok(Spot::Empty { node: step.holder, place: step.place, symbol: Symbol::End })
            }
            Stop::Leaf => match leaf::compare(self.view, step.slot.at(), key) {
                Match::Equal => {
                    self.lock(self.meet_holder(&step)?)?;
                    Ok(Spot::There(step))
                }
                Match::Differs { at, theirs } if at >= step.base => self.fork(step, at, theirs),
                Match::Differs { at, .. } => self.fork_above(key, at),
            },
            Stop::Absent(node) if !skipped => self.gap(step, node, key),
            Stop::Absent(node) | Stop::Inside(node) => {
                match compare_below(self.view, step.slot, step.base, key)? {
                    Some(Match::Differs { at, .. }) if at < node.depth => self.fork_above(key, at),
                    Some(Match::Differs { .. }) if node.depth <= key.len() => self.gap(step, node, key),
                    _ => Err(Miss::Unsettled(node.at)),
                }
            }
        }
    }

    /// Finds the spot in `node`, which has no child for the key. `step` leads to the node.
    #[inline]
    fn gap(&self, step: Step, node: Node, key: &[u8]) -> Result<Spot, Miss> {
        let symbol = Symbol::of(key, node.depth);
        let met = self.meet(&node)?;
        if !node.find(self.view, symbol).1.is_empty() {
            return Err(Miss::Conflict);
        }
        match node.room(self.view, symbol) {
            Some(place) => {
                self.lock(met)?;
                Ok(Spot::Empty { node, place, symbol })
            }
            None => {
                self.lock_link(&step, &node)?;
                // No other thread can change the node any more, but one may have until its version was read again.
                if !node.find(self.view, symbol).1.is_empty() || node.room(self.view, symbol).is_some() {
                    return Err(Miss::Conflict);
                }
                Ok(Spot::Full(step, node))
            }
        }
    }

    /// Locks `node` and the holder of the slot that leads to it, so that another node can take its place.
    pub(crate) fn lock_link(&self, step: &Step, node: &Node) -> Result<(), Miss> {
        let upper = self.meet_holder(step)?;
        let lower = self.meet(node)?;
        if !bugs::HOLDER_UNLOCKED.is_active() {
            self.lock(upper)?;
        }
        self.lock(lower)
    }

    fn fork(&self, step: Step, at: usize, theirs: Symbol) -> Result<Spot, Miss> {
        if theirs == Symbol::End && step.slot.kind() != SlotKind::Leaf {
            return Err(Miss::Unsettled(step.place));
        }
        // Nothing below the slot is changed, and the bytes that lead there never change. So only the slot's holder
        // has to be locked.
        self.lock(self.meet_holder(&step)?)?;
        Ok(Spot::Fork { step, at, theirs })
    }

    /// Finds the fork at key byte number `limit`, which some slot on the path skips.
    fn fork_above(&self, key: &[u8], limit: usize) -> Result<Spot, Miss> {
        let Descent { step, stop, .. } = descend(self.view, self.root, key, limit)?;
        let end = match stop {
            Stop::Inside(node) => node.depth,
            Stop::Leaf => usize::MAX,
            Stop::Empty | Stop::Absent(_) => return Err(Miss::Unsettled(step.place)),
        };
        match compare_below(self.view, step.slot, step.base, key)? {
            Some(Match::Differs { at, theirs }) if (step.base..end).contains(&at) => {
                self.fork(step, at, theirs)
            }
            _ => Err(Miss::Unsettled(step.place)),
        }
    }

    /// Puts the leaf of `key` and `value` at `spot`.
    #[inline]
    pub(crate) fn put(&self, spot: &Spot, key: &[u8], value: &[u8]) -> Result<(), Miss> {
        if let Spot::There(step) = spot {
            let old = step.slot.at();
            if leaf::change(self.tx, &leaf::header(self.view, old), old, key, value) {
                return Ok(());
            }
            let new = leaf::make(self.tx, key, value)?;
            self.set(step.place, TreeSlot::leaf(step.slot.byte(), new));
            return Ok(self.tx.free(old)?);
        }
        let cell = self.lock_cell()?;
        let new = leaf::make(self.tx, key, value)?;
        match spot {
            Spot::Empty { node, place, symbol } => self.fill(node, *place, *symbol, new),
            Spot::Full(step, node) => self.grow(step, node, TreeSlot::leaf(key[node.depth], new))?,
            Spot::Fork { step, at, theirs } => self.branch(step, key, *at, *theirs, new)?,
            Spot::There(_) => unreachable!("seen to before"),
        }
        self.count(cell, 1);
        Ok(())
    }

    /// Puts a leaf into an empty slot of a locked node.
    #[inline]
    fn fill(&self, node: &Node, place: PoolOffset, symbol: Symbol, leaf: PoolOffset) {
        if let (Symbol::Byte(byte), Some((at, shift))) = (symbol, node.hint_of(place)) {
            let others = self.view.load8(at) & !(0xFF << shift);
            // ORDER: the hint comes before the slot, which publishes the leaf; see `node::hinted`.
            self.tx.store8(at, others | u64::from(byte) << shift);
        }
        self.set(place, TreeSlot::leaf(symbol.byte(), leaf));
    }
}
