//! The word of a typed root that leads to the table of trees, for the crate that keeps trees.
//!
//! This module is for that crate, not for programs. The types of the pool do not name the trees, so no object owns them, and a
//! migration leaves them as they are.

use super::root::check_root;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::snapshot::Snapshot;
use crate::tx::Tx;
use lode_layout::{PoolOffset, TypedRoot, decode_root, encode_root};
use lode_pmem::Medium;

/// Returns the offset of the table that was last committed; [`PoolOffset::NULL`] before the first tree, and without a root.
///
/// # Errors
/// [`HeapError::NotTyped`], [`HeapError::Corrupt`], [`HeapError::Fault`].
pub fn get<M: Medium>(heap: &Heap<M>) -> Result<PoolOffset, HeapError> {
    let Some(word) = word_of(heap, heap.root()?)? else { return Ok(PoolOffset::NULL) };
    decode(word, heap.memory().reading(|memory| memory.load8(word))?)
}

/// Returns the offset of the table as the snapshot sees it, as [`get`] does.
///
/// # Errors
/// As [`get`]; [`HeapError::SnapshotEnded`].
pub fn get_at<M: Medium>(snapshot: &Snapshot<'_, M>) -> Result<PoolOffset, HeapError> {
    let Some(word) = word_of(snapshot.heap(), snapshot.root()?)? else { return Ok(PoolOffset::NULL) };
    snapshot.try_reading(|view| decode(word, view.load8(word)))
}

/// Returns the offset of the table as the transaction sees it, as [`get`] does. The read is validated.
///
/// # Errors
/// As [`get`]; [`HeapError::Conflict`].
pub fn get_in<M: Medium>(tx: &Tx<'_, M>) -> Result<PoolOffset, HeapError> {
    let Some(word) = word_in(tx)? else { return Ok(PoolOffset::NULL) };
    decode(word, tx.read8(word)?)
}

/// Locks the word, and returns the offset of the table; `None` without a root.
///
/// # Errors
/// As [`get_in`].
pub fn lock<M: Medium>(tx: &Tx<'_, M>) -> Result<Option<PoolOffset>, HeapError> {
    let Some(word) = word_in(tx)? else { return Ok(None) };
    tx.lock(word)?;
    decode(word, tx.load8(word)).map(Some)
}

/// Lets the word, which is locked, lead to the table at `table`.
///
/// # Errors
/// As [`get_in`].
pub fn set<M: Medium>(tx: &Tx<'_, M>, table: PoolOffset) -> Result<(), HeapError> {
    if let Some(word) = word_in(tx)? {
        tx.store8(word, encode_root(table));
    }
    Ok(())
}

/// Returns the place of the word in the root object at `root`; `None` without one.
fn word_of<M: Medium>(heap: &Heap<M>, root: PoolOffset) -> Result<Option<PoolOffset>, HeapError> {
    if root.is_null() {
        return Ok(None);
    }
    let object = heap.object(root)?;
    check_root(root, object.size, object.type_number)?;
    Ok(Some(root.plus(TypedRoot::TREES)))
}

fn word_in<M: Medium>(tx: &Tx<'_, M>) -> Result<Option<PoolOffset>, HeapError> {
    let root = tx.root()?;
    if root.is_null() {
        return Ok(None);
    }
    let (size, type_number) = tx.object(root)?;
    check_root(root, size, type_number)?;
    Ok(Some(root.plus(TypedRoot::TREES)))
}

fn decode(word: PoolOffset, value: u64) -> Result<PoolOffset, HeapError> {
    decode_root(value).ok_or(HeapError::Corrupt { what: "the word that says where the trees are", at: word })
}
