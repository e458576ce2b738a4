//! The conversion of all objects of a superblock in place: no object moves, so no pointer to one changes.
//!
//! A superblock has one type. So all of its objects are converted in one transaction, which stores the superblock's header, too. Its
//! free blocks are held meanwhile. A superblock is left as it is, and its objects are converted one by one,
//!
//! * if the walk has not reached all of them, or has reached them by pointers to several types;
//! * if the new type belongs into blocks of another size, or is aligned more strictly than blocks are;
//! * if a conversion fails, leaves a pointer behind, or changes the elements of a vector;
//! * if a free block is still in a limbo, bytes are lost, or words wait for their sync.

use super::older::{OlderObjects, Reached};
use super::renewal::convert;
use super::walk::load;
use crate::alloc::allocations::ALIGN_MIN;
use crate::alloc::class::Class;
use crate::alloc::space::Block;
use crate::bugs;
use crate::error::HeapError;
use crate::tx::Tx;
use crate::typed::brand::Brand;
use crate::typed::heap::TypedHeap;
use crate::typed::owners::{Edge, Renewed, Target, Version};
use lode_layout::{PoolOffset, Superblock, WORD};
use lode_pmem::Medium;

/// Converts the objects of all superblocks that allow it. `progress` hears the number of objects of each, when they are durable.
/// Returns true if objects of older types may be left.
pub(super) fn convert_in_place<B: Brand, M: Medium>(
    heap: &TypedHeap<B, M>,
    older: OlderObjects,
    progress: &mut dyn FnMut(u64),
) -> Result<bool, HeapError> {
    let raw = heap.raw();
    let session = raw.session();
    let allocator = raw.allocator(&session);
    let mut leaves_some = older.has_others;
    if !older.is_empty() {
        raw.finish_all();
        allocator.gather_free_blocks();
    }
    for reached in older.into_superblocks() {
        let Reached { start, shape, .. } = &reached;
        let objects = Some(reached.allocated()).filter(|_| reached.is_whole());
        let Some(held) = objects.and_then(|objects| allocator.hold_superblock(*start, shape, objects)) else {
            leaves_some = true;
            continue;
        };
        if bugs::RETYPED_ALONE.is_active()
            && let Some(new) = (reached.ty.version)(0)
        {
            heap.run(|tx| {
                store_type(tx.raw(), &reached, new.number);
                Ok(())
            })?;
        }
        match heap.run(|tx| convert_superblock(tx.raw(), &reached)) {
            Ok(Some(number)) => {
                held.retype(number);
                progress(reached.count());
            }
            // No other superblock can be converted either.
            Err(error @ (HeapError::InDoubt(_) | HeapError::ReadOnly)) => return Err(error),
            // The conversion one by one succeeds, or its error names the object.
            Ok(None) | Err(_) => leaves_some = true,
        }
    }
    Ok(leaves_some)
}

/// Converts the objects of a superblock. Returns the number of their new type; `None` if they can't be converted in place.
fn convert_superblock<M: Medium>(tx: &Tx<'_, M>, reached: &Reached) -> Result<Option<u64>, HeapError> {
    let Reached { start, shape, ty, age, .. } = reached;
    let is_of_class = |new: &Version| {
        Class::of(new.size.max(1), ALIGN_MIN).is_some_and(|class| class.block_size() == shape.block_size)
    };
    let Some(new) = (ty.version)(0).filter(is_of_class) else { return Ok(None) };
    // New objects may reach into bytes that the older ones did not use.
    tx.heap().memory().locate(*start, shape.data_off + shape.block_count * shape.block_size)?;
    if tx.sees_pending() {
        return Ok(None);
    }
    let mut renewed = Renewed::none(tx.heap().memory());
    let mut parts = Parts::default();
    for index in reached.indices() {
        let at = Block::of(*start, shape, index).at;
        let before = renewed.bytes.len();
        convert(&mut renewed, at, ty, *age, |moved, target| unmoved_target(tx, at, moved, target))?;
        renewed.bytes.resize(renewed.bytes.len().next_multiple_of(WORD as usize), 0);
        let leaves_pointer = renewed.old.edges.iter().flatten().any(|edge| !load(tx, edge.word).is_null());
        if leaves_pointer || renewed.align > ALIGN_MIN {
            return Ok(None);
        }
        parts.add(at, renewed.bytes.len() - before);
    }
    parts.store(tx, &renewed.bytes);
    store_type(tx, reached, new.number);
    Ok(Some(new.number))
}

/// Gives a superblock another type.
fn store_type<M: Medium>(tx: &Tx<'_, M>, Reached { start, shape, .. }: &Reached, type_number: u64) {
    tx.store_words(*start, &Superblock { type_number, ..*shape }.encode(start.get()));
}

/// Returns the target of a pointer that moves inside of the object at `at`.
///
/// # Errors
/// [`HeapError::NotConverted`] when it is a buffer whose elements are of another type by now.
fn unmoved_target<M: Medium>(
    tx: &Tx<'_, M>,
    at: PoolOffset,
    moved: &Edge,
    target: &Target,
) -> Result<PoolOffset, HeapError> {
    match (moved.target, target) {
        (Target::Buffer(old), Target::Buffer(new)) if old != new => {
            Err(HeapError::NotConverted { at, reason: "the type of a buffer changes" })
        }
        _ => Ok(load(tx, moved.word)),
    }
}

/// The places of new content: the offset and the length of each range, in which objects lie without a gap.
#[derive(Default)]
struct Parts(Vec<(PoolOffset, usize)>);

impl Parts {
    /// Adds the place of an object, after all others.
    fn add(&mut self, at: PoolOffset, len: usize) {
        match self.0.last_mut() {
            Some((start, before)) if start.plus(*before as u64) == at => *before += len,
            _ => self.0.push((at, len)),
        }
    }

    /// Stores the content of all, one after the other. No lock is needed: the heap is the migration's alone.
    fn store<M: Medium>(&self, tx: &Tx<'_, M>, mut content: &[u8]) {
        for (at, len) in &self.0 {
            let (part, rest) = content.split_at(*len);
            tx.store(*at, part);
            content = rest;
        }
    }
}
