//! The conversion of one object.

use super::walk::{Pointer, age_at, check_buffer, load};
use crate::error::HeapError;
use crate::tx::Tx;
use crate::typed::owners::{Edge, ObjectType, Owners, Renewed, Target};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use zerocopy::IntoBytes;

/// Adds a new object, made of the one at `at`, which is `age` changes older. `target_of` returns the target of a pointer that moves.
pub(super) fn convert(
    renewed: &mut Renewed<'_>,
    at: PoolOffset,
    ty: &ObjectType,
    age: u32,
    target_of: impl Fn(&Edge, &Target) -> Result<PoolOffset, HeapError>,
) -> Result<(), HeapError> {
    (ty.renew)(renewed, at, age).map_err(|error| error.of_object(at))?;
    let Renewed { bytes, pointers, old, .. } = renewed;
    for (offset, target) in pointers {
        let word = &mut bytes[*offset as usize..][..WORD as usize];
        let tag = u64::from_le_bytes(word.try_into().unwrap_or_default());
        if tag != 0 {
            // A pointer of another object, or one that was moved already, would have two owners.
            let stray =
                HeapError::NotConverted { at, reason: "a pointer in the new value is not one of the old" };
            let moved = old.take(tag).ok_or(stray)?;
            word.copy_from_slice(&target_of(&moved, target)?.get().to_le_bytes());
        }
    }
    Ok(())
}

/// Makes a new object of the one at `at`, which is `age` changes older, and lets the pointer lead to it. Returns its offset.
pub(super) fn renew<M: Medium>(
    tx: &Tx<'_, M>,
    renewed: &mut Renewed<'_>,
    pointer: &Pointer,
    at: PoolOffset,
    ty: &ObjectType,
    age: u32,
) -> Result<PoolOffset, HeapError> {
    renewed.bytes.clear();
    convert(renewed, at, ty, age, |moved, target| moved_target(tx, moved, target))?;
    let Renewed { bytes, align, number, old, .. } = renewed;
    // Its pointers are found in place.
    let new = tx.alloc_in_place(bytes, *align, *number)?;
    // The pointers that were not moved, while the older object is still there.
    let left: Vec<Edge> = old.edges.drain(..).flatten().collect();
    if !left.is_empty() {
        free_old(tx, left)?;
    }
    tx.free(at)?;
    pointer.store(tx, new)?;
    Ok(new)
}

/// Returns the target of a pointer of an older object for the pointer of the new one. A buffer whose elements are of another type
/// by now is copied to one with that type's number.
fn moved_target<M: Medium>(tx: &Tx<'_, M>, moved: &Edge, target: &Target) -> Result<PoolOffset, HeapError> {
    let at = load(tx, moved.word);
    let (Target::Buffer(old), Target::Buffer(new)) = (moved.target, target) else { return Ok(at) };
    check_buffer(tx, at, *old)?;
    if old == new {
        return Ok(at);
    }
    let mut words = vec![0; (tx.usable_size(at)? / WORD) as usize];
    tx.heap().memory().reading(|memory| memory.read(at, words.as_mut_bytes()))?;
    let copy = tx.alloc_with(&words, WORD, *new)?;
    tx.free(at)?;
    Ok(copy)
}

/// Frees what the edges of an older object lead to, with all that it owns. Those objects may be older, too.
fn free_old<M: Medium>(tx: &Tx<'_, M>, edges: Vec<Edge>) -> Result<(), HeapError> {
    let mut owners = Owners::new(tx.heap().memory());
    owners.edges = edges;
    while let Some(Edge { word, target }) = owners.edges.pop() {
        let at = PoolOffset::new(tx.load8(word));
        if at.is_null() {
            continue;
        }
        match target {
            Target::Buffer(number) => check_buffer(tx, at, *number)?,
            Target::Boxes(boxes) => {
                check_buffer(tx, at, boxes.buffer)?;
                owners.edges.extend(boxes.edges(tx, word)?);
            }
            Target::Structure(structure) => {
                (structure.free)(tx, at)?;
                continue;
            }
            Target::Object(ty) => (ty.visit_version)(at, &mut owners, age_at(tx, at, ty)?)?,
        }
        tx.free(at)?;
    }
    Ok(())
}
