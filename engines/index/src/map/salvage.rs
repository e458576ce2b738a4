//! Salvage of damaged maps in pools of typed data.
//!
//! 1. A pass over each map unlinks the parts that are not sound.
//! 2. Sound leaves to which no slot leads are inserted again, by ordinary transactions, into the maps whose they are.
//! 3. The counts are corrected, once leaves without a map are free.
//!
//! Nothing on the medium says of a leaf whose it is. So it goes to the only map whose types its bytes fit and that counts more keys
//! than it has, if that counts as many more as there are such leaves. The counts stay until 3: a repair that was killed finds the same
//! map for a leaf. A leaf without a map is lost, and the map that lacks it says so.

use super::visit::visit_map;
use crate::losses::{Aftermath, Losses};
use crate::salvage::{passes, repair_error};
use crate::salvage_pass::{Reached, SalvagePass, sound_key, sound_value};
use crate::tree::Tree;
use crate::trees::{beside, root_of_entry, trace};
use lode_fsck::{DamagedMap, DamagedPool, LostRange, Maps, Repair, RepairError, Trace, UnlinkedMaps};
use lode_heap::check::SpaceMap;
use lode_heap::{Heap, HeapError, VisitMap};
use lode_layout::{PoolOffset, TYPE_LEAF};
use lode_pmem::{FaultScope, Medium};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maps whose structure is a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeMaps;

impl<M: Medium> Maps<M> for TreeMaps {
    fn visitor(&self) -> VisitMap<Arc<M>> {
        visit_map
    }

    fn mark(&self, medium: &M, space: SpaceMap, roots: &[PoolOffset]) -> (SpaceMap, u64) {
        let mut reached = Reached::with(space, medium.memory());
        let mut stored = 0;
        let scope = FaultScope::open();
        for root in roots {
            let pass = SalvagePass::new(medium, scope.memory(medium.memory()), &mut reached);
            let mut pass = pass.surveying();
            pass.run(*root);
            stored += pass.stored;
        }
        // Lost bytes read as zeros, and what lies there is not marked.
        let _ = scope.close();
        (reached.map, stored)
    }

    fn unlink(
        &self,
        damaged: &DamagedPool<'_, M>,
        roots: &[PoolOffset],
        repair: &mut Repair,
    ) -> Result<Box<dyn UnlinkedMaps<M>>, RepairError> {
        let mut reached = Reached::read(damaged.medium.memory(), damaged.geometry);
        let losses = passes(damaged, &mut reached, roots, false, repair)?;
        let maps = roots.iter().zip(losses).map(|(root, losses)| Map {
            root: *root,
            path: None,
            losses,
            reinserted: Vec::new(),
        });
        Ok(Box::new(Unlinked { maps: maps.collect(), reached, unsound: Vec::new() }))
    }

    fn trace_trees(&self, heap: &Heap<Arc<M>>, table: PoolOffset, trace: &mut Trace<'_>) -> bool {
        trace::trace_table(heap, table, trace)
    }

    fn tree_roots(&self, medium: &M, space: &SpaceMap, table: PoolOffset) -> Vec<PoolOffset> {
        beside::roots(medium, space, table)
    }

    fn settle_table(
        &self,
        damaged: &DamagedPool<'_, M>,
        table: PoolOffset,
        space: SpaceMap,
        repair: &mut Repair,
    ) -> Result<(), RepairError> {
        beside::settle_table(damaged, table, space, repair)
    }

    fn named_trees(
        &self,
        heap: &Heap<Arc<M>>,
        table: PoolOffset,
    ) -> Result<Vec<(String, PoolOffset)>, RepairError> {
        beside::names(heap, table)
    }
}

/// A map in the middle of its salvage.
struct Map {
    root: PoolOffset,
    /// `None` of the table of trees, and of a dropped tree, whose keys would have been deleted.
    path: Option<String>,
    losses: Losses,
    /// Leaves that were inserted again, with their keys.
    reinserted: Vec<(PoolOffset, Vec<u8>)>,
}

impl Map {
    /// Returns the number of keys that the map counts, and has not.
    fn missing(&self) -> u64 {
        self.losses.counted.saturating_sub(self.losses.leaves)
    }
}

