//! Salvage of a damaged tree.
//!
//! 1. A pass over the tree unlinks the parts that are not sound.
//! 2. The bitmaps mark all that the tree reaches as allocated.
//! 3. Sound leaves to which no slot leads are inserted again, by ordinary transactions.
//! 4. Objects that can't be reached are freed, and the counts are corrected.
//!
//! A step gives up no data that a later one needs. So leaves that 1 unlinked stay allocated until 3 has inserted them
//! again.

use crate::error::IndexError;
use crate::losses::{Aftermath, Losses};
use crate::salvage_pass::{Reached, SalvagePass, sound_key, sound_value};
use crate::tree::Tree;
use lode_fsck::{DamagedPool, Repair, RepairError};
use lode_heap::check::SpaceMap;
use lode_heap::{Heap, HeapError};
use lode_layout::{Geometry, PoolOffset, TYPE_LEAF, TYPE_TREE, tree_meta};
use lode_pmem::{FaultScope, Medium, Readable};
use std::sync::Arc;

/// Salvages the tree of the pool, as the head of this file describes it.
pub(crate) fn salvage<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    repair: &mut Repair,
) -> Result<(), RepairError> {
    let DamagedPool { medium, geometry, uuid, log_epoch, space_was_sound } = *damaged;
    let memory = medium.memory();
    let mut reached = Reached::read(memory, geometry);
    let rank = |memory: &Readable, at| Some(u64::from(memory.load8(at) != tree_meta()));
    let (root, was_lost) = find_root(&**medium, geometry, &reached.map, repair, rank)?;
    let is_rootless = root.is_none();
    let mut losses = Losses::default();
    if let Some(root) = root {
        let scope = FaultScope::open();
        let mut pass = SalvagePass::new(&**medium, scope.memory(memory), &mut reached);
        pass.run(root);
        repair.repaired += pass.stored;
        losses = pass.losses;
        // Lost bytes read as zeros, and what lies there is unlinked.
        let _ = scope.close();
        drain(&**medium)?;
    }
    repair.repaired += reached.map.repair_bitmaps(&**medium, false)?;
    let (heap, _) = Heap::open(Arc::clone(medium), geometry, uuid, log_epoch)?;
    let Reinsertion { root, mut reinserted, unsound } =
        reinsert_leaves(&heap, &reached.map, root).map_err(repair_error)?;
    repair.reinserted += reinserted.len() as u64;
    reinserted.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
    heap.close()?;
    let mut reached = Reached::read(memory, geometry);
    let mut leaves = 0;
    if let Some(root) = root {
        let scope = FaultScope::open();
        let mut pass = SalvagePass::new(&**medium, scope.memory(memory), &mut reached);
        pass.run(root);
        leaves = pass.losses.leaves;
        pass.repair_count(root);
        // As above.
        let _ = scope.close();
        drain(&**medium)?;
    }
    repair.repaired += reached.map.repair_bitmaps(&**medium, true)?;
    let after = Aftermath {
        has_unlisted_loss: unsound.iter().any(|leaf| !losses.lost_leaves.contains(leaf)),
        trusts_count: !space_was_sound,
        // A pool without a tree has no leaves, unless both the root word and the root object were lost.
        was_lost: was_lost || is_rootless && repair.reinserted > 0,
        reinserted: &reinserted,
        leaves,
    };
    repair.lost.append(&mut losses.ranges(&after));
    Ok(())
}

/// Runs a pass over each of the trees with these root objects, which unlinks what is not sound, ends their loads, and corrects their counts
/// if it `corrects_counts`. Durable on return. Returns what each has lost.
pub(crate) fn passes<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    reached: &mut Reached,
    roots: &[PoolOffset],
    corrects_counts: bool,
    repair: &mut Repair,
) -> Result<Vec<Losses>, HeapError> {
    let medium = &**damaged.medium;
    let scope = FaultScope::open();
    let mut losses = Vec::new();
    for root in roots {
        let mut pass = SalvagePass::new(medium, scope.memory(medium.memory()), reached);
        pass.run(*root);
        pass.clear_load(*root);
        if corrects_counts {
            pass.repair_count(*root);
        }
        repair.repaired += pass.stored;
        losses.push(pass.losses);
    }
    // Lost bytes read as zeros, and what lies there is unlinked.
    let _ = scope.close();
    drain(medium)?;
    Ok(losses)
}

