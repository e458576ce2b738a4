//! Repairing a whole pool.
//!
//! Repair copies what is stored twice, corrects what one flipped bit explains, derives what follows from other data,
//! and cuts off the rest. Each step is durable before the next begins:
//!
//! 1. header copies; slot copies; records of the log with one flipped bit;
//! 2. the log is replayed and closed: from here on every transaction is written back;
//! 3. descriptors, span headers, bitmap words, and the word that holds the root's offset;
//! 4. the tree is sifted: parts that are not sound are unlinked;
//! 5. the bitmaps mark all that the tree reaches as allocated;
//! 6. sound leaves to which no slot leads are inserted again, by ordinary transactions;
//! 7. objects that can't be reached are freed, and the counts are corrected;
//! 8. the note of a load is cleared if it is damaged or keys were lost;
//! 9. the header says that no writer has the pool open, and so accepts what modules lost while one had.
//!
//! # Durability
//! Each step can be stopped at any moment, and the next repair finds what is left to do. A step gives up no data that
//! a later one needs. So leaves that 4 unlinked stay allocated until 6 has inserted them again. A repair is a writer,
//! so the header holds a count of dirty shutdowns meanwhile: the earlier one if it has one, else the current one. A
//! pool that was refused for a dirty shutdown is still refused if its repair was killed. So is a pool that had one
//! during the repair.

use crate::audit::{LAYOUT_KV, check_content};
use crate::error::IndexError;
use crate::sift::{Sift, sound_key, sound_value};
use crate::tree::Tree;
use lode_heap::check::{Report, SpaceMap, check_slots, mend_log, mend_slots};
use lode_heap::{Heap, HeapError};
use lode_layout::{
    Geometry, Header, KV_LOAD_OFF, KV_LOAD_WORDS, KvDamage, KvLoad, PoolOffset, TYPE_LEAF, TYPE_TREE, WORD,
    tree_meta,
};
use lode_pmem::{FaultScope, Medium};
use lode_pool::{DirtyShutdown, Headers, PoolError, repair_headers};
use std::collections::HashSet;
use std::sync::Arc;

/// A range of keys between two others. Some keys in it may have been lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The last key that is present before the range; `None` if there is none.
    pub after: Option<Vec<u8>>,
    /// The first key that is present after the range; `None` if there is none.
    pub before: Option<Vec<u8>>,
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repair {
    /// Number of header copies, slots, records and words that were rewritten.
    pub mended: u64,
    /// Number of keys that no slot led to and that were inserted again.
    pub brought_back: u64,
    /// Ranges in which keys were lost.
    pub lost: Vec<LostRange>,
    /// True if an acknowledged transaction was lost. Keys anywhere may then be missing or have old values.
    pub lost_transactions: bool,
    /// True if objects were left as they are because their layout is unknown.
    pub left_alone: bool,
    /// The dirty shutdown of the memory modules that happened while a writer had the pool open. Data stored since
    /// that opening may be missing or old without a trace. The remaining data is sound, and the pool can be opened
    /// again.
    pub dirty_shutdown: Option<DirtyShutdown>,
    /// Findings of a check of the repaired pool.
    pub after: Report,
}

impl LostRange {
    /// Returns true if `key` lies between the two keys.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| after < key)
            && self.before.as_deref().is_none_or(|before| key < before)
    }
}

impl Repair {
    /// Returns true if data was lost, or may have been: modules do not tell what they lost.
    pub fn lost_anything(&self) -> bool {
        self.dirty_shutdown.is_some() || self.lost_transactions || !self.lost.is_empty()
    }
}

/// Reason why a pool can't be repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// No copy of the header can be used, or the pool is longer than the medium. The place of every structure is
    /// unknown.
    #[error(transparent)]
    Pool(PoolError),
    /// The medium refused a store, or the heap can't be read.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The tree could not take back a leaf to which no slot led.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl From<PoolError> for RepairError {
    fn from(error: PoolError) -> RepairError {
        RepairError::Pool(error)
    }
}

