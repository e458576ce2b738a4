//! The allocator of a heap as one thread uses it: the thread's own cache first, then the space that all threads share.

use super::cache::{Cache, ThreadCache};
use super::central::{HeldSuperblock, Key};
use super::class::Class;
use super::limbo::Retired;
use super::magazine::{Magazines, REFILL};
use super::shared::Shared;
use super::space::{Block, Space, Span};
use crate::error::HeapError;
use crate::growth::{GrowthError, Wanted, install, refusal};
use crate::writes::write_set::WriteSet;
use lode_layout::{CHUNK, ChunkDescriptor, Extent, Geometry, PoolOffset, SPAN_HEADER, Superblock, align_up};
use lode_pmem::biased::BiasedGuard;
use lode_pmem::sync::Ordering;
use lode_pmem::{Fault, Medium, Memory};
use lode_pool::Publish;
use lode_redo::Log;
use std::cell::Cell;

/// The allocator, for the steps of one thread.
#[derive(Debug)]
pub(crate) struct Allocator<'a, M: Medium> {
    pub(super) log: &'a Log<M>,
    pub(super) space: &'a Space,
    pub(super) shared: &'a Shared,
    cache: &'a ThreadCache,
    /// Set when the thread finds no space.
    pub(super) starved: &'a Cell<bool>,
}

impl<M: Medium> Clone for Allocator<'_, M> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for Allocator<'_, M> {}

