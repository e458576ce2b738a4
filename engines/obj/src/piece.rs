//! The pieces of a pool: each byte belongs to one.

use crate::block::Block;
use crate::error::ObjError;
use crate::object::Object;
use crate::view::ObjView;
use lode_layout::{
    PmdkChunkKind, PmdkHeap, PmdkObj, PmdkObjState, PmdkRun, PmdkUlog, PmdkZone, PoolOffset, WORD,
};
use lode_pmem::Medium;
use std::ops::Range;

/// Bits of a word of a bitmap.
const BITS: u64 = 64;

/// A piece of a pool: its first byte in the pool, its length, and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of its first byte in the pool.
    pub at: PoolOffset,
    /// Its length in bytes.
    pub len: u64,
    /// Its use.
    pub kind: PieceKind,
}

/// The use of a piece of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// The header of the pool.
    Header,
    /// The descriptor.
    Descriptor,
    /// The state: root, run, sizes.
    State,
    /// A lane, by its index.
    Lane(u64),
    /// The header of the heap.
    HeapHeader,
    /// The header of a zone, by its index.
    ZoneHeader(u64),
    /// The headers of chunks of a zone.
    ChunkHeaders {
        /// Index of the zone.
        zone: u64,
        /// Indices of the chunks.
        chunks: Range<u64>,
    },
    /// The header and the bitmap of a run, up to its first block.
    RunHeader(Block),
    /// An object, with its header.
    Object(Object),
    /// Free blocks of a run, as far as the range reaches: the first one, and their number.
    FreeUnits(Block, u64, u64),
    /// Free chunks.
    FreeChunks(Block),
    /// No structure has it: padding, a zone that was never used, or bytes after the heap.
    Unused,
}

/// The pieces that overlap a range, and the damage that hides some.
struct Pieces<'r> {
    range: &'r Range<u64>,
    found: Vec<Result<Piece, ObjError>>,
}

impl Pieces<'_> {
    fn overlap(&self, at: PoolOffset, len: u64) -> bool {
        at.get() < self.range.end && self.range.start < at.get().saturating_add(len)
    }

    fn add(&mut self, at: PoolOffset, len: u64, kind: PieceKind) {
        if len > 0 && self.overlap(at, len) {
            self.found.push(Ok(Piece { at, len, kind }));
        }
    }
}

impl<M: Medium> ObjView<M> {
    /// Returns the pieces that overlap a range of the pool, in the order of their offsets. An error stands for what damage hides: a
    /// zone, a block of chunks and those after it in its zone, a run, or an object.
    ///
    /// # Cost
    /// A load for each block of chunks of the zones before and in the range, and one for each object in it.
    pub fn pieces_in(&self, range: &Range<u64>) -> Vec<Result<Piece, ObjError>> {
        let mut pieces = Pieces { range, found: Vec::new() };
        let PmdkObj { lanes, lane_count, heap, .. } = *self.descriptor();
        let state_end = PmdkObjState::OFF.get() + PmdkObjState::LEN as u64;
        pieces.add(PoolOffset::NULL, PmdkObj::OFF, PieceKind::Header);
        pieces.add(PoolOffset::new(PmdkObj::OFF), PmdkObj::LEN as u64, PieceKind::Descriptor);
        pieces.add(PmdkObjState::OFF, PmdkObjState::LEN as u64, PieceKind::State);
        let unused = |from: u64, end: u64| (PoolOffset::new(from), end.saturating_sub(from));
        let (at, len) = unused(state_end, lanes);
        pieces.add(at, len, PieceKind::Unused);
        let first = range.start.saturating_sub(lanes) / PmdkUlog::LANE_LEN;
        let end = range.end.saturating_sub(lanes).div_ceil(PmdkUlog::LANE_LEN).min(lane_count);
        for lane in first..end {
            let at = PoolOffset::new(lanes + lane * PmdkUlog::LANE_LEN);
            pieces.add(at, PmdkUlog::LANE_LEN, PieceKind::Lane(lane));
        }
        let (at, len) = unused(lanes + lane_count * PmdkUlog::LANE_LEN, heap);
        pieces.add(at, len, PieceKind::Unused);
        pieces.add(PoolOffset::new(heap), PmdkHeap::LEN as u64, PieceKind::HeapHeader);
        for zone in 0..self.zone_count() {
            let at = self.zone_at(zone);
            let len = PmdkHeap::ZONE_MAX.min(self.heap_end().saturating_sub(at.get()));
            if pieces.overlap(at, len) {
                self.zone_pieces(zone, at.get() + len, &mut pieces);
            }
        }
        // A heap ends with a zone, or with bytes too few for one.
        let zones_end = self.zone_at(self.zone_count()).get().min(self.heap_end());
        let (at, len) = unused(zones_end, self.medium().memory().len());
        pieces.add(at, len, PieceKind::Unused);
        pieces.found
    }

