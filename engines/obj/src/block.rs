//! The blocks of the heap: free and used ones of whole chunks, and runs.

use crate::error::{DamageReason, ObjError, Structure};
use crate::view::ObjView;
use lode_layout::{PmdkChunk, PmdkChunkKind, PmdkHeap, PmdkRun, PmdkZone, PoolOffset, WORD};
use lode_pmem::Medium;

/// A block of chunks: its header is that of its first chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of its zone.
    pub zone: u64,
    /// Index of its first chunk in the zone.
    pub chunk: u32,
    /// The header of its first chunk.
    pub header: PmdkChunk,
}

/// The blocks of a heap, in the order of their offsets.
#[derive(Debug)]
pub struct Blocks<'v, M> {
    view: &'v ObjView<M>,
    zone: u64,
    /// Chunks of the zone, and the next one; `None` before its header is read.
    within: Option<(u32, u32)>,
}

impl<M> ObjView<M> {
    /// Returns the number of zones.
    pub fn zone_count(&self) -> u64 {
        PmdkHeap::zone_count(self.heap_size())
    }

    pub(crate) fn zone_at(&self, zone: u64) -> PoolOffset {
        PoolOffset::new(self.descriptor().heap).plus(PmdkHeap::LEN as u64 + zone * PmdkHeap::ZONE_MAX)
    }

    pub(crate) fn chunk_header_at(&self, zone: u64, chunk: u32) -> PoolOffset {
        self.zone_at(zone).plus(PmdkZone::LEN as u64 + u64::from(chunk) * WORD)
    }

    pub(crate) fn chunk_at(&self, zone: u64, chunk: u32) -> PoolOffset {
        self.zone_at(zone).plus(PmdkHeap::ZONE_HEADERS + u64::from(chunk) * PmdkHeap::CHUNK)
    }

    /// Returns the zone and the chunk of an offset; `None` if it lies in none.
    pub(crate) fn zone_of(&self, at: PoolOffset) -> Option<(u64, u32)> {
        let inside = at.get().checked_sub(self.zone_at(0).get())?;
        let zone = inside / PmdkHeap::ZONE_MAX;
        let chunk = (inside % PmdkHeap::ZONE_MAX).checked_sub(PmdkHeap::ZONE_HEADERS)? / PmdkHeap::CHUNK;
        let chunk = u32::try_from(chunk).ok()?;
        (zone < self.zone_count()).then_some((zone, chunk))
    }
}

impl<M: Medium> ObjView<M> {
    /// Reads the header of a zone. `None` if the zone was never used.
    ///
    /// # Errors
    /// [`ObjError::Damaged`], [`ObjError::Memory`].
    pub fn zone(&self, zone: u64) -> Result<Option<PmdkZone>, ObjError> {
        let at = self.zone_at(zone);
        let chunks_max = PmdkHeap::chunk_count(self.heap_size(), zone);
        PmdkZone::decode(self.word(at)?, chunks_max).map_err(ObjError::damaged(Structure::Zone { zone }, at))
    }

    /// Reads the header of a chunk.
    pub(crate) fn chunk(&self, zone: u64, chunk: u32) -> Result<PmdkChunk, ObjError> {
        let at = self.chunk_header_at(zone, chunk);
        PmdkChunk::decode(self.word(at)?).map_err(ObjError::damaged(Structure::Chunk { zone, chunk }, at))
    }

    /// Reads the block that begins with a chunk of a zone of `chunk_count`.
    pub(crate) fn block(&self, zone: u64, chunk: u32, chunk_count: u32) -> Result<Block, ObjError> {
        let header = self.chunk(zone, chunk)?;
        let at = self.chunk_header_at(zone, chunk);
        let damaged = |reason| ObjError::of(Structure::Chunk { zone, chunk }, at, reason);
        if matches!(header.kind, PmdkChunkKind::Footer | PmdkChunkKind::RunData) {
            return Err(damaged(DamageReason::NoBlock));
        }
        let left = chunk_count.saturating_sub(chunk);
        if header.size == 0 || header.size > left {
            return Err(damaged(DamageReason::ChunkCount { found: header.size, left }));
        }
        Ok(Block { zone, chunk, header })
    }

    /// Returns the blocks, in the order of their offsets. After an error it goes on with the next zone.
    ///
    /// # Cost
    /// A load for each block.
    pub fn blocks(&self) -> Blocks<'_, M> {
        Blocks { view: self, zone: 0, within: None }
    }

    /// Returns the blocks of a zone and of those after it, as [`blocks`](ObjView::blocks) does.
    pub(crate) fn blocks_of(&self, zone: u64) -> Result<Blocks<'_, M>, ObjError> {
        let chunk_count = self.zone(zone)?.map_or(0, |zone| zone.chunk_count);
        Ok(Blocks { view: self, zone, within: Some((chunk_count, 0)) })
    }

    /// Returns a block and those after it, as [`blocks`](ObjView::blocks) does.
    pub(crate) fn blocks_from(&self, block: &Block) -> Result<Blocks<'_, M>, ObjError> {
        let chunk_count = self.zone(block.zone)?.map_or(0, |zone| zone.chunk_count);
        Ok(Blocks { view: self, zone: block.zone, within: Some((chunk_count, block.chunk)) })
    }

    /// Returns the blocks after one, as [`blocks`](ObjView::blocks) does.
    pub(crate) fn blocks_after(&self, block: &Block, chunk_count: u32) -> Blocks<'_, M> {
        let next = block.chunk.saturating_add(block.header.size);
        Blocks { view: self, zone: block.zone, within: Some((chunk_count, next)) }
    }

    /// Returns the places in a run.
    ///
    /// # Errors
    /// [`ObjError::Damaged`], [`ObjError::Memory`].
    pub fn run(&self, block: &Block) -> Result<PmdkRun, ObjError> {
        let Block { zone, chunk, header } = *block;
        let at = self.chunk_at(zone, chunk);
        PmdkRun::decode(self.bytes(at)?, header, at.get())
            .map_err(ObjError::damaged(Structure::Run { zone, chunk }, at))
    }

    /// Returns the offset of a word of a run's bitmap.
    pub(crate) fn bitmap_word_at(&self, block: &Block, index: u64) -> PoolOffset {
        self.chunk_at(block.zone, block.chunk).plus(PmdkRun::LEN as u64 + index * WORD)
    }
}

impl<M: Medium> Iterator for Blocks<'_, M> {
    type Item = Result<Block, ObjError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (zone, chunk_count, chunk) = match self.within {
                _ if self.zone >= self.view.zone_count() => return None,
                Some((chunk_count, chunk)) if chunk < chunk_count => (self.zone, chunk_count, chunk),
                Some(_) => {
                    (self.zone, self.within) = (self.zone + 1, None);
                    continue;
                }
                None => match self.view.zone(self.zone) {
                    Ok(zone) => {
                        self.within = Some((zone.map_or(0, |zone| zone.chunk_count), 0));
                        continue;
                    }
                    Err(error) => {
                        self.within = Some((0, 0));
                        return Some(Err(error));
                    }
                },
            };
            let block = self.view.block(zone, chunk, chunk_count);
            // A block that can't be read hides the place of the next one.
            let next = block.map_or(chunk_count, |block| chunk + block.header.size);
            self.within = Some((chunk_count, next));
            return Some(block);
        }
    }
}
