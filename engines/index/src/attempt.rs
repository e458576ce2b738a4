//! One attempt to change a tree, and the proof that what it read still holds.
//!
//! A writer descends without a lock, like a reader. Then, for each node that it is going to change, it
//!
//! 1. reads the version of the node's lock,
//! 2. reads the node's meta word: the node is in the tree,
//! 3. reads the slots on which the change depends,
//! 4. takes the lock if its version is still that of 1.
//!
//! Between 1 and 4 no thread held the lock. A thread that changes a node holds its lock until the change is
//! written back, or is pending and seen by the next thread that takes the lock. So at 4 the node is in the tree and its slots are as read at 3.
//!
//! *In the tree* follows from the meta word. A writer that replaces a node marks the old one dead, under its lock and
//! in the transaction that unlinks it. A writer may reach a node through another one that has died meanwhile. The
//! node itself may then be alive or dead. Its own mark decides, so the nodes above it do not matter.
//!
//! *In the right place* follows from what never changes: all keys below a node begin with the same `depth` bytes as
//! long as the node lives. Splits above it only change the prefix length of a slot. The meta word
//! holds the depth, so a damaged prefix length can't lead a writer to the wrong place either.
//!
//! Two nodes may share a lock. The second [`lock`](Attempt::lock) then compares the number that the first one found.

use crate::descend::{Descent, Step, Stop, descend};
use crate::error::IndexError;
use crate::lookup::{Link, Lookup};
use crate::node::Node;
use crate::view::View;
use lode_heap::{HeapError, Tx, Version};
use lode_layout::{META_DEAD, PoolOffset, TreeSlot};
use lode_pmem::Medium;

/// Reason why an attempt failed.
#[derive(Debug)]
pub(crate) enum Retry {
    /// Another thread holds a lock, or held it since its version was read.
    Conflict,
    /// The place did not look like a tree at rest: other threads change it, or it is damaged.
    Inconsistent(PoolOffset),
    /// The attempt can't succeed. It may have stored something.
    Failed(IndexError),
}

impl From<HeapError> for Retry {
    fn from(error: HeapError) -> Retry {
        match error {
            HeapError::Conflict => Retry::Conflict,
            other => Retry::Failed(other.into()),
        }
    }
}

impl From<IndexError> for Retry {
    fn from(error: IndexError) -> Retry {
        Retry::Failed(error)
    }
}

/// A node and the version of its lock, read while the node was in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadVersion {
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
    /// Takes steps 1 and 2 above. All that is read of the node from now on still holds once it is locked.
    #[inline]
    pub(crate) fn validate(&self, node: &Node) -> Result<ReadVersion, Retry> {
        if self.tx.locks_reads() {
            // Waits as long as it has to, so that shorter transactions do not starve this one.
            self.tx.lock(node.at)?;
        }
        // ORDER: the version is acquired before anything of the node is read.
        let version = self.tx.heap().lock_version(node.at);
        if self.view.load8(node.meta_at()) != node.meta() {
            return Err(Retry::Inconsistent(node.at));
        }
        Ok(ReadVersion { at: node.at, version })
    }

    /// Takes steps 1 and 2 for the parent of `step`, and compares the step's slot with what it held.
    #[inline]
    pub(crate) fn validate_parent(&self, step: &Step) -> Result<ReadVersion, Retry> {
        let read_version = self.validate(&step.parent)?;
        if self.view.load8(step.slot_at) != step.slot.word() {
            return Err(Retry::Conflict);
        }
        Ok(read_version)
    }

    /// Returns a lookup in the pool as the transaction sees it.
    pub(crate) fn lookup(&self) -> Lookup<'_, '_, M, V> {
        Lookup { heap: self.tx.heap(), view: self.view, memory: self.tx.memory(), tx: Some(self.tx) }
    }

    /// Verifies that a `key` that was not found is absent: the leaf that would have it, if there is one, is sound.
    #[cold]
    pub(crate) fn verify_absence(&self, key: &[u8]) -> Result<(), Retry> {
        let Descent { step, stop, .. } = descend(self.view, self.root, key, key.len())?;
        match stop {
            Stop::Leaf if self.lookup().read_stable(&Link::from(&step), |leaf| leaf.has_key(key))? => {
                Err(Retry::Conflict)
            }
            Stop::Leaf | Stop::Empty | Stop::NoChild(_) | Stop::InPrefix(_) => Ok(()),
        }
    }

    /// Takes step 4 above. The transaction may allocate and store only after it has taken its last lock.
    #[inline]
    pub(crate) fn lock(&self, read_version: ReadVersion) -> Result<(), Retry> {
        Ok(self.tx.lock_unchanged(read_version.at, read_version.version)?)
    }

    /// Stores `slot` at `slot_at`, which publishes the object that it leads to.
    #[inline]
    pub(crate) fn store_slot(&self, slot_at: PoolOffset, slot: TreeSlot) {
        self.tx.store8(slot_at, slot.word());
    }

    /// Marks the locked node dead and frees it. The transaction has already changed the slot that led to it.
    pub(crate) fn retire(&self, node: &Node) -> Result<(), Retry> {
        self.tx.store8(node.meta_at(), META_DEAD);
        Ok(self.tx.free(node.at)?)
    }
}
