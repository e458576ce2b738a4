//! The blocks and spans of one attempt of a transaction: those that it took, and those that it freed.
//!
//! ```text
//!   alloc, free -> entries in the write set -> record durable -> publish: new superblocks and freed space are shared
//!                                           -> not written    -> roll_back: taken space is free again
//!                                           -> in doubt       -> clear: the space is left alone
//! ```

use super::allocator::Allocator;
use super::block_set::{BlockSet, WordBlocks};
use super::central::{BlockOrSpan, FreeBlocks, Key};
use super::class::Class;
use super::limbo::Retired;
use super::new_spans::{NewHuge, NewSpans, NewSuperblock};
use super::shared::Shared;
use super::space::{Block, Described, FoundObject, Space, Span};
use crate::error::HeapError;
use crate::writes::write_set::WriteSet;
use lode_layout::{ChunkDescriptor, Huge, LINE, PoolOffset, Superblock, checked, unchecked};
use lode_pmem::{Medium, Readable};
use lode_redo::bugs;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;

/// The strongest alignment of an object, in bytes.
const ALIGN_MAX: u64 = 4096;
/// The weakest alignment of an object, in bytes.
pub(crate) const ALIGN_MIN: u64 = 16;
/// Bytes above which an object's first content may be written in place, past the log.
pub(crate) const PAYLOAD_MIN: u64 = 1024;

/// Number of objects that are found again without their headers being decoded and checked once more: those of the containers that
/// a thread changes in turn.
const DESCRIBED_COUNT: usize = 4;

/// Returns the alignment that an object gets when `align` was asked for.
pub(crate) fn checked_align(align: u64) -> Result<u64, HeapError> {
    let fine = align.max(1).is_power_of_two() && align <= ALIGN_MAX;
    if fine { Ok(align.max(ALIGN_MIN)) } else { Err(HeapError::Alignment { align }) }
}

/// The place at which a block was found.
enum FoundSpace {
    Block(Block),
    /// A span for a superblock of such blocks.
    Superblock(Span),
}

/// The space that an attempt of a transaction has taken or freed. No other transaction gets it before this one is
/// over.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    /// Blocks of older superblocks. Those of the new ones are noted with them.
    taken: BlockSet,
    new_spans: NewSpans,
    freed: BlockSet,
    /// Freed spans: start and length in chunks.
    freed_spans: BTreeMap<PoolOffset, u64>,
    /// True if a reserved span becomes an object.
    publishes_span: bool,
    /// True if other transactions may free blocks of the new superblocks.
    are_registered: Cell<bool>,
    /// Objects that this attempt or an earlier one of the thread looked up. They need not be there any more.
    described: [Option<Described>; DESCRIBED_COUNT],
}

