//! One attempt to change a tree, and how it is certain that what it read still holds.
//!
//! A writer goes down without a lock, like a reader. Then, for each node that it is going to change, it
//!
//! 1. reads the version of the node's lock,
//! 2. reads the node's meta word: the node is in the tree,
//! 3. reads the slots on which the change depends,
//! 4. takes the lock if its version is still that of 1.
//!
//! From 1 to 4 nobody held the lock, and whoever changes a node holds its lock until its home stores are done.
//! So at 4 the node is in the tree and its slots are as read at 3.
//!
//! *In the tree* follows from the meta word: who replaces a node marks the old one dead, in the transaction that
//! unlinks it and under its lock. A node that was reached through another one that is dead meanwhile may itself
//! be alive or dead; its own mark tells, so the nodes above it do not matter.
//!
//! *In the right place* follows from what never changes: all keys below a node begin with the same `depth` bytes,
//! for as long as the node lives. Splits above it only change how many of these a slot skips. The meta word holds
//! the depth, so a damaged skip can't lead a writer to the wrong place either.
//!
//! When several nodes are locked, the version of the upper one is read first. Two nodes may share a lock; the
//! second [`lock`](Attempt::lock) then has nothing to compare, and does not need to, for the first one's version
//! is older than all that was read.

use crate::descend::{Descent, Step, Stop, descend};
use crate::error::IndexError;
use crate::lookup::{Link, Lookup};
use crate::node::Node;
use crate::view::View;
use lode_heap::{HeapError, Tx, Version};
use lode_layout::{META_DEAD, PoolOffset, TreeSlot};
use lode_pmem::Medium;

/// Why an attempt did not come to its end.
#[derive(Debug)]
pub(crate) enum Miss {
    /// Somebody holds a lock, or held it since its version was read.
    Conflict,
    /// What was read at this place is not what a tree at rest holds: others change it, or it is damaged.
    Unsettled(PoolOffset),
    /// It can't succeed. Whether something was stored.
    Failed(IndexError),
}

impl From<HeapError> for Miss {
    fn from(error: HeapError) -> Miss {
        match error {
            HeapError::Conflict => Miss::Conflict,
            other => Miss::Failed(other.into()),
        }
    }
}

impl From<IndexError> for Miss {
    fn from(error: IndexError) -> Miss {
        Miss::Failed(error)
    }
}

/// A node whose version was read while it was in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    at: PoolOffset,
    version: Version,
}

/// An attempt at one operation inside of a transaction.
pub(crate) struct Attempt<'t, 'h, M: Medium, V> {
    pub(crate) tx: &'t Tx<'h, M>,
    /// The pool as the transaction sees it.
    pub(crate) view: &'t V,
    /// The tree's root object.
    pub(crate) root: PoolOffset,
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Steps 1 and 2 above: what is read of the node from now on still holds when it is locked.
    #[inline]
    pub(crate) fn meet(&self, node: &Node) -> Result<Met, Miss> {
        // ORDER: the version is acquired before anything is read of the node.
        let version = self.tx.heap().lock_version(node.at);
        if self.view.load8(node.meta_at()) != node.meta() {
            return Err(Miss::Unsettled(node.at));
        }
        Ok(Met { at: node.at, version })
    }

    /// Meets the holder of `step`, whose slot still leads where it did.
    #[inline]
    pub(crate) fn meet_holder(&self, step: &Step) -> Result<Met, Miss> {
        let met = self.meet(&step.holder)?;
        if self.view.load8(step.place) != step.slot.word() {
            return Err(Miss::Conflict);
        }
        Ok(met)
    }

    /// Lookups in the pool as the transaction sees it.
    pub(crate) fn lookup(&self) -> Lookup<'_, '_, M, V> {
        Lookup { heap: self.tx.heap(), view: self.view, tx: Some(self.tx) }
    }

    /// Makes certain of a `key` that was not found: the leaf that would have it, if there is one, is sound.
    #[cold]
    pub(crate) fn vouch_for_absence(&self, key: &[u8]) -> Result<(), Miss> {
        let Descent { step, stop, .. } = descend(self.view, self.root, key, key.len())?;
        match stop {
            Stop::Leaf if self.lookup().settle(&Link::from(&step), |leaf| leaf.is_of(key))? => {
                Err(Miss::Conflict)
            }
            Stop::Leaf | Stop::Empty | Stop::Absent(_) | Stop::Inside(_) => Ok(()),
        }
    }

    /// Step 4 above. Nothing may have been allocated or stored before the last lock is taken.
    #[inline]
    pub(crate) fn lock(&self, met: Met) -> Result<(), Miss> {
        Ok(self.tx.lock_unchanged(met.at, met.version)?)
    }

    /// Changes the slot at `place`, which publishes what it leads to.
    #[inline]
    pub(crate) fn set(&self, place: PoolOffset, slot: TreeSlot) {
        self.tx.store8(place, slot.word());
    }

    /// Takes the locked node out of the tree, from which a slot that was changed before no longer leads to it.
    pub(crate) fn bury(&self, node: &Node) -> Result<(), Miss> {
        self.tx.store8(node.meta_at(), META_DEAD);
        Ok(self.tx.free(node.at)?)
    }
}
