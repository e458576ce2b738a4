//! The heap's space on the medium: extents, chunks, and their descriptors and headers.

use super::class::{Class, SPAN_CHUNKS};
use crate::error::HeapError;
use lode_layout::{
    CHECKED_BITS, CHUNK, ChunkDescriptor, Extent, Geometry, Huge, PoolOffset, SPAN_HEADER, SpanHeaderWords,
    Superblock, WORD, unchecked,
};
use lode_pmem::Readable;
use lode_pmem::sync::{AtomicU64, AtomicUsize, Ordering};

const EXTENTS_MAX: usize = 32;

/// A span of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of its first byte.
    pub(crate) start: PoolOffset,
    /// Length in chunks.
    pub(crate) chunks: u64,
}

impl Span {
    pub(crate) fn len(self) -> u64 {
        self.chunks * CHUNK
    }
}

/// A block of a superblock: its place, and its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) at: PoolOffset,
    /// Offset of its bitmap word.
    pub(crate) word: PoolOffset,
    /// Number of its bit in that word. As wide as the other fields: a copy of a block then loads whole words as they were stored,
    /// and no such load waits for the stores before it, which the CPU can't forward to a load of padding.
    pub(crate) bit: u64,
}

impl Block {
    /// Returns block number `index` of the superblock `shape` that begins at `span`.
    pub(crate) fn of(span: PoolOffset, shape: &Superblock, index: u64) -> Block {
        Block {
            at: span.plus(shape.data_off + index * shape.block_size),
            word: span.plus(SPAN_HEADER + index / u64::from(CHECKED_BITS) * WORD),
            bit: index % u64::from(CHECKED_BITS),
        }
    }

    /// Returns the word in which only the block's bit is set.
    #[inline]
    pub(crate) fn mask(self) -> u64 {
        1 << self.bit
    }
}

/// A block or huge object at an offset, as the medium describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundObject {
    Block { block: Block, span: PoolOffset, class: Class, shape: Superblock },
    Huge { span: Span, object: Huge },
}

/// A block or huge object, and the words of the medium that describe it. As long as they are the same, so is the object: spans are
/// disjoint, so no other span holds its first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) at: PoolOffset,
    /// The descriptor of the span's first chunk, and its offset.
    descriptor: (PoolOffset, u64),
    /// The first words of the span's header, checksum included, and their offset.
    header: (PoolOffset, [u64; 4]),
    pub(crate) found: FoundObject,
}

impl Described {
    /// Returns true if the words are still the same.
    #[inline]
    pub(crate) fn holds(&self, words: &impl LoadWords) -> bool {
        let ((descriptor_at, descriptor), (header_at, header)) = (self.descriptor, self.header);
        words.load8(descriptor_at) == descriptor && words_from(words, header_at) == header
    }
}

/// The content of a span, as the medium describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Free,
    Superblock(Superblock),
    Huge(Huge),
}

/// The words of a pool: those in memory, or with changes laid over them.
pub(crate) trait LoadWords {
    /// Returns the aligned word at `at`.
    fn load8(&self, at: PoolOffset) -> u64;
}

impl LoadWords for Readable {
    #[inline]
    fn load8(&self, at: PoolOffset) -> u64 {
        Readable::load8(self, at)
    }
}

/// The extents of a pool. They only grow.
#[derive(Debug)]
pub(crate) struct Space {
    start: PoolOffset,
    /// End of the last extent.
    end: AtomicU64,
    /// Start and end of the log, which may lie between two extents.
    log: [AtomicU64; 2],
    extents: [[AtomicU64; 3]; EXTENTS_MAX],
    count: AtomicUsize,
}

impl Space {
    pub(crate) fn new(geometry: &Geometry) -> Space {
        let start = geometry.extents().first().map_or(PoolOffset::NULL, |extent| extent.start);
        let (end, count, log) = (AtomicU64::new(0), AtomicUsize::new(0), Default::default());
        let space = Space { start, end, log, extents: Default::default(), count };
        space.extend(geometry);
        space
    }

