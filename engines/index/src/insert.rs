//! Adding a key, or giving it a new value.

use crate::attempt::{Attempt, Retry};
use crate::bugs;
use crate::descend::{Descent, Step, Stop, compare_below, descend};
use crate::leaf::{self, Match};
use crate::lookup::Link;
use crate::node::{Node, Symbol};
use crate::verified::Value;
use crate::view::View;
use lode_layout::{PoolOffset, SlotKind, TreeSlot};
use lode_pmem::Medium;

/// The slot of a key, or the place where its leaf is inserted. All locks for the change are held.
pub(crate) enum InsertPoint {
    /// The tree has the key. The step leads to its leaf.
    Existing(Step),
    /// The slot is empty and takes the key's leaf.
    Empty { node: Node, slot_at: PoolOffset, symbol: Symbol },
    /// The node is full. The step leads to it.
    Full(Step, Node),
    /// The key leaves the path at its byte number `at`, where all keys below the step's slot have `theirs`.
    Split { step: Step, at: usize, theirs: Symbol },
}

impl InsertPoint {
    /// Returns the number of key bytes before those that the slot skips that is changed, or that leads to the node.
    pub(crate) fn base(&self) -> usize {
        match self {
            InsertPoint::Existing(step) | InsertPoint::Full(step, _) | InsertPoint::Split { step, .. } => {
                step.base
            }
            InsertPoint::Empty { node, .. } => node.base(),
        }
    }

    /// Returns the number of first bytes that all keys below the new slot share; `None` if there is a slot already.
    pub(crate) fn new_base(&self) -> Option<usize> {
        match self {
            InsertPoint::Existing(_) => None,
            InsertPoint::Empty { node, .. } | InsertPoint::Full(_, node) => Some(node.base()),
            InsertPoint::Split { at, .. } => Some(at + 1),
        }
    }
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Finds the insert point for `key` and locks it.
    #[inline]
    pub(crate) fn find_insert_point(&self, key: &[u8]) -> Result<InsertPoint, Retry> {
        self.insert_point_at(key, descend(self.view, self.root, key, key.len())?)
    }

    /// Finds the insert point for `key`, whose descent ended with `descent`, and locks it.
    #[inline]
    pub(crate) fn insert_point_at(&self, key: &[u8], descent: Descent) -> Result<InsertPoint, Retry> {
        let Descent { step, stop, has_prefix } = descent;
        match stop {
            Stop::Empty => {
                self.lock(self.validate_parent(&step)?)?;
                Ok(InsertPoint::Empty { node: step.parent, slot_at: step.slot_at, symbol: Symbol::End })
            }
            Stop::Leaf => match leaf::compare(self.view, step.slot.at(), key) {
                Match::Equal => {
                    self.lock(self.validate_parent(&step)?)?;
                    Ok(InsertPoint::Existing(step))
                }
                Match::Differs { at, theirs } if at >= step.base => self.split_point(step, at, theirs),
                Match::Differs { at, .. } => self.split_point_above(key, at),
            },
            Stop::NoChild(node) if !has_prefix => self.point_in_node(step, node, key),
            Stop::NoChild(node) | Stop::InPrefix(node) => {
                match compare_below(self.view, step.slot, step.base, key)? {
                    Some(Match::Differs { at, .. }) if at < node.depth => self.split_point_above(key, at),
                    Some(Match::Differs { .. }) if node.depth <= key.len() => {
                        self.point_in_node(step, node, key)
                    }
                    _ => Err(Retry::Inconsistent(node.at)),
                }
            }
        }
    }

    /// Finds the insert point in `node`, which has no child for the key. `step` leads to the node.
    #[inline]
    fn point_in_node(&self, step: Step, node: Node, key: &[u8]) -> Result<InsertPoint, Retry> {
        let symbol = Symbol::of(key, node.depth);
        let read_version = self.validate(&node)?;
        if !node.find(self.view, symbol).1.is_empty() {
            return Err(Retry::Conflict);
        }
        match node.empty_slot_for(self.view, symbol) {
            Some(slot_at) => {
                self.lock(read_version)?;
                Ok(InsertPoint::Empty { node, slot_at, symbol })
            }
            None => {
                self.lock_with_parent(&step, &node)?;
                // No other thread can change the node any more, but one may have until its version was read again.
                if !node.find(self.view, symbol).1.is_empty()
                    || node.empty_slot_for(self.view, symbol).is_some()
                {
                    return Err(Retry::Conflict);
                }
                Ok(InsertPoint::Full(step, node))
            }
        }
    }

    /// Locks `node` and its parent, so that another node can take its place.
    pub(crate) fn lock_with_parent(&self, step: &Step, node: &Node) -> Result<(), Retry> {
        let parent = self.validate_parent(step)?;
        let lower = self.validate(node)?;
        if !bugs::PARENT_UNLOCKED.is_active() {
            self.lock(parent)?;
        }
        self.lock(lower)
    }

