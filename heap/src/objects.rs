//! Walking the heap: every allocated object, as descriptors, headers and bitmaps tell.

use crate::alloc::space::{Block, bitmap};
use crate::alloc::{Found, SpanKind};
use crate::error::HeapError;
use crate::heap::Heap;
use lode_layout::{CHECKED_BITS, CHUNK, Extent, PoolOffset, Superblock, unchecked};
use lode_pmem::{Fault, Medium};

/// An allocated object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where it begins.
    pub at: PoolOffset,
    /// Bytes that it can hold, at least those that were asked for.
    pub size: u64,
    /// What it was allocated as.
    pub type_number: u64,
}

/// All objects of a heap in ascending order; damaged spans are reported and passed over.
///
/// What transactions that run meanwhile allocate or free may be missing or there.
#[derive(Debug)]
pub struct Objects<'a, M: Medium> {
    heap: &'a Heap<M>,
    extents: Vec<Extent>,
    /// The next chunk of the first of `extents`; none before its table is passed over.
    chunk: Option<u64>,
    blocks: Option<Blocks>,
}

/// The blocks of a superblock that are still to be reported.
#[derive(Debug)]
struct Blocks {
    span: PoolOffset,
    shape: Superblock,
    /// Allocated blocks, 48 to a word.
    allocated: Vec<u64>,
    word: usize,
}

impl Blocks {
    fn next(&mut self) -> Option<Object> {
        while let Some(bits) = self.allocated.get_mut(self.word) {
            if *bits == 0 {
                self.word += 1;
                continue;
            }
            let index = self.word as u64 * u64::from(CHECKED_BITS) + u64::from(bits.trailing_zeros());
            *bits &= *bits - 1;
            let Superblock { block_size: size, type_number, .. } = self.shape;
            return Some(Object { at: Block::of(self.span, &self.shape, index).at, size, type_number });
        }
        None
    }
}

impl<M: Medium> Heap<M> {
    /// All allocated objects.
    pub fn objects(&self) -> Objects<'_, M> {
        let extents: Vec<Extent> = self.space.extents().collect();
        Objects { heap: self, extents, chunk: None, blocks: None }
    }

    /// The allocated object that begins at `at`.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when none does; [`HeapError::Corrupt`], [`HeapError::Fault`].
    pub fn object(&self, at: PoolOffset) -> Result<Object, HeapError> {
        let found = self.space.find(self.memory(), at);
        if let Some(fault) = Fault::take() {
            return Err(fault.into());
        }
        match found? {
            Found::Huge { span, object } => {
                Ok(Object { at, size: span.len() - object.data_off, type_number: object.type_number })
            }
            Found::Block { block, shape, .. } => {
                let allocated = unchecked(self.memory().load8(block.word))
                    .ok_or(HeapError::Corrupt { what: "the allocation bitmap", at: block.word })?;
                if allocated & block.mask() == 0 {
                    return Err(HeapError::NoObject { at });
                }
                Ok(Object { at, size: shape.block_size, type_number: shape.type_number })
            }
        }
    }
}

impl<M: Medium> Objects<'_, M> {
    /// Looks at the next span; `None` at the end of the heap.
    fn next_span(&mut self) -> Option<Result<Option<Object>, HeapError>> {
        let extent = *self.extents.first()?;
        let chunk = self.chunk.unwrap_or(extent.table_len / CHUNK);
        if chunk >= extent.len / CHUNK {
            self.extents.remove(0);
            self.chunk = None;
            return Some(Ok(None));
        }
        let memory = self.heap.memory();
        let found = self.heap.space.span(memory, &extent, chunk);
        self.chunk = Some(chunk + found.as_ref().map_or(1, |(span, _)| span.chunks));
        Some(found.and_then(|(span, kind)| match kind {
            SpanKind::Free => Ok(None),
            SpanKind::Huge(huge) => {
                let size = span.len() - huge.data_off;
                let at = span.start.plus(huge.data_off);
                Ok(Some(Object { at, size, type_number: huge.type_number }))
            }
            SpanKind::Superblock(shape) => {
                let allocated = bitmap(memory, span.start, &shape)?;
                self.blocks = Some(Blocks { span: span.start, shape, allocated, word: 0 });
                Ok(None)
            }
        }))
    }
}

impl<M: Medium> Iterator for Objects<'_, M> {
    type Item = Result<Object, HeapError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(object) = self.blocks.as_mut().and_then(Blocks::next) {
                return Some(Ok(object));
            }
            self.blocks = None;
            let step = self.next_span()?;
            if let Some(fault) = Fault::take() {
                return Some(Err(fault.into()));
            }
            if let Some(found) = step.transpose() {
                return Some(found);
            }
        }
    }
}
