//! Moving the objects of a tree to lower offsets, for a pool that shrinks.
//!
//! An object is moved as a change replaces it: under the lock of the node that leads to it, a node also under its own, a
//! copy is made, the slot leads there, and the old object is freed. So readers and writers may use the tree meanwhile.
//! Only the root object has no slot: nothing else uses a tree whose root moves.

use crate::attempt::{Attempt, Retry};
use crate::descend::{Step, path_to};
use crate::error::IndexError;
use crate::leaf;
use crate::tree::{Change, TREE_ALIGN, Tree, abort_on_error};
use crate::view::View;
use lode_fsck::{ShrinkError, ShrinkEvents};
use lode_heap::{HeapError, Tx, WORDS_UNCHECKED_MAX};
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
    /// Moves the nodes and leaves in space that the heap [evacuates](lode_heap::Heap::is_evacuated). Without room for them
    /// elsewhere the rest stays where it is.
    ///
    /// # Errors
    /// [`ShrinkError::Stopped`]; [`ShrinkError::Layout`] with an [`IndexError`]. What was moved before is moved durably.
    ///
    /// # Durability
    /// Durable on return. A crash leaves a part of the objects where it was.
    ///
    /// # Cost
    /// Reads and verifies all keys and values, and searches each key. A transaction for as many objects as fit in half a
    /// record that takes no space in the pool.
    pub(crate) fn evacuate(&self, events: &dyn ShrinkEvents) -> Result<(), ShrinkError> {
        let mut from = Bound::Unbounded;
        loop {
            let batch = self.next_batch(&from)?;
            if events.is_stopped() {
                return Err(ShrinkError::Stopped);
            }
            let (mut rest, mut at_once, mut failures) = (batch.keys.as_slice(), BATCH_KEYS, 0);
            while !rest.is_empty() {
                at_once = at_once.min(rest.len());
                match self.move_some(&rest[..at_once]) {
                    Ok((keys, moved)) => {
                        rest = &rest[keys..];
                        at_once *= 2;
                        events.moved(moved);
                    }
                    Err(error) if !is_without_room(&error) => return Err(error.into()),
                    Err(_) if at_once > 1 => at_once = 1,
                    Err(_) => {
                        // A smaller object may still find room.
                        rest = &rest[1..];
                        failures += 1;
                        if failures == FAILURES_MAX {
                            return Ok(());
                        }
                    }
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

    /// Looks for keys on whose ways there is something to move.
    fn next_batch(&self, from: &Bound<Vec<u8>>) -> Result<Batch, IndexError> {
        let reader = self.reader();
        let from = from.as_ref().map(Vec::as_slice);
        let mut batch = Batch { keys: Vec::new(), last: None };
        for entry in reader.range::<&[u8]>((from, Bound::Unbounded)) {
            let entry = entry?;
            let found = self.heap().memory().reading(|memory| {
                path_to(memory, self.root(), &entry.key)
                    .map(|path| path.iter().any(|step| self.is_to_move(step)))
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

    /// Moves what is to move on the ways of the first keys, in one transaction. Returns the number of these
    /// keys, at least one, and that of the objects.
    fn move_some(&self, keys: &[Vec<u8>]) -> Result<(usize, u64), IndexError> {
        let most = (self.heap().log().record_words_max() as u64).min(WORDS_UNCHECKED_MAX) * WORD / 2;
        self.heap().run(|tx| {
            let (mut len, mut moved) = (0, 0);
            for (done, key) in keys.iter().enumerate() {
                // A transaction that fails may see only a part of what it has stored.
                if len > most || tx.will_roll_back() {
                    return Ok((done, moved));
                }
                while let Some(bytes) = self.change(tx, key, &mut MoveOne { tree: *self, key })? {
                    len += bytes + MOVE_LEN;
                    moved += 1;
                }
            }
            Ok((keys.len(), moved))
        })
    }

    /// Moves the root object if it is to move. Returns its new offset, which the caller keeps in place of the
    /// old one. The caller alone uses the tree.
    pub(crate) fn move_root_in(&self, tx: &Tx<'_, M>) -> Result<Option<PoolOffset>, IndexError> {
        if !self.heap().is_evacuated(self.root()) {
            return Ok(None);
        }
        let mut words = [0; (TREE_SIZE / WORD) as usize];
        tx.load_words(self.root(), &mut words);
        let root = tx.alloc_with(&words, TREE_ALIGN, TYPE_TREE)?;
        tx.free(self.root()).inspect_err(|_| tx.set_rollback_only())?;
        Ok(Some(root))
    }

    /// Returns true if the step leads to an object that is to move.
    fn is_to_move(&self, step: &Step) -> bool {
        !step.slot.is_empty() && self.heap().is_evacuated(step.slot.at())
    }
}

/// Moves the first object on the way of a key that is to move.
struct MoveOne<'t, 'h, M: Medium> {
    tree: Tree<'h, M>,
    key: &'t [u8],
}

impl<M: Medium> Change<M> for MoveOne<'_, '_, M> {
    /// Its length in bytes; `None` if there is none, or if the transaction will fail.
    type Output = Option<u64>;

    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<Option<u64>, Retry> {
        let path = path_to(attempt.view, attempt.root, self.key)?;
        let Some(step) = path.iter().find(|step| self.tree.is_to_move(step)) else { return Ok(None) };
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
        Ok((!attempt.tx.will_roll_back()).then_some(len))
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

/// Returns true if a transaction failed for lack of space.
fn is_without_room(error: &IndexError) -> bool {
    matches!(error, IndexError::Heap(error) if error.is_out_of_space() || matches!(error, HeapError::TooLarge { .. }))
}

impl From<IndexError> for ShrinkError {
    fn from(error: IndexError) -> ShrinkError {
        ShrinkError::Layout(Box::new(error))
    }
}