    /// Adds the space by which the pool has grown. An older geometry changes nothing: each word only grows.
    pub(crate) fn extend(&self, geometry: &Geometry) {
        for (place, extent) in self.extents.iter().zip(geometry.extents()) {
            for (word, value) in place.iter().zip([extent.start.get(), extent.len, extent.table_len]) {
                // ORDER: none: the count below releases a new extent; a longer one is used once this has returned.
                word.fetch_max(value, Ordering::Relaxed);
            }
        }
        let log_off = geometry.log_off().get();
        for (place, value) in self.log.iter().zip([log_off, log_off + geometry.log_len()]) {
            // ORDER: none: a log moves up. Until both words are new, neither area of the log is guarded: the old one
            // has no needed record, and the new one lies after the end that is known below.
            place.fetch_max(value, Ordering::Relaxed);
        }
        let end = geometry.extents().last().map_or(0, |extent| extent.end().get());
        // ORDER: none: a store to the new space follows an allocation there, which acquires the extents.
        self.end.fetch_max(end, Ordering::Relaxed);
        // ORDER: releases the extents' words.
        self.count.fetch_max(geometry.extents().len(), Ordering::Release);
    }

    pub(crate) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        // ORDER: acquires the extents' words.
        let count = self.count.load(Ordering::Acquire);
        self.extents[..count].iter().map(|words| {
            // ORDER: none, see `extend`.
            let [start, len, table_len] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
            Extent { start: PoolOffset::new(start), len, table_len }
        })
    }

    /// Returns the number of chunks of all extents, those of their tables included.
    pub(crate) fn chunks(&self) -> u64 {
        self.extents().map(|extent| extent.len / CHUNK).sum()
    }

    fn extent_of(&self, at: PoolOffset) -> Option<Extent> {
        self.extents().find(|extent| extent.start <= at && at < extent.end())
    }

    /// Returns the extent of the chunk that holds `at`, and the chunk's number in the extent.
    pub(crate) fn chunk_of(&self, at: PoolOffset) -> Option<(Extent, u64)> {
        let extent = self.extent_of(at)?;
        Some((extent, (at.get() - extent.start.get()) / CHUNK))
    }

    /// Returns the offset of the descriptor of the chunk at `at`.
    pub(crate) fn descriptor_at(&self, at: PoolOffset) -> Option<PoolOffset> {
        let (extent, chunk) = self.chunk_of(at)?;
        Some(extent.start.plus(chunk * WORD))
    }

    /// Returns the offset of the word that holds the root.
    pub(crate) fn root_at(&self) -> PoolOffset {
        self.start
    }

    /// Returns true if the range lies inside of the heap: its tables and the space that it hands out, and not in the log.
    #[inline]
    pub(crate) fn holds(&self, at: PoolOffset, len: u64) -> bool {
        // ORDER: none, see `extend`.
        let end = self.end.load(Ordering::Relaxed);
        // ORDER: none, see `extend`.
        let [log_off, log_end] = self.log.each_ref().map(|place| place.load(Ordering::Relaxed));
        at >= self.start
            && len <= end
            && at.get() <= end - len
            && (at.get() >= log_end || at.get() + len <= log_off)
    }

    /// Returns the block or huge object that begins at `at`. Does not look at the block's bit, so the block may be
    /// free.
    #[inline]
    pub(crate) fn find(&self, words: &impl LoadWords, at: PoolOffset) -> Result<FoundObject, HeapError> {
        self.describe(words, at).map(|described| described.found)
    }

    /// Returns what [`find`](Space::find) returns, with the words that say so.
    #[inline]
    pub(crate) fn describe(&self, words: &impl LoadWords, at: PoolOffset) -> Result<Described, HeapError> {
        let none = || HeapError::NoObject { at };
        let extent = self.extent_of(at).ok_or_else(none)?;
        let chunk = (at.get() - extent.start.get()) / CHUNK;
        let (head, word) = span_head(words, &extent, chunk)?.ok_or_else(none)?;
        let start = extent.start.plus(head * CHUNK);
        let descriptor = (extent.start.plus(head * WORD), word);
        let header = words_from(words, start);
        let found = match ChunkDescriptor::decode(word) {
            Some(ChunkDescriptor::Superblock { chunks }) => {
                let (block, class, shape) = block_at(header, start, chunks, at).ok_or_else(none)?;
                FoundObject::Block { block, span: start, class, shape }
            }
            Some(ChunkDescriptor::Huge { chunks }) => {
                let span = Span { start, chunks };
                let [a, b, c, d] = header;
                let [e, f, g, h] = words_from(words, start.plus(4 * WORD));
                let object = decode_huge(&[a, b, c, d, e, f, g, h], span)?;
                if start.plus(object.data_off) != at {
                    return Err(none());
                }
                FoundObject::Huge { span, object }
            }
            Some(ChunkDescriptor::Free) | None => return Err(none()),
        };
        Ok(Described { at, descriptor, header: (start, header), found })
    }

    /// Returns the span that begins with chunk `chunk` of `extent`, and its content.
    pub(crate) fn span(
        &self,
        memory: &Readable,
        extent: &Extent,
        chunk: u64,
    ) -> Result<(Span, SpanKind), HeapError> {
        let (span, descriptor) = self.described_span(memory, extent, chunk)?;
        Ok((span, span_kind(memory, span, descriptor)?))
    }

    /// Returns the span that begins with chunk `chunk` of `extent`, and the descriptor of that chunk. Does not read the
    /// span itself.
    pub(crate) fn described_span(
        &self,
        memory: &Readable,
        extent: &Extent,
        chunk: u64,
    ) -> Result<(Span, ChunkDescriptor), HeapError> {
        let at = extent.start.plus(chunk * WORD);
        let damaged = || HeapError::Corrupt { what: "the chunk descriptor", at };
        let descriptor = ChunkDescriptor::decode(memory.load8(at)).ok_or_else(damaged)?;
        let span = Span { start: extent.start.plus(chunk * CHUNK), chunks: descriptor.chunks() };
        if span.chunks > extent.len / CHUNK - chunk {
            return Err(damaged());
        }
        Ok((span, descriptor))
    }
}

