//! Shrinking a closed pool.
//!
//! ```text
//!   pass:      the heap is opened, and chooses what to evacuate, see `alloc/evacuation.rs`
//!              the owner moves the objects that lie there, by transactions like any other
//!              superblocks without a used block become free chunks, by a record of their own
//!              the log is closed; the next pass, until there is too little to gain
//!   cut:       the header names the end of the last chunk in use -> the file is cut there
//! ```
//!
//! A crash in between leaves a pool in which some objects lie elsewhere. The next call goes on from there.

use crate::alloc::evacuation::{Evacuation, Filled, used_chunks, used_end};
use crate::alloc::space::{SpanKind, bitmap};
use crate::error::HeapError;
use crate::heap::Heap;
use crate::pool::{OpenError, Pool, random_log_epoch};
use lode_layout::{CHUNK, Header, LayoutName, PoolOffset};
use lode_pmem::{Mapping, Medium, Readable};
use lode_pool::{OpenOptions, PoolFile, check_heap};
use std::path::Path;
use std::sync::Arc;

/// Maximum number of passes of a shrink. A pass that finds too little to gain ends it earlier.
const PASSES_MAX: usize = 12;
/// Chunks that stay free after a pass that moved less than planned, and the factor by which they become more.
const SPARE_MIN: u64 = 4;
const SPARE_FACTOR: u64 = 4;

/// The sizes of a pool in bytes before and after it was shrunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The size before.
    pub size_before: u64,
    /// The size now.
    pub size: u64,
}

impl<M: Medium> Heap<M> {
    /// Begins a pass of a shrink: chooses spans whose objects are to move, so that `spare` chunks stay free, and hands out no
    /// space of them any more. Returns false if there is too little to gain. The caller has made no allocation since it
    /// opened the heap, and no other thread uses it.
    ///
    /// # Errors
    /// [`HeapError::ReadOnly`], [`HeapError::Corrupt`], [`HeapError::Fault`].
    ///
    /// # Cost
    /// Reads all chunk descriptors and bitmaps.
    fn evacuate(&self, spare: u64) -> Result<bool, HeapError> {
        self.check_writable()?;
        let spans = self.memory().try_reading(|memory| self.spans(memory))?;
        let Some(evacuation) = Evacuation::plan(&spans, spare) else { return Ok(false) };
        self.shared().evacuate(evacuation);
        // Blocks in old superblocks are taken before free chunks only once they have been found.
        self.allocator(&self.session()).free_chunks();
        Ok(true)
    }

    /// Returns true if an object at `at` is to move in this pass of a shrink.
    pub fn is_evacuated(&self, at: PoolOffset) -> bool {
        self.shared().is_evacuated(at)
    }

    /// Ends a pass of a shrink: makes free chunks of all that was freed. Returns the end of the last chunk in use, and the
    /// number of chunks in use.
    ///
    /// # Errors
    /// As [`evacuate`](Heap::evacuate), and those of a transaction.
    ///
    /// # Durability
    /// The chunks are free durably.
    ///
    /// # Cost
    /// As [`evacuate`](Heap::evacuate), and a record for the superblocks that are free.
    fn used(&self) -> Result<(PoolOffset, u64), HeapError> {
        self.check_writable()?;
        self.reclaim_all()?;
        let spans = self.memory().try_reading(|memory| self.spans(memory))?;
        Ok((used_end(&spans), used_chunks(&spans)))
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
                spans.push(Filled { span, kind, used });
                chunk += span.chunks;
            }
        }
        Ok(spans)
    }
}

impl Pool {
    /// Shrinks the closed pool at `path` to about what its objects take. `mover` is called once, with the
    /// name of the layout. The function that it returns is called in each pass: it moves the objects that are
    /// [evacuated](Heap::is_evacuated), by transactions. It may leave some where they are; the pool then keeps the space up
    /// to the last one. If it fails, the pool is closed with its old size.
    ///
    /// # Errors
    /// [`OpenError`]: those of [`open`](Pool::open), [`PoolFile::shrink`] and of transactions; those of `mover`. The pool has
    /// its old or its new size then, and all its objects.
    ///
    /// # Durability
    /// The new size is durable on return. A crash before that leaves a pool of the old or the new size. In the file there
    /// may be space after its end, which the next call gives back.
    ///
    /// # Cost
    /// For each of at most 12 passes an opening, two readings of all chunk descriptors and bitmaps, and the
    /// mover.
    pub fn shrink<E: From<OpenError>, F: Fn(&Heap<Arc<Mapping>>) -> Result<(), E>>(
        path: &Path,
        options: &OpenOptions,
        mover: impl FnOnce(LayoutName) -> Result<F, E>,
    ) -> Result<Shrunk, E> {
        let file = PoolFile::open(path, options).map_err(OpenError::from)?;
        let size_before = file.header().geometry.size();
        let Header { geometry, uuid, layout, .. } = file.header();
        check_heap(&layout).map_err(|error| OpenError::from(error.at(path)))?;
        let heap_error = |error| OpenError::heap(path)(error).into();
        let open = |medium| {
            let opened = Heap::open(medium, &geometry, uuid.into_bytes(), random_log_epoch()?);
            opened.map(|(heap, _)| heap).map_err(heap_error)
        };
        let checked = file.check_can_shrink().map_err(|error| OpenError::from(error).into());
        let end = checked
            .and_then(|()| mover(layout))
            .and_then(|mover| empty_tail(|| open(Arc::clone(file.medium())), mover, heap_error));
        // From here on no writer has the pool open.
        match end {
            Ok(end) => Ok(Shrunk { size_before, size: file.shrink(end).map_err(OpenError::from)? }),
            Err(error) => {
                let _ = file.close();
                Err(error)
            }
        }
    }
}

/// Moves objects in as many passes as it takes, each with a heap that `open` returns. Returns the end of what is in use
/// then, and leaves the log closed.
pub(crate) fn empty_tail<M: Medium, E>(
    mut open: impl FnMut() -> Result<Heap<M>, E>,
    mover: impl Fn(&Heap<M>) -> Result<(), E>,
    heap_error: impl Fn(HeapError) -> E,
) -> Result<PoolOffset, E> {
    let (mut end, mut used, mut spare) = (PoolOffset::NULL, u64::MAX, 0);
    for pass in 0..PASSES_MAX {
        let heap = open()?;
        let is_useful = heap.evacuate(spare).map_err(&heap_error);
        let passed = is_useful.and_then(|is_useful| {
            if is_useful {
                mover(&heap)?;
            }
            let after = heap.used().map_err(&heap_error)?;
            if pass > 0 && after.0 >= end && after.1 >= used {
                spare = (spare * SPARE_FACTOR).max(SPARE_MIN);
            }
            (end, used) = after;
            Ok(is_useful)
        });
        // ORDER: all moves are written back, and the log is closed, before the header names less space or another log. Stop
        // here: recovery replays the moves.
        let closed = heap.close().map_err(&heap_error);
        let is_useful = passed?;
        closed?;
        if !is_useful {
            break;
        }
    }
    Ok(end)
}
