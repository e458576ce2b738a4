//! Chunks that the log takes while the pool is open, in pools where the place of the lanes is short for it.
//!
//! They are a free block of their own, so that the headers of chunks are sound at any moment: the last chunks of a free block become
//! one before the log begins, and belong to it again after the log is closed. When the heap is full but for these chunks, the log
//! moves to the place of the lanes, and the block is as any other.
//!
//! | stops after | headers |
//! |---|---|
//! | the header and the footer of the second block | one free block: these are no headers of blocks yet |
//! | the header of the first block | two free blocks; its footer is written by the next recovery |
//! | the header of the zone, of one that was never used | the same |
//! | the header of the joined block | one free block; its footer is written by the next recovery |

use crate::block::Block;
use crate::error::ObjError;
use crate::view::ObjView;
use crate::words::store_words;
use lode_layout::{BLOCK, PmdkChunk, PmdkChunkKind, PmdkHeap, PmdkZone, PoolOffset, align_up};
use lode_pmem::Medium;
use lode_redo::LogArea;

/// Divisor of the free chunks that gives the log's.
const SHARE: u64 = 16;
/// Least chunks of the log: fewer are no longer than the lanes' place by much.
const COUNT_MIN: u64 = 24;
/// Most chunks of the log: 64 MiB.
const COUNT_MAX: u64 = 256;

/// A free block that the log takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogSpace {
    pub(super) zone: u64,
    pub(super) chunk: u32,
    pub(super) count: u32,
}

impl LogSpace {
    /// Finds space for the log of a recovered pool, and makes it a free block of its own. `None` if the pool has too little.
    ///
    /// # Errors
    /// [`ObjError::Damaged`], [`ObjError::Memory`], [`ObjError::InDoubt`].
    ///
    /// # Durability
    /// Durable on return.
    pub(super) fn take<M: Medium>(view: &ObjView<M>) -> Result<Option<LogSpace>, ObjError> {
        let free = free_blocks(view)?;
        let total: u64 = free.iter().map(|block| u64::from(block.header.size)).sum();
        let count = (total / SHARE).min(COUNT_MAX);
        let Some(block) = free.iter().rev().find(|block| u64::from(block.header.size) > count) else {
            return Ok(None);
        };
        if count < COUNT_MIN {
            return Ok(None);
        }
        let count = count as u32;
        let space = LogSpace { zone: block.zone, chunk: block.chunk + block.header.size - count, count };
        space.split(view, block)?;
        Ok(Some(space))
    }

    /// Returns the space of a log at that place. `None` if the log lies in the place of the lanes.
    ///
    /// # Errors
    /// [`ObjError::Damaged`] if the place is no free block.
    pub(super) fn at<M: Medium>(view: &ObjView<M>, area: LogArea) -> Result<Option<LogSpace>, ObjError> {
        let Some((zone, chunk)) = view.zone_of(area.start) else { return Ok(None) };
        let chunk_count = view.zone(zone)?.map_or(0, |zone| zone.chunk_count);
        let block = view.block(zone, chunk, chunk_count)?;
        let space = LogSpace { zone, chunk, count: block.header.size };
        if block.header.kind == PmdkChunkKind::Free && space.area(view) == area {
            return Ok(Some(space));
        }
        let reason = crate::DamageReason::NoBlock;
        Err(ObjError::of(crate::Structure::Chunk { zone, chunk }, area.start, reason))
    }

    /// Returns the place of the log.
    pub(super) fn area<M: Medium>(&self, view: &ObjView<M>) -> LogArea {
        let start = view.chunk_at(self.zone, self.chunk);
        let end = start.plus(u64::from(self.count) * PmdkHeap::CHUNK);
        let start = PoolOffset::new(align_up(start.get(), BLOCK));
        LogArea { start, len: (end.get() - start.get()) / BLOCK * BLOCK }
    }

    /// Makes the last chunks of a free block one of their own. A zone that was never used gets its header.
    fn split<M: Medium>(&self, view: &ObjView<M>, block: &Block) -> Result<(), ObjError> {
        let first = PmdkChunk { size: block.header.size - self.count, ..block.header };
        store_block(view, self.zone, self.chunk, PmdkChunk { size: self.count, ..block.header })?;
        if view.zone(self.zone)?.is_none() {
            store_block(view, self.zone, block.chunk, first)?;
        }
        // ORDER: the headers of the second block before those that make it one. Stop here: row 1 of the table.
        view.medium().drain()?;
        if view.zone(self.zone)?.is_none() {
            let at = view.zone_at(self.zone);
            store_words(view.medium(), [(at, PmdkZone { chunk_count: block.header.size }.encode())])?;
        } else {
            store_block(view, self.zone, block.chunk, first)?;
        }
        // ORDER: two blocks before the log begins in one of them. Stop here: row 2 or 3.
        Ok(view.medium().drain()?)
    }

    /// Joins the block with the free one before it. The log is closed.
    ///
    /// # Errors
    /// As [`take`](LogSpace::take).
    ///
    /// # Durability
    /// Durable on return.
    pub(super) fn join<M: Medium>(&self, view: &ObjView<M>) -> Result<(), ObjError> {
        let before = view.blocks().filter_map(Result::ok).find(|block| {
            (block.zone, block.chunk + block.header.size) == (self.zone, self.chunk)
                && block.header.kind == PmdkChunkKind::Free
        });
        if let Some(block) = before {
            let header = PmdkChunk { size: block.header.size + self.count, ..block.header };
            store_block(view, self.zone, block.chunk, header)?;
        }
        // ORDER: the block before the pool counts as closed. Stop here: two blocks or one.
        Ok(view.medium().drain()?)
    }
}

/// Returns the free blocks, in the order of their offsets. A zone that was never used is one.
fn free_blocks<M: Medium>(view: &ObjView<M>) -> Result<Vec<Block>, ObjError> {
    let mut free = Vec::new();
    for block in view.blocks() {
        let block = block?;
        if block.header.kind == PmdkChunkKind::Free {
            free.push(block);
        }
    }
    for zone in 0..view.zone_count() {
        if view.zone(zone)?.is_none() {
            let size = PmdkHeap::chunk_count(view.heap_size(), zone);
            let header = PmdkChunk { kind: PmdkChunkKind::Free, flags: 0, size };
            free.push(Block { zone, chunk: 0, header });
        }
    }
    free.sort_by_key(|block| (block.zone, block.chunk));
    Ok(free)
}

/// Stores the header and the footer of a block.
fn store_block<M: Medium>(
    view: &ObjView<M>,
    zone: u64,
    chunk: u32,
    header: PmdkChunk,
) -> Result<(), ObjError> {
    let last = chunk + header.size - 1;
    let footer = PmdkChunk { kind: PmdkChunkKind::Footer, ..header };
    let headers = [(last, footer), (chunk, header)];
    let words = headers.map(|(chunk, header)| (view.chunk_header_at(zone, chunk), header.encode()));
    store_words(view.medium(), words)
}
