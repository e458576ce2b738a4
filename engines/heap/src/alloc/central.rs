//! The part of the allocator that all threads share: superblocks with free blocks, and free chunks.

use super::class::Class;
use super::evacuation::Evacuation;
use super::space::{Block, Space, Span, SpanKind, bitmap, span_kind};
use super::spans::FreeSpans;
use lode_layout::{CHECKED_BITS, CHUNK, ChunkDescriptor, Extent, Geometry, PoolOffset, Superblock, WORD};
use lode_pmem::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use lode_pmem::{Memory, Readable};
use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, OnceLock, PoisonError};

/// The properties that all blocks of a superblock have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) class: Class,
    pub(crate) type_number: u64,
}

/// A block or a span that no object lies in, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOrSpan {
    Block(Key, Block),
    Span(Span),
}

/// Number of chunks whose descriptors are read at a time, when free space or free blocks are looked for after
/// opening.
const SCAN_STEP: u64 = 64;

/// A superblock that is on the medium, and its free blocks that no thread has.
#[derive(Debug)]
struct KnownSuperblock {
    span: Span,
    shape: Superblock,
    key: Key,
    free: FreeBlocks,
}

/// Free blocks of a superblock that no thread has.
#[derive(Debug, Default)]
pub(crate) struct FreeBlocks {
    /// A bitmap with 48 blocks to a word, like the one on the medium.
    words: Vec<u64>,
    count: u64,
}

impl FreeBlocks {
    /// Returns the blocks of `shape` that are not in `allocated`, a bitmap with 48 blocks to a word.
    pub(crate) fn of(shape: &Superblock, allocated: &[u64]) -> FreeBlocks {
        let bits = u64::from(CHECKED_BITS);
        let blocks_of = |word: u64| (shape.block_count - word * bits).min(bits);
        let all = |word: u64| (1u64 << blocks_of(word)) - 1;
        let words: Vec<u64> = allocated.iter().zip(0..).map(|(used, word)| all(word) & !used).collect();
        let count = words.iter().map(|bits| u64::from(bits.count_ones())).sum();
        FreeBlocks { words, count }
    }

    /// Returns none of the blocks of `shape`.
    pub(crate) fn none(shape: &Superblock) -> FreeBlocks {
        FreeBlocks { words: vec![0; shape.bitmap_words() as usize], count: 0 }
    }

    /// Returns true if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the blocks in `more`, of the same superblock.
    fn add(&mut self, more: &FreeBlocks) {
        for (bits, more) in self.words.iter_mut().zip(&more.words) {
            debug_assert_eq!(*bits & more, 0, "a block is free once");
            *bits |= more;
        }
        self.count += more.count;
    }

    /// Moves up to `want` of them to `into`: the first ones of the superblock `shape` at `span`.
    pub(crate) fn take(&mut self, span: PoolOffset, shape: &Superblock, want: usize, into: &mut Vec<Block>) {
        let mut wanted = want.min(self.count as usize);
        self.count -= wanted as u64;
        for (word, bits) in self.words.iter_mut().enumerate() {
            while wanted > 0 && *bits != 0 {
                let index = word as u64 * u64::from(CHECKED_BITS) + u64::from(bits.trailing_zeros());
                *bits &= *bits - 1;
                into.push(Block::of(span, shape, index));
                wanted -= 1;
            }
        }
        let free = || self.words.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        debug_assert_eq!(self.count, free(), "free blocks are counted");
    }
}

impl KnownSuperblock {
    fn release(&mut self, block: Block) {
        let index = (block.at.get() - self.span.start.get() - self.shape.data_off) / self.shape.block_size;
        let bits = &mut self.free.words[(index / u64::from(CHECKED_BITS)) as usize];
        let was_taken = *bits & block.mask() == 0;
        // With a seeded bug two transactions may free the same block; the explorer has to find the loss.
        debug_assert!(was_taken || cfg!(lode_bugs), "a block was freed twice");
        *bits |= block.mask();
        self.free.count += u64::from(was_taken);
        debug_assert!(self.free.count <= self.shape.block_count, "free blocks are counted");
    }

    fn is_empty(&self) -> bool {
        self.free.count == self.shape.block_count
    }
}

/// A superblock in which nothing is allocated until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldSuperblock<'a> {
    central: &'a Central,
    start: PoolOffset,
    free: FreeBlocks,
    /// The type of its blocks from then on.
    type_number: u64,
}

impl HeldSuperblock<'_> {
    /// Lets blocks be allocated again, for objects of this type. The superblock has it on the medium, too.
    pub(crate) fn retype(mut self, type_number: u64) {
        self.type_number = type_number;
    }
}