/// Returns the content of a span whose first chunk has that descriptor.
pub(crate) fn span_kind(
    memory: &Readable,
    span: Span,
    descriptor: ChunkDescriptor,
) -> Result<SpanKind, HeapError> {
    Ok(match descriptor {
        ChunkDescriptor::Free => SpanKind::Free,
        ChunkDescriptor::Superblock { .. } => SpanKind::Superblock(read_superblock(memory, span)?),
        ChunkDescriptor::Huge { .. } => SpanKind::Huge(read_huge(memory, span)?),
    })
}

/// Returns the first chunk of the span that `chunk` is part of, and its descriptor's word; `None` for a free chunk. A span begins at
/// the chunk itself, or at one aligned to a superblock's length.
fn span_head(words: &impl LoadWords, extent: &Extent, chunk: u64) -> Result<Option<(u64, u64)>, HeapError> {
    for step in [1, SPAN_CHUNKS[1], SPAN_CHUNKS[0]] {
        let head = lode_layout::align_down(chunk, step);
        if head < extent.table_len / CHUNK {
            // The table's own words are no descriptors; the first of them holds the root.
            break;
        }
        let at = extent.start.plus(head * WORD);
        let word = words.load8(at);
        match ChunkDescriptor::decode(word) {
            None => return Err(HeapError::Corrupt { what: "the chunk descriptor", at }),
            Some(ChunkDescriptor::Free) => {}
            Some(found) if found.chunks() > chunk - head => return Ok(Some((head, word))),
            Some(_) => break,
        }
    }
    Ok(None)
}