impl<'a, M: Medium> Allocator<'a, M> {
    #[inline]
    pub(crate) fn new(
        log: &'a Log<M>,
        space: &'a Space,
        shared: &'a Shared,
        cache: &'a ThreadCache,
        starved: &'a Cell<bool>,
    ) -> Allocator<'a, M> {
        Allocator { log, space, shared, cache, starved }
    }

    /// Returns the log under the heap.
    #[inline]
    pub(crate) fn log(self) -> &'a Log<M> {
        self.log
    }

    /// Returns the space of the heap on the medium.
    #[inline]
    pub(crate) fn space(self) -> &'a Space {
        self.space
    }

    /// Returns the medium.
    #[inline]
    pub(crate) fn medium(self) -> &'a M {
        self.log.medium()
    }

    /// Returns the mapped bytes, for loads.
    #[inline]
    pub(crate) fn memory(self) -> &'a Memory {
        self.medium().memory()
    }

    /// Locks the cache of the calling thread. It stays locked for one step of the allocator, and no such step waits.
    #[inline]
    pub(super) fn lock_cache(self) -> BiasedGuard<'a, Cache> {
        self.cache.lock(|round| self.medium().relax(round))
    }

    /// Takes a block of `key` from the thread's cache.
    #[inline]
    pub(super) fn take_cached(self, key: Key) -> Option<Block> {
        self.lock_cache().magazines.pop(key)
    }

    /// Moves free blocks of `key` from the superblocks to the thread's cache, and returns one of them.
    pub(super) fn fetch_blocks(self, key: Key) -> Option<Block> {
        // ORDER: none: a thread that sees it late has fetched some more blocks, which are found in its cache.
        let is_scarce = self.shared.is_scarce.load(Ordering::Relaxed);
        let want = if is_scarce { 1 } else { refill_of(key.class) };
        // Locked until the blocks are in the cache, for a thread that looks for them there.
        let mut cache = self.lock_cache();
        cache.magazines.pop(key).or_else(|| {
            let blocks = cache.magazines.blocks_of(key);
            self.shared.central.take_blocks(self.space, self.memory(), key, want, blocks);
            // Ascending addresses: objects that are made together lie together.
            blocks.reverse();
            blocks.pop()
        })
    }

    /// Puts a free block into the thread's magazines, and gives the surplus to all threads.
    pub(super) fn put_back(self, magazines: &mut Magazines, key: Key, block: Block) {
        if let Some(surplus) = magazines.put(key, block) {
            self.shared.central.release_blocks(key, surplus.into_iter());
        }
    }

    /// Moves blocks that this thread freed, and that no reader holds any more, to the thread's magazines.
    #[cold]
    pub(super) fn rotate_limbo(self, cache: &mut Cache) {
        let oldest = self.shared.readers().oldest();
        let Cache { magazines, limbo } = cache;
        limbo.rotate(
            oldest,
            || self.shared.readers().advance(),
            |key, block| match self.shared.central.is_evacuated(block.at) {
                true => self.shared.central.release_blocks(key, [block].into_iter()),
                false => self.put_back(magazines, key, block),
            },
        );
    }

    /// Takes `chunks` free chunks that begin at a multiple of `align` chunks in their extent.
    pub(crate) fn take_span(self, chunks: u64, align: u64) -> Option<Span> {
        self.shared.central.take_span(self.space, self.memory(), chunks, align)
    }

    /// Holds the superblock `shape` at `start`, which has these objects, see [`Central::hold`](super::central::Central::hold).
    pub(crate) fn hold_superblock(
        self,
        start: PoolOffset,
        shape: &Superblock,
        objects: &[u64],
    ) -> Option<HeldSuperblock<'a>> {
        let central = &self.shared.central;
        let hold = |memory: &_| Ok::<_, Fault>(central.hold(memory, start, shape, objects));
        self.memory().try_reading(hold).ok().flatten()
    }

    /// Returns the lengths in chunks that a superblock of `key` may have, the best one first.
    pub(super) fn superblock_lengths(self, key: Key) -> impl Iterator<Item = u64> {
        let evacuation = self.shared.central.evacuation();
        let best = evacuation.map(|evacuation| evacuation.superblock_len(key.class, key.type_number));
        best.into_iter().chain(key.class.span_lengths())
    }

    /// Takes a span of `chunks` free chunks, or else the longest free span.
    pub(crate) fn take_longest(self, chunks: u64) -> Option<Span> {
        self.take_span(chunks, 1)
            .or_else(|| self.shared.central.take_longest(self.space, self.memory(), chunks))
    }

    fn longest_after(self, geometry: &Geometry) -> u64 {
        self.shared.central.longest_after(self.space, self.memory(), geometry)
    }

    /// Takes a span of free chunks. Reclaims all that it can if there is none.
    fn find_span(self, chunks: u64) -> Result<Option<Span>, HeapError> {
        if chunks > self.space.chunks() && !self.grows() {
            return Ok(None);
        }
        match self.take_span(chunks, 1) {
            Some(span) => Ok(Some(span)),
            None => {
                let fits = |geometry: &Geometry| self.longest_after(geometry) >= chunks;
                let wanted = Wanted { bytes: chunks * CHUNK, fits: &fits };
                self.reclaim_for_wanted(&wanted, || self.take_span(chunks, 1))
            }
        }
    }

    /// Returns a span for a huge object, and the object's offset in the span.
    pub(super) fn find_huge(self, size: u64, align: u64) -> Result<(Span, u64), HeapError> {
        self.log.begin_epoch()?;
        let data_off = align_up(SPAN_HEADER, align);
        let out_of_space = || self.out_of_space(size);
        let len = size.checked_add(data_off + CHUNK - 1).ok_or_else(out_of_space)?;
        let span = self.find_span(len / CHUNK)?.ok_or_else(out_of_space)?;
        Ok((span, data_off))
    }

    /// Adds the descriptor of `span` to a transaction's record.
    pub(super) fn store_descriptor(self, writes: &mut WriteSet, span: Span, descriptor: ChunkDescriptor) {
        let at = self.space.descriptor_at(span.start).expect("spans lie in extents");
        writes.store_words(self.medium(), at, &[descriptor.encode()]);
    }

    /// Retires spans that hold entries of the record `sequence`. They can be used again when a checkpoint covers the
    /// record: no reader ever comes to them.
    pub(crate) fn retire_entries(self, sequence: u64, spans: impl IntoIterator<Item = Span>) {
        let mut limbo = self.shared.limbo();
        for span in spans {
            limbo.retire_unheld(sequence, Retired::Span(span));
        }
    }

    /// Returns the error of a transaction that finds no room for `wanted` bytes.
    pub(crate) fn out_of_space(self, wanted: u64) -> HeapError {
        self.shared.out_of_space(wanted)
    }

    /// Returns true if the pool grows when there is no space.
    pub(super) fn grows(self) -> bool {
        self.shared.growth.get().is_some()
    }

    /// Makes the pool larger for what is `wanted`. Returns false if it does not grow; the reason is noted for the error
    /// of the transaction.
    #[cold]
    pub(super) fn grow(self, wanted: &Wanted<'_>) -> Result<bool, HeapError> {
        let Some(growth) = self.shared.growth.get() else { return Ok(false) };
        let install = &mut |geometry: &Geometry, publish: &mut Publish<'_>| {
            install(self.log, self.space, geometry, publish)
        };
        let (is_grown, refusal) = match growth.grow(wanted, install) {
            Ok(()) => (true, None),
            Err(GrowthError::Log(error)) => return Err(error.into()),
            Err(GrowthError::Pool(error)) => (false, refusal(&error)),
        };
        *self.shared.refusal() = refusal;
        Ok(is_grown)
    }

    /// Returns the number of bytes that a growth to `geometry` adds to the free space.
    pub(crate) fn added(self, geometry: &Geometry) -> u64 {
        let free = |extent: &Extent| extent.len - extent.table_len;
        let new: u64 = geometry.extents().iter().map(free).sum();
        new.saturating_sub(self.space.extents().map(|extent| free(&extent)).sum())
    }

    /// Returns the number of free chunks. First scans the extents that were not scanned since opening.
    pub(crate) fn free_chunks(self) -> u64 {
        self.shared.central.free_chunks(self.space, self.memory())
    }
}

/// Returns the number of blocks of `class` that a thread fetches at a time. It is small enough to leave blocks of a
/// small pool to other threads.
pub(super) fn refill_of(class: Class) -> usize {
    let per_chunk = (CHUNK / class.block_size()).max(1) as usize;
    REFILL.min(per_chunk.div_ceil(4))
}