impl Drop for HeldSuperblock<'_> {
    fn drop(&mut self) {
        let mut state = self.central.lock_state();
        if let Some(known) = state.known.get_mut(&self.start) {
            (known.shape.type_number, known.key.type_number) = (self.type_number, self.type_number);
            let (span, shape, key) = (known.span, known.shape, known.key);
            state.add(span, shape, key, mem::take(&mut self.free));
        }
    }
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<PoolOffset, KnownSuperblock>,
    /// Superblocks with free blocks, by key. May name superblocks that are full or gone.
    partial: HashMap<Key, Vec<PoolOffset>>,
    free: FreeSpans,
    /// The next chunk that the scan reads, for each extent.
    scanned: Vec<u64>,
    /// The spans whose free space is not handed out, if the pool is to shrink.
    evacuation: Arc<OnceLock<Evacuation>>,
}

/// The shared part of the allocator.
#[derive(Debug)]
pub(crate) struct Central {
    state: Mutex<State>,
    /// Everything below this offset has been scanned.
    scanned_below: AtomicU64,
    /// That of the state, which is read without its lock.
    evacuation: Arc<OnceLock<Evacuation>>,
}

impl Default for Central {
    fn default() -> Central {
        let state = State::default();
        let evacuation = Arc::clone(&state.evacuation);
        Central { state: Mutex::new(state), scanned_below: AtomicU64::new(0), evacuation }
    }
}

impl Central {
    /// Moves up to `want` free blocks of `key` to `into`. Moves none if it finds none.
    pub(crate) fn take_blocks(
        &self,
        space: &Space,
        memory: &Memory,
        key: Key,
        want: usize,
        into: &mut Vec<Block>,
    ) {
        let mut state = self.lock_state();
        loop {
            while let Some(start) = state.partial.get_mut(&key).and_then(|starts| starts.last().copied()) {
                // The span may have been given up since, and may be a superblock of another key by now.
                let usable = |known: &&mut KnownSuperblock| known.key == key && known.free.count > 0;
                if let Some(known) = state.known.get_mut(&start).filter(usable) {
                    let (from, size) = (into.len(), known.shape.block_size);
                    known.free.take(known.span.start, &known.shape, want, into);
                    // Blocks that have lost bytes are used by no thread until the pool is opened again.
                    let mut index = 0;
                    into.retain(|block| {
                        index += 1;
                        index <= from || memory.locate(block.at, size).is_ok()
                    });
                    if into.len() > from {
                        return;
                    }
                    continue;
                }
                state.partial.entry(key).and_modify(|starts| _ = starts.pop());
            }
            // Known free space is used before old superblocks are looked for: opening a large pool must not make the
            // first allocation slow.
            if state.free.chunks() > 0 || !self.scan(&mut state, space, memory) {
                return;
            }
        }
    }

    /// Hands out no free space of an evacuation any more. Called once, before the first allocation, and while no other
    /// thread uses the heap.
    pub(crate) fn evacuate(&self, evacuation: Evacuation) {
        let is_first = self.evacuation.set(evacuation).is_ok();
        debug_assert!(is_first, "a heap is evacuated once");
    }

