//! Salvage of a damaged typed pool.
//!
//! 1. The objects by which all others are found are put right: root word, root object, type tables.
//! 2. A pass decides what each pointer is to lead to. It changes nothing but flipped bits in entries of maps.
//! 3. The bitmaps mark all that the pointers are to lead to as allocated.
//! 4. Pointers are put right, or cleared: a word each. Lost elements leave their vectors of boxes.
//! 5. The table of trees beside the typed data is made right, and then maps and trees are salvaged, by their own crate.
//! 6. Objects to which nothing leads are freed. Then the counts of maps are corrected, by which loose entries find their maps.
//!
//! Each step is durable before the next, and a step of single words can be stopped after each: a repair finds the same again, but for
//! what is done. Values, lengths and texts are not changed, since only the program knows right ones.

use super::elements::remove_elements;
use super::frame::repair_frame;
use super::lost::TypedObject;
use super::pass::{Pass, Targets};
use crate::damaged_pool::DamagedPool;
use crate::maps::{DamagedMap, Maps, UnlinkedMaps};
use crate::outcome::{Repair, RepairError};
use lode_heap::check::{Report, SpaceMap};
use lode_heap::{Heap, HeapError, TypedPlace, TypedPointer, TypedSurvey};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{FaultScope, Medium};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Salvages a pool of typed data, as the head of this file describes it. Leaves another pool alone, and one whose root or types are
/// lost, or that has maps or trees while `maps` is none.
pub(crate) fn salvage<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    maps: Option<&dyn Maps<M>>,
    repair: &mut Repair,
) -> Result<(), RepairError> {
    if !repair_frame(damaged, repair)? {
        repair.unknown_layout = true;
        return Ok(());
    }
    let made = with_survey(damaged, 1, |_, survey| match survey.has_maps() || !survey.trees().is_null() {
        true => maps.map(|maps| plan(damaged, Some(maps), survey, repair)),
        false => Some(plan(damaged, None, survey, repair)),
    })?;
    let Some(plan) = made.flatten().flatten() else {
        repair.unknown_layout = true;
        return Ok(());
    };
    let medium = &**damaged.medium;
    repair.repaired += plan.map.repair_bitmaps(medium, false)?;
    repair.repaired += plan.words.len() as u64;
    FaultScope::run(|| {
        for (word, target) in &plan.words {
            medium.store8(*word, target.get());
            medium.flush(*word, WORD);
        }
    })
    .map_err(HeapError::from)?;
    // ORDER: the buffers of vectors are found by their words. No pointer leads to what is freed next. Stop here: the next repair frees it.
    medium.drain().map_err(HeapError::from)?;
    for (vector, indexes) in &plan.holes {
        repair.repaired += remove_elements(medium, *vector, indexes)?;
    }
    if let Some(maps) = maps.filter(|_| plan.has_trees) {
        settle_table(damaged, maps, &plan.maps, repair)?;
    }
    let unlinked = match maps.filter(|_| plan.has_trees || !plan.maps.is_empty()) {
        Some(maps) => Some(salvage_maps(damaged, maps, plan.maps, repair)?),
        None => None,
    };
    if let Some(Some(map)) = with_survey(damaged, 3, |_, survey| reached(damaged, maps, survey, repair))? {
        repair.repaired += map.repair_bitmaps(medium, true)?;
    }
    // ORDER: a loose entry finds its map by the counts, so it is freed before one of them is corrected. Stop here: the next repair finds
    // no loose entry, and names the keys again that are lost.
    unlinked.map_or(Ok(()), |unlinked| unlinked.finish(damaged, repair))
}

/// Calls `visit` with the content of the pool; `None` if its types can't be read. `number` is that of the log epoch.
fn with_survey<M: Medium, T>(
    damaged: &DamagedPool<'_, M>,
    number: u64,
    visit: impl FnOnce(&Heap<Arc<M>>, &mut TypedSurvey<'_, Arc<M>>) -> T,
) -> Result<Option<T>, HeapError> {
    let [high, low] = damaged.log_epoch;
    let log_epoch = [high.wrapping_add(number), low];
    let (heap, _) = Heap::open(Arc::clone(damaged.medium), damaged.geometry, damaged.uuid, log_epoch)?;
    // A table that can't be read is in the report of the check after the repair.
    let visited = match TypedSurvey::open(&heap) {
        Ok(Some(mut survey)) => Some(visit(&heap, &mut survey)),
        _ => None,
    };
    heap.close()?;
    Ok(visited)
}

/// The changes that make a pool sound.
struct Plan {
    /// The objects of the heap, with marks on those that stay.
    map: SpaceMap,
    /// Words to store, with the targets to which they are to lead.
    words: Vec<(PoolOffset, PoolOffset)>,
    /// Vectors of boxes with the indexes of their lost elements.
    holes: BTreeMap<PoolOffset, BTreeSet<u64>>,
    /// Root objects of the maps.
    maps: Vec<PoolOffset>,
    /// True if there are trees beside the typed data.
    has_trees: bool,
}

fn read_map<M: Medium>(damaged: &DamagedPool<'_, M>) -> SpaceMap {
    SpaceMap::read(damaged.medium.memory(), damaged.geometry, &mut Report::default())
}

/// Decides what each pointer is to lead to; `None` if the object of the root is lost, so that nothing can be reached.
fn plan<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    maps: Option<&dyn Maps<M>>,
    survey: &mut TypedSurvey<'_, Arc<M>>,
    repair: &mut Repair,
) -> Option<Plan> {
    let mut right = Targets::new();
    let (map, kept, lost, mapped) = loop {
        let pass = Pass::new(&**damaged.medium, maps, read_map(damaged), &right).run(survey);
        repair.repaired += pass.corrected;
        let mut found = pass.flipped(survey);
        if found.is_empty() {
            let links = pass.links(survey);
            repair
                .typed
                .relinked
                .extend(links.iter().map(|(pointer, _, reason)| (object(survey, *pointer), *reason)));
            found
                .extend(links.into_iter().filter_map(|(pointer, target, _)| Some((pointer.word()?, target))));
        }
        if found.is_empty() {
            break (pass.map, pass.kept, pass.lost, pass.mapped);
        }
        right.extend(found);
    };
    if lost.iter().any(|(pointer, _)| pointer.word().is_none()) {
        return None;
    }
    let typed = &mut repair.typed;
    typed.reallocated.extend(kept.into_iter().map(|pointer| object(survey, pointer)));
    let mut holes = BTreeMap::<_, BTreeSet<u64>>::new();
    for (pointer, _) in &lost {
        if let Some(element) = pointer.element() {
            holes.entry(element.vector).or_default().insert(element.index);
        } else if let Some(word) = pointer.word() {
            right.insert(word, PoolOffset::NULL);
        }
    }
    typed.lost.extend(lost.into_iter().map(|(pointer, reason)| (object(survey, pointer), reason)));
    let maps = mapped.iter().map(TypedPointer::at).collect();
    let has_trees = !survey.trees().is_null();
    Some(Plan { map, words: right.into_iter().collect(), holes, maps, has_trees })
}