struct Unlinked {
    maps: Vec<Map>,
    /// The objects that the maps reach.
    reached: Reached,
    /// Damaged leaves to which no slot leads.
    unsound: Vec<PoolOffset>,
}

/// A sound leaf to which no slot leads.
struct LooseLeaf {
    at: PoolOffset,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Unlinked {
    fn loose_leaves<M: Medium>(&mut self, heap: &Heap<M>) -> Result<Vec<LooseLeaf>, RepairError> {
        let (memory, map) = (heap.memory(), &self.reached.map);
        let mut unreferenced = Vec::new();
        // A lost bitmap has no objects.
        let _ = memory.reading(|memory| map.visit_unmarked(memory, |at| unreferenced.push(at)));
        let roots: HashSet<PoolOffset> = self.maps.iter().map(|map| map.root).collect();
        let mut leaves = Vec::new();
        for at in unreferenced {
            let Some((room, TYPE_LEAF)) = map.object(at) else { continue };
            let Some(key) = sound_key(memory, at, room) else {
                self.unsound.push(at);
                continue;
            };
            let value = sound_value(memory, at).map_err(HeapError::from)?;
            // The table of trees has its entries again.
            let is_entry = root_of_entry(&key, &value).is_some_and(|root| roots.contains(&root));
            leaves.extend((!is_entry).then_some(LooseLeaf { at, key, value }));
        }
        Ok(leaves)
    }
}

impl<M: Medium> UnlinkedMaps<M> for Unlinked {
    fn reinsert(
        &mut self,
        heap: &Heap<Arc<M>>,
        maps: &[DamagedMap<'_>],
        repair: &mut Repair,
    ) -> Result<(), RepairError> {
        let by_root: HashMap<PoolOffset, &DamagedMap<'_>> = maps.iter().map(|map| (map.root, map)).collect();
        let mut leaves_of: HashMap<usize, Vec<LooseLeaf>> = HashMap::new();
        for leaf in self.loose_leaves(heap)? {
            let fits = |map: &&(usize, &Map)| {
                let has_room = by_root
                    .get(&map.1.root)
                    .is_some_and(|found| (found.has_room_for)(&leaf.key, &leaf.value));
                has_room && map.1.missing() > 0
            };
            let mut lacking = self.maps.iter().enumerate().filter(|map| fits(&map));
            if let (Some((index, _)), None) = (lacking.next(), lacking.next()) {
                leaves_of.entry(index).or_default().push(leaf);
            }
        }
        for (index, map) in self.maps.iter_mut().enumerate() {
            map.path = by_root.get(&map.root).map(|found| found.path.clone());
            let leaves = leaves_of.remove(&index).unwrap_or_default();
            if leaves.len() as u64 > map.missing() {
                continue;
            }
            let tree = Tree::open(heap, map.root).map_err(repair_error)?;
            for LooseLeaf { at, key, value } in leaves {
                if tree.get(&key).map_err(repair_error)?.is_none() {
                    tree.insert(&key, &value).map_err(repair_error)?;
                    repair.reinserted += 1;
                    map.reinserted.push((at, key));
                }
            }
            map.reinserted.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        }
        Ok(())
    }

    fn finish(self: Box<Self>, damaged: &DamagedPool<'_, M>, repair: &mut Repair) -> Result<(), RepairError> {
        let mut reached = Reached::read(damaged.medium.memory(), damaged.geometry);
        let roots: Vec<PoolOffset> = self.maps.iter().map(|map| map.root).collect();
        let last = passes(damaged, &mut reached, &roots, true, repair)?;
        let listed: HashSet<PoolOffset> =
            self.maps.iter().flat_map(|map| map.losses.lost_leaves.iter().copied()).collect();
        let has_unlisted = self.unsound.iter().any(|leaf| !listed.contains(leaf));
        for (map, last) in self.maps.into_iter().zip(last) {
            let Some(path) = map.path else { continue };
            let after = Aftermath {
                reinserted: &map.reinserted,
                leaves: last.leaves,
                has_unlisted_loss: has_unlisted && map.losses.counted != last.leaves,
                trusts_count: true,
                was_lost: false,
            };
            let ranges = map.losses.ranges(&after).into_iter();
            repair.lost.extend(ranges.map(|range| LostRange { tree: Some(path.clone()), ..range }));
        }
        Ok(())
    }
}
