//! The objects of older types, as a walk finds them.

use super::walk::age_at;
use crate::alloc::space::{FoundObject, bitmap};
use crate::error::HeapError;
use crate::tx::Tx;
use crate::typed::owners::{ObjectType, Owners};
use lode_layout::{CHECKED_BITS, PoolOffset, Superblock};
use lode_pmem::Medium;
use std::any::TypeId;
use std::collections::HashMap;

const BITS: u64 = CHECKED_BITS as u64;

/// A superblock, and its objects that the walk has reached.
pub(super) struct Reached {
    /// Offset of its first byte.
    pub(super) start: PoolOffset,
    pub(super) shape: Superblock,
    /// The type of its objects as it is now.
    pub(super) ty: &'static ObjectType,
    id: TypeId,
    /// Number of changes of the type since they were made.
    pub(super) age: u32,
    /// The objects that were reached: a bitmap with 48 blocks to a word, like the one on the medium.
    objects: Vec<u64>,
    /// All objects.
    allocated: Vec<u64>,
    /// True if a pointer to another type leads here too, or a second one to an object.
    is_ambiguous: bool,
}

impl Reached {
    /// Returns true if all of its objects were reached, each once.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_ambiguous && self.objects == self.allocated
    }

    /// Returns all of its objects: a bitmap with 48 blocks to a word.
    pub(super) fn allocated(&self) -> &[u64] {
        &self.allocated
    }

    /// Returns the numbers of its objects' blocks.
    pub(super) fn indices(&self) -> impl Iterator<Item = u64> + '_ {
        let has = |index: &u64| self.allocated[(index / BITS) as usize] >> (index % BITS) & 1 == 1;
        (0..self.shape.block_count).filter(has)
    }

    /// Returns the number of its objects.
    pub(super) fn count(&self) -> u64 {
        self.allocated.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// Returns the number of the block that begins at `at`.
    #[inline]
    fn index_of(&self, at: PoolOffset) -> Option<u64> {
        let Superblock { block_size, block_count, data_off, .. } = self.shape;
        let into = at.get().checked_sub(self.start.get() + data_off)?;
        // A superblock is short.
        let index = u64::from(u32::try_from(into).ok()? / block_size as u32);
        (index < block_count && index * block_size == into).then_some(index)
    }

    /// Notes that a pointer leads to a block. Returns false if one did before.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when no object lies there.
    #[inline]
    fn note(&mut self, at: PoolOffset, index: u64) -> Result<bool, HeapError> {
        let (word, bit) = ((index / BITS) as usize, 1 << (index % BITS));
        if self.allocated[word] & bit == 0 {
            return Err(HeapError::NoObject { at });
        }
        let is_first = self.objects[word] & bit == 0;
        self.objects[word] |= bit;
        self.is_ambiguous |= !is_first;
        Ok(is_first)
    }
}

/// Objects of older types.
#[derive(Default)]
pub(super) struct OlderObjects {
    superblocks: Vec<Reached>,
    /// Indices of `superblocks`, by offset.
    by_start: HashMap<PoolOffset, usize>,
    /// Index of the superblock that was used last.
    last: usize,
    /// True if there are objects that can't be converted in place: in spans of their own, or under a damaged bitmap.
    pub(super) has_others: bool,
}

impl OlderObjects {
    /// Returns true if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.superblocks.is_empty()
    }

    /// Returns the superblocks, by offset.
    pub(super) fn into_superblocks(mut self) -> Vec<Reached> {
        self.superblocks.sort_unstable_by_key(|reached| reached.start);
        self.superblocks
    }

    /// Notes the object at `at`, if it is older, and adds the pointers that it owns.
    pub(super) fn enter<M: Medium>(
        &mut self,
        tx: &Tx<'_, M>,
        at: PoolOffset,
        ty: &'static ObjectType,
        owners: &mut Owners<'_>,
    ) -> Result<(), HeapError> {
        let id = (ty.id)();
        let last = self.superblocks.get_mut(self.last).filter(|last| last.id == id);
        if let Some(last) = last
            && let Some(index) = last.index_of(at)
        {
            let (is_first, age) = (last.note(at, index)?, last.age);
            return if is_first { Ok((ty.visit_version)(at, owners, age)?) } else { Ok(()) };
        }
        match age_at(tx, at, ty)? {
            0 => ty.walk.map_or(Ok(()), |walk| Ok(walk(at, owners)?)),
            age if self.note(tx, at, ty, id, age)? => Ok((ty.visit_version)(at, owners, age)?),
            _ => Ok(()),
        }
    }

    /// Notes an older object. Returns false if it was noted before: two pointers lead to it.
    #[cold]
    fn note<M: Medium>(
        &mut self,
        tx: &Tx<'_, M>,
        at: PoolOffset,
        ty: &'static ObjectType,
        id: TypeId,
        age: u32,
    ) -> Result<bool, HeapError> {
        let FoundObject::Block { span: start, shape, .. } = tx.heap().space().find(tx.memory(), at)? else {
            self.has_others = true;
            return Ok(true);
        };
        self.last = match self.by_start.get(&start) {
            Some(index) => *index,
            None => {
                let Ok(allocated) = bitmap(tx.memory(), start, &shape) else {
                    self.has_others = true;
                    return Ok(true);
                };
                let objects = vec![0; allocated.len()];
                let is_ambiguous = false;
                self.superblocks.push(Reached {
                    start,
                    shape,
                    ty,
                    id,
                    age,
                    objects,
                    allocated,
                    is_ambiguous,
                });
                self.by_start.insert(start, self.superblocks.len() - 1);
                self.superblocks.len() - 1
            }
        };
        let reached = &mut self.superblocks[self.last];
        reached.is_ambiguous |= reached.id != id;
        let index = reached.index_of(at).ok_or(HeapError::NoObject { at })?;
        reached.note(at, index)
    }
}