/// Repairs the pool on `medium`, in place. `life` is a random number, as for [`Heap::open`]. No other thread or
/// process may have the pool open.
///
/// # Errors
/// [`RepairError::Pool`] when no header can be used, or the pool has features that a writer must know and this
/// program does not: then nothing was written. After any other error the pool can be repaired again.
///
/// # Durability
/// The repaired pool is durable and closed on return. A repair that was killed can be run again.
pub fn repair_pool<M: Medium>(medium: &Arc<M>, life: [u64; 2]) -> Result<Repair, RepairError> {
    let mut repair = Repair::default();
    repair.mended += u64::from(repair_headers(&**medium)?.is_some());
    let mut headers = Headers::read(&**medium)?;
    headers.check_writable()?;
    repair.dirty_shutdown = headers.dirty_shutdown(&**medium);
    headers.set_dirty_shutdowns(&**medium, headers.current().watched.or(medium.dirty_shutdowns()))?;
    let header = *headers.current();
    let (uuid, geometry) = (*header.uuid.as_bytes(), header.geometry);
    repair_log(medium, &geometry, &uuid, life, &mut repair)?;
    if header.layout.as_str() == LAYOUT_KV {
        repair_tree(medium, &header, [life[0], life[1] ^ 1], &mut repair)?;
    } else {
        repair.mended += SpaceMap::mend_words(&**medium, &geometry)?;
        repair.left_alone = true;
    }
    check_slots(&**medium, &uuid, &mut repair.after);
    let (heap, _) = Heap::open(Arc::clone(medium), &geometry, uuid, [life[0], life[1] ^ 2])?;
    if header.layout.as_str() == LAYOUT_KV {
        repair.mended += u64::from(forget_load(&heap, repair.lost_anything())?);
    }
    check_content(&heap, &header, &geometry, &mut repair.after);
    heap.close()?;
    headers.set_dirty_shutdowns(&**medium, None)?;
    Ok(repair)
}

/// Takes step 8: clears the note of a load if it is damaged or outdated. Returns true if it cleared one.
fn forget_load<M: Medium>(heap: &Heap<M>, is_outdated: bool) -> Result<bool, HeapError> {
    let root = heap.root()?;
    if root.is_null() {
        return Ok(false);
    }
    let at = root.plus(KV_LOAD_OFF);
    let words: [u64; KV_LOAD_WORDS] = heap
        .memory()
        .reading(|memory| std::array::from_fn(|word| memory.load8(at.plus(word as u64 * WORD))))?;
    let forgets = match KvLoad::decode(&words) {
        Ok(noted) => noted.is_some() && is_outdated,
        Err(KvDamage) => true,
    };
    if forgets {
        heap.run(|tx| {
            tx.store_words(at, &KvLoad::NONE);
            Ok::<_, HeapError>(())
        })?;
    }
    Ok(forgets)
}

/// Takes steps 1 and 2, those of slots and log.
fn repair_log<M: Medium>(
    medium: &Arc<M>,
    geometry: &Geometry,
    uuid: &[u8; 16],
    life: [u64; 2],
    repair: &mut Repair,
) -> Result<(), RepairError> {
    repair.mended += u64::from(mend_slots(&**medium, uuid)?);
    match check_slots(&**medium, uuid, &mut Report::default()) {
        Some(slot) => {
            let (mended, lost) = mend_log(&**medium, geometry, uuid, &slot)?;
            repair.mended += mended;
            repair.lost_transactions |= lost;
        }
        None => repair.lost_transactions = true,
    }
    let (heap, _) = Heap::salvage(Arc::clone(medium), geometry, *uuid, life)?;
    heap.close()?;
    Ok(())
}

/// Takes steps 3 to 7, those of heap and tree.
fn repair_tree<M: Medium>(
    medium: &Arc<M>,
    header: &Header,
    life: [u64; 2],
    repair: &mut Repair,
) -> Result<(), RepairError> {
    let (uuid, geometry) = (*header.uuid.as_bytes(), header.geometry);
    let memory = medium.memory();
    let mut before = Report::default();
    SpaceMap::read(memory, &geometry, &mut before);
    repair.mended += SpaceMap::mend_words(&**medium, &geometry)?;
    let mut map = SpaceMap::read(memory, &geometry, &mut Report::default());
    let (root, was_lost) = find_root(&**medium, &geometry, &map, repair)?;
    let is_rootless = root.is_none();
    let (mut doubtful, mut foreign) = (Vec::new(), Vec::new());
    let mut lost_leaves = HashSet::new();
    let (mut counted, mut cleared, mut is_dangling) = (0, Some(0), false);
    if let Some(root) = root {
        let scope = FaultScope::open();
        counted = crate::count::sum(scope.memory(memory), root);
        let mut sift = Sift::new(&**medium, scope.memory(memory), &mut map);
        sift.run(root);
        repair.mended += sift.stored;
        repair.lost.append(&mut sift.lost);
        (cleared, is_dangling) = (sift.cleared, sift.is_dangling);
        (doubtful, foreign, lost_leaves) = (sift.doubtful, sift.foreign, sift.lost_leaves);
        // Lost bytes read as zeros, and what lies there is unlinked.
        let _ = scope.close();
        drain(&**medium)?;
    }
    repair.mended += map.mend_bitmaps(&**medium, false)?;
    let (heap, _) = Heap::open(Arc::clone(medium), &geometry, uuid, life)?;
    let Rescue { root, mut brought_back, unsound } = bring_back(&heap, &map, root)?;
    repair.brought_back += brought_back.len() as u64;
    brought_back.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
    heap.close()?;
    let mut map = SpaceMap::read(memory, &geometry, &mut Report::default());
    let mut leaves = 0;
    if let Some(root) = root {
        let scope = FaultScope::open();
        let mut sift = Sift::new(&**medium, scope.memory(memory), &mut map);
        sift.run(root);
        leaves = sift.leaves;
        sift.mend_count(root);
        // As above.
        let _ = scope.close();
        drain(&**medium)?;
    }
    repair.mended += map.mend_bitmaps(&**medium, true)?;
    // If the heap was sound, every leaf that was unlinked was still allocated: it was inserted again, or is damaged
    // itself, or another leaf's bytes lie over it, which `foreign` tells. So the count is evidence only if the heap was
    // not sound. The count may be damaged as well.
    let traceless = unsound.iter().any(|leaf| !lost_leaves.contains(leaf));
    let missing = counted.wrapping_sub(leaves).wrapping_sub(lost_leaves.len() as u64);
    let is_short = missing != 0 && (is_dangling || !before.is_clean());
    if traceless || is_short {
        repair.lost.append(&mut doubtful);
    }
    repair.lost.extend(foreign.into_iter().filter_map(|foreign| foreign.lost(&brought_back)));
    let is_explained = repair.brought_back == 0 && cleared.is_some_and(|cleared| missing <= cleared);
    // A pool without a tree has no leaves, unless both the root word and the root object were lost.
    let was_lost = was_lost || is_rootless && repair.brought_back > 0;
    if was_lost || traceless || is_short && !is_explained {
        repair.lost.push(LostRange { after: None, before: None });
    }
    Ok(())
}

