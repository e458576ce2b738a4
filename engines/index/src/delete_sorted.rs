//! Many deletions in one transaction, whose keys ascend.
//!
//! The keys are divided by the nodes on their way, and removed from the lowest nodes first:
//!
//! ```text
//!   keys below a node     those of each child that is a node      those of its leaves, and those that were left
//!                     ->    removed below that child first;    ->   removed together, in one change of the node;
//!                           a last leaf moves up, and is left       a last leaf moves up, and is left
//! ```
//!
//! So each node changes about once, however many of its children go, and a subtree without keys goes from below. The
//! division is a hint, made without locks. Each change of a node descends from the root for its first key, and takes only
//! those keys with it whose leaves it finds in the node that it locks; see [`delete`](crate::delete). So a change has the
//! effect of single deletions, also beside other threads.
//!
//! # Cost
//! A key costs its share of the change of its node, the slot, and the leaf's space. Each node on the way of the keys is
//! searched once for each of its children that keys lead to.

use crate::attempt::{Attempt, Retry};
use crate::descend::{Step, find_child, root_step};
use crate::error::IndexError;
use crate::node::Symbol;
use crate::tree::{Change, Tree, abort_on_error};
use crate::view::View;
use lode_heap::Tx;
use lode_layout::KEY_LEN_MAX;
use lode_pmem::Medium;

/// Number of nodes on a way below which keys are not divided further. They are removed one by one.
const LEVELS_MAX: usize = 64;

impl<M: Medium> Tree<'_, M> {
    /// Removes each key, as [`delete_in`](Tree::delete_in) does for one after the other. Returns the number of keys that
    /// were present. Keys in any order are right; the fewer of them are less than the one before, the faster it is.
    ///
    /// # Errors
    /// As [`delete_in`](Tree::delete_in). [`IndexError::KeyTooLong`] comes before any change.
    pub fn delete_sorted_in(&self, tx: &Tx<'_, M>, keys: &[&[u8]]) -> Result<u64, IndexError> {
        if let Some(key) = keys.iter().find(|key| key.len() > KEY_LEN_MAX) {
            return Err(IndexError::KeyTooLong { len: key.len() });
        }
        self.check_heap(tx)?;
        // The nodes of the division stay what they are.
        let _pin = self.heap().pin();
        let (mut left, mut removed) = (Vec::new(), 0);
        if keys.len() > 1 && !self.root().is_null() {
            self.delete_below(tx, &root_step(tx, self.root()), keys, 0, (&mut left, &mut removed))?;
        } else {
            left.extend_from_slice(keys);
        }
        let mut rest = left.as_slice();
        while !rest.is_empty() {
            let done = self.change(tx, rest[0], &mut DeleteRun { keys: rest })?;
            removed += done.removed;
            rest = &rest[done.count..];
        }
        Ok(removed)
    }

    /// Removes keys that lie below `step`, as far as that is known. Adds those that may be in the step's node then to
    /// `left`, in their order, and the number of the others that were there to `removed`.
    fn delete_below<'k>(
        &self,
        tx: &Tx<'_, M>,
        step: &Step,
        keys: &[&'k [u8]],
        level: usize,
        (left, removed): (&mut Vec<&'k [u8]>, &mut u64),
    ) -> Result<(), IndexError> {
        let Some(node) = step.node().filter(|_| level < LEVELS_MAX) else {
            left.extend_from_slice(keys);
            return Ok(());
        };
        let mut mine = Vec::with_capacity(keys.len());
        for keys in keys.chunk_by(|one, other| Symbol::of(one, node.depth) == Symbol::of(other, node.depth)) {
            let (slot_at, slot) = find_child(tx, &node, keys[0]);
            let child = Step { parent: node, slot_at, slot, base: node.base() };
            self.delete_below(tx, &child, keys, level + 1, (&mut mine, removed))?;
        }
        let mut rest = mine.as_slice();
        while !rest.is_empty() {
            let done = self.change(tx, rest[0], &mut DeleteRun { keys: rest })?;
            *removed += done.removed;
            rest = &rest[done.count..];
            if done.is_prune {
                break;
            }
        }
        left.extend_from_slice(rest);
        Ok(())
    }
}

/// The deletion of the first of `keys`, and of those after it that have the same parent.
struct DeleteRun<'a> {
    keys: &'a [&'a [u8]],
}

/// The result of one deletion.
struct Done {
    /// Number of keys that the tree does not have any more.
    count: usize,
    /// Number of those that it had.
    removed: u64,
    /// True if the node of the keys has gone. Its last child has moved up.
    is_prune: bool,
}

impl<M: Medium> Change<M> for DeleteRun<'_> {
    type Output = Done;

    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<Done, Retry> {
        let Some(removal) = attempt.find_removal(self.keys)? else {
            return Ok(Done { count: 1, removed: 0, is_prune: false });
        };
        abort_on_error(attempt.tx, attempt.remove(&removal))?;
        let count = removal.leaves.len();
        Ok(Done { count, removed: count as u64, is_prune: removal.is_prune() })
    }
}