    fn zone_pieces(&self, zone: u64, end: u64, pieces: &mut Pieces<'_>) {
        let at = self.zone_at(zone);
        let chunk_count = match self.zone(zone) {
            Ok(Some(zone)) => zone.chunk_count,
            Ok(None) => return pieces.add(at, end - at.get(), PieceKind::Unused),
            Err(error) => return pieces.found.push(Err(error)),
        };
        pieces.add(at, PmdkZone::LEN as u64, PieceKind::ZoneHeader(zone));
        let headers = self.chunk_header_at(zone, 0);
        let index = |off: u64| off.saturating_sub(headers.get()).min(u64::from(chunk_count) * WORD);
        let chunks = index(pieces.range.start) / WORD..index(pieces.range.end).div_ceil(WORD);
        let len = (chunks.end - chunks.start) * WORD;
        pieces.add(headers.plus(chunks.start * WORD), len, PieceKind::ChunkHeaders { zone, chunks });
        let (headers_end, first) = (self.chunk_header_at(zone, chunk_count), self.chunk_at(zone, 0));
        pieces.add(headers_end, first.get().saturating_sub(headers_end.get()), PieceKind::Unused);
        let blocks = match self.blocks_of(zone) {
            Ok(blocks) => blocks,
            Err(error) => return pieces.found.push(Err(error)),
        };
        for block in blocks {
            match block {
                Ok(block) if block.zone != zone => break,
                Ok(block) => {
                    self.block_pieces(&block, pieces);
                    // What lies after the range, or in the next zone, hides nothing of it.
                    let next = u64::from(block.chunk) + u64::from(block.header.size);
                    let end = first.get() + next * PmdkHeap::CHUNK;
                    if next >= u64::from(chunk_count) || end >= pieces.range.end {
                        break;
                    }
                }
                // Damage hides the rest of the zone.
                Err(error) => return pieces.found.push(Err(error)),
            }
        }
        let chunks_end = self.chunk_at(zone, chunk_count);
        pieces.add(chunks_end, end.saturating_sub(chunks_end.get()), PieceKind::Unused);
    }

    fn block_pieces(&self, block: &Block, pieces: &mut Pieces<'_>) {
        let at = self.chunk_at(block.zone, block.chunk);
        let len = u64::from(block.header.size) * PmdkHeap::CHUNK;
        if !pieces.overlap(at, len) {
            return;
        }
        match block.header.kind {
            PmdkChunkKind::Free => pieces.add(at, len, PieceKind::FreeChunks(*block)),
            PmdkChunkKind::Used => match self.huge_object(block) {
                Ok(object) => pieces.add(at, len, PieceKind::Object(object)),
                Err(error) => pieces.found.push(Err(error)),
            },
            PmdkChunkKind::Run => match self.run(block) {
                Ok(run) => self.run_pieces(block, &run, len, pieces),
                Err(error) => pieces.found.push(Err(error)),
            },
            _ => pieces.add(at, len, PieceKind::Unused),
        }
    }

    fn run_pieces(&self, block: &Block, run: &PmdkRun, len: u64, pieces: &mut Pieces<'_>) {
        let at = self.chunk_at(block.zone, block.chunk);
        pieces.add(at, run.blocks_off, PieceKind::RunHeader(*block));
        let blocks = at.plus(run.blocks_off);
        let last = run.usable_count();
        let index = |off: u64| off.saturating_sub(blocks.get()) / run.block_size;
        // The bits of an object lie in one word of the bitmap.
        let mut unit = index(pieces.range.start) / BITS * BITS;
        let end = index(pieces.range.end.saturating_sub(1)).saturating_add(1).min(last);
        let wanted = index(pieces.range.start);
        let mut free = wanted..wanted;
        while unit < end {
            let bits = match self.word(self.bitmap_word_at(block, unit / BITS)) {
                Ok(bits) => bits,
                Err(error) => return pieces.found.push(Err(error)),
            };
            if bits & 1 << (unit % BITS) == 0 {
                unit += 1;
                free.end = unit.max(free.start);
                continue;
            }
            add_free(block, run, blocks, &free, pieces);
            let taken = match self.run_object(block, run, unit) {
                Ok(object) => {
                    let taken = object.place.units.map_or(1, |(_, taken)| taken);
                    let at = blocks.plus(unit * run.block_size);
                    pieces.add(at, taken * run.block_size, PieceKind::Object(object));
                    taken
                }
                Err(error) => {
                    if pieces.overlap(blocks.plus(unit * run.block_size), run.block_size) {
                        pieces.found.push(Err(error));
                    }
                    1
                }
            };
            unit += taken.max(1);
            free = unit.max(wanted)..unit.max(wanted);
        }
        add_free(block, run, blocks, &free, pieces);
        let tail = run.blocks_off + last * run.block_size;
        pieces.add(at.plus(tail), len.saturating_sub(tail), PieceKind::Unused);
    }
}

fn add_free(block: &Block, run: &PmdkRun, blocks: PoolOffset, free: &Range<u64>, pieces: &mut Pieces<'_>) {
    let count = free.end - free.start;
    let at = blocks.plus(free.start * run.block_size);
    pieces.add(at, count * run.block_size, PieceKind::FreeUnits(*block, free.start, count));
}
