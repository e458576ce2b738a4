//! Checks and repairs of the trees beside typed data.
//!
//! The table is made sound first, as that of a store is, names and all. From then on its trees are salvaged as the maps of the pool's
//! objects are: a loose leaf goes back only where it is certain whose it is.

use super::Trees;
use super::salvage::{open, pass, report_lost_names, settle};
use super::survey::{Survey, is_tree, unmarked_roots};
use crate::error::IndexError;
use crate::losses::Losses;
use crate::salvage::{drain, passes, repair_error};
use crate::salvage_pass::Reached;
use crate::tree::Tree;
use lode_fsck::{DamagedPool, Repair, RepairError};
use lode_heap::check::SpaceMap;
use lode_heap::{Heap, trees};
use lode_layout::PoolOffset;
use lode_pmem::{FaultScope, Medium};
use std::sync::Arc;

/// Number of the log epoch in which the table is made right.
const EPOCH: u64 = 6;

/// Returns the root objects of the table at `table`, and of the trees to which its sound entries lead, but of none that `space` marks;
/// none if no table is there.
pub(crate) fn roots<M: Medium>(medium: &M, space: &SpaceMap, table: PoolOffset) -> Vec<PoolOffset> {
    let scope = FaultScope::open();
    let found = unmarked_roots(scope.memory(medium.memory()), space, table);
    // Lost bytes read as zeros, so what lies there is not sound.
    let _ = scope.close();
    found
}

/// Makes the table at `table` sound, or a new one if it is lost. Trees whose names are lost get others. `space` marks what the typed
/// data and its maps reach.
pub(crate) fn settle_table<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    table: PoolOffset,
    space: SpaceMap,
    repair: &mut Repair,
) -> Result<(), RepairError> {
    let medium = &**damaged.medium;
    let mut reached = Reached::with(space, medium.memory());
    let is_there = is_tree(&reached.map, table);
    let losses = match is_there {
        true => pass(damaged, table, &mut reached, repair)?,
        false => Losses::default(),
    };
    let mut survey = Survey::make(damaged, is_there.then_some(table), &mut reached);
    // They may be those of maps.
    survey.leaves.clear();
    repair.repaired += survey.stored;
    drain(medium)?;
    repair.repaired += reached.map.repair_bitmaps(medium, false)?;
    let heap = open(damaged, EPOCH)?;
    let table = if is_there {
        table
    } else {
        heap.run(|tx| {
            let table = Tree::create(tx)?;
            trees::lock(tx)?;
            trees::set(tx, table)?;
            Ok::<_, IndexError>(table)
        })
        .map_err(repair_error)?
    };
    settle(&heap, Some(table), &survey, repair).map_err(repair_error)?;
    heap.close()?;
    let mut reached = Reached::read(medium.memory(), damaged.geometry);
    passes(damaged, &mut reached, &[table], true, repair)?;
    report_lost_names(losses, !is_there, &survey, damaged, repair);
    Ok(())
}

/// Returns the names of the trees of the table at `table`, with their root objects.
pub(crate) fn names<M: Medium>(
    heap: &Heap<Arc<M>>,
    table: PoolOffset,
) -> Result<Vec<(String, PoolOffset)>, RepairError> {
    let trees = Trees::open(heap, table).map_err(repair_error)?;
    trees.named().map_err(repair_error)
}
