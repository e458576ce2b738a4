//! Lookups that return a right value, or an error.
//!
//! A returned value has been verified twice: the copy of the leaf has its checksum, and the heap says that a leaf is
//! allocated there. The second check tells the leaf from an older one of the same key, to which a damaged slot may
//! lead. Absence is not verified in this way; `Store::get_proven` verifies it. But a leaf that would have the key,
//! and has a wrong checksum, is damage and no absence.

use crate::checked::{self, Copied, Torn, Value};
use crate::descend::{Descent, Step, Stop, candidate, descend};
use crate::error::IndexError;
use crate::unrest::{Unrest, at_rest};
use crate::view::View;
use lode_heap::{Heap, Tx};
use lode_layout::{META_DEAD, NODE_META, PoolOffset, TYPE_LEAF, TreeSlot};
use lode_pmem::{Medium, Readable};

/// A slot that leads to a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The node that has the slot.
    pub(crate) holder: PoolOffset,
    /// Offset of the slot.
    pub(crate) place: PoolOffset,
    /// Content of the slot when it was read.
    pub(crate) slot: TreeSlot,
}

impl From<&Step> for Link {
    fn from(step: &Step) -> Link {
        Link { holder: step.holder.at, place: step.place, slot: step.slot }
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
enum Doubt {
    Torn,
    NotAllocated,
}

impl From<Torn> for Doubt {
    fn from(_: Torn) -> Doubt {
        Doubt::Torn
    }
}

impl<M: Medium, V: View> Lookup<'_, '_, M, V> {
    /// Returns the value of `key` in the tree at `root`, if the tree has the key. The caller asks the scope for a
    /// fault.
    #[inline(always)]
    pub(crate) fn get(&self, root: PoolOffset, key: &[u8]) -> Result<Option<Value>, IndexError> {
        match candidate(self.view, root, key) {
            Ok(None) => Ok(None),
            Ok(Some(leaf)) => match checked::value_of(self.view, leaf, key) {
                Ok(value) if value.is_none() || self.is_leaf(leaf) => Ok(value),
                _ => self.get_settled(root, key),
            },
            Err(error) => Err(error),
        }
    }

    /// Repeats [`get`](Lookup::get) after an inconsistent read.
    #[cold]
    fn get_settled(&self, root: PoolOffset, key: &[u8]) -> Result<Option<Value>, IndexError> {
        if let Some(fault) = self.memory.fault() {
            return Err(fault.into());
        }
        let Descent { step, stop, .. } = descend(self.view, root, key, key.len())?;
        match stop {
            Stop::Leaf => self.settle(&Link::from(&step), |leaf| leaf.is_of(key).then(|| leaf.value())),
            Stop::Empty | Stop::Absent(_) | Stop::Inside(_) => Ok(None),
        }
    }

    /// Calls `with` with a copy of the leaf to which `link` led. Waits for a writer that is about to change leaf or
    /// link. Returns an error if one of them is damaged.
    pub(crate) fn settle<R>(&self, link: &Link, with: impl Fn(&Copied<'_>) -> R) -> Result<R, IndexError> {
        let leaf = link.slot.at();
        let mut unrest = Unrest::default();
        for round in 0.. {
            let look = || {
                let read = checked::read(self.view, leaf, &with).map_err(Doubt::from);
                let read = read.and_then(|it| self.is_leaf(leaf).then_some(it).ok_or(Doubt::NotAllocated));
                let is_in_tree = self.view.load8(link.holder.plus(NODE_META)) != META_DEAD;
                (read, is_in_tree, self.view.load8(link.place) == link.slot.word())
            };
            let ((read, is_in_tree, is_linked), is_at_rest) = at_rest(self.heap, link.holder, look);
            if let Some(fault) = self.memory.fault() {
                return Err(fault.into());
            }
            let damage = match read {
                Ok(read) => return Ok(read),
                Err(Doubt::Torn) => IndexError::Corrupt { what: "the checksum of the leaf", at: leaf },
                // The leaf was unlinked meanwhile. Its content stays.
                Err(Doubt::NotAllocated) if !(is_in_tree && is_linked) => {
                    match checked::read(self.view, leaf, &with) {
                        Ok(read) => return Ok(read),
                        Err(Torn) => IndexError::Corrupt { what: "the checksum of the leaf", at: leaf },
                    }
                }
                Err(Doubt::NotAllocated) => IndexError::Corrupt {
                    what: "the slot of the tree that leads to the object",
                    at: link.place,
                },
            };
            // No other thread stores under a lock that the transaction itself holds.
            let is_at_rest = is_at_rest || self.tx.is_some_and(|tx| tx.holds_lock(link.holder));
            if is_at_rest && is_in_tree {
                return Err(damage);
            }
            unrest.outlast(self.heap, self.memory, damage)?;
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with an answer")
    }

    /// Returns true if the heap says that a leaf is at `leaf`, or can't tell because it is damaged itself.
    #[inline(always)]
    pub(crate) fn is_leaf(&self, leaf: PoolOffset) -> bool {
        match self.tx.filter(|tx| !tx.is_clean()) {
            None => self.heap.is_allocated(self.memory, leaf, TYPE_LEAF).unwrap_or(true),
            Some(tx) => tx.object(leaf).map_or_else(
                |error| !matches!(error, lode_heap::HeapError::NoObject { .. }),
                |(_, type_number)| type_number == TYPE_LEAF,
            ),
        }
    }
}