fn drain<M: Medium>(medium: &M) -> Result<(), HeapError> {
    // ORDER: unlinking is durable before the unlinked space is used again. Stop here: the next repair goes on.
    medium.drain().map_err(HeapError::from)
}

/// Returns the root object of the tree, if there is one, and true if the pool had one that is lost.
fn find_root<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    map: &SpaceMap,
    repair: &mut Repair,
) -> Result<(Option<PoolOffset>, bool), HeapError> {
    let memory = medium.memory();
    let at = geometry.extents().first().map_or(PoolOffset::NULL, |extent| extent.start);
    // A lost word is as good as a damaged one.
    let word = memory.reading(|memory| memory.load8(at)).unwrap_or(0);
    let told = lode_layout::decode_root(word);
    let is_tree = |at: PoolOffset| map.object(at).is_some_and(|(_, found)| found == TYPE_TREE);
    if let Some(root) = told.filter(|root| is_tree(*root)) {
        return Ok((Some(root), false));
    }
    let mut candidates = Vec::new();
    // A candidate that can't be read comes last.
    let _ = memory.reading(|memory| {
        candidates = map.root_candidates(memory, TYPE_TREE);
        candidates.sort_by_key(|at| memory.load8(*at) != tree_meta());
    });
    let root = candidates.first().copied();
    if root.is_none() && told.is_some_and(PoolOffset::is_null) {
        return Ok((None, false));
    }
    SpaceMap::mend_root(medium, geometry, root.unwrap_or(PoolOffset::NULL))?;
    repair.mended += 1;
    // A single flipped bit in the root word of a pool without a root is no loss.
    let flipped = word ^ lode_layout::encode_root(PoolOffset::NULL);
    Ok((root, root.is_none() && !flipped.is_power_of_two()))
}

/// The leaves to which no slot led, after the repair.
struct Rescue {
    /// The root object of the tree, made if there was none.
    root: Option<PoolOffset>,
    /// Leaves that were inserted again, with their keys.
    brought_back: Vec<(PoolOffset, Vec<u8>)>,
    /// The leaves that are not sound.
    unsound: Vec<PoolOffset>,
}

/// Inserts each sound leaf to which no slot leads, unless the tree has its key.
fn bring_back<M: Medium>(
    heap: &Heap<M>,
    map: &SpaceMap,
    root: Option<PoolOffset>,
) -> Result<Rescue, RepairError> {
    let memory = heap.memory();
    let (mut brought_back, mut unsound) = (Vec::new(), Vec::new());
    let mut stray = Vec::new();
    // A lost bitmap has no objects.
    let _ = memory.reading(|memory| map.unreached(memory, |at| stray.push(at)));
    stray.retain(|at| map.object(*at).is_some_and(|(_, found)| found == TYPE_LEAF));
    let mut root = root;
    for at in stray {
        let room = map.object(at).map_or(0, |(size, _)| size);
        let Some(key) = sound_key(memory, at, room) else {
            unsound.push(at);
            continue;
        };
        let top = match root {
            Some(top) => top,
            None => *root.insert(plant(heap)?),
        };
        let tree = Tree::open(heap, top)?;
        if tree.get(&key)?.is_none() {
            tree.insert(&key, &sound_value(memory, at).map_err(IndexError::from)?)?;
            brought_back.push((at, key));
        }
    }
    Ok(Rescue { root, brought_back, unsound })
}

fn plant<M: Medium>(heap: &Heap<M>) -> Result<PoolOffset, IndexError> {
    heap.run(|tx| {
        let root = Tree::create(tx)?;
        tx.set_root(root);
        Ok(root)
    })
}