    /// Holds the superblock `shape` at `start`, which has these objects: a bitmap with 48 blocks to a word. Returns `None` if it has
    /// others, if a thread or a limbo has one of its free blocks, or if it was not scanned.
    pub(crate) fn hold(
        &self,
        memory: &Readable,
        start: PoolOffset,
        shape: &Superblock,
        objects: &[u64],
    ) -> Option<HeldSuperblock<'_>> {
        let mut state = self.lock_state();
        let known = state.known.get_mut(&start).filter(|known| known.shape == *shape)?;
        let allocated = bitmap(memory, start, shape).ok()?;
        let free = FreeBlocks::of(shape, &allocated);
        if allocated != objects || known.free.count != free.count {
            return None;
        }
        known.free = FreeBlocks::none(shape);
        Some(HeldSuperblock { central: self, start, free, type_number: shape.type_number })
    }

    /// Returns the evacuation of the heap, if there is one.
    pub(crate) fn evacuation(&self) -> Option<&Evacuation> {
        self.evacuation.get()
    }

    /// Returns true if the space at `at` is evacuated.
    pub(crate) fn is_evacuated(&self, at: PoolOffset) -> bool {
        self.evacuation().is_some_and(|evacuation| evacuation.holds(at))
    }

    /// Takes back space that no thread uses.
    pub(crate) fn release(&self, place: BlockOrSpan) {
        match place {
            BlockOrSpan::Block(key, block) => self.release_blocks(key, [block].into_iter()),
            BlockOrSpan::Span(span) => self.release_span(span),
        }
    }

    /// Takes back blocks that no thread uses.
    pub(crate) fn release_blocks(&self, key: Key, blocks: impl Iterator<Item = Block>) {
        let mut state = self.lock_state();
        for block in blocks {
            state.release_block(block, key);
        }
    }

    /// Adds the superblock at `span` to the known ones before one of its blocks is freed. If the scan met it later,
    /// it would find the block free while a reader may still hold it. The block would be free a second time when it
    /// leaves the limbo.
    #[inline]
    pub(crate) fn register_superblock(&self, space: &Space, memory: &Readable, span: PoolOffset) {
        // ORDER: acquires the scan's end: superblocks below it are known.
        if span.get() < self.scanned_below.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.lock_state();
        if !state.known.contains_key(&span)
            && let Some((extent, chunk)) = space.chunk_of(span)
            && let Ok((span, kind)) = space.span(memory, &extent, chunk)
        {
            state.register(memory, span, kind);
        }
    }

    /// Scans everything up to `span` before that span is freed.
    pub(crate) fn scan_to(&self, space: &Space, memory: &Memory, span: PoolOffset) {
        let mut state = self.lock_state();
        while state.scanned_below(space) <= span.get() && self.scan(&mut state, space, memory) {}
    }

    /// Takes `chunks` free chunks that begin at a multiple of `align` chunks in their extent.
    pub(crate) fn take_span(&self, space: &Space, memory: &Memory, chunks: u64, align: u64) -> Option<Span> {
        let extent_start = |at: PoolOffset| {
            let starts = space.extents().map(|extent| extent.start).filter(|start| *start <= at);
            starts.max().map_or(0, PoolOffset::get)
        };
        let mut state = self.lock_state();
        loop {
            let taken = state.take_readable(space, memory, |free| free.take(chunks, align, extent_start));
            if taken.is_some() || !self.scan(&mut state, space, memory) {
                return taken;
            }
        }
    }

    /// Takes all superblocks that have no block in use, so their chunks can serve something else.
    pub(crate) fn take_empty_superblocks(&self, space: &Space) -> Vec<Span> {
        let mut state = self.lock_state();
        // Superblocks that the scan has not reached stay: it would find their chunks free a second time.
        let below = state.scanned_below(space);
        let empty = state.known.values().filter(|known| known.is_empty() && known.span.start.get() < below);
        let mut empty: Vec<Span> = empty.map(|known| known.span).collect();
        // A map has no order, and a run of the crash explorer must be the same each time.
        empty.sort_unstable_by_key(|span| span.start);
        for span in &empty {
            state.known.remove(&span.start);
        }
        empty
    }

    /// Takes the longest free span, at most `chunks_max` chunks of it.
    pub(crate) fn take_longest(&self, space: &Space, memory: &Memory, chunks_max: u64) -> Option<Span> {
        self.lock_state().take_readable(space, memory, |free| free.take_longest(chunks_max))
    }

    /// Returns the length in chunks of the longest free span that a growth to `geometry` adds or makes longer.
    pub(crate) fn longest_after(&self, space: &Space, memory: &Memory, geometry: &Geometry) -> u64 {
        let mut state = self.lock_state();
        while self.scan(&mut state, space, memory) {}
        let old: Vec<Extent> = space.extents().collect();
        let longest = geometry.extents().iter().enumerate().map(|(index, new)| match old.get(index) {
            Some(old) if old.len == new.len => 0,
            Some(old) => state.free.ending_at(old.end()) + new.len.saturating_sub(old.len) / CHUNK,
            None => (new.len - new.table_len) / CHUNK,
        });
        longest.max().unwrap_or(0)
    }

    /// Takes back chunks whose descriptors are zero.
    pub(crate) fn release_span(&self, span: Span) {
        self.lock_state().release_span(span);
    }

    /// Adds a superblock that is on the medium, or will be before all that follows. Its blocks `free` belong to no thread;
    /// another call may add more of them.
    pub(crate) fn add_superblock(&self, span: Span, shape: Superblock, key: Key, free: FreeBlocks) {
        self.lock_state().add(span, shape, key, free);
    }

    /// Returns the number of free chunks. Scans first all that was not scanned since opening.
    pub(crate) fn free_chunks(&self, space: &Space, memory: &Memory) -> u64 {
        let mut state = self.lock_state();
        while self.scan(&mut state, space, memory) {}
        state.free.chunks()
    }

    /// Scans some more chunks. Returns false when all have been scanned.
    fn scan(&self, state: &mut State, space: &Space, memory: &Memory) -> bool {
        let more = state.scan(space, memory);
        // ORDER: releases the scan's findings to threads that find a span below.
        self.scanned_below.store(state.scanned_below(space), Ordering::Release);
        more
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_evacuated(&self, at: PoolOffset) -> bool {
        self.evacuation.get().is_some_and(|evacuation| evacuation.holds(at))
    }

    fn release_span(&mut self, span: Span) {
        if !self.is_evacuated(span.start) {
            self.free.release(span);
        }
    }

    fn add(&mut self, span: Span, shape: Superblock, key: Key, free: FreeBlocks) {
        if free.count > 0 && !self.is_evacuated(span.start) {
            self.partial.entry(key).or_default().push(span.start);
        }
        let known = self.known.entry(span.start);
        let none = || KnownSuperblock { span, shape, key, free: FreeBlocks::none(&shape) };
        let known = known.or_insert_with(none);
        debug_assert_eq!((known.shape, known.key), (shape, key), "a superblock is what it was registered as");
        known.free.add(&free);
    }

    /// Takes a free span that has lost no byte, and none of its descriptors: a lost one looks like that of a free chunk.
    /// Other chunks are used by no thread until the pool is opened again.
    fn take_readable(
        &mut self,
        space: &Space,
        memory: &Memory,
        take: impl Fn(&mut FreeSpans) -> Option<Span>,
    ) -> Option<Span> {
        let is_sound = |span: &Span| {
            let descriptors = space.descriptor_at(span.start);
            memory.locate(span.start, span.len()).is_ok()
                && descriptors.is_some_and(|at| memory.locate(at, span.chunks * WORD).is_ok())
        };
        loop {
            let span = take(&mut self.free)?;
            if is_sound(&span) {
                return Some(span);
            }
            let chunks =
                (0..span.chunks).map(|index| Span { start: span.start.plus(index * CHUNK), chunks: 1 });
            chunks.filter(is_sound).for_each(|chunk| self.free.release(chunk));
        }
    }

    fn release_block(&mut self, block: Block, key: Key) {
        let chunk = block.at.get() / CHUNK;
        // The block's superblock begins in one of the chunks before it.
        let start = (0..key.class.span_chunks())
            .map(|back| PoolOffset::new(chunk.saturating_sub(back) * CHUNK))
            .find(|start| self.known.contains_key(start));
        let Some(known) = start.and_then(|start| self.known.get_mut(&start)) else {
            debug_assert!(false, "a block of a superblock that was never met");
            return;
        };
        known.release(block);
        let (start, count) = (known.span.start, known.free.count);
        if count == 1 && !self.is_evacuated(start) {
            self.partial.entry(key).or_default().push(start);
        }
    }

    /// Returns the offset below which everything has been scanned.
    fn scanned_below(&self, space: &Space) -> u64 {
        let mut below = 0;
        for (extent, scanned) in space.extents().zip(self.scanned.iter().copied().chain(std::iter::repeat(0)))
        {
            below = extent.start.get() + scanned * CHUNK;
            if scanned < extent.len / CHUNK {
                break;
            }
        }
        below
    }

    /// Scans some more chunks. Returns false when all have been scanned.
    fn scan(&mut self, space: &Space, memory: &Memory) -> bool {
        for (index, extent) in space.extents().enumerate() {
            if self.scanned.len() == index {
                self.scanned.push(extent.table_len / CHUNK);
            }
            let chunks = extent.len / CHUNK;
            let first = self.scanned[index];
            if first >= chunks {
                continue;
            }
            let mut next = first;
            while next < chunks.min(first + SCAN_STEP) {
                next += self.scan_span(space, memory, &extent, next);
            }
            self.scanned[index] = next;
            return true;
        }
        false
    }

    /// Scans the span that begins with chunk `chunk`, and returns its length in chunks. Damaged and lost space is handed
    /// out to no thread; `check` reports it.
    fn scan_span(&mut self, space: &Space, memory: &Memory, extent: &Extent, chunk: u64) -> u64 {
        let described = |chunk| memory.try_reading(|memory| space.described_span(memory, extent, chunk));
        let Ok((span, descriptor)) = described(chunk) else {
            // Only its descriptor says how long the span is. The chunks after it may be its rest, whose
            // descriptors are those of free chunks.
            let is_head =
                |chunk: &u64| matches!(described(*chunk), Ok((_, found)) if found != ChunkDescriptor::Free);
            let end = extent.len / CHUNK;
            return (chunk + 1..end).find(is_head).unwrap_or(end) - chunk;
        };
        // Lost bytes of a span that is merely scanned are not a fault of the transaction that wants space.
        if let Ok(kind) = memory.try_reading(|memory| span_kind(memory, span, descriptor)) {
            let _ = memory.reading(|memory| self.register(memory, span, kind));
        }
        span.chunks
    }

    fn register(&mut self, memory: &Readable, span: Span, kind: SpanKind) {
        if self.known.contains_key(&span.start) {
            return;
        }
        match kind {
            SpanKind::Free => self.release_span(span),
            SpanKind::Superblock(shape) => {
                let class = Class::of_block_size(shape.block_size);
                if let (Some(class), Ok(allocated)) = (class, bitmap(memory, span.start, &shape)) {
                    let key = Key { class, type_number: shape.type_number };
                    self.add(span, shape, key, FreeBlocks::of(&shape, &allocated));
                }
            }
            SpanKind::Huge(_) => {}
        }
    }
}
