//! Shrinking a pool that no one else has open.
//!
//! ```text
//!   target:    the least offset below which there is room for all that lies above it
//!   close:     no space from there on is handed out any more
//!   the owner: moves its objects below, by transactions like any other
//!   reclaim:   superblocks without a used block become free chunks, by a record of their own
//!   the log is closed -> the header names the end of the last chunk in use -> the file is cut there
//! ```
//!
//! A crash in between leaves a pool in which some objects lie elsewhere. The next call goes on from there.
//!
//! # Cost
//! A pass over all chunk descriptors and bitmaps before, and another one after.

use crate::alloc::class::Class;
use crate::alloc::space::{Span, SpanKind, bitmap};
use crate::error::HeapError;
use crate::heap::Heap;
use crate::pool::{OpenError, Pool, random_log_epoch};
use lode_layout::{CHUNK, LayoutName, PoolOffset, Superblock};
use lode_pmem::{Mapping, Medium, Readable};
use lode_pool::{OpenOptions, PoolFile};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Chunks that stay free where objects are moved to, and the share of them that does: spans of several chunks find no
/// room in single ones.
const SPARE_CHUNKS: u64 = 4;
const SPARE_SHARE: u64 = 16;

/// The sizes of a pool in bytes before and after it was shrunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The size before.
    pub size_before: u64,
    /// The size now.
    pub size: u64,
}

/// The blocks of one kind, above and below a limit that moves down.
#[derive(Debug, Default)]
struct Blocks {
    used_above: u64,
    free_below: u64,
}

impl Blocks {
    /// Returns the chunks that the used blocks take for which there is no free block below.
    fn chunks(&self, shape: &Superblock) -> u64 {
        let Some(class) = Class::of_block_size(shape.block_size) else { return 0 };
        let chunks = class.span_lengths().last().unwrap_or(1);
        let new = Superblock::plan(chunks * CHUNK, shape.block_size, class.align(), shape.type_number);
        self.used_above.saturating_sub(self.free_below).div_ceil(new.block_count) * chunks
    }
}

/// A span, and the number of used blocks if it is a superblock.
type Filled = (Span, SpanKind, u64);

/// Returns the kind of a span for the plan: a superblock without a used block becomes free chunks when there is no space.
fn planned_kind((_, kind, used): &Filled) -> SpanKind {
    match kind {
        SpanKind::Superblock(_) if *used == 0 => SpanKind::Free,
        kind => *kind,
    }
}

/// Returns the least offset that begins a span, and below which there is room for all that lies from there on. `None` if
/// there is none.
fn target_of(spans: &[Filled]) -> Option<PoolOffset> {
    let mut blocks: HashMap<(u64, u64), Blocks> = HashMap::new();
    let key_of = |shape: &Superblock| (shape.block_size, shape.type_number);
    let mut free_below = 0;
    for filled @ (span, _, used) in spans {
        match planned_kind(filled) {
            SpanKind::Free => free_below += span.chunks,
            SpanKind::Superblock(shape) => {
                blocks.entry(key_of(&shape)).or_default().free_below += shape.block_count - used;
            }
            SpanKind::Huge(_) => {}
        }
    }
    let (mut wanted, mut target) = (0, None);
    for filled @ (span, _, used) in spans.iter().rev() {
        match planned_kind(filled) {
            SpanKind::Free => free_below -= span.chunks,
            SpanKind::Superblock(shape) => {
                let blocks = blocks.entry(key_of(&shape)).or_default();
                wanted -= blocks.chunks(&shape);
                blocks.free_below -= shape.block_count - used;
                blocks.used_above += used;
                wanted += blocks.chunks(&shape);
            }
            SpanKind::Huge(_) => wanted += span.chunks,
        }
        let spare = if wanted == 0 { 0 } else { SPARE_CHUNKS + wanted / SPARE_SHARE };
        if wanted + spare > free_below {
            break;
        }
        target = Some(span.start);
    }
    target
}

impl<M: Medium> Heap<M> {
    /// Prepares the heap for a smaller pool: chooses the least offset below which there is room for all objects, and hands
    /// out no space from there on any more. Returns that offset; `None` if there is no room to move anything. The caller
    /// has made no allocation since it opened the heap, and no other thread uses it.
    ///
    /// # Errors
    /// [`HeapError::ReadOnly`], [`HeapError::Corrupt`], [`HeapError::Fault`].
    ///
    /// # Cost
    /// Reads all chunk descriptors and bitmaps.
    pub fn close_tail(&self) -> Result<Option<PoolOffset>, HeapError> {
        self.check_writable()?;
        let spans = self.memory().try_reading(|memory| self.spans(memory))?;
        let target = target_of(&spans);
        if let Some(target) = target {
            self.shared().close_from(target);
            // Blocks in old superblocks are taken before free chunks only once they have been found.
            self.free_chunks();
        }
        Ok(target)
    }

