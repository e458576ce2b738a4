//! The objects that an object owns, and freeing an object with them.

use super::brand::Brand;
use super::tx::TypedTx;
use crate::error::HeapError;
use lode_layout::PoolOffset;
use lode_pmem::{Fault, Medium, Memory};

/// A function that visits the object that begins at an offset.
pub(crate) type Walk = fn(PoolOffset, &mut Owners<'_>) -> Result<(), Fault>;

/// A word that names an owned object, and the function that visits that object; `None` if it owns nothing.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) word: PoolOffset,
    pub(crate) walk: Option<Walk>,
}

impl std::fmt::Debug for Owners<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = self.edges.iter().map(|edge| edge.word);
        f.debug_list().entries(words).finish()
    }
}

/// Collects the words of an object that own others. For [`Persist::visit_owned`](crate::Persist::visit_owned).
pub struct Owners<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) edges: Vec<Edge>,
}

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
    let mut owners = Owners { memory: tx.raw().heap().memory(), edges: Vec::new() };
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
        tx.raw().store8(edge.word, PoolOffset::NULL.get());
        tx.raw().free(target)?;
        if let Some(walk) = edge.walk {
            walk(target, &mut owners)?;
        }
    }
    Ok(())
}
