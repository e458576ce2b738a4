//! Salvage of a damaged store.
//!
//! 1. The table of trees is found, and a pass over it unlinks the parts that are not sound.
//! 2. A survey of all trees finds what each has lost, and marks what it keeps. It changes no tree.
//! 3. The bitmaps mark all that the trees reach as allocated.
//! 4. One transaction makes the table right, names trees whose names are lost, and stores the plan: the trees to which
//!    loose leaves go.
//! 5. A pass over each tree unlinks the parts that are not sound.
//! 6. Loose leaves are inserted again as the plan says, by ordinary transactions.
//! 7. Objects that can't be reached are freed, and the counts are corrected. The plan is deleted.
//!
//! Stopped before 4, a repair finds the same again, because nothing that the survey needs has changed. Stopped later, it
//! finds the plan. Loose leaves stay allocated until 7.

use super::plan::{self, BYTES, LOST_AND_FOUND, Plan};
use super::survey::{LooseLeaf, Survey, SurveyedTree, is_table};
use super::{Trees, placement};
use crate::error::IndexError;
use crate::losses::{Aftermath, Losses};
use crate::salvage::{drain, find_root, passes, repair_error};
use crate::salvage_pass::{Reached, SalvagePass, sound_value};
use crate::tree::Tree;
use lode_fsck::{DamagedPool, LostRange, Repair, RepairError};
use lode_heap::{Heap, HeapError, Tx};
use lode_layout::{PoolOffset, TreeEntry, TreeTableKey};
use lode_pmem::{FaultScope, Medium};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Leaves that were inserted again, by the root objects of their trees.
type Reinserted = HashMap<PoolOffset, Vec<LooseLeaf>>;

/// Salvages the trees of the pool, as the head of this file describes it.
pub(super) fn salvage<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    repair: &mut Repair,
) -> Result<(), RepairError> {
    let DamagedPool { medium, geometry, .. } = *damaged;
    let mut reached = Reached::read(medium.memory(), geometry);
    let is_candidate = |memory: &_, at| is_table(memory, &reached.map, at).then_some(0);
    let (table, was_lost) = find_root(&**medium, geometry, &reached.map, repair, is_candidate)?;
    let is_tableless = table.is_none();
    let table_losses = match table {
        Some(table) => pass(damaged, table, &mut reached, repair)?,
        None => Losses::default(),
    };
    let survey = Survey::make(damaged, table, &mut reached);
    repair.repaired += survey.stored;
    drain(&**medium)?;
    repair.repaired += reached.map.repair_bitmaps(&**medium, false)?;
    if table.is_none() && survey.trees.is_empty() && survey.leaves.is_empty() {
        repair.repaired += Reached::read(medium.memory(), geometry).map.repair_bitmaps(&**medium, true)?;
        repair.lost_names.extend(was_lost.then(LostRange::default));
        return Ok(());
    }
    let heap = open(damaged, 1)?;
    let (table, plan) = settle(&heap, table, &survey, repair).map_err(repair_error)?;
    let roots = roots(&heap, table, &survey).map_err(repair_error)?;
    heap.close()?;
    let mut reached = Reached::read(medium.memory(), geometry);
    for root in roots {
        pass(damaged, root, &mut reached, repair)?;
    }
    let heap = open(damaged, 2)?;
    let reinserted = reinsert(&heap, table, &survey, &plan, repair).map_err(repair_error)?;
    let roots = self::roots(&heap, table, &survey).map_err(repair_error)?;
    heap.close()?;
    let leaves = finish(damaged, &roots, repair)?;
    let heap = open(damaged, 3)?;
    Trees::open(&heap, table).and_then(|trees| plan::delete(&heap, &trees)).map_err(repair_error)?;
    heap.close()?;
    // Without a table there are no trees, unless both the root word and the table were lost.
    let was_lost = was_lost || is_tableless;
    let table_leaves = table_losses.lost_leaves.clone();
    report_lost_names(table_losses, was_lost, &survey, damaged, repair);
    report_lost_keys(survey, &table_leaves, &reinserted, &leaves, damaged, repair);
    Ok(())
}

/// Opens the heap, for the log epoch of this number.
pub(super) fn open<M: Medium>(damaged: &DamagedPool<'_, M>, number: u64) -> Result<Heap<Arc<M>>, HeapError> {
    let [high, low] = damaged.log_epoch;
    let log_epoch = [high.wrapping_add(number), low];
    Ok(Heap::open(Arc::clone(damaged.medium), damaged.geometry, damaged.uuid, log_epoch)?.0)
}

/// Unlinks what is not sound of the tree at `root`, durably on return.
pub(super) fn pass<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    root: PoolOffset,
    reached: &mut Reached,
    repair: &mut Repair,
) -> Result<Losses, HeapError> {
    Ok(passes(damaged, reached, &[root], false, repair)?.pop().unwrap_or_default())
}