impl Allocations {
    /// Allocates an object of at least `size` bytes, see [`Tx::alloc`](crate::Tx::alloc).
    #[inline]
    pub(crate) fn alloc<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        writes: &mut WriteSet,
        size: u64,
        align: u64,
        type_number: u64,
    ) -> Result<PoolOffset, HeapError> {
        let align = checked_align(align)?;
        let Some(class) = Class::of(size.max(1), align) else {
            return self.alloc_huge(allocator, writes, size, align, type_number);
        };
        let key = Key { class, type_number };
        let Some((key, block)) = self.take_block(allocator, writes, key, align)? else {
            return self.alloc_huge(allocator, writes, size, align, type_number);
        };
        allocator.memory().prefetch_store(block.word);
        writes.set_bits(allocator.medium(), block.word, block.mask());
        if !self.new_spans.set_taken(block) {
            self.taken.insert(key, block);
        }
        Ok(block.at)
    }

    /// Returns true if the range lies in space that the transaction took, and in one object.
    pub(crate) fn is_new(&self, at: PoolOffset, end: PoolOffset) -> bool {
        self.taken.holds_range(at, end) || self.new_spans.hold_range(at, end)
    }

    /// Notes that a reserved span becomes an object.
    pub(crate) fn note_published_span(&mut self) {
        self.publishes_span = true;
    }

    /// Returns true if the transaction makes no span of free chunks an object, and frees none. It may make superblocks.
    pub(crate) fn keeps_spans(&self) -> bool {
        !self.new_spans.has_huge() && self.freed_spans.is_empty() && !self.publishes_span
    }

    /// Makes the transaction's superblocks known, so that blocks of them can be freed. Their free blocks stay with the
    /// transaction.
    pub(crate) fn register_superblocks(&self, shared: &Shared) {
        for NewSuperblock { span, shape, key, .. } in self.new_spans.superblocks() {
            shared.central.add_superblock(*span, *shape, *key, FreeBlocks::none(shape));
        }
        self.are_registered.set(true);
    }

    /// Takes space for an object that the end of the transaction does not give back. Returns it, and the object's
    /// offset.
    pub(crate) fn take<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        writes: &mut WriteSet,
        size: u64,
        align: u64,
        type_number: u64,
    ) -> Result<(BlockOrSpan, PoolOffset), HeapError> {
        let align = checked_align(align)?;
        if let Some(class) = Class::of(size.max(1), align) {
            let key = Key { class, type_number };
            if let Some((key, block)) = self.take_block(allocator, writes, key, align)? {
                return Ok((BlockOrSpan::Block(key, block), block.at));
            }
        }
        let (span, data_off) = allocator.find_huge(size, align)?;
        Ok((BlockOrSpan::Span(span), span.start.plus(data_off)))
    }

    /// Takes a free block of `key`. If there is none, takes a larger one that is aligned to `align`. The block
    /// belongs to the transaction from then on. Returns `None` if there is no block, and no room for a superblock.
    #[inline]
    fn take_block<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        writes: &mut WriteSet,
        key: Key,
        align: u64,
    ) -> Result<Option<(Key, Block)>, HeapError> {
        let block = allocator.take_cached(key);
        block.map_or_else(|| self.find_block(allocator, writes, key, align), |block| Ok(Some((key, block))))
    }

    /// Finds a free block outside of the thread's cache, and fetches others with it.
    #[cold]
    fn find_block<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        writes: &mut WriteSet,
        key: Key,
        align: u64,
    ) -> Result<Option<(Key, Block)>, HeapError> {
        // No cache holds a block before the log epoch has begun, nor one of a read-only heap: the first allocation comes here, or to
        // `find_huge`.
        allocator.log().begin_epoch()?;
        // Only the transaction knows a superblock that it makes, so its blocks are found here only.
        if let Some(block) = self.new_spans.take_block(key) {
            return Ok(Some((key, block)));
        }
        let block = allocator.fetch_blocks(key);
        let block =
            block.or_else(|| allocator.take_reclaimable().then(|| allocator.fetch_blocks(key)).flatten());
        if let Some(block) = block {
            return Ok(Some((key, block)));
        }
        let of_length = |chunks| allocator.take_span(chunks, chunks).map(FoundSpace::Superblock);
        let most = allocator.superblock_lengths(key).find(|chunks| *chunks <= allocator.space().chunks());
        let find = || allocator.fetch_blocks(key).map(FoundSpace::Block).or_else(|| of_length(most?));
        let room = match find() {
            Some(room) => Some(room),
            None => allocator.reclaim_for(find)?,
        };
        match room.or_else(|| allocator.superblock_lengths(key).find_map(of_length)) {
            Some(FoundSpace::Block(block)) => Ok(Some((key, block))),
            Some(FoundSpace::Superblock(span)) => {
                self.make_superblock(allocator, writes, span, key);
                Ok(self.new_spans.take_block(key).map(|block| (key, block)))
            }
            None => {
                let larger = key.class.larger().filter(|class| class.align() >= align);
                let mut keys = larger.map(|class| Key { class, ..key });
                Ok(keys.find_map(|key| Some((key, allocator.fetch_blocks(key)?))))
            }
        }
    }

    /// Makes `span` a superblock of `key`. Its header is part of this transaction's record.
    fn make_superblock<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        writes: &mut WriteSet,
        span: Span,
        key: Key,
    ) {
        let (class, chunks) = (key.class, span.chunks);
        let shape = Superblock::plan(span.len(), class.block_size(), class.align(), key.type_number);
        let bitmap = vec![checked(0); shape.bitmap_words() as usize];
        if let Some(evacuation) = allocator.shared.central.evacuation() {
            evacuation.made(&shape);
        }
        writes.add_own_span(span);
        allocator.store_descriptor(writes, span, ChunkDescriptor::Superblock { chunks });
        writes.store_header(allocator.medium(), span.start, &shape.encode(span.start.get()), &bitmap);
        let free = FreeBlocks::of(&shape, &vec![0; bitmap.len()]);
        let taken = vec![0; bitmap.len()];
        self.new_spans.add_superblock(NewSuperblock { span, shape, key, free, next: Vec::new(), taken });
    }

    fn alloc_huge<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        writes: &mut WriteSet,
        size: u64,
        align: u64,
        type_number: u64,
    ) -> Result<PoolOffset, HeapError> {
        let (span, data_off) = allocator.find_huge(size, align)?;
        writes.add_own_span(span);
        make_huge(allocator, writes, span, Huge { size, data_off, type_number });
        let at = span.start.plus(data_off);
        self.new_spans.add_huge(NewHuge { span, at, size: span.len() - data_off, type_number });
        Ok(at)
    }

    /// Frees the object that begins at `at`, see [`Tx::free`](crate::Tx::free).
    pub(crate) fn free<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        memory: &Readable,
        writes: &mut WriteSet,
        at: PoolOffset,
    ) -> Result<(), HeapError> {
        let none = HeapError::NoObject { at };
        if let Some((block, key, _)) = self.new_spans.block(at) {
            return if self.new_spans.is_taken(block) {
                self.free_block(allocator, writes, key, block)
            } else {
                Err(none)
            };
        }
        if let Some(huge) = self.new_spans.huge(at) {
            return self.free_span(allocator, writes, huge.span, none);
        }
        // The superblock of a block that was taken may be another transaction's, and not in the pool yet.
        if let Some((key, block)) = self.taken.starting_at(at) {
            return self.free_block(allocator, writes, key, block);
        }
        let Allocator { space, shared, .. } = allocator;
        match self.find(space, memory, writes, at)? {
            FoundObject::Block { block, span, class, shape } => {
                if !self.is_allocated(memory, writes, block)? {
                    return Err(none);
                }
                shared.central.register_superblock(space, memory, span);
                self.free_block(allocator, writes, Key { class, type_number: shape.type_number }, block)
            }
            FoundObject::Huge { span, .. } => {
                shared.central.scan_to(space, memory, span.start);
                self.free_span(allocator, writes, span, none)
            }
        }
    }

    fn free_block<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        writes: &mut WriteSet,
        key: Key,
        block: Block,
    ) -> Result<(), HeapError> {
        if self.freed.contains(block) {
            return Err(HeapError::NoObject { at: block.at });
        }
        writes.clear_bits(allocator.medium(), block.word, block.mask());
        self.freed.insert(key, block);
        Ok(())
    }

    fn free_span<M: Medium>(
        &mut self,
        allocator: Allocator<'_, M>,
        writes: &mut WriteSet,
        span: Span,
        none: HeapError,
    ) -> Result<(), HeapError> {
        if self.freed_spans.contains_key(&span.start) {
            return Err(none);
        }
        allocator.store_descriptor(writes, span, ChunkDescriptor::Free);
        self.freed_spans.insert(span.start, span.chunks);
        Ok(())
    }

    /// Returns the bytes that the object at `at` can hold, and its type number, as the transaction sees it.
    pub(crate) fn object(
        &mut self,
        space: &Space,
        memory: &Readable,
        writes: &WriteSet,
        at: PoolOffset,
    ) -> Result<(u64, u64), HeapError> {
        let none = || HeapError::NoObject { at };
        if let Some((block, key, shape)) = self.new_spans.block(at) {
            let there = self.new_spans.is_taken(block) && !self.freed.contains(block);
            return if there { Ok((shape.block_size, key.type_number)) } else { Err(none()) };
        }
        if let Some(huge) = self.new_spans.huge(at) {
            let there = !self.freed_spans.contains_key(&huge.span.start);
            return if there { Ok((huge.size, huge.type_number)) } else { Err(none()) };
        }
        if let Some((key, block)) = self.taken.starting_at(at) {
            let there = !self.freed.contains(block);
            return if there { Ok((key.class.block_size(), key.type_number)) } else { Err(none()) };
        }
        match self.find(space, memory, writes, at)? {
            FoundObject::Block { block, shape, .. }
                if !self.freed.contains(block) && self.is_allocated(memory, writes, block)? =>
            {
                Ok((shape.block_size, shape.type_number))
            }
            FoundObject::Huge { span, object } if !self.freed_spans.contains_key(&span.start) => {
                Ok((span.len() - object.data_off, object.type_number))
            }
            _ => Err(none()),
        }
    }

    /// Finds the object that begins at `at` as [`Space::find`] does.
    #[inline]
    fn find(
        &mut self,
        space: &Space,
        memory: &Readable,
        writes: &WriteSet,
        at: PoolOffset,
    ) -> Result<FoundObject, HeapError> {
        let words = writes.below(memory);
        let described = &mut self.described[(at.get() / LINE) as usize % DESCRIBED_COUNT];
        match described {
            Some(known) if known.at == at && known.holds(&words) => Ok(known.found),
            _ => Ok(described.insert(space.describe(&words, at)?).found),
        }
    }

    /// Returns true if the block was allocated before the transaction or by it.
    fn is_allocated(&self, memory: &Readable, writes: &WriteSet, block: Block) -> Result<bool, HeapError> {
        let bits = unchecked(writes.load8_below(memory, block.word))
            .ok_or(HeapError::Corrupt { what: "the allocation bitmap", at: block.word })?;
        Ok(bits & block.mask() != 0 || self.taken.contains(block))
    }

    /// Publishes the space of the transaction, whose record `sequence` is durable: its superblocks to all threads,
    /// and the space that it freed to a limbo.
    #[inline]
    pub(crate) fn publish<M: Medium>(&mut self, allocator: Allocator<'_, M>, sequence: u64) {
        self.publish_taken(allocator);
        if !self.freed.is_empty() || !self.freed_spans.is_empty() {
            self.retire(allocator, sequence);
        }
    }

    /// Publishes what the transaction has left free of its superblocks. No other transaction gets what it has taken.
    #[inline]
    pub(crate) fn publish_taken<M: Medium>(&mut self, allocator: Allocator<'_, M>) {
        if !self.new_spans.is_empty() {
            let are_registered = self.are_registered.take();
            for superblock in self.new_spans.take_superblocks() {
                let NewSuperblock { span, shape, key, free, next, taken: _ } = superblock;
                // Others may have freed all of a superblock that has nothing to add, and its span.
                if !are_registered || !free.is_empty() {
                    allocator.shared.central.add_superblock(span, shape, key, free);
                }
                allocator.lock_cache().magazines.blocks_of(key).extend(next);
            }
            self.new_spans.clear();
        }
        self.taken.clear();
    }

    /// Takes the blocks that the transaction freed, to be published later. It keeps its spans.
    pub(crate) fn take_freed(&mut self) -> Option<BlockSet> {
        debug_assert!(self.keeps_spans(), "spans are published by their transaction");
        Some(mem::take(&mut self.freed)).filter(|freed| !freed.is_empty())
    }

    /// Makes the freed space of a transaction that returned before.
    pub(super) fn of_freed(freed: BlockSet) -> Allocations {
        Allocations { freed, ..Allocations::default() }
    }

    /// Puts blocks and spans that the transaction `sequence` freed into a limbo, until they can be used again.
    fn retire<M: Medium>(&mut self, allocator: Allocator<'_, M>, sequence: u64) {
        let shared = allocator.shared;
        let mut epoch = None;
        let mut share = |sequence, retired| {
            let epoch = *epoch.get_or_insert_with(|| shared.readers().advance());
            shared.limbo().retire(sequence, epoch, retired);
        };
        let is_small = |key: Key| key.class.block_size() <= PAYLOAD_MIN;
        let mut cache = allocator.lock_cache();
        for (key, block) in self.freed.take_list() {
            if is_small(key) {
                if cache.limbo.retire(key, block) {
                    allocator.rotate_limbo(&mut cache);
                }
            } else if bugs::EARLY_REUSE.is_active() {
                shared.central.release(BlockOrSpan::Block(key, block));
            } else {
                share(sequence, Retired::Blocks(WordBlocks::of(key, block)));
            }
        }
        if self.freed_spans.is_empty() && self.freed.is_empty() {
            return;
        }
        for blocks in self.freed.take_words() {
            // Sequence 0: small blocks do not wait for a checkpoint.
            share(if is_small(blocks.key) { 0 } else { sequence }, Retired::Blocks(blocks));
        }
        for (start, chunks) in mem::take(&mut self.freed_spans) {
            share(sequence, Retired::Span(Span { start, chunks }));
        }
    }

    /// Gives back the space that the transaction had taken. It is not committed and never will be.
    pub(crate) fn roll_back<M: Medium>(&mut self, allocator: Allocator<'_, M>) {
        if !self.taken.is_empty() {
            let mut cache = allocator.lock_cache();
            let magazines = &mut cache.magazines;
            for (key, block) in self.taken.take_list() {
                allocator.put_back(magazines, key, block);
            }
            for blocks in self.taken.take_words() {
                allocator.shared.central.release_blocks(blocks.key, blocks.blocks());
            }
        }
        if !self.new_spans.is_empty() {
            for span in self.new_spans.spans() {
                allocator.shared.central.release_span(span);
            }
            self.new_spans.clear();
        }
    }

    /// Empties the sets at the end of a transaction. Its space is published or given back by then, or stays unused
    /// until the pool is opened again.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.taken.clear();
        self.new_spans.clear();
        self.freed.clear();
        if !self.freed_spans.is_empty() {
            self.freed_spans = BTreeMap::new();
        }
        self.publishes_span = false;
        self.are_registered.set(false);
    }
}

/// Adds the descriptor and the header of a huge object in `span` to a transaction's record.
fn make_huge<M: Medium>(allocator: Allocator<'_, M>, writes: &mut WriteSet, span: Span, object: Huge) {
    allocator.store_descriptor(writes, span, ChunkDescriptor::Huge { chunks: span.chunks });
    writes.store_header(allocator.medium(), span.start, &object.encode(span.start.get()), &[]);
}

/// Makes `place`, which was taken before, an object of `size` bytes at `at`, by entries in a transaction's record.
pub(crate) fn make_object<M: Medium>(
    allocator: Allocator<'_, M>,
    writes: &mut WriteSet,
    place: BlockOrSpan,
    at: PoolOffset,
    size: u64,
    type_number: u64,
) {
    match place {
        BlockOrSpan::Block(_, block) => writes.set_bits(allocator.medium(), block.word, block.mask()),
        BlockOrSpan::Span(span) => {
            let data_off = at.get() - span.start.get();
            make_huge(allocator, writes, span, Huge { size, data_off, type_number });
        }
    }
}
