//! Lookups that return a right value, or an error.
//!
//! A returned value has been verified twice: the copy of the leaf has its checksum, and the heap says that a leaf is
//! allocated there. The second check tells the leaf from an older one of the same key, to which a damaged slot may
//! lead. Absence is not verified in this way; `Store::get_proven` verifies it. But a leaf that would have the key,
//! and has a wrong checksum, is damage and no absence.

use crate::descend::{Descent, Step, Stop, candidate_leaf, descend};
use crate::error::IndexError;
use crate::stability::{StabilityWait, read_versioned};
use crate::verified::{self, ChecksumMismatch, Value, VerifiedLeaf};
use crate::view::View;
use lode_heap::{Heap, Tx};
use lode_layout::{META_DEAD, NODE_META, PoolOffset, TYPE_LEAF, TreeSlot};
use lode_pmem::{Medium, Readable};

/// A slot that leads to a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The node that has the slot.
    pub(crate) parent: PoolOffset,
    /// Offset of the slot.
    pub(crate) slot_at: PoolOffset,
    /// Content of the slot when it was read.
    pub(crate) slot: TreeSlot,
}

impl From<&Step> for Link {
    fn from(step: &Step) -> Link {
        Link { parent: step.parent.at, slot_at: step.slot_at, slot: step.slot }
    }
}

/// The pool as a lookup sees it.
pub(crate) struct Lookup<'a, 'h, M: Medium, V> {
    pub(crate) heap: &'a Heap<M>,
    pub(crate) view: &'a V,
    /// The heap's memory.
    pub(crate) memory: &'a Readable,
    /// The transaction that the lookup is part of.
    pub(crate) tx: Option<&'a Tx<'h, M>>,
}

/// Reason why a leaf can't be returned at once.
#[derive(Clone, Copy, Debug)]
enum ReadFailure {
    ChecksumMismatch,
    NotAllocated,
}

impl From<ChecksumMismatch> for ReadFailure {
    fn from(_: ChecksumMismatch) -> ReadFailure {
        ReadFailure::ChecksumMismatch
    }
}

impl<M: Medium, V: View> Lookup<'_, '_, M, V> {
    /// Returns the value of `key` in the tree at `root`, if the tree has the key. The caller asks the scope for a
    /// fault.
    #[inline(always)]
    pub(crate) fn get(&self, root: PoolOffset, key: &[u8]) -> Result<Option<Value>, IndexError> {
        match candidate_leaf(self.view, root, key) {
            Ok(None) => Ok(None),
            Ok(Some(leaf)) => match verified::value_of(self.view, leaf, key) {
                Ok(value) if value.is_none() || self.is_allocated_leaf(leaf) => Ok(value),
                _ => self.get_stable(root, key),
            },
            Err(error) => Err(error),
        }
    }

    /// Repeats [`get`](Lookup::get) after an inconsistent read.
    #[cold]
    fn get_stable(&self, root: PoolOffset, key: &[u8]) -> Result<Option<Value>, IndexError> {
        if let Some(fault) = self.memory.fault() {
            return Err(fault.into());
        }
        let Descent { step, stop, .. } = descend(self.view, root, key, key.len())?;
        match stop {
            Stop::Leaf => {
                self.read_stable(&Link::from(&step), |leaf| leaf.has_key(key).then(|| leaf.value()))
            }
            Stop::Empty | Stop::NoChild(_) | Stop::InPrefix(_) => Ok(None),
        }
    }

    /// Calls `with` with a copy of the leaf to which `link` led. Waits for a writer that is about to change leaf or
    /// link. Returns an error if one of them is damaged.
    pub(crate) fn read_stable<R>(
        &self,
        link: &Link,
        mut with: impl FnMut(&VerifiedLeaf<'_>) -> R,
    ) -> Result<R, IndexError> {
        let leaf = link.slot.at();
        let mut wait = StabilityWait::default();
        for round in 0.. {
            let read = || {
                let read = verified::read(self.view, leaf, &mut with).map_err(ReadFailure::from);
                let read = read.and_then(|it| {
                    self.is_allocated_leaf(leaf).then_some(it).ok_or(ReadFailure::NotAllocated)
                });
                let is_in_tree = self.view.load8(link.parent.plus(NODE_META)) != META_DEAD;
                (read, is_in_tree, self.view.load8(link.slot_at) == link.slot.word())
            };
            let ((read, is_in_tree, is_linked), is_stable) = read_versioned(self.heap, link.parent, read);
            if let Some(fault) = self.memory.fault() {
                return Err(fault.into());
            }
            let damage = match read {
                Ok(read) => return Ok(read),
                Err(ReadFailure::ChecksumMismatch) => {
                    IndexError::Corrupt { what: "the checksum of the leaf", at: leaf }
                }
                // The leaf was unlinked meanwhile. Its content stays.
                Err(ReadFailure::NotAllocated) if !(is_in_tree && is_linked) => {
                    match verified::read(self.view, leaf, &mut with) {
                        Ok(read) => return Ok(read),
                        Err(ChecksumMismatch) => {
                            IndexError::Corrupt { what: "the checksum of the leaf", at: leaf }
                        }
                    }
                }
                Err(ReadFailure::NotAllocated) => IndexError::Corrupt {
                    what: "the slot of the tree that leads to the object",
                    at: link.slot_at,
                },
            };
            // No other thread stores under a lock that the transaction itself holds. Words that wait for their sync come
            // and go at other times.
            let is_stable = match self.tx {
                Some(tx) => tx.holds_lock(link.parent) || is_stable && !tx.sees_pending(),
                None => is_stable,
            };
            if V::IS_FIXED || is_stable && is_in_tree {
                return Err(damage);
            }
            wait.wait_until_stable(self.heap, self.memory, damage)?;
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }

    /// Returns true if the heap says that a leaf is at `leaf`, or can't tell because it is damaged itself.
    #[inline(always)]
    pub(crate) fn is_allocated_leaf(&self, leaf: PoolOffset) -> bool {
        if V::IS_FIXED {
            // The leaf may have been removed since.
            return true;
        }
        let in_memory = self.heap.is_allocated(self.memory, leaf, TYPE_LEAF).unwrap_or(true);
        // A leaf that the transaction has freed is not linked in its view, so a look at those it has made is enough.
        in_memory
            || self.tx.is_some_and(|tx| {
                tx.object(leaf).map_or_else(
                    |error| !matches!(error, lode_heap::HeapError::NoObject { .. }),
                    |(_, type_number)| type_number == TYPE_LEAF,
                )
            })
    }
}
