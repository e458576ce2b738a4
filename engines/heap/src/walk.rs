//! Walks over a heap: its objects, and its fill level. All of it is derived from the medium.

use crate::alloc::space::{Block, FoundObject, Span, SpanKind, bitmap};
use crate::error::HeapError;
use crate::heap::Heap;
use lode_layout::{CHECKED_BITS, CHUNK, Extent, PoolOffset, unchecked};
use lode_pmem::{Medium, Readable};
use std::collections::BTreeMap;

/// An allocated object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Offset of its first byte.
    pub at: PoolOffset,
    /// Bytes that it can hold, at least those that were asked for.
    pub size: u64,
    /// The number of its type.
    pub type_number: u64,
}

/// Fill level of a heap. Space that is free on the medium counts as free, also if it is kept for a running
/// transaction or for readers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapStats {
    /// Superblocks and blocks of each block size, by size.
    pub classes: Vec<ClassStats>,
    /// Number of objects that have a span of their own.
    pub huge_count: u64,
    /// Bytes of the spans of those objects.
    pub huge_bytes: u64,
    /// Bytes of free chunks.
    pub free_chunk_bytes: u64,
    /// Bytes of blocks that are free in superblocks.
    pub free_block_bytes: u64,
    /// Bytes of the longest run of free chunks: about the largest object that there is room for.
    pub largest_free: u64,
}

impl HeapStats {
    /// Returns the bytes of all objects.
    pub fn used_bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.used * class.block_size).sum::<u64>() + self.huge_bytes
    }

    /// Returns the bytes that are free, in chunks and in blocks.
    pub fn free_bytes(&self) -> u64 {
        self.free_chunk_bytes + self.free_block_bytes
    }
}

/// Superblocks and blocks of one block size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// Size of a block in bytes.
    pub block_size: u64,
    /// Number of superblocks with that block size.
    pub superblocks: u64,
    /// Number of blocks in them.
    pub blocks: u64,
    /// Number of allocated blocks.
    pub used: u64,
}

impl ClassStats {
    /// Returns the number of free blocks.
    pub fn free(&self) -> u64 {
        self.blocks - self.used
    }
}

impl<M: Medium> Heap<M> {
    /// Returns the object that begins at `at`, as it was last committed.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when none begins there; [`HeapError::Corrupt`], [`HeapError::Fault`].
    pub fn object(&self, at: PoolOffset) -> Result<Object, HeapError> {
        self.memory().try_reading(|memory| self.object_at(memory, at))
    }

    fn object_at(&self, memory: &Readable, at: PoolOffset) -> Result<Object, HeapError> {
        match self.space().find(memory, at)? {
            FoundObject::Block { block, span, class, shape } => {
                let allocated = bitmap(memory, span, &shape)?;
                let word = (block.word.get() - span.get() - lode_layout::SPAN_HEADER) / lode_layout::WORD;
                if allocated[word as usize] & block.mask() == 0 {
                    return Err(HeapError::NoObject { at });
                }
                Ok(Object { at, size: class.block_size(), type_number: shape.type_number })
            }
            FoundObject::Huge { span, object } => {
                Ok(Object { at, size: span.len() - object.data_off, type_number: object.type_number })
            }
        }
    }

    /// Returns the object that begins at `at`, as it was last committed, and whether it is allocated; `None` if its word of the bitmap
    /// is damaged.
    pub(crate) fn object_or_block(&self, at: PoolOffset) -> Result<(Object, Option<bool>), HeapError> {
        let memory = self.memory();
        memory.try_reading(|memory| match self.space().find(memory, at)? {
            FoundObject::Block { block, class, shape, .. } => {
                let is_allocated = unchecked(memory.load8(block.word)).map(|word| word & block.mask() != 0);
                let (size, type_number) = (class.block_size(), shape.type_number);
                Ok((Object { at, size, type_number }, is_allocated))
            }
            FoundObject::Huge { span, object } => {
                let (size, type_number) = (span.len() - object.data_off, object.type_number);
                Ok((Object { at, size, type_number }, Some(true)))
            }
        })
    }

