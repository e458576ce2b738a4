//! Moving the objects of a tree to lower offsets, for a pool that shrinks.
//!
//! An object is moved as a change replaces it: under the lock of the node that leads to it, a node also under its own, a
//! copy is made, the slot leads there, and the old object is freed. So readers and writers may use the tree meanwhile.
//! Only the root object has no slot: a tree whose root moves is used by no one else.

use crate::attempt::{Attempt, Retry};
use crate::descend::{Step, path_to};
use crate::error::IndexError;
use crate::leaf;
use crate::tree::{Change, TREE_ALIGN, Tree, abort_on_error};
use crate::view::View;
use lode_fsck::{ShrinkError, ShrinkEvents};
use lode_heap::{HeapError, Tx};
use lode_layout::{PoolOffset, SlotKind, TREE_SIZE, TYPE_TREE, TreeSlot, WORD};
use lode_pmem::Medium;
use std::ops::Bound;

/// Maximum number of keys that are looked for before their objects are moved.
const BATCH_KEYS: usize = 1 << 10;
/// Number of keys of a batch whose objects find no room, at which no more are moved: each costs a reclaim.
const FAILURES_MAX: usize = 32;
/// Bytes of a record that the move of an object takes, besides the object.
const MOVE_LEN: u64 = 128;

/// The keys of a part of a tree on whose ways there is something to move.
struct Batch {
    keys: Vec<Vec<u8>>,
    /// The last key that was looked at; `None` if all were.
    last: Option<Vec<u8>>,
}