/// Makes the table right, and the plan durable. Returns the table, new if there was none, and the plan.
pub(super) fn settle<M: Medium>(
    heap: &Heap<M>,
    table: Option<PoolOffset>,
    survey: &Survey,
    repair: &mut Repair,
) -> Result<(PoolOffset, Plan), IndexError> {
    let table = match table {
        Some(table) => table,
        None => heap.run(Trees::create)?,
    };
    let trees = Trees::open(heap, table)?;
    let known = plan::read(heap, &trees)?;
    let places = placement::place(survey);
    let (plan, found) = heap.run(|tx| {
        for key in &survey.invalid {
            trees.table.delete_in(tx, key)?;
        }
        let mut found = Vec::new();
        let mut roots = Vec::new();
        for tree in &survey.trees {
            roots.push(settle_tree(tx, &trees, tree, &mut found)?);
        }
        let new_plan = || {
            let placed = survey.leaves.iter().zip(&places);
            placed.map(|((leaf, _), place)| (*leaf, place.map(|number| roots[number]))).collect()
        };
        let plan = known.clone().unwrap_or_else(new_plan);
        if known.is_none() && !plan.is_empty() {
            plan::store_in(heap, &trees, tx, &plan)?;
        }
        Ok::<_, IndexError>((plan, found))
    })?;
    repair.found_trees.extend(found);
    Ok((table, plan))
}

/// Gives a tree the entry and the root object that it lacks. Returns the root object.
fn settle_tree<M: Medium>(
    tx: &Tx<'_, M>,
    trees: &Trees<'_, M>,
    tree: &SurveyedTree,
    found: &mut Vec<String>,
) -> Result<PoolOffset, IndexError> {
    let mut root = tree.root;
    match &tree.entry {
        Some((key, value)) => {
            let mut value = value.clone();
            if !tree.has_root {
                root = Tree::create(tx)?;
                value = TreeEntry::decode(&value)
                    .map(|entry| TreeEntry { root, ..entry }.encode())
                    .map_err(|_| super::entry::damaged_table(trees.table.root()))?;
            }
            if tree.is_entry_loose || !tree.has_root {
                trees.table.insert_in(tx, key, &value)?;
            }
        }
        None => {
            let name = free_name(tx, trees, |number| format!("{LOST_AND_FOUND}/{number}"))?;
            let entry = TreeEntry { root, key_type: BYTES, value_type: BYTES };
            trees.table.insert_in(tx, &TreeTableKey::Named(&name).encode(), &entry.encode())?;
            found.push(name);
        }
    }
    Ok(root)
}

/// Returns the first of the numbered names that no tree has.
fn free_name<M: Medium>(
    tx: &Tx<'_, M>,
    trees: &Trees<'_, M>,
    name: impl Fn(u64) -> String,
) -> Result<String, IndexError> {
    let mut number = 1;
    while trees.get_in(tx, &name(number))?.is_some() {
        number += 1;
    }
    Ok(name(number))
}

/// Returns the root objects of the table and of all trees: first the table and the trees that the repair has made, since
/// a damaged slot may lead into space that was free before.
fn roots<M: Medium>(
    heap: &Heap<M>,
    table: PoolOffset,
    survey: &Survey,
) -> Result<Vec<PoolOffset>, IndexError> {
    let old: HashSet<PoolOffset> = survey.trees.iter().map(|tree| tree.root).collect();
    let mut roots = Trees::open(heap, table)?.roots()?;
    roots.sort_by_key(|root| old.contains(root));
    Ok(roots)
}

/// Inserts loose leaves as the plan says, unless the tree has the key.
fn reinsert<M: Medium>(
    heap: &Heap<M>,
    table: PoolOffset,
    survey: &Survey,
    plan: &Plan,
    repair: &mut Repair,
) -> Result<Reinserted, IndexError> {
    let trees = Trees::open(heap, table)?;
    let mut reinserted = Reinserted::new();
    for (leaf, key) in &survey.leaves {
        let value = sound_value(heap.memory(), *leaf)?;
        let tree = plan.get(leaf).copied().flatten().map(|root| Tree::open(heap, root));
        match tree {
            Some(Ok(tree)) => {
                if tree.get(key)?.is_none() {
                    tree.insert(key, &value)?;
                    repair.reinserted += 1;
                    reinserted.entry(tree.root()).or_default().push((*leaf, key.clone()));
                }
            }
            Some(Err(IndexError::NoTree { .. })) | None => {
                repair.reinserted +=
                    u64::from(heap.run(|tx| insert_unplaced(heap, tx, &trees, key, &value))?);
                repair.unplaced += 1;
            }
            Some(Err(error)) => return Err(error),
        }
    }
    Ok(reinserted)
}