    /// Returns true if an allocated object of this type begins at `at`, as it was last committed. `memory` is the
    /// heap's; its scope takes the faults.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`] when its descriptor, header or bitmap is damaged.
    ///
    /// # Cost
    /// Loads of a descriptor, a header and one word of a bitmap.
    #[inline]
    pub fn is_allocated(
        &self,
        memory: &Readable,
        at: PoolOffset,
        type_number: u64,
    ) -> Result<bool, HeapError> {
        match self.space().find(memory, at) {
            Ok(FoundObject::Block { block, shape, .. }) => {
                let damaged = HeapError::Corrupt { what: "the allocation bitmap", at: block.word };
                let allocated = unchecked(memory.load8(block.word)).ok_or(damaged)?;
                Ok(allocated & block.mask() != 0 && shape.type_number == type_number)
            }
            Ok(FoundObject::Huge { object, .. }) => Ok(object.type_number == type_number),
            Err(HeapError::NoObject { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the first object after the offset `after`, or the first of all for [`PoolOffset::NULL`]; `None` at the
    /// end.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`] when a descriptor or header is damaged; [`HeapError::Fault`].
    ///
    /// # Cost
    /// That of a search from `after` on.
    pub fn next_object(&self, after: PoolOffset) -> Result<Option<Object>, HeapError> {
        self.memory().try_reading(|memory| self.first_after(memory, after))
    }

    fn first_after(&self, memory: &Readable, after: PoolOffset) -> Result<Option<Object>, HeapError> {
        for extent in self.space().extents().filter(|extent| after < extent.end()) {
            let tables = extent.table_len / CHUNK;
            let near = after.get().saturating_sub(extent.start.get()) / CHUNK;
            // The span that holds `after` begins at or before its chunk.
            let mut chunk = if near > tables { self.head_before(memory, &extent, near) } else { tables };
            while chunk < extent.len / CHUNK {
                let (span, kind) = self.space().span(memory, &extent, chunk)?;
                if let Some(object) = self.first_in(memory, span, kind, after)? {
                    return Ok(Some(object));
                }
                chunk += span.chunks;
            }
        }
        Ok(None)
    }

    /// Returns the first chunk of the span in use that holds `chunk`, or `chunk` if there is none.
    fn head_before(&self, memory: &Readable, extent: &Extent, chunk: u64) -> u64 {
        let ends_behind = |head: &u64| {
            let span = self.space().span(memory, extent, *head);
            span.is_ok_and(|(span, kind)| kind != SpanKind::Free && head + span.chunks > chunk)
        };
        (extent.table_len / CHUNK..=chunk).rev().find(ends_behind).unwrap_or(chunk)
    }

    /// Returns the first object of a span that begins after `after`.
    fn first_in(
        &self,
        memory: &Readable,
        span: Span,
        kind: SpanKind,
        after: PoolOffset,
    ) -> Result<Option<Object>, HeapError> {
        Ok(match kind {
            SpanKind::Free => None,
            SpanKind::Superblock(shape) => {
                let allocated = bitmap(memory, span.start, &shape)?;
                let first = (0..shape.block_count)
                    .filter(|index| is_set(&allocated, *index))
                    .map(|index| Block::of(span.start, &shape, index).at)
                    .find(|at| *at > after);
                first.map(|at| Object { at, size: shape.block_size, type_number: shape.type_number })
            }
            SpanKind::Huge(huge) => {
                let at = span.start.plus(huge.data_off);
                let size = span.len() - huge.data_off;
                (at > after).then_some(Object { at, size, type_number: huge.type_number })
            }
        })
    }

    /// Returns every allocated object, in the order of offsets. Ends after the first error.
    pub fn objects(&self) -> impl Iterator<Item = Result<Object, HeapError>> + '_ {
        let mut after = Some(PoolOffset::NULL);
        std::iter::from_fn(move || {
            let next = self.next_object(after?).transpose();
            after = match &next {
                Some(Ok(object)) => Some(object.at),
                _ => None,
            };
            next
        })
    }

    /// Returns the fill level of the heap.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`] when a descriptor or header is damaged; [`HeapError::Fault`].
    ///
    /// # Cost
    /// Reads all chunk descriptors and bitmaps.
    pub fn stats(&self) -> Result<HeapStats, HeapError> {
        self.memory().try_reading(|memory| self.counted(memory))
    }

    fn counted(&self, memory: &Readable) -> Result<HeapStats, HeapError> {
        let mut stats = HeapStats::default();
        let mut classes: BTreeMap<u64, ClassStats> = BTreeMap::new();
        for extent in self.space().extents() {
            let mut chunk = extent.table_len / CHUNK;
            let mut run = 0;
            while chunk < extent.len / CHUNK {
                let (span, kind) = self.space().span(memory, &extent, chunk)?;
                chunk += span.chunks;
                run = if kind == SpanKind::Free { run + span.len() } else { 0 };
                stats.largest_free = stats.largest_free.max(run);
                match kind {
                    SpanKind::Free => stats.free_chunk_bytes += span.len(),
                    SpanKind::Superblock(shape) => {
                        let class = classes.entry(shape.block_size).or_default();
                        let allocated = bitmap(memory, span.start, &shape)?;
                        let used = allocated.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
                        class.block_size = shape.block_size;
                        class.superblocks += 1;
                        class.blocks += shape.block_count;
                        class.used += used;
                        stats.free_block_bytes += (shape.block_count - used) * shape.block_size;
                    }
                    SpanKind::Huge(_) => {
                        stats.huge_count += 1;
                        stats.huge_bytes += span.len();
                    }
                }
            }
        }
        stats.classes = classes.into_values().collect();
        Ok(stats)
    }
}

fn is_set(words: &[u64], index: u64) -> bool {
    let bits = u64::from(CHECKED_BITS);
    words[(index / bits) as usize] >> (index % bits) & 1 != 0
}