/// Returns the object to which a pointer leads, or led.
fn object<M: Medium>(survey: &TypedSurvey<'_, M>, pointer: TypedPointer) -> TypedObject {
    let place = survey.place(pointer);
    TypedObject { path: Some(place.path()), type_name: Some(place.type_name()), at: place.at() }
}

/// Makes the table of trees right, of a pool with maps at these offsets.
fn settle_table<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    maps: &dyn Maps<M>,
    of_objects: &[PoolOffset],
    repair: &mut Repair,
) -> Result<(), RepairError> {
    let right = Targets::new();
    let marked = with_survey(damaged, 4, |_, survey| {
        let pass = Pass::new(&**damaged.medium, None, read_map(damaged), &right).run(survey);
        (survey.trees(), pass.map)
    })?;
    let Some((table, space)) = marked else { return Ok(()) };
    let (space, corrected) = maps.mark(&**damaged.medium, space, of_objects);
    repair.repaired += corrected;
    maps.settle_table(damaged, table, space, repair)
}

/// Salvages the maps with these root objects, which objects own, and the trees beside the typed data. Their counts stay as they are.
fn salvage_maps<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    maps: &dyn Maps<M>,
    mut roots: Vec<PoolOffset>,
    repair: &mut Repair,
) -> Result<Box<dyn UnlinkedMaps<M>>, RepairError> {
    let table = with_survey(damaged, 5, |_, survey| survey.trees())?.unwrap_or_default();
    roots.extend(maps.tree_roots(&**damaged.medium, &read_map(damaged), table));
    let mut unlinked = maps.unlink(damaged, &roots, repair)?;
    let right = Targets::new();
    let reinserted = with_survey(damaged, 2, |heap, survey| {
        let pass = Pass::new(&**damaged.medium, None, read_map(damaged), &right).run(survey);
        let places: Vec<TypedPlace<'_>> = pass.mapped.iter().map(|pointer| survey.place(*pointer)).collect();
        let room = |place| move |key: &[u8], value: &[u8]| TypedPlace::has_room_for(place, key, value);
        let rooms: Vec<_> = places.iter().map(room).collect();
        let of_objects = places.iter().zip(&rooms).map(|(place, has_room_for)| DamagedMap {
            root: place.at(),
            path: place.path(),
            has_room_for,
        });
        let named = match table {
            PoolOffset::NULL => Vec::new(),
            table => maps.named_trees(heap, table)?,
        };
        // The types of a tree are those of programs.
        let trees =
            named.into_iter().map(|(path, root)| DamagedMap { root, path, has_room_for: &|_, _| true });
        unlinked.reinsert(heap, &of_objects.chain(trees).collect::<Vec<_>>(), repair)
    })?;
    reinserted.transpose()?;
    Ok(unlinked)
}

/// Marks all that the root reaches, and notes the objects to which nothing leads; `None` if a pointer is not sound.
fn reached<M: Medium>(
    damaged: &DamagedPool<'_, M>,
    maps: Option<&dyn Maps<M>>,
    survey: &mut TypedSurvey<'_, Arc<M>>,
    repair: &mut Repair,
) -> Option<SpaceMap> {
    let memory = damaged.medium.memory();
    let right = Targets::new();
    let pass = Pass::new(&**damaged.medium, maps, read_map(damaged), &right).run(survey);
    if !pass.lost.is_empty() {
        return None;
    }
    let mut free = Vec::new();
    memory.reading(|memory| pass.map.visit_unmarked(memory, |at| free.push(at))).ok()?;
    repair.typed.freed.extend(free.into_iter().map(|at| {
        let number = pass.map.object(at).map(|(_, number)| number);
        TypedObject { path: None, type_name: number.and_then(|number| survey.type_name(number)), at }
    }));
    Some(pass.map)
}
