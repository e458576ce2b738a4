//! The tree as the content of a whole pool, for [`lode_fsck`].

use crate::check::Finding;
use crate::error::IndexError;
use crate::salvage::salvage;
use crate::tree::Tree;
use lode_fsck::{DamagedPool, Layout, Repair, RepairError, ShrinkError, ShrinkEvents, Trace};
use lode_heap::{Heap, HeapError};
use lode_layout::{KV_LOAD_OFF, KV_LOAD_WORDS, KvLoad, KvLoadDamage, PoolOffset, WORD};
use lode_pmem::Medium;
use std::sync::Arc;

/// A layout whose root object is that of a tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeLayout {
    name: &'static str,
}

impl TreeLayout {
    /// Returns the layout with this name.
    pub const fn new(name: &'static str) -> TreeLayout {
        TreeLayout { name }
    }
}

impl<M: Medium> Layout<M> for TreeLayout {
    fn name(&self) -> &str {
        self.name
    }

    fn trace(&self, heap: &Heap<Arc<M>>, root: PoolOffset, trace: &mut Trace<'_>) -> bool {
        match Tree::open(heap, root) {
            Ok(tree) => {
                let keys = tree.check(|found| match found {
                    Finding::Object(object) => drop(trace.object("the object of the tree", object.at)),
                    Finding::Damage(error) => report(&error, PoolOffset::NULL, None, trace),
                });
                trace.keys(keys);
                return true;
            }
            Err(error) => report(&error, root, None, trace),
        }
        false
    }

    fn can_evacuate(&self) -> bool {
        true
    }

    fn evacuate(&self, heap: &Heap<Arc<M>>, events: &dyn ShrinkEvents) -> Result<(), ShrinkError> {
        let root = heap.root().map_err(IndexError::from)?;
        if root.is_null() {
            return Ok(());
        }
        evacuate_root_tree(&Tree::open(heap, root)?, events)
    }

    fn salvage(&self, damaged: &DamagedPool<'_, M>, repair: &mut Repair) -> Result<(), RepairError> {
        salvage(damaged, repair)
    }

    fn finish_repair(&self, heap: &Heap<Arc<M>>, repair: &mut Repair) -> Result<(), HeapError> {
        repair.repaired += u64::from(clear_load_progress(heap, repair.has_losses())?);
        Ok(())
    }
}

/// Moves the objects of the tree whose root object is the root of the pool.
pub(crate) fn evacuate_root_tree<M: Medium>(
    tree: &Tree<'_, M>,
    events: &dyn ShrinkEvents,
) -> Result<(), ShrinkError> {
    tree.evacuate(events)?;
    let moved = tree.heap().run(|tx| {
        if let Some(root) = tree.move_root_in(tx)? {
            tx.set_root(root);
        }
        Ok(())
    });
    stays_without_room(moved)
}

/// Leaves an object where it is for which there is no room below.
pub(crate) fn stays_without_room(moved: Result<(), IndexError>) -> Result<(), ShrinkError> {
    match moved {
        Err(IndexError::Heap(error)) if error.is_out_of_space() => Ok(()),
        moved => Ok(moved?),
    }
}

/// Reports damage of the tree at `root`, with the name of the tree, if it has one.
pub(crate) fn report(error: &IndexError, root: PoolOffset, name: Option<&str>, trace: &mut Trace<'_>) {
    let (what, at, means) = match *error {
        IndexError::Corrupt { what, at } => {
            (what, at, "the keys behind it can't be reached, or have wrong values")
        }
        IndexError::Fault(fault) => ("the range", fault.at, "it can't be read"),
        IndexError::NoTree { at } => ("the root of the tree", at, "no key can be reached"),
        _ => ("the tree", root, "it can't be opened"),
    };
    match name {
        Some(name) => trace.damage_on(what, at, means, format!("tree {name:?}")),
        None => trace.damage(what, at, means),
    }
}

/// Clears the progress of a load if it is damaged or outdated. Returns true if it cleared one.
fn clear_load_progress<M: Medium>(heap: &Heap<M>, is_outdated: bool) -> Result<bool, HeapError> {
    let root = heap.root()?;
    if root.is_null() {
        return Ok(false);
    }
    let at = root.plus(KV_LOAD_OFF);
    let words: [u64; KV_LOAD_WORDS] = heap
        .memory()
        .reading(|memory| std::array::from_fn(|word| memory.load8(at.plus(word as u64 * WORD))))?;
    let must_clear = match KvLoad::decode(&words) {
        Ok(progress) => progress.is_some() && is_outdated,
        Err(KvLoadDamage) => true,
    };
    if must_clear {
        heap.run(|tx| {
            tx.store_words(at, &KvLoad::NONE);
            Ok::<_, HeapError>(())
        })?;
    }
    Ok(must_clear)
}