    /// Locks the insert point of a key that leaves the path at its byte number `at`, where all keys below the step's slot
    /// have `theirs`.
    pub(crate) fn split_point(&self, step: Step, at: usize, theirs: Symbol) -> Result<InsertPoint, Retry> {
        if theirs == Symbol::End && step.slot.kind() != SlotKind::Leaf {
            return Err(Retry::Inconsistent(step.slot_at));
        }
        // Nothing below the slot is changed, and the bytes that lead there never change. So only the slot's node
        // has to be locked.
        self.lock(self.validate_parent(&step)?)?;
        Ok(InsertPoint::Split { step, at, theirs })
    }

    /// Finds the fork at key byte number `limit`, which some slot on the path skips.
    fn split_point_above(&self, key: &[u8], limit: usize) -> Result<InsertPoint, Retry> {
        let (step, at, theirs) = self.fork_above(key, limit)?;
        self.split_point(step, at, theirs)
    }

    /// Returns the step that skips key byte number `limit`, the number of the first byte at which the key differs from
    /// what the step skips, and the byte there.
    pub(crate) fn fork_above(&self, key: &[u8], limit: usize) -> Result<(Step, usize, Symbol), Retry> {
        let Descent { step, stop, .. } = descend(self.view, self.root, key, limit)?;
        let end = match stop {
            Stop::InPrefix(node) => node.depth,
            Stop::Leaf => usize::MAX,
            Stop::Empty | Stop::NoChild(_) => return Err(Retry::Inconsistent(step.slot_at)),
        };
        match compare_below(self.view, step.slot, step.base, key)? {
            Some(Match::Differs { at, theirs }) if (step.base..end).contains(&at) => Ok((step, at, theirs)),
            _ => Err(Retry::Inconsistent(step.slot_at)),
        }
    }

    /// Returns the value of `key`, whose insert point is `point`; `None` if the tree does not have the key. The leaf is verified that
    /// has the key, or would have it.
    #[inline]
    pub(crate) fn value_at(&self, point: &InsertPoint, key: &[u8]) -> Result<Option<Value>, Retry> {
        match point {
            InsertPoint::Existing(step) => {
                Ok(Some(self.lookup().read_stable(&Link::from(step), |leaf| leaf.value())?))
            }
            // The locked node has no child for the key.
            InsertPoint::Empty { .. } | InsertPoint::Full(..) => Ok(None),
            InsertPoint::Split { .. } => self.verify_absence(key).map(|()| None),
        }
    }

    /// Puts the leaf of `key` and `value` at `point`.
    #[inline]
    pub(crate) fn put(&self, point: &InsertPoint, key: &[u8], value: &[u8]) -> Result<(), Retry> {
        if let InsertPoint::Existing(step) = point {
            let old = step.slot.at();
            if leaf::change_in_place(self.tx, &leaf::header(self.view, old), old, key, value) {
                return Ok(());
            }
            let new = leaf::alloc(self.tx, key, value)?;
            self.store_slot(step.slot_at, TreeSlot::leaf(step.slot.byte(), new));
            return Ok(self.tx.free(old)?);
        }
        let cell = self.lock_cell()?;
        let new = TreeSlot::leaf(0, leaf::alloc(self.tx, key, value)?);
        self.put_slot(point, key, new)?;
        self.count(cell, 1);
        Ok(())
    }

    /// Puts `new`, to which the key byte is added, at `point`, which has no slot yet.
    #[inline(always)]
    pub(crate) fn put_slot(&self, point: &InsertPoint, key: &[u8], new: TreeSlot) -> Result<(), Retry> {
        match point {
            InsertPoint::Empty { node, slot_at, symbol } => self.fill_slot(node, *slot_at, *symbol, new),
            InsertPoint::Full(step, node) => self.grow(step, node, new.with_byte(key[node.depth]))?,
            InsertPoint::Split { step, at, theirs } => self.split_path(step, key, *at, *theirs, new)?,
            InsertPoint::Existing(_) => unreachable!("an existing key has its slot"),
        }
        Ok(())
    }

    /// Puts `new` into an empty slot of a locked node.
    #[inline]
    fn fill_slot(&self, node: &Node, slot_at: PoolOffset, symbol: Symbol, new: TreeSlot) {
        if let (Symbol::Byte(byte), Some((at, shift))) = (symbol, node.key_byte_at(slot_at)) {
            let others = self.view.load8(at) & !(0xFF << shift);
            // ORDER: the key byte comes before the slot, which publishes the leaf; see `node::find_by_key_byte`.
            self.tx.store8(at, others | u64::from(byte) << shift);
        }
        self.store_slot(slot_at, new.with_byte(symbol.byte()));
    }
}