    /// Makes free chunks of all that was freed, and returns the end of the last chunk in use.
    ///
    /// # Errors
    /// As [`close_tail`](Heap::close_tail), and those of a transaction.
    ///
    /// # Durability
    /// The chunks are free durably.
    pub fn used_end(&self) -> Result<PoolOffset, HeapError> {
        self.check_writable()?;
        self.reclaim_all()?;
        let spans = self.memory().try_reading(|memory| self.spans(memory))?;
        let last = spans.iter().rfind(|(_, kind, _)| *kind != SpanKind::Free);
        Ok(last.map_or(PoolOffset::NULL, |(span, ..)| span.start.plus(span.len())))
    }

    /// Returns all spans, by their offsets.
    fn spans(&self, memory: &Readable) -> Result<Vec<Filled>, HeapError> {
        let mut spans = Vec::new();
        for extent in self.space().extents() {
            let mut chunk = extent.table_len / CHUNK;
            while chunk < extent.len / CHUNK {
                let (span, kind) = self.space().span(memory, &extent, chunk)?;
                let used = match kind {
                    SpanKind::Superblock(shape) => {
                        let words = bitmap(memory, span.start, &shape)?;
                        words.iter().map(|word| u64::from(word.count_ones())).sum()
                    }
                    SpanKind::Free | SpanKind::Huge(_) => 0,
                };
                spans.push((span, kind, used));
                chunk += span.chunks;
            }
        }
        Ok(spans)
    }
}

impl Pool {
    /// Shrinks the pool at `path`, which no one has open, to about what its objects take. `move_below` is called if there
    /// is room to move objects: in a heap of the named layout it moves those that lie at the given offset or above, by
    /// transactions, whose allocations all lie below. It may leave some where they are; the pool then keeps the space up to the last one. If it
    /// fails, the pool is closed with its old size.
    ///
    /// # Errors
    /// [`OpenError`]: those of [`open`](Pool::open), [`PoolFile::shrink`] and of transactions; those of `move_below`. The
    /// pool has its old or its new size then, and all its objects.
    ///
    /// # Durability
    /// The new size is durable on return. A crash before that leaves a pool of the old or the new size. In the file there
    /// may be space after its end, which the next call gives back.
    ///
    /// # Cost
    /// Two passes over all chunk descriptors and bitmaps; that of `move_below`.
    pub fn shrink<E: From<OpenError>>(
        path: &Path,
        options: &OpenOptions,
        move_below: impl FnOnce(&Heap<Arc<Mapping>>, LayoutName, PoolOffset) -> Result<(), E>,
    ) -> Result<Shrunk, E> {
        let file = PoolFile::open(path, options).map_err(OpenError::from)?;
        let header = file.header();
        let epoch = random_log_epoch()?;
        let medium = Arc::clone(file.medium());
        let opened = Heap::open(medium, &header.geometry, header.uuid.into_bytes(), epoch);
        let (heap, _) = opened.map_err(OpenError::heap(path))?;
        let move_below = |heap: &_, limit| move_below(heap, header.layout, limit);
        let end = empty_tail(&heap, move_below, |error| OpenError::heap(path)(error).into());
        // Also after a failure: from here on no writer has the pool open.
        let closed = heap.close().map_err(OpenError::heap(path));
        let end = match (end, closed) {
            (Ok(end), Ok(())) => end,
            (Err(error), _) => {
                let _ = file.close();
                return Err(error);
            }
            (Ok(_), Err(error)) => return Err(error.into()),
        };
        let size = file.shrink(end).map_err(OpenError::from)?;
        Ok(Shrunk { size_before: header.geometry.size(), size })
    }
}

/// Moves what lies in the tail of the pool, and returns the end of what is in use then.
fn empty_tail<M: Medium, E>(
    heap: &Heap<M>,
    move_below: impl FnOnce(&Heap<M>, PoolOffset) -> Result<(), E>,
    heap_error: impl Fn(HeapError) -> E,
) -> Result<PoolOffset, E> {
    if let Some(target) = heap.close_tail().map_err(&heap_error)? {
        move_below(heap, target)?;
    }
    heap.used_end().map_err(heap_error)
}