/// Returns the block that begins at exactly `at`, in a superblock whose header begins with these words. Does not look at the header's
/// checksum: the offset proves the shape, and `check` proves the header.
#[inline]
fn block_at(
    [_, shape, data_off, type_number]: [u64; 4],
    span: PoolOffset,
    chunks: u64,
    at: PoolOffset,
) -> Option<(Block, Class, Superblock)> {
    let (block_size, block_count) = (shape & u64::from(u32::MAX), shape >> 32);
    let superblock = Superblock { block_size, block_count, data_off, type_number };
    let class = Class::of_block_size(block_size)?;
    let into = at.get().checked_sub(span.get())?.checked_sub(superblock.data_off)?;
    let index = into as u32 / block_size as u32;
    let exact = u64::from(index) * block_size == into && u64::from(index) < block_count;
    let block = Block::of(span, &superblock, u64::from(index));
    (exact && into < chunks * CHUNK).then_some((block, class, superblock))
}

/// Returns the words from `at` on.
#[inline]
fn words_from<const N: usize>(words: &impl LoadWords, at: PoolOffset) -> [u64; N] {
    let mut loaded = [0; N];
    for (index, word) in (0..).zip(&mut loaded) {
        *word = words.load8(at.plus(index * WORD));
    }
    loaded
}

fn read_superblock(memory: &Readable, span: Span) -> Result<Superblock, HeapError> {
    let damaged = HeapError::Corrupt { what: "the superblock header", at: span.start };
    Superblock::decode(&words_from(memory, span.start), span.start.get(), span.len()).ok_or(damaged)
}

fn read_huge(memory: &Readable, span: Span) -> Result<Huge, HeapError> {
    decode_huge(&words_from(memory, span.start), span)
}

fn decode_huge(header: &SpanHeaderWords, span: Span) -> Result<Huge, HeapError> {
    let damaged = HeapError::Corrupt { what: "the header of the object", at: span.start };
    Huge::decode(header, span.start.get(), span.len()).ok_or(damaged)
}

/// Returns the words of a superblock's bitmap, in which the bits of allocated blocks are set.
pub(crate) fn bitmap(memory: &Readable, span: PoolOffset, shape: &Superblock) -> Result<Vec<u64>, HeapError> {
    (0..shape.bitmap_words())
        .map(|index| {
            let at = span.plus(SPAN_HEADER + index * WORD);
            unchecked(memory.load8(at)).ok_or(HeapError::Corrupt { what: "the allocation bitmap", at })
        })
        .collect()
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;

    /// Two threads that grow a pool tell the heap in any order.
    #[test]
    fn older_geometry_is_ignored() {
        let small = Geometry::plan(1 << 20).expect("a geometry");
        let sizes = [2 << 20, 8 << 20, 300 << 20, 4 << 30];
        let steps: Vec<Geometry> = sizes
            .iter()
            .scan(small, |last, size| {
                *last = last.grow(*size).expect("a geometry");
                Some(*last)
            })
            .collect();
        let newest = steps.last().expect("some");
        assert!(newest.extents().len() > 1);
        for first in &steps {
            let space = Space::new(&small);
            space.extend(newest);
            space.extend(first);
            space.extend(&small);
            assert_eq!(space.extents().collect::<Vec<_>>(), newest.extents());
            let last = PoolOffset::new(newest.size() - WORD);
            assert!(space.holds(last, WORD) && !space.holds(last, WORD + 1));
        }
    }

    /// A store to the log would tear its records, also when the log lies between two extents.
    #[test]
    fn log_is_no_space() {
        let small = Geometry::plan(1 << 20).expect("a geometry");
        let grown = small.grow_with_log(4 << 20).expect("a geometry");
        let space = Space::new(&small);
        space.extend(&grown);
        space.extend(&small);
        let (log, end) = (grown.log_off(), grown.log_off().plus(grown.log_len()));
        let before = PoolOffset::new(log.get() - WORD);
        assert!(space.holds(before, WORD) && space.holds(end, WORD));
        assert!(!space.holds(before, WORD + 1) && !space.holds(log, WORD));
        assert!(!space.holds(PoolOffset::new(end.get() - WORD), WORD));
        assert!(!space.holds(before, grown.log_len() + 2 * WORD));
    }
}