/// Inserts a key whose tree is unknown into the first tree for such keys that does not have it with another value.
/// Returns true if none had it with this value.
fn insert_unplaced<M: Medium>(
    heap: &Heap<M>,
    tx: &Tx<'_, M>,
    trees: &Trees<'_, M>,
    key: &[u8],
    value: &[u8],
) -> Result<bool, IndexError> {
    for number in 1u64.. {
        let name = if number == 1 { LOST_AND_FOUND.to_owned() } else { format!("{LOST_AND_FOUND}.{number}") };
        let named = match trees.get_in(tx, &name)? {
            Some(named) => named,
            None => trees.create_in(tx, &name, BYTES, BYTES)?,
        };
        if named.key_type != BYTES || named.value_type != BYTES {
            continue;
        }
        let tree = Tree::open_in(heap, tx, named.root)?;
        match tree.get_in(tx, key)? {
            None => return tree.insert_in(tx, key, value).map(|_| true),
            Some(found) if found == value => return Ok(false),
            Some(_) => {}
        }
    }
    Ok(false)
}

/// Corrects the counts of all trees, and frees what they do not reach. Returns the numbers of their leaves.
fn finish<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    roots: &[PoolOffset],
    repair: &mut Repair,
) -> Result<HashMap<PoolOffset, u64>, HeapError> {
    let medium = &**damaged.medium;
    let mut reached = Reached::read(medium.memory(), damaged.geometry);
    let mut leaves = HashMap::new();
    let scope = FaultScope::open();
    for root in roots {
        let mut pass = SalvagePass::new(medium, scope.memory(medium.memory()), &mut reached);
        pass.run(*root);
        pass.repair_count(*root);
        leaves.insert(*root, pass.losses.leaves);
    }
    // Lost bytes read as zeros.
    let _ = scope.close();
    drain(medium)?;
    repair.repaired += reached.map.repair_bitmaps(medium, true)?;
    Ok(leaves)
}

/// Reports ranges of names in which names of trees are lost.
pub(super) fn report_lost_names<M: Medium>(
    losses: Losses,
    was_lost: bool,
    survey: &Survey,
    damaged: &DamagedPool<'_, M>,
    repair: &mut Repair,
) {
    let mut reinserted: Vec<LooseLeaf> = Vec::new();
    for tree in survey.trees.iter().filter(|tree| tree.is_entry_loose) {
        reinserted.extend(tree.entry.as_ref().map(|entry| (PoolOffset::NULL, entry.0.clone())));
    }
    reinserted.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
    let after = Aftermath {
        leaves: losses.leaves + reinserted.len() as u64,
        reinserted: &reinserted,
        has_unlisted_loss: !survey.invalid.is_empty(),
        trusts_count: !damaged.space_was_sound || !repair.found_trees.is_empty(),
        was_lost,
    };
    let name = |key: Vec<u8>| match TreeTableKey::decode(&key) {
        Ok(TreeTableKey::Named(name)) => Some(name.as_bytes().to_vec()),
        _ => None,
    };
    let of_names = |range: LostRange| LostRange {
        tree: None,
        after: range.after.and_then(name),
        before: range.before.and_then(name),
    };
    repair.lost_names.extend(losses.ranges(&after).into_iter().map(of_names));
}

/// Reports ranges of keys in which keys of trees are lost.
fn report_lost_keys<M: Medium>(
    survey: Survey,
    table_leaves: &HashSet<PoolOffset>,
    reinserted: &Reinserted,
    leaves: &HashMap<PoolOffset, u64>,
    damaged: &DamagedPool<'_, M>,
    repair: &mut Repair,
) {
    let is_listed = |leaf: &PoolOffset| {
        table_leaves.contains(leaf) || survey.trees.iter().any(|tree| tree.losses.lost_leaves.contains(leaf))
    };
    // A tree of which neither the name nor the root object is left has no count.
    let may_be_unknown = !damaged.space_was_sound && (repair.unplaced > 0 || !repair.lost_names.is_empty());
    if may_be_unknown || survey.unsound.iter().any(|leaf| !is_listed(leaf)) {
        repair.lost.push(LostRange::default());
    }
    let nothing = Vec::new();
    // The keys of a dropped tree would have been deleted.
    for tree in survey.trees.into_iter().filter(|tree| !tree.was_dropped()) {
        let name = tree.name().map(str::to_owned);
        let after = Aftermath {
            reinserted: reinserted.get(&tree.root).unwrap_or(&nothing),
            leaves: leaves.get(&tree.root).copied().unwrap_or(0),
            has_unlisted_loss: false,
            trusts_count: !damaged.space_was_sound || repair.unplaced > 0,
            was_lost: !tree.has_root,
        };
        let ranges = tree.losses.ranges(&after).into_iter();
        repair.lost.extend(ranges.map(|range| LostRange { tree: name.clone(), ..range }));
    }
}
