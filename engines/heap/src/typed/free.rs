//! Freeing an object with all that it owns.

use super::brand::Brand;
use super::owners::{Boxes, Edge, Owners, Target, Walk};
use super::tx::TypedTx;
use crate::error::HeapError;
use lode_layout::PoolOffset;
use lode_pmem::Medium;

/// Frees the object at `at` with all that it owns. Each edge is locked and cut before its object is freed. So if two
/// transactions come to own the same object, one waits, and then finds the edge cut. After a failure the transaction
/// can't commit, since a part is freed.
pub(crate) fn free_owned<B: Brand, M: Medium>(
    tx: &TypedTx<'_, B, M>,
    at: PoolOffset,
    walk: Option<Walk>,
) -> Result<(), HeapError> {
    free_parts(tx, at, walk).inspect_err(|_| tx.raw().set_rollback_only())
}

fn free_parts<B: Brand, M: Medium>(
    tx: &TypedTx<'_, B, M>,
    at: PoolOffset,
    walk: Option<Walk>,
) -> Result<(), HeapError> {
    let mut owners = Owners::new(tx.raw().heap().memory());
    tx.raw().free(at)?;
    if let Some(walk) = walk {
        walk(at, &mut owners)?;
    }
    while let Some(edge) = owners.edges.pop() {
        tx.raw().lock(edge.word)?;
        let target = PoolOffset::new(tx.raw().load8(edge.word));
        if target.is_null() {
            continue;
        }
        if let Target::Boxes(boxes) = edge.target {
            free_elements(tx, boxes, &mut owners, edge.word)?;
        }
        tx.raw().store8(edge.word, PoolOffset::NULL.get());
        if let Target::Structure(structure) = edge.target {
            (structure.free)(tx.raw(), target)?;
            continue;
        }
        tx.raw().free(target)?;
        if let Some(walk) = edge.target.walk() {
            walk(target, &mut owners)?;
        }
    }
    Ok(())
}

/// Frees the elements of the vector of boxes that begins at `vector`, which is locked: it guards its elements, so none of them is
/// locked or cut by itself.
fn free_elements<B: Brand, M: Medium>(
    tx: &TypedTx<'_, B, M>,
    boxes: &Boxes,
    owners: &mut Owners<'_>,
    vector: PoolOffset,
) -> Result<(), HeapError> {
    for Edge { word, target } in boxes.edges(tx.raw(), vector)? {
        let element = PoolOffset::new(tx.raw().load8(word));
        tx.raw().free(element)?;
        if let Some(walk) = target.walk() {
            walk(element, owners)?;
        }
    }
    Ok(())
}