impl<M: Medium> Tree<'_, M> {
    /// Moves the nodes and leaves that lie at `limit` or above. New ones lie below, as long as there is room: the heap hands
    /// out no other space. Without room the rest stays where it is.
    ///
    /// # Errors
    /// [`ShrinkError::Stopped`]; [`ShrinkError::Layout`] with an [`IndexError`]. What was moved before is moved durably.
    ///
    /// # Durability
    /// Durable on return. A crash leaves a part of the objects where it was.
    ///
    /// # Cost
    /// Reads and verifies all keys and values, and searches each key. A transaction for as many objects as fit in half a
    /// record, since a longer one would need space below for the rest of it.
    pub(crate) fn move_below(&self, limit: PoolOffset, events: &dyn ShrinkEvents) -> Result<(), ShrinkError> {
        let mut from = Bound::Unbounded;
        loop {
            let batch = self.next_batch(&from, limit)?;
            if events.is_stopped() {
                return Err(ShrinkError::Stopped);
            }
            let (mut rest, mut failures) = (batch.keys.as_slice(), 0);
            while !rest.is_empty() {
                match self.move_some(rest, limit) {
                    Ok((keys, moved)) => {
                        rest = &rest[keys..];
                        events.moved(moved);
                    }
                    Err(IndexError::Heap(error))
                        if error.is_out_of_space() || matches!(error, HeapError::TooLarge { .. }) =>
                    {
                        // A smaller object may still find room.
                        rest = &rest[1..];
                        failures += 1;
                        if failures == FAILURES_MAX {
                            return Ok(());
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
                if events.is_stopped() {
                    return Err(ShrinkError::Stopped);
                }
            }
            match batch.last {
                Some(last) => from = Bound::Excluded(last),
                None => return Ok(()),
            }
        }
    }

    /// Looks for keys on whose ways something lies at `limit` or above.
    fn next_batch(&self, from: &Bound<Vec<u8>>, limit: PoolOffset) -> Result<Batch, IndexError> {
        let reader = self.reader();
        let from = from.as_ref().map(Vec::as_slice);
        let mut batch = Batch { keys: Vec::new(), last: None };
        for entry in reader.range::<&[u8]>((from, Bound::Unbounded)) {
            let entry = entry?;
            let found = self.heap().memory().reading(|memory| {
                path_to(memory, self.root(), &entry.key)
                    .map(|path| path.iter().any(|step| leads_above(step, limit)))
            });
            if found?? {
                batch.keys.push(entry.key.clone());
            }
            if batch.keys.len() == BATCH_KEYS {
                batch.last = Some(entry.key);
                break;
            }
        }
        Ok(batch)
    }

    /// Moves what lies at `limit` or above on the ways of the first keys, in one transaction. Returns the number of these
    /// keys, at least one, and that of the objects.
    fn move_some(&self, keys: &[Vec<u8>], limit: PoolOffset) -> Result<(usize, u64), IndexError> {
        let most = self.heap().log().record_words_max() as u64 * WORD / 2;
        self.heap().run(|tx| {
            let (mut len, mut moved) = (0, 0);
            for (done, key) in keys.iter().enumerate() {
                if len > most {
                    return Ok((done, moved));
                }
                while let Some(bytes) = self.change(tx, key, &mut MoveOne { key, limit })? {
                    len += bytes + MOVE_LEN;
                    moved += 1;
                }
            }
            Ok((keys.len(), moved))
        })
    }

    /// Moves the root object if it lies at `limit` or above. Returns its new offset, which the caller keeps in place of the
    /// old one. No one else uses the tree.
    pub(crate) fn move_root_in(
        &self,
        tx: &Tx<'_, M>,
        limit: PoolOffset,
    ) -> Result<Option<PoolOffset>, IndexError> {
        if self.root() < limit {
            return Ok(None);
        }
        let words: Vec<u64> =
            (0..TREE_SIZE / WORD).map(|word| tx.load8(self.root().plus(word * WORD))).collect();
        let root = tx.alloc_with(&words, TREE_ALIGN, TYPE_TREE)?;
        tx.free(self.root()).inspect_err(|_| tx.set_rollback_only())?;
        Ok(Some(root))
    }
}

/// Returns true if the step leads to an object at `limit` or above.
fn leads_above(step: &Step, limit: PoolOffset) -> bool {
    !step.slot.is_empty() && step.slot.at() >= limit
}

/// Moves the first object on the way of a key that lies at `limit` or above.
struct MoveOne<'a> {
    key: &'a [u8],
    limit: PoolOffset,
}

impl<M: Medium> Change<M> for MoveOne<'_> {
    /// Its length in bytes; `None` if there is none, or if the transaction will fail and makes no changes any more.
    type Output = Option<u64>;

    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<Option<u64>, Retry> {
        let path = path_to(attempt.view, attempt.root, self.key)?;
        let Some(step) = path.iter().find(|step| leads_above(step, self.limit)) else { return Ok(None) };
        let len = match (step.node(), step.slot.kind()) {
            (Some(node), SlotKind::Node(kind)) => {
                attempt.lock_with_parent(step, &node)?;
                let children: Vec<TreeSlot> = node.children(attempt.view).collect();
                let end = node.end_slot(attempt.view);
                let replaced = attempt.replace(step, &node, kind, end, children.into_iter());
                abort_on_error(attempt.tx, replaced)?;
                kind.size()
            }
            _ => {
                attempt.lock(attempt.validate_parent(step)?)?;
                abort_on_error(attempt.tx, attempt.move_leaf(step))?;
                leaf::header(attempt.view, step.slot.at()).leaf_len().unwrap_or(0)
            }
        };
        let is_stored = attempt.tx.load8(step.slot_at) != step.slot.word();
        Ok(is_stored.then_some(len))
    }
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Replaces the leaf to which `step` leads by a copy. The caller holds the lock of the leaf's node.
    fn move_leaf(&self, step: &Step) -> Result<(), Retry> {
        let old = step.slot.at();
        let new = leaf::copy(self.tx, self.view, old)?;
        self.store_slot(step.slot_at, TreeSlot::leaf(step.slot.byte(), new));
        Ok(self.tx.free(old)?)
    }
}

impl From<IndexError> for ShrinkError {
    fn from(error: IndexError) -> ShrinkError {
        ShrinkError::Layout(Box::new(error))
    }
}