pub(crate) fn drain<M: Medium>(medium: &M) -> Result<(), HeapError> {
    // ORDER: unlinking is durable before the unlinked space is used again. Stop here: the next repair goes on.
    medium.drain().map_err(HeapError::from)
}

/// Returns the root object of the pool's only tree, or of its table of trees, if there is one, and true if the pool had
/// one that is lost. If the root word is damaged, that is the candidate of the lowest rank.
pub(crate) fn find_root<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    map: &SpaceMap,
    repair: &mut Repair,
    rank: impl Fn(&Readable, PoolOffset) -> Option<u64>,
) -> Result<(Option<PoolOffset>, bool), HeapError> {
    let memory = medium.memory();
    let at = geometry.extents().first().map_or(PoolOffset::NULL, |extent| extent.start);
    // A lost word is as good as a damaged one.
    let word = memory.reading(|memory| memory.load8(at)).unwrap_or(0);
    let stored = lode_layout::decode_root(word);
    let is_tree = |at: PoolOffset| map.object(at).is_some_and(|(_, found)| found == TYPE_TREE);
    if let Some(root) = stored.filter(|root| is_tree(*root)) {
        return Ok((Some(root), false));
    }
    let mut candidates = Vec::new();
    // A candidate that can't be read comes last.
    let _ = memory.reading(|memory| {
        for at in map.root_candidates(memory, TYPE_TREE) {
            candidates.extend(rank(memory, at).map(|rank| (rank, at)));
        }
        candidates.sort_by_key(|(rank, _)| *rank);
    });
    let root = candidates.first().map(|(_, at)| *at);
    if root.is_none() && stored.is_some_and(PoolOffset::is_null) {
        return Ok((None, false));
    }
    SpaceMap::repair_root(medium, geometry, root.unwrap_or(PoolOffset::NULL))?;
    repair.repaired += 1;
    // A single flipped bit in the root word of a pool without a root is no loss.
    let flipped = word ^ lode_layout::encode_root(PoolOffset::NULL);
    Ok((root, root.is_none() && !flipped.is_power_of_two()))
}

/// The leaves to which no slot led, after the repair.
struct Reinsertion {
    /// The root object of the tree, made if there was none.
    root: Option<PoolOffset>,
    /// Leaves that were inserted again, with their keys.
    reinserted: Vec<(PoolOffset, Vec<u8>)>,
    /// The leaves that are not sound.
    unsound: Vec<PoolOffset>,
}

/// Inserts each sound leaf to which no slot leads, unless the tree has its key.
fn reinsert_leaves<M: Medium>(
    heap: &Heap<M>,
    map: &SpaceMap,
    root: Option<PoolOffset>,
) -> Result<Reinsertion, IndexError> {
    let memory = heap.memory();
    let (mut reinserted, mut unsound) = (Vec::new(), Vec::new());
    let mut unreferenced = Vec::new();
    // A lost bitmap has no objects.
    let _ = memory.reading(|memory| map.visit_unmarked(memory, |at| unreferenced.push(at)));
    unreferenced.retain(|at| map.object(*at).is_some_and(|(_, found)| found == TYPE_LEAF));
    let mut root = root;
    for at in unreferenced {
        let room = map.object(at).map_or(0, |(size, _)| size);
        let Some(key) = sound_key(memory, at, room) else {
            unsound.push(at);
            continue;
        };
        let top = match root {
            Some(top) => top,
            None => *root.insert(create_root(heap)?),
        };
        let tree = Tree::open(heap, top)?;
        if tree.get(&key)?.is_none() {
            tree.insert(&key, &sound_value(memory, at)?)?;
            reinserted.push((at, key));
        }
    }
    Ok(Reinsertion { root, reinserted, unsound })
}

fn create_root<M: Medium>(heap: &Heap<M>) -> Result<PoolOffset, IndexError> {
    heap.run(|tx| {
        let root = Tree::create(tx)?;
        tx.set_root(root);
        Ok(root)
    })
}

pub(crate) fn repair_error(error: IndexError) -> RepairError {
    match error {
        IndexError::Heap(error) => RepairError::Heap(error),
        error => RepairError::Layout(Box::new(error)),
    }
}
